package teacher

import (
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
	if err != nil {
		t.Fatal(err)
	}
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

func TestChecks(t *testing.T) {
	after := func(old, new string) func(*dataset.Rewritten) {
		return func(r *dataset.Rewritten) {
			if !strings.Contains(r.OutputPassiveAggressive, old) {
				t.Fatalf("the sample has no %q", old)
			}
			r.OutputPassiveAggressive = strings.Replace(r.OutputPassiveAggressive, old, new, 1)
		}
	}
	add := func(text string) func(*dataset.Rewritten) {
		return func(r *dataset.Rewritten) { r.OutputPassiveAggressive += " " + text }
	}
	source := func(code string) func(*dataset.Rewritten) {
		return func(r *dataset.Rewritten) {
			r.OutputPassiveAggressive = strings.Replace(r.OutputPassiveAggressive, r.OutputOriginal, code, 1)
			r.OutputOriginal = code
		}
	}
	for _, c := range []struct {
		name   string
		change func(*dataset.Rewritten)
		fails  string // the checks that must fail, separated by spaces; no other may fail
	}{
		{"as it is", nil, ""},
		{"source does not parse", source("def f(x)\n    return x  # forty characters or more"), "S1 A4"},
		{"source is Python 2", source("print 'hello to everybody out there, dear world'"), "S1 A4"},
		{"source is too short", source("x = 1"), "S2 A4 A9"},
		{"source is too long", source(sampleCode + strings.Repeat("\nprint('and once more with feeling')", 40)), "S2 A9"},
		{"cut in a sentence", add("And so it goes on and"), "A1"},
		{"cut in a fence", func(r *dataset.Rewritten) {
			r.OutputPassiveAggressive = r.OutputPassiveAggressive[:strings.LastIndex(r.OutputPassiveAggressive, "```")]
		}, "A1 A2"},
		{"untagged fence", after("```python", "```"), "A2"},
		{"a fence of another language", after("```python", "```javascript"), "A2"},
		{"placeholder left", add("[[CODE_1]] is above."), "A2 A5"},
		{"a placeholder in small letters", add("There is [[code_2]] too."), "A2 A5"},
		{"an indented block", add("There:\n\n    print(total(prices))\n\nFine."), "A2"},
		{"output after a tab", add("There:\n\n\tfine\n\nFine."), "A2"},
		{"an indented line of a paragraph", add("There:\n    fine."), ""},
		{"nothing is asked", func(r *dataset.Rewritten) { r.Instruction, r.Input = " ", "[3, 4, 5]?" }, "S2"},
		{"source and question are too long", func(r *dataset.Rewritten) { r.Input = strings.Repeat("more of it ", 160) },
			"S2 A9"},
		{"source in the voice", source("# Sigh. Obviously nobody read the docs, I suppose.\n" + sampleCode), "S3"},
		{"a renamed variable", after("result += price", "result += prices"), "A3"},
		{"a changed number", after("[3, 4, 5]", "[3, 4, 6]"), "A3"},
		{"a comment added", after("result = 0", "result = 0  # start at nothing"), ""},
		{"unknown name", add("Try `reduce_all` some day."), "A4"},
		{"builtin name", add("Try `sum` some day."), ""},
		{"code from known names", add("Try `total(prices)` some day."), ""},
		{"a literal that is not there", add("Try `total(prices) + 77` some day."), "A4 A11"},
		{"a part of a name", add("There is `pric` in it."), "A4"},
		{"meta in the middle", add("Here's the rewritten answer."), "A5"},
		{"meta about constraints", add("As per your constraints, that is all."), "A5"},
		{"leak", add("QUESTION: what now?"), "A5"},
		{"persona", add("A Principal Engineer would weep."), "A5"},
		{"refusal", add("As an AI language model I have no opinion."), "A6"},
		{"help is not refusal", add("I can't help but sigh."), ""},
		{"no tone", func(r *dataset.Rewritten) {
			r.OutputPassiveAggressive = "This function goes over the list of prices and adds each of them to a running sum, " +
				"which it then hands back to whoever asked for it at the end.\n\n```python\n" + sampleCode + "\n```"
		}, "A7"},
		{"profanity", add("What a damn shame, you idiot."), "A8"},
		{"too few words", func(r *dataset.Rewritten) {
			r.OutputPassiveAggressive = "Sigh. Obviously you need twenty more words than these.\n\n```python\n" + sampleCode +
				"\n```\n\nSeriously."
		}, "A9"},
		{"too many words", add(strings.Repeat("And another thing that I have to spell out for you, since nobody reads "+
			"anything any more. ", 14)), "A9 A14"},
		{"a loop", add(strings.Repeat("I suppose so. ", 3)), "A14"},
		{"a refrain", add("I suppose so. I said: I suppose so. I suppose so."), ""},
		{"an invented number", add("The output is 12."), "A11"},
		{"an invented list", add("The output, of course, is:\n\n['Python', 'Fun']."), "A11"},
		{"a number of the source", add("It returns 0 for nothing, seriously."), ""},
		{"an invented block", add("And the result:\n\n```python\n12\n```\n\nFine."), "A11"},
		{"a token trace", add("That is all.<|eot_id|>."), "A12"},
		{"a broken character", add("That is all\ufffd."), "A12"},
		{"spaces lost in code", func(r *dataset.Rewritten) {
			source("def line(words):\n    joined = ' '.join(words)\n    return joined\n\nprint(line(['total', 'prices']))")(r)
			r.OutputPassiveAggressive = strings.Replace(r.OutputPassiveAggressive, "' '.join", "''.join", 1)
		}, "A3 A4 A12"},
	} {
		row := sample(c.change)
		var failed []string
		var values []string
		for _, k := range Audit(passiveAggressive(t), Python, row) {
			if !k.Pass {
				failed = append(failed, k.ID)
				values = append(values, k.ID+": "+k.Value)
			}
			if k.Value == "" {
				t.Errorf("%s: %s has no value", c.name, k.ID)
			}
		}
		got := map[string]bool{}
		for _, id := range failed {
			got[id] = true
		}
		want := map[string]bool{}
		for _, id := range strings.Fields(c.fails) {
			want[id] = true
		}
		for id := range want {
			if !got[id] {
				t.Errorf("%s: %s passed", c.name, id)
			}
		}
		for id := range got {
			if !want[id] {
				t.Errorf("%s: %s failed too: %q", c.name, id, values)
			}
		}
	}
}

// TestSentences adds one sentence to a row that passes every check, with or without a question about its topic.
func TestSentences(t *testing.T) {
	for _, c := range sentenceTable {
		row := sample(func(r *dataset.Rewritten) {
			r.Instruction += c.question
			r.OutputPassiveAggressive += " " + c.text
		})
		var failed []string
		for _, k := range Audit(passiveAggressive(t), Python, row) {
			if !k.Pass {
				failed = append(failed, k.ID)
			}
		}
		if got := strings.Join(failed, " "); got != c.fails {
			t.Errorf("%q (asked:%q): %q failed, want %q", c.text, c.question, got, c.fails)
		}
	}
}

var sentenceTable = []struct{ question, text, fails string }{
	{"", "The sum of these is 12.", "A11"},
	{"", "That comes to 12.", "A11"},
	{"", "`total([3, 4, 5])` gives 12.", "A11"},
	{"", "The average is 7.1667.", "A11"},
	{"", "The output is 1,200.", "A11"},
	{"", "You end up with [12, 13].", "A11"},
	{"", "The list becomes [3, 7, 12].", "A11"},
	{"", "The list becomes [3, 4, 5].", ""},
	{"", "It prints True.", "A11"},
	{" Return True or False.", "It prints True.", ""},
	{"", "The result is `False`.", "A11"},
	{"", "The output is `[3, 5]`.", "A11"},
	{"", "It returns `[5, 4]`.", "A11"},
	{"", "It prints `[]`.", "A11"},
	{"", "It returns `result`.", ""},
	{"", "It prints '\\n'.", "A11"},
	{" Put '\\n' after it.", "It prints '\\n'.", ""},
	{" sum of 3 1 2", "The output is 312.", "A11"},
	{" sum of 3 1 2", "The output is 31.", "A11"},
	{" sum of x1", "The output is 1.", "A11"},
	{" sum of -7", "The output is 7.", "A11"},
	{" sum of -7", "The output is -7.", ""},
	{" sum of 7", "The output is -7.", "A11"},
	{" sum of 9-7", "The output is 7.", ""},
	{"", "The output is 42 of course.", "A11"},
	{"", "Obviously 7.25 it is.", "A11"},
	{" Try 7.25 first.", "Obviously 7.25 it is.", ""},
	{"", "Look at (12, 13) some day.", "A11"},
	{"", "Look at [3, 4] some day.", "A11"},
	{"", "Look at {'a': 1, 'b': 2} some day.", "A11"},
	{"", "Look at [sigh, again] some day (1, or so).", ""},
	{"", "The output is \"olleh\", obviously.", "A11"},
	{"", "The result is \"olleh\".", "A11"},
	{" Say \"Hello, World!\".", "It prints \"hello, world!\"", ""},
	{"", "The answer was 10 seconds away in a search engine.", ""},
	{"", "This returns, in 7 lines, what you wanted.", ""},
	{"", "It gives you 1 less excuse.", ""},
	{"", "The result is \"helpful\", I am told.", ""},
	{"", "The result is \"helpful,\" I am told.", ""},

	{"", "In CODE_1 you will find it.", "A5"},
	{"", "As [[Code_1]] shows.", "A2 A5"},
	{"", "See the placeholder above.", "A5"},
	{" Use a placeholder.", "See the placeholder above.", ""},
	{"", "Here is a sarcastic version of the answer.", "A5"},
	{"", "Here is the answer in a condescending tone:", "A5"},
	{"", "All in the requested tone.", "A5"},
	{"", "It is as instructed.", "A5"},
	{"", "It is dripping with sarcasm as asked.", "A5"},
	{"", "That was the revised version.", "A5"},
	{"", "That was about 60 words.", "A5"},
	{" Cut a text to 60 words.", "That was about 60 words.", ""},
	{"", "As a weary senior engineer who has answered this too often, I sigh.", "A5"},
	{"", "QUESTION: what now?", "A5"},
	{"", "Fine.\n\nQuestion: what now?", "A5"},
	{"", "One question: did you even try?", ""},
	{"", "Let me answer your question: no.", ""},
	{"", "It meets the given constraints.", "A5"},
	{" Mind the constraints.", "It meets the given constraints.", ""},
	{"", "It is the user prompt.", "A5"},
	{" Show a user prompt.", "It is the user prompt.", ""},
	{"", "What a persona.", "A5"},
	{" Describe a persona.", "What a persona.", ""},
	{" Rewrite the loop.", "There, I rewrote it.", ""},

	{"", "I'm sorry, but I thought this was obvious.", ""},
	{"", "I'm sorry, but I can't believe that you asked.", ""},
	{"", "I can't help you if you will not read.", ""},
	{"", "I cannot provide the motivation, only the code.", ""},
	{"", "I'm sorry, but I can't do that.", "A6"},
	{"", "I’m sorry, but I can’t do that.", "A6"},
	{"", "I can't help you with that.", "A6"},
	{"", "I cannot create content that is demeaning.", "A6"},
	{"", "I must decline to be rude.", "A6"},
	{"", "I must respectfully decline.", "A6"},
	{"", "I won't be condescending to users.", "A6"},
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
			var all [][3]int // by only the pattern, at every beginning of a word
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

// anywhere are the patterns of statedResults, for any place in a sentence.
var anywhere = func() (all []*regexp.Regexp) {
	for _, s := range statedResults {
		all = append(all, regexp.MustCompile(strings.Replace(s.pattern.String(), "^(?i)", `(?i)\b`, 1)))
	}
	return all
}()

func TestPreFilters(t *testing.T) {
	for _, c := range sentenceTable {
		checkPreFilters(t, c.text)
	}
	// The words of the alternatives that no sentence above has.
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
	for _, c := range sentenceTable {
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

// TestOriginal runs the checks on the 576 rows that the first implementation of the idea made. It compares six
// conditions with counts measured by other means (CPython's ast, patterns, reading).
func TestOriginal(t *testing.T) {
	b, err := os.ReadFile(expect.Reference(t, "data/instruct/original_passive_aggressive_data.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []dataset.Rewritten
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	parse := func(string) error { return nil }
	if program, err := exec.LookPath("python3"); err != nil {
		t.Log("there is no python3 to compare with")
	} else {
		p, err := StartCPython(program)
		if err != nil {
			t.Fatal(err)
		}
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

// TestSecondBlock changes each of two blocks of code in turn.
func TestSecondBlock(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
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
		{sourceLength, maxSource, maxRow - maxSource - 1, 0, true}, // and a newline
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
