package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/expect"
)

// TestSyncFailureIsFinal checks that a second sync does not hide what a failed one has lost.
func TestSyncFailureIsFinal(t *testing.T) {
	dir := t.TempDir()
	p, err := Create(filepath.Join(dir, "x"), 0o666)
	expect.OK(t, err)
	stop := Watch(func(op string, _ ...string) error {
		if op == "sync" {
			return syscall.EIO
		}
		return nil
	})
	first := p.Sync()
	stop()
	for _, err := range []error{first, p.Sync(), p.Commit()} {
		if !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
	}
	if got := folder(t, dir); len(got) != 0 {
		t.Errorf("there is %q", got)
	}
}

// TestSyncIsTheSystems checks that Sync returns the system's error, since a pipe cannot be synced.
func TestSyncIsTheSystems(t *testing.T) {
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer r.Close()
	defer w.Close()
	if err := (&File{File: w}).Sync(); err == nil {
		t.Error("a pipe was synced")
	}
}

// TestWatch_HalfAWrite checks that a disk that fills up takes the first half of a write.
func TestWatch_HalfAWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o666)
	expect.OK(t, err)
	defer f.Close()
	calls(t, map[string]error{"write x": syscall.ENOSPC, "truncate x": syscall.EIO})
	if n, err := f.WriteString("abcdef"); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Error(n, err)
	}
	if _, err := f.ReadFrom(strings.NewReader("ghij")); !errors.Is(err, syscall.ENOSPC) {
		t.Error("a copy passes by the watcher:", err)
	}
	if err := f.Truncate(0); !errors.Is(err, syscall.EIO) || expect.Read(t, path) != "abcgh" {
		t.Errorf("%v, %q", err, expect.Read(t, path))
	}
}

// TestNothingThroughLinks checks that nothing is written through links, FIFOs or second names of the victim's file at
// the path of our own file.
func TestNothingThroughLinks(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "x")
	for what, trap := range map[string]func() error{
		"link":     func() error { return os.Symlink(victim, path) },
		"dangling": func() error { return os.Symlink(filepath.Join(dir, "missing"), path) },
		"fifo":     func() error { return syscall.Mkfifo(path, 0o666) },
		"folder":   func() error { return os.Mkdir(path, 0o777) },
	} {
		put(t, victim, "mine")
		expect.OK(t, trap())
		for flag, name := range map[int]string{os.O_RDWR | os.O_CREATE: "both",
			os.O_WRONLY | os.O_CREATE | os.O_APPEND: "write"} {
			_, err := Open(path, flag, 0o666)
			if err == nil {
				t.Fatalf("%s: opened to %s", what, name)
			}
			expect.Error(t, err, "open "+path+": it is not a regular file")
		}
		_, err := Lock(path)
		if err == nil || errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", what, err)
		}
		if expect.Read(t, victim) != "mine" || len(folder(t, dir)) != 2 {
			t.Errorf("%s: the victim has %q, there is %q", what, expect.Read(t, victim), folder(t, dir))
		}
		os.Remove(path)
	}
	// Lock does not write the holder into a file with a second name.
	if err := os.Link(victim, path); err != nil {
		t.Skip(err)
	}
	f, err := Lock(path)
	expect.OK(t, err)
	defer f.Close()
	if expect.Read(t, victim) != "mine" {
		t.Errorf("the victim has %q", expect.Read(t, victim))
	}
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777))
	put(t, filepath.Join(dir, "a", "x"), "")
	for name, target := range map[string]string{"one": "two", "two": "link/../x", "link": "a/b",
		"abs":  filepath.Join(dir, "a", "x"),
		"gone": "a/new", "loop": "pool", "pool": "loop"} {
		expect.OK(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	want := filepath.Join(dir, "a", "x")
	for _, name := range []string{"one", "abs", "a/x"} {
		got, err := Follow(filepath.Join(dir, name))
		a, err1 := os.Lstat(got)
		b, err2 := os.Lstat(want)
		if err := errors.Join(err, err1, err2); err != nil || !os.SameFile(a, b) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if got, err := Follow(filepath.Join(dir, "gone")); err != nil || got != filepath.Join(dir, "a", "new") {
		t.Error(got, err)
	}
	if got, err := Follow(filepath.Join(dir, "none")); err != nil || got != filepath.Join(dir, "none") {
		t.Error(got, err)
	}
	_, err := Follow(filepath.Join(dir, "loop"))
	if expect.Error(t, err, "open "+dir); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
}

// TestTrust_OtherUsersFiles checks which of another user's links and files are trusted in directories that everyone can
// write to.
func TestTrust_OtherUsersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can play another user")
	}
	dir := t.TempDir()
	link, file, both := filepath.Join(dir, "link"), filepath.Join(dir, "file"), filepath.Join(dir, "both")
	put(t, file, "theirs")
	put(t, both, "mine")
	if err := errors.Join(os.Symlink(file, link), os.Lchown(link, 4321, -1), os.Chown(file, 4321, -1),
		os.Link(both, both+".2")); err != nil {
		t.Skip("this root can play nobody: ", err) // for example in a user namespace that has no other user
	}
	for _, c := range []struct {
		mode                   fs.FileMode
		owner                  int
		followed, opened, both bool
	}{
		{0o755, 0, true, true, true},
		{0o777, 0, false, false, false},
		{0o775, 0, false, true, true},
		{0o777 | fs.ModeSticky, 0, false, false, false},
		{0o777 | fs.ModeSticky, 4321, true, true, false},
		{0o755 | fs.ModeSticky, 0, true, true, true},
	} {
		expect.OK(t, errors.Join(os.Chown(dir, c.owner, -1), os.Chmod(dir, c.mode)))
		if _, err := Follow(link); (err == nil) != c.followed {
			t.Errorf("%v: the link: %v", c.mode, err)
		} else if err != nil {
			expect.Error(t, err, link, "user 4321", "others write in")
		}
		for path, want := range map[string]bool{file: c.opened, both: c.both} {
			f, err := Open(path, os.O_RDWR, 0)
			if (err == nil) != want {
				t.Errorf("%v: %s: %v", c.mode, path, err)
			}
			if err == nil {
				f.Close()
			}
		}
	}
	if got := expect.Read(t, file); got != "theirs" {
		t.Errorf("it has %q", got)
	}
}
