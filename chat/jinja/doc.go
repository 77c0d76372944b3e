// Package jinja runs chat templates: Jinja2 programs as transformers runs them, with trim_blocks, lstrip_blocks,
// loop controls, {% generation %}, raise_exception, strftime_now and its own tojson.
//
// It differs from Jinja2 in these additions and omissions:
//
//   - It follows every byte of the input into the output. [Output.Given] tells what came from the variables, so that a
//     tokenizer never takes what a user typed for a special token.
//   - It ends: the steps, the bytes of all values that are made, the size of one string or integer and the depth of
//     nesting and of calls are bounded, each with an error that says which. Everything that is read or written takes
//     steps.
//   - It has no files to include or import, no blocks to extend, and no access to anything but values.
//   - It has nothing whose output differs from call to call: random and lipsum are errors if they are reached.
//   - It lacks what only web pages and programs need: pprint, urlize, and of Python's string methods expandtabs,
//     translate, maketrans, isidentifier, isprintable and encode.
//
// [Compile] reads a template once, and [Template.Render] runs it. Errors name the line of the template.
//
// The package imports only the standard library.
package jinja
