package parity

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"restyle/kernels"
	"restyle/tensor"
)

// operations compare a recorded case of the operation that its file names. A file of any other operation is not
// supported yet.
var operations = map[string]func(c *opCase){
	"bmm":        compareBatched,
	"gelu":       compareGELU,
	"layernorm":  compareLayerNorm,
	"linear_act": compareLinearActivation,
	"softmax":    compareSoftmax,
	"topk":       compareTopK,
}

// An opCase is a recorded case of one operation. Its tensors are called CASE.TENSOR.
type opCase struct {
	*tensors
	json   *values
	at     string // path of the case in the JSON file
	name   string
	typ    tensor.DType // of the inputs
	params struct {
		Form       string
		Activation string
		Eps        float64
		K          int
		TransposeA bool `json:"transpose_a"`
		TransposeB bool `json:"transpose_b"`
		Alpha      float32
	}
	inputs, outputs map[string][]int // shapes
	d               *kernels.Device
	arena           *kernels.Arena
}

// isOps reports whether each JSON file of a directory names an operation, and has tensors next to it.
func isOps(f *folder) bool {
	found := 0
	for _, file := range f.files {
		if name, ok := strings.CutSuffix(file, ".json"); ok {
			var head struct{ Op string }
			data, err := f.read(file)
			if err != nil || json.Unmarshal(data, &head) != nil || head.Op != name || !f.hasFile(name+".safetensors") {
				return false
			}
			found++
		}
	}
	return found > 0
}

func compareOps(f *folder) error {
	for _, file := range f.files {
		if op, ok := strings.CutSuffix(file, ".json"); ok {
			if err := f.compareOp(op); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// compareOp compares all cases of an operation.
func (f *folder) compareOp(op string) error {
	t, err := f.tensors(op + ".safetensors")
	if err != nil {
		return err
	}
	defer t.st.Close()
	j, err := f.values(op + ".json")
	if err != nil {
		return err
	}
	for path := range j.values {
		if strings.Contains(path, ".torch_error.") {
			j.strike(path, yardstick)
		}
	}
	compare := operations[op]
	if compare == nil {
		f.strikeAll(t.file+" ", unsupported)
	}
	var all struct {
		Cases []struct {
			Name, DType     string
			Params          json.RawMessage
			Inputs, Outputs map[string][]int
			Errors          []recordedError
		}
	}
	data, err := f.read(j.file)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	for i, one := range all.Cases {
		if compare == nil || err != nil {
			break
		}
		c := &opCase{tensors: t, json: j, at: fmt.Sprintf("cases.%d.", i), name: one.Name, inputs: one.Inputs,
			outputs: one.Outputs, d: f.d}
		for n, e := range one.Errors {
			j.compareError(fmt.Sprintf("%serrors.%d.", c.at, n), e, f.d)
		}
		if one.Inputs == nil {
			continue
		}
		if err = json.Unmarshal(one.Params, &c.params); err == nil {
			c.typ, err = tensor.ParseDType(one.DType)
		}
		if err == nil {
			err = c.run(compare)
		}
		if err != nil {
			err = fmt.Errorf("case %s: %w", one.Name, err)
		}
	}
	f.strikeAll(j.file+" ", input)
	return errors.Join(err, t.err)
}

// run places a case's operands and compares its results.
func (c *opCase) run(compare func(c *opCase)) (err error) {
	size := 1 << 16
	for _, list := range []map[string][]int{c.inputs, c.outputs} {
		for name, shape := range list {
			n := 1
			for _, d := range shape {
				n *= d
			}
			info, ok := c.st.Tensor(c.name + "." + name)
			if !ok || !slices.Equal(info.Shape, shape) {
				return fmt.Errorf("%s is %v in the safetensors file, and %v in the JSON file", name, info.Shape, shape)
			}
			size += 4 * (4*n + 1024)
		}
	}
	if c.arena, err = c.d.NewArena("case", size); err != nil {
		return err
	}
	// A shape that an operation does not take is a fault of the file.
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("%v", why)
		}
		err = errors.Join(err, c.arena.Close())
	}()
	c.f.run = strings.ToLower(c.typ.String())
	compare(c)
	return c.d.Err()
}

// floats returns a tensor of the case.
func (c *opCase) floats(name string) []float32 { return c.tensors.floats(c.name + "." + name) }

// input places an input of the case, or returns the zero Tensor if it has none of that name.
func (c *opCase) input(name string) tensor.Tensor {
	shape, ok := c.inputs[name]
	if !ok {
		return tensor.Tensor{}
	}
	x := c.arena.New(name, c.typ, shape...)
	c.d.Upload(x, c.floats(name))
	c.f.strike(c.key(c.name+"."+name), input)
	return x
}

// output returns a tensor of the shape of an output, of the type of the inputs.
func (c *opCase) output(name string) tensor.Tensor {
	return c.arena.New(name, c.typ, c.outputs[name]...)
}

// sums returns a tensor of zeros, of the shape of an output, in F32.
func (c *opCase) sums(name string) tensor.Tensor {
	x := c.arena.New(name, tensor.F32, c.outputs[name]...)
	c.d.Zero(x)
	return x
}

// compare compares a result by its norm: with the limit in F32, and rounded once in BF16. What is not finite must be at
// the same places.
func (c *opCase) compare(name string, x tensor.Tensor, limit float64) {
	got, err := c.d.Floats(x)
	want := c.floats(name)
	if x.DType == tensor.BF16 {
		limit = limitOpBF16
	}
	off := math.Inf(1)
	if err == nil && sameWhereNotFinite(got, want) {
		if off = byNorm(got, want); norm(want) == 0 {
			off = norm(got)
		}
	}
	c.f.compare(strings.TrimSuffix(filepath.Base(c.file), ".safetensors")+" "+name, c.key(c.name+"."+name), off, limit)
}

// compareEach compares each element of a result with a limit of its own in F32, and in BF16 with ten times that and an
// ulp. The error is a multiple of the limit.
func (c *opCase) compareEach(name string, x tensor.Tensor, limit func(i int) float64) {
	got, err := c.d.Floats(x)
	want := c.floats(name)
	off := math.Inf(1)
	if err == nil && sameWhereNotFinite(got, want) {
		off = 0
		for i, w := range want {
			l := limit(i)
			if x.DType == tensor.BF16 {
				l = 10*l + 0x1p-8*math.Abs(float64(w))
			}
			off = max(off, math.Abs(float64(got[i])-float64(w))/l)
		}
	}
	c.f.compare(strings.TrimSuffix(filepath.Base(c.file), ".safetensors")+" "+name, c.key(c.name+"."+name), off, 1)
}

// sameWhereNotFinite reports whether two lists have NaN and infinities at the same places, and then sets these to 0 in
// both.
func sameWhereNotFinite(got, want []float32) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		g := got[i]
		if finite := w-w == 0; finite != (g-g == 0) || !finite && g != w && (g == g || w == w) {
			return false
		} else if !finite {
			got[i], want[i] = 0, 0
		}
	}
	return true
}

func compareGELU(c *opCase) {
	tanh := c.params.Form == "tanh"
	xs, dys := c.floats("x"), c.floats("dy")
	x := c.input("x")
	dy := c.input("dy")
	y := c.output("y")
	dx := c.output("dx")
	c.d.GELU(y, x, tanh)
	c.d.GELUBackward(dx, dy, x, tanh)
	c.compareEach("y", y, func(i int) float64 { return 1e-6 + 1e-6*math.Abs(float64(xs[i])) })
	c.compareEach("dx", dx, func(i int) float64 { return 3e-6 * max(1, math.Abs(float64(dys[i]))) })
}

// compareLayerNorm computes a norm without weight as one whose weight is 1. An F32 case whose inputs have few
// digits themselves may be off twice as far as PyTorch is.
func compareLayerNorm(c *opCase) {
	x := c.input("x")
	dy := c.input("dy")
	w := c.input("w")
	b := c.input("b")
	if !w.Ok() {
		w = c.arena.New("w", c.typ, x.Dim(-1))
		c.d.Upload(w, slices.Repeat([]float32{1}, w.Len()))
	}
	results := map[string]tensor.Tensor{"y": c.output("y"), "dx": c.output("dx")}
	for _, name := range []string{"mean", "rstd", "dw", "db"} {
		if _, ok := c.outputs[name]; ok {
			results[name] = c.sums(name)
		}
	}
	mean, rstd := results["mean"].View(x.Rows()), results["rstd"].View(x.Rows())
	c.d.LayerNorm(results["y"], mean, rstd, x, w, b, float32(c.params.Eps))
	c.d.LayerNormBackward(results["dx"], results["dw"], results["db"], dy, x, w, mean, rstd)
	for _, name := range slices.Sorted(maps.Keys(results)) {
		limit := limitLayerNorm
		if c.typ == tensor.F32 {
			limit = max(limit, 2*c.json.limit(c.at+"torch_error."+name))
		}
		c.compare(name, results[name], limit)
	}
}

// compareSoftmax computes the gradient from the result as it is stored.
func compareSoftmax(c *opCase) {
	x := c.input("x")
	dy := c.input("dy")
	y := c.output("y")
	dx := c.output("dx")
	lse := c.sums("lse")
	c.d.Softmax(y, lse, x)
	c.d.SoftmaxBackward(dx, dy, y)
	c.compare("y", y, limitSoftmax)
	c.compare("lse", lse, limitSoftmax)
	c.compare("dx", dx, limitSoftmax)
}

// compareBatched compares batched products. The results are views of the same shapes: what has no batch axes, or only
// one, has one matrix along the others.
func compareBatched(c *opCase) {
	a, b := kernels.MatricesOf(c.input("a")), kernels.MatricesOf(c.input("b"))
	a.Trans, b.Trans = c.params.TransposeA, c.params.TransposeB
	y := c.output("y")
	if x := c.input("c"); x.Ok() {
		c.d.Copy(y, x)
	}
	c.d.BatchedProduct(kernels.MatricesOf(y), a, b, c.params.Alpha, c.inputs["c"] != nil)
	da, db := c.output("da"), c.output("db")
	dA, dB := kernels.MatricesOf(da), kernels.MatricesOf(db)
	dA.Trans, dB.Trans = a.Trans, b.Trans
	c.d.BatchedProductBackward(dA, dB, kernels.MatricesOf(c.input("dy")), a, b, c.params.Alpha)
	c.compare("y", y, limitProduct)
	c.compare("da", da, limitProduct)
	c.compare("db", db, limitProduct)
}

// A recordedError is a length of a row and a number of elements that it does not have.
type recordedError struct{ N, K int }

// compareError checks that such a number is an error.
func (j *values) compareError(at string, e recordedError, d *kernels.Device) {
	defer func() {
		text := fmt.Sprint(recover())
		found := strings.Contains(text, fmt.Sprint(e.N)) && strings.Contains(text, fmt.Sprint(e.K))
		j.f.compare("topk error", j.key(at+"k"), differ(found), exact)
	}()
	x := tensor.Tensor{Addr: 1, DType: tensor.F32, Shape: []int{1, e.N}}
	d.TopK(tensor.Tensor{}, tensor.Tensor{}, x, e.K)
}

func compareTopK(c *opCase) {
	x, values := c.input("x"), c.output("values")
	indices := c.arena.New("indices", tensor.I32, c.outputs["indices"]...)
	largest := c.arena.New("argmax", tensor.I32, c.outputs["argmax"]...)
	c.d.TopK(values, indices, x, c.params.K)
	c.d.Argmax(largest, x)
	got, err := c.d.Floats(values)
	c.f.compare("topk values", c.key(c.name+".values"), differ(err == nil && sameFloats(got, c.floats("values"))), exact)
	c.compareIndices("indices", indices)
	c.compareIndices("argmax", largest)
}

// sameFloats reports whether two lists are equal, with NaN where the other has NaN.
func sameFloats(got, want []float32) bool {
	return sameWhereNotFinite(got, want) && slices.Equal(got, want)
}

func (c *opCase) compareIndices(name string, x tensor.Tensor) {
	got := make([]byte, x.Bytes())
	err := c.d.DownloadBytes(got, x)
	want, _ := c.ints(c.name + "." + name)
	same := err == nil && len(want) == x.Len()
	for i := range want {
		same = same && int64(int32(binary.NativeEndian.Uint32(got[4*i:]))) == want[i]
	}
	c.f.compare("topk "+name, c.key(c.name+"."+name), differ(same), exact)
}

// compareLinearActivation compares layers and what follows them: one layer and its activation, a Llama's gate and up,
// and a GPT-2's feed-forward layer.
func compareLinearActivation(c *opCase) {
	switch {
	case c.inputs["wg"] != nil:
		c.compareGated()
	case c.inputs["w1"] != nil:
		c.compareFeedForward()
	default:
		x := c.input("x")
		w := c.input("w")
		b := c.input("b")
		dy := c.input("dy")
		y, pre, dpre := c.output("y"), c.output("pre"), c.output("pre")
		c.d.LinearActivation(y, pre, x, w, b, c.activation())
		c.d.ActivationBackward(dpre, dy, pre, c.activation())
		c.compare("pre", pre, limitProduct)
		c.compareRounded("y", y)
		c.compareLayer(dpre, x, w, "dx", "dw", "db")
	}
}

func (c *opCase) activation() kernels.Activation {
	return map[string]kernels.Activation{
		"gelu_erf": kernels.GELUExact, "gelu_tanh": kernels.GELUTanh, "silu": kernels.SiLU,
	}[c.params.Activation]
}

// compareLayer compares the gradients of a linear layer, given the gradient of its result. A gradient that has no name,
// or that was not recorded, is left out.
func (c *opCase) compareLayer(dy, x, w tensor.Tensor, dx, dw, db string) {
	if c.outputs[dx] != nil {
		g := c.output(dx)
		c.d.LinearBackward(g, dy, w, false)
		c.compareRounded(dx, g)
	}
	if c.outputs[dw] != nil {
		g := c.sums(dw)
		c.d.LinearGradient(g, dy, x, 0, true)
		c.compareRounded(dw, g)
	}
	if c.outputs[db] != nil {
		g := c.sums(db)
		c.d.BiasGradient(g, dy, 0)
		c.compareRounded(db, g)
	}
}

// compareRounded compares a result that follows one that may be rounded: in BF16 with twice PyTorch's error, but at
// least the error of one rounding.
func (c *opCase) compareRounded(name string, x tensor.Tensor) {
	limit := float64(limitProduct)
	if c.typ == tensor.BF16 {
		limit = max(limitOpBF16, timesBF16*c.json.number(c.at+"torch_error."+name))
	}
	got, err := c.d.Floats(x)
	off := math.Inf(1)
	if err == nil {
		off = byNorm(got, c.floats(name))
	}
	c.f.compare("linear_act "+name, c.key(c.name+"."+name), off, limit)
}

// compareGated computes gates and ups by one product, as a model does.
func (c *opCase) compareGated() {
	d, x, dy := c.d, c.input("x"), c.input("dy")
	n := c.inputs["wg"]
	w := c.arena.New("gate and up", c.typ, 2*n[0], n[1])
	d.Copy(w.Slice(0, n[0]), c.input("wg"))
	d.Copy(w.Slice(n[0], 2*n[0]), c.input("wu"))
	rows := x.Rows()
	gateUp, dGateUp := c.arena.New("gateUp", c.typ, rows, 2*n[0]), c.arena.New("dGateUp", c.typ, rows, 2*n[0])
	y, whole := c.output("y"), c.output("y")
	d.Linear(gateUp, x, w, tensor.Tensor{})
	d.SwiGLU(y, gateUp)
	d.LinearSwiGLU(whole, tensor.Tensor{}, x, w, tensor.Tensor{})
	d.SwiGLUBackward(dGateUp, dy, gateUp)
	c.compareRounded("y", y)
	c.compareRounded("y", whole)
	dw := c.arena.New("dw", tensor.F32, w.Shape...)
	d.Zero(dw)
	d.LinearGradient(dw, dGateUp, x, 0, true)
	c.compareRounded("dwg", dw.Slice(0, n[0]))
	c.compareRounded("dwu", dw.Slice(n[0], 2*n[0]))
	c.compareLayer(dGateUp, x, w, "dx", "", "")
}

func (c *opCase) compareFeedForward() {
	d, x, dy := c.d, c.input("x"), c.input("dy")
	w1, w2 := c.input("w1"), c.input("w2")
	shape := []int{x.Rows(), c.inputs["w1"][0]}
	inner := func(name string) tensor.Tensor { return c.arena.New(name, c.typ, shape...) }
	act := inner("act")
	pre := inner("pre")
	dact := inner("dact")
	y := c.output("y")
	d.LinearActivation(act, pre, x, w1, c.input("b1"), c.activation())
	d.Linear(y, act, w2, c.input("b2"))
	d.LinearBackward(dact, dy, w2, false)
	d.ActivationBackward(dact, dact, pre, c.activation())
	c.compareRounded("y", y)
	c.compareLayer(dy, act, w2, "", "dw2", "db2")
	c.compareLayer(dact, x, w1, "dx", "dw1", "db1")
}
