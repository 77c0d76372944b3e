package teacher

import (
	"fmt"
	"regexp"
	"strings"

	"restyle/internal/python"
)

// The languages that a Run's code may be in. The tag of any other language, such as "sql", may be used as well.
const (
	// Python is the default: answers and blocks without a tag are Python.
	Python = "python"

	// AnyLanguage takes every fenced block in the language of its tag. A block without a tag has to be Python.
	AnyLanguage = "any"

	// NoLanguage takes answers without code: their prose is restated, and its facts are checked. Code that an answer has
	// in fences stays as it is, whatever it is written in.
	NoLanguage = "none"
)

// tagNames has other tags of languages.
var tagNames = map[string]string{"py": Python, "python3": Python, "py3": Python, "js": "javascript", "ts": "typescript",
	"c++": "cpp", "c#": "csharp", "cs": "csharp", "golang": "go", "sh": "bash", "shell": "bash", "rs": "rust",
	"rb": "ruby", "yml": "yaml"}

// LanguageOf returns the language that a fence's tag or a user means: its first word in lower case, by its usual name.
func LanguageOf(tag string) string {
	words := strings.Fields(strings.ToLower(tag))
	if len(words) == 0 {
		return ""
	}
	if name, ok := tagNames[words[0]]; ok {
		return name
	}
	return words[0]
}

// splitIn is split for an answer whose code is in a language: Python, AnyLanguage or another one.
func splitIn(language, answer string) Parts {
	if language == "" || language == Python {
		return split(answer)
	}
	pieces := splitFences(answer)
	if language == NoLanguage {
		return splitProse(answer, pieces)
	}
	if len(pieces) == 1 && !pieces[0].code || language == AnyLanguage && python.Check(answer) == nil {
		tag := language
		if language == AnyLanguage {
			tag = Python
		}
		return wholeBlock(answer, tag)
	}
	p := separate(pieces)
	p.Other = ""
	for _, piece := range pieces {
		if !piece.code {
			continue
		}
		p.open = p.open || !piece.closed
		tag := LanguageOf(piece.tag)
		switch {
		case tag == "" && language == AnyLanguage:
			tag = Python
		case tag == "":
			tag = language
		case language != AnyLanguage && tag != language && p.Other == "":
			p.Other = tag
		}
		p.Tags = append(p.Tags, tag)
	}
	return p
}

// wholeBlock returns an answer that is code as a whole, without a fence.
func wholeBlock(answer, tag string) Parts {
	return Parts{Blocks: []string{strings.Trim(answer, "\r\n")}, Text: placeholder(1), Tags: []string{tag}, whole: true}
}

// splitProse is splitIn for NoLanguage.
func splitProse(answer string, pieces []piece) Parts {
	if isPythonProgram(answer) {
		return wholeBlock(answer, Python)
	}
	p := separate(pieces)
	p.Other = ""
	for _, piece := range pieces {
		if piece.code {
			p.open = !piece.closed // only the last piece can be
			p.Tags = append(p.Tags, LanguageOf(piece.tag))
		}
	}
	p.restated = p.Prose() != ""
	return p
}

func isPythonProgram(text string) bool {
	return python.Check(text) == nil && python.LooksLikePython(text) == nil
}

// HasCode reports whether an answer has code: in a fence, or as the whole of it.
func HasCode(answer string) bool {
	pieces := splitFences(answer)
	return len(pieces) > 1 || pieces[0].code || isPythonProgram(answer) || isProgram(answer)
}

var (
	// programLine matches lines that programs have and prose does not.
	programLine = regexp.MustCompile(`[;{}]$|^[})\]]|^(?:do|done|fi|then|else|esac|end)$|^[\w.]+\(.*\)$|` +
		`^[\w.\[\]]+ ?[-+*/]?= ?\S|=.*[()\[\]{}"']|::|:=|->|=>|^<[a-zA-Z!/].*>$|^(?:#include|import [\w.{*]|` +
		`from \w+ import|def \w+\(|class \w+[(:{]|function\b.*\(|(?:const|let|var) \w+ ?=|return\b.*[;)]$|` +
		`public |private |\$ \w|//|/\*|(?:el)?if \[|echo |for \w+ in .*[;:]|while .*(?:do|:)$)`)

	// program matches the text of a shell script, or of a statement in SQL.
	program = regexp.MustCompile(`(?is)^\s*(?:#!|(?:select|insert|update|delete|create|alter|with)\b.*;\s*$)`)
)

// isProgram reports whether a text is a program or at least half of its lines that are not blank look like one.
func isProgram(text string) bool {
	code, all := 0, 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(inlineCode.ReplaceAllString(line, "`")); line != "" {
			all++
			if programLine.MatchString(line) {
				code++
			}
		}
	}
	return program.MatchString(text) || all > 0 && 2*code >= all
}

// tag returns the language of the nth block, from 0.
func (p Parts) tag(n int) string {
	if n < len(p.Tags) {
		return p.Tags[n]
	}
	return Python
}

// isPython reports whether all blocks of the answer are Python.
func (p Parts) isPython() bool {
	if p.restated {
		return false
	}
	for _, tag := range p.Tags {
		if tag != Python {
			return false
		}
	}
	return true
}

// same reports whether text is the nth block, and if not, how the two differ. Python may differ in comments, blank
// lines, docstrings, indentation and quotes; any other language in nothing.
func (p Parts) same(n int, text string) (bool, string) {
	if p.Blocks[n] == text {
		return true, ""
	}
	if p.tag(n) == Python {
		return python.Equal(p.Blocks[n], text)
	}
	return false, fmt.Sprintf("block %d is %s and must stay the same byte for byte", n+1, p.tag(n))
}

// names matches what most languages accept as a name.
var names = regexp.MustCompile(`[\p{L}_$@#][\p{L}\p{N}_$-]*`)

// codeMarks are characters that a line of code usually has, and a line of prose does not.
const codeMarks = "{}()[];=<>*_/\\|$&"

// looksLikeCode reports whether at least half of the lines that are not blank look like code. It decides for answers
// without a fence in languages for which there is no grammar here.
func looksLikeCode(text string) bool {
	code, all := 0, 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		all++
		if strings.ContainsAny(line, codeMarks) || strings.HasSuffix(line, ",") || len(strings.Fields(line)) <= 3 {
			code++
		}
	}
	return 2*code >= all && strings.ContainsAny(text, codeMarks)
}
