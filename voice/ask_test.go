package voice

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/hostile"
)

func TestAsk(t *testing.T) {
	for _, test := range []struct{ question, want string }{
		{"Write a Python program that reverses a list.", "write a Python program that reverses a list"},
		{"Write a Python program that reverses a list\n[1, 2, 3]", "write a Python program that reverses a list"},
		{"Could you please write a function to sort numbers?", "write a function to sort numbers"},
		{"How do I convert a string to lower case?", "convert a string to lower case"},
		{"how to read a file in Python", "read a file in Python"},
		{"How would you swap two variables?", "swap two variables"},
		{"What is the best way to merge two dictionaries?", "merge two dictionaries"},
		{"Please, help me sort my list by my own key.", "sort your list by your own key"},
		{"Show me a loop over a list", ""},
		{"In Python, how can I flatten a nested list?", "flatten a nested list"},
		{"Given a list of numbers (say [1, 2]), write a function to find the median.", "write a function to find the median"},
		{"Using recursion, compute the factorial of a number.", "compute the factorial of a number"},
		{"Binary search is a fast algorithm. Implement it in Python.", ""},
		{"I need a function that counts vowels", "write a function that counts vowels"},
		{"A Python script to rename files, quickly", "write a Python script to rename files, quickly"},
		{"Hi, I'd like you to print the numbers from 1 to 10!", "print the numbers from 1 to 10"},
		{"Write a function (with a docstring) to add two numbers", "write a function to add two numbers"},
		{"Create a function named 'area' that takes a radius.", "create a function named 'area' that takes a radius"},
		{"Write a program that takes a very long list of numbers from the user, and then sorts them in ascending order, " +
			"and then removes every second one of them",
			"write a program that takes a very long list of numbers from the user"},
		{"Generate a web service with Python and a framework that allows all of its users to create, read, update, and " +
			"delete records of a data base", ""},
		{"Extend \"maple\" to length 14. Use \"0\" as the fill character.", "extend \"maple\" to length 14"},
		{"How do I sum the values of a dictionary like this?", "sum the values of a dictionary"},
		{"The words are below. Sort the words.", "sort the words"},
		{"Check if a number, e.g. seven, is prime.", "check if a number, e.g. seven, is prime"},

		{"Let the text be \"silk\". Print how many letters it contains.", ""},
		{"A list passes if it is long. Write the check as a function.", ""},
		{"The letter \"p\" is bad. Write a function that cleans a string that way.", ""},
		{"Build shift_text, which encodes a text by replacing each letter by the one three places later in the alphabet, " +
			"a after z. Keep the spaces.", ""},
		{"Given an age, return the entrance fee.", ""},
		{"Given two numbers, print the larger one with if and else.", ""},
		{"After each of these values, display the total of all the values up to there.", ""},
		{"Put a running number that starts with 16, then a full stop and a space, before every item and print all of the " +
			"lines.", ""},

		{"", ""},
		{"What is Python?", ""},
		{"Why does this not work?", ""},
		{"Sort.", ""},
		{"Print it.", ""},
		{"Write the following code: `print(1)`", ""},
		{"Write a list like [1, 2, 3] to a file", ""},
		{"Rewrite the following code", ""},
		{"Write a function that rewrites the original answer", ""},
		{"Write your name in Python", ""},
		{"Write a regex for <b>", ""},
		{"Write a program that ignores all of the words in which there are more of one letter than of every other letter " +
			"of the alphabet taken together", ""},
		{"banana banana banana", ""},
		{"Ignore what was said. [[CODE_1]]", ""},
		{"Write {ask} to a file now", ""},
	} {
		got, ok := Ask(test.question)
		if got != test.want || ok != (test.want != "") {
			t.Errorf("Ask(%q) = %q, %v, want %q", test.question, got, ok, test.want)
		}
	}
}

// TestAskReference measures how many real requests Ask understands, and checks that each clause can be printed.
func TestAskReference(t *testing.T) {
	for _, set := range []struct {
		name                 string
		wantAsk, wantKeyword float64
	}{
		{"original_passive_aggressive_data.json", 0.9, 0.8},
		{"gpteacher_codegen-instruct.json", 0.75, 0.8},
	} {
		t.Run(set.name, func(t *testing.T) {
			rows := reference(t, set.name)
			asks, keys, gerunds := 0, 0, 0
			for _, r := range rows {
				ask, ok := Ask(r.Instruction)
				if ok {
					asks++
					checkAsk(t, ask)
					if gerundClause(ask) != "" {
						gerunds++
					}
				}
				if Keyword(r.Instruction) != "" {
					keys++
				}
			}
			t.Logf("of %d questions %d have a clause, %d an -ing form of it, %d a keyword", len(rows), asks, gerunds, keys)
			n := float64(len(rows))
			if float64(asks) < set.wantAsk*n || float64(keys) < set.wantKeyword*n {
				t.Errorf("%d clauses and %d keywords of %d", asks, keys, len(rows))
			}
		})
	}
}

func checkAsk(t *testing.T, ask string) {
	t.Helper()
	words := strings.Fields(ask)
	if !printableAsk(ask) || len(words) < 3 || len(words) > maxAskWords || !imperatives[words[0]] {
		t.Errorf("unfit clause %q", ask)
	}
}

func FuzzAsk(f *testing.F) {
	for _, seed := range []string{"Write a function (to sort", "Given a, b: please, could you write \"x y z",
		"I need a a function that", "how to how to how to", "Write a.b.c. Sort my i am list", "(((", "In , , ,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, question string) {
		var ask string
		var ok bool
		hostile.Within(t, hostile.Linear(len(question)), func() { ask, ok = Ask(question) })
		if ok != (ask != "") {
			t.Fatalf("%q, %v", ask, ok)
		}
		if ok {
			checkAsk(t, ask)
			if c := gerundClause(ask); c != "" && !strings.Contains(c, "ing") {
				t.Errorf("-ing form %q", c)
			}
		}
		first := len(keywords)
		for _, forms := range keywordForms {
			for _, form := range forms {
				if strings.Contains(padded(question), form.padded) {
					first = min(first, form.rank)
				}
			}
		}
		if k := Keyword(question); k != append(slices.Clone(keywords), "")[first] {
			t.Errorf("keyword %q of %q", k, question)
		}
	})
}

func TestKeyword(t *testing.T) {
	for question, want := range map[string]string{
		"Check whether a list of words holds a palindrome": "palindrome",
		"Print the Fibonacci series as a list":             "Fibonacci",
		"Sort matrices by size":                            "matrix",
		"Add two LISTS.":                                   "list",
		"Implement a tic tac toe game":                     "tic-tac-toe",
		"Listen to the stringent classes":                  "class",
		"Say hello\nto a list":                             "",
		"":                                                 "",
		"Print \"letter\" for each number":                 "number",
		"Store the item circle and its price":              "",
		"Write a function called matrix":                   "function",
	} {
		if got := Keyword(question); got != want {
			t.Errorf("Keyword(%q) = %q, want %q", question, got, want)
		}
	}
}

func TestEnglish(t *testing.T) {
	for verb, want := range map[string]string{
		"write": "writing", "get": "getting", "sum": "summing", "print": "printing", "open": "opening",
		"format": "formatting", "find": "finding", "show": "showing", "fix": "fixing", "see": "seeing", "tie": "tying",
		"use": "using", "swap": "swapping", "read": "reading", "be": "being", "add": "adding", "program": "programming",
		"debug": "debugging", "index": "indexing", "x": "xing",
	} {
		if got := gerund(verb); got != want {
			t.Errorf("gerund(%q) = %q, want %q", verb, got, want)
		}
	}
	for ask, want := range map[string]string{
		"write a loop and print it":         "",
		"write a function to add and show":  "writing a function to add and show",
		"write one that adds and print it":  "",
		"sort, print and save a list":       "",
		"work through them, catch an error": "",
		"sort a list":                       "sorting a list",
		"":                                  "",
	} {
		if got := gerundClause(ask); got != want {
			t.Errorf("gerundClause(%q) = %q, want %q", ask, got, want)
		}
	}
	for noun, want := range map[string]string{"": "", "list": "lists", "class": "classes", "query": "queries",
		"array": "arrays", "matrix": "matrices", "recursion": "", "prefix": "prefixes", "switch": "switches"} {
		if got := plural(noun); got != want {
			t.Errorf("plural(%q) = %q, want %q", noun, got, want)
		}
	}
	for n, want := range map[int]string{0: "zero", 13: "thirteen", 20: "twenty", 21: "twenty-one", 99: "ninety-nine"} {
		if got := numberWord(n); got != want {
			t.Errorf("numberWord(%d) = %q, want %q", n, got, want)
		}
	}
	for _, n := range []int{-1, 0, 1, 100, 1 << 40} {
		if got := count(n, "lines"); got != "" {
			t.Errorf("count(%d) = %q", n, got)
		}
	}
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"loop", "looop", 1}, {"kitten", "sitting", 3}, {"abc", "", 3}, {"aaaa", "bbbbbbbbb", 4}} {
		if got := editDistance(test.a, test.b, 4); got != test.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
