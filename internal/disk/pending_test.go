package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"restyle/internal/expect"
)

// TestWriteOrder checks that the bytes are on the disk before the file gets its name, and that the name is synced after
// that.
func TestWriteOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	expect.OK(t, os.Mkdir(dir, 0o777))
	root, err := os.OpenRoot(filepath.Dir(dir))
	expect.OK(t, err)
	defer root.Close()
	for name, write := range map[string]func() error{
		"path": func() error { return Write(filepath.Join(dir, "x"), []byte("new"), 0o666) },
		"root": func() error { return WriteIn(root, "d/x", []byte("new"), 0o666) },
	} {
		put(t, filepath.Join(dir, "x"), "old")
		list := calls(t, nil)
		expect.OK(t, write())
		want := []string{"create TEMP", "write TEMP", "sync TEMP", "rename TEMP x", "syncdir d"}
		if !slices.Equal(*list, want) {
			t.Errorf("%s: %q, want %q", name, *list, want)
		}
		if got := folder(t, dir); len(got) != 1 || expect.Read(t, filepath.Join(dir, "x")) != "new" {
			t.Errorf("%s: there is %q", name, got)
		}
	}
	if err := WriteIn(root, "../x", nil, 0o666); err == nil {
		t.Error("written outside the root")
	}
}

// TestWriteFails makes each call of Write fail, and checks that the old file stays unchanged and that no other file is
// left.
func TestWriteFails(t *testing.T) {
	for _, call := range []string{"create TEMP", "write TEMP", "sync TEMP", "rename TEMP x"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		put(t, path, "old")
		calls(t, map[string]error{call: syscall.ENOSPC})
		if err := Write(path, []byte("new"), 0o666); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", call, err)
		}
		if got := folder(t, dir); len(got) != 1 || expect.Read(t, path) != "old" {
			t.Errorf("%s: there is %q, %q", call, got, expect.Read(t, path))
		}
	}
	// A file system that cannot sync a directory is no error; one that can, and fails, is an error.
	for err, fails := range map[error]bool{syscall.EINVAL: false, syscall.ENOTSUP: false, syscall.EIO: true} {
		dir := t.TempDir()
		calls(t, map[string]error{"syncdir " + filepath.Base(dir): err})
		if got := Write(filepath.Join(dir, "x"), nil, 0o666); (got != nil) != fails {
			t.Errorf("the directory's sync gives %v: %v", err, got)
		}
	}
}

// TestPending_OfKilledProcesses checks that the files of killed processes are removed, and that the files of running
// processes are not.
func TestPending_OfKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	said, end := other(t, "create", path)
	if said != "<nil>" {
		t.Fatal(said)
	}
	put(t, filepath.Join(dir, ".restyle-mine.tmp"), "a name of the user's own")
	p, err := Create(path, 0o666)
	expect.OK(t, err)
	if got := folder(t, dir); len(got) != 3 {
		t.Fatalf("there is %q: the file of a live process is gone", got)
	}
	end()
	Tidy(dir)
	if got := folder(t, dir); len(got) != 2 || !slices.ContainsFunc(got, IsPending) {
		t.Fatalf("there is %q", got)
	}
	expect.OK(t, p.Commit())
	said, end = other(t, "create", path)
	end()
	if got := folder(t, dir); said != "<nil>" || len(got) != 3 {
		t.Fatalf("%s, %q", said, got)
	}
	expect.OK(t, Write(path, nil, 0o666))
	if got := folder(t, dir); !slices.Equal(got, []string{".restyle-mine.tmp", "x"}) {
		t.Errorf("there is %q", got)
	}
}

// TestErrorsNameFile checks that errors about a pending file have the name that its user knows.
func TestErrorsNameFile(t *testing.T) {
	for _, op := range []string{"create", "write", "sync"} {
		path := filepath.Join(t.TempDir(), "x")
		defer Watch(func(now string, _ ...string) error {
			if now == op {
				return syscall.ENOSPC
			}
			return nil
		})()
		err := Write(path, []byte("text"), 0o666)
		if want := op + " " + path + ": no space left on device"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestPending checks that the name does not exist before Commit, and that nothing is left after Discard.
func TestPending(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	p, err := Create(path, 0o600)
	expect.OK(t, err)
	if got := folder(t, dir); len(got) != 1 || !IsPending(got[0]) {
		t.Errorf("there is %q", got)
	}
	if err := errors.Join(p.Discard(), p.Discard()); err != nil || len(folder(t, dir)) != 0 {
		t.Error(err, folder(t, dir))
	}
	if err := p.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	// The new file gets the narrower permissions.
	defer syscall.Umask(syscall.Umask(0o022))
	for _, c := range []struct{ old, new, want fs.FileMode }{{0o600, 0o644, 0o600}, {0o644, 0o600, 0o600},
		{0o640, 0o644, 0o640}, {0o660, 0o644, 0o640}} {
		expect.OK(t, errors.Join(os.WriteFile(path, nil, 0o666), os.Chmod(path, c.old), Write(path, nil, c.new)))
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != c.want {
			t.Errorf("%v over %v: %v, %v", c.new, c.old, info.Mode(), err)
		}
	}
	// A directory is not replaced.
	expect.OK(t, os.Mkdir(filepath.Join(dir, "folder"), 0o777))
	if err := Write(filepath.Join(dir, "folder"), nil, 0o666); err == nil {
		t.Error("a folder was replaced")
	}
	if got := folder(t, dir); len(got) != 2 {
		t.Errorf("there is %q", got)
	}
}

// TestPending_DeviceStays checks that a device that a user names as an output is not replaced. The file is on another
// file system, so that not even a faulty Commit could.
func TestPending_DeviceStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	p, err := Create(path, 0o600)
	expect.OK(t, err)
	expect.Error(t, p.CommitAs(os.DevNull), os.DevNull+": it is a device")
	if info, err := os.Lstat(os.DevNull); err != nil || info.Mode()&fs.ModeDevice == 0 {
		t.Errorf("%s is now %v, %v", os.DevNull, info, err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 0 {
		t.Errorf("left over: %v, %v", files, err)
	}
}

// TestPending_TakenName checks that a file that already has the random name stays unchanged.
func TestPending_TakenName(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	put(t, victim, "mine")
	for _, trap := range []func(temp string) error{
		func(temp string) error { return os.Link(victim, temp) },
		func(temp string) error { return os.Symlink(victim, temp) },
		func(temp string) error { return os.Symlink(filepath.Join(dir, "missing"), temp) },
	} {
		taken := ""
		stop := Watch(func(op string, names ...string) error {
			if op == "create" && taken == "" {
				taken = names[0]
				return trap(taken)
			}
			return nil
		})
		err := Write(filepath.Join(dir, "x"), []byte("new"), 0o666)
		stop()
		if err != nil || expect.Read(t, victim) != "mine" || expect.Read(t, filepath.Join(dir, "x")) != "new" ||
			len(folder(t, dir)) != 3 {
			t.Errorf("%v, the victim has %q, there is %q", err, expect.Read(t, victim), folder(t, dir))
		}
		os.Remove(taken)
	}
}

func TestResume(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	expect.OK(t, err)
	defer root.Close()
	for _, part := range []string{"one", "two"} {
		p, err := Resume(root, "x.part", "x", 0o666)
		expect.OK(t, err)
		if _, err := p.Seek(0, io.SeekEnd); err != nil {
			t.Fatal(err)
		}
		p.WriteString(part)
		if part == "one" {
			p.Close()
		} else if err := p.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if got := folder(t, dir); len(got) != 1 || expect.Read(t, filepath.Join(dir, "x")) != "onetwo" {
		t.Errorf("there is %q", got)
	}
	expect.OK(t, os.Symlink("x", filepath.Join(dir, "y.part")))
	_, err = Resume(root, "y.part", "y", 0o666)
	expect.Error(t, err, "y.part", "link")
}
