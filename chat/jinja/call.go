package jinja

import (
	"math/big"
	"slices"
	"strings"
)

// want orders the arguments of a call by the names of its parameters: afterwards the list has one for each name, nil
// if it was not given. The first min must be given. has tells which were given.
func (a *args) want(name string, min int, params ...string) (has []bool) {
	if len(a.list) > len(params) {
		fail("%s takes at most %d arguments, not %d", name, len(params), len(a.list))
	}
	has = make([]bool, len(params))
	for i := range a.list {
		has[i] = true
	}
	a.list = append(append([]any{}, a.list...), make([]any, len(params)-len(a.list))...)
	for k, key := range a.named.keys {
		i := len(params)
		for j, p := range params {
			if p == key.(Str).s {
				i = j
			}
		}
		if i == len(params) || has[i] {
			fail("%s has no argument %s, or has it twice", name, key.(Str).s)
		}
		a.list[i], has[i] = a.named.values[k], true
	}
	for i := range min {
		if !has[i] {
			fail("%s: the argument %s is missing", name, params[i])
		}
	}
	return has
}

func integer(n int) *big.Int { return big.NewInt(int64(n)) }

// toInt returns an argument that must be an integer.
func toInt(v any) int {
	n, _ := number(v)
	i, is := n.(*big.Int)
	if !is {
		undefinedFails(v)
		fail("'%s' object cannot be interpreted as an integer", typeName(v))
	}
	if !i.IsInt64() || i.Int64() > 1<<40 || i.Int64() < -1<<40 {
		fail("the integer %.40s is too large here", i.String())
	}
	return int(i.Int64())
}

// toStr returns an argument that must be a string.
func toStr(v any) Str {
	s, is := v.(Str)
	if !is {
		undefinedFails(v)
		fail("expected a string, not %s", typeName(v))
	}
	return s
}

// globals are the functions that every template may call.
var globals map[string]any

func init() {
	globals = map[string]any{}
	for name, call := range map[string]func(in *interp, a *args) any{
		"range": rangeOf, "dict": dictOf, "joiner": joiner, "cycler": cycler,
		"namespace": func(in *interp, a *args) any { return &namespace{*dictOf(in, a).(*Dict)} },
		"lipsum": func(*interp, *args) any {
			fail("lipsum is not allowed: prompts must be the same in training and in chat")
			return nil
		},
		"raise_exception": func(in *interp, a *args) any {
			a.want("raise_exception", 1, "message")
			panic(&Error{Message: in.str(a.list[0]).s, Raised: true, Line: in.line})
		},
		"strftime_now": func(in *interp, a *args) any {
			a.want("strftime_now", 1, "format")
			s := in.strftime(toStr(a.list[0]).s)
			return Str{s: s, in: []Span{{0, len(s), Elsewhere}}}
		},
	} {
		globals[name] = &Func{name: name, call: call}
	}
}

// Elsewhere is the source of text that did not come from a variable, such as the date.
const Elsewhere = -1

func rangeOf(_ *interp, a *args) any {
	if len(a.list) == 1 {
		a.list = []any{big.NewInt(0), a.list[0]}
	}
	has := a.want("range", 2, "start", "stop", "step")
	r := &Range{start: toInt(a.list[0]), stop: toInt(a.list[1]), step: 1}
	if has[2] {
		r.step = toInt(a.list[2])
	}
	switch {
	case r.step == 0:
		fail("range() arg 3 must not be zero")
	case r.step > 0:
		r.n = max(0, (r.stop-r.start+r.step-1)/r.step)
	default:
		r.n = max(0, (r.start-r.stop-r.step-1)/-r.step)
	}
	if r.n > maxRange {
		fail("range too big: a template may take at most %d items", maxRange)
	}
	return r
}

func dictOf(in *interp, a *args) any {
	d := &Dict{}
	if len(a.list) > 1 {
		fail("dict expected at most 1 argument, got %d", len(a.list))
	}
	for _, v := range a.list {
		if from, is := v.(*Dict); is {
			d = in.copy(from)
			continue
		}
		for _, e := range in.iterate(v) {
			pair := in.iterate(e)
			if len(pair) != 2 {
				fail("a dict is made of pairs")
			}
			in.set(d, pair[0], pair[1])
		}
	}
	for i, k := range a.named.keys {
		in.set(d, k, a.named.values[i])
	}
	return d
}

func joiner(_ *interp, a *args) any {
	a.want("joiner", 0, "sep")
	sep, used := a.list[0], false
	if sep == nil {
		sep = own(", ")
	}
	return &Func{name: "joiner", call: func(*interp, *args) any {
		if !used {
			used = true
			return Str{}
		}
		return sep
	}}
}

func cycler(_ *interp, a *args) any {
	if len(a.list) == 0 {
		fail("at least one item has to be provided")
	}
	at, items := 0, a.list
	return &Func{name: "cycler", fields: map[string]any{
		"current": func() any { return items[at] },
		"next": &Func{name: "next", call: func(*interp, *args) any {
			v := items[at]
			at = (at + 1) % len(items)
			return v
		}},
		"reset": &Func{name: "reset", call: func(*interp, *args) any { at = 0; return nil }},
	}, call: func(*interp, *args) any { fail("a cycler is not callable"); return nil }}
}

// method returns a method of a value, bound to it.
func method(v any, name string) (any, bool) {
	bind := func(call func(in *interp, a *args) any) (any, bool) { return &Func{name: name, call: call}, true }
	switch v := v.(type) {
	case Str:
		if m := stringMethods[name]; m != nil {
			return bind(func(in *interp, a *args) any {
				in.read(v)
				return m(in, v, a)
			})
		}
	case *List:
		if v.kind == "list" && strings.Contains(" append clear extend insert pop remove reverse sort ", " "+name+" ") {
			return Undefined{"access to attribute '" + name + "' of 'list' object is unsafe: it changes the list"}, true
		}
		if m := listMethods[name]; m != nil && (v.kind == "list" || v.kind == "tuple") {
			return bind(func(in *interp, a *args) any { return m(in, v, a) })
		}
	case *Dict:
		if slices.Contains([]string{"clear", "pop", "popitem", "setdefault", "update"}, name) {
			return Undefined{"access to attribute '" + name + "' of 'dict' object is unsafe: it changes the dict"}, true
		}
		if m := dictMethods[name]; m != nil {
			return bind(func(in *interp, a *args) any { return m(in, v, a) })
		}
	}
	return nil, false
}

var listMethods = map[string]func(in *interp, l *List, a *args) any{
	"index": func(in *interp, l *List, a *args) any { return in.search(l, "index", a) },
	"count": func(in *interp, l *List, a *args) any { return in.search(l, "count", a) },
	"copy":  func(_ *interp, l *List, _ *args) any { return l },
}

func (in *interp) search(l *List, name string, a *args) any {
	a.want(name, 1, "value")
	n := 0
	for i, e := range l.items {
		if in.equal(e, a.list[0]) {
			if name == "index" {
				return integer(i)
			}
			n++
		}
	}
	if name == "index" {
		fail("%s is not in the list", in.reprText(a.list[0]))
	}
	return integer(n)
}

var dictMethods = map[string]func(in *interp, d *Dict, a *args) any{
	"keys": func(_ *interp, d *Dict, a *args) any {
		a.want("keys", 0)
		return &List{"dict_keys", d.keys}
	},
	"values": func(_ *interp, d *Dict, a *args) any {
		a.want("values", 0)
		d.readAll()
		return &List{"dict_values", d.values}
	},
	"items": func(in *interp, d *Dict, a *args) any {
		a.want("items", 0)
		return &List{"dict_items", in.pairs(d)}
	},
	"copy": func(_ *interp, d *Dict, _ *args) any { return d },
	"get": func(in *interp, d *Dict, a *args) any {
		a.want("get", 1, "key", "default")
		if v, is := in.get(d, a.list[0]); is {
			return v
		}
		return a.list[1]
	},
}
