package jsonform

import "strings"

// text makes body the inside of a string, which leads to end after its closing quote. Each character counts. With
// escapes, \u and \/ may come as well as what has to be escaped.
func (a *automaton) text(body, end int32, escapes bool) {
	leaf := a.states[body].leaf
	for _, r := range [][2]byte{{' ', '!'}, {'#', '['}, {']', 0x7F}} {
		a.edge(body, r[0], r[1], add, body)
	}
	a.edge(body, '"', '"', enough, end)
	var tails [4]int32 // tails[n] is before n more bytes of a character
	tails[0] = body
	for n := 1; n < 4; n++ {
		tails[n] = a.new(leaf)
		a.edge(tails[n], 0x80, 0xBF, none, tails[n-1])
	}
	for _, c := range []struct {
		lo, hi   byte // the first byte of a character
		lo2, hi2 byte // the second
		rest     int
	}{
		{0xC2, 0xDF, 0x80, 0xBF, 0},
		{0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1},
		{0xF0, 0xF0, 0x90, 0xBF, 2}, {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2},
	} {
		second := a.new(leaf)
		a.edge(body, c.lo, c.hi, add, second)
		a.edge(second, c.lo2, c.hi2, none, tails[c.rest])
	}
	escape := a.new(leaf)
	a.edge(body, '\\', '\\', add, escape)
	for _, b := range []byte(`"\bfnrt`) {
		a.byte(escape, b, body)
	}
	if escapes {
		a.byte(escape, '/', body)
		u := a.new(leaf)
		a.byte(escape, 'u', u)
		a.unicode(u, body)
	}
}

// unicode adds the four hexadecimal digits after \u. A surrogate is followed by its other half.
func (a *automaton) unicode(u, body int32) {
	leaf := a.states[body].leaf
	hex := func(from, to int32, digits string) {
		for _, b := range []byte(digits) {
			a.byte(from, b, to)
		}
	}
	const all = "0123456789abcdefABCDEF"
	last, third, second := a.new(leaf), a.new(leaf), a.new(leaf)
	hex(u, second, "0123456789abcefABCEF")
	hex(second, third, all)
	hex(third, last, all)
	hex(last, body, all)

	d, high3, high4, slash, u2, low := a.new(leaf), a.new(leaf), a.new(leaf), a.new(leaf), a.new(leaf), a.new(leaf)
	hex(u, d, "dD")
	hex(d, third, "01234567")
	hex(d, high3, "89abAB")
	hex(high3, high4, all)
	hex(high4, slash, all)
	escape := a.new(leaf)
	a.byte(slash, '\\', escape)
	a.byte(escape, 'u', u2)
	hex(u2, low, "dD")
	hex(low, third, "cdefCDEF")
}

// stringLeaf returns the leaf of all strings of min to max characters; max -1 is without a limit.
func (a *automaton) stringLeaf(min, max int32) int32 {
	leaf := a.newLeaf()
	start, body := a.new(leaf), a.new(leaf)
	a.byte(start, '"', body)
	a.text(body, a.newFinal(leaf), true)
	l := &a.leaves[leaf]
	l.start, l.min, l.max = start, min, max
	return leaf
}

// literalLeaf returns the leaf of the values that are written as these texts.
func (a *automaton) literalLeaf(texts ...string) int32 {
	leaf := a.newLeaf()
	start := a.new(leaf)
	for _, text := range texts {
		a.states[a.literal(start, text)].final = true
	}
	a.leaves[leaf].start = start
	return leaf
}

// except returns the state after the opening quote of a string that is none of names, spelled by quoted, and ends in
// the state end.
func (a *automaton) except(names []string, body int32, ascii bool) int32 {
	type node struct {
		below map[byte]*node
		ends  bool
	}
	root := &node{below: map[byte]*node{}}
	for _, name := range names {
		n := root
		quoted := quote(name, ascii)
		for _, b := range []byte(quoted[1 : len(quoted)-1]) {
			if n.below[b] == nil {
				n.below[b] = &node{below: map[byte]*node{}}
			}
			n = n.below[b]
		}
		n.ends = true
	}
	// A state of the result is a place in the trie of names, and the state of the string that is there.
	var build func(n *node, at int32) int32
	build = func(n *node, at int32) int32 {
		s := a.new(a.states[body].leaf)
		for _, e := range a.states[at].edges {
			if n.ends && e.lo == '"' && at == body {
				continue
			}
			from := int(e.lo)
			for b := from; b <= int(e.hi); b++ {
				below := n.below[byte(b)]
				if below == nil {
					continue
				}
				if from < b {
					a.edge(s, byte(from), byte(b-1), e.op, e.to)
				}
				a.edge(s, byte(b), byte(b), e.op, build(below, e.to))
				from = b + 1
			}
			if from <= int(e.hi) {
				a.edge(s, byte(from), e.hi, e.op, e.to)
			}
		}
		return s
	}
	return build(root, body)
}

// quote writes a string in JSON as short as it can be, or only in ASCII.
func quote(s string, ascii bool) string {
	const digits = "0123456789abcdef"
	var out strings.Builder
	unit := func(u rune) {
		out.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			out.WriteByte(digits[u>>shift&15])
		}
	}
	out.WriteByte('"')
	for _, r := range s {
		short := strings.IndexRune("\"\\\b\f\n\r\t", r)
		switch {
		case short >= 0:
			out.WriteByte('\\')
			out.WriteByte(`"\bfnrt`[short])
		case r < ' ' || ascii && r >= 0x80 && r < 0x10000:
			unit(r)
		case ascii && r >= 0x10000:
			unit(0xD800 + (r-0x10000)>>10)
			unit(0xDC00 + (r-0x10000)&0x3FF)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
