package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"restyle/internal/disk"
)

// Outcome is the result of putting a file in place.
type Outcome struct {
	State State
	// Kept is the name of the backup of the old file, if it was replaced.
	Kept string
}

// State tells what happened to the file at the path.
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

// WriteFile writes data to the file at path. A reader, or a crash at any moment, finds either the old file or the new
// one. It creates the directory if necessary.
func WriteFile(path string, data []byte) (Outcome, error) {
	p, err := createPending(path)
	if err != nil {
		return Outcome{}, err
	}
	if _, err := p.Write(data); err != nil {
		return Outcome{}, errors.Join(err, p.discard())
	}
	return p.commit()
}

// pending is a file under a temporary name in the directory of its final path. A lock keeps a second process from
// writing the same path.
type pending struct {
	*disk.Pending
	path string // the final path
	lock *disk.File
}

// createPending locks a path and creates the temporary file.
func createPending(path string) (*pending, error) {
	path, err := disk.Follow(path) // a link stays a link
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("output: %s: not a regular file (%s): choose another name", path, info.Mode().Type())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	lock, err := disk.Lock(path + ".lock")
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("output: %s: another process is writing it: wait for it or choose another name (%w)", path,
			err)
	}
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	f, err := disk.Create(path, 0o666)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("output: %w", err), lock.Remove())
	}
	return &pending{f, path, lock}, nil
}

// discard removes the temporary file and the lock.
func (p *pending) discard() error { return errors.Join(p.Discard(), p.lock.Remove()) }

// commit puts the file in place and removes the lock. On an error the old file is still in place.
func (p *pending) commit() (Outcome, error) {
	outcome, err := p.place()
	if err = errors.Join(err, p.discard()); err != nil {
		return Outcome{}, fmt.Errorf("output: %w", err)
	}
	return outcome, nil
}

func (p *pending) place() (Outcome, error) {
	same, err := disk.Same(p.path, p.File)
	if errors.Is(err, fs.ErrNotExist) {
		return Outcome{State: Written}, p.CommitAs(p.path)
	}
	if same || err != nil {
		return Outcome{State: Unchanged}, err
	}
	// The new file must be on the disk before the old one is touched.
	if err := p.Sync(); err != nil {
		return Outcome{}, err
	}
	kept, err := disk.Backup(p.path)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Replaced, kept}, p.CommitAs(p.path)
}
