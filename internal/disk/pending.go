package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Pending is a file that does not have its name yet. Commit gives it the name. Until then, the file does not appear
// under that name, and a file that has the name stays unchanged.
type Pending struct {
	*File
	tree       tree
	temp, name string
	closed     bool
}

// Create creates the file that Commit will put at path, with the permissions perm less the umask, in a directory that
// exists. The file has a random name in the same directory, is locked, and is open for reading and writing. Create also
// removes the pending files that killed processes have left in the directory: those that no process has locked.
func Create(path string, perm fs.FileMode) (*Pending, error) { return create(paths{}, path, perm) }

// CreateIn does what [Create] does, for a name in root, which stays open until Commit or Discard.
func CreateIn(root *os.Root, name string, perm fs.FileMode) (*Pending, error) {
	return create(root, name, perm)
}

func create(t tree, name string, perm fs.FileMode) (*Pending, error) {
	dir := filepath.Dir(name)
	tidy(t, dir)
	for {
		temp := filepath.Join(dir, tempPrefix+rand.Text()+tempSuffix)
		f, err := open(t, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, ofName(err, name)
		}
		err = f.TryLock(false)
		if (err == nil || errors.Is(err, ErrNoLocks)) && f.named(t, temp) {
			return &Pending{File: f, tree: t, temp: temp, name: name}, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, ErrLocked) {
			return nil, errors.Join(fmt.Errorf("%s: %w", temp, err), t.Remove(temp))
		} // otherwise another process removed the file as abandoned before it was locked
	}
}

// ofName puts a file's name into an error in place of the pending file's, which its user does not know.
func ofName(err error, name string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		e.Path = name
	}
	return err
}

// Write writes b.
func (p *Pending) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	return n, ofName(err, p.name)
}

// Sync does what [File.Sync] does.
func (p *Pending) Sync() error { return ofName(p.File.Sync(), p.name) }

// Resume does what [CreateIn] does, but uses the name temp in the directory of name, and continues a file that exists
// there. Close keeps that file. Two processes must not resume the same file, so the caller must hold a lock.
func Resume(root *os.Root, temp, name string, perm fs.FileMode) (*Pending, error) {
	f, err := open(root, temp, os.O_RDWR|os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	if !f.named(root, temp) { // temp is a link within root
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: temp, Err: errors.New("it is a link: remove it")}
	}
	return &Pending{File: f, tree: root, temp: temp, name: name}, nil
}

// Commit syncs the file, renames it to its name, replacing any file of that name, and makes the name survive a power
// failure. If the old file's permissions are narrower, the new file gets those. Commit does not replace a device, but
// returns an error. If an error occurs before the rename, Commit discards the file.
func (p *Pending) Commit() error { return p.CommitAs(p.name) }

// CommitAs does what Commit does, with another name on the same file system.
func (p *Pending) CommitAs(name string) error {
	if p.closed {
		return fs.ErrClosed
	}
	defer p.Discard()
	if err := p.Sync(); err != nil {
		return err
	}
	old, err := p.tree.Lstat(name)
	if err == nil && old.Mode()&fs.ModeDevice != 0 {
		return &fs.PathError{Op: "replace", Path: name, Err: errors.New("it is a device")}
	}
	if err == nil && old.Mode().IsRegular() {
		mine, err := p.Stat()
		if err != nil {
			return err
		}
		if mode := mine.Mode().Perm(); mode&^old.Mode() != 0 {
			if err := p.Chmod(mode & old.Mode()); err != nil {
				return err
			}
		}
	}
	if err := rename(p.tree, p.temp, name); err != nil {
		return err
	}
	p.closed = true
	return errors.Join(syncDir(p.tree, filepath.Dir(name)), p.Close())
}

// Discard removes the file. It does nothing after Commit or Discard.
func (p *Pending) Discard() error {
	if p.closed {
		return nil
	}
	p.closed = true
	return errors.Join(remove(p.tree, p.temp), p.Close())
}

// Write writes data to the file at path with [Create] and Commit: durably, and either completely or not at all.
func Write(path string, data []byte, perm fs.FileMode) error { return write(paths{}, path, data, perm) }

// WriteIn does what [Write] does, for a name in root.
func WriteIn(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	return write(root, name, data, perm)
}

func write(t tree, name string, data []byte, perm fs.FileMode) error {
	p, err := create(t, name, perm)
	if err != nil {
		return err
	}
	defer p.Discard()
	if _, err := p.Write(data); err != nil {
		return err
	}
	return p.Commit()
}

// Prefix and suffix of the names of pending files. A random text is between them.
const (
	tempPrefix = ".restyle-"
	tempSuffix = ".tmp"
)

// IsPending reports whether a file's name, without its directory, is the name of a pending file, possibly one that a
// killed process has left.
func IsPending(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix) &&
		len(name) == len(tempPrefix)+len(rand.Text())+len(tempSuffix)
}

// Tidy removes the pending files that killed processes have left in a directory.
func Tidy(dir string) { tidy(paths{}, dir) }

func tidy(t tree, dir string) {
	d, err := t.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return // the next operation in the directory will report the reason
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if !IsPending(name) {
			continue
		}
		name = filepath.Join(dir, name)
		f, err := open(t, name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if f.TryLock(false) == nil {
			_ = remove(t, name)
		}
		f.Close()
	}
}
