// Package chat turns a conversation into the text that a model was trained on, and says which bytes of that text are
// whose.
//
// Models come with a chat template, a Jinja program in tokenizer_config.json or chat_template.jinja. The families that
// people use are few, so each is written here as a Go function that gives the same bytes as Jinja2 does in
// transformers, errors included. [Detect] finds the [Template] of a model by the text of its template, [ByName] by a
// name; an unknown template is an error and never a guess.
//
// [Template.Render] gives, beside the text, what a program that runs Jinja cannot know:
//
//   - [Rendered.Markup], what the template itself wrote. Only there may a tokenizer recognise special tokens; the rest
//     was typed by somebody, and "<|eot_id|>" typed by somebody is ten characters.
//   - [Rendered.Targets], what an assistant has to produce by itself: its answers, each with the token that ends it. This
//     is what a training loss may see.
//   - [Rendered.Contents], where the content of each message stands.
//   - [Rendered.BOS], whether the template wrote the token that begins a sequence, so that nobody adds a second one.
//
// # A model without a template
//
// A base model has no chat template: Detect gives [Raw] for the empty text. Raw writes the contents alone, so a single
// question is the prompt as it is and the model continues it.
//
// # The date
//
// Llama 3.1 and 3.2 write a date into every system turn, and the template of 3.2 asks the clock for it. A model trained
// in May and asked in June would read another prompt than it learned. So the date is [FixedDate], the one that
// both templates fall back to, until Options say otherwise: DateString for any text, Now for the clock.
//
// # Not covered
//
// Tools: a message with tool calls is refused when it is read from JSON. Contents that are lists of parts likewise.
//
// The package imports nothing but the standard library.
package chat
