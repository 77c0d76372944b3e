package kernels

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// Products describes what multiplies matrices on a GPU and so decides their bits: the GPU's model together with
// cuBLASLt and its version, or with restyle's own kernels. It is "" on the CPU.
func (d *Device) Products() string {
	switch {
	case d.gpu == nil:
		return ""
	case d.gpu.blas == nil:
		return fmt.Sprintf("%s (%d multiprocessors) with restyle's own products", d.gpu.Name, d.gpu.SMs)
	}
	return d.gpu.blas.String()
}

// Choices returns the cuBLASLt algorithms that ChooseProducts or KeepChoices selected instead of the library's first,
// by product. They decide bits, and are valid only for a device with the same Products.
func (d *Device) Choices() map[string]string {
	if d.gpu == nil || d.gpu.blas == nil {
		return nil
	}
	all := map[string]string{}
	for product, choice := range d.gpu.blas.choices {
		if choice != "" {
			all[product] = choice
		}
	}
	return all
}

// Chosen reports whether ChooseProducts has nothing left to choose.
func (d *Device) Chosen() bool { return d.gpu == nil || d.gpu.blas == nil || d.gpu.blas.choices != nil }

// KeepChoices makes products use the algorithms of an earlier run; c must have all of that run's choices.
// ChooseProducts chooses nothing after it. Call it before anything is multiplied.
func (d *Device) KeepChoices(c map[string]string) {
	if d.gpu != nil && d.gpu.blas != nil {
		d.gpu.blas.choices = cuda.Choices{}
		for product, choice := range c {
			d.gpu.blas.choices[product] = choice
		}
	}
}

// ChooseProducts chooses an algorithm for each product that Precompile found: cuBLASLt's first, unless another takes at
// least 3% less time. It takes earlier runs' choices from the cache and times only the rest. With
// Options.Deterministic, after KeepChoices, and without cuBLASLt it does nothing. If progress is not nil,
// ChooseProducts calls it with the number of products that are done and their total. If ctx ends early, ChooseProducts
// returns ctx's error.
func (d *Device) ChooseProducts(ctx context.Context, progress func(done, of int)) error {
	if d.gpu == nil || d.gpu.blas == nil {
		return nil
	}
	b := d.gpu.blas
	if b.choices == nil {
		b.choices = cuda.Choices{}
		if !d.opts.Deterministic {
			return d.timeProducts(ctx, progress)
		}
	}
	for _, s := range b.shapes { // a stored algorithm has to be valid
		plan, err := b.plan(s)
		if err != nil {
			return err
		}
		if plan != nil {
			plan.Discard()
		}
	}
	return nil
}

// timeProducts times the products that the cache does not know.
func (d *Device) timeProducts(ctx context.Context, progress func(done, of int)) (err error) {
	b, known, timed := d.gpu.blas, d.gpu.cache.Choices(d.gpu.blas.BLAS), cuda.Choices{}
	defer func() { d.gpu.cache.KeepChoices(b.BLAS, timed) }()
	var open []cuda.Shape
	free, _, _ := d.Free()
	room := min(4*d.gpu.L2, free/2) // so that no operand is still in the L2 cache when its turn comes again
	for _, s := range b.shapes {
		name := s.String()
		if choice, ok := known[name]; ok {
			b.choices[name] = choice
			if plan, err := b.plan(s); err == nil {
				if plan != nil {
					plan.Discard()
				}
				continue
			}
			delete(b.choices, name) // cuBLASLt rejects what the file says
		}
		open = append(open, s)
		room = max(room, operandBytes(s))
	}
	if len(open) == 0 {
		return d.Err()
	}
	a, err := d.NewArena("products that are timed", room)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	d.randomBF16(a.New("numbers", tensor.BF16, room/2))
	for i, s := range open {
		if err := ctx.Err(); err != nil {
			return err
		}
		choice, err := d.timeProduct(a, s)
		if err != nil {
			return err
		}
		b.choices[s.String()], timed[s.String()] = choice, choice
		if progress != nil {
			progress(i+1, len(open))
		}
	}
	return nil
}

// rounds is the number of times that each algorithm is timed.
const rounds = 5

// timeProduct chooses one product's algorithm.
func (d *Device) timeProduct(a *Arena, s cuda.Shape) (choice string, err error) {
	plan, err := d.gpu.blas.Plan(s)
	if plan == nil || err != nil {
		return "", err
	}
	defer plan.Discard()
	if plan.Algorithms == 1 {
		return "", nil
	}
	a.Release(0)
	sets := make([][4]tensor.Tensor, max(1, min(16, min(4*d.gpu.L2, a.Size())/operandBytes(s))))
	for i := range sets {
		sets[i] = operands(a, s)
	}
	times := make([][]time.Duration, plan.Algorithms)
	fails := make([]error, plan.Algorithms)
	for round := range 1 + rounds { // the first round loads what is launched
		for i := range times {
			took, err := d.gpu.Time(func() {
				for _, x := range sets {
					if fails[i] == nil {
						fails[i] = plan.Try(i, x[0].Addr, x[1].Addr, x[2].Addr, x[3].Addr, d.gpu.blas.workspace, s.Workspace)
					}
				}
			})
			if err != nil {
				return "", err
			}
			if round > 0 && fails[i] == nil {
				times[i] = append(times[i], took)
			}
		}
	}
	if i := fastest(times); i > 0 {
		return plan.Algorithm(i), nil
	}
	return "", nil
}

// fastest returns the index of the first algorithm that has times, unless another takes at least 3% less by their
// medians. It returns 0 if none has times.
func fastest(times [][]time.Duration) int {
	first, fastest := -1, -1
	median := func(i int) time.Duration {
		slices.Sort(times[i])
		return times[i][len(times[i])/2]
	}
	for i, t := range times {
		switch {
		case len(t) == 0:
			continue
		case first < 0:
			first, fastest = i, i
		case median(i) < median(fastest):
			fastest = i
		}
	}
	if first < 0 {
		return 0
	}
	if 100*median(fastest) <= 97*median(first) {
		return fastest
	}
	return first
}

// operandBytes returns the bytes that one set of a product's operands takes in an arena with other sets after it.
func operandBytes(s cuda.Shape) int {
	return (SizeOf(func(a *Arena) { operands(a, s) }) + align - 1) / align * align
}

// operands allocates a product's A, B, C and bias, which is the zero Tensor if there is none.
func operands(a *Arena, s cuda.Shape) (list [4]tensor.Tensor) {
	rowsA, rowsB := s.M, s.K
	if s.TransA {
		rowsA = s.K
	}
	if s.TransB {
		rowsB = s.N
	}
	list = [4]tensor.Tensor{a.New("a", s.Type, rowsA, s.LDA), a.New("b", s.Type, rowsB, s.LDB),
		a.New("c", s.Result, s.M, s.LDC)}
	if s.Bias {
		list[3] = a.New("bias", s.Type, s.N)
	}
	return list
}

// randomBF16 fills x with normally distributed values. They are also used for F32: a product's time depends on its
// numbers, through the power that they draw.
func (d *Device) randomBF16(x tensor.Tensor) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, min(x.Len(), 1<<20))
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	d.Upload(x.Slice(0, len(values)), values)
	for have := len(values); have < x.Len(); have *= 2 {
		n := min(have, x.Len()-have)
		d.Copy(x.Slice(have, have+n), x.Slice(0, n))
	}
}
