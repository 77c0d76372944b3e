// Package grade grades Python code that a model wrote: it runs the code, and the checks that decide whether it is
// right, each in its own sandbox (see package sandbox).
package grade

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"restyle/internal/sandbox"
)

// remotePy and checkPy, in this order, are the Python program that [Run] starts twice: one process runs answers, the
// other their checks.
var (
	//go:embed remote.py
	remotePy []byte
	//go:embed check.py
	checkPy []byte
)

// A Trial is code to run against a check.
type Trial struct {
	Code  string
	Check string // Python that fails on wrong answers; the README.md of package data has the contract
}

// OfText returns a trial of an answer in words. Its check finds the whole text as answer, and runs none of it.
func OfText(answer, check string) Trial {
	literal, err := json.Marshal(answer) // a string of JSON is one of Python
	if err != nil {
		panic(err) // no string fails
	}
	return Trial{Check: "answer = " + string(literal) + "\n" + check}
}

// A Verdict is the result of a Trial.
type Verdict struct {
	Parses  bool   `json:"parses"`
	Right   bool   `json:"right"`   // it ran, and the check passed
	Error   string `json:"error"`   // one line on why it is not right; "" if it is
	Printed string `json:"printed"` // the first 20,000 characters that the code printed
}

// Run runs trials and returns their verdicts in order. python is the Python 3 to use: a path, or a name to look for
// in PATH.
//
// The code and the check of a trial each run in a sandbox (see package sandbox), with limits on time, memory, processes
// and output. The check gets only data and answers to its calls from the code, so that the code cannot give itself a
// verdict. Whatever the code does is in its verdict. Run returns an error if Python failed, or
// sandbox.ErrUnavailable.
//
// A trial has two seconds. One that is not done by then may have waited for the CPU, so it gets a second attempt of
// five. In each, code and check may use the CPU for three seconds.
//
// Run runs two processes per CPU, and each trial is a child of both. Meanwhile, other processes of the user cannot
// read the memory or environment of this process.
func Run(ctx context.Context, python string, trials []Trial) ([]Verdict, error) {
	return grade(ctx, python, trials, true)
}

// RunUnprotected is Run without sandboxes, for a machine that has none: the code may read and change whatever the
// user of this process may, reach the network, and leave processes running. It has no environment variables and starts
// in an empty directory. Each trial has a Python of its own.
func RunUnprotected(ctx context.Context, python string, trials []Trial) ([]Verdict, error) {
	return grade(ctx, python, trials, false)
}

// maxWorkers is the number of trials that run at the same time.
var maxWorkers = runtime.NumCPU()

// without is set by tests to the things that some machines lack: system calls from Python, control groups.
var without struct{ calls, groups bool }

func grade(ctx context.Context, python string, trials []Trial, protected bool) ([]Verdict, error) {
	defer sandbox.Hide()()
	program, err := lookPython(ctx, python)
	if err != nil {
		return nil, fmt.Errorf("grading: %w", err)
	}
	program.protected = protected
	program.Calls = program.Calls && !without.calls
	if protected && !without.groups {
		program.groups = sandbox.NewGroups(allMemory)
		defer program.groups.Close()
	}
	verdicts := make([]Verdict, len(trials))
	workers := min(maxWorkers, len(trials))
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

// gradePart grades trials one after another.
func gradePart(ctx context.Context, program *interpreter, trials []Trial, verdicts []Verdict) error {
	var p *pair
	defer func() {
		if p != nil {
			p.stop()
		}
	}()
	attempt := func(t Trial, limit time.Duration) (v Verdict, late bool, err error) {
		for range 2 { // a busy machine may lack the memory for a process
			if p == nil {
				if p, err = startPair(ctx, program); err != nil {
					return v, false, err
				}
			}
			var again bool
			if again, late, err = p.grade(ctx, t, limit, &v); !again {
				p.stop()
				p = nil
			}
			if err == nil || ctx.Err() != nil {
				break
			}
		}
		return v, late, errors.Join(ctx.Err(), err)
	}
	for i, t := range trials {
		v, late, err := attempt(t, trialTime)
		if late && err == nil && trialTime < busyTime {
			var again Verdict
			if again, _, err = attempt(t, busyTime); again.Right {
				v = again
			}
		}
		if err != nil {
			return err
		}
		verdicts[i] = v
	}
	return nil
}

// An interpreter is a Python 3 whose paths are known.
type interpreter struct {
	Program   string   `json:"program"` // without symbolic links
	Visible   []string `json:"visible"` // where its modules and libraries are
	Calls     bool     `json:"calls"`   // it can make system calls
	protected bool
	groups    *sandbox.Groups // nil if not protected
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
try:
    import ctypes
    calls = ctypes.CDLL(None).syscall is not None
except Exception:
    calls = False
print(json.dumps({"program": os.path.realpath(sys.executable), "visible": visible, "calls": calls}))`

// lookPython finds a Python and asks it where it is: the program in PATH may be a script that starts another.
func lookPython(ctx context.Context, python string) (*interpreter, error) {
	path, err := exec.LookPath(python)
	if err == nil {
		path, err = filepath.Abs(path) // it starts in another directory
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
