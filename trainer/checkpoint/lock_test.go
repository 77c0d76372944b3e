package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// The test binary is also the process that is killed: childJob names the job, and childDir the directory.
const (
	childJob = "CHECKPOINT_TEST_JOB"
	childDir = "CHECKPOINT_TEST_DIR"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	switch os.Getenv(childJob) {
	case "":
		os.Exit(m.Run())
	case "loop":
		writeForEver(dir)
	case "once":
		writeOnce(dir)
	}
}

// child starts a process that does a job.
func child(t *testing.T, job, dir string, wrapper ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	expect.OK(t, err)
	args := append(wrapper, self)
	cmd = exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childJob+"="+job, childDir+"="+dir)
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, in, bufio.NewReader(stdout)
}

// TestLock checks that one lock of a directory can be held at a time, and what the next one is told. internal/disk has
// the tests of other processes, and of killed ones.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a run")
	for range 2 {
		unlock, err := Lock(dir)
		expect.OK(t, err)
		_, err = Lock(dir)
		if !errors.Is(err, disk.ErrLocked) {
			t.Error(err)
		}
		expect.Error(t, err, dir, "process", "wait for it or stop it")
		expect.OK(t, unlock())
	}
}

// TestLockMoved has lock holders that rename the directory, as a new run does with an old one, while others try to lock
// it. A lock on the renamed directory must not count as a lock on the new directory with its old name.
func TestLockMoved(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "run")
	var holders, taken atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for taken.Load() < 200 {
				unlock, err := Lock(dir)
				if errors.Is(err, disk.ErrLocked) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				if err := os.Rename(dir, fmt.Sprintf("%s.bak%d", dir, taken.Add(1))); err != nil {
					t.Error(err)
				}
				unlock()
			}
		})
	}
	wg.Wait()
}

// TestLock_DirectoryOfAnother has another process make and remove the directory while Lock makes it: that is no error.
func TestLock_DirectoryOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	calls := 0
	makeDir = func(path string, mode fs.FileMode) error {
		if calls++; calls == 1 {
			return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
		}
		return disk.MakeDir(path, mode)
	}
	defer func() { makeDir = disk.MakeDir }()
	unlock, err := Lock(dir)
	if err != nil || calls != 2 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// TestLockFile puts something else in the lock's place, and content in it that must not be printed.
func TestLockFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	overwrite(t, file, nil)
	_, err := Lock(filepath.Join(file, "run"))
	expect.Error(t, err, "cannot create", "choose a directory")
	nowhere := filepath.Join(dir, "nowhere")
	expect.OK(t, os.Symlink("missing", nowhere))
	for _, dir := range []string{nowhere, filepath.Join(nowhere, "run")} {
		_, err = Lock(dir)
		expect.Error(t, err, "cannot create", "choose a directory")
	}
	expect.OK(t, os.Mkdir(filepath.Join(dir, ".lock"), 0o777))
	_, err = Lock(dir)
	expect.Error(t, err, "cannot write in "+dir)

	dir = t.TempDir()
	unlock, err := Lock(dir)
	expect.OK(t, err)
	defer unlock()
	for _, text := range []string{"", "no end of line", "\x1b[2J\n", strings.Repeat("x", 10000)} {
		overwrite(t, filepath.Join(dir, ".lock"), []byte(text))
		if _, err := Lock(dir); !errors.Is(err, disk.ErrLocked) || strings.Contains(err.Error(), "(") ||
			strings.Contains(err.Error(), "\x1b") {
			t.Errorf("with %.20q in the file: %v", text, err)
		}
	}
}
