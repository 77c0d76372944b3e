package main

import (
	"fmt"
	"os"
	"strings"

	"restyle/data"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
)

// A modelRef is a model to open, by a name that hf.Open knows.
type modelRef struct{ label, name string }

// models are those that the flags ask for, the base model first.
func (c *chatter) models() ([]modelRef, error) {
	tuned := modelRef{tunedLabel, c.tuned}
	// Said before anything is loaded. A name that can be a hub id is looked for there.
	_, err := hub.ParseRef(hub.Model, c.tuned)
	known := c.tuned == data.StarterName || err == nil && strings.Contains(c.tuned, "/")
	if c.only != baseLabel && !known {
		if _, err := os.Stat(c.tuned); err != nil {
			return nil, fmt.Errorf("there is no tuned model in %s: make one with go run ./cmd/train, or ask a base model alone, the embedded one with --base starter --only base", c.tuned)
		}
	}
	if c.only == tunedLabel {
		return []modelRef{tuned}, nil
	}
	base := c.base
	if base == "" {
		if base = infer.BaseOf(c.tuned); base == "" {
			return nil, cli.Usagef("which model %s was made from is not known: give it with --base", c.tuned)
		}
	}
	refs := []modelRef{{baseLabel, base}, tuned}
	if c.only == baseLabel {
		refs = refs[:1]
	}
	return refs, nil
}
