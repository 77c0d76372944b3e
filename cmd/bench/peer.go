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
	"sync"
	"syscall"

	"restyle/data"
	"restyle/lora"
	"restyle/trainer"
)

// pytorch is the program that runs PyTorch.
//
//go:embed pytorch.py
var pytorch []byte

// A peer is another program that does the same work. It answers each line of JSON with one line; anything else that it
// prints is ignored.
type peer struct {
	name  string // for errors
	in    io.WriteCloser
	out   *bufio.Reader
	errs  bytes.Buffer
	close func() error // waits for its end: it gets no more lines
}

// startPeer starts a program, which is killed if ctx ends. It has a process group of its own, so that Ctrl-C does not
// reach it first.
func startPeer(ctx context.Context, name string, words ...string) (*peer, error) {
	p, c := &peer{name: name}, exec.CommandContext(ctx, words[0], words[1:]...)
	c.SysProcAttr, c.Stderr = &syscall.SysProcAttr{Setpgid: true}, &p.errs
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // and what it has started
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	p.close = sync.OnceValue(func() error {
		_ = in.Close() // it may have ended
		_, err := io.Copy(io.Discard, p.out)
		return errors.Join(err, c.Wait())
	})
	return p, c.Start()
}

// ask sends a line and stores the answer to it. last is true if there will be no other line.
func (p *peer) ask(line any, last bool, answer any) error {
	_ = json.NewEncoder(p.in).Encode(line) // if the program has ended, what it printed says why
	if last {
		_ = p.in.Close()
	}
	for {
		line, err := p.out.ReadBytes('\n')
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("{")) {
			if err := json.Unmarshal(line, answer); err != nil {
				return fmt.Errorf("%s: its answer %.200q: %w", p.name, line, err)
			}
			return nil
		}
		if err != nil {
			err = cmp.Or(p.close(), errors.New("it ended without an answer"))
			return fmt.Errorf("%s: %w: %s", p.name, err, cmp.Or(lastOf(p.errs.String()), "it printed no error"))
		}
	}
}

// lastOf returns the last line of a text.
func lastOf(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// A besideStep describes a step to another program.
type besideStep struct {
	Config     json.RawMessage `json:"config"`     // the model's config.json
	Batch      int             `json:"batch"`      // sequences per pass
	Seq        int             `json:"seq"`        // tokens per sequence
	Accumulate int             `json:"accumulate"` // passes per step
	Trained    []string        `json:"trained"`    // patterns of the trainable parameters; none: all are trainable
	LoRA       *besideLoRA     `json:"lora"`       // adapters on all linear layers but the head; null: none
	Base       string          `json:"base"`       // coding of the layers with adapters: none, nf4, int4 or int8
	DType      string          `json:"dtype"`      // bf16 or fp32
	Device     string          `json:"device"`     // cpu, cuda:0 and so on
	Warmup     int             `json:"warmup"`     // steps before the timed ones
	Steps      int             `json:"steps"`      // minimum number of timed steps
	Lasting    float64         `json:"lasting"`    // minimum seconds of all timed steps
}

// besideLoRA describes adapters to another program.
type besideLoRA struct {
	Rank  int     `json:"rank"`
	Alpha float64 `json:"alpha"`
}

// same reports whether l describes a Spec completely.
func (l *besideLoRA) same(spec lora.Spec) bool {
	known := lora.Default()
	known.Rank, known.Alpha = l.Rank, l.Alpha
	return known.String() == spec.String()
}

// beside has another program time a step. Spaces separate the words of command.
func beside(ctx context.Context, command string, step besideStep) (r stepResult, err error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return r, fmt.Errorf("--beside %q: must name a command", command)
	}
	p, err := startPeer(ctx, command, words...)
	if err != nil {
		return r, fmt.Errorf("--beside: %w", err)
	}
	err = p.ask(step, true, &r)
	if failed := p.close(); err == nil && failed != nil {
		err = fmt.Errorf("%s: %w: %s", command, failed, lastOf(p.errs.String()))
	}
	if err != nil {
		return r, err
	}
	if len(r.Seconds) == 0 || r.Mode == "" {
		return r, fmt.Errorf("%s: its result has no mode, or no seconds", command)
	}
	for _, s := range r.Seconds {
		if !(s > 0) {
			return r, fmt.Errorf("%s: a step of %v seconds", command, s)
		}
	}
	return r, nil
}

// openTorch opens a mode that PyTorch trains.
func (o *trainOptions) openTorch(ctx context.Context, kind string, plan *trainer.Plan, temp string) (*trainMode,
	error) {
	probe, err := exec.CommandContext(ctx, o.python, "-c", "import torch, transformers").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s has no torch and transformers: %s", o.python, cmp.Or(lastOf(string(probe)), err.Error()))
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
	script := filepath.Join(temp, "pytorch.py")
	if err := os.WriteFile(script, pytorch, 0o600); err != nil {
		return nil, err
	}
	p, err := startPeer(ctx, "PyTorch", o.python, script, "train")
	if err != nil {
		return nil, err
	}
	c := o.settings
	var about struct {
		Label string `json:"label"`
	}
	if err := p.ask(map[string]any{"model": dir, "mode": kind, "dtype": strings.ToLower(c.DType.String()),
		"device": o.device, "batch": c.Batch, "beta1": c.Beta1, "beta2": c.Beta2, "eps": c.Eps, "decay": c.WeightDecay,
		"clip": c.Clip, "threads": o.threads}, false, &about); err != nil {
		_ = p.close()
		return nil, err
	}
	step := func(step int) (took stepTaken, err error) {
		err = p.ask(json.RawMessage(steps[step]), false, &took)
		return took, err
	}
	return &trainMode{with: about.Label, step: step, close: p.close}, nil
}
