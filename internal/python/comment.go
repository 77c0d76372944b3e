package python

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// codingLine matches what Python takes for a declaration of the source's encoding, in a comment on its first two lines.
var codingLine = regexp.MustCompile(`coding[:=][ \t]*[-_.a-zA-Z0-9]`)

// AddComments appends each remark to its line of src (from 1, lines ending as for [Tokenize]) as a comment, " #
// remark", and returns the result, which is [Equal] to src. It keeps line ends, and removes white space at the end of
// the lines that get a remark. It returns an error that names the line if there is no such line, if the line ends
// inside a string or in a backslash, if it is the "#!" line, or if the remark is empty, is not one line of printable
// text, or would declare an encoding.
func AddComments(src string, remarks map[int]string) (string, error) {
	tokens, err := Tokenize(src)
	if err != nil {
		return "", fmt.Errorf("adding comments: %w", err)
	}
	lines := splitLines(src)
	closed := openLines(tokens)
	var numbers []int
	for n := range remarks {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if n < 1 || n > len(lines) {
			return "", fmt.Errorf("adding comments: line %d: the source has %d lines", n, len(lines))
		}
		if closed[n] {
			return "", fmt.Errorf("adding comments: line %d ends inside a string", n)
		}
		line, err := addComment(lines[n-1], strings.Trim(remarks[n], "# \t"), n)
		if err != nil {
			return "", fmt.Errorf("adding comments: line %d: %w", n, err)
		}
		lines[n-1] = line
	}
	result := strings.Join(lines, "")
	if same, where := Equal(src, result); !same {
		return "", fmt.Errorf("adding comments changed the program: %s", where)
	}
	return result, nil
}

func addComment(line, remark string, n int) (string, error) {
	if remark == "" {
		return "", errors.New("the remark is empty")
	}
	if !utf8.ValidString(remark) || strings.ContainsFunc(remark, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("%q is not one line of printable text", remark)
	}
	if n <= 2 && codingLine.MatchString(remark) {
		return "", fmt.Errorf("%q would declare the encoding of the source", remark)
	}
	code := strings.TrimRight(line, "\r\n")
	end := line[len(code):]
	if strings.HasSuffix(code, `\`) {
		return "", errors.New("it ends in a backslash")
	}
	if n == 1 && strings.HasPrefix(code, "#!") {
		return "", errors.New("it names the interpreter")
	}
	code = strings.TrimRight(code, " \t\f")
	if code != "" {
		code += "  "
	}
	return code + "# " + remark + end, nil
}

// splitLines splits src after each line end.
func splitLines(src string) []string {
	var lines []string
	start := 0
	for i := 0; i < len(src); {
		n := lineEnd(src, i)
		if n == 0 {
			i++
			continue
		}
		i += n
		lines = append(lines, src[start:i])
		start = i
	}
	if start < len(src) {
		lines = append(lines, src[start:])
	}
	return lines
}

// openLines returns the lines that end inside a string.
func openLines(tokens []Token) map[int]bool {
	open := make(map[int]bool)
	var starts []int // lines of the f-strings around the token
	for _, t := range tokens {
		from, to := 0, 0
		switch t.Kind {
		case String:
			from, to = t.Line, t.Line+countLines(t.Text)
		case FStringStart:
			starts = append(starts, t.Line)
		case FStringEnd:
			top := len(starts) - 1
			if top == 0 { // the outermost f-string covers those inside it
				from, to = starts[0], t.Line
			}
			starts = starts[:top]
		}
		for n := from; n < to; n++ {
			open[n] = true
		}
	}
	return open
}
