package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// rowsPerFollow is how many rows of a topic each of its follow-ups is asked after.
	rowsPerFollow = 40

	// heldFollow is the line of a follow-up that is held out.
	heldFollow = 1

	// rowsPerChange is the same for a question that wants another value or another name.
	rowsPerChange = 20
)

// A Later is a question that refers to the answer before it, with its answer. BeforeQuestion and BeforeAnswer are those
// of a training row.
type Later struct {
	Instruction    string `json:"instruction"`
	Input          string `json:"input"`
	Output         string `json:"output"`
	BeforeQuestion string `json:"before_question"`
	BeforeAnswer   string `json:"before_answer"`
}

// changeLines ask for the same with another value, $other.
var changeLines = strings.Split(`now with $other instead
and with $other?
and for $other
what about $other
use $other instead
same with $other pls
and now $other
make it $other
change it to $other
do it with $other
the same thing but with $other
can you do it with $other instead?
ok and with $other
take $other instead
with $other please
Now use $other.
Please do the same for $other.
replace it with $other`, "\n")

// nameLines ask for another name of the function, $other.
var nameLines = strings.Split(`call the function $other
can you call it $other instead
rename the function to $other
the function should be called $other
name it $other pls
please call the function $other
same but the function is called $other
I need the name $other for the function.
use the name $other for it`, "\n")

// A follower makes the follow-up of a row, asked in words that d draws.
type follower func(d Draw, row Row) (Row, error)

// followUps returns questions that refer to the answer before: those that topics have, and those for another value or
// name. rows are training rows. Each round, counted from 0, asks others after the same rows.
func followUps(seed uint64, round int, kinds []Kind, topics []Topic, rows []Row) ([]Later, error) {
	ways := map[string][]follower{} // by group and name; each is used for rowsPerChange rows
	for _, k := range kinds {
		if way := k.change(); way != nil {
			ways[k.Name] = append(ways[k.Name], way)
		}
	}
	for _, t := range topics {
		ways[t.group()+t.Name] = t.followers()
	}
	var all []Later
	used := map[string]int{}
	purpose := "follow-ups"
	if round > 0 {
		purpose += fmt.Sprint("/", round)
	}
	d := newDraw(seed, purpose)
	for _, row := range rows {
		name := row.group + row.kind.Name
		list, n := ways[name], used[name]
		if row.Input != "" || n >= rowsPerChange*len(list) || row.called != "" {
			continue
		}
		used[name]++
		next, err := list[(n+round*rowsPerFollow/rowsPerChange)%len(list)](d, row)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.kind.Name, err)
		}
		if next.Output != row.Output {
			all = append(all, Later{next.Instruction, "", next.Output, row.Instruction, row.Output})
		}
	}
	return all, nil
}

// followers returns what may follow an answer about the topic, each twice that is asked after rowsPerFollow rows.
func (t Topic) followers() (ways []follower) {
	for _, f := range t.Then {
		way := func(d Draw, row Row) (Row, error) {
			line := pick(d, slices.Delete(slices.Clone(f.Ask), heldFollow, heldFollow+1)...)
			return t.then(f, mistype(d, line), row)
		}
		for range rowsPerFollow / rowsPerChange {
			ways = append(ways, way)
		}
	}
	if t.Text != "" {
		return ways
	}
	if len(t.Slots) == 1 && t.Slots[0].from != "pick" && strings.Contains(t.Code, "$"+t.Slots[0].name) {
		s := t.Slots[0]
		ways = append(ways, func(d Draw, row Row) (Row, error) {
			other := maps.Clone(row.slots)
			other[s.name] = s.draw(d)
			return t.changed(d, pick(d, changeLines...), other[s.name], other)
		})
	}
	if len(oneFunction.FindAllString(t.Code, -1)) == 1 && !strings.Contains(t.Code, "class ") {
		ways = append(ways, func(d Draw, row Row) (Row, error) {
			name := pick(d, functionNames...)
			renamed := t
			renamed.Code = rename(t.Code, name)
			return renamed.changed(d, pick(d, nameLines...), name, row.slots)
		})
	}
	return ways
}

// changed returns the row of a question for a change, whose line has the slot $other.
func (t Topic) changed(d Draw, line string, other any, slots Slots) (Row, error) {
	text, err := fill(mistype(d, line), Slots{"other": literal(other, line)})
	if err != nil {
		return Row{}, err
	}
	return t.answer(text, slots)
}

// literal returns a value as a question has it: a text in quotes, unless it is a name of the language.
func literal(value any, line string) any {
	if text, ok := value.(string); ok && slices.Contains(changeLines, line) {
		return `"` + text + `"`
	}
	return value
}

// change returns what asks for an answer of the kind with another value, or nil if it has not exactly one.
func (k Kind) change() follower {
	var own []string
	for _, name := range slotPattern.FindAllString(k.Code, -1) {
		if name = name[1:]; !slices.Contains(k.Derived, name) && !slices.Contains(own, name) {
			own = append(own, name)
		}
	}
	if !k.Trained() || k.Input != "" || len(own) != 1 {
		return nil
	}
	if _, isText := k.Draw(newDraw(0, k.Name))[own[0]].(string); isText { // may be a name in the code
		return nil
	}
	t := Topic{Name: k.Name, Code: k.Code}
	return func(d Draw, _ Row) (Row, error) {
		other := k.Draw(d)
		return t.changed(d, pick(d, changeLines...), other[own[0]], other)
	}
}
