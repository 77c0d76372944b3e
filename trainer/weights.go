package trainer

import (
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// Weights are a rank's parts of the weights of a model's layers, with ShardWeights. The whole weights of a layer are
// in memory while they are used, together with the next layer's, see [model.Options.ReuseWeights]. A nil Weights has
// no parts: all weights are in the model's memory.
type Weights struct {
	dev   *kernels.Device
	arena *kernels.Arena
	own   []tensor.Tensor  // by range of this rank; those outside the layers are zero Tensors
	of    map[int][]copied // by layer
}

// copied is a part in this rank's memory, and in the memory of whole weights.
type copied struct{ own, whole tensor.Tensor }

func (p *Plan) shardsWeights() bool { return p.Config.Shard == ShardWeights && p.Ranks > 1 }

// NewWeights allocates the parts of a rank, if there are several and they divide the weights. The caller must close
// them.
func NewWeights(m *model.Model, p *Plan, rank int) (w *Weights, err error) {
	if !p.shardsWeights() {
		return nil, nil
	}
	w = &Weights{dev: m.Device(), of: map[int][]copied{}}
	if w.arena, err = w.dev.NewArena("parts of weights", partsBytes(m.Params(), p)); err != nil {
		return nil, err
	}
	w.alloc(w.arena, m.Params(), p, rank)
	return w, nil
}

func (w *Weights) alloc(arena *kernels.Arena, params []model.Param, p *Plan, rank int) {
	params = optim.Trainable(params)
	for _, r := range optim.Ranges(params, p.Ranks) {
		if r.Rank != rank {
			continue
		}
		var own tensor.Tensor
		if p := params[r.Param]; p.Layer != model.Outside {
			own = arena.New("part of "+p.Name, p.W.DType, r.Len)
			w.of[p.Layer] = append(w.of[p.Layer], copied{own, p.W.Part(r.First, r.Len)})
		}
		w.own = append(w.own, own)
	}
}

// partsBytes returns how many bytes NewWeights allocates, on the rank that needs most.
func partsBytes(params []model.Param, p *Plan) (bytes int) {
	if !p.shardsWeights() {
		return 0
	}
	for rank := range p.Ranks {
		bytes = max(bytes, kernels.SizeOf(func(a *kernels.Arena) {
			(&Weights{of: map[int][]copied{}}).alloc(a, params, p, rank)
		}))
	}
	return bytes
}

// Parts returns the value for [optim.Shard.Weights].
func (w *Weights) Parts() []tensor.Tensor {
	if w == nil {
		return nil
	}
	return w.own
}

// Keep copies this rank's parts of a layer from the whole weights, which are in memory.
func (w *Weights) Keep(layer int) {
	if w == nil {
		return
	}
	for _, c := range w.of[layer] {
		w.dev.Copy(c.own, c.whole)
	}
}

// Close frees the parts.
func (w *Weights) Close() error {
	if w == nil {
		return nil
	}
	return w.arena.Close()
}

// bring makes what is queued from now on start when the weights of a layer are in memory. The weights of the layer
// that is needed next are then on their way.
func (s *Ranks) bring(layer int, back bool) {
	next := layer + 1
	if back {
		next = layer - 1
	}
	s.gather(layer)
	s.gather(next)
	if s.comm != nil && s.err == nil && layer != model.Outside {
		s.err = s.comm.WaitFor(s.gathered(layer))
	}
}

// gather gets the parts of a layer's weights from all ranks, into memory that what is queued from now on does not use
// before gathered is waited for. Between steps only rank 0 needs them, and tells the others.
func (s *Ranks) gather(layer int) {
	l := s.layers[layer]
	if layer == model.Outside || l == nil || s.err != nil || s.held[layer%2] == layer {
		return
	}
	if !s.stepping && s.Rank() == 0 {
		s.WatchQueue(firstLimit) // another rank's GPU may hang
		if s.err = s.tell(layerName(layer)); s.err != nil {
			return
		}
	}
	s.held[layer%2] = layer
	for _, c := range s.weights.of[layer] {
		s.dev.Copy(c.whole, c.own)
	}
	s.spread("the weights of "+layerName(layer), l, s.gathered(layer))
}

// gathered is the slot of Comm.Mark for the weights of a layer; other slots are for gradients.
func (s *Ranks) gathered(layer int) int { return len(s.order) + layer%2 }

// nothing is held: the weights of no layer are whole.
var nothing = [2]int{none, none}
