package opcheck

import (
	"fmt"
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// The models and programs whose sizes are timed.
const (
	llama1B    = "Llama-3.2-1B"
	llama7B    = "Llama-2-7B"
	serving    = "serving"
	fromText   = "from scratch"
	characters = "characters"
	experts    = "mixture of experts"
)

// A timedCase is a case in both of its directions, unless it has only one: of its size, and with few rows for the
// formula. flops are the operations per element of what it computes.
type timedCase struct {
	source   string
	c, few   *Case
	elements int
	flops    [2]float64
}

// Timings returns what is timed. The sizes come from fine-tuning Llama-3.2-1B with 4 × 512 tokens; from attention and
// feed-forward of a Llama-2-7B at 512 to 4,096 tokens, in F32 and without a mask; from serving with 16 bits; from a
// small Llama trained from scratch; and from a character-level GPT.
func Timings() (all []*Timing) {
	const bf16, f32 = tensor.BF16, tensor.F32
	norm, exp := [2]float64{4, 8}, [2]float64{5, 4} // per element, forward and backward
	n := func(rows, dim int) int { return rows * dim }
	list := []timedCase{
		{llama1B, embeddingCase(bf16, 2048, 4096, 2048, 4096), embeddingCase(bf16, 2, 4096, 2048, 4096), n(2048, 2048),
			[2]float64{0, 1}},
		{llama1B, addCase(bf16, n(2048, 2048)), addCase(bf16, 4096), n(2048, 2048), [2]float64{1, 0}},
		{llama1B, rmsNormCase(bf16, 2048, 2048), rmsNormCase(bf16, 2, 2048), n(2048, 2048), norm},
		{llama1B, addRMSNormCase(bf16, 2048, 2048), addRMSNormCase(bf16, 2, 2048), n(2048, 2048), [2]float64{5, 9}},
		{llama1B, qkNormCase(bf16, 2048, 32, 8, 64), qkNormCase(bf16, 2, 32, 8, 64), n(2048, 2560), norm},
		{llama1B, ropeCase(bf16, 2048, 32, 8, 64), ropeCase(bf16, 2, 32, 8, 64), n(2048, 2560), [2]float64{3, 3}},
		{llama1B, swiGLUCase(bf16, 2048, 8192), swiGLUCase(bf16, 2, 8192), n(2048, 8192), [2]float64{5, 10}},
		{llama1B, behindCase(bf16, 2048, 8192, 2048, cpu.NoActivation), behindCase(bf16, 1, 8192, 2048, cpu.NoActivation),
			n(2048, 8192), [2]float64{0, 2*2048 + 10}},
		{llama1B, crossEntropyCase(bf16, 512, 128256, nil, true), crossEntropyCase(bf16, 2, 128256, nil, true),
			n(512, 128256), [2]float64{7, 0}},
		{llama1B, softmaxCase(bf16, 4096, 2048, false), softmaxCase(bf16, 2, 2048, false), n(4096, 2048), exp},
		{llama1B, mulCase(bf16, 2048, 8192), mulCase(bf16, 2, 8192), n(2048, 8192), [2]float64{1, 2}},
		{llama1B, topKCase(bf16, 8, 128256, 50, true, false), topKCase(bf16, 2, 128256, 50, true, false), n(8, 128256),
			[2]float64{1, 0}},
		{llama1B, adamWCase(bf16, 4<<20, 10, false), adamWCase(bf16, 4096, 10, false), 4 << 20, [2]float64{14, 0}},
		{fromText, rmsNormCase(f32, 16*256, 512), rmsNormCase(f32, 2, 512), n(16*256, 512), norm},
		{fromText, rmsNormCase(f32, 16*256, 1024), rmsNormCase(f32, 2, 1024), n(16*256, 1024), norm},
		{fromText, rmsNormCase(f32, 16*256, 2048), rmsNormCase(f32, 2, 2048), n(16*256, 2048), norm},
		{characters, embeddingCase(f32, 1024, 95, 128, 95), embeddingCase(f32, 2, 95, 128, 95), n(1024, 128),
			[2]float64{0, 1}},
		{characters, layerNormCase(f32, 1024, 128, true), layerNormCase(f32, 2, 128, true), n(1024, 128), [2]float64{7, 11}},
		{characters, addLayerNormCase(f32, 1024, 128, true), addLayerNormCase(f32, 2, 128, true), n(1024, 128),
			[2]float64{8, 12}},
		{characters, geluCase(f32, 1024, 512, true), geluCase(f32, 2, 512, true), n(1024, 512), [2]float64{9, 15}},
		{characters, geluCase(f32, 1024, 512, false), geluCase(f32, 2, 512, false), n(1024, 512), [2]float64{5, 9}},
		{characters, behindCase(bf16, 1024, 512, 128, kernels.GELUTanh), behindCase(bf16, 2, 512, 128, kernels.GELUTanh),
			n(1024, 512), [2]float64{0, 2*128 + 15}},
		{characters, softmaxCase(f32, 16*4*64, 64, false), softmaxCase(f32, 2, 64, false), n(16*4*64, 64), exp},
		{characters, mulCase(f32, 1024, 128), mulCase(f32, 2, 128), n(1024, 128), [2]float64{1, 2}},
		{characters, topKCase(f32, 1024, 8, 2, true, false), topKCase(f32, 2, 8, 2, true, false), n(1024, 8),
			[2]float64{1, 0}},
	}
	for _, c := range list {
		all = append(all, c.timings()...)
	}
	scores := batch{"64 × 4 heads of 32, 64 tokens: scores", [2]int{16, 4}, [2]int{16, 4}, 64, 32, 64, false, true, 1,
		false}
	one := scores
	one.name, one.a, one.b = "one", [2]int{1, 1}, [2]int{1, 1}
	all = append(all, timedCase{characters, scores.Case(f32), one.Case(f32), 64 * 64 * 64,
		[2]float64{64, 128}}.timings()...)
	all = append(all, timedExperts()...)
	all = append(all, timedExpertsGated(bf16, timedRows[:], 2048, 4096), timedAdamW(4<<20))
	for _, s := range []kernels.AttentionSpec{
		{CuSeqlens: sequences(4, 512), Heads: 32, KVHeads: 8, HeadDim: 64},
		{CuSeqlens: sequences(8, 2048), Heads: 32, KVHeads: 8, HeadDim: 64},
		{CuSeqlens: sequences(8, 2048), Heads: 32, KVHeads: 8, HeadDim: 128},
	} {
		all = append(all, timedAttention(llama1B, bf16, s)...)
	}
	for _, tokens := range []int{512, 1024, 2048, 4096} {
		all = append(all, timedAttention(llama7B, f32, kernels.AttentionSpec{CuSeqlens: sequences(1, tokens), Heads: 32,
			KVHeads: 32, HeadDim: 128, Bidirectional: true})...)
		all = append(all, timedGELU(tokens), timedGated(llama7B, f32, tokens, 4096, 11008, true))
	}
	for _, s := range [][2]int{{16, 512}, {32, 1024}} {
		all = append(all, timedAttention(serving, bf16, kernels.AttentionSpec{CuSeqlens: sequences(s[0], s[1]), Heads: 32,
			KVHeads: 32, HeadDim: 64, Bidirectional: true})[0])
	}
	all = append(all,
		timedLinear(llama1B, 1, 2048, 128256), timedLinear(llama1B, 2048, 2048, 16384), timedLinear(serving, 128, 4096,
			11008), timedLinear(llama1B, 16384, 2048, 2048),
		timedPair(16384, 2048, 2048, 64),
		timedActivation(128, 4096, 16384, kernels.GELUTanh), timedActivation(128, 4096, 11008, kernels.SiLU),
		timedGated(serving, bf16, 128, 4096, 11008, false), timedGated(llama1B, bf16, 2048, 2048, 8192, false))
	return append(append(all, timedWeights()...), timedServing()...)
}

// timedWeights returns what is timed of quantized weights.
func timedWeights() []*Timing {
	const bf16 = tensor.BF16
	all := []*Timing{
		timedQuantized(serving, tensor.INT8, bf16, 128, 4096, 11008), timedINT8(serving, bf16, 128, 4096, 11008),
		timedQuantized(serving, tensor.INT4, bf16, 128, 4096, 11008),
		timedQuantized(llama1B, tensor.INT8, bf16, 1, 2048, 128256),
		timedQuantized(llama1B, tensor.INT4, bf16, 1, 2048, 128256),
		timedQuantized(llama1B, tensor.INT8, bf16, 1, 2048, 16384),
		timedQuantized(llama1B, tensor.INT4, bf16, 1, 2048, 16384),
		timedQuantized(llama1B, tensor.INT8, bf16, 1, 8192, 2048),
		timedQuantized(llama1B, tensor.INT4, bf16, 1, 8192, 2048),
		timedQuantized(llama1B, tensor.NF4, bf16, 1, 2048, 16384), timedQuantized(llama1B, tensor.NF4, bf16, 1, 8192, 2048),
		timedQuantized(serving, tensor.Q4_K, bf16, 128, 4096, 11008),
		timedQuantized(llama1B, tensor.Q4_K, bf16, 2048, 2048, 16384),
	}
	for _, w := range []tensor.DType{tensor.Q4_K, tensor.Q6_K, tensor.Q8_0} {
		all = append(all, timedQuantized(llama1B, w, bf16, 1, 2048, 128256), timedQuantized(llama1B, w, bf16, 1, 2048, 16384),
			timedQuantized(llama1B, w, bf16, 1, 8192, 2048))
	}
	return all
}

// timings returns the directions of a case whose bytes it counts.
func (t timedCase) timings() (all []*Timing) {
	forms := func(run func(d *kernels.Device, x Tensors)) []Form {
		same := fmt.Sprint(t.c.Kernels[0]) == fmt.Sprint(t.c.Kernels[1]) && t.c.Op != "linear_activation"
		if same || len(t.c.Forms()) == 1 {
			return []Form{{Name: "only", run: run}}
		}
		return []Form{{Name: "standard", run: run}, {Name: "fused", Fused: true, run: run}}
	}
	for i, run := range []func(d *kernels.Device, x Tensors){t.c.Forward, t.c.Backward} {
		if bytes := []float64{t.c.ForwardBytes, t.c.BackwardBytes}[i]; run != nil && bytes > 0 {
			all = append(all, &Timing{Source: t.source, Op: t.c.Op, Pass: []string{"forward", "backward"}[i], Shape: t.c.Name,
				Type: t.c.Type, Bytes: bytes,
				FLOPs: t.flops[i] * float64(t.elements), Forms: forms(run), c: t.c, reference: firstRows(t.few, i == 1)})
		}
	}
	return all
}

// timedAdamW returns a step as train takes it by default: moments in 8 bits, and a master of 24. There is no formula
// for it here.
func timedAdamW(n int) *Timing {
	w, codes, scales := plain("w", tensor.BF16, n), []int{n}, []int{kernels.QuantBlocks(n)}
	c := &Case{Type: tensor.BF16, Name: label(n) + " split8, moments in 8 bits", In: []Operand{w, plain("g", w.Type, n)},
		Out: []Operand{w, plain("master", tensor.U8, n), {Name: "m", Type: tensor.U8, Shape: codes},
			{Name: "v", Type: tensor.U8, Shape: codes}, {Name: "m scale", Type: tensor.F32, Shape: scales},
			{Name: "v scale", Type: tensor.F32, Shape: scales}}}
	step := kernels.AdamWStep{LR: 1e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, GradScale: 1, Step: 10}
	run := func(d *kernels.Device, x Tensors) {
		d.AdamW(kernels.AdamWTensor{W: x["w"], G: x["g"], State: kernels.AdamWState{M: x["m"], V: x["v"],
			MScale: x["m scale"], VScale: x["v scale"], Master: x["master"]}}, step)
	}
	state := c.bytes("w", "master", "m", "v", "m scale", "v scale") // read and written
	return &Timing{Source: llama1B, Op: "adamw", Pass: "forward", Shape: c.Name, Type: c.Type, FLOPs: 14 * float64(n),
		Bytes: 2*state + c.bytes("g"), Forms: []Form{{Name: "only", run: run}}, c: c,
		reference: reference{inputs: map[string]int{"g": 1}, want: func(Values) map[string]sample { return nil }}}
}

// timedExperts returns both directions of a mixture of experts.
func timedExperts() []*Timing {
	c := expertsCase(tensor.BF16, 512, 1024, 1024, 8, 2, true, false)
	few := expertsCase(tensor.BF16, 2, 1024, 1024, 8, 2, true, false)
	want := few.Want
	few.Want = func(x Values) Values { return Values{"y": want(x)["y"]} } // the rest depends on the number of rows
	return timedCase{experts, c, few, 512 * 2 * 1024 * 1024, [2]float64{2, 4}}.timings()
}

// timedRows are the rows of the experts of 2,048 tokens that go through 2 of 8 each.
var timedRows = [8]int{489, 530, 471, 560, 502, 540, 455, 549}

// timedExpertsGated returns the feed-forward network of experts, with counts[i] rows for expert i.
func timedExpertsGated(t tensor.DType, counts []int, dim, inner int) *Timing {
	operands := func(counts []int) *Case {
		c := groupedCase(t, t, counts, dim, inner)
		pairs := c.In[0].Shape[0]
		w2 := plain("w2", t, len(counts)*dim, inner)
		for _, o := range []*Operand{&c.In[1], &w2} { // the sums stay near 1
			in := o.Shape[1]
			o.Fill = func(r *rand.Rand, _ int) float64 { return r.NormFloat64() / math.Sqrt(float64(in)) }
		}
		c.In, c.Out = append(c.In, w2), []Operand{plain("y", t, pairs, dim)}
		want := c.Want
		c.Want = func(x Values) Values {
			return Values{"y": linear(want(x)["act"], x["w2"], nil, pairs, inner, dim)} // of one expert
		}
		return c
	}
	c := operands(counts)
	pairs := c.In[0].Shape[0]
	c.Name = label(pairs, dim, inner) + fmt.Sprintf(" of %d experts", len(counts))
	gateUp, act := plain("gateUp", t, pairs, 2*inner), plain("act", t, pairs, inner)
	down := func(d *kernels.Device, x Tensors) { d.GroupedLinear(x["y"], x["act"], x["w2"], x["offsets"], pairs) }
	return one(experts, "ffn experts", c, operands([]int{1}), 6*float64(pairs)*float64(dim)*float64(inner),
		Form{Name: "standard", Between: []Operand{gateUp, act}, run: func(d *kernels.Device, x Tensors) {
			d.GroupedLinear(x["gateUp"], x["x"], x["w"], x["offsets"], pairs)
			d.SwiGLU(x["act"], x["gateUp"])
			down(d, x)
		}},
		Form{Name: "fused", Fused: true, Between: []Operand{gateUp, act}, run: func(d *kernels.Device, x Tensors) {
			d.GroupedSwiGLU(x["act"], x["gateUp"], x["x"], x["w"], x["offsets"], pairs, false)
			down(d, x)
		}})
}

// sequences returns the offsets of sequences of the same length.
func sequences(n, tokens int) (offsets []int32) {
	for i := range n + 1 {
		offsets = append(offsets, int32(i*tokens))
	}
	return offsets
}

// timedAttention returns both directions of attention. As in model.FLOPs, a pair of a query and a key takes two
// products forward and four backward.
func timedAttention(source string, t tensor.DType, m kernels.AttentionSpec) (all []*Timing) {
	c := AttentionCase(t, m, 1)
	tokens, n := int(m.CuSeqlens[1]), len(m.CuSeqlens)-1
	pairs, mask := float64(tokens)*float64(tokens), "no mask"
	if !m.Bidirectional {
		pairs, mask = float64(tokens)*float64(tokens+1)/2, "causal"
	}
	c.Name = fmt.Sprintf("%dx%d, %d/%d heads of %d, %s", n, tokens, m.Heads, m.KVHeads, m.HeadDim, mask)
	c.ForwardBytes, c.BackwardBytes = c.bytes("qkv", "y"), c.bytes("qkv", "qkv", "y", "y")
	all = timedCase{source, c, c, 1, [2]float64{}}.timings()
	for i, x := range all {
		x.FLOPs = []float64{4, 8}[i] * pairs * float64(n*m.Heads*m.HeadDim)
		x.reference = queries(m, tokens, i == 1)
	}
	return all
}

// queries returns the reference of attention for some queries of the first sequence: their outputs, or their gradients.
func queries(m kernels.AttentionSpec, tokens int, backward bool) reference {
	w, n, share := m.Width(), m.HeadDim, m.Heads/m.KVHeads
	out := m.Heads * n
	r := reference{inputs: map[string]int{"qkv": tokens * w}}
	name, width := "y", out
	if backward {
		r.inputs["dy"], name, width = tokens*out, "dqkv", w
	}
	r.want = func(x Values) map[string]sample {
		var s sample
		qkv, p := x["qkv"], make([]float64, tokens)
		for _, row := range []int{0, tokens / 3, tokens - 1} {
			last := tokens - 1
			if !m.Bidirectional {
				last = row
			}
			for h := range m.Heads {
				key := func(j int) []float64 { return qkv[j*w+(m.Heads+h/share)*n:][:n] }
				value := func(j int) []float64 { return qkv[j*w+(m.Heads+m.KVHeads+h/share)*n:][:n] }
				top, sum, scale := math.Inf(-1), 0.0, 1/math.Sqrt(float64(n))
				for j := range last + 1 {
					p[j] = dot(qkv[row*w+h*n:][:n], key(j)) * scale
					top = max(top, p[j])
				}
				for j := range last + 1 {
					p[j] = math.Exp(p[j] - top)
					sum += p[j]
				}
				y, dq := make([]float64, n), make([]float64, n)
				for j := range last + 1 {
					p[j] /= sum
					addTo(y, p[j], value(j))
				}
				if result := y; backward {
					dy := x["dy"][row*out+h*n:][:n]
					delta := dot(dy, y)
					for j := range last + 1 {
						addTo(dq, p[j]*(dot(dy, value(j))-delta)*scale, key(j))
					}
					s.values = append(s.values, dq...)
				} else {
					s.values = append(s.values, result...)
				}
				for e := range n {
					s.at = append(s.at, row*width+h*n+e)
				}
			}
		}
		return map[string]sample{name: s}
	}
	return r
}

// addTo adds times · x to y.
func addTo(y []float64, times float64, x []float64) {
	for i, v := range x {
		y[i] += times * v
	}
}

// one returns a timing of a forward pass with forms of its own.
func one(source, op string, c, few *Case, flops float64, forms ...Form) *Timing {
	return &Timing{Source: source, Op: op, Pass: "forward", Shape: c.Name, Type: c.Type, FLOPs: flops,
		Bytes: c.bytes("x", "w", "y", "x2", "w2"), Forms: forms, c: c, reference: firstRows(few, false)}
}

// few outputs of one row are enough for products: each is a sum over the whole row.
const fewOutputs = 256

func timedLinear(source string, rows, in, out int) *Timing {
	c, few := LinearCase(tensor.BF16, rows, in, out, false), LinearCase(tensor.BF16, 1, in, fewOutputs, false)
	return one(source, "linear", c, few, 2*float64(rows)*float64(in)*float64(out), Form{Name: "only", run: c.Forward})
}

// timedPair does what timedLinear does, with a pair of some rank.
func timedPair(rows, in, out, rank int) *Timing {
	of := func(rows, out int) *Case {
		return withPair(forwardOnly(LinearCase(tensor.BF16, rows, in, out, false)), rank)
	}
	c := of(rows, out)
	return one(llama1B, "linear", c, of(1, min(out, fewOutputs)), 2*float64(rows)*float64(in+rank)*float64(out),
		Form{Name: "only", run: c.Forward})
}

// timedQuantized returns a linear layer with weights as they are quantized, and in 16 or 32 bits.
func timedQuantized(source string, weights, t tensor.DType, rows, in, out int) *Timing {
	c := quantizedLinearCase(weights, t, t, rows, in, out, false, false)
	return dequantizedToo(source, weights.String(), c)
}

// timedINT8 returns a linear layer with INT8 weights and activations, and with both in 16 or 32 bits. Its error comes
// from quantizing the activations.
func timedINT8(source string, t tensor.DType, rows, in, out int) *Timing {
	return dequantizedToo(source, "INT8 × INT8", linearINT8Case(t, t, rows, in, out, false, false))
}

// dequantizedToo returns a timing of a layer with quantized weights next to the same layer with these in its own type.
func dequantizedToo(source, form string, c *Case) *Timing {
	const plainW = "w, dequantized"
	rows, in, out := c.In[0].Shape[0], c.In[0].Shape[1], c.In[1].Shape[0]
	few := quantizedLinearCase(c.In[1].Type, c.Type, c.Type, 1, in, min(out, fewOutputs), false, false)
	c.Name = label(rows, in, out)
	t := one(source, "linear "+form, c, few, 2*float64(rows)*float64(in)*float64(out),
		Form{Name: c.Type.String(), Between: []Operand{plain(plainW, c.Type, out, in)}, Unused: []string{"w"},
			run: func(d *kernels.Device, x Tensors) { d.Linear(x["y"], x["x"], x[plainW], tensor.Tensor{}) }},
		Form{Name: form, run: c.Forward})
	t.prepare = func(d *kernels.Device, x Tensors) { d.DequantizeWeights(x[plainW], x["w"]) }
	return t
}

// timedActivation returns a linear layer and its activation, in two steps and in one.
func timedActivation(rows, in, out int, act kernels.Activation) *Timing {
	const t = tensor.BF16
	c, few := linearActivationCase(t, rows, in, out, act, false), linearActivationCase(t, 1, in, fewOutputs, act, false)
	c.Name = label(rows, in, out)
	standard := func(d *kernels.Device, x Tensors) {
		d.Linear(x["pre"], x["x"], x["w"], x["bias"])
		if act == kernels.SiLU {
			d.SiLU(x["y"], x["pre"])
			return
		}
		d.GELU(x["y"], x["pre"], act == kernels.GELUTanh)
	}
	return one(serving, "linear + "+activations[act], c, few, 2*float64(rows)*float64(in)*float64(out),
		Form{Name: "standard", Between: []Operand{plain("pre", t, rows, out)}, run: standard},
		Form{Name: "fused", Fused: true, run: c.Forward})
}

// mlpOperands returns a case of a two-layer feed-forward network without its forward pass.
func mlpOperands(t tensor.DType, rows, dim, hidden, inner, outputs int) *Case {
	scaled := func(name string, in int, shape ...int) Operand { // the sums stay near 1
		o := plain(name, t, shape...)
		o.Fill = func(r *rand.Rand, _ int) float64 { return r.NormFloat64() / math.Sqrt(float64(in)) }
		return o
	}
	return &Case{Type: t, Name: label(rows, dim, inner), In: []Operand{plain("x", t, rows, dim),
		scaled("w", dim, hidden, dim), scaled("w2", inner, outputs, inner)}, Out: []Operand{plain("y", t, rows, outputs)}}
}

// timedGELU returns the feed-forward network of GPT, with biases, at the size of a Llama-2-7B: in three steps, and in
// two.
func timedGELU(rows int) *Timing {
	const t, dim, inner = tensor.F32, 4096, 11008
	operands := func(rows, outputs int) *Case {
		c := mlpOperands(t, rows, dim, inner, inner, outputs)
		c.In = append(c.In, plain("b", t, inner), plain("b2", t, outputs))
		c.Want = func(x Values) Values {
			a := activated(linear(x["x"], x["w"], x["b"], rows, dim, inner), kernels.GELUTanh)
			return Values{"y": linear(a, x["w2"], x["b2"], rows, inner, outputs)}
		}
		return c
	}
	pre, act := plain("pre", t, rows, inner), plain("act", t, rows, inner)
	return one(llama7B, "ffn gelu", operands(rows, dim), operands(1, min(dim, fewOutputs)), 4*float64(rows)*dim*inner,
		Form{Name: "standard", Between: []Operand{pre, act}, run: func(d *kernels.Device, x Tensors) {
			d.Linear(x["pre"], x["x"], x["w"], x["b"])
			d.GELU(x["act"], x["pre"], true)
			d.Linear(x["y"], x["act"], x["w2"], x["b2"])
		}},
		Form{Name: "fused", Fused: true, Between: []Operand{act}, run: func(d *kernels.Device, x Tensors) {
			d.LinearActivation(x["act"], tensor.Tensor{}, x["x"], x["w"], x["b"], kernels.GELUTanh)
			d.Linear(x["y"], x["act"], x["w2"], x["b2"])
		}})
}

// timedGated returns Llama's feed-forward network with three matrices, or only its first product and SwiGLU.
func timedGated(source string, t tensor.DType, rows, dim, inner int, whole bool) *Timing {
	operands := func(rows, outputs int) *Case {
		c := mlpOperands(t, rows, dim, 2*inner, inner, outputs)
		if !whole {
			c.In, c.Out[0].Shape[1] = c.In[:2], inner
		}
		c.Want = func(x Values) Values {
			y := gate(linear(x["x"], x["w"], nil, rows, dim, 2*inner), rows, inner)
			if whole {
				y = linear(y, x["w2"], nil, rows, inner, outputs)
			}
			return Values{"y": y}
		}
		return c
	}
	pair, act := plain("pair", t, rows, 2*inner), plain("act", t, rows, inner)
	form := func(fused bool) func(d *kernels.Device, x Tensors) {
		return func(d *kernels.Device, x Tensors) {
			y := x["act"]
			if !whole {
				y = x["y"]
			}
			if fused {
				d.LinearSwiGLU(y, tensor.Tensor{}, x["x"], x["w"], tensor.Tensor{})
			} else {
				d.Linear(x["pair"], x["x"], x["w"], tensor.Tensor{})
				d.SwiGLU(y, x["pair"])
			}
			if whole {
				d.Linear(x["y"], y, x["w2"], tensor.Tensor{})
			}
		}
	}
	op, flops, between := "linear + swiglu", 4*float64(rows)*float64(dim)*float64(inner), []Operand{}
	if whole {
		op, flops, between = "ffn swiglu", 1.5*flops, []Operand{act}
	}
	return one(source, op, operands(rows, dim), operands(1, min(dim, fewOutputs)), flops,
		Form{Name: "standard", Between: append([]Operand{pair}, between...), run: form(false)},
		Form{Name: "fused", Fused: true, Between: between, run: form(true)})
}
