// Package models opens a model by the name that a user gives a command: a directory, a hub id or "starter".
package models

import (
	"context"

	"restyle/data"
	"restyle/hf"
	"restyle/hf/hub"
)

// Open opens the embedded model if name is data.StarterName, and what [hf.Open] opens otherwise. A directory with the
// name of the embedded model must be given as ./starter.
func Open(ctx context.Context, h *hub.Hub, name string) (*hf.Checkpoint, error) {
	if name != data.StarterName {
		return hf.Open(ctx, h, name)
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
