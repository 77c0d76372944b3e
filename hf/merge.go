package hf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// A Merge makes the weights of a base model with the changes of an adapter. Each weight is read, computed and written
// by itself, so no more than one is in memory.
type Merge struct {
	Base *Checkpoint
	// Layers is the type, such as "INT4Z", that the weights of linear layers had when the adapter was trained: they
	// are quantized and dequantized first. With the default "", they stay as they are stored.
	Layers string
	// Changes has the weights that change, by their Hugging Face names; what they become is read when it is needed.
	// If the base's head is its embedding and one of them changes, each gets weights of its own, as in PEFT.
	Changes map[string]func() (Change, error)
	// Done, unless it is nil, is called with the difference in each of these weights, from the goroutine that writes.
	Done func(p model.Param, d Difference)
	// DType is the type of weights that change or are stored quantized. Default: their own, and for quantized ones
	// BF16, or F16 if other weights are F16.
	DType tensor.DType
	// Threads is the number of goroutines that compute. Default 0: GOMAXPROCS.
	Threads int
}

// A Change is what an adapter makes of a weight W: Whole, or W + Scale·B·A.
type Change struct {
	A, B  []float32 // [Rank, in] and [out, Rank]
	Rank  int
	Scale float64
	Whole []float32 // as files store it; nil if W is kept
}

// Changes returns what the adapter makes of each weight that it changes, for [Merge].
func (a *Adapter) Changes() map[string]func() (Change, error) {
	changes := map[string]func() (Change, error){}
	for _, name := range a.Names() {
		module, isA := strings.CutSuffix(name, endA)
		switch {
		case isA:
			changes[module+".weight"] = func() (c Change, err error) {
				c.Rank, c.Scale, _ = a.Spec.Of(module)
				var errB error
				c.A, _, err = a.ReadF32(name)
				c.B, _, errB = a.ReadF32(module + endB)
				return c, errors.Join(err, errB)
			}
		case !strings.HasSuffix(name, endB):
			changes[name] = func() (c Change, err error) {
				c.Whole, _, err = a.ReadF32(name)
				return c, err
			}
		}
	}
	return changes
}

// Factors reads the factors of all modules, for model.Model.SetAdapter. It is an error if the adapter has weights that
// were trained whole.
func (a *Adapter) Factors() (map[string]model.Factors, error) {
	all := map[string]model.Factors{}
	for name, read := range a.Changes() {
		c, err := read()
		if err != nil {
			return nil, err
		}
		if c.Whole != nil {
			return nil, fmt.Errorf("adapter %s: %s was trained whole", a.Name, name)
		}
		all[strings.TrimSuffix(name, ".weight")] = model.Factors{A: c.A, B: c.B, Rank: c.Rank, Scale: c.Scale}
	}
	return all, nil
}

// A Difference is how far a weight is from what it was.
type Difference struct {
	Changed     int     // elements
	Norm, Moved float64 // ‖W‖² and ‖W'-W‖²
}

// Tensors returns the merged weights, of the base's types; weights that are stored quantized become 16-bit first. The
// sum is computed in float32 and rounded once. It has the same bits on every machine. If ctx is done, they cannot be
// written.
func (m Merge) Tensors(ctx context.Context) ([]TensorData, error) {
	params := m.Base.params()
	trained := params
	if m.Layers != "" {
		t, known := quantizedTypes[m.Layers]
		if !known {
			return nil, fmt.Errorf("the adapter was trained on weights in %.40q, which is unknown", m.Layers)
		}
		q := m.Base.Quantization
		q.Layers = t
		trained = model.ParamsOf(m.Base.Config, model.Options{Quantization: q})
	}
	if m.Base.Config.Tied && (m.Changes[head] != nil || m.Changes[params[0].Name] != nil) {
		own := params[0]
		own.Name = head
		params = append(params, own)
	}
	var tensors []TensorData
	left := len(m.Changes)
	for i, p := range params {
		if m.Changes[p.Name] != nil {
			left--
		}
		t, err := m.dtype(p)
		if err != nil {
			return nil, err
		}
		var as tensor.DType
		if i < len(trained) && !p.W.DType.Quantized() && trained[i].W.DType.Quantized() {
			as = trained[i].W.DType
		}
		write := func(w io.Writer) error { return m.write(ctx, w, p, t, as) }
		tensors = append(tensors, TensorData{p.Name, t, fileShape(p), write})
	}
	if left > 0 {
		return nil, fmt.Errorf("%d of the %d weights that the adapter changes are not in %s: it belongs to another model",
			left, len(m.Changes), m.Base.label)
	}
	return tensors, nil
}

// source returns the name of the weight that a parameter starts as.
func (m Merge) source(p model.Param) string {
	if p.Name == head && m.Base.Config.Tied {
		return m.Base.Config.Params()[0].Name
	}
	return p.Name
}

// dtype returns the type that a weight gets: its own, or the type of other weights if it is stored quantized.
func (m Merge) dtype(p model.Param) (tensor.DType, error) {
	switch {
	case m.DType != 0 && (p.W.DType.Quantized() || m.Changes[p.Name] != nil):
		return m.DType, nil
	case !p.W.DType.Quantized():
		info, _ := m.Base.Tensor(m.source(p))
		return tensor.ParseDType(info.DType)
	}
	for _, other := range m.Base.params() {
		info, _ := m.Base.Tensor(other.Name)
		if !other.W.DType.Quantized() && info.DType == tensor.F16.String() {
			return tensor.F16, nil
		}
	}
	return tensor.BF16, nil
}

// write writes a weight in type t, from values that were of a quantized type as in training, if that is not 0.
func (m Merge) write(ctx context.Context, w io.Writer, p model.Param, t, as tensor.DType) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	change := m.Changes[p.Name]
	if change == nil && !p.W.DType.Quantized() && as == 0 {
		return m.copy(ctx, w, m.source(p))
	}
	if change == nil && as == 0 && !p.Transposed && m.Base.packed == nil {
		return m.dequantize(ctx, w, p, t)
	}
	was, shape, err := m.Base.ReadF32(m.source(p))
	if err != nil {
		return err
	}
	if p.Transposed && p.W.DType.Quantized() { // codes are stored as the model has them
		values := was
		was, shape = make([]float32, len(values)), fileShape(p)
		transpose(was, values, p.W.Rows())
	}
	if as != 0 {
		if err := quantizeAndBack(was, as, p); err != nil {
			return err
		}
	}
	out := make([]byte, len(was)*t.Size())
	narrow(out, t, was) // a weight that was quantized is first one of 16 bits
	widen(was, out, t)
	if change != nil {
		c, err := change()
		if err != nil {
			return err
		}
		d, err := c.merge(out, t, was, shape, p.Transposed, m.Threads)
		if err != nil {
			return err
		}
		if m.Done != nil {
			m.Done(p, d)
		}
	}
	if !finite(out, t) {
		return fmt.Errorf("element %d is not a number that %v can hold: the adapter's training diverged, or the base is "+
			"not the one it was trained on", firstInfinite(out, t), t)
	}
	_, err = w.Write(out)
	return err
}

// quantizeAndBack rounds the values of a parameter, in the order of files, to values of a quantized type.
func quantizeAndBack(values []float32, t tensor.DType, p model.Param) error {
	w, rows, in := values, p.W.Rows(), p.W.Dim(-1)
	if p.Transposed {
		w = make([]float32, len(values))
		transpose(w, values, in)
	}
	codes := make([]byte, rows*t.RowBytes(in))
	err := quant.RuleFor(t).Quantize(codes, w, in)
	if err == nil {
		err = quant.Dequantize(w, codes, t, in)
	}
	if p.Transposed {
		transpose(values, w, rows)
	}
	return err
}

// dequantize writes the values of a quantized weight in type t, some rows at a time.
func (m Merge) dequantize(ctx context.Context, w io.Writer, p model.Param, t tensor.DType) error {
	s, stored := m.Base.weights.find(m.source(p))
	of, in := p.W.DType, p.W.Dim(-1)
	step := max(1, chunkElements/in)
	for lo := 0; lo < p.W.Rows(); lo += step {
		n := min(step, p.W.Rows()-lo)
		codes, values, out := make([]byte, n*of.RowBytes(in)), make([]float32, n*in), make([]byte, n*in*t.Size())
		if err := errors.Join(ctx.Err(), s.ReadAt(stored, codes, int64(lo)*int64(of.RowBytes(in)))); err != nil {
			return err
		}
		if err := errors.Join(quant.Check(codes, of, in), quant.Dequantize(values, codes, of, in)); err != nil {
			return fmt.Errorf("%s, from row %d: %w", p.Name, lo, err)
		}
		narrow(out, t, values)
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// copy writes a weight as it is.
func (m Merge) copy(ctx context.Context, w io.Writer, name string) error {
	s, stored := m.Base.weights.find(name)
	info, _ := s.Tensor(stored)
	chunk := make([]byte, min(info.Bytes, 4*chunkElements))
	for at := int64(0); at < info.Bytes; at += int64(len(chunk)) {
		part := chunk[:min(int64(len(chunk)), info.Bytes-at)]
		if err := errors.Join(ctx.Err(), s.ReadAt(stored, part, at)); err != nil {
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// merge writes what becomes of a weight with a shape, the one in files, to out.
func (c Change) merge(out []byte, t tensor.DType, was []float32, shape []int, isTransposed bool,
	threads int) (d Difference, err error) {
	if c.Whole != nil {
		if len(c.Whole) != len(was) {
			return d, fmt.Errorf("the adapter has %d numbers, but the base's shape is %v", len(c.Whole), shape)
		}
		narrow(out, t, c.Whole)
		is := make([]float32, len(was))
		widen(is, out, t)
		d.add(was, is)
		return d, nil
	}
	if len(shape) != 2 {
		return d, fmt.Errorf("the shape is %v, and only matrices can have an adapter", shape)
	}
	rows, cols := shape[0], shape[1]
	left, right := c.B, c.A // [rows, rank] and [rank, cols]
	if isTransposed {
		left, right = make([]float32, len(c.A)), make([]float32, len(c.B))
		transpose(left, c.A, c.Rank)
		transpose(right, c.B, len(c.B)/c.Rank)
	}
	if len(left) != rows*c.Rank || len(right) != c.Rank*cols {
		return d, fmt.Errorf("the adapter has %d and %d numbers, which is not rank %d for the base's shape %v", len(c.A),
			len(c.B), c.Rank, shape)
	}
	const block = 64 // rows; the sums of the norms do not depend on the number of goroutines
	parts := make([]Difference, (rows+block-1)/block)
	var next atomic.Int64
	var group sync.WaitGroup
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	for range min(len(parts), threads) {
		group.Go(func() {
			is := make([]float32, cols)
			for i := next.Add(1) - 1; i < int64(len(parts)); i = next.Add(1) - 1 {
				for r := int(i) * block; r < min(int(i+1)*block, rows); r++ {
					row := out[r*cols*t.Size():][:cols*t.Size()]
					product(is, left[r*c.Rank:][:c.Rank], right)
					addScaled(is, was[r*cols:][:cols], float32(c.Scale))
					narrow(row, t, is)
					widen(is, row, t)
					parts[i].add(was[r*cols:][:cols], is)
				}
			}
		})
	}
	group.Wait()
	for _, p := range parts {
		d = Difference{d.Changed + p.Changed, d.Norm + p.Norm, d.Moved + p.Moved}
	}
	return d, nil
}

// product sets row to l·right, where right has len(l) rows. The conversions keep every machine from fusing the product
// and the sum.
func product(row, l, right []float32) {
	clear(row)
	for k, x := range l {
		for j, y := range right[k*len(row):][:len(row)] {
			row[j] += float32(x * y)
		}
	}
}

// addScaled sets row to w + scale·row.
func addScaled(row, w []float32, scale float32) {
	for i, x := range w[:len(row)] {
		row[i] = x + float32(scale*row[i])
	}
}

// add adds the differences in some elements.
func (d *Difference) add(was, is []float32) {
	for i, x := range was {
		if is[i] != x {
			d.Changed++
		}
		moved := float64(is[i]) - float64(x)
		d.Norm += float64(x) * float64(x)
		d.Moved += moved * moved
	}
}

// Relative returns ‖W'-W‖/‖W‖. It is infinite if a weight of zeros changed.
func (d Difference) Relative() float64 {
	if d.Moved == 0 {
		return 0
	}
	return math.Sqrt(d.Moved / d.Norm)
}
