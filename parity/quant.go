package parity

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

var quantFiles = []string{"quant.json", "quant.safetensors", "config.json", "model.safetensors"}

func isQuant(f *folder) bool { return f.hasFile("quant.safetensors") && f.hasFile("quant.json") }

// A quantFolder has quantized matrices, or a model with such matrices.
type quantFolder struct {
	*folder
	g *tensors // quant.safetensors
	j *values  // quant.json
}

func compareQuant(f *folder) (err error) {
	q := quantFolder{folder: f}
	if q.g, err = f.tensors("quant.safetensors"); err != nil {
		return err
	}
	defer q.g.st.Close()
	if q.j, err = f.values("quant.json"); err != nil {
		return err
	}
	q.j.strike("about", input)
	q.j.strike("seed", input)
	q.j.strikeAll("libraries.", input)
	switch {
	case f.hasFile("config.json"):
		err = q.models()
	case q.g.has("table"):
		err = q.nf4()
	default:
		err = q.matrices()
	}
	return errors.Join(err, q.g.err)
}

// cases returns the names of the matrices, which end in .w.
func (q *quantFolder) cases() (names []string) {
	for _, name := range q.g.st.Names() {
		if name, ok := strings.CutSuffix(name, ".w"); ok {
			names = append(names, name)
			q.strike(q.g.key(name+".w"), input)
		}
	}
	return names
}

// matrix returns a tensor of floats with the length of its rows, or an error if it has none.
func (q *quantFolder) matrix(name string) ([]float32, int, error) {
	info, _ := q.g.st.Tensor(name)
	x := q.g.floats(name)
	if len(info.Shape) != 2 || len(x) == 0 {
		return nil, 0, fmt.Errorf("%s: shape %v: must be a matrix", name, info.Shape)
	}
	return x, info.Shape[1], q.g.err
}

// same compares a list of bits with the recorded one.
func same[T comparable](t *tensors, figure, name string, got, want []T) {
	off := 0.0
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			off++
		}
	}
	t.f.compare(figure, t.key(name), off, exact)
}

func (q *quantFolder) matrices() error {
	q.j.strike("group", input)
	for _, name := range q.cases() {
		w, in, err := q.matrix(name + ".w")
		if err != nil {
			return err
		}
		q.strike(q.g.key(name+".x"), input)
		for _, rule := range quant.Rules {
			if rule.DType() == tensor.NF4 {
				continue // it has a folder of its own
			}
			if err := q.rule(name, rule, w, in); err != nil {
				return fmt.Errorf("%s, %s: %w", name, rule, err)
			}
		}
	}
	return nil
}

// rule quantizes a matrix and multiplies by it.
func (q *quantFolder) rule(name string, rule quant.Rule, w []float32, in int) error {
	q.run = ""
	at, t := name+"."+string(rule)+".", rule.DType()
	size := t.RowBytes(in)
	rows, back := make([]byte, len(w)/in*size), make([]float32, len(w))
	err := errors.Join(rule.Quantize(rows, w, in), quant.Check(rows, t, in), quant.Dequantize(back, rows, t, in))
	if err != nil {
		return err
	}
	var codes, zeros []byte
	var scales []float32
	for r := range len(w) / in {
		row := quant.Row{DType: t, In: in, Bytes: rows[r*size:][:size]}
		for i := range in {
			codes = append(codes, byte(row.Code(i)))
		}
		for g := range row.Groups() {
			scales, zeros = append(scales, row.Scale(g)), append(zeros, byte(row.Zero(g)))
		}
	}
	same(q.g, "quantized codes", at+"codes", codes, q.g.bytes(at+"codes"))
	same(q.g, "quantized scales", at+"scale", scales, q.g.floats(at+"scale"))
	if rule == quant.INT4Asym {
		same(q.g, "quantized zero points", at+"zero", zeros, q.g.bytes(at+"zero"))
	}
	same(q.g, "dequantized", at+"back", back, q.g.floats(at+"back"))
	json := "cases." + at
	q.j.compare("quantization error", json+"error", over(apart(back, w), norm(w)), 1e-5)
	return q.product(at, json, name, rows, t, in)
}

// product multiplies all rows of x, and only as many as stream the weights, by the matrix.
func (q *quantFolder) product(at, json, name string, rows []byte, t tensor.DType, in int) error {
	all, _, err := q.matrix(name + ".x")
	if err != nil {
		return err
	}
	want, out := q.g.floats(at+"y"), len(rows)/t.RowBytes(in)
	if len(all)%in != 0 || len(want) != len(all)/in*out {
		return fmt.Errorf("x has %d numbers, y %d: sizes do not agree", len(all), len(want))
	}
	// PyTorch's own error of a single product may be small by luck.
	limitBF16 := max(3*q.j.limit(json+"y_error_bf16_both"), limitOpBF16)
	for _, part := range []struct {
		typ   tensor.DType
		limit float64
	}{{tensor.F32, limitProduct}, {tensor.BF16, limitBF16}} {
		for _, few := range []int{len(all) / in, min(8, len(all)/in)} {
			got, err := q.multiply(all[:few*in], rows, t, part.typ, in)
			if err != nil {
				return err
			}
			off := over(apart(got, want[:few*out]), norm(want[:few*out]))
			q.f(part.typ).compare("product by quantized", q.g.key(at+"y"), off, part.limit)
		}
	}
	q.j.strike(json+"y_error_float32", yardstick)
	q.j.strike(json+"y_error_bf16_weights", yardstick)
	return nil
}

// f returns the folder with the type as the run.
func (q *quantFolder) f(t tensor.DType) *folder {
	q.run = map[tensor.DType]string{tensor.F32: "fp32", tensor.BF16: "bf16"}[t]
	return q.folder
}

func (q *quantFolder) multiply(x []float32, rows []byte, t, typ tensor.DType, in int) (got []float32, err error) {
	n, out := len(x)/in, len(rows)/t.RowBytes(in)
	var place, w, y tensor.Tensor
	cut := func(a *kernels.Arena) {
		place, w, y = a.New("x", typ, n, in), a.New("w", t, out, in), a.New("y", tensor.F32, n, out)
	}
	a, err := q.d.NewArena("product", kernels.SizeOf(cut))
	if err != nil {
		return nil, err
	}
	cut(a)
	q.d.Upload(place, x)
	q.d.UploadBytes(w, rows)
	q.d.Linear(y, place, w, tensor.Tensor{})
	got, err = q.d.Floats(y)
	return got, errors.Join(err, a.Close())
}

func (q *quantFolder) nf4() error {
	dynamic := q.g.floats("dynamic_map")
	same(q.g, "NF4 values", "table", tensor.NF4.Coding().Table[:], q.g.floats("table"))
	q.compare("dynamic map", q.g.key("dynamic_map"), farthest(quant.DynamicMap(true), dynamic), exact)
	boundaries, err := flatNF4(quant.NF4, q.g.floats("boundaries.x"))
	q.strike(q.g.key("boundaries.x"), input)
	same(q.g, "NF4 boundaries", "boundaries.codes", boundaries.codes, q.g.bytes("boundaries.codes"))
	if err != nil {
		return err
	}
	for _, name := range q.cases() {
		w, _, err := q.matrix(name + ".w")
		if err == nil {
			err = q.nf4Matrix(name, w, dynamic)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An nf4 is a flattened matrix in NF4: codes, those two to a byte, the first in the high four bits, the scales of all
// blocks, and values.
type nf4 struct {
	codes, packed []byte
	scales, back  []float32
}

// flatNF4 quantizes a matrix as one row, because bitsandbytes' blocks do not end where its rows do. Zeros after the
// last weight complete its block; an odd number of codes is packed with the code of zero.
func flatNF4(rule quant.Rule, w []float32) (x nf4, err error) {
	in := (len(w) + quant.NF4Block - 1) / quant.NF4Block * quant.NF4Block
	row := quant.Row{DType: tensor.NF4, In: in, Bytes: make([]byte, tensor.NF4.RowBytes(in))}
	x.back = make([]float32, in)
	err = errors.Join(rule.Quantize(row.Bytes, append(slices.Clone(w), x.back[len(w):]...), in),
		quant.Check(row.Bytes, row.DType, in), quant.Dequantize(x.back, row.Bytes, row.DType, in))
	for i := range (len(w) + 1) / 2 {
		x.packed = append(x.packed, byte(row.Code(2*i)<<4|row.Code(2*i+1)))
	}
	for i := range w {
		x.codes = append(x.codes, byte(row.Code(i)))
	}
	for g := range row.Groups() {
		x.scales = append(x.scales, row.Scale(g))
	}
	x.back = x.back[:len(w)]
	return x, err
}

func (q *quantFolder) nf4Matrix(name string, w, dynamic []float32) error {
	plain, err := flatNF4(quant.NF4, w)
	if err != nil {
		return err
	}
	for _, rule := range []quant.Rule{quant.NF4, quant.NF4Double} {
		at := name + "." + string(rule) + "."
		x, err := flatNF4(rule, w)
		if err != nil {
			return err
		}
		same(q.g, "NF4 codes", at+"packed", x.packed, q.g.bytes(at+"packed"))
		same(q.g, "NF4 codes", at+"codes", x.codes, q.g.bytes(at+"codes"))
		if rule == quant.NF4 {
			same(q.g, "NF4 scales", at+"absmax", x.scales, q.g.floats(at+"absmax"))
		} else if offset := q.g.floats(at + "nested_offset"); len(offset) == 1 && len(dynamic) == 256 {
			q.compare("NF4 offset", q.g.key(at+"nested_offset"),
				relative(float64(quant.MeanNF4(plain.scales)), float64(offset[0])), 1e-6)
			codes, nested := quant.NestNF4(plain.scales, dynamic, offset[0])
			same(q.g, "NF4 nested codes", at+"absmax", codes, q.g.bytes(at+"absmax"))
			same(q.g, "NF4 nested scales", at+"nested_absmax", nested, q.g.floats(at+"nested_absmax"))
			// Our offset may differ in its last bit, and with it all values.
			for i, scale := range quant.UnnestNF4(codes, nested, dynamic, offset[0]) {
				for j := i * quant.NF4Block; j < min(len(w), (i+1)*quant.NF4Block); j++ {
					x.back[j] = tensor.NF4.Coding().Table[x.codes[j]] * scale
				}
			}
			for _, other := range []string{"cpu_absmax", "cpu_nested_absmax"} { // by a table of 65,536 steps
				q.strike(q.g.key(at+other), yardstick)
			}
			q.j.strike("cases."+at+"cpu_codes_that_differ", yardstick)
		}
		same(q.g, "NF4 values", at+"back", x.back, q.g.floats(at+"back"))
		q.j.compare("quantization error", "cases."+at+"error", over(apart(x.back, w), norm(w)), 1e-5)
	}
	return nil
}

// models compares a model's logits and loss with weights quantized by several schemes.
func (q *quantFolder) models() error {
	ck, err := hf.OpenModel(q.dir)
	if err != nil {
		return err
	}
	defer ck.Close()
	batches := q.g.rows("")
	mask, _ := q.g.ints("attention_mask")
	for _, scheme := range q.j.under("schemes.") {
		for _, t := range []tensor.DType{tensor.F32, tensor.BF16} {
			if err := q.ctx.Err(); err != nil {
				return err
			}
			q.run = strings.ToLower(t.String()) + ", " + scheme
			if err := q.scheme(ck, scheme, t, batches, mask); err != nil {
				return fmt.Errorf("%s: %w", scheme, err)
			}
		}
	}
	return nil
}

// wholeBlocks reports whether rows of NF4 are whole blocks. The recordings' blocks are blocks of the flattened matrix:
// otherwise the model gets their values.
func wholeBlocks(t tensor.DType, in int) bool { return t != tensor.NF4 || in%quant.NF4Block == 0 }

// scheme runs the model with one scheme.
func (q *quantFolder) scheme(ck *hf.Checkpoint, scheme string, t tensor.DType, batches []model.Batch,
	mask []int64) (err error) {
	rule := quant.Rule(strings.TrimSuffix(scheme, "_head"))
	o := model.Options{DType: t, MaxTokens: 64}
	if t := rule.DType(); t != 0 && wholeBlocks(t, ck.Config.Inner) {
		o.Quantization.Layers = rule.DType()
		if scheme != string(rule) && ck.Config.Tied { // the recorded scheme quantizes the embedding, not a head of its own
			o.Quantization.Head = rule.DType()
		}
	}
	m, err := model.New(q.d, ck.Config, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := ck.Load(context.Background(), q.d, m.Params(), nil); err != nil {
		return err
	}
	at := "schemes." + scheme + "."
	for _, p := range m.Params() {
		if err := q.weight(ck, m, p, scheme, at); err != nil {
			return err
		}
	}
	q.j.strike(at+"sha256", input)
	var got, want []float32
	var losses []model.Loss
	recorded := q.g.floats("logits." + scheme)
	for _, b := range batches {
		if err := m.Logits(b, func(_ int, logits []float32) { got = append(got, logits...) }); err != nil {
			return err
		}
		loss, err := m.Loss(b)
		if err != nil {
			return err
		}
		losses = append(losses, loss)
	}
	for i, on := range mask {
		if n := ck.Config.Vocab; on == 1 && (i+1)*n <= len(recorded) {
			want = append(want, recorded[i*n:][:n]...)
		}
	}
	limit, lossLimit := float64(limitOutput), float64(limitOutput)
	if t == tensor.BF16 {
		limit, lossLimit = limitQuantBF16, limitQuantBF16
	}
	q.compare("logits", q.g.key("logits."+scheme), byNorm(got, want), limit)
	q.j.compare("loss", at+"loss", mean(losses), lossLimit)
	q.j.compare("loss", at+"loss_float64", mean(losses), lossLimit)
	q.j.strike(at+"logits_error", yardstick)
	q.j.strike(at+"from_unquantised", yardstick)
	return nil
}

// weight quantizes a parameter by the scheme, if there are recorded hashes of it, compares these, and uploads it.
func (q *quantFolder) weight(ck *hf.Checkpoint, m *model.Model, p model.Param, scheme, at string) error {
	at += "sha256." + p.Name + "."
	if !q.j.has(at + "codes") {
		return nil
	}
	w, shape, err := ck.ReadF32(p.Name)
	if err != nil {
		return err
	}
	in := shape[1]
	back, codes := make([]float32, len(w)), []byte(nil)
	rule := quant.Rule(strings.TrimSuffix(scheme, "_head"))
	if t := rule.DType(); t == tensor.NF4 {
		x, err := flatNF4(rule, w)
		if err != nil {
			return err
		}
		codes, back = x.packed, x.back
		q.d.Upload(p.W, back)
	} else {
		rows := make([]byte, len(w)/in*t.RowBytes(in))
		if err := errors.Join(rule.Quantize(rows, w, in), quant.Dequantize(back, rows, t, in)); err != nil {
			return err
		}
		for r := range len(w) / in {
			row := quant.Row{DType: t, In: in, Bytes: rows[r*t.RowBytes(in):][:t.RowBytes(in)]}
			for i := range in {
				codes = append(codes, byte(row.Code(i)))
			}
		}
		if p.W.DType == t {
			q.d.UploadBytes(p.W, rows)
		} else {
			q.d.Upload(p.W, back)
		}
	}
	raw := make([]byte, 0, 4*len(back))
	for _, x := range back {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	for path, data := range map[string][]byte{"codes": codes, "back": raw} {
		var recorded string
		q.j.get(at+path, &recorded)
		q.compare("sha256 of "+path, q.j.key(at+path), differ(recorded == fmt.Sprintf("%x", sha256.Sum256(data))), exact)
	}
	return nil
}
