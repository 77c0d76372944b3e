package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"restyle/data"
	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/disk"
)

// Names of files in OUT other than the model's.
const recordName, lockName, cardName = "export.json", "export.lock", "README.md"

// A record is the contents of export.json, which says what the model was made from and how. chat and bench quality
// read it.
type record struct {
	Finished *bool  `json:"finished"` // false until the model is complete
	Version  string `json:"version"`
	Base     string `json:"base_model"`
	Adapter  string `json:"adapter,omitempty"` // merged into the base
	Onto     bool   `json:"onto,omitempty"`    // the adapter was trained on another base
	Weights  string `json:"weights,omitempty"`
	Rounding string `json:"rounding,omitempty"`
}

// checkFree returns an error if the directory has files other than a killed export leaves.
func checkFree(dir string) error {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil // there is none, or probe says what is wrong with it
	}
	var r record
	data, err := disk.ReadInput(filepath.Join(dir, recordName), disk.MaxRecord)
	unfinished := err == nil && json.Unmarshal(data, &r) == nil && r.Finished != nil && !*r.Finished
	for _, e := range entries {
		name := e.Name()
		saved := name == recordName || name == cardName || hf.Saves(name)
		own := disk.IsPending(name) || name == lockName || unfinished && saved
		if !own {
			return cli.Usagef("%s is not empty (it has %s): name a directory that is empty or does not exist", dir, name)
		}
	}
	return nil
}

// probe returns an error if the directory cannot be made or written, before work that takes long. It leaves no trace.
func probe(dir string) error {
	made := missing(dir)
	err := disk.MakeDir(dir, 0o777)
	if err == nil {
		err = unix.Access(dir, unix.W_OK)
	}
	removeEmpty(made)
	if err != nil {
		return fmt.Errorf("cannot write in %s: %w: choose a directory that can be written", dir, err)
	}
	return nil
}

// missing returns the directories among dir and its parents that do not exist, the innermost first.
func missing(dir string) (list []string) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return list
		}
		list = append(list, dir)
	}
}

// removeEmpty removes the directories that are empty, the innermost first.
func removeEmpty(dirs []string) {
	for _, dir := range dirs {
		_ = os.Remove(dir)
	}
}

// fill makes OUT the model that save writes. OUT says that it is unfinished until it is complete, so that a run after a
// kill knows what it finds. If an error leaves no part of a model, fill removes what it made.
func fill(r record, out string, save func() error) (err error) {
	made := missing(out)
	defer func() { removeEmpty(made) }() // which is nothing if it holds a model
	if err := disk.MakeDir(out, 0o777); err != nil {
		return err
	}
	lock, err := disk.Lock(filepath.Join(out, lockName))
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, lock.Remove()) }()
	case !errors.Is(err, disk.ErrNoLocks):
		return fmt.Errorf("%w: name another directory", err)
	}
	if err := checkFree(out); err != nil { // another run may have filled it
		return err
	}
	if err := r.write(out, false); err != nil {
		return err
	}
	if err := save(); err != nil {
		entries, _ := disk.ReadDir(out)
		for _, e := range entries {
			if hf.Saves(e.Name()) {
				return err
			}
		}
		return errors.Join(err, os.Remove(filepath.Join(out, recordName)))
	}
	return r.write(out, true)
}

// record returns the record of a model with quantized weights.
func (o options) record(in string) record {
	r := record{Base: absolute(in), Weights: o.weights, Rounding: "nearest"}
	if o.calibrates() {
		r.Rounding = o.rounding
	}
	return r
}

// absolute returns a name that means the same model in every directory.
func absolute(name string) string {
	if hf.IsPath(name) && name != data.StarterName {
		if path, err := filepath.Abs(name); err == nil {
			return path
		}
	}
	return name
}

// write writes export.json.
func (r record) write(out string, finished bool) error {
	r.Finished, r.Version = &finished, cli.Version()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(out, recordName), append(text, '\n'), 0o666)
}
