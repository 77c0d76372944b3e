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
	"restyle/trainer"
	"restyle/trainer/checkpoint"
)

// A runDir is the directory of a run's result, --out, locked by this process.
type runDir struct {
	dir    string
	was    *record // of the previous run in dir; nil if there was none
	aside  bool    // rename the previous run before this one begins
	begun  bool    // this run has written something
	exists string  // the part of dir's path that already existed
	unlock func() error
}

// runFile is the file in a run's directory that describes the run.
const runFile = "run.json"

// A record is the contents of runFile.
type record struct {
	Finished bool              `json:"finished"`
	Version  string            `json:"version"`
	Base     string            `json:"base_model,omitempty"` // see baseName; chat and bench quality read it
	Settings map[string]string `json:"settings"`
	trainer.Record
	Result json.RawMessage `json:"result,omitempty"`
}

// realPath returns path as an absolute path without links, which stays valid if the working directory or a link is
// renamed. path need not exist.
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
		return "", fmt.Errorf("%s is a link to a path that does not exist", abs)
	}
	parent, err := realPath(filepath.Dir(abs))
	return filepath.Join(parent, filepath.Base(abs)), err
}

// holds reports whether path is dir or in it.
func holds(dir, path string) bool {
	path, err := realPath(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// claim locks the directory for this run, and returns an error if its contents must not be touched. release undoes
// everything that claim changes.
func claim(dir string, resume, restart bool) (p *runDir, err error) {
	p = &runDir{dir: dir, exists: dir}
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

func (p *runDir) inspect(resume, restart bool) error {
	data, err := os.ReadFile(filepath.Join(p.dir, runFile))
	switch {
	case err == nil:
		p.was = &record{}
		if err := json.Unmarshal(data, p.was); err != nil {
			return fmt.Errorf("--out %s: its %s cannot be read (%w): choose another directory", p.dir, runFile, err)
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
			return fmt.Errorf("--out %s is not empty and holds no run of train (it has %s): choose another directory", p.dir,
				e.Name())
		}
	}
	switch {
	case resume && p.was == nil:
		return fmt.Errorf("--resume: there is no run in %s: leave --resume out to start one", p.dir)
	case p.was != nil && !p.was.Finished && !resume && !restart:
		return fmt.Errorf("there is an unfinished run in %s: continue it (the same command and --resume), or start over "+
			"(--restart, which renames it to .bak)", p.dir)
	}
	written := p.dir
	if p.aside = p.was != nil && !resume; p.aside {
		written = filepath.Dir(p.dir) // where the directory is renamed
	}
	if err := unix.Access(written, unix.W_OK); err != nil {
		return fmt.Errorf("--out %s: cannot write in %s: %w: choose another directory", p.dir, written, err)
	}
	return nil
}

// release unlocks the directory, and leaves no trace of a run that did not begin.
func (p *runDir) release() error {
	if !p.begun && p.was == nil {
		disk.Tidy(p.dir)
		// A process that waits for the lock sees that the file is gone, and makes a new one.
		_ = os.Remove(filepath.Join(p.dir, ".lock"))
		for dir := p.dir; dir != p.exists; dir = filepath.Dir(dir) {
			_ = os.Remove(dir)
		}
	}
	return p.unlock()
}

// begin renames the previous run, and writes run.json.
func (p *runDir) begin(r record, note func(string, ...any)) error {
	if p.aside {
		bak, err := disk.MoveToBackup(p.dir)
		if err != nil {
			return fmt.Errorf("--out: cannot rename the run in %s: %w", p.dir, err)
		}
		note("the run that was in %s is kept as %s", p.dir, bak)
		p.begun = true
		if err := p.unlock(); err != nil { // this lock is in the directory that is now called bak
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

func (p *runDir) write(r record) error {
	r.Version = cli.Version()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(p.dir, runFile), append(data, '\n'), 0o666)
}

// sizeOf returns the total size of all files below a directory.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}
