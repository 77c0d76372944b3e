package voice

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// syntheticFacts returns facts of many kinds, as a dataset of small Python tasks would give them.
func syntheticFacts(n int) []Facts {
	rng := rand.New(rand.NewPCG(7, 11))
	pick := func(from string) string { f := strings.Split(from, "|"); return f[rng.IntN(len(f))] }
	some := func(from string, most int) []string {
		f := strings.Fields(from)
		rng.Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
		return f[:rng.IntN(most+1)]
	}
	forms := "Write a Python program to|Create a function to|How do I|Could you please|Design a script that " +
		"can|Implement code to|In Python, how would you|Given some data, write a function to|Show how to|Need to"
	tasks := "sort|reverse|count|merge|filter|print|convert|compress|rotate|compare|group|sum up|remove|replace|find"
	things := "a list of numbers|the words of a sentence|two dictionaries|the vowels in a string|the digits of an " +
		"integer|a matrix|all prime numbers|a linked list|the lines of a file|every palindrome|a queue|email addresses|the " +
		"Fibonacci series"
	extras := "||| in place| without duplicates| by length| for a given range| in descending order| using recursion"
	var out []Facts
	names := "result|total|i|n|text|words|numbers|temp|left|right"
	values := "sum(numbers)|text[::-1]|len(words)|max(numbers)|n % 2 == 0|sorted(words)|text.split()"
	for range n {
		question := pick(forms) + " " + pick(tasks) + " " + pick(things) + pick(extras)
		f := Facts{
			Keyword:      Keyword(question),
			IsQuestion:   strings.HasPrefix(question, "How") || rng.IntN(6) == 0,
			HasInput:     rng.IntN(3) == 0,
			Lines:        1 + rng.IntN(rng.IntN(30)+1),
			Functions:    some("reverse_list count_words main merge is_prime flatten to_roman area", 2),
			Imports:      some("math random re collections", rng.IntN(2)),
			Calls:        some("len range print append join split sorted sum enumerate zip lower replace input max", 4),
			Names:        some("result total i n text words numbers temp left right", 4),
			Has:          (Short - 1) &^ (Class | Method | Import),
			Placeholders: []string{"[[CODE_1]]"},
		}
		f.Deeds = map[string][][2]string{
			"assign": {{pick(names), pick(values)}, {pick(names), pick(values)}},
			"print":  {{pick(names)}},
			"number": {{fmt.Sprint(rng.IntN(100))}},
		}
		if len(f.Functions) > 0 {
			f.Deeds["return"] = [][2]string{{f.Functions[0], pick(values)}}
			f.Deeds["take"] = [][2]string{{f.Functions[0], "`" + pick(names) + "`"}}
		}
		for range 2 {
			f.Has &= Feature(rng.Uint64()) // each feature in a quarter of the rows
		}
		f.Ask, _ = Ask(question)
		if len(f.Functions) > 0 {
			f.Has |= Function
		}
		if len(f.Imports) > 0 {
			f.Has |= Import
		}
		if rng.IntN(8) == 0 {
			f.Classes, f.Has = []string{"Stack"}, f.Has|Class|Method
		}
		if rng.IntN(20) == 0 {
			f.Placeholders = []string{"[[CODE_1]]", "[[CODE_2]]", "[[CODE_3]]"}
		}
		out = append(out, f)
	}
	return out
}

// assignments returns n assignments with openers and skeletons spread evenly and in random order, as a caller with
// quotas would.
func assignments(s *Style, n int, seed uint64) []Assignment {
	rng := rand.New(rand.NewPCG(seed, 3))
	openers, skeletons := rng.Perm(n), rng.Perm(n)
	var out []Assignment
	for i := range n {
		out = append(out, Assignment{Seed: rng.Uint64(), Opener: s.Openers[openers[i]%len(s.Openers)],
			Skeleton: skeletons[i] % len(s.Skeletons)})
	}
	return out
}

// share counts the texts in which each item occurs.
type share map[string]int

func (s share) add(items []string) {
	slices.Sort(items)
	for _, item := range slices.Compact(items) {
		s[item]++
	}
}

func (s share) check(t *testing.T, what string, rows int, most float64) {
	t.Helper()
	worst, n := "", 0
	for item, k := range s {
		if k > n {
			worst, n = item, k
		}
	}
	got := 100 * float64(n) / float64(rows)
	t.Logf("%s: at most %.2f%% (%q), limit %g%%", what, got, worst, most)
	if got > most {
		t.Errorf("%s %q occurs in %.2f%% of %d texts, more than %g%%", what, worst, got, rows, most)
	}
}

// TestCompose_Repetitions composes thousands of answers and counts repetitions. The limits are the same as for the
// datasets that the composer writes for.
func TestCompose_Repetitions(t *testing.T) {
	const rows = 2000
	facts := syntheticFacts(rows)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s, err := Builtin(name)
			expect.OK(t, err)
			openers, fives, sentences, grams := share{}, share{}, share{}, share{}
			index := map[uint64][]int{} // shingle -> earlier texts
			sizes := make([]int, rows)
			nearest := 0.0
			for i, d := range assignments(s, rows, 5) {
				text, err := s.Compose(facts[i], d)
				expect.OK(t, err)
				checkAnswer(t, s, facts[i], d, text)
				prose := Prose(text)
				openers.add([]string{Read(prose).Opener()})
				fives.add([]string{Read(prose).FirstFive()})
				sentences.add(Read(prose).Sentences())
				shingles := Read(prose).Shingles(5)
				slices.Sort(shingles)
				shingles = slices.Compact(shingles)
				var keys []string
				common := map[int]int{}
				for _, h := range shingles {
					keys = append(keys, fmt.Sprint(h))
					for _, other := range index[h] {
						common[other]++
					}
					index[h] = append(index[h], i)
				}
				grams.add(keys)
				sizes[i] = len(shingles)
				for other, n := range common {
					nearest = max(nearest, float64(n)/float64(sizes[i]+sizes[other]-n))
				}
			}
			openers.check(t, "opener", rows, 10)
			fives.check(t, "first five words", rows, 5)
			sentences.check(t, "sentence", rows, 3)
			grams.check(t, "5-gram", rows, 8)
			t.Logf("largest Jaccard similarity of two answers: %.2f", nearest)
			if nearest >= 0.5 {
				t.Errorf("two answers have a Jaccard similarity of %.2f", nearest)
			}
		})
	}
}

// TestCompose_OneRemarkEach composes with a style whose remarks are all about one name and one request, or about
// nothing: each is remarked on once, and phrases for other cases are used only then. Phrases that fit every answer
// are used only if nothing else is left.
func TestCompose_OneRemarkEach(t *testing.T) {
	s, err := Parse("x", []byte("name: x\nscore: 1\ncues: 1\nwords: 1 100\n[lexicon]\n1 fine\n[skeletons]\n"+
		"opener / code / remark remark remark last\n[opener]\nFine it is.\n[remark]\nGood.\nBetter.\nBest.\n"+
		"[remark if function]\nHere is {function}.\nMind `f` too.\nOne gives {taken} to {taker}.\nIt is about `x`.\n"+
		"[remark]\nOne has to {ask}.\n{Asking} it is.\n"+
		"[last otherwise]\nNothing.\nOnly {call}.\n[last]\nAt last {function}.\n"))
	expect.OK(t, err)
	facts := Facts{Functions: []string{"f"}, Calls: []string{"g"}, Has: Function, Ask: "count things",
		Deeds:        map[string][][2]string{"take": {{"f", "`x` and `y`"}}},
		Placeholders: []string{"[[CODE_1]]"}}
	ends := map[string]int{}
	for seed := range uint64(300) {
		text, err := s.Compose(facts, Assignment{Seed: seed, Opener: "fine it"})
		expect.OK(t, err)
		if strings.Count(text, "`f`") > 1 || strings.Count(text, "`x`") > 1 || strings.Count(text, "ount") > 1 {
			t.Fatal(text)
		}
		last := text[strings.LastIndex(text[:len(text)-1], ".")+1:]
		ends[last]++
		if strings.Contains(last, "At last") == strings.Contains(strings.TrimSuffix(text, last), "`f`") {
			t.Fatal(text)
		}
	}
	if len(ends) != 2 {
		t.Error(ends)
	}
	text, err := s.Compose(Facts{Placeholders: []string{"[[CODE_1]]"}}, Assignment{Opener: "fine it"})
	if err != nil || !strings.HasSuffix(text, "Nothing.") {
		t.Error(text, err)
	}
}

// pythonWords are the keywords and builtins that phrases mention.
var pythonWords = strings.Fields("def return if for while with yield lambda try raise import class self in print len " +
	"range open input append join split sum max min enumerate zip sorted replace lower upper")

// metaWords would reveal that the answer was generated.
var metaWords = regexp.MustCompile(`(?i)rewrit|persona\b|constraint|original answer|as requested|here's the|` +
	`instruction|passive-aggressive|as an ai|output is|\{|\}`)

func checkAnswer(t *testing.T, s *Style, f Facts, d Assignment, text string) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n%+v\n%+v\n%s", fmt.Sprintf(format, args...), d, f, text)
	}
	if Read(text).Opener() != d.Opener {
		fail("opener %q, assigned %q", Read(text).Opener(), d.Opener)
	}
	tone := s.Tone(Read(text))
	if err := s.Accepts(tone); err != nil {
		fail("%v", err)
	}
	if tone.Score < 3 || len(tone.Cues) < 2 || tone.Words < 25 || tone.Words > 220 {
		fail("tone %+v", tone)
	}
	if word := s.BannedIn(Read(text)); word != "" {
		fail("banned word %q", word)
	}
	if m := metaWords.FindString(text); m != "" {
		fail("%q in the text", m)
	}
	at := 0
	for _, p := range f.Placeholders {
		i := strings.Index(text, "\n\n"+p)
		if i < at || strings.Count(text, p) != 1 {
			fail("placeholder %s is missing, doubled, out of order or not alone", p)
			return
		}
		at = i + len(p)
		if rest := text[i+2+len(p):]; rest != "" && !strings.HasPrefix(rest, "\n\n") {
			fail("text after placeholder %s", p)
		}
	}
	if strings.Contains(text, "  ") || strings.Contains(text, "\n\n\n") || text != strings.TrimSpace(text) ||
		strings.Contains(text, " ,") || strings.Contains(text, " .") {
		fail("odd white space")
	}
	known := slices.Concat(pythonWords, f.Functions, f.Classes, f.Imports, f.Calls, f.Names)
	for _, deeds := range f.Deeds {
		for _, deed := range deeds {
			known = append(known, deed[0], strings.Trim(deed[1], "`"))
		}
	}
	for _, code := range inlineCode.FindAllString(text, -1) {
		if !slices.Contains(known, strings.Trim(code, "`")) {
			fail("%s is neither in the code nor Python", code)
		}
	}
	seen := map[string]bool{}
	for _, sentence := range Read(Prose(text)).Sentences() {
		if seen[sentence] {
			fail("sentence twice: %q", sentence)
		}
		seen[sentence] = true
	}
}

func TestComposeIsDeterministic(t *testing.T) {
	facts := syntheticFacts(50)
	for _, name := range Names() {
		a, err := Builtin(name)
		expect.OK(t, err)
		b, err := Builtin(name)
		expect.OK(t, err)
		same := 0
		for i, d := range assignments(a, len(facts), 1) {
			first, err := a.Compose(facts[i], d)
			expect.OK(t, err)
			if again, err := b.Compose(facts[i], d); err != nil || again != first {
				t.Fatalf("same arguments, other text (%v):\n%s\n\n%s", err, first, again)
			}
			d.Device = "faint praise"
			if again, _ := a.Compose(facts[i], d); again != first {
				t.Error("the device changes the text")
			}
			d.Seed++
			if other, _ := a.Compose(facts[i], d); other == first {
				same++
			}
		}
		if same > 0 {
			t.Errorf("%s: %d of %d texts are the same with another seed", name, same, len(facts))
		}
	}
}

// TestComposeBare composes without any facts, with every opener and skeleton.
func TestComposeBare(t *testing.T) {
	for _, name := range Names() {
		s, err := Builtin(name)
		expect.OK(t, err)
		f := Facts{Placeholders: []string{"[[CODE_1]]", "[[CODE_2]]"}}
		for i := range s.Skeletons {
			for _, opener := range s.Openers {
				d := Assignment{Seed: uint64(i), Opener: opener, Skeleton: i}
				text, err := s.Compose(f, d)
				expect.OK(t, err)
				checkAnswer(t, s, f, d, text)
			}
		}
	}
}

// TestComposeAroundWords writes around an answer in words, which stays as it is, banned words and all, with blocks that
// are only for that. The phrases differ with the seed.
func TestComposeAroundWords(t *testing.T) {
	const answer = "- Moby-Dick is a whale; [[CODE_1]] and his \"hell\".\n\n- one\n- two"
	for _, name := range Names() {
		s, err := Builtin(name)
		expect.OK(t, err)
		if !s.KeepsAnswers() {
			t.Fatalf("%s has no skeletons for answers in words", name)
		}
		texts := map[string]bool{}
		for seed := range uint64(200) {
			f := Facts{Keyword: []string{"", "whale"}[seed%2], Answer: answer}
			text, err := s.Compose(f, Assignment{Seed: seed, Opener: s.Openers[0], Skeleton: int(seed) % len(s.Skeletons)})
			expect.OK(t, err)
			before, after, found := strings.Cut(text, answer)
			if !found || strings.Contains(after, answer) || before+after == "" ||
				before != "" && !strings.HasSuffix(before, "\n\n") ||
				after != "" && !strings.HasPrefix(after, "\n\n") || s.Accepts(s.Tone(Read(text))) != nil {
				t.Errorf("%s: %q", name, text)
			}
			texts[text] = true
		}
		if len(texts) < 150 {
			t.Errorf("%s: 200 seeds give %d texts", name, len(texts))
		}
	}
}

// TestComposeHostileFacts passes facts that must not appear in the text.
func TestComposeHostileFacts(t *testing.T) {
	s, err := Builtin(Default)
	expect.OK(t, err)
	bad := []string{"`x`", "a b", "{ask}", "[[CODE_1]]", "x\ny", "1x", "", "a..b", "__init__", strings.Repeat("x", 100),
		"\xff", "x()"}
	f := Facts{
		Ask: "write `x` [[CODE_1]]", Keyword: "a\nb", Lines: 1 << 40, Has: ^Feature(0),
		Functions: bad, Classes: bad, Imports: bad, Calls: bad, Names: bad, Placeholders: []string{"[[CODE_1]]"},
	}
	for seed := range uint64(300) {
		d := Assignment{Seed: seed, Opener: s.Openers[seed%uint64(len(s.Openers))], Skeleton: int(seed) % len(s.Skeletons)}
		text, err := s.Compose(f, d)
		expect.OK(t, err)
		clean := f
		clean.Functions, clean.Classes, clean.Imports, clean.Calls, clean.Names = nil, nil, nil, nil, nil
		checkAnswer(t, s, clean, d, text)
	}
}

func TestComposeErrors(t *testing.T) {
	s, err := Builtin(Default)
	expect.OK(t, err)
	code := []string{"[[CODE_1]]"}
	for _, test := range []struct {
		facts      Facts
		assignment Assignment
		want       string
	}{
		{Facts{Placeholders: code}, Assignment{Opener: "oh joy", Skeleton: -1}, "skeleton -1: must be"},
		{Facts{Placeholders: code}, Assignment{Opener: "oh joy", Skeleton: 1000}, "skeleton 1000: must be 0 to"},
		{Facts{Placeholders: code}, Assignment{Opener: "hello there"}, `no opener "hello there"`},
		{Facts{}, Assignment{Opener: "oh joy"}, "no placeholder"},
	} {
		if text, err := s.Compose(test.facts, test.assignment); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Compose(%+v) = %q, %v, want %q", test.assignment, text, err, test.want)
		}
	}
	mild, err := Parse("mild", []byte("name: mild\n[lexicon]\n1 fine\n[skeletons]\nopener code\n[opener]\nGood "+
		"morning.\n"))
	expect.OK(t, err)
	if _, err := mild.Compose(Facts{Placeholders: code}, Assignment{Opener: "good morning"}); err == nil ||
		!strings.Contains(err.Error(), "none of 100 drafts is in the voice") {
		t.Errorf("a style that cannot meet its own thresholds: %v", err)
	}
	if _, err := mild.Compose(Facts{Answer: "Yes."}, Assignment{Opener: "good morning"}); !errors.Is(err, ErrNoBank) ||
		!strings.Contains(err.Error(), "for answers in words: add skeletons with answer") || mild.KeepsAnswers() {
		t.Errorf("a style for code alone: %v", err)
	}
	if _, err := (&Style{Name: "x"}).Compose(Facts{Placeholders: code}, Assignment{}); !errors.Is(err, ErrNoBank) {
		t.Errorf("no bank: %v", err)
	}
}

// TestConditions_OfFacts checks conditions that facts meet, and conditions that they do not.
func TestConditions_OfFacts(t *testing.T) {
	f := Facts{Lines: 3, Functions: []string{"a", "b"}, HasInput: true, Calls: []string{"len"}, Has: Loop | Long}
	for words, want := range map[string]bool{
		"loop": true, "while": false, "loop while": false, "loop not while": true, "not loop": false,
		"short": true, "long": false, "several": true, "input": true, "question": false,
		"len()": true, "append()": false, "loop len()": true,
	} {
		c, err := parseCondition(strings.Fields(words))
		expect.OK(t, err)
		if got := c.holds(f.features(), f.Calls); got != want {
			t.Errorf("%q holds: %v, want %v", words, got, want)
		}
	}
	if Feature(1)<<(len(featureNames)-1) != Question {
		t.Errorf("%d names for the features, the last of which is %b", len(featureNames), Question)
	}
	if len((&Facts{}).slots(func(int) int { return 0 })) != len(slotNames) {
		t.Error("slots and their names differ in number")
	}
}

func BenchmarkCompose(b *testing.B) {
	s, err := Builtin(Default)
	expect.OK(b, err)
	facts := syntheticFacts(1000)
	assigned := assignments(s, len(facts), 9)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Compose(facts[i%1000], assigned[i%1000]); err != nil {
			b.Fatal(err)
		}
	}
}
