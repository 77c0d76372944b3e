package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"restyle/hf"
	"restyle/internal/disk"
	"restyle/trainer/checkpoint"
)

// RunName is the name of the file in a run's directory that describes the run.
const RunName = "run.json"

// A RunFile is the contents of a file named RunName.
type RunFile struct {
	Finished bool              `json:"finished"`
	Version  string            `json:"version"`
	Base     string            `json:"base_model,omitempty"` // see BaseName; chat and bench quality read it
	Settings map[string]string `json:"settings"`
	Record
	Result json.RawMessage `json:"result,omitempty"`
}

// BaseName returns the name by which chat finds a model from any directory: a hub id, the name of the embedded model,
// or an absolute path.
func BaseName(c *hf.Checkpoint) string {
	if hf.IsPath(c.Name) && !c.Embedded {
		if abs, err := filepath.Abs(c.Name); err == nil {
			return abs
		}
	}
	return c.Name
}

// A Dir is the directory of a run, locked by this process.
type Dir struct {
	Path string   // absolute and without links
	Was  *RunFile // of the previous run in it; nil if there was none

	aside  bool   // rename the previous run before this one starts
	begun  bool   // this run has written something
	exists string // the part of Path that already existed
	unlock func() error
}

// Claim locks the directory of a run, which it creates if it is missing. A new run renames a previous one that is
// there; if resume is true, the run continues it. Claim returns an error if the directory has contents that are not a
// run's, or if it cannot be written. Release undoes everything that Claim changes.
func Claim(path string, resume bool) (d *Dir, err error) {
	if path, err = disk.RealPath(path); err != nil {
		return nil, fmt.Errorf("%w: choose another directory", err)
	}
	d = &Dir{Path: path, exists: path}
	for d.exists != filepath.Dir(d.exists) {
		if _, err := os.Lstat(d.exists); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		d.exists = filepath.Dir(d.exists)
	}
	if d.unlock, err = checkpoint.Lock(path); err != nil {
		return nil, err
	}
	if err := d.inspect(resume); err != nil {
		return nil, errors.Join(err, d.Release())
	}
	return d, nil
}

func (d *Dir) inspect(resume bool) error {
	text, err := disk.ReadInput(filepath.Join(d.Path, RunName), disk.MaxRecord)
	switch {
	case err == nil:
		d.Was = &RunFile{}
		if err := json.Unmarshal(text, d.Was); err != nil {
			return fmt.Errorf("%s: its %s cannot be read (%w): choose another directory", d.Path, RunName, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	entries, err := disk.ReadDir(d.Path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if d.Was == nil && !resume && e.Name() != ".lock" && !disk.IsPending(e.Name()) {
			return fmt.Errorf("%s is not empty and holds no training run (it has %s): choose another directory", d.Path,
				e.Name())
		}
	}
	written := d.Path
	if d.aside = d.Was != nil && !resume; d.aside {
		written = filepath.Dir(d.Path) // where the directory is renamed
	}
	if err := unix.Access(written, unix.W_OK); err != nil {
		return fmt.Errorf("%s: cannot write in %s: %w: choose another directory", d.Path, written, err)
	}
	return nil
}

// Release unlocks the directory, and leaves no trace of a run that did not start.
func (d *Dir) Release() error {
	if !d.begun && d.Was == nil {
		disk.Tidy(d.Path)
		// A process that waits for the lock sees that the file is gone, and makes a new one.
		_ = os.Remove(filepath.Join(d.Path, ".lock"))
		for dir := d.Path; dir != d.exists; dir = filepath.Dir(dir) {
			_ = os.Remove(dir)
		}
	}
	return d.unlock()
}

// begin renames the previous run, and writes run.json.
func (d *Dir) begin(r RunFile, notice func(string, ...any)) error {
	if d.aside {
		bak, err := disk.MoveToBackup(d.Path)
		if err != nil {
			return fmt.Errorf("cannot rename the run in %s: %w", d.Path, err)
		}
		notice("the run that was in %s is kept as %s", d.Path, bak)
		d.begun = true
		if err := d.unlock(); err != nil { // this lock is in the directory that is now called bak
			return err
		}
		if d.unlock, err = checkpoint.Lock(d.Path); err != nil {
			d.unlock = func() error { return nil }
			return err
		}
	}
	d.begun, d.aside = true, false
	disk.Tidy(d.Path)
	return d.write(r)
}

func (d *Dir) write(r RunFile) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(d.Path, RunName), append(text, '\n'), 0o666)
}
