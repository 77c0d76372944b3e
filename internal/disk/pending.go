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

// Pending is a file that does not have its name yet. Commit gives it the name; until then nobody sees it under that
// name, and what had the name before is as it was.
type Pending struct {
	*File
	tree       tree
	temp, name string
	closed     bool
}

// Create begins the file that is to be at path, with the permissions perm less the umask, in a directory that exists.
// It has a random name in the same directory, is locked, and is open for reading and writing. Create removes the
// pending files that killed processes have left in the directory: those that no process has locked.
func Create(path string, perm fs.FileMode) (*Pending, error) { return create(paths{}, path, perm) }

// CreateIn is [Create] for a name in root, which stays open until Commit or Discard.
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
			return nil, err
		}
		err = f.TryLock(false)
		if (err == nil || errors.Is(err, ErrNoLocks)) && f.named(t, temp) {
			return &Pending{File: f, tree: t, temp: temp, name: name}, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, ErrLocked) {
			return nil, errors.Join(fmt.Errorf("%s: %w", temp, err), t.Remove(temp))
		} // else another process took it for abandoned, before it was locked
	}
}

// Resume is [CreateIn] with a name of its own, temp, in the directory of name, under which it continues what is there.
// Close leaves it there. Two processes must not resume one file: the caller holds a lock.
func Resume(root *os.Root, temp, name string, perm fs.FileMode) (*Pending, error) {
	f, err := open(root, temp, os.O_RDWR|os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	if !f.named(root, temp) { // a link within root
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: temp, Err: errors.New("it is a link: remove it")}
	}
	return &Pending{File: f, tree: root, temp: temp, name: name}, nil
}

// Commit syncs the file, gives it its name, in place of a file that has the name, and makes the name last through a
// power cut. If the old file's permissions are narrower, it gets those. On an error before the rename the file is
// discarded.
func (p *Pending) Commit() error { return p.CommitAs(p.name) }

// CommitAs is Commit with another name on the same file system.
func (p *Pending) CommitAs(name string) error {
	if p.closed {
		return fs.ErrClosed
	}
	defer p.Discard()
	if err := p.Sync(); err != nil {
		return err
	}
	if old, err := p.tree.Lstat(name); err == nil && old.Mode().IsRegular() {
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

// Discard removes the file. After Commit or Discard it does nothing.
func (p *Pending) Discard() error {
	if p.closed {
		return nil
	}
	p.closed = true
	return errors.Join(remove(p.tree, p.temp), p.Close())
}

// Write writes data as the file at path, complete or not at all, and durable: [Create] and Commit.
func Write(path string, data []byte, perm fs.FileMode) error { return write(paths{}, path, data, perm) }

// WriteIn is [Write] for a name in root.
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

// The names of pending files. What is between the two is random.
const (
	tempPrefix = ".restyle-"
	tempSuffix = ".tmp"
)

// IsPending reports whether a file's name, without its directory, is that of a pending file, perhaps one that a killed
// process has left.
func IsPending(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix) &&
		len(name) == len(tempPrefix)+len(rand.Text())+len(tempSuffix)
}

// Tidy removes the pending files that killed processes have left in a directory.
func Tidy(dir string) { tidy(paths{}, dir) }

func tidy(t tree, dir string) {
	d, err := t.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return // whatever is done there next says why
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
