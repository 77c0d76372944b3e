package teacher

import (
	"fmt"
	"regexp"
	"strings"

	"restyle/internal/python"
)

// The languages that a Run's code may be in, besides the tag of any other language, such as "sql".
const (
	// Python is the default: answers and blocks without a tag are Python.
	Python = "python"

	// AnyLanguage takes every fenced block in the language of its tag. What has no tag has to be Python.
	AnyLanguage = "any"
)

// tagNames are other tags of a language.
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
	if len(pieces) == 1 && !pieces[0].code || language == AnyLanguage && python.Check(answer) == nil {
		tag := language
		if language == AnyLanguage {
			tag = Python
		}
		return Parts{Blocks: []string{strings.Trim(answer, "\r\n")}, Text: placeholder(1), Tags: []string{tag},
			whole: true}
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

// tag returns the language of the nth block, from 0.
func (p Parts) tag(n int) string {
	if n < len(p.Tags) {
		return p.Tags[n]
	}
	return Python
}

// isPython reports whether all blocks are Python.
func (p Parts) isPython() bool {
	for _, tag := range p.Tags {
		if tag != Python {
			return false
		}
	}
	return true
}

// same reports whether text is the nth block, and if not, how they differ. Python may differ in comments, blank lines,
// docstrings, indentation and quotes; any other language in nothing.
func (p Parts) same(n int, text string) (bool, string) {
	if p.Blocks[n] == text {
		return true, ""
	}
	if p.tag(n) == Python {
		return python.Equal(p.Blocks[n], text)
	}
	return false, fmt.Sprintf("block %d is %s and must stay the same byte for byte", n+1, p.tag(n))
}

// names matches what most languages take for a name.
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
