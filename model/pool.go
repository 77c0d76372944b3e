package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// PoolBlock is the number of tokens of a block of a Pool.
const PoolBlock = kernels.PagedBlock

// A Piece is some tokens of one sequence that a step of a Pool computes.
type Piece struct {
	// IDs are the tokens, the first at position At. Keys and values of all tokens before them are in Blocks.
	IDs []int32
	At  int
	// Blocks are the sequence's blocks in their order: position n is in block n/PoolBlock, at n%PoolBlock. They have room
	// for all of IDs.
	Blocks []int32
	// Logits asks for the logits after the last token, and Choice for the token that Draw draws from them instead, for
	// which a GPU need not send all of them.
	Logits, Choice bool
	Draw           kernels.Draw
	// Adapter has the columns of the sequence's adapter: see Model.SetAdapter. The zero value is none.
	Adapter Columns
}

// A Next is what comes after a piece, as far as the piece asked for it.
type Next struct {
	// Logits are [vocab], also instead of a choice that the device leaves to its caller: see kernels.Device.Draw.
	Logits []float32
	Choice int32
}

// PoolOptions are the sizes of a Pool.
type PoolOptions struct {
	Blocks  int // of PoolBlock tokens each; see Model.PoolBytes
	Rows    int // most tokens of a step
	Pieces  int // most pieces of a step, at most Rows
	Context int // most tokens of a sequence. Default: the model's positions
}

// check fills in defaults, and returns an error unless a model can have such a pool.
func (o PoolOptions) check(m *Model) (PoolOptions, error) {
	if o.Context == 0 {
		o.Context = m.cfg.Positions()
	}
	switch {
	case o.Blocks < 1 || o.Rows < 1 || o.Pieces < 1 || o.Pieces > o.Rows:
		return o, fmt.Errorf("pool: %d blocks, steps of %d tokens and %d pieces: must be at least 1 each, and no more "+
			"pieces than tokens", o.Blocks, o.Rows, o.Pieces)
	case o.Blocks > math.MaxInt32 || o.Rows > math.MaxInt32: // pieces name blocks by int32
		return o, fmt.Errorf("pool: %d blocks and steps of %d tokens: must be at most %d each", o.Blocks, o.Rows,
			math.MaxInt32)
	case o.Context < 1 || o.Context > m.cfg.Positions():
		return o, fmt.Errorf("pool: sequences of %d tokens: must be 1 to %d, the model's positions", o.Context,
			m.cfg.Positions())
	case m.cfg.ropeByLength():
		return o, fmt.Errorf("pool: RoPE scaling %q turns keys by the length of their sequence, so that they change as it "+
			"grows: answer one at a time instead", m.cfg.RoPEScaling.Kind)
	case m.opts.ReuseWeights > 0:
		return o, errors.New("pool: the weights of some layers share memory: open the model without ReuseWeights")
	}
	return o, nil
}

// A Pool holds the keys and values of many sequences, in blocks of PoolBlock tokens that its caller hands out, and
// computes steps: some tokens of several sequences at once. The bits of a token's logits depend only on the tokens of
// its sequence up to it: neither on the other pieces of a step, nor on the pieces in which its sequence came.
type Pool struct {
	m *Model
	o PoolOptions

	blocks, acts *kernels.Arena
	k, v         []tensor.Tensor // of each layer: [blocks·PoolBlock, kvHeads·headDim]
	lists        tensor.Tensor   // I32: what a step uploads
	pass         *pass           // the last one
	host         []float32       // [pieces, vocab], the results of Step
	graphs       map[poolGraph]*kernels.Graph
	choices      tensor.Tensor // [pieces] I32
	writer       []int         // of each block: the number of the last piece that wrote to it
	written      int           // pieces so far
	paired       bool          // all steps have products with adapters
}

// pagedRows says where the rows of a pass belong.
type pagedRows struct {
	*Pool
	tables, places, slots tensor.Tensor // see kernels.Device.AttentionPaged and AppendPaged
	reach                 int
	draws                 tensor.Tensor // of the rows of logits
}

// NewPool allocates a pool. It returns an error if the memory does not suffice, or if the keys of the model depend on
// more than the tokens before them: with RoPE scaling by length ("dynamic", "longrope").
func (m *Model) NewPool(o PoolOptions) (*Pool, error) {
	o, err := o.check(m)
	if err != nil {
		return nil, err
	}
	p := &Pool{m: m, o: o, graphs: map[poolGraph]*kernels.Graph{},
		paired: m.opts.AdapterRoom > 0 && m.zeroPairsMatter()}
	fail := func(err error) (*Pool, error) { return nil, errors.Join(err, p.Close()) }
	if err := m.ropeFor(o.Context, 0); err != nil {
		return fail(err)
	}
	p.blocks, err = m.dev.NewArena("keys and values", kernels.SizeOf(func(a *kernels.Arena) { m.allocPool(a, o) }))
	if err != nil {
		return fail(err)
	}
	p.k, p.v, p.lists, p.choices = m.allocPool(p.blocks, o)
	p.acts, err = m.dev.NewArena("activations of steps",
		kernels.SizeOf(func(a *kernels.Arena) { m.allocStep(a, o, o.Rows) }))
	if err != nil {
		return fail(err)
	}
	if err := m.dev.ReserveScratch(m.dev.ScratchOf(m.dev.Fused(), m.poolSizes(o))); err != nil {
		return fail(err)
	}
	// After the arenas, whose errors say what does not fit: Go's own memory would end the program.
	p.host, p.writer = make([]float32, o.Pieces*m.cfg.Vocab), make([]int, o.Blocks)
	return p, nil
}

// PoolBytes returns the bytes of memory that each block of such a pool takes, and the bytes of the rest: activations,
// logits, and scratch memory, which all models of a device share.
func (m *Model) PoolBytes(o PoolOptions) (block, rest int, err error) {
	if o, err = o.check(m); err != nil {
		return 0, 0, err
	}
	block = 2 * m.cfg.Layers * PoolBlock * m.cfg.KVHeads * m.cfg.HeadDim * m.opts.DType.Size()
	rest = kernels.SizeOf(func(a *kernels.Arena) { m.allocPool(a, o) }) - o.Blocks*block +
		kernels.SizeOf(func(a *kernels.Arena) { m.allocStep(a, o, o.Rows) }) +
		m.dev.ScratchOf(m.dev.Fused(), m.poolSizes(o))
	return block, rest, nil
}

func (m *Model) allocPool(a *kernels.Arena, o PoolOptions) (k, v []tensor.Tensor, lists, choices tensor.Tensor) {
	rows := o.Blocks * PoolBlock
	if !m.dev.IsCPU() {
		rows += blocksOf(o.Pieces/2) * PoolBlock // for the rows that fill up a graph
	}
	for i := range m.cfg.Layers {
		k = append(k, a.New(fmt.Sprintf("keys %d", i), m.opts.DType, rows, m.cfg.KVHeads*m.cfg.HeadDim))
		v = append(v, a.New(fmt.Sprintf("values %d", i), m.opts.DType, rows, m.cfg.KVHeads*m.cfg.HeadDim))
	}
	return k, v, a.New("lists", tensor.I32, 7*o.Rows+o.Pieces*(kernels.DrawWords+1+blocksOf(o.Context))),
		a.New("choices", tensor.I32, o.Pieces)
}

// allocStep allocates a step over rows tokens: activations of all, logits of the pieces' last.
func (m *Model) allocStep(a *kernels.Arena, o PoolOptions, rows int) *pass {
	return m.allocPass(a, extent{maxTokens: o.Rows, rows: rows, targets: o.Pieces, logits: o.Pieces})
}

func (m *Model) poolSizes(o PoolOptions) kernels.Sizes {
	s := m.sizes()
	s.Rows, s.Longest, s.Pairs, s.Logits, s.Backward, s.Context = o.Rows, o.Rows, m.cfg.pairs(o.Rows), 0, false, o.Context
	s.Paged = true
	return s
}

// blocksOf returns the number of blocks that tokens fill.
func blocksOf(tokens int) int { return (tokens + PoolBlock - 1) / PoolBlock }

// Blocks returns the number of blocks, MaxRows the maximum number of tokens of a step, and MaxPieces the maximum
// number of pieces.
func (p *Pool) Blocks() int    { return p.o.Blocks }
func (p *Pool) MaxRows() int   { return p.o.Rows }
func (p *Pool) MaxPieces() int { return p.o.Pieces }

// Close frees the pool's memory.
func (p *Pool) Close() (err error) {
	for _, g := range p.graphs {
		err = errors.Join(err, g.Close())
	}
	return errors.Join(err, p.blocks.Close(), p.acts.Close())
}

// Step computes the pieces, which are of different sequences, and stores their keys and values. It returns what comes
// after each piece; the next Step overwrites the logits. After an error about a piece nothing has changed.
func (p *Pool) Step(pieces []Piece) ([]Next, error) {
	if err := p.check(pieces); err != nil {
		return nil, err
	}
	m, n, width := p.m, len(pieces), 0
	defer m.dev.Range("step")()
	m.dev.SetRowsAlone(true)
	defer m.dev.SetRowsAlone(false)
	graphed := p.decodes(pieces)
	if graphed {
		pieces, width = p.fill(pieces)
	}
	pass, asked, whole := p.stage(pieces, width)
	if graphed {
		p.launch(pass, width)
	} else {
		p.compute(pass, whole < len(asked))
	}
	return p.results(pass, n, asked, whole)
}

// compute computes a pass, and of the rows that are asked for the logits and, if choose is true, the choices.
func (p *Pool) compute(pass *pass, choose bool) {
	m, n := p.m, pass.index.Len()
	m.forward(pass)
	if n == 0 {
		return
	}
	x, logits := pass.head.x.Slice(0, n), pass.head.logits.Slice(0, n)
	m.dev.GatherRows(x, pass.last.x, pass.index)
	m.head.forward(pass, logits, x)
	if choose {
		m.dev.Draw(p.choices.Part(0, n), logits, pass.paged.draws)
	}
}

// A poolGraph says what a graph of a step serves: a number of sequences, of at most a number of blocks each. Of
// everything else, its kernels read the addresses.
type poolGraph struct {
	rows, width int
	angles      uintptr
	moves       int // of scratch memory
	adapted     bool
}

// decodes reports whether a step computes one token of each sequence on a GPU, so that a graph can do it: launching its
// kernels one by one would take longer than they run.
func (p *Pool) decodes(pieces []Piece) bool {
	return !p.m.dev.IsCPU() && p.m.cfg.Mixture == nil && p.m.OnRouting == nil &&
		!slices.ContainsFunc(pieces, func(piece Piece) bool { return len(piece.IDs) > 1 })
}

// minPoolWidth is the number of blocks of a sequence that the smallest graphs serve; others serve twice as many, and so
// on. Likewise the graphs serve 1, 2, 4, … sequences.
const minPoolWidth = 32

// fill fills pieces up to the number that a graph serves, with tokens in blocks of their own, and returns the number of
// blocks that it serves.
func (p *Pool) fill(pieces []Piece) (filled []Piece, width int) {
	rows := 1
	for rows < len(pieces) {
		rows *= 2
	}
	width = minPoolWidth
	for _, piece := range pieces {
		for width < blocksOf(piece.At+1) {
			width *= 2
		}
	}
	filled = append(filled, pieces...)
	for i := range min(rows, p.o.Pieces) - len(pieces) {
		filled = append(filled, Piece{IDs: []int32{0}, At: i % PoolBlock, Blocks: []int32{int32(p.o.Blocks + i/PoolBlock)}})
	}
	return filled, min(width, blocksOf(p.o.Context))
}

// launch does what compute does, by a graph, which it captures the second time.
func (p *Pool) launch(pass *pass, width int) {
	key := poolGraph{pass.rows, width, p.m.rope.cos.Addr, p.m.dev.ScratchMoves(), pass.lowRank.columns.Ok()}
	switch graph, before := p.graphs[key]; {
	case graph != nil:
		graph.Launch()
	case before: // its kernels are compiled
		p.graphs[key] = p.m.dev.Capture(func() { p.compute(pass, true) })
		if graph = p.graphs[key]; graph != nil {
			graph.Launch()
			return
		}
		p.compute(pass, true) // kernels are timed one by one, or the device has failed
	default:
		p.graphs[key] = nil
		p.compute(pass, true)
	}
}

// results downloads what comes after the pieces that asked. The first whole of these pieces get the logits, and the
// others only the choices, or the logits if there is no choice.
func (p *Pool) results(pass *pass, pieces int, asked []int, whole int) ([]Next, error) {
	all, dev, vocab := make([]Next, pieces), p.m.dev, p.m.cfg.Vocab
	n := len(asked)
	if n == 0 {
		return all, dev.Sync()
	}
	logits := func(from, to int) error {
		for i := from; i < to; i++ {
			all[asked[i]] = Next{Logits: p.host[i*vocab:][:vocab]}
		}
		return dev.Download(p.host[from*vocab:to*vocab], pass.head.logits.Slice(from, to))
	}
	if whole > 0 {
		if err := logits(0, whole); err != nil || whole == n {
			return all, err
		}
	}
	ids := make([]byte, 4*n)
	if err := dev.DownloadBytes(ids, p.choices.Part(0, n)); err != nil {
		return nil, err
	}
	for i := whole; i < n; i++ {
		all[asked[i]].Choice = int32(binary.NativeEndian.Uint32(ids[4*i:]))
		if all[asked[i]].Choice >= 0 {
			continue
		}
		if err := logits(i, i+1); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// check returns an error unless a step can compute the pieces.
func (p *Pool) check(pieces []Piece) error {
	rows := 0
	for i, piece := range pieces {
		n, end := len(piece.IDs), piece.At+len(piece.IDs)
		rows += n
		switch {
		case n == 0 || piece.At < 0 || end > p.o.Context:
			return fmt.Errorf("pool: piece %d: %d tokens from position %d on: must be at least one, and within %d", i, n,
				piece.At, p.o.Context)
		case piece.Adapter.From < 0 || piece.Adapter.To < piece.Adapter.From || piece.Adapter.To > p.m.opts.AdapterRoom:
			return fmt.Errorf("pool: piece %d: columns %d to %d of an adapter: must be within the room of %d", i,
				piece.Adapter.From, piece.Adapter.To, p.m.opts.AdapterRoom)
		case blocksOf(end) > len(piece.Blocks):
			return fmt.Errorf("pool: piece %d: %d blocks for %d tokens: must be %d", i, len(piece.Blocks), end, blocksOf(end))
		}
		for at, id := range piece.IDs {
			if id < 0 || int(id) >= p.m.cfg.Vocab {
				return fmt.Errorf("pool: piece %d: token %d at position %d: must be 0 to %d", i, id, piece.At+at,
					p.m.cfg.Vocab-1)
			}
		}
		p.written++
		for at, b := range piece.Blocks[:blocksOf(end)] {
			if b < 0 || int(b) >= p.o.Blocks {
				return fmt.Errorf("pool: piece %d: block %d: must be 0 to %d", i, b, p.o.Blocks-1)
			}
			if at < piece.At/PoolBlock {
				continue
			}
			if earlier := p.written - p.writer[b]; p.writer[b] > 0 && earlier <= i {
				return fmt.Errorf("pool: pieces %d and %d both write to block %d", i-earlier, i, b)
			}
			p.writer[b] = p.written
		}
	}
	if rows == 0 || rows > p.o.Rows || len(pieces) > p.o.Pieces {
		return fmt.Errorf("pool: a step of %d tokens in %d pieces: must be at least one, and at most %d in %d", rows,
			len(pieces), p.o.Rows, p.o.Pieces)
	}
	return nil
}

// stage uploads what a step needs to know of the pieces, for sequences of up to width blocks or, if that is 0, as many
// as they have. It returns the pass, and which pieces ask for what comes after them: first those that ask for logits,
// of which there are whole. With a width, the pass computes the logits of all pieces, these first.
func (p *Pool) stage(pieces []Piece, width int) (q *pass, asked []int, whole int) {
	rows, all := 0, width > 0
	for _, piece := range pieces {
		rows += len(piece.IDs)
		width = max(width, blocksOf(piece.At+len(piece.IDs)))
	}
	var ids, positions, places, slots, columns []int32
	adapted := p.paired
	ends := make([]int32, len(pieces)) // the rows of their last tokens
	tables := make([]int32, len(pieces)*width)
	for i, piece := range pieces {
		copy(tables[i*width:], piece.Blocks[:blocksOf(piece.At+len(piece.IDs))])
		for j := range piece.IDs {
			at := piece.At + j
			positions, places = append(positions, int32(at)), append(places, int32(i), int32(at))
			slots = append(slots, piece.Blocks[at/PoolBlock]*PoolBlock+int32(at%PoolBlock))
			columns = append(columns, int32(piece.Adapter.From), int32(piece.Adapter.To))
		}
		adapted = adapted || piece.Adapter != Columns{}
		ids = append(ids, piece.IDs...)
		ends[i] = int32(len(ids) - 1)
		switch {
		case piece.Logits:
			asked = slices.Insert(asked, whole, i)
			whole++
		case piece.Choice:
			asked = append(asked, i)
		}
	}
	last := make([]int32, 0, len(pieces))
	var draws []int32
	for _, piece := range asked {
		last = append(last, ends[piece])
		draws = pieces[piece].Draw.Append(draws)
	}
	for i, piece := range pieces {
		if all && !piece.Logits && !piece.Choice {
			last = append(last, ends[i])
			draws = kernels.Draw{}.Append(draws)
		}
	}
	if p.pass == nil || p.pass.rows != rows {
		p.acts.Release(0)
		p.pass = p.m.allocStep(p.acts, p.o, rows)
	}
	pass := p.pass
	pass.paged = &pagedRows{Pool: p, reach: width * PoolBlock}
	var lists []int32
	part := func(list []int32, shape ...int) tensor.Tensor {
		lists = append(lists, list...)
		return p.lists.Part(len(lists)-len(list), shape...)
	}
	pass.paged.draws = part(draws, len(last), kernels.DrawWords) // first, for its alignment
	pass.ids, pass.positions, pass.index = part(ids, rows), part(positions, rows), part(last, len(last))
	pass.paged.slots, pass.paged.places = part(slots, rows), part(places, rows, 2)
	pass.paged.tables = part(tables, len(pieces), width)
	if pass.lowRank.columns = (tensor.Tensor{}); adapted {
		pass.lowRank.columns = part(columns, rows, 2)
	}
	p.m.dev.UploadI32(p.lists.Part(0, len(lists)), lists)
	return pass, asked, whole
}
