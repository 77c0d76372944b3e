package jinja

import (
	"slices"
	"strings"
)

// node is an expression. Its fields mean different things for different ops; the parser's functions say which.
type node struct {
	op    string // "const", "name", "list", "tuple", "dict", "attr", "item", "slice", "call", "filter", "test", …
	name  string
	value any
	args  []*node
	named []named // keyword arguments
	star  *node   // *args of a call
	pairs *node   // **kwargs of a call
	ops   []string
	line  int
}

type named struct {
	name string
	node *node
}

// stmt is a statement.
type stmt struct {
	op      string // "text", "print", "if", "for", "set", "setblock", "macro", "call", "filter", "with", "generation", …
	text    Str
	expr    *node
	target  *node
	cond    *node // of for … if
	body    []*stmt
	other   []*stmt // else
	macro   *macro
	targets []*node // of with
	values  []*node
	scope   *scope // of body
	scope2  *scope // of other
	line    int
}

// macro is the code of a macro, or of a caller.
type macro struct {
	name                   string
	params                 []string
	defaults               []*node // of the last parameters
	body                   []*stmt
	varargs, kwargs, calls bool // which of its special names the body reads
	scope                  *scope
}

type parser struct {
	tokens  []token
	depth   int
	loop    int // loops around, within the function
	unknown []*Error
	fatal   []*Error
}

func (p *parser) cur() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if len(p.tokens) > 1 {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) fail(format string, args ...any) {
	l := lexer{line: p.cur().line}
	l.fail(format, args...)
}

func (p *parser) is(k kind, texts ...string) bool {
	return p.cur().kind == k && (len(texts) == 0 || slices.Contains(texts, p.cur().text))
}

func (p *parser) take(k kind, texts ...string) bool {
	if p.is(k, texts...) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(k kind, text string) token {
	if p.cur().kind != k || text != "" && p.cur().text != text {
		if text == "" {
			text = map[kind]string{nameToken: "a name", blockEnd: "%}", printEnd: "}}"}[k]
		}
		p.fail("unexpected %q: want %s", p.cur().text, text)
	}
	return p.next()
}

// deeper counts the nesting of what is being read.
func (p *parser) deeper() {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested more than %d deep", maxDepth)
	}
}

// body reads statements up to one of the tags, which it leaves to be read after its {%.
func (p *parser) body(ends ...string) []*stmt {
	p.deeper()
	defer func() { p.depth-- }()
	var out []*stmt
	for {
		line := p.cur().line
		switch t := p.next(); t.kind {
		case textToken:
			out = append(out, &stmt{op: "text", text: Str{s: t.text}, line: line})
		case printToken:
			out = append(out, &stmt{op: "print", expr: p.tuple(false), line: line})
			p.expect(printEnd, "")
		case blockToken:
			if p.is(nameToken, ends...) && len(ends) > 0 {
				return out
			}
			out = append(out, p.statement(line))
		default:
			if len(ends) > 0 {
				p.fail("the template ends where %s is missing", strings.Join(ends, " or "))
			}
			return out
		}
	}
}

// function reads a body that Python runs as a function of its own: no break or continue leads out of it.
func (p *parser) function(end string) []*stmt {
	loop := p.loop
	p.loop = 0
	body := p.hard(func() []*stmt { return p.body(end) })
	p.loop = loop
	p.next()
	return body
}

// hard makes unknown filters in a scope of its own errors of the whole template.
func (p *parser) hard(read func() []*stmt) []*stmt {
	from := len(p.unknown)
	body := read()
	p.fatal = append(p.fatal, p.unknown[from:]...)
	p.unknown = p.unknown[:from]
	return body
}

func (p *parser) statement(line int) *stmt {
	tag := p.expect(nameToken, "").text
	s := &stmt{op: tag, line: line}
	switch tag {
	case "if":
		from := len(p.unknown)
		p.branches(s)
		p.unknown = p.unknown[:from] // errors only when they are reached
		return s
	case "for":
		p.forLoop(s)
	case "set":
		p.set(s)
	case "macro":
		name := p.expect(nameToken, "").text
		p.expect(opToken, "(")
		s.macro = p.signature(name)
		p.expect(blockEnd, "")
		p.finish(s.macro, "endmacro")
	case "call":
		m := &macro{}
		if p.take(opToken, "(") {
			m = p.signature("")
		}
		s.macro = m
		if s.expr = p.expression(); s.expr.op != "call" {
			p.fail("expected a call")
		}
		p.expect(blockEnd, "")
		p.finish(m, "endcall")
	case "filter":
		s.expr = p.filters(nil, true)
		p.expect(blockEnd, "")
		s.body = p.hard(func() []*stmt { return p.body("endfilter") })
		p.next()
	case "with":
		p.with(s)
	case "generation":
		p.expect(blockEnd, "")
		s.body = p.function("endgeneration")
	case "break", "continue":
		if p.loop == 0 {
			p.fail("%s outside of a loop", tag)
		}
	case "include", "import", "from", "extends", "block":
		p.fail("%s is not supported: a chat template has no other files", tag)
	default:
		p.fail("unknown tag %q", tag)
	}
	p.expect(blockEnd, "")
	return s
}

// branches reads an if after its name: expr, body, and in other the else, or the elif as an if.
func (p *parser) branches(s *stmt) {
	s.op = "if"
	s.expr = p.tupleNoCond()
	p.expect(blockEnd, "")
	s.body = p.body("elif", "else", "endif")
	line := p.cur().line
	switch p.next().text {
	case "elif":
		p.deeper()
		rest := &stmt{line: line}
		p.branches(rest)
		p.depth--
		s.other = []*stmt{rest}
		return
	case "else":
		p.expect(blockEnd, "")
		s.other = p.body("endif")
		p.next()
	}
	p.expect(blockEnd, "")
}

func (p *parser) forLoop(s *stmt) {
	s.target = p.targetOf("in")
	p.expect(nameToken, "in")
	s.expr = p.tupleNoCond()
	if p.take(nameToken, "if") {
		s.cond = p.expression()
	}
	if p.take(nameToken, "recursive") {
		s.text.s = "recursive"
	}
	p.expect(blockEnd, "")
	p.loop++
	s.body = p.hard(func() []*stmt { return p.body("endfor", "else") })
	p.loop--
	if p.next().text == "else" {
		p.expect(blockEnd, "")
		s.other = p.hard(func() []*stmt { return p.body("endfor") })
		p.next()
	}
}

func (p *parser) set(s *stmt) {
	s.target = p.targetOf("")
	if p.take(opToken, "=") {
		s.expr = p.tuple(false)
		return
	}
	s.op = "setblock"
	if p.is(opToken, "|") {
		s.expr = p.filters(nil, false)
	}
	p.expect(blockEnd, "")
	s.body = p.hard(func() []*stmt { return p.body("endset") })
	p.next()
}

func (p *parser) with(s *stmt) {
	for !p.is(blockEnd) {
		if len(s.targets) > 0 {
			p.expect(opToken, ",")
		}
		t := p.one()
		s.targets = append(s.targets, t)
		p.expect(opToken, "=")
		s.values = append(s.values, p.expression())
	}
	p.expect(blockEnd, "")
	s.body = p.hard(func() []*stmt { return p.body("endwith") })
	p.next()
}

// one reads a name to assign to.
func (p *parser) one() *node {
	t := p.expect(nameToken, "")
	if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, t.text) {
		p.fail("cannot assign to %s", t.text)
	}
	n := &node{op: "name", name: t.text, line: t.line}
	if p.take(opToken, ".") {
		return &node{op: "nsref", name: t.text, args: []*node{n}, value: p.expect(nameToken, "").text, line: t.line}
	}
	return n
}

// targetOf reads the target of an assignment: a name, a field of a namespace, or a tuple of these.
func (p *parser) targetOf(end string) *node {
	p.deeper()
	defer func() { p.depth-- }()
	line := p.cur().line
	var all []*node
	comma := false
	for {
		if p.take(opToken, "(") {
			all = append(all, p.targetOf(")"))
			p.expect(opToken, ")")
		} else {
			all = append(all, p.one())
		}
		if !p.take(opToken, ",") {
			break
		}
		comma = true
		if p.is(nameToken, end) || p.is(opToken, end, "=") {
			break
		}
	}
	if !comma {
		return all[0]
	}
	return &node{op: "tuple", args: all, line: line}
}

// signature reads the parameters of a macro after the bracket.
func (p *parser) signature(name string) *macro {
	m := &macro{name: name}
	for !p.take(opToken, ")") {
		if len(m.params) > 0 {
			p.expect(opToken, ",")
		}
		m.params = append(m.params, p.expect(nameToken, "").text)
		if p.take(opToken, "=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			p.fail("a parameter without a default follows one with a default")
		}
	}
	return m
}

func (p *parser) finish(m *macro, end string) {
	from := len(p.tokens)
	tokens := p.tokens
	m.body = p.function(end)
	for _, t := range tokens[:from-len(p.tokens)] {
		if t.kind == nameToken {
			m.varargs = m.varargs || t.text == "varargs"
			m.kwargs = m.kwargs || t.text == "kwargs"
			m.calls = m.calls || t.text == "caller"
		}
	}
}
