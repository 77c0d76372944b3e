package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	template "restyle/chat"
	"restyle/data"
	"restyle/hf/hub"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/models"
	"restyle/model"
	"restyle/trainer"
	"restyle/trainer/report"
)

// summary is a run's result: the last line on standard output, and in run.json.
type summary struct {
	Out      string  `json:"out,omitempty"` // as it was typed; not in run.json, which may be read from elsewhere
	Steps    int     `json:"steps"`
	Skipped  int     `json:"skipped_steps"`
	Examples int64   `json:"examples"`
	Tokens   int64   `json:"tokens"`
	Padding  int64   `json:"padding_tokens,omitempty"` // in addition to Tokens
	Targets  int64   `json:"trained_tokens"`
	Seconds  float64 `json:"seconds"`      // in steps
	Wall     float64 `json:"wall_seconds"` // of this call, including evaluations and saving
	// FirstStep is the time from when the weights were read to the end of this call's first step, without evaluations.
	FirstStep     float64        `json:"first_step_seconds"`
	TokensSec     float64        `json:"tokens_per_second"`
	TargetsSec    float64        `json:"trained_tokens_per_second"`
	TFLOPS        float64        `json:"tflops"`
	PlannedMemory int64          `json:"planned_memory_bytes"`
	PeakMemory    int64          `json:"peak_memory_bytes"`
	Loss          report.Number  `json:"loss"`
	ValLoss       *report.Number `json:"val_loss,omitempty"`
	Tone          *float64       `json:"tone,omitempty"`
	WeightsOfStep int            `json:"weights_of_step"`
	Stopped       string         `json:"stopped,omitempty"`
}

// finish saves the result and reports it.
func (t *train) finish(res trainer.Result, out *outputs) error {
	if err := t.run.SaveModel(t.card(res)); err != nil {
		return err
	}
	f := t.summary(res, out.tone)
	line, err := cli.JSONLine(f)
	if err != nil {
		return err
	}
	// This comes before the run counts as finished: a kill between them would lose the row.
	if err := t.logBenchmark(f); err != nil {
		return fmt.Errorf("--benchmark-log: %w", err)
	}
	f.Out = ""
	kept, err := cli.JSONLine(f)
	if err != nil {
		return err
	}
	if err := t.run.Finish(kept); err != nil {
		return err
	}
	t.report(res, f, out)
	if cli.IsTerminal(t.stdout) {
		return nil // run.json has the line, which is for programs
	}
	// If the reader is gone, the result is still in run.json.
	if _, err = t.stdout.Write(line); errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// report prints the results of the run, and how to chat with its model.
func (t *train) report(res trainer.Result, f summary, out *outputs) {
	why := "the last ones"
	if res.Best != nil {
		why = fmt.Sprintf("those with the lowest validation loss, %.4f", float64(res.Best.Loss))
	}
	if res.Stopped != "" {
		t.note("ended after step %d of %d: %s", res.Step, t.job.Plan.Steps, res.Stopped)
	}
	t.note("%s has the weights after step %d of %d, %s", t.out, f.WeightsOfStep, res.Step, why)
	t.note("%s tokens in %s: %s tok/s, %s target tokens/s", thousands(res.Tokens),
		time.Duration(res.Seconds*float64(time.Second)).Round(time.Second/10), short(f.TokensSec), short(f.TargetsSec))
	if held := t.gauge.held(); held != "" {
		t.note("%s", held)
	}
	for _, s := range out.ending(res).advice() {
		t.note("%s", s)
	}
	// These are not wrapped: they are to be copied.
	hint := func(what, flags string) {
		fmt.Fprintf(t.stderr, "%s: %s%s%s\n", what, cli.Command("chat"), tunedFlag(t.out), flags)
	}
	if t.config.Adapts() {
		fmt.Fprintf(t.stderr, "merge it into its base: %s %s MERGED\n", cli.Command("export"),
			cli.ShellQuote(data.DirArg(t.out)))
	}
	switch {
	case t.fromScratch == "":
		hint("ask it", "")
	case t.onlyText:
		hint("have it continue a text", " --only tuned --raw --prompt TEXT")
	default:
		hint("ask it", " --only tuned")
	}
}

// makesLonger reports whether this run has more steps than the finished one. If that one ran out of patience, more
// steps would change nothing.
func (t *train) makesLonger(was summary) bool {
	return was.Stopped == "" && t.plan.Steps > was.Steps
}

// resultOf returns the summary of a finished run.
func (t *train) resultOf(was *trainer.RunFile) (f summary, err error) {
	if was.Result == nil {
		return f, fmt.Errorf("the run in %s is finished, and was not made by train, which would know how it ended: to train "+
			"its result further, give it as --model and another --out", t.out)
	}
	if err := json.Unmarshal(was.Result, &f); err != nil {
		return f, fmt.Errorf("the result in %s cannot be read: %w", filepath.Join(t.dir, trainer.RunName), err)
	}
	return f, nil
}

// repeat prints how to continue a finished run and which of its settings differ from those now requested. Programs get
// its result.
func (t *train) repeat(was *trainer.RunFile, result summary) error {
	if result.Stopped != "" {
		t.note("the run in %s is finished: it ended after step %d, with %s, and more steps would not "+
			"change that; to train its result further, give it as --model and another --out",
			t.out, result.Steps, result.Stopped)
	} else {
		limit := "epochs"
		if was.Identity["max-steps"] == fmt.Sprint(result.Steps) {
			limit = "max-steps"
		}
		t.note("the run in %s is finished, after step %d: to continue it, give the same command with larger --%s than %s",
			t.out, result.Steps, limit, was.Identity[limit])
	}
	now := t.settings()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if then, ok := was.Settings[name]; ok && then != now[name] && name != "out" {
			t.note("it was made with --%s %s, and not %s: for that, leave --resume out", name, shown(then), shown(now[name]))
		}
	}
	if cli.IsTerminal(t.stdout) {
		return nil
	}
	result.Out = t.out
	return cli.PrintJSON(t.stdout, result)
}

// summary returns the result of the run. If the weights come from the best evaluation, so do loss and tone.
func (t *train) summary(res trainer.Result, tone *float64) summary {
	f := summary{
		Out: t.out, Steps: res.Step, Skipped: res.Skipped, Examples: res.Examples, Tokens: res.Tokens, Padding: res.Padding,
		Targets: res.Targets, Seconds: res.Seconds, Wall: time.Since(t.began).Seconds(),
		FirstStep: t.beginning.took.Seconds(), Loss: res.Loss, WeightsOfStep: res.Step, Stopped: res.Stopped,
		PlannedMemory: int64(t.job.Memory.Total()), Tone: tone,
	}
	if f.PeakMemory = trainer.PeakMemory(); !t.job.Device.IsCPU() {
		f.PeakMemory = int64(t.job.Device.InUse()) // at the end, when it no longer grows
	}
	if res.Seconds > 0 {
		f.TokensSec, f.TargetsSec = float64(res.Tokens)/res.Seconds, float64(res.Targets)/res.Seconds
		mean := float64(t.set.Tokens) / float64(len(t.set.Examples))
		f.TFLOPS = model.FLOPs(t.base.Config, t.job.Plan.ModelOptions(t.base.Config), mean) * f.TokensSec / 1e12
	}
	if b := res.Best; b != nil {
		f.WeightsOfStep, f.ValLoss, f.Tone = b.Step, &b.Loss, b.Tone
	}
	return f
}

// tunedFlag returns the flag with which chat opens the result, quoted for a shell.
func tunedFlag(out string) string {
	if out == "out" {
		return ""
	}
	return " --tuned " + cli.ShellQuote(data.DirArg(out))
}

// logBenchmark adds a row to the benchmark log. Of a resumed run, or of several ranks, only a part of the energy would
// be known.
func (t *train) logBenchmark(f summary) error {
	if t.benchmarkLog == "" {
		return nil
	}
	mode := "standard"
	if t.fused.String() != "none" {
		mode = "fused"
	}
	joules := 0.0
	if t.run.From == "" && t.group == nil {
		joules = t.power.watts() * f.Seconds
	}
	return report.AppendBenchmark(t.benchmarkLog, report.BenchmarkRow{
		Time: time.Now(), Mode: mode, Wall: time.Duration(f.Seconds * float64(time.Second)), TotalTokens: f.Tokens,
		TrainedTokens: f.Targets, PaddedTokens: f.Tokens + f.Padding, PeakMemory: f.PeakMemory, TFLOPS: f.TFLOPS,
		Joules: joules, Device: t.where(), DType: t.flag("dtype"), Model: t.modelName(),
		Batch: t.config.Batch, Seq: t.config.Seq,
		Accumulate: t.config.Accumulate, Label: t.label, Version: cli.Version(),
	})
}

// flag returns the value of a flag as text.
func (t *train) flag(name string) string { return t.flags.Lookup(name).Value.String() }

// card returns the model card of the result. It may be published, so it names a base model that is a directory
// without its path; run.json has the path.
func (t *train) card(res trainer.Result) []byte {
	c := t.config
	var b bytes.Buffer
	fmt.Fprintln(&b, "---")
	if id := hubID(t.baseName()); id != "" {
		fmt.Fprintf(&b, "base_model: %s\n", yaml(id))
	}
	library, tag := "transformers", ""
	if c.Adapts() {
		library, tag = "peft", "- lora\n"
	}
	fmt.Fprintf(&b, "library_name: %s\npipeline_tag: text-generation\ntags:\n- restyle\n%s---\n\n# %s\n\n", library, tag,
		filepath.Base(t.dir))
	if c.Adapts() {
		fmt.Fprintf(&b, "A low-rank adapter of %s, trained by restyle on %s (%s).\n\n", t.publicName(), t.set.Name,
			count(len(t.examples), "example"))
	} else if t.fromScratch != "" {
		fmt.Fprintf(&b, "A model of the family %s with %s parameters, trained from scratch by restyle on %s.\n\n",
			t.base.Config.Family, thousands(t.base.Config.ParamCount()), t.set.Name)
	} else {
		fmt.Fprintf(&b, "%s, fine-tuned by restyle on %s (%s).\n\n", t.publicName(), t.set.Name,
			count(len(t.examples), "example"))
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"steps", fmt.Sprint(res.Step)}, {"examples per step", fmt.Sprint(c.Batch * c.Accumulate)},
		{"tokens", thousands(res.Tokens)}, {"target tokens", thousands(res.Targets)},
		{"learning rate", fmt.Sprintf("%g, %s, warmup %g", c.LR, c.Schedule, c.Warmup)},
		{"optimizer", t.optimizerRow()}, {"type", t.flag("dtype")},
		{"seed", fmt.Sprint(c.Seed)},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	if c.Adapts() {
		fmt.Fprintf(&b, "| adapters | %s |\n| base's layers | %s |\n", c.LoRA, t.baseType())
	}
	if t.adapter != nil {
		fmt.Fprintf(&b, "| trained further from | %s |\n", t.adapterName())
	}
	if res.Best != nil {
		fmt.Fprintf(&b, "| validation loss | %.4f, after step %d |\n", float64(res.Best.Loss), res.Best.Step)
	}
	fmt.Fprintf(&b, "\n![The loss of every step and the validation loss](loss.svg)\n\nrun.json has all settings, "+
		"metrics.jsonl every step.\n\n%s", t.usage())
	return b.Bytes()
}

// hubID returns the id of the repository that a base model's name means; "" if it is the embedded model or a directory.
func hubID(base string) string {
	ref, err := hub.ParseRef(hub.Model, base)
	if err != nil || ref.ID == data.StarterName {
		return ""
	}
	return ref.ID
}

// usage returns the part of the model card that shows how to use the model, from its directory or repository.
func (t *train) usage() string {
	load, note := "model = AutoModelForCausalLM.from_pretrained(path)", ""
	if t.config.Adapts() {
		load = fmt.Sprintf("model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(%q), path)",
			cmp.Or(hubID(t.baseName()), "PATH OF THE BASE MODEL"))
		note = "from peft import PeftModel\n"
	}
	chat, prompt := "chat --tuned .", `messages = [{"role": "user", "content": "Your question"}]
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")`
	if t.fromScratch != "" {
		chat += " --only tuned"
	}
	if t.codec.Template.Name == template.Raw().Name {
		chat, prompt = chat+` --raw --prompt "A text"`, `inputs = tokenizer("A text", return_tensors="pt")`
	}
	return fmt.Sprintf(usage, note, load, prompt,
		models.Elsewhere(t.base.Config, hubID(t.baseName()), t.config.Adapts()), chat)
}

const usage = "## Usage\n\n```python\n" + `%sfrom transformers import AutoModelForCausalLM, AutoTokenizer

path = "."  # this directory, or the id of its repository on the hub
tokenizer = AutoTokenizer.from_pretrained(path)
%s
%s
answer = model.generate(**inputs, max_new_tokens=256)[0, inputs["input_ids"].shape[1]:]
print(tokenizer.decode(answer, skip_special_tokens=True))
` + "```\n%s\nWith restyle, in this directory: `%s`\n"

// baseName returns the name by which chat finds the base model, or "" for a model trained from scratch.
func (t *train) baseName() string {
	if t.fromScratch != "" {
		return ""
	}
	return trainer.BaseName(t.base)
}

// yaml returns s, in quotes unless it is a plain scalar.
func yaml(s string) string {
	if strings.ContainsAny(s, ":#'\"{}[]&*!|>%@`\n") || strings.TrimSpace(s) != s {
		quoted, _ := json.Marshal(s)
		return string(quoted)
	}
	return s
}

// checkBatches returns an error if the file of batches exists but the run is now longer: the file has only the old
// steps.
func (t *train) checkBatches(was trainer.RunFile) error {
	if t.batchesFile == "" {
		return nil
	}
	now := t.plan.Recipe()
	if was.Identity["epochs"] == now["epochs"] && was.Identity["max-steps"] == now["max-steps"] {
		return nil
	}
	if _, err := os.Stat(t.batchesFile); err == nil {
		return cli.Usagef("--write-batches %s: the file has the steps of the run before it became longer: choose a new "+
			"name for those from here on", t.batchesFile)
	}
	return nil
}

// writeBatches writes the batches of all steps, starting with first, to --write-batches.
func (t *train) writeBatches(first int) error {
	if t.batchesFile == "" {
		return nil
	}
	info, err := os.Stat(t.batchesFile)
	isNew := err != nil
	var f io.WriteCloser
	switch {
	case isNew:
		f, err = disk.Open(t.batchesFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	case info.Mode().IsRegular(): // of the run that is resumed: it has every step
		t.note("--write-batches: %s exists, and stays as it is", t.batchesFile)
		return nil
	default:
		f, err = disk.OpenDevice(t.batchesFile)
	}
	if err != nil {
		return fmt.Errorf("--write-batches: %w", err)
	}
	err = t.job.Plan.Write(f, first)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if isNew {
			_ = os.Remove(t.batchesFile) // the same command writes it again
		}
		return fmt.Errorf("--write-batches: %w", err)
	}
	return nil
}
