package trainer

import (
	"slices"
	"testing"

	"restyle/hf"
	"restyle/lora"
)

// TestAdapter_HasTiedEmbeddingTwice trains an embedding that is also the head. PEFT replaces modules by their names, so
// the adapter has it under both.
func TestAdapter_HasTiedEmbeddingTwice(t *testing.T) {
	s := tinySettings()
	s.LoRA, s.LoRAAlso, s.MaxSteps = lora.Default(), []string{"embed_tokens"}, 2
	r := tiny(t, t.TempDir(), s)
	toEnd(t, r)
	if err := r.Save(nil); err != nil {
		t.Fatal(err)
	}
	a, err := hf.OpenAdapter(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	embedding, _, err := a.ReadF32("model.embed_tokens.weight")
	if err != nil {
		t.Fatal(err)
	}
	asHead, _, err := a.ReadF32(head)
	if err != nil || !slices.Equal(asHead, embedding) {
		t.Errorf("the head is another than the embedding (%v)", err)
	}
	now, err := r.Model.Device().Floats(r.Model.Params()[0].W)
	if err != nil || !slices.Equal(now, embedding) {
		t.Errorf("the embedding is another than the model's (%v)", err)
	}
}
