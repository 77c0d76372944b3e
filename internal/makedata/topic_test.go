package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

const topicText = `-- double/do --
double $n
{multiply|times} $n by two
get twice of $n
add $n to itself
work out 2 * $n
-- double/of --
doubling
doubling a number
-- double/what --
the double
-- double/say --
twice $n is?
i want {twice $n|}{| of} {it |}now
how much is two times $n
$n + $n
2x$n
-- double/other --
Whats double of $n
if i have two of $n
two $n
-- double/draw --
n = 7 | int 3 20
i = 1 | int 1 2
-- double/code.py --
def double(n):
    return 2 * n


print(double($n), "".double)
-- double/check.py --
#include positive.py
assert functions[-1]($n) == 2 * $n
-- double/also --
twice
-- double/then1 --
without a function
no function
just print
print only
no def
one line
-- double/then1.ways --
no_function
without def|a function
-- double/then1.py --
print(2 * $n)
-- double/then1check.py --
assert printed
`

func readText(text string) ([]Topic, error) {
	files := fstest.MapFS{"topics/sums.txtar": {Data: []byte(text)}}
	return topics(files, map[string]string{"positive.py": "assert $n > 0"})
}

func TestTopics_AreReadAndAsked(t *testing.T) {
	all, err := readText(topicText)
	expect.OK(t, err)
	// Every answer is for the number that its question has, in digits or in letters, or else for the usual one.
	d := newDraw(1, "test")
	lower, marked := 0, 0
	const count = 3000
	for range count {
		row, err := all[0].row(d)
		expect.OK(t, err)
		want := "7"
		for n := range 21 {
			spoken := strconv.Itoa(n)
			if n > 2 && n < len(numberWords) {
				spoken += "|" + numberWords[n]
			}
			if regexp.MustCompile(`(^|[ x])(`+spoken+`)($|[ .,?])`).MatchString(row.Instruction) && n > 2 {
				want = strconv.Itoa(n)
			}
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(row.Output, "def "), "(")
		code := "def " + name + "(n):\n    return 2 * n\n\n\nprint(" + name + "(" + want + "), \"\".double)"
		if row.Output != code || name != "double" && !strings.Contains(row.Instruction, name) {
			t.Errorf("%q is answered by\n%s", row.Instruction, row.Output)
		}
		if strings.Contains(row.Instruction, "  ") {
			t.Errorf("two spaces in %q", row.Instruction)
		}
		if row.Instruction == strings.ToLower(row.Instruction) {
			lower++
		}
		if strings.HasSuffix(row.Instruction, "?") {
			marked++
		}
	}
	if lower < count/2 || lower > count*3/4 || marked < count/20 || marked > count/2 {
		t.Errorf("of %d questions, %d are in lower case and %d end in a question mark", count, lower, marked)
	}
	row, err := all[0].asked(newDraw(1, "held"), all[0].Other[1])
	expect.OK(t, err)
	then, err := all[0].then(all[0].Then[0], "no def", row)
	n := strings.Trim(row.Instruction, "abcdefghijklmnopqrstuvwxyz ")
	if err != nil || then.Output != "print(2 * "+n+")" || then.Instruction != "no def" {
		t.Errorf("%q then %q is answered by %q, %v", row.Instruction, then.Instruction, then.Output, err)
	}
}

func TestMistakesInTopicsAreNamed(t *testing.T) {
	for _, test := range []struct{ name, old, new, want string }{
		{"none", "", "", ""},
		{"unknown section", "double/of", "double/for", "topics/sums.txtar:7: section double/for: unknown"},
		{"few lines", "-- double/of --\ndoubling\ndoubling a number\n", "", "11 lines of do, of, what and say"},
		{"few in other words", "two $n\n", "", "2 questions in other words"},
		{"asked twice", "two $n\n", "Two times doubling?\nDoubling!\n", `"Doubling!" stands there twice`},
		{"no answer", "-- double/code.py --", "-- double/code.py --\nx\n-- double/draws --", "double/draws: unknown"},
		{"two answers", "-- double/check.py", "-- double/answer.txt --\nTwice.\n-- double/check.py", "and not both"},
		{"check of words", "code.py", "answer.txt", "must use answer"},
		{"unknown slot", "get twice of $n", "get twice of $m", "$m"},
		{"unknown include", "positive.py", "negative.py", "negative.py"},
		{"bad default", "n = 7", "n = seven", "n = seven: not of the kind int"},
		{"bad draw", "int 3 20", "float 2 20", "values come from int"},
		{"bounds", "int 3 20", "int 2", "values come from int"},
		{"bounds", "int 3 20", "int 30 20", "the lower one first"},
		{"more than there are", "int 3 20", "ints 3 9 1 4", "not so many"},
		{"then without check", "double/then1check.py", "double/then2check.py", "at least six lines"},
		{"slot of the function's name", "def double", "def n", "a slot has the name of its function"},
		{"choices in then", "just print\n", "just {print|show}\n", "a follow-up has no choices"},
		{"unknown way", "no_function", "no_functions", "ways.txtar has no section no_functions"},
		{"way without values", "without def|a function", "without", "values for it, or neither"},
		{"then out of turn", "double/then1 --", "double/then3 --", "the next follow-up is then1"},
	} {
		_, err := readText(strings.ReplaceAll(topicText, test.old, test.new))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	if _, err := readText(topicText + "-- triple/do --\nx\n" + topicText); err == nil ||
		!strings.Contains(err.Error(), "section double/do stands there twice") {
		t.Errorf("a topic twice: %v", err)
	}
}

// TestTopics_AnswersAreRight runs the answers of some topics and of their follow-ups against their checks, and checks
// of words against the answers of others. With RESTYLE_LONG it runs them all, which takes a minute.
func TestTopics_AnswersAreRight(t *testing.T) {
	needPython(t)
	all, err := readTopics()
	expect.OK(t, err)
	if os.Getenv("RESTYLE_LONG") == "" {
		all = some(newDraw(1, "sample"), 40, 40, all)
	}
	var rows, words []Row
	for _, topic := range all {
		asked, err := topic.examples(newDraw(1, topic.Name), 1)
		if err != nil {
			t.Fatalf("topic %s: %v", topic.Name, err)
		}
		rows = append(rows, asked[1])
		for _, row := range asked[1+len(topic.Other):] {
			if row.Output != rows[len(rows)-1].Output {
				rows = append(rows, row)
			}
		}
		if asked[0].words {
			words = append(words, asked[0])
		}
	}
	expect.OK(t, verify(t.Context(), rows))
	var shown strings.Builder
	expect.OK(t, accepted(t.Context(), words, &shown))
	if shown.Len() > 0 {
		t.Error(shown.String())
	}
}

// TestBuildTyped checks that no held-out question is trained, that follow-ups have their question before them, and that
// a question that belongs to two topics is found.
func TestBuildTyped(t *testing.T) {
	all, err := readText(topicText)
	expect.OK(t, err)
	kind := Kind{Name: "square", Ask: []string{"Print the square of $n.", "I want the square of $n. Print it."},
		Code: "print($n ** 2)", Draw: func(d Draw) Slots { return Slots{"n": d.Int(30, 99)} }}
	left := []Row{{Instruction: "square of 44?", Output: "print(44 ** 2)"}}
	train, asked, err := buildTyped(1, 0, []Kind{kind, {Name: "unseen"}}, all, left)
	expect.OK(t, err)
	count := map[string]int{}
	questions := map[string]bool{}
	for _, row := range train {
		count[row.kind.Name]++
		questions[same(row.Instruction)] = true
		if strings.ContainsAny(row.Instruction+row.Output, "${}") || row.Output == left[0].Output {
			t.Errorf("%q is answered by %q", row.Instruction, row.Output)
		}
	}
	if count["square"] != typedPerKind || count["double"] != typedPerTopic || len(count) != 2 {
		t.Errorf("rows %v", count)
	}
	if len(asked) != 1 || asked[0].group != "turns" || asked[0].before == nil || questions[same(asked[0].before[0])] {
		t.Errorf("held out %+v", asked)
	}
	for _, row := range asked {
		if questions[same(row.Instruction)] {
			t.Errorf("%q is held out and trained", row.Instruction)
		}
	}
	var rows [3][]Row
	var rounds [3][]Later
	for i := range rounds {
		round := i / 2 // 0, 0, 1
		rows[i], _, err = buildTyped(1, round, nil, all, nil)
		expect.OK(t, err)
		rounds[i], err = followUps(1, round, nil, all, rows[i])
		expect.OK(t, err)
	}
	if len(rounds[0]) == 0 || !slices.Equal(rounds[0], rounds[1]) || slices.Equal(rounds[0], rounds[2]) {
		t.Errorf("rounds of follow-ups: %d, %d and %d", len(rounds[0]), len(rounds[1]), len(rounds[2]))
	}
	if rows[0][0].Instruction != rows[1][0].Instruction || rows[0][0].Instruction == rows[2][0].Instruction {
		t.Errorf("rounds of rows begin with %q, %q and %q", rows[0][0].Instruction, rows[1][0].Instruction,
			rows[2][0].Instruction)
	}
	own := all[0].Then[0]
	shared := own.Ways[0].lines[0]
	asked = nil
	for d := newDraw(1, "ways"); len(asked) < 400; asked = append(asked, Row{Instruction: own.draw(d)}) {
	}
	for line, want := range map[string]bool{own.Ask[heldFollow]: false, own.Ask[0]: true, shared: true} {
		if slices.ContainsFunc(asked, func(r Row) bool { return normal(r.Instruction) == normal(line) }) != want {
			t.Errorf("a follow-up asks %q: %v, want %v", line, !want, want)
		}
	}
	const question = "fizzbuzz" // of typed.tsv, whose questions may be asked about any topic
	if !slices.ContainsFunc(typedQuestions(), func(q typedQuestion) bool { return q.text == question }) {
		t.Fatalf("typed.tsv does not have %q", question)
	}
	again := all[0]
	again.Asks = map[string][]string{"say": {question}}
	train, _, err = buildTyped(1, 0, nil, []Topic{again}, nil)
	if err != nil || slices.ContainsFunc(train, func(r Row) bool { return same(r.Instruction) == question }) {
		t.Errorf("%q is trained: %v", question, err)
	}
	other := all[0]
	other.Name, other.Other, other.Then = "twice", []string{"Twice of $n", "2 of $n", "n n"}, nil
	if _, _, err := buildTyped(1, 0, nil, append(all, other), nil); err == nil ||
		!strings.Contains(err.Error(), "belongs to twice and double: make one of them say more") {
		t.Errorf("two topics with the same questions: %v", err)
	}
}

// TestWays checks that all lines of a way have the slot it or none of them, and that each way is used.
func TestWays(t *testing.T) {
	all, err := ways()
	expect.OK(t, err)
	topics, err := readTopics()
	expect.OK(t, err)
	used := map[string]bool{}
	for _, topic := range topics {
		for _, f := range topic.Then {
			for _, w := range f.Ways {
				used[w.lines[0]] = true
			}
		}
	}
	for name, lines := range all {
		slots := 0
		for _, line := range lines {
			slots += strings.Count(line, itSlot)
		}
		if slots != 0 && slots != len(lines) || !used[lines[0]] {
			t.Errorf("way %s: %d lines with %d slots, used: %t", name, len(lines), slots, used[lines[0]])
		}
	}
}

func FuzzReadTopics(f *testing.F) {
	f.Add(topicText)
	f.Add("-- a/then1 --\n-- a/draw --\nx = [\"a\"] | names 1 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := hostile.Parse(t, text, readText)
		if err != nil {
			return
		}
		for _, topic := range all {
			_, _ = topic.row(newDraw(1, "fuzz")) // a choice may end in a dollar sign
		}
	})
}
