package teacher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/internal/secret"
	"restyle/internal/secret/secrettest"
	"restyle/teacher/openai"
	"restyle/voice"
)

// taskRows writes a source of n different small tasks, some of which are unfit, and returns its path.
func taskRows(t testing.TB, n int) string {
	t.Helper()
	nouns := []string{"prices", "scores", "lengths", "ages", "weights", "votes", "orders", "points", "marks", "speeds"}
	type row struct {
		Instruction string `json:"instruction"`
		Input       string `json:"input"`
		Output      string `json:"output"`
	}
	var rows []row
	for i := range n {
		noun := nouns[i%len(nouns)]
		r := row{
			Instruction: fmt.Sprintf("Write a Python function that keeps the %s above %d and doubles them.", noun, i),
			Output: fmt.Sprintf("def keep_%s_%d(%s):\n    kept = []\n    for value in %s:\n        if value > %d:\n      "+
				"      kept.append(value * 2)\n    return kept", noun, i, noun, noun, i),
		}
		switch {
		case i%17 == 5:
			r.Output = "def broken(:\n    return"
		case i%19 == 7:
			r.Output = "x = 1"
		case i%3 == 1:
			r.Input = fmt.Sprintf("[%d, %d, %d]", i, i+1, i+2)
		}
		rows = append(rows, r)
	}
	b, err := json.Marshal(rows)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "tasks.json")
	expect.OK(t, os.WriteFile(path, b, 0o644))
	return path
}

// A scripted teacher always answers a request in the same way, after a random time.
type scripted struct {
	inner Builtin
	delay func() time.Duration

	mu       sync.Mutex
	asked    map[string]int // by key
	inFlight int
	most     int
	fail     func(call int) error
	calls    int
	lost     map[string]int // by key, calls during a stop: the caller may have gone before the answer came
}

func (s *scripted) Name() string              { return "scripted" }
func (s *scripted) Request(p *Prompt) Request { return s.inner.Request(p) }

func (s *scripted) Ask(ctx context.Context, p *Prompt, r Request) (Answer, string, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, "", err
	}
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	if s.asked == nil {
		s.asked, s.lost = map[string]int{}, map[string]int{}
	}
	s.asked[r.Keys[0]]++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inFlight--
		if ctx.Err() != nil {
			s.lost[r.Keys[0]]++
		}
		s.mu.Unlock()
	}()
	if s.fail != nil {
		if err := s.fail(call); err != nil {
			return Answer{}, "", err
		}
	}
	if s.delay != nil {
		select {
		case <-time.After(s.delay()):
		case <-ctx.Done():
			return Answer{}, "", ctx.Err()
		}
	}
	a, key, err := s.inner.Ask(ctx, p, r)
	// Every fault that the checks are for, on a fixed share of the requests.
	switch mix(p.Seed) % 25 {
	case 0:
		a.Text = strings.Replace(a.Text, "[[CODE_1]]", "", 1)
	case 1:
		a.Finish, a.Text = "length", a.Text[:len(a.Text)/2]
	case 2:
		a.Text = "<rewrite>\nHere's the rewritten answer.\n\n[[CODE_1]]\n</rewrite>"
	case 3:
		a.Finish = "content_filter"
	case 4:
		if p.Attempt == 1 {
			return Answer{}, key, &Refused{"400: too long", 400}
		}
	case 5:
		a.Text = "<rewrite>\nOh good, the same words for everybody, obviously. Seriously, it is fine. I suppose somebody " +
			"has to write this down for you again.\n\n[[CODE_1]]\n</rewrite>"
	}
	return a, key, err
}

type made struct {
	bytes.Buffer
	sum Summary
	err error
}

// runOnce makes rows from the source with a journal in dir, and returns what was emitted.
func runOnce(t testing.TB, ctx context.Context, path, dir string, teacher Teacher, rows int, change func(*Run)) *made {
	t.Helper()
	style, err := voice.Builtin(voice.Default)
	expect.OK(t, err)
	style.Repeat = [2]float64{20, 20} // these rows are very similar, and get two attempts each
	src, err := dataset.OpenAll(ctx, []string{path}, dataset.Options{})
	expect.OK(t, err)
	defer src.Close()
	j, err := OpenJournal(dir)
	expect.OK(t, err)
	defer j.Close()
	if _, _, err := j.Start([]Setting{{"path", path}}, nil); err != nil {
		t.Fatal(err)
	}
	m := &made{}
	r := &Run{Style: style, Teacher: teacher, Source: src, Journal: j, Seed: 3, Rows: rows,
		Pending: func(string, []byte) error { return nil },
		Emit: func(row dataset.Rewritten, c dataset.Certificate) error {
			return json.NewEncoder(m).Encode(map[string]any{"row": row, "cert": c})
		}}
	if change != nil {
		change(r)
	}
	m.sum, m.err = r.Do(ctx)
	return m
}

func jitter(most time.Duration) func() time.Duration {
	var mu sync.Mutex
	state := uint64(time.Now().UnixNano()) // random on purpose: the order of answers must not matter
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		state = mix(state)
		return time.Duration(state % uint64(most))
	}
}

func TestRunDoesNotDependOnOrder(t *testing.T) {
	path := taskRows(t, 300)
	want := runOnce(t, t.Context(), path, t.TempDir(), &scripted{}, 80, nil)
	if want.err != nil || want.sum.Accepted != 80 {
		t.Fatalf("%v, %+v", want.err, want.sum)
	}
	for _, id := range []string{"S1", "S2"} {
		if want.sum.Unfit[id] == 0 {
			t.Errorf("no source row was unfit by %s", id)
		}
	}
	for _, id := range []string{"A1", "A2", "A5", "A10"} {
		if want.sum.Refused[id] == 0 {
			t.Errorf("no answer was refused by %s: %v", id, want.sum.Refused)
		}
	}
	last := -1
	for _, line := range bytes.Split(bytes.TrimSpace(want.Bytes()), []byte("\n")) {
		var v struct{ Cert dataset.Certificate }
		if err := json.Unmarshal(line, &v); err != nil || v.Cert.SourceRow <= last {
			t.Fatalf("row %d of the source comes after row %d (%v)", v.Cert.SourceRow, last, err)
		}
		last = v.Cert.SourceRow
	}
	for i := range 4 {
		s := &scripted{delay: jitter(time.Duration(i+1) * 3 * time.Millisecond)}
		got := runOnce(t, t.Context(), path, t.TempDir(), s, 80, nil)
		if got.err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("round %d: another order of answers made another dataset (%v)", i, got.err)
		}
		if got.sum.Calls != want.sum.Calls {
			t.Errorf("round %d: %d calls, %d before", i, got.sum.Calls, want.sum.Calls)
		}
		for key, n := range s.asked {
			if n > 1 {
				t.Errorf("%.8s was asked %d times", key, n)
			}
		}
	}
}

// TestRunResumes stops a run repeatedly at different places. The result must have the same bytes, and each request
// must be sent once, plus once for each stop while it was in flight.
func TestRunResumes(t *testing.T) {
	path := taskRows(t, 300)
	want := runOnce(t, t.Context(), path, t.TempDir(), &scripted{}, 100, nil)
	dir := t.TempDir()
	s := &scripted{delay: jitter(4 * time.Millisecond)}
	for stop := 1; ; stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		after := 7 * stop
		s.mu.Lock()
		start := s.calls
		s.fail = func(call int) error {
			if call-start == after {
				cancel()
				return context.Canceled
			}
			return nil
		}
		s.mu.Unlock()
		got := runOnce(t, ctx, path, dir, s, 100, nil)
		cancel()
		if got.err == nil {
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Fatal("the resumed run made another dataset")
			}
			if stop < 3 {
				t.Errorf("only %d stops", stop)
			}
			break
		}
		if !errors.Is(got.err, context.Canceled) {
			t.Fatal(got.err)
		}
	}
	for key, n := range s.asked {
		if n > 1+s.lost[key] {
			t.Errorf("%.8s was asked %d times, and was in flight at %d stops", key, n, s.lost[key])
		}
	}
}

// TestRunEmitsAllOfAStop checks that the accepted rows of a stopped run are emitted, including rows that wait for the
// decision about a row before them.
func TestRunEmitsAllOfAStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var rows []int
	emit := func(_ dataset.Rewritten, c dataset.Certificate) error {
		rows = append(rows, c.SourceRow)
		return nil
	}
	waited := 0
	got := runOnce(t, ctx, taskRows(t, 300), t.TempDir(), &scripted{}, 100, func(r *Run) {
		r.Emit = emit
		r.Progress = func(s Summary) {
			if waited == 0 && s.Accepted >= 40 && s.Accepted > len(rows) {
				waited = s.Accepted - len(rows)
				stop()
			}
		}
	})
	if !errors.Is(got.err, context.Canceled) || waited == 0 {
		t.Fatalf("%v, %d rows waited", got.err, waited)
	}
	if len(rows) != got.sum.Accepted || !slices.IsSorted(rows) {
		t.Errorf("%d rows emitted of %d accepted, %v", len(rows), got.sum.Accepted, rows)
	}
}

// TestRunEmitsNothingUnrated stops a run whose judge has rated nothing yet: the rows that wait for it are not emitted.
func TestRunEmitsNothingUnrated(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	emitted, before := 0, -1
	got := runOnce(t, ctx, taskRows(t, 300), t.TempDir(), &scripted{}, 100, func(r *Run) {
		r.Judge = &Judge{Remote: Remote{Model: "judge"}} // without a server: it would rate in a batch
		r.Emit = func(dataset.Rewritten, dataset.Certificate) error { emitted++; return nil }
		r.Progress = func(s Summary) {
			if before < 0 && s.Accepted >= 40 && s.Accepted > emitted {
				before = emitted
				stop()
			}
		}
	})
	if !errors.Is(got.err, context.Canceled) || before < 0 || emitted != before {
		t.Errorf("%v: %d rows emitted before the stop, %d in all of %d accepted", got.err, before, emitted, got.sum.Accepted)
	}
}

// TestRun_RepeatedRows checks that only equal rows are the same, and not rows whose concatenated texts are equal.
func TestRun_RepeatedRows(t *testing.T) {
	d := &decider{seen: map[[16]byte]bool{}}
	for _, c := range []struct {
		row      dataset.Row
		repeated bool
	}{
		{dataset.Row{Instruction: "ab", Input: "c", Output: "d"}, false},
		{dataset.Row{Instruction: "a", Input: "bc", Output: "d"}, false},
		{dataset.Row{Instruction: "ab", Output: "cd"}, false},
		{dataset.Row{Instruction: "abcd"}, false},
		{dataset.Row{Index: 9, Instruction: "ab", Input: "c", Output: "d"}, true},
	} {
		if got := d.repeated(c.row); got != c.repeated {
			t.Errorf("%+v: repeated is %v", c.row, got)
		}
	}
}

func TestRunAsksADeadTeacherOnce(t *testing.T) {
	dead := errors.New("nobody there")
	s := &scripted{fail: func(int) error { return dead }}
	got := runOnce(t, t.Context(), taskRows(t, 50), t.TempDir(), s, 20, nil)
	if !errors.Is(got.err, dead) || s.calls != 1 {
		t.Errorf("%v after %d calls", got.err, s.calls)
	}
}

// An unlucky teacher has answers for only some rows.
type unlucky struct {
	*scripted
	rows map[int]bool
}

func (u unlucky) Ask(ctx context.Context, p *Prompt, r Request) (Answer, string, error) {
	if u.rows[p.Row.Index] {
		return Answer{}, "", &openai.Unavailable{Endpoint: "u", Reason: "503", Attempts: 6, Others: 1, Message: "not now"}
	}
	return u.scripted.Ask(ctx, p, r)
}

// TestRowsWait checks a run in which some rows have no answer: it continues with the others, asks about no rows in
// their place, and counts the rows that wait. When resumed, it asks only about the rows that wait.
func TestRowsWait(t *testing.T) {
	path := taskRows(t, 300)
	want := runOnce(t, t.Context(), path, t.TempDir(), &scripted{}, 40, nil)
	dir, s := t.TempDir(), &scripted{}
	got := runOnce(t, t.Context(), path, dir, unlucky{s, map[int]bool{10: true, 20: true}}, 40, nil)
	var unavailable *openai.Unavailable
	if !errors.As(got.err, &unavailable) || !strings.Contains(got.err.Error(), "row 10") {
		t.Errorf("it ends with %v", got.err)
	}
	if got.sum.Waiting < 2 || got.sum.Accepted < 30 || got.sum.Waiting+got.sum.Accepted != 40 {
		t.Errorf("%d rows wait, %d are accepted", got.sum.Waiting, got.sum.Accepted)
	}
	before := s.calls
	again := runOnce(t, t.Context(), path, dir, s, 40, nil)
	if again.err != nil || !bytes.Equal(again.Bytes(), want.Bytes()) {
		t.Errorf("the resumed run made another result: %v", again.err)
	}
	if n := s.calls - before; n < 2 || n > 10 {
		t.Errorf("the resumed run sent %d requests", n)
	}
}

// TestRowsWaitAtTheEnd ends a run at one row while others are in progress: all rows wait except the answered ones.
func TestRowsWaitAtTheEnd(t *testing.T) {
	const rows, dead, last = 40, 10, 20
	u := &ending{dead: dead, last: last}
	for row := range last + 1 {
		if row != dead && row%17 != 5 && row%19 != 7 { // the unfit ones of taskRows
			u.answers.Add(1)
		}
	}
	pirate, err := voice.Builtin("pirate") // its first drafts of these rows are all accepted
	expect.OK(t, err)
	got := runOnce(t, t.Context(), taskRows(t, 100), t.TempDir(), u, rows, func(r *Run) { r.Style = pirate })
	var unavailable *openai.Unavailable
	if !errors.As(got.err, &unavailable) {
		t.Fatalf("it ends with %v", got.err)
	}
	const before, beside = 8, 10
	if got.sum.Accepted != before || got.sum.Calls != before+beside || got.sum.Waiting != rows-before-beside {
		t.Errorf("%d rows are accepted, %d answered, %d wait", got.sum.Accepted, got.sum.Calls, got.sum.Waiting)
	}
}

// An ending teacher fails at one row, once it has answered the rows up to another; it answers no row after that.
type ending struct {
	Builtin
	dead, last int
	answers    sync.WaitGroup // still missing
}

func (e *ending) Ask(ctx context.Context, p *Prompt, r Request) (Answer, string, error) {
	switch row := p.Row.Index; {
	case row == e.dead:
		e.answers.Wait()
		return Answer{}, "", &openai.Unavailable{Endpoint: "e", Reason: "503", Attempts: 6, AllDead: true}
	case row > e.last:
		<-ctx.Done()
		return Answer{}, "", ctx.Err()
	}
	defer e.answers.Done()
	return e.Builtin.Ask(ctx, p, r)
}

func TestRunNeverAsksInVain(t *testing.T) {
	s := &scripted{delay: jitter(time.Millisecond)}
	refused, unfit := map[string]int{}, map[string]int{}
	got := runOnce(t, t.Context(), taskRows(t, 300), t.TempDir(), s, 40, func(r *Run) {
		r.Refuse = func(_, attempt int, c dataset.Check) {
			if attempt == 0 {
				unfit[c.ID]++
			} else {
				refused[c.ID]++
			}
		}
	})
	if !maps.Equal(refused, got.sum.Refused) || !maps.Equal(unfit, got.sum.Unfit) {
		t.Errorf("refused %v, unfit %v; counted %v and %v", refused, unfit, got.sum.Refused, got.sum.Unfit)
	}
	decided := got.sum.Accepted
	for _, n := range got.sum.GivenUp {
		decided += n
	}
	if got.err != nil || len(s.asked) > 2*decided || got.sum.Source > decided+got.sum.Unfit["S1"]+got.sum.Unfit["S2"] {
		t.Errorf("%d rows decided, but %d requests were asked and %d rows read: %v", decided, len(s.asked), got.sum.Source,
			got.err)
	}
}

// A teacher of endings ends its first answer to each row as given, and keeps the prompts of the first row.
type endings struct {
	Builtin
	finish string
	mu     sync.Mutex
	first  []Prompt
}

func (e *endings) Ask(ctx context.Context, p *Prompt, r Request) (Answer, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, key, err := e.Builtin.Ask(ctx, p, r)
	if p.Attempt == 1 {
		a.Finish = e.finish
	}
	if p.Row.Index == 0 {
		e.first = append(e.first, *p)
	}
	return a, key, err
}

// TestRun_SecondAttempt checks what follows a first answer, by how it ended.
func TestRun_SecondAttempt(t *testing.T) {
	for finish, c := range map[string]struct {
		reason string
		longer bool
	}{
		"stop":           {"", false},
		"length":         {cutOff, true},
		"content_filter": {"content_filter", false},
		"tool_calls":     {"tool_calls", false},
		openai.Refusal:   {"it refuses: ", false},
		"":               {`ended with ""`, false},
	} {
		e := &endings{finish: finish}
		runOnce(t, t.Context(), taskRows(t, 1), t.TempDir(), e, 0, nil)
		if c.reason == "" {
			if len(e.first) != 1 {
				t.Errorf("after a good answer, %d requests", len(e.first))
			}
			continue
		}
		if len(e.first) != 2 {
			t.Errorf("after an answer that ends with %q, %d requests", finish, len(e.first))
			continue
		}
		one, two := e.first[0], e.first[1]
		if two.Attempt != 2 || two.Seed == one.Seed || two.Previous == "" || two.Longer != c.longer ||
			!strings.Contains(two.Reason, c.reason) {
			t.Errorf("%q: attempt %d, seeds %d and %d, longer %v, after %q because of %q", finish, two.Attempt, one.Seed,
				two.Seed, two.Longer, two.Previous, two.Reason)
		}
	}
}

func TestRunEndsWithItsSource(t *testing.T) {
	got := runOnce(t, t.Context(), taskRows(t, 30), t.TempDir(), &scripted{}, 1000, nil)
	if got.err != nil || got.sum.Source != 30 || got.sum.Accepted == 0 {
		t.Errorf("%v %+v", got.err, got.sum)
	}
	all := runOnce(t, t.Context(), taskRows(t, 30), t.TempDir(), &scripted{}, 0, nil)
	if all.err != nil || all.sum.Accepted != got.sum.Accepted {
		t.Errorf("rows 0 means all: %v %+v", all.err, all.sum)
	}
}

// TestRunKeepsCode checks that every accepted row has the source's code, whatever the teacher did.
func TestRunKeepsCode(t *testing.T) {
	runOnce(t, t.Context(), taskRows(t, 200), t.TempDir(), &scripted{}, 80, func(r *Run) {
		r.Comments = true
		r.Emit = func(row dataset.Rewritten, c dataset.Certificate) error {
			for _, k := range Audit(r.Style, Python, row) {
				if !k.Pass {
					t.Errorf("row %d fails %s: %s", c.SourceRow, k.ID, k.Value)
				}
			}
			return nil
		}
	})
}

// TestIngestAnotherFile checks the error for a file without a batch result, which must not mention Go's types.
func TestIngestAnotherFile(t *testing.T) {
	const end = "): give the file that the batch server wrote"
	for text, want := range map[string]string{
		"":                  "no line is a batch result (the file is empty" + end,
		"\n\n":              "(the file is empty" + end,
		"[\n{\"a\":1}]\n":   "(line 1: not a batch result: ",
		`["a"]`:             "(line 1: its custom_id is missing",
		`{"custom_id":7}`:   "(line 1: its custom_id is missing",
		`{"custom_id":"x"}`: "(line 1: its custom_id is missing",
		"# Title\n\ntext":   "(line 1: not a batch result: invalid character '#'",
	} {
		j := openJournal(t, t.TempDir())
		in, err := IngestBatch(strings.NewReader(text), j, secret.Secret{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "struct") || in.Answers != 0 {
			t.Errorf("%q: %+v, %v, want %q", text, in, err, want)
		}
		// One result among such lines is read.
		one := text + "\n" + `{"custom_id":"` + key(9) + `","error":"late"}`
		if in, err := IngestBatch(strings.NewReader(one), j, secret.Secret{}); err != nil || in.Failed != 1 {
			t.Errorf("%q and a result: %+v, %v", text, in, err)
		}
		j.Close()
	}
}

// TestIngest_TwoResults reads two results for one request, in both orders: a complete answer is preferred to any
// other, and among equals the one that sorts first.
func TestIngest_TwoResults(t *testing.T) {
	result := func(text, finish string) string {
		return `{"custom_id":"` + key(1) + `","response":{"body":{"choices":[{"message":{"content":"` + text +
			`"},"finish_reason":"` + finish + `"}]}}}` + "\n"
	}
	for _, c := range []struct{ taken, other string }{
		{result("z", "stop"), result("a", "length")}, {result("a", "stop"), result("z", "stop")},
		{result("a", "length"), result("z", "length")},
	} {
		want, a, _, err := parseResult([]byte(c.taken))
		expect.OK(t, err)
		for _, lines := range []string{c.taken + c.other, c.other + c.taken} {
			answers, order, in, err := readResults(strings.NewReader(lines), secret.Secret{})
			if err != nil || len(order) != 1 || in.Duplicates != 1 || answers[want].Text != a.Text ||
				answers[want].Finish != a.Finish {
				t.Errorf("%s: %+v, %v", lines, answers, err)
			}
		}
	}
}

// TestReadResults_KeyInAnyField checks that no part of a result that echoes the key is kept, whichever has it.
func TestReadResults_KeyInAnyField(t *testing.T) {
	for field := range 4 {
		parts := []string{"x", "stop", "m", key(1)} // text, finish, model, and no key
		if field < 3 {
			parts[field] = "not " + secrettest.Key
		}
		line := fmt.Sprintf(`{"custom_id":%q,"response":{"body":{"choices":[{"message":{"content":%q},`+
			`"finish_reason":%q}],"model":%q}}}`, key(1), parts[0], parts[1], parts[2])
		answers, order, _, err := readResults(strings.NewReader(line), secret.New(secrettest.Key))
		if err != nil || len(order) != 1 {
			t.Fatalf("%s: %v", line, err)
		}
		a := answers[order[0]]
		if refused := a.Finish == openai.KeyInAnswer; refused != (field < 3) || field == 3 && a.Model != "m" ||
			secrettest.Find(a.Text+a.Finish+a.Model) != "" {
			t.Errorf("the key is in part %d: %+v", field, a)
		}
	}
}

func FuzzIngestBatch(f *testing.F) {
	f.Add([]byte(`{"custom_id":"` + key(1) + `","response":{"status_code":200,` +
		`"body":{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}}}`))
	f.Add([]byte("{}\n[]\nnull\n"))
	f.Add([]byte(`{"custom_id":"` + key(2) + `","response":{"status_code":400,"body":{"error":{"message":"no"}}}}` + "\n" +
		`{"custom_id":"` + key(3) + `","error":"late"}`))
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var answers map[string]Answer
		var order []string
		var in Ingested
		var err error
		hostile.Within(t, hostile.Linear(6*len(b)), func() { // a line of two bytes is decoded by itself, and forgotten
			answers, order, in, err = readResults(bytes.NewReader(b), secret.Secret{})
		})
		expect.OK(t, err)
		lines := bytes.Count(b, []byte("\n")) + 1
		if len(order) != len(answers) || len(answers)+in.Duplicates+in.Failed+in.Unreadable > lines {
			t.Fatalf("%d answers and %+v out of %d lines", len(answers), in, lines)
		}
		for _, key := range order {
			a, ok := answers[key]
			if !ok || a.Finish == "" || len(key) != 64 || !utf8.ValidString(a.Text) {
				t.Fatalf("%q: %+v was taken", key, a)
			}
		}
	})
}
