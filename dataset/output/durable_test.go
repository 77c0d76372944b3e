package output

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"restyle/dataset"
	"restyle/internal/disk"
	"restyle/internal/expect"
)

// watchCalls records the calls that change the disk, except writes, with TEMP in place of random names. It fails the
// call with the number fail, from 0.
func watchCalls(fail int) (events *[]string, stop func()) {
	events = new([]string)
	n := -1
	return events, disk.Watch(func(op string, names ...string) error {
		event := op
		for _, name := range names {
			if name = filepath.Base(name); disk.IsPending(name) {
				name = "TEMP"
			}
			event += " " + name
		}
		if op != "write" {
			*events = append(*events, event)
		}
		if n++; n == fail {
			return syscall.EIO
		}
		return nil
	})
}

// TestSyncOrder checks that both files are synced before either gets its name, and that each old file's .bak is synced
// before the file is replaced.
func TestSyncOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	path := filepath.Join(dir, "out.json")
	save(t, path, someRows(2))
	events, stop := watchCalls(-1)
	defer stop()
	save(t, path, someRows(3))
	const certs = "out.certificates.jsonl"
	want := []string{"create out.json.lock", "create TEMP", "create " + certs + ".lock", "create TEMP", "sync TEMP",
		"sync TEMP",
		"sync TEMP", "link " + certs + " " + certs + ".bak", "syncdir d", "sync TEMP", "rename TEMP " + certs, "syncdir d",
		"remove " + certs + ".lock", "sync TEMP", "link out.json out.json.bak", "syncdir d", "sync TEMP",
		"rename TEMP out.json", "syncdir d", "remove out.json.lock"}
	if !slices.Equal(*events, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(*events, "\n"), strings.Join(want, "\n"))
	}
}

// TestEveryCallFails fails each call that changes the disk once: the rows on disk must be the old or the new ones,
// complete, and the new ones if there was no error.
func TestEveryCallFails(t *testing.T) {
	before, after := someRows(2), someRows(3)
	for fail := 0; ; fail++ {
		path := filepath.Join(t.TempDir(), "out.json")
		save(t, path, before)
		events, stop := watchCalls(fail)
		o, err := Create(path)
		if err == nil {
			for i, r := range after {
				err = errors.Join(err, o.Write(r, certificateFor(i)))
			}
			_, e := o.Commit()
			err = errors.Join(err, e)
		}
		stop()
		rows, e := dataset.ReadRewritten(context.Background(), path)
		if e != nil || !slices.Equal(rows, after) && (err == nil || !slices.Equal(rows, before)) {
			t.Errorf("call %d fails: %v; %d rows, %v", fail, err, len(rows), e)
		}
		if slices.ContainsFunc(folder(t, filepath.Dir(path)), disk.IsPending) {
			t.Errorf("call %d fails: left behind: %q", fail, folder(t, filepath.Dir(path)))
		}
		if d := save(t, path, after); d.Rows != len(after) { // and the next run succeeds
			t.Errorf("call %d failed, and then %+v", fail, d)
		}
		if err == nil && fail >= len(*events) {
			break
		}
	}
}

// TestOtherUsersLinks_AreNotFollowed puts links at the predictable names: nothing may be written through them.
func TestOtherUsersLinks_AreNotFollowed(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	for _, target := range []string{victim, filepath.Join(outside, "missing")} {
		for _, name := range []string{"out.json.tmp", "out.json.lock", "out.json.bak", "out.json.bak.tmp",
			"out.certificates.jsonl.lock",
			"out.certificates.jsonl.tmp", "out.certificates.jsonl.bak"} {
			dir := t.TempDir()
			path := filepath.Join(dir, "out.json")
			save(t, path, someRows(2))
			expect.OK(t, errors.Join(os.WriteFile(victim, []byte("mine"), 0o666),
				os.Symlink(target, filepath.Join(dir, name))))
			o, err := Create(path)
			if err == nil {
				_, err = o.Commit()
			}
			if refused := strings.HasSuffix(name, ".lock"); refused != (err != nil) {
				t.Errorf("%s: %v", name, err)
			}
			if expect.Read(t, victim) != "mine" || len(folder(t, outside)) != 1 {
				t.Errorf("%s: the victim has %q, and there is %q", name, expect.Read(t, victim), folder(t, outside))
			}
			if link, err := os.Readlink(filepath.Join(dir, name)); link != target {
				t.Errorf("%s: the link is gone: %v", name, err)
			}
		}
	}
}

// TestDanglingLink checks that writing to a dangling link creates its target and keeps the link.
func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	link, target := filepath.Join(dir, "out.json"), filepath.Join(dir, "there", "x.json")
	expect.OK(t, errors.Join(os.Mkdir(filepath.Dir(target), 0o777), os.Symlink("there/x.json", link)))
	if o, err := WriteFile(link, []byte("new")); err != nil || o.State != disk.Written || expect.Read(t, target) != "new" {
		t.Fatal(o, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "there/x.json" {
		t.Error(to, err)
	}
}
