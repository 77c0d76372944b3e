package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/internal/hostile"
)

func TestCleanWriter(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "a b\tc\nd é 漢 🙂 עברית\n", "a b\tc\nd é 漢 🙂 עברית\n"},
		{"joiners and selectors", "👩\u200d🚀 نمی\u200cخواهم ❤\ufe0f 葛\U000e0100 \u0601",
			"👩\u200d🚀 نمی\u200cخواهم ❤\ufe0f 葛\U000e0100 \u0601"},
		{"colors", "\x1b[31mred\x1b[0m", "␛[31mred␛[0m"},
		{"window's title", "\x1b]0;owned\x07", "␛]0;owned␇"},
		{"C1", "a\u009b2Jb", "a\ufffd2Jb"},
		{"C1 as a byte", "a\x9b2Jb", "a\ufffd2Jb"},
		{"back over the line", "good\rbad", "good\nbad"},
		{"backspace and delete", "a\bb\x7f", "a␈b␡"},
		{"direction", "a\u202eb\u2066c\u200ed\u200fe\u061cf", "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf"},
		{"separators", "a\u2028b\u2029c", "a\ufffdb\ufffdc"},
		{"invisible", "a\u00adb\u200bc\u2060d\ufeffe\u180ef\ufff9g", "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf\ufffdg"},
		{"tags", "a\U000e0041\U000e007fb\U000e0001", "a\ufffd\ufffdb\ufffd"},
		{"fillers", "a\u3164b\u115fc\uffa0d\u034fe", "a\ufffdb\ufffdc\ufffdd\ufffde"},
		{"NUL", "a\x00b", "a␀b"},
	} {
		for size := 1; size <= len(c.text); size++ { // for every way of splitting the text
			var out bytes.Buffer
			w := CleanWriter(&out)
			for rest := c.text; rest != ""; {
				n := min(size, len(rest))
				if m, err := io.WriteString(w, rest[:n]); m != n || err != nil {
					t.Fatal(m, err)
				}
				rest = rest[n:]
			}
			if got := out.String(); got != c.want {
				t.Errorf("%s in pieces of %d: %q, not %q", c.name, size, got, c.want)
			}
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestCleanWriterFails(t *testing.T) {
	if n, err := CleanWriter(broken{}).Write([]byte("a")); n != 0 || err == nil {
		t.Errorf("%d %v", n, err)
	}
}

func TestRaw(t *testing.T) {
	var out bytes.Buffer
	if Raw(CleanWriter(CleanWriter(&out))) != io.Writer(&out) || Raw(&out) != io.Writer(&out) {
		t.Error("the writer below is another")
	}
}

func FuzzCleanWriter(f *testing.F) {
	f.Add("a\x1b[31m", 2)
	f.Add("\xe6\xbc\xa2\x9b", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var whole, parts bytes.Buffer
		hostile.Within(t, hostile.Linear(len(text)), func() {
			whole.Reset()
			io.WriteString(CleanWriter(&whole), text)
		})
		w := CleanWriter(&parts)
		cut = max(0, min(cut, len(text)))
		io.WriteString(w, text[:cut])
		io.WriteString(w, text[cut:])
		if !strings.Contains(text, "\r") && whole.String() != parts.String() { // \r\n in two writes becomes two line breaks
			t.Errorf("%q, and in two writes %q", whole.String(), parts.String())
		}
		if !utf8.Valid(whole.Bytes()) || strings.ContainsFunc(whole.String(), unsafe) {
			t.Errorf("%q", whole.String())
		}
	})
}

// TestCell checks that a cell of free text is one line that no spreadsheet runs.
func TestCell(t *testing.T) {
	for text, want := range map[string]string{"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)",
		" \t=1": "'=1", "\r\n=1": "'=1", "\u2028=1": "\ufffd=1", "\x1b=1": "␛=1", "＝1": "'＝1", "a=1": "a=1", "": "",
		"\xff=": "\ufffd=", "meta-llama/x-1": "meta-llama/x-1", "a\nb": "a b"} {
		if got := Cell(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
