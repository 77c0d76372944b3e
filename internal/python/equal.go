package python

import (
	"fmt"
	"strings"
)

// Equal reports whether a and b are the same program apart from comments, blank lines, docstrings, the width of the
// indentation, line ends and the spelling of strings. If not, the string says where they first differ.
//
// It compares tokens. It compares strings by value: quotes, escapes and the split into adjacent literals do not matter,
// but the kind (str, bytes, f-string, the prefix u) does. It ignores underscores and case in numbers. A docstring is
// what Python takes for one: a str literal that is the whole first statement of a module, or of the indented block of a
// class or function.
//
// If both sources are Python ([Check]), Equal is never laxer than equality of Python's syntax trees with the docstrings
// removed. It is stricter where the tree keeps less: redundant brackets and trailing commas, 0x10 and 16, semicolons
// and line ends, a body on the line of its colon and docstrings there, \N escapes and the character, Unicode
// normalization of names, spelling inside an f-string's {x=}. Sources with the same bytes are always equal; otherwise a
// source that cannot be split into tokens equals nothing.
func Equal(a, b string) (bool, string) {
	if a == b {
		return true, ""
	}
	us, err := units(a)
	if err != nil {
		return false, "the first does not read as Python: " + err.Error()
	}
	them, err := units(b)
	if err != nil {
		return false, "the second does not read as Python: " + err.Error()
	}
	for i, u := range us {
		if i == len(them) || u.kind != them[i].kind || u.text != them[i].text {
			return false, fmt.Sprintf("line %d has %s, line %d of the other has %s", u.line, u.describe(),
				them[min(i, len(them)-1)].line, them[min(i, len(them)-1)].describe())
		}
	}
	return true, "" // the end is also a unit
}

// unit is what Equal compares: a token, or a part of a string.
type unit struct {
	kind unitKind
	text string
	line int
}

type unitKind uint8

const (
	tokenUnit unitKind = iota // anything whose spelling counts
	numberUnit
	layoutUnit // line end, indent, dedent, end
	openUnit   // starts a string
	textUnit   // text in a string, up to the next field or the end
	rawUnit    // source of an f-string's field that ends in "="
	closeUnit  // ends a string, with its kind
)

func (u unit) describe() string {
	switch {
	case u.kind == layoutUnit:
		return "the " + u.text
	case u.kind == openUnit:
		return "a string"
	case u.kind == closeUnit:
		return "the end of a string"
	}
	t := Token{Kind: Name, Text: u.text}
	return t.describe()
}

// A reducer turns tokens into units.
type reducer struct {
	src   string
	units []unit
	text  strings.Builder // text of the innermost string, not yet a unit
	runs  []run           // strings open around the token
	open  []int           // offsets after the open brackets
}

// run is a string made of adjacent literals.
type run struct {
	bytes, str, format bool
	raw                bool // of the current f-string
}

const markUnicode = "\xfd" // start of a literal with the prefix u, in a text unit

func units(src string) ([]unit, error) {
	tokens, err := Tokenize(src)
	if err != nil {
		return nil, err
	}
	r := &reducer{src: src}
	if err := r.reduce(significant(tokens)); err != nil {
		return nil, err
	}
	return r.units, nil
}

func (r *reducer) reduce(tokens []Token) error {
	fresh := true     // at the start of a logical line
	header := false   // the last line started with def or class
	docstring := true // a docstring may come here
	for i := 0; i < len(tokens); i++ {
		t := &tokens[i]
		if docstring {
			if n := docstringTokens(tokens[i:]); n > 0 {
				for _, t := range tokens[i : i+n] { // the docstring does not count, but it must be Python
					if t.Kind == String {
						if _, err := literal(t.Text).decode(); err != nil {
							return &SyntaxError{Line: t.Line, Msg: err.Error()}
						}
					}
				}
				i += n - 1
				docstring = false
				continue
			}
		}
		docstring = false
		switch t.Kind {
		case Newline, Dedent:
			fresh = true
			r.add(layoutUnit, map[Kind]string{Newline: "end of a line", Dedent: "end of a block"}[t.Kind], t.Line)
			continue
		case Indent:
			fresh = true
			docstring = header
			r.add(layoutUnit, "start of a block", t.Line)
			continue
		}
		if fresh {
			header = t.is("def") || t.is("class") || t.is("async") && tokens[i+1].is("def")
			fresh = false
		}
		if err := r.token(tokens, i); err != nil {
			return err
		}
	}
	return nil
}

// docstringTokens returns the number of tokens of a docstring at the start, including the end of its statement, or 0 if
// there is no docstring. Brackets around the docstring do not matter.
func docstringTokens(tokens []Token) int {
	open := 0
	for tokens[open].is("(") {
		open++
	}
	n := open
	for tokens[n].Kind == String && !literal(tokens[n].Text).bytes {
		n++
	}
	if n == open {
		return 0
	}
	for ; open > 0; open-- {
		if !tokens[n].is(")") {
			return 0
		}
		n++
	}
	semicolon := tokens[n].is(";")
	if semicolon {
		n++
	}
	switch {
	case tokens[n].Kind == Newline:
		return n + 1
	case semicolon:
		return n
	}
	return 0
}

// token adds the units of tokens[i], which is not layout.
func (r *reducer) token(tokens []Token, i int) error {
	t := &tokens[i]
	switch t.Kind {
	case End:
		r.add(layoutUnit, "end", t.Line)
	case Number:
		r.add(numberUnit, strings.ToLower(strings.ReplaceAll(t.Text, "_", "")), t.Line)
	case String:
		run := r.string(tokens, i)
		s := literal(t.Text)
		text, err := s.decode()
		if err != nil {
			return &SyntaxError{Line: t.Line, Msg: err.Error()}
		}
		if s.unicode {
			r.text.WriteString(markUnicode)
		}
		r.text.WriteString(text)
		run.bytes = run.bytes || s.bytes
		run.str = run.str || !s.bytes
		r.stringEnd(tokens, i)
	case FStringStart:
		run := r.string(tokens, i)
		run.str, run.format = true, true
		run.raw = strings.ContainsAny(t.Text, "rR")
	case FStringMiddle:
		text, err := decodeMiddle(t.Text, r.runs[len(r.runs)-1].raw)
		if err != nil {
			return &SyntaxError{Line: t.Line, Msg: err.Error()}
		}
		r.text.WriteString(text)
	case FStringEnd:
		r.stringEnd(tokens, i)
	case Op:
		r.add(tokenUnit, t.Text, t.Line)
		switch t.Text {
		case "(", "[", "{":
			r.open = append(r.open, t.End)
		case ")", "]", "}":
			r.open = r.open[:len(r.open)-1]
		case "=":
			// If "=" comes before the end of an f-string's field, the string also contains the source of the field.
			if next := &tokens[i+1]; len(r.open) > 0 && (next.is("}") || next.is("!") || next.is(":")) {
				r.add(rawUnit, r.src[r.open[len(r.open)-1]:next.Pos], t.Line)
			}
		}
	default:
		r.add(tokenUnit, t.Text, t.Line)
	}
	return nil
}

// add appends a unit, after any text before it.
func (r *reducer) add(kind unitKind, text string, line int) {
	if r.text.Len() > 0 {
		r.units = append(r.units, unit{textUnit, r.text.String(), line})
		r.text.Reset()
	}
	r.units = append(r.units, unit{kind, text, line})
}

// string returns the run of the literal that starts at tokens[i]: the run of the literal before it, or a new run.
func (r *reducer) string(tokens []Token, i int) *run {
	if i == 0 || tokens[i-1].Kind != String && tokens[i-1].Kind != FStringEnd {
		r.add(openUnit, "", tokens[i].Line)
		r.runs = append(r.runs, run{})
	}
	return &r.runs[len(r.runs)-1]
}

// stringEnd closes the run that ends in tokens[i], unless another literal follows.
func (r *reducer) stringEnd(tokens []Token, i int) {
	if k := tokens[i+1].Kind; k == String || k == FStringStart {
		return
	}
	top := len(r.runs) - 1
	run := r.runs[top]
	r.add(closeUnit, fmt.Sprint(run.bytes, run.str, run.format), tokens[i].Line)
	r.runs = r.runs[:top]
}
