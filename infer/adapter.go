package infer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/model"
	"restyle/tensor"
)

// An AdapterRecord is what a training run records with an adapter, so that others find the weights that it was trained
// on.
type AdapterRecord struct {
	Base   string `json:"base_model,omitempty"`  // the name of the base, as BaseOf returns it
	Digest string `json:"base_digest,omitempty"` // of the base's files: hf.Checkpoint.Digest
	// QuantizedBase is the type that the base's layers were quantized to before training, such as "INT4Z"; "" if they
	// were used as they are stored.
	QuantizedBase string `json:"quantized_base,omitempty"`
}

// RecordOf returns an adapter's record, or an empty one if it has none.
func RecordOf(a *hf.Adapter) (r AdapterRecord, err error) {
	if a.Record == nil {
		return r, nil
	}
	if err := json.Unmarshal(a.Record, &r); err != nil {
		return r, fmt.Errorf("restyle_adapter.json of adapter %s: %w", a.Name, err)
	}
	return r, nil
}

// AdapterWidth returns how many columns of a model's room an adapter takes: see model.AdapterWidth. The model is a
// checkpoint whose weights are loaded with a quantization. It is an error if the adapter cannot share them with others:
// it has weights that were trained whole, changes other layers than linear ones, or was trained next to weights of
// another type.
func AdapterWidth(base *hf.Checkpoint, q model.Quantization, a *hf.Adapter) (int, error) {
	record, err := RecordOf(a)
	if err != nil {
		return 0, err
	}
	if q.None() {
		q = base.Quantization
	}
	t, whole := record.QuantizedBase, a.Spec.Also
	switch {
	case t != "" && q.Weights == nil && q.Layers.String() != t:
		return 0, fmt.Errorf("adapter %s was trained beside weights in %.40q, and these are not", a.Name, t)
	case len(whole) > 0:
		return 0, fmt.Errorf("adapter %s: %.40q was trained whole, and so is not shared", a.Name, whole[0])
	}
	ranks := map[string]int{}
	for _, name := range a.Names() {
		if module, ok := strings.CutSuffix(name, ".lora_A.weight"); ok {
			ranks[module], _, _ = a.Of(module)
		}
	}
	width, err := model.AdapterWidth(base.Config, ranks)
	if err != nil {
		return 0, fmt.Errorf("adapter %s: %w", a.Name, err)
	}
	return width, nil
}

// withAdapter returns the options of a model with an adapter: merged into the weights, or next to them if the weights
// are quantized, because a sum with them could not be stored.
func withAdapter(o model.Options, base *hf.Checkpoint, a *hf.Adapter) (model.Options, error) {
	record, err := RecordOf(a)
	if err != nil {
		return o, err
	}
	if record.QuantizedBase != "" && o.Quantization.Equal(base.Quantization) {
		kinds := []tensor.DType{tensor.INT8, tensor.INT4, tensor.INT4Z, tensor.NF4}
		at := slices.IndexFunc(kinds, func(t tensor.DType) bool { return t.String() == record.QuantizedBase })
		if at < 0 {
			return o, fmt.Errorf("adapter %s was trained on weights in %.40q: restyle has no such weights", a.Name,
				record.QuantizedBase)
		}
		o.Quantization.Layers = kinds[at]
	}
	beside := o
	beside.Adapter = a.Of
	if err := model.CheckOptions(a.Config(base.Config), beside); err != nil {
		return o, fmt.Errorf("adapter %s does not fit %s: %w", a.Name, base.Name, err)
	}
	if o.Quantization.None() {
		return o, nil
	}
	return beside, nil
}
