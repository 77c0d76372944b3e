package batch

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"restyle/infer"
	"restyle/model"
)

// A piece is a model.Piece and its sequence.
type piece struct {
	model.Piece
	s *sequence
}

// run computes steps until the Batch is closed.
func (b *Batch) run() {
	defer close(b.done)
	b.mu.Lock()
	defer b.mu.Unlock()
	drained := false
	for {
		b.removeOver()
		if b.stopped {
			b.clear(ErrClosed)
		}
		idle := len(b.running)+b.waiting.n == 0
		if idle && b.closed && !drained {
			close(b.idle)
			drained = true
		}
		switch {
		case b.stopped:
			return
		case idle:
			b.work.Wait()
			continue
		}
		before := b.stats.Preempted
		pieces := b.plan()
		if len(pieces) == 0 {
			if b.stats.Preempted == before { // all prepare
				b.work.Wait()
			}
			continue // or all have made room: the first of them is admitted again
		}
		b.mu.Unlock()
		next, err := b.step(pieces)
		chosen := b.choose(pieces, next, err)
		b.mu.Lock()
		b.take(pieces, chosen, err)
		b.await(pieces)
	}
}

// prepare lets the constraint of an answer, if it has one, prepare its next mask while steps run. Until it has, plan
// leaves the answer out, and does not admit it, so that no other waits for it.
func (b *Batch) prepare(s *sequence) {
	if s.request.Constraint == nil {
		return
	}
	s.preparing = true
	go func() {
		defer func() {
			fault := recover()
			b.mu.Lock()
			defer b.mu.Unlock()
			if s.preparing = false; fault != nil {
				s.end("", "", fmt.Errorf("after token %d: preparing the next one failed: %v", len(s.tokens), fault))
			}
			b.work.Signal()
		}()
		s.request.Constraint.Prepare(s.ctx)
	}()
}

// patience is how long a step waits for constraints: most take less, and their answers have a token each step.
const patience = time.Millisecond

// await waits until the constraints of a step's answers are prepared, but not for those that take long.
func (b *Batch) await(pieces []piece) {
	preparing := func(p piece) bool { return p.s.preparing }
	if !slices.ContainsFunc(pieces, preparing) {
		return
	}
	late := false
	timer := time.AfterFunc(patience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		late = true
		b.work.Signal()
	})
	defer timer.Stop()
	for !late && slices.ContainsFunc(pieces, preparing) {
		b.work.Wait()
	}
}

// removeOver frees the blocks of answers that have ended.
func (b *Batch) removeOver() {
	b.running = slices.DeleteFunc(b.running, func(s *sequence) bool {
		if s.over {
			b.free(s)
		}
		return s.over
	})
	b.waiting.removeOver()
}

func (b *Batch) clear(err error) {
	for _, s := range b.running {
		b.free(s)
		s.end("", "", err)
	}
	b.running = nil
	b.waiting.clear(func(s *sequence) { s.end("", "", err) })
}

func (b *Batch) free(s *sequence) {
	b.blocks.leave(s.blocks)
	s.blocks = nil
}

// plan chooses the pieces of the next step: the next token of every answer, then pieces of prompts, the oldest first,
// then requests that wait, as long as there are rows and blocks.
func (b *Batch) plan() (pieces []piece) {
	rows := b.stepper.MaxRows()
	planned := map[*sequence]bool{}
	add := func(s *sequence) {
		n := min(len(s.tokens)-s.computed, rows)
		if n == 0 || s.preparing || len(pieces) == b.stepper.MaxPieces() || planned[s] || !b.grow(s, s.computed+n, planned) {
			return
		}
		planned[s] = true
		rows -= n
		last := s.computed+n == len(s.tokens)
		draw, choice := s.chooser.Device()
		choice = choice && !s.request.Logprobs
		pieces = append(pieces, piece{s: s, Piece: model.Piece{IDs: s.tokens[s.computed : s.computed+n], At: s.computed,
			Blocks: s.blocks, Logits: last && !choice, Choice: last && choice, Draw: draw, Adapter: s.columns()}})
	}
	before := b.stats.Preempted
	running := slices.Clone(b.running)
	crowded := len(running) > b.stepper.MaxPieces() // some were admitted while others prepared: all get their turns
	if crowded {
		from := int(b.stats.Steps % int64(len(running)))
		running = slices.Concat(running[from:], running[:from])
	}
	for _, short := range []bool{true, false} {
		for _, s := range running {
			if (crowded || (len(s.tokens)-s.computed == 1) == short) && slices.Contains(b.running, s) {
				add(s)
			}
		}
	}
	for b.stats.Preempted == before && rows > 0 && len(pieces) < b.stepper.MaxPieces() {
		s := b.admit()
		if s == nil {
			break
		}
		add(s)
	}
	return pieces
}

// active returns how many of the answers that run need a piece of each step. Those whose constraints prepare do not: if
// they counted, costly ones could keep all others out.
func (b *Batch) active() (n int) {
	for _, s := range b.running {
		if !s.preparing {
			n++
		}
	}
	return n
}

// admit moves the request whose turn it is to those that run, with the blocks of its first tokens that are known. It
// returns nil if there is none, or no room: a request must find room for all of its tokens and, so that it need not
// make room again at once, for one more block of every answer.
func (b *Batch) admit() *sequence {
	s := b.waiting.next()
	if s == nil || b.active() >= b.stepper.MaxPieces() {
		return nil
	}
	s.known = prefixes(s.known, s.prefixKey(), s.tokens)
	for n, p := range s.known {
		if (n+1)*model.PoolBlock >= len(s.tokens) {
			break // the last token is always computed, for its logits
		}
		i, ok := b.blocks.find(p)
		if !ok {
			break
		}
		s.blocks = append(s.blocks, i)
	}
	if need := blocksOf(len(s.tokens)) - len(s.blocks) + len(b.running); need > b.blocks.free() && len(b.running) > 0 {
		b.free(s)
		return nil
	}
	s.computed = len(s.blocks) * model.PoolBlock
	b.waiting.pop(s)
	b.running = append(b.running, s)
	if !s.admitted {
		s.admitted = true
		s.waited = time.Since(s.begin)
		s.result.Reused = s.computed
		b.stats.Prompt += int64(len(s.tokens))
		b.stats.Reused += int64(s.computed)
	}
	return s
}

func blocksOf(tokens int) int { return (tokens + model.PoolBlock - 1) / model.PoolBlock }

// grow gives a sequence that is not planned yet the blocks for n tokens. If there are not enough, sequences that are
// not planned either make room, the ones first that were admitted last, and are computed again later. It reports false
// if s itself had to.
func (b *Batch) grow(s *sequence, n int, planned map[*sequence]bool) bool {
	for len(s.blocks) < blocksOf(n) {
		if i, ok := b.blocks.take(); ok {
			s.blocks = append(s.blocks, i)
			continue
		}
		last := len(b.running) - 1
		for planned[b.running[last]] {
			last--
		}
		victim := b.running[last]
		b.free(victim)
		b.running = slices.Delete(b.running, last, last+1)
		b.waiting.push(victim)
		b.stats.Preempted++
		if victim == s {
			return false
		}
	}
	return true
}

// step computes the pieces. A panic of the model is an error of this step.
func (b *Batch) step(pieces []piece) (next []model.Next, err error) {
	all := make([]model.Piece, len(pieces))
	for i, p := range pieces {
		all[i] = p.Piece
	}
	err = b.exclusively("a step of the model", func() (err error) {
		next, err = b.stepper.Step(all)
		return err
	})
	return next, err
}

// A chosen is what a piece's sequence gets.
type chosen struct {
	token  Token
	added  bool
	reason infer.Reason
	err    error
}

// last reports whether the piece has the last token of its sequence, so that the next one follows.
func (p piece) last() bool { return p.Logits || p.Choice }

// choose chooses the tokens that follow the pieces, each independently of the others.
func (b *Batch) choose(pieces []piece, next []model.Next, err error) []chosen {
	all := make([]chosen, len(pieces))
	if err != nil {
		return all
	}
	var group sync.WaitGroup
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, p := range pieces {
		if !p.last() {
			continue
		}
		room <- struct{}{}
		group.Go(func() {
			all[i] = p.s.choose(next[i])
			<-room
		})
	}
	group.Wait()
	return all
}

// choose chooses the token that follows. A panic, such as of a constraint, is an error of this answer.
func (s *sequence) choose(next model.Next) (c chosen) {
	defer func() {
		if r := recover(); r != nil {
			c = chosen{err: fmt.Errorf("after token %d: choosing the next one failed: %v", len(s.tokens), r)}
		}
	}()
	id, err := next.Choice, error(nil)
	if next.Logits == nil {
		s.chooser.Drew(id)
	} else {
		id, err = s.chooser.Choose(next.Logits)
	}
	if err != nil {
		return chosen{err: fmt.Errorf("after token %d: %w", len(s.tokens), err)}
	}
	c.token = Token{ID: id}
	c.token.Text, c.added, c.reason, c.err = s.chooser.Take(id)
	if s.request.Logprobs && c.added {
		c.token.Logprob, c.token.Top = logprobs(next.Logits, id, s.request.Top)
	}
	return c
}

// logprobs returns the log probability of a token, and the most probable ones, the lowest id first among equals.
func logprobs(logits []float32, id int32, top int) (of float64, most []Logprob) {
	highest := slices.Max(logits)
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x - highest))
	}
	scale := float64(highest) + math.Log(sum)
	before := func(a, b Logprob) int { return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.ID, b.ID)) }
	for i, x := range logits {
		p := Logprob{int32(i), float64(x) - scale}
		if top == 0 || len(most) == top && before(p, most[top-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(most, p, before)
		most = slices.Insert(most, at, p)
		most = most[:min(len(most), top)]
	}
	return float64(logits[id]) - scale, most
}

// take gives the sequences of a step what was computed and chosen.
func (b *Batch) take(pieces []piece, all []chosen, err error) {
	b.stats.Steps++
	if err != nil {
		b.stats.Failed++
	}
	for i, p := range pieces {
		s, c := p.s, all[i]
		if s.over { // its reader has left
			continue
		}
		if err != nil {
			s.end("", "", err)
			continue
		}
		b.stats.Computed += int64(len(p.IDs))
		s.computed += len(p.IDs)
		s.known = prefixes(s.known, s.prefixKey(), s.tokens[:s.computed])
		for n := p.At / model.PoolBlock; n < s.computed/model.PoolBlock; n++ {
			b.blocks.name(s.blocks[n], s.known[n])
		}
		if !p.last() {
			continue
		}
		if c.err != nil {
			s.end("", "", c.err)
			continue
		}
		b.add(s, c)
	}
}

// add adds a token to an answer, or ends it.
func (b *Batch) add(s *sequence, c chosen) {
	if s.result.First == 0 {
		s.result.First = time.Since(s.begin)
	}
	if !c.added {
		s.end(c.reason, c.token.Text, nil)
		return
	}
	b.stats.Generated++
	s.tokens = append(s.tokens, c.token.ID)
	s.result.IDs = append(s.result.IDs, c.token.ID)
	s.result.Total = time.Since(s.begin)
	s.unread = append(s.unread, c.token)
	s.tell()
	switch {
	case c.reason != "":
		s.end(c.reason, "", nil)
	case len(s.tokens) > b.o.Context:
		s.end(infer.Full, s.chooser.Finish(), nil)
	default:
		b.prepare(s)
	}
}
