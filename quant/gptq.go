package quant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// dampening is the share of the mean of the Hessian's diagonal that is added to it, as in the paper.
const dampening = 0.01

// Columns are handled block by block, and within a block strip by strip: plain loops handle a strip, and matrix
// products apply its effect to all other columns. The bits do not depend on either size. If neighbors share a scale, a
// block is one group of them.
const (
	block = 128
	strip = 16
)

// compensates lists the rules that GPTQ can follow: their values are evenly spaced, and a group's scale needs no other
// group.
var compensates = []Rule{INT8, INT4Sym7, INT4Sym8, INT4Asym, q40}

// GPTQ quantizes a matrix so that its products with typical inputs change little (Frantar et al. 2022): column by
// column, each error is compensated by the columns to its right, by a factor of the Hessian. Codes and scales follow
// r, from the weights as they are compensated when their group starts.
//
// The paper compensates by a factor of the Hessian's inverse. Here it is a factor of the Hessian itself, times the
// differences from the original weights, which is the same (Chen et al. 2025, GPTQ as Babai's nearest plane algorithm):
// column k becomes w[k] + Σ (w[i] - ŵ[i])·u[i, k] over the columns i before it.
//
// It runs on the threads of package cpu, and the result does not depend on their number. It returns ctx's error soon
// after ctx is done.
func (r Rule) GPTQ(ctx context.Context, dst []byte, w []float32, f *Factor) error {
	t, in := r.DType(), f.u.Stride
	if t == 0 || len(w)%in != 0 || len(dst) != len(w)/in*t.RowBytes(in) {
		return fmt.Errorf("GPTQ of %d weights in rows of %d by %q: sizes do not agree", len(w), in, r)
	}
	if !slices.Contains(compensates, r) {
		return fmt.Errorf("GPTQ by %q: must be one of %v", r, compensates)
	}
	size := cmp.Or(t.Coding().Group, block)
	m := compensated{rule: r, w: w, u: f.u, rows: make([]Row, len(w)/in), now: matrix(len(w)/in, in),
		off: matrix(len(w)/in, size)}
	for i := range m.rows {
		m.rows[i] = Row{t, in, dst[i*t.RowBytes(in):][:t.RowBytes(in)]}
	}
	clear(dst)
	for i, x := range w {
		m.now.X[i] = float64(x)
	}
	for lo := 0; lo < in; lo += size {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.round(lo, min(lo+size, in)); err != nil {
			return err
		}
	}
	return nil
}

// matrix returns a matrix of zeros.
func matrix(rows, columns int) cpu.Float64s {
	return cpu.Float64s{X: make([]float64, rows*columns), Stride: columns}
}

// parallel calls f with ranges that make up the numbers below n, on as many threads as package cpu uses.
func parallel(n int, f func(from, to int)) {
	var wait sync.WaitGroup
	threads := cpu.Threads()
	for i := range threads {
		wait.Go(func() { f(n*i/threads, n*(i+1)/threads) })
	}
	wait.Wait()
}

// compensated is a matrix that GPTQ quantizes.
type compensated struct {
	rule Rule
	w    []float32    // the original weights
	u    cpu.Float64s // of the Factor
	rows []Row        // quantized
	now  cpu.Float64s // weights, compensated for the columns that are quantized
	off  cpu.Float64s // quantized minus original weights, in the columns of one block
}

// round quantizes the columns lo to hi-1, which are a block, and compensates the columns after them.
func (m *compensated) round(lo, hi int) error {
	in := m.now.Stride
	shape := Row{DType: m.rule.DType(), In: in}
	g := min(lo/m.off.Stride, shape.Groups()-1)
	if first, last := shape.Group(g); first == lo {
		if err := m.scale(g, lo, last); err != nil {
			return err
		}
	}
	m.sweep(m.now.At(0, lo), lo, hi, func(row, i int, x float64) float64 {
		r := m.rows[row]
		scale, zero := r.Scale(g), r.Zero(g)
		code := m.rule.Code(float32(x), scale, zero)
		r.SetCode(i, code)
		return float64(float32(code-zero) * scale)
	})
	if hi < in {
		cpu.SubtractProduct(len(m.rows), in-hi, hi-lo, m.now.At(0, hi), m.off, m.u.At(lo, hi), false)
	}
	return nil
}

// scale sets the scales of group g, which is the columns lo to hi-1.
func (m *compensated) scale(g, lo, hi int) error {
	group := matrix(len(m.rows), hi-lo)
	for i := range m.rows {
		copy(group.X[i*group.Stride:][:hi-lo], m.now.X[i*m.now.Stride+lo:])
	}
	if lo > 0 { // what a column makes up for the columns before lo changes those after it, even before it is rounded
		m.sweep(group, lo, hi, func(_, _ int, x float64) float64 { return x })
	}
	errs := make([]error, len(m.rows))
	parallel(len(m.rows), func(from, to int) {
		now := make([]float32, hi-lo)
		for row := from; row < to; row++ {
			for i := range now {
				now[i] = float32(group.X[row*group.Stride+i])
			}
			scale, zero, err := m.rule.Scale(now)
			if m.rule == q40 && err == nil {
				scale = searchQ40(now, scale, func(i int) float64 { return m.u.X[(lo+i)*(m.u.Stride+1)] })
			}
			if errs[row] = err; err == nil {
				m.rows[row].SetScale(g, scale, zero)
			}
		}
	})
	return errors.Join(errs...)
}

// searchQ40 returns the scale that rounds a group of Q4_0 with the least error, Σ of weight(i)·error(i)². It tries
// sizes around the one that reaches the largest weight, with either sign: the codes reach further on one side of zero.
func searchQ40(w []float32, scale float32, weight func(i int) float64) float32 {
	best, least := scale, math.Inf(1)
	for step := -14; step <= 6; step++ {
		for _, sign := range []float32{1, -1} {
			try := tensor.F16ToF32(tensor.F16FromF32(sign * scale * (1 + float32(step)/40)))
			sum := 0.0
			for i, x := range w {
				e := float64(x - float32(float32(q40.Code(x, try, 8)-8)*try)) // rounded as on every processor
				sum += float64(weight(i) * e * e)
			}
			if sum < least {
				best, least = try, sum
			}
		}
	}
	return best
}

// sweep goes through the columns lo to hi-1, whose compensated weights are in now. The result of value replaces a
// weight, and the columns after it, up to hi-1, are compensated for that.
func (m *compensated) sweep(now cpu.Float64s, lo, hi int, value func(row, i int, x float64) float64) {
	for from := lo; from < hi; from += strip {
		to := min(from+strip, hi)
		parallel(len(m.rows), func(first, end int) {
			for row := first; row < end; row++ {
				x := now.X[row*now.Stride:][:to-lo]
				off := m.off.X[row*m.off.Stride:][:to-lo]
				for i := from; i < to; i++ {
					d := value(row, i, x[i-lo]) - float64(m.w[row*m.u.Stride+i])
					off[i-lo] = d
					line := m.u.X[i*m.u.Stride:][:to]
					for k := i + 1; k < to; k++ {
						x[k-lo] -= float64(d * line[k])
					}
				}
			}
		})
		if to < hi {
			off, u := m.off.At(0, from-lo), m.u.At(from, to)
			cpu.SubtractProduct(len(m.rows), hi-to, to-from, now.At(0, to-lo), off, u, false)
		}
	}
}

// A Factor is the unit upper triangular u of a Hessian h = u·d·uᵀ with a diagonal d. All matrices with the same inputs
// share it.
type Factor struct{ u cpu.Float64s } // the diagonal is d, and what is below it is undefined

// NewFactor factors a Hessian, [n, n], after dampening it: the sum of x·xᵀ over the inputs x of a calibration text. It
// does not change hessian, and runs and stops as GPTQ does.
func NewFactor(ctx context.Context, hessian []float32, n int) (*Factor, error) {
	if n < 1 || len(hessian) != n*n {
		return nil, fmt.Errorf("GPTQ with a Hessian of %d numbers for %d inputs: sizes do not agree", len(hessian), n)
	}
	u := matrix(n, n)
	mean := 0.0
	for i, x := range hessian {
		u.X[i] = float64(x)
		if i%(n+1) == 0 {
			mean += float64(x) / float64(n)
		}
	}
	for i := range n {
		u.X[i*n+i] += float64(dampening*mean) + math.SmallestNonzeroFloat32
	}
	// Columns are eliminated from the last to the first: h[i, j] -= u[i, k]·d[k] · u[j, k] for all i ≤ j < k. These are
	// both factors, for the columns of a block, the last one first.
	left, right := matrix(n, block), matrix(block, n)
	for hi := n; hi > 0; hi = (hi - 1) / block * block {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lo := (hi - 1) / block * block
		for to := hi; to > lo; {
			from := max(to-strip, lo)
			s := eliminated{from: from, to: to}
			for i := to - 1; i >= from; i-- {
				row := u.X[i*n:][:n]
				s.row(i, row)
				if s.d[i-from] = row[i]; !(row[i] > 0) {
					return nil, errors.New("GPTQ: the calibration text gives no positive definite Hessian: use a longer text")
				}
			}
			parallel(from, func(first, end int) {
				for i := first; i < end; i++ {
					row := u.X[i*n:][:n]
					s.row(i, row)
					for k := from; k < to; k++ {
						left.X[i*block+hi-1-k] = row[k] * s.d[k-from]
						right.X[(hi-1-k)*n+i] = row[k]
					}
				}
			})
			if from > lo {
				cpu.SubtractProduct(from, from-lo, to-from, u.At(0, lo), left.At(0, hi-to), right.At(hi-to, lo), false)
			}
			to = from
		}
		cpu.SubtractProduct(lo, lo, hi-lo, u, left, right, true)
	}
	return &Factor{u}, nil
}

// eliminated is a strip of columns, from from to to-1.
type eliminated struct {
	from, to int
	d        [strip]float64
	u        [strip][strip]float64 // transposed
}

// row computes row i of u in the strip. It needs d and the rows below i that are in the strip.
func (s *eliminated) row(i int, row []float64) {
	x := row[s.from:s.to]
	i -= s.from
	for k := len(x) - 1; k > max(i, -1); k-- {
		x[k] /= s.d[k]
		if i >= 0 {
			s.u[k][i] = x[k]
		}
		p := float64(x[k] * s.d[k])
		for j := max(i, 0); j < k; j++ {
			x[j] -= float64(p * s.u[k][j])
		}
	}
}
