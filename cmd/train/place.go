package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"restyle/internal/cli"
	"restyle/trainer/checkpoint"
)

// A place is the directory of a run's result: --out.
type place struct {
	dir      string
	there    bool // a run was here before
	finished bool // and it came to its end
	aside    bool // it is to be set aside
}

// runFile tells, in a run's directory, what made it.
const runFile = "run.json"

// record is the contents of runFile.
type record struct {
	Finished bool              `json:"finished"`
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
	Result   any               `json:"result,omitempty"`
}

func newPlace(dir string) *place { return &place{dir: dir} }

// inspect looks at what is there, and refuses what must not be touched.
func (p *place) inspect(resume, restart bool) error {
	entries, err := os.ReadDir(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("--out: %w: give another directory", err)
	}
	data, err := os.ReadFile(filepath.Join(p.dir, runFile))
	switch {
	case err == nil:
		p.there = true
		var r record
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("--out %s: its %s cannot be read (%w): give another directory", p.dir, runFile, err)
		}
		p.finished = r.Finished
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--out %s: %w", p.dir, err)
	}
	for _, e := range entries {
		if !p.there && e.Name() != ".lock" {
			return fmt.Errorf("--out %s: there are files in it that are no run of train (%s): give another directory", p.dir, e.Name())
		}
	}
	switch {
	case resume && !p.there:
		return fmt.Errorf("--resume: there is no run in %s: leave --resume out to begin one", p.dir)
	case p.there && !p.finished && !resume && !restart:
		return fmt.Errorf("there is an unfinished run in %s: go on with it (--resume), or set it aside and begin anew (--restart)", p.dir)
	}
	p.aside = p.there && !resume
	return nil
}

// claim makes the directory ours until unlock, after setting aside the run that was there.
func (p *place) claim(note func(string, ...any)) (unlock func() error, err error) {
	if err := os.MkdirAll(p.dir, 0o777); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err := writable(p.dir); err != nil {
		return nil, fmt.Errorf("--out: %w: give a directory that can be written to", err)
	}
	if unlock, err = checkpoint.Lock(p.dir); err != nil {
		return nil, err
	}
	if !p.aside {
		return unlock, nil
	}
	bak, err := p.setAside()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--out: the run in %s cannot be set aside: %w", p.dir, err), unlock())
	}
	note("the run that was in %s is kept as %s", p.dir, bak)
	if err := errors.Join(unlock(), os.MkdirAll(p.dir, 0o777)); err != nil {
		return nil, err
	}
	return checkpoint.Lock(p.dir)
}

// setAside renames the directory to the first of .bak, .bak.2, … that is free.
func (p *place) setAside() (bak string, err error) {
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return "", err
	}
	for i := 1; ; i++ {
		bak = dir + ".bak"
		if i > 1 {
			bak += fmt.Sprintf(".%d", i)
		}
		if _, err := os.Lstat(bak); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return bak, os.Rename(dir, bak)
}

// begin writes down that a run is here, with its settings.
func (p *place) begin(settings map[string]string) error {
	return p.write(record{Version: cli.Version(), Settings: settings})
}

// end writes down that it is finished.
func (p *place) end(settings map[string]string, result any) error {
	return p.write(record{Finished: true, Version: cli.Version(), Settings: settings, Result: result})
}

func (p *place) write(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(p.dir, runFile), append(data, '\n'))
}

// replaceFile writes a file so that a reader, or a crash at any moment, sees the old one or the new one.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".writing-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
