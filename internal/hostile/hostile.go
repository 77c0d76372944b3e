// Package hostile has texts that try to take over a terminal. Tests put them wherever a command reads names, data or
// answers, and search the command's output for them.
package hostile

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Texts are the attacks by name. None contains a slash or a NUL, so each can be a file name. Some are not UTF-8.
var Texts = map[string]string{
	"color":            "\x1b[31mred\x1b[0m",
	"window title":     "\x1b]0;owned\x07",
	"clipboard":        "\x1b]52;c;b3duZWQ=\x1b\\",
	"clear screen":     "\x1b[2J\x1b[H",
	"erase line":       "good\x1b[2K\rbad",
	"back":             "good\rbad",
	"backspace":        "good\b\b\b\bbad",
	"device status":    "\x1b[6n\x1b[c",
	"alternate screen": "\x1b[?1049h",
	"C1 in UTF-8":      "a\u009b2J\u009d0;owned\u009c",
	"C1 as bytes":      "a\x9b2J",
	"DEL":              "a\x7fb",
	"override":         "txt.\u202eexe\u202c",
	"isolate":          "a\u2066b\u2069c",
	"bell":             "a\a",
}

// own are the control sequences with which the commands themselves draw on a terminal.
var own = regexp.MustCompile(`\x1b\[(J|K|[0-9]+[AG]|\?7[hl]|\?2004[hl]|32m|0m)`)

// Found returns the first text in a command's output that a terminal would obey, or "". If drawn is true, the output
// went to a terminal, and the command's own control sequences are allowed.
func Found(output string, drawn bool) string {
	if drawn {
		output = own.ReplaceAllString(output, "")
	}
	for i, r := range output {
		switch {
		case r == '\n' || r == '\t' || drawn && r == '\r':
		case unicode.IsControl(r), 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069,
			r == unicode.ReplacementChar && !strings.HasPrefix(output[i:], "\ufffd"): // a byte that is not UTF-8
			return fmt.Sprintf("%q in %q", r, output[max(0, i-40):min(len(output), i+40)])
		}
	}
	return ""
}
