package voice

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/hostile"
)

// small is a valid style, from which the error cases are made.
const small = `name: small
score: 1
cues: 1
density: 0 100
words: 1 100
[devices]
echo: say it twice
[example]
device: echo
question: Why?
code: pass
rewrite:
    Fine, fine.

    [[CODE_1]]
[skeletons]
opener lead / code / closer
[opener]
Fine, then.
[lead]
Here:
[closer if loop]
It loops.
[closer]
Done.
[lexicon]
1 fine
[banned]
drat
`

func TestParse(t *testing.T) {
	s, err := Parse("small.style", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "small" || s.MinScore != 1 || s.MinCues != 1 || s.Words != [2]int{1, 100} ||
		s.Density != [2]float64{0, 100} {
		t.Errorf("settings: %+v", s)
	}
	if want := []Device{{"echo", "say it twice"}}; !slices.Equal(s.Devices, want) {
		t.Errorf("devices %v, want %v", s.Devices, want)
	}
	if want := []Example{{"echo", "Why?", "pass", "Fine, fine.\n\n[[CODE_1]]"}}; !slices.Equal(s.Examples, want) {
		t.Errorf("examples %q, want %q", s.Examples, want)
	}
	if want := []string{"fine then"}; !slices.Equal(s.Openers, want) {
		t.Errorf("openers %q, want %q", s.Openers, want)
	}
	if len(s.SHA256) != 64 {
		t.Errorf("SHA256 %q", s.SHA256)
	}
	crlf, err := Parse("small.style", []byte("\ufeff"+strings.ReplaceAll(small, "\n", "\r\n")))
	if err != nil {
		t.Fatalf("with carriage returns and a byte order mark: %v", err)
	}
	if crlf.SHA256 == s.SHA256 || !slices.Equal(crlf.Examples, s.Examples) {
		t.Error("carriage returns change the hash and nothing else")
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		name, old, new string
		want           []string
	}{
		{"no name", "name: small\n", "", []string{":1: no name"}},
		{"bad name", "name: small", "name: a b", []string{`:1: name "a b"`}},
		{"unknown setting", "score: 1", "scores: 1", []string{`:2: unknown setting "scores": did you mean "score"?`}},
		{"not a setting", "score: 1", "hello", []string{`:2: "hello": not a setting`}},
		{"setting twice", "score: 1", "name: again", []string{`:2: setting "name": already in line 1`}},
		{"bad number", "score: 1", "score: many", []string{`:2: score "many": write a number`}},
		{"not a whole number", "cues: 1", "cues: 1.5", []string{`:3: cues 1.5: must be a whole number`}},
		{"NaN", "density: 0 100", "density: NaN 3", []string{`:4: density "NaN 3"`}},
		{"falling band", "words: 1 100", "words: 9 1", []string{`:5: words "9 1": write the minimum and the maximum`}},
		{"device without instruction", "echo: say it twice", "echo", []string{`:7: device "echo": no instruction`}},
		{"device twice", "echo: say it twice", "echo: a\necho: b", []string{`:8: device "echo": already in line 7`}},
		{"unknown section", "[lexicon]", "[lexikon]",
			[]string{`:26: section [lexikon]: unknown, and no skeleton names it: did you mean "lexicon"?`, "no [lexicon]"}},
		{"empty section name", "[banned]", "[]", []string{`:28: section without a name`}},
		{"reserved section", "[banned]", "[code]", []string{`:28: section [code]: reserved name`}},
		{"unknown condition", "if loop", "if looop",
			[]string{`:22: section [closer if looop]: condition: unknown feature "looop": did you mean "loop"?`}},
		{"empty condition", "if loop", "if", []string{`:22: section [closer if]: condition: incomplete`}},
		{"dangling not", "if loop", "if loop not", []string{`:22: `, "incomplete"}},
		{"contradiction", "if loop", "if loop not loop", []string{`:22: `, "its absence"}},
		{"no if", "if loop", "when loop", []string{`:22: section [closer when loop]: only "if"`}},
		{"condition on a fixed section", "[banned]", "[banned if loop]",
			[]string{`:28: section [banned]: cannot have a condition`}},
		{"unknown slot", "It loops.", "It {funktion} loops.",
			[]string{`:23: unknown slot {funktion}: did you mean "function"?`}},
		{"unclosed slot", "It loops.", "It {ask loops.", []string{`:23: unbalanced brace`}},
		{"stray brace", "It loops.", "It } loops.", []string{`:23: unbalanced brace`}},
		{"phrase without end", "It loops.", "It loops", []string{`:23: phrase "It loops": must end`}},
		{"phrase twice", "It loops.", "Done.", []string{`:25: phrase "Done.": already in line 23`}},
		{"placeholder in a phrase", "It loops.", "It [[CODE_1]] loops.", []string{`:23: phrase: has a placeholder`}},
		{"unclosed backtick", "It loops.", "It `loops.", []string{`:23: phrase: unclosed backtick`}},
		{"banned phrase", "It loops.", "Drat, it loops.", []string{`:23: phrase: banned word "drat"`}},
		{"opener with a slot", "Fine, then.", "Fine {ask}, then.",
			[]string{`:19: opener "Fine {ask}, then.": the first two words`}},
		{"only slots", "Done.\n", "{Ask} done.\n", []string{`:22: block [closer]: needs a phrase without slots`}},
		{"missing block", "opener lead /", "opener leed /",
			[]string{`:17: skeleton: block "leed" has no section: did you mean "lead"?`, `:20: section [lead]: unknown`}},
		{"no opener", "opener lead", "lead", []string{`:17: skeleton "lead / code / closer": must begin with opener`}},
		{"no code", "/ code /", "/", []string{`:17: `, "must have code exactly once"}},
		{"two codes", "/ code /", "code / code /", []string{`:17: `, "must have code exactly once"}},
		{"answer and code", "/ code /", "/ code / answer /", []string{`:17: `, "must have answer exactly once, and neither"}},
		{"answer with an opener", "/ code /", "/ answer /", []string{`:17: `, "must have answer exactly once, and neither"}},
		{"two answers", "opener lead / code /", "lead / answer / answer /",
			[]string{`:17: `, "must have answer exactly once, and neither"}},
		{"a block called answer", "[lead]", "[answer]", []string{`section [answer]: reserved name`}},
		{"no weight", "1 fine", "fine", []string{`:27: cue "fine": no weight`}},
		{"weight too large", "1 fine", "1 fine\n10 then", []string{`:28: cue "10 then": no weight`}},
		{"cue twice", "1 fine", "1 fine\n2 FINE", []string{`:28: "FINE": already in [lexicon]`}},
		{"cue without a word", "1 fine", "1 fine\n1 ...", []string{`:28: "...": has no word`}},
		{"example without code", "code: pass\n", "", []string{`:8: example: needs a device, a question, code and a rewrite`}},
		{"example with another key", "code: pass", "kode: pass", []string{`:11: example: unknown line "kode: pass"`}},
		{"example's part twice", "code: pass", "question: What?", []string{`:11: example: second "question"`}},
		{"example of unknown device", "device: echo", "device: ecco",
			[]string{`:8: example: device "ecco" is not in [devices]: did you mean "echo"?`}},
		{"example without placeholder", "    [[CODE_1]]\n", "",
			[]string{`:8: example: rewrite must have [[CODE_1]] exactly once`}},
		{"example out of voice", "Fine, fine.", "Very well.", []string{`:8: example: not in the voice: tone score 0:`}},
		{"unprintable", "It loops.", "It \x00loops.", []string{`:23: unprintable byte 0x00`}},
		{"not UTF-8", "It loops.", "It \xff loops.", []string{`:23: unprintable byte 0xff`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(small, test.old) {
				t.Fatalf("the style has no %q", test.old)
			}
			_, err := Parse("x.style", []byte(strings.Replace(small, test.old, test.new, 1)))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\nlacks %q", err, want)
				}
			}
			for _, line := range strings.Split(err.Error(), "\n") {
				if !regexp.MustCompile(`^x\.style:\d+: .`).MatchString(line) {
					t.Errorf("line without a position: %q", line)
				}
			}
		})
	}
}

// TestParseReportsEverything parses a file with several mistakes, and one with more than are reported.
func TestParseReportsEverything(t *testing.T) {
	_, err := Parse("x", []byte("nam: a\n[opener\n[devices]\nnone\n[lexicon]\nx\n"))
	for _, want := range []string{"x:1: unknown setting", "x:2: ", "x:4: device", "x:6: cue"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error\n%v\nlacks %q", err, want)
		}
	}
	_, err = Parse("x", []byte(strings.Repeat("nonsense\n", 100000)))
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems || !strings.Contains(err.Error(), "more problems") {
		t.Errorf("many problems: %v", err)
	}
	if _, err = Parse("x", make([]byte, maxFile+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("large file: %v", err)
	}
	if _, err = Parse("x", nil); err == nil {
		t.Error("empty file: no error")
	}
}

func TestLoad(t *testing.T) {
	if want := []string{"passive-aggressive", "pirate"}; !slices.Equal(Names(), want) {
		t.Errorf("Names() = %q, want %q", Names(), want)
	}
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil || s.Name != name {
			t.Errorf("Load(%q): name %v, error %v", name, s, err)
		}
	}
	dir := t.TempDir()
	large := filepath.Join(dir, "large.style")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFile+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"nobody":       "neither a file nor built in: use passive-aggressive or pirate",
		"pirat\x00":    "style",
		dir:            "not a file but",
		large:          "at most",
		"../doc.go":    "style",
		"parse.go":     "parse.go:1: ",
		"":             "neither",
		"/dev/null":    "not a file but",
		"styles/x.foo": "neither",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q): %v, want %q", path, err, want)
		}
	}
	if _, err := Builtin("../styles/pirate"); err == nil {
		t.Error("Builtin with a path: no error")
	}
}

// TestUserStyle uses the whole package with a style that a user might write.
func TestUserStyle(t *testing.T) {
	s, err := Load("testdata/minimal.style")
	if err != nil {
		t.Fatal(err)
	}
	facts := Facts{Ask: "print a list", Has: Loop | Function, Functions: []string{"show"},
		Placeholders: []string{"[[CODE_1]]"}}
	seen := map[string]bool{}
	for seed := range uint64(40) {
		text, err := s.Compose(facts, Assignment{Seed: seed, Opener: s.Openers[int(seed)%len(s.Openers)]})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Accepts(s.Tone(Read(text))); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
		seen[text] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d different texts of 40", len(seen))
	}
	teacher := "name: t\n[system]\nBe kind.\n\nAlways.\n[lexicon]\n1 dear\n"
	s, err = Parse("t", []byte(teacher))
	if err != nil {
		t.Fatal(err)
	}
	if s.System != "Be kind.\n\nAlways." {
		t.Errorf("system prompt %q", s.System)
	}
	if _, err := s.Compose(facts, Assignment{}); err == nil || !strings.Contains(err.Error(), "no phrase bank") {
		t.Errorf("composing without a bank: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range Names() {
		src, err := builtin.ReadFile("styles/" + name + ".style")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte("name: x\n[skeletons]\nopener code\n[opener]\na b.\n[lexicon]\n1 a\n"))
	f.Add([]byte("[example]\ncode:\n  x\n[example]\n[system]\n[x if a() not b]\n{"))
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := hostile.Parse(t, src, func(src []byte) (*Style, error) { return Parse("f", src) })
		if (s == nil) == (err == nil) {
			t.Fatal("want a style or an error")
		}
		if err != nil {
			if n := strings.Count(err.Error(), "\n"); n > maxProblems {
				t.Fatalf("%d problems", n)
			}
			return
		}
		for i := range s.Skeletons {
			for _, opener := range s.Openers[:min(3, len(s.Openers))] {
				text, err := s.Compose(Facts{Placeholders: []string{"[[CODE_1]]"}}, Assignment{Seed: 1, Opener: opener,
					Skeleton: i})
				if err == nil && strings.Count(text, "[[CODE_1]]") != 1 {
					t.Fatalf("placeholders in %q", text)
				}
			}
		}
	})
}

func ExampleStyle_Compose() {
	s, err := Load("testdata/minimal.style")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := s.Compose(
		Facts{Ask: "reverse a list", Placeholders: []string{"[[CODE_1]]"}},
		Assignment{Seed: 3, Opener: "as you"},
	)
	fmt.Println(text, err)
	// Output:
	// As you wish, sir. You desired me to reverse a list, and I am delighted to oblige at once.
	//
	// [[CODE_1]]
	//
	// Will there be anything else, sir? <nil>
}
