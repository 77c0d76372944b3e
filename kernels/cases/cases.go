// Package cases is the list of cases that every operation of kernels is checked and timed by, on every device: a file
// for each operation, with its formula in float64. Tests and bench ops go through the same list.
//
// A case says how an operation is run and what comes out of it. From this [Case.Check] makes all the checks: the
// outputs against the formula, the gradients against finite differences of the formula, fused and unfused, the kernels
// that ran, the bytes beyond operands and scratch memory, and on the CPU one number of threads against another.
package cases

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// A Case is one case of one operation.
type Case struct {
	Op   string       // as in kernels.FusedOps, if it is one of those
	Type tensor.DType // of activations and weights
	Name string       // the shape and what is special about it, unique for the operation and the type
	// In and Out are the operands. One that is in both is changed in place.
	In, Out []Operand
	// Forward and Backward run the operation. The gradient of x is dx: that of an output is random, that of an input to
	// be computed. A nil Backward has none.
	Forward, Backward func(d *kernels.Device, x Tensors)
	// Want is the formula: the outputs that are compared, in float64, from the inputs as they are stored.
	Want func(x Values) Values
	// Tolerance is the largest ‖got − want‖ / ‖want‖ of an output or a gradient. Default: Tolerances[type of the
	// output].
	Tolerance float64
	// Elements is how far each element may be off, by the names of outputs and gradients. Default: ElementLimits[its
	// type].
	Elements map[string]Limit
	// Kernels are those that have to have run, and no others, unfused and fused. Nil: not compared.
	Kernels [2][]string
	// ForwardBytes and BackwardBytes are what a run must move at least; 0 for cases that are not timed.
	ForwardBytes, BackwardBytes float64

	formula formula
}

// Has says whether an operand is of a type.
func (c *Case) Has(t tensor.DType) bool {
	of := func(o Operand) bool { return o.Type == t }
	return c.Type == t || slices.ContainsFunc(c.In, of) || slices.ContainsFunc(c.Out, of)
}

type (
	// Tensors are operands, and their gradients, by name.
	Tensors map[string]tensor.Tensor
	// Values are the numbers of operands by name.
	Values map[string][]float64
)

// An Operand is one tensor of a case.
type Operand struct {
	Name  string
	Type  tensor.DType
	Shape []int
	Grad  Gradient
	// Fill gives element i its value; default normal with deviation 1. Integers are its whole part.
	Fill func(r *rand.Rand, i int) float64
}

// A Gradient says what becomes of an input's gradient, and whether an output has one.
type Gradient int

const (
	NoGradient  Gradient = iota
	Overwritten          // dx = …, as activations have; for outputs: there is one
	Accumulated          // dw += …, as parameters have, in F32
)

// Types are the types that operations compute in.
var Types = []tensor.DType{tensor.F32, tensor.BF16}

// operations are the lists of cases, in the order in which a model runs them: those that are checked, of odd sizes, and
// those that are timed, of one type. Linear layers and attention are timed by benchmarks of their own.
var operations = []struct {
	checked func() []*Case
	timed   func(t tensor.DType) []*Case
}{
	{embeddingCases, embeddingTimed},
	{addCases, addTimed},
	{rmsNormCases, rmsNormTimed},
	{linearCases, nil},
	{qkNormCases, qkNormTimed},
	{ropeCases, ropeTimed},
	{attentionCases, nil},
	{cachedAttentionCases, nil},
	{decodeCases, nil},
	{swiGLUCases, swiGLUTimed},
	{geluCases, geluTimed},
	{rowsCases, rowsTimed},
	{crossEntropyCases, crossEntropyTimed},
	{adamWCases, adamWTimed},
	{quantizeCases, nil},
}

// All returns the cases that are checked, each with its own memory of what its formula gave.
func All() (all []*Case) {
	for _, o := range operations {
		all = append(all, o.checked()...)
	}
	return all
}

// Timed returns cases to be timed, of the sizes of Llama-3.2-1B and of a model of five million parameters: memory
// decides the speed of the first, caches that of the others.
func Timed(t tensor.DType) (all []*Case) {
	for _, o := range operations {
		if o.timed != nil {
			all = append(all, o.timed(t)...)
		}
	}
	return all
}

// Of returns the cases of one operation, none if the list has no such operation.
func Of(op string) []*Case {
	return slices.DeleteFunc(All(), func(c *Case) bool { return c.Op != op })
}

// Ops returns the operations of a list, each once, in its order.
func Ops(list []*Case) (ops []string) {
	for _, c := range list {
		if !slices.Contains(ops, c.Op) {
			ops = append(ops, c.Op)
		}
	}
	return ops
}

// ID is a case's name among all.
func (c *Case) ID() string { return fmt.Sprintf("%s %v %s", c.Op, c.Type, c.Name) }

// Forms are the ways in which the operation can run: not fused, and fused if it is one of kernels.FusedOps.
func (c *Case) Forms() []bool {
	if slices.Contains(kernels.FusedOps, c.Op) {
		return []bool{false, true}
	}
	return []bool{false}
}

// act and par are inputs with gradients of the two kinds.
func act(name string, t tensor.DType, shape ...int) Operand {
	return Operand{Name: name, Type: t, Shape: shape, Grad: Overwritten}
}

func par(name string, t tensor.DType, shape ...int) Operand {
	return Operand{Name: name, Type: t, Shape: shape, Grad: Accumulated}
}

// plain is an operand without a gradient.
func plain(name string, t tensor.DType, shape ...int) Operand {
	return Operand{Name: name, Type: t, Shape: shape}
}

// label is a case's name from its sizes.
func label(sizes ...int) (s string) {
	for i, n := range sizes {
		if i > 0 {
			s += "x"
		}
		s += fmt.Sprint(n)
	}
	return s
}

// bytes is the size of operands by their names, one that is named twice counted twice: what a run reads and writes at
// least.
func (c *Case) bytes(names ...string) (n float64) {
	sizes := map[string]float64{}
	for _, o := range append(slices.Clone(c.In), c.Out...) {
		x := tensor.Tensor{DType: o.Type, Shape: o.Shape}
		sizes[o.Name] = float64(x.Bytes())
	}
	for _, name := range names {
		n += sizes[name]
	}
	return n
}
