package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/hf"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

// logitsOf returns the logits of a model at every position of a text.
func logitsOf(t *testing.T, m *model.Model) (all []float32) {
	t.Helper()
	batch := model.Batch{IDs: []int32{1, 300, 7, 42, 42, 5}, Labels: make([]int32, 6)}
	if err := m.Logits(batch, func(_ int, logits []float32) { all = append(all, logits...) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// far returns the largest difference of two lists of logits, as a share of the largest logit.
func far(got, want []float32) (worst float64) {
	for i, x := range want {
		worst = max(worst, math.Abs(float64(got[i]-x)))
	}
	return worst / float64(slices.Max(want))
}

// saveRandom saves a random adapter to dir, made from a model that has it next to its weights and whose head is its
// embedding if tied, and returns this model's logits.
func saveRandom(t *testing.T, dir string, spec lora.Spec, base *hf.Checkpoint, tied bool) []float32 {
	t.Helper()
	d, c := cpu(t), base.Config
	c.Tied = tied
	m, err := model.New(d, c, model.Options{DType: tensor.F32, MaxTokens: 8, Adapter: spec.Of})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var stored, own []model.Param
	for _, p := range m.Params() {
		if p.Adapter || spec.Whole(p.Name) {
			own = append(own, p)
			continue
		}
		if p.Name == "lm_head.weight" {
			p.Name = "model.embed_tokens.weight"
		}
		stored = append(stored, p)
	}
	if err := base.Load(t.Context(), d, stored, nil); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range own {
		values := make([]float32, p.W.Len())
		for i := range values {
			values[i] = float32(r.NormFloat64() / 4)
		}
		d.Upload(p.W, values)
	}
	if err := hf.SaveAdapter(dir, spec, d, m.Params(), hf.AdapterOptions{}); err != nil {
		t.Fatal(err)
	}
	return logitsOf(t, m)
}

// TestLoad_AdapterIsThatOfTraining compares the logits of a model that has an adapter next to its weights, as in
// training, with the logits of the base with the adapter as it was saved: merged, and next to quantized weights.
func TestLoad_AdapterIsThatOfTraining(t *testing.T) {
	c, err := hf.OpenModel("testdata/tiny/base") // whose head is its embedding
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	base := logitsOf(t, open(t, "testdata/tiny/base", OpenOptions{DType: tensor.F32, MaxTokens: 8}).Model)
	low := []string{"q_proj", "v_proj", "down_proj"}
	for _, test := range []struct {
		name string
		spec lora.Spec
		tied bool
	}{
		{"some", lora.Spec{Targets: lora.Targets{Names: low}}, true},
		{"all", lora.Spec{Targets: lora.Targets{AllLinear: true}}, true},
		{"layer", lora.Spec{Targets: lora.Targets{Names: low}, Layers: []int{1}, RSLoRA: true}, true},
		{"norms", lora.Spec{Targets: lora.Targets{Names: low}, Also: []string{"post_attention_layernorm"}}, true},
		{"embedding", lora.Spec{Targets: lora.Targets{Names: low}, Also: []string{"embed_tokens"}}, false},
		{"head", lora.Spec{Targets: lora.Targets{Names: low}, Also: []string{"lm_head"}}, false},
		{"low-rank head", lora.Spec{Targets: lora.Targets{Names: append(low[:3:3], "lm_head")}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.spec.Rank, test.spec.Alpha = 3, 1.5
			want := saveRandom(t, dir, test.spec, c, test.tied)
			if d := far(base, want); d < 0.2 {
				t.Fatalf("the adapter changes logits by only %.3g", d)
			}
			a, err := hf.OpenAdapter(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			on, err := a.On(c)
			if err != nil {
				t.Fatal(err)
			}
			for quantized, limit := range map[string]float64{
				"":     1e-5, // a weight is rounded by 2⁻²⁴ once more
				"int8": 0.05, // each weight by up to 1/254 of the largest of its group
			} {
				e, err := Load(t.Context(), cpu(t), on, OpenOptions{DType: tensor.F32, Adapter: a, MaxTokens: 8,
					Quantization: Quantizations[quantized]})
				if err != nil {
					t.Fatal(err)
				}
				if d := far(logitsOf(t, e.Model), want); d > limit {
					t.Errorf("quantized %q: logits are off by %.3g", quantized, d)
				}
				if beside := e.Model.Adapter() != nil; beside != (quantized != "") || e.Name != dir+" on "+c.Name {
					t.Errorf("quantized %q: %s, beside %t", quantized, e.Name, beside)
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
