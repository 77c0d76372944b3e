package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf16"
)

// Text returns a string of the input. The spans of output that comes from it have this source.
func Text(s string, source int) any {
	if s == "" {
		return Str{}
	}
	return Str{s: s, in: []Span{{0, len(s), source}}}
}

// Own returns a string that counts as the template's own, such as the BOS token.
func Own(s string) any { return own(s) }

// Items returns a list of values.
func Items(items ...any) any { return list(items...) }

// Parse reads a value of the input from JSON. Keys keep their order.
func Parse(data []byte, source int) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return parseJSON(d, source, 0)
}

func parseJSON(d *json.Decoder, source, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("JSON nested more than %d deep", maxDepth)
	}
	switch t := t.(type) {
	case string:
		return Text(t, source), nil
	case json.Number:
		if strings.ContainsAny(string(t), ".eE") {
			return t.Float64()
		}
		if len(t) > maxDigits {
			return nil, fmt.Errorf("JSON with an integer of %d digits", len(t))
		}
		n, _ := new(big.Int).SetString(string(t), 10)
		return n, nil
	case json.Delim:
		if t == '[' {
			l := list()
			for d.More() {
				v, err := parseJSON(d, source, depth+1)
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, v)
			}
			_, err := d.Token()
			return l, err
		}
		m := &Dict{}
		for d.More() {
			k, err := parseJSON(d, source, depth+1)
			if err != nil {
				return nil, err
			}
			v, err := parseJSON(d, source, depth+1)
			if err != nil {
				return nil, err
			}
			m.set(k.(Str), v)
		}
		_, err := d.Token()
		return m, err
	}
	return t, nil // bool or nil
}

// dump is json.dumps with transformers' defaults.
type dump struct {
	in          *interp
	b           *builder
	ascii, sort bool
	indent      *Str
	item, key   string
}

func tojson(in *interp, a *args) any {
	has := a.want("tojson", 1, "value", "ensure_ascii", "indent", "separators", "sort_keys")
	d := dump{in: in, b: &builder{in: in}, ascii: truth(a.list[1]), sort: truth(a.list[4]), item: ", ", key: ": "}
	if a.list[2] != nil {
		s, is := a.list[2].(Str)
		if !is {
			s = in.fill(max(0, toInt(a.list[2])), own(" "))
		}
		d.indent, d.item = &s, ","
	}
	if has[3] && a.list[3] != nil {
		pair := in.iterate(a.list[3])
		if len(pair) != 2 {
			fail("separators must be a pair")
		}
		d.item, d.key = toStr(pair[0]).s, toStr(pair[1]).s
	}
	d.write(a.list[0], 0)
	return d.b.str()
}

func (d *dump) line(depth int) {
	if d.indent != nil {
		d.b.add(own("\n"))
		for range depth {
			d.b.add(*d.indent)
		}
	}
}

func (d *dump) write(v any, depth int) {
	d.in.visit(v, depth)
	switch v := v.(type) {
	case Str:
		d.text(v)
	case *List:
		if v.kind != "list" && v.kind != "tuple" {
			fail("Object of type %s is not JSON serializable", v.kind)
		}
		d.group("[", len(v.items), "]", depth, func(i int) { d.write(v.items[i], depth+1) })
	case *group:
		d.write(&v.List, depth)
	case *Dict:
		v.readAll()
		order := make([]int, len(v.keys))
		for i := range order {
			order[i] = i
		}
		if d.sort {
			slices.SortStableFunc(order, func(i, j int) int { return d.in.order(v.keys[i], v.keys[j]) })
		}
		d.group("{", len(order), "}", depth, func(i int) {
			k := v.keys[order[i]]
			if s, is := k.(Str); is {
				d.text(s)
			} else {
				d.b.add(own(`"` + d.plain(k, true) + `"`))
			}
			d.b.add(own(d.key))
			d.write(v.values[order[i]], depth+1)
		})
	default:
		d.b.add(own(d.plain(v, false)))
	}
}

func (d *dump) group(open string, n int, end string, depth int, write func(int)) {
	d.b.add(own(open))
	for i := range n {
		if i > 0 {
			d.b.add(own(d.item))
		}
		d.line(depth + 1)
		write(i)
	}
	if n > 0 {
		d.line(depth)
	}
	d.b.add(own(end))
}

func (d *dump) plain(v any, asKey bool) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return map[bool]string{true: "true", false: "false"}[v]
	case *big.Int:
		return v.String()
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 0):
			return map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]
		}
		return floatText(v)
	}
	if asKey {
		fail("keys must be str, int, float, bool or None, not %s", typeName(v))
	}
	fail("Object of type %s is not JSON serializable", typeName(v))
	return ""
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (d *dump) text(s Str) {
	d.b.add(own(`"`))
	s.safe = false
	d.b.add(d.in.each(s, func(s string) string {
		var b strings.Builder
		for i, r := range s {
			text, is := jsonEscapes[r]
			switch {
			case is:
				b.WriteString(text)
			case r < ' ' || d.ascii && 0x7f <= r && r < 0x10000:
				fmt.Fprintf(&b, `\u%04x`, r)
			case d.ascii && r >= 0x10000:
				hi, lo := utf16.EncodeRune(r)
				fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
			case r == 0xfffd && !strings.HasPrefix(s[i:], "\ufffd"):
				b.WriteByte(s[i])
			default:
				b.WriteRune(r)
			}
		}
		return b.String()
	}))
	d.b.add(own(`"`))
}
