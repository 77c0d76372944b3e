package main

import (
	"fmt"
	"strings"

	"restyle/internal/cli"
)

// baseType returns the types of the frozen weights in words, such as "BF16, layers in INT8".
func (t *train) baseType() string {
	q := t.job.Plan.ModelOptions(t.base.Config).Quantization
	text := t.config.DType.String()
	if q.Weights != nil && !q.None() {
		return fmt.Sprintf("%s, weights in %v", text, q)
	}
	if q.Layers != 0 {
		text += ", layers in " + q.Layers.String()
	}
	if q.Head != 0 {
		text += ", head in " + q.Head.String()
	}
	return text
}

// unread says which programs cannot read the adapter that the run will make.
func (t *train) unread() (notes []string) {
	var whole []string
	head := false
	for _, p := range t.params() {
		switch {
		case p.Adapter:
			head = head || strings.HasPrefix(p.Name, "lm_head.")
		case p.Trainable():
			whole = append(whole, strings.TrimSuffix(p.Name, ".weight"))
		}
	}
	if whole != nil {
		if most := 2; len(whole) > most {
			whole = append(whole[:most], cli.Count(len(whole)-most, "other"))
		}
		notes = append(notes, fmt.Sprintf("vLLM and llama.cpp read no adapters with whole modules (%s): merge it for them, "+
			"with %s", strings.Join(whole, ", "), cli.Command("export")))
	}
	if head {
		notes = append(notes, "vLLM and llama.cpp read no adapters of lm_head: merge it for them, with "+
			cli.Command("export"))
	}
	return notes
}

// optimizerRow describes the optimizer's state. For adapters the state always has 32 bits, and they need no master
// weights.
func (t *train) optimizerRow() string {
	if t.config.Adapts() && len(t.config.LoRAAlso)+len(t.config.TrainOnly) == 0 {
		return "adamw, 32 bits"
	}
	return t.flag("optimizer") + ", master weights " + string(t.config.AdamW().Master)
}
