package jsonform

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// formats are the formats of strings, as patterns. They are stricter than their RFCs in length, so that they end.
var formats = map[string]string{
	"date":      "^" + date + "$",
	"time":      "^" + clock + "$",
	"date-time": "^" + date + "T" + clock + "$",
	"duration": `^P(\d{1,4}W|(\d{1,4}Y(\d{1,4}M)?(\d{1,4}D)?|\d{1,4}M(\d{1,4}D)?|\d{1,4}D)(T` + hours + `)?|T` + hours +
		`)$`,
	"email":    `^[A-Za-z0-9_+-]{1,32}(\.[A-Za-z0-9_+-]{1,32}){0,2}@` + hostname + `(\.` + hostname + `){1,4}$`,
	"hostname": `^` + hostname + `(\.` + hostname + `){0,4}$`,
	"ipv4":     `^` + ipv4 + `$`,
	"ipv6": `^(` + group + `:){7}` + group + `$|^::$|^(` + group + `:){1,7}:$|^:(:` + group + `){1,7}$` +
		`|^(` + group + `:){1}(:` + group + `){1,6}$|^(` + group + `:){2}(:` + group + `){1,5}$` +
		`|^(` + group + `:){3}(:` + group + `){1,4}$|^(` + group + `:){4}(:` + group + `){1,3}$` +
		`|^(` + group + `:){5}(:` + group + `){1,2}$|^(` + group + `:){6}:` + group + `$`,
	"uuid": `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`,
}

const (
	date = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))` +
		`|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)`
	clock    = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
	hours    = `(\d{1,4}H(\d{1,4}M)?(\d{1,4}S)?|\d{1,4}M(\d{1,4}S)?|\d{1,4}S)`
	hostname = `[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?`
	ipv4     = `((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	group    = `[0-9a-fA-F]{1,4}`
)

// maxPattern is the most bytes of a pattern.
const maxPattern = 4096

// patternLeaf returns the leaf of the strings in which a pattern matches somewhere.
func (a *automaton) patternLeaf(pattern string, ascii bool) (int32, error) {
	if len(pattern) > maxPattern {
		return 0, fmt.Errorf("it has %d bytes: at most %d are supported", len(pattern), maxPattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	leaf := a.newLeaf()
	start, empty, before, nowhere := a.new(leaf), a.new(leaf), a.new(leaf), a.new(leaf)
	p := patterns{automaton: a, leaf: leaf, ascii: ascii, at: map[place]int32{}, tails: map[tail]int32{},
		closed: a.newFinal(leaf), after: a.new(leaf)}
	a.text(p.after, p.closed, false)
	a.text(before, nowhere, false) // what comes before a match
	a.byte(start, '"', empty)
	a.states[empty].edges = a.states[before].edges
	a.free(empty, p.state(place{uint32(program.Start), first}))
	a.free(before, p.state(place{uint32(program.Start), inner}))
	a.leaves[leaf].start = start
	for len(p.todo) > 0 && a.err == nil {
		next := p.todo[len(p.todo)-1]
		p.todo = p.todo[:len(p.todo)-1]
		if err := p.build(next, &program.Inst[next.pc]); err != nil {
			return 0, err
		}
	}
	return leaf, nil
}

// patterns builds the states of a leaf from the program of a regular expression, whose instructions are about whole
// characters.
type patterns struct {
	*automaton
	leaf   int32
	ascii  bool // other characters do not occur
	at     map[place]int32
	tails  map[tail]int32
	closed int32   // after the closing quote
	after  int32   // after a match: any characters, or the end
	todo   []place // to build
}

// A place is an instruction, and where in the text it is.
type place struct {
	pc   uint32
	mode mode
}

type mode uint8

const (
	first mode = iota // nothing came before
	inner
	last // nothing comes after
)

// A tail is a state and the bytes that lead to it.
type tail struct {
	lo, hi string
	to     int32
}

func (p *patterns) state(at place) int32 {
	s, is := p.at[at]
	if !is {
		s = p.new(p.leaf)
		p.at[at] = s
		p.todo = append(p.todo, at)
	}
	return s
}

func (p *patterns) build(at place, inst *syntax.Inst) error {
	from := p.at[at]
	switch inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		p.free(from, p.state(place{inst.Out, at.mode}))
		p.free(from, p.state(place{inst.Arg, at.mode}))
	case syntax.InstCapture, syntax.InstNop:
		p.free(from, p.state(place{inst.Out, at.mode}))
	case syntax.InstEmptyWidth:
		to := place{inst.Out, at.mode}
		switch syntax.EmptyOp(inst.Arg) {
		case syntax.EmptyBeginText:
			if at.mode != first {
				return nil
			}
		case syntax.EmptyEndText:
			to.mode = last
		default:
			return errors.New(`\b, \B and lines of their own are not supported: use only ^ and $ besides characters`)
		}
		p.free(from, p.state(to))
	case syntax.InstMatch:
		if at.mode == last {
			p.byte(from, '"', p.closed)
		} else {
			p.free(from, p.after)
		}
	case syntax.InstFail:
	default:
		if at.mode != last {
			p.runes(from, inst, p.state(place{inst.Out, inner}))
		}
	}
	return nil
}

// runes adds the characters of an instruction.
func (p *patterns) runes(from int32, inst *syntax.Inst, to int32) {
	switch r := inst.Rune; {
	case inst.Op == syntax.InstRuneAny:
		p.between(from, 0, unicode.MaxRune, to)
	case inst.Op == syntax.InstRuneAnyNotNL:
		p.between(from, 0, '\n'-1, to)
		p.between(from, '\n'+1, unicode.MaxRune, to)
	case len(r) == 1:
		p.between(from, r[0], r[0], to)
		fold := syntax.Flags(inst.Arg)&syntax.FoldCase != 0
		for other := unicode.SimpleFold(r[0]); fold && other != r[0]; other = unicode.SimpleFold(other) {
			p.between(from, other, other, to)
		}
	default:
		for i := 0; i+1 < len(r); i += 2 {
			p.between(from, r[i], r[i+1], to)
		}
	}
}

// between adds the characters from lo to hi, as they are spelled in a string.
func (p *patterns) between(from int32, lo, hi rune, to int32) {
	for ; lo <= hi && lo < 0x80; lo++ {
		short := strings.IndexRune("\"\\\b\f\n\r\t", lo)
		switch {
		case short >= 0:
			spelled := "\\" + `"\bfnrt`[short:short+1]
			p.sequence(from, spelled, spelled, to)
		case lo >= ' ':
			last := lo
			for last < hi && last+1 < 0x80 && last+1 != '"' && last+1 != '\\' {
				last++
			}
			p.edge(from, byte(lo), byte(last), none, to)
			lo = last
		}
	}
	if p.ascii || lo > hi {
		return
	}
	p.split(from, lo, min(hi, 0xD7FF), to)
	p.split(from, max(lo, 0xE000), hi, to)
}

// split adds the characters from lo to hi, none of them ASCII, by parts whose bytes are ranges.
func (p *patterns) split(from int32, lo, hi rune, to int32) {
	if lo > hi {
		return
	}
	for _, top := range []rune{0x7FF, 0xFFFF} { // of those with as many bytes
		if lo <= top && top < hi {
			p.split(from, lo, top, to)
			p.split(from, top+1, hi, to)
			return
		}
	}
	for bits := 6; bits < 6*utf8.RuneLen(lo); bits += 6 {
		m := rune(1)<<bits - 1
		if lo&^m == hi&^m {
			break
		}
		if lo&m != 0 {
			p.split(from, lo, lo|m, to)
			p.split(from, lo|m+1, hi, to)
			return
		}
		if hi&m != m {
			p.split(from, lo, hi&^m-1, to)
			p.split(from, hi&^m, hi, to)
			return
		}
	}
	p.sequence(from, string(lo), string(hi), to)
}

// sequence adds bytes, the i-th of them from lo[i] to hi[i].
func (p *patterns) sequence(from int32, lo, hi string, to int32) {
	if len(lo) > 1 {
		rest := tail{lo[1:], hi[1:], to}
		s, is := p.tails[rest]
		if !is {
			s = p.new(p.leaf)
			p.tails[rest] = s
			p.sequence(s, rest.lo, rest.hi, to)
		}
		to = s
	}
	p.edge(from, lo[0], hi[0], none, to)
}
