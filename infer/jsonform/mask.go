package jsonform

import (
	"context"
	"math/bits"
	"slices"
	"sync"
)

// A mask is the tokens that may come at a node that is inside a string, a name or a number, as far as they stay inside
// it. That does not depend on the values around it, and is most of a large vocabulary.
type mask struct {
	allowed []uint64
	exits   []exit
	spent   int // items
}

// An exit is a node of the trie whose byte does not stay inside.
type exit struct {
	at   int32
	from *node // before the byte
}

// The limits of caches. A mask of 128,000 tokens has 16 KB.
const (
	maxMasks  = 128
	worthMask = 1024 // nodes of the trie
)

// The limits of what masks cost, in items that they go through. None counts what caches save, or answers would depend
// on what else has run.
const (
	// cheap is what all masks of one vocabulary may take at the same time; usual patterns take less than 800,000 with
	// 128,000 tokens. What goes beyond is done one at a time, to leave other processors to those with simpler schemas.
	cheap = 1 << 20
	// budget is what one mask may take. Few schemas make 256,000 bytes of tokens need more; then only some tokens of more
	// than one byte may come, and no more than a single byte is ever needed.
	budget = 4 << 20
	// maxSpent is what the masks of an answer may take beyond cheap, some seconds. Then it fails.
	maxSpent = 128 * budget
)

// A meter counts the items that a mask goes through.
type meter struct {
	ctx   context.Context
	spent int
	slow  *sync.Mutex // has it from cheap items on
	has   bool
	gone  bool // ctx is done: the mask is not needed any more
}

// add counts items.
func (m *meter) add(items int) {
	if m.spent += items; m.spent <= cheap {
		return
	}
	if !m.has {
		m.slow.Lock()
		m.has = true
	}
	m.gone = m.ctx.Err() != nil
}

func (m *meter) end() {
	if m.has {
		m.slow.Unlock()
	}
}

func set(allowed []uint64, v *Vocabulary, token int32) {
	for ; token >= 0; token = v.next[token] {
		allowed[token/64] |= 1 << (token % 64)
	}
}

// inside returns the mask of a node that is no border.
func (g *Grammar) inside(n *node, meter *meter) *mask {
	m, v := g.machine, g.vocabulary
	n = m.far(n, int32(v.depth))
	if n.mask != nil {
		meter.spent += n.mask.spent
		return n.mask
	}
	found := &mask{allowed: make([]uint64, v.words)}
	path := make([]*node, v.depth+1)
	path[0] = n
	visited := int32(0)
	for i := int32(0); i < int32(len(v.nodes)); {
		t := &v.nodes[i]
		from := path[t.depth-1]
		visited++
		if t.plain && m.loops(from) {
			visited += t.end - i
			for ; i < t.end; i++ {
				set(found.allowed, v, v.nodes[i].token)
			}
			continue
		}
		if meter.add(len(from.items)); meter.gone {
			return found
		}
		if meter.spent > budget && t.depth > 1 {
			i = t.end
			continue
		}
		switch s := m.step(from, t.char); {
		case s.leave || s.calls != nil || s.to != nil && (s.to.closed || s.to.border):
			found.exits = append(found.exits, exit{i, from})
			i = t.end
		case s.to == nil:
			i = t.end
		default:
			path[t.depth] = s.to
			set(found.allowed, v, t.token)
			i++
		}
	}
	found.spent = meter.spent
	if visited >= worthMask {
		if len(m.masks) == maxMasks {
			for _, n := range m.masks {
				n.mask = nil
			}
			m.masks = m.masks[:0]
		}
		n.mask = found
		m.masks = append(m.masks, n)
	}
	return found
}

// loops reports whether all plain bytes lead from a node to itself, as inside a string of any length.
func (m *machine) loops(n *node) bool {
	if n.loops == unknown {
		n.loops = yes
		for b := byte(0); b < 0x80; b++ {
			if plain(b) && m.step(n, b).to != n {
				n.loops = no
				break
			}
		}
	}
	return n.loops == yes
}

// far returns a node that has the same mask: the count of a string does not matter while it is further from its limits
// than any token is long. So a string of up to 1,000 characters needs no 1,000 masks.
func (m *machine) far(n *node, depth int32) *node {
	items := n.items
	for i, it := range n.items {
		l := &m.leaves[m.states[it.state].leaf]
		count := it.n
		switch {
		case l.max >= 0 && l.max-count < depth:
		case l.max >= 0 && count >= l.min:
			count = anyCount
		case l.min-count >= depth:
			count = 0
		}
		if count != it.n {
			if &items[0] == &n.items[0] {
				items = slices.Clone(n.items)
			}
			items[i].n = count
		}
	}
	if &items[0] == &n.items[0] {
		return n
	}
	return m.node(items, n.room)
}

// walk adds the tokens to allowed that go on from a place by the nodes of the trie from first to end, whose parent is
// that place.
func (g *Grammar) walk(allowed []uint64, at config, first, end int32, meter *meter) {
	m, v := g.machine, g.vocabulary
	path := g.path
	if first == end {
		return
	}
	top := v.nodes[first].depth
	path[top-1] = at
	for i := first; i < end && !meter.gone; {
		t := &v.nodes[i]
		c := path[t.depth-1]
		if meter.add(len(c.top.items)); meter.spent > budget && t.depth > 1 || !m.next(&c, t.char) {
			i = t.end
			continue
		}
		path[t.depth] = c
		set(allowed, v, t.token)
		i++
	}
}

// allow sets allowed to the tokens that may come at a place.
func (g *Grammar) allow(allowed []uint64, at config, meter *meter) {
	if g.machine.full() {
		g.machine.forget()
	}
	if at.top.border {
		clear(allowed)
		g.walk(allowed, at, 0, int32(len(g.vocabulary.nodes)), meter)
		return
	}
	cached := g.inside(at.top, meter)
	copy(allowed, cached.allowed)
	for _, e := range cached.exits {
		g.walk(allowed, config{top: e.from, below: at.below}, e.at, g.vocabulary.nodes[e.at].end, meter)
	}
}

// apply sets the logits of all other tokens to minus infinity.
func apply(logits []float32, allowed []uint64) {
	for w, word := range allowed {
		part := logits[min(64*w, len(logits)):min(64*w+64, len(logits))]
		switch word {
		case 0:
			for i := range part {
				part[i] = forbidden
			}
		case ^uint64(0):
		default:
			for rest := ^word; rest != 0; rest &= rest - 1 {
				if i := bits.TrailingZeros64(rest); i < len(part) {
					part[i] = forbidden
				}
			}
		}
	}
	for i := 64 * len(allowed); i < len(logits); i++ {
		logits[i] = forbidden
	}
}
