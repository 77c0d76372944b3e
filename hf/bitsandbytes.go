package hf

import (
	"encoding/json"
	"fmt"
	"slices"

	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// bitsandbytes saves the linear layers of a model's layers in NF4, and everything else, including the head, in 16
// bits. In place of a weight of n numbers there are
//
//	NAME             U8 [n/2, 1]: codes of the flattened matrix, the first of two in the high four bits
//	NAME.quant_map   F32 [16]: the values of the codes
//	NAME.absmax      F32 [n/64]: scales of blocks
//	NAME.quant_state.bitsandbytes__nf4   U8: JSON
//
// and if the scales are quantized in turn, absmax is U8, codes of the 256 values in NAME.nested_quant_map [256], and
// NAME.nested_absmax is F32 [n/64/256], the scales of these. A scale is the value of its code times the
// nested scale, plus an offset, which is in the JSON.
const bitsAndBytes, stateSuffix = "bitsandbytes", ".quant_state.bitsandbytes__nf4"

// instead is what to do with weights that cannot be read.
const instead = "use the repository of the original model, which --quantize nf4 of chat and --weights nf4 of export " +
	"take"

// bitsAndBytes reads quantization_config as transformers writes it for bitsandbytes.
func (o *object) bitsAndBytes() (q model.Quantization) {
	fields := parseObject(o.keys[quantizationKey])
	kind, storage := get(fields, "bnb_4bit_quant_type", "fp4"), get(fields, "bnb_4bit_quant_storage", "uint8")
	switch {
	case fields.err != nil:
		o.fail("%s: %v", quantizationKey, fields.err)
	case get(fields, "load_in_8bit", false):
		o.fail("%s has load_in_8bit: of %s only nf4 is supported: %s", quantizationKey, bitsAndBytes, instead)
	case !get(fields, "load_in_4bit", false):
		o.fail("%s has no load_in_4bit: of %s only nf4 is supported: %s", quantizationKey, bitsAndBytes, instead)
	case kind != "nf4":
		o.fail("%s has bnb_4bit_quant_type %.40q: only nf4 is supported: %s", quantizationKey, kind, instead)
	case storage != "uint8":
		o.fail("%s has bnb_4bit_quant_storage %.40q: only uint8 is supported: %s", quantizationKey, storage, instead)
	case fields.err != nil: // a field of a wrong type
		o.fail("%s: %v", quantizationKey, fields.err)
	}
	return model.Quantization{Layers: tensor.NF4}
}

// A packed weight is one that bitsandbytes has saved.
type packed struct {
	nested bool    // its scales are quantized
	offset float32 // of these
}

// packedParts lists the names of the tensors of a packed weight, without its own.
var packedParts = []string{".quant_map", ".absmax", stateSuffix, ".nested_quant_map", ".nested_absmax"}

// openPacked checks the tensors of a packed weight, but not the numbers in them that Load reads.
func (c *Checkpoint) openPacked(p model.Param) (w packed, err error) {
	refuse := func(format string, a ...any) (packed, error) {
		return w, fmt.Errorf(p.Name+format, a...)
	}
	state, stored := c.weights.find(p.Name + stateSuffix)
	switch info, _ := c.Tensor(p.Name); {
	case p.Transposed:
		return refuse(" is saved by %s, which is not supported for %s: %s", bitsAndBytes, c.Config.Family, instead)
	case info.DType != "U8":
		return refuse(" is of type %s, but %s of config.json says that it is in nf4: weights that are left out, as by "+
			"llm_int8_skip_modules, are not supported: %s", info.DType, quantizationKey, instead)
	case !slices.Equal(info.Shape, c.storedAs(p, tensor.NF4)):
		return refuse(" has shape %s, but must have %v", shape(info.Shape), c.storedAs(p, tensor.NF4))
	case state == nil:
		return refuse(" has no %s: it is not in nf4: %s", stateSuffix[1:], instead)
	}
	if info, _ := state.Tensor(stored); info.Bytes > 1<<16 {
		return refuse("%s has %d bytes: must be a short JSON object", stateSuffix, info.Bytes)
	}
	text, _, err := readTensor(state, stored)
	if err != nil {
		return w, err
	}
	s := struct {
		Type        string   `json:"quant_type"`
		Block       int      `json:"blocksize"`
		Shape       []int    `json:"shape"`
		NestedBlock int      `json:"nested_blocksize"`
		NestedType  string   `json:"nested_dtype"`
		Offset      *float32 `json:"nested_offset"`
	}{}
	if err := json.Unmarshal(text, &s); err != nil {
		return refuse("%s: %v", stateSuffix, err)
	}
	blocks := (p.W.Len() + quant.NF4Block - 1) / quant.NF4Block
	w.nested = s.Offset != nil
	switch {
	case s.Type != "nf4" || s.Block != quant.NF4Block:
		return refuse("%s: quant_type %.40q, blocksize %d: only nf4 and %d are supported: %s", stateSuffix, s.Type, s.Block,
			quant.NF4Block, instead)
	case !slices.Equal(s.Shape, p.W.Shape):
		return refuse("%s: shape %s: must be %v", stateSuffix, shape(s.Shape), p.W.Shape)
	case w.nested && (s.NestedBlock != quant.NF4Nested || s.NestedType != "float32"):
		return refuse("%s: nested_blocksize %d, nested_dtype %.40q: only %d and float32 are supported: %s", stateSuffix,
			s.NestedBlock, s.NestedType, quant.NF4Nested, instead)
	}
	parts := map[string]Info{".quant_map": {DType: "F32", Shape: []int{16}},
		".absmax": {DType: "F32", Shape: []int{blocks}}}
	if w.nested {
		w.offset = *s.Offset
		parts[".absmax"] = Info{DType: "U8", Shape: []int{blocks}}
		parts[".nested_quant_map"] = Info{DType: "F32", Shape: []int{256}}
		parts[".nested_absmax"] = Info{DType: "F32", Shape: []int{(blocks + quant.NF4Nested - 1) / quant.NF4Nested}}
	}
	for _, part := range packedParts {
		want, needed := parts[part]
		if info, ok := c.Tensor(p.Name + part); needed && (!ok || info.DType != want.DType ||
			!slices.Equal(info.Shape, want.Shape)) {
			return refuse("%s is %s %s: must be %s %v", part, info.DType, shape(info.Shape), want.DType, want.Shape)
		}
	}
	table, _, err := c.ReadF32(p.Name + ".quant_map")
	if err == nil && !slices.Equal(table, tensor.NF4.Coding().Table[:]) {
		return refuse(".quant_map is not that of nf4: %s", instead)
	}
	return w, err
}

// readPacked reads n numbers of a packed weight from number at on, a multiple of 64, as rows of in numbers in NF4.
// Zeros complete the last row. It also returns the number of bytes of codes that it has read.
func (c *Checkpoint) readPacked(name string, w packed, at, n, in int) (rows []byte, read int, err error) {
	part := func(suffix string, from, size, width int) []byte {
		s, stored := c.weights.find(name + suffix)
		data := make([]byte, size*width)
		if err == nil {
			err = s.ReadAt(stored, data, int64(from*width))
		}
		return data
	}
	floats := func(suffix string, from, size int) []float32 {
		values := make([]float32, size)
		widen(values, part(suffix, from, size, 4), tensor.F32)
		return values
	}
	codes := part("", at/2, (n+1)/2, 1)
	first, end := at/quant.NF4Block, (at+n+quant.NF4Block-1)/quant.NF4Block
	var scales []float32
	if w.nested {
		group := first / quant.NF4Nested // where whole nested blocks start
		from := group * quant.NF4Nested
		nested := floats(".nested_absmax", group, (end-from+quant.NF4Nested-1)/quant.NF4Nested)
		scales = quant.UnnestNF4(part(".absmax", from, end-from, 1), nested, floats(".nested_quant_map", 0, 256), w.offset)
		scales = scales[first-from:]
	} else {
		scales = floats(".absmax", first, end-first)
	}
	if err != nil {
		return nil, 0, err
	}
	rows = quant.NF4Rows(codes, scales, in)
	return rows, len(codes), quant.Check(rows, tensor.NF4, in)
}

// packedValues reads numbers of a packed weight, as readPacked.
func (c *Checkpoint) packedValues(name string, w packed, at, n int) (values []float32, read int, err error) {
	in := (n + quant.NF4Block - 1) / quant.NF4Block * quant.NF4Block // all in one row, wherever the matrix's rows end
	rows, read, err := c.readPacked(name, w, at, n, in)
	if err != nil {
		return nil, 0, err
	}
	values = make([]float32, in)
	err = quant.Dequantize(values, rows, tensor.NF4, in)
	return values[:n], read, err
}

// readPackedChunk is readChunk for a packed weight.
func (c *Checkpoint) readPackedChunk(k *chunk, w packed) (err error) {
	to, name := k.param.W, k.param.Name
	if to.DType.Quantized() {
		k.out, k.read, err = c.readPacked(name, w, k.at, k.n, to.Dim(-1))
		return err
	}
	values, read, err := c.packedValues(name, w, k.at, k.n)
	if err != nil {
		return err
	}
	k.read = read
	k.out = slices.Grow(k.out[:0], k.n*to.DType.Size())[:k.n*to.DType.Size()]
	narrow(k.out, to.DType, values)
	return nil
}
