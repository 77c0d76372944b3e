package python

import "strings"

// shape tells whether and how an expression can be the target of an assignment.
type shape uint8

const (
	value shape = iota // cannot be assigned to
	name
	place // attribute, element or slice
	group // tuple or list of targets, or a starred target
)

// startsExpression reports whether the next token can start an expression, starred or not.
func (p *parser) startsExpression() bool {
	t := p.peek()
	switch t.Kind {
	case Number, String, FStringStart:
		return true
	case Name:
		switch t.Text {
		case "None", "True", "False", "not", "lambda", "await":
			return true
		}
		return !IsKeyword(t.Text)
	case Op:
		switch t.Text {
		case "(", "[", "{", "-", "+", "~", "*", "...":
			return true
		}
	}
	return false
}

// list reads items separated by commas, optionally with a trailing comma. Several items, or one item with a comma, form
// a tuple.
func (p *parser) list(item func() shape) (s shape, tuple bool) {
	s = item()
	if !p.at(",") {
		return s, false
	}
	targets := s != value
	for p.accept(",") && p.startsExpression() {
		if item() == value {
			targets = false
		}
	}
	if targets {
		return group, true
	}
	return value, true
}

func (p *parser) starExpressions() shape {
	s, _ := p.list(p.starExpression)
	return s
}

func (p *parser) starExpression() shape {
	if p.at("*") {
		return p.starBitwise()
	}
	return p.expression()
}

// starNamed reads an item of a display, which may be starred or have the operator :=.
func (p *parser) starNamed() shape {
	if p.at("*") {
		return p.starBitwise()
	}
	return p.named()
}

func (p *parser) starBitwise() shape {
	if !p.accept("*") {
		return p.bitwise()
	}
	if p.bitwise() == value {
		return value
	}
	return group
}

func (p *parser) named() shape {
	if p.peek().isIdentifier() && p.after().is(":=") {
		p.next()
		p.next()
		p.expression()
		return value
	}
	return p.expression()
}

// targets reads the targets of for and del.
func (p *parser) targets() {
	if s, _ := p.list(p.starBitwise); s == value {
		p.fail("expected names, attributes or elements that can be assigned to")
	}
}

// expression reads a lambda, or a disjunction with its conditions. It loops where the grammar is right-recursive.
func (p *parser) expression() shape {
	for first := true; ; first = false {
		if p.accept("lambda") {
			p.parameters(false)
			p.expect(":")
			continue
		}
		s := p.disjunction()
		if !p.accept("if") {
			if first {
				return s
			}
			return value
		}
		p.disjunction()
		p.expect("else")
	}
}

func (p *parser) disjunction() shape {
	s := p.comparison()
	for p.accept("and") || p.accept("or") {
		p.comparison()
		s = value
	}
	return s
}

func (p *parser) comparison() shape {
	negated := false
	for p.accept("not") {
		negated = true
	}
	s := p.bitwise()
	for p.comparator() {
		p.bitwise()
		s = value
	}
	if negated {
		return value
	}
	return s
}

func (p *parser) comparator() bool {
	switch t := p.peek(); {
	case t.is("not"):
		if p.after().is("in") {
			p.next()
			p.next()
			return true
		}
	case t.is("is"):
		p.next()
		p.accept("not")
		return true
	case t.is("in"), t.is("<"), t.is(">"), t.is("=="), t.is(">="), t.is("<="), t.is("!="):
		p.next()
		return true
	}
	return false
}

// bitwise reads an operand of a comparison. It treats all binary operators alike, because their precedence changes only
// the tree, not what is accepted.
func (p *parser) bitwise() shape {
	s := p.operand()
	for {
		t := p.peek()
		if t.Kind != Op {
			return s
		}
		switch t.Text {
		case "+", "-", "*", "/", "//", "%", "@", "**", "&", "|", "^", "<<", ">>":
			p.next()
			p.operand()
			s = value
		default:
			return s
		}
	}
}

func (p *parser) operand() shape {
	signed := false
	for p.accept("-") || p.accept("+") || p.accept("~") {
		signed = true
	}
	awaited := p.accept("await")
	s := p.atom()
	for {
		switch {
		case p.accept("."):
			p.identifier()
			s = place
		case p.accept("("):
			p.arguments()
			s = value
		case p.accept("["):
			p.subscript()
			s = place
		case signed || awaited:
			return value
		default:
			return s
		}
	}
}

func (p *parser) atom() shape {
	t := p.peek()
	switch t.Kind {
	case Number:
		p.next()
		return value
	case String, FStringStart:
		p.strings()
		return value
	case Name:
		if !IsKeyword(t.Text) {
			p.next()
			return name
		}
		if t.Text == "None" || t.Text == "True" || t.Text == "False" {
			p.next()
			return value
		}
	case Op:
		switch t.Text {
		case "...":
			p.next()
			return value
		case "(":
			p.next()
			return p.parenthesised()
		case "[":
			p.next()
			return p.bracketed()
		case "{":
			p.next()
			p.braced()
			return value
		}
	}
	p.unexpected()
	return value
}

func (p *parser) yield() {
	p.next()
	if p.accept("from") {
		p.expression()
	} else if p.startsExpression() {
		p.starExpressions()
	}
}

// strings reads the adjacent literals of one string.
func (p *parser) strings() {
	text, bytes := false, false
	for p.err == nil {
		t := p.peek()
		switch t.Kind {
		case String:
			s := literal(t.Text)
			if _, err := s.decode(); err != nil {
				p.fail("%v", err)
			}
			bytes = bytes || s.bytes
			text = text || !s.bytes
			p.next()
		case FStringStart:
			text = true
			p.next()
			p.fstring(strings.ContainsAny(t.Text, "rR"))
		default:
			if text && bytes {
				p.fail("bytes and str literals side by side")
			}
			return
		}
	}
}

// fstring reads the parts of an f-string, or of a format specifier, to its end.
func (p *parser) fstring(raw bool) {
	for p.err == nil {
		switch t := p.peek(); {
		case t.Kind == FStringMiddle:
			if _, err := decodeMiddle(t.Text, raw); err != nil {
				p.fail("%v", err)
			}
			p.next()
		case t.is("{"):
			p.next()
			p.field(raw)
		default: // the lexer guarantees that this is the end
			p.next()
			return
		}
	}
}

func (p *parser) field(raw bool) {
	if p.at("yield") {
		p.yield()
	} else {
		star := p.at("*")
		if _, tuple := p.list(p.starExpression); star && !tuple {
			p.fail("a starred expression alone in an f-string")
		}
	}
	p.accept("=")
	if p.accept("!") {
		if t := p.next(); t.Text != "s" && t.Text != "r" && t.Text != "a" {
			p.fail("an f-string conversion other than !s, !r or !a")
		}
	}
	if p.accept(":") {
		p.fstring(raw)
		return
	}
	p.expect("}")
}
