package main

import (
	_ "embed"
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
	form, line, _ := strings.Cut(pick(d, all...), " ")
	line = choose(d, line)
	if form == "say" {
		return line, ""
	}
	functions := oneFunction.FindAllStringSubmatch(t.Code, -1)
	if form == "do" && len(functions) == 1 && !strings.Contains(t.Code, "class ") && d.IntN(12) == 0 {
		frame := strings.ReplaceAll(pick(d, frames["call"]...), "{name}", "$called")
		return strings.ReplaceAll(frame, "{}", line), pick(d, functionNames...)
	}
	frame := pick(d, frames[form]...)
	if strings.Contains(strings.ToLower(line), "python") {
		for strings.Contains(frame, "python") {
			frame = pick(d, frames[form]...)
		}
	}
	return strings.ReplaceAll(frame, "{}", line), ""
}

// row returns a row about the topic: a question as somebody types it, and the answer.
func (t Topic) row(d Draw) (Row, error) {
	question, called := t.ask(d)
	slots := t.slots(d, question)
	spoken := Slots{"called": called}
	for name, value := range slots {
		spoken[name] = say(d, value)
	}
	text, err := fill(mistype(d, question), spoken)
	if err != nil {
		return Row{}, err
	}
	if called != "" {
		name := oneFunction.FindStringSubmatch(t.Code)[1]
		t.Code = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(t.Code, called)
	}
	return t.answer(text, slots)
}

// held returns the row of a held-out question.
func (t Topic) held(d Draw, line string) (Row, error) {
	slots := t.slots(d, line)
	text, err := fill(line, slots)
	if err != nil {
		return Row{}, err
	}
	return t.answer(text, slots)
}

// answer returns a row with the answer to a question.
func (t Topic) answer(question string, slots Slots) (row Row, err error) {
	row = Row{Instruction: question, slots: slots, words: t.Words(), kind: Kind{Name: t.Name, Code: t.Code,
		Draw: func(d Draw) Slots { return t.slots(d, t.Code) }}}
	if row.Output, err = fill(t.Code+t.Text, slots); err != nil {
		return row, err
	}
	if row.check, err = fill(t.Check, slots); err != nil {
		return row, err
	}
	row.Prompt = alpaca(row.Instruction, row.Input, row.Output)
	return row, nil
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
	if d.IntN(8) == 0 {
		question = misspell(d, question)
	}
	if d.IntN(5) == 0 {
		question = strings.ReplaceAll(question, "'", "")
	}
	if d.IntN(3) == 0 {
		first := []rune(question)
		first[0] = unicode.ToUpper(first[0])
		question = string(first)
		question = lowI.ReplaceAllString(question, "I$1")
		question = lowPython.ReplaceAllString(question, "Python")
	}
	asks := strings.HasSuffix(question, "?")
	switch {
	case asks && d.IntN(3) == 0:
		question = strings.TrimSuffix(question, "?")
	case !asks && d.IntN(6) == 0:
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
	lowI       = regexp.MustCompile(`\bi\b('|\s)`)
	lowPython  = regexp.MustCompile(`\bpython\b`)
	isQuestion = regexp.MustCompile(`(?i)\b(how|what|whats|can|could|is|why|which|when|do|does|where) `)
	plainWord  = regexp.MustCompile(`^[a-z]{5,}$`)
)

// misspell makes a typing error in one of the plain words that are not the first: two letters exchanged, one left out,
// or one typed twice. The first letter stays.
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
	switch d.IntN(3) {
	case 0:
		w[at], w[at+1] = w[at+1], w[at]
	case 1:
		w = slices.Delete(w, at, at+1)
	case 2:
		w = slices.Insert(w, at, w[at])
	}
	words[i] = string(w)
	return strings.Join(words, " ")
}
