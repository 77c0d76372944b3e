package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"restyle/internal/disk"
)

// Outcome says what putting a file in place did.
type Outcome struct {
	State State
	// Kept is the name under which the old file is kept, if it was replaced.
	Kept string
}

// State is what became of the file at the path.
type State int

const (
	Written   State = iota + 1 // there was no such file
	Unchanged                  // the file had these bytes already and was not touched
	Replaced                   // the file differed
)

// String words the outcome for a person: "written", "unchanged" or "replaced, the old file is kept as data.json.bak".
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

// WriteFile puts data at path so that a reader, or a crash at any moment, sees the
// old file or the new one and nothing between. The folder is made if it is missing.
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

// pending is a file that is being written beside the one it will become, under a lock on path, so that two processes do
// not write one file.
type pending struct {
	*disk.Pending
	path string // the file to be
	lock *disk.File
}

// createPending begins a file and locks its path.
func createPending(path string) (*pending, error) {
	path, err := disk.Follow(path) // a link stays one
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("output: %s is not a regular file (%s): choose another name", path, info.Mode().Type())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	lock, err := disk.Lock(path + ".lock")
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("output: another process is writing %s: wait for it or choose another name (%w)", path, err)
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

// discard removes what was written.
func (p *pending) discard() error { return errors.Join(p.Discard(), p.lock.Remove()) }

// commit puts the file in place. On an error the old file is still there.
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
	// The new file must be able to reach the disk before anything is done to the old one.
	if err := p.Sync(); err != nil {
		return Outcome{}, err
	}
	kept, err := disk.Backup(p.path)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Replaced, kept}, p.CommitAs(p.path)
}
