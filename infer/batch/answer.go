package batch

import (
	"context"
	"time"

	"restyle/infer"
)

// A sequence is an answer in progress: its tokens, the blocks of those that are computed, and what its reader has not
// taken yet. Batch.mu protects it, but between two steps only run changes tokens, computed, blocks and known.
type sequence struct {
	request  Request
	adapter  *Adapter // nil: none
	chooser  *infer.Chooser
	tokens   []int32 // of prompt and answer
	computed int     // number of tokens whose keys and values are stored
	blocks   []int32
	known    []prefix // of the full blocks of tokens
	admitted bool     // it has run before

	preparing bool // its constraint is: see Batch.prepare
	ctx       context.Context
	cancel    func() // ctx, when the answer has ended

	left    bool    // the reader has left
	unread  []Token // what Next has not returned yet
	over    bool    // no more tokens come
	err     error
	changed chan struct{} // has one value after a change
	result  infer.Result
	begin   time.Time
	waited  time.Duration
}

func newSequence(r Request, c *infer.Chooser) *sequence {
	s := &sequence{request: r, chooser: c, tokens: append([]int32(nil), r.Prompt...), changed: make(chan struct{}, 1),
		begin: time.Now(), result: infer.Result{Prompt: len(r.Prompt)}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *sequence) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// end ends the answer. text is what was held back.
func (s *sequence) end(reason infer.Reason, text string, err error) {
	if s.over {
		return
	}
	s.over, s.err, s.result.Reason = true, err, reason
	s.cancel()
	s.result.Total = time.Since(s.begin)
	if text != "" {
		s.unread = append(s.unread, Token{ID: -1, Text: text})
	}
	s.tell()
}

// An Answer is one answer in progress. Use it like an [infer.Generation]. It is not safe for concurrent use.
type Answer struct {
	b     *Batch
	s     *sequence
	token Token
}

// Next waits for the next token, and reports whether there is one. After it returns false, Err and Result tell why. If
// ctx is done, the answer ends with what it has, without an error: see Close.
func (a *Answer) Next(ctx context.Context) bool {
	for {
		a.b.mu.Lock()
		if ctx.Err() != nil {
			a.leave()
		}
		if len(a.s.unread) > 0 && !a.s.left {
			a.token = a.s.unread[0]
			a.s.unread = a.s.unread[1:]
			a.b.mu.Unlock()
			return true
		}
		over := a.s.over
		a.b.mu.Unlock()
		if over {
			return false
		}
		select {
		case <-a.s.changed:
		case <-ctx.Done():
		}
	}
}

// Token returns the token that Next has waited for. The last one may have the ID -1: it is only text that had been held
// back, because it could have become a stop string.
func (a *Answer) Token() Token { return a.token }

// Err returns the error that ended the answer, or nil.
func (a *Answer) Err() error {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return a.s.err
}

// Result describes the answer so far: First and Total count from Start, and include the wait. The caller must not
// change its IDs.
func (a *Answer) Result() infer.Result {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return a.s.result
}

// Waited returns how long the request was queued before its first step.
func (a *Answer) Waited() time.Duration {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return a.s.waited
}

// Close ends the answer if it has not ended. Its blocks are free before the next step.
func (a *Answer) Close() {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.leave()
}

func (a *Answer) leave() {
	a.s.left = true
	a.s.unread = nil
	a.s.end(infer.Cancelled, "", nil)
	a.b.work.Signal()
}
