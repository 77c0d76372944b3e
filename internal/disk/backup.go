package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// bakName returns the n-th name that Backup and MoveToBackup try, from 1: path.bak, path.bak.2, path.bak.3 and so on.
func bakName(path string, n int) string {
	if n == 1 {
		return path + ".bak"
	}
	return fmt.Sprintf("%s.bak.%d", path, n)
}

// Backup gives the file at path a second name before another file replaces it: the first of path.bak, path.bak.2 and so
// on that is free. It returns that name, or the name of a backup that already has the same bytes. It replaces no file.
// There is a file at path at all times, except on a file system without hard links.
func Backup(path string) (bak string, err error) {
	if err := TrustDir(dirOf(path)); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		bak = bakName(path, n)
		if err = watch("link", path, bak); err == nil {
			err = os.Link(path, bak)
		}
		switch {
		case err == nil:
			return bak, SyncDir(filepath.Dir(path))
		case !errors.Is(err, fs.ErrExist):
			return MoveToBackup(path)
		case sameFiles(path, bak):
			return bak, nil
		}
	}
}

// Outcome is the result of [Pending.CommitBackup].
type Outcome struct {
	State State
	// Kept is the name of the backup of the old file, if it was replaced.
	Kept string
}

// State is what happened to the file at a path.
type State int

const (
	Written   State = iota + 1 // no file existed
	Unchanged                  // the file already had these bytes and was not touched
	Replaced                   // the file had other bytes
)

// String describes the outcome: "written", "unchanged" or "replaced, the old file is kept as data.json.bak".
func (o Outcome) String() string {
	switch o.State {
	case Written:
		return "written"
	case Unchanged:
		return "unchanged"
	case Replaced:
		return "replaced, the old file is kept as " + o.Kept
	}
	return "not written"
}

// CommitBackup does what [Pending.CommitAs] does, but keeps the file at path. If that file has other bytes,
// CommitBackup backs it up first. If it has the same bytes, CommitBackup discards p. path must name a regular file or
// nothing.
func (p *Pending) CommitBackup(path string) (Outcome, error) {
	defer p.Discard()
	same, err := Same(path, p.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Outcome{State: Written}, p.CommitAs(path)
	case err != nil:
		return Outcome{}, err
	case same:
		return Outcome{State: Unchanged}, p.Discard()
	}
	// The new file must be on the disk before the old one is touched.
	if err := p.Sync(); err != nil {
		return Outcome{}, err
	}
	kept, err := Backup(path)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Replaced, kept}, p.CommitAs(path)
}

// MoveToBackup renames the file or directory at path to the first of path.bak, path.bak.2 and so on that is free, and
// returns the new name.
func MoveToBackup(path string) (bak string, err error) {
	for n := 1; ; n++ {
		bak = bakName(path, n)
		if _, err := os.Lstat(bak); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := Rename(path, bak); err != nil {
			return "", err
		}
		return bak, SyncDir(filepath.Dir(path))
	}
}

func sameFiles(a, b string) bool {
	f, err := Open(a, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	same, err := Same(b, f)
	return same && err == nil
}

// Same reports whether the regular file at path has the bytes of f.
func Same(path string, f *File) (bool, error) {
	other, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer other.Close()
	as, err1 := other.Stat()
	bs, err2 := f.Stat()
	if err := errors.Join(err1, err2); err != nil || as.Size() != bs.Size() {
		return false, err
	}
	if os.SameFile(as, bs) {
		return true, nil
	}
	a, b := io.NewSectionReader(other, 0, as.Size()), io.NewSectionReader(f, 0, as.Size())
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(a, x)
		m, err2 := io.ReadFull(b, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err != nil || err2 != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return true, nil
			}
			return false, errors.Join(err, err2)
		}
	}
}
