// Package opcheck lists the cases by which every operation of package kernels is checked and timed, on every device.
// Each operation has a file with its formula in float64. The tests and bench use the same lists: [All] has the cases to
// check, [Timings] those to time.
//
// A case tells how to run an operation and what its results should be. [Case.Check] derives all checks from it: the
// outputs against the formula, the gradients against finite differences of the formula or a formula of their own, fused
// and unfused, the kernels that ran, writes outside operands and scratch memory, and on the CPU different numbers of
// threads against each other.
package opcheck

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"restyle/kernels"
	"restyle/tensor"
)

// A Case is a case of one operation.
type Case struct {
	Op   string       // as in kernels.FusedOps, if it is in there
	Type tensor.DType // of activations and weights
	Name string       // the shape and what is special about it, unique for the operation and type
	// In and Out are the operands. An operand that is in both is updated in place.
	In, Out []Operand
	// Forward and Backward run the operation. The gradient of x is named dx: an output's is random, an input's is
	// computed. A case with a nil Backward has no backward pass.
	Forward, Backward func(d *kernels.Device, x Tensors)
	// Want is the formula: it returns the outputs to compare, in float64, from the inputs as they are stored.
	Want func(x Values) Values
	// Gradients returns the gradients of inputs, in float64, by a formula of its own. The gradients of other inputs, or of
	// all if it is nil, are differences of Want, which are compared at some elements of large inputs.
	Gradients func(x Values) Values
	// Tolerance is the maximum ‖got − want‖ / ‖want‖ of an output or a gradient. Default: Tolerances[type of the output].
	Tolerance float64
	// Elements limits the error of each element, by the name of an output or gradient. Default: ElementLimits[its type].
	Elements map[string]Limit
	// Kernels are the kernels that must have run, and no others: unfused, then fused. Nil: not checked.
	Kernels [2][]string
	// Limits is true if the operands come close to what the type holds: such a case is checked with every type everywhere.
	Limits bool
	// ForwardBytes and BackwardBytes are the minimum bytes that a run moves; 0 for cases that are not timed.
	ForwardBytes, BackwardBytes float64

	formula formula
}

// Has reports whether an operand has a type.
func (c *Case) Has(t tensor.DType) bool {
	of := func(o Operand) bool { return o.Type == t }
	return c.Type == t || slices.ContainsFunc(c.In, of) || slices.ContainsFunc(c.Out, of)
}

type (
	// Tensors holds operands, and their gradients, by name.
	Tensors map[string]tensor.Tensor
	// Values holds the numbers of operands by name.
	Values map[string][]float64
)

// An Operand is one tensor of a case.
type Operand struct {
	Name  string
	Type  tensor.DType
	Shape []int
	Grad  Gradient
	// Fill returns the value of element i. Default: normally distributed with standard deviation 1. Integer operands take
	// its integer part.
	Fill func(r *rand.Rand, i int) float64
}

// A Gradient tells how an input's gradient is stored, and whether an output has one.
type Gradient int

const (
	NoGradient  Gradient = iota
	Overwritten          // dx = …, as for activations; for outputs: there is a gradient
	Accumulated          // dw += …, as for parameters, in F32
)

// Types are the types that operations compute in.
var Types = []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}

// operations lists the cases to check, with odd sizes, in the order in which a model runs the operations. The cases
// that are timed are in timed_list.go.
var operations = []func() []*Case{
	embeddingCases,
	addCases,
	rmsNormCases,
	layerNormCases,
	linearCases,
	addPairCases,
	quantizedCases,
	blockCases,
	linearINT8Cases,
	batchedCases,
	linearActivationCases,
	pairCases,
	expertCases,
	qkNormCases,
	ropeCases,
	attentionCases,
	cachedAttentionCases,
	decodeCases,
	pagedCases,
	swiGLUCases,
	geluCases,
	mulCases,
	dropoutCases,
	keepColumnsCases,
	topKCases,
	drawCases,
	softmaxCases,
	rowsCases,
	crossEntropyCases,
	adamWCases,
	quantizeCases,
}

// All returns the cases to check. Each remembers the results of its formula.
func All() (all []*Case) {
	for _, list := range operations {
		all = append(all, list()...)
	}
	return all
}

// Of returns the cases of an operation, or none if it is not in the list.
func Of(op string) []*Case {
	return slices.DeleteFunc(All(), func(c *Case) bool { return c.Op != op })
}

// Ops returns the operations of a list, each once, in order.
func Ops(list []*Case) (ops []string) {
	for _, c := range list {
		if !slices.Contains(ops, c.Op) {
			ops = append(ops, c.Op)
		}
	}
	return ops
}

// without leaves out what an operation can do without: the gradients of inputs, or outputs.
func (c *Case) without(names ...string) *Case {
	for i, o := range c.In {
		if slices.Contains(names, "d"+o.Name) {
			c.In[i].Grad = NoGradient
		}
	}
	c.Out = slices.DeleteFunc(c.Out, func(o Operand) bool { return slices.Contains(names, o.Name) })
	c.Name += " without " + strings.Join(names, " and ")
	return c
}

// ID returns the case's unique name.
func (c *Case) ID() string { return fmt.Sprintf("%s %v %s", c.Op, c.Type, c.Name) }

// Forms returns the ways in which the operation can run: unfused, and fused if it is in kernels.FusedOps.
func (c *Case) Forms() []bool {
	if slices.Contains(kernels.FusedOps, c.Op) {
		return []bool{false, true}
	}
	return []bool{false}
}

// act and par return inputs with gradients of the two kinds.
func act(name string, t tensor.DType, shape ...int) Operand {
	return Operand{Name: name, Type: t, Shape: shape, Grad: Overwritten}
}

func par(name string, t tensor.DType, shape ...int) Operand {
	return Operand{Name: name, Type: t, Shape: shape, Grad: Accumulated}
}

// plain returns an operand without a gradient.
func plain(name string, t tensor.DType, shape ...int) Operand {
	return Operand{Name: name, Type: t, Shape: shape}
}

// label builds a case's name from its sizes.
func label(sizes ...int) (s string) {
	for i, n := range sizes {
		if i > 0 {
			s += "x"
		}
		s += fmt.Sprint(n)
	}
	return s
}

// bytes returns the total size of the named operands, counting a name as often as it occurs: the minimum that a run
// reads and writes.
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
