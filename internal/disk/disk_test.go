package disk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the other process: job says what it does, at which path.
const job, at = "DISK_TEST_JOB", "DISK_TEST_PATH"

func TestMain(m *testing.M) {
	path := os.Getenv(at)
	switch os.Getenv(job) {
	case "":
		os.Exit(m.Run())
	case "lock":
		_, err := Lock(path)
		fmt.Println(err)
	case "create":
		p, err := Create(path, 0o666)
		if err == nil {
			_, err = p.WriteString("half")
		}
		fmt.Println(err)
	}
	bufio.NewReader(os.Stdin).ReadString('\n') // until it is killed
}

// other starts a process that does a job and returns what it says of it; it stays until end is called, which kills it.
func other(t *testing.T, what, path string) (said string, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), job+"="+what, at+"="+path)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	})
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), end
}

func folder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: does not say %q", err, w)
		}
	}
}

// calls records the calls that change the disk, as "op name name", without directories and random names, and fails those
// that have an error in fail.
func calls(t *testing.T, fail map[string]error) (list *[]string) {
	list = new([]string)
	stop := Watch(func(op string, names ...string) error {
		call := op
		for _, name := range names {
			if name = filepath.Base(name); IsPending(name) {
				name = "TEMP"
			}
			call += " " + name
		}
		*list = append(*list, call)
		return fail[call]
	})
	t.Cleanup(stop)
	return list
}

// TestWriteOrder: the bytes are on the disk before they have the name, and then the name is.
func TestWriteOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, write := range map[string]func() error{
		"path": func() error { return Write(filepath.Join(dir, "x"), []byte("new"), 0o666) },
		"root": func() error { return WriteIn(root, "d/x", []byte("new"), 0o666) },
	} {
		put(t, filepath.Join(dir, "x"), "old")
		list := calls(t, nil)
		if err := write(); err != nil {
			t.Fatal(err)
		}
		want := []string{"create TEMP", "write TEMP", "sync TEMP", "rename TEMP x", "syncdir d"}
		if !slices.Equal(*list, want) {
			t.Errorf("%s: %q, want %q", name, *list, want)
		}
		if got := folder(t, dir); len(got) != 1 || read(t, filepath.Join(dir, "x")) != "new" {
			t.Errorf("%s: there is %q", name, got)
		}
	}
	if err := WriteIn(root, "../x", nil, 0o666); err == nil {
		t.Error("written outside the root")
	}
}

// TestWriteFails fails each call of Write: the old file stays as it was, and nothing else.
func TestWriteFails(t *testing.T) {
	for _, call := range []string{"create TEMP", "write TEMP", "sync TEMP", "rename TEMP x"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		put(t, path, "old")
		calls(t, map[string]error{call: syscall.ENOSPC})
		if err := Write(path, []byte("new"), 0o666); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", call, err)
		}
		if got := folder(t, dir); len(got) != 1 || read(t, path) != "old" {
			t.Errorf("%s: there is %q, %q", call, got, read(t, path))
		}
	}
	// Some file systems cannot sync a directory; one that can, and fails, is an error.
	for err, fails := range map[error]bool{syscall.EINVAL: false, syscall.ENOTSUP: false, syscall.EIO: true} {
		dir := t.TempDir()
		calls(t, map[string]error{"syncdir " + filepath.Base(dir): err})
		if got := Write(filepath.Join(dir, "x"), nil, 0o666); (got != nil) != fails {
			t.Errorf("the directory's sync gives %v: %v", err, got)
		}
	}
}

// TestSyncFailureIsFinal: what a failed sync has lost, a second one does not bring back.
func TestSyncFailureIsFinal(t *testing.T) {
	dir := t.TempDir()
	p, err := Create(filepath.Join(dir, "x"), 0o666)
	if err != nil {
		t.Fatal(err)
	}
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

// TestSyncIsTheSystems: a pipe cannot be synced, and the system says so.
func TestSyncIsTheSystems(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := (&File{File: w}).Sync(); err == nil {
		t.Error("a pipe was synced")
	}
}

// TestHalfAWrite: a disk that fills up takes the first part of a write.
func TestHalfAWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	calls(t, map[string]error{"write x": syscall.ENOSPC, "truncate x": syscall.EIO})
	if n, err := f.WriteString("abcdef"); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Error(n, err)
	}
	if _, err := f.ReadFrom(strings.NewReader("ghij")); !errors.Is(err, syscall.ENOSPC) {
		t.Error("a copy passes by the watcher:", err)
	}
	if err := f.Truncate(0); !errors.Is(err, syscall.EIO) || read(t, path) != "abcgh" {
		t.Errorf("%v, %q", err, read(t, path))
	}
}

// TestKilled: what a killed process has left is removed, and what a live one writes is not.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	said, end := other(t, "create", path)
	if said != "<nil>" {
		t.Fatal(said)
	}
	put(t, filepath.Join(dir, ".restyle-mine.tmp"), "a name of the user's own")
	p, err := Create(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if got := folder(t, dir); len(got) != 3 {
		t.Fatalf("there is %q: the file of a live process is gone", got)
	}
	end()
	Tidy(dir)
	if got := folder(t, dir); len(got) != 2 || !slices.ContainsFunc(got, IsPending) {
		t.Fatalf("there is %q", got)
	}
	if err := p.Commit(); err != nil {
		t.Fatal(err)
	}
	said, end = other(t, "create", path)
	end()
	if got := folder(t, dir); said != "<nil>" || len(got) != 3 {
		t.Fatalf("%s, %q", said, got)
	}
	if err := Write(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := folder(t, dir); !slices.Equal(got, []string{".restyle-mine.tmp", "x"}) {
		t.Errorf("there is %q", got)
	}
}

// TestPending: before Commit there is nothing of the name, and after Discard nothing at all.
func TestPending(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	p, err := Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if got := folder(t, dir); len(got) != 1 || !IsPending(got[0]) {
		t.Errorf("there is %q", got)
	}
	if err := errors.Join(p.Discard(), p.Discard()); err != nil || len(folder(t, dir)) != 0 {
		t.Error(err, folder(t, dir))
	}
	if err := p.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	// The narrower permissions win.
	defer syscall.Umask(syscall.Umask(0o022))
	for _, c := range []struct{ old, new, want fs.FileMode }{{0o600, 0o644, 0o600}, {0o644, 0o600, 0o600}, {0o640, 0o644, 0o640}, {0o660, 0o644, 0o640}} {
		if err := errors.Join(os.WriteFile(path, nil, 0o666), os.Chmod(path, c.old), Write(path, nil, c.new)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != c.want {
			t.Errorf("%v over %v: %v, %v", c.new, c.old, info.Mode(), err)
		}
	}
	// A folder is not replaced.
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "folder"), nil, 0o666); err == nil {
		t.Error("a folder was replaced")
	}
	if got := folder(t, dir); len(got) != 2 {
		t.Errorf("there is %q", got)
	}
}

// TestTakenName: whatever has the random name already stays as it is.
func TestTakenName(t *testing.T) {
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
		if err != nil || read(t, victim) != "mine" || read(t, filepath.Join(dir, "x")) != "new" || len(folder(t, dir)) != 3 {
			t.Errorf("%v, the victim has %q, there is %q", err, read(t, victim), folder(t, dir))
		}
		os.Remove(taken)
	}
}

func TestResume(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, part := range []string{"one", "two"} {
		p, err := Resume(root, "x.part", "x", 0o666)
		if err != nil {
			t.Fatal(err)
		}
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
	if got := folder(t, dir); len(got) != 1 || read(t, filepath.Join(dir, "x")) != "onetwo" {
		t.Errorf("there is %q", got)
	}
	if err := os.Symlink("x", filepath.Join(dir, "y.part")); err != nil {
		t.Fatal(err)
	}
	_, err = Resume(root, "y.part", "y", 0o666)
	wantError(t, err, "y.part", "link")
}

// TestLock: one process has it, and the next is told which; a killed one blocks nobody.
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
	wantError(t, err, path, "process", host, "since 2")
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
	if text := read(t, path); !strings.HasPrefix(text, "process") {
		t.Errorf("a lock that was waited for wrote %q", text)
	}
	said, end = other(t, "lock", path)
	wantError(t, errors.New(said), ErrLocked.Error())
	end()
	f.Close()
	put(t, path, strings.Repeat("what a longer name has left\n", 10))
	f, err = Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("process %d on %s since", os.Getpid(), host); !strings.HasPrefix(read(t, path), want) || strings.Count(read(t, path), "\n") != 1 {
		t.Errorf("it says %q", read(t, path))
	}
	if err := f.Remove(); err != nil || len(folder(t, filepath.Dir(path))) != 0 {
		t.Error(err)
	}
}

// flocks has f called in place of flock(2), which it gets.
func flocks(t *testing.T, f func(fd, how int, flock func(fd, how int) error) error) {
	was := flock
	flock = func(fd, how int) error { return f(fd, how, was) }
	t.Cleanup(func() { flock = was })
}

// TestLockOfAnotherFile moves the file between its opening and its locking, as whoever had the lock may do: a lock on a
// file that was moved is none on its name.
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
	// A pending file that was taken for abandoned between the two is begun again.
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
	if err != nil {
		t.Fatal(err)
	}
	if first || !p.named(paths{}, p.temp) {
		t.Error("the file that is written has no name")
	}
	if err := p.Commit(); err != nil || len(folder(t, dir)) != 1 {
		t.Error(err, folder(t, dir))
	}
}

// TestFlockFails has a system call that is interrupted, and file systems without locks.
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
	if err != nil {
		t.Fatal(err)
	}
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
		// Whose a pending file is cannot be told, so it stays.
		p, err := Create(filepath.Join(dir, "x"), 0o666)
		if err != nil {
			t.Fatal(err)
		}
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

// TestLockLeavesNothingOpen: a lock that was refused costs no descriptor.
func TestLockLeavesNothingOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	open := func() int {
		names, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(names)
	}
	before := open()
	for range 20 {
		if _, err := Lock(path); !errors.Is(err, ErrLocked) {
			t.Fatal(err)
		}
	}
	if after := open(); after >= before+20 {
		t.Errorf("%d descriptors were open, and %d are", before, after)
	}
}

// TestShared: those who lock a file shared do not keep each other out.
func TestShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	var f [3]*File
	for i := range f {
		var err error
		if f[i], err = Open(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
			t.Fatal(err)
		}
		defer f[i].Close()
	}
	if err := errors.Join(f[0].TryLock(false), f[0].TryLock(true), f[1].TryLock(true)); err != nil {
		t.Fatal(err)
	}
	if err := f[2].TryLock(false); err != ErrLocked {
		t.Error(err)
	}
}

// TestHolder has things in the lock's file that are not to be printed.
func TestHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, text := range []string{"", "no end of line", "\x1b[2J\n", "\u202e\n", strings.Repeat("x", 10000)} {
		put(t, path, text)
		if _, err := Lock(path); !errors.Is(err, ErrLocked) || strings.ContainsAny(err.Error(), "(\x1b") {
			t.Errorf("with %.20q in the file: %v", text, err)
		}
	}
}

// TestNothingThroughLinks has links, FIFOs and second names of the victim's file where ours are to be.
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
		if err := trap(); err != nil {
			t.Fatal(err)
		}
		for flag, name := range map[int]string{os.O_RDWR | os.O_CREATE: "both", os.O_WRONLY | os.O_CREATE | os.O_APPEND: "write"} {
			_, err := Open(path, flag, 0o666)
			if err == nil {
				t.Errorf("%s: opened to %s", what, name)
			}
		}
		_, err := Lock(path)
		if err == nil || errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", what, err)
		}
		if read(t, victim) != "mine" || len(folder(t, dir)) != 2 {
			t.Errorf("%s: the victim has %q, there is %q", what, read(t, victim), folder(t, dir))
		}
		os.Remove(path)
	}
	// Who has the lock is not written into a file with a second name.
	if err := os.Link(victim, path); err != nil {
		t.Skip(err)
	}
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if read(t, victim) != "mine" {
		t.Errorf("the victim has %q", read(t, victim))
	}
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "a", "x"), "")
	for name, target := range map[string]string{"one": "two", "two": "link/../x", "link": "a/b", "abs": filepath.Join(dir, "a", "x"),
		"gone": "a/new", "loop": "pool", "pool": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
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
	if _, err := Follow(filepath.Join(dir, "loop")); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
}

// TestNeighbour has another user's links and files where everybody may write.
func TestNeighbour(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can play another user")
	}
	dir := t.TempDir()
	link, file, both := filepath.Join(dir, "link"), filepath.Join(dir, "file"), filepath.Join(dir, "both")
	put(t, file, "theirs")
	put(t, both, "mine")
	if err := errors.Join(os.Symlink(file, link), os.Lchown(link, 4321, -1), os.Chown(file, 4321, -1), os.Link(both, both+".2")); err != nil {
		t.Skip("this root can play nobody: ", err) // as in a user namespace that has no other user
	}
	for _, c := range []struct {
		mode                   fs.FileMode
		owner                  int
		followed, opened, both bool
	}{
		{0o755, 0, true, true, true},
		{0o777, 0, false, true, true},
		{0o775, 0, false, true, true},
		{0o777 | fs.ModeSticky, 0, false, false, false},
		{0o777 | fs.ModeSticky, 4321, true, true, false},
		{0o755 | fs.ModeSticky, 0, true, true, true},
	} {
		if err := errors.Join(os.Chown(dir, c.owner, -1), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := Follow(link); (err == nil) != c.followed {
			t.Errorf("%v: the link: %v", c.mode, err)
		} else if err != nil {
			wantError(t, err, link, "user 4321", "choose another name")
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
	if got := read(t, file); got != "theirs" {
		t.Errorf("it has %q", got)
	}
}

func TestKeep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	put(t, path+".bak", "somebody else's")
	for _, c := range []struct{ text, want string }{{"one", ".bak.2"}, {"one", ".bak.2"}, {"two", ".bak.3"}, {"one", ".bak.2"}} {
		if err := Write(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		list := calls(t, nil)
		bak, err := Keep(path)
		if err != nil || bak != path+c.want || read(t, bak) != c.text || read(t, path) != c.text {
			t.Errorf("%s: %s, %v", c.text, bak, err)
		}
		if n := len(*list); c.text == "two" && ((*list)[n-2] != "link x x.bak.3" || (*list)[n-1] != "syncdir "+filepath.Base(dir)) {
			t.Errorf("%s: the name does not last: %q", c.text, *list)
		}
	}
	list := calls(t, nil)
	if bak, err := SetAside(path); err != nil || bak != path+".bak.4" || read(t, bak) != "one" {
		t.Error(bak, err)
	}
	if want := []string{"rename x x.bak.4", "syncdir " + filepath.Base(dir)}; !slices.Equal(*list, want) {
		t.Errorf("%q, want %q", *list, want)
	}
	if got := read(t, path+".bak"); got != "somebody else's" {
		t.Errorf("the first .bak has %q", got)
	}
	if _, err := Keep(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// A file system without links.
	put(t, path, "three")
	calls(t, map[string]error{"link x x.bak": syscall.EPERM})
	if bak, err := Keep(path); err != nil || bak != path+".bak.5" || read(t, bak) != "three" {
		t.Error(bak, err)
	}
	calls(t, nil)
	// A neighbour's links in the way are not followed, whatever they lead to.
	dir = t.TempDir()
	path = filepath.Join(dir, "x")
	put(t, path, "four")
	for i, target := range []string{"x", "missing"} {
		if err := os.Symlink(target, bakName(path, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if bak, err := Keep(path); err != nil || bak != path+".bak.3" {
		t.Error(bak, err)
	}
	if bak, err := SetAside(path); err != nil || bak != path+".bak.4" {
		t.Error(bak, err)
	}
}

func TestSame(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	long := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		a, b string
		want bool
	}{{"", "", true}, {"x", "x", true}, {"x", "y", false}, {"x", "", false}, {long, long, true}, {long + "a", long + "b", false},
		{long + long, long + long, true}, {"a" + long, "b" + long, false}} {
		put(t, a, c.a)
		put(t, b, c.b)
		if got := sameFiles(a, b); got != c.want {
			t.Errorf("%.10q… of %d bytes and %.10q… of %d: %v", c.a, len(c.a), c.b, len(c.b), got)
		}
	}
}

// TestFree compares with df, within what others may write meanwhile.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("df", "-Pk", dir).Output()
	if err != nil {
		t.Skip("there is no df: ", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	kib, err := strconv.ParseInt(fields[len(fields)-3], 10, 64)
	if err != nil {
		t.Skip(string(out))
	}
	for _, dir := range []string{dir, filepath.Join(dir, "not", "yet")} {
		if n, err := Free(dir); err != nil || n < kib<<9 || n > kib<<11 {
			t.Errorf("%s: %d bytes, df says %d KiB: %v", dir, n, kib, err)
		}
	}
	if shm, err := Free("/dev/shm"); err == nil { // mostly a file system of its own
		if n, err := Free("/dev/shm/not/yet"); err != nil || n < shm/2 || n > 2*shm {
			t.Errorf("%d bytes, or %d, %v", shm, n, err)
		}
	}
	file := filepath.Join(dir, "file")
	put(t, file, "")
	if _, err := Free(filepath.Join(file, "x")); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

// TestRenameIn: the new name lasts.
func TestRenameIn(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	put(t, filepath.Join(dir, "x"), "")
	list := calls(t, nil)
	if err := RenameIn(root, "x", "y"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"rename x y", "syncdir ."}; !slices.Equal(*list, want) {
		t.Errorf("%q, want %q", *list, want)
	}
}
