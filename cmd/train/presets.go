package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"restyle/data"
	"restyle/hf"
	"restyle/internal/cli"
	"restyle/tensor"
)

// presets are named sets of flags.
var presets = map[string]map[string]string{
	// This trains all of a model of a billion parameters on a card of 8 GB.
	"8gb": {"batch": "1", "accumulate": "4", "seq": "512", "recompute": "layer", "optimizer": "adamw8bit", "master": "sr",
		"gradients": "layer", "max-memory": "8GB"},
}

func presetNames() string { return strings.Join(slices.Sorted(maps.Keys(presets)), ", ") }

// recipeFile is the file next to a model that has the flags that suit it.
const recipeFile = "recipe.json"

// setDefaults sets flags that nothing has set yet, and records source as what set them.
func (t *train) setDefaults(values map[string]string, source string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if t.flags.Lookup(name) == nil {
			return fmt.Errorf("%s: there is no flag --%s", source, name)
		}
		if t.flags.Given(name) {
			continue
		}
		if err := t.flags.Set(name, values[name]); err != nil {
			return fmt.Errorf("%s: --%s %s: %w", source, name, values[name], err)
		}
		t.cameFrom[name] = source
	}
	return nil
}

// recipeOf returns the flags in the recipe.json next to a model's weights. Most models have none.
func recipeOf(c *hf.Checkpoint) (map[string]string, error) {
	data, err := c.ReadFile(recipeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	recipe := map[string]string{}
	if err == nil {
		var file struct {
			FineTuning map[string]json.RawMessage `json:"fine_tuning"`
		}
		err = json.Unmarshal(data, &file)
		for name, v := range file.FineTuning {
			recipe[name] = strings.Trim(string(v), `"`)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the model's %s: %w", recipeFile, err)
	}
	return recipe, nil
}

// suit sets the flags that nothing has set yet to what suits the model: the embedded model's recipe, defaults by the
// size of a new model, and F32 if any weights are stored in F16, which BF16 would round. It lowers --seq to the number
// of the model's positions.
func (t *train) suit(base *hf.Checkpoint) error {
	values, source := map[string]string{}, "the model"
	switch {
	case t.fromScratch != "":
		values, source = scratch(base.Config.ParamCount()), "its size"
	case t.model == data.StarterName:
		var err error
		if values, err = recipeOf(base); err != nil {
			return err
		}
	case base.DTypes()[tensor.F16] > 0:
		values["dtype"] = "fp32"
	}
	if err := t.setDefaults(values, source); err != nil {
		return err
	}
	if m := base.Config.Mixture; m != nil {
		if err := t.setDefaults(map[string]string{"balance-loss": fmt.Sprint(m.Balance)}, "the model"); err != nil {
			return err
		}
	}
	if err := t.check(func(string) bool { return false }); err != nil {
		return err
	}
	if seq, most := &t.config.Seq, base.Config.Positions(); *seq > most {
		if t.cameFrom["seq"] == "given" {
			return cli.Usagef("--seq %d: must be at most %d, the model's positions", *seq, most)
		}
		t.note("--seq %d is more than the model's %d positions: lowered to these", *seq, most)
		*seq = most
	}
	return nil
}

// scratch returns the flags for a new model with this many parameters. A small model tolerates and needs a higher
// learning rate than fine-tuning, and more epochs.
func scratch(params int64) map[string]string {
	s := map[string]string{"lr": "3e-4", "epochs": "6", "weight-decay": "0.1"}
	for _, size := range []struct {
		max int64
		lr  string
	}{{5e6, "3e-3"}, {50e6, "1e-3"}, {500e6, "6e-4"}} {
		if params <= size.max {
			s["lr"] = size.lr
			break
		}
	}
	return s
}
