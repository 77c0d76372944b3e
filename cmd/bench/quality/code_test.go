package quality

import (
	"strings"
	"testing"

	"restyle/voice"
)

func TestCode(t *testing.T) {
	for _, c := range []struct{ name, answer, code, prose string }{
		{"bare code", "x = 1\nprint(x)", "x = 1\nprint(x)", ""},
		{"bare prose", "Sigh. A list, again.", "Sigh. A list, again.", "Sigh. A list, again."},
		{"bare code behind prose", "Sure:\nprint(1)", "Sure:\nprint(1)", "Sure:\nprint(1)"},
		{"nothing", "", "", ""},
		{"prose around a fence", "Oh joy.\n\n```python\nprint(1)\n```\n\nFine.", "print(1)\n", "Oh joy.\n\n\nFine."},
		{"no tag", "```\nprint(1)\n```", "print(1)\n", ""},
		{"other spellings of the tag", "```Py3 title=\"a.py\"\nprint(1)\n```", "print(1)\n", ""},
		{"python3", "``` Python3 title=\"a.py\"\nprint(1)\n```", "print(1)\n", ""},
		{"the first of Python", "```text\n1\n```\n~~~py\nprint(1)\n~~~\n```python\nprint(2)\n```", "print(1)\n", ""},
		{"none of Python", "Run it:\n```bash\npython3 a.py\n```", "", "Run it:\n"},
		{"never closed", "Fine:\n```python\nprint(1", "print(1", "Fine:\n"},
		{"empty", "```python\n```", "", ""},
		{"a longer fence", "````python\nprint('''\n```\n''')\n````\n", "print('''\n```\n''')\n", ""},
		{"tildes do not close backticks", "```python\nx = 1\n~~~\n```", "x = 1\n~~~\n", ""},
		{"indented", "   ```python\n   print(1)\n   ```", "   print(1)\n", ""},
		{"indented too far", "    ```python\n", "    ```python\n", "    ```python\n"},
		{"an inline span", "```print(1)``` does it", "```print(1)``` does it", "```print(1)``` does it"},
		{"line ends of other systems", "```python\r\nprint(1)\r\n```\r\n", "print(1)\r\n", ""},
	} {
		if got := Code(c.answer); got != c.code {
			t.Errorf("%s: the code is %q, want %q", c.name, got, c.code)
		}
		if got := Prose(c.answer); got != c.prose {
			t.Errorf("%s: the prose is %q, want %q", c.name, got, c.prose)
		}
	}
}

// FuzzFences: what is a fence here is one for voice.Prose, so that no line is code and prose at once or neither.
func FuzzFences(f *testing.F) {
	f.Add("a\n```python\nb\n```\nc")
	f.Add("~~~\n```\n~~~~\n   ````` x\n`````")
	f.Add("```a`b\n    ```\n```")
	f.Add("``` \n\n```\r\n```")
	f.Fuzz(func(t *testing.T, text string) {
		fences := fencesOf(text)
		marks := 0 // lines that are neither
		code := ""
		for _, f := range fences {
			code += f.code
		}
		prose := voice.Prose(text)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "[[CODE_") {
				return // which voice.Prose leaves out too
			}
			if run, _ := fenceRun(line); run != "" {
				marks += len(line)
			}
		}
		if missing := len(text) - len(prose) - len(code); missing < 0 || missing > marks {
			t.Errorf("%q: %d bytes are neither prose %q nor code %q, and %d those of fences", text, missing, prose, code, marks)
		}
		if len(fences) == 0 && prose != text {
			t.Errorf("%q has no fence, and its prose is %q", text, prose)
		}
	})
}
