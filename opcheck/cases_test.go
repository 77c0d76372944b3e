package opcheck

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// TestCases_AreUnique checks that each case is unique, each operation has cases of both types, and --op can take its
// name.
func TestCases_AreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range every() {
		if seen[c.ID()] {
			t.Errorf("two cases are %s", c.ID())
		}
		seen[c.ID()] = true
	}
	for _, op := range append(slices.Clone(kernels.FusedOps), Ops(every())...) {
		list := everyOf(op)
		for _, typ := range Types {
			if typ != tensor.F32 && (op == "quantize" || op == "draw") {
				continue // which have operands of no other type: logits are F32 in every model
			}
			if !slices.ContainsFunc(list, func(c *Case) bool { return c.Type == typ }) {
				t.Errorf("no case of %s with %v", op, typ)
			}
		}
		if strings.ContainsAny(op, ", ") {
			t.Errorf("the name %q", op)
		}
	}
}

// TestCases_HaveEveryKernel checks that each kernel that a device counts is in some case. What a Control adds up and
// decides is read as a StepResult, and has its own tests. Decoding kernels run only in some sizes of their cases, and
// other kernels in the other sizes.
func TestCases_HaveEveryKernel(t *testing.T) {
	listed := []string{"add_squares", "squares", "add_sums", "add_loss", "decide", "norm_linear", "norm_swiglu",
		"attention_next"}
	for _, c := range every() {
		listed = append(append(listed, c.Kernels[0]...), c.Kernels[1]...)
	}
	files, err := filepath.Glob("../kernels/*.go")
	expect.OK(t, err)
	counted := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		expect.OK(t, err)
		for _, m := range regexp.MustCompile(`\.(?:ran|products)\("(\w+)"`).FindAllSubmatch(text, -1) {
			if counted++; !slices.Contains(listed, string(m[1])) {
				t.Errorf("%s: no case has the kernel %s", f, m[1])
			}
		}
	}
	if counted < 30 {
		t.Errorf("only %d kernels were seen", counted)
	}
}

func open(t *testing.T) *kernels.Device {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{Threads: 1})
	expect.OK(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// double returns the case y = 2x, forward and backward, computed by the host: a correct case, which the tests below
// spoil.
func double() *Case {
	twice := func(y, x tensor.Tensor) {
		for i, v := range x.F32() {
			y.F32()[i] = 2 * v
		}
	}
	return &Case{
		Op: "swiglu", Type: tensor.F32, Name: "double",
		In:       []Operand{act("x", tensor.F32, 3, 5)},
		Out:      []Operand{act("y", tensor.F32, 3, 5)},
		Forward:  func(_ *kernels.Device, x Tensors) { twice(x["y"], x["x"]) },
		Backward: func(_ *kernels.Device, x Tensors) { twice(x["dx"], x["dy"]) },
		Want: func(x Values) Values {
			y := make([]float64, len(x["x"]))
			for i, v := range x["x"] {
				y[i] = 2 * v
			}
			return Values{"y": y}
		},
	}
}

// TestCheck_FindsEachFault spoils a correct case in every way that Check looks for, and checks that each fault is
// found, and in the right direction.
func TestCheck_FindsEachFault(t *testing.T) {
	d := open(t)
	// then makes a pass call more after it.
	then := func(pass *func(*kernels.Device, Tensors), more func(d *kernels.Device, x Tensors)) {
		right := *pass
		*pass = func(d *kernels.Device, x Tensors) { right(d, x); more(d, x) }
	}
	for _, test := range []struct {
		name              string
		spoil             func(c *Case)
		forward, backward string // start of the first fault, or ""
	}{
		{"nothing", func(*Case) {}, "", ""},
		{"all of the output", func(c *Case) {
			then(&c.Forward, func(_ *kernels.Device, x Tensors) { copy(x["y"].F32(), x["x"].F32()) })
		}, "y is off by 0.5, limit 2e-06", ""},
		{"one element", func(c *Case) {
			then(&c.Forward, func(_ *kernels.Device, x Tensors) { x["y"].F32()[7] *= 1.01 })
			c.Tolerance = 1
		}, "y[7] is ", ""},
		{"no number", func(c *Case) {
			then(&c.Forward, func(_ *kernels.Device, x Tensors) { x["y"].F32()[14] = float32(math.NaN()) })
			c.Tolerance = math.Inf(1)
		}, "y[14] is NaN", ""},
		{"an output that is not written", func(c *Case) { c.Forward = func(*kernels.Device, Tensors) {} }, "y is off by +Inf",
			""},
		{"a gradient", func(c *Case) {
			then(&c.Backward, func(_ *kernels.Device, x Tensors) { x["dx"].F32()[0] += 1 })
		}, "", "dx is off by "},
		{"a gradient that overwrites", func(c *Case) { c.In[0].Grad = Accumulated }, "", "dx is off by "},
		{"an element beyond the output", func(c *Case) {
			then(&c.Forward, func(_ *kernels.Device, x Tensors) {
				y := x["y"]
				y.Addr += 4 * 64 // where the guard starts
				y.F32()[0] = 1
			})
		}, "y was written beyond its end", "y was written beyond its end"},
		{"another kernel", func(c *Case) { c.Kernels[0] = []string{"double"} }, "", "the kernels  ran, not double"},
		{"one kernel more", func(c *Case) {
			c.Kernels[0] = []string{}
			then(&c.Forward, func(d *kernels.Device, x Tensors) { d.Add(x["y"], x["x"], x["x"]) })
		}, "", "the kernels add ran, not "},
		{"the number of threads", func(c *Case) {
			then(&c.Forward, func(_ *kernels.Device, x Tensors) { x["y"].F32()[0] *= 1 + 0x1p-22*float32(cpu.Threads()-1) })
		}, "y is another with 3 threads than with 1", ""},
		{"the number of threads, backward", func(c *Case) {
			then(&c.Backward, func(_ *kernels.Device, x Tensors) { x["dx"].F32()[0] *= 1 + 0x1p-22*float32(cpu.Threads()-1) })
		}, "", "dx is another with 3 threads than with 1"},
		{"a mistake of the program", func(c *Case) {
			c.Forward = func(d *kernels.Device, x Tensors) { d.Add(x["y"], x["x"], tensor.Tensor{}) }
		}, "panic: Add: b is", ""},
	} {
		c := double()
		test.spoil(c)
		r, err := c.Check(d, false)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for i, p := range []Pass{r.Forward, r.Backward} {
			first, direction, want := "", [2]string{"forward", "backward"}[i], [2]string{test.forward, test.backward}[i]
			if len(p.Faults) > 0 {
				first = p.Faults[0]
			}
			if !strings.HasPrefix(first, want) || (want == "") != (first == "") {
				t.Errorf("%s: %s %q, want %q", test.name, direction, p.Faults, want)
			}
			if test.name == "nothing" && (!p.Ran || !(p.Worst < 1)) {
				t.Errorf("%s: %+v", direction, p)
			}
		}
		if cpu.Threads() != 1 {
			t.Errorf("%s: there are %d threads afterwards", test.name, cpu.Threads())
		}
	}
}

// TestWorst checks that Worst is the largest share of a limit, over all elements and operands.
func TestWorst(t *testing.T) {
	c := &Case{Tolerance: 0.1, Elements: map[string]Limit{"x": {Relative: 0.25}, "y": {RMS: 1}}}
	var p Pass
	for _, test := range []struct {
		name      string
		got, want []float64
		worst     float64
	}{
		{"x", []float64{1, 2.25, 3}, []float64{1, 2, 3}, 0.25 / math.Sqrt(14) / 0.1},
		{"x", []float64{1, 2.25, 8}, []float64{1, 2, 8}, 0.25 / math.Sqrt(14) / 0.1}, // smaller than the one before
		{"y", []float64{3, 4, 0}, []float64{3, 4, 0}, 0.25 / math.Sqrt(14) / 0.1},
		{"x", []float64{1.25, 100}, []float64{1, 100}, 1},
		{"y", []float64{0, 16, 0, 0}, []float64{0, 0, 0, 16}, math.Sqrt2 / 0.1},
	} {
		c.compare(&p, test.name, tensor.F32, test.got, test.want)
		if !(math.Abs(p.Worst-test.worst) <= 1e-12) {
			t.Errorf("%v for %v: %v, want %v", test.got, test.want, p.Worst, test.worst)
		}
	}
	before := p.Worst
	if (&Case{}).compare(&p, "i", tensor.I32, []float64{1, 0}, []float64{1, 0}); p.Worst != before {
		t.Errorf("the same integers: %v, want %v", p.Worst, before)
	}
	if len(p.Faults) != 2 { // of the last case: one for all elements, one for the farthest
		t.Errorf("%q", p.Faults)
	}
}

// TestCheckSamples makes an element of a gradient NaN whose numerical difference Check did not compute.
func TestCheckSamples(t *testing.T) {
	d := open(t)
	c := double()
	c.In[0].Shape, c.Out[0].Shape = []int{3000}, []int{3000}
	if r, err := c.Check(d, false); err != nil || len(r.Backward.Faults) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	at := c.formula.gradients["x"].at
	if len(at) < 40 || len(at) > 1000 {
		t.Fatalf("%d differences", len(at))
	}
	rest := 0
	for slices.Contains(at, rest) {
		rest++
	}
	right := c.Backward
	c.Backward = func(d *kernels.Device, x Tensors) { right(d, x); x["dx"].F32()[rest] = float32(math.NaN()) }
	if r, err := c.Check(d, false); err != nil || len(r.Backward.Faults) != 1 ||
		!strings.HasSuffix(r.Backward.Faults[0], "was not written") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestKnownGradients compares the gradients that cases know with differences. The formulas have no tiles: short
// sequences and small layers take them through all branches.
func TestKnownGradients(t *testing.T) {
	d := open(t)
	compared := map[string]int{}
	for _, c := range every() {
		if c.Type != tensor.F32 || c.Gradients == nil || c.Backward == nil || c.In[0].Shape[0] > 41 {
			continue
		}
		r, err := c.Place(d)
		expect.OK(t, err)
		if size := len(r.At["w"]); size > 3000 {
			expect.OK(t, r.Close())
			continue
		}
		for input, all := range c.Gradients(r.At) {
			if len(r.At[input]) == 0 { // a layer without a bias
				continue
			}
			compared[c.Op]++
			s := c.differences(r.At, input)
			var known []float64
			for _, i := range s.at {
				known = append(known, all[i])
			}
			if e := Distance(known, s.values); !(e <= 1e-6) {
				t.Errorf("%s, %s: off by %g", c.ID(), input, e)
			}
		}
		expect.OK(t, r.Close())
	}
	for op, least := range map[string]int{
		"attention": 6, "linear": 20, "linear_activation": 20, "swiglu": 3, "linear_quantized": 3,
	} {
		if compared[op] < least {
			t.Errorf("only %d gradients of %s were compared", compared[op], op)
		}
	}
}

// TestCheckFused checks that Check sets the device to fused and to unfused, whatever it was before, and compares its
// kernels with the list for that setting.
func TestCheckFused(t *testing.T) {
	d := open(t)
	for _, fused := range []bool{true, false, true} {
		c := double()
		c.Kernels = [2][]string{{"silu", "mul"}, {"swiglu"}}
		c.Out = append(c.Out, plain("z", tensor.F32, 3, 2))
		c.In = append(c.In, plain("pair", tensor.F32, 3, 4))
		right := c.Forward
		c.Forward = func(d *kernels.Device, x Tensors) { right(d, x); d.SwiGLU(x["z"], x["pair"]) }
		if r, err := c.Check(d, fused); err != nil || len(r.Forward.Faults)+len(r.Backward.Faults) > 0 {
			t.Errorf("fused %t: %+v, %v", fused, r, err)
		}
	}
}

// TestCheck_PanicIsAFault checks that a panic in either direction is a fault, and that a backward pass is not run after
// a forward pass that panicked.
func TestCheck_PanicIsAFault(t *testing.T) {
	d := open(t)
	c := double()
	c.Kernels[0] = []string{"any"}
	right := c.Forward
	c.Forward = func(*kernels.Device, Tensors) { panic("no") }
	want := []string{"panic: no"}
	if r, err := c.Check(d, false); err != nil || !slices.Equal(r.Forward.Faults, want) || r.Backward.Ran ||
		r.Backward.Faults != nil {
		t.Errorf("%+v, %v", r, err)
	}
	c.Forward, c.Backward = right, c.Forward
	if r, err := c.Check(d, false); err != nil || r.Forward.Faults != nil || !slices.Equal(r.Backward.Faults, want) {
		t.Errorf("%+v, %v", r, err)
	}
}
