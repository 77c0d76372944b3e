package jinja

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A value is nil (None), bool, *big.Int, float64, Str, *List, *Dict, Undefined, *Range, *generator, *Func, *loopVar,
// *namespace.

// List is a list, a tuple, or a view of a dict.
type List struct {
	kind  string // "list", "tuple", "dict_keys", "dict_values" or "dict_items"
	items []any
}

// Dict is a mapping in the order of insertion. The zero value is empty.
type Dict struct {
	keys, values []any
	index        map[string]int
	read         map[string]bool // the names that were asked for, once Watch was called
}

// Undefined is a name or field without a value. Its text says which, for errors.
type Undefined struct{ what string }

// Range is Python's range.
type Range struct{ start, stop, step, n int }

// generator gives its items once, and makes each when it is asked for.
type generator struct {
	items []any
	make  func(any) (v any, keep bool) // nil: as they are
}

// next returns the next item, and whether there is one.
func (g *generator) next() (any, bool) {
	for len(g.items) > 0 {
		v, keep := g.items[0], true
		g.items = g.items[1:]
		if g.make != nil {
			v, keep = g.make(v)
		}
		if keep {
			return v, true
		}
	}
	return nil, false
}

func (g *generator) all() []any {
	var out []any
	for v, is := g.next(); is; v, is = g.next() {
		out = append(out, v)
	}
	return out
}

// Func is a function or method.
type Func struct {
	name   string
	call   func(in *interp, a *args) any
	macro  *macro
	fields map[string]any
}

type namespace struct{ Dict }

func list(items ...any) *List  { return &List{"list", items} }
func tuple(items ...any) *List { return &List{"tuple", items} }

// textKey starts the keys that are texts.
const textKey = "s"

// key returns a text that is equal for equal keys.
func (in *interp) key(v any) string {
	if s, is := v.(Str); is {
		in.visit(v, 0)
		return textKey + s.s
	}
	b := builder{in: in}
	in.hash(&b, v, 0)
	return b.b.String()
}

// hash writes bytes that are the same for equal keys, and never a prefix of other keys' bytes.
func (in *interp) hash(b *builder, v any, depth int) {
	in.visit(v, depth)
	n, isNumber := number(v)
	if f, is := n.(float64); is && f == math.Trunc(f) && !math.IsInf(f, 0) {
		n, _ = big.NewFloat(f).Int(nil)
	}
	switch l, isList := v.(*List); {
	case isNumber:
		b.add(own(fmt.Sprintf("n%v;", n)))
	case v == nil:
		b.add(own("none"))
	case isList && l.kind == "tuple":
		b.add(own(fmt.Sprintf("t%d:", len(l.items))))
		for _, e := range l.items {
			in.hash(b, e, depth+1)
		}
	default:
		switch v := v.(type) {
		case Str:
			b.add(own(fmt.Sprintf("x%d:", len(v.s))))
			b.add(own(v.s))
		case Undefined:
			b.add(own("undefined"))
		case *Range, *Func, *loopVar:
			b.add(own(fmt.Sprintf("p%p;", v)))
		default:
			fail("unhashable type: '%s'", typeName(v))
		}
	}
}

// get returns what d has for a name.
func (d *Dict) get(name string) (any, bool) {
	if d.read != nil {
		d.read[name] = true
	}
	i, is := d.index[textKey+name]
	if !is {
		return nil, false
	}
	return d.values[i], true
}

// get returns d[k].
func (in *interp) get(d *Dict, k any) (any, bool) {
	at := in.key(k)
	if s, is := k.(Str); is {
		return d.get(s.s)
	}
	i, is := d.index[at]
	if !is {
		return nil, false
	}
	return d.values[i], true
}

// set puts a value under a key.
func (in *interp) set(d *Dict, k, v any) {
	at := in.key(k)
	in.spend(entryBytes + len(at))
	d.put(at, k, v)
}

func (d *Dict) set(name Str, v any) { d.put(textKey+name.s, name, v) }

func (d *Dict) put(at string, k, v any) {
	if d.index == nil {
		d.index = map[string]int{}
	}
	if i, is := d.index[at]; is {
		d.values[i] = v
		return
	}
	d.index[at] = len(d.keys)
	d.keys, d.values = append(d.keys, k), append(d.values, v)
}

// Set puts a value of a variable under its name.
func (d *Dict) Set(name string, v any) { d.set(own(name), v) }

// Add puts the values of a JSON object under its keys.
func (d *Dict) Add(object []byte, source int) error {
	v, err := Parse(object, source)
	if err != nil {
		return err
	}
	from, is := v.(*Dict)
	if !is {
		return fmt.Errorf("%.60q: must be an object", object)
	}
	for i, k := range from.keys {
		d.Set(k.(Str).s, from.values[i])
	}
	return nil
}

// Watch makes the dict record what a template asks it for.
func (d *Dict) Watch() { d.read = map[string]bool{} }

// Read reports whether a template has asked for the value of this name since Watch.
func (d *Dict) Read(name string) bool { return d.read[name] }

// readAll records that a template has asked for everything.
func (d *Dict) readAll() {
	if d.read == nil {
		return
	}
	for _, k := range d.keys {
		if s, is := k.(Str); is {
			d.read[s.s] = true
		}
	}
}

func (in *interp) copy(d *Dict) *Dict {
	in.step(len(d.keys))
	in.spend(entryBytes * len(d.keys))
	return &Dict{keys: slices.Clone(d.keys), values: slices.Clone(d.values), index: maps.Clone(d.index)}
}

func (in *interp) pairs(d *Dict) []any {
	d.readAll()
	in.step(len(d.keys))
	in.spend((valueBytes + 3*itemBytes) * len(d.keys))
	out := make([]any, len(d.keys))
	for i, k := range d.keys {
		out[i] = tuple(k, d.values[i])
	}
	return out
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case *big.Int:
		return "int"
	case float64:
		return "float"
	case Str:
		return "str"
	case *List:
		return v.kind
	case *Dict:
		return "dict"
	case Undefined:
		return "Undefined"
	case *Range:
		return "range"
	case *namespace:
		return "Namespace"
	case *Func:
		return "function"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", v), "*jinja.")
}

// undefined fails with the name of what is not defined.
func (u Undefined) fail() { fail("%s", u.what) }

func truth(v any) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case Str:
		return v.s != ""
	case *List:
		return len(v.items) > 0
	case *Dict:
		return len(v.keys) > 0
	case *Range:
		return v.n > 0
	}
	return true
}

// number returns a bool as an integer, and integers and floats as they are.
func number(v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return big.NewInt(0), true
	case *big.Int, float64:
		return v, true
	}
	return nil, false
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		if math.IsInf(f, 0) {
			fail("int too large to convert to float")
		}
		return f
	case float64:
		return v
	}
	n, _ := number(v)
	return toFloat(n)
}

// compareNumbers returns the order of two numbers. It is exact for large integers.
func compareNumbers(a, b any) int {
	x, xInt := a.(*big.Int)
	y, yInt := b.(*big.Int)
	switch {
	case xInt && yInt:
		return x.Cmp(y)
	case xInt:
		return -compareNumbers(b, a)
	}
	f := a.(float64)
	if !yInt {
		switch g := b.(float64); {
		case f < g:
			return -1
		case f > g:
			return 1
		case f == g:
			return 0
		}
		return 2 // NaN
	}
	if math.IsInf(f, 0) {
		return int(math.Copysign(1, f))
	}
	if math.IsNaN(f) {
		return 2
	}
	return big.NewFloat(f).Cmp(new(big.Float).SetInt(y))
}

func (in *interp) equal(a, b any) bool { return in.equalAt(a, b, 0) }

func (in *interp) equalAt(a, b any, depth int) bool {
	in.visit(a, depth)
	x, isX := number(a)
	y, isY := number(b)
	if isX && isY {
		return compareNumbers(x, y) == 0
	}
	switch a := a.(type) {
	case Str:
		b, is := b.(Str)
		return is && a.s == b.s
	case nil:
		return b == nil
	case Undefined:
		_, is := b.(Undefined)
		return is
	case *List:
		b, is := b.(*List)
		if !is || a.kind != b.kind || len(a.items) != len(b.items) {
			return false
		}
		for i := range a.items {
			if !in.equalAt(a.items[i], b.items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		b, is := b.(*Dict)
		if !is || len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			if v, is := in.get(b, k); !is || !in.equalAt(a.values[i], v, depth+1) {
				return false
			}
		}
		return true
	case *Range:
		b, is := b.(*Range)
		return is && a.n == b.n && (a.n == 0 || a.start == b.start && (a.n == 1 || a.step == b.step))
	}
	return a == b
}

// less computes Python's a < b.
func (in *interp) less(a, b any, op string) bool { return in.lessAt(a, b, op, 0) }

func (in *interp) lessAt(a, b any, op string, depth int) bool {
	in.visit(a, depth)
	x, isX := number(a)
	y, isY := number(b)
	if isX && isY {
		return compareNumbers(x, y) == -1
	}
	if s, is := a.(Str); is {
		if t, is := b.(Str); is {
			return s.s < t.s
		}
	}
	if l, is := a.(*List); is {
		if m, is := b.(*List); is && l.kind == m.kind && (l.kind == "list" || l.kind == "tuple") {
			for i := range min(len(l.items), len(m.items)) {
				if !in.equalAt(l.items[i], m.items[i], depth+1) {
					return in.lessAt(l.items[i], m.items[i], op, depth+1)
				}
			}
			return len(l.items) < len(m.items)
		}
	}
	for _, v := range []any{a, b} {
		if u, is := v.(Undefined); is {
			u.fail()
		}
	}
	fail("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return false
}

func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	if n, _ := strconv.Atoi(exp); n >= -4 && n < 16 {
		s = strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	return mantissa + "e" + exp
}

// str returns Python's str(v).
func (in *interp) str(v any) Str {
	switch v := v.(type) {
	case Str:
		return v
	case Undefined:
		return Str{}
	}
	b := builder{in: in}
	in.repr(&b, v, 0)
	return b.str()
}

func (in *interp) repr(b *builder, v any, depth int) {
	in.visit(v, depth)
	sequence := func(open string, items []any, end string) {
		b.add(own(open))
		for i, e := range items {
			if i > 0 {
				b.add(own(", "))
			}
			in.repr(b, e, depth+1)
		}
		b.add(own(end))
	}
	switch v := v.(type) {
	case nil:
		b.add(own("None"))
	case bool:
		b.add(own(map[bool]string{true: "True", false: "False"}[v]))
	case *big.Int:
		b.add(own(v.String()))
	case float64:
		b.add(own(floatText(v)))
	case Str:
		in.quote(b, v)
	case Undefined:
		b.add(own("Undefined"))
	case *List:
		switch {
		case v.kind == "list":
			sequence("[", v.items, "]")
		case v.kind != "tuple":
			sequence(v.kind+"([", v.items, "])")
		case len(v.items) == 1:
			sequence("(", v.items, ",)")
		default:
			sequence("(", v.items, ")")
		}
	case *group:
		in.repr(b, &v.List, depth)
	case *Dict:
		in.reprDict(b, v, depth)
	case *namespace:
		b.add(own("<Namespace "))
		in.reprDict(b, &v.Dict, depth)
		b.add(own(">"))
	case *Range:
		text := fmt.Sprintf("range(%d, %d)", v.start, v.stop)
		if v.step != 1 {
			text = fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step)
		}
		b.add(own(text))
	case *Func:
		switch {
		case v.macro != nil && v.macro.name == "":
			b.add(own("<Macro anonymous>"))
		case v.macro != nil:
			b.add(in.cat(own("<Macro "), in.str(list(own(v.macro.name))).inner(), own(">")))
		default:
			b.add(own("<function " + v.name + ">"))
		}
	case *loopVar:
		b.add(own(fmt.Sprintf("<LoopContext %d/%d>", v.i+1, len(v.items))))
	default:
		b.add(own("<" + typeName(v) + ">"))
	}
}

// inner returns a text without its first and last byte.
func (a Str) inner() Str { return a.cut(1, len(a.s)-1) }

func (in *interp) reprDict(b *builder, v *Dict, depth int) {
	v.readAll()
	b.add(own("{"))
	for i, k := range v.keys {
		if i > 0 {
			b.add(own(", "))
		}
		in.repr(b, k, depth+1)
		b.add(own(": "))
		in.repr(b, v.values[i], depth+1)
	}
	b.add(own("}"))
}

// escapeOf returns the escape of a character in a string literal.
func escapeOf(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// ascii returns Python's ascii(v).
func (in *interp) ascii(v any) Str {
	b := builder{in: in}
	in.repr(&b, v, 0)
	return in.each(b.str(), func(s string) string {
		return mapRunes(s, func(_ int, r rune) string {
			if r < utf8.RuneSelf {
				return string(r)
			}
			return escapeOf(r)
		})
	})
}

// quote writes a string as Python's repr does.
func (in *interp) quote(b *builder, s Str) {
	mark := "'"
	if strings.Contains(s.s, "'") && !strings.Contains(s.s, `"`) {
		mark = `"`
	}
	text := func(s string) string {
		var b strings.Builder
		for i, r := range s {
			switch {
			case string(r) == mark || r == '\\':
				b.WriteString(`\` + string(r))
			case r == '\n':
				b.WriteString(`\n`)
			case r == '\r':
				b.WriteString(`\r`)
			case r == '\t':
				b.WriteString(`\t`)
			case r == utf8.RuneError, unicode.IsPrint(r):
				_, w := utf8.DecodeRuneInString(s[i:])
				b.WriteString(s[i : i+w])
			default:
				b.WriteString(escapeOf(r))
			}
		}
		return b.String()
	}
	plain := s
	plain.safe = false
	if s.safe {
		b.add(own("Markup("))
	}
	b.add(own(mark))
	b.add(in.each(plain, text))
	b.add(own(mark))
	if s.safe {
		b.add(own(")"))
	}
}

// iterate returns the items of a value.
func (in *interp) iterate(v any) []any {
	items, is := in.items(v)
	if !is {
		fail("'%s' object is not iterable", typeName(v))
	}
	return items
}

// items pays for going through the items of a value, if it has any.
func (in *interp) items(v any) (items []any, is bool) {
	defer func() { in.step(len(items)) }()
	switch v := v.(type) {
	case *List:
		return v.items, true
	case *group:
		return v.items, true
	case *Dict:
		return v.keys, true
	case Undefined:
		return nil, true
	case *generator:
		in.spend(2 * itemBytes * len(v.items))
		return v.all(), true
	case Str:
		v.safe = false
		var out []any
		at := 0
		for i := range v.s {
			if i > 0 {
				out = in.push(out, v.cut(at, i))
				at = i
			}
		}
		if v.s != "" {
			out = in.push(out, v.cut(at, len(v.s)))
		}
		return out, true
	case *Range:
		in.spend((valueBytes + itemBytes) * v.n)
		out := make([]any, v.n)
		for i := range out {
			out[i] = big.NewInt(int64(v.start + i*v.step))
		}
		return out, true
	case *loopVar:
		return v.items[v.i+1:], true
	}
	return nil, false
}

func (in *interp) length(v any) int {
	switch v := v.(type) {
	case Str:
		in.read(v)
		return length(v.s)
	case *List:
		return len(v.items)
	case *group:
		return len(v.items)
	case *Dict:
		return len(v.keys)
	case *Range:
		return v.n
	case Undefined:
		return 0
	case *loopVar:
		return len(v.items)
	}
	fail("object of type '%s' has no len()", typeName(v))
	return 0
}

func (in *interp) contains(box, v any) bool {
	switch b := box.(type) {
	case Str:
		s, is := v.(Str)
		if !is {
			fail("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(b.s, s.s)
	case *Dict:
		_, is := in.get(b, v)
		return is
	}
	items, is := in.items(box)
	if !is {
		fail("argument of type '%s' is not iterable", typeName(box))
	}
	return slices.ContainsFunc(items, func(e any) bool { return in.equal(e, v) })
}
