package teacher

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/voice"
)

func passiveAggressive(t testing.TB) *voice.Style {
	t.Helper()
	s, err := voice.Builtin(voice.Default)
	expect.OK(t, err)
	return s
}

const sampleCode = "def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n    " +
	"return result\n\nprint(total([3, 4, 5]))"

// A sample is a row that passes every check. A test changes one part of it.
func sample(change func(*dataset.Rewritten)) dataset.Rewritten {
	r := dataset.Rewritten{
		Instruction:    "Write a Python function that adds up a list of prices.",
		OutputOriginal: sampleCode,
		OutputPassiveAggressive: "Oh good, another list that nobody could be bothered to add up. I suppose somebody has to " +
			"do it, and obviously that somebody is me again.\n\n" +
			"```python\n" + sampleCode + "\n```\n\nThe function `total` walks over `prices` one at a time. Seriously, it is " +
			"fine. Read the docs some day.",
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestAudit_ChangedRows(t *testing.T) {
	for _, c := range expect.Cases(t, "testdata/checks.txt", "source", "answer", "replace", "with", "add", "question",
		"input", "fails") {
		want := strings.Fields(c.Get("fails"))
		slices.Sort(want)
		if got := failing(t, sample(func(r *dataset.Rewritten) { change(t, r, c) })); !slices.Equal(got, want) {
			t.Errorf("%s: %q failed, want %q", c.Name, got, want)
		}
	}
}

// TestBanned_OfTheSource checks that a restated answer may have a banned word that its source has, but an answer
// around code may not.
func TestBanned_OfTheSource(t *testing.T) {
	const novel = "Moby-Dick has about 600 pages, and was published in London in 1851."
	for _, c := range []struct{ language, source, text, want string }{
		{NoLanguage, novel, "Moby-Dick, of course.", "A8 true none"},
		{NoLanguage, novel, "Moby-Dick, damn it, and damn the rest.", `A8 false it uses "damn"`},
		{NoLanguage, strings.ReplaceAll(novel, "Moby-Dick", "Emma"), "Moby-Dick, of course.", `A8 false it uses "dick"`},
		{Python, "Moby-Dick:\n```python\npages = 600\n```\n", "Moby-Dick, of course.", `A8 false it uses "dick"`},
	} {
		if got := verdictsOf("A8", c.language, "How long is it?", c.source, c.text); got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.language, c.text, got, c.want)
		}
	}
}

// change makes the changes of a case.
func change(t *testing.T, r *dataset.Rewritten, c expect.Case) {
	t.Helper()
	replace := func(old, new string) {
		if !strings.Contains(r.OutputPassiveAggressive, old) {
			t.Fatalf("%s: the sample has no %q", c.Name, old)
		}
		r.OutputPassiveAggressive = strings.Replace(r.OutputPassiveAggressive, old, new, 1)
	}
	get := func(key string) string { return strings.ReplaceAll(c.Get(key), "$code", sampleCode) }
	if source := get("source"); source != "" {
		replace(r.OutputOriginal, source)
		r.OutputOriginal = source
	}
	if answer := get("answer"); answer != "" {
		r.OutputPassiveAggressive = answer
	}
	replace(c.Get("replace"), c.Get("with"))
	for _, text := range c.All("add") {
		r.OutputPassiveAggressive += " " + text
	}
	r.Instruction = cmp.Or(c.Get("question"), r.Instruction)
	r.Input = strings.Join(c.All("input"), " ")
}

// failing returns the checks that a row fails, sorted.
func failing(t *testing.T, row dataset.Rewritten) (ids []string) {
	t.Helper()
	for _, k := range Audit(passiveAggressive(t), Python, row) {
		if !k.Pass {
			ids = append(ids, k.ID)
		}
		if k.Value == "" {
			t.Errorf("%s has no value", k.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// TestAudit_AddedSentences adds one sentence to a row that passes every check, with or without a question about its
// topic.
func TestAudit_AddedSentences(t *testing.T) {
	for _, c := range sentenceTable(t) {
		got := failing(t, sample(func(r *dataset.Rewritten) {
			r.Instruction += c.question
			r.OutputPassiveAggressive += " " + c.text
		}))
		if got := strings.Join(got, " "); got != c.fails {
			t.Errorf("%q (asked:%q): %q failed, want %q", c.text, c.question, got, c.fails)
		}
	}
}

type sentenceCase struct{ question, text, fails string }

func sentenceTable(t testing.TB) (table []sentenceCase) {
	t.Helper()
	for _, c := range expect.Cases(t, "testdata/sentences.txt", "asked", "text") {
		s := sentenceCase{fails: c.Name}
		if c.Name == "nothing" {
			s.fails = ""
		}
		if asked := c.Get("asked"); asked != "" {
			s.question = " " + asked
		}
		for _, s.text = range c.All("text") {
			table = append(table, s)
		}
	}
	return table
}

// checkPreFilters fails if a list of words hides a match of its patterns.
func checkPreFilters(t *testing.T, text string) {
	t.Helper()
	c := &candidate{prose: text}
	for _, f := range []struct {
		name     string
		list     uint8
		patterns *regexp.Regexp
	}{
		{"meta", metaTalk, metaPatterns}, {"asked", askedTalk, askedPatterns}, {"refusal", refusalTalk, refusalPatterns},
	} {
		if m := f.patterns.FindString(text); m != c.mentions(f.list, f.patterns, func(string) bool { return true }) {
			t.Errorf("the words of %s hide %q", f.name, m)
		}
	}
	if m := leakPatterns.FindString(text); m != "" && c.talk()&leakTalk == 0 {
		t.Errorf("the words of leaks hide %q", m)
	}
	if m := tokenTraces.FindString(text); m != traceIn(text) {
		t.Errorf("the words of traces hide %q", m)
	}
	for sentence := range sentences(text) {
		for i, s := range statedResults {
			var fast [][3]int
			for at := range stated(sentence, s) {
				fast = append(fast, at)
			}
			var all [][3]int // only by the pattern, at the start of every word
			for _, m := range anywhere[i].FindAllStringSubmatchIndex(sentence, -1) {
				all = append(all, [3]int{m[0], m[2], m[3]})
			}
			if !slices.Equal(fast, all) || len(all) > 0 && !mayState(sentence) {
				t.Errorf("results in %q: found at %v, with a value that may be stated: %t; by the pattern alone %v", sentence, fast,
					mayState(sentence), all)
			}
		}
	}
	for _, m := range precise.FindAllString(text, -1) {
		if !mayBePrecise(text) {
			t.Errorf("a value as precise as %q is hidden in %q", m, text)
		}
	}
}

// anywhere has the patterns of statedResults, for any place in a sentence.
var anywhere = func() (all []*regexp.Regexp) {
	for _, s := range statedResults {
		all = append(all, regexp.MustCompile(strings.Replace(s.pattern.String(), "^(?i)", `(?i)\b`, 1)))
	}
	return all
}()

func TestPreFilters_HideNoMatch(t *testing.T) {
	for _, c := range sentenceTable(t) {
		checkPreFilters(t, c.text)
	}
	// These are words of the alternatives that no sentence above has.
	for _, text := range []string{
		"It was rewritten.", "A passive-aggressive one.", "In a voice of a weary man.", "As per your request.",
		"The right persona.", "A snarky reply.", "A rude explanation.", "The reworded answer.", "The rephrased response.",
		"Condescension as ordered.", "In the given register.", "A principal engineer.",
		"The original answer.", "few-shot", "<code", "As an AI.", "As an artificial intelligence.", "As a language model.",
		"I'm unable to help.", "I am not able to comply.", "I will decline.", "Against my guidelines.", "</s>", "a<s>",
		"\u0120a", "\u010a", "a\u2581b", "\ufffd", "<|end_of_text|>", "<0x0A>", "[INST]", "[/INST]", "I can not assist.",
		"I will not comply.", "It yields 7.", "It evaluates to 7.", "It amounts to 7.", "It adds up to 7.",
		"It sums to 7.", "It leaves you with 7.", "It turns into 7.", "It spits out 7.", "It equals 7.", "It produces 7.",
		"You'll see 7.", "You get 7.", "It displays None.", "Outputting 7.", "The mean is 7.", "The median is 7.",
		"The product is 7.", "The maximum is 7.", "The minimum is 7.", "The count is 7.", "The length is 7.",
		"The difference is 7.", "The total = 7.", "It results in 7.", "Printing 7.", "Returning 7.", "It comes back as 7.",
		"It comes out with True.", "The return value: 7.",
	} {
		hits := anywhere[0].MatchString(text) || anywhere[1].MatchString(text) || tokenTraces.MatchString(text) ||
			metaPatterns.MatchString(text) ||
			askedPatterns.MatchString(text) || leakPatterns.MatchString(text) || refusalPatterns.MatchString(text)
		if !hits {
			t.Errorf("no pattern finds anything in %q", text)
		}
		checkPreFilters(t, text)
	}
}

// FuzzAudit checks that no row makes a check panic, that the lists of words hide no match, and that a source contains
// its own code.
func FuzzAudit(f *testing.F) {
	style := passiveAggressive(f)
	for _, c := range sentenceTable(f) {
		f.Add(c.question, sampleCode, c.text)
	}
	f.Add("", "x = '\\n' - -5", "It prints `` ` `` and [`'\\n'`], (-5, 1).")
	f.Fuzz(func(t *testing.T, question, source, text string) {
		Audit(style, Python, dataset.Rewritten{Instruction: question, OutputOriginal: source, OutputPassiveAggressive: text})
		checkPreFilters(t, text)
		var c *candidate
		hostile.Within(t, hostile.Linear(len(question)+len(source)+len(text)), func() {
			c = newCandidate(style, question, split(source), text)
		})
		for _, s := range append(c.parts.Blocks, question) {
			if !c.has(s) {
				t.Errorf("%q does not contain %q", c.source, s)
			}
		}
	})
}

// TestAudit_OriginalRows runs the checks on the 576 rows that the first implementation of the idea made. It compares
// six conditions with counts measured by other means (CPython's ast, patterns, reading).
func TestAudit_OriginalRows(t *testing.T) {
	b, err := os.ReadFile(expect.Reference(t, "data/instruct/original_passive_aggressive_data.json"))
	expect.OK(t, err)
	var rows []dataset.Rewritten
	expect.OK(t, json.Unmarshal(b, &rows))
	parse := func(string) error { return nil }
	if program, err := exec.LookPath("python3"); err != nil {
		t.Log("there is no python3 to compare with")
	} else {
		p, err := StartCPython(program)
		expect.OK(t, err)
		defer p.Close()
		parse = func(code string) error {
			wrong, err := p.Parse(code)
			if wrong != "" {
				err = errors.New(wrong)
			}
			return err
		}
	}
	original(t, rows, parse)
}

func original(t *testing.T, rows []dataset.Rewritten, parse func(string) error) {
	style := passiveAggressive(t)
	counts := map[string]int{}
	var cumulative [6]int
	all := map[string]int{}
	clean := 0
	for i, row := range rows {
		c := newCandidate(style, dataset.Question(row.Instruction, row.Input), split(row.OutputOriginal),
			row.OutputPassiveAggressive)
		checkPreFilters(t, row.OutputPassiveAggressive)
		verdict := func(f func(*candidate) (bool, string)) bool { ok, _ := f(c); return ok }
		parses := verdict(sourceIsCode)
		if parses {
			if err := parse(row.OutputOriginal); err != nil {
				t.Errorf("row %d parses, and Python says: %v", i, err)
			}
		}
		fenced, unclosed := false, false
		for _, p := range c.pieces {
			fenced = fenced || p.code
			unclosed = unclosed || p.code && !p.closed
		}
		equal := verdict(codeKept)
		whole := verdict(endsWhole)
		leak := leakPatterns.MatchString(row.OutputPassiveAggressive)
		meta := metaPatterns.MatchString(row.OutputPassiveAggressive)
		conditions := []struct {
			name string
			ok   bool
		}{{"parses", parses}, {"closed fence", fenced && !unclosed}, {"code equal", equal}, {"whole", whole},
			{"no meta", !meta}, {"no leak", !leak}}
		good := true
		for k, cond := range conditions {
			if cond.ok {
				counts[cond.name]++
			}
			if good = good && cond.ok; good {
				cumulative[k]++
			}
		}
		if meta || leak {
			counts["meta or leak"]++
		}
		ok := true
		for _, k := range Audit(style, Python, row) {
			if !k.Pass {
				all[k.ID]++
				ok = false
			}
		}
		if ok {
			clean++
		}
		// Faults found by reading, each with the check that must find it.
		for _, known := range []struct {
			row int
			id  string
		}{{187, "A12"}, {109, "A12"}, {252, "A12"}, {320, "A12"}, {552, "A11"}, {100, "A11"}, {429, "A3"}, {429, "A5"}} {
			if known.row != i {
				continue
			}
			for _, k := range Audit(style, Python, row) {
				if k.ID == known.id && k.Pass {
					t.Errorf("row %d passes %s", i, k.ID)
				}
			}
		}
	}
	t.Logf("conditions %v, cumulative %v", counts, cumulative)
	t.Logf("rows that fail each check %v; %d fail none", all, clean)
	// The differences: "code equal" also counts row 450, whose source does not parse but is repeated verbatim, and row
	// 19, whose fence is not closed; "no meta" misses rows 5, 310 and 525, which use "rewrite" in another sense ("the
	// entire book"), and row 258, whose question asks to re-write something.
	for _, want := range []struct {
		name     string
		n, slack int
	}{
		{"parses", 514, 0}, {"closed fence", 411 - 16, 3}, {"code equal", 303, 2}, {"whole", 576 - 31, 6},
		{"no meta", 576 - 251, 5}, {"no leak", 576 - 47, 3}, {"meta or leak", 279, 5},
	} {
		if d := counts[want.name] - want.n; d > want.slack || d < -want.slack {
			t.Errorf("%s: %d rows, measured %d", want.name, counts[want.name], want.n)
		}
	}
	for k, want := range []int{514, 362, 302, 298, 192, 180} {
		if d := cumulative[k] - want; d > 4 || d < -4 {
			t.Errorf("after %d conditions: %d rows, measured %d", k+1, cumulative[k], want)
		}
	}
}

// TestLongSources checks that rows of megabytes fail S2 without being parsed.
func TestLongSources(t *testing.T) {
	code := strings.Repeat("x = [1, 2, 3]\n", 700_000)
	r := &Run{Style: passiveAggressive(t)}
	assigner := newAssigner(r.Style, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, row := range []dataset.Row{{Instruction: "Why?", Output: code}, {Instruction: code, Output: sampleCode},
		{Instruction: "Why?", Input: code, Output: sampleCode}} {
		if _, unfit, err := r.examine(row, assigner); err != nil || unfit == nil || unfit.ID != "S2" {
			t.Errorf("%+v, %v", unfit, err)
		}
	}
	rewritten := sample(func(r *dataset.Rewritten) { r.OutputPassiveAggressive += code })
	if v := Audit(r.Style, Python, rewritten); len(v) != 1 || v[0].Pass || v[0].ID != "S2" {
		t.Errorf("%+v", v)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("it took %d MiB", took>>20)
	}
}

// TestCodeKept_SecondBlock changes each of two blocks of code in turn.
func TestCodeKept_SecondBlock(t *testing.T) {
	const one, two = "def area(width, height):\n    return width * height", "print(area(3, 4))\nprint(area(5, 6))"
	style := passiveAggressive(t)
	parts := split("First:\n```python\n" + one + "\n```\nThen:\n```python\n" + two + "\n```\n")
	for _, c := range []struct {
		one, two string
		pass     bool
	}{
		{one, two, true},
		{one + "  # a remark", two + "  # and another", true},
		{strings.Replace(one, "*", "+", 1), two, false},
		{one, strings.Replace(two, "4", "5", 1), false},
		{two, one, false},
	} {
		text, err := Parts{Blocks: []string{c.one, c.two}}.join("So.\n[[CODE_1]]\nAnd.\n[[CODE_2]]\nFine.")
		expect.OK(t, err)
		if pass, value := codeKept(newCandidate(style, "How?", parts, text)); pass != c.pass {
			t.Errorf("%q and %q: %v, %s", c.one, c.two, pass, value)
		}
	}
}

// TestToneBounds sets each limit of a style to exactly what a text has, which must pass, and then one step tighter,
// which must not.
func TestToneBounds(t *testing.T) {
	row := sample(nil)
	text := row.OutputPassiveAggressive
	tone := passiveAggressive(t).Tone(voice.Read(text))
	for _, c := range []struct {
		name   string
		change func(*voice.Style)
		pass   bool
	}{
		{"the score", func(s *voice.Style) { s.MinScore = tone.Score }, true},
		{"a higher score", func(s *voice.Style) { s.MinScore = tone.Score + 1 }, false},
		{"the cues", func(s *voice.Style) { s.MinCues = len(tone.Cues) }, true},
		{"more cues", func(s *voice.Style) { s.MinCues = len(tone.Cues) + 1 }, false},
		{"the least density", func(s *voice.Style) { s.Density[0] = tone.Density }, true},
		{"more density", func(s *voice.Style) { s.Density[0] = math.Nextafter(tone.Density, 1000) }, false},
		{"the most density", func(s *voice.Style) { s.Density[1] = tone.Density }, true},
		{"less density", func(s *voice.Style) { s.Density[1] = math.Nextafter(tone.Density, 0) }, false},
	} {
		style := *passiveAggressive(t)
		style.MinScore, style.MinCues, style.Density = 0, 0, [2]float64{0, 1000}
		c.change(&style)
		if pass, value := toneThere(newCandidate(&style, row.Instruction, split(row.OutputOriginal), text)); pass != c.pass {
			t.Errorf("%s: %v, %s", c.name, pass, value)
		}
	}
}

// TestLengthBounds checks texts at each limit of length, and one character beyond it.
func TestLengthBounds(t *testing.T) {
	style := *passiveAggressive(t)
	of := func(code, question, text int) *candidate {
		s := style
		s.Words = [2]int{1, 1}
		return newCandidate(&s, strings.Repeat("ä", question), Parts{Blocks: []string{strings.Repeat("x", code)},
			Text: placeholder(1)}, strings.Repeat("ä", text))
	}
	for _, c := range []struct {
		f                    func(*candidate) (bool, string)
		code, question, text int
		pass                 bool
	}{
		{sourceLength, minSource, 10, 0, true},
		{sourceLength, minSource - 1, 10, 0, false},
		{sourceLength, maxSource, 10, 0, true},
		{sourceLength, maxSource + 1, 10, 0, false},
		{sourceLength, maxSource, maxRow - maxSource - 1, 0, true}, // plus a newline
		{sourceLength, maxSource, maxRow - maxSource, 0, false},
		{lengthRight, 1000, 100, maxRow - 100, true},
		{lengthRight, 1000, 100, maxRow - 99, false},
		{lengthRight, 100, 10, 100 * maxRatio, true},
		{lengthRight, 100, 10, 100*maxRatio + 1, false},
	} {
		if pass, value := c.f(of(c.code, c.question, c.text)); pass != c.pass {
			t.Errorf("%+v: %v, %s", c, pass, value)
		}
	}
	for words := 1; words <= 4; words++ {
		s := style
		s.Words = [2]int{2, 3}
		c := newCandidate(&s, "q", Parts{Blocks: []string{strings.Repeat("x", 100)}}, strings.Repeat("word ", words))
		if pass, value := lengthRight(c); pass != (words == 2 || words == 3) {
			t.Errorf("%d words: %v, %s", words, pass, value)
		}
	}
	if tooLong("", strings.Repeat("a", maxLook-1), "b") != nil || tooLong("a", strings.Repeat("a", maxLook-1),
		"b") == nil {
		t.Error("the longest row that is parsed")
	}
}
