package main

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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
replace it with $other
$other instead
and $other
now $other
try $other
let's take $other
How about $other?
i meant $other
no i wanted $other
sorry, with $other
could you use $other instead
What if I use $other?
what would it be for $other
i need it for $other
same for $other
for $other please
again with $other
the same but $other
give me that with $other
Can I see it with $other?
show me with $other
my teacher wants $other
the exercise says $other
Could you change that to $other, please?
switch to $other
is it the same with $other
how would it look with $other
hmm i need $other
thx, now $other
I'd rather have $other.
put $other in there
once more with $other
and how do i do that for $other`, "\n")

// nameLines ask for another name of the function, $other.
var nameLines = strings.Split(`call the function $other
can you call it $other instead
rename the function to $other
the function should be called $other
name it $other pls
please call the function $other
same but the function is called $other
I need the name $other for the function.
use the name $other for it
rename it to $other
call it $other
the name should be $other
its name has to be $other
change the name to $other
The function must be named $other.
my teacher wants it to be called $other
could you name the function $other?
can you rename the function $other
now with the name $other
def $other please
i want to call it $other
make the name of the function $other
the exercise says the function is $other
a different name please: $other
give the function the name $other
same code but name it $other
What if the function is called $other?
and with $other as its name
use $other as the function name
it should be def $other`, "\n")

// A follower makes the follow-up of a row, asked in words that d draws.
type follower func(d Draw, row Row) (Row, error)

// followUps returns questions that refer to the answer before: those that topics have, and those for another value or
// name. rows are the training rows of the round.
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
	d := newDraw(seed, inRound("follow-ups", round))
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
		way := func(d Draw, row Row) (Row, error) { return t.then(f, mistype(d, f.draw(d)), row) }
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

// draw returns words for a follow-up: half of the time its own, and otherwise words of one of its ways. It never
// returns the line that is held out.
func (f Follow) draw(d Draw) string {
	own := slices.Delete(slices.Clone(f.Ask), heldFollow, heldFollow+1)
	if len(f.Ways) == 0 || d.IntN(2) == 0 {
		return pick(d, own...)
	}
	line := pick(d, f.Ways...).draw(d)
	if normal(line) == normal(f.Ask[heldFollow]) {
		return pick(d, own...)
	}
	return line
}

// A way is what many follow-ups ask for, such as the same in one line, in words that fit them all.
type way struct {
	lines  []string // of ways.txtar; they have the slot it if there are values
	values []string
}

func (w way) draw(d Draw) string {
	line := pick(d, w.lines...)
	if len(w.values) == 0 {
		return line
	}
	return strings.ReplaceAll(line, itSlot, pick(d, w.values...))
}

// itSlot stands in the lines of a way for one of its values.
const itSlot = "$it"

//go:embed ways.txtar
var waysFile embed.FS

// ways returns the lines of each section of ways.txtar.
var ways = sync.OnceValues(func() (map[string][]string, error) {
	list, err := sections(waysFile, "ways")
	lines := map[string][]string{}
	for _, s := range list {
		lines[s.name] = strings.Split(s.text, "\n")
	}
	return lines, err
})

// parseWays reads lines such as "one_line" and "without the loop|for": the name of a section of ways.txtar and values.
func parseWays(list []string) (all []way, err error) {
	lines, err := ways()
	if err != nil {
		return nil, err
	}
	for _, text := range list {
		name, values, _ := strings.Cut(text, " ")
		w := way{lines: lines[name]}
		if values != "" {
			w.values = strings.Split(values, "|")
		}
		if len(w.lines) == 0 {
			return nil, fmt.Errorf("%q: ways.txtar has no section %s", text, name)
		}
		if strings.Contains(w.lines[0], itSlot) != (values != "") {
			return nil, fmt.Errorf("%q: lines of ways.txtar have $it, and a follow-up values for it, or neither", text)
		}
		all = append(all, w)
	}
	return all, nil
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
