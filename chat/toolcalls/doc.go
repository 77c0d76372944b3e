// Package toolcalls provides what a server of OpenAI's API needs for tools: it reads the fields tools and tool_choice
// of a request ([Read]), finds out how a chat template writes calls ([FormOf]), and turns the text that a model
// generates into calls as it arrives ([Parser]).
//
// A request goes this way:
//
//	set, err := toolcalls.Read(tools, toolChoice)        // JSON, nil where the request has no such field
//	form, err := toolcalls.FormOf(template)              // only if set.Tools is not empty; the error is for the user
//	messages, err = toolcalls.History(messages)          // calls of earlier turns, and their results
//	options.Tools = set.Text()                           // for Template.Render
//	if schema := set.Schema(form); schema != nil {       // the answer has to call
//		grammar, err := jsonform.Compile(schema, vocabulary, vocabulary.Around(form.Around()))
//		request.Constraint = grammar.New()
//	}
//	parser := set.Parser(form)                           // for each choice
//	for each text of the answer: parser.Add(text), then parser.End() — events become deltas or the message
//	finish_reason is tool_calls if the model stopped and parser.Calls() > 0
//
// # Forms
//
// Models are trained on different forms, and most templates write nothing but the calls of the conversation, so FormOf
// renders a call and looks at it. There are three, which cover most open models of 2024 to 2026:
//
//   - between tags, as Hermes and Qwen: <tool_call>{"name": …, "arguments": {…}}</tool_call>, any number
//   - a list, as Mistral before tekken v11: [TOOL_CALLS] [{"name": …, "arguments": {…}}, …]
//   - a bare object, as Llama 3.1 to 3.3: {"name": …, "parameters": {…}}, perhaps after <|python_tag|>
//
// A template that writes none of these is an error that names it. Tags that are special tokens are not in the text of
// an answer, so a list or a bare object is recognized without its tag.
package toolcalls
