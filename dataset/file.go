package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Outcome says what putting a file in place did.
type Outcome int

const (
	Written   Outcome = iota + 1 // there was no such file
	Unchanged                    // the file had these bytes already and was not touched
	Replaced                     // the file differed; the old one is now <name>.bak
)

// String words the outcome for a person: "written", "unchanged" or "replaced, the
// old file is kept as .bak".
func (o Outcome) String() string {
	switch o {
	case Written:
		return "written"
	case Unchanged:
		return "unchanged"
	case Replaced:
		return "replaced, the old file is kept as .bak"
	}
	return "not written"
}

// WriteFile puts data at path so that a reader, or a crash at any moment, sees the
// old file or the new one and nothing between. The folder is made if it is missing.
func WriteFile(path string, data []byte) (Outcome, error) {
	p, err := createPending(path)
	if err != nil {
		return 0, err
	}
	if _, err := p.file.Write(data); err != nil {
		return 0, errors.Join(err, p.discard())
	}
	return p.commit()
}

// pending is a file that is being written beside the one it will become.
type pending struct {
	path string // the file to be
	file *os.File
}

// createPending opens <path>.tmp and holds a lock on it. The name is fixed, so that
// what a killed process leaves is used again and does not pile up; the lock
// keeps two processes from writing one file.
func createPending(path string) (*pending, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("dataset: %s is not a regular file (%s): choose another name", path, info.Mode().Type())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	for {
		f, err := os.OpenFile(path+".tmp", os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("dataset: %w", err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			return nil, fmt.Errorf("dataset: another process is writing %s: wait for it or choose another name (%w)", path, err)
		}
		// Between opening and locking, the process before may have renamed this very
		// file to its final name: it must not be written to any more.
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("dataset: %w", err)
		}
		if there, err := os.Stat(f.Name()); err != nil || !os.SameFile(mine, there) {
			f.Close()
			continue
		}
		if err := f.Truncate(0); err != nil {
			f.Close()
			return nil, fmt.Errorf("dataset: %w", err)
		}
		return &pending{path: path, file: f}, nil
	}
}

// discard removes what was written.
func (p *pending) discard() error {
	return errors.Join(os.Remove(p.file.Name()), p.file.Close())
}

// commit puts the file in place. On an error the old file is still there.
func (p *pending) commit() (Outcome, error) {
	outcome, err := p.place()
	if err != nil {
		os.Remove(p.file.Name()) // after a rename there is nothing of that name
		p.file.Close()
		return 0, fmt.Errorf("dataset: %w", err)
	}
	return outcome, p.file.Close() // and with it the lock
}

func (p *pending) place() (Outcome, error) {
	tmp := p.file.Name()
	outcome := Written
	if old, err := os.Open(p.path); err == nil {
		same, err := sameContent(old, p.file)
		old.Close()
		if err != nil {
			return 0, err
		}
		if same {
			return Unchanged, os.Remove(tmp)
		}
		outcome = Replaced
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := p.file.Sync(); err != nil {
		return 0, err
	}
	if outcome == Replaced {
		if err := keep(p.path); err != nil {
			return 0, err
		}
	}
	if err := os.Rename(tmp, p.path); err != nil {
		return 0, err
	}
	return outcome, syncDir(filepath.Dir(p.path))
}

// keep makes the file at path available as <path>.bak as well, in place of an
// older one, without a moment in which path is missing.
func keep(path string) error {
	bak, link := path+".bak", path+".bak.tmp"
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, link); err != nil {
		return os.Rename(path, bak) // a file system without links
	}
	if err := os.Rename(link, bak); err != nil {
		return err
	}
	// Renaming one link of a file over another does nothing and leaves both: after
	// a kill just here, .bak is this file already.
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err // some file systems cannot sync a directory; nothing can be done there
	}
	return nil
}

func sameContent(a, b *os.File) (bool, error) {
	as, err := a.Stat()
	if err != nil {
		return false, err
	}
	bs, err := b.Stat()
	if err != nil || as.Size() != bs.Size() {
		return false, err
	}
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < as.Size(); {
		n, err := a.ReadAt(x, at)
		if n == 0 && err != nil && err != io.EOF {
			return false, err
		}
		m, err := b.ReadAt(y[:n], at)
		if m < n && err != nil && err != io.EOF {
			return false, err
		}
		if n == 0 || !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}
