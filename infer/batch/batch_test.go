package batch

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"restyle/infer"
	"restyle/model"
)

const vocab = 40

var codec = infer.Codec{Ends: []int32{1}}

// memory is a Stepper whose keys and values are the tokens themselves: the logits of a row depend on all tokens that
// its sequence's blocks hold up to it. So a block that is given away too early, or shared wrongly, changes an answer.
type memory struct {
	t            *testing.T
	rows, pieces int
	tokens       []int32
	content      map[model.Columns]int32
	fail         func(step int) error // of a step, if not nil
	steps        int
	started      chan struct{} // if not nil, a value is sent at the start of each step
}

func (m *memory) Blocks() int    { return len(m.tokens) / model.PoolBlock }
func (m *memory) MaxRows() int   { return m.rows }
func (m *memory) MaxPieces() int { return m.pieces }

func (m *memory) Step(pieces []model.Piece) (next []model.Next, err error) {
	if m.started != nil {
		m.started <- struct{}{}
	}
	rows, written := 0, map[int32]bool{}
	for _, p := range pieces {
		rows += len(p.IDs)
		for i, id := range p.IDs {
			block := p.Blocks[(p.At+i)/model.PoolBlock]
			m.tokens[int(block)*model.PoolBlock+(p.At+i)%model.PoolBlock] = id + 1000*m.content[p.Adapter]
			if (p.At+i)%model.PoolBlock == 0 || i == 0 {
				if written[block] {
					m.t.Errorf("two pieces write to block %d", block)
				}
				written[block] = true
			}
		}
	}
	if rows > m.rows || len(pieces) > m.pieces || rows == 0 {
		m.t.Errorf("a step of %d rows in %d pieces, at most %d in %d", rows, len(pieces), m.rows, m.pieces)
	}
	next = make([]model.Next, len(pieces))
	for i, p := range pieces {
		var tokens []int32
		for n := range p.At + len(p.IDs) {
			tokens = append(tokens, m.tokens[int(p.Blocks[n/model.PoolBlock])*model.PoolBlock+n%model.PoolBlock])
		}
		logits := logitsOf(tokens)
		switch {
		case p.Logits && p.Choice:
			m.t.Error("a piece asks for its logits and for a choice")
		case p.Logits || p.Draw.Temperature != 0:
			next[i].Logits = logits
		case p.Choice:
			next[i].Choice = int32(slices.Index(logits, slices.Max(logits)))
		}
	}
	m.steps++
	if m.fail != nil {
		err = m.fail(m.steps)
	}
	return next, err
}

var seed = maphash.MakeSeed()

func logitsOf(tokens []int32) []float32 {
	key := maphash.Comparable(seed, fmt.Sprint(tokens))
	random := rand.New(rand.NewPCG(key, 1))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = 4 * random.Float32()
	}
	return logits
}

// alone returns the answer to a request, computed without a Batch.
func alone(t *testing.T, r Request, context int) (ids []int32, reason infer.Reason) {
	return aloneWith(t, r, context, 0)
}

// aloneWith does what alone does, with an adapter of some content.
func aloneWith(t *testing.T, r Request, context int, content int32) (ids []int32, reason infer.Reason) {
	c, err := infer.NewChooser(codec, vocab, r.Prompt, r.Options)
	if err != nil {
		t.Fatal(err)
	}
	tokens := slices.Clone(r.Prompt)
	for len(tokens) <= context {
		stored := slices.Clone(tokens)
		for i := range stored {
			stored[i] += 1000 * content
		}
		id, err := c.Choose(logitsOf(stored))
		if err != nil {
			t.Fatal(err)
		}
		_, added, reason, _ := c.Take(id)
		if added {
			tokens = append(tokens, id)
		}
		if reason != "" {
			return tokens[len(r.Prompt):], reason
		}
	}
	return tokens[len(r.Prompt):], infer.Full
}

// TestBatch_AnswersDoNotDependOnCompany asks many questions at once, many of which start alike, with too few blocks,
// too few rows and clients that leave, and compares each answer with what alone returns.
func TestBatch_AnswersDoNotDependOnCompany(t *testing.T) {
	for _, c := range []struct{ blocks, rows, pieces, context int }{
		{200, 64, 16, 200},
		{14, 64, 16, 200},  // two long answers fill the memory
		{13, 5, 3, 200},    // a prompt takes many steps
		{40, 1, 8, 100},    // one row a step
		{4, 300, 300, 100}, // the context is the memory
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, uint64(c.blocks)))
			m := &memory{t: t, rows: c.rows, pieces: c.pieces, tokens: make([]int32, c.blocks*model.PoolBlock)}
			b := New(m, codec, vocab, Options{Context: c.context, Queue: 1000})
			defer b.Close()
			var group sync.WaitGroup
			for i := range 120 {
				r := Request{Key: fmt.Sprint(i % 3), Options: infer.Options{MaxTokens: random.IntN(2) * (1 + random.IntN(60)),
					Sampling: infer.Sampling{Temperature: float64(i%4) / 2, Seed: uint64(i)}}}
				for n := range min(1+random.IntN(80), b.Context()-1) {
					r.Prompt = append(r.Prompt, int32(2+(n/20+i%2)%5)) // of the same key, half start alike
				}
				if i%5 == 0 {
					r.Prompt[len(r.Prompt)-1] = int32(random.IntN(vocab))
				}
				leave := -1
				if i%7 == 0 {
					leave = random.IntN(5)
				}
				a, err := b.Start(r)
				if err != nil {
					t.Fatal(err)
				}
				group.Go(func() { compare(t, r, a, leave, b.Context()) })
				if i%10 == 0 {
					time.Sleep(time.Millisecond) // so that some come while others run
				}
			}
			group.Wait()
			if err := b.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := b.Stats()
			if s.Used != 0 || s.Running+s.Waiting != 0 || s.Failed != 0 {
				t.Errorf("at the end: %+v", s)
			}
			if few := c.blocks < 15; few != (s.Preempted > 0) && c.context == 200 || s.Reused == 0 && c.pieces < 300 {
				t.Errorf("%d made room, %d tokens reused", s.Preempted, s.Reused)
			}
			if _, err := b.Start(Request{Prompt: []int32{2}}); !errors.Is(err, ErrClosed) {
				t.Errorf("after Drain: %v", err)
			}
		})
	}
}

// compare reads an answer, or only its first tokens if leave is not negative, and compares it with the answer of
// alone.
func compare(t *testing.T, r Request, a *Answer, leave, context int) {
	ctx, cancel := contextWith(t)
	defer cancel()
	var ids []int32
	for leave != 0 && a.Next(ctx) {
		ids = append(ids, a.Token().ID)
		leave--
	}
	if leave == 0 {
		cancel()
		if a.Next(ctx) {
			t.Error("Next returned a token after its context was done")
		}
	}
	want, reason := alone(t, r, context)
	if leave == 0 && len(ids) <= len(want) {
		want = want[:len(ids)]
	} else if got := a.Result(); got.Reason != reason || !slices.Equal(got.IDs, want) {
		t.Errorf("ended with %q and %d tokens, want %q and %d", got.Reason, len(got.IDs), reason, len(want))
	}
	if !slices.Equal(ids, want) || a.Err() != nil {
		t.Errorf("prompt of %d, got %v, want %v, error %v", len(r.Prompt), ids, want, a.Err())
	}
}

func contextWith(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// TestBatch_FailedStep fails one step, by an error and by a panic: its answers fail, and later ones do not.
func TestBatch_FailedStep(t *testing.T) {
	for name, fail := range map[string]func(){"an error": nil, "a panic": func() { panic("out of bounds") }} {
		t.Run(name, func(t *testing.T) {
			m := &memory{t: t, rows: 64, pieces: 8, tokens: make([]int32, 64*model.PoolBlock)}
			m.fail = func(step int) error {
				if step != 3 {
					return nil
				}
				if fail != nil {
					fail()
				}
				return errors.New("out of memory")
			}
			b := New(m, codec, vocab, Options{})
			defer b.Close()
			long := Request{Prompt: []int32{5, 6}, Options: infer.Options{MaxTokens: 20, IgnoreEnd: true}}
			for i, want := range []string{"out of", ""} {
				a, err := b.Start(long)
				if err != nil {
					t.Fatal(err)
				}
				for a.Next(t.Context()) {
				}
				if err := a.Err(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("answer %d: %v, want %q", i, err, want)
				}
			}
			if s := b.Stats(); s.Failed != 1 || s.Used != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// broken is a constraint with a fault.
type broken struct{}

func (broken) Prepare(context.Context) { panic("no such node") }
func (broken) Mask([]float32)          {}
func (broken) Accept(int32) error      { return nil }

// TestBatch_FaultInAChoice has an answer whose constraint panics: the others do not notice.
func TestBatch_FaultInAChoice(t *testing.T) {
	b := New(&memory{t: t, rows: 64, pieces: 8, tokens: make([]int32, 64*model.PoolBlock)}, codec, vocab, Options{})
	defer b.Close()
	for _, constraint := range []infer.Constraint{broken{}, nil} {
		a, err := b.Start(Request{Prompt: []int32{5}, Options: infer.Options{MaxTokens: 5, Constraint: constraint}})
		if err != nil {
			t.Fatal(err)
		}
		for a.Next(t.Context()) {
		}
		if err := a.Err(); (err != nil) != (constraint != nil) || err != nil && !strings.Contains(err.Error(), "no such") {
			t.Errorf("%T: %v", constraint, err)
		}
	}
	if s := b.Stats(); s.Used != 0 {
		t.Errorf("%+v", s)
	}
}

// ended is a constraint of which all is written.
type ended struct{}

func (ended) Prepare(context.Context) {}
func (ended) Accept(int32) error      { return nil }

func (ended) Mask(logits []float32) {
	for i := range logits {
		if i != int(codec.Ends[0]) {
			logits[i] = float32(math.Inf(-1))
		}
	}
}

// TestBatch_ConstraintsMayEndEarly has a model whose answers have at least ten tokens, except for answers that a
// constraint ends.
func TestBatch_ConstraintsMayEndEarly(t *testing.T) {
	long := codec
	long.Rules.MinNew, long.Rules.MinTokens = 10, 20
	b := New(&memory{t: t, rows: 64, pieces: 8, tokens: make([]int32, 64*model.PoolBlock)}, long, vocab, Options{})
	defer b.Close()
	a, err := b.Start(Request{Prompt: []int32{5}, Options: infer.Options{Constraint: ended{}}})
	if err != nil {
		t.Fatal(err)
	}
	if a.Next(t.Context()) || a.Err() != nil || a.Result().Reason != infer.Stopped {
		t.Errorf("%v: %+v", a.Err(), a.Result())
	}
}

// slow is a constraint that prepares its first mask for as long as its answer is wanted.
type slow struct{ broken }

func (slow) Prepare(ctx context.Context) { <-ctx.Done() }

// A stalling constraint prepares its second mask until it is released, or its answer is not wanted.
type stalling struct {
	broken
	masks    *atomic.Int64
	released chan struct{}
}

func (s stalling) Prepare(ctx context.Context) {
	if s.masks.Add(1) == 2 {
		select {
		case <-ctx.Done():
		case <-s.released:
		}
	}
}

// turns is a memory that notes whose piece each step has, by its first block. Before step 5 it calls a function.
type turns struct {
	*memory
	order []int32
	five  func()
}

func (m *turns) Step(pieces []model.Piece) ([]model.Next, error) {
	if m.order = append(m.order, pieces[0].Blocks[0]); len(m.order) == 5 {
		m.five()
	}
	return m.memory.Step(pieces)
}

// TestBatch_SlowConstraintsHoldNoPlace has an answer in all of the room for one. While its constraint prepares its
// second mask, another answer starts. Once the first continues, the two take turns.
func TestBatch_SlowConstraintsHoldNoPlace(t *testing.T) {
	first := stalling{masks: new(atomic.Int64), released: make(chan struct{})}
	m := &turns{memory: &memory{t: t, rows: 64, pieces: 1, tokens: make([]int32, 64*model.PoolBlock)},
		five: func() { close(first.released) }}
	b := New(m, codec, vocab, Options{})
	start := func(c infer.Constraint) *Answer {
		a, err := b.Start(Request{Prompt: []int32{5}, Options: infer.Options{MaxTokens: 400, IgnoreEnd: true,
			Constraint: c}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ctx, cancel := contextWith(t)
	defer cancel()
	held := start(first)
	if !held.Next(ctx) {
		t.Fatal(held.Err())
	}
	for _, a := range []*Answer{start(nil), held} {
		for a.Next(ctx) {
		}
		if a.Err() != nil {
			t.Error(a.Err())
		}
	}
	b.Close()
	last := len(m.order) - 1
	for ; m.order[last] == m.order[0]; last-- { // only of the first answer
	}
	for i := range last {
		if m.order[i] == m.order[0] && m.order[i+1] == m.order[0] {
			t.Errorf("the first answer has steps %d and %d of %d in which the other one waits", i, i+1, last)
		}
	}
}

// TestBatch_SlowConstraintsDelayNobody lets an answer come to its end while the constraint of another one prepares, and
// then the other one leave.
func TestBatch_SlowConstraintsDelayNobody(t *testing.T) {
	b := New(&memory{t: t, rows: 64, pieces: 1, tokens: make([]int32, 64*model.PoolBlock)}, codec, vocab, Options{})
	var all []*Answer
	for _, c := range []infer.Constraint{slow{}, nil, slow{}} {
		a, err := b.Start(Request{Prompt: []int32{5}, Options: infer.Options{MaxTokens: 5, IgnoreEnd: true, Constraint: c}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	for n := range 6 {
		if more := all[1].Next(t.Context()); more != (n < 5) {
			t.Errorf("after %d tokens: %v %v", n, more, all[1].Err())
		}
	}
	all[0].Close()
	b.Close()
	if err := all[2].Err(); !errors.Is(err, ErrClosed) || b.Stats().Used != 0 {
		t.Errorf("%v, %+v", err, b.Stats())
	}
}

// TestBatch_Limits fills the queue, and closes a Batch while an answer runs.
func TestBatch_Limits(t *testing.T) {
	m := &memory{t: t, rows: 64, pieces: 1, tokens: make([]int32, 8*model.PoolBlock), started: make(chan struct{})}
	b := New(m, codec, vocab, Options{Queue: 2})
	endless := Request{Prompt: []int32{5}, Options: infer.Options{IgnoreEnd: true}}
	var all []*Answer
	for range 3 {
		a, err := b.Start(endless)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, a); len(all) == 1 {
			<-m.started // the first runs
		}
	}
	if _, err := b.Start(endless); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth request: %v", err)
	}
	go func() {
		for range m.started {
		}
	}()
	for _, bad := range []struct {
		r    Request
		want string
	}{
		{Request{}, "is empty"},
		{Request{Prompt: []int32{vocab}}, "outside the vocabulary"},
		{Request{Prompt: make([]int32, 128)}, "leaves no room"},
		{Request{Prompt: []int32{1}, Top: -1}, "most probable tokens"},
		{Request{Prompt: []int32{1}, Options: infer.Options{MaxTokens: -1}}, "MaxTokens"},
		{Request{Prompt: []int32{1}, Options: infer.Options{Sampling: infer.Sampling{TopP: 2}}}, "top-p"},
	} {
		if _, err := b.Start(bad.r); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, want %q", err, bad.want)
		}
	}
	all[1].Close() // so the third is next
	for range 5 {
		all[0].Next(t.Context())
	}
	b.Close()
	close(m.started)
	for i, want := range []error{ErrClosed, nil, ErrClosed} {
		for all[i].Next(t.Context()) {
		}
		if err := all[i].Err(); !errors.Is(err, want) {
			t.Errorf("answer %d after Close: %v, want %v", i, err, want)
		}
	}
}

// TestBatch_KeysTakeTurns lets one answer run at a time: a key that asks once does not wait for all of another's.
func TestBatch_KeysTakeTurns(t *testing.T) {
	var q queue
	for i, key := range []string{"a", "a", "a", "b", "c", "b"} {
		q.push(&sequence{request: Request{Key: key, Options: infer.Options{MaxTokens: i}}})
	}
	var order []int
	for q.n > 0 {
		s := q.next()
		q.pop(s)
		order = append(order, s.request.MaxTokens)
		if len(order) == 2 {
			s.admitted = true // makes room, and comes back before all others
			q.push(s)
		}
	}
	if want := []int{0, 3, 3, 4, 1, 5, 2}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// TestBatch_SharesBlocksOfOneKey asks the same thing again: what is reused tells no other client that it was asked
// before.
func TestBatch_SharesBlocksOfOneKey(t *testing.T) {
	m := &memory{t: t, rows: 64, pieces: 8, tokens: make([]int32, 64*model.PoolBlock)}
	b := New(m, codec, vocab, Options{})
	defer b.Close()
	prompt := make([]int32, 2*model.PoolBlock) // the last token is computed in any case, and with it its block
	for i, c := range []struct {
		key    string
		reused int
	}{{"a", 0}, {"b", 0}, {"a", model.PoolBlock}, {"b", model.PoolBlock}} {
		a, err := b.Start(Request{Key: c.key, Prompt: prompt, Options: infer.Options{MaxTokens: 2}})
		if err != nil {
			t.Fatal(err)
		}
		for a.Next(t.Context()) {
		}
		if got := a.Result().Reused; got != c.reused || a.Waited() > a.Result().First {
			t.Errorf("request %d: %d tokens reused, want %d", i, got, c.reused)
		}
	}
}

// TestLogprobs compares with probabilities that are known: 1/2, 1/4, 1/8, 1/8.
func TestLogprobs(t *testing.T) {
	const ln2 = 0.6931471805599453
	of, top := logprobs([]float32{ln2, 0, 2 * ln2, 0}, 1, 3)
	want := []Logprob{{2, -ln2}, {0, -2 * ln2}, {1, -3 * ln2}}
	if len(top) != 3 {
		t.Fatal(top)
	}
	for i, p := range top {
		// The logits are rounded to float32.
		if d := p.Logprob - want[i].Logprob; p.ID != want[i].ID || d*d > 1e-13 {
			t.Errorf("%d: %v, want %v", i, p, want[i])
		}
	}
	if d := of + 3*ln2; d*d > 1e-13 {
		t.Errorf("log probability %v, want %v", of, -3*ln2)
	}
}
