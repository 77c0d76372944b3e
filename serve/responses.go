package serve

import (
	"encoding/json"

	"restyle/chat"
	"restyle/infer"
)

// responsesAPI is POST /v1/responses. It keeps nothing: every request sends the whole conversation.
type responsesAPI struct {
	id, item string
	created  int64
	ask      object // what the request asked for, as the answer repeats it
	next     int    // number of the next event
	part     opened
	call     call     // that is open
	output   []object // items that are over
}

func (s *Server) responsesQuestion(b *body, key string) (*question, *responsesAPI) {
	q := s.question(b, key, "stop", "max_output_tokens")
	q.prompts = make([][]int32, 1)
	var instructions any
	var messages []chat.Message
	var system string
	if b.read("instructions", &system) {
		instructions = system
		messages = []chat.Message{{Role: "system", Content: system}}
	}
	var question string
	if raw := b.fields["input"]; len(raw) > 0 && raw[0] == '"' {
		b.read("input", &question)
		messages = append(messages, chat.Message{Role: "user", Content: question})
	} else {
		b.flat("input")
		b.items()
		messages = append(messages, b.history(b.conversation("input"))...)
	}
	b.reasoning()
	o := chat.Options{Variables: b.variables()}
	s.constrain(b, q, &o)
	var metadata object
	b.read("metadata", &metadata)
	if metadata == nil {
		metadata = object{}
	}
	var most any
	if q.options.MaxTokens > 0 {
		most = q.options.MaxTokens
	}
	a := &responsesAPI{ask: object{"instructions": instructions, "max_output_tokens": most, "metadata": metadata,
		"temperature": q.options.Temperature, "top_p": nucleus(q.options.TopP)}}
	for _, name := range []string{"text", "tools", "tool_choice"} {
		if b.has(name) {
			a.ask[name] = b.fields[name]
		}
	}
	b.ask(q, messages, o, false)
	return q, a
}

// nucleus returns a nucleus as the API has it: 1 for all.
func nucleus(p float64) float64 {
	switch p {
	case 0:
		return 1
	case mostProbable:
		return 0
	}
	return p
}

// items refuses what is no message in the input.
func (b *body) items() {
	var all []struct{ Type string }
	if json.Unmarshal(b.fields["input"], &all) != nil {
		return // conversation says what is wrong
	}
	for i, item := range all {
		if item.Type != "" && item.Type != "message" {
			b.fail(refuse("input", "item %d: this server does not support items of type %.40q, only messages", i+1, item.Type))
		}
	}
}

// reasoning lets a request ask for no particular reasoning, as programs do of any model.
func (b *body) reasoning() {
	var r map[string]any
	if !b.read("reasoning", &r) {
		return
	}
	for name, value := range r {
		if value != nil && !(name == "summary" || name == "effort" && value == "none") {
			b.fail(refuse("reasoning", "this server does not support %s: leave it out", name))
		}
	}
}

// message returns an item of text, which has parts if it is over.
func (a *responsesAPI) message(status string, content ...object) object {
	if content == nil {
		content = []object{}
	}
	return object{"type": "message", "id": a.item, "status": status, "role": "assistant", "content": content}
}

func textPart(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// response returns the response with its output so far. An error of null would make some programs take it for a failed
// one.
func (a *responsesAPI) response(q *question, status string, output []object) object {
	r := object{"id": a.id, "object": "response", "created_at": a.created, "status": status, "model": q.model.Name,
		"output": output, "background": false, "incomplete_details": nil, "parallel_tool_calls": !q.oneCall,
		"previous_response_id": nil, "reasoning": object{"effort": nil, "summary": nil}, "store": false,
		"text": object{"format": object{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "truncation": "disabled",
		"usage": nil, "user": nil}
	for name, value := range a.ask {
		r[name] = value
	}
	return r
}

// ended returns the status of a response that is over.
func ended(choices []*choice) string {
	if choices[0].result.Reason == infer.Stopped {
		return "completed"
	}
	return "incomplete"
}

func (a *responsesAPI) whole(q *question, choices []*choice) any {
	c, status := choices[0], ended(choices)
	output := a.output
	if !q.streamed {
		if c.text != "" || len(c.calls) == 0 {
			output = append(output, a.message(status, textPart(c.text)))
		}
		for _, call := range c.calls {
			output = append(output, call.item("completed"))
		}
	}
	r := a.response(q, status, output)
	if status == "incomplete" {
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	u := q.count(choices)
	r["usage"] = object{"input_tokens": u.prompt, "input_tokens_details": object{"cached_tokens": u.reused},
		"output_tokens": u.answer, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": u.prompt + u.answer}
	return r
}

// event writes an event with its number.
func (a *responsesAPI) event(s *stream, name string, o object) {
	o["type"], o["sequence_number"] = name, a.next
	a.next++
	s.event(name, o)
}

// item returns a call as an item of the output.
func (c call) item(status string) object {
	return object{"type": "function_call", "id": "fc_" + c.id, "call_id": c.id, "name": c.name, "arguments": c.arguments,
		"status": status}
}

// inText writes an event of the text of an answer.
func (a *responsesAPI) inText(s *stream, name string, index int, o object) {
	o["item_id"], o["output_index"], o["content_index"] = a.item, index, 0
	a.event(s, name, o)
}

// inCall writes an event of the arguments of a call.
func (a *responsesAPI) inCall(s *stream, name string, index int, o object) {
	o["item_id"], o["output_index"] = "fc_"+a.call.id, index
	a.event(s, name, o)
}

func (a *responsesAPI) open(s *stream, q *question) {
	a.event(s, "response.created", object{"response": a.response(q, "in_progress", []object{})})
	a.alive(s, q)
	if !q.calling() {
		a.text(s)
	}
}

// text starts an item of text.
func (a *responsesAPI) text(s *stream) {
	a.end(s, "completed")
	a.part.text = true
	a.event(s, "response.output_item.added", object{"output_index": a.part.index, "item": a.message("in_progress")})
	a.inText(s, "response.content_part.added", a.part.index, object{"part": textPart("")})
}

// end ends the item that is open, if any.
func (a *responsesAPI) end(s *stream, status string) {
	was := a.part.shut()
	var item object
	switch {
	case was.text:
		a.inText(s, "response.output_text.done", was.index, object{"text": was.said, "logprobs": []any{}})
		a.inText(s, "response.content_part.done", was.index, object{"part": textPart(was.said)})
		item = a.message(status, textPart(was.said))
	case was.call:
		a.inCall(s, "response.function_call_arguments.done", was.index, object{"arguments": was.said})
		a.call.arguments = was.said
		item = a.call.item(status)
	default:
		return
	}
	a.event(s, "response.output_item.done", object{"output_index": was.index, "item": item})
	a.output = append(a.output, item)
}

func (a *responsesAPI) piece(s *stream, _ *question, p piece) {
	if p.text != "" {
		if !a.part.text {
			a.text(s)
		}
		a.part.said += p.text
		a.inText(s, "response.output_text.delta", a.part.index, object{"delta": p.text, "logprobs": []any{}})
	}
	for _, c := range p.calls {
		if c.id != "" {
			a.end(s, "completed")
			a.part.call, a.call = true, c
			a.event(s, "response.output_item.added", object{"output_index": a.part.index, "item": c.item("in_progress")})
		}
		if c.arguments != "" {
			a.part.said += c.arguments
			a.inCall(s, "response.function_call_arguments.delta", a.part.index, object{"delta": c.arguments})
		}
	}
}

func (a *responsesAPI) alive(s *stream, q *question) {
	a.event(s, "response.in_progress", object{"response": a.response(q, "in_progress", []object{})})
}

func (a *responsesAPI) close(s *stream, q *question, choices []*choice) {
	if a.part == (opened{}) { // no item has been
		a.text(s)
	}
	status := ended(choices)
	a.end(s, status)
	a.event(s, "response."+status, object{"response": a.whole(q, choices)})
}

func (a *responsesAPI) fail(s *stream, e *Error) {
	a.event(s, "error", object{"message": e.Message, "code": e.Type, "param": nil})
}
