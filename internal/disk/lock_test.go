package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"restyle/internal/expect"
)

// TestLock checks that only one process has the lock, that the next one is told which process that is, and that a
// killed process does not block others.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	said, end := other(t, "lock", path)
	if said != "<nil>" {
		t.Fatal(said)
	}
	host, _ := os.Hostname()
	_, err := Lock(path)
	if !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	expect.Error(t, err, path, "process", host, "since 2")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = LockWait(ctx, path)
	if !errors.Is(err, ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	time.AfterFunc(time.Millisecond, end)
	f, err := LockWait(t.Context(), path)
	if err != nil {
		t.Fatal("after kill -9:", err)
	}
	if text := expect.Read(t, path); !strings.HasPrefix(text, "process") {
		t.Errorf("a lock that was waited for wrote %q", text)
	}
	said, end = other(t, "lock", path)
	expect.Error(t, errors.New(said), ErrLocked.Error())
	end()
	f.Close()
	put(t, path, strings.Repeat("what a longer name has left\n", 10))
	f, err = Lock(path)
	expect.OK(t, err)
	if want := fmt.Sprintf("process %d on %s since", os.Getpid(), host); !strings.HasPrefix(expect.Read(t, path), want) ||
		strings.Count(expect.Read(t, path), "\n") != 1 {
		t.Errorf("it says %q", expect.Read(t, path))
	}
	if err := f.Remove(); err != nil || len(folder(t, filepath.Dir(path))) != 0 {
		t.Error(err)
	}
}

// flocks replaces flock(2) with f, which gets the original.
func flocks(t *testing.T, f func(fd, how int, flock func(fd, how int) error) error) {
	was := flock
	flock = func(fd, how int) error { return f(fd, how, was) }
	t.Cleanup(func() { flock = was })
}

// TestLockOfAnotherFile moves the file after it is opened and before it is locked, as the previous holder of the lock
// may do. It checks that a lock on a moved file does not count as a lock on its name.
func TestLockOfAnotherFile(t *testing.T) {
	for name, take := range map[string]func(path string) (*File, error){
		"Lock":     Lock,
		"LockWait": func(path string) (*File, error) { return LockWait(t.Context(), path) },
	} {
		path := filepath.Join(t.TempDir(), "lock")
		moves := 2
		flocks(t, func(fd, how int, flock func(fd, how int) error) error {
			if moves--; moves >= 0 {
				if err := os.Rename(path, fmt.Sprint(path, moves)); err != nil {
					t.Error(err)
				}
			}
			return flock(fd, how)
		})
		f, err := take(path)
		if err != nil {
			t.Fatal(name, err)
		}
		if !f.named(paths{}, path) || moves >= 0 {
			t.Errorf("%s has the lock of another file", name)
		}
		if _, err := Lock(path); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: two have the lock: %v", name, err)
		}
		f.Close()
	}
	// If a pending file is removed as abandoned between the two steps, Create starts again.
	dir := t.TempDir()
	first := true
	flocks(t, func(fd, how int, flock func(fd, how int) error) error {
		if first {
			first = false
			Tidy(dir)
		}
		return flock(fd, how)
	})
	p, err := Create(filepath.Join(dir, "x"), 0o666)
	expect.OK(t, err)
	if first || !p.named(paths{}, p.temp) {
		t.Error("the file that is written has no name")
	}
	if err := p.Commit(); err != nil || len(folder(t, dir)) != 1 {
		t.Error(err, folder(t, dir))
	}
}

// TestClose_ReleasesTheLock has the file open a second time, as a process that is just being started does.
func TestClose_ReleasesTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	expect.OK(t, err)
	other, err := unix.Dup(int(f.Fd()))
	expect.OK(t, err)
	defer unix.Close(other)
	expect.OK(t, f.Close())
	f, err = Lock(path)
	expect.OK(t, err)
	expect.OK(t, f.Close())
}

// TestFlockFails checks an interrupted system call, and file systems without locks.
func TestFlockFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	interrupted := false
	flocks(t, func(fd, how int, flock func(fd, how int) error) error {
		if interrupted = !interrupted; interrupted {
			return syscall.EINTR
		}
		return flock(fd, how)
	})
	f, err := Lock(path)
	expect.OK(t, err)
	f.Close()
	for _, e := range []error{syscall.ENOSYS, syscall.ENOTSUP, syscall.ENOLCK} {
		flocks(t, func(int, int, func(fd, how int) error) error { return e })
		if _, err := Lock(path); !errors.Is(err, ErrNoLocks) || !errors.Is(err, e) {
			t.Errorf("%v: %v", e, err)
		}
		if f, err = LockWait(t.Context(), path); err != nil {
			t.Errorf("%v: %v", e, err)
		} else {
			f.Close()
		}
		// The owner of a pending file is unknown, so the file stays.
		p, err := Create(filepath.Join(dir, "x"), 0o666)
		expect.OK(t, err)
		Tidy(dir)
		if err := p.Commit(); err != nil {
			t.Errorf("%v: %v", e, err)
		}
	}
	flocks(t, func(int, int, func(fd, how int) error) error { return syscall.EIO })
	for _, take := range []func() error{
		func() error { _, err := Lock(path); return err },
		func() error { _, err := LockWait(t.Context(), path); return err },
		func() error { _, err := Create(filepath.Join(dir, "y"), 0o666); return err },
	} {
		if err := take(); !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
	}
	if got := folder(t, dir); len(got) != 2 {
		t.Errorf("there is %q", got)
	}
}

// TestRefusalsLeaveNothingOpen checks that what is refused leaves no descriptor open.
func TestRefusalsLeaveNothingOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	f, err := Lock(path)
	expect.OK(t, err)
	defer f.Close()
	root, err := OpenRoot(dir)
	expect.OK(t, err)
	defer root.Close()
	put(t, filepath.Join(dir, "file"), "text")
	expect.OK(t, errors.Join(os.Mkdir(filepath.Join(dir, "team"), 0o777), os.Chmod(filepath.Join(dir, "team"), 0o775),
		os.Chmod(filepath.Join(dir, "file"), 0o666)))
	open := func() int {
		names, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(names)
	}
	before := open()
	for what, try := range map[string]func() error{
		"Lock":        func() error { _, err := Lock(path); return err },
		"Open":        func() error { _, err := Open(os.DevNull, os.O_RDONLY, 0); return err },
		"OpenInput":   func() error { _, err := OpenInput(os.DevNull); return err },
		"ReadInput":   func() error { _, err := ReadInput(filepath.Join(dir, "file"), 3); return err },
		"ReadInputIn": func() error { _, err := ReadInputIn(root, "file", 3); return err },
		"OpenOwn":     func() error { _, err := OpenOwn(filepath.Join(dir, "team")); return err },
		"ReadOwn":     func() error { _, err := ReadOwn(root, "file", 4); return err },
	} {
		for range 20 {
			if try() == nil {
				t.Fatalf("%s: no error", what)
			}
		}
		if after := open(); after >= before+20 {
			t.Errorf("%s: %d descriptors were open, and %d are", what, before, after)
		}
	}
}

// TestLock_Shared checks that shared locks do not exclude each other.
func TestLock_Shared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	var f [3]*File
	for i := range f {
		var err error
		if f[i], err = Open(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
			t.Fatal(err)
		}
		defer f[i].Close()
	}
	expect.OK(t, errors.Join(f[0].TryLock(false), f[0].TryLock(true), f[1].TryLock(true)))
	if err := f[2].TryLock(false); err != ErrLocked {
		t.Error(err)
	}
}

// TestLock_HolderIsPrintable checks lock files whose contents must not be printed.
func TestLock_HolderIsPrintable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	expect.OK(t, err)
	defer f.Close()
	for _, text := range []string{"", "no end of line", "\x1b[2J\n", "\u202e\n", strings.Repeat("x", 10000)} {
		put(t, path, text)
		if _, err := Lock(path); !errors.Is(err, ErrLocked) || strings.ContainsAny(err.Error(), "(\x1b") {
			t.Errorf("with %.20q in the file: %v", text, err)
		}
	}
}
