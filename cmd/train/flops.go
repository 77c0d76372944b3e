package main

import (
	"strings"

	"restyle/model"
)

// flops is how many floating-point operations a token takes in training. Each weight that multiplies takes two forward, two for
// the gradient of its input where anything before it is trained, and two for its own where it is trained itself: six as a rule
// (llm.c and llmq count so, and every token in the head, too). Attention over a causal context as long as the mean example takes
// two for each pair forward and four backward.
func flops(c model.Config, params []model.Param, mean float64) (total float64) {
	trained, below := false, false // anything so far, and anything before this weight's input
	product := func(p model.Param) {
		n := 2
		if below {
			n += 2
		}
		if p.Trained() {
			n += 2
		}
		total += float64(n) * float64(p.W.Len())
	}
	for _, p := range params { // in the order in which they are used
		if len(p.W.Shape) == 2 && p.Name != params[0].Name { // but for the embedding, which is looked up
			if !strings.Contains(p.Name, ".k_proj.") && !strings.Contains(p.Name, ".v_proj.") && !strings.Contains(p.Name, ".up_proj.") {
				below = trained // those three read what the one before them reads
			}
			product(p)
		}
		if strings.HasSuffix(p.Name, ".o_proj.weight") {
			n := 2
			if below {
				n += 4
			}
			total += float64(n) * float64(c.Heads*c.HeadDim) * mean
		}
		trained = trained || p.Trained()
	}
	if c.Tied {
		below = trained
		product(params[0])
	}
	return total
}
