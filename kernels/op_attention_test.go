package kernels_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// attentionShapes returns too many shapes for numerical differences, which would take too long; the test compares the
// gradients with the formula.
func attentionShapes() (list []kernels.AttentionSpec) {
	if testing.Short() { // on the emulated GPU a long sequence takes minutes
		defer func() {
			list = slices.DeleteFunc(list, func(s kernels.AttentionSpec) bool { return s.CuSeqlens[len(s.CuSeqlens)-1] > 601 })
		}()
	}
	for _, n := range []int32{1, 2, 17, 63, 65, 130} {
		list = append(list, kernels.AttentionSpec{CuSeqlens: []int32{0, n}, Heads: 4, KVHeads: 2, HeadDim: 32})
	}
	for _, dim := range []int{8, 14, 16, 24, 32, 40, 64, 80, 96, 128, 192} {
		list = append(list, kernels.AttentionSpec{CuSeqlens: []int32{0, 70}, Heads: 2, KVHeads: 2, HeadDim: dim})
	}
	for _, heads := range [][2]int{{1, 1}, {3, 1}, {6, 2}, {5, 1}, {70, 1}} {
		list = append(list, kernels.AttentionSpec{CuSeqlens: []int32{0, 67}, Heads: heads[0], KVHeads: heads[1], HeadDim: 16})
	}
	for _, window := range []int{1, 2, 8, 17, 64, 100, 1000} {
		list = append(list, kernels.AttentionSpec{CuSeqlens: []int32{0, 0, 1, 150, 151, 151, 229}, Heads: 4, KVHeads: 2,
			HeadDim: 16, Window: window})
	}
	for _, n := range []int32{1, 2, 17, 65, 130, 300, 600} { // from 257 on, several key blocks
		list = append(list, kernels.AttentionSpec{CuSeqlens: []int32{0, 0, n, 2*n + 1}, Heads: 4, KVHeads: 2, HeadDim: 16,
			Bidirectional: true})
	}
	return append(list,
		kernels.AttentionSpec{CuSeqlens: []int32{0}, Heads: 2, KVHeads: 1, HeadDim: 16}, // no sequence
		kernels.AttentionSpec{CuSeqlens: []int32{0, 0, 0}, Heads: 2, KVHeads: 1, HeadDim: 16},
		kernels.AttentionSpec{CuSeqlens: []int32{0, 0, 1, 3, 60, 61, 200, 200}, Heads: 8, KVHeads: 4, HeadDim: 32},
		kernels.AttentionSpec{CuSeqlens: []int32{0, 600, 601}, Heads: 2, KVHeads: 1, HeadDim: 16}, // several key blocks
		kernels.AttentionSpec{CuSeqlens: []int32{0, 30, 1130}, Heads: 1, KVHeads: 1, HeadDim: 8, Window: 300},
	)
}

func TestAttentionShapes(t *testing.T) {
	type recorded struct{ y, lse, dx, sizes []float64 }
	formulas := map[string]recorded{}
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, dt := range opcheck.Types {
			for _, m := range attentionShapes() {
				for _, spread := range []float64{1, 4} {
					if spread > 1 && m.HeadDim != 16 {
						continue
					}
					c := opcheck.AttentionCase(dt, m, spread)
					for _, fused := range []bool{false, true} {
						r := place(t, d, c)
						f, ok := formulas[c.ID()]
						if !ok {
							f.y, f.lse, f.dx, f.sizes = opcheck.Attention(m, r.At["qkv"], r.At["dy"], opcheck.Exact)
							formulas[c.ID()] = f
						}
						d.SetFused(kernels.Fused{"attention": fused})
						c.Forward(d, r.X)
						c.Backward(d, r.X)
						compare := func(name string, want []float64, limit float64) {
							if e := opcheck.Distance(floats(t, d, r.X[name]), want); !(e <= limit) {
								t.Errorf("%s, fused %v: %s is off by %.3g, limit %.1g", c.ID(), fused, name, e, limit)
							}
						}
						compare("y", f.y, min(c.Tolerance, 6e-3))
						compare("lse", f.lse, 2e-6)
						compare("dqkv", f.dx, c.Tolerance)
						for _, x := range []struct {
							name string
							want []float64
						}{{"y", f.y}, {"lse", f.lse}} {
							var p opcheck.Pass
							c.CompareEach(&p, x.name, r.X[x.name].DType, floats(t, d, r.X[x.name]), x.want)
							for _, fault := range p.Faults {
								t.Errorf("%s, fused %v: %s", c.ID(), fused, fault)
							}
						}
						// Terms may be larger than their sum. In each term, the weight, y (part of dy·y) and the score's gradient are
						// rounded.
						term := 2 * c.Tolerance
						below := 0.0
						switch dt {
						case tensor.BF16:
							term = 2 * 0x1p-8
						case tensor.F16: // the smallest are multiples of 2⁻²⁴, and so are hundreds of weights of a sum
							term, below = 2*0x1p-11, 0x1p-18
						}
						for i, got := range floats(t, d, r.X["dqkv"]) {
							limit := opcheck.ElementLimits[dt].Relative*math.Abs(f.dx[i]) + term*f.sizes[i] + below
							if !(math.Abs(got-f.dx[i]) <= limit) {
								t.Errorf("%s, fused %v: dqkv[%d] is %g, want %g, limit %.3g", c.ID(), fused, i, got, f.dx[i], limit)
								break
							}
						}
						for _, fault := range r.Beyond() {
							t.Errorf("%s, fused %v: %s", c.ID(), fused, fault)
						}
						r.Close()
					}
				}
			}
		}
	})
}

// TestAttentionThreads checks that any number of threads gives the same bytes, even if there is work for more of them.
func TestAttentionThreads(t *testing.T) {
	m := kernels.AttentionSpec{CuSeqlens: []int32{0, 90, 700}, Heads: 4, KVHeads: 2, HeadDim: 16}
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, dt := range opcheck.Types {
			for _, fused := range []bool{false, true} {
				d.SetFused(kernels.Fused{"attention": fused})
				c := opcheck.AttentionCase(dt, m, 1)
				r := place(t, d, c)
				var want [3][]byte
				for _, n := range []int{1, 2, 3, 5} {
					withThreads(t, n, func() {
						c.Forward(d, r.X)
						c.Backward(d, r.X)
					})
					for i, name := range []string{"y", "lse", "dqkv"} {
						if n == 1 {
							want[i] = bytesOf(t, d, r.X[name])
						} else if !bytes.Equal(bytesOf(t, d, r.X[name]), want[i]) {
							t.Errorf("%s, fused %v: %s is another with %d threads", c.ID(), fused, name, n)
						}
					}
				}
				r.Close()
			}
		}
	})
}

func roundToBF16(x float64) float64 { return float64(tensor.RoundBF16(float32(x))) }

// TestAttentionBF16 checks that the error is at most twice that of a chain of operations that each round to bf16.
func TestAttentionBF16(t *testing.T) {
	m := kernels.AttentionSpec{CuSeqlens: []int32{0, 100, 161}, Heads: 4, KVHeads: 2, HeadDim: 32}
	var y, dx, chainY, chainDX []float64
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, fused := range []bool{false, true} {
			c := opcheck.AttentionCase(tensor.BF16, m, 1)
			r := place(t, d, c)
			if y == nil {
				y, _, dx, _ = opcheck.Attention(m, r.At["qkv"], r.At["dy"], opcheck.Exact)
				chainY, _, chainDX, _ = opcheck.Attention(m, r.At["qkv"], r.At["dy"], roundToBF16)
			}
			d.SetFused(kernels.Fused{"attention": fused})
			c.Forward(d, r.X)
			c.Backward(d, r.X)
			for _, x := range []struct {
				name        string
				want, chain []float64
			}{{"y", y, chainY}, {"dqkv", dx, chainDX}} {
				got, chain := opcheck.Distance(floats(t, d, r.X[x.name]), x.want), opcheck.Distance(x.chain, x.want)
				if !(got <= 2*chain) {
					t.Errorf("fused %v: %s is off by %.3g, the chain by %.3g", fused, x.name, got, chain)
				}
			}
			r.Close()
		}
	})
}

// TestAttentionHugeScores uses scores of about ±10⁴ and ±10⁹ and checks that weights are 0 and 1, and gradients finite.
func TestAttentionHugeScores(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		eachAttention(d, []int{16, 24, 32}, func(dt tensor.DType, headDim int) { // 1/√16 is exact, the others are not
			m := kernels.AttentionSpec{CuSeqlens: []int32{0, 20, 220}, Heads: 4, KVHeads: 2, HeadDim: headDim, Window: 140}
			for _, spread := range []float64{50, 1.2e4} {
				c := opcheck.AttentionCase(dt, m, spread)
				r := place(t, d, c)
				c.Forward(d, r.X)
				c.Backward(d, r.X)
				for _, name := range []string{"y", "lse", "dqkv"} {
					for i, v := range floats(t, d, r.X[name]) {
						if math.IsNaN(v) || math.IsInf(v, 0) || name == "y" && !(math.Abs(v) <= 6) {
							t.Fatalf("%s, fused %v: %s[%d] is %v", c.ID(), d.Fused(), name, i, v)
						}
					}
				}
				r.Close()
			}
		})
	})
}

// eachAttention calls f for each type, unfused and fused, with each head dimension, the last of which has tensor-core
// kernels. On the emulated GPU it calls f only with the last dimension, fused, and not in F16.
func eachAttention(d *kernels.Device, headDims []int, f func(dt tensor.DType, headDim int)) {
	for _, dt := range opcheck.Types {
		for _, fused := range []bool{false, true} {
			for i, headDim := range headDims {
				emulated := !d.IsCPU() && os.Getenv("RESTYLE_TEST_DEVICE") == ""
				if !emulated || dt != tensor.F16 && fused && i == len(headDims)-1 {
					d.SetFused(kernels.Fused{"attention": fused})
					f(dt, headDim)
				}
			}
		}
	}
}

// TestAttentionOneKey has every query see only itself and checks that y is its value, whatever the score, and that only
// values have gradients.
func TestAttentionOneKey(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		eachAttention(d, []int{16, 64}, func(dt tensor.DType, headDim int) {
			m := kernels.AttentionSpec{CuSeqlens: []int32{0, 1, 70, 135}, Heads: 2, KVHeads: 2, HeadDim: headDim, Window: 1}
			c := opcheck.AttentionCase(dt, m, 4)
			r := place(t, d, c)
			c.Forward(d, r.X)
			c.Backward(d, r.X)
			columns, values := m.Width(), 4*headDim // of qkv, and the index of the first value
			y, dqkv := floats(t, d, r.X["y"]), floats(t, d, r.X["dqkv"])
			near := func(got, want float64) bool { return math.Abs(got-want) <= 2e-5*math.Abs(want) } // e⁰, for scores up to 100
			for i, x := range r.At["qkv"] {
				row, column := i/columns, i%columns-values
				if at := row*2*headDim + column; column < 0 {
					if !(math.Abs(dqkv[i]) < 1e-3) {
						t.Fatalf("%s, fused %v: dqkv[%d] is %v", c.ID(), d.Fused(), i, dqkv[i])
					}
				} else if !near(y[at], x) || !near(dqkv[i], r.At["dy"][at]) {
					t.Fatalf("%s, fused %v: y[%d] is %v, not %v, dqkv[%d] %v, not %v",
						c.ID(), d.Fused(), at, y[at], x, i, dqkv[i], r.At["dy"][at])
				}
			}
			r.Close()
		})
	})
}

// TestAttentionWideWindow checks that a window wider than any sequence gives exactly the results of no window.
func TestAttentionWideWindow(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		eachAttention(d, []int{16, 32, 64}, func(dt tensor.DType, headDim int) {
			m := kernels.AttentionSpec{CuSeqlens: []int32{0, 20, 75}, Heads: 2, KVHeads: 1, HeadDim: headDim}
			c := opcheck.AttentionCase(dt, m, 1)
			r := place(t, d, c)
			c.Forward(d, r.X)
			c.Backward(d, r.X)
			want := map[string][]byte{}
			for _, name := range []string{"y", "lse", "dqkv"} {
				want[name] = bytesOf(t, d, r.X[name])
			}
			m.Offsets = r.X["offsets"]
			for _, m.Window = range []int{76, math.MaxInt32, math.MaxInt} {
				for name := range want {
					d.Zero(r.X[name])
				}
				d.Attention(r.X["y"], r.X["lse"], r.X["qkv"], m)
				d.AttentionBackward(r.X["dqkv"], r.X["dy"], r.X["y"], r.X["lse"], r.X["qkv"], m)
				for name, b := range want {
					if !bytes.Equal(bytesOf(t, d, r.X[name]), b) {
						t.Errorf("%v, head dimension %d, fused %v, window %d: %s is another", dt, headDim, d.Fused(), m.Window, name)
					}
				}
			}
			r.Close()
		})
	})
}

// TestAttentionNeighbors checks that a sequence's results do not depend, to the last bit, on the adjacent sequences,
// even if they are NaN.
func TestAttentionNeighbors(t *testing.T) {
	const before, after = 31, 40
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		neighbors := func(dt tensor.DType, headDim, n int) {
			alone := kernels.AttentionSpec{CuSeqlens: []int32{0, int32(n)}, Heads: 4, KVHeads: 2, HeadDim: headDim}
			among := alone
			among.CuSeqlens = []int32{0, 1, before, int32(before + n), int32(before + n), int32(before + n + after)}
			one, many := opcheck.AttentionCase(dt, alone, 1), opcheck.AttentionCase(dt, among, 1)
			fill := func(from int, columns int) func(*rand.Rand, int) float64 {
				return func(_ *rand.Rand, i int) float64 {
					if i < from*columns || i >= (from+n)*columns {
						return math.NaN()
					}
					return rand.New(rand.NewPCG(5, uint64(i-from*columns))).NormFloat64()
				}
			}
			one.In[0].Fill, many.In[0].Fill = fill(0, alone.Width()), fill(before, alone.Width())
			one.Out[0].Fill, many.Out[0].Fill = fill(0, 4*headDim), fill(before, 4*headDim)
			a, b := place(t, d, one), place(t, d, many)
			d.Upload(a.X["dy"], toF32(valuesOf(one.Out[0], a.X["dy"].Len())))
			d.Upload(b.X["dy"], toF32(valuesOf(many.Out[0], b.X["dy"].Len())))
			one.Forward(d, a.X)
			one.Backward(d, a.X)
			many.Forward(d, b.X)
			many.Backward(d, b.X)
			for _, name := range []string{"y", "dqkv"} {
				x, y := a.X[name], b.X[name].Slice(before, before+n)
				if !bytes.Equal(bytesOf(t, d, x), bytesOf(t, d, y)) {
					t.Errorf("%v, head dimension %d, fused %v: %s of %d rows is another among other sequences", dt, headDim, d.Fused(),
						name, n)
				}
			}
			a.Close()
			b.Close()
		}
		eachAttention(d, []int{16, 64}, func(dt tensor.DType, headDim int) {
			for _, n := range []int{77, 177} {
				neighbors(dt, headDim, n)
			}
		})
	})
}

func valuesOf(o opcheck.Operand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = o.Fill(nil, i)
	}
	return v
}

func toF32(x []float64) []float32 {
	v := make([]float32, len(x))
	for i := range v {
		v[i] = float32(x[i])
	}
	return v
}

// TestAttentionMemory checks that the fused kernels' scratch grows at most linearly with the length, and stays far
// below one matrix of scores.
func TestAttentionMemory(t *testing.T) {
	const n = 4096
	m := kernels.AttentionSpec{CuSeqlens: []int32{0, n}, Heads: 4, KVHeads: 1, HeadDim: 8}
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All(), Threads: 1})
	expect.OK(t, err)
	c := opcheck.AttentionCase(tensor.F32, m, 1)
	r := place(t, d, c)
	c.Forward(d, r.X)
	if got := d.ScratchPeak(); got > 256<<10 {
		t.Errorf("the forward pass used %s", kernels.Bytes(got))
	}
	c.Backward(d, r.X)
	// Keys, values and their gradients of a quarter of the sequence, and four sums of the queries' gradients, padded to
	// 16.
	if got, limit := d.ScratchPeak(), 4*16*(5*n/4+4*n*m.Heads)+1<<20; got > limit {
		t.Errorf("the backward pass used %s, limit %s", kernels.Bytes(got), kernels.Bytes(limit))
	}
	r.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestAttentionRefuses checks that every programming error panics with the operation's name.
func TestAttentionRefuses(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	good := kernels.AttentionSpec{CuSeqlens: []int32{0, 2, 3}, Heads: 4, KVHeads: 2, HeadDim: 8}
	c := opcheck.AttentionCase(tensor.F32, good, 1)
	r := place(t, d, c)
	defer r.Close()
	for name, change := range map[string]func(m *kernels.AttentionSpec, x opcheck.Tensors){
		"heads that do not divide": func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.KVHeads = 3 },
		"no heads":                 func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.Heads, m.KVHeads = 0, 0 },
		"an odd head dimension":    func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.HeadDim = 7 },
		"a negative window":        func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.Window = -1 },
		"a window without a mask":  func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.Window, m.Bidirectional = 2, true },
		"rows without sequence":    func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.CuSeqlens = []int32{0, 2} },
		"sequences out of order":   func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.CuSeqlens = []int32{0, 4, 3} },
		"sequences begin late":     func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.CuSeqlens = []int32{1, 3} },
		"no sequences":             func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.CuSeqlens = nil },
		"another width":            func(m *kernels.AttentionSpec, x opcheck.Tensors) { m.HeadDim = 16 },
		"a short lse":              func(m *kernels.AttentionSpec, x opcheck.Tensors) { x["lse"] = x["lse"].Part(0, 3) },
		"a wrong type": func(m *kernels.AttentionSpec, x opcheck.Tensors) {
			x["y"] = tensor.Tensor{DType: tensor.BF16, Shape: x["y"].Shape, Addr: x["y"].Addr}
		},
	} {
		m, x := good, maps.Clone(r.X)
		change(&m, x)
		for op, f := range map[string]func(){
			"Attention":         func() { d.Attention(x["y"], x["lse"], x["qkv"], m) },
			"AttentionBackward": func() { d.AttentionBackward(x["dqkv"], x["dy"], x["y"], x["lse"], x["qkv"], m) },
		} {
			func() {
				defer func() {
					if s := fmt.Sprint(recover()); !strings.HasPrefix(s, op+":") {
						t.Errorf("%s with %s: %s", op, name, s)
					}
				}()
				f()
			}()
		}
	}
}
