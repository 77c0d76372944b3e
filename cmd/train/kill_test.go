package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
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
	"restyle/trainer"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// waitFor reads phases until one begins with a text, or there are no more.
func waitFor(phases io.Reader, phase string) bool {
	for lines := bufio.NewScanner(phases); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), phase) {
			return true
		}
	}
	return false
}

// wholeState is a hash of all that a finished run left: weights, optimiser, counters, metrics but for times, and the result.
func wholeState(t *testing.T, out string) string {
	t.Helper()
	found, err := checkpoint.Latest(trainer.CheckpointsIn(out))
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, name := range []string{filepath.Join(found.Dir, "model.safetensors"), filepath.Join(found.Dir, "optimizer.safetensors"),
		filepath.Join(out, "model.safetensors"), filepath.Join(out, "config.json"), filepath.Join(out, "tokenizer.json")} {
		h.Write(readFile(t, name))
	}
	var state map[string]any
	if err := json.Unmarshal(readFile(t, filepath.Join(found.Dir, "state.json")), &state); err != nil {
		t.Fatal(err)
	}
	delete(state, "seconds")
	delete(state, "metrics_bytes") // times have digits
	fmt.Fprintln(h, state)
	lines, err := report.ReadMetrics[map[string]any](filepath.Join(out, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		delete(l, "seconds")
		fmt.Fprintln(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// names are all that is in a run's directory, but for TensorBoard's files, which have numbers of processes.
func names(t *testing.T, out string) (list []string) {
	t.Helper()
	if err := filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "tensorboard" {
			return fs.SkipDir
		}
		list = append(list, strings.TrimPrefix(path, out))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestKills kills real runs with SIGKILL at random moments, some of them again after they were resumed, and has each end as the
// run that nothing happened to. Kills before the first checkpoint and after the end prove nothing and are not counted. How many
// fell into which phase is printed. RESTYLE_LONG has 200 of them.
func TestKills(t *testing.T) {
	kills := 24
	switch {
	case os.Getenv("RESTYLE_LONG") != "":
		kills = 200
	case testing.Short():
		kills = 6
	}
	dir := t.TempDir()
	flags := []string{"--save-every", "3", "--eval-every", "4", "--keep", "1"}
	args := small(t, filepath.Join(dir, "control"), flags...)
	control := command(args...)
	var stderr bytes.Buffer
	control.Stderr = &stderr
	phases := begin(t, control)
	moments := 0
	for lines := bufio.NewScanner(phases); lines.Scan(); {
		moments++
	}
	if err := control.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	want := wholeState(t, filepath.Join(dir, "control"))
	files := names(t, filepath.Join(dir, "control"))

	r := rand.New(rand.NewPCG(1, 2))
	counted := map[string]int{}
	again := 0
	for n, tries := 0, 0; n < kills; tries++ {
		if tries > 6*kills {
			t.Fatalf("only %d of %d runs could be killed on the way", n, tries)
		}
		out := filepath.Join(dir, fmt.Sprint("run", tries))
		log := filepath.Join(dir, "log.csv")
		args := append(slices.Clone(args), "--out", out, "--benchmark-log", log)
		phase, killed := killAt(t, args, 1+r.IntN(moments), time.Duration(r.IntN(6000))*time.Microsecond)
		if _, err := checkpoint.Latest(trainer.CheckpointsIn(out)); !killed || err != nil {
			os.RemoveAll(out)
			continue
		}
		n++
		counted[phase]++
		resume := append(args, "--resume")
		if r.IntN(3) == 0 {
			if _, killed := killAt(t, resume, 1+r.IntN(moments), time.Duration(r.IntN(6000))*time.Microsecond); killed {
				again++
			}
		}
		if o := must(t, cli.Done, resume...); !strings.Contains(o.stderr, "going on after step") && !strings.Contains(o.stderr, "is finished") {
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
		os.Remove(log)
		os.RemoveAll(out)
	}
	t.Logf("%d kills, %d of them twice, by phase: %v", kills, again, counted)
}

// killAt starts a run and kills it a moment after it told of its nth phase. It says in which it was, without numbers.
func killAt(t *testing.T, args []string, n int, later time.Duration) (phase string, killed bool) {
	t.Helper()
	c := command(args...)
	phases := begin(t, c)
	lines := bufio.NewScanner(phases)
	for range n {
		if !lines.Scan() {
			break
		}
		phase = lines.Text()
	}
	time.Sleep(later)
	_ = c.Process.Kill()
	for lines.Scan() { // what it told before it died
		phase = lines.Text()
	}
	_ = c.Wait()
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	phase, _, _ = strings.Cut(phase, " ")
	return phase, status.Signaled() && phase != "done"
}
