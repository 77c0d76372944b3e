package jinja

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// A Template is a compiled program. It may be used by several goroutines.
type Template struct {
	body  []*stmt
	scope *scope

	// Generation reports whether the template has {% generation %}.
	Generation bool
}

// Output is what a template writes.
type Output struct {
	Text string

	// Given lists the bytes of Text that came from the variables, in order; the template wrote all others.
	Given []Span

	// Generated lists what {% generation %} blocks wrote, in order.
	Generated []Span

	// Unplaced reports that there is a generation block inside a macro, or in another block whose text is not written
	// in place. It is not in Generated, and its place in Text is unknown.
	Unplaced bool
}

// Compile reads a template. The error is an [*Error].
func Compile(text string) (t *Template, err error) {
	defer recovered(&err, nil)
	if len(text) > maxTemplate {
		panic(&Error{Line: 1, Message: fmt.Sprintf("a template of %d bytes: at most %d", len(text), maxTemplate)})
	}
	p := &parser{tokens: lex(text)}
	body := p.body()
	if all := append(p.fatal, p.unknown...); len(all) > 0 {
		return nil, all[0]
	}
	t = &Template{body: body, Generation: generates(body)}
	t.scope = newScope(nil, nil, nil, body)
	return t, nil
}

func recovered(err *error, in *interp) {
	if r := recover(); r != nil {
		e, is := r.(*Error)
		if !is {
			panic(r)
		}
		if e.Line == 0 && in != nil {
			e.Line = in.line
		}
		*err = e
	}
}

func generates(body []*stmt) bool {
	return slices.ContainsFunc(body, func(s *stmt) bool {
		return s.op == "generation" || generates(s.body) || generates(s.other) || s.macro != nil && generates(s.macro.body)
	})
}

// Render runs the template on variables by their names. strftime_now writes the time now. The error is an [*Error].
func (t *Template) Render(vars *Dict, now time.Time) (out Output, err error) {
	return t.render(&interp{vars: vars, now: now, budget: newBudget(vars)})
}

func (t *Template) render(in *interp) (out Output, err error) {
	defer recovered(&err, in)
	b := &builder{in: in}
	f := newFrame(in, nil, t.scope)
	in.outer = b
	in.run(t.body, f, b)
	text := b.str()
	return Output{text.s, text.in, in.generated, in.unplaced}, nil
}

// AsError returns the Error in err.
func AsError(err error) (e *Error, is bool) { return e, errors.As(err, &e) }

// interp is a run.
type interp struct {
	budget
	vars      *Dict
	now       time.Time
	line      int
	depth     int
	outer     *builder // of the template's own output
	generated []Span
	unplaced  bool
}

func (in *interp) deeper() {
	if in.depth++; in.depth > maxCalls {
		fail("calls nested too deep: more than %d steps in each other", maxCalls)
	}
}

// scope has the initial value of each name that a body sets.
type scope struct {
	params []string
	names  map[string]bool   // of params
	set    map[string]string // name: "undefined" or "resolve", unless an outer scope has it
	cost   int               // of a frame, in bytes
}

// newScope looks through a body, in the order in which Jinja2's compiler does.
func newScope(params []string, targets *node, defaults []*node, body []*stmt) *scope {
	s := &scope{params: append(params, stored(targets)...), names: map[string]bool{}, set: map[string]string{}}
	seen := map[string]bool{}
	for _, p := range s.params {
		s.names[p] = true
	}
	for _, d := range defaults {
		loads(d, seen)
	}
	s.visit(body, seen, false)
	s.cost = stepBytes
	for name := range s.names {
		s.cost += stepBytes + len(name)
	}
	for name := range s.set {
		s.cost += stepBytes + len(name)
	}
	return s
}

func (s *scope) store(name string, seen map[string]bool, branch bool) {
	if s.names[name] || s.set[name] != "" {
		return
	}
	s.set[name] = "undefined"
	if seen[name] || branch {
		s.set[name] = "resolve"
	}
}

func (s *scope) visit(body []*stmt, seen map[string]bool, branch bool) {
	load := func(all ...*node) {
		for _, n := range all {
			loads(n, seen)
		}
	}
	for _, st := range body {
		switch st.op {
		case "print", "filter":
			load(st.expr)
		case "if":
			load(st.expr)
			s.visit(st.body, seen, true)
			s.visit(st.other, seen, true)
		case "for":
			load(st.expr)
			st.scope = newScope([]string{"loop"}, st.target, nil, st.body)
			st.scope2 = newScope(nil, nil, nil, st.other)
		case "set", "setblock":
			if st.op == "set" { // Jinja2 does not look at a block's filters
				load(st.expr)
			}
			for _, name := range stored(st.target) {
				s.store(name, seen, branch)
			}
		case "macro":
			s.store(st.macro.name, seen, branch)
		case "call":
			load(st.expr)
		case "with":
			load(st.values...)
			var all node
			all.op, all.args = "tuple", st.targets
			st.scope = newScope(nil, &all, nil, st.body)
		}
		if st.macro != nil {
			m := st.macro
			m.scope = newScope(append([]string{"caller", "varargs", "kwargs"}, m.params...), nil, m.defaults, m.body)
		}
		if st.op == "setblock" || st.op == "filter" || st.op == "generation" {
			st.scope = newScope(nil, nil, nil, st.body)
		}
	}
}

func stored(n *node) []string {
	if n == nil || n.op == "nsref" {
		return nil
	}
	if n.op == "name" {
		return []string{n.name}
	}
	var all []string
	for _, a := range n.args {
		all = append(all, stored(a)...)
	}
	return all
}

func loads(n *node, seen map[string]bool) {
	if n == nil {
		return
	}
	if n.op == "name" {
		seen[n.name] = true
	}
	for _, a := range n.args {
		loads(a, seen)
	}
	for _, a := range n.named {
		loads(a.node, seen)
	}
	loads(n.star, seen)
	loads(n.pairs, seen)
}

// missing is a name of a frame that has no value yet.
type missing struct{}

// frame holds the names of a scope.
type frame struct {
	in     *interp
	parent *frame
	vars   map[string]any
	kept   bool // by a macro
}

func newFrame(in *interp, parent *frame, s *scope) *frame {
	in.pay(s.cost)
	f := &frame{in: in, parent: parent, vars: make(map[string]any, len(s.set)+len(s.params))}
	for name, begin := range s.set {
		if v, is := parent.find(name); is {
			f.vars[name] = v
		} else if begin == "resolve" {
			f.vars[name] = in.resolve(name)
		} else {
			f.vars[name] = missing{}
		}
	}
	return f
}

func (f *frame) find(name string) (any, bool) {
	for ; f != nil; f = f.parent {
		f.in.pay(8 + len(name))
		if v, is := f.vars[name]; is {
			return v, true
		}
	}
	return nil, false
}

// keep pays for the memory of frames that a macro keeps.
func (f *frame) keep() {
	for ; f != nil && !f.kept; f = f.parent {
		f.kept = true
		f.in.spend(frameBytes + valueBytes*len(f.vars))
	}
}

// resolve looks a name up among the variables and the functions.
func (in *interp) resolve(name string) any {
	if v, is := in.vars.get(name); is {
		return v
	}
	if v, is := globals[name]; is {
		return v
	}
	return missing{}
}

func (f *frame) get(name string) any {
	v, is := f.find(name)
	if !is {
		v = f.in.resolve(name)
	}
	if _, is := v.(missing); is {
		return Undefined{"'" + name + "' is undefined"}
	}
	return v
}

type signal int

const (
	onward signal = iota
	breaks
	continues
)

// run runs statements and writes to out.
func (in *interp) run(body []*stmt, f *frame, out *builder) signal {
	in.deeper()
	defer func() { in.depth-- }()
	for _, s := range body {
		in.step(1)
		in.line = s.line
		switch s.op {
		case "text":
			out.add(s.text)
		case "print":
			v := in.str(in.eval(s.expr, f))
			out.add(v)
		case "if":
			branch := s.other
			if truth(in.eval(s.expr, f)) {
				branch = s.body
			}
			if sig := in.run(branch, f, out); sig != onward {
				return sig
			}
		case "for":
			in.loop(s, f, out, in.eval(s.expr, f), 0)
		case "set":
			in.assign(s.target, in.eval(s.expr, f), f)
		case "break":
			return breaks
		case "continue":
			return continues
		default:
			if sig := in.block(s, f, out); sig != onward {
				return sig
			}
		}
	}
	return onward
}

// block runs a statement whose body is written elsewhere, or is a function.
func (in *interp) block(s *stmt, f *frame, out *builder) signal {
	switch s.op {
	case "setblock", "filter":
		b := &builder{in: in}
		inner := newFrame(in, f, s.scope)
		if sig := in.run(s.body, inner, b); sig != onward {
			return sig
		}
		var v any = b.str()
		if s.expr != nil {
			v = in.filtered(s.expr, inner, v)
		}
		if s.op == "filter" {
			out.add(toStr(v))
		} else {
			in.assign(s.target, v, f)
		}
	case "macro":
		f.vars[s.macro.name] = in.macro(s.macro, f)
	case "call":
		caller := in.macro(s.macro, f)
		out.add(in.str(in.call(s.expr, f, caller)))
	case "with":
		inner := newFrame(in, f, s.scope)
		for i, t := range s.targets {
			in.assign(t, in.eval(s.values[i], f), inner)
		}
		return in.run(s.body, inner, out)
	case "generation":
		start := out.b.Len()
		in.run(s.body, newFrame(in, f, s.scope), out)
		if out == in.outer {
			in.generated = append(in.generated, Span{Start: start, End: out.b.Len()})
		} else {
			in.unplaced = true
		}
	}
	return onward
}

func (in *interp) assign(t *node, v any, f *frame) {
	switch t.op {
	case "name":
		f.vars[t.name] = v
	case "nsref":
		ns, is := f.get(t.name).(*namespace)
		if !is {
			fail("cannot assign attribute on non-namespace object")
		}
		name := t.value.(string)
		if name[0] == '_' {
			fail("chat templates cannot store attributes that begin with an underscore on a namespace: rename %s", name)
		}
		ns.Set(name, v)
	default:
		items := in.iterate(v)
		if len(items) != len(t.args) {
			fail("%d values to unpack, expected %d", len(items), len(t.args))
		}
		for i, a := range t.args {
			in.assign(a, items[i], f)
		}
	}
}

// loopVar is the variable loop.
type loopVar struct {
	items   []any
	i       int
	depth   int
	changed []any
	again   func(any) Str // of a recursive loop
}

func (in *interp) loop(s *stmt, f *frame, out *builder, v any, depth int) {
	in.deeper()
	defer func() { in.depth-- }()
	items := in.iterate(v)
	if s.cond != nil {
		var left []any
		for _, e := range items {
			inner := &frame{in: in, parent: f, vars: map[string]any{}}
			in.assign(s.target, e, inner)
			if truth(in.eval(s.cond, inner)) {
				left = append(left, e)
			}
		}
		items = left
	}
	in.spend(valueBytes + itemBytes*4)
	l := &loopVar{items: items, depth: depth}
	if s.text.s == "recursive" {
		l.again = func(v any) Str {
			b := &builder{in: in}
			in.loop(s, f, b, v, depth+1)
			return b.str()
		}
	}
	completed := false
	for i, e := range items {
		in.step(1)
		l.i = i
		inner := newFrame(in, f, s.scope)
		inner.vars["loop"] = l
		in.assign(s.target, e, inner)
		sig := in.run(s.body, inner, out)
		if sig == breaks {
			break
		}
		completed = completed || sig == onward
	}
	if !completed && len(s.other) > 0 {
		in.run(s.other, newFrame(in, f, s.scope2), out)
	}
}

// field returns an attribute of the variable loop.
func (l *loopVar) field(in *interp, name string) (any, bool) {
	at := func(i int) any {
		if i < 0 {
			return Undefined{"there is no previous item"}
		}
		if i >= len(l.items) {
			return Undefined{"there is no next item"}
		}
		return l.items[i]
	}
	integer := func(n int) any { return big.NewInt(int64(n)) }
	switch name {
	case "index":
		return integer(l.i + 1), true
	case "index0":
		return integer(l.i), true
	case "revindex":
		return integer(len(l.items) - l.i), true
	case "revindex0":
		return integer(len(l.items) - l.i - 1), true
	case "first":
		return l.i == 0, true
	case "last":
		return l.i == len(l.items)-1, true
	case "length":
		return integer(len(l.items)), true
	case "depth":
		return integer(l.depth + 1), true
	case "depth0":
		return integer(l.depth), true
	case "previtem":
		return at(l.i - 1), true
	case "nextitem":
		return at(l.i + 1), true
	case "cycle":
		return &Func{name: name, call: func(_ *interp, a *args) any {
			if len(a.list) == 0 {
				fail("no items for cycling given")
			}
			return a.list[l.i%len(a.list)]
		}}, true
	case "changed":
		return &Func{name: name, call: func(in *interp, a *args) any {
			same := l.changed != nil && in.equal(list(l.changed...), list(a.list...))
			l.changed = append([]any{}, a.list...)
			return !same
		}}, true
	}
	return nil, false
}

// macro makes a function from a macro that was met in f.
func (in *interp) macro(m *macro, f *frame) *Func {
	in.spend(entryBytes*8 + itemBytes*len(m.params))
	f.keep()
	names := make([]any, len(m.params))
	for i, p := range m.params {
		names[i] = own(p)
	}
	fields := map[string]any{"name": own(m.name), "arguments": tuple(names...), "catch_varargs": m.varargs,
		"catch_kwargs": m.kwargs, "caller": m.calls}
	return &Func{name: m.name, macro: m, fields: fields, call: func(in *interp, a *args) any {
		in.deeper()
		defer func() { in.depth-- }()
		inner := newFrame(in, f, m.scope)
		a.macro(in, m, inner)
		b := &builder{in: in}
		in.run(m.body, inner, b)
		return b.str()
	}}
}

// macro puts the arguments of a call under their names.
func (a *args) macro(in *interp, m *macro, f *frame) {
	if len(a.list) > len(m.params) && !m.varargs {
		fail("macro '%s' takes not more than %d argument(s)", m.name, len(m.params))
	}
	for i, p := range m.params {
		v, named := a.named.get(p)
		switch {
		case i < len(a.list):
			if named {
				fail("macro '%s' got two values for '%s'", m.name, p)
			}
			f.vars[p] = a.list[i]
		case named:
			f.vars[p] = v
		default:
			f.vars[p] = Undefined{"parameter '" + p + "' was not provided"}
			if d := i - len(m.params) + len(m.defaults); d >= 0 {
				f.vars[p] = in.eval(m.defaults[d], f)
			}
		}
	}
	rest := &Dict{}
	for i, k := range a.named.keys {
		in.spend(entryBytes + len(m.params))
		if name := k.(Str).s; !slices.Contains(m.params, name) {
			if !m.kwargs {
				fail("macro '%s' takes no keyword argument '%s'", m.name, name)
			}
			rest.Set(name, a.named.values[i])
		}
	}
	if m.varargs {
		f.vars["varargs"] = tuple(a.list[min(len(a.list), len(m.params)):]...)
	}
	if m.kwargs {
		f.vars["kwargs"] = rest
	}
	if m.calls {
		f.vars["caller"] = Undefined{"no caller defined"}
		if a.caller != nil {
			f.vars["caller"] = a.caller
		}
	} else if a.caller != nil {
		fail("macro '%s' has no use for a caller", m.name)
	}
}
