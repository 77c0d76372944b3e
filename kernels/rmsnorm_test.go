package kernels

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/tensor"
)

// rmsNorm is the formula, row by row.
func rmsNorm(x, w []float64, eps float64) (y, rstd []float64) {
	dim := len(w)
	y = make([]float64, len(x))
	for r := 0; r < len(x); r += dim {
		sum := 0.0
		for _, v := range x[r : r+dim] {
			sum += v * v
		}
		s := 1 / math.Sqrt(sum/float64(dim)+eps)
		rstd = append(rstd, s)
		for i := range w {
			y[r+i] = x[r+i] * s * w[i]
		}
	}
	return y, rstd
}

// normEps is large where a row is one element: the gradient is what eps leaves of it, with a small one nothing but rounding.
func normEps(dim int) float32 {
	if dim == 1 {
		return 0.5
	}
	return 1e-5
}

func rmsNormCase(t tensor.DType, rows, dim int) opCase {
	eps := normEps(dim)
	c := opCase{
		op: "rmsnorm", name: label(t, rows, dim),
		in:       []operand{act("x", t, rows, dim), par("w", t, dim)},
		out:      []operand{act("y", t, rows, dim), plain("rstd", tensor.F32, rows)},
		forward:  func(d *Device, x tensors) { d.RMSNorm(x["y"], x["rstd"], x["x"], x["w"], eps) },
		backward: func(d *Device, x tensors) { d.RMSNormBackward(x["dx"], x["dw"], x["dy"], x["x"], x["w"], x["rstd"]) },
		want: func(x values) values {
			y, rstd := rmsNorm(x["x"], x["w"], float64(eps))
			return values{"y": y, "rstd": rstd}
		},
		kernels: [2][]string{{"rmsnorm", "rmsnorm_backward"}, {"rmsnorm", "rmsnorm_backward"}},
	}
	c.forwardBytes = c.bytes("x", "y")
	c.backwardBytes = c.bytes("x", "y", "x")
	return c
}

// addRMSNormCase has addends in BF16 whose sum is one too: the formula does not round it. TestRMSNormInPlace has sums that are
// rounded.
func addRMSNormCase(t tensor.DType, rows, dim int) opCase {
	eps := normEps(dim)
	h, b := act("h", t, rows, dim), plain("b", t, rows, dim)
	if t == tensor.BF16 {
		sixteenths := func(r *rand.Rand, _ int) float64 { return min(max(math.Round(16*r.NormFloat64())/16, -7), 7) }
		h.fill, b.fill = sixteenths, sixteenths
	}
	c := opCase{
		op: "rmsnorm", name: label(t, rows, dim) + " and add",
		in:       []operand{h, b, par("w", t, dim)},
		out:      []operand{h, act("y", t, rows, dim), plain("rstd", tensor.F32, rows)},
		forward:  func(d *Device, x tensors) { d.AddRMSNorm(x["y"], x["rstd"], x["h"], x["h"], x["b"], x["w"], eps) },
		backward: func(d *Device, x tensors) { d.AddRMSNormBackward(x["dh"], x["dw"], x["dy"], x["h"], x["w"], x["rstd"]) },
		want: func(x values) values {
			h := sums(x["h"], x["b"])
			y, rstd := rmsNorm(h, x["w"], float64(eps))
			return values{"h": h, "y": y, "rstd": rstd}
		},
		kernels: [2][]string{
			{"add", "rmsnorm", "rmsnorm_backward"},
			{"add_rmsnorm", "add_rmsnorm_backward"},
		},
	}
	if t == tensor.BF16 {
		// Unfused, the norm's gradient is rounded before it is added: by 2⁻⁸ of up to four times the root mean square.
		c.elements = map[string]limit{"dh": {0x1p-8, 0x1p-6}}
	}
	c.forwardBytes = c.bytes("h", "b", "h", "y")
	c.backwardBytes = c.bytes("h", "h", "h", "y")
	return c
}

func TestRMSNorm(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		// Shorter than a vector, between vectors, across the blocks of rows whose dw is summed apart.
		for _, s := range [][2]int{{1, 1}, {3, 7}, {1, 16}, {2, 63}, {5, 64}, {2, 257}, {300, 24}, {2, 2048}} {
			cases = append(cases, rmsNormCase(t, s[0], s[1]), addRMSNormCase(t, s[0], s[1]))
		}
	}
	testOps(t, cases)
}

// TestRMSNormRange has rows of zeros, where eps alone keeps rstd finite, rows of very large and very small elements, and a
// NaN that must stay in its row.
func TestRMSNormRange(t *testing.T) {
	const dim, eps = 200, 1e-6
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, typ := range both {
			for _, scale := range []float64{0, 1e-18, 1e4, 1e17} {
				t.Run(fmt.Sprint(typ, scale), func(t *testing.T) {
					a := arena(t, d, 1<<16)
					rng := rand.New(rand.NewPCG(4, 5))
					x, w := a.New("x", typ, 3, dim), a.New("w", typ, dim)
					y, rstd := a.New("y", typ, 3, dim), a.New("rstd", tensor.F32, 3)
					dy, dx := a.New("dy", typ, 3, dim), a.New("dx", typ, 3, dim)
					d.Upload(x, filled(3*dim, func(i int) float64 {
						if i == 2*dim+5 {
							return math.NaN()
						}
						return scale * rng.NormFloat64()
					}))
					d.Upload(w, filled(dim, func(int) float64 { return rng.NormFloat64() }))
					d.Upload(dy, filled(3*dim, func(int) float64 { return rng.NormFloat64() }))
					d.RMSNorm(y, rstd, x, w, eps)
					d.RMSNormBackward(dx, tensor.Tensor{}, dy, x, w, rstd)
					want, _ := rmsNorm(floats(t, d, x), floats(t, d, w), eps)
					if e := distance(floats(t, d, y.Slice(0, 2)), want[:2*dim]); e > tolerances[typ] {
						t.Errorf("y is off by %.3g", e)
					}
					for i, v := range floats(t, d, dx) {
						if bad := math.IsNaN(v) || math.IsInf(v, 0); bad != (i >= 2*dim) {
							t.Fatalf("dx[%d] is %v", i, v)
						}
					}
				})
			}
		}
	})
}

// TestRMSNormInPlace wants the same bits whether results have memory of their own or lie in their inputs: y in x, dx in dy,
// and the sum h in either addend.
func TestRMSNormInPlace(t *testing.T) {
	const rows, dim, eps = 5, 50, 1e-6
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, typ := range both {
			for _, fused := range []bool{false, true} {
				d.SetFused(Fused{"rmsnorm": fused})
				a := arena(t, d, 1<<16)
				rng := rand.New(rand.NewPCG(4, 5))
				w, rstd, none := a.New("w", typ, dim), a.New("rstd", tensor.F32, rows), tensor.Tensor{}
				fill := func(x tensor.Tensor) tensor.Tensor {
					d.Upload(x, filled(x.Len(), func(int) float64 { return rng.NormFloat64() }))
					return x
				}
				empty := func() tensor.Tensor { return a.New("empty", typ, rows, dim) }
				copied := func(x tensor.Tensor) tensor.Tensor {
					c := empty()
					d.Copy(c, x)
					return c
				}
				same := func(what string, x, y tensor.Tensor) {
					t.Helper()
					if !bytes.Equal(bytesOf(t, d, x), bytesOf(t, d, y)) {
						t.Errorf("%v, fused %v: %s is another in place", typ, fused, what)
					}
				}
				fill(w)
				x, b := fill(empty()), fill(empty())

				y, in := empty(), copied(x)
				d.RMSNorm(y, rstd, x, w, eps)
				d.RMSNorm(in, rstd, in, w, eps)
				same("y", y, in)

				dx, dy := empty(), copied(b)
				d.RMSNormBackward(dx, none, b, x, w, rstd)
				d.RMSNormBackward(dy, none, dy, x, w, rstd)
				same("dx", dx, dy)

				h, sum, y2 := empty(), empty(), empty()
				d.Add(sum, x, b)
				d.AddRMSNorm(y, rstd, h, x, b, w, eps)
				same("h", h, sum)
				d.RMSNorm(y2, rstd, sum, w, eps)
				same("the norm of h", y, y2)
				for i, in := range []tensor.Tensor{copied(x), copied(b)} {
					addends := [2]tensor.Tensor{x, b}
					addends[i] = in
					d.AddRMSNorm(y2, rstd, in, addends[0], addends[1], w, eps)
					same("h in an addend", h, in)
					same("y with h in an addend", y, y2)
				}
			}
		}
	})
}

// TestRMSNormGrids wants rows shared by as many threads as have a vector or two of them each, backward one, and by a whole block
// if they are longer; and blocks for all rows, backward for no more than a GPU of 132 multiprocessors runs at once.
func TestRMSNormGrids(t *testing.T) {
	for _, test := range []struct {
		t                                    tensor.DType
		rows, dim                            int
		threads, blocks                      int
		backwardThreads, backwardBlocks, sum int
	}{
		{tensor.BF16, 1000, 2048, 128, 500, 256, 264, 64}, // 256 vectors
		{tensor.BF16, 1000, 8192, 256, 1000, 512, 132, 256},
		{tensor.BF16, 1000, 4096, 256, 1000, 512, 264, 128},
		{tensor.BF16, 100, 2056, 256, 100, 512, 100, 65}, // 257 vectors
		{tensor.F32, 33, 64, 8, 2, 16, 2, 2},
		{tensor.F32, 64, 63, 32, 8, 64, 8, 2},
		{tensor.F32, 3, 1, 8, 1, 8, 1, 1},
	} {
		want := map[string]grid{
			"rmsnorm": line(test.blocks, 256), "add_rmsnorm": line(test.blocks, 256),
			"rmsnorm_backward": line(test.backwardBlocks, 512), "rmsnorm_backward_weight": line(test.sum, 512),
		}
		for _, l := range launches(test.t, test.rows, test.dim) {
			threads := test.threads
			if l.name != "rmsnorm" && l.name != "add_rmsnorm" {
				threads = test.backwardThreads
			}
			if l.source == "rmsnorm.cu" && (l.grid != want[l.name] || l.macros[3] != macro{"THREADS", threads}) {
				t.Errorf("%v, %d × %d: %v, not %v with %d threads a row", test.t, test.rows, test.dim, l, want[l.name], threads)
			}
		}
	}
}
