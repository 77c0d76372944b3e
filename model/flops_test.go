package model

import (
	"strings"
	"testing"
)

// TestFLOPs compares with the operations of a small model counted by hand, with parts of the model frozen.
func TestFLOPs(t *testing.T) {
	cfg := Config{Vocab: 100, Dim: 8, Inner: 12, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 4, MaxPositions: 16,
		NormEps: 1e-5, RoPETheta: 1e4, PadID: -1}
	const head, q, kv, o, mlp, mean = 800, 64, 32, 64, 96, 10
	const layer = q + 2*kv + o + 3*mlp
	const pairs = 8 * mean // of a layer's attention, at two operations each
	for name, x := range map[string]struct {
		tied    bool
		trained func(name string) bool
		want    float64
	}{
		"all":            {false, func(string) bool { return true }, 6*(2*layer+head) + 2*6*pairs},
		"tied":           {true, func(string) bool { return true }, 6*(2*layer+head) + 2*6*pairs},
		"the head alone": {false, func(n string) bool { return n == "lm_head.weight" }, 2*2*layer + 4*head + 2*2*pairs},
		"the last down": {false, func(n string) bool { return n == "model.layers.1.mlp.down_proj.weight" },
			2*2*layer + 2*mlp + 4*head + 2*2*pairs},
		"MLPs": {true, func(n string) bool { return strings.Contains(n, "mlp") },
			2*(2*q+4*kv+2*o) + 2*2*3*mlp + // forward
				2*2*3*mlp + // gradients of weights
				2*mlp + 2*(q+2*kv+o+3*mlp) + // gradients of inputs: in the first layer only down's
				4*head + (2+6)*pairs},
	} {
		cfg.Tied = x.tied
		opts := Options{Train: true, Trainable: x.trained}
		if got := FLOPs(cfg, opts, mean); got != x.want {
			t.Errorf("%s: %v operations, want %v", name, got, x.want)
		}
	}
}
