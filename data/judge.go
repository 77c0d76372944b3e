package data

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// A Trial is code to run against a check.
type Trial struct {
	Code  string `json:"code"`
	Check string `json:"check"` // of a Question
}

// A Verdict is what CheckPy says of a Trial.
type Verdict struct {
	Parses  bool   `json:"parses"`
	Right   bool   `json:"right"`   // it ran, and the check passed
	Error   string `json:"error"`   // a line on why it is not right, "" where it is
	Printed string `json:"printed"` // what the code printed, up to 20,000 characters of it
}

// Judge runs trials through CheckPy and returns their verdicts in order. python is the Python 3 to use: a path, or a name to
// look for in PATH. There is one process for each processor, and each trial has a child of that with limits on time and
// memory. The code sees an empty folder, which is removed with all that it left there, and no environment variables; no
// further is it kept from anything that the user of this process may do. An error is that Python failed, not the code.
func Judge(ctx context.Context, python string, trials []Trial) ([]Verdict, error) {
	program, err := exec.LookPath(python)
	if err == nil {
		program, err = filepath.Abs(program) // it starts in another folder
	}
	if err != nil {
		return nil, fmt.Errorf("judging: %w", err)
	}
	dir, err := os.MkdirTemp("", "restyle-judge-")
	if err != nil {
		return nil, fmt.Errorf("judging: %w", err)
	}
	defer os.RemoveAll(dir)
	verdicts := make([]Verdict, len(trials))
	workers := min(runtime.NumCPU(), len(trials))
	failures := make([]error, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			from, to := w*len(trials)/workers, (w+1)*len(trials)/workers
			failures[w] = judgePart(ctx, program, dir, trials[from:to], verdicts[from:to])
		})
	}
	wait.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

func judgePart(ctx context.Context, program, dir string, trials []Trial, verdicts []Verdict) error {
	var input, problem bytes.Buffer
	encoder := json.NewEncoder(&input)
	for _, t := range trials {
		if err := encoder.Encode(t); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, program, "-I", "-c", string(CheckPy))
	command.Dir, command.Env = dir, []string{}                // keys and tokens stand in the environment, and nobody has read the code
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the caller, who has ctx
	command.Stdin, command.Stderr = &input, &problem
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("running check.py with %s: %w %s", program, err, strings.TrimSpace(problem.String()))
	}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for i := range verdicts {
		if err := decoder.Decode(&verdicts[i]); err != nil {
			return fmt.Errorf("check.py gave %d verdicts for %d trials: %w", i, len(verdicts), err)
		}
	}
	return nil
}
