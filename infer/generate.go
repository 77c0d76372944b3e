package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options configure one answer.
type Options struct {
	Sampling
	// MaxTokens is the maximum number of tokens of the answer. 0: until the context is full. If it is greater, a model
	// with learned positions continues when the context is full: it forgets all but the last half of the tokens.
	MaxTokens int
	// Stop lists texts that end the answer. They are not part of it.
	Stop []string
	// Constraint limits which tokens may come. Nil: none.
	Constraint Constraint
	// IgnoreEnd continues after tokens that end an answer, for measurements.
	IgnoreEnd bool
}

// A Constraint limits the tokens of one answer, such as to those that make it JSON.
type Constraint interface {
	// Prepare computes ahead what the next Mask needs, unless that is done or ctx is done: it may take long. It may be
	// called in another goroutine than the other methods, but not during one of them.
	Prepare(ctx context.Context)
	// Mask sets the logits of the tokens that must not come next to -Inf. If the answer may end here, it leaves the tokens
	// that end it, and if it must, nothing else.
	Mask(logits []float32)
	// Accept tells the token that was chosen, unless it ended the answer.
	Accept(id int32) error
}

// Reason is why an answer ended.
type Reason string

// The reasons why an answer ends.
const (
	Stopped   Reason = "stop"      // the model generated an end token or a stop string
	Length    Reason = "length"    // it has Options.MaxTokens tokens
	Full      Reason = "context"   // the context is full
	Cancelled Reason = "cancelled" // the caller's context was done
)

// A Result describes an answer, so far or at its end.
type Result struct {
	Reason Reason  // empty until the answer ends, and after an error
	IDs    []int32 // the answer's tokens, without the one that ended it
	Prompt int     // number of tokens of the prompt
	Reused int     // of these, the number that were in the KV cache already
	// First is the time to the first token, Total to the last. Both count only the time inside Next, not what the caller
	// does between calls.
	First, Total time.Duration
}

// Speed returns tokens per second after the first token, or 0 for an answer of fewer than two.
func (r Result) Speed() float64 {
	if len(r.IDs) < 2 || r.Total <= r.First {
		return 0
	}
	return float64(len(r.IDs)-1) / (r.Total - r.First).Seconds()
}

// A Generation is one answer in progress. Use it like a bufio.Scanner:
//
//	g, err := engine.Start(prompt, options)
//	…
//	for g.Next(ctx) {
//		fmt.Print(g.Text())
//	}
//	if err := g.Err(); err != nil …
//
// To run two engines side by side, alternate between their generations.
type Generation struct {
	e       *Engine
	o       Options
	chooser *Chooser
	feed    []int32 // tokens that the model has to read before the next one
	text    string
	result  Result
	err     error
	over    bool
}

// Start starts the answer to a prompt. If the prompt starts with tokens that the KV cache still holds, the model reads
// only the rest. The engine's previous Generation, if it has not ended, fails. A prompt that leaves no room in the
// context is an error, and so is an id outside the vocabulary.
func (e *Engine) Start(prompt []int32, o Options) (*Generation, error) {
	if len(prompt) >= e.Context {
		return nil, fmt.Errorf("the prompt of %d tokens leaves no room for an answer in the context of %d: "+
			"shorten it, or enlarge the context", len(prompt), e.Context)
	}
	chooser, err := e.vocabulary.chooser(prompt, o)
	if err != nil {
		return nil, err
	}
	g := &Generation{e: e, o: o, chooser: chooser}
	// The model always reads the last token of the prompt, for its logits.
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

// Next generates the next token and reports whether there is one, or text that was held back. After it returns false,
// Err and Result tell why. If ctx is done, the answer ends with what it has, without an error.
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

// next generates a token and the text that it completes. It returns a reason if that ended the answer.
func (g *Generation) next(ctx context.Context) Reason {
	e := g.e
	if e.current != g {
		g.err = errors.New("the engine has started another answer: it generates one at a time")
		return ""
	}
	var id int32
	var err error
	full := len(e.cached)+len(g.feed) > e.Context
	if full && e.slides && g.o.MaxTokens > 0 {
		g.slide()
		full = false
	}
	if !full {
		id, err = g.choose(ctx)
	}
	switch {
	case ctx.Err() != nil:
		g.text = g.chooser.Finish()
		return Cancelled
	case err != nil:
		g.err = err
		return ""
	case full:
		g.text = g.chooser.Finish()
		return Full
	}
	text, added, reason, err := g.chooser.Take(id)
	if err != nil {
		g.err = err
		return ""
	}
	g.text = text
	if added {
		g.feed = append(g.feed[:0], id)
		g.result.IDs = append(g.result.IDs, id)
	}
	return reason
}

// choose runs the model on feed, and chooses the next token. After an error the KV cache is empty: what it held may be
// the reason.
func (g *Generation) choose(ctx context.Context) (id int32, err error) {
	e := g.e
	failed := func(err error) (int32, error) {
		err = fmt.Errorf("after token %d: %w", len(e.cached), err)
		e.ResetCache()
		return 0, err
	}
	var logits []float32
	for ids := range slices.Chunk(g.feed, e.chunk) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if e.greedy != nil && g.chooser.Greedy() {
			id, logits, err = e.greedy(ids)
		} else {
			logits, err = e.extend(ids)
		}
		if err != nil {
			return failed(err)
		}
		e.cached = append(e.cached, ids...)
	}
	if logits == nil {
		return id, nil
	}
	if id, err = g.chooser.Choose(logits); err != nil {
		return failed(err)
	}
	return id, nil
}

// slide moves the window of a model with learned positions to the last half of the tokens, which the model reads again:
// keys in the cache depend on the positions that their tokens had. A window of half a context makes that rare.
func (g *Generation) slide() {
	all := append(slices.Clone(g.e.cached), g.feed...)
	g.feed = all[len(all)-max(1, g.e.Context/2):]
	g.e.ResetCache()
}

// Text returns the text that Next added to the answer: often a word, sometimes nothing, never part of a character. It
// is empty if the engine has no tokenizer.
func (g *Generation) Text() string { return g.text }

// Err returns the error that ended the answer, or nil if it ended without one.
func (g *Generation) Err() error { return g.err }

// Result describes the answer so far. Later calls of Next may append to its IDs; the caller must not change them.
func (g *Generation) Result() Result { return g.result }
