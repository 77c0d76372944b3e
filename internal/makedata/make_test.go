package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/data"
	"restyle/internal/expect"
	"restyle/internal/hostile"
)

func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
}

var setOnce = sync.OnceValues(func() (set, error) { return makeSet(defaultSeed, 0) })

func madeSet(t *testing.T) set {
	t.Helper()
	s, err := setOnce()
	expect.OK(t, err)
	return s
}

// built returns the rows of kinds in whole sentences.
func built(t *testing.T) (train, held []Row) {
	s := madeSet(t)
	return ofKinds(s.train), s.held
}

func TestKindsAreWellFormed(t *testing.T) {
	all, err := kinds()
	expect.OK(t, err)
	for _, kind := range all {
		if err := kind.validate(); err != nil {
			t.Errorf("kind %s: %v", kind.Name, err)
		}
	}
}

func TestKindValidateFindsMistakes(t *testing.T) {
	lines := func(n int, start string) (all []string) {
		for i := range n {
			all = append(all, start+strings.Repeat("!", i)+string(rune('a'+i))+" $n.")
		}
		return all
	}
	good := Kind{
		Name: "good", Ask: lines(10, "Print "), Held: lines(3, "Show "), Code: "print($n)", Check: "assert $n",
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(1, 999)} },
	}
	tests := []struct {
		name   string
		change func(*Kind)
		want   string
	}{
		{"good", func(*Kind) {}, ""},
		{"few phrasings", func(k *Kind) { k.Ask = k.Ask[:9] }, "9 Ask and 3 Held phrasings"},
		{"few held out", func(k *Kind) { k.Held = k.Held[:2] }, "2 Held phrasings"},
		{"held-out phrasing is trained", func(k *Kind) { k.Held[0] = "PRINT  a, $n" }, "stands there twice"},
		{"unknown slot in a phrasing", func(k *Kind) { k.Ask[4] = "Print $m." }, "uses $m, which Draw does not return"},
		{"unknown slot in the check", func(k *Kind) { k.Check = "assert $m1" }, "uses $m1"},
		{"too few answers", func(k *Kind) { k.Draw = func(d Draw) Slots { return Slots{"n": d.Int(1, 149)} } },
			"only 149 different answers"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			kind := good
			kind.Ask, kind.Held = slices.Clone(good.Ask), slices.Clone(good.Held)
			test.change(&kind)
			err := kind.validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestRowValidateFindsMistakes(t *testing.T) {
	code := "numbers = [1, 2]\nprint(numbers * $n + numbers)"
	tests := []struct {
		instruction, output, want string
	}{
		{"Print it 7 times.", "numbers = [1, 2]\nprint(numbers * 7 + numbers)", ""},
		{"Print it 7 times", "numbers = [1, 2]\nprint(numbers * 7 + numbers)", "does not end in a full stop"},
		{"Print it.", "numbers = [1, 2]\nprint(numbers * 7 + numbers)", "needs $n = 7"},
		{"Print 7 or a list of 1 items.", "numbers = [1, 2]\nprint(numbers * 7 + numbers)", "1 items"},
		{"Print  7.", "numbers = [1, 2]\nprint(numbers * 7 + numbers)", `"  "`},
		{"Print 7.", "print(7)", "an answer of 8 characters"},
	}
	for _, test := range tests {
		row := Row{Instruction: test.instruction, Output: test.output, kind: Kind{Code: code}, slots: Slots{"n": 7}}
		err := row.validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q: got %v, want an error with %q", test.instruction, err, test.want)
		}
	}
}

func TestPythonLiterals(t *testing.T) {
	tests := []struct {
		value any
		want  string
	}{
		{7, "7"}, {-3, "-3"}, {2.5, "2.5"}, {3.0, "3.0"}, {true, "True"}, {false, "False"}, {"bare", "bare"},
		{[]int{1, 2}, "[1, 2]"}, {[]int{}, "[]"}, {[]string{"a", `"`}, `["a", "\""]`},
	}
	for _, test := range tests {
		if got := python(test.value); got != test.want {
			t.Errorf("python(%#v) = %s, want %s", test.value, got, test.want)
		}
	}
}

func TestFill(t *testing.T) {
	slots := Slots{"n": 7, "fn": "f"}
	tests := []struct{ template, want string }{
		{"$fn($n)", "f(7)"},
		{"$fn_$n_x $$5 ${price}", "f_7_x $$5 ${price}"},
		{"{$n: [$n]}", "{7: [7]}"},
	}
	for _, test := range tests {
		if got, err := fill(test.template, slots); err != nil || got != test.want {
			t.Errorf("fill(%q) = %q, %v, want %q", test.template, got, err, test.want)
		}
	}
	if _, err := fill("$n $m $k", slots); err == nil || !strings.Contains(err.Error(), "$k, $m") {
		t.Errorf("unknown slots: got %v", err)
	}
}

func TestPhrase(t *testing.T) {
	seen := map[string]bool{}
	d := newDraw(1, "phrase")
	for range 3000 {
		text, err := phrase(d, "{Write|Make} a $word.", Slots{"word": "apple"})
		expect.OK(t, err)
		seen[text] = true
	}
	for _, want := range []string{
		"Write an apple.", "Make an apple.", "Please write an apple.", "In Python, make an apple.", "Can you make an apple?",
		"I'd like you to write an apple.", "Make an apple. Use Python.",
	} {
		if !seen[want] {
			t.Errorf("never got %q", want)
		}
	}
	for text := range seen {
		if strings.ContainsAny(text, "{|}$") || strings.Contains(text, "a apple") || !strings.HasSuffix(text, ".") &&
			!strings.HasSuffix(text, "?") {
			t.Errorf("got %q", text)
		}
	}
	for range 300 {
		text, err := phrase(d, "How do I print $n? Say it.", Slots{"n": 8})
		if err != nil || !strings.HasPrefix(text, "How do I print 8? Say it.") {
			t.Errorf("a question became %q, %v", text, err)
		}
	}
}

func TestDrawKeepsToItsBounds(t *testing.T) {
	d := newDraw(3, "bounds")
	for range 2000 {
		if n := d.Int(-2, 3); n < -2 || n > 3 {
			t.Fatalf("Int gave %d", n)
		}
		if n := d.Step(10, 25, 5); n < 10 || n > 25 || n%5 != 0 {
			t.Fatalf("Step gave %d", n)
		}
		numbers := d.Distinct(2, 4, 5, 9)
		slices.Sort(numbers)
		if len(numbers) < 2 || len(numbers) > 4 || len(slices.Compact(slices.Clone(numbers))) != len(numbers) ||
			numbers[0] < 5 || numbers[len(numbers)-1] > 9 {
			t.Fatalf("Distinct gave %v", numbers)
		}
	}
	if newDraw(1, "a").Uint64() == newDraw(1, "b").Uint64() || newDraw(1, "a").Uint64() != newDraw(1, "a").Uint64() {
		t.Error("the draws of a purpose must be its own, and the same each time")
	}
}

func TestMutantsChangeOneThing(t *testing.T) {
	kind := Kind{Code: "def $fn(x):\n    if x > $n:\n        return \"a\" + x\n    return x",
		Wrong: []string{"def $fn(x):\n    return $n"}}
	row := Row{Output: "def f(x):\n    if x > 3:\n        return \"a\" + x\n    return x", kind: kind,
		slots: Slots{"fn": "f", "n": 3}}
	got := map[string]string{}
	for _, m := range mutants(row, Slots{"fn": "g", "n": 5}) {
		got[m.code] = m.sort
	}
	want := map[string]string{
		"def g(x):\n    if x > 3:\n        return \"a\" + x\n    return x": "slot",
		"def f(x):\n    if x > 5:\n        return \"a\" + x\n    return x": "slot",
		"def f(x):\n    return 3": "wrong",
		"def f(x):\n    if x >= 3:\n        return \"a\" + x\n    return x":      "operator",
		"def f(x):\n    if x > 4:\n        return \"a\" + x\n    return x":       "number",
		"def f(x):\n    if x > 2:\n        return \"a\" + x\n    return x":       "number",
		"def f(x):\n    if x > 3:\n        return \"ax\" + x\n    return x":      "string",
		"def f(x):\n    if x > 3:\n        return \"a\" - x\n    return x":       "operator",
		"def f(x):\n    if not (x > 3):\n        return \"a\" + x\n    return x": "condition",
		"def f(x):\n    if x > 3:\n        return None\n    return x":            "return",
		"def f(x):\n    if x > 3:\n        return \"a\" + x\n    return None":    "return",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBuiltSet_IsVaried(t *testing.T) {
	train, held := built(t)
	names, questions, answers := map[string]bool{}, map[string]bool{}, map[string]bool{}
	withInput := 0
	all := madeSet(t).train
	for i := range all[1:] {
		if all[i].kind.Name == all[i+1].kind.Name {
			t.Errorf("rows %d and %d are both of kind %s", i, i+1, all[i].kind.Name)
		}
	}
	for i, row := range train {
		names[row.kind.Name] = true
		key := normal(row.Instruction + " " + row.Input)
		if questions[key] {
			t.Errorf("row %d asks again: %s", i, row.Instruction)
		}
		questions[key] = true
		answers[normalCode(row.Output)] = true
		if row.Input != "" {
			withInput++
		}
	}
	if len(train) < 5000 || len(names) < 100 {
		t.Errorf("%d rows of %d kinds, want 5000 of 100", len(train), len(names))
	}
	if withInput*3 < len(train) {
		t.Errorf("%d of %d rows have an input, want a third", withInput, len(train))
	}
	seen, unseen := 0, 0
	for _, row := range held {
		if questions[normal(row.Instruction+" "+row.Input)] || answers[normalCode(row.Output)] {
			t.Errorf("held out, but trained: %s", row.Instruction)
		}
		if names[row.kind.Name] {
			seen++
		} else {
			unseen++
		}
	}
	if seen < 100 || unseen < 24 {
		t.Errorf("%d held-out questions of trained kinds and %d of others, want 100 and 24", seen, unseen)
	}
}

func TestCommittedFilesAreTheBuiltOnes(t *testing.T) {
	made := madeSet(t)
	parquet, err := encodeParquet(made.train)
	expect.OK(t, err)
	if !bytes.Equal(parquet, data.Starter) {
		t.Error("starter.parquet is not what the generator writes: run go run ./internal/makedata")
	}
	questions, err := encodeQuestions(slices.Concat(made.held, made.asked))
	expect.OK(t, err)
	if !bytes.Equal(questions, data.Heldout) {
		t.Error("heldout.jsonl is not what the generator writes: run go run ./internal/makedata")
	}
}

var tallyPattern = regexp.MustCompile(`(?m)^\| (\w+) \| (\d+) \| (\d+) \|$`)

// TestCommittedPageIsTheDescribedOne checks the committed page. It takes the numbers of planted answers from that page,
// because counting them takes minutes.
func TestCommittedPageIsTheDescribedOne(t *testing.T) {
	page, err := os.ReadFile("../../data/README.md")
	expect.OK(t, err)
	planted := tally{}
	for _, row := range tallyPattern.FindAllStringSubmatch(string(page), -1) {
		tried, _ := strconv.Atoi(row[2])
		killed, _ := strconv.Atoi(row[3])
		planted[row[1]] = &count{tried, killed}
	}
	described, err := describe(madeSet(t), defaultSeed, planted)
	expect.OK(t, err)
	if diff := cmp.Diff(string(described), string(page)); diff != "" {
		t.Errorf("data/README.md is not what the generator writes: change README.md.tmpl, and run "+
			"go run ./internal/makedata\n%s",
			diff)
	}
}

func TestAlpacaPromptsAreTheReferences(t *testing.T) {
	text, err := os.ReadFile(expect.Reference(t, "data/instruct/torchtune_alpaca_tiny.json"))
	expect.OK(t, err)
	var rows []struct{ Instruction, Input, Output, Text string }
	expect.OK(t, json.Unmarshal(text, &rows))
	for i, row := range rows {
		if diff := cmp.Diff(row.Text, alpaca(row.Instruction, row.Input, row.Output)); diff != "" {
			t.Fatalf("row %d:\n%s", i, diff)
		}
	}
	if len(rows) < 100 {
		t.Errorf("only %d rows", len(rows))
	}
}

func TestHeldOutAnswersAreRightAndWrongOnesAreFound(t *testing.T) {
	needPython(t)
	if testing.Short() {
		t.Skip("runs a thousand programs")
	}
	train, held := built(t)
	newDraw(1, "sample").Shuffle(len(train), func(i, j int) { train[i], train[j] = train[j], train[i] })
	if err := verify(t.Context(), held, train[:50]); err != nil { // the others are of the same kinds
		t.Error(err)
	}
	// One question of a third of the kinds, with RESTYLE_LONG of all, because the program that writes the files plants in
	// all questions. Most checks find each of the first wrong answers; only the others need more of them.
	seen := map[string]bool{}
	held = slices.DeleteFunc(slices.Clone(held), func(row Row) bool {
		was := seen[row.kind.Name]
		seen[row.kind.Name] = true
		return was
	})
	if os.Getenv("RESTYLE_LONG") == "" {
		held = some(newDraw(1, "kinds"), len(held)/3, len(held)/3, held)
	}
	_, _, err := plant(t.Context(), defaultSeed, held, leastKilled)
	if few := new(tooFew); errors.As(err, &few) {
		t.Logf("%d of %d questions take more than %d wrong answers", len(few.rows), len(held), leastKilled)
		_, _, err = plant(t.Context(), defaultSeed, few.rows, firstTried)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestVerifyNamesTheFailure(t *testing.T) {
	needPython(t)
	rows := []Row{
		{Output: "print(1)", check: "assert int(printed) == 1", kind: Kind{Name: "fine"}},
		{Instruction: "Ask", Input: "in", Output: "print(2)", check: "assert int(printed) == 1", kind: Kind{Name: "broken"}},
		{Output: "print(3)", check: "assert False", kind: Kind{Name: "a worse"}},
		{Output: "print(4)", check: "assert False", kind: Kind{Name: "broken"}},
	}
	const want = "3 answers fail their checks, of the kinds a worse, broken; the first: kind broken: " +
		"check: AssertionError\n--- question\nAsk\nin\n--- answer\nprint(2)\n--- printed\n2\n\n--- check\n" +
		"assert int(printed) == 1"
	if err := verify(t.Context(), rows[:2], rows[2:]); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := verify(t.Context(), rows[:1]); err != nil {
		t.Error(err)
	}
}

// TestShow shows as many rows of a kind as are asked for.
func TestShow(t *testing.T) {
	needPython(t)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--kind", "digit_sum", "--rows", "2", "--seed", "9"}, &stdout, &stderr)
	text := stdout.String()
	if code != 0 || strings.Count(text, "=== digit_sum\n") != 2 || strings.Contains(text, "91700") || // that of seed 1
		!regexp.MustCompile(`\n2 rows right; [1-9]\d* of [1-9]\d* mutants found\n$`).MatchString(text) {
		t.Errorf("exit %d, %s%s", code, text, &stderr)
	}
}

func TestRunRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--sead", "1"}, 2, "not defined"},
		{[]string{"data"}, 2, "unexpected argument"},
		{[]string{"--kind", "no such kind"}, 1, "no kind has"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), test.args, &stdout, &stderr); code != test.code ||
			!strings.Contains(stderr.String(), test.want) {
			t.Errorf("%v: exit %d, %s; want %d and %q", test.args, code, stderr.String(), test.code, test.want)
		}
	}
}

func FuzzMutants(f *testing.F) {
	f.Add("def f(x):\n    return x + 1\n", "7")
	f.Add("print(f\"{x!r}\", 'a\\'b')", "0.5")
	f.Add("\"\"\"", "$n")
	f.Fuzz(func(t *testing.T, code, value string) {
		row := Row{Output: code, kind: Kind{Code: code}, slots: Slots{"n": value}}
		var all []mutant
		hostile.Within(t, hostile.Linear(len(code)+len(value)), func() { all = mutants(row, Slots{"n": "other"}) })
		for _, m := range all {
			if m.code == code {
				t.Errorf("%s mutant of %q is the same", m.sort, code)
			}
		}
	})
}
