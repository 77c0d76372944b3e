package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/lora"
	"restyle/model"
	"restyle/trainer"
)

// adopt takes the settings of the adapter to train further, of which c is the base.
func (t *train) adopt(c *hf.Checkpoint) error {
	a := t.adapter
	c.Config = a.Config(c.Config)
	if hf.IsPath(c.Name) && !c.Embedded && disk.Holds(t.dir, c.Name) {
		return cli.Usagef("--out %s: contains %s, the base of %s, and a later run would rename it: choose another directory",
			t.out, c.Name, a.Name)
	}
	spec := t.specOf(a, c.Config)
	if t.cameFrom["lora"] == "given" {
		asked, err := spec.With(t.loraText)
		if err != nil {
			return cli.Usagef("--%w", err)
		}
		if !sameAdapters(asked, spec, c.Config) {
			return cli.Usagef("--lora %s: the adapter %s has %s: leave the values of --lora out to train it further, or name "+
				"its base with --model to train a new one", t.loraText, a.Name, spec)
		}
	} else {
		t.cameFrom["lora"] = "the adapter"
	}
	t.config.LoRA = spec
	record, err := infer.RecordOf(a)
	if err != nil || record.QuantizedBase == "" || t.flags.Given("quantize-base") {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(trainer.Codings)) {
		if trainer.Codings[name].String() == record.QuantizedBase {
			return t.setDefaults(map[string]string{"quantize-base": name}, "the adapter")
		}
	}
	return fmt.Errorf("adapter %s was trained on weights in %.40q: restyle has no such weights: name others with "+
		"--quantize-base", a.Name, record.QuantizedBase)
}

// specOf returns the Spec of the adapters that a has. Its configuration may name more modules, such as those that were
// frozen when it was trained. Those that --freeze names again need no mention.
func (t *train) specOf(a *hf.Adapter, c model.Config) lora.Spec {
	s := a.Spec
	var has, lacks []string
	for _, p := range c.Params() {
		module := strings.TrimSuffix(p.Name, ".weight")
		_, _, named := s.Of(module)
		if _, _, there := a.Of(module); there {
			has = append(has, module)
		} else if named && len(p.W.Shape) == 2 && !t.config.Frozen(p.Name) {
			lacks = append(lacks, module)
		}
	}
	switch {
	case lacks == nil:
	case s.Exclude.Match == "" && len(lacks) <= len(has):
		s.Exclude.Names = slices.Concat(s.Exclude.Names, lacks)
	default:
		s.Targets, s.Exclude, s.Layers = lora.Targets{Names: has}, lora.Targets{}, nil
	}
	return s
}

// sameAdapters reports whether two settings mean the same for a model.
func sameAdapters(a, b lora.Spec, c model.Config) bool {
	return a.Dropout == b.Dropout && !slices.ContainsFunc(c.Params(), func(p model.Param) bool {
		module := strings.TrimSuffix(p.Name, ".weight")
		rankA, scaleA, _ := a.Of(module)
		rankB, scaleB, _ := b.Of(module)
		return rankA != rankB || scaleA != scaleB || a.Whole(p.Name) != b.Whole(p.Name)
	})
}

// adapterName returns what publicName does, for the adapter that is trained further.
func (t *train) adapterName() string {
	if path, err := filepath.Abs(t.adapter.Name); err == nil && hf.IsPath(path) {
		return filepath.Base(path)
	}
	return t.adapter.Name
}
