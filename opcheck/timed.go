package opcheck

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// A Timing is an operation, or a few in a row, in one direction and at the size of a model.
type Timing struct {
	Source string // the model or the program that the size is from
	Op     string
	Pass   string // forward or backward
	Shape  string
	Type   tensor.DType // of activations and weights
	// Bytes and FLOPs are the least that any form has to move and to compute. An exponential counts as one operation.
	Bytes, FLOPs float64
	// Forms are the ways to compute it: the standard one and the fused one, or the only one.
	Forms []Form

	c         *Case
	prepare   func(d *kernels.Device, x Tensors) // if there is one, makes operands of others
	reference reference
}

// A Form is a way to compute something.
type Form struct {
	Name    string    // standard, fused or only; of quantized weights their type, and BF16
	Fused   bool      // operations of kernels.FusedOps run as one kernel
	Between []Operand // intermediate results and what is prepared, which other forms do not keep in memory
	Unused  []string  // operands that only other forms read
	run     func(d *kernels.Device, x Tensors)
}

// A reference computes some of a timing's results in float64.
type reference struct {
	inputs map[string]int                   // how many elements it needs of operands, from their beginning
	want   func(x Values) map[string]sample // by the name of the result
}

// ID returns the timing's unique name.
func (t *Timing) ID() string {
	return t.Source + " " + t.Op + " " + t.Pass + " " + t.Type.String() + " " + t.Shape
}

// firstRows returns the reference of a direction of a case through the same case with fewer rows, or fewer outputs:
// what the operands start with.
func firstRows(few *Case, backward bool) reference {
	r := reference{inputs: map[string]int{}}
	for _, p := range few.placements() {
		if p.given && (backward || !few.gradient(p.Name)) {
			r.inputs[p.Name] = tensor.Tensor{DType: p.Type, Shape: p.Shape}.Len()
		}
	}
	r.want = func(x Values) map[string]sample {
		all := map[string]sample{}
		if !backward {
			for name, values := range few.Want(x) {
				s := sample{values: values}
				for i := range values {
					s.at = append(s.at, i)
				}
				all[name] = s
			}
			return all
		}
		for _, o := range few.In {
			if o.Grad == Overwritten { // gradients of parameters are sums over all rows
				all["d"+o.Name] = few.differences(x, o.Name)
			}
		}
		return all
	}
	return r
}

// A TimedRun is a timing with its operands in memory.
type TimedRun struct {
	t     *Timing
	d     *kernels.Device
	sets  []Tensors
	arena *kernels.Arena
	next  int
	each  int // bytes of a set, without what lies between the steps of a form
}

// Runs take turns with as many sets of operands as it takes so that no cache holds them, up to a number.
const (
	setsBytes = 256 << 20
	maxSets   = 16
)

// place allocates the operands of a timing, with what lies between the steps of its forms if between is true.
func (t *Timing) place(a *kernels.Arena, between bool) Tensors {
	x := Tensors{}
	for _, p := range t.c.placements() {
		if t.Pass == "forward" && t.c.gradient(p.Name) {
			continue
		}
		x[p.Name] = a.New(p.Name, p.Type, p.Shape...)
	}
	for _, f := range t.Forms {
		for _, o := range f.Between {
			if between {
				x[o.Name] = a.New(o.Name, o.Type, o.Shape...)
			}
		}
	}
	return x
}

// forward runs the forward pass that a backward pass needs.
func (t *Timing) forward(d *kernels.Device, x Tensors) {
	if t.Pass == "backward" {
		t.c.Forward(d, x)
	}
}

// RehearseTimings runs each form once, of operands without values: kernels.Device.Precompile finds with it what the
// work of these timings will launch. Afterwards the device fuses nothing.
func RehearseTimings(d *kernels.Device, list []*Timing) error {
	for _, t := range list {
		a, err := d.NewArena("timed operands", kernels.SizeOf(func(a *kernels.Arena) { t.place(a, true) }))
		if err != nil {
			return err
		}
		r := &TimedRun{t: t, d: d, sets: []Tensors{t.place(a, true)}, arena: a}
		for _, f := range t.Forms {
			setFused(d, f.Fused)
			t.forward(d, r.sets[0])
			f.run(d, r.of(f)[0])
		}
		if err := r.Close(); err != nil {
			return fmt.Errorf("%s: %w", t.ID(), err)
		}
	}
	setFused(d, false)
	return nil
}

// Place stores the operands of a timing: random values, or the values that the case gives. It returns an error if
// memory cannot be allocated.
func (t *Timing) Place(d *kernels.Device) (*TimedRun, error) {
	r := &TimedRun{t: t, d: d}
	r.each = kernels.SizeOf(func(a *kernels.Arena) { t.place(a, false) })
	full := kernels.SizeOf(func(a *kernels.Arena) { t.place(a, true) })
	n := min(max(setsBytes/full, 1), maxSets)
	cut := func(a *kernels.Arena) {
		r.sets = nil
		for range n {
			r.sets = append(r.sets, t.place(a, true))
		}
	}
	var err error
	if r.arena, err = d.NewArena("timed operands", kernels.SizeOf(cut)); err != nil {
		return nil, err
	}
	cut(r.arena)
	for _, x := range r.sets { // a page that is touched for the first time costs more than all that is timed
		for _, name := range slices.Sorted(maps.Keys(x)) {
			d.Zero(x[name])
		}
	}
	r.fill()
	for _, x := range r.sets {
		t.forward(d, x)
	}
	return r, nil
}

// fill stores the given operands' values in all sets.
func (r *TimedRun) fill() {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range r.t.c.placements() {
		x, ok := r.sets[0][p.Name]
		if !ok || !p.given {
			continue
		}
		x = divisible(x)
		all := x.Dim(0)
		n := all
		if p.Type != tensor.I32 {
			n = min(n, max(1, all<<20/x.Len())) // a block, which is repeated
		}
		block := p.Operand
		block.store(r.d, x.Slice(0, n), rng)
		for ; n < all; n *= 2 {
			more := min(n, all-n)
			r.d.Copy(x.Slice(n, n+more), x.Slice(0, more))
		}
		for _, other := range r.sets[1:] {
			r.d.Copy(divisible(other[p.Name]), x)
		}
	}
	if r.t.prepare != nil {
		for _, x := range r.sets {
			r.t.prepare(r.d, x)
		}
	}
}

// divisible returns x as a list of what can be sliced: elements, or rows of quantized weights.
func divisible(x tensor.Tensor) tensor.Tensor {
	if x.DType.Quantized() {
		return x
	}
	return x.View(x.Len())
}

// of returns a form's operands, without what only other forms keep between their steps: one that finds a place for such
// a result would store it.
func (r *TimedRun) of(f Form) (sets []Tensors) {
	for _, x := range r.sets {
		own := maps.Clone(x)
		for _, other := range r.t.Forms {
			for _, o := range other.Between {
				if !slices.ContainsFunc(f.Between, func(mine Operand) bool { return mine.Name == o.Name }) {
					delete(own, o.Name)
				}
			}
		}
		sets = append(sets, own)
	}
	return sets
}

// Work runs a form a number of times and waits for it.
func (r *TimedRun) Work(f Form) func(times int) error {
	sets := r.of(f)
	return func(times int) error {
		setFused(r.d, f.Fused)
		for range times {
			f.run(r.d, sets[r.next])
			r.next = (r.next + 1) % len(sets)
		}
		return r.d.Sync()
	}
}

// Memory returns the bytes that a form takes: operands, what it keeps between its steps, and scratch memory.
func (r *TimedRun) Memory(f Form) (bytes int, err error) {
	if err := r.d.TrimScratch(); err != nil {
		return 0, err
	}
	setFused(r.d, f.Fused)
	f.run(r.d, r.of(f)[0])
	bytes = r.each + r.d.ScratchPeak() + kernels.SizeOf(func(a *kernels.Arena) {
		for _, o := range f.Between {
			a.New(o.Name, o.Type, o.Shape...)
		}
	})
	for _, name := range f.Unused {
		bytes -= r.sets[0][name].Bytes()
	}
	return bytes, r.d.Sync()
}

// Errors returns the greatest and the mean error of a form's results next to the formula in float64, each relative to
// the root mean square of the result. It compares what the formula can compute in an instant: the results of the first
// rows, or of some queries. Both are NaN if there are none, as for gradients of parameters, which are sums over all
// rows.
func (r *TimedRun) Errors(f Form) (greatest, mean float64, err error) {
	x := r.sets[0]
	setFused(r.d, f.Fused)
	r.fill()
	at := Values{}
	for name, n := range r.t.reference.inputs {
		if at[name], err = r.first(x[name], n); err != nil {
			return 0, 0, err
		}
	}
	r.t.forward(r.d, x)
	f.run(r.d, r.of(f)[0])
	count := 0
	for name, s := range r.t.reference.want(at) {
		got, err := r.first(x[name], slices.Max(s.at)+1)
		if err != nil {
			return 0, 0, err
		}
		rms := 0.0
		for _, v := range s.values {
			rms += v * v / float64(len(s.values))
		}
		if rms = math.Sqrt(rms); rms == 0 {
			rms = 1
		}
		for k, i := range s.at {
			off := math.Abs(got[i]-s.values[k]) / rms
			if math.IsNaN(off) {
				off = math.Inf(1)
			}
			greatest, mean, count = max(greatest, off), mean+off, count+1
		}
	}
	if count == 0 {
		return math.NaN(), math.NaN(), nil
	}
	return greatest, mean / float64(count), nil
}

// first returns the first elements of an operand.
func (r *TimedRun) first(x tensor.Tensor, n int) ([]float64, error) {
	x = divisible(x)
	part := Run{d: r.d, X: Tensors{"": x.Slice(0, n*x.Dim(0)/x.Len())}}
	if x.DType.Quantized() {
		return part.dequantized("")
	}
	v := part.Floats("")
	return v, r.d.Err()
}

// Close frees the operands' memory.
func (r *TimedRun) Close() error { return errors.Join(r.arena.Close(), r.d.Err()) }
