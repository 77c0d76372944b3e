package quant

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// dampening is the share of the mean of the Hessian's diagonal that is added to it, as in the paper.
const dampening = 0.01

// GPTQ quantizes a matrix so that its products with typical inputs change little (Frantar et al. 2022): column by
// column, each error is compensated by the columns to its right. hessian is [in, in], the sum of x·xᵀ over the inputs x
// of a calibration text. Codes and scales follow r, from the weights as they are compensated when their group begins.
// Rows are independent of each other, and the result does not depend on the number of threads.
func (r Rule) GPTQ(dst []byte, w []float32, in int, hessian []float32) error {
	t := r.DType()
	if t == 0 || in < 1 || len(w)%in != 0 || len(dst) != len(w)/in*t.RowBytes(in) || len(hessian) != in*in {
		return fmt.Errorf("GPTQ of %d weights in rows of %d by %q: sizes do not agree", len(w), in, r)
	}
	u, err := inverseFactor(hessian, in)
	if err != nil {
		return err
	}
	rows, size := len(w)/in, t.RowBytes(in)
	errs := make([]error, rows)
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		wait.Go(func() {
			for i := first; i < rows; i += workers {
				row := Row{t, in, dst[i*size:][:size]}
				clear(row.Bytes)
				errs[i] = row.compensated(r, w[i*in:][:in], u)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// compensated quantizes one row by GPTQ. u is an upper triangular matrix.
func (r Row) compensated(rule Rule, weights []float32, u []float64) error {
	w := make([]float64, r.In)
	for i, x := range weights {
		w[i] = float64(x)
	}
	now := make([]float32, r.In)
	for g := range r.Groups() {
		lo, hi := r.Group(g)
		for i := lo; i < hi; i++ {
			now[i] = float32(w[i])
		}
		scale, zero, err := rule.Scale(now[lo:hi])
		if err != nil {
			return err
		}
		r.SetScale(g, scale, zero)
		for i := lo; i < hi; i++ {
			code := rule.Code(float32(w[i]), scale, zero)
			r.SetCode(i, code)
			line := u[i*r.In:][:r.In]
			off := (w[i] - float64(float32(code-zero)*scale)) / line[i]
			for k := i + 1; k < r.In; k++ {
				w[k] -= float64(off * line[k])
			}
		}
	}
	return nil
}

// inverseFactor returns the upper triangular u with uᵀ·u = h⁻¹, after dampening h.
func inverseFactor(hessian []float32, n int) ([]float64, error) {
	// With rows and columns in reverse order, h = l·lᵀ gives h = v·vᵀ with an upper triangular v, and u = v⁻¹.
	mean := 0.0
	for i := range n {
		mean += float64(hessian[i*n+i]) / float64(n)
	}
	v := make([]float64, n*n)
	for j := n - 1; j >= 0; j-- {
		for i := j; i >= 0; i-- {
			sum := float64(hessian[i*n+j])
			if i == j {
				sum += dampening*mean + math.SmallestNonzeroFloat32
			}
			for k := j + 1; k < n; k++ {
				sum -= float64(v[i*n+k] * v[j*n+k])
			}
			if i < j {
				v[i*n+j] = sum / v[j*n+j]
			} else if v[j*n+j] = math.Sqrt(sum); !(sum > 0) {
				return nil, errors.New("GPTQ: the calibration text gives no positive definite Hessian: use a longer text")
			}
		}
	}
	u := make([]float64, n*n) // transposed at first, so that sums read rows
	for j := range n {
		column := u[j*n:][:n]
		column[j] = 1 / v[j*n+j]
		for i := j - 1; i >= 0; i-- {
			sum := 0.0
			for k := i + 1; k <= j; k++ {
				sum -= float64(v[i*n+k] * column[k])
			}
			column[i] = sum / v[i*n+i]
		}
	}
	for j := range n {
		for i := range j {
			u[i*n+j], u[j*n+i] = u[j*n+i], 0
		}
	}
	return u, nil
}
