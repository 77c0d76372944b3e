package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"restyle/internal/disk"
)

// WriteFile writes data to the file at path. A reader, or a crash at any moment, finds either the old file or the new
// one. It creates the directory if necessary.
func WriteFile(path string, data []byte) (disk.Outcome, error) {
	p, err := createPending(path)
	if err != nil {
		return disk.Outcome{}, err
	}
	if _, err := p.Write(data); err != nil {
		return disk.Outcome{}, errors.Join(err, p.discard())
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
		return nil, fmt.Errorf("output: %w: choose another name", err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("output: %s: not a regular file (%s): choose another name", path, info.Mode().Type())
	}
	if err := disk.MakeDir(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	lock, err := disk.Lock(path + ".lock")
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("output: %w: wait for it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("output: %w: choose another name", err)
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
func (p *pending) commit() (disk.Outcome, error) {
	outcome, err := p.CommitBackup(p.path)
	if err = errors.Join(err, p.discard()); err != nil {
		return disk.Outcome{}, fmt.Errorf("output: %w", err)
	}
	return outcome, nil
}
