package dataset

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// inlineInput is the longest input, in characters, that Question puts on the instruction's line. A longer one gets a
// paragraph, as if a person had pasted it.
const inlineInput = 120

// containedInput is the shortest input, in characters, that Question omits if it occurs in the middle of the
// instruction. A shorter one ("5") may occur there by chance and mean something else.
const containedInput = 12

// noInput is what Alpaca's datasets write in the input column if there is no input, in any case of letters. Every other
// word is text: "Na" is a chemical element, "None" and "null" are values.
const noInput = "<noinput>"

// abbreviations are words whose full stop does not end a sentence, besides those with one inside, such as "U.S.".
var abbreviations = []string{"etc", "vs", "cf", "al", "approx", "co", "inc", "ltd", "corp", "dept", "mr", "mrs", "dr",
	"prof", "jr", "sr", "st"}

// Question joins an instruction and its input into what a person would have typed. gen, train and chat all use it, so
// that a model is asked in the form it was trained on.
//
//   - It drops the space around both, except the indent of the input's first line. Line ends become "\n".
//   - If there is no input ("" or "<noinput>"), the result is the instruction.
//   - It does not repeat an input that the instruction ends with, or one of at least 12 characters that the instruction
//     contains as whole words.
//   - A one-line input of up to 120 characters follows a one-line instruction on the same line, if both are ASCII. A
//     final full stop becomes a colon ("Sort the list." and "[3, 1]" give "Sort the list: [3, 1]"). A colon, comma,
//     semicolon, equals sign, ellipsis, question or exclamation mark stays. After any other character comes a colon.
//   - If one of them is not ASCII, its language may have other rules, so that a line break follows the instruction
//     instead. The same holds for an instruction that ends with an abbreviation, such as "the U.S.".
//   - Any other input follows after an empty line, unchanged.
//
// The result always contains the input's text. Without an instruction the result is the input. With an instruction,
// Question(Question(a, b), b) is Question(a, b).
func Question(instruction, input string) string {
	instruction = strings.TrimSpace(plainLines(instruction))
	input = trimInput(plainLines(input))
	switch {
	case NoInput(input) || holds(instruction, input):
		return instruction
	case instruction == "":
		return input
	case strings.Contains(input, "\n") || strings.Contains(instruction, "\n") ||
		utf8.RuneCountInString(input) > inlineInput:
		return instruction + "\n\n" + input
	}
	input = strings.TrimSpace(input)
	if !isASCII(instruction) || !isASCII(input) || abbreviated(instruction) {
		return instruction + "\n" + input
	}
	switch last := instruction[len(instruction)-1]; {
	case strings.HasSuffix(instruction, "..") || strings.IndexByte("?!:,;=", last) >= 0:
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

// trimInput drops blank lines at the start and space at the end, but not the first line's indent, which matters in
// code.
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

// isASCII reports whether a text has only ASCII characters.
func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// abbreviated reports whether a text ends with the full stop of an abbreviation: a word of several short parts, each
// with a full stop, or a known one.
func abbreviated(s string) bool {
	s, stop := strings.CutSuffix(s, ".")
	word := strings.ToLower(s[strings.LastIndexFunc(s, func(r rune) bool { return r != '.' && !unicode.IsLetter(r) })+1:])
	if !stop || word == "" {
		return false
	}
	parts := strings.Split(word, ".")
	long := slices.ContainsFunc(parts, func(part string) bool { return part == "" || len(part) > 2 })
	return len(parts) > 1 && !long || slices.Contains(abbreviations, word)
}

// NoInput reports whether an input says that there is none: "" or "<noinput>".
func NoInput(input string) bool {
	input = strings.TrimSpace(input)
	return input == "" || strings.EqualFold(input, noInput)
}

// holds reports whether the instruction already contains the input.
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

// boundary reports whether text ends (or begins, if end is false) with no letter, digit or underscore: one would make
// the match next to it part of a longer word.
func boundary(text string, end bool) bool {
	r, n := utf8.DecodeRuneInString(text)
	if end {
		r, n = utf8.DecodeLastRuneInString(text)
	}
	return n == 0 || !(unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}
