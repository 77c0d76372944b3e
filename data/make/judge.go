package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"restyle/data"
)

// A trial is code to run against a check.
type trial struct {
	Code  string `json:"code"`
	Check string `json:"check"`
}

// A verdict is what check.py says of a trial.
type verdict struct {
	Parses  bool   `json:"parses"`
	Right   bool   `json:"right"`
	Error   string `json:"error"`
	Printed string `json:"printed"`
}

// judge runs the trials through check.py, one process for each processor, and returns the verdicts in order.
func judge(ctx context.Context, trials []trial) ([]verdict, error) {
	verdicts := make([]verdict, len(trials))
	workers := min(runtime.NumCPU(), len(trials))
	failures := make([]error, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			from, to := w*len(trials)/workers, (w+1)*len(trials)/workers
			failures[w] = judgePart(ctx, trials[from:to], verdicts[from:to])
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

func judgePart(ctx context.Context, trials []trial, verdicts []verdict) error {
	var input, problem bytes.Buffer
	encoder := json.NewEncoder(&input)
	for _, t := range trials {
		if err := encoder.Encode(t); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, "python3", "-I", "-c", string(data.CheckPy))
	command.Stdin, command.Stderr = &input, &problem
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("running check.py with python3: %w %s", err, strings.TrimSpace(problem.String()))
	}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for i := range verdicts {
		if err := decoder.Decode(&verdicts[i]); err != nil {
			return fmt.Errorf("check.py gave %d verdicts for %d trials: %w", i, len(verdicts), err)
		}
	}
	return nil
}
