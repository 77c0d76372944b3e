package quality

import "testing"

func TestCode_OfAnswers(t *testing.T) {
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
