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
	"strings"
	"sync"

	"restyle/dataset"
	"restyle/internal/python"
	"restyle/teacher/openai"
	"restyle/voice"
)

const (
	attempts  = 2    // a row is asked about once, and once more with the reason named
	lookAhead = 1024 // rows that may be under way ahead of the next one to be decided

	// A row that the ledger refuses is decided so many rows later, when it has been asked about again. A number of rows
	// and not a time, so that the order of decisions stays the same; enough rows that few runs ever wait for one.
	deferral = 256

	// A request that the teacher keeps failing on costs its row, and not the run, if so many others were answered
	// meanwhile, or if it has stopped so many runs.
	otherAnswers = 20
	maxFailures  = 3

	maxRefusals = 3  // requests that the teacher may refuse before it answers any
	maxUseless  = 20 // rows that may be given up before the first is accepted

	maxFruitless = 200 // rows that may be given up one after the other

	refusedFinish = "refused" // the finish reason of a request that the teacher rejects: asking again would not help
)

// A Run makes a dataset: it takes rows from Source until Rows of them are accepted. Its result depends on the source,
// the settings and what the teacher answers, and on nothing else: not on the order in which answers arrive, not on how
// many are asked at once, not on how often it was killed. That holds because what is dealt to a row depends on its place
// alone, and because rows are accepted or refused in an order that follows from the source's.
type Run struct {
	Style    *voice.Style
	Teacher  Teacher
	Source   *dataset.Source
	Journal  *Journal
	Seed     uint64
	Rows     int  // how many rows to make; 0 for as many as the source gives
	Most     int  // how many rows to ask about; 0 for as many as it takes
	Comments bool // remarks on lines of the code too

	// Spare is how many rows more than are missing may be asked about. 0 asks for nothing in vain; with a batch, where
	// every round takes hours, a few make up for the rows that will be refused.
	Spare int

	// Parse is a second opinion on whether a source answer is Python, after our own check has passed; nil for none. It
	// returns what is wrong with the code, "" if nothing is; an error ends the run.
	Parse func(code string) (wrong string, err error)

	// Judge adds its opinion to the certificate of each accepted row; nil for none.
	Judge *Judge

	// Emit takes the accepted rows in order.
	Emit func(dataset.Rewritten, dataset.Certificate) error

	// Pending takes the requests that have no answer yet, where the teacher gathers them for a batch, in the order of
	// their rows.
	Pending func(key string, body []byte) error

	// Refuse is told of every refused attempt whose row is decided; nil for nobody.
	Refuse func(row, attempt int, c dataset.Check)

	// Progress is told after every decision; nil for nobody. It is called by the goroutine that runs Do.
	Progress func(Summary)
}

// Summary is what a run has done.
type Summary struct {
	Target   int            `json:"target"`   // rows asked for, 0 for all
	Accepted int            `json:"accepted"` // rows made
	Source   int            `json:"source_rows"`
	Unfit    map[string]int `json:"unfit"`   // source rows not asked about, by check
	Refused  map[string]int `json:"refused"` // answers refused, by check
	GivenUp  map[string]int `json:"given_up"`
	// First is the first refusal by each check, in the source's order, with its row.
	First    map[string]string `json:"first_refusals,omitempty"`
	Calls    int               `json:"calls"`   // requests answered by the teacher in this run
	Replayed int               `json:"replays"` // requests answered from the journal
	Pending  int               `json:"pending"` // rows that wait for a batch
	In       int               `json:"prompt_tokens"`
	Out      int               `json:"completion_tokens"`

	JudgeFailed int    `json:"judge_failed,omitempty"` // rows whose judge gave no usable opinion
	JudgeError  string `json:"judge_error,omitempty"`  // why, of one of them
}

// A task is one source row on its way through the teacher.
type task struct {
	turn   int // when it is decided: its place among the rows fit to be asked, later for one asked again
	prompt Prompt
	source []dataset.Check // the verdicts on the source
	done   chan struct{}   // closed when the task waits for a decision

	// The outcome of the latest attempt.
	text     string // the rewrite as it would be stored
	prose    string
	answer   Answer
	request  Request
	key      string
	verdicts []dataset.Check
	failed   *dataset.Check  // the check that refused it, nil if none did
	refusals []dataset.Check // of the attempts before
	err      error           // what ends the run, or ErrPending
}

// An accepted row on its way out: it waits for the rows before it, and for its judge if there is one.
type accepted struct {
	row    dataset.Rewritten
	cert   dataset.Certificate
	judged chan struct{}
}

// Do runs to the end. On an error, what the teacher has answered is in the journal, and the same run again goes on from
// there.
func (r *Run) Do(ctx context.Context) (Summary, error) {
	if err := varied(r.Style); err != nil {
		return Summary{Target: r.Rows}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	d := &decider{Run: r, wg: &wg, ledger: NewLedger(), seen: map[[16]byte]bool{}}
	d.sum = Summary{Target: r.Rows, Unfit: map[string]int{}, Refused: map[string]int{}, GivenUp: map[string]int{}, First: map[string]string{}}
	err := d.run(ctx)
	return d.summary(), err
}

// minOpeners is how many openers it takes for none to be on more than a tenth of the rows, whatever their number.
const minOpeners = 13

func varied(s *voice.Style) error {
	if len(s.Openers) < minOpeners {
		return fmt.Errorf("style %s has %d different openers (first two words): write at least %d, so that none has to open more than %.0f %% of the rows",
			s.Name, len(s.Openers), minOpeners, 100*openerShare)
	}
	return nil
}

// A decider is the one goroutine that decides, row after row in the order of their turns.
type decider struct {
	*Run
	wg     *sync.WaitGroup
	ledger *Ledger

	mu       sync.Mutex // guards the counts in sum that the tasks write: calls, replays, tokens and the judge's failures
	sum      Summary
	answered bool // the teacher has answered something, and not only refused; guarded too

	failures int               // rows given up since the last one was accepted
	dealt    int               // rows that were fit to be asked about
	window   []*task           // to be decided, in the order of their turns
	ahead    []*task           // started beside: spare rows, in order
	ended    bool              // the source has no more rows
	fault    error             // what made it end, if it was not its end
	seen     map[[16]byte]bool // hashes of the rows read
	held     int               // rows that cannot be decided before a batch is answered
	out      []*accepted
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
		d.window = d.window[1:]
		if err := wait(ctx, t.done); err != nil {
			return err
		}
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
	if d.held > 0 {
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
	return d.fault
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fill starts as many tasks as may be of use: never more than rows are missing, so that no answer is asked for in vain,
// and Spare beside. It always fills up before the next decision, so that what stands in the window depends on the
// decisions before and on nothing else.
func (d *decider) fill(ctx context.Context) error {
	for len(d.window) < d.limit() && (d.Rows == 0 || d.sum.Accepted+len(d.window)+d.held < d.Rows) {
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

// read starts the next row that is fit to be asked about, if the source has one.
func (d *decider) read(ctx context.Context) error {
	for !d.ended {
		row, err := d.Source.Next()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || d.Most > 0 && d.dealt == d.Most {
			d.ended = true
			if err != nil && err != io.EOF {
				d.fault = err // the rows before it are decided all the same
			}
			return nil
		}
		d.sum.Source++
		if d.repeated(row) {
			d.sum.Unfit["S4"]++
			d.refused(row.Index, 0, dataset.Check{ID: "S4", Value: "an earlier row asks and answers the same"})
			continue
		}
		t, unfit, err := d.examine(row, d.dealt)
		if err != nil {
			return err
		}
		if unfit != nil {
			d.sum.Unfit[unfit.ID]++
			d.refused(row.Index, 0, *unfit)
			continue
		}
		t.turn = d.dealt
		d.dealt++
		d.ahead = append(d.ahead, t)
		d.start(ctx, t)
		return nil
	}
	return nil
}

// repeated tells whether an earlier row of the source was the same, and remembers this one.
func (d *decider) repeated(row dataset.Row) bool {
	h := fnv.New128a()
	for _, s := range []string{row.Instruction, row.Input, row.Output} {
		fmt.Fprintf(h, "%d %s", len(s), s)
	}
	var key [16]byte
	h.Sum(key[:0])
	seen := d.seen[key]
	d.seen[key] = true
	return seen
}

// enqueue puts a task where its turn is.
func (d *decider) enqueue(t *task) {
	at, _ := slices.BinarySearchFunc(d.window, t, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.prompt.Row.Index, b.prompt.Row.Index))
	})
	d.window = slices.Insert(d.window, at, t)
}

// examine makes the checks on a source row, and deals a card to one that is fit: its nth.
func (r *Run) examine(row dataset.Row, n int) (t *task, unfit *dataset.Check, err error) {
	question := dataset.Question(row.Instruction, row.Input)
	c := newCandidate(r.Style, question, Split(row.Output), "")
	verdicts, unfit := run(sourceChecks, c)
	if unfit == nil && r.Parse != nil {
		for _, b := range c.parts.Blocks {
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
	return &task{source: verdicts, prompt: Prompt{
		Style: r.Style, Row: row, Question: question, Parts: c.parts, Comments: r.Comments,
		Card: dealCard(r.Style, r.Seed, n),
	}}, nil, nil
}

// limit is how many rows may be under way: one until the teacher has answered at all, so that a dead or a wrong one
// fails once and not a thousand times.
func (d *decider) limit() int {
	if !d.begun() && d.held == 0 {
		return 1
	}
	return lookAhead
}

// begun tells whether the teacher has answered anything in this run.
func (d *decider) begun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered
}

// start runs the task's attempts, as many as are left, until one passes the checks that look at the row alone.
func (d *decider) start(ctx context.Context, t *task) {
	t.done = make(chan struct{})
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		defer close(t.done)
		for {
			d.attempt(ctx, t)
			if t.err != nil || t.failed == nil || t.prompt.Attempt == attempts || t.answer.Finish == refusedFinish {
				return
			}
		}
	}()
}

func (d *decider) count(f func(*Summary)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.sum)
}

// attempt asks the teacher once, or finds in the journal what it answered when it was asked.
func (d *decider) attempt(ctx context.Context, t *task) {
	p := &t.prompt
	if t.failed != nil {
		t.refusals = append(t.refusals, *t.failed)
		p.Previous, p.Reason = t.answer.Text, t.failed.Value
		p.Longer = t.answer.Finish == "length"
	}
	if t.err = context.Cause(ctx); t.err != nil {
		return
	}
	p.Attempt++
	p.Seed = attemptSeed(d.Seed, p.Row.Index, p.Attempt)
	t.failed, t.verdicts = nil, nil
	t.request = d.Teacher.Request(p)
	var found bool
	if t.answer, found = d.Journal.Find(t.request.Keys); found {
		d.count(func(s *Summary) { s.Replayed++ })
	} else if t.answer, t.err = d.ask(ctx, t); t.err != nil {
		return
	}
	if t.answer.Finish != refusedFinish {
		d.mu.Lock()
		d.answered = true
		d.mu.Unlock()
	}
	d.checkAnswer(t)
}

func (d *decider) ask(ctx context.Context, t *task) (Answer, error) {
	p := &t.prompt
	a, key, err := d.Teacher.Ask(ctx, p, t.request)
	if err == nil || ctx.Err() != nil {
		return d.enter(t, a, key, err)
	}
	var refused *Refused
	var unavailable *openai.Unavailable
	switch {
	case errors.Is(err, ErrPending):
		t.key = key
		return a, err
	case errors.As(err, &refused) && d.begun():
		return d.enter(t, Answer{Finish: refusedFinish, Text: refused.Reason}, key, nil)
	case errors.As(err, &refused):
		// A teacher that has answered nothing yet may refuse for a reason that will be mended, a wrong parameter, say.
		// Such a refusal is not kept as an answer, so that the run can be tried again.
		return Answer{Finish: refusedFinish, Text: refused.Reason},
			d.Journal.Fail(FailureRecord{Row: p.Row.Index, Attempt: p.Attempt, Error: err.Error()})
	}
	alive := errors.As(err, &unavailable) && !unavailable.AllDead
	if alive {
		if e := d.Journal.Fail(FailureRecord{Row: p.Row.Index, Attempt: p.Attempt, Error: err.Error()}); e != nil {
			return a, e
		}
	}
	if alive && (unavailable.Others >= otherAnswers || d.Journal.Failures(p.Row.Index, p.Attempt) >= maxFailures) {
		// The teacher is there, but not for this request, and not for want of trying: one row must not stop all others.
		return d.enter(t, Answer{Finish: refusedFinish, Text: err.Error()}, t.request.Keys[0], nil)
	}
	return a, err
}

// enter counts an answer and puts it into the journal.
func (d *decider) enter(t *task, a Answer, key string, err error) (Answer, error) {
	if err != nil {
		return a, err
	}
	p := &t.prompt
	d.count(func(s *Summary) {
		s.Calls++
		s.In += a.PromptTokens
		s.Out += a.CompletionTokens
	})
	return a, d.Journal.Add(AnswerRecord{Key: key, Row: p.Row.Index, Attempt: p.Attempt, Answer: a})
}

// checkAnswer makes the checks that need nothing but the row and its answer.
func (d *decider) checkAnswer(t *task) {
	fail := func(id, reason string) {
		t.failed = &dataset.Check{ID: id, Value: reason}
	}
	a, p := t.answer, &t.prompt
	switch {
	case a.Finish == refusedFinish:
		fail("A1", "the teacher refuses the request: "+a.Text)
		return
	case a.Finish == "length":
		fail("A1", "it was cut off at the limit of its length: write a shorter one")
		return
	case a.Finish != "stop":
		fail("A1", fmt.Sprintf("it ended with %q instead of at its end", a.Finish))
		return
	}
	body, remarks, err := unwrap(a.Text)
	if err != nil {
		fail("A1", err.Error())
		return
	}
	if body == "" {
		fail("A1", "it is empty")
		return
	}
	parts := p.Parts
	if p.Comments && remarks != "" {
		if parts.Blocks, err = addRemarks(parts.Blocks, remarks); err != nil {
			fail("A2", err.Error())
			return
		}
	}
	text, err := parts.Join(body)
	if err != nil {
		fail("A2", err.Error())
		return
	}
	c := newCandidate(p.Style, p.Question, p.Parts, text)
	t.prose = c.prose
	if p.Comments {
		c.prose += "\n" + remarks // whatever is said beside the code is held to the same rules
	}
	verdicts, failed := run(textChecks, c)
	t.text, t.failed = text, failed
	t.verdicts = append([]dataset.Check{{ID: "A1", Pass: true, Value: "stop"}}, verdicts...)
}

// decide accepts the task's row, refuses it, or has it asked about again, which the set's diversity may call for.
func (d *decider) decide(ctx context.Context, t *task) error {
	switch {
	case errors.Is(t.err, ErrPending):
		d.held++
		return d.await(t)
	case t.err != nil:
		return t.err
	case t.failed != nil:
		d.settle(t)
		return d.useless(t)
	}
	device := t.prompt.Card.Device.Name
	if len(d.Style.Devices) < minOpeners {
		device = "" // few devices are dealt out evenly, and that is all that can be had
	}
	if refusal := d.ledger.Admit(t.prose, device); refusal != "" {
		t.failed = &dataset.Check{ID: "A10", Value: refusal}
		if t.prompt.Attempt == attempts {
			d.settle(t)
			return d.useless(t)
		}
		t.turn += deferral
		d.start(ctx, t)
		d.enqueue(t)
		return nil
	}
	if d.held > 0 {
		// Rows before this one are not there yet, so it is not decided. The ledger goes on all the same, to tell which
		// rows it will most likely refuse: they are asked about again in this batch instead of the next but one.
		d.held++
		return nil
	}
	d.accept(ctx, t)
	d.settle(t)
	return nil
}

// useless ends a run whose teacher has not made one good row out of the first few: it would refuse or fail all others too,
// and cost as much.
func (d *decider) useless(t *task) error {
	d.failures++
	if d.failures >= maxFruitless {
		return fmt.Errorf("the last %d rows were all given up, the last by %s: %s; --report and the table above tell more", d.failures, t.failed.ID, t.failed.Value)
	}
	switch refused := t.answer.Finish == refusedFinish; {
	case refused && !d.begun() && d.failures >= maxRefusals:
		return fmt.Errorf("the teacher refuses every request; the last: %s", t.answer.Text)
	case d.sum.Accepted > 0 || d.held > 0 || d.failures < maxUseless:
		return nil
	}
	return fmt.Errorf("none of the first %d answers passed the checks; the last failed %s: %s: is the model able to follow the instructions? --preview 1 shows what it is asked and says, --restart asks anew",
		d.failures, t.failed.ID, t.failed.Value)
}

// await hands a request on that waits for a batch.
func (d *decider) await(t *task) error {
	d.sum.Pending++
	return d.Pending(t.key, t.request.Body)
}

// settle counts what was refused on the way to the decision on a row.
func (d *decider) settle(t *task) {
	if t.failed != nil {
		t.refusals = append(t.refusals, *t.failed)
		d.sum.GivenUp[t.failed.ID]++
	}
	for i, c := range t.refusals {
		d.sum.Refused[c.ID]++
		d.refused(t.prompt.Row.Index, i+1, c)
	}
}

// refused tells of an attempt that came to nothing; 0 is the source row itself.
func (d *decider) refused(row, attempt int, c dataset.Check) {
	if _, ok := d.sum.First[c.ID]; !ok {
		d.sum.First[c.ID] = fmt.Sprintf("row %d: %s", row, c.Value)
	}
	if d.Refuse != nil {
		d.Refuse(row, attempt, c)
	}
}

func (d *decider) accept(ctx context.Context, t *task) {
	d.sum.Accepted++
	d.failures = 0
	p := &t.prompt
	prompt := sha256.Sum256(t.request.Body)
	a := &accepted{
		row: dataset.Rewritten{Instruction: p.Row.Instruction, Input: p.Row.Input,
			OutputOriginal: p.Row.Output, OutputPassiveAggressive: t.text},
		cert: dataset.Certificate{
			SourceName: d.Source.Name, SourceRevision: d.Source.Revision, SourceRow: p.Row.Index,
			Teacher: d.Teacher.Name(), Model: t.answer.Model,
			Style: d.Style.Name, StyleSHA256: d.Style.SHA256, PromptSHA256: hex.EncodeToString(prompt[:]),
			Seed: int64(d.Seed), Attempt: p.Attempt,
			Checks: append(append(t.source, t.verdicts...),
				dataset.Check{ID: "A10", Pass: true, Value: fmt.Sprintf("opens with %q, device %s", voice.Opener(t.prose), p.Card.Device.Name)}),
		},
		judged: make(chan struct{}),
	}
	at, _ := slices.BinarySearchFunc(d.out, a, func(a, b *accepted) int { return cmp.Compare(a.cert.SourceRow, b.cert.SourceRow) })
	d.out = slices.Insert(d.out, at, a)
	if d.Judge == nil {
		close(a.judged)
		return
	}
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		defer close(a.judged)
		opinion, spent, err := d.Judge.Opinion(ctx, d.Journal, p, t.text)
		a.cert.Judge = opinion
		d.count(func(s *Summary) {
			s.In += spent.PromptTokens
			s.Out += spent.CompletionTokens
			if err != nil {
				s.JudgeFailed++
				s.JudgeError = err.Error()
			}
		})
	}()
}

// flush emits accepted rows in the source's order: those before which nothing is undecided any more. It waits for a
// judge only where there is nothing else to do.
func (d *decider) flush(ctx context.Context) error {
	undecided := math.MaxInt
	for _, t := range d.window {
		undecided = min(undecided, t.prompt.Row.Index)
	}
	for len(d.out) > 0 && d.out[0].cert.SourceRow < undecided {
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
		if ctx.Err() != nil { // the judge may have been cut short
			return context.Cause(ctx)
		}
		if err := d.Emit(a.row, a.cert); err != nil {
			return err
		}
		d.out = d.out[1:]
	}
	return nil
}

// A Plan is what a run would ask, as far as it can be told beforehand.
type Plan struct {
	Source      int            // rows read
	Fit         int            // of them fit to be asked about
	Unfit       map[string]int // the others, by check
	First       *Prompt        // the first prompt, nil if there is none
	PromptBytes int            // of all first attempts
}

// Plan reads the source as far as the run would at least, and asks nothing.
func (r *Run) Plan(ctx context.Context) (Plan, error) {
	plan := Plan{Unfit: map[string]int{}}
	for r.Rows == 0 || plan.Fit < r.Rows {
		row, err := r.Source.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return plan, err
		}
		plan.Source++
		t, unfit, err := r.examine(row, plan.Fit)
		if err != nil {
			return plan, err
		}
		if unfit != nil {
			plan.Unfit[unfit.ID]++
			continue
		}
		t.prompt.Attempt, t.prompt.Seed = 1, attemptSeed(r.Seed, row.Index, 1)
		plan.PromptBytes += len(r.Teacher.Request(&t.prompt).Body)
		if plan.Fit++; plan.Fit == 1 {
			plan.First = &t.prompt
		}
	}
	return plan, nil
}

func attemptSeed(seed uint64, row, attempt int) uint64 {
	return mix(seed, uint64(row), uint64(attempt))
}

// summary is a copy of the counts that the caller may keep.
func (d *decider) summary() Summary {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sum
	s.Unfit, s.Refused, s.GivenUp, s.First = maps.Clone(s.Unfit), maps.Clone(s.Refused), maps.Clone(s.GivenUp), maps.Clone(s.First)
	return s
}

// addRemarks puts remarks, lines such as "L3: …" or "C2L3: …", at the ends of lines of code.
func addRemarks(blocks []string, remarks string) ([]string, error) {
	byBlock := make([]map[int]string, len(blocks))
	for _, line := range strings.Split(remarks, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		block, at, remark, ok := parseRemark(line)
		if !ok || block < 1 || block > len(blocks) {
			return nil, fmt.Errorf("the comment %q is not of the form L3: remark", line)
		}
		if byBlock[block-1] == nil {
			byBlock[block-1] = map[int]string{}
		}
		byBlock[block-1][at] = remark
	}
	out := make([]string, len(blocks))
	for i, b := range blocks {
		out[i] = b
		if len(byBlock[i]) > 0 {
			var err error
			if out[i], err = python.AddComments(b, byBlock[i]); err != nil {
				return nil, fmt.Errorf("a comment does not fit: %w", err)
			}
		}
	}
	return out, nil
}

func parseRemark(line string) (block, at int, remark string, ok bool) {
	place, remark, ok := strings.Cut(line, ":")
	remark = strings.TrimSpace(remark)
	if !ok || remark == "" {
		return 0, 0, "", false
	}
	block = 1
	if n, err := fmt.Sscanf(place, "C%dL%d", &block, &at); err == nil && n == 2 {
		return block, at, remark, true
	}
	block = 1
	n, err := fmt.Sscanf(place, "L%d", &at)
	return block, at, remark, err == nil && n == 1
}
