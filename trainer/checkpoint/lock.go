package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another process works in the directory.
var ErrLocked = errors.New("another run is at work there")

// Lock takes a directory, which is made if it is missing, for this process, until unlock is called or the process ends
// in any way. It does not wait: where another process has it the error wraps [ErrLocked] and names that process.
//
// The lock is flock(2) on <dir>/.lock and the kernel's, so a run that was killed blocks nobody, and what stands in the
// file (process, host, start) is for the message alone. The file stays: removing it would let two processes lock two
// files of one name. Over NFS it holds between hosts from Linux 2.6.12 on; where a file system has no locks at all the
// error is that of the system call.
func Lock(dir string) (unlock func() error, err error) {
	path := filepath.Join(dir, ".lock")
	for {
		err := os.MkdirAll(dir, 0o777)
		if of := new(fs.PathError); errors.Is(err, fs.ErrExist) && errors.As(err, &of) && movable(of.Path) {
			continue // it was there, and then it was not
		}
		if err != nil {
			return nil, fmt.Errorf("cannot make %s: %w: choose a folder that can be written", dir, err)
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the directory went in between
		}
		if err != nil {
			return nil, fmt.Errorf("cannot write in %s: %w: choose a folder that can be written", dir, err)
		}
		if err := take(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if !stillThere(f, path) { // whoever had the lock has set the directory aside: this is a lock on that one
			f.Close()
			continue
		}
		if err := sign(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("cannot write in %s: %w", dir, err)
		}
		return f.Close, nil
	}
}

// movable is whether dir is a directory or nothing: another process may have made it or set it aside.
func movable(dir string) bool {
	info, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir()
}

// take locks the file.
func take(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("%w%s: wait for it or stop it, or choose another folder", ErrLocked, holder(f))
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("it cannot be locked: %w: choose a folder on another file system", err)
		}
	}
}

func stillThere(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}

// sign writes into the file who has it. It is cut after it is written, so that there is never a moment without a name.
func sign(f *os.File) error {
	host, _ := os.Hostname() // for the message alone
	line := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().Format(time.DateTime))
	if _, err := f.WriteAt([]byte(line), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(line)))
}

// holder reads who has the lock, in brackets, or nothing where that cannot be told.
func holder(f *os.File) string {
	data, _ := io.ReadAll(io.NewSectionReader(f, 0, 256))
	line, _, whole := strings.Cut(string(data), "\n")
	if !whole || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return " (" + line + ")"
}
