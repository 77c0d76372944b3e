package report

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"

	"github.com/google/go-cmp/cmp"
)

type stepLine struct {
	Step int    `json:"step"`
	Loss Number `json:"loss"`
	Note string `json:"note,omitempty"`
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
}

// writeSteps writes lines for the steps and returns the offset after each.
func writeSteps(t *testing.T, m *Metrics, steps ...int) (offsets []int64) {
	t.Helper()
	for _, step := range steps {
		expect.OK(t, m.Write(stepLine{Step: step, Loss: Number(1 / float64(step))}))
		offsets = append(offsets, m.Offset())
	}
	return offsets
}

// TestMetricsResume resumes a run that was killed after its checkpoint and checks that the file equals that of an
// uninterrupted run.
func TestMetricsResume(t *testing.T) {
	dir := t.TempDir()
	whole, killed := filepath.Join(dir, "whole.jsonl"), filepath.Join(dir, "killed.jsonl")
	open := func(path string, offset int64) *Metrics {
		t.Helper()
		m, err := OpenMetrics(path, offset)
		expect.OK(t, err)
		return m
	}
	m := open(whole, 0)
	writeSteps(t, m, 1, 2, 3, 4, 5, 6)
	expect.OK(t, m.Close())
	want := expect.Read(t, whole)
	if strings.Count(want, "\n") != 6 || !strings.HasPrefix(want, `{"step":1,"loss":1}`+"\n") {
		t.Fatal(want)
	}
	for at := 0; at <= 5; at++ { // steps in the checkpoint
		os.Remove(killed)
		m := open(killed, 0)
		offset := append([]int64{0}, writeSteps(t, m, 1, 2, 3, 4, 5)...)[at]
		m.file.WriteString(`{"step":6,"lo`) // torn
		m.file.Close()

		m = open(killed, offset)
		if m.Offset() != offset {
			t.Error(m.Offset(), offset)
		}
		writeSteps(t, m, []int{1, 2, 3, 4, 5, 6}[at:]...)
		if err := m.Sync(); err != nil {
			t.Error(err)
		}
		if got := expect.Read(t, killed); got != want {
			t.Errorf("from step %d: %q", at, got)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	for _, c := range []struct {
		text   string
		offset int64
		want   string // what is kept
		err    string
	}{
		{"", 0, "", ""},
		{"a\nb\n", 0, "", ""},
		{"a\nb\n", 2, "a\n", ""},
		{"a\nb\n", 4, "a\nb\n", ""},
		{"a\nb\n", -1, "a\nb\n", ""},
		{"a\nb\nto", -1, "a\nb\n", ""},
		{"to", -1, "", ""},
		{"a\n" + strings.Repeat("x", 200<<10), -1, "a\n", ""},
		{strings.Repeat("x", 64<<10) + "\n" + strings.Repeat("y", 64<<10-1), -1, strings.Repeat("x", 64<<10) + "\n", ""},
		{"a\nb\n", 3, "", "inside a line"},
		{"a\nb\n", 5, "", "it has 4 bytes, but 5 when the checkpoint was written"},
		{"a\nb", math.MaxInt64, "", "rename it and run the same command again"},
		{"", 7, "", ""}, // missing or emptied: a new file
	} {
		writeFile(t, path, c.text)
		m, err := OpenMetrics(path, c.offset)
		if c.err != "" {
			expect.Error(t, err, path, c.err)
			if expect.Read(t, path) != c.text {
				t.Error("a file that was refused was changed")
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		m.Close()
		if got := expect.Read(t, path); got != c.want {
			t.Errorf("%.20q at %d: kept %.20q", c.text, c.offset, got)
		}
	}
	_, err := OpenMetrics(t.TempDir(), 0)
	expect.Error(t, err, "not a regular file")
	_, err = OpenMetrics(filepath.Join(path, "metrics.jsonl"), 0)
	expect.Error(t, err, "not a directory")
}

func TestMetricsNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	m, err := OpenMetrics(path, 0)
	expect.OK(t, err)
	want := []stepLine{{1, Number(math.NaN()), "<&>"}, {2, 0.1, ""}, {3, Number(math.NaN()), ""}}
	for i, line := range want {
		if i == 2 {
			line.Loss = Number(math.Inf(-1)) // is read back as NaN
		}
		if err := m.Write(line); err != nil {
			t.Error(err)
		}
	}
	// A float that JSON cannot represent is an error and leaves the file unchanged.
	expect.Error(t, m.Write(struct{ Loss float64 }{math.NaN()}), path, "NaN")
	if err := m.Write(stepLine{Step: 4}); err != nil {
		t.Error(err)
	}
	want = append(want, stepLine{Step: 4})
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(expect.Read(t, path), `{"step":1,"loss":null,"note":"<&>"}`) {
		t.Error(expect.Read(t, path))
	}
	got, err := ReadMetrics[stepLine](path)
	if err != nil {
		t.Error(err)
	}
	same := cmp.Comparer(func(a, b Number) bool { return a == b || a != a && b != b })
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Error(diff)
	}
}

func TestReadMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	for _, c := range []struct {
		text, err string
		n         int
	}{
		{"", "", 0},
		{`{"step":1}`, "", 0}, // incomplete, even if only the newline is missing
		{"{\"step\":1}\n{\"st", "", 1},
		{"{\"step\":1}\n\n", "line 2: unexpected end of JSON input (1 damaged of 2 lines)", 1},
		{"{\"step\":1}\n[]\n{\"step\":3}\n{\"sTep\"}\n{\"step\":5}\n{\"to", "line 2: json: cannot unmarshal array", 3},
		{"{\"step\":1}\n[]\n{\"step\":3}\n{\"step\"}\n", "(2 damaged of 4 lines)", 2},
		{strings.Repeat(" ", 3<<20) + "{}\n{}\n", "", 2}, // as long as sample answers may be
	} {
		writeFile(t, path, c.text)
		got, err := ReadMetrics[stepLine](path)
		if c.err != "" {
			expect.Error(t, err, path, c.err)
		} else if err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		if len(got) != c.n {
			t.Errorf("%q: %d lines, want %d", c.text, len(got), c.n)
		}
	}
	_, err := ReadMetrics[stepLine](path + "none")
	expect.Error(t, err, "no such file")
}

func FuzzLineEnd(f *testing.F) {
	f.Add([]byte(""), int64(0))
	f.Add([]byte("{}\n{}\n{"), int64(3))
	f.Add([]byte("{}\n{}\n{"), int64(-1))
	f.Add([]byte("{}\n"), int64(9))
	f.Fuzz(func(t *testing.T, data []byte, offset int64) {
		n, err := hostile.Parse(t, data, func(data []byte) (int64, error) {
			return lineEnd(bytes.NewReader(data), int64(len(data)), offset)
		})
		switch {
		case err != nil && (offset <= 0 || len(data) == 0):
			t.Error(err)
		case n < 0 || n > int64(len(data)) || n > 0 && data[n-1] != '\n':
			t.Errorf("%q at %d: a line begins at %d", data, offset, n)
		case err == nil && offset >= 0 && len(data) > 0 && n != offset:
			t.Errorf("%q: asked for %d bytes, kept %d", data, offset, n)
		case offset < 0 && bytes.IndexByte(data[n:], '\n') >= 0:
			t.Errorf("%q: a whole line is cut at %d", data, n)
		}
	})
}
