package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/internal/cli"
)

// presets are named sets of flags.
var presets = map[string]map[string]string{
	// What the original trained on a card of 8 GB: the MLPs.
	"8gb": {"batch": "1", "accumulate": "4", "seq": "512", "recompute": "block", "optimizer": "adamw8bit", "master": "sr", "train-only": "mlp", "max-memory": "8GB"},
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
