package report

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// watch records the calls that change the disk and fails the one named fail.
func watch(t *testing.T, fail string) (events *[]string) {
	events = new([]string)
	t.Cleanup(disk.Watch(func(op string, names ...string) error {
		event := op + " " + filepath.Base(names[0])
		*events = append(*events, event)
		if event == fail {
			return syscall.ENOSPC
		}
		return nil
	}))
	return events
}

// TestNothingRunsInASpreadsheet checks that no cell of free text starts like a formula.
func TestNothingRunsInASpreadsheet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.csv")
	for text, want := range map[string]string{"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)",
		" \t=1": "'=1", "\r\n=1": "'=1",
		"＝1": "'＝1", `=cmd|' /C calc'!A0`: `'=cmd|' /C calc'!A0`, "a=1": "a=1", "": "", "\xff=": "\ufffd=",
		"meta-llama/x-1": "meta-llama/x-1"} {
		os.Remove(path)
		r := benchmarkRow
		r.Mode, r.Device, r.DType, r.Model, r.Label, r.Version = text, text, text, text, text, text
		expect.OK(t, AppendBenchmark(path, r))
		rows, err := csv.NewReader(strings.NewReader(expect.Read(t, path))).ReadAll()
		expect.OK(t, err)
		for i, name := range rows[0] {
			if slices.Contains([]string{"Mode", "Device", "Dtype", "Model", "Label", "Version"}, name) && rows[1][i] != want {
				t.Errorf("%s of %q: %q, want %q", name, text, rows[1][i], want)
			}
		}
	}
}

// TestBenchmarkHalfARow checks that an incomplete row is cut off again.
func TestBenchmarkHalfARow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.csv")
	expect.OK(t, AppendBenchmark(path, benchmarkRow))
	whole := expect.Read(t, path)
	watch(t, "write b.csv")
	if err := AppendBenchmark(path, benchmarkRow); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if got := expect.Read(t, path); got != whole {
		t.Errorf("%q", got)
	}
}

// TestMetricsDisk checks that Sync syncs, that an incomplete line is cut off again, and that the first failure is
// final.
func TestMetricsDisk(t *testing.T) {
	for _, call := range []string{"write m.jsonl", "sync m.jsonl"} {
		path := filepath.Join(t.TempDir(), "m.jsonl")
		m, err := OpenMetrics(path, -1)
		expect.OK(t, err)
		events := watch(t, "")
		expect.OK(t, errors.Join(m.Write(1), m.Sync()))
		if want := []string{"write m.jsonl", "sync m.jsonl"}; !slices.Equal(*events, want) {
			t.Errorf("%q, want %q", *events, want)
		}
		watch(t, call)
		first := errors.Join(m.Write(2), m.Sync())
		watch(t, "sync m.jsonl")
		if err := m.Sync(); call == "write m.jsonl" && !strings.Contains(err.Error(), "free some space") {
			t.Errorf("the first error is forgotten: %v", err)
		}
		watch(t, "")
		for _, err := range []error{first, m.Write(3), m.Sync(), m.Close()} {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v", call, err)
			}
		}
		if got := expect.Read(t, path); call == "write m.jsonl" && got != "1\n" {
			t.Errorf("%s: %q", call, got)
		}
	}
}

func TestEventsAreSynced(t *testing.T) {
	e, err := Create(t.TempDir(), 0)
	expect.OK(t, err)
	events := watch(t, "")
	if err := e.Sync(); err != nil || len(*events) != 1 || !strings.HasPrefix((*events)[0], "sync "+eventPrefix) {
		t.Errorf("%v, %q", err, *events)
	}
	e.Close()
}

// TestEventsTakeNoFile checks that an event file that appears under the new file's name at the last moment stays as it
// is.
func TestEventsTakeNoFile(t *testing.T) {
	theirs := ""
	defer disk.Watch(func(op string, names ...string) error {
		if op == "create" {
			theirs = names[0]
			writeFile(t, theirs, "theirs")
		}
		return nil
	})()
	if _, err := Create(t.TempDir(), 0); !errors.Is(err, fs.ErrExist) || expect.Read(t, theirs) != "theirs" {
		t.Error(err)
	}
}

// TestOtherUsersLinks_AreNotFollowed puts symbolic links where the run's files are to be. The benchmark log may be a
// link of the user's own.
func TestOtherUsersLinks_AreNotFollowed(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, "victim")
	writeFile(t, victim, "mine")
	path := filepath.Join(dir, "metrics.jsonl")
	for _, target := range []string{victim, filepath.Join(outside, "missing")} {
		os.Remove(path)
		expect.OK(t, os.Symlink(target, path))
		_, err := OpenMetrics(path, -1)
		expect.Error(t, err, path, "not a regular file")
	}
	link, log := filepath.Join(dir, "b.csv"), filepath.Join(outside, "b.csv")
	expect.OK(t, os.Symlink(log, link))
	if err := errors.Join(CheckBenchmark(link), AppendBenchmark(link, benchmarkRow), CheckBenchmark(link)); err != nil ||
		expect.Read(t, log) == "" {
		t.Error(err)
	}
	if os.Geteuid() == 0 { // only root can act as another user
		was := expect.Read(t, log)
		if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Lchown(link, 4321, -1)); err != nil {
			t.Skip("this root cannot give files to other users: ", err)
		}
		for _, err := range []error{CheckBenchmark(link), AppendBenchmark(link, benchmarkRow)} {
			expect.Error(t, err, "user 4321", "choose another")
		}
		if expect.Read(t, log) != was {
			t.Error("written through another user's link")
		}
	}
	if expect.Read(t, victim) != "mine" {
		t.Errorf("the victim has %q", expect.Read(t, victim))
	}
}
