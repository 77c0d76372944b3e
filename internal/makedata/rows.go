package main

import (
	"fmt"
	"slices"
	"strings"

	"restyle/data"
	"restyle/grade"
)

const (
	leastRows     = 100  // minimum training rows of each kind in the training data
	mostRows      = 200  // maximum; kinds with few different answers have fewer
	leastDraws    = 150  // minimum number of different answers that such a kind must be able to give
	typedPerKind  = 60   // training rows of each kind, besides, with the question as people type it
	typedPerTopic = 80   // training rows of each topic
	typedOutside  = 1000 // of each that is refused: anything at all may be asked
	seenPerKind   = 1    // held-out questions of each kind in the training data
	unseenPerKind = 2    // held-out questions of each other kind
)

// A Row is one task, with the kind and the check that it was made with. The parquet file has the first four columns.
type Row struct {
	Instruction string `parquet:"instruction" json:"instruction"`
	Input       string `parquet:"input,dict" json:"input"`
	Output      string `parquet:"output,dict" json:"output"`
	Prompt      string `parquet:"prompt" json:"-"`

	kind   Kind
	group  string   // as in data.Question
	before []string // likewise
	slots  Slots
	called string // the name that the question gives the function, if any
	check  string
	also   []string // topics whose answers are right as well
	words  bool     // the check reads the answer's text, and nothing is run
}

// trial returns what tells whether an answer to the row's question is right.
func (r Row) trial(answer string) grade.Trial {
	if r.words {
		return grade.OfText(answer, r.check)
	}
	return grade.Trial{Code: answer, Check: r.check}
}

// render returns a row made from a kind, one of its phrasings and drawn parameters.
func render(d Draw, kind Kind, line string, slots Slots) (Row, error) {
	row := Row{kind: kind, slots: slots}
	var err error
	if row.Instruction, err = phrase(d, line, slots); err != nil {
		return row, err
	}
	for _, part := range []struct {
		into     *string
		template string
	}{{&row.Input, kind.Input}, {&row.Output, kind.Code}, {&row.check, kind.Check}} {
		if *part.into, err = fill(part.template, slots); err != nil {
			return row, err
		}
	}
	row.Prompt = alpaca(row.Instruction, row.Input, row.Output)
	return row, nil
}

// alpaca renders a row as the Alpaca project's two templates do.
func alpaca(instruction, input, output string) string {
	if input == "" {
		return "Below is an instruction that describes a task. Write a response that appropriately completes the " +
			"request.\n\n" +
			"### Instruction:\n" + instruction + "\n\n### Response:\n" + output
	}
	return "Below is an instruction that describes a task, paired with an input that provides further context. " +
		"Write a response that appropriately completes the request.\n\n" +
		"### Instruction:\n" + instruction + "\n\n### Input:\n" + input + "\n\n### Response:\n" + output
}

// build returns the training rows of a round and the held-out rows, shuffled, with the kinds of the training data
// first. It runs no Python.
func build(seed uint64, round int, kinds []Kind) (train, held []Row, err error) {
	var seen, unseen []Row
	used := map[string]bool{} // normalized questions and answers
	for _, kind := range kinds {
		if err := kind.validate(); err != nil {
			return nil, nil, fmt.Errorf("kind %s: %w", kind.Name, err)
		}
		count := unseenPerKind
		if kind.Trained() {
			count = seenPerKind
		}
		rows, err := drawRows(newDraw(seed, "held/"+kind.Name), kind, kind.Held, count, count, used)
		if err != nil {
			return nil, nil, fmt.Errorf("kind %s, held out: %w", kind.Name, err)
		}
		if !kind.Trained() {
			unseen = append(unseen, rows...)
			continue
		}
		seen = append(seen, rows...)
		rows, err = drawRows(newDraw(seed, inRound("train/"+kind.Name, round)), kind, kind.Ask, leastRows, mostRows, used)
		if err != nil {
			return nil, nil, fmt.Errorf("kind %s: %w", kind.Name, err)
		}
		train = append(train, rows...)
	}
	spread(newDraw(seed, "order/seen"), seen)
	spread(newDraw(seed, "order/unseen"), unseen)
	return train, append(seen, unseen...), nil
}

// drawRows returns rows of one kind with new questions and new answers: most rows if Draw varies enough, otherwise
// no fewer than least. Each phrasing occurs about equally often.
func drawRows(d Draw, kind Kind, lines []string, least, most int, used map[string]bool) ([]Row, error) {
	var rows []Row
	order := d.Perm(len(lines))
	for tries := 0; len(rows) < most; tries++ {
		if tries > 20*most && len(rows) >= least {
			break
		}
		if tries > 100*most {
			return nil, fmt.Errorf("only %d different rows in %d draws: let Draw vary more", len(rows), tries)
		}
		line := lines[order[len(rows)%len(lines)]]
		row, err := render(d, kind, line, kind.Draw(d))
		if err != nil {
			return nil, err
		}
		question, answer := "q"+normal(row.Instruction+" "+row.Input), "a"+normalCode(row.Output)
		if used[question] || used[answer] {
			continue
		}
		if err := row.validate(); err != nil {
			return nil, err
		}
		used[question], used[answer] = true, true
		rows = append(rows, row)
	}
	return rows, nil
}

// spread shuffles rows so that no two adjacent rows are of the same kind, if possible.
func spread(d Draw, rows []Row) {
	d.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	clash := func(i int) bool {
		return i > 0 && rows[i].kind.Name == rows[i-1].kind.Name || i+1 < len(rows) &&
			rows[i].kind.Name == rows[i+1].kind.Name
	}
	for i := range rows {
		for tries := 0; clash(i) && tries < 1000; tries++ {
			j := d.IntN(len(rows))
			rows[i], rows[j] = rows[j], rows[i]
			if clash(i) || clash(j) {
				rows[i], rows[j] = rows[j], rows[i]
			}
		}
	}
}

// question returns the row in the form of heldout.jsonl.
func (r Row) question() data.Question {
	return data.Question{
		Instruction: r.Instruction, Input: r.Input, Output: r.Output, Check: r.check, Kind: r.kind.Name,
		Seen: r.kind.Trained(), Words: r.words, Group: r.group, Before: r.before,
	}
}

// validate returns an error for what no row may contain, whatever its kind.
func (r Row) validate() error {
	question := r.Instruction + "\n" + r.Input
	if n := len(r.Output); n < 40 || n > 600 {
		return fmt.Errorf("an answer of %d characters, not 40 to 600: %q", n, r.Output)
	}
	for _, bad := range []string{"  ", " 1 items", " 1 elements", " 1 words", " 1 numbers", " 1 times", " 1 characters",
		" a a ", " the the ", "..", ".?"} {
		if strings.Contains(strings.ReplaceAll(r.Instruction, "...", "…"), bad) {
			return fmt.Errorf("instruction %q contains %q", r.Instruction, bad)
		}
	}
	if last := r.Instruction[len(r.Instruction)-1]; last != '.' && last != '?' && last != ':' {
		return fmt.Errorf("instruction %q does not end in a full stop, question mark or colon", r.Instruction)
	}
	for _, name := range slotPattern.FindAllString(r.kind.Code, -1) {
		name = name[1:]
		if slices.Contains(r.kind.Derived, name) {
			continue
		}
		if !strings.Contains(strings.ToLower(question), strings.ToLower(python(r.slots[name]))) {
			return fmt.Errorf("the answer needs $%s = %s, which the question %q does not give", name, python(r.slots[name]),
				question)
		}
	}
	return nil
}
