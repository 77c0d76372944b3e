package output

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/disk"
	"restyle/internal/expect"
)

func TestRejects(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", dataset.RejectsPath("x.json"))
	files := func() (names []string) {
		entries, err := os.ReadDir(filepath.Dir(path))
		expect.OK(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	write := func(rows ...dataset.Reject) (disk.Outcome, string) {
		t.Helper()
		r, err := CreateRejects(path)
		expect.OK(t, err)
		if _, err := CreateRejects(path); err == nil {
			t.Error("two write the same file")
		}
		before, _ := os.ReadFile(path)
		for _, row := range rows {
			expect.OK(t, r.Write(row))
		}
		if now, _ := os.ReadFile(path); string(now) != string(before) {
			t.Error("the file changed before Commit")
		}
		outcome, err := r.Commit()
		expect.OK(t, err)
		if err := r.Discard(); err != nil {
			t.Error(err)
		}
		return outcome, r.String()
	}
	if outcome, said := write(); outcome.State != 0 || said != "" || len(files()) != 0 {
		t.Errorf("nothing rejected: %v, %q, %q", outcome, said, files())
	}
	two := []dataset.Reject{{SourceRow: 1, Check: "S2", Reason: "a<b"}, {SourceRow: 2, Check: "A9", Answer: "x"},
		{Check: "S2"}}
	if outcome, said := write(two...); outcome.State != disk.Written || said != "A9 1, S2 2" {
		t.Errorf("%v, %q", outcome, said)
	}
	text := expect.Read(t, path)
	if strings.Count(text, "\n") != 3 || strings.Count(text, `"answer"`) != 1 ||
		!strings.Contains(text, `"reason":"a<b"`) {
		t.Error(text)
	}
	if outcome, _ := write(two...); outcome.State != disk.Unchanged {
		t.Errorf("again: %v", outcome)
	}
	if outcome, _ := write(two[0]); outcome.State != disk.Replaced || expect.Read(t, path+".bak") != text {
		t.Errorf("others: %v", outcome)
	}
	if outcome, _ := write(); outcome.Kept != path+".bak.2" {
		t.Errorf("none any more: %v", outcome)
	}
	r, err := CreateRejects(path)
	if err != nil || r.Write(two[0]) != nil || r.Discard() != nil {
		t.Error(err)
	}
	if now := files(); !slices.Equal(now, []string{"x.rejects.jsonl.bak", "x.rejects.jsonl.bak.2"}) {
		t.Errorf("%q", now)
	}
}

func TestRejectsPath(t *testing.T) {
	for out, want := range map[string]string{"a/x.json": "a/x.rejects.jsonl", "x.jsonl": "x.jsonl.rejects.jsonl",
		"x.parquet": "x.parquet.rejects.jsonl"} {
		if got := dataset.RejectsPath(out); got != want {
			t.Errorf("%s: %s", out, got)
		}
	}
}
