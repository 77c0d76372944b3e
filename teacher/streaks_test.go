package teacher

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/teacher/openai"
)

// A paced teacher answers the rows of taskRows one after the other, each as its script says: g is an answer that is
// accepted, b one of no use, r a refusal of the request, s the same words as in every other s.
type paced struct {
	Builtin
	script string

	mu      sync.Mutex
	changed *sync.Cond
	decided int
	asked   int            // rows
	drafts  map[int]Answer // the first good answer of each row
}

func newPaced(script string) *paced {
	p := &paced{script: script, drafts: map[int]Answer{}}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// nth returns the index of a row among the fit rows of taskRows.
func nth(row int) (at int) {
	for i := range row {
		if i%17 != 5 && i%19 != 7 {
			at++
		}
	}
	return at
}

// next lets the row after the one that was decided be answered.
func (p *paced) next(Summary) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decided++
	p.changed.Broadcast()
}

func (p *paced) Ask(ctx context.Context, prompt *Prompt, r Request) (Answer, string, error) {
	at := nth(prompt.Row.Index)
	defer context.AfterFunc(ctx, p.changed.Broadcast)()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.decided < at && ctx.Err() == nil {
		p.changed.Wait()
	}
	if ctx.Err() != nil {
		return Answer{}, "", ctx.Err()
	}
	a, key, err := p.Builtin.Ask(ctx, prompt, r)
	if prompt.Attempt > 1 && p.script[at] == 's' {
		return a, key, err
	}
	if prompt.Attempt == 1 {
		p.asked++
		p.drafts[at] = a
	}
	return p.play(at, a), key, p.refuses(at, err)
}

func (p *paced) refuses(at int, err error) error {
	if p.script[at] == 'r' {
		return &Refused{"400: too long", 400}
	}
	return err
}

// play returns the answer that the script has for a row, given a good one.
func (p *paced) play(at int, a Answer) Answer {
	switch p.script[at] {
	case 'b':
		a.Finish = "content_filter"
	case 's':
		a.Text = "<rewrite>\nOh good, the same words for everybody, obviously. Seriously, it is fine. I suppose somebody " +
			"has to write this down for you again, and I do have all day.\n\n[[CODE_1]]\n</rewrite>"
	}
	return a
}

// TestStopsInARow checks each limit of answers in a row: one less than the limit, a good answer, and one less again do
// not end a run; as many as the limit end it, at exactly that row.
func TestStopsInARow(t *testing.T) {
	path, times := taskRows(t, 700), strings.Repeat
	for name, c := range map[string]struct {
		script string
		ends   bool // at the last row of the script, else the run continues after it
		batch  bool
	}{
		// A row costs two answers of no use before it is given up.
		"of no use from the start":     {script: times("b", 10), ends: true},
		"of no use":                    {script: "g" + times("b", 10), ends: true},
		"of no use, reset":             {script: times("b", 9) + "g" + times("b", 9) + "g" + times("b", 9) + "g"},
		"of no use, of use, of no use": {script: "gbgbg" + times("b", 18), ends: true},  // 15 x 7/3
		"one in three of use":          {script: times("bg", 4) + times("b", 22) + "g"}, // 45, less one
		"one in three, and then none":  {script: times("bg", 4) + times("b", 23), ends: true},
		"one in seven, and then none":  {script: times("bbbg", 4) + times("b", 50), ends: true}, // 100 of 105
		"refused from the start":       {script: "rrr", ends: true},
		"refused, and not for ever":    {script: "rrgrrgrrrg"},
		"refused, of no use":           {script: "rrb" + times("r", 15) + "g" + times("r", 19) + "g"},
		"refused, of no use, for ever": {script: "rrb" + times("r", 16), ends: true},
		"refused later":                {script: "g" + times("r", 20), ends: true},
		"refused later, reset":         {script: "g" + times("r", 19) + "g" + times("r", 19) + "g"},
		"the same":                     {script: "s" + times("s", 20), ends: true},
		"the same, reset":              {script: "s" + times("s", 19) + "g" + times("s", 19) + "g"},
		"the same, reset, the same":    {script: "s" + times("s", 19) + "g" + times("s", 20), ends: true},
		"batch from the start":         {script: times("b", 20), ends: true, batch: true},
		"batch":                        {script: "g" + times("b", 200), ends: true, batch: true},
		"batch, reset":                 {script: times("b", 19) + times("g"+times("b", 199), 2) + "g", batch: true},
		"batch, reset, for ever":       {script: "g" + times("b", 199) + "g" + times("b", 200), ends: true, batch: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPaced(c.script + "g")
			if c.ends {
				p.script = c.script + times("g", 10) // which are not asked about
			}
			var got *made
			decided := 0
			if c.batch {
				got = answeredBatch(t, path, p)
				for _, n := range got.sum.GivenUp {
					decided += n
				}
				decided += got.sum.Accepted
			} else {
				got = runOnce(t, t.Context(), path, t.TempDir(), p, 0, func(r *Run) {
					r.Progress, r.MaxAsked = p.next, len(p.script)
				})
				decided = p.asked
			}
			want := len(p.script)
			if c.ends {
				want = len(c.script)
			}
			if n := got.sum.Refused["A10"]; c.ends && n > 0 && !strings.Contains(c.script, "s") {
				t.Errorf("%d good answers are asked for again, which may reset a streak at any time", n)
			}
			if (got.err != nil) != c.ends || decided != want {
				t.Errorf("%d rows of %d, %d of them accepted, and then %v", decided, want, got.sum.Accepted, got.err)
			}
		})
	}
}

// answeredBatch runs a batch with the answers of p, in rounds, until no row waits for an answer or the run stops.
func answeredBatch(t *testing.T, path string, p *paced) *made {
	t.Helper()
	good := newPaced(strings.Repeat("g", len(p.script)))
	runOnce(t, t.Context(), path, t.TempDir(), good, 0, func(r *Run) { r.Progress, r.MaxAsked = good.next, len(p.script) })
	number := regexp.MustCompile(`above (\d+) and doubles`)
	dir := t.TempDir()
	for {
		answers := map[string]Answer{}
		got := runOnce(t, t.Context(), path, dir, &Remote{Model: "m", MaxTokens: 512}, 0, func(r *Run) {
			r.MaxAsked = len(p.script)
			r.Pending = func(key string, body []byte) error {
				row, err := strconv.Atoi(string(number.FindSubmatch(body)[1]))
				answers[key] = p.play(nth(row), good.drafts[nth(row)])
				return err
			}
		})
		if got.err != nil || got.sum.Pending == 0 {
			return got
		}
		j := openJournal(t, dir)
		for key, a := range answers {
			expect.OK(t, j.Add(AnswerRecord{Key: key, Answer: a}))
		}
		j.Close()
	}
}

// TestInFlight_HoldsBack follows how many requests may be in flight through answers of no use (b), of use (g), and of
// no use but from the journal (j).
func TestInFlight_HoldsBack(t *testing.T) {
	pool, err := openai.New(openai.Options{BaseURLs: []string{"http://localhost:1/v1"}})
	expect.OK(t, err)
	defer pool.Close()
	stopped := false
	d := &decider{Run: &Run{Teacher: &Remote{Pool: pool}}, stop: func(error) { stopped = true }}
	for _, c := range []struct {
		answers string
		held    int // 0 for no limit
		stops   bool
	}{
		{"bbbb", 0, false}, {"j", 0, false}, {"b", 15, false}, {"jb", 14, false}, {"gg", 0, false}, {"bbbb", 0, false},
		{"b", 55, false}, {"bbbbbbbb", 47, false}, {"gggggggggggggggggggg", 0, false}, {"bbbbbbbbbbbbbbbbbbb", 8, false},
		{"bbbbbb", 2, false}, {"b", 1, false}, {"b", 1, true},
	} {
		for _, a := range c.answers {
			task := &task{asked: a != 'j'}
			if a != 'g' {
				task.failed = &dataset.Check{ID: "A1"}
			}
			d.judged(task)
		}
		if d.held != c.held || stopped != c.stops {
			t.Errorf("after %s: %d may be in flight, want %d; stopped: %v", c.answers, d.held, c.held, stopped)
		}
	}
}
