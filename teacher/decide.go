package teacher

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"restyle/dataset"
)

// A decider is the state of the one goroutine that decides rows, in the order of their turns.
type decider struct {
	*Run
	wg     *sync.WaitGroup
	ledger *ledger

	// mu guards answered, and the counts in sum that tasks write: calls, replays, tokens, the judge's failures.
	mu       sync.Mutex
	sum      Summary
	answered bool            // the teacher has answered a request other than by a refusal
	tested   bool            // an answer has passed the checks that need only its row
	useful   int             // answers that were asked for in this run and passed them
	paid     int             // answers until the last such one
	useless  []dataset.Check // why the answers since then did not pass, in the order in which they came
	held     int             // requests that may be in flight meanwhile

	stop     context.CancelCauseFunc
	failures []dataset.Check   // why the answers that were decided since the last accepted one were refused
	refusal  *Answer           // the last refusal of a request
	assigner *assigner         // for rows whose source passed its checks
	window   []*task           // to be decided, in the order of their turns
	deferred []*task           // tasks in window that are asked again: only their turns come later than their rows
	ahead    []*task           // spare rows that have been started, in order
	ended    bool              // the source has no more rows
	fault    error             // why the source ended, if not at its end
	seen     map[[16]byte]bool // hashes of the rows read
	noAnswer error             // why the first row that waits until the run is resumed has no answer
	out      []*accepted       // in the order of the source
	rejects  []rejected        // in the order of the source
}

func (d *decider) run(ctx context.Context) error {
	for {
		if err := d.fill(ctx); err != nil {
			return err
		}
		if len(d.window) == 0 {
			break
		}
		t := d.window[0]
		if err := wait(ctx, t.done); err != nil {
			return err
		}
		d.window = d.window[1:]
		d.deferred = slices.DeleteFunc(d.deferred, func(other *task) bool { return other == t })
		if err := d.decide(ctx, t); err != nil {
			return err
		}
		if err := d.flush(ctx); err != nil {
			return err
		}
		if d.Progress != nil {
			d.Progress(d.summary())
		}
	}
	if d.sum.Pending > 0 {
		for _, t := range d.ahead {
			if err := wait(ctx, t.done); err != nil {
				return err
			}
			if errors.Is(t.err, ErrPending) {
				if err := d.await(t); err != nil {
					return err
				}
			}
		}
	}
	if err := d.flush(ctx); err != nil {
		return err
	}
	if d.refusal != nil && !d.hasAnswered() && d.noAnswer == nil && d.fault == nil && d.sum.Pending == 0 {
		return d.refusesAll()
	}
	return errors.Join(d.noAnswer, d.fault)
}

// waiting returns the number of rows that are left without an answer.
func (d *decider) waiting() int {
	answered, open := 0, d.sum.Waiting
	for _, t := range d.window {
		// Without an error, the run may have ended before the task looked into the journal.
		if _, found := d.Journal.Find(t.request.Keys); t.err == nil || found && !t.unrated {
			answered++
		} else {
			open++
		}
	}
	if d.Rows > 0 && !d.ended {
		return d.Rows - d.sum.Accepted - answered // including rows that were not read
	}
	return open
}

// wait waits until done is closed or ctx is done, whose cause it then returns.
func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fill starts tasks: at most as many as rows are missing, so that no answer is paid for in vain, and Spare more. It
// fills the window before each decision, so that the window's contents depend only on earlier decisions.
func (d *decider) fill(ctx context.Context) error {
	for len(d.window) < d.limit() && (d.Rows == 0 || d.sum.Accepted+len(d.window)+d.sum.Pending+d.sum.Waiting < d.Rows) {
		if len(d.ahead) == 0 {
			if err := d.read(ctx); err != nil {
				return err
			}
		}
		if len(d.ahead) == 0 {
			return nil
		}
		d.enqueue(d.ahead[0])
		d.ahead = d.ahead[1:]
	}
	for len(d.ahead) < d.Spare && !d.ended {
		if err := d.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read starts the next row of the source, if any, that passes the source checks.
func (d *decider) read(ctx context.Context) error {
	for !d.ended {
		row, err := d.Source.Next()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		bad, unreadable := errors.AsType[*dataset.BadRow](err)
		if unreadable && bad.Skipped {
			d.sum.Source++
			d.unfit(dataset.Row{Index: bad.Index}, dataset.Check{ID: UnreadableRow, Value: bad.Error()})
			continue
		}
		if err != nil || d.MaxAsked > 0 && d.assigner.rows == d.MaxAsked {
			d.ended = true
			if err != nil && err != io.EOF {
				d.fault = err // the rows before it are still decided
			}
			return nil
		}
		d.sum.Source++
		if d.repeated(row) {
			d.unfit(row, dataset.Check{ID: "S4", Value: "an earlier row has the same question and answer"})
			continue
		}
		turn := d.assigner.rows
		t, unfit, err := d.examine(row, d.assigner)
		if err != nil {
			return err
		}
		if unfit != nil {
			d.unfit(row, *unfit)
			continue
		}
		t.turn = turn
		d.ahead = append(d.ahead, t)
		d.start(ctx, t)
		return nil
	}
	return nil
}

// repeated reports whether an earlier row of the source was the same, and remembers this one.
func (d *decider) repeated(row dataset.Row) bool {
	h := fnv.New128a()
	for _, s := range []string{row.Instruction, row.Input, row.Output} {
		h.Write(append(strconv.AppendInt(nil, int64(len(s)), 10), ' '))
		io.WriteString(h, s)
	}
	var key [16]byte
	h.Sum(key[:0])
	seen := d.seen[key]
	d.seen[key] = true
	return seen
}

// enqueue inserts a task into the window by its turn.
func (d *decider) enqueue(t *task) {
	at, _ := slices.BinarySearchFunc(d.window, t, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.prompt.Row.Index, b.prompt.Row.Index))
	})
	d.window = slices.Insert(d.window, at, t)
}

// examine checks a source row, and makes the assignment of one that passes.
func (r *Run) examine(row dataset.Row, assigner *assigner) (t *task, unfit *dataset.Check, err error) {
	if unfit := tooLong(row.Instruction, row.Input, row.Output); unfit != nil {
		return nil, unfit, nil
	}
	question := dataset.Question(row.Instruction, row.Input)
	c := newCandidate(r.Style, question, splitIn(r.Language, row.Output), "")
	verdicts, unfit := run(sourceChecks, c)
	if unfit == nil && r.Parse != nil {
		for i, b := range c.parts.Blocks {
			if c.parts.tag(i) != Python {
				continue
			}
			said, err := r.Parse(b)
			if err != nil {
				return nil, nil, err
			}
			if said != "" {
				unfit = &dataset.Check{ID: "S1", Value: said}
			}
		}
	}
	if unfit != nil {
		return nil, unfit, nil
	}
	var assignment Assignment
	if c.parts.restated {
		assignment = assigner.restate(question, c.parts.Prose())
	} else {
		assignment = assigner.next(question)
	}
	return &task{source: verdicts, prompt: Prompt{
		Style: r.Style, Row: row, Question: question, Parts: c.parts,
		Comments: r.Comments && c.parts.isPython(), Language: r.Language,
		Assignment: assignment,
	}}, nil, nil
}

// limit returns how many rows may be in the window. That is one row until the teacher has answered, and also the
// judge if it decides, so that a dead or misconfigured one fails once and not a thousand times. After that it is a
// few rows until an answer is useful.
func (d *decider) limit() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	unjudged := d.Judge != nil && d.Judge.MinTone > 0 && !d.Judge.answered.Load()
	switch {
	case (!d.answered || unjudged) && d.sum.Pending == 0:
		return 1
	case !d.tested && d.live():
		return untested
	}
	return lookAhead
}

// hasAnswered reports whether the teacher has answered anything in this run.
func (d *decider) hasAnswered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered
}

// start makes the task's remaining attempts until one passes the checks that need only the row.
func (d *decider) start(ctx context.Context, t *task) {
	t.done = make(chan struct{})
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		defer close(t.done)
		for {
			d.attempt(ctx, t)
			if t.err != nil || t.failed == nil || t.prompt.Attempt == d.attempts() || t.answer.Finish == refusedFinish {
				return
			}
		}
	}()
}

// count changes counts in sum that tasks write.
func (d *decider) count(f func(*Summary)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.sum)
}

// decide accepts the task's row, gives it up, or, if the ledger refuses its answer, asks about it again.
func (d *decider) decide(ctx context.Context, t *task) error {
	switch {
	case errors.Is(t.err, ErrPending):
		return d.await(t)
	case onlyThis(t.err):
		d.sum.Waiting++
		if d.noAnswer == nil {
			d.noAnswer = fmt.Errorf("%s: %w", d.Source.Place(t.prompt.Row.Index), t.err)
		}
		return nil
	case t.err != nil:
		d.sum.Waiting++
		return t.err
	case t.failed != nil:
		d.settle(t)
		return d.unsuitable(t)
	}
	if refusal := d.ledger.admit(t.said); refusal != "" {
		t.failed = &dataset.Check{ID: "A10", Value: refusal}
		last := t.prompt.Attempt == d.attempts()
		if last {
			d.settle(t)
		}
		if err := d.unsuitable(t); err != nil || last {
			return err
		}
		t.turn += deferral
		d.deferred = append(d.deferred, t)
		d.start(ctx, t)
		d.enqueue(t)
		return nil
	}
	// If rows before this one wait for a batch or until the run is resumed, this decision is provisional: the run
	// that has their answers decides everything again. Because the row is accepted now, the rows that the ledger will
	// probably refuse are asked about again in this batch, not in the next but one.
	d.accept(ctx, t)
	d.settle(t)
	return nil
}

// unsuitable returns an error, after an answer was refused, if the teacher has not made one good row in a long time:
// it would most likely also fail all other rows, and cost as much.
func (d *decider) unsuitable(t *task) error {
	givenUp := t.prompt.Attempt == d.attempts() || t.answer.Finish == refusedFinish
	if t.answer.Finish == refusedFinish {
		d.refusal = &t.answer
	}
	if d.live() && !t.asked || !d.live() && !givenUp {
		return nil // answers in the journal are paid for, and the rows after this one may have better answers
	}
	d.failures = append(d.failures, *t.failed)
	most := maxFruitless
	switch {
	case d.live():
		d.mu.Lock()
		most = d.patience()
		d.mu.Unlock()
	case d.sum.Accepted == 0 && d.sum.Pending == 0:
		most = maxUseless
	}
	switch {
	case d.refusal != nil && !d.hasAnswered() && len(d.failures) >= maxRefusals:
		return d.refusesAll()
	case len(d.failures) >= most:
		return d.unsuitableFor(d.failures)
	}
	return nil
}

// await passes on a request that waits for a batch.
func (d *decider) await(t *task) error {
	d.sum.Pending++
	return d.Pending(t.key, t.request.Body)
}

// settle counts the refusals of a row that has been decided.
func (d *decider) settle(t *task) {
	if t.failed != nil {
		t.refusals = append(t.refusals, *t.failed)
		d.sum.GivenUp[t.failed.ID]++
		d.reject(t.prompt.Row, *t.failed, len(t.refusals), t.answer.Text)
	}
	for i, c := range t.refusals {
		d.sum.Refused[c.ID]++
		d.refused(t.prompt.Row.Index, i+1, c)
	}
}

// refused reports a refused attempt to Refuse; attempt 0 is the source row itself.
func (d *decider) refused(row, attempt int, c dataset.Check) {
	if _, ok := d.sum.First[c.ID]; !ok {
		if d.sum.First[c.ID] = c.Value; c.ID != UnreadableRow {
			d.sum.First[c.ID] = d.Source.Place(row) + ": " + c.Value
		}
	}
	if d.Refuse != nil {
		d.Refuse(row, attempt, c)
	}
}

// accept puts the task's row into out, and has it judged if there is a judge, whose answer may be in the
// journal.
func (d *decider) accept(ctx context.Context, t *task) {
	d.sum.Accepted++
	d.failures = nil
	p := &t.prompt
	prompt := sha256.Sum256(t.request.Body)
	source, at := d.Source.Origin(p.Row.Index)
	a := &accepted{
		index: p.Row.Index,
		row: dataset.Rewritten{Instruction: p.Row.Instruction, Input: p.Row.Input,
			OutputOriginal: p.Row.Output, OutputPassiveAggressive: t.text},
		cert: dataset.Certificate{
			SourceName: source.Name, SourceRevision: source.Revision, SourceRow: at,
			Teacher: d.Teacher.Name(), Model: t.answer.Model,
			Style: d.Style.Name, StyleSHA256: d.Style.SHA256, PromptSHA256: hex.EncodeToString(prompt[:]),
			Seed: int64(d.Seed), Attempt: p.Attempt,
			Checks: append(append(t.source, t.verdicts...),
				dataset.Check{ID: "A10", Pass: true,
					Value: fmt.Sprintf("opens with %q, device %s", t.said.opener, p.Assignment.Device.Name)}),
		},
		judged: make(chan struct{}),
	}
	place, _ := slices.BinarySearchFunc(d.out, a, func(a, b *accepted) int { return cmp.Compare(a.index, b.index) })
	d.out = slices.Insert(d.out, place, a)
	if a.cert.Judge = t.opinion; d.Judge == nil || t.opinion != nil {
		close(a.judged)
		return
	}
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		defer close(a.judged)
		var err error
		if a.cert.Judge, err = d.opinion(ctx, p, t.text); err != nil {
			d.noOpinion(err)
		}
	}()
}

// flush emits, in the source's order, the accepted rows before which every row is decided. It waits for the judge only
// if there is nothing else to do.
func (d *decider) flush(ctx context.Context) error {
	undecided := math.MaxInt
	if len(d.window) > 0 {
		undecided = d.window[0].prompt.Row.Index
	}
	for _, t := range d.deferred {
		undecided = min(undecided, t.prompt.Row.Index)
	}
	if err := d.passRejects(undecided); err != nil {
		return err
	}
	for len(d.out) > 0 && d.out[0].index < undecided {
		a := d.out[0]
		if len(d.window) > 0 && len(d.out) < lookAhead {
			select {
			case <-a.judged:
			default:
				return nil
			}
		}
		if err := wait(ctx, a.judged); err != nil {
			return err
		}
		if ctx.Err() != nil { // the judge may have been interrupted
			return context.Cause(ctx)
		}
		if err := d.Emit(a.row, a.cert); err != nil {
			d.out = nil // whatever receives them takes no more
			return err
		}
		d.out = d.out[1:]
	}
	return nil
}

// emitRest emits, after a run that ended early, the accepted rows that wait for the decision about an earlier row,
// except those that the judge was still to rate.
func (d *decider) emitRest() error {
	for _, a := range d.out {
		if d.Judge != nil && a.cert.Judge == nil {
			continue
		}
		if err := d.Emit(a.row, a.cert); err != nil {
			return err
		}
	}
	return nil
}

// summary returns a copy of the counts, which the caller may keep.
func (d *decider) summary() Summary {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sum
	s.Unfit, s.Refused = maps.Clone(s.Unfit), maps.Clone(s.Refused)
	s.GivenUp, s.First = maps.Clone(s.GivenUp), maps.Clone(s.First)
	return s
}
