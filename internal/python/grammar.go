package python

import "fmt"

// Check returns nil if src is Python: if it splits into tokens and the tokens follow the grammar, including the block
// rule (a colon at the end of a line is followed by a deeper block, and nothing else is). Otherwise it returns a
// [*SyntaxError] with the first wrong line.
//
// Check follows the grammar of the Python 3.13 reference, so it accepts everything that 3.11 parses. Like ast.parse, it
// accepts what only the compiler rejects (return outside a function, two arguments of the same name). It also accepts
// an unknown name in a \N escape, and an f-string that only 3.12 and later can read.
func Check(src string) error {
	tokens, err := Tokenize(src)
	if err != nil {
		return err
	}
	p := &parser{tokens: significant(tokens)}
	for p.err == nil && p.peek().Kind != End {
		p.statement()
	}
	if p.err != nil {
		return p.err
	}
	return nil
}

// significant removes the tokens that no grammar rule mentions, in place.
func significant(tokens []Token) []Token {
	kept := tokens[:0]
	for _, t := range tokens {
		if t.Kind != Comment && t.Kind != NL {
			kept = append(kept, t)
		}
	}
	return kept
}

// parser recognizes Python. It has one method per grammar rule, which reads the rule's tokens and builds nothing. The
// first error is kept, and moves the parser to the End token, which no rule accepts, so every rule ends by itself.
// Rules recurse only inside brackets and blocks, and the lexer limits the depth of those.
type parser struct {
	tokens []Token
	i      int
	err    *SyntaxError
}

func (p *parser) peek() *Token { return &p.tokens[p.i] }

// after returns the token after the next one.
func (p *parser) after() *Token { return &p.tokens[min(p.i+1, len(p.tokens)-1)] }

func (p *parser) next() *Token {
	t := p.peek()
	if t.Kind != End {
		p.i++
	}
	return t
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &SyntaxError{Line: p.peek().Line, Msg: fmt.Sprintf(format, args...)}
		p.i = len(p.tokens) - 1
	}
}

func (t *Token) is(text string) bool {
	return (t.Kind == Op || t.Kind == Name) && t.Text == text
}

func (t *Token) isIdentifier() bool { return t.Kind == Name && !IsKeyword(t.Text) }

func (p *parser) at(text string) bool { return p.peek().is(text) }

func (p *parser) accept(text string) bool {
	if p.at(text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) acceptKind(k Kind) bool {
	if p.peek().Kind == k {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail("expected %q, not %s", text, p.peek().describe())
	}
}

func (p *parser) identifier() {
	if !p.peek().isIdentifier() {
		p.fail("expected a name, not %s", p.peek().describe())
	}
	p.next()
}

// describe returns the name of a token for a message.
func (t *Token) describe() string {
	switch t.Kind {
	case End:
		return "the end"
	case Newline, NL:
		return "the end of the line"
	case Indent, Dedent:
		return "a change of indentation"
	}
	const longest = 40
	if r := []rune(t.Text[:min(len(t.Text), 4*longest)]); len(r) > longest {
		return fmt.Sprintf("%q...", string(r[:longest]))
	}
	return fmt.Sprintf("%q", t.Text)
}
