package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/trainer"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// wholeState returns a hash of all that a finished run left: weights, optimizer, counters, metrics except times, and
// the result.
func wholeState(t *testing.T, out string) string {
	t.Helper()
	found, err := checkpoint.Latest(trainer.CheckpointsIn(out))
	expect.OK(t, err)
	h := sha256.New()
	for _, name := range []string{filepath.Join(found.Dir, "model.safetensors"),
		filepath.Join(found.Dir, "optimizer.safetensors"),
		filepath.Join(out, "model.safetensors"), filepath.Join(out, "config.json"), filepath.Join(out, "tokenizer.json")} {
		h.Write(readFile(t, name))
	}
	var state map[string]any
	expect.OK(t, json.Unmarshal(readFile(t, filepath.Join(found.Dir, "state.json")), &state))
	delete(state, "seconds")
	delete(state, "metrics_bytes") // times differ in their number of digits
	fmt.Fprintln(h, state)
	lines, err := report.ReadMetrics[map[string]any](filepath.Join(out, "metrics.jsonl"))
	expect.OK(t, err)
	for _, l := range lines {
		delete(l, "seconds")
		fmt.Fprintln(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// names returns the names in a run's directory, except TensorBoard's files, whose names contain process ids.
func names(t *testing.T, out string) (list []string) {
	t.Helper()
	expect.OK(t, filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "tensorboard" {
			return fs.SkipDir
		}
		list = append(list, strings.TrimPrefix(path, out))
		return err
	}))
	return list
}

// TestKills_EndAsUninterrupted kills real runs with SIGKILL, some of them again after they were resumed, and checks
// that each ends as an uninterrupted run does. Each process waits at the start of a phase when the kill comes, from the
// one after the first checkpoint to the last. Some more kills come at random moments, which the test only counts.
// RESTYLE_LONG covers all phases, and 200 random kills.
func TestKills_EndAsUninterrupted(t *testing.T) {
	every, random := 3, 3 // every third phase covers steps, evaluations and checkpoints
	switch {
	case os.Getenv("RESTYLE_LONG") != "":
		every, random = 1, 200
	case testing.Short():
		every, random = 6, 0
	}
	dir := t.TempDir()
	flags := []string{"--save-every", "3", "--eval-every", "4", "--keep", "1", "--samples", "0"}
	args := small(t, filepath.Join(dir, "control"), flags...)
	control := command(args...)
	var stderr bytes.Buffer
	control.Stderr = &stderr
	c := begin(t, control)
	c.on.Close()
	var phases []string
	first := 0 // the phase after the first checkpoint
	for p := c.next(); p != ""; p = c.next() {
		phases = append(phases, p)
		if p == string(trainer.Saving) && first == 0 {
			first = len(phases)
		}
	}
	if err := control.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	want := wholeState(t, filepath.Join(dir, "control"))
	files := names(t, filepath.Join(dir, "control"))

	r := rand.New(rand.NewPCG(1, 2))
	counted := map[string]int{}
	log := filepath.Join(dir, "log.csv")
	kill := func(what string, n, again int, later time.Duration) {
		out := filepath.Join(dir, "run")
		defer os.RemoveAll(out)
		defer os.Remove(log)
		args := append(slices.Clone(args), "--out", out, "--benchmark-log", log)
		phase, killed := killAt(t, args, n, later)
		if _, err := checkpoint.Latest(trainer.CheckpointsIn(out)); !killed || err != nil {
			if later == 0 {
				t.Fatalf("%s: killed %v in %q, and %v", what, killed, phase, err)
			}
			return // this kill proves nothing
		}
		kind, _, _ := strings.Cut(phase, " ")
		counted[what+kind]++
		resume := append(args, "--resume")
		if again > 0 {
			if _, killed := killAt(t, resume, again, later); killed {
				counted["again "+what]++
			}
		}
		if o := must(t, cli.Done, resume...); !strings.Contains(o.stderr, "continuing after step") &&
			!strings.Contains(o.stderr, "is finished") {
			t.Errorf("resumed: %v", o)
		}
		if got := wholeState(t, out); got != want {
			t.Errorf("killed in %q, the run ends as %.12s, want %.12s", phase, got, want)
		}
		if got := names(t, out); !slices.Equal(got, files) {
			t.Errorf("killed in %q, the run leaves %q, want %q", phase, got, files)
		}
		if _, err := os.Stat(log); err != nil {
			t.Errorf("killed in %q, the run has no row in the benchmark log: %v", phase, err)
		}
	}
	for n := first; n < len(phases); n += every {
		again := 0
		if (n-first)/every%3 == 0 && n+4 < len(phases) {
			again = 2 // the second phase after resuming
		}
		kill("held in ", n+1, again, 0)
	}
	kill("held in ", len(phases), 0, 0)
	for range random {
		kill("at random in ", 1+r.IntN(len(phases)), r.IntN(6)-3, time.Duration(1+r.IntN(6000))*time.Microsecond)
	}
	t.Logf("kills by phase: %v", counted)
}

// killAt starts a run and kills it when it waits in its nth phase, or that much later, while it continues without
// waiting. It returns the phase of the kill.
func killAt(t *testing.T, args []string, n int, later time.Duration) (phase string, killed bool) {
	t.Helper()
	c := begin(t, command(args...))
	for range n {
		p := c.next()
		if p == "" {
			break
		}
		phase = p
	}
	if later > 0 {
		c.on.Close()
		time.Sleep(later)
	}
	_ = c.Process.Kill()
	for p := c.next(); p != ""; p = c.next() { // what the child reported before it died
		phase = p
	}
	_ = c.Wait()
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	return phase, status.Signaled()
}
