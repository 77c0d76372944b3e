package python

import "fmt"

// Check returns nil if src is Python: if it splits into tokens and the tokens obey the grammar, with the block rule
// (what ends in a colon is followed by a deeper block, nothing else is). Otherwise the error is a [*SyntaxError] with
// the first line at fault.
//
// It follows the grammar of the Python 3.13 reference, so all that 3.11 parses is accepted. As in ast.parse, what only
// the compiler refuses is accepted (return outside a function, an argument named twice); so is an unknown name in a \N
// escape, and an f-string that only 3.12 and later can read.
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

// significant drops the tokens that no grammar rule names, in place.
func significant(tokens []Token) []Token {
	kept := tokens[:0]
	for _, t := range tokens {
		if t.Kind != Comment && t.Kind != NL {
			kept = append(kept, t)
		}
	}
	return kept
}

// parser recognises Python: a method a grammar rule, each reading its tokens and building nothing. The first error
// sticks and moves to the End token, which no rule accepts, so every rule runs out by itself. Rules call themselves
// only inside brackets and blocks, whose depth the lexer bounds.
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

// describe names a token in a message.
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
