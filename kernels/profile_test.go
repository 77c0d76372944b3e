package kernels

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// counting returns a device that acts as a GPU of 132 multiprocessors: it counts launches, and nothing runs.
func counting(f Fused) *Device {
	d := &Device{opts: Options{Fused: f, Sync: true}, counts: map[string]int{}}
	d.gpu = &gpu{GPU: &cuda.GPU{Properties: cuda.Properties{SMs: 132}}, room: new(Arena),
		launched: func(kernel, grid, []uint64) {}}
	d.scratchArenas = []*Arena{{d: d, base: align, size: math.MaxInt}}
	return d
}

// TestProfile_CountsByHand compares the bytes and FLOPs of kernels with formulas written by hand.
func TestProfile_CountsByHand(t *testing.T) {
	const rows, dim, heads, kvHeads, headDim = 300, 512, 6, 2, 64
	const all, bf, f32 = rows * dim, 2, 4
	const seen = 100*101/2 + 200*201/2 // pairs of a query and a key
	s := AttentionSpec{CuSeqlens: []int32{0, 100, rows}, Heads: heads, KVHeads: kvHeads, HeadDim: headDim}
	window, open := s, s
	window.Window, open.Bidirectional = 10, true
	cached := AttentionSpec{Heads: heads, KVHeads: kvHeads, HeadDim: headDim}
	for _, test := range []struct {
		kernel       string
		bytes, flops float64
		run          func(d *Device, x func(t tensor.DType, shape ...int) tensor.Tensor)
	}{
		{"rmsnorm", 2*all*bf + rows*f32 + dim*bf, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.RMSNorm(x(tensor.BF16, rows, dim), x(tensor.F32, rows), x(tensor.BF16, rows, dim), x(tensor.BF16, dim), 1)
		}},
		{"add_rmsnorm", 4*all*bf + rows*f32 + dim*bf, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			h := x(tensor.BF16, rows, dim) // read and written
			d.AddRMSNorm(x(tensor.BF16, rows, dim), x(tensor.F32, rows), h, h, x(tensor.BF16, rows, dim), x(tensor.BF16, dim), 1)
		}},
		{"rmsnorm_backward", 4*all*bf + rows*f32 + dim*bf, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.AddRMSNormBackward(x(tensor.BF16, rows, dim), tensor.Tensor{}, x(tensor.BF16, rows, dim),
				x(tensor.BF16, rows, dim), x(tensor.BF16, dim), x(tensor.F32, rows))
		}},
		{"add_layernorm", 4*all*bf + 2*rows*f32 + 2*dim*bf, 0,
			func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
				h, w := x(tensor.BF16, rows, dim), x(tensor.BF16, dim)
				d.AddLayerNorm(x(tensor.BF16, rows, dim), x(tensor.F32, rows), x(tensor.F32, rows), h, h,
					x(tensor.BF16, rows, dim), w, w, 1)
			}},
		{"swiglu", 3 * all * bf, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.SwiGLU(x(tensor.BF16, rows, dim), x(tensor.BF16, rows, 2*dim))
		}},
		{"swiglu_backward", 5 * all * f32, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.SwiGLUBackward(x(tensor.F32, rows, 2*dim), x(tensor.F32, rows, dim), x(tensor.F32, rows, 2*dim))
		}},
		{"rope", 2*rows*(heads+kvHeads)*headDim*bf + rows*4 + 2*rows*headDim/2*f32, 0,
			func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
				angles := x(tensor.F32, 4096, headDim/2)
				d.RoPE(x(tensor.BF16, rows, (heads+2*kvHeads)*headDim), x(tensor.I32, rows), angles, angles, heads, kvHeads)
			}},
		{"gather_rows", 2*all*bf + rows*4, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.Embedding(x(tensor.BF16, rows, dim), x(tensor.BF16, 128256, dim), x(tensor.I32, rows))
		}},
		{"embedding_backward", all*bf + rows*8, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.EmbeddingBackward(x(tensor.F32, 128256, dim), x(tensor.BF16, rows, dim), x(tensor.I32, rows), -1)
		}},
		{"cross_entropy", all*(4+2) + rows*(4+4), 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.CrossEntropy(x(tensor.F32, rows), x(tensor.BF16, rows, dim), x(tensor.F32, rows, dim), x(tensor.I32, rows), 1)
		}},
		// A weight of 2 bytes, its residual of 1, two codes of 1 and the scales of 256 of them are read and written; the
		// gradient is only read.
		{"adamw", 2*all*(2+1+1+1) + all*4 + 2*2*all/256*4 + 4*8, 0,
			func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
				scale := x(tensor.F32, all/256)
				d.AdamW(AdamWTensor{W: x(tensor.BF16, all), G: x(tensor.F32, all), State: AdamWState{M: x(tensor.U8, all),
					V: x(tensor.U8, all), MScale: scale, VScale: scale,
					Master: x(tensor.U8, all)}}, AdamWStep{Step: 1, Control: Control{x(tensor.F64, 4)}})
			}},
		{"adamw_squares", float64(all*2 + SquaresUnits(all)*8), 0, func(d *Device,
			x func(tensor.DType, ...int) tensor.Tensor) {
			m := x(tensor.F32, 2*all)
			list := d.NewAdamWList(x(tensor.U8, adamWRange), []AdamWTensor{{W: x(tensor.BF16, all), G: x(tensor.BF16, all),
				State: AdamWState{M: m.Part(0, all), V: m.Part(all, all)}, Sums: x(tensor.F64, SquaresUnits(all))}})
			d.SquaresAll(list)
		}},
		{"matvec 1x4096x512", 4096*dim*bf + dim*bf + 4096*f32, 0,
			func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
				d.Linear(x(tensor.F32, 1, 4096), x(tensor.BF16, 1, dim), x(tensor.BF16, 4096, dim), tensor.Tensor{})
			}},
		{"attention_decode", 2*101*kvHeads*headDim*bf + (heads+2*kvHeads)*headDim*bf + heads*2*(headDim+2)*f32, 0,
			func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
				k := x(tensor.BF16, 4096, kvHeads*headDim)
				d.AttentionCached(x(tensor.BF16, 1, heads*headDim), x(tensor.BF16, 1, (heads+2*kvHeads)*headDim), k, k, 100, cached)
			}},
		{"attention_next", math.NaN(), 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			k, angles := x(tensor.BF16, 4096, kvHeads*headDim), x(tensor.F32, 4096, headDim/2)
			d.AttentionNext(x(tensor.BF16, 1, heads*headDim), x(tensor.BF16, 1, (heads+2*kvHeads)*headDim), k, k,
				x(tensor.I32, 1), angles, angles,
				x(tensor.F32, cached.NextParts(128)...), x(tensor.I32, heads), 128, cached)
		}},
		{"gemm 300x4096x512", 0, 2 * rows * 4096 * dim, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.Linear(x(tensor.BF16, rows, 4096), x(tensor.BF16, rows, dim), x(tensor.BF16, 4096, dim), tensor.Tensor{})
		}},
		{"product 4096x512x300", 0, 2 * rows * 4096 * dim, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			d.LinearGradient(x(tensor.F32, 4096, dim), x(tensor.F32, rows, 4096), x(tensor.F32, rows, dim), 0, false)
		}},
		// The product's bytes and FLOPs do not count as the addition's.
		{"add", 3 * all * bf, 0, func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
			y := x(tensor.BF16, rows, dim)
			d.Linear(y, x(tensor.BF16, rows, 4096), x(tensor.BF16, dim, 4096), tensor.Tensor{})
			d.Add(y, y, x(tensor.BF16, rows, dim))
		}},
		{"flash", 0, 2 * 2 * headDim * heads * seen, attention(s, false)},
		{"flash", 0, 2 * 2 * headDim * heads * (2*10*11/2 + 10*(90+190)), attention(window, false)},
		{"flash", 0, 2 * 2 * headDim * heads * (100*100 + 200*200), attention(open, false)},
		{"flash_dq", 0, 3 * 2 * headDim * heads * seen, attention(s, true)},
		{"flash_dkv", 0, 4 * 2 * headDim * heads * seen, attention(s, true)},
		{"flash", 0, 2 * 2 * headDim * heads * (1001 + 1002 + 1003),
			func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
				k := x(tensor.BF16, 4096, kvHeads*headDim)
				d.AttentionCached(x(tensor.BF16, 3, heads*headDim), x(tensor.BF16, 3, (heads+2*kvHeads)*headDim), k, k, 1000,
					cached)
			}},
	} {
		d, found := counting(All()), false
		SizeOf(func(a *Arena) {
			test.run(d, func(t tensor.DType, shape ...int) tensor.Tensor { return a.New("x", t, shape...) })
		})
		for _, got := range d.Profile() {
			if got.Kernel != test.kernel {
				continue
			}
			found = true
			if got.FLOPs != test.flops || got.Bytes != test.bytes && !(math.IsNaN(test.bytes) && math.IsNaN(got.Bytes)) ||
				got.Count != 1 {
				t.Errorf("%s: %+v, not %v bytes and %v FLOPs", test.kernel, got, test.bytes, test.flops)
			}
		}
		if !found {
			t.Errorf("%s was not launched", test.kernel)
		}
	}
}

// attention returns a function that runs it in BF16, forward or backward.
func attention(s AttentionSpec, backward bool) func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
	return func(d *Device, x func(tensor.DType, ...int) tensor.Tensor) {
		rows := int(s.CuSeqlens[len(s.CuSeqlens)-1])
		s.Offsets = x(tensor.I32, len(s.CuSeqlens))
		y, lse, qkv := x(tensor.BF16, rows, s.Heads*s.HeadDim), x(tensor.F32, s.Heads, rows), x(tensor.BF16, rows, s.Width())
		if backward {
			d.AttentionBackward(x(tensor.BF16, rows, s.Width()), y, y, lse, qkv, s)
			return
		}
		d.Attention(y, lse, qkv, s)
	}
}

// TestProfile_CountsAllKernels checks that every kernel has bytes or FLOPs.
func TestProfile_CountsAllKernels(t *testing.T) {
	for _, f := range []func(*testing.T, bool) func(d *Device) error{Timed, Checked} {
		launches(t, cuda.Properties{Major: 9}, Options{Sync: true}, func(d *Device) error {
			err := f(t, true)(d)
			list := d.Profile()
			if len(list) < 20 {
				t.Errorf("%d kernels", len(list))
			}
			for _, k := range list {
				if k.Bytes == 0 && k.FLOPs == 0 {
					t.Errorf("%s counts nothing", k.Kernel)
				}
			}
			return err
		})
	}
}

// TestPrintProfile checks that a speed is printed if bytes or FLOPs are known.
func TestPrintProfile(t *testing.T) {
	var out strings.Builder
	list := []Timing{
		{Kernel: "gemm 1x2x3", Count: 4, Time: 6 * time.Millisecond, FLOPs: 3e12},
		{Kernel: "add", Count: 2, Time: 3 * time.Millisecond, Bytes: 9e9},
		{Kernel: "attention_next", Count: 2, Time: time.Millisecond, Bytes: math.NaN()}, {Kernel: "none"},
	}
	expect.OK(t, PrintProfile(&out, list, 2))
	want := `          kernel  times a step  ms a step  share        speed
      gemm 1x2x3             2      3.000  60.0%  500 TFLOP/s
             add             1      1.500  30.0%    3000 GB/s
  attention_next             1      0.500  10.0%
            none             0      0.000   0.0%
        together                    5.000
`
	var got string
	for line := range strings.Lines(out.String()) {
		got += fmt.Sprintln(strings.TrimRight(line, " \n"))
	}
	if got != want {
		t.Errorf("%s", got)
	}
}
