package jinja

import (
	"slices"
	"strings"
)

// tuple reads expressions with commas between them; a single one without a comma is itself.
func (p *parser) tuple(brackets bool) *node { return p.list(brackets, p.expression) }

// tupleNoCond is tuple without inline ifs outside of brackets, for expressions that an if may follow.
func (p *parser) tupleNoCond() *node { return p.list(false, p.or) }

func (p *parser) list(brackets bool, read func() *node) *node {
	line := p.cur().line
	var all []*node
	comma := false
	for {
		if p.is(printEnd) || p.is(blockEnd) || p.is(opToken, ")") || p.is(nameToken, "recursive") {
			break
		}
		all = append(all, read())
		if !p.take(opToken, ",") {
			break
		}
		comma = true
	}
	if !comma && len(all) == 1 {
		return all[0]
	}
	if len(all) == 0 && !brackets {
		p.fail("unexpected %q: want an expression", p.cur().text)
	}
	return &node{op: "tuple", args: all, line: line}
}

func (p *parser) expression() *node {
	p.deeper()
	defer func() { p.depth-- }()
	from := len(p.unknown)
	n := p.or()
	for p.is(nameToken, "if") {
		line := p.next().line
		c := &node{op: "cond", args: []*node{p.or(), n, nil}, line: line}
		if p.take(nameToken, "else") {
			c.args[2] = p.expression()
		}
		n = c
		p.unknown = p.unknown[:from]
	}
	return n
}

// binary reads operators of one level, from left to right.
func (p *parser) binary(read func() *node, k kind, ops ...string) *node {
	n := read()
	for p.is(k, ops...) {
		t := p.next()
		n = &node{op: t.text, args: []*node{n, read()}, line: t.line}
		p.width(n)
	}
	return n
}

// width bounds the depth of a tree that grows to the left.
func (p *parser) width(n *node) {
	depth := 0
	for at := n; at != nil && len(at.args) > 0; at = at.args[0] {
		if depth++; depth > maxChain {
			p.fail("more than %d operators in a row", maxChain)
		}
	}
}

func (p *parser) or() *node  { return p.binary(p.and, nameToken, "or") }
func (p *parser) and() *node { return p.binary(p.not, nameToken, "and") }

func (p *parser) not() *node {
	if !p.is(nameToken, "not") {
		return p.compare()
	}
	p.deeper()
	defer func() { p.depth-- }()
	return &node{line: p.next().line, op: "not", args: []*node{p.not()}}
}

func (p *parser) compare() *node {
	n := &node{op: "compare", args: []*node{p.sum()}, line: p.cur().line}
	for {
		switch {
		case p.is(opToken, "==", "!=", "<", "<=", ">", ">=") || p.is(nameToken, "in"):
			n.ops = append(n.ops, p.next().text)
		case p.is(nameToken, "not") && len(p.tokens) > 1 && p.tokens[1].kind == nameToken && p.tokens[1].text == "in":
			p.next()
			p.next()
			n.ops = append(n.ops, "not in")
		case len(n.ops) == 0:
			return n.args[0]
		default:
			return n
		}
		n.args = append(n.args, p.sum())
	}
}

func (p *parser) sum() *node { return p.binary(p.concat, opToken, "+", "-") }

func (p *parser) concat() *node {
	n := p.product()
	if !p.is(opToken, "~") {
		return n
	}
	c := &node{op: "~", args: []*node{n}, line: p.cur().line}
	for p.take(opToken, "~") {
		c.args = append(c.args, p.product())
	}
	return c
}

func (p *parser) product() *node { return p.binary(p.power, opToken, "*", "/", "//", "%") }
func (p *parser) power() *node {
	return p.binary(func() *node { return p.unary(true) }, opToken, "**")
}

func (p *parser) unary(filter bool) *node {
	p.deeper()
	defer func() { p.depth-- }()
	var n *node
	if p.is(opToken, "-", "+") {
		t := p.next()
		n = &node{op: "u" + t.text, args: []*node{p.unary(false)}, line: t.line}
	} else {
		n = p.primary()
	}
	n = p.postfix(n)
	if filter {
		n = p.filters(n, false)
	}
	return n
}

var constants = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

func (p *parser) primary() *node {
	t := p.next()
	n := &node{op: "const", line: t.line}
	switch {
	case t.kind == nameToken:
		if v, is := constants[t.text]; is {
			n.value = v
		} else {
			n.op, n.name = "name", t.text
		}
	case t.kind == stringToken:
		var b strings.Builder
		b.WriteString(t.text)
		for p.is(stringToken) {
			b.WriteString(p.next().text)
		}
		n.value = Str{s: b.String()}
	case t.kind == numberToken:
		n.value = t.value
	case t.kind == opToken && t.text == "(":
		n = p.tuple(true)
		p.expect(opToken, ")")
	case t.kind == opToken && t.text == "[":
		n.op = "list"
		for !p.take(opToken, "]") {
			if len(n.args) > 0 {
				p.expect(opToken, ",")
				if p.take(opToken, "]") {
					break
				}
			}
			n.args = append(n.args, p.expression())
		}
	case t.kind == opToken && t.text == "{":
		n.op = "dict"
		for !p.take(opToken, "}") {
			if len(n.args) > 0 {
				p.expect(opToken, ",")
				if p.take(opToken, "}") {
					break
				}
			}
			n.args = append(n.args, p.expression())
			p.expect(opToken, ":")
			n.args = append(n.args, p.expression())
		}
	default:
		panic(&Error{Line: t.line, Message: "unexpected \"" + t.text + "\": want an expression"})
	}
	return n
}

func (p *parser) postfix(n *node) *node {
	for {
		t := p.cur()
		switch {
		case p.take(opToken, "."):
			k := p.next()
			switch {
			case k.kind == nameToken:
				n = &node{op: "attr", name: k.text, args: []*node{n}, line: t.line}
			case k.kind == numberToken && k.text != "" && !strings.ContainsAny(k.text, ".eE"):
				n = &node{op: "item", args: []*node{n, {op: "const", value: k.value, line: k.line}}, line: t.line}
			default:
				p.fail("expected a name or a number after the dot, not %q", k.text)
			}
		case p.take(opToken, "["):
			n = p.subscript(n, t.line)
		case p.is(opToken, "("):
			n = p.call(&node{op: "call", args: []*node{n}, line: t.line})
		default:
			return n
		}
		p.width(n)
	}
}

func (p *parser) subscript(n *node, line int) *node {
	var all []*node
	for {
		all = append(all, p.index())
		if !p.take(opToken, ",") {
			break
		}
	}
	p.expect(opToken, "]")
	if len(all) == 1 {
		return &node{op: "item", args: []*node{n, all[0]}, line: line}
	}
	return &node{op: "item", args: []*node{n, {op: "tuple", args: all, line: line}}, line: line}
}

// index reads an index or a slice: start, stop and step, each of which may be nil.
func (p *parser) index() *node {
	s := &node{op: "slice", args: make([]*node, 3), line: p.cur().line}
	for i := range s.args {
		if !p.is(opToken, ":", "]", ",") {
			s.args[i] = p.expression()
		}
		if i == 2 || !p.take(opToken, ":") {
			if i == 0 {
				if s.args[0] == nil {
					p.fail("expected an index")
				}
				return s.args[0]
			}
			break
		}
	}
	return s
}

// call reads the arguments of a call into n.
func (p *parser) call(n *node) *node {
	p.expect(opToken, "(")
	given := map[string]bool{}
	for first := true; !p.take(opToken, ")"); first = false {
		if !first {
			p.expect(opToken, ",")
			if p.take(opToken, ")") {
				break
			}
		}
		switch {
		case p.take(opToken, "*"):
			n.star = p.expression()
		case p.take(opToken, "**"):
			n.pairs = p.expression()
		case p.is(nameToken) && p.tokens[1].kind == opToken && p.tokens[1].text == "=":
			name := p.next().text
			p.next()
			if given[name] {
				p.fail("the argument %s is given twice", name)
			}
			given[name] = true
			n.named = append(n.named, named{name, p.expression()})
		default:
			if len(n.named) > 0 || n.pairs != nil {
				p.fail("an argument without a name follows one with a name")
			}
			n.args = append(n.args, p.expression())
		}
	}
	return n
}

// filters reads filters and tests after n. If inline, the first filter has no bar, and n is nil.
func (p *parser) filters(n *node, inline bool) *node {
	for {
		t := p.cur()
		switch {
		case inline || p.take(opToken, "|"):
			inline = false
			name := p.expect(nameToken, "").text
			for p.take(opToken, ".") {
				name += "." + p.expect(nameToken, "").text
			}
			f := &node{op: "filter", name: name, args: []*node{n}, line: t.line}
			if p.is(opToken, "(") {
				f = p.call(f)
			}
			if !hasFilter(name) {
				p.unknown = append(p.unknown, &Error{Line: t.line, Message: "no filter named '" + short(name) + "'"})
			}
			n = f
		case n != nil && p.take(nameToken, "is"):
			n = p.test(n, t.line)
		case n != nil && p.is(opToken, "("):
			n = p.call(&node{op: "call", args: []*node{n}, line: t.line})
		default:
			return n
		}
		p.width(n)
	}
}

func (p *parser) test(n *node, line int) *node {
	not := p.take(nameToken, "not")
	name := p.expect(nameToken, "").text
	t := &node{op: "test", name: name, args: []*node{n}, line: line}
	c := p.cur()
	switch {
	case p.is(opToken, "("):
		t = p.call(t)
	case c.kind == stringToken || c.kind == numberToken || p.is(opToken, "[", "{") ||
		c.kind == nameToken && !slices.Contains([]string{"else", "or", "and"}, c.text):
		if c.text == "is" && c.kind == nameToken {
			p.fail("tests cannot be chained with is")
		}
		t.args = append(t.args, p.postfix(p.primary()))
	}
	if !hasTest(name) {
		p.unknown = append(p.unknown, &Error{Line: line, Message: "no test named '" + short(name) + "'"})
	}
	if not {
		return &node{op: "not", args: []*node{t}, line: line}
	}
	return t
}
