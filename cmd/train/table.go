package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"restyle/chat"
	"restyle/data"
	"restyle/dataset/training"
	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/trainer"
)

// notSettings are flags that say what to do, not how.
var notSettings = map[string]bool{
	"dry-run": true, "selfcheck": true, "show-example": true, "version": true, "resume": true, "restart": true,
	"preset": true, "ranks": true, "write-batches": true, "all-settings": true,
}

// settings returns the value of every flag that is a setting, by name.
func (t *train) settings() map[string]string {
	all := map[string]string{}
	t.flags.VisitAll(func(f *flag.Flag) {
		if !notSettings[f.Name] {
			all[f.Name] = f.Value.String()
		}
	})
	if len(t.data.Files) == 0 && len(t.text) == 0 {
		all["data"] = defaultData
	}
	return all
}

// shown returns a flag's value for people.
func shown(value string) string {
	if value == "" || value == "[]" {
		return "-"
	}
	return strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
}

// print prints the parts of the run, the settings, and the memory by purpose.
func (t *train) print() {
	rows := append(t.rows(), [2]string{"settings", t.ownSettings()})
	if err := cli.PrintRows(t.stdout, rows); err != nil {
		return // the reader is gone
	}
	if t.allSettings {
		fmt.Fprintln(t.stdout, "\nsettings (* given, p preset, r chosen for this model)")
		_ = cli.PrintCells(t.stdout, t.settingCells())
	}
	fmt.Fprintln(t.stdout, "\nmemory")
	w := tabwriter.NewWriter(t.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, p := range t.job.Memory.Parts {
		fmt.Fprintf(w, "%s\t%s\t\n", p.What, kernels.Bytes(p.Bytes))
	}
	fmt.Fprintf(w, "total\t%s\t\n", kernels.Bytes(t.job.Memory.Total()))
	w.Flush()
	fmt.Fprintln(t.stdout)
}

// rows describes the model, the data, the steps and the device.
func (t *train) rows() (rows [][2]string) {
	c, p := t.base.Config, t.job.Plan
	row := func(what, format string, args ...any) {
		rows = append(rows, [2]string{what, fmt.Sprintf(format, args...)})
	}
	row("model", "%s: %s parameters, %s of %d, vocabulary %s", t.modelName(), thousands(c.ParamCount()),
		cli.Count(c.Layers, "layer"), c.Dim, thousands(int64(c.Vocab)))
	if t.adapter != nil {
		row("adapter", "%s, which is trained further: %s", t.adapter.Name, t.adapter.Spec)
	}
	if t.fromScratch == "" && t.base.Name == data.StarterName {
		row("", "%s", data.StarterScope)
	}
	for i, s := range t.dataRows() {
		row([]string{"data", ""}[min(i, 1)], "%s", s)
	}
	var targets, tokens, trainable int64
	for _, e := range t.examples {
		targets += int64(e.Targets())
		tokens += int64(len(e.IDs))
	}
	row("", "%s to train on, %s held out; %s tokens, %s of them targets; the longest example has %d",
		count(len(t.examples), "example"), thousands(int64(len(p.HeldOut))), thousands(tokens), thousands(targets), p.Longest)
	for _, s := range t.warnings() {
		row("", "%s", s)
	}
	for _, x := range t.params() {
		if x.Trainable() {
			trainable += int64(x.W.Len())
		}
	}
	if t.config.Adapts() {
		row("trainable", "%s parameters of adapters, beside %s of the base, in %s", thousands(trainable),
			thousands(c.ParamCount()), t.baseType())
		for _, s := range t.unread() {
			row("", "%s", s)
		}
	} else if trainable < c.ParamCount() {
		row("trainable", "%s parameters of %s", thousands(trainable), thousands(c.ParamCount()))
	}
	padded := ""
	if p.PadPasses {
		padded = fmt.Sprintf(", padded to one of %d sizes", len(p.ModelOptions(c).PassSizes()))
	}
	row("steps", "%s of %s, in passes of up to %d tokens%s", thousands(int64(p.Steps)),
		count(p.Config.Batch*p.Config.Accumulate, "example"), p.MaxTokens, padded)
	if p.GradType != 0 || p.Config.Gradients == trainer.LayerGradients {
		row("gradients", "%s", t.gradientsRow())
	}
	if s := t.typeRow(); s != "" {
		row("type", "%s", s)
	}
	switch raw := t.codec.Template.Name == chat.Raw().Name; {
	case t.newTemplate:
		row("template", "%s, which the result is saved with in place of the model's own", t.codec.Template.Name)
	case !t.onlyText && t.template == "" && raw:
		row("template", "none: the model has none, so nothing marks who speaks; choose one with --template, such as chatml")
	}
	row("device", "%s", t.where())
	if s := t.unfusedRow(); s != "" {
		row("", "%s", s)
	}
	if with := t.productsRow(); with != "" {
		row("products", "%s", with)
	}
	return rows
}

// unfusedRow says what a run without fused operations is, and what --fused would gain. The gain was measured in
// training in bf16: for the embedded model by bench train on several CPUs and an H200 (docs/bench/cpu and h200), and
// for Llama-3.2-1B on an H200 (docs/bench/gpu.md).
func (t *train) unfusedRow() string {
	switch {
	case t.fused.String() != "none":
		return ""
	case t.job.Device.IsCPU():
		return "this is the unfused reference: --fused computes the same, 1.1 to 1.4 times as fast on a CPU"
	}
	return "this is the unfused reference: --fused computes the same, 1.4 to 3 times as fast on a GPU"
}

// ownSettings names the settings that differ from their defaults, by what set them.
func (t *train) ownSettings() string {
	all := t.settings()
	var parts []string
	for _, source := range slices.Compact(slices.Sorted(maps.Values(t.cameFrom))) {
		var of []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if t.cameFrom[name] == source {
				of = append(of, name+" "+shown(all[name]))
			}
		}
		if of == nil {
			continue
		}
		if source != "given" {
			source = "for " + source
		}
		parts = append(parts, source+": "+strings.Join(of, ", "))
	}
	if parts == nil {
		parts = []string{"all defaults"}
	}
	return strings.Join(parts, "; ") + "; --all-settings prints the others"
}

// settingCells returns every setting with its value and what set it.
func (t *train) settingCells() (cells []string) {
	all := t.settings()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		mark := " "
		switch source := t.cameFrom[name]; {
		case source == "given":
			mark = "*"
		case strings.HasPrefix(source, "preset"):
			mark = "p"
		case source != "":
			mark = "r"
		}
		cells = append(cells, mark+" "+name+" "+shown(all[name]))
	}
	return cells
}

// params returns the model's parameters, without allocating memory for them.
func (t *train) params() []model.Param {
	return model.ParamsOf(t.base.Config, t.job.Plan.ModelOptions(t.base.Config))
}

// typeRow describes what the training type means for weights stored in another type. It returns "" if it means nothing.
func (t *train) typeRow() string {
	if !t.base.Quantization.None() {
		return "" // another row has their types
	}
	counts := t.base.DTypes()
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
	row := "the weights are stored in " + strings.Join(stored, " and ") + " and trained in " + t.config.DType.String()
	switch {
	case t.config.DType == tensor.BF16 && lost != nil:
		return row + ", which loses " + strings.Join(lost, " and ") + "; --dtype fp32 keeps all"
	case t.config.DType == tensor.F16 && counts[tensor.F16] < all:
		return row + ", which loses numbers beyond 65,504 and digits of those below 0.0001; --dtype fp32 keeps all"
	case t.config.DType == tensor.F32 && counts[tensor.F16] > 0:
		return row + ", which keeps them as they are; --dtype bf16 would lose " + strings.Join(lost, " and ")
	}
	return ""
}

// gradientsRow describes how gradients differ from the default.
func (t *train) gradientsRow() string {
	row := "F32"
	if t.job.Plan.GradType != 0 {
		row = t.job.Plan.GradType.String() + " of layers' matrices"
		for _, p := range t.params() {
			if p.Layer == model.Outside && p.Trainable() && p.Grad.DType == t.job.Plan.GradType {
				row += " and of " + p.Name
			}
		}
	}
	if t.config.Gradients == trainer.LayerGradients {
		row += ", one layer's at a time: the backward pass of each step runs twice, the first time for their norm"
	}
	return row
}

// productsRow names the algorithms that multiply matrices on a GPU. It returns "" on the CPU.
func (t *train) productsRow() string {
	with := t.job.Device.Products()
	switch {
	case !strings.Contains(with, "cuBLASLt"):
		return with
	case t.job.Device.Chosen():
		return with + ": the algorithms that the run began with"
	case t.deterministic:
		return with + ": its first algorithm for each"
	}
	return with + ": its first algorithm for each, or one that is 3% faster"
}

// where describes the device.
func (t *train) where() string {
	s := t.job.Device.Name()
	if level := t.job.Device.Level(); level != "" {
		s += fmt.Sprintf(" (%s), %s", level, cli.Count(cmp.Or(t.place.Threads(t.threads), runtime.GOMAXPROCS(0)), "thread"))
	}
	if n := t.place.Size; n > 1 {
		s += fmt.Sprintf(", each of %d ranks", n)
	}
	return s + ", fused operations: " + t.fused.String()
}

// warnings returns what the user should know about the data.
func (t *train) warnings() (list []string) {
	s := t.set
	if s.Truncated > 0 {
		list = append(list, fmt.Sprintf("longer than --seq %d and truncated: %s of %s, by %s in total", t.config.Seq,
			thousands(int64(s.Truncated)), count(len(s.Examples), "example"), count(s.TruncatedTokens, "token")))
	}
	if s.Apart > 0 {
		list = append(list, fmt.Sprintf("the template writes earlier answers in another way once there are later messages, "+
			"so %s with several answers became %s, one for each answer", count(s.Apart, "row"),
			count(s.AnswersApart, "example")))
	}
	if t.val > 0 && len(t.plan.HeldOut) == 0 {
		why := "all examples ask the same"
		if len(s.Examples) == 1 {
			why = "there is one example"
		}
		list = append(list, "nothing can be held out for a validation loss: "+why)
	}
	if n := len(s.Empty); n > 0 {
		list = append(list, fmt.Sprintf("no target tokens in %s: no answer, only context, no text, or a question that "+
			"fills --seq", rowsOf(s, s.Empty)))
	}
	if len(s.Quoted) > 0 {
		list = append(list, fmt.Sprintf("arguments of calls are text in %s, and the template writes text in quotes: "+
			"give them as an object if it is to write one", rowsOf(s, s.Quoted)))
	}
	if len(s.LeftOut) > 0 {
		list = append(list, fmt.Sprintf("the template leaves out a message of %s (role %s)", rowsOf(s, s.LeftOut),
			s.LeftOutRole))
	}
	if len(s.Typed) > 0 {
		list = append(list, fmt.Sprintf("special tokens, such as %s, are written out in %s: the model reads and learns "+
			"their characters, not the tokens, which a template adds itself", s.TypedToken, rowsOf(s, s.Typed)))
	}
	if n := len(s.Uncertified); n > 0 {
		rows := make([]int, n)
		for i, u := range s.Uncertified {
			rows[i] = u.Row
		}
		list = append(list, fmt.Sprintf("no certificate vouches for %s (%s)", rowsOf(s, rows), s.Uncertified[0].Why))
	}
	return list
}

// rowsOf names rows by their numbers; if there are many, only the first few.
func rowsOf(s *training.Set, rows []int) string {
	var names []string
	for _, r := range rows[:min(5, len(rows))] {
		names = append(names, s.Place(r))
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

// thousands returns a number with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count returns a number with a noun whose plural ends in s: "1 row", "2,304 rows".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(int64(n)) + " " + what + "s"
}

func joinOr(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}
