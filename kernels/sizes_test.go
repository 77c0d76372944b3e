package kernels

import (
	"fmt"
	"math"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// TestScratchOf checks that ScratchOf returns exactly the bytes of scratch memory that an operation uses, at sizes for
// which that operation needs more than any other.
func TestScratchOf(t *testing.T) {
	const f32, bf16 = tensor.F32, tensor.BF16
	mask := AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 32}
	single := AttentionSpec{Heads: 1, KVHeads: 1, HeadDim: 2}
	norms := Sizes{Rows: 64, Longest: 1, Dim: 8192, Attention: single, Backward: true}
	layerNorms := norms
	layerNorms.LayerNorm = true
	long := Sizes{Rows: 600, Longest: 300, Dim: 8, Attention: mask}
	wide := Sizes{Rows: 40, Longest: 20, Dim: 8, Attention: AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 1024}}
	longBackward, wideBackward := long, wide
	longBackward.Backward, wideBackward.Backward = true, true
	for _, c := range []struct {
		fused bool
		s     Sizes
		run   func(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor)
	}{
		{false, norms, runNormBackward},
		{true, norms, runNormBackward},
		{false, layerNorms, runLayerNormBackward},
		{true, layerNorms, runLayerNormBackward},
		{false, Sizes{Rows: 30, Longest: 1, Dim: 16384, Attention: single, Backward: true}, runNormBackward},
		{false, Sizes{Rows: 64, Longest: 1, Dim: 8, Attention: AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 4096},
			QKNorm: true, Backward: true}, runQKNormBackward},
		{false, Sizes{Rows: 70, Longest: 1, Dim: 8, Inner: 8192, Attention: single}, runSwiGLU},
		{false, Sizes{Rows: 70, Longest: 1, Dim: 8, Inner: 8192, Attention: single, Backward: true}, runSwiGLU},
		{false, Sizes{Rows: 2100, Longest: 1, Dim: 2, Inner: 320, Attention: single, Backward: true}, runSwiGLU},
		{false, Sizes{Rows: 2100, Longest: 1, Dim: 2, GELU: 640, Attention: single, Backward: true}, runGELU},
		{false, Sizes{Rows: 10, Longest: 1, Logits: 4, Vocab: 131072, Attention: single}, runCrossEntropy},
		{false, long, runAttention},
		{false, longBackward, runAttention},
		// This length has several key blocks.
		{true, Sizes{Rows: 600, Longest: 600, Dim: 8, Attention: mask, Backward: true}, runAttention},
		{true, Sizes{Rows: 1200, Longest: 600, Dim: 8, Attention: mask, Backward: true}, runAttention},
		{true, wide, runAttention},
		{true, wideBackward, runAttention},
		{false, Sizes{Rows: 40, Longest: 40, Attention: wide.Attention, Context: 50}, runCached},
		{false, Sizes{Rows: 1, Longest: 1, Attention: AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: 128}, Context: 40000},
			runCached},
		{true, Sizes{Rows: 1, Longest: 1, Attention: AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: 128, Window: 30000},
			Context: 40000}, runCached},
	} {
		for _, dt := range []tensor.DType{f32, bf16} {
			for _, threads := range []int{1, 3} {
				c.s.Type = dt
				o := Options{Threads: threads}
				if c.fused {
					o.Fused = All()
				}
				d, err := Open("cpu", o)
				expect.OK(t, err)
				var left []*Arena
				c.run(d, c.s, func(of tensor.DType, shape ...int) tensor.Tensor {
					a, err := d.NewArena("operand", SizeOf(func(a *Arena) { a.New("x", of, shape...) }))
					expect.OK(t, err)
					left = append(left, a)
					return a.New("x", of, shape...)
				})
				name := fmt.Sprintf("fused %v, %d threads, %+v", c.fused, threads, c.s)
				whole := func(n int) int { return (n + align - 1) / align * align }
				if got, want := whole(d.ScratchPeak()), whole(d.ScratchOf(o.Fused, c.s)); got != want || got <= minScratch {
					t.Errorf("%s: %d bytes were taken, and %d said", name, got, want)
				}
				for _, a := range left {
					a.Close()
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	expect.OK(t, cpu.SetThreads(1))
}

// TestScratchOfGPU is TestScratchOf for what differs on a GPU. It needs no GPU, because nothing runs.
func TestScratchOfGPU(t *testing.T) {
	heads := AttentionSpec{Heads: 32, KVHeads: 8, HeadDim: 64}
	many := AttentionSpec{Heads: 96, KVHeads: 8, HeadDim: 64}
	window := many
	window.Window = 30000
	for _, c := range []struct {
		fused bool
		s     Sizes
		run   func(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor)
	}{
		{false, Sizes{Rows: 600, Longest: 300, Attention: heads}, runAttention},
		{false, Sizes{Rows: 600, Longest: 300, Dim: 8, Attention: heads, Backward: true}, runAttention},
		{true, Sizes{Rows: 10000, Longest: 5000, Dim: 8, Attention: heads, Backward: true}, runAttention},
		{false, Sizes{Rows: 1, Longest: 1, Attention: many, Context: 40000}, runCached},
		{true, Sizes{Rows: 1, Longest: 1, Attention: window, Context: 40000}, runCached},
		{false, Sizes{Rows: 3000, Longest: 1, Dim: 2048, Attention: AttentionSpec{Heads: 1, KVHeads: 1, HeadDim: 2},
			Backward: true}, runNormBackward},
		{false, Sizes{Rows: 3000, Longest: 1, Dim: 2048, Attention: AttentionSpec{Heads: 1, KVHeads: 1, HeadDim: 2},
			LayerNorm: true, Backward: true}, runLayerNormBackward},
		{true, Sizes{Rows: 100000, Longest: 1, Dim: 64, Attention: AttentionSpec{Heads: 1, KVHeads: 1, HeadDim: 2},
			Backward: true}, runEmbeddingBackward},
		{true, Sizes{Rows: 3000, Longest: 1, Dim: 8, Biased: 16384, Attention: AttentionSpec{Heads: 1, KVHeads: 1,
			HeadDim: 2}, Backward: true}, runBiasGradient},
		{true, Sizes{Rows: 3000, Longest: 1, Dim: 8, Inner: 4096, Attention: AttentionSpec{Heads: 1, KVHeads: 1, HeadDim: 2},
			Backward: true}, runSwiGLU},
		{false, Sizes{Rows: 90, Longest: 1, Logits: 90, Vocab: 128256, Attention: AttentionSpec{Heads: 1, KVHeads: 1,
			HeadDim: 2}}, runCrossEntropy},
	} {
		for _, c.s.Type = range []tensor.DType{tensor.F32, tensor.BF16} {
			d := idle(cuda.Properties{SMs: 132})
			if c.fused {
				d.opts.Fused = All()
			}
			SizeOf(func(a *Arena) {
				c.run(d, c.s, func(of tensor.DType, shape ...int) tensor.Tensor { return a.New("x", of, shape...) })
			})
			whole := func(n int) int { return (n + align - 1) / align * align }
			if got, want := whole(d.scratchPeak), whole(d.ScratchOf(d.opts.Fused, c.s)); got != want || got <= minScratch {
				t.Errorf("fused %v, %+v: %d bytes were taken, and %d said", c.fused, c.s, got, want)
			}
		}
	}
}

// TestScratchOfQuantized checks that ScratchOf counts what layers with quantized weights use on a GPU with
// product_wgmma_quantized.cu, and no dequantized weights if there are none. Nothing runs.
func TestScratchOfQuantized(t *testing.T) {
	for _, c := range []struct {
		t, w        tensor.DType
		rows, out   int
		activations bool
		none        bool // no scratch memory is used
	}{
		{tensor.BF16, tensor.INT8, 600, 8192, true, false}, {tensor.F32, tensor.INT8, 600, 8192, true, false},
		{tensor.BF16, tensor.INT4, 600, 8192, true, false}, {tensor.BF16, tensor.INT8, 600, 8192, false, false},
		{tensor.F32, tensor.INT8, 1, 8192, false, false}, {tensor.F16, tensor.INT4Z, 20, 8192, false, false},
		{tensor.BF16, tensor.INT8, 384, 8192, false, true}, {tensor.BF16, tensor.INT4, 8, 8192, false, true},
		{tensor.BF16, tensor.INT8, 385, 8192, false, false}, {tensor.BF16, tensor.INT4Z, 100, 8190, false, false},
		{tensor.BF16, tensor.INT8, 8, 8192, true, true}, {tensor.BF16, tensor.NF4, 100, 8192, true, false},
	} {
		const in = 8192
		widest := in
		if !c.activations {
			widest = 11000 // fewer rows fit in as many bytes, and fill them less
		}
		d := idle(cuda.Properties{SMs: 132, Major: 9})
		d.SetINT8Activations(c.activations)
		s := Sizes{Type: c.t, Rows: c.rows, Longest: 1, Logits: 1, Dim: in, Vocab: c.out, Quantized: widest,
			Codings: []tensor.DType{c.w}, Attention: AttentionSpec{Heads: 1, KVHeads: 1, HeadDim: 8}}
		SizeOf(func(a *Arena) {
			d.Linear(a.New("y", c.t, c.rows, c.out), a.New("x", c.t, c.rows, in), a.New("w", c.w, c.out, in), tensor.Tensor{})
		})
		whole := func(n int) int { return (n + align - 1) / align * align }
		got, want := whole(d.scratchPeak), whole(d.ScratchOf(nil, s))
		if c.none {
			want -= minScratch
		}
		if got != want {
			t.Errorf("%+v: %d bytes were taken, and %d said", c, got, want)
		}
	}
}

// idle returns a GPU on which nothing runs, and whose scratch memory has no end.
func idle(p cuda.Properties) *Device {
	d := &Device{counts: map[string]int{}, gpu: &gpu{GPU: &cuda.GPU{Properties: p}, room: new(Arena)}}
	d.gpu.launched = func(kernel, grid, []uint64) {}
	d.scratchArenas = []*Arena{{d: d, base: align, size: math.MaxInt}}
	return d
}

// TestMaxNormPartials checks the bound, because fewer rows may have more partials than more rows.
func TestMaxNormPartials(t *testing.T) {
	d := new(Device)
	for _, width := range []int{8, 100, 3000, 100000} {
		largest := 0
		for rows := range 2000 {
			n := cpu.NormPartials(rows, width)
			if largest = max(largest, n); d.maxNormPartials(rows, width) < largest || n > cpu.MaxNormPartials {
				t.Fatalf("%d rows of %d are %d blocks, fewer rows %d, and %d are said to be the most", rows, width, n, largest,
					d.maxNormPartials(rows, width))
			}
		}
	}
}

func runNormBackward(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	full := func() tensor.Tensor { return x(s.Type, s.Rows, s.Dim) }
	d.AddRMSNormBackward(full(), x(tensor.F32, s.Dim), full(), full(), x(s.Type, s.Dim), x(tensor.F32, s.Rows))
}

func runLayerNormBackward(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	full := func() tensor.Tensor { return x(s.Type, s.Rows, s.Dim) }
	d.AddLayerNormBackward(full(), x(tensor.F32, s.Dim), x(tensor.F32, s.Dim), full(), full(), x(s.Type, s.Dim),
		x(tensor.F32, s.Rows), x(tensor.F32, s.Rows))
}

func runEmbeddingBackward(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	d.EmbeddingBackward(x(tensor.F32, 9, s.Dim), x(s.Type, s.Rows, s.Dim), x(tensor.I32, s.Rows), -1)
}

func runBiasGradient(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	d.BiasGradient(x(tensor.F32, s.Biased), x(s.Type, s.Rows, s.Biased), 0)
}

func runQKNormBackward(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	m := s.Attention
	full := func() tensor.Tensor { return x(s.Type, s.Rows, m.Width()) }
	w := func(t tensor.DType) tensor.Tensor { return x(t, m.HeadDim) }
	d.QKNormBackward(full(), w(tensor.F32), w(tensor.F32), full(), full(), w(s.Type), w(s.Type),
		x(tensor.F32, s.Rows, m.Heads+m.KVHeads), m.Heads, m.KVHeads)
}

func runSwiGLU(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	y, both := x(s.Type, s.Rows, s.Inner), x(s.Type, s.Rows, 2*s.Inner)
	if d.SwiGLU(y, both); s.Backward {
		d.SwiGLULinearBackward(x(s.Type, s.Rows, 2*s.Inner), x(s.Type, s.Rows, s.Dim), x(s.Type, s.Dim, s.Inner), both)
	}
}

func runGELU(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	full := func() tensor.Tensor { return x(s.Type, s.Rows, s.GELU) }
	d.ActivationLinearBackward(full(), x(s.Type, s.Rows, s.Dim), x(s.Type, s.Dim, s.GELU), full(), GELUTanh)
}

func runCrossEntropy(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	logits := x(s.Type, s.Logits, s.Vocab)
	d.CrossEntropy(x(tensor.F32, s.Logits), logits, logits, x(tensor.I32, s.Logits), 1)
}

func runAttention(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	m := s.Attention
	for n := 0; n <= s.Rows; n += s.Longest {
		m.CuSeqlens = append(m.CuSeqlens, int32(n))
	}
	m.Offsets = x(tensor.I32, len(m.CuSeqlens))
	y, lse, qkv := x(s.Type, s.Rows, m.Heads*m.HeadDim), x(tensor.F32, m.Heads, s.Rows), x(s.Type, s.Rows, m.Width())
	if d.Attention(y, lse, qkv, m); s.Backward {
		d.AttentionBackward(x(s.Type, s.Rows, m.Width()), y, y, lse, qkv, m)
	}
}

func runCached(d *Device, s Sizes, x func(t tensor.DType, shape ...int) tensor.Tensor) {
	m := s.Attention
	cache := func() tensor.Tensor { return x(s.Type, s.Context, m.KVHeads*m.HeadDim) }
	d.AttentionCached(x(s.Type, s.Rows, m.Heads*m.HeadDim), x(s.Type, s.Rows, m.Width()), cache(), cache(),
		s.Context-s.Rows, m)
}

// TestScratchOfThreads checks that every thread has its own scratch memory for attention: three threads have three
// times as much as one.
func TestScratchOfThreads(t *testing.T) {
	defer func() {
		if err := cpu.SetThreads(1); err != nil {
			t.Error(err)
		}
	}()
	// There is one key block, so no sums of several.
	m := AttentionSpec{CuSeqlens: []int32{0, 200}, Heads: 4, KVHeads: 2, HeadDim: 32}
	a := m.sizes()
	one := a
	one.CuSeqlens, one.Ahead = []int32{0, 1}, 999 // eight key blocks
	forward, backward, decode := map[int]int{}, map[int]int{}, map[int]int{}
	for _, n := range []int{1, 2, 3} {
		expect.OK(t, cpu.SetThreads(n))
		forward[n], backward[n], decode[n] = a.ForwardScratch(), a.BackwardScratch(), one.DecodeScratch()
	}
	if forward[3] != 3*forward[1] || backward[3] != 3*backward[1] {
		t.Errorf("forward %v, backward %v", forward, backward)
	}
	// Each thread has the scores of a key block of its own. The sums of the key blocks exist once, whichever thread
	// computes them.
	const scores, sums = (4*128 + 16) * 4, 8 * (4*32*4 + 64 + 64)
	for n, got := range decode {
		if want := sums + n*scores; got != want {
			t.Errorf("%d threads decode in %d bytes, not %d", n, got, want)
		}
	}
}
