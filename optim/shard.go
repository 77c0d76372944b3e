package optim

import (
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// A Shard is the part of the parameters that one of several processes, called ranks, updates, and whose state it keeps
// (ZeRO: Rajbhandari et al. 2020, arXiv 1910.02054). The zero value is all of them.
type Shard struct {
	Rank, Size int  // the rank's number, and how many there are; a Size of 0 is one
	Sums       Sums // default NoSums
	// Weights has the memory of each range of this rank, in the order of Ranges; the zero Tensor: the range is in
	// Param.W. Default nil: all ranges are there.
	Weights []tensor.Tensor
}

// Sums determines for which gradients the optimizer has its own memory, see [AdamW.Sums]. The others are in
// Param.Grad.
type Sums int

// The kinds of Sums.
const (
	NoSums    Sums = iota
	LayerSums      // of layers' parameters
	AllSums
)

// of returns the ranges of this rank.
func (s Shard) of(params []model.Param) (list []Range) {
	for _, r := range Ranges(params, max(1, s.Size)) {
		if r.Rank == s.Rank {
			list = append(list, r)
		}
	}
	return list
}

// A Range is a part of a trainable parameter, all of whose elements one rank updates.
type Range struct {
	Param      int // index among the Trainable parameters
	First, Len int // elements
	Rank       int
}

// Ranges divides the trainable parameters of each layer among size ranks, into parts of about the same size, in order.
// A range starts and ends at a multiple of [kernels.SquaresUnit] or at the end of its parameter. So quantization
// blocks and sums of squares do not depend on the number of ranks.
func Ranges(params []model.Param, size int) (list []Range) {
	params = Trainable(params)
	total, before := map[int]int{}, map[int]int{} // elements by layer
	for _, p := range params {
		total[p.Layer] += p.W.Len()
	}
	for i, p := range params {
		n, unit, first := p.W.Len(), kernels.SquaresUnit(p.W.Len()), 0
		for rank := range size {
			end := n
			if rank < size-1 {
				bound := total[p.Layer]*(rank+1)/size - before[p.Layer]
				end = min(max((bound+unit/2)/unit*unit, first), n)
			}
			if end > first {
				list = append(list, Range{i, first, end - first, rank})
			}
			first = end
		}
		before[p.Layer] += n
	}
	return list
}

// Sums returns the memory for this rank's part of a layer's gradients, range by range, and whether there is any. The
// caller puts the sums of all ranks' gradients there before Square.
func (o *AdamW) Sums(layer int) (list []tensor.Tensor, ok bool) {
	for i, r := range o.ranges {
		if p := o.params[r.Param]; p.Layer == layer && o.sums[i].Ok() {
			list = append(list, o.sums[i])
		}
	}
	return list, o.cfg.Shard.summed(layer)
}

func (s Shard) summed(layer int) bool {
	return s.Sums == AllSums || s.Sums == LayerSums && layer != model.Outside
}

// Ranges returns the ranges of all ranks.
func (o *AdamW) Ranges() []Range { return Ranges(o.params, max(1, o.cfg.Shard.Size)) }

// Params returns the parameters that the optimizer updates, or that others of its ranks update.
func (o *AdamW) Params() []model.Param { return o.params }

// A Kept is a tensor that the optimizer keeps for a whole parameter, under its name in State. Its parts, in order, are
// on the ranks that update those parts of the parameter.
type Kept struct {
	Name  string
	DType tensor.DType
	Len   int
	Parts []KeptPart
}

// A KeptPart is a part of a Kept.
type KeptPart struct {
	Rank, Len int
	Here      tensor.Tensor // the part, if the rank is this one; otherwise the zero Tensor
}

// Kept returns all tensors that the optimizer and the other ranks' optimizers keep, in the order of State.
func (o *AdamW) Kept() (list []Kept) {
	all, own := o.Ranges(), 0
	for i, p := range o.params {
		var ranges []Range
		for len(all) > 0 && all[0].Param == i {
			ranges, all = append(ranges, all[0]), all[1:]
		}
		for _, f := range o.cfg.forms(p) {
			k, at := Kept{Name: p.Name + f.suffix, DType: f.dtype, Len: f.len(p.W.Len())}, own
			for _, r := range ranges {
				part := KeptPart{Rank: r.Rank, Len: f.len(r.Len)}
				if r.Rank == o.cfg.Shard.Rank {
					part.Here = *f.in(&o.state[at])
					at++
				}
				k.Parts = append(k.Parts, part)
			}
			list = append(list, k)
		}
		for _, r := range ranges {
			if r.Rank == o.cfg.Shard.Rank {
				own++
			}
		}
	}
	return list
}
