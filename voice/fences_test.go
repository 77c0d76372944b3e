package voice

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/internal/hostile"
)

func TestPieces(t *testing.T) {
	prose := func(text string) Piece { return Piece{Text: text} }
	block := func(info, text string) Piece { return Piece{Code: true, Closed: true, Info: info, Text: text} }
	indented := func(by, text string) Piece { return Piece{Code: true, Closed: true, Indent: by, Text: text} }
	open := func(info, text string) Piece { return Piece{Code: true, Info: info, Text: text} }
	for _, c := range []struct {
		name, text string
		want       []Piece
		nested     []Piece // if NestedPieces differs
	}{
		{"nothing", "", nil, nil},
		{"prose", "a\nb", []Piece{prose("a\nb")}, nil},
		{"a block", "a\n```python\nb\n```\nc", []Piece{prose("a\n"), block("python", "b\n"), prose("c")}, nil},
		{"blocks side by side", "```\na\n```\n~~~ Go x\n~~~\n", []Piece{block("", "a\n"), block("Go x", "")}, nil},
		{"never closed", "```\na\n``", []Piece{open("", "a\n``")}, nil},
		{"a shorter run, and another character", "````\n```\n~~~~\n`````\n", []Piece{block("", "```\n~~~~\n")}, nil},
		{"a run with words closes nothing", "```\n``` x\n```", []Piece{block("", "``` x\n")}, nil},
		{"a span of code", "```a`b\n", []Piece{prose("```a`b\n")}, nil},
		{"a tilde's info may have one", "~~~a`b\nc\n~~~", []Piece{block("a`b", "c\n")}, nil},
		{"three spaces", "   ```\na\n   ```\r\n", []Piece{indented("   ", "a\n")}, nil},
		{"a closing fence that is indented more", "  ```\na\n      ```\n   ```",
			[]Piece{indented("  ", "a\n      ```\n")}, nil},
		{"in a list", "    ```\n    a\n\t```\n", []Piece{prose("    ```\n    a\n\t```\n")},
			[]Piece{indented("    ", "    a\n")}},
	} {
		if got := slices.Collect(Pieces(c.text)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if c.nested == nil {
			c.nested = c.want
		}
		if got := slices.Collect(NestedPieces(c.text)); !reflect.DeepEqual(got, c.nested) {
			t.Errorf("%s: nested, %+v, want %+v", c.name, got, c.nested)
		}
	}
	for range Pieces("a\n```\nb\n```\nc") {
		break // the iterator must stop
	}
	if tag := (Piece{Info: "Python title=x"}).Tag(); tag != "python" {
		t.Errorf("the tag is %q", tag)
	}
}

// FuzzPieces checks that each line is part of one piece, or is a fence.
func FuzzPieces(f *testing.F) {
	f.Add("a\n```python\nb\n```\nc")
	f.Add("~~~\n```\n~~~~\n   ````` x\n`````")
	f.Add("```a`b\n    ```\n```")
	f.Add("``` \n\n```\r\n```")
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rest := text
		fence := func(p Piece) {
			line, after, _ := strings.Cut(rest, "\n")
			if run, _ := fenceRun(line, 3); run == "" {
				t.Fatalf("%q: %q is left out before %+v", text, line, p)
			}
			rest = after
		}
		code := false
		var pieces []Piece
		hostile.Within(t, hostile.Linear(len(text)), func() { pieces = slices.Collect(Pieces(text)) })
		for _, p := range pieces {
			if p.Code {
				fence(p)
			}
			var ok bool
			if rest, ok = strings.CutPrefix(rest, p.Text); !ok || p.Text == "" && !p.Code {
				t.Fatalf("%q: %+v does not come next", text, p)
			}
			if p.Closed {
				fence(p)
			}
			code = code || p.Code
		}
		if rest != "" {
			t.Errorf("%q: %q is in no piece", text, rest)
		}
		if !code && !strings.Contains(text, "[[CODE_") && Prose(text) != text {
			t.Errorf("%q has no fence, and its prose is %q", text, Prose(text))
		}
	})
}
