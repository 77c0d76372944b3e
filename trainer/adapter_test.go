package trainer

import (
	"slices"
	"testing"

	"restyle/hf"
	"restyle/internal/expect"
	"restyle/lora"
)

// TestAdapter_HasTiedEmbeddingTwice trains an embedding that is also the head. PEFT replaces modules by their names, so
// the adapter has it under both.
func TestAdapter_HasTiedEmbeddingTwice(t *testing.T) {
	s := tinySettings()
	s.LoRA, s.LoRAAlso, s.MaxSteps = lora.Default(), []string{"embed_tokens"}, 2
	r := tiny(t, t.TempDir(), s)
	toEnd(t, r)
	expect.OK(t, r.Save(nil))
	a, err := hf.OpenAdapter(r.Dir)
	expect.OK(t, err)
	defer a.Close()
	embedding, _, err := a.ReadF32("model.embed_tokens.weight")
	expect.OK(t, err)
	asHead, _, err := a.ReadF32(head)
	if err != nil || !slices.Equal(asHead, embedding) {
		t.Errorf("the head is another than the embedding (%v)", err)
	}
	now, err := r.Model.Device().Floats(r.Model.Params()[0].W)
	if err != nil || !slices.Equal(now, embedding) {
		t.Errorf("the embedding is another than the model's (%v)", err)
	}
}
