package serve

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"

	"restyle/chat/toolcalls"
	"restyle/infer"
	"restyle/infer/batch"
	"restyle/tokenizer"
)

// A piece is what happened to one of the answers of a question: text that it grew by, or its end.
type piece struct {
	choice int
	text   string
	calls  []call        // parts of calls of tools, in order, after the text
	tokens []batch.Token // with their log probabilities, if asked for, as far as their text is out
	called bool          // the answer has called a tool by its end
	end    *infer.Result // the last piece has it
	err    error
}

// A call is a call of a tool, or a part of one that has begun: only that has an id and a name.
type call struct {
	index               int // among the calls of an answer
	id, name, arguments string
}

// A choice is one of the answers of a question.
type choice struct {
	text   string
	calls  []call
	tokens []batch.Token
	result infer.Result
}

// reason returns why an answer ended, in OpenAI's words.
func (c *choice) reason() string {
	switch {
	case c.result.Reason == infer.Stopped && len(c.calls) > 0:
		return "tool_calls"
	case c.result.Reason == infer.Stopped:
		return "stop"
	}
	return "length"
}

// start starts all answers of a question. The channel gets what happens to them, and is closed after the last one. It
// ends early if ctx is done, and all their memory is given back by the time at which it is closed.
func (q *question) start(ctx context.Context, watch *watch) (<-chan piece, *Error) {
	answers := make([]Answer, q.choices())
	for i := range answers {
		o := q.options
		o.Seed += uint64(i % q.n)
		if q.grammar != nil {
			o.Constraint = q.grammar.New()
		}
		prompt := q.prompts[i/q.n]
		if room := q.model.Context - len(prompt); o.MaxTokens == 0 || o.MaxTokens > room {
			o.MaxTokens = room
		}
		a, err := q.model.Start(batch.Request{Prompt: prompt, Options: o, Logprobs: q.logprobs, Top: q.top, Key: q.key})
		if err != nil {
			for _, earlier := range answers[:i] {
				earlier.Close()
			}
			return nil, started(err)
		}
		answers[i] = a
	}
	pieces := make(chan piece)
	var all sync.WaitGroup
	for i, a := range answers {
		all.Go(func() {
			defer a.Close()
			defer func() { // or it would end the program: only the handler's own goroutine is guarded
				if fault := recover(); fault != nil {
					select {
					case pieces <- piece{choice: i, err: fmt.Errorf("a fault of this program's: %v", fault)}:
					case <-ctx.Done():
					}
				}
			}()
			q.follow(ctx, i, a, watch, pieces)
		})
	}
	go func() {
		all.Wait()
		close(pieces)
	}()
	return pieces, nil
}

// follow sends what happens to one answer.
func (q *question) follow(ctx context.Context, i int, a Answer, watch *watch, pieces chan<- piece) {
	send := func(p piece) bool {
		select {
		case pieces <- p:
			return true
		case <-ctx.Done():
			return false
		}
	}
	parser := q.tools.Parser(q.form)
	out := released{tokenizer: q.model.Codec.Tokenizer}
	last := watch.start
	calls, done := 0, false
	for n := 0; !done && a.Next(ctx); {
		t := a.Token()
		p := piece{choice: i, text: t.Text}
		if t.ID >= 0 { // not only text that was held back
			n++
			last = watch.token(n, last)
			out.held = append(out.held, t)
		}
		if p.tokens = out.release(len(t.Text)); !q.logprobs {
			p.tokens = nil
		}
		events := parser.Add(t.Text)
		if q.oneCall {
			events, done = first(events, calls)
		}
		p.parse(events, &calls)
		if (p.text != "" || len(p.tokens)+len(p.calls) > 0) && !send(p) {
			return
		}
	}
	p := piece{choice: i, err: a.Err()}
	if !done {
		p.parse(parser.End(), &calls)
	}
	p.called = calls > 0
	if p.err == nil && ctx.Err() == nil {
		result := a.Result()
		if done {
			result.Reason = infer.Stopped
		}
		p.end = &result
		watch.ended(result, a.Waited())
	}
	if q.logprobs && (p.end == nil || q.stopString(p.end.IDs) == "") {
		p.tokens = out.held // the text may have fewer bytes than they: some tokenizers take a space off its front
	}
	send(p)
}

// stopString returns the stop string that ended an answer, or "".
func (q *question) stopString(ids []int32) (found string) {
	if len(q.options.Stop) == 0 {
		return ""
	}
	text := q.model.Codec.Tokenizer.Decode(ids, true)
	first := len(text) + 1
	for _, s := range q.options.Stop {
		if i := strings.Index(text, s); i >= 0 && (i+len(s) < first || i+len(s) == first && len(s) > len(found)) {
			first, found = i+len(s), s
		}
	}
	return found
}

// parse sets the text and the calls of a piece. calls is the number of calls so far.
func (p *piece) parse(events []toolcalls.Event, calls *int) {
	p.text = ""
	for _, e := range events {
		p.text += e.Text
		switch {
		case e.Begin != "":
			*calls++
			p.calls = append(p.calls, call{index: *calls - 1, id: callID(), name: e.Begin})
		case e.Arguments != "":
			p.calls = append(p.calls, call{index: *calls - 1, arguments: e.Arguments})
		}
	}
	p.called = *calls > 0
}

// first cuts what follows the first call of an answer, and reports whether anything does. calls is the number of calls
// before.
func first(events []toolcalls.Event, calls int) ([]toolcalls.Event, bool) {
	for i, e := range events {
		if calls > 0 && e.Arguments == "" {
			return events[:i], true
		}
		if e.Begin != "" {
			calls++
		}
	}
	return events, false
}

// callID returns a new id of a call: nine letters and digits, as Mistral's templates want.
func callID() string { return strings.ToLower(rand.Text()[:9]) }

// released finds out which tokens have text that is out: text lags behind tokens while it may become a stop string.
// The log probabilities of tokens that are only part of a stop string are not in the answer.
type released struct {
	tokenizer   *tokenizer.Tokenizer
	held        []batch.Token
	at, printed int // bytes of the tokens before held, and of the text
}

// release returns the tokens that are out after the given number of further bytes of text.
func (r *released) release(bytes int) (out []batch.Token) {
	r.printed += bytes
	for len(r.held) > 0 && r.at < r.printed {
		t := r.held[0]
		out = append(out, t)
		if !r.tokenizer.IsSpecial(t.ID) {
			r.at += len(r.tokenizer.Bytes(t.ID))
		}
		r.held = r.held[1:]
	}
	return out
}

// collect gathers whole answers.
func (q *question) collect(pieces <-chan piece) ([]*choice, error) {
	choices := make([]*choice, q.choices())
	for i := range choices {
		choices[i] = &choice{}
	}
	for p := range pieces {
		if p.err != nil {
			return nil, p.err
		}
		choices[p.choice].add(p)
	}
	return choices, nil
}

// add adds a piece.
func (c *choice) add(p piece) {
	c.text += p.text
	c.tokens = append(c.tokens, p.tokens...)
	for _, part := range p.calls {
		if part.id != "" {
			c.calls = append(c.calls, part)
		} else {
			c.calls[part.index].arguments += part.arguments
		}
	}
	if p.end != nil {
		c.result = *p.end
	}
}

// A usage is how many tokens a question took.
type usage struct{ prompt, reused, answer int }

// count adds up the tokens of all answers: each prompt once.
func (q *question) count(choices []*choice) (u usage) {
	for i, c := range choices {
		if i%q.n == 0 {
			u.prompt += len(q.prompts[i/q.n])
			u.reused += c.result.Reused
		}
		u.answer += len(c.result.IDs)
	}
	return u
}
