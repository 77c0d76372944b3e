package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/trainer"
)

// TestWattmeter checks that only steps are measured, and that a counter that starts again or cannot be read costs no
// more than its interval.
func TestWattmeter(t *testing.T) {
	type event struct {
		what    string // a phase, or "" for the end of a step
		seconds int    // since the event before
		joules  float64
	}
	for name, c := range map[string]struct {
		events []event
		watts  float64
		reads  int
	}{
		"no counter": {[]event{{"step 1", 0, -1}, {"", 1, -1}, {"evaluate", 0, -1}}, math.NaN(), 2},
		"without evaluations": {[]event{{"evaluate", 0, 5}, {"step 1", 9, 1000}, {"", 1, 1030}, {"step 2", 0, 1030},
			{"", 2, 1090}, {"evaluate", 0, 1090}, {"save", 5, 9000}, {"step 3", 0, 9000}, {"", 1, 9050}, {"done", 0, 9050}},
			35, 4},
		"starts again": {[]event{{"step 1", 0, 7000}, {"", 100, 8000}, {"", 100, 10}, {"", 100, 1010}, {"done", 0, 1010}},
			10, 5},
		"read within long steps": {[]event{{"step 1", 0, 0}, {"", 59, 590}, {"", 1, 600}, {"", 59, 1190},
			{"save", 1, 1200}},
			10, 3},
		"unknown for a while": {[]event{{"step 1", 0, 0}, {"", 60, 600}, {"", 60, -1}, {"", 60, 5000}, {"", 60, 5600},
			{"done", 0, 5600}}, 10, 6},
	} {
		now, reads, joules := time.Unix(1000, 0), 0, 0.0
		w := wattmeter{read: func() (float64, bool) { reads++; return max(joules, 0), joules >= 0 }}
		for _, e := range c.events {
			now, joules = now.Add(time.Duration(e.seconds)*time.Second), e.joules
			if e.what == "" {
				w.step(now)
			} else {
				w.phase(trainer.Phase(e.what), now)
			}
		}
		if got := w.watts(); got != c.watts && !(math.IsNaN(got) && math.IsNaN(c.watts)) || reads != c.reads {
			t.Errorf("%s: %v W in %d readings, want %v in %d", name, got, reads, c.watts, c.reads)
		}
	}
}

// TestBenchmarkLog_Energy checks that the benchmark log has the energy only if the machine counts it. A counter need
// not move in so few steps, and on some virtual machines it never does.
func TestBenchmarkLog_Energy(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log.csv")
	must(t, cli.Done, small(t, filepath.Join(t.TempDir(), "out"), "--max-steps", "3", "--benchmark-log", log)...)
	table, err := csv.NewReader(bytes.NewReader(readFile(t, log))).ReadAll()
	if err != nil || len(table) != 2 {
		t.Fatalf("%q, %v", table, err)
	}
	_, known := new(kernels.Device).Energy() // the CPU's
	joules := table[1][slices.Index(table[0], "Joules")]
	if n, err := strconv.ParseFloat(joules, 64); joules != "" && (!known || err != nil || n < 0) {
		t.Errorf("%q joules, and the machine counts them: %t", joules, known)
	}
}
