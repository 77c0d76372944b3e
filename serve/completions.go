package serve

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"restyle/infer/batch"
)

// completionsAPI is POST /v1/completions: texts to continue, without a chat template.
type completionsAPI struct {
	id      string
	created int64
	before  []string // the prompts, with echo
	offsets []int    // of each choice: characters of text that its log probabilities have reached
	begun   []bool   // choices that have echoed their prompt
}

// defaultTokens is how long a completion is if the request does not say, as in OpenAI's API.
const defaultTokens = 16

func (s *Server) completionsQuestion(b *body, key string) (*question, *completionsAPI) {
	q := s.question(b, key, "stop", "max_tokens", "max_completion_tokens")
	a := &completionsAPI{}
	if q.options.MaxTokens == 0 {
		q.options.MaxTokens = defaultTokens
	}
	if b.err == nil {
		q.prompts = b.prompts(q.model)
	}
	s.choicesField(b, q)
	b.streamOptions(q)
	// The number of alternatives; llama.cpp's programs send true or false.
	if raw := string(b.fields["logprobs"]); raw == "true" || raw == "false" {
		b.read("logprobs", &q.logprobs)
	} else {
		q.logprobs = number(b, "logprobs", &q.top, 0, maxTop)
	}
	echo := false
	if b.read("echo", &echo); echo && q.logprobs {
		b.fail(refuse("echo", "this server has no log probabilities of prompts: leave echo or logprobs out"))
	}
	for _, prompt := range q.prompts {
		if echo {
			a.before = append(a.before, q.model.Codec.Tokenizer.Decode(prompt, true))
		}
	}
	s.constrain(b, q, nil)
	b.rest()
	if b.err == nil { // or their number may be anything
		a.offsets, a.begun = make([]int, q.choices()), make([]bool, q.choices())
	}
	return q, a
}

// prompts reads the field prompt: a text, tokens, or a list of either.
func (b *body) prompts(m *Model) (all [][]int32) {
	var raw json.RawMessage
	if !b.read("prompt", &raw) {
		b.fail(refuse("prompt", "it is missing"))
		return nil
	}
	var list []json.RawMessage
	var ids []int32
	switch {
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0 || raw[0] == '"':
		list = []json.RawMessage{raw}
	case json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > maxChoices:
		b.fail(refuse("prompt", "must be a text, a list of tokens, or a list of from 1 to %d of these", maxChoices))
		return nil
	}
	for _, raw := range list {
		var text string
		var ids []int32
		var err *Error
		switch {
		case raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
			ids, err = m.plain(text, true)
		case json.Unmarshal(raw, &ids) != nil:
			err = refuse("prompt", "must be a text or a list of tokens, not %s", brief(raw))
		}
		if err == nil {
			ids, err = m.fit(ids)
		}
		if err != nil {
			b.fail(err)
			return nil
		}
		all = append(all, ids)
	}
	return all
}

// echo returns the prompt before the first text of a choice, if it is wanted.
func (a *completionsAPI) echo(q *question, i int) string {
	if a.before == nil || a.begun[i] {
		return ""
	}
	a.begun[i] = true
	return a.before[i/q.n]
}

func (a *completionsAPI) whole(q *question, choices []*choice) any {
	all := make([]object, len(choices))
	for i, c := range choices {
		all[i] = object{"index": i, "text": a.echo(q, i) + c.text, "finish_reason": c.reason(),
			"logprobs": a.logprobs(q, i, c.tokens)}
	}
	body := a.body(q, all)
	body["usage"] = q.count(choices).openAI()
	return body
}

func (a *completionsAPI) body(q *question, choices []object) object {
	return object{"id": a.id, "object": "text_completion", "created": a.created, "model": q.model.Name, "choices": choices}
}

func (a *completionsAPI) delta(s *stream, q *question, i int, text string, logprobs, reason any) {
	body := a.body(q, []object{{"index": i, "text": text, "logprobs": logprobs, "finish_reason": reason}})
	if q.usage {
		body["usage"] = nil
	}
	s.data(body)
}

func (a *completionsAPI) open(s *stream, q *question) {
	for i := range q.choices() {
		if text := a.echo(q, i); text != "" {
			a.delta(s, q, i, text, nil, nil)
		}
	}
}

func (a *completionsAPI) piece(s *stream, q *question, p piece) {
	if p.text != "" || len(p.tokens) > 0 {
		a.delta(s, q, p.choice, p.text, a.logprobs(q, p.choice, p.tokens), nil)
	}
	if p.end != nil {
		a.delta(s, q, p.choice, "", nil, (&choice{result: *p.end}).reason())
	}
}

func (a *completionsAPI) alive(s *stream, q *question) { a.delta(s, q, 0, "", nil, nil) }

func (a *completionsAPI) close(s *stream, q *question, choices []*choice) {
	if q.usage {
		body := a.body(q, []object{})
		body["usage"] = q.count(choices).openAI()
		s.data(body)
	}
	s.write("data: [DONE]\n\n")
}

func (a *completionsAPI) fail(s *stream, e *Error) { s.data(e.openAI()) }

// logprobs returns log probabilities as this API has them, or nil if they are not wanted.
func (a *completionsAPI) logprobs(q *question, i int, tokens []batch.Token) any {
	if !q.logprobs {
		return nil
	}
	text := func(id int32) string {
		return strings.ToValidUTF8(string(q.model.Codec.Tokenizer.Bytes(id)), string(utf8.RuneError))
	}
	texts, logs, offsets := make([]string, len(tokens)), make([]float64, len(tokens)), make([]int, len(tokens))
	tops := make([]map[string]float64, len(tokens))
	for j, t := range tokens {
		texts[j], logs[j], offsets[j] = text(t.ID), t.Logprob, a.offsets[i]
		a.offsets[i] += utf8.RuneCountInString(texts[j])
		tops[j] = map[string]float64{texts[j]: t.Logprob}
		for _, other := range t.Top {
			if s := text(other.ID); tops[j][s] == 0 { // the more probable one of two with the same text
				tops[j][s] = other.Logprob
			}
		}
	}
	return object{"tokens": texts, "token_logprobs": logs, "top_logprobs": tops, "text_offset": offsets}
}
