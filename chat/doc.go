// Package chat renders conversations as the text that a model was trained on, and tells where each byte of that text
// came from.
//
// Models come with a chat template, a Jinja program in tokenizer_config.json or chat_template.jinja. Package jinja
// runs it. A few are in wide use; this package has a program for each that renders the same bytes as the published
// ones, and marks the answers. [Detect] finds a model's [Template] by the text of its program, and [ByName] by a
// name.
//
// Besides the text, [Template.Render] returns where it came from:
//
//   - [Rendered.Markup], the text that the template itself wrote. A tokenizer may recognize special tokens only there:
//     if a user types "<|eot_id|>", it is ten characters of text.
//   - [Rendered.Targets], what an assistant has to generate: its answers, each with its end-of-turn token. Only these
//     may count in a training loss. They are what the program marks with {% generation %}. Without that, an answer is
//     what is rendered with it after the prompt that asks for it. Where that is ambiguous, [Rendered.NoTargets] says
//     why. If only later messages are the reason, the same conversation up to the answer, with [Options.From], gives
//     it.
//   - [Rendered.Contents], the content of each message.
//   - [Rendered.BOS], whether the template wrote the BOS token, so that the caller does not add a second one.
//
// # Models without a template
//
// A base model has no chat template: Detect returns [Raw] for the empty text. Raw writes only the contents, so a single
// question is the prompt as it is, and the model continues it.
//
// # The date
//
// Llama 3.1 and 3.2 write a date into every system turn, and the template of 3.2 asks the clock for it. A model trained
// in May and asked in June would see another prompt than in training. So the date is [FixedDate], the one that both
// templates fall back to, unless Options say otherwise: DateString for any text, Now for the clock.
//
// # Tools and thoughts
//
// A conversation with tools, calls, thoughts apart from contents, or other variables is rendered by the model's own
// program, even if it has a name here. Tools, calls and thoughts that the program does not write are a
// [RefusedError]. [Rendered.Read] lists which of the other keys and variables it asked for. Contents that are lists
// of parts are not supported.
//
// The package imports only the standard library and package jinja, which itself imports only the standard library.
package chat
