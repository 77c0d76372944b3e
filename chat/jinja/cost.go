package jinja

import (
	"fmt"
	"math/big"
	"slices"
	"unicode/utf8"
)

// The limits of a template. Time is counted in steps, never by a clock, so a template ends at the same place on every
// machine. Everything that an operation reads or writes has a cost: every value that an expression gives pays for its
// text (eval), every value that a walk through values meets pays in visit, and whatever makes a value pays in spend
// before it makes it.
const (
	maxTemplate = 512 << 10 // bytes of a template
	maxDepth    = 200       // nesting of blocks, expressions and values
	maxCalls    = 1500      // depth of what runs: statements, expressions and calls in each other
	maxChain    = 500       // operators in a row
	maxSteps    = 4_000_000 // expressions, statements, items and pieces of text
	maxHeld     = 256 << 20 // bytes of all values that are made
	maxString   = 16 << 20  // bytes of one string
	maxBits     = 1 << 15   // of an integer
	maxDigits   = 4300      // of an integer as text, as in Python
	maxRange    = 100_000   // as in Jinja2's sandbox
	maxMessage  = 200       // bytes of a value in an error

	stepBytes = 64 // of text that are read or written in one step
	moreSteps = 16 // that a byte of the input adds to maxSteps
	moreHeld  = 64 // bytes that a byte of the input adds to maxHeld

	spanBytes  = 24  // of memory: a span,
	valueBytes = 64  // a value by itself,
	itemBytes  = 16  // a value's place in a list,
	entryBytes = 200 // an entry of a dict,
	frameBytes = 400 // the names of a block that a macro keeps
)

// budget holds what a render has paid, in bytes, and what it may pay.
type budget struct {
	paid, maxPaid int // time: stepBytes for a step
	held, maxHeld int // memory: everything that was made, whether or not it still exists
}

func newBudget(vars *Dict) budget {
	n := weight(vars, 0)
	return budget{maxPaid: stepBytes * (maxSteps + moreSteps*n), maxHeld: maxHeld + moreHeld*n}
}

// weight returns the size of an input.
func weight(v any, depth int) int {
	n := itemBytes
	switch v := v.(type) {
	case Str:
		n += len(v.s)
	case *List:
		for _, e := range v.items {
			n += weight(e, depth+1)
		}
	case *Dict:
		for i, k := range v.keys {
			n += weight(k, depth+1) + weight(v.values[i], depth+1)
		}
	}
	return n
}

// pay pays for the time of going through some bytes.
func (b *budget) pay(bytes int) {
	if b.paid += bytes; b.paid > b.maxPaid {
		fail("the template takes more than %d steps", b.maxPaid/stepBytes)
	}
}

// step pays for n expressions, statements or items.
func (b *budget) step(n int) { b.pay(n * stepBytes) }

// spend pays for making some bytes: for the time and for the memory.
func (b *budget) spend(bytes int) {
	b.pay(bytes)
	if b.held += bytes; b.held > b.maxHeld {
		fail("the template makes values of more than %d bytes in all", b.maxHeld)
	}
}

// read pays for going through a value by itself, without the values in it.
func (b *budget) read(v any) {
	switch v := v.(type) {
	case Str:
		b.pay(len(v.s) + spanBytes*len(v.in))
	case *big.Int:
		words := v.BitLen() / 64
		b.pay(words * words) // for a product, a quotient or the decimal text
	case Undefined:
		b.pay(len(v.what))
	}
}

// visit pays for a value that a walk through another one meets at this depth.
func (b *budget) visit(v any, depth int) {
	b.step(1)
	b.read(v)
	if depth > maxDepth {
		fail("a value nested more than %d deep", maxDepth)
	}
}

// made pays for the memory of a value by itself, without the values in it and the bytes of a text.
func (b *budget) made(v any) {
	switch v := v.(type) {
	case Str:
		b.spend(valueBytes + spanBytes*len(v.in))
	case *big.Int:
		b.spend(valueBytes + v.BitLen()/8)
	case *List:
		b.spend(valueBytes + itemBytes*len(v.items))
	case *generator:
		b.spend(valueBytes + itemBytes*len(v.items))
	default:
		b.spend(valueBytes)
	}
}

// push appends a value that was just made.
func (b *budget) push(all []any, v any) []any {
	b.spend(valueBytes + itemBytes)
	b.made(v)
	return append(all, v)
}

// list makes a list of items.
func (b *budget) list(items ...any) *List {
	l := list(items...)
	b.made(l)
	return l
}

// short returns a text as an error shows it.
func short(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	n := maxMessage
	for n > maxMessage-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// fail ends reading or running a template. Compile and Render turn it into an Error with a line.
func fail(format string, args ...any) { panic(&Error{Message: message(format, args)}) }

// message formats an error whose values are short.
func message(format string, args []any) string {
	args = slices.Clone(args)
	for i, a := range args {
		if s, is := a.(string); is {
			args[i] = short(s)
		}
	}
	return fmt.Sprintf(format, args...)
}
