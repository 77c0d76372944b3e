package jsonform

import "errors"

// An automaton is what all values of a schema are compiled to: states, and for each kind of value the state that it
// starts in. A state has edges for bytes, free moves to other states, or calls a value.
type automaton struct {
	states  []state
	leaves  []leaf
	choices [][]int32 // the leaves that a value may be
	size    int       // states and edges, to limit them
	err     error     // that there are too many
}

// A state is a place in a leaf.
type state struct {
	edges  []edge
	free   []int32 // states that it may as well be
	choice int32   // the value that is called here; -1 for none
	back   int32   // the state after that value
	counts bool    // the value counts as an item
	leaf   int32
	// final means that the value may end here, border that white space may come.
	final, border bool
	// need is the least number of objects and lists that have to be opened inside each other from here to the end of the
	// leaf; never if it cannot be reached.
	need int32
}

// An edge leads to a state if the next byte is in [lo, hi] and the leaf's limits allow it.
type edge struct {
	to     int32
	lo, hi byte
	op     op
}

// An op relates an edge to the count of its leaf, of characters or items.
type op uint8

const (
	none   op = iota
	add       // one more; refused if there are the most already
	enough    // refused if there are too few
	more      // refused if there are the most already
)

// A leaf is a kind of value without alternatives: objects with certain properties, strings of a pattern, the values of
// an enum.
type leaf struct {
	start     int32
	min, max  int32 // limits of the count; max is -1 without one
	container bool
	need      int32 // as of the state start, and 1 for the container itself
}

const (
	maxDepth = 64      // of objects and lists in a document
	maxSize  = 1 << 17 // states and edges of a schema
	never    = 1 << 20
)

func (a *automaton) newLeaf() int32 {
	a.leaves = append(a.leaves, leaf{max: -1, need: never})
	return int32(len(a.leaves)) - 1
}

// new returns a new state of a leaf.
func (a *automaton) new(leaf int32) int32 {
	a.grow()
	a.states = append(a.states, state{choice: -1, leaf: leaf, need: never})
	return int32(len(a.states)) - 1
}

func (a *automaton) newBorder(leaf int32) int32 {
	s := a.new(leaf)
	a.states[s].border = true
	return s
}

func (a *automaton) newFinal(leaf int32) int32 {
	s := a.new(leaf)
	a.states[s].final = true
	return s
}

// grow counts a state or an edge. Once there are too many, what is built is not used, but it stays small.
func (a *automaton) grow() {
	if a.size++; a.size > maxSize && a.err == nil {
		a.err = errors.New("the schema is too large: it has more than 131,072 states and edges; " +
			"shorten patterns that repeat large classes of characters, or have fewer properties and values")
	}
}

func (a *automaton) edge(from int32, lo, hi byte, op op, to int32) {
	if a.grow(); a.err == nil {
		a.states[from].edges = append(a.states[from].edges, edge{to, lo, hi, op})
	}
}

func (a *automaton) byte(from int32, b byte, to int32) { a.edge(from, b, b, none, to) }

func (a *automaton) free(from, to int32) {
	if a.grow(); a.err == nil {
		a.states[from].free = append(a.states[from].free, to)
	}
}

// call makes a state call a value, and returns the border after it.
func (a *automaton) call(from, choice int32, counts bool) (back int32) {
	back = a.newBorder(a.states[from].leaf)
	s := &a.states[from]
	s.choice, s.back, s.counts = choice, back, counts
	return back
}

// literal adds a text after a state, sharing what already is there, and returns the state after it. It is for states
// that have only edges of one byte each.
func (a *automaton) literal(from int32, text string) int32 {
next:
	for i := range len(text) {
		for _, e := range a.states[from].edges {
			if e.lo == text[i] && e.hi == text[i] {
				from = e.to
				continue next
			}
		}
		if a.err != nil {
			return from
		}
		to := a.new(a.states[from].leaf)
		a.byte(from, text[i], to)
		from = to
	}
	return from
}

// measure computes what states and leaves need. It repeats passes until nothing changes: in one pass from the last
// state to the first, a value is done whose parts were built after it.
func (a *automaton) measure() {
	for changed := true; changed; {
		changed = false
		for i := len(a.states) - 1; i >= 0; i-- {
			s := &a.states[i]
			need := int32(never)
			if s.final {
				need = 0
			}
			for _, e := range s.edges {
				need = min(need, a.states[e.to].need)
			}
			for _, to := range s.free {
				need = min(need, a.states[to].need)
			}
			if s.choice >= 0 {
				need = min(need, max(a.states[s.back].need, a.need(s.choice)))
			}
			if need < s.need {
				s.need, changed = need, true
			}
		}
		for i := range a.leaves {
			l := &a.leaves[i]
			need := a.states[l.start].need
			if l.container {
				need++
			}
			if need < l.need && need <= maxDepth {
				l.need, changed = need, true
			}
		}
	}
}

// need returns what the value of a choice needs.
func (a *automaton) need(choice int32) int32 {
	need := int32(never)
	for _, l := range a.choices[choice] {
		need = min(need, a.leaves[l].need)
	}
	return need
}
