package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile waits for the exclusive lock on a file, which it creates, and gives what releases it. It is the lock of
// Python's filelock, flock(2): the kernel drops it when its holder dies. The file stays, for removing it would let two
// processes lock two files of one name.
func lockFile(ctx context.Context, name string) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return nil, err
	}
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o666)
		if err != nil {
			return nil, err
		}
		f.Chmod(0o664) // by its owner, whatever the umask: users of one group who share a cache wait for each other
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil && stillThere(f, name):
			return func() { f.Close() }, nil
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK):
			// A file system without locks. Two downloads at once may then spoil each other's part file, which the hash
			// finds; a spoilt file never gets a name.
			return func() { f.Close() }, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("cannot lock %s: %w", name, err)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("waiting for another download of the same file, which holds %s: %w", name, err)
		}
	}
}

// stillThere tells whether f is still the file of that name: someone may clear the locks while others wait for them.
func stillThere(f *os.File, name string) bool {
	mine, err1 := f.Stat()
	named, err2 := os.Stat(name)
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}
