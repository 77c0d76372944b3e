package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"restyle/data"
	"restyle/trainer"
)

// openTorch starts PyTorch's program, which continues where the state in the directory from ends, if that is not "". It
// takes a step for each line that it gets, and answers with a line.
func (o *trainOptions) openTorch(ctx context.Context, kind string, plan *trainer.Plan, temp, from string) (_ *trainMode,
	err error) {
	probe, err := exec.CommandContext(ctx, o.python, "-c", "import torch, transformers").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s has no torch and transformers: %s", o.python, cmp.Or(endOf(string(probe)), err.Error()))
	}
	steps, err := lines(plan)
	if err != nil {
		return nil, err
	}
	dir := o.model
	if dir == data.StarterName {
		dir = filepath.Join(temp, "base-"+kind)
		files, err := data.StarterModel()
		if err != nil {
			return nil, err
		}
		if err := os.CopyFS(dir, files); err != nil {
			return nil, err
		}
	}
	script := filepath.Join(temp, "train_pytorch.py")
	if err := os.WriteFile(script, trainTorch, 0o600); err != nil {
		return nil, err
	}
	c := exec.CommandContext(context.WithoutCancel(ctx), o.python, script) // after Ctrl-C it still saves its state
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		return nil, err
	}
	t := &torch{in: in, out: bufio.NewReader(out), errs: &errs}
	cfg := o.settings
	about, err := t.ask(map[string]any{"model": dir, "mode": kind, "dtype": strings.ToLower(cfg.DType.String()),
		"device": o.device, "batch": cfg.Batch, "beta1": cfg.Beta1, "beta2": cfg.Beta2, "eps": cfg.Eps,
		"decay": cfg.WeightDecay, "clip": cfg.Clip, "threads": o.threads})
	if err == nil && from != "" {
		_, err = t.ask(map[string]any{"load": filepath.Join(from, torchState)})
	}
	end := func() error {
		in.Close()
		return c.Wait()
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	memory := int64(0)
	return &trainMode{
		with: about.Label,
		step: func(step int) (float64, float64, error) {
			a, err := t.ask(json.RawMessage(steps[step]))
			memory = a.Memory
			return a.Loss, a.Seconds, err
		},
		memory: func() int64 { return memory },
		save: func(dir string, _ int) error {
			_, err := t.ask(map[string]any{"save": filepath.Join(dir, torchState)})
			return err
		},
		close: end,
	}, nil
}

// torchState is the file of the program's state in a mode's directory.
const torchState = "state.pt"

//go:embed train_pytorch.py
var trainTorch []byte

// A torch is the other program.
type torch struct {
	in   io.Writer
	out  *bufio.Reader
	errs *bytes.Buffer
}

// A torchAnswer is a line of the program.
type torchAnswer struct {
	Label   string  `json:"label"`
	Loss    float64 `json:"loss"`
	Seconds float64 `json:"seconds"`
	Memory  int64   `json:"memory"`
	Error   string  `json:"error"`
}

// ask sends a line and returns the answer to it.
func (t *torch) ask(line any) (a torchAnswer, err error) {
	if err = json.NewEncoder(t.in).Encode(line); err != nil {
		return a, fmt.Errorf("%w: %s", err, endOf(t.errs.String()))
	}
	text, err := t.out.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("PyTorch's program ended: %w: %s", err, endOf(t.errs.String()))
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("PyTorch's program answered %.200q: %w", text, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("PyTorch's program: %s", a.Error)
	}
	return a, nil
}
