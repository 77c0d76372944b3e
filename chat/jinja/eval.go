package jinja

import (
	"math"
	"math/big"
	"strings"
)

// args are the arguments of a call.
type args struct {
	list   []any
	named  *Dict
	caller *Func
}

// eval computes an expression, and pays for its value.
func (in *interp) eval(n *node, f *frame) any {
	in.pay(stepBytes + len(n.name))
	in.deeper()
	if n.line > 0 {
		in.line = n.line
	}
	v := in.value(n, f)
	in.depth--
	in.read(v)
	switch n.op {
	case "const", "name":
	case "attr", "item", "cond", "or", "and":
		in.spend(valueBytes)
	default:
		in.made(v)
	}
	return v
}

func (in *interp) value(n *node, f *frame) any {
	switch n.op {
	case "const":
		return n.value
	case "name":
		return f.get(n.name)
	case "list":
		return list(in.evalAll(n.args, f)...)
	case "tuple":
		return tuple(in.evalAll(n.args, f)...)
	case "dict":
		d := &Dict{}
		for i := 0; i < len(n.args); i += 2 {
			in.set(d, in.eval(n.args[i], f), in.eval(n.args[i+1], f))
		}
		return d
	case "slice":
		return tuple(in.evalAll(n.args, f)...)
	case "attr":
		return in.attr(in.eval(n.args[0], f), n.name)
	case "item":
		v := in.eval(n.args[0], f)
		if n.args[1].op == "slice" {
			v = in.slice(v, in.evalAll(n.args[1].args, f))
			in.made(v)
			return v
		}
		return in.item(v, in.eval(n.args[1], f))
	case "call":
		return in.call(n, f, nil)
	case "filter":
		return in.filtered(n, f, nil)
	case "test":
		a := in.arguments(n, f)
		if !hasTest(n.name) {
			fail("no test named '%s'", n.name)
		}
		return in.test(n.name, a.list[0], a.list[1:])
	}
	return in.operate(n, f)
}

func (in *interp) evalAll(all []*node, f *frame) []any {
	out := make([]any, len(all))
	for i, a := range all {
		if a != nil {
			out[i] = in.eval(a, f)
		}
	}
	return out
}

func (in *interp) operate(n *node, f *frame) any {
	switch n.op {
	case "cond":
		switch {
		case truth(in.eval(n.args[0], f)):
			return in.eval(n.args[1], f)
		case n.args[2] != nil:
			return in.eval(n.args[2], f)
		}
		return Undefined{"the inline if-expression evaluated to false and no else section was defined"}
	case "or", "and":
		v := in.eval(n.args[0], f)
		if truth(v) == (n.op == "or") {
			return v
		}
		return in.eval(n.args[1], f)
	case "not":
		return !truth(in.eval(n.args[0], f))
	case "compare":
		a := in.eval(n.args[0], f)
		for i, op := range n.ops {
			b := in.eval(n.args[i+1], f)
			if !in.compare(op, a, b) {
				return false
			}
			a = b
		}
		return true
	case "~":
		all := make([]Str, len(n.args))
		for i, a := range n.args {
			all[i] = in.str(in.eval(a, f))
		}
		return in.cat(all...)
	case "u-", "u+":
		v := in.eval(n.args[0], f)
		x, is := number(v)
		if !is {
			undefinedFails(v)
			fail("bad operand type for unary %s: '%s'", n.op[1:], typeName(v))
		}
		if n.op == "u+" {
			return x
		}
		if i, is := x.(*big.Int); is {
			return new(big.Int).Neg(i)
		}
		return -x.(float64)
	}
	return in.arithmetic(n.op, in.eval(n.args[0], f), in.eval(n.args[1], f))
}

func undefinedFails(all ...any) {
	for _, v := range all {
		if u, is := v.(Undefined); is {
			u.fail()
		}
	}
}

func (in *interp) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return in.equal(a, b)
	case "!=":
		return !in.equal(a, b)
	case "in":
		return in.contains(b, a)
	case "not in":
		return !in.contains(b, a)
	case "<":
		return in.less(a, b, op)
	case ">":
		return in.less(b, a, op)
	case "<=":
		return in.less(a, b, op) || in.equal(a, b)
	}
	return in.less(b, a, op) || in.equal(a, b)
}

// arithmetic computes + - * / // % and **.
func (in *interp) arithmetic(op string, a, b any) any {
	in.read(a)
	in.read(b)
	undefinedFails(a)
	if s, is := a.(Str); is && op == "%" {
		return in.percent(s, b)
	}
	undefinedFails(b)
	x, isX := number(a)
	y, isY := number(b)
	if isX && isY {
		i, isI := x.(*big.Int)
		j, isJ := y.(*big.Int)
		if isI && isJ {
			return integerOp(op, i, j)
		}
		return floatOp(op, toFloat(x), toFloat(y))
	}
	if op == "+" {
		return in.plus(a, b)
	}
	if i, is := y.(*big.Int); is && op == "*" {
		if v := in.repeat(a, i); v != nil {
			return v
		}
	}
	if i, is := x.(*big.Int); is && op == "*" {
		if v := in.repeat(b, i); v != nil {
			return v
		}
	}
	fail("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

func (in *interp) plus(a, b any) any {
	if s, is := a.(Str); is {
		if t, is := b.(Str); is {
			if s.safe || t.safe {
				out := in.cat(in.escape(s), in.escape(t))
				out.safe = true
				return out
			}
			return in.cat(s, t)
		}
	}
	if l, is := a.(*List); is {
		if m, is := b.(*List); is && l.kind == m.kind && (l.kind == "list" || l.kind == "tuple") {
			in.step(len(l.items) + len(m.items))
			in.spend(itemBytes * (len(l.items) + len(m.items)))
			return &List{l.kind, append(l.items[:len(l.items):len(l.items)], m.items...)}
		}
	}
	fail("unsupported operand type(s) for +: '%s' and '%s'", typeName(a), typeName(b))
	return nil
}

// repeat returns a text or list n times, or nil if v is neither.
func (in *interp) repeat(v any, n *big.Int) any {
	times := 0
	if n.Sign() > 0 {
		times = maxString + 1
		if n.IsInt64() {
			times = int(min(n.Int64(), maxString+1))
		}
	}
	switch v := v.(type) {
	case Str:
		if len(v.s)*times > maxString {
			fail("a text of more than %d bytes", maxString)
		}
		b := builder{in: in}
		if len(v.in) == 0 {
			b.add(own(strings.Repeat(v.s, times)))
			times = 0
		}
		for range times {
			b.add(v)
		}
		out := b.str()
		out.safe = v.safe
		return out
	case *List:
		if v.kind != "list" && v.kind != "tuple" {
			return nil
		}
		in.step(len(v.items) * times)
		in.spend(itemBytes * len(v.items) * times)
		out := &List{kind: v.kind, items: make([]any, 0, len(v.items)*times)}
		for range times {
			if len(v.items) == 0 {
				break
			}
			out.items = append(out.items, v.items...)
		}
		return out
	}
	return nil
}

func bounded(n *big.Int) *big.Int {
	if n.BitLen() > maxBits {
		fail("an integer of more than %d bits", maxBits)
	}
	return n
}

func integerOp(op string, a, b *big.Int) any {
	switch op {
	case "+":
		return bounded(new(big.Int).Add(a, b))
	case "-":
		return bounded(new(big.Int).Sub(a, b))
	case "*":
		return bounded(new(big.Int).Mul(a, b))
	case "/":
		if b.Sign() == 0 {
			fail("division by zero")
		}
		f, _ := new(big.Rat).SetFrac(a, b).Float64()
		if f == 0 && b.Sign() < 0 && a.Sign() == 0 {
			return math.Copysign(0, -1)
		}
		return f
	case "**":
		if b.Sign() < 0 {
			return floatOp(op, toFloat(a), toFloat(b))
		}
		if a.BitLen() > 1 && (!b.IsInt64() || b.Int64() > maxBits || int64(a.BitLen()-1)*b.Int64() > maxBits) {
			fail("an integer of more than %d bits", maxBits)
		}
		if a.BitLen() <= 1 { // -1, 0 or 1: only whether the exponent is zero or odd counts
			if b.Sign() == 0 {
				return big.NewInt(1)
			}
			return new(big.Int).Exp(a, big.NewInt(2-int64(b.Bit(0))), nil)
		}
		return new(big.Int).Exp(a, b, nil)
	}
	if b.Sign() == 0 {
		fail("integer division or modulo by zero")
	}
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Sign() != 0 && r.Sign() != b.Sign() { // rounded down
		q.Sub(q, big.NewInt(1))
		r.Add(r, b)
	}
	if op == "//" {
		return q
	}
	return r
}

func floatOp(op string, a, b float64) any {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "**":
		switch f := math.Pow(a, b); {
		case a == 0 && b < 0:
			fail("0.0 cannot be raised to a negative power")
		case math.IsInf(f, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0):
			fail("the result of ** is too large")
		case math.IsNaN(f) && !math.IsNaN(a) && !math.IsNaN(b):
			fail("complex numbers are not supported")
		default:
			return f
		}
	}
	if b == 0 {
		fail("float division by zero")
	}
	if op == "/" {
		return a / b
	}
	r := math.Mod(a, b)
	q := (a - r) / b
	if r != 0 && r < 0 != (b < 0) {
		r += b
		q--
	}
	if op == "%" {
		if r == 0 {
			return math.Copysign(0, b)
		}
		return r
	}
	if q == 0 {
		return math.Copysign(0, a/b)
	}
	f := math.Floor(q)
	if q-f > 0.5 {
		f++
	}
	return f
}

// attr returns v.name: an attribute, or else an item.
func (in *interp) attr(v any, name string) any {
	if u, is := v.(Undefined); is {
		u.fail()
	}
	if !strings.HasPrefix(name, "_") {
		if e, is := in.attribute(v, name); is {
			return e
		}
	}
	if d, is := v.(*Dict); is && !strings.HasPrefix(name, "__") {
		if e, is := d.get(name); is {
			return e
		}
	}
	return Undefined{"'" + typeName(v) + " object' has no attribute '" + short(name) + "'"}
}

// attribute returns a field or method of v.
func (in *interp) attribute(v any, name string) (any, bool) {
	switch v := v.(type) {
	case *loopVar:
		return v.field(in, name)
	case *namespace:
		return v.get(name)
	case *group:
		switch name {
		case "grouper":
			return v.items[0], true
		case "list":
			return v.items[1], true
		}
		return method(&v.List, name)
	case *Func:
		e, is := v.fields[name]
		if f, is := e.(func() any); is {
			return f(), true
		}
		return e, is
	case bool, *big.Int, float64:
		switch name {
		case "real":
			n, _ := number(v)
			return n, true
		case "imag":
			n, _ := number(v)
			if _, is := n.(float64); is {
				return 0.0, true
			}
			return big.NewInt(0), true
		}
	}
	return method(v, name)
}

// item returns v[k].
func (in *interp) item(v, k any) any {
	if u, is := v.(Undefined); is {
		u.fail()
	}
	if e, is := in.lookup(v, k); is {
		return e
	}
	return Undefined{"'" + typeName(v) + " object' has no element " + in.reprText(k)}
}

// lookup looks for v[k].
func (in *interp) lookup(v, k any) (any, bool) {
	n, _ := number(k)
	i, isInt := n.(*big.Int)
	switch v := v.(type) {
	case *Dict:
		if !in.hashable(k, 0) {
			return nil, false
		}
		if e, is := in.get(v, k); is {
			return e, true
		}
	case *namespace:
		if e, is := in.get(&v.Dict, k); is {
			return e, true
		}
	case *group:
		if isInt {
			return in.at(&v.List, i)
		}
	case Str, *List, *Range:
		if isInt {
			return in.at(v, i)
		}
	}
	if s, is := k.(Str); is && !strings.HasPrefix(s.s, "_") {
		return in.attribute(v, s.s)
	}
	return nil, false
}

// at returns the item at an index, which counts from the end if it is negative.
func (in *interp) at(v any, n *big.Int) (any, bool) {
	size := in.length(v)
	if !n.IsInt64() || n.Int64() >= int64(size) || n.Int64() < -int64(size) {
		return nil, false
	}
	i := int(n.Int64())
	if i < 0 {
		i += size
	}
	switch v := v.(type) {
	case Str:
		in.read(v)
		from := offset(v.s, i)
		return v.cut(from, from+offset(v.s[from:], 1)), true
	case *List:
		if v.kind == "list" || v.kind == "tuple" {
			return v.items[i], true
		}
	case *Range:
		return big.NewInt(int64(v.start + i*v.step)), true
	}
	return nil, false
}

func (in *interp) reprText(v any) string {
	b := builder{in: in}
	in.repr(&b, v, 0)
	if b.b.Len() > 100 {
		return typeName(v)
	}
	return b.b.String()
}

func (in *interp) hashable(v any, depth int) bool {
	in.visit(v, depth)
	switch v := v.(type) {
	case *Dict, *namespace:
		return false
	case *List:
		for _, e := range v.items {
			if !in.hashable(e, depth+1) {
				return false
			}
		}
		return v.kind == "tuple"
	}
	return true
}

// slice returns v[start:stop:step].
func (in *interp) slice(v any, bounds []any) any {
	undefinedFails(v)
	if g, is := v.(*group); is {
		v = &g.List
	}
	l, isList := v.(*List)
	s, isStr := v.(Str)
	_, isRange := v.(*Range)
	if !isStr && !isRange && (!isList || l.kind != "list" && l.kind != "tuple") {
		fail("'%s' object is not subscriptable", typeName(v))
	}
	n := in.length(v)
	step := in.bound(bounds[2], 1)
	if step == 0 {
		fail("slice step cannot be zero")
	}
	clip := func(b any, from int) int {
		i := in.bound(b, from)
		if b == nil {
			return i
		}
		if i < 0 {
			i += n
		}
		low, high := 0, n
		if step < 0 {
			low, high = -1, n-1
		}
		return min(max(i, low), high)
	}
	start, stop := clip(bounds[0], 0), clip(bounds[1], n)
	if step < 0 {
		start, stop = clip(bounds[0], n-1), clip(bounds[1], -1)
	}
	if isStr && step == 1 {
		from := offset(s.s, min(start, stop))
		return s.cut(from, from+offset(s.s[from:], max(0, stop-start)))
	}
	var at []int
	var items []any
	if isStr {
		at = in.points(s.s)
	} else {
		items, _ = in.items(v)
	}
	b := builder{in: in}
	out := list()
	if isList {
		out.kind = l.kind
	}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		in.step(1)
		if isStr {
			b.add(s.cut(at[i], at[i+1]))
		} else {
			out.items = append(out.items, items[i])
		}
	}
	if isStr {
		return b.str()
	}
	return out
}

// bound returns an index as an int, or otherwise if it is None.
func (in *interp) bound(v any, otherwise int) int {
	if v == nil {
		return otherwise
	}
	n, _ := number(v)
	i, is := n.(*big.Int)
	if !is {
		undefinedFails(v)
		fail("slice indices must be integers or None, not %s", typeName(v))
	}
	const far = 1 << 40
	if !i.IsInt64() {
		return far * i.Sign()
	}
	return int(min(max(i.Int64(), -far), far))
}

// arguments evaluates the arguments of a call, filter or test, with what it is applied to first.
func (in *interp) arguments(n *node, f *frame) *args {
	a := &args{named: &Dict{}}
	for _, e := range n.args {
		if e == nil {
			a.list = append(a.list, nil)
			continue
		}
		a.list = append(a.list, in.eval(e, f))
	}
	if n.star != nil {
		items := in.iterate(in.eval(n.star, f))
		in.spend(itemBytes * len(items))
		a.list = append(a.list, items...)
	}
	for _, e := range n.named {
		in.spend(entryBytes + len(e.name))
		a.named.Set(e.name, in.eval(e.node, f))
	}
	if n.pairs != nil {
		d, is := in.eval(n.pairs, f).(*Dict)
		if !is {
			fail("an argument after ** must be a mapping")
		}
		for i, k := range d.keys {
			name, is := k.(Str)
			if !is {
				fail("keywords must be strings")
			}
			in.spend(entryBytes + len(name.s))
			a.named.set(name, d.values[i])
		}
	}
	return a
}

func (in *interp) call(n *node, f *frame, caller *Func) any {
	a := in.arguments(n, f)
	callee := a.list[0]
	a.list, a.caller = a.list[1:], caller
	in.line = n.line
	undefinedFails(callee)
	switch c := callee.(type) {
	case *Func:
		if caller != nil && c.macro == nil {
			fail("%s has no use for a caller", c.name)
		}
		return c.call(in, a)
	case *loopVar:
		if c.again == nil {
			fail("the loop is not recursive")
		}
		a.want("loop", 1, "iterable")
		return c.again(a.list[0])
	}
	fail("'%s' object is not callable", typeName(callee))
	return nil
}

// filtered applies the filter n. If its innermost operand is nil, v takes its place.
func (in *interp) filtered(n *node, f *frame, v any) any {
	if n.args[0] != nil && v != nil {
		n2 := *n
		n2.args = append([]*node{{op: "const", value: in.filtered(n.args[0], f, v)}}, n.args[1:]...)
		n = &n2
	}
	a := in.arguments(n, f)
	if n.args[0] == nil {
		a.list[0] = v
	}
	in.line = n.line
	return in.filter(n.name, a)
}
