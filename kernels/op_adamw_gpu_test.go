package kernels_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestAdamWOnGPU takes the same steps on the CPU and on a GPU, in every form. Codes and their scales must have the same
// bits. Other results may differ because a multiplication and an addition may be fused.
func TestAdamWOnGPU(t *testing.T) {
	const n = 5*kernels.QuantBlockSize + 77
	gpu := kernels.Emulated(t, kernels.Options{})
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
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
		var sums []tensor.Tensor
		for i, n := range []int{1, 256, 300, 5000, 4096, 511, 77, 7 * kernels.QuantBlockSize} {
			f := append(slices.Clone(forms), halfGradients...)[[]int{8, 7, 4, 8, 15, 15, 15, 8}[i]]
			w := filled(n, func(i int) float64 { return math.Sin(float64(i)) })
			a, b := f.stepper(t, d, w), f.stepper(t, d, w)
			a.number, b.number, a.noDecay, b.noDecay = i, i, i%2 == 1, i%2 == 1
			one, all = append(one, a), append(all, b)
			x := b.tensor()
			x.Sums = arena(t, d, 1<<13).New("sums", tensor.F64, kernels.SquaresUnits(n))
			sums = append(sums, x.Sums)
			if n > 4096 {
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
			d.SquaresAll(l)
			for _, x := range sums {
				d.AddSums(together, x)
			}
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
	expect.OK(t, err)
	return r
}

// squares returns the partial sums of squares of whole tensors. Each is computed range by range, with the last first,
// of as many units as cuts says in turn, or of all units if cuts is empty.
func squares(t *testing.T, d *kernels.Device, tensors []kernels.AdamWTensor, cuts ...int) (all []tensor.Tensor) {
	t.Helper()
	var list []kernels.AdamWTensor
	for _, x := range tensors {
		units := kernels.SquaresUnits(x.W.Len())
		x.Sums = arena(t, d, 1<<13).New("sums", tensor.F64, units)
		all = append(all, x.Sums)
		unit := kernels.SquaresUnit(x.W.Len())
		for first, i := 0, 0; first < units; i++ {
			n := units
			if len(cuts) > 0 {
				n = cuts[i%len(cuts)]
			}
			part := x.Part(first*unit, min(n*unit, x.W.Len()-first*unit))
			list = append(list, part)
			first += n
		}
	}
	slices.Reverse(list)
	d.SquaresAll(d.NewAdamWList(arena(t, d, 1<<18).New("list", tensor.U8, kernels.AdamWListSize(len(list))), list))
	return all
}

// TestSquaresAll compares each unit's sum with the sum in float64, and checks that it has the same bits however the
// tensors are cut, one by one or in a list of several, and with any number of threads. Units have 256, 512 and 1,024
// elements.
func TestSquaresAll(t *testing.T) {
	sizes := []int{1, 300, 512, 256*1024 + 1, 512*1024 + 257}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			var list []kernels.AdamWTensor
			for _, n := range sizes {
				a := arena(t, d, 16*n+1<<10)
				x := kernels.AdamWTensor{W: a.New("w", typ, n), G: a.New("g", typ, n),
					State: kernels.AdamWState{M: a.New("m", tensor.F32, n), V: a.New("v", tensor.F32, n)}}
				d.Upload(x.G, gradients(n, 1))
				list = append(list, x)
			}
			whole, cut := squares(t, d, list), squares(t, d, list, 1, 299, 5)
			for i, x := range list {
				unit, g := kernels.SquaresUnit(sizes[i]), floats(t, d, x.G)
				want := bytesOf(t, d, whole[i])
				alone := squares(t, d, list[i:i+1])[0]
				if !bytes.Equal(bytesOf(t, d, cut[i]), want) || !bytes.Equal(bytesOf(t, d, alone), want) {
					t.Errorf("%v, %d elements: the bits depend on how the tensor is cut", typ, sizes[i])
				}
				for u := range whole[i].Len() {
					var sum float64
					for _, v := range g[u*unit : min((u+1)*unit, len(g))] {
						sum += v * v
					}
					got := math.Float64frombits(binary.LittleEndian.Uint64(want[8*u:]))
					if got != sum && !(math.Abs(got-sum) <= 1e-13*sum) { // both are float64, in different orders
						t.Fatalf("%v, %d elements: unit %d has %v, want %v", typ, sizes[i], u, got, sum)
					}
				}
			}
		}
	})
	for n, unit := range map[int]int{0: 256, 1: 256, 1 << 18: 256, 1<<18 + 1: 512, 1 << 28: 1 << 18} {
		if got := kernels.SquaresUnit(n); got != unit {
			t.Errorf("a unit of %d elements is %d, want %d", n, got, unit)
		}
	}
}

// TestAdamWAnywhere checks that a step of an unaligned tensor, with unaligned gradient and state, equals the step of
// the same tensor at the start of its memory, and so do the sums of its squares.
func TestAdamWAnywhere(t *testing.T) {
	const n = 3*kernels.QuantBlockSize + 6
	run := func(t *testing.T, d *kernels.Device) {
		for _, f := range append(slices.Clone(forms), halfGradients...) {
			w, g := filled(n+1, func(i int) float64 { return math.Sin(float64(i)) }), gradients(n+1, 0)
			var all [2][]byte
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
				y.Sums = squares(t, d, []kernels.AdamWTensor{y})[0]
				for _, z := range []tensor.Tensor{y.W, y.State.M, y.State.V, y.State.Master, y.State.MScale, y.State.VScale,
					y.Sums} {
					if z.Ok() {
						all[skip] = append(all[skip], bytesOf(t, d, z)...)
					}
				}
			}
			if !bytes.Equal(all[0], all[1]) {
				t.Errorf("%s: the bits depend on where the tensor lies", f.name)
			}
		}
	}
	kernels.EachDeviceAndEmulated(t, run)
}
