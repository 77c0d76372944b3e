package teacher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/internal/hostile"
)

func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := OpenJournal(dir)
	expect.OK(t, err)
	return j
}

func key(i int) string { return fmt.Sprintf("%064x", i) }

// fill writes n answers and returns the journal's bytes.
func fillJournal(t *testing.T, dir string, n int) []byte {
	t.Helper()
	j := openJournal(t, dir)
	if _, _, err := j.Start([]Setting{{"seed", "0"}}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		expect.OK(t, j.Add(AnswerRecord{Key: key(i), Row: i, Attempt: 1,
			Answer: Answer{Text: fmt.Sprintf("answer %d with a line\nbreak and <tags>", i), Finish: "stop"}}))
	}
	expect.OK(t, j.Close())
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	expect.OK(t, err)
	return b
}

// TestJournalTornAnywhere truncates the file at every byte, and checks that all whole lines remain and that records
// can be appended.
func TestJournalTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := fillJournal(t, dir, 3)
	path := filepath.Join(dir, journalName)
	for cut := range len(whole) + 1 {
		expect.OK(t, os.WriteFile(path, whole[:cut], 0o644))
		j := openJournal(t, dir)
		lines := bytes.Count(whole[:cut], []byte("\n"))
		for i := range 3 {
			a, ok := j.Find([]string{key(i)})
			if ok != (i+2 <= lines) || ok && a.Text != fmt.Sprintf("answer %d with a line\nbreak and <tags>", i) {
				t.Fatalf("cut at %d of %d: answer %d: %v %q", cut, len(whole), i, ok, a.Text)
			}
		}
		expect.OK(t, j.Add(AnswerRecord{Key: key(9), Answer: Answer{Text: "later"}}))
		j.Close()
		j = openJournal(t, dir)
		if a, ok := j.Find([]string{key(9)}); !ok || a.Text != "later" || j.Damaged != 0 || j.Torn != 0 {
			t.Fatalf("cut at %d: what was appended reads %v %q, damaged %d, torn %d", cut, ok, a.Text, j.Damaged, j.Torn)
		}
		j.Close()
	}
}

// TestJournalDamage flips one bit in every byte, and checks that the journal never returns an answer that was not
// written.
func TestJournalDamage(t *testing.T) {
	dir := t.TempDir()
	whole := fillJournal(t, dir, 3)
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		expect.OK(t, os.WriteFile(filepath.Join(dir, journalName), damaged, 0o644))
		j := openJournal(t, dir)
		found := 0
		for n := range 3 {
			if a, ok := j.Find([]string{key(n)}); ok {
				found++
				if a.Text != fmt.Sprintf("answer %d with a line\nbreak and <tags>", n) {
					t.Fatalf("bit flipped at %d: answer %d reads %q", i, n, a.Text)
				}
			}
		}
		if found < 2-1 || j.Damaged == 0 && j.Torn == 0 && !bytes.Equal(damaged, whole) && found == 3 && j.run != nil {
			// The case of a checksum's digits does not matter.
			if !bytes.EqualFold(damaged, whole) {
				t.Fatalf("bit flipped at %d: %d answers, damaged %d", i, found, j.Damaged)
			}
		}
		j.Close()
	}
}

// TestJournal_Refusals reads refusals from a journal. A refusal with a status stands. Without a status, the request
// is sent again.
func TestJournal_Refusals(t *testing.T) {
	for _, c := range []struct {
		text   string
		status int
		stands bool
	}{
		{"too long", 400, true},
		{"status 422", 0, false},
	} {
		dir := t.TempDir()
		j := openJournal(t, dir)
		add := func(a Answer) {
			expect.OK(t, j.Add(AnswerRecord{Key: key(1), Answer: a}))
		}
		add(Answer{Finish: refusedFinish, Text: c.text, Status: c.status})
		j.Close()
		j = openJournal(t, dir)
		if _, ok := j.Find([]string{key(1)}); ok != c.stands {
			t.Errorf("%q stands: %v", c.text, ok)
		}
		add(Answer{Finish: "stop", Text: "later"})
		if a, _ := j.Find([]string{key(1)}); (a.Text == "later") == c.stands {
			t.Errorf("%q, and then another answer: %q", c.text, a.Text)
		}
		j.Close()
	}
}

// TestFirstAnswerStands checks that a second answer to a request changes nothing, so that a replay repeats the run.
func TestFirstAnswerStands(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	for _, text := range []string{"first", "second"} {
		expect.OK(t, j.Add(AnswerRecord{Key: key(1), Answer: Answer{Text: text, Finish: "stop"}}))
	}
	for _, when := range []string{"at once", "after reopening"} {
		if a, ok := j.Find([]string{key(0), key(1)}); !ok || a.Text != "first" {
			t.Errorf("%s: %q", when, a.Text)
		}
		j.Close()
		j = openJournal(t, dir)
	}
	j.Close()
}

func TestJournalStart(t *testing.T) {
	dir := t.TempDir()
	settings := []Setting{{"seed", "0"}, {"model", "m"}}
	j := openJournal(t, dir)
	if _, resumed, err := j.Start(settings, []string{"a"}); resumed || err != nil {
		t.Fatal(resumed, err)
	}
	// Nothing has been answered yet, so nothing would be lost: other settings are accepted.
	if _, resumed, err := j.Start([]Setting{{"seed", "typo"}}, nil); resumed || err != nil {
		t.Fatal(resumed, err)
	}
	if _, _, err := j.Start(settings, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, j.Add(AnswerRecord{Key: key(1)}))
	if all, resumed, err := j.Start(settings, []string{"b"}); !resumed || err != nil || fmt.Sprint(all) != "[b a]" {
		t.Fatal(all, resumed, err)
	}
	j.Close()
	j = openJournal(t, dir)
	if all, resumed, err := j.Start(settings, []string{"a"}); !resumed || err != nil || len(all) != 2 {
		t.Fatalf("after reopening: %v %v %v", all, resumed, err)
	}
	_, _, err := j.Start([]Setting{{"seed", "1"}, {"judge", "x"}}, nil)
	var different *DifferentRun
	if !errors.As(err, &different) || len(different.Differences) != 3 {
		t.Fatalf("other settings: %v", err)
	}
	for _, want := range []string{`seed: it has "0", this run "1"`, "judge", `model: it has "m", this run none`,
		"finish that run"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	expect.OK(t, j.Finish(Summary{}))
	if _, resumed, err := j.Start([]Setting{{"seed", "1"}}, nil); resumed || err != nil {
		t.Errorf("a finished run blocks another: %v %v", resumed, err)
	}
	j.Close()
}

// TestJournalSteps takes every sequence of three steps of a journal, and compares each with what it must find: which
// runs it resumes, refuses or starts depends on the last run and on whether that ended or has answers.
func TestJournalSteps(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	var now struct {
		run            string // its settings, "" if there is none
		done, answered bool
		endpoints      []string
		accepted       int // of the last end
	}
	steps := "AEB" + "afrFo" // start a run, ask or end it, open the journal again
	for i, step := range "A" + expect.Sequences(steps, 3) {
		switch step {
		case 'A', 'E', 'B':
			run := map[rune]string{'A': "0", 'E': "0", 'B': "1"}[step]
			endpoints := []string{map[rune]string{'A': "a", 'E': "e", 'B': "b"}[step]}
			refused := now.run != "" && now.run != run && !now.done && now.answered
			resumed := now.run == run && !now.done && now.answered
			if now.run == run {
				endpoints = distinct(append(endpoints, now.endpoints...))
			}
			all, again, err := j.Start([]Setting{{"seed", run}}, endpoints[:1])
			if refused {
				if !errors.As(err, new(*DifferentRun)) {
					t.Errorf("step %d, %c: %v, %v; the run of before is not finished", i, step, again, err)
				}
				continue
			}
			if err != nil || again != resumed || !slices.Equal(all, endpoints) {
				t.Fatalf("step %d, %c: %v, %v, %v; want %v, %v", i, step, all, again, err, endpoints, resumed)
			}
			now.answered = now.answered && now.run == run && !now.done
			now.run, now.done, now.endpoints = run, false, endpoints
		case 'a', 'r':
			finish := map[rune]string{'a': "stop", 'r': refusedFinish}[step]
			expect.OK(t, j.Add(AnswerRecord{Key: key(i), Row: i, Answer: Answer{Finish: finish}}))
			now.answered = true
		case 'f':
			expect.OK(t, j.Finish(Summary{Accepted: i}))
			now.done, now.accepted = true, i
		case 'F':
			expect.OK(t, j.Fail(FailureRecord{Row: i}))
		case 'o':
			j.Close()
			last, err := LastRun(dir)
			if (last != nil) != now.done || err != nil || last != nil && last.Accepted != now.accepted {
				t.Errorf("step %d: the summary is %v, %v", i, last, err)
			}
			j = openJournal(t, dir)
		}
	}
	j.Close()
}

// TestJournalLock checks that a second process is refused, and that a dead one holds no lock.
func TestJournalLock(t *testing.T) {
	dir := t.TempDir()
	if os.Getenv("RESTYLE_LOCK_DIR") != "" {
		_, err := OpenJournal(os.Getenv("RESTYLE_LOCK_DIR"))
		if !errors.Is(err, disk.ErrLocked) {
			t.Fatalf("the lock did not hold: %v", err)
		}
		return
	}
	j := openJournal(t, dir)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestJournalLock$")
	cmd.Env = append(os.Environ(), "RESTYLE_LOCK_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	j.Close()
	openJournal(t, dir).Close()
}

func TestBackUp(t *testing.T) {
	dir := t.TempDir()
	if aside, err := BackUp(dir); aside != "" || err != nil {
		t.Fatal(aside, err)
	}
	whole := fillJournal(t, dir, 1)
	if aside, err := BackUp(dir); aside == "" || err != nil {
		t.Fatal(aside, err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, journalName+".bak")); err != nil || !bytes.Equal(kept, whole) {
		t.Errorf("the renamed journal differs: %v", err)
	}
}

// TestAnswerKey checks that answerKey returns the key that decode finds.
func TestAnswerKey(t *testing.T) {
	answer := func(key string, a Answer) record {
		return record{Answer: &AnswerRecord{Key: key, Row: 7, Attempt: 2, Answer: a}}
	}
	for _, c := range []struct {
		name  string
		rec   record
		quick bool // answerKey can return the key
	}{
		{"an answer", answer(key(1), Answer{Text: "x", Finish: "stop", Model: "m"}), true},
		{"an answer cut off", answer(key(1), Answer{Text: "x", Finish: "length"}), true},
		{"a text that looks like a refusal", answer(key(1), Answer{Text: `"finish":"refused"`, Finish: "stop"}), true},
		{"a text that looks like the end of the line", answer(key(1), Answer{Text: `"}}` + "\n", Finish: "stop"}), true},
		{"a refusal that stands", answer(key(1), Answer{Text: "no", Finish: refusedFinish, Status: 400}), false},
		{"a refusal that does not", answer(key(1), Answer{Text: "no", Finish: refusedFinish}), false},
		{"a key of another kind", answer("k", Answer{Text: "x", Finish: "stop"}), false},
		{"a long key of another kind", answer(key(1)+"a", Answer{Text: "x", Finish: "stop"}), false},
		{"a key with an escape", answer(`"`+key(1)[1:], Answer{Text: "x", Finish: "stop"}), false},
		{"a failure", record{Failure: &FailureRecord{Error: "no"}}, false},
		{"a run", record{Run: &runRecord{}}, false},
	} {
		line, err := encode(c.rec)
		expect.OK(t, err)
		line = bytes.TrimSuffix(line, []byte("\n"))
		got, quick := answerKey(line)
		if quick != c.quick || quick && got != c.rec.Answer.Key {
			t.Errorf("%s: %q, %t", c.name, got, quick)
		}
		for i := range line {
			line[i] ^= 1
			if _, ok := answerKey(line); ok {
				t.Fatalf("%s: byte %d flipped, and still taken", c.name, i)
			}
			line[i] ^= 1
		}
	}
}

// FuzzJournal reads any bytes as a journal, in memory: everything that it indexes can be decoded, and everything that
// is appended is found.
func FuzzJournal(f *testing.F) {
	line := func(rec record) []byte {
		b, err := encode(rec)
		expect.OK(f, err)
		return b
	}
	answer := func(n int, text string) []byte {
		return line(record{Answer: &AnswerRecord{Key: key(n), Answer: Answer{Text: text, Finish: "stop"}}})
	}
	f.Add(slices.Concat(line(record{Run: &runRecord{Settings: []Setting{{"a", "b"}}}}), answer(1, "x"),
		line(record{Done: &doneRecord{}})))
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte("\n\n\n"))
	f.Add(answer(1, "x")[:40])
	appended := answer(2, "y")
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		index := func(b []byte) *Journal {
			j := emptyJournal()
			if err := j.index(bytes.NewReader(b)); err != nil {
				t.Fatalf("a journal of any bytes must be read: %v", err)
			}
			return j
		}
		var j *Journal
		hostile.Within(t, hostile.Linear(len(b)), func() { j = index(b) })
		if int(j.size)+j.Torn != len(b) {
			t.Fatalf("%d bytes of lines and %d torn ones of %d", j.size, j.Torn, len(b))
		}
		for key, at := range j.answers {
			rec, ok := decode(bytes.TrimSuffix(b[at.offset:][:at.length], []byte("\n")))
			if !ok || rec.Answer == nil || short(rec.Answer.Key) != key {
				t.Fatalf("the answer for %x is not at %+v", key, at)
			}
		}
		more := index(append(b[:j.size:j.size], appended...))
		at, ok := more.answers[short(key(2))]
		if !ok || at.offset != j.size && !bytes.Contains(b, []byte(key(2))) || more.Torn > 0 || more.Damaged != j.Damaged {
			t.Fatalf("what was appended is lost: %v %+v", ok, more)
		}
	})
}
