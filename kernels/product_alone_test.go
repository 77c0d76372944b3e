package kernels

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// gpuOrEmulated opens the GPU that RESTYLE_TEST_DEVICE names, or else the emulated one.
func gpuOrEmulated(t *testing.T, o Options) *Device {
	t.Helper()
	name := cmp.Or(os.Getenv("RESTYLE_TEST_DEVICE"), "emulated")
	if name == "emulated" {
		return Emulated(t, o)
	}
	d, err := Open(name, o)
	cudatest.Opened(t, d, err)
	if d.gpu == nil {
		t.Skip("not a GPU")
	}
	return d
}

// An aloneTest is a layer whose rows are computed alone and with others.
type aloneTest struct {
	name    string
	w, x, y tensor.DType
	in, out int // of w
	columns int // of y
	rows    int // 0: 130
	run     aloneRun
}

// An aloneRun computes y from x.
type aloneRun func(d *Device, y, x tensor.Tensor, of layerOperands)

// layerOperands are the operands of a layer except its rows. pair are a Pair's weights, whose input is the layer's.
type layerOperands struct{ w, norm, bias, pair tensor.Tensor }

func aloneTests() (all []aloneTest) {
	const bf16, f16, f32 = tensor.BF16, tensor.F16, tensor.F32
	linear := func(d *Device, y, x tensor.Tensor, of layerOperands) { d.Linear(y, x, of.w, of.bias) }
	add := func(d *Device, y, x tensor.Tensor, of layerOperands) { d.LinearAdd(y, x, of.w, of.bias) }
	one := func(name string, w, x, y tensor.DType, in, out int, run aloneRun) {
		all = append(all, aloneTest{name: name, w: w, x: x, y: y, in: in, out: out, columns: out, run: run})
	}
	for _, t := range []tensor.DType{bf16, f16, f32} {
		one("linear", t, t, t, 72, 40, linear)
		one("added", t, t, t, 72, 40, add)
	}
	one("a long row", f16, f16, f16, 4160, 40, linear) // k is divided
	one("a long row", f32, f32, f32, 2080, 40, linear)
	one("a longer row, added", bf16, bf16, bf16, 4160, 40, add)
	one("logits", bf16, bf16, f32, 72, 40, linear)
	one("odd", bf16, bf16, bf16, 33, 37, linear)
	one("normed", bf16, bf16, bf16, 72, 40, func(d *Device, y, x tensor.Tensor, of layerOperands) {
		d.NormLinear(y, x, of.norm, of.w, of.bias, 1e-5)
	})
	one("activated", bf16, bf16, bf16, 72, 40, func(d *Device, y, x tensor.Tensor, of layerOperands) {
		d.LinearActivation(y, tensor.Tensor{}, x, of.w, of.bias, SiLU)
	})
	one("paired", bf16, bf16, bf16, 72, 40, func(d *Device, y, x tensor.Tensor, of layerOperands) {
		d.Linear(y, x, of.w, of.bias, Pair{X: x, W: of.pair})
	})
	gated := func(d *Device, y, x tensor.Tensor, of layerOperands) {
		d.NormSwiGLU(y, x, of.norm, of.w, of.bias, 1e-5)
	}
	for _, w := range []tensor.DType{bf16, tensor.INT8, tensor.Q4_K} {
		all = append(all, aloneTest{name: "gated", w: w, x: bf16, y: bf16, in: 256, out: 128, columns: 64, run: gated})
	}
	for _, w := range []tensor.DType{tensor.INT8, tensor.INT4, tensor.INT4Z, tensor.NF4, tensor.Q4_0, tensor.Q4_1,
		tensor.Q5_0, tensor.Q5_1, tensor.Q8_0, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K} {
		one("quantized", w, bf16, bf16, 256, 40, linear)
	}
	one("quantized, a long row", tensor.INT4, bf16, bf16, 4096, 40, linear)
	one("quantized, many rows", tensor.INT8, bf16, bf16, 256, 40, linear)
	all[len(all)-1].rows = 2 * maxConvertedRows
	one("quantized", tensor.INT8, f32, f32, 256, 40, linear)
	one("codes", tensor.INT8, bf16, bf16, 256, 40, func(d *Device, y, x tensor.Tensor, of layerOperands) {
		d.SetINT8Activations(true)
		d.Linear(y, x, of.w, of.bias)
		d.SetINT8Activations(false)
	})
	return all
}

// TestRowsAlone_OfAnyNumber computes layers of many rows, and then some of these, in other places of tiles: each row
// has the same bits, with every type of weights, on GPUs of compute capability 9.0 and older ones.
func TestRowsAlone_OfAnyNumber(t *testing.T) {
	d := gpuOrEmulated(t, Options{Fused: All()})
	d.SetRowsAlone(true)
	d.gpu.SMs = max(d.gpu.SMs, 8) // so that long rows are divided
	major := d.gpu.Major
	for _, d.gpu.Major = range []int{8, major} {
		for _, c := range aloneTests() {
			if c.x == tensor.F32 && d.gpu.Major > 8 {
				continue // the same kernels
			}
			t.Run(fmt.Sprintf("%d/%s %v %v to %v", d.gpu.Major, c.name, c.w, c.x, c.y), func(t *testing.T) { c.check(t, d) })
		}
	}
	d.gpu.Major = major
}

func (c aloneTest) check(t *testing.T, d *Device) {
	rows := cmp.Or(c.rows, 130)
	var of layerOperands
	var x, y, some, was tensor.Tensor
	lay := func(a *Arena) {
		of = layerOperands{a.New("w", c.w, c.out, c.in), a.New("norm", c.x, c.in), a.New("bias", c.x, c.out),
			a.New("pair", c.x, c.out, c.in)}
		x, was = a.New("x", c.x, rows, c.in), a.New("was", c.y, rows, c.columns)
		y, some = a.New("y", c.y, rows, c.columns), a.New("some", c.y, rows, c.columns)
	}
	a, err := d.NewArena("test", SizeOf(lay))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	lay(a)
	random := rand.New(rand.NewPCG(1, uint64(c.w)))
	for _, o := range []tensor.Tensor{of.w, of.norm, of.bias, of.pair, x, was} {
		if o.DType.Quantized() {
			d.UploadBytes(o, finiteBytes(random, o.Bytes()))
			continue
		}
		values := make([]float32, o.Len())
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		d.Upload(o, values)
	}
	compute := func(y, x, was tensor.Tensor) []byte {
		d.Copy(y, was)
		c.run(d, y, x, of)
		got := make([]byte, y.Bytes())
		if err := d.DownloadBytes(got, y); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := compute(y, x, was)
	row := len(want) / rows
	for _, r := range [][2]int{{0, 1}, {5, 7}, {65, 66}, {90, 97}, {100, 116}, {33, 66}, {129, 130}} {
		lo, hi := r[0], r[1]
		got := compute(some.Slice(lo, hi), x.Slice(lo, hi), was.Slice(lo, hi))
		if !bytes.Equal(got, want[lo*row:hi*row]) {
			t.Errorf("rows %d to %d differ from what they are among %d", lo, hi, rows)
		}
	}
	if bytes.Equal(want[:row], want[row:2*row]) {
		t.Error("all rows are the same")
	}
}

// TestEachRoom_ComputesAllRows divides the rows of products whose parts have no room for all: each row is computed
// once, with its own operands.
func TestEachRoom_ComputesAllRows(t *testing.T) {
	const cols, parts = 4096, 4
	for _, rows := range []int{1, 512, 513, 1500} {
		of := func(cols int) tensor.Matrix {
			return tensor.Matrix{Addr: 1 << 20, Rows: rows, Cols: cols, Stride: cols, DType: tensor.BF16}
		}
		p, next := cpu.Product{C: of(cols), A: of(64), A2: of(8)}, 0
		p.B2.Addr = 1
		eachRoom(p, parts, func(q cpu.Product) {
			for i, x := range []tensor.Matrix{q.C, q.A, q.A2} {
				whole := []tensor.Matrix{p.C, p.A, p.A2}[i]
				if x.Rows != q.C.Rows || x.Addr != whole.Addr+uintptr(2*next*whole.Stride) || x.Cols != whole.Cols {
					t.Errorf("of %d rows, operand %d from row %d on is %+v", rows, i, next, x)
				}
			}
			if next += q.C.Rows; parts*q.C.Rows*cols*4 > productRoom {
				t.Errorf("of %d rows, %d have no room", rows, q.C.Rows)
			}
		})
		if next != rows {
			t.Errorf("of %d rows, %d were computed", rows, next)
		}
	}
}

// finiteBytes returns random bytes of quantized weights whose scales are less than 2.
func finiteBytes(random *rand.Rand, n int) []byte {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(random.Uint32()) &^ 0x40
	}
	return raw
}

// TestRowsAlone_OfExperts does the same for rows of three experts, each with other rows next to it or none.
func TestRowsAlone_OfExperts(t *testing.T) {
	const experts, rows, in, out = 3, 130, 256, 64
	offsets := []int32{0, 40, 41, rows}
	d := gpuOrEmulated(t, Options{Fused: All()})
	d.SetRowsAlone(true)
	major := d.gpu.Major
	for _, d.gpu.Major = range []int{8, major} {
		for _, dtype := range []tensor.DType{tensor.BF16, tensor.F32, tensor.INT4, tensor.Q4_K} {
			for _, gated := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d/%v/%t", d.gpu.Major, dtype, gated), func(t *testing.T) {
					xType := tensor.BF16
					if dtype == tensor.F32 {
						xType = dtype
					}
					var w, x, y, gateUp, at tensor.Tensor
					lay := func(a *Arena) {
						w, x, y = a.New("w", dtype, experts*out, in), a.New("x", xType, rows, in), a.New("y", xType, rows, out)
						gateUp, at = a.New("gateUp", xType, rows, out), a.New("offsets", tensor.I32, experts+1)
					}
					a, err := d.NewArena("test", SizeOf(lay))
					if err != nil {
						t.Fatal(err)
					}
					lay(a)
					random := rand.New(rand.NewPCG(3, 4))
					if dtype.Quantized() {
						d.UploadBytes(w, finiteBytes(random, w.Bytes()))
					} else {
						d.Upload(w, Waves(w.Len()))
					}
					d.Upload(x, Waves(x.Len()))
					compute := func(lo, hi int, offsets []int32, most int) []byte {
						d.UploadI32(at, offsets)
						to := y.Slice(lo, hi)
						if gated {
							to = tensor.Tensor{DType: y.DType, Shape: []int{hi - lo, out / 2}, Addr: to.Addr}
							d.GroupedSwiGLU(to, gateUp.Slice(lo, hi), x.Slice(lo, hi), w, at, most, false)
						} else {
							d.GroupedLinear(to, x.Slice(lo, hi), w, at, most)
						}
						got := make([]byte, to.Bytes())
						if err := d.DownloadBytes(got, to); err != nil {
							t.Fatal(err)
						}
						return got
					}
					want := compute(0, rows, offsets, 89)
					row := len(want) / rows
					for _, c := range []struct {
						lo, hi  int
						offsets []int32
					}{{0, 1, []int32{0, 1, 1, 1}}, {40, 41, []int32{0, 0, 1, 1}}, {77, 84, []int32{0, 0, 0, 7}},
						{35, 45, []int32{0, 5, 6, 10}}} {
						got := compute(c.lo, c.hi, c.offsets, c.hi-c.lo)
						if !bytes.Equal(got, want[c.lo*row:c.hi*row]) {
							t.Errorf("rows %d to %d differ from what they are among %d", c.lo, c.hi, rows)
						}
					}
					if err := a.Close(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	d.gpu.Major = major
}
