package main

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"restyle/internal/disk"
	"restyle/trainer/checkpoint"
)

// saveEvery is how long a run takes steps before it saves its state, so that a kill loses little.
const saveEvery = 10 * time.Minute

// trainWork is the state of an unfinished run. Its directory has it in a file, and the weights and the optimizer's
// state of each mode in a directory of the mode's name.
type trainWork struct {
	Settings string // of the run, its modes and its machine
	Steps    int    // that all modes have taken
	Modes    map[string]progress

	dir string // "" without --out
}

// progress is what the steps of a mode have measured.
type progress struct {
	Losses, Seconds []float64
	Memory          int64 // bytes, the most so far
}

// A stopError says how a run that was stopped continues, or why it cannot.
type stopError struct{ error }

// openWork returns the state of the unfinished run in --out, or that of a new run. If the unfinished run cannot
// continue, openWork renames its directory.
func (o *trainOptions) openWork(s *session) (*trainWork, error) {
	w := &trainWork{Settings: fmt.Sprintf("%s, %s in %s, modes %s, %+v", o.decisive(), o.model, o.settings.DType, o.modes,
		s.Machine)}
	if o.out == "" {
		return w, nil
	}
	w.dir = filepath.Join(o.out, "train.work")
	if err := checkpoint.Tidy(o.out); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(w.dir); errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	old, err := readWork(w.dir)
	switch {
	case err == nil && old.Settings == w.Settings:
		fmt.Fprintf(s.status, "bench train: continuing after step %d\n", old.Steps)
		return old, nil
	case err == nil:
		err = fmt.Errorf("%s is of other settings, modes, machine or version", w.dir)
	}
	kept, failed := disk.MoveToBackup(w.dir)
	if failed == nil {
		fmt.Fprintf(s.status, "bench train: %v: a new run begins, and the unfinished one is now in %s\n", err, kept)
	}
	return w, failed
}

// maxWork is the maximum size of a state in bytes: a loss and a time for each step and mode.
const maxWork = 256 << 20

// readWork reads a state that save wrote.
func readWork(dir string) (*trainWork, error) {
	if err := checkpoint.Open(dir); err != nil {
		return nil, err
	}
	data, err := disk.ReadInput(filepath.Join(dir, "state.gob"), maxWork)
	if err != nil {
		return nil, err
	}
	w := &trainWork{dir: dir}
	return w, gob.NewDecoder(bytes.NewReader(data)).Decode(w)
}

// from returns the directory of a mode's saved state, or "" if the run is new.
func (w *trainWork) from(mode string) string {
	if w.Steps == 0 {
		return ""
	}
	return filepath.Join(w.dir, mode)
}

// save writes the state of all modes, in place of an earlier one.
func (w *trainWork) save(modes []*trainMode) error {
	w.Modes = map[string]progress{}
	return checkpoint.Replace(w.dir, func(dir string) error {
		for _, m := range modes {
			w.Modes[m.name] = m.progress
			of := filepath.Join(dir, m.name)
			if err := os.Mkdir(of, 0o777); err != nil {
				return err
			}
			if err := m.save(of, w.Steps); err != nil {
				return err
			}
		}
		f, err := os.Create(filepath.Join(dir, "state.gob"))
		if err != nil {
			return err
		}
		return errors.Join(gob.NewEncoder(f).Encode(w), f.Close())
	})
}

// remove deletes the state of a run that is done.
func (w *trainWork) remove() error {
	if _, err := os.Lstat(w.dir); err != nil {
		return nil // it was never saved
	}
	return checkpoint.Remove(w.dir)
}
