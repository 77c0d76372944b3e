// Package hostile provides strings that try to hijack a terminal. Tests put them wherever a command reads names, data
// or answers, and search the command's output for them.
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
	"marks":            "a\u200eb\u200fc\u061cd",
	"separators":       "a\u2028b\u2029c",
	"invisible":        "a\u00adb\u200bc\u2060d\ufeffe\u3164f",
	"tags":             "a\U000e0041\U000e007fb",
	"bell":             "a\a",
}

// own are the control sequences with which the commands themselves draw on a terminal.
var own = regexp.MustCompile(`\x1b\[(J|K|[0-9]+[AG]|\?7[hl]|\?2004[hl]|32m|0m)`)

// unseen are characters that a reader does not see, or that change where others are shown.
const unseen = "\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e" +
	"\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u206a\u206b\u206c\u206d\u206e\u206f\u3164\ufeff" +
	"\uffa0\ufff9\ufffa\ufffb"

// Found returns the first text in a command's output that a terminal would obey, or "". If drawn is true, the output
// went to a terminal, and the command's own control sequences are allowed.
func Found(output string, drawn bool) string {
	if drawn {
		output = own.ReplaceAllString(output, "")
	}
	for i, r := range output {
		switch {
		case r == '\n' || r == '\t' || drawn && r == '\r':
		case unicode.IsControl(r), strings.ContainsRune(unseen, r), 0xe0000 <= r && r <= 0xe007f,
			r == unicode.ReplacementChar && !strings.HasPrefix(output[i:], "\ufffd"): // a byte that is not UTF-8
			return fmt.Sprintf("%q in %q", r, output[max(0, i-40):min(len(output), i+40)])
		}
	}
	return ""
}
