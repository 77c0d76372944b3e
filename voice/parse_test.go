package voice

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
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
	expect.OK(t, err)
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

// TestParseReportsEverything parses a file with several mistakes, and one with more mistakes than Parse reports.
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
	expect.OK(t, os.WriteFile(large, nil, 0o600))
	expect.OK(t, os.Truncate(large, maxFile+1))
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
	expect.OK(t, err)
	facts := Facts{Ask: "print a list", Has: Loop | Function, Functions: []string{"show"},
		Placeholders: []string{"[[CODE_1]]"}}
	seen := map[string]bool{}
	for seed := range uint64(40) {
		text, err := s.Compose(facts, Assignment{Seed: seed, Opener: s.Openers[int(seed)%len(s.Openers)]})
		expect.OK(t, err)
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
	expect.OK(t, err)
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
		expect.OK(f, err)
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
