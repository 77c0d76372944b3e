package model

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// A model for a Pool may have room for low-rank adapters of others (Options.AdapterRoom), which share its weights. In
// each layer they lie side by side: the a of all adapters are one matrix, and so are their b. A row x of a pass gets
//
//	u = x aᵀ, and 0 in the columns that are not its adapter's
//	y = x Wᵀ + u bᵀ
//
// A product with 0 adds 0 to a sum, which changes none of its bits. So a row has the same bits whichever other adapters
// there are, and a row without an adapter has the bits of the model without adapters. All columns are multiplied,
// because on a GPU the order of the sums of u follows from their number.

// Columns are the columns of an adapter, From up to but not including To. The zero value has none, and means the
// model itself.
type Columns struct{ From, To int }

// adapterUnit is what the columns of an adapter are padded to: what tensor cores multiply at once, so that a column's
// place among the columns of an instruction is always the same.
const adapterUnit = 16

// Factors are the adapter of one module: it adds Scale·B(A x) to the module's output W x.
type Factors struct {
	A, B  []float32 // [Rank, in] and [out, Rank]
	Rank  int
	Scale float64
}

// A neighbor is a module whose adapters lie in some rows of b.
type neighbor struct {
	module  string
	from, n int
}

// room are the adapters of others.
type room struct {
	columns   int        // of each of the layer's modules; 0: there is no room
	neighbors []neighbor // the layer's modules, in the order of their columns
}

// roomy builds the room for adapters of a layer's modules.
func (b *builder) roomy(in int, parts []rows) *adapter {
	a := &adapter{room: room{columns: b.room}, number: len(b.built)}
	out := 0
	for _, r := range parts {
		a.neighbors = append(a.neighbors, neighbor{b.prefix + r.name, out, r.n})
		out += r.n
	}
	a.a = b.weights.New("adapters' a", b.dtype, len(parts)*b.room, in)
	a.b = b.weights.New("adapters' b", b.dtype, out, len(parts)*b.room)
	b.built = append(b.built, a)
	return a
}

// arrivals is memory for a factor that is on its way into the room.
type arrivals struct{ values, list tensor.Tensor }

func (b *builder) arrivals() (m arrivals) {
	if b.room == 0 {
		return m
	}
	most := 0
	for _, a := range b.built {
		most = max(most, a.a.Dim(1), a.b.Dim(0))
	}
	return arrivals{b.weights.New("an adapter's factor", tensor.F32, b.room*most),
		b.weights.New("where it goes", tensor.U8, kernels.FactorListSize(1))}
}

// AdapterWidth returns the number of columns that an adapter takes, from the rank of each module that it has factors
// for. It is an error if a model of this configuration has no room for one of them: there is room in the linear layers
// of attention and of ordinary MLPs.
func AdapterWidth(cfg Config, ranks map[string]int) (width int, err error) {
	opts, err := Options{AdapterRoom: adapterUnit}.withDefaults(cfg)
	if err != nil {
		return 0, err
	}
	known := map[string]bool{}
	opts.count(cfg, func(_ parts, b *builder) {
		for _, a := range b.built {
			for _, n := range a.neighbors {
				known[n.module] = true
			}
		}
	})
	var foreign []string
	for _, module := range slices.Sorted(maps.Keys(ranks)) {
		if width = max(width, ranks[module]); !known[module] {
			foreign = append(foreign, module)
		}
	}
	width = (width + adapterUnit - 1) / adapterUnit * adapterUnit
	switch {
	case foreign != nil:
		return 0, fmt.Errorf("it changes %s: adapters that share a model's weights can change only linear layers of "+
			"attention and of ordinary MLPs", abridged(foreign))
	case width == 0:
		return 0, fmt.Errorf("it changes nothing")
	case width > kernels.PairDepth:
		return 0, fmt.Errorf("its rank is %d: at most %d can share a model's weights with others", width, kernels.PairDepth)
	}
	return width, nil
}

// AdapterRoom returns the smallest Options.AdapterRoom, not below least, that has room for adapters of these widths.
// They may fit into a room and not into a larger one, because each ends elsewhere among the layer's columns.
func AdapterRoom(least int, widths ...int) int {
	for columns := (least + adapterUnit - 1) / adapterUnit * adapterUnit; ; columns += adapterUnit {
		var taken []Columns
		for _, w := range widths {
			if c, ok := place(columns, w, taken); ok {
				taken = append(taken, c)
			}
		}
		if len(taken) == len(widths) {
			return columns
		}
	}
}

// PlaceAdapter returns columns for an adapter that are not taken, and false if there is no room.
func (m *Model) PlaceAdapter(width int, taken []Columns) (Columns, bool) {
	return place(m.opts.AdapterRoom, width, taken)
}

// place returns the first columns of a room that are free. No part of kernels.PairDepth columns, of a layer of up to
// three modules, ends among them: if one did, two sums would be added up.
func place(room, width int, taken []Columns) (Columns, bool) {
	for c := (Columns{0, width}); c.To <= room; c = (Columns{c.From + adapterUnit, c.To + adapterUnit}) {
		cut := false
		for module := range 3 {
			at := module * room
			cut = cut || (at+c.From)/kernels.PairDepth != (at+c.To-1)/kernels.PairDepth
		}
		if !cut && !slices.ContainsFunc(taken, func(t Columns) bool { return t.From < c.To && c.From < t.To }) {
			return c, true
		}
	}
	return Columns{}, false
}

// SetAdapter puts an adapter into columns that no row of a step has: those that PlaceAdapter returned for its
// AdapterWidth. Modules that it has no factors for stay as they are. Factors are stored in the model's type. If there
// is an error because one cannot be stored, nothing has changed.
func (m *Model) SetAdapter(at Columns, modules map[string]Factors) error {
	width := at.To - at.From
	err := m.eachNeighbor(func(a *adapter, i int, n neighbor) error {
		return modules[n.module].check(n, a.a.Dim(1), width, m.opts.DType)
	})
	if err != nil {
		return err
	}
	return m.eachNeighbor(func(a *adapter, i int, n neighbor) error {
		f, in := modules[n.module], a.a.Dim(1)
		down, up := make([]float32, width*in), make([]float32, n.n*width)
		copy(down, f.A)
		for r := range n.n {
			copy(up[r*width:], f.B[r*f.Rank:][:f.Rank])
		}
		from := i*a.columns + at.From
		m.arrive(down, kernels.Factor{W: a.a.Slice(from, from+width), Scale: 1})
		m.arrive(up, kernels.Factor{W: a.b.Slice(n.from, n.from+n.n), Column: from, Scale: float32(f.Scale)})
		return m.dev.Err()
	})
}

// eachNeighbor calls f with each module that may have an adapter, the i-th of its layer, until f returns an error.
func (m *Model) eachNeighbor(f func(a *adapter, i int, n neighbor) error) error {
	for _, a := range m.adapters {
		for i, n := range a.neighbors {
			if err := f(a, i, n); err != nil {
				return fmt.Errorf("%s: %w", n.module, err)
			}
		}
	}
	return nil
}

// arrive stores a factor.
func (m *Model) arrive(values []float32, f kernels.Factor) {
	f.X = m.arriving.values.Part(0, f.W.Rows(), len(values)/f.W.Rows())
	m.dev.Upload(f.X, values)
	m.dev.PairFactors(m.dev.NewFactorList(m.arriving.list, []kernels.Factor{f}))
}

// largest are the largest numbers of types.
var largest = map[tensor.DType]float64{tensor.F32: math.MaxFloat32, tensor.BF16: 0x1.fep127, tensor.F16: 65504}

// check returns an error unless the factors fit a module with in inputs, and all are finite in type t. A product of 0
// and an infinity is NaN, in the rows of all adapters.
func (f Factors) check(n neighbor, in, width int, t tensor.DType) error {
	if f.Rank > width || len(f.A) != f.Rank*in || len(f.B) != n.n*f.Rank {
		return fmt.Errorf("factors of rank %d with %d and %d numbers: must be [rank, %d] and [%d, rank], of rank at most %d",
			f.Rank, len(f.A), len(f.B), in, n.n, width)
	}
	for _, x := range []struct {
		scale  float32
		values []float32
	}{{1, f.A}, {float32(f.Scale), f.B}} {
		for _, v := range x.values {
			if y := float64(x.scale * v); !(math.Abs(y) <= largest[t]) {
				return fmt.Errorf("a factor has the number %v, which is not finite in %v", y, t)
			}
		}
	}
	return nil
}

// zeroPairsMatter reports whether a row without an adapter has other bits in a step with a row that has an adapter
// than in a step without any.
func (m *Model) zeroPairsMatter() bool {
	return slices.ContainsFunc(m.opts.Quantization.Types(), m.dev.ZeroPairMatters)
}
