// Package models opens a model by the name that a user gives a command: a directory, a hub id or "starter".
package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"restyle/data"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
)

// Open opens the embedded model if name is data.StarterName, and what [hf.Open] opens otherwise. A directory with the
// name of the embedded model must be given as ./starter. An adapter is an error: OpenTuned opens it.
func Open(ctx context.Context, h *hub.Hub, name string) (*hf.Checkpoint, error) {
	if err := errors.Join(CheckWhole(name), CheckFinished(name)); err != nil {
		return nil, err
	}
	if name != data.StarterName {
		c, err := hf.Open(ctx, h, name)
		if errors.Is(err, hf.ErrAdapter) {
			err = isAdapter(name)
		}
		return c, err
	}
	fsys, err := data.StarterModel()
	if err != nil {
		return nil, err
	}
	c, err := hf.OpenModelFS(fsys, "the embedded model")
	if err != nil {
		return nil, err
	}
	c.Name, c.Embedded = name, true
	return c, nil
}

// CheckWhole returns an error if a name is a directory with an adapter and no model.
func CheckWhole(name string) error {
	_, err := os.Stat(filepath.Join(name, "config.json"))
	if name == data.StarterName || err == nil || !hf.IsAdapter(name) {
		return nil
	}
	return isAdapter(name)
}

// CheckFinished returns an error if a name is the directory of a training run that was stopped before it had a model.
func CheckFinished(name string) error {
	has := func(file string) bool {
		_, err := os.Stat(filepath.Join(name, file))
		return err == nil
	}
	if name == data.StarterName || !has("run.json") || has("config.json") || has("adapter_config.json") {
		return nil
	}
	checkpoints := filepath.Join(name, "checkpoints")
	entries, _ := disk.ReadDir(checkpoints) // sorted by name, and so by step
	last := ""
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "step-") {
			last = ", or give its last checkpoint, " + filepath.Join(checkpoints, e.Name())
		}
	}
	return fmt.Errorf("%s has a training run that has not finished, and no model yet: continue it with the same %s "+
		"command and --resume%s", name, cli.Command("train"), last)
}

// isAdapter returns the error for an adapter where a model is needed.
func isAdapter(name string) error {
	return fmt.Errorf("%s %w: chat and bench quality take it as --tuned; train --model trains it further; for all else "+
		"merge it into its base first, with %s %s DIRECTORY", name, hf.ErrAdapter, cli.Command("export"),
		cli.ShellQuote(name))
}

// OpenTuned does what Open does, but the name may also be an adapter's, a directory or a hub repository, for
// [infer.OpenOptions]. The model is then the adapter's base, as OpenBase finds it, with the adapter's tokenizer and
// chat template, if it has its own. Close both.
func OpenTuned(ctx context.Context, h *hub.Hub, name, base string) (*hf.Checkpoint, *hf.Adapter, error) {
	a, err := OpenAdapter(ctx, h, name)
	if err != nil {
		return nil, nil, err
	}
	if a == nil {
		c, err := Open(ctx, h, name)
		return c, nil, err
	}
	below, err := OpenBase(ctx, h, a, base)
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	c, err := a.On(below)
	if err != nil {
		return nil, nil, errors.Join(err, a.Close(), below.Close())
	}
	return c, a, nil
}

// OpenAdapter opens the adapter that [hf.FindAdapter] finds, under its name there; nil if there is none of that name.
func OpenAdapter(ctx context.Context, h *hub.Hub, name string) (*hf.Adapter, error) {
	if name == data.StarterName {
		return nil, nil
	}
	dir, err := hf.FindAdapter(ctx, h, name)
	if dir == "" || err != nil {
		return nil, err
	}
	a, err := hf.OpenAdapter(dir)
	if err != nil {
		return nil, err
	}
	a.Name = name
	return a, nil
}

// ErrOtherBase is the error of a base that is not the one that an adapter has recorded.
var ErrOtherBase = errors.New("was trained on another base")

// A NoBase is the error of an adapter whose base is not found.
type NoBase struct {
	Err    error
	advice string // for commands that have --base
}

func (e *NoBase) Error() string { return e.Err.Error() + ": " + e.advice }

func (e *NoBase) Unwrap() error { return e.Err }

// OpenBase opens the model that an adapter belongs to: base, or if that is empty the one that [infer.BaseOf] finds. If
// the adapter has recorded the digest of its base, another model is [ErrOtherBase]; otherwise the model gets a note
// that says so.
func OpenBase(ctx context.Context, h *hub.Hub, a *hf.Adapter, base string) (c *hf.Checkpoint, err error) {
	if base == "" {
		if base, err = infer.BaseOf(ctx, h, a.Name); err == nil && base == "" {
			err = fmt.Errorf("adapter %s does not name its base model", a.Name)
		}
		if err != nil {
			return nil, cli.Usagef("%w", &NoBase{err, "say where it is with --base"})
		}
	}
	if c, err = Open(ctx, h, base); err != nil {
		err = fmt.Errorf("the base of adapter %s: %w", a.Name, err)
		return nil, &NoBase{err, "if it is elsewhere, say where with --base"}
	}
	note, err := CheckBase(a, c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if note != "" {
		c.Notes = append(c.Notes, note)
	}
	return c, nil
}

// CheckBase compares a model with the one that an adapter was trained on: see OpenBase. If it cannot, the note says so.
func CheckBase(a *hf.Adapter, c *hf.Checkpoint) (note string, err error) {
	trained, err := infer.RecordOf(a)
	if err != nil {
		return "", err
	}
	if trained.Digest == "" {
		return fmt.Sprintf("whether %s is the base of adapter %s cannot be checked: no digest is recorded", c.Name,
			a.Name), nil
	}
	digest, err := c.Digest()
	if err == nil && digest != trained.Digest {
		err = fmt.Errorf("adapter %s %w: that was %s with digest %.12s, and %s has digest %.12s: name its own base with "+
			"--base", a.Name, ErrOtherBase, cmp.Or(trained.Base, "a model"), trained.Digest, c.Name, digest)
	}
	return "", err
}

// LeaveOut ends the error of a tuned model whose base is unknown: an adapter needs it, others do not.
func LeaveOut(ctx context.Context, h *hub.Hub, tuned string) string {
	if dir, err := hf.FindAdapter(ctx, h, tuned); dir != "" || err != nil {
		return ""
	}
	return ", or leave the base model out with --only tuned"
}
