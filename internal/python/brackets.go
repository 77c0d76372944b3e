package python

func (p *parser) parenthesised() shape {
	if p.accept(")") {
		return group
	}
	if p.at("yield") {
		p.yield()
		p.expect(")")
		return value
	}
	star := p.at("*")
	s, tuple := p.list(p.starNamed)
	if p.comprehension(star || tuple) {
		s = value
	} else if star && !tuple {
		p.fail("a starred expression alone in brackets")
	}
	p.expect(")")
	return s
}

func (p *parser) bracketed() shape {
	if p.accept("]") {
		return group
	}
	star := p.at("*")
	s, tuple := p.list(p.starNamed)
	if p.comprehension(star || tuple) {
		s = value
	}
	p.expect("]")
	if s == value {
		return value
	}
	return group
}

// braced reads a dict or set after its opening brace; the first element decides which.
func (p *parser) braced() {
	if p.accept("}") {
		return
	}
	dict := false
	for first := true; ; first = false {
		unpacked, walrus := p.at("*"), p.after().is(":=")
		if p.at("**") {
			p.next()
			p.bitwise()
			dict, unpacked = dict || first, true
			if !dict {
				p.fail(`"**" in a set`)
			}
		} else {
			p.starNamed()
			if first {
				dict = p.at(":")
			}
			if dict {
				if unpacked || walrus {
					p.unexpected()
				}
				p.expect(":")
				p.expression()
			}
		}
		if first && p.comprehension(unpacked) {
			break
		}
		if !p.accept(",") || p.at("}") {
			break
		}
	}
	p.expect("}")
}

// comprehension reads the loops and conditions of a comprehension, and reports whether there are any. If refuse is
// true, they are an error, because a starred item or a bare tuple comes before them.
func (p *parser) comprehension(refuse bool) bool {
	loops := false
	for p.at("for") || p.at("async") && p.after().is("for") {
		if refuse {
			p.fail("a comprehension over a starred element or a tuple without brackets")
		}
		loops = true
		p.accept("async")
		p.next()
		p.targets()
		p.expect("in")
		p.disjunction()
		for p.accept("if") {
			p.disjunction()
		}
	}
	return loops
}

// arguments reads the arguments of a call, or the bases of a class, after the opening bracket, and the closing bracket.
func (p *parser) arguments() {
	keywords, mappings := false, false
	for n := 0; !p.accept(")"); n++ {
		switch {
		case p.err != nil:
			return
		case p.accept("**"):
			mappings = true
			p.expression()
		case p.accept("*"):
			if mappings {
				p.fail(`a "*" argument after a "**" argument`)
			}
			p.expression()
		case p.peek().isIdentifier() && p.after().is("="):
			keywords = true
			p.next()
			p.next()
			p.expression()
		default:
			if keywords || mappings {
				p.fail("a positional argument after a keyword argument")
			}
			p.named()
			if p.comprehension(false) && (n > 0 || !p.at(")")) {
				p.fail("a generator among other arguments needs brackets of its own")
			}
		}
		if !p.accept(",") && !p.at(")") {
			p.unexpected()
		}
	}
}

// subscript reads the index or the slices after the opening bracket, and the closing bracket.
func (p *parser) subscript() {
	for {
		whole := p.at("*") || p.after().is(":=") // no slice starts this way
		if !p.at(":") {
			p.starNamed()
		}
		if !whole && p.accept(":") {
			if p.startsExpression() {
				p.expression()
			}
			if p.accept(":") && p.startsExpression() {
				p.expression()
			}
		}
		if !p.accept(",") || p.at("]") {
			break
		}
	}
	p.expect("]")
}

// parameters reads the parameters of a function or, if annotated is false, of a lambda, up to the closing bracket or
// colon.
func (p *parser) parameters(annotated bool) {
	defaults := false
	slash := false
	star := false
	named := true
	for n := 0; !p.at(")") && !p.at(":"); n++ {
		switch {
		case p.err != nil:
			return
		case p.accept("**"):
			p.parameter(annotated)
			p.accept(",")
			if !p.at(")") && !p.at(":") {
				p.fail(`a parameter after the "**" parameter`)
			}
			continue
		case p.accept("/"):
			if n == 0 || star || slash {
				p.fail(`"/" must follow the positional parameters, once`)
			}
			slash = true
		case p.accept("*"):
			if star {
				p.fail(`a second "*" among the parameters`)
			}
			star = true
			if p.at(",") {
				named = false
			} else {
				p.identifier()
				if annotated && p.accept(":") {
					p.starExpression()
				}
			}
		default:
			p.parameter(annotated)
			if p.accept("=") {
				defaults = true
				p.expression()
			} else if defaults && !star {
				p.fail("a parameter without default after one with a default")
			}
			named = true
		}
		if !p.accept(",") && !p.at(")") && !p.at(":") {
			p.unexpected()
		}
	}
	if !named {
		p.fail(`no name follows "*" among the parameters`)
	}
}

func (p *parser) parameter(annotated bool) {
	p.identifier()
	if annotated && p.accept(":") {
		p.expression()
	}
}
