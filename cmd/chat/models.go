package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"restyle/data"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/models"
)

// A modelRef is a model to open, by a name and a base for models.OpenTuned.
type modelRef struct{ label, name, base string }

// models returns the models that the flags choose, the base model first.
func (c *chatter) models(ctx context.Context, h *hub.Hub) ([]modelRef, error) {
	tuned := modelRef{tunedLabel, c.tuned, c.base}
	// Checked before anything is loaded. A name that can be a hub id is left to hf.Open.
	repository, _, _ := strings.Cut(c.tuned, ":") // which a type of GGUF may follow
	_, err := hub.ParseRef(hub.Model, repository)
	known := c.tuned == data.StarterName || err == nil && strings.Contains(c.tuned, "/")
	if (c.only != baseLabel || c.base == "") && !known {
		if _, err := os.Stat(c.tuned); err != nil {
			return nil, fmt.Errorf("there is no tuned model in %s: make one with %s, or ask only a base model, "+
				"such as the embedded one: --base starter --only base", c.tuned, cli.Command("train"))
		}
	}
	if c.only != baseLabel && unfinished(c.tuned) {
		c.note("the training run in %s has not finished: this is not its final model", c.tuned)
	}
	if c.only == tunedLabel {
		return []modelRef{tuned}, nil
	}
	base := c.base
	if base == "" {
		base, err = infer.BaseOf(ctx, h, runOf(c.tuned))
		switch {
		case errors.Is(err, infer.ErrBaseGone):
			return nil, cli.Usagef("%w: say where it is with --base%s", err, models.LeaveOut(ctx, h, c.tuned))
		case err != nil:
			return nil, fmt.Errorf("--tuned %s: %w", c.tuned, err)
		case base == "":
			return nil, cli.Usagef("%s does not name its base model: set --base%s", c.tuned, models.LeaveOut(ctx, h, c.tuned))
		}
	}
	if err := models.CheckWhole(base); err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	refs := []modelRef{{label: baseLabel, name: base}, tuned}
	if c.only == baseLabel {
		refs = refs[:1]
	}
	return refs, nil
}

// unfinished reports whether dir is the directory of a training run, or one of its checkpoints, and its run.json says
// that the run has not finished.
func unfinished(dir string) bool {
	data, err := disk.ReadInput(filepath.Join(runOf(dir), "run.json"), disk.MaxRecord)
	var run struct{ Finished *bool }
	return err == nil && json.Unmarshal(data, &run) == nil && run.Finished != nil && !*run.Finished
}
