package main

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/tools/txtar"
)

//go:embed frames.txtar
var framesText []byte

// frames are the sections of frames.txtar: templates in which {} is a phrase and {name} the name of a function.
var frames = func() map[string][]string {
	all := map[string][]string{}
	for _, file := range txtar.Parse(framesText).Files {
		all[file.Name] = strings.Split(strings.Trim(string(file.Data), "\n"), "\n")
	}
	return all
}()

// functionNames are names that people give a function, whatever it does.
var functionNames = strings.Fields(`
	foo bar func my_func my_function do_it solve solution calc calculate compute run process task task1 exercise1 ex2
	helper convert transform work go main_func test1 my_code answer result_of get_it make_it f g do_stuff thing magic`)

var oneFunction = regexp.MustCompile(`(?m)^def ([a-z_0-9]+)\(`)

// ask returns a question about the topic, its slots still to be filled, and the name that it gives the function, if
// any: the slot $called.
func (t Topic) ask(d Draw) (question, called string) {
	var all []string // every line, with its form
	for _, form := range forms {
		for _, line := range t.Asks[form] {
			all = append(all, form+" "+line)
		}
	}
	for _, line := range t.Other {
		all = append(all, "say "+line)
	}
	form, line, _ := strings.Cut(pick(d, all...), " ")
	line = strings.Join(strings.Fields(choose(d, line)), " ") // an empty choice leaves two spaces
	if form == "say" {
		return line, ""
	}
	functions := oneFunction.FindAllStringSubmatch(t.Code, -1)
	named := len(functions) == 1 && !strings.Contains(t.Code, "class ") && !namesProgram.MatchString(line)
	if form == "do" && named && d.IntN(12) == 0 {
		frame := strings.ReplaceAll(pick(d, frames["call"]...), "{name}", "$called")
		return strings.ReplaceAll(frame, "{}", line), pick(d, functionNames...)
	}
	return strings.ReplaceAll(frame(d, form, line, t.Code), "{}", line), ""
}

// typedPhrase turns a phrasing of a kind into a question as somebody types it, its slots still to be filled. Questions
// of more than one sentence only lose their first capital letter and last mark.
func typedPhrase(d Draw, line, code string) string {
	line = choose(d, line)
	low := strings.ToLower(line[:1]) + line[1:]
	if strings.HasPrefix(line, "I ") || strings.HasPrefix(line, "I'") {
		low = strings.ToLower(line[:2]) + line[2:]
	}
	low = strings.ReplaceAll(low, "Python", "python")
	stem := strings.TrimRight(low, ".?:")
	if imperative(line) && !strings.ContainsAny(stem, ".?") {
		return strings.ReplaceAll(frame(d, "do", stem, code), "{}", stem)
	}
	return stem
}

var (
	namesProgram  = regexp.MustCompile(`\b(function|func|program|code|script|class|wap)\b`)
	namesFunction = regexp.MustCompile(`\bfunc(tion)?\b`)
	namesPython   = regexp.MustCompile(`(?i)\bpython\b`)
)

// frame returns a frame for a phrase. It does not say a second time that the question is about Python, or that a
// program is wanted, and it wants a function only if the answer has one.
func frame(d Draw, form, phrase, code string) string {
	for {
		f := pick(d, frames[form]...)
		again := namesPython.MatchString(phrase) && namesPython.MatchString(f) ||
			namesProgram.MatchString(phrase) && namesProgram.MatchString(f)
		if !again && (strings.Contains(code, "def ") || !namesFunction.MatchString(f)) {
			return f
		}
	}
}

// same returns a question without what people leave out or add, for comparisons: case, spaces and final marks.
func same(question string) string {
	return strings.TrimRight(strings.Join(strings.Fields(strings.ToLower(question)), ""), ".?!,")
}

// row returns a row about the topic: a question as somebody types it, and the answer.
func (t Topic) row(d Draw) (Row, error) {
	question, called := t.ask(d)
	slots := t.slots(d, question)
	spoken := spoken(d, slots)
	spoken["called"] = called
	text, err := fill(mistype(d, question), spoken)
	if err != nil {
		return Row{}, err
	}
	if called != "" {
		t.Code = rename(t.Code, called)
	}
	row, err := t.answer(text, slots)
	row.called = called
	return row, err
}

// asked returns the row of a question that says all itself.
func (t Topic) asked(d Draw, line string) (Row, error) {
	slots := t.slots(d, line)
	text, err := fill(line, slots)
	if err != nil {
		return Row{}, err
	}
	return t.answer(text, slots)
}

// answer returns a row with the answer to a question.
func (t Topic) answer(question string, slots Slots) (row Row, err error) {
	kind := Kind{Name: t.Name, Code: t.Code, Draw: func(d Draw) Slots { return t.slots(d, t.Code) }}
	row = Row{Instruction: question, kind: kind, slots: slots, words: t.Words(), also: t.Also, group: t.group()}
	if row.Output, err = fill(t.Code+t.Text, slots); err != nil {
		return row, err
	}
	check, err := t.tolerant()
	if err != nil {
		return row, err
	}
	if row.check, err = fill(check, slots); err != nil {
		return row, err
	}
	row.Prompt = alpaca(row.Instruction, row.Input, row.Output)
	return row, nil
}

// refused reports whether the model refuses to answer about a topic.
func refused(topic string) bool { return strings.HasPrefix(topic, "outside_") }

// group returns the group of held-out questions about the topic: see data.Question.
func (t Topic) group() string {
	if refused(t.Name) {
		return "outside"
	}
	return "typed"
}

// then returns the row of a follow-up of a row, asked in these words.
func (t Topic) then(f Follow, line string, before Row) (Row, error) {
	text, err := fill(line, before.slots)
	if err != nil {
		return Row{}, err
	}
	t.Code, t.Text, t.Check = f.Code, "", f.Check
	return t.answer(text, before.slots)
}

// numberWords are the numbers that some people write as words.
var numberWords = strings.Fields(`zero one two three four five six seven eight nine ten eleven twelve`)

// spoken returns slots as somebody may write them in a question.
func spoken(d Draw, slots Slots) Slots {
	all := Slots{}
	for name, value := range sortedSlots(slots) {
		all[name] = say(d, value)
	}
	return all
}

// say returns a value as somebody may write it in a question.
func say(d Draw, value any) any {
	switch v := value.(type) {
	case int:
		if v >= 0 && v < len(numberWords) && d.IntN(8) == 0 {
			return numberWords[v]
		}
	case []int:
		switch d.IntN(6) {
		case 0:
			return strings.Trim(strings.ReplaceAll(python(v), ",", ""), "[]")
		case 1:
			return strings.Trim(python(v), "[]")
		}
	}
	return value
}

// mistype returns a question as somebody may type it: some with a capital letter, a full stop, a courtesy, a typing
// error. Names, code and slots stay as they are.
func mistype(d Draw, question string) string {
	if d.IntN(8) == 0 && !strings.Contains(question, "pl") {
		question += pick(d, " pls", " please", " plz", " thanks", " thx", ", please", " thank you")
	}
	for d.IntN(3) == 0 {
		question = misspell(d, question)
	}
	if d.IntN(5) == 0 {
		question = strings.ReplaceAll(question, "'", "")
	}
	if d.IntN(3) == 0 {
		first := []rune(question)
		first[0] = unicode.ToUpper(first[0])
		question = string(first)
		question = lowI.ReplaceAllString(question, "${1}I$2")
		question = lowPython.ReplaceAllString(question, "Python")
	}
	asks := strings.HasSuffix(question, "?")
	switch {
	case asks && d.IntN(3) == 0:
		question = strings.TrimSuffix(question, "?")
	case !asks && !strings.HasSuffix(question, ".") && d.IntN(6) == 0:
		question += "."
		if isQuestion.MatchString(question) {
			question = question[:len(question)-1] + "?"
		}
	case !asks && isQuestion.MatchString(question) && d.IntN(4) == 0:
		question += pick(d, "?", "?", " ?", "??")
	}
	return question
}

var (
	lowI       = regexp.MustCompile(`(^|[^$\w])i('|\s)`)
	lowPython  = regexp.MustCompile(`\bpython\b`)
	isQuestion = regexp.MustCompile(`(?i)\b(how|what|whats|can|could|is|why|which|when|do|does|where) `)
	plainWord  = regexp.MustCompile(`^[a-z]{5,}$`)
)

// misspell makes a mistake in one of the plain words that are not the first: two letters exchanged, one left out, typed
// twice or written as it sounds. The first letter stays.
func misspell(d Draw, text string) string {
	words := strings.Split(text, " ")
	var plain []int
	for i, w := range words {
		if i > 0 && plainWord.MatchString(w) {
			plain = append(plain, i)
		}
	}
	if len(plain) == 0 {
		return text
	}
	i := pick(d, plain...)
	w := []byte(words[i])
	at := 1 + d.IntN(len(w)-2)
	switch d.IntN(4) {
	case 0:
		w[at], w[at+1] = w[at+1], w[at]
	case 1:
		w = slices.Delete(w, at, at+1)
	case 2:
		w = slices.Insert(w, at, w[at])
	case 3:
		w[at] = sounds(d, w[at])
	}
	words[i] = string(w)
	return strings.Join(words, " ")
}

// alike are letters that people write for each other.
var alike = []string{"aeiou", "sc", "ck", "mn", "dt", "bp", "gj", "fv", "iy"}

// sounds returns a letter that sounds like this one, or the same.
func sounds(d Draw, letter byte) byte {
	for _, group := range alike {
		if strings.IndexByte(group, letter) >= 0 {
			return group[d.IntN(len(group))]
		}
	}
	return letter
}

// buildTyped returns training rows of a round with questions as people type them, about the kinds and about the topics,
// and held-out follow-ups. held are the held-out rows of the kinds, whose answers no training row may have. A question
// that belongs to two topics is an error in round 0, the committed rows, and left to the first of them in others. No
// Python runs.
func buildTyped(seed uint64, round int, kinds []Kind, topics []Topic, held []Row) (train, later []Row, err error) {
	taken := map[string]string{} // by normalized question, the kind or topic that it belongs to
	answers := map[string]bool{}
	kept := map[string]bool{} // questions that are not trained, whatever they are about
	for _, q := range append(typedQuestions(), outsideQuestions()...) {
		kept[same(q.text)] = true
	}
	for _, row := range held {
		taken[same(row.Instruction+row.Input)] = row.kind.Name
		answers[normalCode(row.Output)] = true
	}
	if later, err = askFollowUps(seed, topics, taken); err != nil {
		return nil, nil, err
	}
	both := map[string]string{} // a question by the two that it belongs to
	draw := func(name string, count int, next func(d Draw) (Row, error)) error {
		d := newDraw(seed, inRound("typed/"+name, round))
		most := 50 * count // of a topic with few wordings
		for tries := 0; count > 0 && tries < most; tries++ {
			row, err := next(d)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			question := same(row.Instruction + row.Input)
			if other, ok := taken[question]; ok {
				if other != name && !(refused(name) && refused(other)) {
					both[name+" and "+other] = row.Instruction
				}
				continue
			}
			if kept[question] || answers[normalCode(row.Output)] {
				continue
			}
			taken[question] = name
			train = append(train, row)
			count--
		}
		return nil
	}
	for _, k := range kinds {
		if !k.Trained() {
			continue
		}
		err := draw(k.Name, typedPerKind, func(d Draw) (Row, error) { return k.typed(d) })
		if err != nil {
			return nil, nil, err
		}
	}
	for _, t := range topics {
		count := typedPerTopic
		if t.group() == "outside" {
			count = typedOutside
		}
		if err := draw(t.Name, count, t.row); err != nil {
			return nil, nil, err
		}
	}
	if round > 0 {
		return train, later, nil
	}
	var unclear []error
	for _, names := range slices.Sorted(maps.Keys(both)) {
		unclear = append(unclear, fmt.Errorf("%q belongs to %s: make one of them say more", both[names], names))
	}
	return train, later, errors.Join(unclear...)
}

// askFollowUps returns a held-out question for each follow-up of the topics, after a question in words of the training
// rows, and enters the latter into taken.
func askFollowUps(seed uint64, topics []Topic, taken map[string]string) (asked []Row, err error) {
	for _, t := range topics {
		d := newDraw(seed, "held/"+t.Name)
		for _, f := range t.Then {
			before, err := t.row(d)
			if err != nil {
				return nil, fmt.Errorf("topic %s: %w", t.Name, err)
			}
			row, err := t.then(f, f.Ask[heldFollow], before)
			if err != nil {
				return nil, fmt.Errorf("topic %s: %w", t.Name, err)
			}
			taken[same(before.Instruction)] = t.Name
			row.group, row.before = "turns", []string{before.Instruction}
			asked = append(asked, row)
		}
	}
	return asked, nil
}

// typed returns a row of the kind with the question as somebody types it.
func (k Kind) typed(d Draw) (row Row, err error) {
	slots := k.Draw(d)
	row = Row{kind: k, slots: slots}
	line := mistype(d, typedPhrase(d, pick(d, k.Ask...), k.Code))
	if row.Instruction, err = fill(line, spoken(d, slots)); err != nil {
		return row, err
	}
	if row.Input, err = fill(k.Input, slots); err != nil {
		return row, err
	}
	if row.Output, err = fill(k.Code, slots); err != nil {
		return row, err
	}
	row.Prompt = alpaca(row.Instruction, row.Input, row.Output)
	return row, nil
}
