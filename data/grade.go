package data

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"restyle/internal/sandbox"
)

// A Trial is code to run against a check.
type Trial struct {
	Code  string
	Check string // of a Question
}

// A Verdict is what came of a Trial.
type Verdict struct {
	Parses  bool   `json:"parses"`
	Right   bool   `json:"right"`   // it ran, and the check passed
	Error   string `json:"error"`   // a line on why it is not right, "" where it is
	Printed string `json:"printed"` // what the code printed, up to 20,000 characters of it
}

// Grade runs trials and returns their verdicts in order. python is the Python 3 to use: a path, or a name to look for
// in PATH.
//
// The code and the check of a trial run in a sandbox each (see package sandbox), with limits on time, memory, processes
// and output. The check's gets nothing from the code's but data and answers to its questions, so that the code cannot
// give itself a verdict. An error is that Python failed, or ErrUnavailable of package sandbox, and not the code: that
// is in the verdict, whatever it did.
//
// There are two processes for each processor, and each trial is a child of both. While trials run, other processes of
// the user cannot read this one's memory or environment.
func Grade(ctx context.Context, python string, trials []Trial) ([]Verdict, error) {
	return grade(ctx, python, trials, true)
}

// GradeUnprotected is Judge without the sandboxes, for a machine that has none: the code may read and change all that
// the user of this process may, reach the network, and leave processes behind. It has no environment variables and
// starts in an empty folder.
func GradeUnprotected(ctx context.Context, python string, trials []Trial) ([]Verdict, error) {
	return grade(ctx, python, trials, false)
}

func grade(ctx context.Context, python string, trials []Trial, protected bool) ([]Verdict, error) {
	defer sandbox.Hide()()
	program, err := lookPython(ctx, python)
	if err != nil {
		return nil, fmt.Errorf("grading: %w", err)
	}
	program.protected = protected
	verdicts := make([]Verdict, len(trials))
	workers := min(runtime.NumCPU(), len(trials))
	failures := make([]error, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			from, to := w*len(trials)/workers, (w+1)*len(trials)/workers
			failures[w] = gradePart(ctx, program, trials[from:to], verdicts[from:to])
		})
	}
	wait.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, fmt.Errorf("grading: %w", err)
		}
	}
	return verdicts, nil
}

// gradePart judges trials one after another.
func gradePart(ctx context.Context, program *interpreter, trials []Trial, verdicts []Verdict) error {
	var p *pair
	for i, t := range trials {
		if p == nil {
			var err error
			if p, err = startPair(ctx, program); err != nil {
				return err
			}
		}
		again := p.grade(ctx, t, &verdicts[i])
		if !again {
			p.stop()
			p = nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	if p != nil {
		p.stop()
	}
	return ctx.Err()
}

// An interpreter is a Python 3 that has been looked at.
type interpreter struct {
	Program   string   `json:"program"` // without symbolic links
	Visible   []string `json:"visible"` // where its modules and libraries are
	protected bool
}

// look is a Python program that prints where Python has what it needs.
const look = `
import dataclasses, decimal, fractions, json, os, statistics, sys
paths = set(sys.path)
try:
    with open("/proc/self/maps") as maps:
        paths |= {os.path.dirname(line.split(None, 5)[5]) for line in maps if ".so" in line and "/" in line}
except OSError:
    pass  # not Linux
visible = sorted(p for p in paths if os.path.isabs(p))
print(json.dumps({"program": os.path.realpath(sys.executable), "visible": visible}))`

// lookPython finds a Python and asks it where it is: the program in PATH may be a script that starts another.
func lookPython(ctx context.Context, python string) (*interpreter, error) {
	path, err := exec.LookPath(python)
	if err == nil {
		path, err = filepath.Abs(path) // it starts in another folder
	}
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, path, "-I", "-c", look)
	command.Dir, command.Env = "/", []string{}
	output, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w %s", path, err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, err
	}
	found := &interpreter{}
	if err := json.Unmarshal(output, found); err != nil || !filepath.IsAbs(found.Program) {
		return nil, fmt.Errorf("%s is no Python 3: asked where it is, it says %q", path, strings.TrimSpace(string(output)))
	}
	if _, err := os.Stat(found.Program); err != nil {
		return nil, err
	}
	return found, nil
}
