package main

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/teacher"
	"restyle/teacher/openai"
)

// A point is a moment at which a run is killed. The test makes each moment and does not wait for it: a server delays
// its answers until the process is dead, or the kernel ends the process at a byte of a file.
type point struct {
	name  string
	call  int     // the server's call, from 1, from which on it no longer answers
	half  bool    // but to that call it sends the start of its answer
	size  int64   // maximum size of a file, which the journal reaches first
	more  int64   // maximum bytes of the journal after its first record, which is the run's
	share float64 // of the larger result file that may be written
}

var points = []point{
	{name: "in the journal's first record", size: 200}, // larger than a lock file, which has the host's name
	{name: "at the first byte of an answer's record", more: 1},
	{name: "in an answer's record", more: 200},
	{name: "before the first answer", call: 1},
	{name: "with requests in flight", call: 30},
	{name: "in the middle of an answer", call: 40, half: true},
	{name: "while the result is written", share: 0.85},
	{name: "at the last byte of the result", share: 1},
}

// TestKill_AtEveryPoint kills a run at every point, one after another in one directory, and then lets it finish. The
// result must have the bytes of an undisturbed run, no answer in the journal may be requested again, and no file may be
// left over. Then it kills runs at random moments, which are counted and need not hit anything; with RESTYLE_LONG, 200
// times.
func TestKill_AtEveryPoint(t *testing.T) {
	random := 4
	if os.Getenv("RESTYLE_LONG") != "" {
		random = 200
	}
	for _, live := range []bool{true, false} {
		name := "the built-in rewriter"
		if live {
			name = "a server"
		}
		t.Run(name, func(t *testing.T) {
			k := newKiller(t, live)
			r := k.begin()
			for _, p := range points {
				if k.s == nil && p.call > 0 || runtime.GOOS != "linux" && p.call == 0 {
					continue // no server that could delay; no dieAt
				}
				k.killAt(r, p)
			}
			k.finish(r)
			hits := 0
			for range random / 2 {
				r := k.begin()
				for range 2 {
					if k.killSometime(r) {
						hits++
					}
				}
				k.finish(r)
			}
			t.Logf("%d of %d random kills hit the running process", hits, random/2*2)
		})
	}
}

// A killer kills runs of one kind.
type killer struct {
	t       *testing.T
	s       *server // nil for the built-in rewriter
	args    []string
	control string        // what an undisturbed run makes
	larger  int64         // size of the larger of its two files
	first   int64         // size of its journal's first record
	length  time.Duration // its duration
	needed  int           // its number of answers
	files   []string      // that it leaves
}

// A killedRun is one run, which is killed and started again in its directory.
type killedRun struct {
	folder
	kills int
	lost  map[string]int // by body: kills after it was requested and before the journal had its answer
}

func (r *killedRun) journal() string { return filepath.Join(r.out+".work", "journal.log") }

func newKiller(t *testing.T, live bool) *killer {
	rows := 100
	if !live {
		rows = 30 // with more, refused answers make the journal larger than the result
	}
	k := &killer{t: t, args: []string{"--rows", strconv.Itoa(rows)}, files: finished}
	if live {
		k.s = newServer(t, nil)
		k.s.set(func() {
			k.s.latency = func(hash uint64) time.Duration { return time.Duration(1+hash%20) * time.Millisecond }
		})
		k.args = append(k.args, "--source", tasks(t, 2*rows), "--base-url", k.s.base(), "--model", "fake")
	} else {
		k.args = append(k.args, "--teacher", "builtin")
	}
	r := k.begin()
	start := time.Now()
	k.complete(r)
	k.length, k.control = time.Since(start), r.result(t)
	k.larger = max(fileSize(t, r.out), fileSize(t, dataset.CertificatePath(r.out)))
	journal := expect.Read(t, r.journal())
	k.first, k.needed = int64(strings.IndexByte(journal, '\n')+1), len(answers([]byte(journal)))
	if k.s != nil {
		if calls, distinct := k.s.counts(); calls != k.needed || distinct != k.needed {
			t.Fatalf("the control run made %d calls for %d prompts and has %d answers", calls, distinct, k.needed)
		}
	}
	if size := fileSize(t, r.journal()); float64(size) > 0.8*float64(k.larger) {
		t.Fatalf("the journal has %d bytes, the larger file of the result %d: nothing can be cut off there alone", size,
			k.larger)
	}
	return k
}

// begin makes the directory of a run, and resets the server's counts.
func (k *killer) begin() *killedRun {
	if k.s != nil {
		k.s.set(func() {
			k.s.calls = 0
			clear(k.s.asked)
		})
	}
	return &killedRun{folder: newFolder(k.t), lost: map[string]int{}}
}

// killAt starts the run and kills it at a point.
func (k *killer) killAt(r *killedRun, p point) {
	t, asked := k.t, k.asked()
	cmd, stdout, stderr := process(t, append(k.args, "--out", r.out)...)
	limit := p.size + int64(p.share*float64(k.larger-1))
	if p.more > 0 {
		limit = k.first + p.more
	}
	if limit > 0 {
		cmd.Env = append(cmd.Env, growth+"="+strconv.FormatInt(limit, 10))
	}
	reached := make(chan struct{})
	if p.call > 0 {
		var calls atomic.Int64
		k.s.set(func() {
			k.s.fault = func(c call) bool {
				n := int(calls.Add(1))
				if n < p.call {
					return false
				}
				if n == p.call && p.half {
					begun(c, 4)
				}
				if n == p.call {
					close(reached)
				}
				hang(c)
				return true
			}
		})
	}
	expect.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	select {
	case <-reached:
		cmd.Process.Signal(syscall.SIGKILL)
		<-ended
	case <-ended:
	}
	want := syscall.SIGKILL
	if p.call == 0 {
		want = syscall.SIGXFSZ
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != want {
		t.Fatalf("%s: it ended with %v instead of %v\n%s%s", p.name, cmd.ProcessState, want, stdout, stderr)
	}
	b := expect.Read(t, r.journal())
	if torn := !strings.HasSuffix(b, "\n"); p.size+p.more > 0 && (!torn || int64(len(b)) != limit) {
		t.Errorf("%s: the journal has %d bytes, want %d and half a line at its end", p.name, len(b), limit)
	}
	k.account(r, asked, stderr.String())
	if p.share > 0 && int64(len(b)) >= limit {
		t.Errorf("%s: it died at the journal's %d bytes", p.name, len(b))
	}
	if p.share == 1 && len(answers([]byte(b))) != k.needed {
		t.Errorf("%s: %d answers of %d are there", p.name, len(answers([]byte(b))), k.needed)
	}
	if k.s != nil {
		k.s.set(func() { k.s.fault = nil })
	}
}

// killSometime starts the run and kills it at a random moment. It reports whether the run was still running.
func (k *killer) killSometime(r *killedRun) (hit bool) {
	asked := k.asked()
	cmd, _, stderr := process(k.t, append(k.args, "--out", r.out)...)
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	kill := time.AfterFunc(time.Duration(rand.Float64()*float64(k.length)), func() { cmd.Process.Signal(syscall.SIGKILL) })
	err := cmd.Wait()
	kill.Stop()
	hit = cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
	if !hit && err != nil {
		k.t.Fatalf("after %d kills: %v\n%s", r.kills, err, stderr)
	}
	if hit {
		k.account(r, asked, stderr.String())
	}
	return hit
}

// account records what a kill has cost and checks what the process printed. asked is what the server had been asked
// before that process.
func (k *killer) account(r *killedRun, asked map[string]int, stderr string) {
	if strings.Contains(stderr, "checksums") || leak(stderr) != "" {
		k.t.Errorf("after %d kills: %s", r.kills, stderr)
	}
	r.kills++
	if k.s == nil {
		return
	}
	k.s.outlive(k.t)
	journal, err := os.ReadFile(r.journal())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		k.t.Fatal(err)
	}
	there := answers(journal)
	for body, n := range k.asked() {
		if n > asked[body] && !there[openai.Key(k.s.base(), []byte(body))] {
			r.lost[body]++
		}
	}
}

// complete runs gen to its end.
func (k *killer) complete(r *killedRun) {
	cmd, _, stderr := process(k.t, append(k.args, "--out", r.out)...)
	if err := cmd.Run(); err != nil {
		k.t.Fatalf("after %d kills: %v\n%s", r.kills, err, stderr)
	}
}

// finish runs gen to its end and compares the result with the undisturbed run's.
func (k *killer) finish(r *killedRun) {
	t := k.t
	k.complete(r)
	if r.result(t) != k.control {
		t.Errorf("after %d kills the result differs", r.kills)
	}
	if files := r.files(t); !slices.Equal(files, k.files) {
		t.Errorf("after %d kills there are %v", r.kills, files)
	}
	j, err := teacher.OpenJournal(r.out + ".work")
	expect.OK(t, err)
	if j.Damaged > 0 || j.Torn > 0 {
		t.Errorf("after %d kills the journal has %d damaged lines and %d bytes too many", r.kills, j.Damaged, j.Torn)
	}
	j.Close()
	if k.s == nil {
		return
	}
	// Every prompt is sent once, and once more for each kill after it was sent and before its answer was recorded.
	asked := k.asked()
	if len(asked) != k.needed {
		t.Errorf("%d different prompts, the control run had %d", len(asked), k.needed)
	}
	for body, n := range asked {
		if n > 1+r.lost[body] {
			t.Errorf("one prompt was asked %d times, and was in flight at %d kills", n, r.lost[body])
		}
	}
}

// asked returns how often the server got each body.
func (k *killer) asked() map[string]int {
	if k.s == nil {
		return nil
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return maps.Clone(k.s.asked)
}

// answers returns the keys of the answers in a journal.
func answers(journal []byte) map[string]bool {
	keys := map[string]bool{}
	for line := range strings.Lines(string(journal)) {
		var record struct{ Answer *struct{ Key string } }
		if len(line) > 9 && json.Unmarshal([]byte(line[9:]), &record) == nil && record.Answer != nil {
			keys[record.Answer.Key] = true
		}
	}
	return keys
}

func fileSize(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	expect.OK(t, err)
	return info.Size()
}
