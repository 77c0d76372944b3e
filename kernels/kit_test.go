package kernels

import (
	"bytes"
	"fmt"
	"hash/fnv"
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
	// elements is how far each element may be off, by the names of outputs and gradients. Default: elementLimits[its type].
	elements map[string]limit
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
// is off by 2⁻⁸ at most, by about 2⁻⁸/√6 on average, and gradients see two or three of them.
var tolerances = map[tensor.DType]float64{tensor.F32: 2e-6, tensor.BF16: 6e-3}

// A limit is how far one element may be off: relative to itself, and to the root mean square of its tensor.
type limit struct{ relative, rms float64 }

// elementLimits by the type of what is stored. F32: a few products are rounded by 2⁻²⁴ each. A sum of n terms of deviation 1 has
// the root mean square √n and rounds n times by up to 2⁻²⁴ of what it is so far: as these are as often up as down, by √n · 2⁻²⁴
// of √n in all, which for 4,096 terms is 2⁻¹⁸; 2⁻¹⁷ leaves room for the worst of many elements. BF16: the same in float32, and
// one rounding of 2⁻⁸. What is rounded more often, or sums what was rounded, has a limit of its own.
var elementLimits = map[tensor.DType]limit{tensor.F32: {0x1p-21, 0x1p-17}, tensor.BF16: {0x1p-8 + 0x1p-14, 0x1p-17}}

// farthest returns the element that is farthest off, as a multiple of what it may be off by.
func (l limit) farthest(got, want []float64) (at int, times float64) {
	sum := 0.0
	for _, w := range want {
		sum += w * w
	}
	rms := math.Sqrt(sum / float64(len(want)))
	for i, w := range want {
		off := math.Abs(got[i] - w)
		if n := off / (l.relative*math.Abs(w) + l.rms*rms); n > times || math.IsNaN(off) {
			at, times = i, n
		}
	}
	return at, times
}

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
		guardScratch(t, d)
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
	formulas := map[string]*formula{}
	for _, c := range cases {
		if formulas[c.id()] != nil {
			t.Fatalf("two cases are %s", c.id())
		}
		formulas[c.id()] = &formula{gradients: map[string]gradientSample{}}
	}
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, c := range cases {
			modes := []bool{false}
			if slices.Contains(FusedOps, c.op) {
				modes = []bool{false, true}
			}
			for _, fused := range modes {
				name := c.id()
				if fused {
					name += " fused"
				}
				t.Run(name, func(t *testing.T) { c.test(t, d, fused, formulas[c.id()]) })
			}
		}
	})
}

// id is a case's name among all.
func (c opCase) id() string { return c.op + " " + c.name }

// A formula is what a case's formula gives, which is the same on every device: the outputs, and parts of the gradients.
type formula struct {
	outputs   values
	gradients map[string]gradientSample // by the input
}

// A gradientSample is the gradient at some elements of an input.
type gradientSample struct {
	at     []int
	values []float64
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
	hash := fnv.New64a()
	hash.Write([]byte(c.id()))
	rng := rand.New(rand.NewPCG(1, hash.Sum64())) // of its own: other cases come and go
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

func (c opCase) test(t *testing.T, d *Device, fused bool, f *formula) {
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
	if f.outputs == nil {
		f.outputs = c.want(r.at)
	}
	d.Counts()
	c.forward(d, r.x)
	for _, o := range c.out {
		if want, compared := f.outputs[o.name]; compared {
			c.compare(t, o.name, o.t, floats(t, d, r.x[o.name]), want)
		}
	}
	if c.backward != nil {
		c.backward(d, r.x)
		c.testGradients(t, d, r, f)
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

// compare wants values of a type to be near what the formula gives: all together, and each of them.
func (c opCase) compare(t *testing.T, name string, typ tensor.DType, got, want []float64) {
	t.Helper()
	tolerance := c.tolerance
	if tolerance == 0 {
		tolerance = tolerances[typ]
	}
	if e := distance(got, want); !(e <= tolerance) {
		t.Errorf("%s is off by %.3g, limit %.1g", name, e, tolerance)
	}
	c.compareEach(t, name, typ, got, want)
}

// compareEach is compare for each element alone.
func (c opCase) compareEach(t *testing.T, name string, typ tensor.DType, got, want []float64) {
	t.Helper()
	l, own := c.elements[name]
	if !own {
		l = elementLimits[typ]
	}
	if i, n := l.farthest(got, want); !(n <= 1) {
		t.Errorf("%s: %s[%d] is %g, want %g, %.3g times as far off as it may be", c.id(), name, i, got[i], want[i], n)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// testGradients compares gradients with central differences of the formula in float64, L = Σ dy·y over the outputs that have
// one: at all elements of a small input, and at some of a large one.
func (c opCase) testGradients(t *testing.T, d *Device, r *run, f *formula) {
	for _, o := range c.in {
		if o.grad == none {
			continue
		}
		s, ok := f.gradients[o.name]
		if !ok {
			s = c.differences(r.at, o.name)
			f.gradients[o.name] = s
		}
		all := floats(t, d, r.x["d"+o.name])
		got, typ := make([]float64, len(s.at)), o.t
		for k, i := range s.at {
			got[k] = all[i]
			if o.grad == accumulated {
				got[k] -= r.at["d"+o.name][i]
				typ = tensor.F32
			}
		}
		c.compare(t, "d"+o.name, typ, got, s.values) // differences are good to about 1e-9 of the loss
		for i, g := range all {
			if math.IsNaN(g) {
				t.Errorf("d%s[%d] was not written", o.name, i)
				break
			}
		}
	}
}

// differences is the gradient of an input at up to 40 of its elements, or more, up to all, while the formula is computed for no
// more than a million elements in all.
func (c opCase) differences(at values, input string) (s gradientSample) {
	loss := func() (sum float64) {
		y := c.want(at)
		for _, o := range c.out {
			if o.grad != none {
				dy := at["d"+o.name]
				for i, v := range y[o.name] {
					sum += v * dy[i]
				}
			}
		}
		return sum
	}
	x, size := at[input], 0
	for _, v := range at {
		size += len(v)
	}
	n := min(max(40, 1<<20/size), len(x))
	s.at = rand.New(rand.NewPCG(2, 3)).Perm(len(x))[:n]
	for _, i := range s.at {
		v, h := x[i], 1e-5*max(1, math.Abs(x[i]))
		x[i] = v + h
		up := loss()
		x[i] = v - h
		down := loss()
		x[i] = v
		s.values = append(s.values, (up-down)/(2*h))
	}
	return s
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
