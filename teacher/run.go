package teacher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"restyle/dataset"
	"restyle/voice"
)

const (
	// attempts is the number of attempts per row. A model is told why its first answer was refused. Builtin is told
	// nothing, but costs nothing.
	attempts        = 2
	builtinAttempts = 24

	lookAhead = 1024 // rows that may be in progress before the next decision

	// A row that the ledger refuses is asked about again and decided this many rows later. It is a number of rows, not a
	// time, so that the order of decisions stays the same, and large enough that runs rarely wait for the answer.
	deferral = 256

	refusedFinish = "refused" // finish reason of a request that the teacher refuses: asking again would not help
)

// A Run makes a dataset: it reads rows from Source until Rows of them are accepted. Its result depends only on the
// source, the settings and the teacher's answers. It does not depend on the order in which answers arrive, on the
// number of concurrent requests, or on how often the run was killed, because a row's assignment depends only on the
// row and the rows before it, and because rows are decided in an order that follows from the source's.
//
// Style, Teacher, Source, Journal and Emit must be set; so must Pending if the teacher returns [ErrPending].
type Run struct {
	Style    *voice.Style
	Teacher  Teacher
	Source   *dataset.Sources
	Journal  *Journal
	Seed     uint64
	Rows     int  // rows to make; 0 for all rows of the source
	MaxAsked int  // rows to ask about; 0 for as many as necessary
	Comments bool // also ask for remarks on lines of code, if it is Python

	// Language is the language that the code has to be in: Python (or ""), AnyLanguage, or the tag of another
	// language, as LanguageOf returns it. With NoLanguage, answers need no code.
	Language string

	// Spare is the number of rows, beyond the missing ones, that may be asked about. With 0, no answer is paid for in
	// vain. In a batch, whose rounds take hours each, a few spare rows make up for rows that will be refused.
	Spare int

	// Parse checks once more that a source answer that passed S1 is Python. It returns what is wrong with the code,
	// or "" if nothing is. An error ends the run. If Parse is nil, there is no second check.
	Parse func(code string) (wrong string, err error)

	// Judge adds its opinion to the certificate of each accepted row, and refuses answers if its MinTone is set. If
	// it is nil, there is no judge.
	Judge *Judge

	// Emit is called with each accepted row and its certificate, in the source's order. If the run ends early, rows before
	// them may be missing.
	Emit func(dataset.Rewritten, dataset.Certificate) error

	// Reject, if not nil, is called, in the source's order, with each row that was read but from which no row was
	// made.
	Reject func(dataset.Reject) error

	// Pending is called with each request that needs an answer from a batch, in the order of the rows.
	Pending func(key string, body []byte) error

	// Refuse, if not nil, is called with every refused attempt once its row is decided; attempt 0 is the source row.
	Refuse func(row, attempt int, c dataset.Check)

	// Progress, if not nil, is called after every decision, by the goroutine that runs Do.
	Progress func(Summary)
}

// Summary counts what a run has done.
type Summary struct {
	Target   int            `json:"target"`   // rows asked for, 0 for all
	Accepted int            `json:"accepted"` // rows made
	Source   int            `json:"source_rows"`
	Unfit    map[string]int `json:"unfit"`    // source rows not asked about, by check
	Refused  map[string]int `json:"refused"`  // refused answers, by check
	GivenUp  map[string]int `json:"given_up"` // rows whose last answer was refused, by check
	// First is the first refusal of each check, in the order of decisions, with its row.
	First    map[string]string `json:"first_refusals,omitempty"`
	Calls    int               `json:"calls"`             // requests answered by the teacher in this run
	Replayed int               `json:"replays"`           // requests answered from the journal
	Prose    int               `json:"prose,omitempty"`   // unfit rows that have no code
	Pending  int               `json:"pending"`           // rows that wait for a batch
	Waiting  int               `json:"waiting,omitempty"` // rows without an answer when the run ended early
	In       int               `json:"prompt_tokens"`     // of the calls
	Out      int               `json:"completion_tokens"`

	ReplayedIn  int `json:"replayed_prompt_tokens,omitempty"` // of the replays, which an earlier part of the run paid for
	ReplayedOut int `json:"replayed_completion_tokens,omitempty"`
	Estimated   int `json:"estimated,omitempty"`         // answers without a number of tokens, which is estimated
	Thoughts    int `json:"spent_on_thoughts,omitempty"` // answers that spent all of their tokens on thoughts

	JudgeFailed int    `json:"judge_failed,omitempty"` // answers without a usable opinion of the judge
	JudgeError  string `json:"judge_error,omitempty"`  // the last reason
}

// A task is one source row on its way through the teacher.
type task struct {
	turn   int // decides its order: its index among the rows asked about, or a later one if asked again
	prompt Prompt
	source []dataset.Check // verdicts of the source checks
	done   chan struct{}   // closed when the task waits for a decision

	// The outcome of the latest attempt.
	text     string // the rewrite as it would be stored
	said     said
	answer   Answer
	asked    bool // answer is not from the journal
	request  Request
	key      string
	verdicts []dataset.Check
	failed   *dataset.Check  // the check that it failed; nil if none
	refusals []dataset.Check // of earlier attempts
	err      error           // why there is no answer
	opinion  *dataset.Judge  // if the judge may refuse an answer
	unrated  bool            // err is why there is no answer of the judge
}

// An accepted row waits for the rows before it, and for the judge if there is one.
type accepted struct {
	index  int // of its row, over all sources
	row    dataset.Rewritten
	cert   dataset.Certificate
	judged chan struct{}
}

// Do runs r to its end. After an error the journal has all answers so far, and running the same run again resumes it.
func (r *Run) Do(ctx context.Context) (Summary, error) {
	if err := varied(r.Style); err != nil {
		return Summary{Target: r.Rows}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup

	d := &decider{Run: r, wg: &wg, stop: stop, ledger: newLedger(r.Style), assigner: newAssigner(r.Style, r.Seed),
		seen: map[[16]byte]bool{}}
	d.sum = Summary{
		Target: r.Rows, Unfit: map[string]int{}, Refused: map[string]int{}, GivenUp: map[string]int{},
		First: map[string]string{},
	}
	err := d.run(ctx)
	if unsuitable, ok := context.Cause(ctx).(*Unsuitable); ok && err != nil {
		err = unsuitable
	}
	stop(nil)
	wg.Wait()
	if err != nil {
		d.sum.Waiting = d.waiting()
		err = errors.Join(err, d.emitRest())
	}
	return d.summary(), err
}

// minOpeners is the number of openers that a style needs so that none opens more than a tenth of the rows, however
// few rows there are.
const minOpeners = 13

// varied returns an error if a style has too few openers.
func varied(s *voice.Style) error {
	if len(s.Openers) < minOpeners {
		return fmt.Errorf("style %s: %d different openers (first two words): "+
			"write at least %d, so that none has to open more than %.0f%% of the rows",
			s.Name, len(s.Openers), minOpeners, 100*openerShare)
	}
	return nil
}

// attempts returns the number of attempts that a row gets.
func (r *Run) attempts() int {
	if _, ok := r.Teacher.(Builtin); ok {
		return builtinAttempts
	}
	return attempts
}
