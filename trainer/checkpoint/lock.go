package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"restyle/internal/disk"
)

// Lock takes a directory, which is made if it is missing, for this process, until unlock is called or the process ends
// in any way. It does not wait: if another process has it, the error wraps [disk.ErrLocked] and names that process.
//
// The lock is [disk.Lock] on <dir>/.lock. The file stays, and moves with the directory.
func Lock(dir string) (unlock func() error, err error) {
	for {
		err := os.MkdirAll(dir, 0o777)
		if of := new(fs.PathError); errors.Is(err, fs.ErrExist) && errors.As(err, &of) && movable(of.Path) {
			continue // it was there, and then it was not
		}
		if err != nil {
			return nil, fmt.Errorf("cannot make %s: %w: choose a folder that can be written", dir, err)
		}
		f, err := disk.Lock(filepath.Join(dir, ".lock"))
		switch {
		case err == nil:
			return f.Close, nil
		case errors.Is(err, fs.ErrNotExist):
			continue // the directory went in between
		case errors.Is(err, disk.ErrLocked):
			return nil, fmt.Errorf("%w: wait for it or stop it, or choose another folder", err)
		case errors.Is(err, disk.ErrNoLocks):
			return nil, fmt.Errorf("%w: choose a folder on another one", err)
		}
		return nil, fmt.Errorf("cannot write in %s: %w: choose a folder that can be written", dir, err)
	}
}

// movable is whether dir is a directory or nothing: another process may have made it or set it aside.
func movable(dir string) bool {
	info, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir()
}
