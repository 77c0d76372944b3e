package opcheck

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// A Result is what Check found out about a case.
type Result struct{ Forward, Backward Pass }

// A Pass is what Check found out about one direction of a case.
type Pass struct {
	Ran    bool     // false if the case has no such pass, or it panicked
	Worst  float64  // the largest error of a tensor or element, as a multiple of its limit
	Faults []string // what is wrong, with the values; empty if nothing is
}

func (p *Pass) fault(format string, args ...any) {
	p.Faults = append(p.Faults, fmt.Sprintf(format, args...))
}

// run runs one direction. A panic is a fault.
func (p *Pass) run(pass func(d *kernels.Device, x Tensors), r *Run) {
	defer func() {
		if why := recover(); why != nil {
			p.fault("panic: %v", why)
		}
	}()
	pass(r.d, r.X)
	p.Ran = true
}

// A formula holds the results of a case's formula, which are the same for every device: the outputs, and samples of the
// gradients.
type formula struct {
	outputs   Values
	gradients map[string]sample // by the input
}

// A sample is the gradient at some elements of an input.
type sample struct {
	at     []int
	values []float64
}

// compute evaluates the formula, and its gradients if there is a backward pass.
func (c *Case) compute(at Values) formula {
	f := formula{c.Want(at), map[string]sample{}}
	if c.Backward == nil {
		return f
	}
	var known Values
	if c.Gradients != nil {
		known = c.Gradients(at)
	}
	for _, o := range c.In {
		if values, ok := known[o.Name]; ok {
			f.gradients[o.Name] = sample{upTo(len(values)), values}
		} else if o.Grad != NoGradient {
			f.gradients[o.Name] = c.differences(at, o.Name)
		}
	}
	return f
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Prepare evaluates the formulas of cases, as many at a time as there are CPU cores, which Check otherwise does when
// it needs one. The device only stores the operands and reads them back. If progress is not nil, Prepare calls it,
// from one goroutine at a time, with the number of cases that are done and their total. If ctx ends early, Prepare
// returns ctx's error.
func Prepare(ctx context.Context, d *kernels.Device, list []*Case, progress func(done, of int)) error {
	var (
		lock sync.Mutex
		done int
		wait sync.WaitGroup
	)
	defer wait.Wait()
	room := make(chan bool, runtime.GOMAXPROCS(0)) // operands of this many cases are in memory
	for _, c := range list {
		select {
		case room <- true:
		case <-ctx.Done():
			return ctx.Err()
		}
		r, err := c.Place(d)
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID(), err)
		}
		wait.Go(func() {
			c.formula = c.compute(r.At)
			lock.Lock()
			defer lock.Unlock()
			if done++; progress != nil {
				progress(done, len(list))
			}
			<-room
		})
	}
	return nil
}

// Check runs a case, fused or unfused, and makes all its checks. It runs no backward pass after a forward pass that
// panicked. The error is the device's, or an error of allocating memory; res is meaningless then. Check sets which
// operations the device fuses, and ends the guarding of its scratch memory.
func (c *Case) Check(d *kernels.Device, fused bool) (res Result, err error) {
	setFused(d, fused)
	r, err := c.Place(d)
	if err != nil {
		return Result{}, err
	}
	if c.formula.outputs == nil {
		c.formula = c.compute(r.At)
	}
	d.Counts()
	ran := c.check(&res.Forward, c.Forward, r)
	if res.Forward.Ran {
		for _, o := range c.Out {
			if want, compared := c.formula.outputs[o.Name]; compared {
				c.compare(&res.Forward, o.Name, o.Type, r.Floats(o.Name), want)
			}
		}
	}
	last := &res.Forward
	if c.Backward != nil && res.Forward.Ran {
		last = &res.Backward
		maps.Copy(ran, c.check(last, c.Backward, r))
		if last.Ran {
			c.compareGradients(last, r)
		}
	}
	if names := c.Kernels[index(fused)]; names != nil && last.Ran {
		if got, want := slices.Sorted(maps.Keys(ran)), slices.Sorted(slices.Values(names)); !slices.Equal(got, want) {
			last.fault("the kernels %s ran, not %s", strings.Join(got, ", "), strings.Join(want, ", "))
		}
	}
	if d.IsCPU() && last.Ran {
		err = c.compareThreads(&res, r)
	}
	if e := r.Close(); err == nil {
		err = e
	}
	return res, err
}

// Rehearse runs the passes of cases, fused and unfused, and checks nothing: kernels.Device.Precompile finds with it
// what Check of these cases will launch. Afterwards the device fuses nothing.
func Rehearse(d *kernels.Device, list []*Case) error {
	for _, c := range list {
		for _, fused := range c.Forms() {
			setFused(d, fused)
			r, err := c.allocate(d)
			if err != nil {
				return err
			}
			c.Forward(d, r.X)
			if c.Backward != nil {
				c.Backward(d, r.X)
			}
			if err := r.Close(); err != nil {
				return fmt.Errorf("%s: %w", c.ID(), err)
			}
		}
	}
	setFused(d, false)
	return nil
}

// check runs one direction between guards and returns how often each kernel ran.
func (c *Case) check(p *Pass, pass func(d *kernels.Device, x Tensors), r *Run) map[string]int {
	r.d.GuardScratch(func(what string) { p.fault("%s", what) })
	defer r.d.GuardScratch(nil)
	p.run(pass, r)
	p.Faults = append(p.Faults, r.Beyond()...)
	return r.d.Counts()
}

// compareGradients compares gradients with Gradients, or with central differences of the formula in float64, L = Σ dy·y
// over the outputs with a gradient: at all elements of a small input, and at some elements of a large one.
func (c *Case) compareGradients(p *Pass, r *Run) {
	for _, o := range c.In {
		if o.Grad == NoGradient {
			continue
		}
		name := "d" + o.Name
		s := c.formula.gradients[o.Name]
		all := r.Floats(name)
		got, t := make([]float64, len(s.at)), o.Type
		for k, i := range s.at {
			got[k] = all[i]
			if o.Grad == Accumulated {
				got[k] -= r.At[name][i]
				t = tensor.F32
			}
		}
		c.compare(p, name, t, got, s.values) // differences are accurate to about 1e-9 of the loss
		if i := slices.IndexFunc(all, math.IsNaN); i >= 0 {
			p.fault("%s[%d] was not written", name, i)
		}
	}
}

// differences returns the gradient of an input at up to 40 of its elements, or at more, up to all, as long as the
// formula computes at most a million elements in total.
func (c *Case) differences(at Values, input string) (s sample) {
	loss := func() (sum float64) {
		y := c.Want(at)
		for _, o := range c.Out {
			if o.Grad != NoGradient {
				dy := at["d"+o.Name]
				for i, v := range y[o.Name] {
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

// compareThreads runs a case again with another number of threads and requires the same bytes.
func (c *Case) compareThreads(res *Result, first *Run) error {
	before, other := cpu.Threads(), 3
	if before == other {
		other = 1
	}
	if err := cpu.SetThreads(other); err != nil {
		return err
	}
	again, err := c.placeAgain(first)
	if err == nil {
		c.check(&res.Forward, c.Forward, again)
		if c.Backward != nil {
			c.check(&res.Backward, c.Backward, again)
		}
		for _, p := range c.placements() {
			if bytes.Equal(again.bytes(again.X[p.Name]), first.bytes(first.X[p.Name])) {
				continue
			}
			pass := &res.Forward
			if c.gradient(p.Name) {
				pass = &res.Backward
			}
			pass.fault("%s is another with %d threads than with %d", p.Name, other, before)
		}
		err = again.Close()
	}
	if e := cpu.SetThreads(before); err == nil {
		err = e
	}
	return err
}

// gradient reports whether a name is the name of a gradient.
func (c *Case) gradient(name string) bool {
	return !slices.ContainsFunc(append(slices.Clone(c.In), c.Out...), func(o Operand) bool { return o.Name == name })
}

func setFused(d *kernels.Device, fused bool) {
	if fused {
		d.SetFused(kernels.All())
	} else {
		d.SetFused(nil)
	}
}

func index(fused bool) int {
	if fused {
		return 1
	}
	return 0
}
