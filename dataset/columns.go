package dataset

import (
	"fmt"
	"slices"
	"strings"
)

// Columns names the columns (parquet) or keys (JSON) that hold the parts of a row. Input is empty if the source has
// none.
type Columns struct {
	Instruction string `json:"instruction,omitempty"`
	Input       string `json:"input,omitempty"`
	Output      string `json:"output,omitempty"`
}

// String returns the form that ParseColumns reads: "instruction=question,output=answer".
func (c Columns) String() string {
	var parts []string
	for _, p := range []struct{ role, name string }{{"instruction", c.Instruction}, {"input", c.Input},
		{"output", c.Output}} {
		if p.name != "" {
			parts = append(parts, p.role+"="+p.name)
		}
	}
	return strings.Join(parts, ",")
}

// ParseColumns reads "instruction=question,input=context,output=answer". A part that is left out has its Alpaca name
// (instruction, input, output), the input only if the source has such a column. The empty string gives the zero
// Columns, with which Open recognizes known column names itself. It is an error to name an unknown part, a part twice,
// or one column for two parts.
func ParseColumns(s string) (Columns, error) {
	var c Columns
	if strings.TrimSpace(s) == "" {
		return c, nil
	}
	form := `write it as "instruction=NAME,input=NAME,output=NAME"`
	roles := map[string]*string{"instruction": &c.Instruction, "input": &c.Input, "output": &c.Output}
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
	return c, nil
}

// known lists the column names in use, grouped by the column that holds the question. Alpaca, Dolly, GPTeacher, gsm8k,
// camel, MetaMath and gen's own files are among them. "text" and, next to an instruction, "prompt" hold a rendered
// template, not a question.
var known = []struct {
	instruction     string
	inputs, outputs []string
}{
	{"instruction", []string{"input", "context"}, []string{"output", "response", "answer", "completion", originalOutput,
		rewrittenOutput}},
	{"question", []string{"input", "context"}, []string{"answer", "response", "output"}},
	{"query", []string{"input", "context"}, []string{"response", "answer"}},
	{"problem", nil, []string{"solution"}},
	{"prompt", nil, []string{"completion"}},
}

// recognize finds the columns of a row among there. It ignores the column other, which holds a second answer.
func recognize(there []string, other string) (Columns, error) {
	var found []Columns
	for _, k := range known {
		if !slices.Contains(there, k.instruction) {
			continue
		}
		inputs := present(k.inputs, there)
		if len(inputs) == 0 {
			inputs = []string{""}
		}
		for _, out := range present(k.outputs, there) {
			if out == other {
				continue
			}
			for _, in := range inputs {
				found = append(found, Columns{k.instruction, in, out})
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Columns{}, columnsErrorf("no known pair of question and answer among the columns %s: "+
			"name the columns as instruction=NAME,output=NAME", list(there))
	}
	return Columns{}, columnsErrorf("the columns %s can be read in more than one way (as %s or as %s): name the columns",
		list(there), found[0], found[1])
}

func present(names, there []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(there, n) })
}

// describe returns the chosen columns for an error: as ParseColumns reads them, or the column of a conversation.
func describe(chosen []string) string {
	if len(chosen) == 3 {
		return Columns{chosen[0], chosen[1], chosen[2]}.String()
	}
	return list(chosen)
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
	// recognize what a model is trained on: a conversation, as JSON, or a Row
	Training bool `json:"training,omitempty"`
}

// conversationColumns are the columns that hold a whole conversation.
var conversationColumns = []string{"messages", "conversations"}

// conversation reports whether the chosen columns are a conversation, which a record holds as JSON.
func (w wanted) conversation(chosen []string) bool { return w.Training && len(chosen) == 1 }

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
	c := w.Columns
	if c == (Columns{}) {
		if w.Training {
			for _, name := range conversationColumns {
				if slices.Contains(there, name) {
					return []string{name}, nil
				}
			}
		}
		// gen rewrites the original one of its two answers; train learns the rewritten one.
		other := rewrittenOutput
		if w.Training && slices.Contains(there, rewrittenOutput) {
			other = originalOutput
		}
		var err error
		if c, err = recognize(there, other); err != nil {
			return nil, err
		}
		return []string{c.Instruction, c.Input, c.Output}, nil
	}
	inputNamed := c.Input != ""
	for _, p := range []struct {
		name   *string
		byName string
	}{{&c.Instruction, "instruction"}, {&c.Input, "input"}, {&c.Output, "output"}} {
		if *p.name == "" {
			*p.name = p.byName
		}
	}
	if !slices.Contains(there, c.Input) && !inputNamed || c.Input == c.Instruction || c.Input == c.Output {
		c.Input = ""
	}
	for _, n := range []string{c.Instruction, c.Input, c.Output} {
		if n != "" && !slices.Contains(there, n) {
			return nil, columnsErrorf("there is no column %q, only %s: name other columns", n, list(there))
		}
	}
	if c.Instruction == c.Output {
		return nil, columnsErrorf("the column %q cannot be both question and answer: name a column for each", c.Output)
	}
	return []string{c.Instruction, c.Input, c.Output}, nil
}
