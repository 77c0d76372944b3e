package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/expect"
)

// fullDisk returns a directory on a file system of a few KiB.
func fullDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("no small file system to fill: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestMetricsFullDisk(t *testing.T) {
	path := filepath.Join(fullDisk(t, "16k"), "metrics.jsonl")
	m, err := OpenMetrics(path, 0)
	expect.OK(t, err)
	line := stepLine{Note: strings.Repeat("x", 1000)}
	for err == nil {
		err = m.Write(line)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	expect.Error(t, err, path, "free some space")
	if again := m.Write(stepLine{}); again != err {
		t.Error("a later write says", again)
	}
	if m.Close() == nil {
		t.Error("Close has forgotten the error")
	}
	text := expect.Read(t, path)
	if int64(len(text)) != m.Offset() || !strings.HasSuffix(text, "\n") {
		t.Errorf("%d bytes in the file, %d in whole lines", len(text), m.Offset())
	}
	if got, err := ReadMetrics[stepLine](path); err != nil || len(got) != strings.Count(text, "\n") {
		t.Error(len(got), err)
	}
}

func TestEventsFullDisk(t *testing.T) {
	dir := fullDisk(t, "16k")
	e, err := Create(dir, 0)
	expect.OK(t, err)
	for step := range 5000 {
		e.Scalar(step, TagLoss, 1)
	}
	expect.Error(t, e.Flush(), "event file", "no space left")
	if e.Close() == nil {
		t.Error("Close has forgotten the error")
	}
	_, err = Create(filepath.Join(dir, "none", "\x00"), 0)
	expect.Error(t, err, "event file")
}

func TestBenchmarkFullDisk(t *testing.T) {
	path := filepath.Join(fullDisk(t, "8k"), "benchmark_log.csv")
	var err error
	for range 1000 {
		before, _ := os.ReadFile(path)
		if err = AppendBenchmark(path, benchmarkRow); err != nil {
			if expect.Read(t, path) != string(before) {
				t.Errorf("%d bytes became %d: %v", len(before), len(expect.Read(t, path)), err)
			}
			break
		}
	}
	expect.Error(t, err, "no space left")
}
