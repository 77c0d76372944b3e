package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/tensor"
)

// ConfigFor returns the settings that suit a model: [DefaultConfig] with the changes of [Suited], and a Seq of at most
// the model's positions. scratch means that a new model with base's config is trained from random weights. Which
// examples to hold out is the caller's choice, so the val of Suited has no effect.
func ConfigFor(base *hf.Checkpoint, scratch bool) (Config, error) {
	c := DefaultConfig()
	values, err := Suited(base, scratch, false)
	if err != nil {
		return c, err
	}
	delete(values, "val")
	fields := c.Fields()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return c, fmt.Errorf("%s suits %s: there is no such setting", name, base.Name)
		}
		if err := fields[i].Set(values[name]); err != nil {
			return c, err
		}
	}
	c.Seq = min(c.Seq, base.Config.Positions())
	return c, c.Check()
}

// Suited returns the settings that suit a model better than the defaults, by the names of [Config.Fields]: the
// embedded model's recipe, learning rate and epochs by the size of a new model, [SmallRecipe] for a small one, F32 for
// weights in F16, which BF16 would round, and the factor of a mixture's auxiliary loss. adapts means that adapters are
// trained: the learning rate and weight decay are then from [AdapterRecipe]. Of the other flags of train, it may set
// val, the fraction of the examples to hold out.
func Suited(base *hf.Checkpoint, scratch, adapts bool) (map[string]string, error) {
	values := map[string]string{}
	switch {
	case scratch:
		values = fromScratch(base.Config.ParamCount())
	case base.Embedded:
		var err error
		if values, err = recipeOf(base, adapts); err != nil {
			return nil, err
		}
	default:
		n := base.Config.ParamCount()
		small := n >= smallFrom && n <= smallTo
		if small {
			values = SmallRecipe()
		}
		if adapts {
			maps.Copy(values, AdapterRecipe(small))
		}
		if base.DTypes()[tensor.F16] > 0 {
			values["dtype"] = "fp32"
		}
	}
	if m := base.Config.Mixture; m != nil && values["balance-loss"] == "" {
		values["balance-loss"] = fmt.Sprint(m.Balance)
	}
	return values, nil
}

// SmallModels are the models that SmallRecipe is for, in words.
const SmallModels = "models of 50 to 200 million parameters"

const smallFrom, smallTo = 50e6, 200e6

// SmallRecipe returns the settings for fine-tuning a small model such as SmolLM2-135M-Instruct. At 2e-5 it hardly
// learns a voice. At 5e-4 it gets four in ten fewer plain facts right than before; at 1e-4 as many, and nearly as many
// answers are in the voice. The loss on held-out answers is lowest after the first epoch, when one answer in six
// lacks the voice and some never end. After three the loss is higher, and they end. So the last weights are the result:
// with val 0, nothing is held out to choose others by.
func SmallRecipe() map[string]string {
	return map[string]string{"lr": "1e-4", "val": "0"}
}

// AdapterRecipe returns the settings for adapters, of a model that SmallRecipe is for or of another: ten times the
// learning rate that suits all weights, as in Thinking Machines' "LoRA Without Regret" (2025), or with a small model
// twenty times, which was measured; and no weight decay, which would pull the product of two factors to zero.
func AdapterRecipe(small bool) map[string]string {
	lr := "2e-4"
	if small {
		lr = "2e-3"
	}
	return map[string]string{"lr": lr, "weight-decay": "0"}
}

// recipeOf returns the settings in the recipe.json next to a model's weights, for all weights or for adapters. Most
// models have none.
func recipeOf(c *hf.Checkpoint, adapts bool) (map[string]string, error) {
	const name = "recipe.json"
	recipe := map[string]string{}
	text, err := c.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return recipe, nil
	}
	if err == nil {
		var file struct {
			FineTuning map[string]json.RawMessage `json:"fine_tuning"`
			Adapters   map[string]json.RawMessage `json:"adapters"` // what differs for these
		}
		err = json.Unmarshal(text, &file)
		for name, v := range file.FineTuning {
			recipe[name] = strings.Trim(string(v), `"`)
		}
		for name, v := range file.Adapters {
			if adapts {
				recipe[name] = strings.Trim(string(v), `"`)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the model's %s: %w", name, err)
	}
	return recipe, nil
}

// fromScratch returns the settings for a new model with this many parameters. A small model tolerates and needs a
// higher learning rate than fine-tuning, and more epochs.
func fromScratch(params int64) map[string]string {
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
