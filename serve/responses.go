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
		b.items()
		messages = append(messages, b.conversation("input")...)
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
		"temperature": q.options.Temperature, "top_p": orOne(q.options.TopP)}}
	b.ask(q, messages, o, false)
	return q, a
}

// orOne returns a nucleus as the API has it: 1 for all.
func orOne(p float64) float64 {
	if p == 0 {
		return 1
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

func (a *responsesAPI) message(c *choice, status string) object {
	content := []object{}
	if c != nil {
		content = append(content, textPart(c.text))
	}
	return object{"type": "message", "id": a.item, "status": status, "role": "assistant", "content": content}
}

func textPart(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// response is the response with its output so far. An error of null would make some programs take it for a failed one.
func (a *responsesAPI) response(q *question, status string, output []object) object {
	r := object{"id": a.id, "object": "response", "created_at": a.created, "status": status, "model": q.model.Name,
		"output": output, "background": false, "incomplete_details": nil, "parallel_tool_calls": true,
		"previous_response_id": nil, "reasoning": object{"effort": nil, "summary": nil}, "store": false,
		"text": object{"format": object{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "truncation": "disabled",
		"usage": nil, "user": nil}
	for name, value := range a.ask {
		r[name] = value
	}
	return r
}

func (a *responsesAPI) whole(q *question, choices []*choice) any {
	c := choices[0]
	status := "completed"
	if c.result.Reason != infer.Stopped {
		status = "incomplete"
	}
	r := a.response(q, status, []object{a.message(c, status)})
	if status == "incomplete" {
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	u := q.count(choices)
	r["usage"] = object{"input_tokens": u.prompt, "input_tokens_details": object{"cached_tokens": u.reused},
		"output_tokens": u.answer, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": u.prompt + u.answer}
	return r
}

// event writes an event with its number.
func (a *responsesAPI) event(s *stream, name string, o object) {
	o["type"], o["sequence_number"] = name, a.next
	a.next++
	s.event(name, o)
}

// part writes an event of the text of the answer.
func (a *responsesAPI) part(s *stream, name string, o object) {
	o["item_id"], o["output_index"], o["content_index"] = a.item, 0, 0
	a.event(s, name, o)
}

func (a *responsesAPI) open(s *stream, q *question) {
	a.event(s, "response.created", object{"response": a.response(q, "in_progress", []object{})})
	a.alive(s, q)
	a.event(s, "response.output_item.added", object{"output_index": 0, "item": a.message(nil, "in_progress")})
	a.part(s, "response.content_part.added", object{"part": textPart("")})
}

func (a *responsesAPI) piece(s *stream, _ *question, p piece) {
	if p.text != "" {
		a.part(s, "response.output_text.delta", object{"delta": p.text, "logprobs": []any{}})
	}
}

func (a *responsesAPI) alive(s *stream, q *question) {
	a.event(s, "response.in_progress", object{"response": a.response(q, "in_progress", []object{})})
}

func (a *responsesAPI) close(s *stream, q *question, choices []*choice) {
	whole := a.whole(q, choices).(object)
	a.part(s, "response.output_text.done", object{"text": choices[0].text, "logprobs": []any{}})
	a.part(s, "response.content_part.done", object{"part": textPart(choices[0].text)})
	a.event(s, "response.output_item.done", object{"output_index": 0, "item": whole["output"].([]object)[0]})
	a.event(s, "response."+whole["status"].(string), object{"response": whole})
}

func (a *responsesAPI) fail(s *stream, e *Error) {
	a.event(s, "error", object{"message": e.Message, "code": e.Type, "param": nil})
}
