package teacher

import (
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/internal/python"
	"restyle/voice"
)

// factsOf returns the facts about a prompt's question and code. It reads tokens, not a parse tree, and reports a
// feature only if the tokens prove it.
func factsOf(p *Prompt) voice.Facts {
	ask, _ := voice.Ask(p.Row.Instruction)
	f := voice.Facts{
		Ask:        ask,
		Keyword:    voice.Keyword(p.Row.Instruction),
		IsQuestion: strings.Contains(p.Row.Instruction, "?"),
		HasInput:   !dataset.NoInput(p.Row.Input),
	}
	if p.Parts.restated {
		f.Answer = strings.TrimSpace(p.Parts.Text)
		return f
	}
	readQuestion(&f, p.Row.Instruction, p.Row.Input, p.Parts.Blocks)
	for i, block := range p.Parts.Blocks {
		f.Placeholders = append(f.Placeholders, placeholder(i+1))
		if p.Parts.tag(i) == Python {
			readCode(&f, block)
		}
	}
	return f
}

// keywordFeatures has the features that a keyword at the beginning of a statement proves.
var keywordFeatures = map[string]voice.Feature{
	"for": voice.Loop, "while": voice.Loop | voice.While, "if": voice.Conditional, "try": voice.Try,
	"raise": voice.Raise, "return": voice.Return, "import": voice.Import, "from": voice.Import, "with": voice.With,
}

// callFeatures has the features that a call proves. The names of methods have a dot before them.
var callFeatures = map[string]voice.Feature{
	"print": voice.Print, "range": voice.Range, "sorted": voice.Sort, ".sort": voice.Sort, "open": voice.File,
	"list": voice.List, "dict": voice.Dict, "set": voice.Set, ".format": voice.Format,
}

// readCode adds what a block of code contains to f. Code that is not Python adds nothing.
func readCode(f *voice.Facts, src string) {
	all, err := python.Tokenize(src)
	if err != nil {
		return
	}
	r := codeReader{f: f, own: map[string]bool{}, beginning: true, parameters: -1}
	lines := map[int]bool{}
	for _, t := range all {
		switch t.Kind {
		case python.Comment:
			f.Has |= voice.Comment
		case python.NL:
		default:
			r.tokens = append(r.tokens, t)
			for n, line := range strings.Split(t.Text, "\n") { // a string may have several
				if strings.TrimSpace(line) != "" {
					lines[t.Line+n] = true
				}
			}
		}
	}
	f.Lines += len(lines)
	for i, t := range r.tokens {
		if t.Text == "def" { // the last token is another one
			r.own[r.tokens[i+1].Text] = true
		}
	}
	for i := range r.tokens {
		r.read(i)
	}
	readDeeds(f, src, r.tokens)
}

// A codeReader reads the tokens of a block of code once and adds what they prove to f.
type codeReader struct {
	f      *voice.Facts
	tokens []python.Token
	own    map[string]bool // functions that the code defines: their calls are not listed

	open       []block  // indented blocks around the token
	next       block    // the block that the current statement opens
	brackets   []string // open brackets
	beginning  bool     // the token starts a statement
	parameters int      // open brackets around a parameter list; -1 outside of one
}

// A block is an indented block.
type block struct {
	loop, class bool
	function    string
	name        string // of the class
}

// at returns the ith token, or the zero token if there is none.
func (r *codeReader) at(i int) python.Token {
	if i < 0 || i >= len(r.tokens) {
		return python.Token{}
	}
	return r.tokens[i]
}

// add appends a name to a list that does not contain it.
func add(list *[]string, name string) {
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// within reports whether the token is in a block for which is returns true.
func (r *codeReader) within(is func(block) bool) bool { return slices.ContainsFunc(r.open, is) }

// read reads the ith token.
func (r *codeReader) read(i int) {
	f, t := r.f, r.at(i)
	switch t.Kind {
	case python.Indent:
		r.open = append(r.open, r.next)
		r.next, r.beginning = block{}, true
		return
	case python.Dedent:
		r.open = r.open[:len(r.open)-1]
		r.beginning = true
		return
	case python.Newline:
		if r.at(i+1).Kind != python.Indent {
			r.next = block{}
		}
		r.beginning = true
		return
	case python.FStringStart:
		f.Has |= voice.Format | voice.String
	case python.String:
		if r.at(i+1).Kind == python.Newline && (i == 0 || r.at(i-1).Kind == python.Indent) {
			f.Has |= voice.Docstring
		} else {
			f.Has |= voice.String
		}
	case python.Op:
		r.operator(i)
	case python.Name:
		r.name(i)
	}
	// A statement also starts after the ":" of a one-line block, but no feature depends on that.
	r.beginning = t.Text == ";" || t.Text == "async" && r.beginning
}

// operator reads an operator.
func (r *codeReader) operator(i int) {
	f := r.f
	t := r.at(i)
	previous := r.at(i - 1)
	depth := len(r.brackets)
	switch t.Text {
	case "(", "[", "{":
		if t.Text == "[" && !operand(previous) {
			f.Has |= voice.List
		}
		if t.Text == "{" && r.at(i+1).Text == "}" && !insideFString(r.tokens, i) {
			f.Has |= voice.Dict
		}
		r.brackets = append(r.brackets, t.Text)
	case ")", "]", "}":
		r.brackets = r.brackets[:depth-1]
		if len(r.brackets) == r.parameters {
			r.parameters = -1
		}
	case ":":
		switch {
		case depth == 0:
		case r.brackets[depth-1] == "[" && !inLambda(r.tokens, i):
			f.Has |= voice.Slice
		case r.brackets[depth-1] == "{" && !insideFString(r.tokens, i):
			f.Has |= voice.Dict
		}
	case "=":
		if depth == 0 && previous.Kind == python.Name && r.at(i-2).Text != "." && !python.IsKeyword(previous.Text) {
			add(&f.Names, previous.Text)
		}
	case "-", "/", "//", "**", "-=", "/=", "//=", "**=": // strings also have the other operators
		if operand(previous) { // not a sign, nor the stars of **kwargs
			f.Has |= voice.Arithmetic
		}
	case "@":
		if r.beginning {
			f.Has |= voice.Decorator
		}
	}
}

// name reads a name or a keyword.
func (r *codeReader) name(i int) {
	f := r.f
	t := r.at(i)
	previous := r.at(i - 1)
	depth := len(r.brackets)
	switch {
	case r.beginning && keywordFeatures[t.Text] != 0:
		f.Has |= keywordFeatures[t.Text]
		if t.Text == "for" || t.Text == "while" {
			r.next.loop = true
			if r.within(func(b block) bool { return b.loop }) {
				f.Has |= voice.Nested
			}
		}
		if (t.Text == "import" || t.Text == "from") && r.at(i+1).Kind == python.Name {
			add(&f.Imports, r.at(i+1).Text)
		}
	case t.Text == "elif" && r.beginning, t.Text == "if" && depth == 0:
		f.Has |= voice.Conditional
	case t.Text == "for" && depth > 0 && r.brackets[depth-1] != "(": // in parentheses it is a generator expression
		f.Has |= voice.Comprehension
	case t.Text == "lambda":
		f.Has |= voice.Lambda
	case t.Text == "yield":
		f.Has |= voice.Generator
	case t.Text == "class" && r.beginning:
		f.Has |= voice.Class
		r.next.class = true
		add(&f.Classes, r.at(i+1).Text)
	case t.Text == "def":
		r.define(i)
	case previous.Text == "def" || previous.Text == "class":
	case r.parameters >= 0 && depth == r.parameters+1 && (previous.Text == "(" || previous.Text == ","):
		if t.Text != "self" && t.Text != "cls" {
			add(&f.Names, t.Text)
		}
	case r.at(i+1).Text == "(" && !python.IsKeyword(t.Text):
		r.call(t.Text, previous.Text == ".")
	}
}

// define reads a def.
func (r *codeReader) define(i int) {
	if n := len(r.open); n == 0 || !r.open[n-1].class {
		r.f.Has |= voice.Function
	} else if r.at(i+2).Text == "(" && r.at(i+3).Text == "self" {
		r.f.Has |= voice.Method
	}
	r.next.function = r.at(i + 1).Text
	add(&r.f.Functions, r.next.function)
	r.f.Definitions++
	if r.at(i-3).Text == "@" && r.at(i-2).Text == "property" {
		add(&r.f.Properties, r.next.function)
	}
	r.parameters = len(r.brackets)
}

// call reads the call of a function or a method.
func (r *codeReader) call(name string, method bool) {
	if method {
		r.f.Has |= callFeatures["."+name]
	} else {
		r.f.Has |= callFeatures[name]
		if r.within(func(b block) bool { return b.function == name }) {
			r.f.Has |= voice.Recursion
		}
	}
	if !r.own[name] && (method || python.IsBuiltin(name)) {
		add(&r.f.Calls, name)
	}
}

// operand reports whether a token can end an operand, so that an operator after it is binary.
func operand(t python.Token) bool {
	switch t.Kind {
	case python.Number, python.String, python.FStringEnd:
		return true
	case python.Name:
		return !python.IsKeyword(t.Text) || t.Text == "True" || t.Text == "False" || t.Text == "None"
	}
	return t.Text == ")" || t.Text == "]" || t.Text == "}"
}

// insideFString reports whether the ith token is in a replacement field, whose braces and colons are formatting.
func insideFString(tokens []python.Token, i int) bool {
	depth := 0
	for ; i >= 0; i-- {
		switch tokens[i].Kind {
		case python.FStringEnd:
			depth++
		case python.FStringStart:
			if depth == 0 {
				return true
			}
			depth--
		case python.Newline:
			return false
		}
	}
	return false
}

// inLambda reports whether the ith token, a colon, belongs to a lambda in the same brackets.
func inLambda(tokens []python.Token, i int) bool {
	for i--; i >= 0; i-- {
		switch t := tokens[i]; {
		case t.Text == "lambda":
			return true
		case t.Kind == python.Newline || t.Text == "[" || t.Text == ":":
			return false
		}
	}
	return false
}

// A codeLine is a line of code that ends a statement, after which a remark can follow.
type codeLine struct {
	number int // from 1
	text   string
}

// remarkLines returns the lines of src to which a remark can be added.
func remarkLines(src string) []codeLine {
	tokens, err := python.Tokenize(src)
	if err != nil {
		return nil
	}
	text := strings.Split(src, "\n")
	commented := map[int]bool{}
	var lines []codeLine
	for _, t := range tokens {
		switch {
		case t.Kind == python.Comment:
			commented[t.Line] = true
		case t.Kind == python.Newline && !commented[t.Line]:
			lines = append(lines, codeLine{t.Line, strings.TrimSpace(text[t.Line-1])})
		}
	}
	return lines
}
