package jsonform

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A machine determinizes an automaton while it runs.
type machine struct {
	*automaton
	nodes map[string]*node
	calls map[string]*calls
	masks []*node // those that have masks
	held  int     // items of nodes
	deep  int32   // no state needs more room than that
}

// An item is a state with the count of its leaf.
type item struct{ state, n int32 }

// anyCount is a count that is within the limits, and stays there.
const anyCount = -1

// A node is a set of items: all that the value may be that is being written. None of them needs more room, a number of
// objects and lists that may still be opened, than there is; of that a node knows at most machine.deep.
type node struct {
	items []item
	room  int32
	steps *[256]*step
	self  step // leads here
	mask  *mask
	loops tristate

	border bool // white space may come
	final  bool // the value may end here,
	closed bool // and does
}

// A tristate is what is known of something.
type tristate uint8

const (
	unknown tristate = iota
	yes
	no
)

// A step is what a byte does. It leads to a node of the same value, or starts a value inside it (calls is not nil),
// and leads to a node of that value.
type step struct {
	to    *node // nil: the byte must not come
	calls *calls
	opens bool // calls an object or a list
	leave bool // the value has ended before the byte
}

// calls are what may come after a value, by the leaf that it turns out to be.
type calls struct {
	list  []called
	room  int32
	backs map[*node]*node
}

type called struct {
	leaf int32
	back item
}

func newMachine(a *automaton) *machine {
	m := &machine{automaton: a}
	for _, l := range a.leaves {
		if l.need < never {
			m.deep = max(m.deep, l.need)
		}
	}
	m.forget()
	return m
}

// The most nodes to remember, of about 2 KB each, and the most items of all, of 16 bytes.
const (
	maxNodes = 1 << 11
	maxItems = 1 << 18
)

// full reports whether it is time to forget nodes.
func (m *machine) full() bool { return len(m.nodes) > maxNodes || m.held > maxItems }

// forget removes the nodes from memory, except for nodes that are in use.
func (m *machine) forget() {
	m.held = 0
	m.nodes, m.calls, m.masks = map[string]*node{}, map[string]*calls{}, nil
}

// node returns the node of items, and of what they may as well be; nil if there is none.
func (m *machine) node(items []item, room int32) *node {
	kept := items[:0:0]
	seen := map[item]bool{}
	for len(items) > 0 {
		it := items[len(items)-1]
		items = items[:len(items)-1]
		s := &m.states[it.state]
		if s.need > room || seen[it] {
			continue
		}
		seen[it] = true
		if len(s.edges) > 0 || s.choice >= 0 || s.final {
			kept = append(kept, it)
		}
		for _, to := range s.free {
			items = append(items, item{to, it.n})
		}
	}
	if len(kept) == 0 {
		return nil
	}
	slices.SortFunc(kept, func(a, b item) int { return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.n, b.n)) })
	key := appendKey(nil, room)
	for _, it := range kept {
		key = appendKey(key, it.state, it.n)
	}
	n := m.nodes[string(key)]
	if n == nil {
		n = &node{items: kept, room: room, closed: true}
		n.self.to = n
		for _, it := range kept {
			s := &m.states[it.state]
			n.border = n.border || s.border
			n.final = n.final || s.final
			n.closed = n.closed && s.final && len(s.edges) == 0 && len(s.free) == 0
		}
		m.nodes[string(key)] = n
		m.held += len(kept)
	}
	return n
}

func appendKey(key []byte, numbers ...int32) []byte {
	for _, n := range numbers {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	return key
}

// step returns what a byte does at a node.
func (m *machine) step(n *node, b byte) *step {
	if n.steps == nil {
		n.steps = new([256]*step)
	}
	if s := n.steps[b]; s != nil {
		return s
	}
	s := m.move(n, b)
	if s.to == nil {
		s = m.begin(n, b, m.room(n, b))
	}
	if s.to == nil && n.final {
		s = &step{leave: true}
	}
	n.steps[b] = s
	return s
}

// room returns the room in a value that starts at a node, as far as the node knows it.
func (m *machine) room(n *node, b byte) int32 {
	if b != '{' && b != '[' || n.room == m.deep {
		return m.deep
	}
	return n.room - 1
}

var nowhere = &step{}

// move returns the step inside the value.
func (m *machine) move(n *node, b byte) *step {
	var items []item
	for _, it := range n.items {
		items = m.follow(items, it, b)
	}
	if to := m.node(items, n.room); to != nil {
		return &to.self
	}
	return nowhere
}

// follow appends what a byte makes of an item.
func (m *machine) follow(items []item, it item, b byte) []item {
	s := &m.states[it.state]
	for _, e := range s.edges {
		if b < e.lo || b > e.hi {
			continue
		}
		next := item{e.to, it.n}
		switch l := &m.leaves[s.leaf]; {
		case it.n == anyCount:
		case e.op == enough && it.n < l.min, e.op >= add && e.op != enough && l.max >= 0 && it.n >= l.max:
			continue
		case e.op == add:
			next.n = l.count(it.n)
		}
		items = append(items, next)
	}
	return items
}

// count returns n and one more, as far as it matters.
func (l *leaf) count(n int32) int32 {
	if l.max < 0 {
		return min(n+1, l.min)
	}
	return n + 1
}

// begin returns the step into a value that has the given room.
func (m *machine) begin(n *node, b byte, room int32) *step {
	var list []called
	var items []item
	for _, it := range n.items {
		s := &m.states[it.state]
		if s.choice < 0 {
			continue
		}
		for _, i := range m.choices[s.choice] {
			l := &m.leaves[i]
			if l.need > n.room {
				continue
			}
			before := len(items)
			items = m.follow(items, item{state: l.start}, b)
			if len(items) == before {
				continue
			}
			back := item{s.back, it.n}
			if s.counts {
				back.n = m.leaves[s.leaf].count(it.n)
			}
			list = append(list, called{i, back})
		}
	}
	to := m.node(items, room)
	if to == nil {
		return nowhere
	}
	return &step{to: to, calls: m.called(list, n.room), opens: b == '{' || b == '['}
}

func (m *machine) called(list []called, room int32) *calls {
	key := appendKey(nil, room)
	for _, c := range list {
		key = appendKey(key, c.leaf, c.back.state, c.back.n)
	}
	c := m.calls[string(key)]
	if c == nil {
		c = &calls{list: list, room: room, backs: map[*node]*node{}}
		m.calls[string(key)] = c
	}
	return c
}

// back returns the node after a value that has ended as n.
func (m *machine) back(c *calls, n *node) *node {
	to, is := c.backs[n]
	if is {
		return to
	}
	var items []item
	for _, called := range c.list {
		if slices.ContainsFunc(n.items, func(it item) bool {
			s := &m.states[it.state]
			return s.final && s.leaf == called.leaf
		}) {
			items = append(items, called.back)
		}
	}
	to = m.node(items, c.room)
	c.backs[n] = to
	return to
}

// A config is a place in a document: a node, and the values around it.
type config struct {
	top   *node
	below *frame
	// space is the white space just before: 0 none, -1 a space, n a line break and an indentation of n-1.
	space int32
}

// A frame is a value that is not at its end, around another one.
type frame struct {
	calls *calls
	up    *frame
	depth int32 // objects and lists that are open in the value inside
}

// next moves on by a byte. It returns false if that must not come; then c is of no use.
func (m *machine) next(c *config, b byte) bool {
	s := m.step(c.top, b)
	for {
		if c.top.border && (b == ' ' || b == '\n' || b == '\t') {
			return c.blank(b)
		}
		if !s.leave {
			break
		}
		if !m.leave(c) {
			return false
		}
		s = m.step(c.top, b)
	}
	if s.to == nil {
		return false
	}
	c.space = 0
	if s.calls != nil {
		depth := c.depth()
		if s.opens {
			depth++
			if room := maxDepth - depth; room < s.to.room {
				if s = m.begin(c.top, b, room); s.to == nil {
					return false
				}
			}
		}
		c.below = &frame{s.calls, c.below, depth}
	}
	c.top = s.to
	for c.top.closed && c.below != nil {
		if !m.leave(c) {
			return false
		}
	}
	return true
}

// leave ends the value that is being written.
func (m *machine) leave(c *config) bool {
	if c.below == nil {
		return false
	}
	c.top, c.below = m.back(c.below.calls, c.top), c.below.up
	return c.top != nil
}

func (c *config) depth() int32 {
	if c.below == nil {
		return 0
	}
	return c.below.depth
}

// blank adds white space.
func (c *config) blank(b byte) bool {
	switch {
	case b == '\n' && c.space == 0 && c.depth() > 0:
		c.space = 1
	case b == ' ' && c.space == 0:
		c.space = -1
	case b != '\n' && 0 < c.space && c.space <= 4*c.depth():
		c.space++
	default:
		return false
	}
	return true
}

// complete reports whether the document may end.
func (m *machine) complete(c config) bool {
	for c.top.final && c.below != nil {
		if !m.leave(&c) {
			return false
		}
	}
	return c.top.final
}
