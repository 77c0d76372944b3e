package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"restyle/teacher"
	"restyle/teacher/openai"
)

// The phases of a run in which a kill can find it.
const (
	beforeFirst = "before the first record"
	midWrite    = "mid-write"
	midRun      = "mid-run"
	saving      = "while saving"
	afterEnd    = "after the end"
)

// A campaign is one kind of run that is killed again and again.
type campaign struct {
	name  string
	share int // of the kills, in tenths
	rows  int
	pad   int // makes the journal's lines so long that writing one takes time
	live  bool
	kinds []kind
}

// A kind is a way to choose the moment of a kill.
type kind string

const (
	anytime    kind = "anytime"     // over the whole length of a run
	early      kind = "early"       // while the process starts
	onGrowth   kind = "on growth"   // when the journal is seen to grow
	lastAnswer kind = "last answer" // soon after the journal has the last answer that the run needs
)

var campaigns = []campaign{
	{"a server", 6, 100, 0, true, []kind{anytime, anytime, anytime, early, lastAnswer}},
	{"a server with long answers", 2, 8, 1 << 20, true, []kind{onGrowth}},
	{"the built-in rewriter", 2, 250, 0, false, []kind{anytime, anytime, early, lastAnswer}},
}

// TestKill kills real runs with SIGKILL at random moments and starts them again until they are through. They end in the
// bytes of a run that nobody killed, no answer is asked for again that is in the journal, and nothing is left over.
// RESTYLE_KILLS sets how many kills are wanted; kills that came too late to hit anything do not count.
func TestKill(t *testing.T) {
	want := 50
	if testing.Short() {
		want = 10
	}
	if s := os.Getenv("RESTYLE_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal("RESTYLE_KILLS:", err)
		}
		want = n
	}
	phases := map[string]int{}
	counted := 0
	for _, c := range campaigns {
		t.Run(c.name, func(t *testing.T) {
			found := c.run(t, max(1, want*c.share/10))
			for phase, n := range found {
				phases[phase] += n
				if phase != afterEnd {
					counted += n
				}
			}
			t.Log(found)
		})
	}
	for _, phase := range []string{beforeFirst, midWrite, midRun, saving, afterEnd} {
		fmt.Printf("%4d kills %s\n", phases[phase], phase)
		if want >= 50 && phases[phase] == 0 && phase != afterEnd {
			t.Errorf("no kill fell %s", phase)
		}
	}
	fmt.Printf("%4d kills counted\n", counted)
	if counted < want {
		t.Errorf("%d kills counted, want %d", counted, want)
	}
}

// siege is one campaign under way.
type siege struct {
	campaign
	t       *testing.T
	s       *server // nil for the built-in rewriter
	args    []string
	control string        // what an uninterrupted run makes
	length  time.Duration // and how long that takes
	needed  int           // and how many answers
	phases  map[string]int
	next    int // kind to come

	lost map[string]int // body -> kills that found it asked and not in the journal
	most int            // of them at one kill
}

func (c campaign) run(t *testing.T, kills int) map[string]int {
	g := &siege{campaign: c, t: t, phases: map[string]int{}}
	g.args = []string{"--source", tasks(t, 2*c.rows), "--rows", strconv.Itoa(c.rows)}
	if c.live {
		g.s = newServer(t, nil)
		g.s.set(func() {
			g.s.latency = func(hash uint64) time.Duration { return time.Duration(1+hash%20) * time.Millisecond }
		})
		g.s.set(func() { g.s.pad = c.pad })
		g.args = append(g.args, "--base-url", g.s.base(), "--model", "fake")
	} else {
		g.args = append(g.args, "--teacher", "builtin")
	}
	f := newFolder(t)
	cmd, _, stderr := process(t, append(g.args, "--out", f.out)...)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("the control run: %v\n%s", err, stderr)
	}
	g.length, g.control = time.Since(start), f.result(t)
	g.needed = len(answers([]byte(read(t, filepath.Join(f.out+".work", "journal.log")))))
	if g.s != nil {
		if calls, distinct := g.s.counts(); calls != g.needed || distinct != g.needed {
			t.Errorf("the control run made %d calls for %d prompts and has %d answers", calls, distinct, g.needed)
		}
	}
	for left := kills; left > 0; {
		left -= g.chain(left)
	}
	t.Logf("at most %d requests in flight at a kill", g.most)
	return g.phases
}

// chain kills one run again and again until it is through, or has been killed often enough and is let through. It
// returns how many of the kills count.
func (g *siege) chain(most int) (counted int) {
	t, f := g.t, newFolder(g.t)
	journal := filepath.Join(f.out+".work", "journal.log")
	if g.s != nil {
		g.s.mu.Lock()
		g.s.calls = 0
		clear(g.s.asked)
		g.s.mu.Unlock()
	}
	g.lost = map[string]int{}
	for {
		cmd, _, stderr := process(t, append(g.args, "--out", f.out)...)
		size, asked := fileSize(journal), g.asked()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if counted < most {
			g.await(g.kinds[g.next%len(g.kinds)], journal, size, ended)
			g.next++
			cmd.Process.Signal(syscall.SIGKILL)
		}
		err := <-ended
		if text := stderr.String(); strings.Contains(text, "checksums") || leak(text) != "" {
			t.Fatalf("after %d kills: %s", counted, text)
		}
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			phase := g.phase(journal, size, asked)
			g.phases[phase]++
			if phase != afterEnd {
				counted++
			}
			continue
		}
		if counted < most {
			g.phases[afterEnd]++ // the kill came too late
		}
		if err != nil {
			t.Fatalf("after %d kills: %v\n%s", counted, err, stderr)
		}
		break
	}
	if f.result(t) != g.control {
		t.Errorf("after %d kills the run made something else", counted)
	}
	if files := f.files(t); !slices.Equal(files, []string{"data.certificates.jsonl", "data.json"}) {
		t.Errorf("after %d kills there are %v", counted, files)
	}
	j, err := teacher.OpenJournal(f.out + ".work")
	if err != nil {
		t.Fatal(err)
	}
	if j.Damaged > 0 || j.Torn > 0 {
		t.Errorf("after %d kills the journal has %d damaged lines and %d bytes too many", counted, j.Damaged, j.Torn)
	}
	j.Close()
	g.countCalls()
	return counted
}

// countCalls compares what the server was asked with what it had to be asked: every prompt once, and once more for each
// kill that found it asked and not written down.
func (g *siege) countCalls() {
	if g.s == nil {
		return
	}
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if len(g.s.asked) != g.needed {
		g.t.Errorf("%d different prompts, the control run had %d", len(g.s.asked), g.needed)
	}
	for body, n := range g.s.asked {
		if n > 1+g.lost[body] {
			g.t.Errorf("one prompt was asked %d times, and was in flight at %d kills", n, g.lost[body])
		}
	}
}

// await returns at the moment that a kind chooses, or when the process has ended.
func (g *siege) await(k kind, journal string, size int64, ended chan error) {
	after := time.Duration(rand.Float64() * float64(g.length))
	if k == early {
		after = time.Duration(rand.IntN(60)) * time.Millisecond
	}
	var reached func() bool
	switch k {
	case onGrowth:
		lines := rand.IntN(3)
		last := size
		after, reached = 0, func() bool {
			if n := fileSize(journal); n > last {
				// Growth by more than a page a look is somebody writing; a record of the run itself is shorter.
				if lines--; lines < 0 && n-last > 4096 {
					return true
				}
				last = n
			}
			return false
		}
	case lastAnswer:
		after = time.Duration(rand.IntN(8_000)) * time.Microsecond
		reached = func() bool {
			b, _ := os.ReadFile(journal)
			return bytes.Count(b, []byte(`"answer":{`)) >= g.needed
		}
	}
	over := func() bool {
		select {
		case err := <-ended:
			ended <- err
			return true
		default:
			return false
		}
	}
	if k == lastAnswer && reached() { // there already: this process has only the rows to put together
		after, reached = time.Duration(rand.Float64()*float64(g.length)), nil
	}
	for reached != nil && !reached() {
		if over() {
			return
		}
		if k == lastAnswer {
			time.Sleep(200 * time.Microsecond)
		}
	}
	select {
	case err := <-ended:
		ended <- err
	case <-time.After(after):
	}
}

// asked is how often the server has been asked what.
func (g *siege) asked() map[string]int {
	if g.s == nil {
		return nil
	}
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return maps.Clone(g.s.asked)
}

// phase tells where a kill found the run, by what it left, and enters what it lost; size is the journal's and asked the
// server's count before the process began.
func (g *siege) phase(journal string, size int64, asked map[string]int) string {
	b, err := os.ReadFile(journal)
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	torn := len(b) > 0 && b[len(b)-1] != '\n'
	there := answers(b)
	if g.s != nil {
		g.s.settle()
		lost := 0
		for body, n := range g.asked() {
			if n > asked[body] && !there[openai.Key(g.s.base(), []byte(body))] {
				g.lost[body]++
				lost++
			}
		}
		g.most = max(g.most, lost)
	}
	switch {
	case torn:
		return midWrite
	case bytes.Contains(b, []byte(`"done":{`)):
		return afterEnd
	case len(there) == g.needed:
		return saving
	case int64(len(b)) <= size:
		return beforeFirst
	}
	return midRun
}

// answers are the keys that a journal has an answer for.
func answers(journal []byte) map[string]bool {
	keys := map[string]bool{}
	for line := range bytes.Lines(journal) {
		var record struct{ Answer *struct{ Key string } }
		if len(line) > 9 && json.Unmarshal(line[9:], &record) == nil && record.Answer != nil {
			keys[record.Answer.Key] = true
		}
	}
	return keys
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
