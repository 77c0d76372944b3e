package batch

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"

	"restyle/model"
)

// prefix identifies the tokens of a block and of all blocks before it.
type prefix [sha256.Size]byte

// prefixes returns the prefixes of the full blocks of tokens, after those that are known already. The first depends on
// key, so that no client learns from the time of an answer what others have asked.
func prefixes(known []prefix, key string, tokens []int32) []prefix {
	for n := len(known); (n+1)*model.PoolBlock <= len(tokens); n++ {
		parent := prefix(sha256.Sum256([]byte(key)))
		if n > 0 {
			parent = known[n-1]
		}
		data := parent[:]
		for _, id := range tokens[n*model.PoolBlock : (n+1)*model.PoolBlock] {
			data = binary.LittleEndian.AppendUint32(data, uint32(id))
		}
		known = append(known, sha256.Sum256(data))
	}
	return known
}

// blocks gives out the blocks of a pool. A block whose tokens are known by their prefix stays after its last sequence
// has left, until the memory is needed: the one that was not used for the longest time goes first.
type blocks struct {
	refs   []int // number of sequences that have the block
	known  []*prefix
	empty  []int32         // blocks that no sequence has and that hold nothing known
	idle   *list.List      // blocks that no sequence has, and that are known: the one that goes first in front
	places []*list.Element // of the blocks in idle
	of     map[prefix]int32
}

func newBlocks(n int) *blocks {
	b := &blocks{refs: make([]int, n), known: make([]*prefix, n), idle: list.New(), places: make([]*list.Element, n),
		of: map[prefix]int32{}}
	for i := n - 1; i >= 0; i-- {
		b.empty = append(b.empty, int32(i))
	}
	return b
}

// free returns the number of blocks that no sequence has.
func (b *blocks) free() int { return len(b.empty) + b.idle.Len() }

// take returns a block for new tokens, and false if all are in use.
func (b *blocks) take() (int32, bool) {
	var i int32
	switch front := b.idle.Front(); {
	case len(b.empty) > 0:
		i = b.empty[len(b.empty)-1]
		b.empty = b.empty[:len(b.empty)-1]
	case front != nil:
		i = front.Value.(int32)
		b.idle.Remove(front)
		b.places[i] = nil
		delete(b.of, *b.known[i])
		b.known[i] = nil
	default:
		return 0, false
	}
	b.refs[i] = 1
	return i, true
}

// find returns the block of a prefix, which the caller then has.
func (b *blocks) find(p prefix) (int32, bool) {
	i, ok := b.of[p]
	if !ok {
		return 0, false
	}
	if b.refs[i] == 0 {
		b.idle.Remove(b.places[i])
		b.places[i] = nil
	}
	b.refs[i]++
	return i, true
}

// name makes a block, whose tokens are computed, known by its prefix, unless another one is.
func (b *blocks) name(i int32, p prefix) {
	if _, ok := b.of[p]; ok || b.known[i] != nil {
		return
	}
	b.of[p], b.known[i] = i, &p
}

// leave gives the blocks of a sequence back. The last go first when memory is needed, because other sequences start
// like the first.
func (b *blocks) leave(all []int32) {
	for n := len(all) - 1; n >= 0; n-- {
		i := all[n]
		if b.refs[i]--; b.refs[i] > 0 {
			continue
		}
		if b.known[i] == nil {
			b.empty = append(b.empty, i)
			continue
		}
		b.places[i] = b.idle.PushBack(i)
	}
}
