package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// File is an open file whose writes and syncs go through [Watch].
type File struct {
	*os.File
	failed error // of the first failed Sync
	locked bool  // by TryLock
}

// Open opens a file that keeps its name, such as a lock, a journal or a log, as [os.OpenFile] does. It opens only
// regular files and never waits for the other end of a FIFO. It does not follow a link at path itself: if the user's
// own links are welcome, call [Follow] first. In a directory where everybody can write, such as /tmp, it refuses
// another user's file, and to write it refuses a directory that [TrustDir] refuses. The error names no remedy,
// because only the caller knows whether another path would do.
func Open(path string, flag int, perm fs.FileMode) (*File, error) {
	return open(paths{}, path, flag, perm)
}

func open(t tree, name string, flag int, perm fs.FileMode) (*File, error) {
	if flag&(os.O_CREATE|os.O_WRONLY|os.O_RDWR) != 0 {
		if err := trustDir(t, dirOf(name)); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	if flag&os.O_CREATE != 0 {
		if err := watch("create", name); err != nil {
			return nil, err
		}
	}
	f, err := t.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	// The path is a link, a FIFO or socket without its other end, or a directory.
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EISDIR) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("it is not a regular file (%s)", info.Mode().Type())
	default:
		err = trust(t, name, info)
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &File{File: f}, nil
}

// OpenDevice opens what exists at a path and is no regular file, such as /dev/stdout or a named pipe, for writing. A
// named pipe that nobody reads is an error: OpenDevice does not wait for a reader.
func OpenDevice(path string) (*os.File, error) {
	err := TrustDir(dirOf(path))
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(path); err == nil {
			err = trust(paths{}, path, info)
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("nobody reads this named pipe")}
	}
	return f, err
}

// Follow returns the path that a link at path leads to, through further links, whether or not a file exists there. It
// returns a path that is not a link unchanged. In a directory that others can write to, another user's link is an
// error, because it could lead to any of this user's files.
func Follow(path string) (string, error) {
	for range 40 {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		if err == nil {
			err = trust(paths{}, path, info)
		}
		if err != nil {
			return "", err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			dir, _ := filepath.Split(path) // unlike Join, this leaves link/.. to the system
			target = dir + target
		}
		path = target
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// Write writes b.
func (f *File) Write(b []byte) (int, error) {
	if err := watch("write", f.Name()); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

// WriteString writes s.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// ReadFrom writes the contents of r.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f}, r)
}

// Truncate changes the size of the file.
func (f *File) Truncate(size int64) error {
	if err := watch("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync makes written data survive a power failure. A failure is final, and every later Sync returns it: the kernel may
// have marked data as clean that it could not write (Rebello et al., Can Applications Recover from fsync Failures?,
// 2020).
func (f *File) Sync() error {
	if f.failed == nil {
		if f.failed = watch("sync", f.Name()); f.failed == nil {
			f.failed = f.File.Sync()
		}
	}
	return f.failed
}

// named reports whether name still refers to the file.
func (f *File) named(t tree, name string) bool {
	mine, err1 := f.Stat()
	there, err2 := t.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}
