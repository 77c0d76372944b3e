package cudatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// UseRanges simulates a profiler that listens to NVTX's ranges. It returns a function that returns the ranges so far,
// each with the ranges around it, as in "step/forward/block 0". A range that is not ended, or is ended on another
// thread, fails the test.
func UseRanges(t testing.TB) (ranges func() []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ranges")
	t.Setenv(variables["libnvtx"], Library(t, "libnvtx"))
	t.Setenv("STANDIN_RANGES", file)
	return func() (all []string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		open := map[string][]string{} // by thread
		for line := range strings.Lines(string(text)) {
			what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			thread, name, _ := strings.Cut(rest, " ")
			if what == "begin" {
				open[thread] = append(open[thread], name)
				all = append(all, strings.Join(open[thread], "/"))
			} else if n := len(open[thread]); n > 0 {
				open[thread] = open[thread][:n-1]
			} else {
				t.Errorf("thread %s ends a range that it has not begun", thread)
			}
		}
		for thread, names := range open {
			if len(names) > 0 {
				t.Errorf("thread %s has not ended %q", thread, names)
			}
		}
		return all
	}
}
