package kernels_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/quant"
	"restyle/tensor"
)

// int8Case has operands of LinearINT8.
type int8Case struct {
	x, w, y      tensor.Tensor
	values, list []float32 // of x and w
	codes        []byte    // w's rows
}

// int8Types are types of x. On a GPU, they lead to different kernels.
var int8Types = []tensor.DType{tensor.F32, tensor.BF16}

// newINT8 fills operands with normal numbers, the last row of x, which is of a type, with zeros, and the row before it,
// if there is one, with numbers so small that their scale is subnormal, or 0 in BF16.
func newINT8(t *testing.T, d *kernels.Device, of tensor.DType, rows, in, out int) *int8Case {
	var c int8Case
	cut := func(a *kernels.Arena) {
		c.x, c.w = a.New("x", of, rows, in), a.New("w", tensor.INT8, out, in)
		c.y = a.New("y", tensor.F32, rows, out)
	}
	cut(arena(t, d, kernels.SizeOf(cut)))
	rng := rand.New(rand.NewPCG(1, uint64(rows*in*out)))
	c.values, c.list, c.codes = make([]float32, rows*in), make([]float32, out*in), make([]byte, c.w.Bytes())
	for i := range c.values {
		c.values[i] = float32(rng.NormFloat64())
		switch i / in {
		case rows - 1:
			c.values[i] = 0
		case rows - 2:
			c.values[i] *= 0x1p-144
		}
	}
	for i := range c.list {
		c.list[i] = float32(rng.NormFloat64())
	}
	expect.OK(t, quant.INT8.Quantize(c.codes, c.list, in))
	d.Upload(c.x, c.values)
	d.UploadBytes(c.w, c.codes)
	rounded, err := d.Floats(c.x)
	expect.OK(t, err)
	c.values = rounded
	return &c
}

// run multiplies and returns the result.
func (c *int8Case) run(t *testing.T, d *kernels.Device) []float32 {
	d.LinearINT8(c.y, c.x, c.w, tensor.Tensor{}, false)
	y, err := d.Floats(c.y)
	expect.OK(t, err)
	return y
}

// quantizedRow returns the scale and the codes of a row of x.
func quantizedRow(t *testing.T, x []float32) (scale float32, codes []int32) {
	scale, zero, err := quant.INT8.Scale(x)
	expect.OK(t, err)
	for _, v := range x {
		codes = append(codes, int32(quant.INT8.Code(v, scale, zero)))
	}
	return scale, codes
}

// TestLinearINT8 compares results, bit for bit, with int32 sums and three float32 operations, on every device and with
// every instruction set. The rounding of x, and nothing else, is within the bound that LinearINT8 states.
func TestLinearINT8(t *testing.T) { compareINT8(t) }

// TestLinearINT8WithoutByteDots is TestLinearINT8 as on a machine with AVX-512 that multiplies no bytes.
func TestLinearINT8WithoutByteDots(t *testing.T) {
	cpu.UseByteDots(false)
	defer cpu.UseByteDots(true)
	compareINT8(t)
	TestLinearINT8LargestSums(t)
}

func compareINT8(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for i, size := range [][3]int{{1, 1, 1}, {2, 63, 5}, {4, 320, 33}, {9, 65, 64}, {35, 144, 31}, {66, 100, 70},
			{130, 300, 136}, {3, 3600, 8}} {
			rows, in, out := size[0], size[1], size[2]
			c := newINT8(t, d, int8Types[i/6], rows, in, out)
			got := c.run(t, d)
			for r := range rows {
				x := c.values[r*in:][:in]
				scale, codes := quantizedRow(t, x)
				for o := range out {
					w := quant.Row{DType: tensor.INT8, In: in, Bytes: c.codes[o*tensor.INT8.RowBytes(in):][:tensor.INT8.RowBytes(in)]}
					var sum int32
					exact, bound := 0.0, 0.0
					for i, code := range codes {
						sum += code * int32(w.Code(i))
						value := float64(w.Code(i)) * float64(w.Scale(0))
						exact += float64(x[i]) * value
						bound += math.Abs(value)
					}
					want := float32(float32(sum) * float32(scale*w.Scale(0)))
					y := got[r*out+o]
					if y != want {
						t.Fatalf("%v: y[%d, %d] is %v: must be %v", size, r, o, y, want)
					}
					// float32 rounds three times by 2⁻²⁴; a subnormal scale is rounded by up to half of the smallest float32,
					// which 127 codes multiply
					limit := bound*(float64(scale)*0.5001+64*0x1p-149) + math.Abs(exact)*0x1p-21 + 0x1p-149
					if off := math.Abs(float64(y) - exact); off > limit {
						t.Fatalf("%v: y[%d, %d] is %v away from the exact product: must be at most %v", size, r, o, off, limit)
					}
				}
			}
		}
	})
}

// TestINT8Activations checks that a device that is set to quantize activations does, bit for bit, what LinearINT8 does,
// except that a GPU does not quantize up to eight rows of BF16.
func TestINT8Activations(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, of := range int8Types {
			for _, rows := range []int{3, 8, 9, 40} { // the last two may be zero
				c := newINT8(t, d, of, rows, 72, 24)
				linear := func(on bool) []float32 {
					d.SetINT8Activations(on)
					defer d.SetINT8Activations(false)
					d.Linear(c.y, c.x, c.w, tensor.Tensor{})
					y, err := d.Floats(c.y)
					expect.OK(t, err)
					return y
				}
				want, got, plain := c.run(t, d), linear(true), linear(false)
				if !d.IsCPU() && of == tensor.BF16 && rows <= 8 {
					want = plain
				} else if slices.Equal(want, plain) {
					t.Errorf("%v, %d rows: quantizing activations changes nothing", of, rows)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%v, %d rows: other bits", of, rows)
				}
			}
		}
	})
}

// TestLinearINT8Panels multiplies enough long rows to make two panels on a CPU. Some of them are also in panels of
// their own.
func TestLinearINT8Panels(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		const rows, in, out = 167, 8192, 3
		c := newINT8(t, d, tensor.F32, rows, in, out)
		all := c.run(t, d)
		for _, r := range []int{0, 159, 160, 164} {
			one := *c
			one.x, one.y = c.x.Slice(r, r+1), c.y.Slice(r, r+1)
			for o, want := range one.run(t, d) {
				if got := all[r*out+o]; got != want {
					t.Fatalf("y[%d, %d] is %v, and %v for one row", r, o, got, want)
				}
			}
		}
	})
}

// TestLinearINT8LargestSums has the largest codes in enough columns that only an int32, and no smaller sum, holds the
// products.
func TestLinearINT8LargestSums(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		const in, out = 4096, 8
		for i, rows := range []int{1, 40} {
			c := newINT8(t, d, int8Types[i], rows, in, out)
			for i := range c.values {
				c.values[i] = 127
			}
			for i := range out * in {
				c.list[i] = 127 * float32(1-i/in%2*2)
			}
			expect.OK(t, quant.INT8.Quantize(c.codes, c.list, in))
			d.Upload(c.x, c.values)
			d.UploadBytes(c.w, c.codes)
			for i, y := range c.run(t, d) {
				if want := float32(127 * 127 * in * (1 - i%2*2)); y != want {
					t.Fatalf("%d rows: sum %d is %v: must be %v", rows, i, y, want)
				}
			}
		}
	})
}

// TestLinearINT8Special has a NaN or an infinity in one row. It becomes NaN, and the others stay as they are.
func TestLinearINT8Special(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for i, rows := range []int{3, 20} {
			const in, out = 70, 8
			c := newINT8(t, d, int8Types[i], rows, in, out)
			want := c.run(t, d)
			for _, special := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				c.values[in+69] = float32(special)
				d.Upload(c.x, c.values)
				for i, y := range c.run(t, d) {
					if r := i / out; r == 1 && y == y || r != 1 && y != want[i] {
						t.Fatalf("%d rows, %v in row 1: y[%d, %d] is %v", rows, special, r, i%out, y)
					}
				}
			}
		}
	})
}

// TestLinearINT8_PanelsOfRows checks that the CPU computes more rows than stay in its cache as it computes each by
// itself.
func TestLinearINT8_PanelsOfRows(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		if !d.IsCPU() {
			t.Skip("a GPU has no panels")
		}
		const rows, in, out = 70, 1<<15 + 3, 2 // panels of 64 rows
		c := newINT8(t, d, tensor.BF16, rows, in, out)
		d.LinearINT8(c.y, c.x, c.w, tensor.Tensor{}, false)
		whole := slices.Clone(c.y.F32())
		for r := range rows {
			d.LinearINT8(c.y.Slice(r, r+1), c.x.Slice(r, r+1), c.w, tensor.Tensor{}, false)
		}
		if alone := c.y.F32(); !slices.Equal(whole, alone) {
			t.Errorf("rows at once %v, one by one %v", whole, alone)
		}
	})
}
