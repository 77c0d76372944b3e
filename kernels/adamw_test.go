package kernels

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// adamWCase has moments in F32, and a master in F32 behind a BF16 weight where master says so.
func adamWCase(t tensor.DType, n, step int, master bool) opCase {
	c := AdamWStep{LR: 0.3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, GradScale: 0.25, Step: step}
	state := func(name string) operand {
		return operand{name: name, t: tensor.F32, shape: []int{n}, fill: func(r *rand.Rand, i int) float64 {
			if i%5 == 0 {
				return 0 // as before the first step
			}
			return r.Float64()
		}}
	}
	w, m, v := plain("w", t, n), state("m"), state("v")
	k := opCase{
		op: "adamw", name: label(t, n) + fmt.Sprint(" step ", step),
		in:  []operand{w, m, v, plain("g", tensor.F32, n)},
		out: []operand{w, m, v},
		forward: func(d *Device, x tensors) {
			d.AdamW(x["w"], x["g"], AdamWState{M: x["m"], V: x["v"], Master: x["master"]}, c)
		},
		want: func(x values) values {
			from := x["w"]
			if master {
				from = x["master"]
			}
			w, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
			for i, g := range x["g"] {
				w[i], m[i], v[i] = adamW64(from[i], x["m"][i], x["v"][i], g, c)
			}
			if master {
				return values{"w": w, "m": m, "v": v, "master": w}
			}
			return values{"w": w, "m": m, "v": v}
		},
		tolerance: map[tensor.DType]float64{tensor.F32: 5e-7, tensor.BF16: 0x1p-8}[t], // one rounding; m and v are F32
		kernels:   [2][]string{{"adamw"}},
	}
	k.forwardBytes = k.bytes("w", "w", "m", "m", "v", "v", "g")
	if master {
		k.name += " master"
		k.in = append(k.in, plain("master", tensor.F32, n))
		k.out = append(k.out, k.in[4])
		k.forwardBytes += k.bytes("master", "master") - k.bytes("w") // w is written alone
	}
	return k
}

// adamW64 is the formula for one element.
func adamW64(w, m, v, g float64, c AdamWStep) (w1, m1, v1 float64) {
	g *= c.GradScale
	m = c.Beta1*m + (1-c.Beta1)*g
	v = c.Beta2*v + (1-c.Beta2)*g*g
	mHat, vHat := m/(1-math.Pow(c.Beta1, float64(c.Step))), v/(1-math.Pow(c.Beta2, float64(c.Step)))
	return w*(1-c.LR*c.Decay) - c.LR*mHat/(math.Sqrt(vHat)+c.Eps), m, v
}

func TestAdamW(t *testing.T) {
	var cases []opCase
	for _, n := range []int{1, 7, 64, 255, 256, 257, 5003} {
		for _, step := range []int{1, 10, 100000} {
			cases = append(cases, adamWCase(tensor.F32, n, step, false), adamWCase(tensor.BF16, n, step, false),
				adamWCase(tensor.BF16, n, step, true))
		}
	}
	testOps(t, cases)
}

// gradients of a step: zeros, ordinary ones, and blocks that span many decades.
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

// TestAdamWForms compares one step after the other with the formula in float64, each from the state that the one before it
// left.
func TestAdamWForms(t *testing.T) {
	// The largest relative error of a weight, beside that of the update: how it is rounded; in float32, after decay too.
	rounding := map[tensor.DType]float64{tensor.F32: 0x1p-22, tensor.BF16: 0x1p-8 + 0x1p-23}
	eachDevice(t, func(t *testing.T, d *Device) {
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
						off = 0x1p-16 // half of the last of 16 bits, and the float32 before
					case f.stochastic:
						off *= 2
					}
					var exactM, exactRoot []float64
					for i := range w {
						w1, m1, v1 := adamW64(w[i], m[i], root[i]*root[i], float64(g[i]), x.c)
						exactM, exactRoot = append(exactM, m1), append(exactRoot, math.Sqrt(v1))
						limit := off*math.Abs(w1) + 2e-6*math.Abs(w1-w[i])
						if f.bnb { // 1 − 0.999 in float32 is 4.7e-5 more, its root half of that; and it rounds twice
							limit += off*math.Abs(w1) + 1e-4*math.Abs(w1-w[i])
						}
						if math.Abs(moved[i]-w1) > limit {
							t.Fatalf("%s, %d elements, step %d: weight %d went from %v to %v, want %v", f.name, n, x.c.Step, i, w[i], moved[i], w1)
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
						if e := math.Abs(newRoot[i] - exactRoot[i]); e > 3e-5*exactRoot[i]+1e-22 { // as above, in bnb; below, v is subnormal
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

// checkCodes wants each moment at the nearest number of its map, scales that are the blocks' largest, and no √v that became
// nothing.
func (x *stepper) checkCodes(t *testing.T, exactM, exactRoot, m, root []float64) {
	t.Helper()
	mapM, mapV := DynamicMap(true), DynamicMap(false)
	codesM, codesV := bytesOf(t, x.d, x.s.M), bytesOf(t, x.d, x.s.V)
	scaleM, scaleV := floats(t, x.d, x.s.MScale), floats(t, x.d, x.s.VScale)
	for b := range scaleM {
		lo, hi := b*QuantizeBlock, min(len(m), (b+1)*QuantizeBlock)
		var largestM, largestV float64
		for i := lo; i < hi; i++ {
			v := exactRoot[i]
			if x.f.bnb {
				v *= v
			}
			largestM, largestV = max(largestM, math.Abs(exactM[i])), max(largestV, v)
		}
		if math.Abs(scaleM[b]-largestM) > 3e-6*largestM || math.Abs(scaleV[b]-largestV) > 1e-4*largestV {
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
				// A sign rule takes the nearest of its sign; a v that must not be 0 the least that is not.
				if x.f.bnb && c.what == "m" || c.code == 1 {
					best = max(best, 5.5e-7*c.scale)
				}
				if e := math.Abs(c.kept - c.exact); e > best+c.slack*math.Abs(c.exact)+1e-12*c.scale {
					t.Fatalf("%s: %s[%d] is %v and was kept as %v, code %d: %v away, and the nearest is %v", x.f.name, c.what, i, c.exact, c.kept, c.code, e, best)
				}
			}
		}
	}
}

// TestAdamWThreads wants the same bits from any number of threads.
func TestAdamWThreads(t *testing.T) {
	d, err := Open("cpu", Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range forms {
		var first []byte
		for _, threads := range []int{1, 2, 3} {
			if err := cpu.SetThreads(threads); err != nil {
				t.Fatal(err)
			}
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
	if err := cpu.SetThreads(1); err != nil {
		t.Fatal(err)
	}
}

// TestAdamWAtRest has gradients of zero from the first step on: nothing but decay happens, and no 0/0.
func TestAdamWAtRest(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
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

// TestAdamWEnd has moments that become nothing in a block that the tensor ends in. What lies beyond the end counts for nothing,
// but in bitsandbytes, which takes it for elements of code 128.
func TestAdamWEnd(t *testing.T) {
	const n = QuantizeBlock + 1
	zero, scales := bytes.Repeat([]byte{127}, n), []float32{1, 1}
	eachDevice(t, func(t *testing.T, d *Device) {
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
				want[1] = float64(float32(x.c.Beta1) * DynamicMap(true)[128])
			}
			if got := floats(t, d, x.s.MScale); !slices.Equal(got, want) {
				t.Errorf("%s: the scales of m are %v, want %v", f.name, got, want)
			}
		}
	})
}

// TestAdamWSpoiled: a gradient that is not finite shows, within two steps, in all of its block; bitsandbytes hides it.
func TestAdamWSpoiled(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
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
						if i/QuantizeBlock != 1 {
							t.Errorf("%s: %v spoiled weight %d of another block", f.name, bad, i)
						}
					}
				}
				want := 1
				if f.codes {
					want = QuantizeBlock
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
	d, err := Open("cpu", Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := arena(t, d, 1<<16)
	n := 300
	f32, half, codes := a.New("f32", tensor.F32, n), a.New("half", tensor.BF16, n), a.New("codes", tensor.U8, n)
	scale, short := a.New("scale", tensor.F32, 2), a.New("short", tensor.F32, 1)
	eight := AdamWState{M: codes, V: codes, MScale: scale, VScale: scale}
	with := func(s AdamWState, f func(*AdamWState)) AdamWState { f(&s); return s }
	for _, c := range []struct {
		name, want string
		w, g       tensor.Tensor
		s          AdamWState
		step       AdamWStep
	}{
		{"no step", "AdamW: step 0 is before the first", f32, f32, AdamWState{M: f32, V: f32}, AdamWStep{}},
		{"codes for a weight", "AdamW: w is codes", codes, f32, eight, AdamWStep{Step: 1}},
		{"short gradient", "AdamW: g is short", f32, short, eight, AdamWStep{Step: 1}},
		{"codes without scales", "AdamW: m is codes", f32, f32, AdamWState{M: codes, V: codes}, AdamWStep{Step: 1}},
		{"one scale", "AdamW: the scale of v is", f32, f32, with(eight, func(s *AdamWState) { s.VScale = tensor.Tensor{} }), AdamWStep{Step: 1}},
		{"too few scales", "AdamW: the scale of m is short", f32, f32, with(eight, func(s *AdamWState) { s.MScale = short }), AdamWStep{Step: 1}},
		{"master of F32", "AdamW: f32 F32[300] has a master", f32, f32, with(eight, func(s *AdamWState) { s.Master = f32 }), AdamWStep{Step: 1}},
		{"short master", "AdamW: the master is short", half, f32, with(eight, func(s *AdamWState) { s.Master = short }), AdamWStep{Step: 1}},
		{"short residual", "AdamW: the residual is", half, f32, with(eight, func(s *AdamWState) { s.Master = codes.Slice(0, 5) }), AdamWStep{Step: 1}},
		{"bnb and random", "AdamW: BNB rounds to nearest", half, f32, eight, AdamWStep{Step: 1, BNB: true, Stochastic: true}},
		{"bnb and master", "AdamW: half BF16[300] has a master", half, f32, with(eight, func(s *AdamWState) { s.Master = f32 }), AdamWStep{Step: 1, BNB: true}},
	} {
		mustPanic(t, c.name, c.want, func() { d.AdamW(c.w, c.g, c.s, c.step) })
	}
}

// TestAdamWLevels wants the same state from every level where it is codes: also from gradients whose squares are infinite,
// and from ones that are no numbers.
func TestAdamWLevels(t *testing.T) {
	const n = 5*QuantizeBlock + 77
	first := map[string][]byte{}
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, f := range forms {
			if !f.codes {
				continue
			}
			x := f.stepper(t, d, filled(n, func(i int) float64 { return math.Sin(float64(i)) }))
			for range 3 {
				g := gradients(n, x.c.Step)
				g[QuantizeBlock+9] = 1e25
				g[2*QuantizeBlock+9] = float32(math.Inf(-1))
				g[3*QuantizeBlock+9] = float32(math.NaN())
				x.step(g)
			}
			var all []byte
			for _, y := range []tensor.Tensor{x.s.M, x.s.V} {
				all = append(all, bytesOf(t, d, y)...)
			}
			for _, y := range []tensor.Tensor{x.s.MScale, x.s.VScale} {
				for _, scale := range floats(t, d, y) { // a NaN is one, whatever its bits
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
