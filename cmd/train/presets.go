package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/internal/cli"
	"restyle/lora"
	"restyle/trainer"
)

// presets are named sets of flags.
var presets = map[string]map[string]string{
	// This trains all of a model of a billion parameters on a card of 8 GB.
	"8gb": {"batch": "1", "accumulate": "4", "seq": "512", "recompute": "layer", "optimizer": "adamw8bit", "master": "sr",
		"gradients": "layer", "max-memory": "8GB"},
	// This trains adapters of a model of a billion parameters on a card of 4 GB.
	"4gb": {"batch": "1", "accumulate": "4", "seq": "512", "recompute": "layer", "lora": lora.Default().String(),
		"quantize-base": "nf4", "max-memory": "4GB"},
}

func presetNames() string { return strings.Join(slices.Sorted(maps.Keys(presets)), ", ") }

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

// suit sets the flags that nothing has set yet to what suits the model, and lowers --seq to the number of the model's
// positions.
func (t *train) suit(base *hf.Checkpoint) error {
	values, err := trainer.Suited(base, t.fromScratch != "", t.config.Adapts())
	if err != nil {
		return err
	}
	if t.flags.Given("patience") || t.flags.Given("eval-every") {
		delete(values, "val") // the user asks for validations
	}
	if err := t.setDefaults(values, "the model"); err != nil {
		return err
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
		t.cameFrom["seq"] = "the model"
	}
	return nil
}
