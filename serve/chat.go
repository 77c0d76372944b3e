package serve

import (
	"strings"
	"unicode/utf8"

	"restyle/chat"
	"restyle/infer/batch"
)

// chatAPI is POST /v1/chat/completions.
type chatAPI struct {
	id      string
	created int64
}

// chatQuestion reads a request of the chat API.
func (s *Server) chatQuestion(b *body, key string) *question {
	q := s.question(b, key, "stop", "max_completion_tokens", "max_tokens")
	q.prompts = make([][]int32, 1)
	s.choicesField(b, q)
	b.streamOptions(q)
	b.read("logprobs", &q.logprobs)
	if number(b, "top_logprobs", &q.top, 0, maxTop) && q.top > 0 && !q.logprobs {
		b.fail(refuse("top_logprobs", "only with logprobs"))
	}
	o := chat.Options{Variables: b.variables()}
	s.constrain(b, q, &o)
	b.finish(q, "messages", o)
	return q
}

// finish reads the messages, which become the prompt, and refuses what nothing has read.
func (b *body) finish(q *question, name string, o chat.Options) {
	messages := b.history(b.conversation(name))
	continued, header := false, true
	b.read("continue_final_message", &continued)
	if b.read("add_generation_prompt", &header); continued && header && b.has("add_generation_prompt") {
		b.fail(refuse("continue_final_message", "not with add_generation_prompt"))
	}
	if !header && !continued {
		b.fail(refuse("add_generation_prompt", "an answer begins with it, unless continue_final_message is true"))
	}
	b.ask(q, messages, o, continued)
}

// ask makes a conversation the prompt, if nothing is wrong with the request.
func (b *body) ask(q *question, messages []chat.Message, o chat.Options, continued bool) {
	if b.rest(); b.err != nil {
		return
	}
	prompt, err := q.model.prompt(messages, o, continued)
	if err != nil {
		b.fail(err)
	}
	q.prompts = [][]int32{prompt}
}

func (a chatAPI) whole(q *question, choices []*choice) any {
	all := make([]object, len(choices))
	for i, c := range choices {
		message := object{"role": "assistant", "content": c.text, "refusal": nil}
		if len(c.calls) > 0 {
			calls := make([]object, len(c.calls))
			for j, call := range c.calls {
				calls[j] = call.openAI()
			}
			message["tool_calls"] = calls
		}
		if len(c.calls) > 0 && c.text == "" {
			message["content"] = nil
		}
		all[i] = object{"index": i, "finish_reason": c.reason(), "logprobs": q.chatLogprobs(c.tokens), "message": message}
	}
	return object{"id": a.id, "object": "chat.completion", "created": a.created, "model": q.model.Name, "choices": all,
		"usage": q.count(choices).openAI()}
}

// chunk writes a chunk of a stream. usage is null in all but the last one, if it is wanted.
func (a chatAPI) chunk(s *stream, q *question, choices []object, usage any) {
	c := object{"id": a.id, "object": "chat.completion.chunk", "created": a.created, "model": q.model.Name,
		"choices": choices}
	if q.usage {
		c["usage"] = usage
	}
	s.data(c)
}

func (a chatAPI) delta(s *stream, q *question, i int, delta object, logprobs, reason any) {
	a.chunk(s, q, []object{{"index": i, "delta": delta, "logprobs": logprobs, "finish_reason": reason}}, nil)
}

func (a chatAPI) open(s *stream, q *question) {
	for i := range q.choices() { // openai-node's helper needs the role
		a.delta(s, q, i, object{"role": "assistant", "content": ""}, nil, nil)
	}
}

func (a chatAPI) piece(s *stream, q *question, p piece) {
	if p.text != "" || len(p.tokens) > 0 {
		a.delta(s, q, p.choice, object{"content": p.text}, q.chatLogprobs(p.tokens), nil)
	}
	for _, c := range p.calls {
		part := object{"index": c.index, "function": object{"arguments": c.arguments}}
		if c.id != "" {
			part = c.openAI()
			part["index"] = c.index
		}
		a.delta(s, q, p.choice, object{"tool_calls": []object{part}}, nil, nil)
	}
	if p.end != nil {
		c := choice{result: *p.end}
		if p.called {
			c.calls = []call{{}}
		}
		a.delta(s, q, p.choice, object{}, nil, c.reason())
	}
}

// openAI returns a call as messages have it.
func (c call) openAI() object {
	return object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.arguments}}
}

func (a chatAPI) alive(s *stream, q *question) { a.delta(s, q, 0, object{}, nil, nil) }

func (a chatAPI) close(s *stream, q *question, choices []*choice) {
	if q.usage {
		a.chunk(s, q, []object{}, q.count(choices).openAI())
	}
	s.write("data: [DONE]\n\n")
}

func (a chatAPI) fail(s *stream, e *Error) { s.data(e.openAI()) }

func (u usage) openAI() object {
	return object{"prompt_tokens": u.prompt, "completion_tokens": u.answer, "total_tokens": u.prompt + u.answer,
		"prompt_tokens_details": object{"cached_tokens": u.reused}}
}

// chatLogprobs returns log probabilities as the chat API has them, or nil if they are not wanted.
func (q *question) chatLogprobs(tokens []batch.Token) any {
	if !q.logprobs {
		return nil
	}
	of := func(id int32, logprob float64) object {
		text := q.model.Codec.Tokenizer.Bytes(id)
		numbers := make([]int, len(text)) // []byte would become base64
		for i, b := range text {
			numbers[i] = int(b)
		}
		return object{"token": strings.ToValidUTF8(string(text), string(utf8.RuneError)), "bytes": numbers,
			"logprob": logprob}
	}
	content := make([]object, len(tokens))
	for i, t := range tokens {
		top := make([]object, len(t.Top))
		for j, other := range t.Top {
			top[j] = of(other.ID, other.Logprob)
		}
		content[i] = of(t.ID, t.Logprob)
		content[i]["top_logprobs"] = top
	}
	return object{"content": content, "refusal": nil}
}
