package kernels

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// An opCase is one case of one operation. One list of them serves for parity with a float64 formula, for gradients by
// finite differences of that formula, for fused against unfused, for the number of threads, and for speed; on every
// device.
type opCase struct {
	op   string // as in errors and in FusedOps, if it is one of those
	name string // the shape and what is special about it
	// in and out are the operands. One that stands in both is changed in place.
	in, out []operand
	// forward and backward run the operation. The gradient of x is dx: that of an output is random, that of an input to be
	// computed. A nil backward has none.
	forward, backward func(d *Device, x tensors)
	// want is the formula: the outputs that are compared, in float64, from the inputs as they are stored.
	want func(x values) values
	// tolerance is the largest ‖got − want‖ / ‖want‖ of an output or a gradient. Default: tolerances[type of the output].
	tolerance float64
	// kernels are those that have to have run, and no others, unfused and fused. Nil: not compared.
	kernels [2][]string
	// What a run must move at least; 0 for cases that are not timed.
	forwardBytes, backwardBytes float64
}

type (
	tensors map[string]tensor.Tensor
	values  map[string][]float64
)

// An operand is one tensor of a case.
type operand struct {
	name  string
	t     tensor.DType
	shape []int
	grad  gradient
	// fill gives element i its value; default normal with deviation 1. Integers are its whole part.
	fill func(r *rand.Rand, i int) float64
}

// gradient says what becomes of an input's gradient, and whether an output has one.
type gradient int

const (
	none        gradient = iota
	overwritten          // dx = …, as activations have; for outputs: there is one
	accumulated          // dw += …, as parameters have, in F32
)

// act and par are inputs with gradients of the two kinds.
func act(name string, t tensor.DType, shape ...int) operand {
	return operand{name: name, t: t, shape: shape, grad: overwritten}
}

func par(name string, t tensor.DType, shape ...int) operand {
	return operand{name: name, t: t, shape: shape, grad: accumulated}
}

// plain is an operand without a gradient.
func plain(name string, t tensor.DType, shape ...int) operand {
	return operand{name: name, t: t, shape: shape}
}

// tolerances by the type of what is stored. F32: sums of a few thousand terms lose a few units of 2⁻²⁴; BF16: one rounding
// is off by 2⁻⁹ at most, 2⁻⁹/√3 on average, and gradients see two or three of them.
var tolerances = map[tensor.DType]float64{tensor.F32: 2e-6, tensor.BF16: 6e-3}

// eachDevice runs f on every device and instruction set that there is. With RESTYLE_TEST_DEVICE set, on that one alone,
// which has to be there.
func eachDevice(t *testing.T, f func(t *testing.T, d *Device)) {
	t.Helper()
	open := func(t *testing.T, name string, o Options) {
		d, err := Open(name, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // behind the arenas that f closes in this way
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		f(t, d)
	}
	if name := os.Getenv("RESTYLE_TEST_DEVICE"); name != "" {
		t.Run(name, func(t *testing.T) { open(t, name, Options{}) })
		return
	}
	for _, l := range cpu.Levels() {
		t.Run(l.String(), func(t *testing.T) { open(t, "cpu", Options{Level: l.String(), Threads: 1}) })
	}
}

// both are the types that operations compute in.
var both = []tensor.DType{tensor.F32, tensor.BF16}

// testOps proves a list of cases on every device.
func testOps(t *testing.T, cases []opCase) {
	t.Helper()
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, c := range cases {
			modes := []bool{false}
			if slices.Contains(FusedOps, c.op) {
				modes = []bool{false, true}
			}
			for _, fused := range modes {
				name := c.op + " " + c.name
				if fused {
					name += " fused"
				}
				t.Run(name, func(t *testing.T) { c.test(t, d, fused) })
			}
		}
	})
}

// run is a case with its operands in memory.
type run struct {
	c     opCase
	x     tensors
	at    values            // inputs as they are stored
	begin map[string][]byte // what gradients were before
	arena *Arena
	guard []tensor.Tensor
}

const guardByte = 0xA5

// place stores a case's operands, outputs and gradients that are to be overwritten as NaN, with guards between them.
func (c opCase) place(t testing.TB, d *Device) *run {
	t.Helper()
	r := &run{c: c, x: tensors{}, at: values{}, begin: map[string][]byte{}}
	all := func(a *Arena, use func(o operand, x tensor.Tensor, out bool)) {
		cut := func(o operand, out bool) {
			x := a.New(o.name, o.t, o.shape...)
			g := a.New("guard", tensor.U8, align)
			if use != nil {
				r.guard = append(r.guard, g)
				use(o, x, out)
			}
		}
		for _, o := range c.in {
			cut(o, false)
		}
		for _, o := range c.out {
			if !slices.ContainsFunc(c.in, func(i operand) bool { return i.name == o.name }) {
				cut(o, true)
			}
		}
		for _, o := range append(slices.Clone(c.in), c.out...) {
			if o.grad != none && (use == nil || !r.x["d"+o.name].Ok()) {
				g := operand{name: "d" + o.name, t: o.t, shape: o.shape, grad: o.grad}
				if o.grad == accumulated {
					g.t = tensor.F32
				}
				cut(g, true)
			}
		}
	}
	var err error
	r.arena, err = d.NewArena("case", SizeOf(func(a *Arena) { all(a, nil) }))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(c.name))))
	store := func(o operand, x tensor.Tensor) []float64 {
		v := make([]float64, x.Len())
		f32, i32 := make([]float32, len(v)), make([]int32, len(v))
		for i := range v {
			if o.fill != nil {
				v[i] = o.fill(rng, i)
			} else {
				v[i] = rng.NormFloat64()
			}
			f32[i], i32[i] = float32(v[i]), int32(v[i])
			if o.t == tensor.BF16 {
				f32[i] = tensor.Round(f32[i])
			}
			if o.t != tensor.I32 {
				v[i] = float64(f32[i])
			}
		}
		if o.t == tensor.I32 {
			d.UploadI32(x, i32)
		} else {
			d.Upload(x, f32)
		}
		return v
	}
	all(r.arena, func(o operand, x tensor.Tensor, out bool) {
		r.x[o.name] = x
		switch {
		case !out:
			r.at[o.name] = store(o, x)
		case o.name[0] == 'd' && (o.grad == accumulated || slices.ContainsFunc(c.out, func(p operand) bool { return "d"+p.name == o.name })):
			r.at[o.name] = store(o, x)
		default:
			d.UploadBytes(x, bytes.Repeat([]byte{0xFF}, x.Bytes()))
		}
		d.UploadBytes(r.guard[len(r.guard)-1], bytes.Repeat([]byte{guardByte}, align))
	})
	return r
}

// bytesOf is a tensor's memory, read back.
func bytesOf(t testing.TB, d *Device, x tensor.Tensor) []byte {
	t.Helper()
	b := make([]byte, x.Bytes())
	if err := d.DownloadBytes(b, x); err != nil {
		t.Fatal(err)
	}
	return b
}

// distance is ‖got − want‖ / ‖want‖, and infinite when one is no number. Where want is all zero, it is ‖got‖.
func distance(got, want []float64) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += (got[i] - w) * (got[i] - w)
		norm += w * w
	}
	if norm > 0 {
		diff /= norm
	}
	if math.IsNaN(diff) {
		return math.Inf(1)
	}
	return math.Sqrt(diff)
}

func floats(t testing.TB, d *Device, x tensor.Tensor) []float64 {
	t.Helper()
	f, err := d.Floats(x)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float64, len(f))
	for i := range f {
		v[i] = float64(f[i])
	}
	return v
}

func (c opCase) test(t *testing.T, d *Device, fused bool) {
	if fused {
		d.SetFused(All())
	} else {
		d.SetFused(nil)
	}
	r := c.place(t, d)
	defer func() {
		if err := r.arena.Close(); err != nil {
			t.Error(err)
		}
	}()
	d.Counts()
	c.forward(d, r.x)

	want := c.want(r.at)
	for _, o := range c.out {
		w, compared := want[o.name]
		if !compared {
			continue
		}
		limit := c.tolerance
		if limit == 0 {
			limit = tolerances[o.t]
		}
		if e := distance(floats(t, d, r.x[o.name]), w); e > limit {
			t.Errorf("%s is off by %.3g, limit %.1g", o.name, e, limit)
		}
	}
	if c.backward != nil {
		c.backward(d, r.x)
		c.testGradients(t, d, r)
	}
	if ran := c.kernels[btoi(fused)]; ran != nil {
		counts := d.Counts()
		for _, k := range ran {
			if counts[k] == 0 {
				t.Errorf("kernel %s did not run: %v", k, counts)
			}
			delete(counts, k)
		}
		if len(counts) > 0 {
			t.Errorf("these ran too: %v", counts)
		}
	}
	for i, g := range r.guard {
		if b := bytesOf(t, d, g); bytes.Count(b, []byte{guardByte}) != len(b) {
			t.Errorf("operand %d was written beyond its end", i)
		}
	}
	if d.IsCPU() {
		c.testThreads(t, d, r)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// testGradients compares gradients with central differences of the formula in float64: L = Σ dy·y over the outputs that
// have one, at up to 40 elements of each input.
func (c opCase) testGradients(t *testing.T, d *Device, r *run) {
	loss := func(x values) (sum float64) {
		y := c.want(x)
		for _, o := range c.out {
			if o.grad != none {
				dy := r.at["d"+o.name]
				for i, v := range y[o.name] {
					sum += v * dy[i]
				}
			}
		}
		return sum
	}
	rng := rand.New(rand.NewPCG(2, 3))
	for _, o := range c.in {
		if o.grad == none {
			continue
		}
		all := floats(t, d, r.x["d"+o.name])
		x := r.at[o.name]
		samples := rng.Perm(len(x))
		var got, numeric []float64
		for _, i := range samples[:min(40, len(x))] {
			at, h := x[i], 1e-5*max(1, math.Abs(x[i]))
			x[i] = at + h
			up := loss(r.at)
			x[i] = at - h
			down := loss(r.at)
			x[i] = at
			g := all[i]
			if o.grad == accumulated {
				g -= r.at["d"+o.name][i]
			}
			got, numeric = append(got, g), append(numeric, (up-down)/(2*h))
		}
		limit := c.tolerance
		if limit == 0 {
			limit = tolerances[o.t]
		}
		// The differences themselves are good to about 1e-9 of the loss over h.
		if e := distance(got, numeric); e > max(limit, 1e-6)*2 {
			t.Errorf("d%s is off by %.3g, limit %.1g", o.name, e, 2*limit)
		}
		for i, g := range all {
			if math.IsNaN(g) {
				t.Errorf("d%s[%d] was not written", o.name, i)
				break
			}
		}
	}
}

// testThreads runs a case again with more threads and wants the same bytes.
func (c opCase) testThreads(t *testing.T, d *Device, first *run) {
	if err := cpu.SetThreads(3); err != nil {
		t.Fatal(err)
	}
	defer cpu.SetThreads(1)
	again := c.place(t, d)
	defer again.arena.Close()
	c.forward(d, again.x)
	if c.backward != nil {
		c.backward(d, again.x)
	}
	for name, x := range again.x {
		if !bytes.Equal(bytesOf(t, d, x), bytesOf(t, d, first.x[name])) {
			t.Errorf("%s is another with three threads", name)
		}
	}
	d.Counts()
}

// label is a case's name from its type and sizes.
func label(t tensor.DType, sizes ...any) string {
	s := t.String()
	for i, n := range sizes {
		s += [2]string{"x", " "}[btoi(i == 0)] + fmt.Sprint(n)
	}
	return s
}
