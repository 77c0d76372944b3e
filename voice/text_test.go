package voice

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/internal/linear"
)

func TestShingles(t *testing.T) {
	if got := Read("one two three four").Shingles(5); got != nil {
		t.Errorf("four words have %d shingles of five", len(got))
	}
	if got := Read("one two").Shingles(0); got != nil {
		t.Errorf("n = 0 gives %v", got)
	}
	a := Read("One, two: three four FIVE. One two three four five").Shingles(5)
	if len(a) != 6 || a[0] != a[5] || a[0] == a[1] {
		t.Errorf("shingles %x", a)
	}
	if Read("ab c").Shingles(2)[0] == Read("a bc").Shingles(2)[0] {
		t.Error("word boundaries do not count")
	}
	// No file contains the hash, but versions with different hashes would count differently.
	if got, want := Read("a").Shingles(1)[0], uint64(0x89c0207b5452844); got != want {
		t.Errorf("hash %#x, want %#x", got, want)
	}
}

func TestTone(t *testing.T) {
	s, err := Parse("t", []byte("name: t\n[system]\nx\n[lexicon]\n1 fine\n2 spoon-feed\n2 read the docs\n1 come on\n1 "+
		"I'm sure\n[banned]\nheck\n"))
	expect.OK(t, err)
	for _, test := range []struct {
		in    string
		score int
		cues  []string
	}{
		{"", 0, nil},
		{"Define a refined, finer definition.", 0, nil},
		{"FINE. Fine, fine!", 1, []string{"fine"}},
		{"I spoon feed, you Spoon-Feed.", 2, []string{"spoon-feed"}},
		{"Read the\ndocs; come, on. I’m sure.", 4, []string{"read the docs", "come on", "I'm sure"}},
		{"Read the `docs`, `fine`, ``fine``.", 0, nil},
		{"``x`` fine `y` fine", 1, []string{"fine"}},
		{"`unclosed fine\nfine", 1, []string{"fine"}},
		{"a\n```\nfine\n```\n", 0, nil},
		{"read the", 0, nil},
		{"read read the docs", 2, []string{"read the docs"}},
		{"fine_print fine2 fine-print", 1, []string{"fine"}},
	} {
		got := s.Tone(Read(test.in))
		if got.Score != test.score || !slices.Equal(got.Cues, test.cues) {
			t.Errorf("Tone(%q) = %+v, want score %d, cues %q", test.in, got, test.score, test.cues)
		}
	}
	if got := s.Tone(Read("Fine, it is fine, `x`.")); got.Words != 5 || got.Density != 40 {
		t.Errorf("words %d, density %g; want 5 and 40", got.Words, got.Density)
	}
	if got := s.BannedIn(Read("What the HECK?")); got != "heck" {
		t.Errorf("banned word %q", got)
	}
	if got := s.BannedIn(Read("`heck` checks hecklers\n```\nheck\n```\n")); got != "" {
		t.Errorf("banned word %q where there is none", got)
	}
	for _, test := range []struct {
		tone Tone
		want string
	}{
		{Tone{3, []string{"a", "b"}, 25, 8}, ""},
		{Tone{3, []string{"a", "b"}, 24, 8}, "words"},
		{Tone{3, []string{"a", "b"}, 221, 8}, "words"},
		{Tone{2, []string{"a", "b"}, 25, 8}, "score"},
		{Tone{3, []string{"a"}, 25, 8}, "distinct cues"},
		{Tone{3, []string{"a", "b"}, 25, 0.4}, "per 100 words"},
		{Tone{3, []string{"a", "b"}, 25, 41}, "per 100 words"},
	} {
		if err := s.Accepts(test.tone); (err == nil) != (test.want == "") || err != nil &&
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("Accepts(%+v) = %v, want %q", test.tone, err, test.want)
		}
	}
}

// TestToneIsLinear scores texts that could make a scan quadratic.
func TestToneIsLinear(t *testing.T) {
	s, err := Builtin(Default)
	expect.OK(t, err)
	for _, unit := range []string{"`", "``` ", "`a``b", "\n`", "```\n", "~", "fine ", "read the ", "of course ", "'a", "’",
		"\xff", "(", "e.g. ", "a.\n\n", "x"} {
		linear.Test(t, strconv.Quote(unit), 1<<13, func(n int) {
			text := strings.Repeat(unit, n/len(unit))
			read := Read(text)
			s.Tone(read)
			read.Sentences()
			Ask(text)
			Keyword(text)
		})
	}
}

func BenchmarkTone(b *testing.B) {
	s, err := Builtin(Default)
	expect.OK(b, err)
	text := strings.Repeat("Fine. I suppose that you could not read the docs, so here is `print`, obviously.\n", 1<<20/81)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Tone(Read(text))
	}
}

// A referenceRow is a row from the dataset that the tone lexicon comes from, or from another instruction dataset.
type referenceRow struct {
	Instruction, Input, Output, Rewrite, Response string
}

// reference reads a dataset, or skips the test if there is none.
func reference(t *testing.T, name string) []referenceRow {
	t.Helper()
	src, err := os.ReadFile(expect.Reference(t, "data", "instruct", name))
	expect.OK(t, err)
	var raw []map[string]string
	expect.OK(t, json.Unmarshal(src, &raw))
	var rows []referenceRow
	for _, r := range raw {
		rows = append(rows, referenceRow{r["instruction"], r["input"], r["output_original"], r["output_passive_aggressive"],
			r["response"]})
	}
	return rows
}

// TestToneReference checks the lexicon on real texts: it must separate the rewrites from their sources, and rarely
// match plain answers.
func TestToneReference(t *testing.T) {
	s, err := Builtin(Default)
	expect.OK(t, err)
	high, falseAlarms := 0, 0
	rows := reference(t, "original_passive_aggressive_data.json")
	for _, r := range rows {
		if s.Tone(Read(r.Rewrite)).Score >= 3 {
			high++
		}
		if s.Tone(Read(r.Output)).Score >= 3 {
			falseAlarms++
		}
	}
	t.Logf("score 3 or more: %d of %d rewrites, %d sources", high, len(rows), falseAlarms)
	if high < 575 || falseAlarms > 0 {
		t.Errorf("score 3 or more: %d rewrites and %d sources of %d, want 575 and 0", high, falseAlarms, len(rows))
	}
	plain := 0
	rows = reference(t, "gpteacher_codegen-instruct.json")
	for _, r := range rows {
		if s.Tone(Read(r.Response)).Score >= 3 {
			plain++
		}
	}
	t.Logf("score 3 or more: %d of %d plain answers", plain, len(rows))
	if plain > len(rows)/500 {
		t.Errorf("score 3 or more on %d of %d plain answers", plain, len(rows))
	}
}

func FuzzTone(f *testing.F) {
	s, err := Builtin(Default)
	expect.OK(f, err)
	for _, seed := range []string{"", "Fine. `x` ``` a\n```\nOf course... not. e.g. so", "’'’a'’ \xff` \n\n~~~",
		"[[CODE_1]]\nspoon-feed", "İstanbul ǅ ß"} {
		f.Add(seed)
	}
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var prose string
		hostile.Within(t, hostile.Linear(len(text)), func() { prose = Prose(text) })
		if len(prose) > len(text) {
			t.Fatal("prose is longer than the text")
		}
		var tone Tone
		hostile.Within(t, hostile.Linear(2*len(text)), func() { tone = s.Tone(Read(text)) })
		if tone.Score < len(tone.Cues) || (len(tone.Cues) == 0) != (tone.Density == 0) {
			t.Fatalf("%+v", tone)
		}
		words := 0
		for _, sentence := range Read(prose).Sentences() {
			if sentence == "" || !utf8.ValidString(sentence) {
				t.Fatalf("sentence %q", sentence)
			}
			words += len(strings.Fields(sentence))
		}
		if words != tone.Words {
			t.Fatalf("sentences have %d words, the tone %d", words, tone.Words)
		}
		if n := len(Read(prose).Shingles(5)); n != max(0, words-4) {
			t.Fatalf("%d shingles of %d words", n, words)
		}
		if five := Read(text).FirstFive(); !strings.HasPrefix(five, Read(text).Opener()) || len(strings.Fields(five)) > 5 {
			t.Fatalf("first five %q, opener %q", five, Read(text).Opener())
		}
	})
}
