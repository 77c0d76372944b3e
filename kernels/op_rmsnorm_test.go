package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestRMSNormRange has rows of zeros, where only eps keeps rstd finite, rows of very large and very small elements, and
// a NaN that must stay in its row.
func TestRMSNormRange(t *testing.T) {
	const dim, eps = 200, 1e-6
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range wideTypes {
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
					want, _ := opcheck.RMSNorm(floats(t, d, x), floats(t, d, w), eps)
					if e := opcheck.Distance(floats(t, d, y.Slice(0, 2)), want[:2*dim]); e > opcheck.Tolerances[typ] {
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

// TestRMSNormInPlace checks RMSNorm with checkInPlace.
func TestRMSNormInPlace(t *testing.T) {
	const eps = 1e-6
	checkInPlace(t, "rmsnorm", func(d *kernels.Device, w, mean, rstd tensor.Tensor) inPlaceNorm {
		return inPlaceNorm{
			forward:  func(y, x tensor.Tensor) { d.RMSNorm(y, rstd, x, w, eps) },
			add:      func(y, h, a, b tensor.Tensor) { d.AddRMSNorm(y, rstd, h, a, b, w, eps) },
			backward: func(dx, dy, x tensor.Tensor) { d.RMSNormBackward(dx, tensor.Tensor{}, dy, x, w, rstd) },
		}
	})
}

// An inPlaceNorm runs a norm whose other operands are set.
type inPlaceNorm struct {
	forward  func(y, x tensor.Tensor)
	add      func(y, h, a, b tensor.Tensor)
	backward func(dx, dy, x tensor.Tensor)
}

// checkInPlace checks that the bits are the same whether results have their own memory or overwrite their inputs: y in
// x, dx in dy, and the sum h in either addend.
func checkInPlace(t *testing.T, op string, with func(d *kernels.Device, w, mean, rstd tensor.Tensor) inPlaceNorm) {
	const rows, dim = 5, 50
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			for _, fused := range []bool{false, true} {
				d.SetFused(kernels.Fused{op: fused})
				a := arena(t, d, 1<<16)
				rng := rand.New(rand.NewPCG(4, 5))
				w, mean, rstd := a.New("w", typ, dim), a.New("mean", tensor.F32, rows), a.New("rstd", tensor.F32, rows)
				n := with(d, w, mean, rstd)
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
				n.forward(y, x)
				n.forward(in, in)
				same("y", y, in)

				dx, dy := empty(), copied(b)
				n.backward(dx, b, x)
				n.backward(dy, dy, x)
				same("dx", dx, dy)

				h, sum, y2 := empty(), empty(), empty()
				d.Add(sum, x, b)
				n.add(y, h, x, b)
				same("h", h, sum)
				n.forward(y2, sum)
				same("the norm of h", y, y2)
				for i, in := range []tensor.Tensor{copied(x), copied(b)} {
					addends := [2]tensor.Tensor{x, b}
					addends[i] = in
					n.add(y2, in, addends[0], addends[1])
					same("h in an addend", h, in)
					same("y with h in an addend", y, y2)
				}
			}
		}
	})
}
