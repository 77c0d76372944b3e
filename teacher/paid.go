package teacher

import (
	"fmt"
	"net/http"
	"strings"

	"restyle/dataset"
)

const (
	maxRefusals = 3 // requests that the teacher may refuse before it answers any
	suspicious  = 5 // answers in a row that are of no use before fewer are requested at once
	untested    = 8 // rows that may be in progress before an answer is of use

	// Answers in a row that may be of no use: maxUseless at first, and then usualUseless times the average number of
	// answers per answer of use, but never fewer than maxUseless or more than mostUseless. If a teacher continues as
	// before, chance makes one answer in e^usualUseless the last of that many, and more answers only if mostUseless
	// is the limit.
	maxUseless   = 20
	mostUseless  = 100
	usualUseless = 15 // times the answers per answer of use

	// Rows that may be given up in a row if no answer is paid for while the run decides: in a batch, and with the
	// built-in rewriter.
	maxFruitless = 200
)

// Unsuitable is the error of a run that stopped because answer after answer was of no use.
type Unsuitable struct {
	message string
	Cut     bool // most of the answers were cut off by Remote.MaxTokens
}

func (e *Unsuitable) Error() string { return e.message }

// unsuitableFor returns the error for answers that were refused in a row.
func (d *decider) unsuitableFor(failures []dataset.Check) error {
	counts := map[string]int{}
	var most dataset.Check
	for _, f := range failures {
		if counts[f.ID]++; counts[f.ID] >= counts[most.ID] {
			most = f
		}
	}
	return &Unsuitable{fmt.Sprintf("none of the last %d answers passed the checks; %d failed %s: %s", len(failures),
		counts[most.ID], most.ID, most.Value), most.Value == onlyThoughts || most.Value == cutOff}
}

// unreadable reports whether the reader, not the server, refused the answer.
func (a Answer) unreadable() bool { return a.Finish == refusedFinish && a.Status == http.StatusOK }

// refusesAll returns the error of a run without any answer that can be read.
func (d *decider) refusesAll() error {
	if d.refusal.unreadable() {
		return fmt.Errorf("no answer of the teacher can be read, the last: %s", d.refusal.Text)
	}
	return fmt.Errorf("the teacher refuses every request, the last with: %s", d.refusal.Text)
}

// live reports whether the run pays for answers while it decides.
func (d *decider) live() bool {
	switch t := d.Teacher.(type) {
	case Builtin:
		return false
	case *Remote:
		return t.Pool != nil
	}
	return true
}

// Why an answer that was cut off is refused.
const (
	onlyThoughts = "it spent all of its tokens on thoughts: think less, and answer"
	cutOff       = "it was cut off at the limit of its length: write a shorter one"
)

// spentOnThoughts reports whether an answer was truncated before it had any text but thoughts.
func spentOnThoughts(a Answer) bool {
	return a.Finish == "length" && (strings.TrimSpace(a.Text) == "" || thinking(a.Text))
}

// judged records whether an answer that was asked for in this run is of use. It stops the run after too many that are
// not, in the order in which they arrive, so that the requests in flight do not add to them.
func (d *decider) judged(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.failed == nil {
		d.tested = true
	} else if t.failed.Value == onlyThoughts {
		d.sum.Thoughts++
	}
	switch {
	case !t.asked || !d.live():
	case t.failed == nil:
		d.useful++
		d.paid += len(d.useless) + 1
		d.useless = nil
	default:
		d.useless = append(d.useless, *t.failed)
		if len(d.useless) >= d.patience() {
			d.stop(d.unsuitableFor(d.useless))
		}
	}
	d.hold()
}

// patience returns how many answers in a row may be of no use, which depends on how many were of use before. mu is
// held.
func (d *decider) patience() int {
	usual := usualUseless * d.paid / max(1, d.useful)
	return max(maxUseless, min(usual, mostUseless))
}

// hold limits the requests in flight to the number of answers that may be of no use, once several answers were.
func (d *decider) hold() {
	held := 0
	if len(d.useless) >= suspicious {
		held = max(1, d.patience()-len(d.useless))
	}
	if remote, ok := d.Teacher.(*Remote); ok && remote.Pool != nil && held != d.held {
		d.held = held
		remote.Pool.Hold(held)
	}
}

// spend counts the tokens of an answer to a request, and estimates them if the server did not report them. An answer
// from the journal was paid for by an earlier part of the run.
func (d *decider) spend(request []byte, a Answer, replayed bool) {
	if a.Finish == refusedFinish {
		return
	}
	in, out := a.PromptTokens, a.CompletionTokens
	estimated := in+out == 0
	if estimated {
		in, out = len(request)/bytesPerToken, (len(a.Text)+a.Thoughts)/bytesPerToken
	}
	d.count(func(s *Summary) {
		if estimated {
			s.Estimated++
		}
		if replayed {
			s.ReplayedIn, s.ReplayedOut = s.ReplayedIn+in, s.ReplayedOut+out
		} else {
			s.In, s.Out = s.In+in, s.Out+out
		}
	})
}

const bytesPerToken = 4 // a token of English text or code has about as many
