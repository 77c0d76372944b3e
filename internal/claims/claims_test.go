// Package claims has only tests, of the Python rules that find false statements in answers.
package claims

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// claim is a sentence about an answer's code or about its question. The answer is the sentence and the code in a fence.
type claim struct {
	prose, code string
	question    string // the instruction, and after a newline the input
	false       bool
}

const (
	sumCode   = "numbers = [4, 8, 15]\ntotal = 0\nfor number in numbers:\n    total += number\nprint(total)"
	sumAsked  = "Print the sum of the numbers.\n[4, 8, 15]"
	scaleCode = "def scale(value, factor=3):\n    if value < 0:\n" +
		"        raise ValueError(\"bad\")\n    return value * factor"
	scaleAsked = "Write scale, which takes a value and a factor.\n"
	anyCode    = "def has_even(numbers):\n    return any(n % 2 == 0 for n in numbers)"
	squareCode = "squares = [n * n for n in range(1, 5 + 1)]\nprint(squares)"
	powerCode  = "def power(base, n):\n    if n == 0:\n        return 1\n    return base * power(base, n - 1)"
	readCode   = "import math\n\ntry:\n    root = math.sqrt(int(text))\nexcept ValueError:\n    root = None\nprint(root)"
	petCode    = "class Pet:\n    def __init__(self, name):\n        self.name = name\n\n" +
		"    def speak(self):\n        return f\"{self.name}!\""
	ageCode = "ages = {\"Ann\": 30, \"Bo\": 25, \"Cy\": 41}\n" +
		"for name, age in sorted(ages.items(), key=lambda p: p[1]):\n    print(name)"
	ageAsked  = "Please print the names by age, 3 in all!\nages = {\"Ann\": 30, \"Bo\": 25, \"Cy\": 41}"
	whileCode = "n = 10\nwhile n > 0:\n    print(n)\n    n -= 1"
	signCode  = "if n < 0:\n    print(\"no\")\nelse:\n    print(\"yes\")"
	signAsked = "Print \"no\" if n is negative, else print \"yes\"."
	addCode   = "found = []\nfor word in text.split():\n    found.append(word)\nprint(found[::-1])"
)

// claims are rows by the rule that judges them.
var claims = map[string][]claim{
	"name": {
		{"Note `total`.", sumCode, sumAsked, false},
		{"Note `subtotal`.", sumCode, sumAsked, true},
		{"There is `range(1, 6)`, as ever.", squareCode, "", false},
		{"There is `range(1, 7)`, as ever.", squareCode, "", true},
		{"I wrote this instead of `while`.", sumCode, sumAsked, false},
		{"That is simply a `def` with no small talk, and too tired for a `class`.", ageCode, ageAsked, false},
		{"Observe `for number in numbers:` and weep.", sumCode, sumAsked, false},
	},
	"literally": {
		{"Whatever stands between the quotes is taken literally.", signCode, signAsked, false},
		{"Whatever stands between the quotes is taken literally.", petCode, "", true},
	},
	"credit": {
		{"The heavy lifting goes to `sorted`.", ageCode, ageAsked, false},
		{"The heavy lifting goes to `print`.", ageCode, ageAsked, true},
		{"Clearly `print` did the lifting.", ageCode, ageAsked, true},
	},
	"links": {
		{"`total` starts small, and `number` comes out of `numbers`.", sumCode, sumAsked, false},
		{"`total` comes out of `number for`.", sumCode, sumAsked, true},
		{"`squares` holds `n * n`.", squareCode, "", false},
		{"`total` is simply another word for `numbers`.", sumCode, sumAsked, true},
		{"`power` works out `base`.", powerCode, "", false},
		{"`name` belongs to the `Pet`.", petCode, "", false},
		{"`root` gets `text`.", readCode, "", false},
		{"`root` gets `None`, but it keeps `ValueError`.", readCode, "", false},
		{"`root` keeps `ValueError`.", readCode, "", true},
	},
	"word": {
		{"I have grown fond of \"walrus\".", "print(\"walrus\")", "Print it.", false},
		{"I have grown fond of \"walrus\".", "print(\"carrot\")", "Print it.", true},
		{"Dear me, \"Ann\".", ageCode, ageAsked, false},
		{"Dear me, \"Dora\".", ageCode, ageAsked, true},
		{"I would say \"hello\", if I had to.", ageCode, ageAsked, false},
	},
	"present-thing": {
		{"There is a loop in it.", sumCode, sumAsked, false},
		{"There is a loop in it.", squareCode, "", true},
		{"I would not say that there is a loop in it.", squareCode, "", false},
		{"There is a `while` loop in it.", whileCode, "", false},
		{"There is a `while` loop in it.", sumCode, sumAsked, true},
		{"You will see a comprehension.", squareCode, "", false},
		{"You will see a comprehension.", anyCode, "", true},
		{"It uses a generator expression.", anyCode, "", false},
		{"It uses a dictionary.", sumCode, sumAsked, true},
		{"It is called a comprehension, I gather.", anyCode, "", true},
		{"A lambda does the work.", ageCode, ageAsked, false},
		{"A lambda does the work.", sumCode, sumAsked, true},
		{"Recursion is involved.", powerCode, "", false},
		{"Recursion is involved.", sumCode, sumAsked, true},
	},
	"the-thing": {
		{"The loop does the rest.", sumCode, sumAsked, false},
		{"The loop does the rest.", anyCode, "", true},
		{"Do not let the comprehension frighten you.", squareCode, "", false},
		{"Do not let the comprehension frighten you.", anyCode, "", true},
		{"The class is there to keep things tidy.", petCode, "", false},
		{"The class is there to keep things tidy.", sumCode, sumAsked, true},
		{"The f-string looks after itself.", petCode, "", false},
		{"The f-string looks after itself.", sumCode, sumAsked, true},
		{"If the recursion hurts, rest.", powerCode, "", false},
		{"If the recursion hurts, rest.", scaleCode, "", true},
	},
	"topic": {
		{"Lists, then.", sumCode, sumAsked, false},
		{"Lists, then.", powerCode, "Raise a number to a power.", true},
		{"A tuple is a list that has made up its mind.", sumCode, sumAsked, true},
		{"Another dictionary question, I see.", ageCode, ageAsked, false},
		{"Another dictionary question, I see.", sumCode, sumAsked, true},
	},
	"choice": {
		{"I used a loop, obviously.", sumCode, sumAsked, false},
		{"I used a loop, obviously.", sumCode, "Add the numbers with a loop.\n[4, 8, 15]", true},
		{"I went with a list.", "words = \"a b\".split()\nseen = []", "Split it.\na b", false},
		{"I went with a list.", sumCode, sumAsked, true},
		{"I chose a dictionary.", ageCode, ageAsked, true},
		{"I have put it into a function.", powerCode, "Raise a base to a power.", false},
		{"I have put it into a function.", powerCode, "Write a function for powers.", true},
	},
	"necessity": {
		{"Without `for` we should have been here all day.", sumCode, sumAsked, false},
		{"Without `print` we should have been here all day.", sumCode, sumAsked, true},
		{"Without `return` nothing would come back.", powerCode, "", false},
		{"Without `print` nothing would come back.", sumCode, sumAsked, true},
	},
	"count": {
		{"Five lines, no charge.", sumCode, sumAsked, false},
		{"It is eleven lines.", sumCode, sumAsked, true},
		{"It has two methods.", petCode, "", false},
		{"It has three loops.", sumCode, sumAsked, true},
		{"I count two functions.", scaleCode, "", true},
		{"One loop sits inside the other.", sumCode, sumAsked, true},
		{"One loop sits inside the other.", "for i in text:\n    for j in text:\n        print(i, j)", "", false},
		{"It comes to fewer than 6 lines.", sumCode, sumAsked, false},
		{"It comes to fewer than 5 lines.", sumCode, sumAsked, true},
	},
	"returns": {
		{"It returns `value * factor`.", scaleCode, scaleAsked, false},
		{"It returns `value`.", scaleCode, scaleAsked, true},
		{"`power` gives back `1` in the end.", powerCode, "", false},
		{"`power` gives back `0` in the end.", powerCode, "", true},
	},
	"iterates": {
		{"It goes through `numbers`.", sumCode, sumAsked, false},
		{"It loops over `total`.", sumCode, sumAsked, true},
		{"It walks patiently over every word in `text`.", addCode, "", false},
		{"It walks patiently over every word in `found`.", addCode, "", true},
	},
	"prints": {
		{"It prints `total`.", sumCode, sumAsked, false},
		{"It prints `number`.", sumCode, sumAsked, true},
		{"`squares` is printed.", squareCode, "", false},
		{"`n` is printed.", squareCode, "", true},
	},
	"tests": {
		{"It checks whether `value < 0`.", scaleCode, scaleAsked, false},
		{"It checks whether `value * factor`.", scaleCode, scaleAsked, true},
		{"It asks whether `n` is zero.", powerCode, "", false},
		{"It asks whether `base` is zero.", powerCode, "", true},
	},
	"begins": {
		{"`total` starts as `0`.", sumCode, sumAsked, false},
		{"`total` starts as `1`.", sumCode, sumAsked, true},
		{"It starts at 1.", squareCode, "", false},
		{"It starts at 2.", squareCode, "", true},
		{"Lists start at zero.", squareCode, "", false},
	},
	"calls-it": {
		{"It calls `sqrt`.", readCode, "", false},
		{"It calls `floor`.", readCode, "", true},
		{"`power` calls itself.", powerCode, "", false},
		{"`scale` calls itself.", scaleCode, "", true},
	},
	"raises": {
		{"It raises `ValueError`.", scaleCode, scaleAsked, false},
		{"It raises `ValueError`.", readCode, "", true},
	},
	"takes": {
		{"`scale` takes two arguments.", scaleCode, scaleAsked, false},
		{"`scale` takes one argument.", scaleCode, scaleAsked, true},
		{"`power` takes `base` and `n`.", powerCode, "", false},
		{"`power` takes `n` and `exponent`.", powerCode, "", true},
		{"`speak` takes no arguments.", petCode, "", false},
	},
	"does": {
		{"It sorts, at least.", ageCode, ageAsked, false},
		{"It sorts, at least.", sumCode, sumAsked, true},
		{"The function returns a number.", scaleCode, scaleAsked, false},
		{"The function returns a number.", sumCode, sumAsked, true},
	},
	"role": {
		{"`print` does the talking.", sumCode, sumAsked, false},
		{"`print` does the counting.", sumCode, sumAsked, true},
		{"I let Python do the sorting.", ageCode, ageAsked, false},
		{"I let Python do the sorting.", sumCode, sumAsked, true},
	},
	"kind": {
		{"`total` is a variable.", sumCode, sumAsked, false},
		{"`scale` is a variable.", scaleCode, scaleAsked, true},
		{"The function `power` is short.", powerCode, "", false},
		{"The class `power` is short.", powerCode, "", true},
		{"`numbers` is a list.", sumCode, sumAsked, false},
		{"`ages` is a list.", ageCode, ageAsked, true},
	},
	"quote": {
		{`You said "by age".`, ageCode, ageAsked, false},
		{`You said "by height".`, ageCode, ageAsked, true},
		{`The word "sum" comes up.`, sumCode, sumAsked, false},
		{`The word "tree" comes up.`, sumCode, sumAsked, true},
	},
	"manners": {
		{"You even put a question mark on it.", sumCode, "What is the sum?\n[4, 8, 15]", false},
		{"You even put a question mark on it.", sumCode, sumAsked, true},
		{"Not even a question mark.", sumCode, sumAsked, false},
		{`You wrote it without a "please".`, sumCode, sumAsked, false},
		{`You wrote it without a "please".`, ageCode, ageAsked, true},
		{"You said please, I see.", ageCode, ageAsked, false},
		{"You said please, I see.", sumCode, sumAsked, true},
	},
	"given": {
		{"You brought your own input.", sumCode, sumAsked, false},
		{"You brought your own input.", powerCode, "Write a power function.", true},
		{"You supplied no example.", powerCode, "Write a power function.", false},
		{"You supplied no example.", sumCode, sumAsked, true},
		{"I made up the numbers.", sumCode, "Show a sum.", false},
		{"I made up the numbers.", sumCode, sumAsked, true},
	},
	"asked": {
		{"You asked for 3.", ageCode, ageAsked, false},
		{"You asked for 10.", ageCode, ageAsked, true},
		{"Your list has been dealt with.", sumCode, sumAsked, false},
		{"Your list has been dealt with.", ageCode, ageAsked, true},
		{"Your `ages` are safe.", ageCode, ageAsked, false},
		{"Your `total` is safe.", sumCode, sumAsked, true},
		{"You asked for a function.", powerCode, "Write a power function.", false},
		{"You asked for a function.", sumCode, sumAsked, true},
	},
}

// figures are sentences that assert nothing about code or question, so that no rule may report them.
var figures = []string{
	"This conversation goes round and round like a loop.",
	"Do keep me in the loop.", "I am adding it to my list of grievances.",
	"I would have used a dictionary, but nobody opens one.", "You have found the easiest item on the list.",
	"There are strings attached, naturally.", "It is that sort of question.", "No exception was made for you.",
	"It returns to haunt me.", "A list of your questions would fill a library.", "I went to a good school, and to class.",
	"There is method in my silence.", "That is the function of a manual.", "It takes two of us, evidently.",
	"One line after the other, that is how it is read.", "Imagine a world-class orchestra in it.",
	"There is a class of people who read first.", "I had to sort my inbox, and I return to it now.",
	"Count from one to ten.",
	"Nothing is as basic as a list.", "It could have been a lambda.", "Your list of excuses is long.",
	"It raises my eyebrows.",
	"Perhaps the return of the documentation will be noticed.", "There is no rush, and there are no prizes.",
	"I have written longer shopping lists.", "It stops at nothing.", "Somewhere there is a file on you.",
}

// TestClaims checks that each rule finds what is false and leaves alone what is true.
func TestClaims(t *testing.T) {
	type row struct {
		claim
		rule string
	}
	var rows []row
	for rule, of := range claims {
		for _, c := range of {
			rows = append(rows, row{c, rule})
		}
	}
	for _, figure := range figures {
		rows = append(rows, row{claim{figure, "number = 4\nprint(number)", "Print a number: 4.", false}, ""})
	}
	var made []map[string]string
	for _, r := range rows {
		instruction, input, _ := strings.Cut(r.question, "\n")
		made = append(made, map[string]string{"instruction": instruction, "input": input,
			"answer": r.prose + "\n\n```python\n" + r.code + "\n```\n"})
	}
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rows.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	reports, checked := falseClaims(t, path, "answer")
	for i, r := range rows {
		var others []string
		found := false
		for _, report := range reports[i] {
			if rule, _, _ := strings.Cut(report, "\t"); rule == r.rule {
				found = true
			} else if !r.false {
				others = append(others, report)
			}
		}
		if found != r.false || others != nil {
			t.Errorf("%s, %q with\n%s\nfalse: %v, reported: %v %q", r.rule, r.prose, r.code, r.false, found, others)
		}
	}
	for rule, n := range checked {
		if len(claims[rule]) == 0 || n == 0 {
			t.Errorf("rule %s has %d rows here and checked %d statements", rule, len(claims[rule]), n)
		}
	}
}

//go:embed *.py
var sources embed.FS

// written returns a folder with the program, as it was compiled in: so a planted fault is in it.
func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, sources); err != nil {
		t.Fatal(err)
	}
	return dir
}

// falseClaims runs the rules and returns what it reports, by row, and how many statements each rule checked.
func falseClaims(t *testing.T, path, field string) (map[int][]string, map[string]int) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var errs bytes.Buffer
	command := exec.CommandContext(t.Context(), python, "-B", written(t), path, "--field", field)
	command.Stderr = &errs
	output, err := command.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 || errs.Len() > 0) {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	failed := err != nil
	reports, checked := map[int][]string{}, map[string]int{}
	summary := false
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSuffix(line, "\n")
		var i, n, bad int
		if first, rest, _ := strings.Cut(line, "\t"); !summary && rest != "" {
			if _, err := fmt.Sscan(first, &i); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			reports[i] = append(reports[i], rest)
			continue
		}
		rule, counts, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if _, err := fmt.Sscanf(counts, "%d, %d", &n, &bad); summary && err == nil && rule != "all" {
			checked[rule] = n
		}
		summary = true
	}
	if failed != (len(reports) > 0) || len(checked) == 0 {
		t.Fatalf("%d rows reported, %d rules, but exit with %v", len(reports), len(checked), err)
	}
	return reports, checked
}

// TestClaimsDiversity checks the measures of how often answers repeat themselves.
func TestClaimsDiversity(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	path := filepath.Join(t.TempDir(), "rows.json")
	rows := `[
		{"instruction": "a", "output": "Well. One two three four five six seven eight.\n\n` + "```python\\nx = 1\\n```" +
		`\n\nNote ` + "`x`. See `x`" + `."},
		{"instruction": "b", "output": "Oh. One two three, four five six seven Eight.\n\n` + "```python\\nx = 1\\n```" + `"}]`
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, "-B", written(t), path, "--field", "output", "--diversity")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{"rows: 2\n", "distinct first sentences: 2\n", "most frequent sentence: 1 rows, 50.00%: ",
		"most frequent 8-gram: 2 rows, 100.00%: one two three four five six seven eight\n",
		"one name in more than one sentence: 1\n"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("no %q in\n%s", want, output)
		}
	}
}

// TestDatasetClaims checks that no answer of the committed dataset says what is false.
func TestDatasetClaims(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "data", "passive_aggressive_data.json")
	reports, _ := falseClaims(t, path, "output_passive_aggressive")
	for row, of := range reports {
		for _, report := range of {
			t.Errorf("row %d: %s", row, report)
		}
	}
}
