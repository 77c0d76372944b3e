package trainer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/ranks"
	"restyle/tensor"
)

// Ranks are the processes that share the steps of a run. Each computes the gradient of its part of a step's examples.
// Every parameter is divided among the ranks (see [optim.Ranges]): a rank gets the sum of the gradients of its own
// part, updates that part, and gives it to the others before they need it for the next step. Only rank 0 evaluates,
// saves and reports. A nil Ranks is a run of one process.
type Ranks struct {
	*ranks.Group
	Note string // which library sums, for the user; "" on the CPU

	dev       *kernels.Device
	comm      *kernels.Comm // of GPUs; nil: this process's memory is exchanged
	optimizer *optim.AdamW
	adapts    bool               // adapters are trained
	layers    map[int]*exchanged // by number
	order     []int              // the layers that have gradients, in the order of the backward pass
	ordered   bool               // Plan.SameBits
	depth     int                // layers
	arena     *kernels.Arena     // if sums are ordered
	losses    tensor.Tensor      // then: the sums of the losses of each pass, F64
	weights   *Weights           // nil: all are here
	held      [2]int             // the layers whose whole weights are in memory, even and odd
	at        int                // the layer that before was last called with
	stepping  bool               // all ranks are in the same step

	told   bool  // part has set passes
	passes []int // of each rank in this step
	pass   int   // of this rank, now
	count  int   // of this rank's, including idle ones
	final  int   // the layer whose gradients became final last in this pass, or none
	next   int   // index in order of the layer that is exchanged next in this pass
	err    error // of an exchange
	closed chan struct{}
	known  bool // a step has been taken: it is known how long ranks may stand still
	over   bool // all ranks have ended their steps
}

// exchanged is what the ranks exchange of a layer, or of the parameters outside the layers.
type exchanged struct {
	slot           int               // marks its last exchange
	grads, weights [][]tensor.Tensor // each rank's part
	summed         bool              // the gradients of every pass are exchanged; otherwise only the step's
	sums           []tensor.Tensor   // then: this rank's part of their sums
	from           [][]tensor.Tensor // if sums are ordered: what each rank has of this rank's part
	shares         *exchanged        // the last layer above with the same memory for gradients, or nil
}

// NewRanks prepares what ranks exchange of a model's parameters, which its optimizer updates. Every rank calls it,
// with the parts of the weights that NewWeights made. It sets the model's Before. The caller must close it.
func NewRanks(g *ranks.Group, m *model.Model, w *Weights, o *optim.AdamW, p *Plan) (s *Ranks, err error) {
	s = &Ranks{Group: g, closed: make(chan struct{}), dev: m.Device(), optimizer: o, adapts: p.Config.Adapts(),
		ordered: p.SameBits, depth: m.Config().Layers, weights: w, held: nothing}
	m.Before = s.before
	s.list()
	if s.ordered {
		if s.arena, err = s.dev.NewArena("gradients of other ranks", exchangeBytes(m.Params(), p)); err != nil {
			return s, err
		}
		var from map[int][][]tensor.Tensor
		s.losses, from = allocExchange(s.arena, o.Params(), p, g.Rank())
		for layer, l := range s.layers {
			l.from = from[layer]
		}
	}
	g.Progress(s.dev.Ticks)
	if s.dev.IsCPU() || g.Size() == 1 {
		return s, nil
	}
	share := func(id []byte) ([]byte, error) { return g.Share("the beginning of NCCL", id) }
	if _, err := g.Share("what NCCL needs", nil); err != nil { // until all are here
		return s, err
	}
	g.Watch(firstLimit) // NCCL waits for a rank that is gone, also when it ends
	if s.comm, s.Note, err = s.dev.OpenComm(g.Rank(), g.Size(), share); err != nil {
		return s, err
	}
	g.Watch(0)
	go func() {
		select {
		case <-g.Lost():
			s.comm.Abort() // so that the GPU does not wait for the rank
		case <-s.closed:
		}
	}()
	return s, nil
}

// Close ends the exchanges, after the last step of all ranks.
func (s *Ranks) Close() error {
	close(s.closed)
	s.Watch(firstLimit)
	err := s.comm.Close()
	if err == nil {
		s.Watch(0)
	}
	return errors.Join(err, s.arena.Close())
}

// list lists what is exchanged of each layer.
func (s *Ranks) list() {
	s.layers = map[int]*exchanged{}
	params := s.optimizer.Params()
	for _, r := range s.optimizer.Ranges() {
		p := params[r.Param]
		l := s.layers[p.Layer]
		if l == nil {
			l = &exchanged{grads: make([][]tensor.Tensor, s.Size()), weights: make([][]tensor.Tensor, s.Size())}
			l.sums, l.summed = s.optimizer.Sums(p.Layer)
			s.layers[p.Layer], s.order = l, append(s.order, p.Layer)
		}
		l.grads[r.Rank] = join(l.grads[r.Rank], p.Grad.Part(r.First, r.Len), l.summed)
		l.weights[r.Rank] = join(l.weights[r.Rank], p.W.Part(r.First, r.Len), false)
	}
	slices.SortFunc(s.order, func(a, b int) int { return cmp.Compare(b, a) }) // Outside is the last
	for i, layer := range s.order {
		l := s.layers[layer]
		l.slot = i
		for _, above := range s.order[:i] {
			if overlap(l.grads, s.layers[above].grads) {
				l.shares = s.layers[above]
			}
		}
	}
}

// join appends a tensor to a list or, unless apart is true, merges it with the last one if they are adjacent.
func join(list []tensor.Tensor, x tensor.Tensor, apart bool) []tensor.Tensor {
	n := len(list) - 1
	if n < 0 || apart || list[n].DType != x.DType || list[n].Addr+uintptr(list[n].Bytes()) != x.Addr {
		return append(list, x)
	}
	list[n].Shape = []int{list[n].Len() + x.Len()}
	return list
}

// overlap reports whether any tensors of two layers share memory.
func overlap(a, b [][]tensor.Tensor) bool {
	for _, x := range slices.Concat(a...) {
		for _, y := range slices.Concat(b...) {
			if x.Addr < y.Addr+uintptr(y.Bytes()) && y.Addr < x.Addr+uintptr(x.Bytes()) {
				return true
			}
		}
	}
	return false
}

// allocExchange allocates what ordered sums need: a sum of losses for each pass of a step, and memory for what each
// rank has of this rank's part of one layer at a time.
func allocExchange(arena *kernels.Arena, params []model.Param, p *Plan, rank int) (losses tensor.Tensor,
	from map[int][][]tensor.Tensor) {
	losses, from = arena.New("losses of passes", tensor.F64, p.Config.Accumulate), map[int][][]tensor.Tensor{}
	size := max(1, p.Ranks)
	own := map[int][]optim.Range{} // of each layer, which may be none
	for _, r := range optim.Ranges(params, size) {
		layer := params[r.Param].Layer
		from[layer] = make([][]tensor.Tensor, size)
		if r.Rank == rank {
			own[layer] = append(own[layer], r)
		}
	}
	var each []func()
	for layer, ranges := range own {
		each = append(each, func() {
			for other := range size {
				for _, r := range ranges {
					if other != rank {
						from[layer][other] = append(from[layer][other],
							arena.New("gradients of another rank", params[r.Param].Grad.DType, r.Len))
					}
				}
			}
		})
	}
	arena.Overlay(each...)
	return losses, from
}

// exchangeBytes returns how many bytes NewRanks allocates for ordered sums, on the rank that needs most.
func exchangeBytes(params []model.Param, p *Plan) (bytes int) {
	for rank := range max(1, p.Ranks) {
		bytes = max(bytes, kernels.SizeOf(func(a *kernels.Arena) { allocExchange(a, optim.Trainable(params), p, rank) }))
	}
	return bytes
}

// part returns what this rank has of a step's passes, which are given by rank.
func (s *Ranks) part(byRank [][]model.Batch) []model.Batch {
	if s == nil {
		return byRank[0]
	}
	s.told, s.passes = true, nil
	for _, passes := range byRank {
		s.passes = append(s.passes, len(passes))
	}
	return byRank[s.Rank()]
}

// begin starts a step in which this rank has n passes. It returns how many passes the rank takes (at least one, if
// need be an idle one), how many passes all ranks have, and the number of each of this rank's passes among all.
func (s *Ranks) begin(n int) (count, all int, number func(pass int) int) {
	if s == nil {
		return n, n, func(pass int) int { return pass }
	}
	if !s.told { // every rank has as many
		s.passes = slices.Repeat([]int{n}, s.Size())
	}
	first := 0
	s.pass, s.count, s.next, s.final, s.stepping = 0, max(1, n), 0, none, true
	for rank, passes := range s.passes {
		all += passes
		if rank < s.Rank() {
			first += passes
		}
		if s.layers[s.order[0]].summed { // all ranks exchange each pass's gradients
			s.count = max(s.count, passes)
		}
	}
	// All ranks have the same ticks when the last pass starts: the ticks of passes that this rank does not have come
	// first.
	for range (slices.Max(s.passes) - s.count) * (1 + s.depth + len(s.order)) {
		s.dev.Tick()
	}
	if s.ordered {
		s.dev.Zero(s.losses)
		return s.count, all, func(pass int) int { return pass*s.Size() + s.Rank() }
	}
	return s.count, all, func(pass int) int { return first + pass }
}

// none is above all layers.
const none = math.MaxInt

// idle is a pass without an example: it has no target.
func idle() model.Batch { return model.Batch{IDs: []int32{0}, Labels: []int32{model.Ignore}} }

// addLoss adds up the losses of a pass, so that their sum does not depend on which rank had the pass.
func (s *Ranks) addLoss(pass int, losses tensor.Tensor) {
	if s != nil && s.ordered {
		s.dev.AddLossTo(s.losses.Part(pass, 1), losses)
	}
}

// before is called before the weights of a layer are used. In a step's first pass they may still be on their way from
// other ranks. In the other passes, gradients may be on their way when the backward pass is about to write more: by
// the last layer of the forward pass, most have arrived.
func (s *Ranks) before(layer int) {
	back := layer != model.Outside && layer <= s.at // the backward pass starts where the forward pass ends
	s.at = layer
	if s.weights != nil {
		s.bring(layer, back)
	}
	if back || !s.stepping {
		return
	}
	s.dev.Tick()
	if s.comm == nil || s.err != nil {
		return
	}
	l := s.layers[layer]
	switch {
	case s.pass > 0 && layer == s.order[0], layer == model.Outside && s.adapts: // which are all used at once
		s.err = s.comm.Wait()
	case s.pass == 0 && l != nil:
		s.err = s.comm.WaitFor(l.slot)
	}
}

// after is called when the gradients of a layer are final. On GPUs they are exchanged when beside is called in the
// layer below, unless that layer overwrites them with its own.
func (s *Ranks) after(layer int) {
	s.final = layer
	below := &exchanged{}
	if i := slices.IndexFunc(s.order, func(other int) bool { return other < layer }); i >= 0 {
		below = s.layers[s.order[i]]
	}
	l := s.layers[layer]
	if s.comm == nil || s.ordered || layer == model.Outside || l != nil && below.shares == l {
		s.beside()
	}
	s.reuse(below)
	if layer == model.Outside { // the last call of a pass
		s.next, s.final = 0, none
		s.pass++
	}
}

// reuse makes what is queued from now on start after the exchange of the gradients whose memory a layer reuses for its
// own.
func (s *Ranks) reuse(l *exchanged) {
	if l.shares != nil && s.comm != nil && s.err == nil {
		s.err = s.comm.WaitFor(l.shares.slot)
	}
}

// beside exchanges all final gradients that are not yet exchanged, so that every rank exchanges the same layers in the
// same order.
func (s *Ranks) beside() {
	for s.next < len(s.order) && s.order[s.next] >= s.final && s.err == nil {
		at := s.order[s.next]
		l := s.layers[at]
		s.next++
		s.dev.Tick()
		if l.summed || s.pass == s.count-1 {
			s.exchange(l, "the sum of the gradients of "+layerName(at))
		}
	}
}

func layerName(layer int) string {
	if layer == model.Outside {
		return "what is outside the layers"
	}
	return fmt.Sprint("layer ", layer)
}

// exchange sums the gradients of a layer. On GPUs that overlaps with the backward pass.
func (s *Ranks) exchange(l *exchanged, name string) {
	own := l.grads[s.Rank()]
	switch {
	case s.ordered:
		s.swap(l, name)
	case !l.summed:
		s.sumTo(name, l, nil)
	default:
		if s.pass > 0 {
			for i, x := range own {
				s.dev.Add(x, x, l.sums[i])
			}
		}
		s.sumTo(name, l, l.sums)
	}
}

// swap gives every rank what the others have of its part, and adds that up one pass after another, in the order of the
// passes: rank 0's, rank 1's and so on. The sum is then the same however the passes are divided among ranks.
func (s *Ranks) swap(l *exchanged, name string) {
	if s.comm == nil {
		s.err = s.Exchange(name, l.from, l.grads)
	} else if s.err = s.Step(name); s.err == nil {
		s.comm.Exchange(l.from, l.grads)
		s.err = s.comm.Wait()
	}
	for rank, passes := range s.passes {
		if s.err != nil || s.pass >= passes {
			continue
		}
		of := l.grads[rank]
		if rank != s.Rank() {
			of = l.from[rank]
		}
		for i, sum := range l.sums {
			if s.pass == 0 && rank == 0 {
				s.dev.Zero(sum)
			}
			s.dev.Add(sum, sum, of[i])
		}
	}
}

func (s *Ranks) sumTo(name string, l *exchanged, into []tensor.Tensor) {
	if s.comm == nil {
		s.err = s.SumTo(name, l.grads, into)
	} else if s.err = s.Step(name); s.err == nil {
		s.comm.SumTo(l.grads, into)
		s.comm.Mark(l.slot)
	}
}

// sum gives every rank the sums of tensors.
func (s *Ranks) sum(name string, list ...tensor.Tensor) {
	if s.comm != nil && s.err == nil {
		if s.err = s.Step(name); s.err == nil {
			s.comm.Sum(list...)
			s.err = s.comm.Wait()
		}
		return
	}
	for _, x := range list {
		if s.err == nil {
			s.err = s.Sum(name, x)
		}
	}
}

// update ends a step: every rank updates its part of the weights and gives it to the others. On GPUs that overlaps
// with the next step, see before and settle.
func (s *Ranks) update(lr, clip float64) (u kernels.StepResult, err error) {
	o := s.optimizer
	if s.comm != nil && s.err == nil {
		s.err = s.comm.Wait()
	}
	o.Square()
	sums := []tensor.Tensor{o.Squares(), o.Losses()}
	if s.ordered {
		sums = append(sums, s.losses)
	}
	s.sum("the sums of squares and losses", sums...)
	o.Decide(clip)
	for _, layer := range slices.Backward(s.order) { // the embedding is needed first
		o.UpdateLayer(layer, lr)
		if l := s.layers[layer]; s.weights == nil || layer == model.Outside {
			s.spread("the weights of "+layerName(layer), l, l.slot)
		}
	}
	s.held, s.stepping = nothing, false
	if s.err != nil {
		return u, s.err
	}
	if u, err = o.End(); err == nil && s.ordered {
		u.Loss, err = s.orderedLoss()
	}
	return u, err
}

// spread gives each rank the others' parts of a layer's weights. On GPUs slot marks that exchange, see Comm.Mark.
func (s *Ranks) spread(name string, l *exchanged, slot int) {
	if s.err != nil {
		return
	}
	if s.comm == nil {
		s.err = s.Spread(name, l.weights)
	} else if s.err = s.Step(name); s.err == nil {
		s.comm.Spread(l.weights)
		s.comm.Mark(slot)
	}
}

// orderedLoss adds up the losses of a step's passes, in their order.
func (s *Ranks) orderedLoss() (sum float64, err error) {
	err = s.dev.Read(s.losses, func(bytes []byte) error {
		for ; len(bytes) > 0; bytes = bytes[8:] {
			sum += math.Float64frombits(binary.LittleEndian.Uint64(bytes))
		}
		return nil
	})
	return sum, err
}

// settle waits until the weights of all parts that are on their way are here. Only rank 0 does what follows, which has
// no limit. settle returns the error of an exchange.
func (s *Ranks) settle() error {
	if s == nil {
		return nil
	}
	if s.comm != nil && s.err == nil {
		s.WatchQueue(leastLimit)
		if s.err = s.comm.Wait(); s.err == nil {
			s.err = s.dev.Sync()
		}
	}
	if s.err == nil {
		s.Watch(0)
	}
	return s.err
}
