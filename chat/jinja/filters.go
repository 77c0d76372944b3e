package jinja

import (
	"html"
	"maps"
	"math"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// group is an item of groupby's result: a tuple with names.
type group struct{ List }

type filter func(in *interp, a *args) any

var filters map[string]filter

func hasFilter(name string) bool { return filters[name] != nil }

func (in *interp) filter(name string, a *args) any {
	f := filters[name]
	if f == nil {
		fail("no filter named '%s'", name)
	}
	in.step(1)
	for _, v := range a.list {
		in.read(v)
	}
	for _, v := range a.named.values {
		in.read(v)
	}
	return f(in, a)
}

// texts makes a filter from a mapping of texts.
func texts(f func(string) string) filter {
	return plain(func(in *interp, a *args) any { return in.each(in.str(a.list[0]), f) })
}

// plain returns a filter that takes only its value.
func plain(f filter) filter {
	return func(in *interp, a *args) any {
		a.want("the filter", 1, "value")
		return f(in, a)
	}
}

func init() {
	filters = map[string]filter{
		"upper": texts(upper), "lower": texts(lower), "capitalize": texts(capitalize), "title": texts(titleFilter),
		"tojson": tojson, "default": defaultOf, "d": defaultOf, "length": plain(lengthOf), "count": plain(lengthOf),
		"trim": func(in *interp, a *args) any {
			a.want("trim", 1, "value", "chars")
			s := in.str(a.list[0])
			return in.stripped(s, &args{list: a.list[1:], named: &Dict{}}, true, true)
		},
		"string": plain(func(in *interp, a *args) any { return in.str(a.list[0]) }),
		"safe": plain(func(in *interp, a *args) any {
			s := in.str(a.list[0])
			s.safe = true
			return s
		}),
		"e": plain(escapeFilter), "escape": plain(escapeFilter),
		"forceescape": plain(func(in *interp, a *args) any {
			s := in.str(a.list[0])
			s.safe = false
			return in.escape(s)
		}),
		"list":   plain(func(in *interp, a *args) any { return in.list(slices.Clone(in.iterate(a.list[0]))...) }),
		"join":   join,
		"first":  func(in *interp, a *args) any { return in.end(a, false) },
		"last":   func(in *interp, a *args) any { return in.end(a, true) },
		"sort":   sortFilter,
		"unique": unique, "min": extreme("min"), "max": extreme("max"), "sum": sum,
		"dictsort": dictsort, "groupby": groupby, "map": mapFilter,
		"select": selecting(true, false), "reject": selecting(false, false),
		"selectattr": selecting(true, true), "rejectattr": selecting(false, true),
		"replace": func(in *interp, a *args) any {
			n := -1
			if a.want("replace", 3, "s", "old", "new", "count")[3] && a.list[3] != nil {
				n = toInt(a.list[3])
			}
			return in.replace(in.str(a.list[0]), in.str(a.list[1]), in.str(a.list[2]), n)
		},
		"indent": indent, "int": intFilter, "float": floatFilter, "round": round,
		"abs": plain(func(in *interp, a *args) any {
			n, is := number(a.list[0])
			if !is {
				undefinedFails(a.list[0])
				fail("bad operand type for abs(): '%s'", typeName(a.list[0]))
			}
			if i, is := n.(*big.Int); is {
				return new(big.Int).Abs(i)
			}
			return math.Abs(n.(float64))
		}),
	}
}

func init() {
	maps.Copy(filters, map[string]filter{
		"batch": batch, "slice": sliceFilter, "items": plain(itemsFilter), "reverse": plain(reverse),
		"center": func(in *interp, a *args) any {
			width := 80
			if a.want("center", 1, "value", "width")[1] {
				width = toInt(a.list[1])
			}
			return in.just(in.str(a.list[0]), &args{list: []any{integer(width)}, named: &Dict{}}, 1, 1)
		},
		"wordcount": plain(func(in *interp, a *args) any {
			return integer(wordCount(in.str(a.list[0]).s))
		}),
		"format": func(in *interp, a *args) any {
			s := in.str(a.list[0])
			if len(a.named.keys) > 0 {
				return in.percent(s, a.named)
			}
			return in.percent(s, tuple(a.list[1:]...))
		},
		"attr": func(in *interp, a *args) any {
			a.want("attr", 2, "value", "name")
			name := in.str(a.list[1]).s
			undefinedFails(a.list[0])
			if v, is := in.attribute(a.list[0], name); is && !strings.HasPrefix(name, "_") {
				return v
			}
			return Undefined{"no attribute '" + short(name) + "'"}
		},
		"random": func(*interp, *args) any {
			fail("the filter random is not allowed: prompts must be the same in training and in chat")
			return nil
		},
		"truncate": truncate, "wordwrap": wordwrap, "xmlattr": xmlattr, "filesizeformat": filesize,
		"urlencode": urlencode,
		"striptags": plain(func(in *interp, a *args) any {
			s := in.str(a.list[0])
			in.spend(slowly * len(s.s)) // the words
			return in.mapped(s, func(s string) string {
				words := strings.FieldsFunc(tags.ReplaceAllString(s, "$1"), IsSpace)
				return html.UnescapeString(strings.Join(words, " "))
			})
		}),
	})
}

var (
	tags      = regexp.MustCompile(`(?s)<!--.*?-->|(<!--.*)|<.*?>`) // what is in the group stays: a comment without end
	titleWord = regexp.MustCompile(`[-\s\v\x1c-\x1f\x{85}\pZ({\[<]+|[^-\s\v\x1c-\x1f\x{85}\pZ({\[<]+`)
)

func wordCount(s string) int {
	n, inWord := 0, false
	for _, r := range s {
		if !inWord && isWord(r) {
			n++
		}
		inWord = isWord(r)
	}
	return n
}

func titleFilter(s string) string {
	return titleWord.ReplaceAllStringFunc(s, func(w string) string {
		for _, r := range w {
			return upper(string(r)) + lower(w[len(string(r)):])
		}
		return ""
	})
}

var (
	pathEscape = strings.NewReplacer("+", "%20", "%2F", "/")
	htmlEscape = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")
)

// urlencode writes a text for the path of a URL, and a mapping or pairs for its query.
func urlencode(in *interp, a *args) any {
	a.want("urlencode", 1, "value")
	pairs, is := in.items(a.list[0])
	switch v := a.list[0].(type) {
	case *Dict:
		pairs = in.pairs(v)
	case Str:
		is = false
	}
	if !is {
		s := in.str(a.list[0])
		return in.mapped(s, func(s string) string { return pathEscape.Replace(url.QueryEscape(s)) })
	}
	b := builder{in: in}
	for i, pair := range pairs {
		kv := in.iterate(pair)
		if len(kv) != 2 {
			fail("urlencode wants pairs of a key and a value, not %d values", len(kv))
		}
		if i > 0 {
			b.add(own("&"))
		}
		key, value := in.str(kv[0]), in.str(kv[1])
		b.add(in.mapped(key, url.QueryEscape))
		b.add(own("="))
		b.add(in.mapped(value, url.QueryEscape))
	}
	return b.str()
}

func (in *interp) escape(s Str) Str {
	if s.safe {
		return s
	}
	out := in.each(s, htmlEscape.Replace)
	out.safe = true
	return out
}

func escapeFilter(in *interp, a *args) any { return in.escape(in.str(a.list[0])) }

func defaultOf(_ *interp, a *args) any {
	has := a.want("default", 1, "value", "default_value", "boolean")
	if _, undefined := a.list[0].(Undefined); undefined || truth(a.list[2]) && !truth(a.list[0]) {
		if !has[1] {
			return Str{}
		}
		return a.list[1]
	}
	return a.list[0]
}

func lengthOf(in *interp, a *args) any {
	if g, is := a.list[0].(*group); is {
		return integer(len(g.items))
	}
	return integer(in.length(a.list[0]))
}

// getter returns a function that gets what attribute= names: a path of names and indices. If there is no such thing,
// otherwise takes its place unless it is nil.
func (in *interp) getter(attribute any, otherwise any) func(any) any {
	if attribute == nil {
		return func(v any) any { return v }
	}
	steps := []any{attribute}
	if s, is := attribute.(Str); is {
		steps = nil
		for _, part := range parts(s.s, ".") {
			if n, err := strconv.Atoi(part); err == nil {
				steps = append(steps, integer(n))
			} else {
				steps = append(steps, own(part))
			}
		}
	}
	return func(v any) any {
		for _, step := range steps {
			in.step(1)
			v = in.item(v, step)
			if _, undefined := v.(Undefined); undefined && otherwise != nil {
				return otherwise
			}
		}
		return v
	}
}

// parts splits a text that names attributes.
func parts(s, sep string) []string {
	if strings.Count(s, sep) >= maxDepth {
		fail("more than %d attributes", maxDepth)
	}
	return strings.Split(s, sep)
}

func join(in *interp, a *args) any {
	has := a.want("join", 1, "value", "d", "attribute")
	get := in.getter(a.list[2], nil)
	b := builder{in: in}
	for i, e := range in.iterate(a.list[0]) {
		if i > 0 && has[1] {
			b.add(in.str(a.list[1]))
		}
		b.add(in.str(get(e)))
	}
	return b.str()
}

func (in *interp) end(a *args, last bool) any {
	a.want("first", 1, "seq")
	if g, is := a.list[0].(*generator); is {
		if last {
			fail("'generator' object is not reversible")
		}
		if v, is := g.next(); is {
			return v
		}
	}
	items := in.iterate(a.list[0])
	switch {
	case len(items) == 0:
		return Undefined{"no first or last item, the sequence was empty"}
	case last:
		return items[len(items)-1]
	}
	return items[0]
}

// folded returns v as it counts in an order that ignores case.
func (in *interp) folded(v any, caseSensitive bool) any {
	if s, is := v.(Str); is && !caseSensitive {
		return in.mapped(s, lower)
	}
	return v
}

func (in *interp) order(a, b any) int {
	switch {
	case in.less(a, b, "<"):
		return -1
	case in.less(b, a, "<"):
		return 1
	}
	return 0
}

// sorted sorts by a key, without touching items.
func (in *interp) sorted(items []any, get func(any) any, reverse bool) []any {
	type pair struct{ key, v any }
	in.spend((valueBytes + 3*itemBytes) * len(items))
	pairs := make([]pair, len(items))
	for i, e := range items {
		pairs[i] = pair{get(e), e}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		if reverse {
			return in.order(b.key, a.key)
		}
		return in.order(a.key, b.key)
	})
	out := make([]any, len(items))
	for i, p := range pairs {
		out[i] = p.v
	}
	return out
}

func sortFilter(in *interp, a *args) any {
	a.want("sort", 1, "value", "reverse", "case_sensitive", "attribute")
	var gets []func(any) any
	if s, is := a.list[3].(Str); is {
		for _, part := range parts(s.s, ",") {
			gets = append(gets, in.getter(own(part), nil))
		}
	} else {
		gets = append(gets, in.getter(a.list[3], nil))
	}
	return list(in.sorted(in.iterate(a.list[0]), func(v any) any {
		keys := make([]any, len(gets))
		for i, get := range gets {
			keys[i] = in.folded(get(v), truth(a.list[2]))
		}
		return in.list(keys...)
	}, truth(a.list[1]))...)
}

func unique(in *interp, a *args) any {
	a.want("unique", 1, "value", "case_sensitive", "attribute")
	get := in.getter(a.list[2], nil)
	seen := map[string]bool{}
	g := &generator{}
	for _, e := range in.iterate(a.list[0]) {
		if k := in.key(in.folded(get(e), truth(a.list[1]))); !seen[k] {
			in.spend(entryBytes + len(k))
			seen[k] = true
			g.items = append(g.items, e)
		}
	}
	return g
}

func extreme(name string) filter {
	return func(in *interp, a *args) any {
		a.want(name, 1, "value", "case_sensitive", "attribute")
		get := in.getter(a.list[2], nil)
		items := in.iterate(a.list[0])
		if len(items) == 0 {
			return Undefined{"no aggregated item, the sequence was empty"}
		}
		best := items[0]
		for _, e := range items[1:] {
			x, y := in.folded(get(e), truth(a.list[1])), in.folded(get(best), truth(a.list[1]))
			if name == "min" && in.less(x, y, "<") || name == "max" && in.less(y, x, ">") {
				best = e
			}
		}
		return best
	}
}

func sum(in *interp, a *args) any {
	has := a.want("sum", 1, "iterable", "attribute", "start")
	get := in.getter(a.list[1], nil)
	total := any(integer(0))
	if has[2] {
		total = a.list[2]
	}
	for _, e := range in.iterate(a.list[0]) {
		total = in.arithmetic("+", total, get(e))
	}
	return total
}

func dictsort(in *interp, a *args) any {
	has := a.want("dictsort", 1, "value", "case_sensitive", "by", "reverse")
	d, is := a.list[0].(*Dict)
	if !is {
		undefinedFails(a.list[0])
		fail("dictsort wants a mapping, not %s", typeName(a.list[0]))
	}
	at := 0
	if has[2] {
		switch toStr(a.list[2]).s {
		case "key":
		case "value":
			at = 1
		default:
			fail(`dictsort sorts by "key" or "value"`)
		}
	}
	return list(in.sorted(in.pairs(d), func(v any) any {
		return in.folded(v.(*List).items[at], truth(a.list[1]))
	}, truth(a.list[3]))...)
}

func groupby(in *interp, a *args) any {
	a.want("groupby", 2, "value", "attribute", "default", "case_sensitive")
	get := in.getter(a.list[1], a.list[2])
	by := func(v any) any { return in.folded(get(v), truth(a.list[3])) }
	out := list()
	for _, e := range in.sorted(in.iterate(a.list[0]), by, false) {
		if n := len(out.items); n > 0 {
			last := out.items[n-1].(*group)
			members := last.items[1].(*List)
			if in.equal(by(members.items[0]), by(e)) {
				in.spend(2 * itemBytes)
				members.items = append(members.items, e)
				continue
			}
		}
		in.spend(4 * valueBytes)
		out.items = append(out.items, &group{List{"tuple", []any{get(e), list(e)}}})
	}
	return out
}

// some returns the items of v, or no items if v counts as false, such as none.
func (in *interp) some(v any) []any {
	if !truth(v) {
		return nil
	}
	return slices.Clone(in.iterate(v))
}

func mapFilter(in *interp, a *args) any {
	items := in.some(a.list[0])
	if attribute, is := a.named.get("attribute"); is {
		otherwise, _ := a.named.get("default")
		get := in.getter(attribute, otherwise)
		return &generator{items, func(e any) (any, bool) { return get(e), true }}
	}
	if len(a.list) < 2 {
		fail("map requires a filter argument")
	}
	name, rest := toStr(a.list[1]).s, a.list[2:]
	return &generator{items, func(e any) (any, bool) {
		in.spend(itemBytes * len(a.list))
		return in.filter(name, &args{list: append([]any{e}, rest...), named: in.copy(a.named)}), true
	}}
}

func selecting(keep, byAttribute bool) filter {
	return func(in *interp, a *args) any {
		rest := a.list[1:]
		get := in.getter(nil, nil)
		if byAttribute {
			if len(rest) == 0 {
				fail("missing parameter for attribute name")
			}
			get = in.getter(rest[0], nil)
			rest = rest[1:]
		}
		return &generator{in.some(a.list[0]), func(e any) (any, bool) {
			if len(rest) == 0 {
				return e, truth(get(e)) == keep
			}
			return e, in.test(toStr(rest[0]).s, get(e), rest[1:]) == keep
		}}
	}
}

func indent(in *interp, a *args) any {
	has := a.want("indent", 1, "s", "width", "first", "blank")
	by := own("    ")
	if has[1] {
		if s, is := a.list[1].(Str); is {
			by = s
		} else {
			by = in.fill(toInt(a.list[1]), own(" "))
		}
	}
	s := in.cat(toStr(a.list[0]), own("\n")) // for an empty last line
	b := builder{in: in}
	for i, e := range in.lines(s, false) {
		line := e.(Str)
		if i > 0 {
			b.add(own("\n"))
		}
		if i == 0 && truth(a.list[2]) || i > 0 && (truth(a.list[3]) || line.s != "") {
			b.add(by)
		}
		b.add(line)
	}
	return b.str()
}

// numeric prepares a text to be read as Python's int or float reads it: without white space and underscores between
// digits, and with ASCII's digits.
func (in *interp) numeric(s string, digit func(byte) bool) (string, bool) {
	in.pay(slowly * len(s))
	s = strings.Map(asciiDigit, strings.TrimFunc(s, IsSpace))
	for i := range s {
		if s[i] == '_' && (i == 0 || i+1 == len(s) || !digit(s[i-1]) || !digit(s[i+1])) {
			return "", false
		}
	}
	return strings.ReplaceAll(s, "_", ""), s != "" && len(s) <= maxDigits
}

// asciiDigit returns ASCII's digit for a digit of any script, and r otherwise. Each script has its ten digits in a
// row.
func asciiDigit(r rune) rune {
	if !unicode.IsDigit(r) {
		return r
	}
	n := rune(0)
	for unicode.IsDigit(r - n - 1) {
		n++
	}
	return '0' + n%10
}

func isDecimal(c byte) bool { return '0' <= c && c <= '9' }

// isDigit reports whether c is a digit in some base, or part of a base prefix.
func isDigit(c byte) bool { return isDecimal(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }

func (in *interp) parseFloat(s string) (float64, bool) {
	text, ok := in.numeric(s, isDecimal)
	if !ok || strings.ContainsAny(text, "xX") {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func intFilter(in *interp, a *args) any {
	has := a.want("int", 1, "value", "default", "base")
	otherwise := any(integer(0))
	if has[1] {
		otherwise = a.list[1]
	}
	base := 10
	if has[2] {
		base = toInt(a.list[2])
	}
	undefinedFails(a.list[0])
	n, is := number(a.list[0])
	if f, isFloat := n.(float64); isFloat {
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return otherwise
		}
		return truncated(f)
	}
	if is {
		return n
	}
	s, is := a.list[0].(Str)
	if !is {
		return otherwise
	}
	if text, ok := in.numeric(s.s, isDigit); ok {
		if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
			sign := "+"
			if text[0] == '-' || text[0] == '+' {
				sign, text = text[:1], text[1:]
			}
			text = sign + strings.TrimPrefix(strings.ToLower(text), prefix)
		}
		if base == 0 || base >= 2 && base <= 36 {
			if i, ok := new(big.Int).SetString(text, base); ok {
				return i
			}
		}
	}
	if f, ok := in.parseFloat(s.s); ok && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return truncated(f)
	}
	return otherwise
}

func floatFilter(in *interp, a *args) any {
	has := a.want("float", 1, "value", "default")
	undefinedFails(a.list[0])
	if n, is := number(a.list[0]); is {
		return toFloat(n)
	}
	if s, is := a.list[0].(Str); is {
		if f, ok := in.parseFloat(s.s); ok {
			return f
		}
	}
	if has[1] {
		return a.list[1]
	}
	return 0.0
}

func round(in *interp, a *args) any {
	has := a.want("round", 1, "value", "precision", "method")
	digits, method := 0, "common"
	if has[1] {
		digits = toInt(a.list[1])
	}
	if has[2] {
		method = toStr(a.list[2]).s
	}
	n, is := number(a.list[0])
	if !is {
		undefinedFails(a.list[0])
		fail("type %s cannot be rounded", typeName(a.list[0]))
	}
	if digits > 400 || digits < -400 {
		fail("a precision of %d", digits)
	}
	in.step(max(digits, -digits))
	switch i, isInt := n.(*big.Int); method {
	case "common":
		if isInt {
			return roundInt(i, digits)
		}
		return roundFloat(n.(float64), digits)
	case "ceil": // by way of an integer, which has no negative zero
		return (math.Ceil(toFloat(n)*math.Pow(10, float64(digits))) + 0) / math.Pow(10, float64(digits))
	case "floor":
		return (math.Floor(toFloat(n)*math.Pow(10, float64(digits))) + 0) / math.Pow(10, float64(digits))
	}
	fail("method must be common, ceil or floor")
	return nil
}

func roundInt(i *big.Int, digits int) any {
	if digits >= 0 {
		return i
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	down := integerOp("//", i, unit).(*big.Int)
	twice := new(big.Int).Mul(new(big.Int).Sub(i, new(big.Int).Mul(down, unit)), big.NewInt(2))
	if c := twice.Cmp(unit); c > 0 || c == 0 && down.Bit(0) == 1 {
		down = new(big.Int).Add(down, big.NewInt(1))
	}
	return new(big.Int).Mul(down, unit)
}

// roundFloat rounds the exact value of f, halves to even.
func roundFloat(f float64, digits int) float64 {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return f
	}
	if digits >= 0 {
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return r
	}
	unit := math.Pow(10, float64(-digits))
	return math.RoundToEven(f/unit) * unit
}

func batch(in *interp, a *args) any {
	has := a.want("batch", 2, "value", "linecount", "fill_with")
	n := toInt(a.list[1])
	if n < 1 {
		fail("batch wants at least one item in a row")
	}
	g := &generator{}
	items := in.iterate(a.list[0])
	for i := 0; i < len(items); i += n {
		g.items = append(g.items, in.list(slices.Clone(items[i:min(i+n, len(items))])...))
	}
	if len(g.items) > 0 && has[2] && a.list[2] != nil {
		last := g.items[len(g.items)-1].(*List)
		in.step(n - len(last.items))
		in.spend(2 * itemBytes * (n - len(last.items)))
		for len(last.items) < n {
			last.items = append(last.items, a.list[2])
		}
	}
	return g
}

func sliceFilter(in *interp, a *args) any {
	a.want("slice", 2, "value", "slices", "fill_with")
	items := in.iterate(a.list[0])
	n := toInt(a.list[1])
	if n < 1 {
		fail("slice wants at least one slice")
	}
	in.step(n)
	g := &generator{}
	each, more := len(items)/n, len(items)%n
	at := 0
	for i := range n {
		end := at + each
		if i < more {
			end++
		}
		part := slices.Clone(items[at:end])
		if a.list[2] != nil && i >= more {
			part = append(part, a.list[2])
		}
		g.items = append(g.items, in.list(part...))
		at = end
	}
	return g
}

func itemsFilter(in *interp, a *args) any {
	switch d := a.list[0].(type) {
	case Undefined:
		return &generator{}
	case *Dict:
		return &generator{items: in.pairs(d)}
	}
	fail("can only get item pairs from a mapping, not %s", typeName(a.list[0]))
	return nil
}

func reverse(in *interp, a *args) any {
	if _, is := a.list[0].(Str); is {
		return in.slice(a.list[0], []any{nil, nil, integer(-1)})
	}
	items := slices.Clone(in.iterate(a.list[0]))
	slices.Reverse(items)
	return &generator{items: items}
}

func truncate(in *interp, a *args) any {
	has := a.want("truncate", 1, "s", "length", "killwords", "end", "leeway")
	n, end, leeway := 255, own("..."), 5
	if has[1] {
		n = toInt(a.list[1])
	}
	if has[3] {
		end = toStr(a.list[3])
	}
	if a.list[4] != nil {
		leeway = toInt(a.list[4])
	}
	if n < length(end.s) {
		fail("truncate wants a length of at least %d", length(end.s))
	}
	if in.length(a.list[0]) <= n+leeway {
		return a.list[0]
	}
	s := toStr(a.list[0])
	cut := in.slice(s, []any{nil, integer(n - length(end.s)), nil}).(Str)
	if !truth(a.list[2]) {
		if i := strings.LastIndexByte(cut.s, ' '); i >= 0 {
			cut = cut.cut(0, i)
		}
	}
	return in.cat(cut, end)
}

func xmlattr(in *interp, a *args) any {
	has := a.want("xmlattr", 1, "d", "autospace")
	d, is := a.list[0].(*Dict)
	if !is {
		fail("xmlattr wants a mapping")
	}
	apart := !has[1] || truth(a.list[1])
	b := builder{in: in}
	for i, k := range d.keys {
		if _, undefined := d.values[i].(Undefined); undefined || d.values[i] == nil {
			continue
		}
		name := in.str(k)
		if strings.ContainsAny(name.s, " \t\n\f\r/>=") {
			fail("invalid character in attribute name %q", name.s)
		}
		if apart {
			b.add(own(" "))
		}
		apart = true
		b.add(in.escape(name))
		b.add(own(`="`))
		b.add(in.escape(in.str(d.values[i])))
		b.add(own(`"`))
	}
	out := b.str()
	out.safe = true
	return out
}

func filesize(in *interp, a *args) any {
	a.want("filesizeformat", 1, "value", "binary")
	n, is := number(a.list[0])
	if s, text := a.list[0].(Str); text {
		n, is = in.parseFloat(s.s)
	}
	if !is {
		fail("filesizeformat wants a number")
	}
	base, units := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if truth(a.list[1]) {
		base, units = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	f := toFloat(n)
	if f == 1 {
		return own("1 Byte")
	}
	if f < base {
		return own(truncated(f).String() + " Bytes")
	}
	unit := base
	for i, name := range units {
		if f < unit*base || i == len(units)-1 {
			return own(strconv.FormatFloat(f/unit, 'f', 1, 64) + " " + name)
		}
		unit *= base
	}
	return nil
}
