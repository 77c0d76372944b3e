package dataset

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// inlineInput is the longest input, in characters, that Question puts on the
// instruction's own line; longer ones get a paragraph, as a person would paste them.
const inlineInput = 120

// containedInput is the shortest input, in characters, whose appearance in the
// middle of the instruction counts as having been asked already. A shorter one
// ("5") may stand there by chance and mean something else.
const containedInput = 12

// noInput lists what data sets write in the input column where there is none.
// Compared in lower case without the marks < > ( ) * . around it.
var noInput = map[string]bool{
	"": true, "n/a": true, "na": true, "n.a": true, "none": true, "null": true,
	"not applicable": true, "not required": true, "not needed": true,
	"noinput": true, "no input": true, "no inputs": true, "no input required": true, "no input needed": true,
	"no input necessary": true, "no input provided": true, "no additional input": true, "no specific input": true,
}

// Question joins an instruction and its input into what a person would have
// typed. gen, train and chat all use it, so that a model is asked in the form it
// was trained on.
//
//   - Space around both is dropped, except the indent of the input's first line;
//     line ends become "\n".
//   - An input that says that there is none ("", "N/A", "None", "<noinput>",
//     "Not applicable", …) leaves the instruction alone.
//   - An input that the instruction already ends with, or one of at least 12
//     characters that it contains as whole words, is not repeated.
//   - A one-line input of up to 120 characters follows on the same line: a final
//     full stop becomes a colon ("Sort the list." and "[3, 1]" give
//     "Sort the list: [3, 1]"), a colon, comma, question or exclamation mark is
//     kept, and where there is no punctuation a colon is added.
//   - Any other input follows after an empty line, unchanged.
//
// The input's text always stands in the result. Without an instruction the
// input is the question. With one, Question(Question(a, b), b) is Question(a, b).
func Question(instruction, input string) string {
	instruction = strings.TrimSpace(plainLines(instruction))
	input = trimInput(plainLines(input))
	switch {
	case NoInput(input) || holds(instruction, input):
		return instruction
	case instruction == "":
		return input
	case strings.Contains(input, "\n") || strings.Contains(instruction, "\n") || utf8.RuneCountInString(input) > inlineInput:
		return instruction + "\n\n" + input
	}
	input = strings.TrimSpace(input)
	switch last, _ := utf8.DecodeLastRuneInString(instruction); {
	case strings.HasSuffix(instruction, "..") || strings.ContainsRune("?!:,;=…", last):
		return instruction + " " + input
	case last == '.':
		return instruction[:len(instruction)-1] + ": " + input
	}
	return instruction + ": " + input
}

// plainLines turns the line ends of other systems into "\n".
func plainLines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// trimInput drops blank lines at the start and space at the end, but not the
// first line's indent: in a piece of code it matters.
func trimInput(s string) string {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	for {
		line, rest, more := strings.Cut(s, "\n")
		if !more || strings.TrimSpace(line) != "" {
			return s
		}
		s = rest
	}
}

// NoInput tells whether an input column says that there is none, in one of the ways in which sets say that.
func NoInput(input string) bool {
	s := strings.ToLower(strings.Trim(strings.TrimSpace(input), "<>()*. "))
	// "()" and "." are inputs, although nothing is left of them here.
	return noInput[s] && (s != "" || strings.TrimSpace(input) == "")
}

// holds reports whether the instruction already says the input.
func holds(instruction, input string) bool {
	bare := strings.TrimSpace(input)
	end := strings.TrimRight(instruction, ".?! ")
	for _, s := range []string{instruction, end} {
		if before, ok := strings.CutSuffix(s, bare); ok && boundary(before, true) {
			return true
		}
	}
	if utf8.RuneCountInString(bare) < containedInput {
		return false
	}
	for from := 0; ; {
		i := strings.Index(instruction[from:], bare)
		if i < 0 {
			return false
		}
		i += from
		if boundary(instruction[:i], true) && boundary(instruction[i+len(bare):], false) {
			return true
		}
		from = i + 1
	}
}

// boundary reports whether the text ends (or begins) without a letter or digit
// that would make the neighbouring match part of a longer word.
func boundary(text string, end bool) bool {
	r, n := utf8.DecodeRuneInString(text)
	if end {
		r, n = utf8.DecodeLastRuneInString(text)
	}
	return n == 0 || !(unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}
