package main

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	//go:embed typed.tsv
	typedText string
	//go:embed typed.txtar
	typedFile embed.FS
	//go:embed outside.tsv
	outsideText string
)

// A typedQuestion is a line of typed.tsv: a question as a beginner types it.
type typedQuestion struct {
	text   string
	about  string // the topic whose answer is right, or sections of typed.txtar
	slots  string // values that the question states: "a = 17; nums = [1, 2]", and "called = NAME" for a function's name
	assert string // a Python expression that must be true besides: of printed, functions or answer
}

// typedQuestions returns the questions of typed.tsv.
func typedQuestions() []typedQuestion { return questionsOf(typedText) }

// outsideQuestions returns those of outside.tsv.
func outsideQuestions() []typedQuestion { return questionsOf(outsideText) }

func questionsOf(text string) (all []typedQuestion) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := append(strings.Split(line, "\t"), "", "", "")
		all = append(all, typedQuestion{columns[0], columns[1], columns[2], columns[3]})
	}
	return all
}

// typedRows returns a held-out row for each question of typed.tsv.
func typedRows(topics []Topic) ([]Row, error) {
	about, err := typedTopics(topics)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, q := range typedQuestions() {
		t, ok := about[q.about]
		if !ok {
			return nil, fmt.Errorf("typed.tsv: %q: there is no topic %q", q.text, q.about)
		}
		row, err := t.stated(q)
		if err != nil {
			return nil, fmt.Errorf("typed.tsv: %q: %w", q.text, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// outsideRows returns a held-out row for each question of outside.tsv. They share one check.
func outsideRows(topics []Topic) ([]Row, error) {
	texts, err := textsOfChecks()
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, q := range outsideQuestions() {
		i := slices.IndexFunc(topics, func(t Topic) bool { return t.Name == q.about && t.group() == "outside" })
		if i < 0 {
			return nil, fmt.Errorf("outside.tsv: %q: there is no topic %q that refuses", q.text, q.about)
		}
		row, err := topics[i].answer(q.text, topics[i].slots(newDraw(0, q.about), ""))
		if err != nil {
			return nil, fmt.Errorf("outside.tsv: %q: %w", q.text, err)
		}
		row.check = texts["refuses.py"]
		rows = append(rows, row)
	}
	return rows, nil
}

// turnsHeld is the number of held-out follow-ups.
const turnsHeld = 60

// askedRows returns the held-out rows besides those of kinds: typed questions, those about something else, and some of
// the follow-ups.
func askedRows(topics []Topic, later []Row) ([]Row, error) {
	typed, err := typedRows(topics)
	if err != nil {
		return nil, err
	}
	outside, err := outsideRows(topics)
	return slices.Concat(typed, outside, turnRows(later, turnsHeld)), err
}

// turnRows returns count of the held-out follow-ups, the first of each topic that has any, from topics as far apart as
// they can be.
func turnRows(later []Row, count int) (rows []Row) {
	seen := map[string]bool{}
	for _, row := range later {
		if !seen[row.kind.Name] {
			seen[row.kind.Name] = true
			rows = append(rows, row)
		}
	}
	for i := range count {
		rows[i] = rows[i*len(rows)/count]
	}
	return rows[:count]
}

// typedTopics returns the topics by name, with what typed.txtar has in place of their texts.
func typedTopics(topics []Topic) (map[string]Topic, error) {
	all := map[string]Topic{}
	for _, t := range topics {
		all[t.Name] = t
	}
	texts, err := textsOfChecks()
	if err != nil {
		return nil, err
	}
	list, err := sections(typedFile, "typed")
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		name, part, _ := strings.Cut(s.name, "/")
		t := all[name]
		t.Name = name
		switch part {
		case "code.py":
			t.Text = ""
		case "answer.txt":
			t.Code = ""
		}
		if err := t.set(part, s.text, texts); err != nil {
			return nil, fmt.Errorf("%s: section %s: %w", s.place, s.name, err)
		}
		all[name] = t
	}
	return all, nil
}

// stated returns the row of a question that states some of the topic's values.
func (t Topic) stated(q typedQuestion) (Row, error) {
	slots := t.slots(newDraw(0, t.Name), "")
	before := ""
	for _, assignment := range strings.Split(q.slots, "; ") {
		if assignment == "" {
			continue
		}
		name, text, _ := strings.Cut(assignment, " = ")
		if name == "called" {
			t.Code = rename(t.Code, text)
			before = fmt.Sprintf("functions = [f for f in functions if f.__name__ == %q]\nassert functions\n", text)
			continue
		}
		i := slices.IndexFunc(t.Slots, func(s slot) bool { return s.name == name })
		if i < 0 {
			return Row{}, fmt.Errorf("topic %s has no slot %q", t.Name, name)
		}
		value, err := t.Slots[i].parse(text)
		if err != nil {
			return Row{}, err
		}
		slots[name] = value
	}
	t.Check = before + t.Check
	if q.assert != "" {
		t.Check += "\nimport re\nassert " + q.assert
	}
	return t.answer(q.text, slots)
}

// rename returns code whose only function has another name.
func rename(code, name string) string {
	own := regexp.MustCompile(`(^|[^.\w])` + oneFunction.FindStringSubmatch(code)[1] + `\b`) // and no method of that name
	return own.ReplaceAllString(code, "${1}"+name)
}

// textsOfChecks are the texts of kinds/checks.txtar.
var textsOfChecks = sync.OnceValues(func() (map[string]string, error) { return beginnings(kindFiles) })

// tolerant returns the topic's check so that it also takes an answer with sentences around it: a check of words reads
// the fenced code, or each paragraph by itself.
func (t Topic) tolerant() (string, error) {
	texts, err := textsOfChecks()
	switch {
	case !t.Words():
		return t.Check, err
	case t.Code != "":
		return texts["fenced_code.py"] + "\n" + t.Check, err
	}
	lines := strings.Split(t.Check, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "    " + line
		}
	}
	return "def right(answer):\n" + strings.Join(lines, "\n") + "\n" + texts["of_a_paragraph.py"], err
}
