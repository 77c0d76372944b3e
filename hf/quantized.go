package hf

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// A quantized weight is stored as U8 [out, bytes of a row], in the layout of package tensor. config.json tells which
// weights are, and their types:
//
//	"quantization_config": {"quant_method": "restyle", "layers": "INT4Z", "head": "INT8"}
const quantizationKey, quantMethod = "quantization_config", "restyle"

// quantizedTypes has the types by their names in config.json.
var quantizedTypes = map[string]tensor.DType{"INT8": tensor.INT8, "INT4": tensor.INT4, "INT4Z": tensor.INT4Z,
	"NF4": tensor.NF4}

// quantization reads quantization_config: restyle's, or bitsandbytes' for NF4. Other programs' are an error.
func (o *object) quantization() (q model.Quantization) {
	if !o.has(quantizationKey) {
		return q
	}
	if o.quantizer() == bitsAndBytes {
		return o.bitsAndBytes()
	}
	var fields map[string]string
	if json.Unmarshal(o.keys[quantizationKey], &fields) != nil || fields["quant_method"] != quantMethod {
		o.fail("%s is %.60s: only weights that restyle has quantized, and nf4 of bitsandbytes, are supported: use the "+
			"repository of the original model", quantizationKey,
			strings.Join(strings.Fields(string(o.keys[quantizationKey])), " "))
		return q
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		t, known := quantizedTypes[fields[key]]
		switch {
		case key == "quant_method":
		case !known || key != "layers" && key != "head":
			o.fail("%s has %.40q: %.40q: must be layers or head, and INT8, INT4, INT4Z or NF4", quantizationKey, key,
				fields[key])
		case key == "layers":
			q.Layers = t
		default:
			q.Head = t
		}
	}
	if q.None() {
		o.fail("%s names no quantized weights", quantizationKey)
	}
	return q
}

// quantizer returns the program that quantized the weights, as quantization_config names it.
func (o *object) quantizer() string {
	var fields struct {
		Method any `json:"quant_method"`
	}
	_ = json.Unmarshal(o.keys[quantizationKey], &fields)
	name, _ := fields.Method.(string)
	return name
}

// quantizationOf returns how a model's parameters are quantized, as config.json has it, or nil if they are not. It
// cannot say that layers are of several types.
func quantizationOf(c model.Config, params []model.Param) (map[string]string, error) {
	fields, types := map[string]string{"quant_method": quantMethod}, map[string]tensor.DType{}
	var q model.Quantization
	for _, p := range params {
		t := p.W.DType
		if !t.Quantized() {
			continue
		}
		types[p.Name] = t
		if p.Layer == model.Outside {
			fields["head"], q.Head = t.String(), t
		} else {
			fields["layers"], q.Layers = t.String(), t
		}
	}
	if q.None() {
		return nil, nil
	}
	for _, p := range model.ParamsOf(c, model.Options{Quantization: q}) {
		t, want := types[p.Name], p.W.DType
		if !want.Quantized() {
			want = 0
		}
		if t != want || quantizedTypes[t.String()] != t {
			is := t.String()
			if t == 0 {
				is = "not quantized"
			}
			return nil, fmt.Errorf("%s is %s, unlike other weights: quantized models are saved only with one type for all "+
				"layers, and one for the head, which are INT8, INT4, INT4Z and NF4", p.Name, is)
		}
	}
	return fields, nil
}

// params lists the model's parameters. The types of quantized ones are the types in the files.
func (c *Checkpoint) params() []model.Param {
	return model.ParamsOf(c.Config, model.Options{Quantization: c.Quantization})
}

// storedShape returns the shape of a parameter in files.
func storedShape(p model.Param) []int {
	if p.W.DType.Quantized() {
		return []int{p.W.Rows(), p.W.DType.RowBytes(p.W.Dim(-1))}
	}
	return fileShape(p)
}

// storedAs returns the shape of a parameter in the checkpoint's files, which have it in a type.
func (c *Checkpoint) storedAs(p model.Param, of tensor.DType) []int {
	p.W.DType = of
	if of.Quantized() && c.packed != nil {
		return []int{(p.W.Len() + 1) / 2, 1}
	}
	return storedShape(p)
}

// toQuantized makes a chunk's weights from what has been read: from a quantized type if there is one, otherwise from
// float32, which the type's default rule quantizes.
func (k *chunk) toQuantized(from tensor.DType) error {
	w, in := k.param.W, k.param.W.Dim(-1)
	if from == w.DType {
		k.out = append(k.out[:0], k.raw...)
		return quant.Check(k.out, from, in)
	}
	values := make([]float32, k.n)
	widen(values, k.out, tensor.F32)
	size := k.n / in * w.DType.RowBytes(in)
	k.out = slices.Grow(k.out[:0], size)[:size]
	return quant.RuleFor(w.DType).Quantize(k.out, values, in)
}

// fromQuantized makes a chunk's weights, of type to, from quantized ones.
func (k *chunk) fromQuantized(from, to tensor.DType) error {
	in, values := k.param.W.Dim(-1), make([]float32, k.n)
	if err := quant.Check(k.raw, from, in); err != nil {
		return err
	}
	if err := quant.Dequantize(values, k.raw, from, in); err != nil {
		return err
	}
	k.out = slices.Grow(k.out[:0], k.n*to.Size())[:k.n*to.Size()]
	narrow(k.out, to, values)
	return nil
}

// quantizedAs returns an error if a parameter's type cannot be made from the file's type.
func quantizedAs(p model.Param, stored tensor.DType) error {
	if stored.Quantized() && p.W.DType.Quantized() && stored != p.W.DType {
		return fmt.Errorf("%s is quantized to %v: it cannot be quantized to %v: use the original model", p.Name, stored,
			p.W.DType)
	}
	return nil
}
