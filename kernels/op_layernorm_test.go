package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestLayerNormRange has rows of equal elements, whose sum is rounded and where only eps keeps rstd finite, rows far
// from zero compared with their deviation, of very large and very small elements, and a NaN that must stay in its row.
// The mean square minus the squared mean would be wrong, even negative, far from zero.
func TestLayerNormRange(t *testing.T) {
	const dim, eps = 203, 1e-6
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range wideTypes {
			for _, of := range []struct{ mean, deviation float64 }{{3.1, 0}, {0, 0}, {1e4, 64}, {-1e4, 1}, {0, 1e-18},
				{0, 1e17}} {
				t.Run(fmt.Sprint(typ, of), func(t *testing.T) {
					a := arena(t, d, 1<<16)
					rng := rand.New(rand.NewPCG(4, 5))
					normal := func(int) float64 { return rng.NormFloat64() }
					x, w, b := a.New("x", typ, 3, dim), a.New("w", typ, dim), a.New("b", typ, dim)
					y, mean, rstd := a.New("y", typ, 3, dim), a.New("mean", tensor.F32, 3), a.New("rstd", tensor.F32, 3)
					dy, dx := a.New("dy", typ, 3, dim), a.New("dx", typ, 3, dim)
					d.Upload(x, filled(3*dim, func(i int) float64 {
						if i == 2*dim+5 {
							return math.NaN()
						}
						return of.mean + of.deviation*rng.NormFloat64()
					}))
					d.Upload(w, filled(dim, normal))
					d.Upload(b, filled(dim, normal))
					d.Upload(dy, filled(3*dim, normal))
					d.LayerNorm(y, mean, rstd, x, w, b, eps)
					d.LayerNormBackward(dx, tensor.Tensor{}, tensor.Tensor{}, dy, x, w, mean, rstd)
					want, _, _ := opcheck.LayerNorm(floats(t, d, x), floats(t, d, w), floats(t, d, b), eps)
					tolerance := opcheck.Tolerances[typ]
					if of.deviation > 0 { // the mean is rounded, and so is its distance from the elements
						tolerance += 0x1p-23 * math.Abs(of.mean) / of.deviation
					}
					if e := opcheck.Distance(floats(t, d, y.Slice(0, 2)), want[:2*dim]); e > tolerance {
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

// TestLayerNormInPlace checks LayerNorm with checkInPlace.
func TestLayerNormInPlace(t *testing.T) {
	const eps = 1e-6
	checkInPlace(t, "layernorm", func(d *kernels.Device, w, mean, rstd tensor.Tensor) inPlaceNorm {
		none := tensor.Tensor{}
		return inPlaceNorm{
			forward:  func(y, x tensor.Tensor) { d.LayerNorm(y, mean, rstd, x, w, none, eps) },
			add:      func(y, h, a, b tensor.Tensor) { d.AddLayerNorm(y, mean, rstd, h, a, b, w, none, eps) },
			backward: func(dx, dy, x tensor.Tensor) { d.LayerNormBackward(dx, none, none, dy, x, w, mean, rstd) },
		}
	})
}

// TestLayerNormFrozen checks that the gradient of one parameter is the same whether or not the other has one.
func TestLayerNormFrozen(t *testing.T) {
	const rows, dim = 70, 33
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		a := arena(t, d, 1<<17)
		rng := rand.New(rand.NewPCG(4, 5))
		normal := func(name string, shape ...int) tensor.Tensor {
			x := a.New(name, tensor.F32, shape...)
			d.Upload(x, filled(x.Len(), func(int) float64 { return rng.NormFloat64() }))
			return x
		}
		x, dy, w, y, dx := normal("x", rows, dim), normal("dy", rows, dim), normal("w", dim), normal("y", rows, dim),
			normal("dx", rows, dim)
		mean, rstd, none := a.New("mean", tensor.F32, rows), a.New("rstd", tensor.F32, rows), tensor.Tensor{}
		d.LayerNorm(y, mean, rstd, x, w, none, 1e-5)
		gradients := func(withW, withB bool) (dw, db tensor.Tensor) {
			for _, g := range []struct {
				to   *tensor.Tensor
				with bool
			}{{&dw, withW}, {&db, withB}} {
				if g.with {
					*g.to = a.New("gradient", tensor.F32, dim)
					d.Zero(*g.to)
				}
			}
			d.LayerNormBackward(dx, dw, db, dy, x, w, mean, rstd)
			return dw, db
		}
		dw, db := gradients(true, true)
		onlyW, _ := gradients(true, false)
		_, onlyB := gradients(false, true)
		for _, g := range [][2]tensor.Tensor{{dw, onlyW}, {db, onlyB}} {
			if opcheck.Distance(floats(t, d, g[0]), floats(t, d, g[1])) != 0 {
				t.Error("the gradient of one parameter depends on whether the other has one")
			}
		}
	})
}
