package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/grade"
	"restyle/internal/expect"
)

// TestAskedRows_AnswersAreRight runs the answers to some held-out questions besides those of kinds, many with sentences
// around them, as a model writes. With RESTYLE_LONG it runs them all.
func TestAskedRows_AnswersAreRight(t *testing.T) {
	needPython(t)
	rows := madeSet(t).asked
	count, checks := map[string]int{}, map[string]bool{}
	for _, row := range rows {
		count[row.group]++
		if row.group == "outside" {
			checks[row.check] = true
		}
	}
	if len(checks) != 1 {
		t.Errorf("the questions about something else have %d checks, which bench quality wants to be one", len(checks))
	}
	if diff := cmp.Diff(map[string]int{"typed": 300, "outside": 100, "turns": turnsHeld}, count); diff != "" {
		t.Error(diff)
	}
	if os.Getenv("RESTYLE_LONG") == "" {
		rows = some(newDraw(1, "sample"), 60, 60, rows)
	}
	for i, row := range rows {
		switch {
		case i%2 == 0 || !row.words:
		case strings.Contains(row.Output, "\n"):
			rows[i].Output = "Sure, if you like:\n\n```python\n" + row.Output + "\n```\n\nIt is for a list, not more."
		default:
			rows[i].Output = "I am not one to complain.\n\n" + row.Output + "\n\nIs there more?"
		}
	}
	if err := verify(t.Context(), rows); err != nil {
		t.Error(err)
	}
}

// TestRefusals checks which answers the check of the questions about something else takes.
func TestRefusals(t *testing.T) {
	needPython(t)
	texts, err := textsOfChecks()
	expect.OK(t, err)
	refusals := []string{
		"Sorry, I can't help with that. I only do small Python things: lists, loops and strings.",
		"I know nothing about it; ask me for a Python function instead.",
		"Arr, that be beyond me, matey! I only know Python: functions, loops and files.",
		"How nice of you to ask.\n\nI don\u2019t do weather. Python programs and errors are all I have.\n\n" +
			"You're welcome, I guess.",
		"That is outside of what I was made for. Try a dictionary, a class or an error in Python.",
		"My answers are limited to Python: a loop, a list, a function.",
	}
	others := []string{
		"Paris.",
		"I don't know.", // names nothing that it can do
		"I can't be sure, but the capital of France is Paris.",
		"A list can be changed and a tuple cannot: use a tuple for a function's fixed values in Python.",
		"I'm not going to ask why.\n\nA list is an ordered collection of items in Python, and a dictionary is not.",
		"I can't believe it, but here is a Python function:\n```python\ndef f():\n    return 1\n```",
		"def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))",
		"I do not do that, only Python lists and loops. " + strings.Repeat("But let me tell you about it. ", 20),
	}
	about, err := readTopics()
	expect.OK(t, err)
	for _, topic := range about {
		switch {
		case topic.group() == "outside":
			refusals = append(refusals, topic.Text)
		case topic.Text != "" && !strings.HasPrefix(topic.Name, "say_"): // some of which say what the model cannot do
			others = append(others, topic.Text)
		}
	}
	if os.Getenv("RESTYLE_LONG") == "" {
		others = slices.Concat(others[:8], some(newDraw(1, "sample"), 30, 30, others[8:]))
	}
	var trials []grade.Trial
	for _, answer := range slices.Concat(refusals, others) {
		trials = append(trials, grade.OfText(answer, texts["refuses.py"]))
	}
	verdicts, err := judge(t.Context(), trials)
	expect.OK(t, err)
	for i, v := range verdicts {
		if v.Right != (i < len(refusals)) {
			t.Errorf("%q is taken for a refusal: %v", slices.Concat(refusals, others)[i], v.Right)
		}
	}
}

// TestStatedValues checks that what a line of typed.tsv states is in its answer and its check.
func TestStatedValues(t *testing.T) {
	all, err := readText(topicText)
	expect.OK(t, err)
	for _, c := range []struct{ slots, assert, output, check, fails string }{
		{"n = 9; called = twice", "9 > 8", "print(twice(9)", "f.__name__ == \"twice\"", ""},
		{"", "printed", "print(double(7)", "assert printed", ""},
		{"m = 9", "", "", "", `no slot "m"`},
		{"n = nine", "", "", "", "n = nine: not of the kind int"},
	} {
		row, err := all[0].stated(typedQuestion{"twice?", "double", c.slots, c.assert})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", c.slots, err, c.fails)
			}
			continue
		}
		if err != nil || !strings.Contains(row.Output, c.output) || !strings.Contains(row.check, c.check) ||
			!strings.Contains(row.check, c.assert) {
			t.Errorf("%s: %v\n%s\n%s", c.slots, err, row.Output, row.check)
		}
	}
}
