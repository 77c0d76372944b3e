package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrLocked means that another process has the lock.
	ErrLocked = errors.New("another run is at work there")
	// ErrNoLocks means that the file system does not support locks.
	ErrNoLocks = errors.New("the file system has no locks")
)

var flock = unix.Flock // replaced in tests that make it fail

// TryLock locks the file for this process until it is closed or the process ends in any way. If shared is true, other
// processes can also take a shared lock. TryLock does not wait. The error is or wraps [ErrLocked] or [ErrNoLocks], or
// is the error of flock(2).
func (f *File) TryLock(shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		switch err := flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			f.locked = true
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK):
			return fmt.Errorf("%w: %w", ErrNoLocks, err)
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// Close closes the file, and releases its lock first: a process that another thread is just starting has the file open
// as well until it runs its program, and with it the lock.
func (f *File) Close() error {
	if f.locked {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // closing releases it all the same, but for that moment
		f.locked = false
	}
	return f.File.Close()
}

// Lock takes the lock that the file at path represents, in a directory that exists, until the file is closed or the
// process ends in any way. It does not wait: if another process has the lock, the error wraps [ErrLocked] and names
// that process.
//
// The kernel holds the lock, with flock(2) on the file, so a killed process does not block others. The text in the file
// (process, host, start) serves only the message. The holder may remove or rename the file, or its directory: a process
// that waits for the old file notices. Over NFS, the lock works between hosts from Linux 2.6.12 on.
func Lock(path string) (*File, error) {
	f, err := lock(path, true, func(f *File) error { return fmt.Errorf("%w%s", ErrLocked, f.holder()) })
	if err == nil {
		f.sign()
	}
	return f, err
}

// LockWait locks the file at path as [Lock] does, but waits until it has the lock or ctx ends, and does not change the
// contents of the file. Python's filelock takes the same lock. On a file system without locks, LockWait locks nothing.
func LockWait(ctx context.Context, path string) (*File, error) {
	pause := time.Millisecond
	return lock(path, false, func(*File) error {
		wait := time.After(pause)
		pause = min(2*pause, 100*time.Millisecond)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrLocked, context.Cause(ctx))
		case <-wait:
			return nil
		}
	})
}

// lock opens and locks the file. If must is true, the file system must support locks. While another process has the
// lock, lock calls busy, until busy returns an error.
func lock(path string, must bool, busy func(*File) error) (*File, error) {
	for {
		f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		err = f.TryLock(false)
		if !must && errors.Is(err, ErrNoLocks) {
			return f, nil
		}
		if err == nil && f.named(paths{}, path) { // otherwise the previous holder has removed or moved the file
			return f, nil
		}
		if errors.Is(err, ErrLocked) {
			err = busy(f)
		}
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// Remove removes a lock's file and releases the lock. Only users of [Lock] may lock the file.
func (f *File) Remove() error { return errors.Join(remove(paths{}, f.Name()), f.Close()) }

// sign writes the holder into the file. It truncates the file after writing, so that the file never lacks a name. sign
// does not change a file with a second name, which may be one of the user's files.
func (f *File) sign() {
	host, _ := os.Hostname()
	line := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().Format(time.DateTime))
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 1 {
		_, _ = f.WriteAt([]byte(line), 0) // if this fails, only the message lacks the holder
		_ = f.File.Truncate(int64(len(line)))
	}
}

// holder returns the holder of the lock, in brackets, or "" if it is unknown.
func (f *File) holder() string {
	data, _ := io.ReadAll(io.NewSectionReader(f, 0, 256))
	line, _, whole := strings.Cut(string(data), "\n")
	if !whole || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return " (" + line + ")"
}
