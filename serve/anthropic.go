package serve

import (
	"restyle/chat"
	"restyle/infer"
)

// messagesAPI is POST /v1/messages, Anthropic's.
type messagesAPI struct {
	id   string
	part opened
}

// messagesQuestion reads a request to answer, or to count the tokens of, if count is true.
func (s *Server) messagesQuestion(b *body, key string, count bool) *question {
	q := s.question(b, key, "stop_sequences", "max_tokens")
	q.prompts = make([][]int32, 1)
	if !count && !b.has("max_tokens") {
		b.fail(refuse("max_tokens", "it is missing"))
	}
	var messages []chat.Message
	if raw := b.fields["system"]; b.has("system") {
		b.known["system"] = true
		text, err := content("system", 0, raw)
		if err != nil {
			b.fail(err)
		}
		messages = []chat.Message{{Role: "system", Content: text}}
	}
	b.blocks("messages")
	messages = append(messages, b.history(b.conversation("messages"))...)
	o := chat.Options{}
	s.constrain(b, q, &o)
	// If the last message is the assistant's, it is the start of the answer.
	b.ask(q, messages, o, len(messages) > 0 && messages[len(messages)-1].Role == "assistant")
	return q
}

func (a *messagesAPI) message(q *question, content []object, reason, stop any, u object) object {
	return object{"id": a.id, "type": "message", "role": "assistant", "model": q.model.Name, "content": content,
		"stop_reason": reason, "stop_sequence": stop, "usage": u}
}

// reason returns why the answer ended, in this API's words, and the stop string that did, or nil.
func (a *messagesAPI) reason(q *question, c *choice) (reason string, stop any) {
	if c.result.Reason != infer.Stopped {
		return "max_tokens", nil
	}
	if found := q.stopString(c.result.IDs); found != "" {
		return "stop_sequence", found
	}
	if len(c.calls) > 0 {
		return "tool_use", nil
	}
	return "end_turn", nil
}

func (u usage) anthropic() object {
	return object{"input_tokens": u.prompt - u.reused, "cache_creation_input_tokens": 0,
		"cache_read_input_tokens": u.reused, "output_tokens": u.answer}
}

func (a *messagesAPI) whole(q *question, choices []*choice) any {
	c := choices[0]
	content := []object{}
	if c.text != "" || len(c.calls) == 0 {
		content = append(content, object{"type": "text", "text": c.text})
	}
	for _, call := range c.calls {
		content = append(content, object{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input()})
	}
	reason, stop := a.reason(q, c)
	return a.message(q, content, reason, stop, q.count(choices).anthropic())
}

func (a *messagesAPI) open(s *stream, q *question) {
	u := usage{prompt: len(q.prompts[0])}
	s.event("message_start", object{"type": "message_start",
		"message": a.message(q, []object{}, nil, nil, u.anthropic())})
	if !q.calling() {
		a.text(s)
	}
	a.alive(s, q)
}

// text starts a part of text.
func (a *messagesAPI) text(s *stream) {
	a.end(s)
	a.part.text = true
	a.begin(s, object{"type": "text", "text": ""})
}

func (a *messagesAPI) begin(s *stream, block object) {
	s.event("content_block_start", object{"type": "content_block_start", "index": a.part.index, "content_block": block})
}

// end ends the part that is open, if any.
func (a *messagesAPI) end(s *stream) {
	if was := a.part.shut(); was.text || was.call {
		s.event("content_block_stop", object{"type": "content_block_stop", "index": was.index})
	}
}

func (a *messagesAPI) delta(s *stream, delta object) {
	s.event("content_block_delta", object{"type": "content_block_delta", "index": a.part.index, "delta": delta})
}

func (a *messagesAPI) piece(s *stream, _ *question, p piece) {
	if p.text != "" {
		if !a.part.text {
			a.text(s)
		}
		a.delta(s, object{"type": "text_delta", "text": p.text})
	}
	for _, c := range p.calls {
		if c.id != "" {
			a.end(s)
			a.part.call = true
			a.begin(s, object{"type": "tool_use", "id": c.id, "name": c.name, "input": object{}})
		}
		if c.arguments != "" {
			a.delta(s, object{"type": "input_json_delta", "partial_json": c.arguments})
		}
	}
}

func (a *messagesAPI) alive(s *stream, _ *question) { s.event("ping", object{"type": "ping"}) }

func (a *messagesAPI) close(s *stream, q *question, choices []*choice) {
	reason, stop := a.reason(q, choices[0])
	if a.part == (opened{}) { // no part has been
		a.text(s)
	}
	a.end(s)
	s.event("message_delta", object{"type": "message_delta",
		"delta": object{"stop_reason": reason, "stop_sequence": stop}, "usage": q.count(choices).anthropic()})
	s.event("message_stop", object{"type": "message_stop"})
}

func (a *messagesAPI) fail(s *stream, e *Error) { s.event("error", e.anthropic()) }
