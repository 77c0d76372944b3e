package opcheck

import (
	"restyle/kernels"
	"restyle/tensor"
)

// A batch is the form of a batched product: sizes, and the number of matrices of a and b along two axes.
type batch struct {
	name           string
	a, b           [2]int
	m, k, n        int
	transA, transB bool
	alpha          float32
	add            bool
}

func (s batch) counts() (n [2]int) {
	for i := range n {
		n[i] = max(s.a[i], s.b[i])
	}
	return n
}

// element returns the index of element [i,j,r,c] of an operand with count matrices of rows by cols, stored transposed
// or not. If there is one matrix, it is that one.
func element(count [2]int, i, j, rows, cols, r, c int, transposed bool) int {
	i, j = i%count[0], j%count[1]
	if transposed {
		return ((i*count[1]+j)*cols+c)*rows + r
	}
	return ((i*count[1]+j)*rows+r)*cols + c
}

// want computes the formula.
func (s batch) want(x Values) Values {
	counts, a, b := s.counts(), x["a"], x["b"]
	y := make([]float64, counts[0]*counts[1]*s.m*s.n)
	if s.add {
		copy(y, x["c"])
	}
	for i := range counts[0] {
		for j := range counts[1] {
			for r := range s.m {
				for c := range s.n {
					sum := 0.0
					for l := range s.k {
						sum += a[element(s.a, i, j, s.m, s.k, r, l, s.transA)] * b[element(s.b, i, j, s.k, s.n, l, c, s.transB)]
					}
					y[element(counts, i, j, s.m, s.n, r, c, false)] += float64(s.alpha) * sum
				}
			}
		}
	}
	return Values{"c": y}
}

func (s batch) Case(t tensor.DType) *Case {
	shape := func(count [2]int, rows, cols int, transposed bool) []int {
		if transposed {
			rows, cols = cols, rows
		}
		return []int{count[0], count[1], rows, cols}
	}
	views := func(x Tensors, prefix string) (c, a, b kernels.Matrices) {
		c, a, b = kernels.MatricesOf(x[prefix+"c"]), kernels.MatricesOf(x[prefix+"a"]), kernels.MatricesOf(x[prefix+"b"])
		a.Trans, b.Trans = s.transA, s.transB
		return c, a, b
	}
	counts := s.counts()
	c := &Case{
		Op: "batched_product", Type: t, Name: s.name,
		In:  []Operand{act("a", t, shape(s.a, s.m, s.k, s.transA)...), act("b", t, shape(s.b, s.k, s.n, s.transB)...)},
		Out: []Operand{act("c", t, shape(counts, s.m, s.n, false)...)},
		Forward: func(d *kernels.Device, x Tensors) {
			c, a, b := views(x, "")
			d.BatchedProduct(c, a, b, s.alpha, s.add)
		},
		Backward: func(d *kernels.Device, x Tensors) {
			_, a, b := views(x, "")
			dc, da, db := views(x, "d")
			d.BatchedProductBackward(da, db, dc, a, b, s.alpha)
		},
		Want:    s.want,
		Kernels: [2][]string{{"batched_product"}},
	}
	if s.add { // c is updated: its gradient is the result's
		c.In, c.Out[0] = append(c.In, plain("c", t, c.Out[0].Shape...)), plain("c", t, c.Out[0].Shape...)
		c.Backward = nil
		if t != tensor.F32 { // the product may be rounded too, by up to 2⁻⁹ of, at most, five times the root mean square
			c.Elements = map[string]Limit{"c": {ElementLimits[t].Relative, tolerance(t, 0, 5*0x1p-9)}}
		}
		for i := range c.In {
			c.In[i].Grad = NoGradient
		}
	}
	c.ForwardBytes = c.bytes("a", "b", "c")
	c.BackwardBytes = 2 * c.ForwardBytes
	return c
}

func batchedCases() (cases []*Case) {
	one := [2]int{1, 1}
	for _, t := range Types {
		for _, s := range []batch{
			{"one", one, one, 1, 1, 1, false, false, 1, false},
			{"plain", [2]int{2, 2}, [2]int{2, 2}, 17, 33, 9, false, false, 1, false},
			{"b transposed", [2]int{1, 3}, [2]int{1, 3}, 17, 33, 9, false, true, 1, false},
			{"a transposed", [2]int{1, 3}, [2]int{1, 3}, 17, 33, 9, true, false, 1, false},
			{"both transposed", [2]int{2, 1}, [2]int{2, 1}, 17, 33, 9, true, true, 1, false},
			{"dots", [2]int{1, 5}, [2]int{1, 5}, 1, 129, 1, false, false, 1, false},
			{"outer", [2]int{1, 3}, [2]int{1, 3}, 17, 1, 9, false, false, 1, false},
			{"a repeated", one, [2]int{1, 4}, 5, 7, 3, false, false, 1, false},
			{"b repeated", [2]int{1, 4}, one, 5, 7, 3, false, true, 1, false},
			{"both repeated", [2]int{3, 1}, [2]int{1, 2}, 5, 6, 7, true, false, 1, false},
			{"b without axes", [2]int{2, 3}, one, 4, 6, 5, false, false, 1, false},
			{"times 1/8", [2]int{1, 2}, [2]int{1, 2}, 17, 33, 9, false, false, 0.125, false},
			{"times 0.3", [2]int{1, 2}, [2]int{1, 2}, 4, 300, 9, false, true, 0.3, true},
			{"added", [2]int{1, 2}, [2]int{1, 2}, 17, 33, 9, false, false, 1, true},
			{"wide", [2]int{1, 2}, [2]int{1, 2}, 32, 48, 64, false, true, 0.5, true}, // for cuBLASLt
			{"few rows", one, one, 3, 64, 40, false, true, 0.5, false},
			{"in parts", one, one, 16, 2000, 16, false, false, 0.5, true}, // on a GPU
		} {
			cases = append(cases, s.Case(t))
		}
	}
	return cases
}
