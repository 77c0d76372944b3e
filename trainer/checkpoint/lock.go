package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"restyle/internal/disk"
)

// Lock locks a directory, which it creates if it is missing, until unlock is called or this process ends in any way. It
// does not wait: if another process holds the lock, the error wraps [disk.ErrLocked] and names that process.
//
// The lock is [disk.Lock] on <dir>/.lock. The file stays, and moves with the directory.
func Lock(dir string) (unlock func() error, err error) {
	for {
		err := makeDir(dir, 0o777)
		if of := new(fs.PathError); errors.Is(err, fs.ErrExist) && errors.As(err, &of) && movable(of.Path) {
			continue // it existed, and was then removed
		}
		if err != nil {
			return nil, fmt.Errorf("cannot create %s: %w: choose a directory that can be written", dir, err)
		}
		f, err := disk.Lock(filepath.Join(dir, ".lock"))
		switch {
		case err == nil:
			return f.Close, nil
		case errors.Is(err, fs.ErrNotExist):
			continue // the directory was deleted or renamed in between
		case errors.Is(err, disk.ErrLocked):
			return nil, fmt.Errorf("%w: wait for it or stop it, or choose another directory", err)
		case errors.Is(err, disk.ErrNoLocks):
			return nil, fmt.Errorf("%w: choose a directory on another one", err)
		}
		return nil, fmt.Errorf("cannot write in %s: %w: choose a directory that can be written", dir, err)
	}
}

// makeDir is replaced by a test.
var makeDir = disk.MakeDir

// movable reports whether dir is a directory or missing: another process may have created or renamed it.
func movable(dir string) bool {
	info, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir()
}
