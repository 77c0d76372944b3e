package jsonform

import (
	"math"
	"strconv"
	"strings"
)

// The most digits of a number.
const (
	maxInteger  = 18
	maxFraction = 18
	maxExponent = 2

	mostInteger = 1e18 - 1
)

// bounds are the limits of a number, both included.
type bounds struct {
	lo, hi int64 // math.MinInt64 and math.MaxInt64 are none
	// above and below exclude lo and hi.
	above, below bool
}

var unbounded = bounds{lo: math.MinInt64, hi: math.MaxInt64}

// numberLeaf returns the leaf of the numbers within bounds; with bounds, they have no exponents.
func (a *automaton) numberLeaf(integer bool, b bounds) int32 {
	leaf := a.newLeaf()
	start := a.new(leaf)
	a.leaves[leaf].start = start
	n := numbers{a, leaf, integer, b == unbounded}
	if integer {
		if b.above && b.lo < math.MaxInt64 {
			b.lo, b.above = b.lo+1, false
		}
		if b.below && b.hi > math.MinInt64 {
			b.hi, b.below = b.hi-1, false
		}
	}
	b.lo, b.hi = max(b.lo, -mostInteger), min(b.hi, mostInteger)
	if b.hi >= 0 {
		n.from(start, bounds{max(b.lo, 0), b.hi, b.above && b.lo >= 0, b.below})
	}
	if b.lo < 0 {
		minus := a.new(leaf)
		a.byte(start, '-', minus)
		n.from(minus, bounds{max(-b.hi, 0), -b.lo, b.below && b.hi <= 0, b.above})
	}
	return leaf
}

// numbers builds the states of a leaf.
type numbers struct {
	*automaton
	leaf      int32
	integer   bool
	exponents bool
}

// from adds the numbers from lo to hi, neither negative, after a state.
func (n numbers) from(start int32, b bounds) {
	if b.lo > b.hi {
		return
	}
	if n.integer {
		n.integers(start, b.lo, b.hi, n.newFinal(n.leaf))
		return
	}
	// lo.…, then whole numbers between with any fraction, then hi with zeros at most.
	first, last := b.lo, b.hi-1
	if b.above && b.lo < b.hi {
		point := n.new(n.leaf)
		n.integers(start, b.lo, b.lo, point)
		n.nonzero(point)
		first++
	}
	if b.hi == mostInteger {
		n.integers(start, first, b.hi, n.fraction(true))
		return
	}
	n.integers(start, first, last, n.fraction(true))
	if b.hi > b.lo && !b.below || b.hi == b.lo && !b.above && !b.below {
		n.integers(start, b.hi, b.hi, n.fraction(false))
	}
}

// fraction returns the state after the digits before a point: a final one, with any fraction or only zeros.
func (n numbers) fraction(anyDigits bool) (end int32) {
	top := byte('0')
	if anyDigits {
		top = '9'
	}
	end = n.newFinal(n.leaf)
	digit := n.new(n.leaf)
	n.byte(end, '.', digit)
	ends := []int32{end}
	for range maxFraction {
		next := n.newFinal(n.leaf)
		n.edge(digit, '0', top, none, next)
		digit = next
		ends = append(ends, next)
	}
	if n.exponents {
		e, sign := n.new(n.leaf), n.new(n.leaf)
		for _, end := range ends {
			n.byte(end, 'e', e)
			n.byte(end, 'E', e)
		}
		n.byte(e, '+', sign)
		n.byte(e, '-', sign)
		n.free(e, sign)
		for range maxExponent {
			next := n.newFinal(n.leaf)
			n.edge(sign, '0', '9', none, next)
			sign = next
		}
	}
	return end
}

// nonzero adds a fraction that is not zero to the digits before a point.
func (n numbers) nonzero(from int32) {
	zeros := n.new(n.leaf)
	n.byte(from, '.', zeros)
	var digits [maxFraction]int32 // digits[i] has had i+1 digits
	for i := range digits {
		digits[i] = n.newFinal(n.leaf)
		if i > 0 {
			n.edge(digits[i-1], '0', '9', none, digits[i])
		}
	}
	for i := range digits {
		n.edge(zeros, '1', '9', none, digits[i])
		if i < maxFraction-1 {
			next := n.new(n.leaf)
			n.byte(zeros, '0', next)
			zeros = next
		}
	}
}

// integers adds the integers from lo to hi, neither negative, each leading to end.
func (n numbers) integers(start int32, lo, hi int64, end int32) {
	if lo <= 1 && hi == mostInteger {
		if lo == 0 {
			n.byte(start, '0', end)
		}
		first := byte('1')
		for range maxInteger {
			next := n.new(n.leaf)
			n.edge(start, first, '9', none, next)
			n.free(next, end)
			start, first = next, '0'
		}
		return
	}
	for lo <= hi {
		text := strconv.FormatInt(lo, 10)
		top := hi // of those with as many digits
		if len(text) < len(strconv.FormatInt(hi, 10)) {
			top, _ = strconv.ParseInt(strings.Repeat("9", len(text)), 10, 64)
		}
		n.digits(start, text, strconv.FormatInt(top, 10), end)
		lo = top + 1
	}
}

// digits adds the texts from lo to hi, which are equally long.
func (n numbers) digits(from int32, lo, hi string, end int32) {
	if lo == "" {
		n.free(from, end)
		return
	}
	zeros, nines := strings.Repeat("0", len(lo)-1), strings.Repeat("9", len(lo)-1)
	part := func(first, last byte, lo, hi string) {
		next := n.new(n.leaf)
		n.edge(from, first, last, none, next)
		n.digits(next, lo, hi, end)
	}
	first, last := lo[0], hi[0]
	if first == last {
		part(first, last, lo[1:], hi[1:])
		return
	}
	if lo[1:] != zeros {
		part(first, first, lo[1:], nines)
		first++
	}
	if hi[1:] != nines {
		part(last, last, zeros, hi[1:])
		last--
	}
	if first <= last {
		part(first, last, zeros, nines)
	}
}
