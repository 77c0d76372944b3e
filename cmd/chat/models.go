package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"restyle/hf"
	"restyle/tensor"
)

// dtypes are the types that --dtype names. 0 lets the model's files decide.
var dtypes = map[string]tensor.DType{"auto": 0, "bf16": tensor.BF16, "fp32": tensor.F32}

// A modelRef is a model to open: a directory or a hub id.
type modelRef struct{ label, name string }

// models are those that the flags ask for, the base model first.
func (c *chatter) models() ([]modelRef, error) {
	tuned := modelRef{tunedLabel, c.tuned}
	// Said before anything is loaded. A name that can be a hub id is looked for there.
	if _, err := hf.ParseRef(hf.Model, c.tuned); c.only != baseLabel && (err != nil || !strings.Contains(c.tuned, "/")) {
		if _, err := os.Stat(c.tuned); err != nil {
			return nil, fmt.Errorf("there is no tuned model in %s: make one with go run ./cmd/train, or ask a base model alone with --base DIR --only base", c.tuned)
		}
	}
	if c.only == tunedLabel {
		return []modelRef{tuned}, nil
	}
	base := c.base
	if base == "" {
		if base = baseOf(c.tuned); base == "" {
			return nil, usagef("which model %s was made from is not known: give it with --base", c.tuned)
		}
	}
	refs := []modelRef{{baseLabel, base}, tuned}
	if c.only == baseLabel {
		refs = refs[:1]
	}
	return refs, nil
}

// baseOf reads which model a tuned one was made from: base_model in the front matter of its model card, README.md, where
// the hub looks for it too. It is empty where that is not said.
func baseOf(dir string) string {
	f, err := os.Open(filepath.Join(dir, "README.md"))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	if !lines.Scan() || strings.TrimSpace(lines.Text()) != "---" {
		return ""
	}
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(name) {
		case "---":
			return ""
		case "base_model":
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			if value == "" && lines.Scan() { // a list with one name
				value = strings.Trim(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "- "), `"'`)
			}
			return value
		}
	}
	return ""
}
