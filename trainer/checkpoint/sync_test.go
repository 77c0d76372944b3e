package checkpoint

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// watch records the calls that change the disk as "op NAME" or "rename FROM TO", with names relative to root, and fails
// call number fail, counted from 0.
func watch(t *testing.T, root string, fail int) (events *[]string, stop func()) {
	t.Helper()
	events = new([]string)
	var mu sync.Mutex // files are synced concurrently
	return events, disk.Watch(func(op string, names ...string) error {
		mu.Lock()
		defer mu.Unlock()
		event := op
		for _, name := range names {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				t.Error(err)
			}
			event += " " + rel
		}
		*events = append(*events, event)
		if len(*events)-1 == fail {
			return syscall.EIO
		}
		return nil
	})
}

// TestSyncOrder compares the order of syncs, renames and removals with the protocol. SIGKILL cannot reveal a missing
// sync, because the page cache keeps what was written. A power cut would.
func TestSyncOrder(t *testing.T) {
	root := t.TempDir()
	for step := 1; step <= 2; step++ {
		write(t, root, step)
	}
	events, stop := watch(t, root, -1)
	defer stop()
	for range 2 {
		write(t, root, 3)
	}
	if _, err := Keep(root, 2); err != nil {
		t.Fatal(err)
	}
	at := 0
	// next moves to the first such event at or after at, and fails if there is none.
	next := func(event string) int {
		i := slices.Index((*events)[at:], event)
		if i < 0 {
			t.Fatalf("no %q after event %d in\n%s", event, at, strings.Join(*events, "\n"))
		}
		return at + i
	}
	temp := beingWritten + "step-000003"
	for round := range 2 {
		rename := next("rename " + temp + " step-000003")
		last := at
		for name := range content(3) {
			last = max(last, next("sync "+filepath.Join(temp, name)))
		}
		at = last
		for _, event := range []string{"sync " + filepath.Join(temp, sumsName), "syncdir " + filepath.Join(temp, "optimizer"),
			"syncdir " + temp} {
			at = next(event)
		}
		if at > rename {
			t.Error("renamed before it was on the disk")
		}
		at = rename
		at = next("syncdir .")
		if round == 1 { // only now may the old checkpoint be removed
			at = next("rename " + beingReplaced + "step-000003 " + beingRemoved + "step-000003")
			at = next("syncdir .")
			at = next("remove " + beingRemoved + "step-000003")
		}
	}
	// The rename comes first: if files were removed while the old name is still on disk, half a checkpoint would be left.
	at = next("rename step-000001 " + beingRemoved + "step-000001")
	at = next("syncdir .")
	next("remove " + beingRemoved + "step-000001")
}

// TestWrite_OldComesBack checks that a checkpoint that cannot be replaced gets its name back at once, not only at the
// next write.
func TestWrite_OldComesBack(t *testing.T) {
	root := t.TempDir()
	write(t, root, 1)
	was := read(t, Dir(root, 1))
	defer disk.Watch(func(op string, names ...string) error {
		if op == "rename" && strings.HasPrefix(filepath.Base(names[0]), beingWritten) {
			return syscall.EIO
		}
		return nil
	})()
	if err := Write(root, 1, filler(content(2))); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if now := names(t, root); len(now) != 1 || !maps.Equal(read(t, Dir(root, 1)), was) {
		t.Errorf("there is %q", now)
	}
}

// TestEveryCallFails makes each call that changes the disk fail once. There must always be a sound newest checkpoint,
// and it must be the new one if writing it returned no error.
func TestEveryCallFails(t *testing.T) {
	for fail := 0; ; fail++ {
		root := t.TempDir()
		write(t, root, 1)
		write(t, root, 2)
		events, stop := watch(t, root, fail)
		err := errors.Join(Write(root, 2, filler(content(2))), Write(root, 3, filler(content(3))))
		_, err2 := Keep(root, 1)
		stop()
		if len(*events) <= fail {
			if err != nil || err2 != nil || fail < 20 {
				t.Errorf("%d calls, none fails: %v, %v", fail, err, err2)
			}
			break
		}
		found, e := Latest(root)
		if e != nil || found.Skipped != nil || found.Step < 2 || err == nil && found.Step != 3 {
			t.Errorf("%s fails (%v, %v): found %+v, %v", (*events)[fail], err, err2, found, e)
		}
		if strings.HasPrefix((*events)[fail], "sync") && !errors.Is(err, syscall.EIO) && !errors.Is(err2, syscall.EIO) {
			t.Errorf("%s fails, and no error says so: %v, %v", (*events)[fail], err, err2)
		}
	}
}

// TestOtherUsersLinks_AreNotFollowed puts symbolic links at every name that a checkpoint has while it is made, and at
// the lock's name.
func TestOtherUsersLinks_AreNotFollowed(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	overwrite(t, victim, []byte("mine"))
	for _, target := range []string{victim, outside, filepath.Join(outside, "missing")} {
		root := t.TempDir()
		write(t, root, 1)
		for _, name := range []string{beingWritten, beingReplaced, beingRemoved} {
			expect.OK(t, os.Symlink(target, filepath.Join(root, name+"step-000002")))
		}
		for range 2 {
			write(t, root, 2)
		}
		if err := Open(Dir(root, 2)); err != nil {
			t.Error(err)
		}
		expect.OK(t, os.Symlink(target, filepath.Join(root, ".lock")))
		_, err := Lock(root)
		expect.Error(t, err, ".lock", "not a regular file", "choose a directory")
		if data, err := os.ReadFile(victim); err != nil || string(data) != "mine" {
			t.Errorf("the victim has %q, %v", data, err)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
			t.Error(entries, err)
		}
	}
}

// TestKeep_ReadsNothingIfFew checks that Keep reads no checkpoint if there are no more than it keeps, so that a damaged
// one is no error.
func TestKeep_ReadsNothingIfFew(t *testing.T) {
	root := t.TempDir()
	write(t, root, 1)
	overwrite(t, filepath.Join(Dir(root, 1), "state.json"), []byte("damaged"))
	if removed, err := Keep(root, 1); err != nil || removed != nil {
		t.Error(removed, err)
	}
}
