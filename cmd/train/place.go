package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/trainer/checkpoint"
)

// A place is the directory of a run's result, --out, while it is held: no other run works in it then.
type place struct {
	dir    string
	was    *record // of the run that was here before; nil where there was none
	aside  bool    // that run is set aside before this one begins
	begun  bool    // this run has written something
	exists string  // what of dir's path was there already
	unlock func() error
}

// runFile tells, in a run's directory, what made it.
const runFile = "run.json"

// record is the contents of runFile.
type record struct {
	Finished  bool              `json:"finished"`
	Version   string            `json:"version"`
	Settings  map[string]string `json:"settings"`
	Identity  map[string]string `json:"identity"`  // see trainer.Run
	Decisions map[string]string `json:"decisions"` // see trainer.Run
	Result    json.RawMessage   `json:"result,omitempty"`
}

// realPath is a path as it is, without links and from the root: it means the same when the working directory or a link on the
// way is renamed. What is not there yet is a name in what is.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	path, err = filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if _, err := os.Lstat(abs); err == nil {
		return "", fmt.Errorf("%s is a link to what is not there", abs)
	}
	parent, err := realPath(filepath.Dir(abs))
	return filepath.Join(parent, filepath.Base(abs)), err
}

// holds says whether a path is a directory or in it.
func holds(dir, path string) bool {
	path, err := realPath(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// claim takes the directory for this run, looks at what is there and refuses what must not be touched. It changes nothing that
// release does not undo.
func claim(dir string, resume, restart bool) (p *place, err error) {
	p = &place{dir: dir, exists: dir}
	for p.exists != filepath.Dir(p.exists) {
		if _, err := os.Lstat(p.exists); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		p.exists = filepath.Dir(p.exists)
	}
	if p.unlock, err = checkpoint.Lock(dir); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err := p.inspect(resume, restart); err != nil {
		return nil, errors.Join(err, p.release())
	}
	return p, nil
}

func (p *place) inspect(resume, restart bool) error {
	data, err := os.ReadFile(filepath.Join(p.dir, runFile))
	switch {
	case err == nil:
		p.was = &record{}
		if err := json.Unmarshal(data, p.was); err != nil {
			return fmt.Errorf("--out %s: its %s cannot be read (%w): give another directory", p.dir, runFile, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--out: %w", err)
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, e := range entries {
		if p.was == nil && e.Name() != ".lock" && !disk.IsPending(e.Name()) {
			return fmt.Errorf("--out %s: there are files in it that are no run of train (%s): give another directory", p.dir, e.Name())
		}
	}
	switch {
	case resume && p.was == nil:
		return fmt.Errorf("--resume: there is no run in %s: leave --resume out to begin one", p.dir)
	case p.was != nil && !p.was.Finished && !resume && !restart:
		return fmt.Errorf("there is an unfinished run in %s: go on with it (the same command and --resume), or set it aside and begin anew (--restart)", p.dir)
	}
	written := p.dir
	if p.aside = p.was != nil && !resume; p.aside {
		written = filepath.Dir(p.dir) // where it gets its new name
	}
	if err := unix.Access(written, unix.W_OK); err != nil {
		return fmt.Errorf("--out %s: nothing can be written in %s: %w: give another directory", p.dir, written, err)
	}
	return nil
}

// release gives the directory back, and leaves no trace of a run that did not begin.
func (p *place) release() error {
	if !p.begun && p.was == nil {
		disk.Tidy(p.dir)
		// Whoever comes for the lock now sees that the file is gone, and makes a new one.
		_ = os.Remove(filepath.Join(p.dir, ".lock"))
		for dir := p.dir; dir != p.exists; dir = filepath.Dir(dir) {
			_ = os.Remove(dir)
		}
	}
	return p.unlock()
}

// begin sets aside the run that was here, and writes down what this one is.
func (p *place) begin(r record, note func(string, ...any)) error {
	if p.aside {
		bak, err := disk.MoveToBackup(p.dir)
		if err != nil {
			return fmt.Errorf("--out: the run in %s cannot be set aside: %w", p.dir, err)
		}
		note("the run that was in %s is kept as %s", p.dir, bak)
		p.begun = true
		if err := p.unlock(); err != nil { // which was that of the directory that is now called bak
			return err
		}
		if p.unlock, err = checkpoint.Lock(p.dir); err != nil {
			p.unlock = func() error { return nil }
			return fmt.Errorf("--out: %w", err)
		}
	}
	p.begun, p.aside = true, false
	disk.Tidy(p.dir)
	return p.write(r)
}

func (p *place) write(r record) error {
	r.Version = cli.Version()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(p.dir, runFile), append(data, '\n'), 0o666)
}
