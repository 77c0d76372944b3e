// Package disk writes files that are either complete or absent, even after a power failure. It also locks files, and
// does not follow links that another user has planted.
//
// Every call that changes the disk goes through [Watch], with which tests count the calls, check their order and make
// them fail.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tree resolves names: either any path, or names in an *os.Root, which no name and no link leads out of.
type tree interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	Rename(old, new string) error
	Remove(name string) error
}

// paths is the tree of all paths.
type paths struct{}

func (paths) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
func (paths) Stat(name string) (fs.FileInfo, error)  { return os.Stat(name) }
func (paths) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }
func (paths) Readlink(name string) (string, error)   { return os.Readlink(name) }
func (paths) Rename(old, new string) error           { return os.Rename(old, new) }
func (paths) Remove(name string) error               { return os.Remove(name) }

var watcher atomic.Pointer[func(op string, names ...string) error]

// Watch calls f before each call of this package that changes the disk, until stop is called: "create", "write",
// "truncate", "sync", "link", "rename", "remove" and "syncdir", with the names that the call takes. If f returns an
// error, the call fails with it; a write still writes half of its bytes, as on a disk that fills up. Watch is for
// tests. Only one watcher may be active at a time.
func Watch(f func(op string, names ...string) error) (stop func()) {
	watcher.Store(&f)
	return func() { watcher.Store(nil) }
}

func watch(op string, names ...string) error {
	if f := watcher.Load(); f != nil {
		if err := (*f)(op, names...); err != nil {
			return &fs.PathError{Op: op, Path: names[0], Err: err}
		}
	}
	return nil
}

// Rename renames a file or directory. Call SyncDir to make the new name durable.
func Rename(old, new string) error { return rename(paths{}, old, new) }

// RenameIn does what [Rename] does, in root. Call SyncDirIn to make the new name durable.
func RenameIn(root *os.Root, old, new string) error {
	if err := rename(root, old, new); err != nil {
		return err
	}
	return SyncDirIn(root, filepath.Dir(new))
}

func rename(t tree, old, new string) error {
	if err := trustDir(t, dirOf(new)); err != nil {
		return err
	}
	if err := watch("rename", old, new); err != nil {
		return err
	}
	return t.Rename(old, new)
}

// RemoveAll removes a file, or a directory with its contents. It returns no error if path does not exist.
func RemoveAll(path string) error {
	if err := TrustDir(dirOf(path)); err != nil {
		return err
	}
	if err := watch("remove", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

func remove(t tree, name string) error {
	if err := trustDir(t, dirOf(name)); err != nil {
		return err
	}
	if err := watch("remove", name); err != nil {
		return err
	}
	return t.Remove(name)
}

// SyncDir makes the names in a directory survive a power failure. Some file systems cannot sync a directory; SyncDir
// does not return that as an error, because the caller can do nothing about it.
func SyncDir(dir string) error { return syncDir(paths{}, dir) }

// SyncDirIn does what [SyncDir] does, for a directory in root.
func SyncDirIn(root *os.Root, dir string) error { return syncDir(root, dir) }

func syncDir(t tree, dir string) error {
	d, err := t.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	if err = watch("syncdir", dir); err == nil {
		err = d.Sync()
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// Free returns the number of bytes that this user may still write to the disk of dir. If dir does not exist yet, Free
// uses the nearest parent directory that does.
func Free(dir string) (int64, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		return int64(uint64(st.Bavail) * uint64(st.Bsize)), err
	}
}
