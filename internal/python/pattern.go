package python

import "strings"

// matchHeader reads the first line of a match statement and the indentation after it, and reports whether there is one:
// "match" is also an ordinary name, and only what follows can tell them apart.
func (p *parser) matchHeader() bool {
	start := p.i
	p.next()
	if p.startsExpression() {
		star := p.at("*")
		_, tuple := p.list(p.starNamed)
		if (tuple || !star) && p.accept(":") && p.acceptKind(Newline) && p.acceptKind(Indent) && p.at("case") {
			return true
		}
	}
	p.i, p.err = start, nil
	return false
}

func (p *parser) cases() {
	for p.err == nil && !p.acceptKind(Dedent) {
		p.expect("case")
		p.patterns(":")
		if p.accept("if") {
			p.named()
		}
		p.block()
	}
}

// patterns reads the patterns of a case: one, or several separated by commas, optionally with a trailing comma.
func (p *parser) patterns(end string) {
	star := p.at("*")
	if tuple := p.patternList(end); star && !tuple {
		p.fail("a starred pattern alone")
	}
}

func (p *parser) patternList(end string) (tuple bool) {
	for {
		if p.accept("*") {
			p.identifier()
		} else {
			p.pattern()
		}
		if !p.accept(",") {
			return tuple
		}
		tuple = true
		if p.at(end) || p.at("if") {
			return tuple
		}
	}
}

func (p *parser) pattern() {
	p.closedPattern()
	for p.accept("|") {
		p.closedPattern()
	}
	if p.accept("as") {
		if p.at("_") {
			p.unexpected()
		}
		p.identifier()
	}
}

func (p *parser) closedPattern() {
	switch {
	case p.literalPattern():
	case p.accept("("):
		if !p.at(")") {
			p.patterns(")")
		}
		p.expect(")")
	case p.accept("["):
		if !p.at("]") {
			p.patternList("]")
		}
		p.expect("]")
	case p.accept("{"):
		p.mappingPattern()
	default:
		p.dotted()
		if p.accept("(") {
			p.classPattern()
		}
	}
}

// literalPattern reads a number (or a sum like 1+2j), strings or a constant, if one of these is next.
func (p *parser) literalPattern() bool {
	t := p.peek()
	switch {
	case t.Kind == String || t.Kind == FStringStart:
		p.strings()
	case t.Kind == Number || t.is("-"):
		p.accept("-")
		real := p.patternNumber(false)
		if real && (p.accept("+") || p.accept("-")) {
			p.patternNumber(true)
		}
	case t.is("None") || t.is("True") || t.is("False"):
		p.next()
	default:
		return false
	}
	return true
}

// patternNumber reads a number, which must be imaginary if imaginary is true, and reports whether the number is real.
func (p *parser) patternNumber(imaginary bool) bool {
	t := p.peek()
	real := !strings.HasSuffix(strings.ToLower(t.Text), "j")
	if t.Kind != Number || imaginary && real {
		p.unexpected()
	}
	p.next()
	return real
}

func (p *parser) mappingPattern() {
	for p.err == nil && !p.at("}") {
		if p.accept("**") {
			p.identifier()
			p.accept(",")
			break
		}
		if !p.literalPattern() {
			if p.dotted(); !p.tokens[max(p.i-2, 0)].is(".") {
				p.fail("a mapping pattern's key is a literal or a dotted name")
			}
		}
		p.expect(":")
		p.pattern()
		if !p.accept(",") {
			break
		}
	}
	p.expect("}")
}

func (p *parser) classPattern() {
	keywords := false
	for p.err == nil && !p.at(")") {
		if p.peek().isIdentifier() && p.after().is("=") {
			p.next()
			p.next()
			keywords = true
		} else if keywords {
			p.fail("a positional pattern after a keyword pattern")
		}
		p.pattern()
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
}
