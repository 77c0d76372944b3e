package teacher

import (
	"context"
	"fmt"
	"sync"

	"restyle/dataset"
	"restyle/voice"
)

const (
	attempts  = 2    // a row is asked about once, and once more with the reason named
	lookAhead = 1024 // rows that may be under way ahead of the next one to be decided

	// A row that the ledger refuses is decided so many rows later, when it has been asked about again. A number of rows
	// and not a time, so that the order of decisions stays the same; enough rows that few runs ever wait for one.
	deferral = 256

	maxRefusals = 3  // requests that the teacher may refuse before it answers any
	maxUseless  = 20 // rows that may be given up before the first is accepted

	maxFruitless = 200 // rows that may be given up one after the other

	refusedFinish = "refused" // the finish reason of a request that the teacher rejects: asking again would not help
)

// A Run makes a dataset: it takes rows from Source until Rows of them are accepted. Its result depends on the source,
// the settings and what the teacher answers, and on nothing else: not on the order in which answers arrive, not on how
// many are asked at once, not on how often it was killed. That holds because what is dealt to a row depends on it and on
// the rows before it alone, and because rows are accepted or refused in an order that follows from the source's.
type Run struct {
	Style    *voice.Style
	Teacher  Teacher
	Source   *dataset.Source
	Journal  *Journal
	Seed     uint64
	Rows     int  // how many rows to make; 0 for as many as the source gives
	MaxAsked int  // how many rows to ask about; 0 for as many as it takes
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
	Calls    int               `json:"calls"`             // requests answered by the teacher in this run
	Replayed int               `json:"replays"`           // requests answered from the journal
	Pending  int               `json:"pending"`           // rows that wait for a batch
	Waiting  int               `json:"waiting,omitempty"` // rows left without an answer by a run that ended early
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
	said     said
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

	d := &decider{Run: r, wg: &wg, ledger: NewLedger(), assigner: newAssigner(r.Style, r.Seed), seen: map[[16]byte]bool{}}
	d.sum = Summary{Target: r.Rows, Unfit: map[string]int{}, Refused: map[string]int{}, GivenUp: map[string]int{}, First: map[string]string{}}
	err := d.run(ctx)
	cancel()
	wg.Wait()
	if err != nil {
		d.sum.Waiting = d.waiting()
	}
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
