package tokenizer

import (
	"slices"
	"testing"
)

// TestPatterns_AsPythonsRegex splits texts that tell the patterns apart. The expected pre-tokens come from Python's
// regex module, whose findall returns the matches of the pattern itself.
func TestPatterns_AsPythonsRegex(t *testing.T) {
	for _, test := range []struct {
		text               string
		gpt2, llama3, qwen []string
	}{
		{"1234567", []string{"1234567"}, []string{"123", "456", "7"}, []string{"1", "2", "3", "4", "5", "6", "7"}},
		{"12 345", []string{"12", " 345"}, []string{"12", " ", "345"}, []string{"1", "2", " ", "3", "4", "5"}},
		{"it's", []string{"it", "'s"}, []string{"it", "'s"}, []string{"it", "'s"}},
		{"IT'S", []string{"IT", "'", "S"}, []string{"IT", "'S"}, []string{"IT", "'S"}},
		{"I'LL we'Ve", []string{"I", "'", "LL", " we", "'", "Ve"}, []string{"I", "'LL", " we", "'Ve"},
			[]string{"I", "'LL", " we", "'Ve"}},
		{"it'ſx", []string{"it", "'", "ſx"}, []string{"it", "'ſ", "x"}, []string{"it", "'ſ", "x"}},
		{"a  b", []string{"a", " ", " b"}, []string{"a", " ", " b"}, []string{"a", " ", " b"}},
		{"a   ", []string{"a", "   "}, []string{"a", "   "}, []string{"a", "   "}},
		{"a \n b", []string{"a", " \n", " b"}, []string{"a", " \n", " b"}, []string{"a", " \n", " b"}},
		{"x).\n\ny", []string{"x", ").", "\n", "\n", "y"}, []string{"x", ").\n\n", "y"}, []string{"x", ").\n\n", "y"}},
		{"(a", []string{"(", "a"}, []string{"(a"}, []string{"(a"}},
		{"\na", []string{"\n", "a"}, []string{"\n", "a"}, []string{"\n", "a"}},
		{"a\u3000\u3000b", []string{"a", "\u3000", "\u3000", "b"}, []string{"a", "\u3000", "\u3000b"},
			[]string{"a", "\u3000", "\u3000b"}},
	} {
		for pattern, want := range map[string][]string{GPT2Pattern: test.gpt2, Llama3Pattern: test.llama3,
			Qwen2Pattern: test.qwen} {
			var got []string
			for rest := test.text; rest != ""; {
				n := patterns[pattern](classes(), rest)
				got, rest = append(got, rest[:n]), rest[n:]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: %s gives %q, want %q", test.text, pattern, got, want)
			}
		}
	}
}

// TestNFC composes marks that reach their base, and marks that another mark blocks.
func TestNFC(t *testing.T) {
	for text, want := range map[string]string{
		"a\u0301":            "\u00e1",
		"a\u0363\u0301":      "a\u0363\u0301", // the first is of the same class and joins nothing
		"a\u0301\u0323":      "\u1ea1\u0301",  // the second is of a lower class and goes first
		"a\u0323\u0301":      "\u1ea1\u0301",
		"\u0915\u093c":       "\u0915\u093c", // excluded from composition
		"\u0958":             "\u0915\u093c",
		"\u1100\u1161\u11a8": "\uac01",
		"\uac00\u11a8":       "\uac01",
		// Both ends of each range of Hangul.
		"\u1112\u1175\u11c2": "\ud7a3", "\u1113\u1161": "\u1113\u1161", "\u10ff\u1161": "\u10ff\u1161",
		"\u1100\u1160": "\u1100\u1160", "\u1100\u1176": "\u1100\u1176", "\uac00\u11a7": "\uac00\u11a7",
		"\uac00\u11c3": "\uac00\u11c3",
		"\uac01\u11a8": "\uac01\u11a8", "\ud7a4\u11a8": "\ud7a4\u11a8", "\uabff\u11a8": "\uabff\u11a8",
		"\ud788\u11c2": "\ud7a3",
		"a\u1161":      "a\u1161", "\ud7a3": "\ud7a3", "\uac1b\uac1c": "\uac1b\uac1c",
		"\u212b":              "\u00c5",
		"a\xff\u0301":         "a\xff\u0301",
		"x\u0301":             "x\u0301",
		"\u1e9b\u0323":        "\u1e9b\u0323",
		"e\u0301 \u00e9 \xc3": "\u00e9 \u00e9 \xc3",
	} {
		if got := nfc(stretch{text: text}); got.text != want {
			t.Errorf("%+q becomes %+q, want %+q", text, got.text, want)
		}
	}
	// A replacement by the same text leaves the text, and the next one starts after it.
	w := newRewriting(stretch{text: "abcd", base: 5})
	w.replace(2, "ab")
	w.replace(3, "xy")
	if got := w.done(); got.text != "abxyd" || !slices.Equal(got.origin, []int{5, 6, 7, 8, 8, 9}) {
		t.Errorf("%q, %v", got.text, got.origin)
	}
}
