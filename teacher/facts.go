package teacher

import (
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/internal/python"
	"restyle/voice"
)

// factsOf reads off a prompt what may be said about it. It goes by tokens, not by a parse tree, and claims a feature
// only where the tokens leave no doubt.
func factsOf(p *Prompt) voice.Facts {
	ask, _ := voice.Ask(p.Row.Instruction)
	f := voice.Facts{
		Ask:        ask,
		Keyword:    voice.Keyword(p.Row.Instruction),
		IsQuestion: strings.Contains(p.Row.Instruction, "?"),
		HasInput:   !dataset.NoInput(p.Row.Input),
	}
	for i, block := range p.Parts.Blocks {
		f.Placeholders = append(f.Placeholders, placeholder(i+1))
		readCode(&f, block)
	}
	return f
}

// keywordFeatures are the features that one keyword at the beginning of a statement proves.
var keywordFeatures = map[string]voice.Feature{
	"for": voice.Loop, "while": voice.Loop | voice.While, "if": voice.Conditional, "try": voice.Try,
	"raise": voice.Raise, "return": voice.Return, "import": voice.Import, "from": voice.Import, "with": voice.With,
}

// callFeatures are the features that a call proves; methods have a dot before their name.
var callFeatures = map[string]voice.Feature{
	"print": voice.Print, "range": voice.Range, "sorted": voice.Sort, ".sort": voice.Sort, "open": voice.File,
	"list": voice.List, "dict": voice.Dict, "set": voice.Set, ".format": voice.Format,
}

// block is an open indented block while code is read.
type block struct {
	loop, class bool
	function    string
}

// readCode adds what a block of code contains. Code that is not Python adds nothing.
func readCode(f *voice.Facts, src string) {
	all, err := python.Tokenize(src)
	if err != nil {
		return
	}
	tokens := all[:0:0]
	lines := map[int]bool{}
	for _, t := range all {
		switch t.Kind {
		case python.Comment:
			f.Has |= voice.Comment
		case python.NL:
		default:
			tokens = append(tokens, t)
			if strings.TrimSpace(t.Text) != "" {
				lines[t.Line] = true
			}
		}
	}
	f.Lines += len(lines)
	own := map[string]bool{} // functions that the code defines are no calls worth naming
	for i, t := range tokens {
		if t.Text == "def" && i+1 < len(tokens) {
			own[tokens[i+1].Text] = true
		}
	}

	at := func(i int) python.Token {
		if i < 0 || i >= len(tokens) {
			return python.Token{}
		}
		return tokens[i]
	}
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	var open []block      // indented blocks around the token
	var next block        // what the block that the current statement opens will be
	var brackets []string // open brackets
	beginning := true     // of a statement
	var defined []string  // functions that the token is inside of, "" for other blocks
	inParameters := -1    // the bracket depth of a parameter list, -1 outside
	for i, t := range tokens {
		depth := len(brackets)
		previous := at(i - 1)
		switch t.Kind {
		case python.Indent:
			open = append(open, next)
			defined = append(defined, next.function)
			next, beginning = block{}, true
			continue
		case python.Dedent:
			if len(open) > 0 {
				open, defined = open[:len(open)-1], defined[:len(defined)-1]
			}
			beginning = true
			continue
		case python.Newline:
			if !(at(i+1).Kind == python.Indent) {
				next = block{}
			}
			beginning = true
			continue
		case python.FStringStart:
			f.Has |= voice.Format | voice.String
		case python.String:
			if beginning && (at(i+1).Kind == python.Newline) && (i == 0 || previous.Kind == python.Indent) {
				f.Has |= voice.Docstring
			} else {
				f.Has |= voice.String
			}
		case python.Op:
			switch t.Text {
			case "(", "[", "{":
				if t.Text == "[" && !operand(previous) {
					f.Has |= voice.List
				}
				brackets = append(brackets, t.Text)
			case ")", "]", "}":
				if depth > 0 {
					brackets = brackets[:depth-1]
				}
				if len(brackets) == inParameters {
					inParameters = -1
				}
			case ":":
				if depth > 0 && brackets[depth-1] == "{" && !insideFString(tokens, i) {
					f.Has |= voice.Dict
				}
			case "=":
				if depth == 0 && previous.Kind == python.Name && (i < 2 || at(i-2).Text != ".") && !python.IsKeyword(previous.Text) {
					add(&f.Names, previous.Text)
				}
			case "-", "/", "//", "**", "-=", "/=", "//=", "**=": // the others are also for strings
				if operand(previous) { // not a sign, nor the stars of **kwargs
					f.Has |= voice.Arithmetic
				}
			case "@":
				if beginning {
					f.Has |= voice.Decorator
				}
			}
		case python.Name:
			switch {
			case beginning && keywordFeatures[t.Text] != 0:
				f.Has |= keywordFeatures[t.Text]
				if t.Text == "for" || t.Text == "while" {
					next.loop = true
					if slices.ContainsFunc(open, func(b block) bool { return b.loop }) {
						f.Has |= voice.Nested
					}
				}
				if t.Text == "import" || t.Text == "from" {
					if at(i+1).Kind == python.Name {
						add(&f.Imports, at(i+1).Text)
					}
				}
			case t.Text == "elif" && beginning:
				f.Has |= voice.Conditional
			case t.Text == "if" && depth == 0:
				f.Has |= voice.Conditional
			case t.Text == "for" && depth > 0:
				f.Has |= voice.Comprehension
			case t.Text == "lambda":
				f.Has |= voice.Lambda
			case t.Text == "yield":
				f.Has |= voice.Generator
			case t.Text == "class" && beginning:
				f.Has |= voice.Class
				next.class = true
				add(&f.Classes, at(i+1).Text)
			case t.Text == "def":
				name := at(i + 1).Text
				if len(open) > 0 && open[len(open)-1].class {
					if at(i+2).Text == "(" && at(i+3).Text == "self" {
						f.Has |= voice.Method
					}
				} else {
					f.Has |= voice.Function
				}
				next.function = name
				add(&f.Functions, name)
				inParameters = depth
			case previous.Text == "def" || previous.Text == "class":
			case inParameters >= 0 && depth == inParameters+1 && (previous.Text == "(" || previous.Text == ","):
				if t.Text != "self" && t.Text != "cls" {
					add(&f.Names, t.Text)
				}
			case at(i+1).Text == "(" && !python.IsKeyword(t.Text):
				name := t.Text
				if previous.Text == "." {
					f.Has |= callFeatures["."+name]
				} else {
					f.Has |= callFeatures[name]
					if slices.Contains(defined, name) {
						f.Has |= voice.Recursion
					}
				}
				if !own[name] && (previous.Text == "." || python.IsBuiltin(name)) {
					add(&f.Calls, name)
				}
			}
		}
		if t.Text == ":" && depth > 0 && brackets[depth-1] == "[" && !inLambda(tokens, i) {
			f.Has |= voice.Slice
		}
		if t.Kind == python.Op && t.Text == "{" && !insideFString(tokens, i+1) && at(i+1).Text == "}" {
			f.Has |= voice.Dict
		}
		// After "async" and a one-line block's ":" a statement begins too; nothing said here depends on those.
		beginning = t.Kind == python.Op && t.Text == ";" || t.Kind == python.Name && t.Text == "async" && beginning
	}
}

// operand tells whether a token can end an operand, so that an operator after it has two sides.
func operand(t python.Token) bool {
	switch t.Kind {
	case python.Number, python.String, python.FStringEnd:
		return true
	case python.Name:
		return !python.IsKeyword(t.Text) || t.Text == "True" || t.Text == "False" || t.Text == "None"
	}
	return t.Text == ")" || t.Text == "]" || t.Text == "}"
}

// insideFString tells whether a token stands in a replacement field, whose braces and colons mean formatting.
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

// inLambda tells whether a colon belongs to a lambda in the same brackets.
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

// A codeLine is a line of code that ends a statement: a remark can stand at its end.
type codeLine struct {
	number int // from 1
	text   string
}

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
