package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/opcheck"
	"restyle/quant"
	"restyle/tensor"
)

// gradients returns the gradients of a step: zeros, ordinary ones, and blocks that span many decades.
func gradients(n, step int) []float32 {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(step)))
	return filled(n, func(i int) float64 {
		g := rng.NormFloat64()
		switch i / 64 % 6 {
		case 1:
			return 0
		case 2:
			return g * math.Pow(10, float64(-i%9))
		case 3:
			return g * 1e-12
		case 4:
			return math.Exp(3 * g)
		}
		return g
	})
}

var oddSizes = []int{1, 255, 256, 257, 8977}

// TestAdamWForms compares each step with the formula in float64, starting from the state that the previous step left.
func TestAdamWForms(t *testing.T) {
	// The largest relative error of a weight, in addition to the error of the update: from rounding and, in float32,
	// also from decay.
	rounding := map[tensor.DType]float64{tensor.F32: 0x1p-22, tensor.BF16: 0x1p-8 + 0x1p-23,
		tensor.F16: 0x1p-11 + 0x1p-23}
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, f := range forms {
			for _, n := range oddSizes {
				x := f.stepper(t, d, filled(n, func(i int) float64 { return math.Sin(float64(i)) }))
				x.c.GradScale = 0.5
				for range 4 {
					w := x.weights(t)
					m, root := x.moments(t)
					g := gradients(n, x.c.Step)
					x.step(g)
					moved := x.weights(t)
					newM, newRoot := x.moments(t)
					off := rounding[f.weight]
					switch {
					case f.master == tensor.F32:
						off = 0x1p-22
					case f.master == tensor.U8:
						off = 0x1p-16 // half of the last of 16 bits, and the float32 rounding before it
					case f.stochastic:
						off *= 2
					}
					var exactM, exactRoot []float64
					for i := range w {
						w1, m1, v1 := opcheck.AdamW(w[i], m[i], root[i]*root[i], float64(g[i]), x.c)
						exactM, exactRoot = append(exactM, m1), append(exactRoot, math.Sqrt(v1))
						limit := off*math.Abs(w1) + 2e-6*math.Abs(w1-w[i])
						if f.weight == tensor.F16 && f.master != tensor.F32 { // the last place of subnormal numbers
							limit += 0x1p-24
						}
						if f.bnb { // 1 − 0.999 in float32 is larger by 4.7e-5, its root by half of that; and bitsandbytes rounds twice
							limit += off*math.Abs(w1) + 1e-4*math.Abs(w1-w[i])
						}
						if !(math.Abs(moved[i]-w1) <= limit) {
							t.Fatalf("%s, %d elements, step %d: weight %d went from %v to %v, want %v", f.name, n, x.c.Step, i, w[i],
								moved[i], w1)
						}
					}
					if f.codes {
						x.checkCodes(t, exactM, exactRoot, newM, newRoot)
						continue
					}
					for i := range w {
						if e := math.Abs(newM[i] - exactM[i]); e > 3e-7*(math.Abs(m[i])+math.Abs(float64(g[i]))) {
							t.Fatalf("%s: m[%d] is %v, want %v", f.name, i, newM[i], exactM[i])
						}
						// The relative limit is as for bnb above; the absolute one is for subnormal v.
						if e := math.Abs(newRoot[i] - exactRoot[i]); e > 3e-5*exactRoot[i]+1e-22 {
							t.Fatalf("%s: √v[%d] is %v, want %v", f.name, i, newRoot[i], exactRoot[i])
						}
					}
				}
				for i, g := range x.guard {
					if b := bytesOf(t, d, g); bytes.Count(b, []byte{guardByte}) != len(b) {
						t.Errorf("%s, %d elements: tensor %d was written beyond its end", f.name, n, i)
					}
				}
			}
		}
	})
}

// checkCodes checks that each moment has the nearest number of its map, that scales are the blocks' largest magnitudes,
// and that no nonzero √v became 0.
func (x *stepper) checkCodes(t *testing.T, exactM, exactRoot, m, root []float64) {
	t.Helper()
	mapM, mapV := quant.DynamicMap(true), quant.DynamicMap(false)
	codesM, codesV := bytesOf(t, x.d, x.s.M), bytesOf(t, x.d, x.s.V)
	scaleM, scaleV := floats(t, x.d, x.s.MScale), floats(t, x.d, x.s.VScale)
	for b := range scaleM {
		lo, hi := b*kernels.QuantBlockSize, min(len(m), (b+1)*kernels.QuantBlockSize)
		var largestM, largestV float64
		for i := lo; i < hi; i++ {
			v := exactRoot[i]
			if x.f.bnb {
				v *= v
			}
			largestM, largestV = max(largestM, math.Abs(exactM[i])), max(largestV, v)
		}
		if !(math.Abs(scaleM[b]-largestM) <= 3e-6*largestM) || !(math.Abs(scaleV[b]-largestV) <= 1e-4*largestV) {
			t.Fatalf("%s: block %d has scales %v and %v, want %v and %v", x.f.name, b, scaleM[b], scaleV[b], largestM, largestV)
		}
		for i := lo; i < hi; i++ {
			v, kept := exactRoot[i], root[i]
			if x.f.bnb {
				v, kept = v*v, kept*kept
			} else if v > 0 && codesV[i] == 0 && scaleV[b] > 0 {
				t.Fatalf("%s: √v[%d] is %v, and became nothing", x.f.name, i, v)
			}
			for _, c := range []struct {
				what         string
				exact, kept  float64
				scale, slack float64
				code         byte
				numbers      []float32
			}{{"m", exactM[i], m[i], scaleM[b], 1e-6, codesM[i], mapM}, {"v", v, kept, scaleV[b], 1e-4, codesV[i], mapV}} {
				best := math.Inf(1)
				for _, number := range c.numbers {
					best = min(best, math.Abs(float64(number)*c.scale-c.exact))
				}
				// A sign rule takes the nearest number of the same sign; a v that must not be 0 takes the smallest nonzero number.
				if x.f.bnb && c.what == "m" || c.code == 1 {
					best = max(best, 5.5e-7*c.scale)
				}
				if e := math.Abs(c.kept - c.exact); e > best+c.slack*math.Abs(c.exact)+1e-12*c.scale {
					t.Fatalf("%s: %s[%d] is %v and was kept as %v, code %d: %v away, and the nearest is %v", x.f.name, c.what, i,
						c.exact, c.kept, c.code, e, best)
				}
			}
		}
	}
}

// TestAdamWThreads checks that any number of threads gives the same bits.
func TestAdamWThreads(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{Threads: 1})
	expect.OK(t, err)
	for _, f := range forms {
		var first []byte
		for _, threads := range []int{1, 2, 3} {
			expect.OK(t, cpu.SetThreads(threads))
			x := f.stepper(t, d, filled(8977, func(i int) float64 { return math.Sin(float64(i)) }))
			for range 3 {
				x.step(gradients(8977, x.c.Step))
			}
			if all := x.bytes(t); first == nil {
				first = all
			} else if !bytes.Equal(all, first) {
				t.Errorf("%s: %d threads give other bits than one", f.name, threads)
			}
		}
	}
	expect.OK(t, cpu.SetThreads(1))
}

// TestAdamWAtRest checks that gradients of zero from the first step on cause only decay, and no 0/0.
func TestAdamWAtRest(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, f := range forms {
			x := f.stepper(t, d, filled(300, func(int) float64 { return 2 }))
			x.c.LR, x.c.Decay = 0.5, 0.5
			x.step(make([]float32, 300))
			for i, w := range x.weights(t) {
				if w != 1.5 {
					t.Fatalf("%s: weight %d is %v, want 1.5", f.name, i, w)
				}
			}
			x.c.LR = 0
			x.step(filled(300, func(i int) float64 { return float64(i) }))
			for i, w := range x.weights(t) {
				if w != 1.5 {
					t.Fatalf("%s: weight %d moved to %v without a learning rate", f.name, i, w)
				}
			}
		}
	})
}

// TestAdamWEnd has moments that become 0 in the block in which the tensor ends. What follows the end must not count,
// except in bitsandbytes, which treats it as elements of code 128.
func TestAdamWEnd(t *testing.T) {
	const n = kernels.QuantBlockSize + 1
	zero, scales := bytes.Repeat([]byte{127}, n), []float32{1, 1}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, f := range forms {
			if !f.codes {
				continue
			}
			x := f.stepper(t, d, make([]float32, n))
			d.UploadBytes(x.s.M, zero)
			d.Upload(x.s.MScale, scales)
			x.step(make([]float32, n))
			want := []float64{0, 0}
			if f.bnb {
				want[1] = float64(float32(x.c.Beta1) * quant.DynamicMap(true)[128])
			}
			if got := floats(t, d, x.s.MScale); !slices.Equal(got, want) {
				t.Errorf("%s: the scales of m are %v, want %v", f.name, got, want)
			}
		}
	})
}

// TestAdamWSpoiled checks that a gradient that is not finite shows in all of its block within two steps. bitsandbytes
// hides it.
func TestAdamWSpoiled(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, f := range forms {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				x := f.stepper(t, d, filled(600, func(int) float64 { return 1 }))
				g := gradients(600, 0)
				g[300] = float32(bad)
				x.step(g)
				x.step(gradients(600, 1))
				spoiled := 0
				for i, w := range x.weights(t) {
					if ok := !math.IsNaN(w) && !math.IsInf(w, 0); !ok {
						spoiled++
						if i/kernels.QuantBlockSize != 1 {
							t.Errorf("%s: %v spoiled weight %d of another block", f.name, bad, i)
						}
					}
				}
				want := 1
				if f.codes {
					want = kernels.QuantBlockSize
				}
				if f.codes && f.bnb {
					want = 0
				}
				if spoiled != want {
					t.Errorf("%s: %v spoiled %d weights, want %d", f.name, bad, spoiled, want)
				}
			}
		}
	})
}

func TestAdamWContract(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	a := arena(t, d, 1<<16)
	n := 300
	f32, half, codes := a.New("f32", tensor.F32, n), a.New("half", tensor.BF16, n), a.New("codes", tensor.U8, n)
	scale, short := a.New("scale", tensor.F32, 2), a.New("short", tensor.F32, 1)
	half16 := a.New("half", tensor.F16, n)
	eight := kernels.AdamWState{M: codes, V: codes, MScale: scale, VScale: scale}
	with := func(s kernels.AdamWState, f func(*kernels.AdamWState)) kernels.AdamWState { f(&s); return s }
	type x = kernels.AdamWTensor
	for _, c := range []struct {
		name, want string
		x          x
	}{
		{"codes for a weight", "AdamW: w is codes", x{W: codes, G: f32, State: eight}},
		{"codes for a gradient", "AdamW: g is codes", x{W: f32, G: codes, State: eight}},
		{"short gradient", "AdamW: g is short", x{W: f32, G: short, State: eight}},
		{"codes without scales", "AdamW: m is codes", x{W: f32, G: f32, State: kernels.AdamWState{M: codes, V: codes}}},
		{"one scale", "AdamW: the scale of v is", x{W: f32, G: f32,
			State: with(eight, func(s *kernels.AdamWState) { s.VScale = tensor.Tensor{} })}},
		{"too few scales", "AdamW: the scale of m is short",
			x{W: f32, G: f32, State: with(eight, func(s *kernels.AdamWState) { s.MScale = short })}},
		{"master of F32", "AdamW: f32 F32[300] has master",
			x{W: f32, G: f32, State: with(eight, func(s *kernels.AdamWState) { s.Master = f32 })}},
		{"short master", "AdamW: the master is short",
			x{W: half, G: f32, State: with(eight, func(s *kernels.AdamWState) { s.Master = short })}},
		{"short residual", "AdamW: the residual is",
			x{W: half, G: f32, State: with(eight, func(s *kernels.AdamWState) { s.Master = codes.Slice(0, 5) })}},
		{"bnb and random", "AdamW: BNB rounds to nearest", x{W: half, G: f32, State: eight, BNB: true, Stochastic: true}},
		{"bnb and master", "AdamW: half BF16[300] has master",
			x{W: half, G: f32, State: with(eight, func(s *kernels.AdamWState) { s.Master = f32 }), BNB: true}},
		{"bnb of F16", "AdamW: BNB updates F32 and BF16", x{W: half16, G: f32, State: eight, BNB: true}},
		{"half a block", "AdamW: first element 128: must be a multiple", x{W: f32, G: f32, State: eight, First: 128}},
		{"too few sums", "SquaresAll: sums is short", x{W: f32, G: f32, State: eight, Sums: short}},
		{"half a unit", "SquaresAll: elements 256 to 556 of 300001: must be whole units of 512",
			x{W: f32, G: f32, State: eight, First: 256, Of: 300001, Sums: a.New("sums", tensor.F64, 586)}},
		{"an end within a unit", "SquaresAll: elements 0 to 300 of 300001: must be",
			x{W: f32, G: f32, State: eight, Of: 300001, Sums: a.New("sums", tensor.F64, 586)}},
		{"more than the tensor", "SquaresAll: elements 0 to 300 of 200: must be",
			x{W: f32, G: f32, State: eight, Of: 200, Sums: a.New("sums", tensor.F64, 1)}},
	} {
		kernels.MustPanic(t, c.name, c.want, func() { d.AdamW(c.x, kernels.AdamWStep{Step: 1}) })
	}
	kernels.MustPanic(t, "no step", "AdamW: step 0: must be at least 1",
		func() { d.AdamW(x{W: f32, G: f32, State: eight}, kernels.AdamWStep{}) })
	kernels.MustPanic(t, "no room", "NewAdamWList: memory is",
		func() { d.NewAdamWList(codes, []x{{W: f32, G: f32, State: eight}}) })
}

// TestAdamWLevels checks that every level gives the same state if it is codes, also from gradients whose squares are
// infinite, and from NaN.
func TestAdamWLevels(t *testing.T) {
	const n = 5*kernels.QuantBlockSize + 77
	first := map[string][]byte{}
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, f := range forms {
			if !f.codes {
				continue
			}
			x := f.stepper(t, d, filled(n, func(i int) float64 { return math.Sin(float64(i)) }))
			for range 3 {
				g := gradients(n, x.c.Step)
				g[kernels.QuantBlockSize+9] = 1e25
				g[2*kernels.QuantBlockSize+9] = float32(math.Inf(-1))
				g[3*kernels.QuantBlockSize+9] = float32(math.NaN())
				x.step(g)
			}
			var all []byte
			for _, y := range []tensor.Tensor{x.s.M, x.s.V} {
				all = append(all, bytesOf(t, d, y)...)
			}
			for _, y := range []tensor.Tensor{x.s.MScale, x.s.VScale} {
				for _, scale := range floats(t, d, y) { // all NaN are equal, whatever their bits
					all = append(all, fmt.Sprint(scale, " ")...)
				}
			}
			if first[f.name] == nil {
				first[f.name] = all
			} else if !bytes.Equal(all, first[f.name]) {
				t.Errorf("%s: the state is another than at the first level", f.name)
			}
		}
	})
}
