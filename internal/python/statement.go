package python

func (p *parser) statement() {
	t := p.peek()
	if t.Kind == Indent {
		p.fail("unexpected indentation: no colon ends the line before")
		return
	}
	if t.is("@") {
		p.decorated()
		return
	}
	if t.Kind != Name {
		p.simpleLine()
		return
	}
	switch t.Text {
	case "if":
		p.conditional()
	case "while":
		p.next()
		p.named()
		p.block()
		p.elseBlock()
	case "for":
		p.forLoop()
	case "try":
		p.try()
	case "with":
		p.with()
	case "def":
		p.function()
	case "class":
		p.class()
	case "async":
		p.next()
		if next := p.peek(); !next.is("def") && !next.is("for") && !next.is("with") {
			p.fail(`expected "def", "for" or "with" after "async"`)
		}
		p.statement()
	case "match":
		if p.matchHeader() {
			p.cases()
		} else {
			p.simpleLine()
		}
	default:
		p.simpleLine()
	}
}

// block reads the colon and its body: statements on the same line, or an indented block.
func (p *parser) block() {
	p.expect(":")
	if !p.acceptKind(Newline) {
		p.simpleLine()
		return
	}
	if !p.acceptKind(Indent) {
		p.fail("expected an indented block after the colon")
	}
	for p.err == nil && !p.acceptKind(Dedent) {
		p.statement()
	}
}

func (p *parser) elseBlock() {
	if p.accept("else") {
		p.block()
	}
}

func (p *parser) conditional() {
	p.next()
	p.named()
	p.block()
	for p.accept("elif") {
		p.named()
		p.block()
	}
	p.elseBlock()
}

func (p *parser) forLoop() {
	p.next()
	p.targets()
	p.expect("in")
	p.starExpressions()
	p.block()
	p.elseBlock()
}

func (p *parser) try() {
	p.next()
	p.block()
	handlers, groups := 0, false
	for p.accept("except") {
		star := p.accept("*")
		if handlers > 0 && star != groups {
			p.fail(`"except" and "except*" in one "try"`)
		}
		groups = star
		handlers++
		if star || !p.at(":") {
			p.expression()
			if p.accept("as") {
				p.identifier()
			}
		}
		p.block()
	}
	if handlers > 0 {
		p.elseBlock()
	}
	if p.accept("finally") {
		p.block()
	} else if handlers == 0 {
		p.fail(`expected "except" or "finally" after the block of "try"`)
	}
}

func (p *parser) with() {
	p.next()
	if start := p.i; p.accept("(") {
		// The brackets may enclose the items, or be part of the first item's expression. Try the former first.
		p.withItems()
		p.expect(")")
		if p.err == nil && p.at(":") {
			p.block()
			return
		}
		p.i, p.err = start, nil
	}
	p.withItems()
	p.block()
}

func (p *parser) withItems() {
	for {
		p.expression()
		if p.accept("as") && p.starBitwise() == value {
			p.fail(`"as" needs something that can be assigned to`)
		}
		if !p.accept(",") || p.at(")") {
			return
		}
	}
}

func (p *parser) function() {
	p.next()
	p.identifier()
	p.typeParameters()
	p.expect("(")
	p.parameters(true)
	p.expect(")")
	if p.accept("->") {
		p.expression()
	}
	p.block()
}

func (p *parser) class() {
	p.next()
	p.identifier()
	p.typeParameters()
	if p.accept("(") {
		p.arguments()
	}
	p.block()
}

func (p *parser) decorated() {
	for p.accept("@") {
		p.named()
		if !p.acceptKind(Newline) {
			p.fail("a decorator must end its line")
		}
	}
	if !p.at("def") && !p.at("class") && !(p.at("async") && p.after().is("def")) {
		p.fail("expected a function or class after the decorator")
	}
	p.statement()
}

// typeParameters reads the optional [T: bound, *Ts, **P] of a definition.
func (p *parser) typeParameters() {
	if !p.accept("[") {
		return
	}
	for {
		if !p.accept("*") {
			p.accept("**")
		}
		p.identifier()
		if p.accept(":") {
			p.expression()
		}
		if p.accept("=") {
			p.starExpression()
		}
		if !p.accept(",") || p.at("]") {
			break
		}
	}
	p.expect("]")
}

// simpleLine reads the statements of one line, which semicolons separate.
func (p *parser) simpleLine() {
	for {
		p.simple()
		if p.accept(";") && p.peek().Kind != Newline {
			continue
		}
		if !p.acceptKind(Newline) {
			p.unexpected()
		}
		return
	}
}

// unexpected reports an error at a token that cannot follow the previous one.
func (p *parser) unexpected() {
	if p.i > 0 {
		if before := p.tokens[p.i-1]; before.is("print") || before.is("exec") {
			p.fail("%s without brackets is Python 2", before.Text)
			return
		}
	}
	p.fail("unexpected %s", p.peek().describe())
}

func (p *parser) simple() {
	t := p.peek()
	if t.Kind == Name {
		switch t.Text {
		case "pass", "break", "continue":
			p.next()
			return
		case "return":
			p.next()
			if p.startsExpression() {
				p.starExpressions()
			}
			return
		case "raise":
			p.next()
			if p.startsExpression() {
				p.expression()
				if p.accept("from") {
					p.expression()
				}
			}
			return
		case "assert":
			p.next()
			p.expression()
			if p.accept(",") {
				p.expression()
			}
			return
		case "del":
			p.next()
			if p.at("*") {
				p.unexpected()
			}
			p.targets()
			return
		case "global", "nonlocal":
			p.next()
			p.identifier()
			for p.accept(",") {
				p.identifier()
			}
			return
		case "import":
			p.next()
			p.importNames(p.dotted)
			return
		case "from":
			p.next()
			p.importFrom()
			return
		case "type":
			if p.after().isIdentifier() {
				p.next()
				p.identifier()
				p.typeParameters()
				p.expect("=")
				p.expression()
				return
			}
		}
	}
	p.assignment()
}

func (p *parser) dotted() {
	p.identifier()
	for p.accept(".") {
		p.identifier()
	}
}

func (p *parser) importNames(name func()) {
	for {
		name()
		if p.accept("as") {
			p.identifier()
		}
		if !p.accept(",") || p.at(")") {
			return
		}
	}
}

func (p *parser) importFrom() {
	relative := false
	for p.accept(".") || p.accept("...") {
		relative = true
	}
	if !relative || !p.at("import") {
		p.dotted()
	}
	p.expect("import")
	switch {
	case p.accept("*"):
	case p.accept("("):
		p.importNames(p.identifier)
		p.expect(")")
	default:
		p.importNames(p.identifier)
	}
}

// assignment reads an expression statement, or an assignment of any form.
func (p *parser) assignment() {
	if p.at("yield") {
		p.yield()
		return
	}
	target := p.starExpressions()
	if p.accept(":") {
		if target != name && target != place {
			p.fail("only a name, attribute or element can have an annotation")
		}
		p.expression()
		if p.accept("=") {
			p.assigned()
		}
		return
	}
	if t := p.peek(); t.Kind == Op && len(t.Text) > 1 && t.Text[len(t.Text)-1] == '=' && isAugmented(t.Text) {
		if target != name && target != place {
			p.fail("%q needs one name, attribute or element on its left", t.Text)
		}
		p.next()
		p.assigned()
		return
	}
	for p.at("=") {
		if target == value {
			p.fail("what is left of = cannot be assigned to")
		}
		p.next()
		target = p.assigned()
	}
}

func isAugmented(op string) bool {
	switch op {
	case "+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**=":
		return true
	}
	return false
}

// assigned reads the right side of an assignment.
func (p *parser) assigned() shape {
	if p.at("yield") {
		p.yield()
		return value
	}
	return p.starExpressions()
}
