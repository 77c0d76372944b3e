package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"restyle/infer"
	"restyle/model"
)

// A Stepper computes steps of a model that keeps keys and values in blocks of model.PoolBlock tokens: a [model.Pool].
type Stepper interface {
	// Step computes the pieces, which are of different sequences, and stores their keys and values. It returns what comes
	// after each; the next Step may overwrite the logits. The bits of a row depend on the tokens of its sequence up to
	// it, and on nothing else.
	Step(pieces []model.Piece) ([]model.Next, error)
	// Blocks returns the number of blocks, MaxRows the maximum number of tokens of a step, and MaxPieces of pieces.
	Blocks() int
	MaxRows() int
	MaxPieces() int
}

// Options configure a Batch. Zero values take the defaults.
type Options struct {
	// Context is the maximum number of tokens of a prompt and its answer together. Default 4096; never more than the
	// blocks have room for.
	Context int
	// Queue is the maximum number of requests that wait. Default 256.
	Queue int
	// Device is held during each step: Batches whose models are on the same device share it. Default: none.
	Device sync.Locker
}

// The errors of Start that are not the request's fault.
var (
	ErrFull   = errors.New("too many requests are waiting: try again later")
	ErrClosed = errors.New("no more requests are taken")
)

// A Batch generates answers of one model, many at once. It is safe for concurrent use.
type Batch struct {
	stepper Stepper
	codec   infer.Codec
	vocab   int
	o       Options

	mu      sync.Mutex
	work    sync.Cond // signalled when there may be something to compute, or to stop for
	blocks  *blocks
	running []*sequence // the one that was admitted first in front
	waiting queue
	closed  bool          // no more requests are taken
	stopped bool          // run ends
	done    chan struct{} // closed when run has ended
	idle    chan struct{} // closed when a closed Batch has nothing left to do
	stats   Stats

	adapters []*Adapter // also dropped ones, as long as their answers run
}

// Stats are what a Batch has done, and what it is doing. All but the first five only grow.
type Stats struct {
	Running, Waiting    int   // number of answers
	Blocks, Used, Idle  int   // number of blocks: all, used by running answers, and of the rest with known tokens
	Steps, Failed       int64 // number of steps, and of failed ones
	Prompt, Reused      int64 // prompt tokens of admitted requests, and how many of them were there already
	Computed, Generated int64 // tokens computed, and tokens generated
	Preempted           int64 // number of times that an answer made room for others, to be computed again later
}

// New starts a Batch for a model whose logits are [vocab]. A codec without a tokenizer gives answers no text. Close
// ends it; the caller keeps the stepper.
func New(s Stepper, codec infer.Codec, vocab int, o Options) *Batch {
	if o.Context <= 0 {
		o.Context = 4096
	}
	if o.Queue <= 0 {
		o.Queue = 256
	}
	if o.Device == nil {
		o.Device = &sync.Mutex{}
	}
	o.Context = min(o.Context, s.Blocks()*model.PoolBlock)
	b := &Batch{stepper: s, codec: codec, vocab: vocab, o: o, blocks: newBlocks(s.Blocks()), done: make(chan struct{}),
		idle: make(chan struct{})}
	b.work.L = &b.mu
	go b.run()
	return b
}

// Context returns the maximum number of tokens of a prompt and its answer together.
func (b *Batch) Context() int { return b.o.Context }

// Start queues a request. It returns an error if the prompt or the options are not valid, ErrFull if too many
// requests wait, and ErrClosed after Drain or Close.
func (b *Batch) Start(r Request) (*Answer, error) { return b.start(r, nil) }

func (b *Batch) start(r Request, with *Adapter) (*Answer, error) {
	codec := b.codec
	if with != nil {
		codec = with.codec
	}
	if len(r.Prompt) >= b.o.Context {
		return nil, fmt.Errorf("the prompt of %d tokens leaves no room for an answer in the context of %d: shorten it",
			len(r.Prompt), b.o.Context)
	}
	if r.Constraint != nil { // or they could forbid all that it allows, such as the end
		codec.Rules = infer.Rules{RepetitionPenalty: codec.Rules.RepetitionPenalty}
	}
	chooser, err := infer.NewChooser(codec, b.vocab, r.Prompt, r.Options)
	if err != nil {
		return nil, err
	}
	if r.Top < 0 || r.Top > b.vocab {
		return nil, fmt.Errorf("%d most probable tokens: must be 0 to %d, the vocabulary", r.Top, b.vocab)
	}
	s := newSequence(r, chooser)
	s.adapter = with
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case with != nil && !with.held:
		return nil, ErrDropped
	case b.waiting.n >= b.o.Queue:
		return nil, ErrFull
	}
	b.waiting.push(s)
	b.prepare(s)
	b.work.Signal()
	return &Answer{b: b, s: s}, nil
}

// Stats returns what the Batch has done.
func (b *Batch) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Running, s.Waiting = len(b.running), b.waiting.n
	s.Blocks, s.Idle = b.stepper.Blocks(), b.blocks.idle.Len()
	s.Used = s.Blocks - b.blocks.free()
	return s
}

// Drain stops taking requests, and waits until all earlier ones are answered, or ctx is done.
func (b *Batch) Drain(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.work.Signal()
	b.mu.Unlock()
	select {
	case <-b.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all answers with ErrClosed, and returns when the Batch no longer uses the stepper, nor stores an adapter.
func (b *Batch) Close() {
	b.mu.Lock()
	b.closed, b.stopped = true, true
	b.work.Signal()
	b.mu.Unlock()
	<-b.done
	b.o.Device.Lock() // what an adapter is being stored in must not be freed meanwhile
	defer b.o.Device.Unlock()
}

// A Request is what an answer is generated from.
type Request struct {
	Prompt []int32
	infer.Options
	// Logprobs asks for the log probabilities of the tokens and of the Top most probable ones at each place, before
	// temperature and filters.
	Logprobs bool
	Top      int
	// Key says whom the request is from. Keys take turns, and no two keys share blocks.
	Key string
}

// A Token is a token of an answer.
type Token struct {
	ID int32
	// Text is what the token added to the answer: often a word, sometimes nothing or the end of a word held back, never
	// part of a character.
	Text string
	// Logprob is the token's log probability and Top the most probable tokens, the first of equals the one with the
	// lowest id, if the request asked for them.
	Logprob float64
	Top     []Logprob
}

// A Logprob is a token and its log probability.
type Logprob struct {
	ID      int32
	Logprob float64
}
