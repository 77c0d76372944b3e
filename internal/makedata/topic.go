package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Topic is something that beginners ask about, in their own words and mostly without parameters of their own: "how do
// i reverse a string", "fizzbuzz", "whats a decorator". To add one, add its texts to a file of the directory topics.
//
// # Writing a topic
//
//   - The files are txtar archives, as of kinds. The sections are do, of, what, say, other, draw, code.py or
//     answer.txt, check.py, and for follow-ups then1, then1.py, then1check.py and so on.
//   - do has verb phrases, one per line: "reverse a string". of has noun phrases for a program, without an article:
//     "string reversal". what has noun phrases to explain, with their article: "a decorator", "the yield keyword". The
//     generator puts them into the frames of frames.txtar: "how to {do}", "python code for {of}", "whats {what}".
//     say has whole questions as somebody types them, for what fits no frame.
//   - All are written in lower case, as people type, without a final full stop or question mark. The generator varies
//     case, punctuation, typing errors and courtesies. Names, code and error messages keep their case.
//   - A line may use {a|b|} choices, and the slots of draw. A slot that a line does not use has its default.
//   - other has at least three whole questions as people type them, in other words than the lines above, with their own
//     case, punctuation and now and then a typing error.
//   - draw declares slots, one per line, with a default and where other values come from: "n = 7 | int 2 20",
//     "word = hello | word", "name = Anna | name", "nums = [4, 8, 15] | ints 3 6 1 50", "op = sum | pick sum total",
//     "list = ["a", "b"] | words 3 5". Slots are as in a [Kind].
//   - code.py is the answer to a question for code: what an experienced teacher would show a beginner. 3 to 15 lines,
//     PEP 8, 4 spaces, no comments, double quotes. If the question is for a function or any task on a value that the
//     question does not give, code.py is a function and one call of it that is printed. If the code has exactly one
//     function, some questions ask for it by another name.
//   - answer.txt is the answer to a question for words: one to four plain, true sentences, at most 60 words, in which
//     names of the language stand in backticks.
//   - check.py decides as for a [Kind], with functions and printed. For answer.txt, and for code that cannot run in an
//     empty directory without input, it uses answer, the whole answer's text, and nothing is run.
//   - also names topics whose answers are right for this one as well.
//   - then1 has follow-ups, at least six: "and in one line?", "without the loop pls", "now for a list of words". The
//     second line is held out. then1.py is the whole new answer, then1check.py its check.
//   - then1.ways names sections of ways.txtar, one per line, whose lines ask for the same answer: "one_line", or with
//     values for the slot it of the lines: "without the loop|for".
type Topic struct {
	Name  string
	File  string              // of the directory topics, without its extension
	Asks  map[string][]string // by form: do, of, what, say
	Other []string            // whole questions in other words
	Slots []slot
	Code  string // Python, or ""
	Text  string // an answer in words, or ""
	Check string
	Also  []string // topics whose answers are right as well, so that the check may take them
	Then  []Follow
}

// A Follow is a question that refers to the answer before it, and its answer.
type Follow struct {
	Ask         []string // that with the index heldFollow is held out
	Ways        []way
	Code, Check string
}

// forms are the ways in which a topic is asked about.
var forms = []string{"do", "of", "what", "say"}

// A slot is a parameter of a topic.
type slot struct {
	name  string
	from  string // where its values come from: a key of sources, or pick, which gives words of the code
	usual any    // its value in questions that do not name it
	draw  func(d Draw) any
}

//go:embed topics/*.txtar
var topicFiles embed.FS

// readTopics returns every topic.
func readTopics() ([]Topic, error) {
	checks, err := beginnings(kindFiles)
	if err != nil {
		return nil, err
	}
	return topics(topicFiles, checks)
}

// topics reads every topic of the directory topics, in the order of the files' names. beginnings are the texts that a
// check may include.
func topics(files fs.FS, beginnings map[string]string) ([]Topic, error) {
	names, err := fs.Glob(files, "topics/*.txtar")
	if err != nil {
		return nil, err
	}
	var all []Topic
	places := map[string]string{}
	for _, path := range names {
		file := strings.TrimSuffix(strings.TrimPrefix(path, "topics/"), ".txtar")
		list, err := sections(files, "topics/"+file)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			name, part, _ := strings.Cut(s.name, "/")
			if len(all) == 0 || all[len(all)-1].Name != name {
				if first, ok := places[name]; ok {
					return nil, fmt.Errorf("%s: topic %s stands there twice, first at %s", s.place, name, first)
				}
				places[name] = s.place
				all = append(all, Topic{Name: name, File: file, Asks: map[string][]string{}})
			}
			if err := all[len(all)-1].set(part, s.text, beginnings); err != nil {
				return nil, fmt.Errorf("%s: section %s: %w", s.place, s.name, err)
			}
		}
	}
	for _, t := range all {
		if err := t.validate(); err != nil {
			return nil, fmt.Errorf("%s: topic %s: %w", places[t.Name], t.Name, err)
		}
	}
	return all, nil
}

var thenPattern = regexp.MustCompile(`^then(\d)(\.py|\.ways|check\.py)?$`)

// set stores the text of one section.
func (t *Topic) set(part, text string, beginnings map[string]string) (err error) {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	if slices.Contains(forms, part) {
		t.Asks[part] = lines
		return nil
	}
	if m := thenPattern.FindStringSubmatch(part); m != nil {
		return t.setThen(m[1], m[2], text, lines, beginnings)
	}
	switch part {
	case "other":
		t.Other = lines
	case "draw":
		for _, line := range lines {
			s, err := parseSlot(line)
			if err != nil {
				return err
			}
			t.Slots = append(t.Slots, s)
		}
	case "code.py":
		t.Code = text
	case "answer.txt":
		t.Text = strings.Join(lines, "\n")
	case "check.py":
		t.Check, err = include(text, beginnings)
	case "also":
		t.Also = lines
	default:
		err = errors.New("unknown: a topic has do, of, what, say, other, draw, code.py, answer.txt, check.py, also, " +
			"then1, then1.py, then1check.py and so on")
	}
	return err
}

// setThen stores a section of a follow-up.
func (t *Topic) setThen(number, part, text string, lines []string, beginnings map[string]string) (err error) {
	n, _ := strconv.Atoi(number)
	if n < 1 || n > len(t.Then)+1 {
		return fmt.Errorf("the next follow-up is then%d", len(t.Then)+1)
	}
	if n > len(t.Then) {
		t.Then = append(t.Then, Follow{})
	}
	f := &t.Then[n-1]
	switch part {
	case "":
		f.Ask = lines
	case ".ways":
		f.Ways, err = parseWays(lines)
	case ".py":
		f.Code = text
	case "check.py":
		f.Check, err = include(text, beginnings)
	}
	return err
}

// Words reports whether the check reads the answer's text, and nothing is run.
func (t Topic) Words() bool { return wordsCheck.MatchString(t.Check) }

var wordsCheck = regexp.MustCompile(`\banswer\b`)

// validate returns an error for mistakes in the topic itself.
func (t Topic) validate() error {
	asks := 0
	seen := map[string]bool{}
	var lines []string
	for _, form := range forms {
		asks += len(t.Asks[form])
		lines = append(lines, t.Asks[form]...)
	}
	for _, f := range t.Then {
		if len(f.Ask) < 6 || f.Code == "" || f.Check == "" {
			return errors.New("a follow-up has at least six lines, then1.py and then1check.py")
		}
		if i := slices.IndexFunc(f.Ask, choicePattern.MatchString); i >= 0 {
			return fmt.Errorf("%q: a follow-up has no choices", f.Ask[i])
		}
	}
	switch {
	case asks < 12:
		return fmt.Errorf("%d lines of do, of, what and say, needs 12", asks)
	case len(t.Other) < 3:
		return fmt.Errorf("%d questions in other words, needs 3", len(t.Other))
	case (t.Code == "") == (t.Text == ""):
		return errors.New("it has code.py or answer.txt, and not both")
	case t.Check == "":
		return errors.New("it has no check.py")
	case t.Text != "" && !t.Words():
		return errors.New("its check.py must use answer")
	case len(strings.Fields(t.Text)) > 70:
		return fmt.Errorf("answer.txt has %d words, at most 70 are wanted", len(strings.Fields(t.Text)))
	case slices.ContainsFunc(t.Slots, func(s slot) bool { return strings.Contains(t.Code, "def "+s.name+"(") }):
		return errors.New("a slot has the name of its function, which another may replace: call one of them otherwise")
	case len(t.Code) > 700:
		return fmt.Errorf("code.py has %d characters, at most 700 are wanted", len(t.Code))
	}
	for _, line := range slices.Concat(lines, t.Other) {
		if seen[normal(line)] {
			return fmt.Errorf("%q stands there twice", line)
		}
		seen[normal(line)] = true
	}
	templates := slices.Concat(lines, t.Other, []string{t.Code, t.Text, t.Check})
	for _, f := range t.Then {
		templates = slices.Concat(templates, f.Ask, []string{f.Code, f.Check})
	}
	for _, template := range templates {
		if _, err := fill(template, t.slots(newDraw(0, t.Name), "")); err != nil {
			return err
		}
	}
	return nil
}

// slots returns values for all slots: drawn ones for those that a line names, and the usual ones for the others.
func (t Topic) slots(d Draw, line string) Slots {
	values := Slots{}
	named := slotPattern.FindAllString(line, -1)
	for _, s := range t.Slots {
		values[s.name] = s.usual
		if slices.Contains(named, "$"+s.name) {
			values[s.name] = s.draw(d)
		}
	}
	return values
}

// A source is where the values of a slot come from.
type source struct {
	bounds int // numbers that it takes: in pairs, each with the lower one first
	most   int // the greatest of the first pair, if there is such a limit
	list   bool
	draw   func(d Draw, bounds []int) any
}

var sources = map[string]source{
	"int":      {bounds: 2, draw: func(d Draw, b []int) any { return d.Int(b[0], b[1]) }},
	"ints":     {bounds: 4, list: true, draw: func(d Draw, b []int) any { return d.Distinct(b[0], b[1], b[2], b[3]) }},
	"word":     {draw: func(d Draw, _ []int) any { return d.Word() }},
	"words":    {bounds: 2, most: 50, list: true, draw: func(d Draw, b []int) any { return d.Words(b[0], b[1]) }},
	"name":     {draw: func(d Draw, _ []int) any { return d.Name() }},
	"names":    {bounds: 2, most: 50, list: true, draw: func(d Draw, b []int) any { return d.Names(b[0], b[1]) }},
	"sentence": {draw: func(d Draw, _ []int) any { return d.Sentence() }},
}

var slotLine = regexp.MustCompile(`^([a-z][a-z0-9]*) = (.+) \| (\w+)(.*)$`)

// parseSlot reads a line of the section draw.
func parseSlot(line string) (s slot, err error) {
	m := slotLine.FindStringSubmatch(line)
	if m == nil {
		return s, fmt.Errorf(`%q is not of the form "n = 7 | int 2 20"`, line)
	}
	s = slot{name: m[1], from: m[3], usual: m[2]}
	words := strings.Fields(m[4])
	if m[3] == "pick" && len(words) > 0 {
		s.draw = func(d Draw) any { return pick(d, words...) }
		return s, nil
	}
	from, ok := sources[m[3]]
	if !ok || len(words) != from.bounds {
		return s, fmt.Errorf("%q: values come from int LOW HIGH, ints LEAST MOST LOW HIGH, word, words LEAST MOST, name, "+
			"names LEAST MOST, sentence or pick WORDS", line)
	}
	bounds := make([]int, len(words))
	for i, w := range words {
		n, err := strconv.Atoi(w)
		if bounds[i] = n; err != nil || n > 1_000_000 || i%2 == 1 && n < bounds[i-1] {
			return s, fmt.Errorf("%q: bounds are whole numbers in pairs, the lower one first", line)
		}
	}
	if from.most > 0 && bounds[1] > from.most || m[3] == "ints" && bounds[1] > bounds[3]-bounds[2]+1 ||
		from.list && bounds[0] < 0 {
		return s, fmt.Errorf("%q: there are not so many", line)
	}
	s.draw = func(d Draw) any { return from.draw(d, bounds) }
	s.usual, err = s.parse(m[2])
	return s, err
}

// parse reads a value of the slot.
func (s slot) parse(text string) (value any, err error) {
	switch s.from {
	case "int":
		value, err = strconv.Atoi(text)
	case "ints":
		var list []int
		err = json.Unmarshal([]byte(text), &list)
		value = list
	case "words", "names":
		var list []string
		err = json.Unmarshal([]byte(text), &list)
		value = list
	default:
		value = text
	}
	if err != nil {
		return nil, fmt.Errorf("%s = %s: not of the kind %s", s.name, text, s.from)
	}
	return value, nil
}
