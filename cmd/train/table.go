package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"restyle/chat"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// setDefaults gives flags values that the command line has not given them, and remembers where those come from.
func (t *train) setDefaults(values map[string]string, source string) error {
	set, err := setDefaults(t.given, values, source)
	for _, name := range set {
		t.cameFrom[name] = source
	}
	return err
}

func (t *train) mark(source string) func(*flag.Flag) {
	return func(f *flag.Flag) { t.cameFrom[f.Name] = source }
}

// notSettings are flags that say what to do, not how.
var notSettings = map[string]bool{"dry-run": true, "selfcheck": true, "show-example": true, "version": true, "resume": true, "restart": true, "preset": true, "write-batches": true}

// allSettings is every flag's value, by name.
func (t *train) allSettings() map[string]string {
	all := map[string]string{}
	t.given.VisitAll(func(f *flag.Flag) {
		if !notSettings[f.Name] {
			all[f.Name] = f.Value.String()
		}
	})
	if len(t.data) == 0 && len(t.text) == 0 {
		all["data"] = defaultData
	}
	return all
}

// shown is a flag's value as a person is told it.
func shown(value string) string {
	if value == "" || value == "[]" {
		return "-"
	}
	return value
}

// params are the model's parameters, without memory.
func (t *train) params() []model.Param {
	return model.ParamsOf(t.origin.Config, t.settings.ModelOptions(t.origin.Config, t.plan))
}

// printSettings prints all that the run is made of, and what memory it takes.
func (t *train) printSettings() {
	c := t.origin.Config
	w := tabwriter.NewWriter(t.stdout, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", what, fmt.Sprintf(format, args...)) }
	row("model", "%s: %s parameters, %d layers of %d, vocabulary %s", t.modelName(), thousands(c.ParamCount()), c.Layers, c.Dim, thousands(int64(c.Vocab)))
	row("data", "%s: %s rows, %s", t.set.Name, thousands(int64(t.set.Rows)), t.set.Format)
	learned := int64(0)
	tokens := int64(0)
	for _, e := range t.training {
		learned += int64(e.Targets())
		tokens += int64(len(e.IDs))
	}
	row("", "%s examples to train on, %s held out; %s tokens, %s of them learned; the longest has %d",
		thousands(int64(len(t.training))), thousands(int64(len(t.heldOut))), thousands(tokens), thousands(learned), t.plan.Longest)
	for _, s := range t.warnings() {
		row("", "%s", s)
	}
	var trained int64
	for _, p := range t.params() {
		if p.Trainable() {
			trained += int64(p.W.Len())
		}
	}
	if trained < c.ParamCount() {
		row("trained", "%s parameters of %s", thousands(trained), thousands(c.ParamCount()))
	}
	filled := ""
	if n := len(t.settings.ModelOptions(c, t.plan).PassSizes()); t.settings.Fill {
		filled = fmt.Sprintf(", filled up to one of %d numbers", n)
	}
	row("steps", "%s of %s examples, in passes of up to %d tokens%s", thousands(int64(t.plan.Steps)), thousands(int64(t.settings.Batch*t.settings.Accumulate)),
		t.plan.MaxTokens, filled)
	if t.settings.GradType != 0 || t.settings.BlockGradients {
		row("gradients", "%s", t.gradientsRow())
	}
	if row := t.typeRow(); row != "" {
		fmt.Fprintf(w, "type\t%s\n", row)
	}
	switch raw := t.language.Template.Name == chat.Raw().Name; {
	case t.newTemplate:
		row("template", "%s, which the result is saved with in place of the model's own", t.language.Template.Name)
	case len(t.text) == 0 && t.template == "" && raw:
		row("template", "none: the model has none, and nothing marks who speaks; --template gives one, such as chatml")
	}
	row("device", "%s", t.where())
	if with := t.productsRow(); with != "" {
		row("products", "%s", with)
	}
	w.Flush()

	fmt.Fprintln(t.stdout, "\nsettings (* given, p preset, r chosen for this model)")
	w = tabwriter.NewWriter(t.stdout, 0, 0, 1, ' ', 0)
	n, all := 0, t.allSettings()
	t.given.VisitAll(func(f *flag.Flag) {
		if notSettings[f.Name] {
			return
		}
		mark := " "
		switch source := t.cameFrom[f.Name]; {
		case source == "given":
			mark = "*"
		case strings.HasPrefix(source, "preset"):
			mark = "p"
		case source != "":
			mark = "r"
		}
		end := "\t"
		if n++; n%3 == 0 {
			end = "\n"
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s", mark, f.Name, shown(all[f.Name]), end)
	})
	fmt.Fprintln(w)
	w.Flush()

	fmt.Fprintln(t.stdout, "\nmemory")
	w = tabwriter.NewWriter(t.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, p := range t.memory.Parts {
		fmt.Fprintf(w, "%s\t%s\t\n", p.What, kernels.Bytes(p.Bytes))
	}
	fmt.Fprintf(w, "together\t%s\t\n", kernels.Bytes(t.memory.Total()))
	w.Flush()
	fmt.Fprintln(t.stdout)
}

// typeRow says what the type that the model is trained in means for its weights, if they are stored in another.
func (t *train) typeRow() string {
	counts := t.origin.DTypes()
	var all int64
	for _, n := range counts {
		all += n
	}
	var stored, lost []string // what BF16 loses
	for _, c := range []struct {
		dtype tensor.DType
		lost  string
	}{{tensor.BF16, ""}, {tensor.F16, "3 of the 11 bits of F16"}, {tensor.F32, "16 of the 24 bits of F32"}} {
		switch n := counts[c.dtype]; {
		case n == 0:
			continue
		case n == all:
			stored = append(stored, c.dtype.String())
		default:
			stored = append(stored, fmt.Sprintf("%v (%s values)", c.dtype, thousands(n)))
		}
		if c.lost != "" {
			lost = append(lost, c.lost)
		}
	}
	row := "the weights are stored in " + strings.Join(stored, " and ") + " and trained in " + t.settings.DType.String()
	switch {
	case t.settings.DType == tensor.BF16 && lost != nil:
		return row + ", which loses " + strings.Join(lost, " and ") + "; --dtype fp32 keeps all"
	case t.settings.DType == tensor.F32 && counts[tensor.F16] > 0:
		return row + ", which keeps them as they are; --dtype bf16 would lose " + strings.Join(lost, " and ")
	}
	return ""
}

// gradientsRow says what is unusual about gradients.
func (t *train) gradientsRow() string {
	row := "F32"
	if t.settings.GradType != 0 {
		row = t.settings.GradType.String() + " of blocks' matrices"
		for _, p := range t.params() {
			if p.Layer == model.Outside && p.Trainable() && p.Grad.DType == t.settings.GradType {
				row += " and of " + p.Name
			}
		}
	}
	if t.settings.BlockGradients {
		row += ", one block's at a time: each step goes through the model twice, the first time for their norm"
	}
	return row
}

// productsRow says which algorithms multiply matrices on a GPU. It is "" on the CPU.
func (t *train) productsRow() string {
	with := t.device.Products()
	switch {
	case !strings.Contains(with, "cuBLASLt"):
		return with
	case t.device.Chosen():
		return with + ": the algorithms that the run began with"
	case t.deterministic:
		return with + ": its first algorithm for each"
	}
	return with + ": its first algorithm for each, or one that is 3 % faster"
}

// where is the device in words.
func (t *train) where() string {
	s := t.device.Name()
	if level := t.device.Level(); level != "" {
		s += fmt.Sprintf(" (%s), %d threads", level, t.threadCount())
	}
	return s + ", fused operations: " + t.fused.String()
}

// warnings are what a person should know of the data.
func (t *train) warnings() (list []string) {
	s := t.set
	if s.Truncated > 0 {
		list = append(list, fmt.Sprintf("longer than --seq %d and cut: %s of %s examples, by %s tokens in all", t.seq, thousands(int64(s.Truncated)), thousands(int64(len(s.Examples))), thousands(int64(s.TruncatedTokens))))
	}
	if t.val > 0 && len(t.heldOut) == 0 {
		why := "all examples ask the same"
		if len(s.Examples) == 1 {
			why = "there is one example"
		}
		list = append(list, "nothing can be held out for a validation loss: "+why)
	}
	if n := len(s.Empty); n > 0 {
		list = append(list, fmt.Sprintf("nothing is learned from %s: no answer, or a question that alone fills --seq", rowsOf(s.Empty)))
	}
	if n := len(s.Uncertified); n > 0 {
		rows := make([]int, n)
		for i, u := range s.Uncertified {
			rows[i] = u.Row
		}
		list = append(list, fmt.Sprintf("no certificate vouches for %s (%s)", rowsOf(rows), s.Uncertified[0].Why))
	}
	return list
}

// rowsOf names rows, the first few of many.
func rowsOf(rows []int) string {
	var names []string
	for _, r := range rows[:min(5, len(rows))] {
		names = append(names, strconv.Itoa(r))
	}
	text := strings.Join(names, ", ")
	switch n := len(rows); {
	case n == 1:
		return "row " + text + " (the first is 0)"
	case n > 5:
		return fmt.Sprintf("%s rows (%s, …; the first is 0)", thousands(int64(n)), text)
	default:
		return fmt.Sprintf("%d rows (%s; the first is 0)", n, text)
	}
}

// thousands is a number with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func joinOr(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}
