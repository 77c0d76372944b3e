package kernels_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestAdamWOnGPU takes the same steps on the CPU and on a GPU, in every form. Codes and their scales must have the same
// bits. Other results may differ because a multiplication and an addition may be fused.
func TestAdamWOnGPU(t *testing.T) {
	const n = 5*kernels.QuantBlockSize + 77
	gpu := kernels.Emulated(t, kernels.Options{})
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := filled(n, func(i int) float64 { return math.Sin(float64(i)) })
	for i, f := range append(slices.Clone(forms), halfGradients...) {
		a, b := f.stepper(t, d, w), f.stepper(t, gpu, w)
		for _, x := range []*stepper{a, b} {
			x.number, x.first, x.noDecay = 3, 1<<33+512, i%2 == 1
			x.c.Decay = 100 // times the learning rate: a tenth
		}
		for range 3 {
			g := gradients(n, a.c.Step)
			a.step(g)
			b.step(g)
			differ, there := 0, floats(t, gpu, b.w)
			for i, w := range floats(t, d, a.w) {
				if w != there[i] {
					differ++
				}
			}
			if f.weight.Half() && differ > n/100 {
				t.Errorf("%s, step %d: %d of %d weights are others on the GPU", f.name, a.c.Step, differ, n)
			}
			limit := map[bool]float64{true: 0x1p-7, false: 0x1p-15}[f.weight.Half() && f.master == 0]
			other := b.weights(t)
			for i, w := range a.weights(t) {
				if !(math.Abs(w-other[i]) <= limit*math.Abs(w)+1e-9) {
					t.Fatalf("%s, step %d: weight %d is %v, and %v on the GPU", f.name, a.c.Step, i, w, other[i])
				}
			}
			for i, x := range []tensor.Tensor{a.s.M, a.s.V, a.s.MScale, a.s.VScale} {
				y := []tensor.Tensor{b.s.M, b.s.V, b.s.MScale, b.s.VScale}[i]
				if f.codes {
					if !bytes.Equal(bytesOf(t, d, x), bytesOf(t, gpu, y)) {
						t.Fatalf("%s, step %d: %s has other bits on the GPU", f.name, a.c.Step, x.Name)
					}
					continue
				}
				if !x.Ok() {
					continue
				}
				other := floats(t, gpu, y)
				for i, m := range floats(t, d, x) {
					if !(math.Abs(m-other[i]) <= 1e-6*max(math.Abs(m), math.Abs(float64(g[i])))) {
						t.Fatalf("%s, step %d: %s[%d] is %v, and %v on the GPU", f.name, a.c.Step, x.Name, i, m, other[i])
					}
				}
			}
		}
	}
}

// TestAdamWHalfGradients checks that gradients of 16 bits give the same results as the same numbers in F32.
func TestAdamWHalfGradients(t *testing.T) {
	const n = 3*kernels.QuantBlockSize + 77
	run := func(t *testing.T, d *kernels.Device) {
		for _, f := range halfGradients {
			wide := f
			wide.gradient = 0
			w := filled(n, func(i int) float64 { return math.Sin(float64(i)) })
			a, b := f.stepper(t, d, w), wide.stepper(t, d, w)
			for range 2 {
				g := gradients(n, a.c.Step)
				for i := range g {
					g[i] = tensor.Round(g[i], f.gradient)
				}
				a.step(g)
				b.step(g)
			}
			if !bytes.Equal(a.bytes(t), b.bytes(t)) {
				t.Errorf("%s: the bits differ", f.name)
			}
		}
	}
	kernels.EachDeviceAndEmulated(t, run)
}

// TestAdamWAll checks that a step of a list of tensors equals steps of its tensors one by one. The tensors differ in
// form, size and number, and some are ranges of a tensor. One control scales the gradient and one skips the step.
func TestAdamWAll(t *testing.T) {
	run := func(t *testing.T, d *kernels.Device) {
		var one, all []*stepper
		var list []kernels.AdamWTensor
		for i, n := range []int{1, 256, 300, 5000, 4096, 511, 77, 7 * kernels.QuantBlockSize} {
			f := append(slices.Clone(forms), halfGradients...)[[]int{8, 7, 4, 8, 15, 15, 15, 8}[i]]
			w := filled(n, func(i int) float64 { return math.Sin(float64(i)) })
			a, b := f.stepper(t, d, w), f.stepper(t, d, w)
			a.number, b.number, a.noDecay, b.noDecay = i, i, i%2 == 1, i%2 == 1
			one, all = append(one, a), append(all, b)
			if x := b.tensor(); n > 4096 {
				list = append(list, x.Part(4096, n-4096), x.Part(0, 4096))
			} else {
				list = append(list, x)
			}
		}
		l := d.NewAdamWList(arena(t, d, 1<<12).New("list", tensor.U8, kernels.AdamWListSize(len(list))), list)
		for step := range 4 {
			c := control(t, d)
			loss := arena(t, d, 256).New("loss", tensor.F32, 1)
			d.Upload(loss, []float32{map[bool]float32{true: float32(math.NaN())}[step == 2]})
			d.AddLoss(c, loss)
			for i, x := range one {
				g := gradients(x.w.Len(), step+i)
				d.Upload(x.g, g)
				d.Upload(all[i].g, g)
				d.AddSquares(c, x.g)
			}
			apart, together := control(t, d), control(t, d)
			for _, x := range list {
				d.AddSquares(apart, x.G)
			}
			d.AddSquaresAll(together, l)
			if a, b := result(t, d, apart).Norm, result(t, d, together).Norm; !(math.Abs(a-b) <= 1e-13*a) {
				t.Errorf("step %d: the norm of all is %v, and %v tensor by tensor", step, b, a)
			}
			d.Decide(c, 0.3, 1)
			for _, x := range one {
				x.c.Control, x.c.Step = c, step+1
				d.AdamW(x.tensor(), x.c)
			}
			before := all[3].bytes(t)
			d.AdamWAll(l, one[0].c)
			if same := bytes.Equal(all[3].bytes(t), before); same != (step == 2) {
				t.Errorf("step %d: nothing changed is %v", step, same)
			}
			for i, x := range all {
				if !bytes.Equal(x.bytes(t), one[i].bytes(t)) {
					t.Errorf("step %d: tensor %d has other bits in the list", step, i)
				}
			}
		}
	}
	kernels.EachDeviceAndEmulated(t, run)
}

// result returns what a control decided.
func result(t *testing.T, d *kernels.Device, c kernels.Control) kernels.StepResult {
	t.Helper()
	r, err := d.Result(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAdamWAnywhere checks that a step of an unaligned tensor, with unaligned gradient and state, equals the step of
// the same tensor at the start of its memory.
func TestAdamWAnywhere(t *testing.T) {
	const n = 3*kernels.QuantBlockSize + 6
	run := func(t *testing.T, d *kernels.Device) {
		for _, f := range append(slices.Clone(forms), halfGradients...) {
			w, g := filled(n+1, func(i int) float64 { return math.Sin(float64(i)) }), gradients(n+1, 0)
			var all [2][]byte
			var norm [2]float64
			for skip := range all {
				x := f.stepper(t, d, w[1-skip:])
				d.Upload(x.g, g[1-skip:])
				y := x.tensor()
				for _, part := range []*tensor.Tensor{&y.W, &y.G, &y.State.M, &y.State.V, &y.State.Master} {
					if part.Ok() {
						*part = part.Part(skip, n)
					}
				}
				x.c.Step = 1
				d.AdamW(y, x.c)
				c := control(t, d)
				d.AddSquaresAll(c, d.NewAdamWList(arena(t, d, 256).New("list", tensor.U8, kernels.AdamWListSize(1)),
					[]kernels.AdamWTensor{y}))
				norm[skip] = result(t, d, c).Norm
				for _, z := range []tensor.Tensor{y.W, y.State.M, y.State.V, y.State.Master, y.State.MScale, y.State.VScale} {
					if z.Ok() {
						all[skip] = append(all[skip], bytesOf(t, d, z)...)
					}
				}
			}
			if !bytes.Equal(all[0], all[1]) {
				t.Errorf("%s: the bits depend on where the tensor lies", f.name)
			}
			// The alignment of a sum's terms decides their order, and so the last bits of a float64.
			if a, b := norm[0], norm[1]; !(math.Abs(a-b) <= 1e-13*a) {
				t.Errorf("%s: the norm is %v, and %v one element further on", f.name, a, b)
			}
		}
	}
	kernels.EachDeviceAndEmulated(t, run)
}
