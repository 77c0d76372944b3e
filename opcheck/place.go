package opcheck

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"restyle/kernels"
	"restyle/quant"
	"restyle/tensor"
)

// A Run is a case with its operands in memory.
type Run struct {
	X      Tensors // operands and gradients
	At     Values  // inputs as they are stored
	d      *kernels.Device
	arena  *kernels.Arena
	guards []guard
	given  map[string][]byte // what is stored before the operation runs
}

// A guard is memory after an operand that nothing may write to.
type guard struct {
	behind string
	x      tensor.Tensor
}

const (
	guardByte = 0xA5
	guardSize = 256
)

// Place stores a case's operands, and NaN in outputs and gradients to be overwritten, with guards between them. The
// values depend only on the case.
func (c *Case) Place(d *kernels.Device) (*Run, error) {
	r, err := c.allocate(d)
	if err != nil {
		return nil, err
	}
	r.given = map[string][]byte{}
	hash := fnv.New64a()
	hash.Write([]byte(c.ID()))
	rng := rand.New(rand.NewPCG(1, hash.Sum64())) // its own generator: other cases may be added or removed
	for i, p := range c.placements() {
		if x := r.X[p.Name]; p.given {
			r.At[p.Name] = p.store(d, x, rng)
			r.given[p.Name] = r.bytes(x)
		}
		r.fill(i, p)
	}
	return r, nil
}

// placeAgain places the same operands as another run of the case, on the same device.
func (c *Case) placeAgain(first *Run) (*Run, error) {
	r, err := c.allocate(first.d)
	if err != nil {
		return nil, err
	}
	r.At, r.given = first.At, first.given
	for i, p := range c.placements() {
		if p.given {
			r.d.UploadBytes(r.X[p.Name], r.given[p.Name])
		}
		r.fill(i, p)
	}
	return r, nil
}

// fill stores NaN in what is not given, and the guard after it.
func (r *Run) fill(i int, p placement) {
	if x := r.X[p.Name]; !p.given {
		r.d.UploadBytes(x, bytes.Repeat([]byte{0xFF}, x.Bytes()))
	}
	r.d.UploadBytes(r.guards[i].x, bytes.Repeat([]byte{guardByte}, guardSize))
}

// allocate makes room for a case's operands, and guards between them.
func (c *Case) allocate(d *kernels.Device) (*Run, error) {
	r := &Run{X: Tensors{}, At: Values{}, d: d}
	all := c.placements()
	cut := func(a *kernels.Arena) {
		r.guards = nil
		for _, p := range all {
			r.X[p.Name] = a.New(p.Name, p.Type, p.Shape...)
			r.guards = append(r.guards, guard{p.Name, a.New("guard", tensor.U8, guardSize)})
		}
	}
	var err error
	if r.arena, err = d.NewArena("case", kernels.SizeOf(cut)); err != nil {
		return nil, err
	}
	cut(r.arena)
	return r, nil
}

// A placement is an operand or a gradient. It is given if it has values before the operation runs: an input, the
// gradient of an output, or a gradient that is added to.
type placement struct {
	Operand
	given bool
}

// placements returns inputs, outputs, and the gradients of both, each once.
func (c *Case) placements() (all []placement) {
	add := func(o Operand, given bool) {
		if !slices.ContainsFunc(all, func(p placement) bool { return p.Name == o.Name }) {
			all = append(all, placement{o, given})
		}
	}
	for _, o := range c.In {
		add(o, true)
	}
	for _, o := range c.Out {
		add(o, false)
	}
	for _, o := range append(slices.Clone(c.In), c.Out...) {
		out := slices.ContainsFunc(c.Out, func(p Operand) bool { return p.Name == o.Name })
		switch name := "d" + o.Name; o.Grad {
		case Overwritten:
			add(Operand{Name: name, Type: o.Type, Shape: o.Shape}, out)
		case Accumulated:
			add(Operand{Name: name, Type: tensor.F32, Shape: o.Shape}, true)
		}
	}
	return all
}

// store fills x and returns its values as they are stored.
func (o Operand) store(d *kernels.Device, x tensor.Tensor, rng *rand.Rand) []float64 {
	if o.Type.Quantized() {
		return o.storeQuantized(d, x, rng)
	}
	v := make([]float64, x.Len())
	f32, i32 := make([]float32, len(v)), make([]int32, len(v))
	for i := range v {
		if o.Fill != nil {
			v[i] = o.Fill(rng, i)
		} else {
			v[i] = rng.NormFloat64()
		}
		f32[i], i32[i] = float32(v[i]), int32(v[i])
		f32[i] = tensor.Round(f32[i], o.Type)
		if o.Type != tensor.I32 {
			v[i] = float64(f32[i])
		}
	}
	if o.Type == tensor.I32 {
		d.UploadI32(x, i32)
	} else {
		d.Upload(x, f32)
	}
	return v
}

// storeQuantized fills x with quantized normal numbers. INT4 has scales of both signs.
func (o Operand) storeQuantized(d *kernels.Device, x tensor.Tensor, rng *rand.Rand) []float64 {
	w, v, rows := make([]float32, x.Len()), make([]float64, x.Len()), make([]byte, x.Bytes())
	for i := range w {
		w[i] = float32(rng.NormFloat64() + 0.1) // INT4Z's zero points differ from 8
	}
	err := quant.RuleFor(o.Type).Quantize(rows, w, x.Dim(-1))
	if err == nil {
		err = quant.Dequantize(w, rows, o.Type, x.Dim(-1))
	}
	if err != nil {
		panic(err) // the sizes agree, and the numbers are finite
	}
	for i := range w {
		v[i] = float64(w[i])
	}
	d.UploadBytes(x, rows)
	return v
}

// Beyond reports the operands after which something was written.
func (r *Run) Beyond() (faults []string) {
	for _, g := range r.guards {
		if b := r.bytes(g.x); bytes.Count(b, []byte{guardByte}) != len(b) {
			faults = append(faults, fmt.Sprintf("%s was written beyond its end", g.behind))
		}
	}
	return faults
}

// Floats returns the current values of an operand or a gradient. An error sticks to the device, and Close returns it.
func (r *Run) Floats(name string) []float64 {
	if r.X[name].DType == tensor.I32 {
		var v []float64
		for b := r.bytes(r.X[name]); len(b) > 0; b = b[4:] {
			v = append(v, float64(int32(binary.NativeEndian.Uint32(b))))
		}
		return v
	}
	f, _ := r.d.Floats(r.X[name])
	v := make([]float64, len(f))
	for i := range f {
		v[i] = float64(f[i])
	}
	return v
}

// dequantized returns the current values of quantized weights.
func (r *Run) dequantized(name string) ([]float64, error) {
	x := r.X[name]
	f := make([]float32, x.Len())
	if err := quant.Dequantize(f, r.bytes(x), x.DType, x.Dim(-1)); err != nil {
		return nil, err
	}
	v := make([]float64, len(f))
	for i := range f {
		v[i] = float64(f[i])
	}
	return v, r.d.Err()
}

// bytes reads back a tensor's memory.
func (r *Run) bytes(x tensor.Tensor) []byte {
	b := make([]byte, x.Bytes())
	_ = r.d.DownloadBytes(b, x) // sticks to the device
	return b
}

// Close frees the operands' memory, and returns the device's first error.
func (r *Run) Close() error {
	if err := r.arena.Close(); err != nil {
		return err
	}
	return r.d.Err()
}
