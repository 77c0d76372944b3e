package main

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A Kind is one kind of small Python task: how people ask for it, its parameters, the code that answers it, and the
// Python that decides whether another answer is also right. To add a kind, add its texts to a file of the directory
// kinds, and its Draw, under the same name, to the draw_*.go file of that family.
//
// # Writing a kind
//
//   - The files are txtar archives (golang.org/x/tools/txtar): a line "-- NAME/ask --" starts the section Ask of the
//     kind NAME. The sections are ask, held and derived, with one item per line, input, code.py, check.py, and
//     wrong1.py, wrong2.py and so on. The texts are written as they are, without quotes and escapes; empty lines around
//     them do not count.
//   - A slot is $name (lower-case letters, then digits). Ask, Held, Input, Code, Check and Wrong may all use the slots
//     that Draw returns. Values are written as in Python: 7, 2.5, True, [3, 1], ["oak", "elm"]; a Go string is written
//     as it is, without quotes, so Code has "$word" where Python needs a string. A $ before anything but a lower-case
//     letter stays a $.
//   - Ask and Held may use {a|b|} choices, which are resolved at random: "{Write|Create} a {|Python }function". Choices
//     do not replace hand-written variety: write at least 10 Ask lines per kind, preferably 12 to 16, that differ in
//     verb, clause order and wording, with some questions ("How do I …?") and some statements ("I need …"). Held are
//     three more lines, none of which resembles an Ask line too closely.
//   - The generator sometimes turns a line that starts with an imperative verb (see verbs in phrase.go) into "Please
//     …", "In Python, …" or "Can you …?", so lines should not say "please" or "can you" themselves. One sentence is
//     best, two are fine; the first must end in a full stop or question mark.
//   - Every slot in Code must also be in every Ask and Held line or in Input, so that answering is copying, never
//     guessing. List slots that follow from others (a singular from a plural) in Derived. Never compute a result into
//     Code.
//   - Draw must be able to give at least 150 different Codes (the generator checks this): no answer of a held-out
//     question may be a training answer, so Code must contain the parameters. Use numbers of one to three digits, lists
//     of three to seven items, and short, plain words. A count before a noun must not be 1.
//   - Code has 40 to 600 characters, PEP 8, 4 spaces, no comments, double quotes. If the question asks for a function,
//     Code is only the function; if the question gives data, Code prints the result. Code uses nothing random, no time,
//     no files and no input().
//   - Check runs after the answer, in its namespace, with printed (everything that the answer printed, one string) and
//     functions (the functions and classes that it defined, in order). It raises or fails an assert if the answer is
//     wrong. It must accept every reasonable right answer (compare printed.split(), or numbers with a tolerance; accept
//     a returned or a printed value if the question leaves that open; call functions[-1] if the question gives no
//     name). It must catch wrong answers: try several arguments, edge cases such as empty lists if the question covers
//     them, and compare with results found by another method than Code's. Import what Check uses; a line "#include
//     NAME" is replaced with a text of kinds/checks.txtar, which has common beginnings.
//   - Wrong holds plausible wrong answers of this kind, templates like Code. It is for kinds for which generic
//     mutations of Code (changed constants, operators, methods, dropped statements: see mutate.go) yield fewer than
//     three.
type Kind struct {
	Name    string             // snake_case, unique
	Ask     []string           // training phrasings; none: the kind is never in the training data ("unseen")
	Held    []string           // held-out phrasings, three or more (unseen kinds: two or more)
	Input   string             // the input column; "" for kinds whose instruction contains the parameters
	Draw    func(d Draw) Slots // draws the parameters; may use no other randomness than d
	Derived []string           // slots of Code that need not be in the question
	Code    string             // the answer
	Check   string             // Python that fails on a wrong answer
	Wrong   []string           // plausible wrong answers, optional
}

// Trained reports whether the training rows include this kind.
func (k Kind) Trained() bool { return len(k.Ask) > 0 }

// validate returns an error for mistakes in the kind itself.
func (k Kind) validate() error {
	held, ask := 2, 0
	if k.Trained() {
		held, ask = 3, 10
	}
	if len(k.Ask) < ask || len(k.Held) < held {
		return fmt.Errorf("%d Ask and %d Held phrasings, needs %d and %d", len(k.Ask), len(k.Held), ask, held)
	}
	seen := map[string]bool{}
	for _, line := range slices.Concat(k.Ask, k.Held) {
		if seen[normal(line)] {
			return fmt.Errorf("phrasing %q stands there twice", line)
		}
		seen[normal(line)] = true
	}
	slots := k.Draw(newDraw(0, k.Name))
	for _, template := range slices.Concat(k.Ask, k.Held, k.Wrong, []string{k.Input, k.Code, k.Check}) {
		if _, err := fill(template, slots); err != nil {
			return err
		}
	}
	if !k.Trained() {
		return nil
	}
	d, codes := newDraw(0, k.Name), map[string]bool{}
	for tries := 0; len(codes) < leastDraws; tries++ {
		if tries == 20*leastDraws {
			return fmt.Errorf("only %d different answers in %d draws, needs %d: let Draw vary more", len(codes), tries,
				leastDraws)
		}
		code, err := fill(k.Code, k.Draw(d))
		if err != nil {
			return err
		}
		codes[code] = true
	}
	return nil
}

// Slots holds drawn parameters by slot name. A value is a string, int, float64, bool, []int or []string.
type Slots map[string]any

var slotPattern = regexp.MustCompile(`\$[a-z][a-z0-9]*`)

// fill replaces the slots in a template.
func fill(template string, slots Slots) (string, error) {
	var missing []string
	text := slotPattern.ReplaceAllStringFunc(template, func(name string) string {
		value, ok := slots[name[1:]]
		if !ok {
			missing = append(missing, name)
			return name
		}
		return python(value)
	})
	if missing != nil {
		sort.Strings(missing)
		return "", fmt.Errorf("template %.40q uses %s, which Draw does not return", template,
			strings.Join(slices.Compact(missing), ", "))
	}
	return text, nil
}

// python returns a value as a Python literal, but a string without quotes.
func python(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case float64:
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	case bool:
		if v {
			return "True"
		}
		return "False"
	case []int:
		return list(v, strconv.Itoa)
	case []string:
		return list(v, strconv.Quote)
	}
	panic(fmt.Sprintf("slot value %v has type %T, which python cannot write", value, value))
}

func list[T any](items []T, write func(T) string) string {
	text := make([]string, len(items))
	for i, item := range items {
		text[i] = write(item)
	}
	return "[" + strings.Join(text, ", ") + "]"
}
