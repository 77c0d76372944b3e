package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options say how one answer is made.
type Options struct {
	Sampling
	// MaxTokens is the most tokens of the answer. 0: until the context is full.
	MaxTokens int
	// Stop are texts at which the answer ends; they are not part of it.
	Stop []string
	// IgnoreEnd goes on behind tokens that end an answer, for measurements.
	IgnoreEnd bool
}

// Reason says why an answer ended.
type Reason string

// The reasons.
const (
	Stopped   Reason = "stop"      // the model wrote a token that ends an answer, or a stop string
	Length    Reason = "length"    // it has MaxTokens tokens
	Full      Reason = "context"   // the context is full
	Cancelled Reason = "cancelled" // the caller's context was done
)

// A Result is what is known of an answer, so far or at its end.
type Result struct {
	Reason Reason  // empty while the answer is not over, or after an error
	IDs    []int32 // the answer's tokens, without the one that ended it
	Prompt int     // tokens of the prompt
	Reused int     // of these, how many the cache held already
	// First is the time to the first token, Total to the last one. Both count the model's work alone, not what the caller
	// did between two calls of Next.
	First, Total time.Duration
}

// Speed is tokens a second after the first token, 0 for an answer of less than two.
func (r Result) Speed() float64 {
	if len(r.IDs) < 2 || r.Total <= r.First {
		return 0
	}
	return float64(len(r.IDs)-1) / (r.Total - r.First).Seconds()
}

// A Generation is one answer under way. It is used like a bufio.Scanner:
//
//	g, err := engine.Start(prompt, options)
//	…
//	for g.Next(ctx) {
//		fmt.Print(g.Text())
//	}
//	if err := g.Err(); err != nil …
//
// Two engines answer side by side when their generations take turns.
type Generation struct {
	e       *Engine
	o       Options
	sampler *Sampler
	stops   stops
	decode  func(id int32) string // nil without a tokenizer
	flush   func() string
	feed    []int32 // what the model has to read before the next token
	text    string
	result  Result
	err     error
	over    bool
}

// chunk is how many tokens of a prompt the model reads before the caller's context is looked at again.
const prefillChunk = 512

// Start begins the answer to a prompt. Of a prompt that begins like what the engine read or wrote last, only the rest is
// read. Any answer that the engine has under way ends with an error. A prompt that leaves no room in the context is an
// error, and so is an id that the vocabulary does not have.
func (e *Engine) Start(prompt []int32, o Options) (*Generation, error) {
	switch {
	case len(prompt) == 0:
		return nil, errors.New("the prompt is empty: give at least one token")
	case len(prompt) >= e.Context:
		return nil, fmt.Errorf("the prompt of %d tokens leaves no room for an answer in the context of %d: shorten it, or make the context larger", len(prompt), e.Context)
	case o.MaxTokens < 0:
		return nil, fmt.Errorf("at most %d tokens: give a number of tokens, or 0 for as many as fit", o.MaxTokens)
	case slices.Contains(o.Stop, ""):
		return nil, errors.New("a stop string is empty: it would end every answer before it began")
	case len(o.Stop) > 0 && e.stream == nil:
		return nil, errors.New("stop strings need a tokenizer, and this engine has none")
	}
	for i, id := range prompt {
		if id < 0 || int(id) >= e.vocab {
			return nil, fmt.Errorf("token %d of the prompt is %d, outside the vocabulary of %d: it was made with another tokenizer", i, id, e.vocab)
		}
	}
	sampler, err := NewSampler(o.Sampling, prompt)
	if err != nil {
		return nil, err
	}
	g := &Generation{e: e, o: o, sampler: sampler, stops: stops{texts: o.Stop}}
	if e.stream != nil {
		g.decode, g.flush = e.stream()
	}
	// The last token of the prompt is always read again: its logits are needed.
	g.result.Prompt, g.result.Reused = len(prompt), commonPrefix(e.cached, prompt[:len(prompt)-1])
	e.trim(g.result.Reused)
	e.cached = e.cached[:g.result.Reused]
	g.feed = slices.Clone(prompt[g.result.Reused:])
	e.current = g
	return g, nil
}

func commonPrefix(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Next makes the next token and says whether there is one, or text that was held back. After it says no, Err and Result
// say why. When ctx is done the answer ends with what it has, which is no error.
func (g *Generation) Next(ctx context.Context) bool {
	g.text = ""
	if g.over {
		return false
	}
	start := time.Now()
	ended := g.next(ctx)
	g.result.Total += time.Since(start)
	if g.result.First == 0 {
		g.result.First = g.result.Total
	}
	if g.err != nil {
		g.over = true
		return false
	}
	if ended == "" {
		return true
	}
	g.over, g.result.Reason = true, ended
	return g.text != ""
}

// next makes a token and the text that it completes. It returns the reason when that was the end.
func (g *Generation) next(ctx context.Context) Reason {
	e := g.e
	if e.current != g {
		g.err = errors.New("the engine has begun another answer: it makes one at a time")
		return ""
	}
	var id int32
	var err error
	full := len(e.cached)+len(g.feed) > e.Context
	if !full {
		id, err = g.choose(ctx)
	}
	switch {
	case ctx.Err() != nil:
		g.finish()
		return Cancelled
	case err != nil:
		g.err = err
		return ""
	case full:
		g.finish()
		return Full
	}
	if e.ends[id] && !g.o.IgnoreEnd {
		g.finish()
		return Stopped
	}
	g.feed = append(g.feed[:0], id)
	g.result.IDs = append(g.result.IDs, id)
	if g.decode != nil {
		var found bool
		if g.text, found = g.stops.push(g.decode(id)); found {
			return Stopped
		}
	}
	if len(g.result.IDs) == g.o.MaxTokens {
		g.finish()
		return Length
	}
	return ""
}

// choose has the model read what it has to, and chooses the token behind it.
func (g *Generation) choose(ctx context.Context) (id int32, err error) {
	e := g.e
	after := func(err error) error { return fmt.Errorf("after %d tokens: %w", len(e.cached), err) }
	var logits []float32
	for ids := range slices.Chunk(g.feed, prefillChunk) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if e.greedy != nil && g.sampler.greedy() {
			id, logits, err = e.greedy(ids)
		} else {
			logits, err = e.extend(ids)
		}
		if err != nil {
			err = after(err)
			e.ResetCache()
			return 0, err
		}
		e.cached = append(e.cached, ids...)
	}
	if logits == nil {
		return id, nil
	}
	if id, err = g.sampler.Next(logits); err != nil {
		return 0, after(err)
	}
	return id, nil
}

// finish lets out what was held back: an unfinished character, and what could have become a stop string.
func (g *Generation) finish() {
	if g.flush == nil {
		return
	}
	show, found := g.stops.push(g.flush())
	g.text += show
	if !found {
		g.text += g.stops.rest()
	}
}

// Text is what Next added to the answer: often a word, sometimes nothing, never a part of a character. It is empty in an
// engine without a tokenizer.
func (g *Generation) Text() string { return g.text }

// Err is what went wrong, nil for an answer that ended.
func (g *Generation) Err() error { return g.err }

// Result is what is known of the answer so far. Its IDs may grow; they must not be changed.
func (g *Generation) Result() Result { return g.result }
