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
	// All of a model of a billion parameters on a card of 8 GB.
	"8gb": {"batch": "1", "accumulate": "4", "seq": "512", "recompute": "block", "optimizer": "adamw8bit", "master": "sr", "gradients": "block", "max-memory": "8GB"},
}

func presetNames() string { return strings.Join(slices.Sorted(maps.Keys(presets)), ", ") }

// recipeFile is where a model says which flags suit it.
const recipeFile = "recipe.json"

// setDefaults gives flags that the command line leaves out the values that a set has for them. It returns what it set.
func setDefaults(f *cli.Flags, from map[string]string, what string) (set []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if f.Lookup(name) == nil {
			return nil, fmt.Errorf("%s: there is no flag --%s", what, name)
		}
		if f.Given(name) {
			continue
		}
		if err := f.Set(name, from[name]); err != nil {
			return nil, fmt.Errorf("%s: --%s %s: %w", what, name, from[name], err)
		}
		set = append(set, name)
	}
	return set, nil
}

// recipeOf reads the flags that suit a model from the recipe.json beside its weights. Most have none.
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

// suit gives flags that nobody has given the values that suit the model: those of the starter model's recipe, those of a
// model of this size that begins with random weights, and F32 if any weights are in F16, which BF16 would not keep.
func (t *train) suit() error {
	values, source := map[string]string{}, "the model"
	switch {
	case t.fromScratch != "":
		values, source = scratch(t.origin.Config.ParamCount()), "its size"
	case t.model == data.StarterName:
		var err error
		if values, err = recipeOf(t.origin); err != nil {
			return err
		}
	case t.origin.DTypes()[tensor.F16] > 0:
		values["dtype"] = "fp32"
	}
	if err := t.setDefaults(values, source); err != nil {
		return err
	}
	return t.check(func(string) bool { return false })
}

// scratch returns the settings for a new model of that many parameters. A small model bears and needs larger steps than
// fine-tuning takes, and to see its data more often.
func scratch(params int64) map[string]string {
	s := map[string]string{"lr": "3e-4", "epochs": "6", "weight-decay": "0.1"}
	for _, size := range []struct {
		most int64
		lr   string
	}{{5e6, "3e-3"}, {50e6, "1e-3"}, {500e6, "6e-4"}} {
		if params <= size.most {
			s["lr"] = size.lr
			break
		}
	}
	return s
}
