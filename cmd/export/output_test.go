package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// TestLeftovers_AreCompleted makes OUT, and looks at what a kill before each change of the disk would leave: a second
// run recognizes it as its own and completes it. The complete model, and a directory with a file of the user's, are
// refused.
func TestLeftovers_AreCompleted(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	save := func(dir string) func() error {
		return func() error {
			return errors.Join(disk.Write(filepath.Join(dir, "config.json"), []byte("{}"), 0o666),
				disk.Write(filepath.Join(dir, "model.safetensors"), []byte("weights"), 0o666))
		}
	}
	var left []string
	stop := disk.Watch(func(string, ...string) error {
		copied := filepath.Join(dir, fmt.Sprint(len(left)))
		left = append(left, copied)
		return os.CopyFS(copied, os.DirFS(out))
	})
	err := fill(record{Base: "starter"}, out, save(out))
	stop()
	if err != nil || len(left) < 15 {
		t.Fatal(err, left)
	}
	complete := files(t, out)
	for _, dir := range left {
		before := files(t, dir)
		if strings.Contains(before, `\"finished\": true`) {
			break // it is complete
		}
		if err := errors.Join(checkFree(dir), fill(record{Base: "starter"}, dir, save(dir))); err != nil {
			t.Errorf("after a kill that leaves %s: %v", before, err)
		}
		if after := files(t, dir); after != complete {
			t.Errorf("from %s it becomes %s, not %s", before, after, complete)
		}
	}
	half := func(name, content string) string {
		dir := t.TempDir()
		expect.OK(t, errors.Join(os.WriteFile(filepath.Join(dir, "export.json"), []byte(`{"finished": false}`), 0o666),
			os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666)))
		return dir
	}
	for what, dir := range map[string]string{"complete": out, "user's": half("thesis.txt", "mine"),
		"user's, like a pending one": half(".restyle-notes.tmp", "mine"),
		"user's record":              half("export.json", `{"base_model": "x"}`),
		"finished":                   half("export.json", `{"finished": true}`),
		"damaged":                    half("export.json", `{"fini`)} {
		before := files(t, dir)
		err := checkFree(dir)
		if err == nil {
			t.Errorf("%s: not refused", what)
			continue
		}
		expect.Error(t, err, dir, "is not empty")
		if err := fill(record{Base: "starter"}, dir, save(dir)); err == nil || files(t, dir) != before {
			t.Errorf("%s: %v, there is %s", what, err, files(t, dir))
		}
	}
}

// TestFill_FailureLeavesNothing checks that a failure leaves nothing, or what the next run takes for its own, and that
// two runs do not mix.
func TestFill_FailureLeavesNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a", "out")
	failed := errors.New("failed")
	if err := fill(record{Base: "starter"}, out, func() error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(out)); !errors.Is(err, os.ErrNotExist) {
		t.Error("something is left:", err)
	}
	err := fill(record{Base: "starter"}, out, func() error {
		if err := fill(record{Base: "starter"}, out, func() error { return nil }); !errors.Is(err, disk.ErrLocked) {
			t.Error("a second run:", err)
		}
		return errors.Join(failed, os.WriteFile(filepath.Join(out, "config.json"), nil, 0o666))
	})
	if !errors.Is(err, failed) || checkFree(out) != nil {
		t.Error(err, checkFree(out))
	}
}

// files returns the names in a directory with their contents.
func files(t *testing.T, dir string) (list string) {
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	for _, e := range entries {
		list += fmt.Sprintf("%s %q ", e.Name(), expect.Read(t, filepath.Join(dir, e.Name())))
	}
	return list
}
