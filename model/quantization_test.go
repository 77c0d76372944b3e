package model

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/quant"
	"restyle/tensor"
)

// int8Shape is a model whose tokens a GPU computes with a CUDA graph, in BF16.
var int8Shape = Config{Family: "llama", Vocab: 64, Dim: 64, Inner: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16,
	MaxPositions: 64, NormEps: 1e-5, RoPETheta: 10000, QKVBias: true, OutBias: true, MLPBias: true, Tied: true, PadID: -1}

// int8Logits returns the logits after a prompt and after each token that follows it, of a model with INT8 weights, and
// whether a graph computed them. It checks that scratch memory was planned.
func int8Logits(t *testing.T, dev *kernels.Device, dtype tensor.DType, activations bool, prompt int) (all [][]float32,
	graph bool) {
	t.Helper()
	ids := sequence(int8Shape, 3, 23).IDs
	dev.SetINT8Activations(activations)
	opts := Options{DType: dtype, Context: len(ids), Quantization: Quantization{Layers: tensor.INT8, Head: tensor.INT8}}
	planned := MemoryOf(dev, dev.Fused(), int8Shape, opts).Scratch
	m := open(t, dev, int8Shape, opts)
	cache := newCache(t, m, len(ids))
	all = append(all, extend(t, m, cache, ids[:prompt]...))
	for _, id := range ids[prompt:] {
		all = append(all, extend(t, m, cache, id))
	}
	if got := dev.ScratchPeak(); got > planned {
		t.Errorf("%v: operations needed %d bytes of scratch memory, planned %d", dtype, got, planned)
	}
	return all, cache.graph != nil
}

// testGPU opens the GPU that RESTYLE_TEST_DEVICE names, or the emulated one.
func testGPU(t *testing.T, o kernels.Options) *kernels.Device {
	t.Helper()
	name := os.Getenv("RESTYLE_TEST_DEVICE")
	if !strings.HasPrefix(name, "cuda") {
		return emulated(t, o)
	}
	dev, err := kernels.Open(name, o)
	cudatest.Opened(t, dev, err)
	return dev
}

// TestINT8Activations compares the logits of INT8 weights and activations on a GPU with the CPU's. In F32 and F16,
// both quantize all activations, and differ where rounding before moves a code. In BF16, the GPU quantizes only the
// activations of the prompt: the logits after it are as near, and the logits of answers as near as quantization
// allows, which is half of each limit. Without a row that is quantized, the logits have the bits of INT8 weights
// only.
func TestINT8Activations(t *testing.T) {
	const many, few = 20, 5 // tokens of a prompt, more and fewer than a GPU multiplies without quantizing them
	for _, c := range []struct {
		dtype          tensor.DType
		fused          kernels.Fused
		prompt, answer float64 // limits
	}{
		{tensor.F32, nil, 5e-3, 5e-3}, {tensor.BF16, nil, 3e-2, 0.1}, {tensor.BF16, kernels.All(), 3e-2, 0.1},
		{tensor.F16, kernels.All(), 3e-2, 3e-2},
	} {
		run := func(dev *kernels.Device, activations bool, prompt int) [][]float32 {
			all, graph := int8Logits(t, dev, c.dtype, activations, prompt)
			if want := !dev.IsCPU() && c.fused != nil && c.dtype == tensor.BF16; graph != want {
				t.Errorf("%v on %s: a graph is %t", c.dtype, dev.Name(), graph)
			}
			return all
		}
		gpu := func() *kernels.Device { return testGPU(t, kernels.Options{Fused: c.fused}) }
		cpu := device(t, kernels.Options{})
		got, want, plain := run(gpu(), true, many), run(cpu, true, many), run(cpu, false, many)
		for i, limit := range []float64{c.prompt, c.answer, c.answer, c.answer} {
			if off := distance(got[i], want[i]); off > limit {
				t.Errorf("%v, fused %t, token %d: the GPU's logits are %.2g off", c.dtype, c.fused != nil, i, off)
			}
		}
		if off := distance(got[0], plain[0]); off < c.prompt {
			t.Errorf("%v, fused %t: the prompt's logits are only %.2g from those with other activations", c.dtype,
				c.fused != nil, off)
		}
		if c.dtype != tensor.BF16 {
			continue
		}
		apart, none := run(gpu(), true, few), run(gpu(), false, few)
		if !slices.EqualFunc(apart, none, slices.Equal) {
			t.Errorf("fused %t: few rows are quantized", c.fused != nil)
		}
		for i := range got {
			if off := distance(got[i], apart[many-few+i]); off > c.answer {
				t.Errorf("fused %t, token %d: the logits of many rows are %.2g from those of few", c.fused != nil, i, off)
			}
		}
	}
}

// TestQuantizedGPT checks that a model with learned positions, whose feed-forward is a layer and an activation,
// computes with quantized weights what it does without, as near as they allow, in the scratch memory that was planned.
func TestQuantizedGPT(t *testing.T) {
	shape := Config{Family: "gpt2", Vocab: 64, Dim: 64, Inner: 256, Layers: 2, Heads: 4, KVHeads: 4, HeadDim: 16,
		MaxPositions: 64, LearnedPositions: true, LayerNorm: true, NormBias: true, GELU: GELUTanh, NormEps: 1e-5,
		QKVBias: true, OutBias: true, MLPBias: true, Tied: true, PadID: -1}
	ids := sequence(shape, 3, 23).IDs
	for _, fused := range []kernels.Fused{nil, kernels.All()} {
		for _, dev := range []*kernels.Device{
			device(t, kernels.Options{Fused: fused}), testGPU(t, kernels.Options{Fused: fused})} {
			logits := func(q Quantization) []float32 {
				opts := Options{DType: tensor.BF16, Context: len(ids), Quantization: q}
				planned := MemoryOf(dev, dev.Fused(), shape, opts).Scratch
				m := open(t, dev, shape, opts)
				cache := newCache(t, m, len(ids))
				all := extend(t, m, cache, ids[:20]...)
				for _, id := range ids[20:] {
					all = append(all, extend(t, m, cache, id)...)
				}
				if got := dev.ScratchPeak(); got > planned {
					t.Errorf("%s, %v: operations needed %d bytes of scratch memory, planned %d", dev.Name(), q, got, planned)
				}
				return all
			}
			want := logits(Quantization{})
			// Rounding the weights moves the logits by 0.02 in INT8, 0.32 in INT4, 0.22 with zero points and 0.29
			// in NF4, on all devices.
			for _, c := range []struct {
				layers tensor.DType
				limit  float64
			}{{tensor.INT8, 0.05}, {tensor.INT4, 0.4}, {tensor.INT4Z, 0.4}, {tensor.NF4, 0.4}} {
				if off := distance(logits(Quantization{Layers: c.layers, Head: tensor.INT8}), want); off > c.limit || off == 0 {
					t.Errorf("%s, fused %t, %v: the logits are %.2g off", dev.Name(), fused != nil, c.layers, off)
				}
			}
		}
	}
}

// TestNF4Answers gives a model the values of another one's NF4 weights, on the CPU in F32 and on a GPU in BF16, which
// computes tokens with a graph: both must give the same greedy answers, and logits that differ by the order of sums.
func TestNF4Answers(t *testing.T) {
	shape := int8Shape
	shape.Inner = 128 // whole blocks
	gpu := testGPU(t, kernels.Options{Fused: kernels.All()})
	for _, c := range []struct {
		dev   *kernels.Device
		dtype tensor.DType
		limit float64
	}{{device(t, kernels.Options{}), tensor.F32, 1e-5}, {gpu, tensor.BF16, 0.02}} {
		const prompt, answer = 12, 12
		opts := Options{DType: c.dtype, Context: prompt + answer, Quantization: Quantization{Layers: tensor.NF4}}
		coded := open(t, c.dev, shape, opts)
		opts.Quantization = Quantization{}
		plain := open(t, c.dev, shape, opts)
		giveValues(t, plain, coded)
		a, b, next := newCache(t, coded, prompt+answer), newCache(t, plain, prompt+answer), sequence(shape, 3, prompt).IDs
		for i := range answer {
			got, want := extend(t, coded, a, next...), extend(t, plain, b, next...)
			if off := distance(got, want); off > c.limit {
				t.Errorf("%s, token %d: the logits are %.2g off", c.dev.Name(), i, off)
			}
			next = []int32{int32(slices.Index(want, slices.Max(want)))}
			// A token that is almost as probable is none of another answer.
			if most := got[next[0]]; slices.Max(got)-most > float32(2*c.limit)*max(most, -most) {
				t.Errorf("%s, token %d is not the most probable one", c.dev.Name(), i)
			}
		}
		if graph := a.graph != nil; graph == c.dev.IsCPU() {
			t.Errorf("%s: a graph is %t", c.dev.Name(), graph)
		}
	}
}

// giveValues gives a model the values of another one's quantized weights.
func giveValues(t *testing.T, plain, coded *Model) {
	t.Helper()
	for i, p := range coded.Params() {
		if !p.W.DType.Quantized() {
			continue
		}
		values, raw := make([]float32, p.W.Len()), []byte(nil)
		err := coded.dev.Read(p.W, func(part []byte) error { raw = append(raw, part...); return nil })
		if err = errors.Join(err, quant.Dequantize(values, raw, p.W.DType, p.W.Dim(-1))); err != nil {
			t.Fatal(err)
		}
		plain.dev.Upload(plain.Params()[i].W, values)
	}
}
