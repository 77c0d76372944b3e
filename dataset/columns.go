package dataset

import (
	"fmt"
	"slices"
	"strings"
)

// Columns names the columns (parquet) or keys (JSON) that hold the parts of a row. Input and System are empty if the
// source has none. Text is the only part of a row that is plain text. System and Text are only for training.
type Columns struct {
	Instruction string `json:"instruction,omitempty"`
	Input       string `json:"input,omitempty"`
	Output      string `json:"output,omitempty"`
	System      string `json:"system,omitempty"`
	Text        string `json:"text,omitempty"`
}

// role is a part of a row by its name for people.
type role struct {
	name   string
	column *string
}

// roles returns the parts of a row. The first four are in the order of a record's values.
func (c *Columns) roles() []role {
	return []role{{"instruction", &c.Instruction}, {"input", &c.Input}, {"output", &c.Output}, {"system", &c.System},
		{"text", &c.Text}}
}

// The values of a record that is a row, and their number. The input and the system prompt may be missing or always
// empty.
const (
	instructionAt, inputAt, outputAt, systemAt = 0, 1, 2, 3
	rowWidth                                   = 4
)

func isOptional(at int) bool { return at == inputAt || at == systemAt }

// record returns the columns of the values of a record.
func (c Columns) record() []string { return []string{c.Instruction, c.Input, c.Output, c.System} }

// columnsOf returns the columns of a record that is a row.
func columnsOf(record []string) (c Columns) {
	for i, name := range record {
		*c.roles()[i].column = name
	}
	return c
}

// String returns the form that ParseColumns reads: "instruction=question,output=answer".
func (c Columns) String() string {
	var parts []string
	for _, r := range c.roles() {
		if *r.column != "" {
			parts = append(parts, r.name+"="+*r.column)
		}
	}
	return strings.Join(parts, ",")
}

// ParseColumns reads "instruction=question,input=context,output=answer". A part that is left out has its Alpaca name
// (instruction, input, output), but there is an input only if the source has such a column, and a system prompt only if
// "system=NAME" names it. "text=NAME" by itself names a column of plain text. The empty string gives the zero Columns,
// with which Open recognizes known column names itself. It is an error to name an unknown part, a part twice, or one
// column for two parts.
func ParseColumns(s string) (Columns, error) {
	var c Columns
	if strings.TrimSpace(s) == "" {
		return c, nil
	}
	form := `write it as "instruction=NAME,input=NAME,output=NAME"`
	roles := map[string]*string{}
	for _, r := range c.roles() {
		roles[r.name] = r.column
	}
	used := map[string]string{}
	for _, part := range strings.Split(s, ",") {
		role, name, ok := strings.Cut(part, "=")
		role, name = strings.TrimSpace(role), strings.TrimSpace(name)
		target := roles[role]
		switch {
		case !ok || name == "":
			return Columns{}, fmt.Errorf("columns: %q names no column: %s", part, form)
		case target == nil:
			return Columns{}, fmt.Errorf("columns: %q is not a part of a row: %s", role, form)
		case *target != "":
			return Columns{}, fmt.Errorf("columns: %s is given twice (%q and %q)", role, *target, name)
		case used[name] != "":
			return Columns{}, fmt.Errorf("columns: %q is given for both %s and %s", name, used[name], role)
		}
		*target, used[name] = name, role
	}
	if c.Text != "" && c != (Columns{Text: c.Text}) {
		return Columns{}, fmt.Errorf("columns: text=%s is plain text, which has no other parts: leave one out", c.Text)
	}
	return c, nil
}

// A pair is columns in use, grouped by the one that holds the question.
type pair struct {
	instruction     string
	inputs, outputs []string
}

// known lists the column names in use. Alpaca, Dolly, GPTeacher, gsm8k, OpenOrca, MetaMath, Magicoder, OpenMathInstruct
// and gen's own files are among them.
var known = []pair{
	{"instruction", []string{"input", "context"}, []string{"output", "response", "answer", "completion", originalOutput,
		rewrittenOutput}},
	{"question", []string{"input", "context"}, []string{"answer", "response", "output", "solution",
		"generated_solution", "completion"}},
	{"query", []string{"input", "context"}, []string{"response", "answer", "output"}},
	{"problem", nil, []string{"solution", "generated_solution"}},
}

// others are names that hold a question if no column of known does. Next to an instruction, "prompt" holds a rendered
// template, and "input" what the instruction refers to. CAMEL and FLAN are among them.
var others = []pair{
	{"prompt", []string{"context"}, []string{"completion", "response", "answer", "output"}},
	{"input", nil, []string{"output", "response", "answer", "target"}},
	{"inputs", nil, []string{"targets"}},
	{"user", nil, []string{"assistant"}},
	{"human", nil, []string{"assistant"}},
	{"message_1", nil, []string{"message_2"}},
}

// systemColumns are the names of a column that holds a system prompt.
var systemColumns = []string{"system", "system_prompt", "system_message", "system_instruction"}

// textColumn holds plain text, if a row has no question: next to one it holds a rendered template.
const textColumn = "text"

// spelling returns the column of this name, or the only one that differs from it only by case, or "".
func spelling(name string, there []string) string {
	if slices.Contains(there, name) {
		return name
	}
	found := ""
	for _, n := range there {
		if !strings.EqualFold(n, name) {
			continue
		}
		if found != "" {
			return ""
		}
		found = n
	}
	return found
}

// pairs finds the columns of a row among there, in every way that they can be read.
func pairs(of []pair, there []string, w wanted, other string) (found []Columns) {
	orNone := func(names []string) []string {
		if names = present(names, there); len(names) == 0 {
			return []string{""}
		}
		return names
	}
	systems := []string{""}
	if w.Training {
		systems = orNone(systemColumns)
	}
	for _, k := range of {
		question := spelling(k.instruction, there)
		if question == "" {
			continue
		}
		for _, out := range present(k.outputs, there) {
			if out == other {
				continue
			}
			for _, in := range orNone(k.inputs) {
				for _, system := range systems {
					found = append(found, Columns{Instruction: question, Input: in, Output: out, System: system})
				}
			}
		}
	}
	return found
}

// recognize finds the columns of a row among there. It ignores the column other, which holds a second answer.
func (w wanted) recognize(there []string, other string) (Columns, error) {
	found := pairs(known, there, w, other)
	if len(found) == 0 {
		found = pairs(others, there, w, other)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if err := preferences(there); err != nil {
			return Columns{}, err
		}
		forms := "instruction=NAME,output=NAME"
		if w.Training {
			forms += ", or plain text as text=NAME"
		}
		return Columns{}, columnsErrorf("no known pair of question and answer among the columns %s: "+
			"name the columns as %s", list(there), forms)
	}
	return Columns{}, columnsErrorf("the columns %s can be read in more than one way (as %s or as %s): name the columns",
		list(there), found[0], found[1])
}

// present returns the columns of these names, in their spelling.
func present(names, there []string) (found []string) {
	for _, n := range names {
		if n = spelling(n, there); n != "" {
			found = append(found, n)
		}
	}
	return found
}

// asks reports whether a column has a name that holds a question.
func asks(there []string) bool {
	return slices.ContainsFunc(slices.Concat(known, others), func(p pair) bool {
		return spelling(p.instruction, there) != ""
	})
}

// describe returns the chosen columns for an error: as ParseColumns reads them or, for a conversation or text, as a
// list.
func describe(chosen []string) string {
	if len(chosen) == rowWidth {
		return columnsOf(chosen).String()
	}
	return list(named(chosen))
}

// named returns the columns that have a name.
func named(columns []string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(n string) bool { return n == "" })
}

// list quotes names for an error, at most 20 of them.
func list(names []string) string {
	var b strings.Builder
	for i, n := range names {
		if i == 20 {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if len(n) > 60 {
			n = strings.ToValidUTF8(n[:60], "") + "…"
		}
		fmt.Fprintf(&b, "%q", n)
	}
	if b.Len() == 0 {
		return "(none)"
	}
	return b.String()
}

// wanted tells which columns a reader delivers. The child process gets it as JSON.
type wanted struct {
	Columns Columns  `json:"columns"`           // the parts of a Row; zero: recognize
	Exactly []string `json:"exactly,omitempty"` // or these, all of them
	// recognize what a model is trained on: a conversation, as JSON, plain text, or a Row
	Training bool `json:"training,omitempty"`
}

// conversationColumns are the columns that hold a whole conversation, whatever else there is.
var conversationColumns = []string{"messages", "conversations"}

// conversationColumn holds a whole conversation if there is no pair of question and answer.
const conversationColumn = "conversation"

// document reports whether the chosen columns are plain text.
func (w wanted) document(chosen []string) bool {
	return w.Training && len(chosen) == 1 && (w.Columns.Text != "" || strings.EqualFold(chosen[0], textColumn))
}

// talkSystemAt is where a record that is a whole conversation has its system prompt, next to the conversation. Like the
// input of a row, which is there, it is optional.
const talkSystemAt = inputAt

// conversation reports whether the chosen columns are a conversation, which a record holds as JSON: whole, perhaps with
// a system prompt, or as a prompt and its completion.
func (w wanted) conversation(chosen []string) bool {
	return w.Exactly == nil && len(chosen) < rowWidth && !w.document(chosen)
}

// halves returns the columns of a conversation that is a prompt and its completion, one of them or both lists of
// messages, from the columns of a row whose question or answer turned out to be a list.
func halves(chosen []string) ([]string, error) {
	if name := chosen[inputAt]; name != "" {
		return nil, columnsErrorf("the column %q or %q is a list of messages, which have no place for the column %q: "+
			"name the columns", chosen[instructionAt], chosen[outputAt], name)
	}
	return []string{chosen[instructionAt], chosen[systemAt], chosen[outputAt]}, nil
}

// talk returns the columns of a whole conversation: its own, and the system prompt's or "".
func talk(column string, there []string) ([]string, error) {
	systems := present(systemColumns, there)
	switch len(systems) {
	case 0:
		return []string{column, ""}, nil
	case 1:
		return []string{column, systems[0]}, nil
	}
	return nil, fmt.Errorf("the columns %s may both be the system prompt of a conversation: remove one", list(systems))
}

// pick chooses among the columns there. It returns a name for each value of a record, "" for a value that is always
// empty.
func (w wanted) pick(there []string) ([]string, error) {
	if w.Exactly != nil {
		for _, n := range w.Exactly {
			if !slices.Contains(there, n) {
				return nil, fmt.Errorf("there is no column %q, only %s", n, list(there))
			}
		}
		return w.Exactly, nil
	}
	if w.Columns == (Columns{}) {
		return w.pickKnown(there)
	}
	return w.pickNamed(there)
}

// pickKnown chooses columns by known names.
func (w wanted) pickKnown(there []string) ([]string, error) {
	if w.Training {
		if names := present(conversationColumns, there); len(names) > 0 {
			return talk(names[0], there)
		}
	}
	// gen rewrites the original one of its two answers; train learns the rewritten one.
	other := rewrittenOutput
	if w.Training && slices.Contains(there, rewrittenOutput) {
		other = originalOutput
	}
	c, err := w.recognize(there, other)
	if err == nil {
		return c.record(), nil
	}
	if names := present(conversationColumns, there); len(names) > 0 {
		return []string{names[0], ""}, nil
	}
	if w.Training && len(pairs(slices.Concat(known, others), there, w, other)) == 0 {
		if names := present([]string{conversationColumn}, there); len(names) > 0 {
			return talk(names[0], there)
		}
		if names := present([]string{textColumn}, there); len(names) > 0 && !asks(there) {
			return names, nil
		}
	}
	return nil, err
}

// pickNamed checks the columns that were named, and chooses Alpaca's for parts that were not.
func (w wanted) pickNamed(there []string) ([]string, error) {
	c := w.Columns
	if !w.Training && (c.System != "" || c.Text != "") {
		return nil, columnsErrorf("columns %s: a system prompt or plain text is only for training: "+
			"name an instruction, an input and an output", c)
	}
	inputNamed := c.Input != ""
	if c.Text == "" {
		for _, r := range c.roles()[:outputAt+1] {
			if *r.column == "" {
				*r.column = r.name
			}
		}
	}
	if !slices.Contains(there, c.Input) && !inputNamed ||
		slices.Contains([]string{c.Instruction, c.Output, c.System}, c.Input) {
		c.Input = ""
	}
	for _, n := range append(c.record(), c.Text) {
		if n != "" && !slices.Contains(there, n) {
			return nil, columnsErrorf("there is no column %q, only %s: name other columns", n, list(there))
		}
	}
	if c.Text != "" {
		return []string{c.Text}, nil
	}
	if c.Instruction == c.Output {
		return nil, columnsErrorf("the column %q cannot be both question and answer: name a column for each", c.Output)
	}
	return c.record(), nil
}
