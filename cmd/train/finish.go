package main

import (
	"bytes"
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
func (r *running) finish(res trainer.Result, out *outputs) error {
	if err := r.run.SaveModel(r.card(res)); err != nil {
		return err
	}
	f := r.summary(res, out.tone)
	line, err := cli.JSONLine(f)
	if err != nil {
		return err
	}
	// This comes before the run counts as finished: a kill between them would lose the row.
	if err := r.logBenchmark(f); err != nil {
		return fmt.Errorf("--benchmark-log: %w", err)
	}
	f.Out = ""
	kept, err := cli.JSONLine(f)
	if err != nil {
		return err
	}
	if err := r.run.Finish(kept); err != nil {
		return err
	}
	r.report(res, f, out)
	if cli.IsTerminal(r.stdout) {
		return nil // run.json has the line, which is for programs
	}
	// If the reader is gone, the result is still in run.json.
	if _, err = r.stdout.Write(line); errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// report prints the results of the run, and how to chat with its model.
func (r *running) report(res trainer.Result, f summary, out *outputs) {
	why := "the last ones"
	if res.Best != nil {
		why = fmt.Sprintf("those with the lowest validation loss, %.4f", float64(res.Best.Loss))
	}
	if res.Stopped != "" {
		r.note("ended after step %d of %d: %s", res.Step, r.Plan.Steps, res.Stopped)
	}
	r.note("%s has the weights after step %d of %d, %s", r.out, f.WeightsOfStep, res.Step, why)
	r.note("%s tokens in %s: %s tok/s, %s target tokens/s", thousands(res.Tokens),
		time.Duration(res.Seconds*float64(time.Second)).Round(time.Second/10), short(f.TokensSec), short(f.TargetsSec))
	if held := r.gauge.held(); held != "" {
		r.note("%s", held)
	}
	for _, s := range out.ending(res).advice() {
		r.note("%s", s)
	}
	// These are not wrapped: they are to be copied.
	hint := func(what, flags string) {
		fmt.Fprintf(r.stderr, "%s: %s%s%s\n", what, cli.Command("chat"), tunedFlag(r.out), flags)
	}
	switch {
	case r.fromScratch == "":
		hint("ask it", "")
	case r.onlyText:
		hint("have it continue a text", " --only tuned --raw --prompt TEXT")
	default:
		hint("ask it", " --only tuned")
	}
}

// makesLonger reports whether this run has more steps than the finished one. If that one ran out of patience, more
// steps would change nothing.
func (in *inputs) makesLonger(was summary) bool {
	return was.Stopped == "" && in.plan.Steps > was.Steps
}

// resultOf returns the summary of a finished run.
func (in *inputs) resultOf(was *trainer.RunFile) (f summary, err error) {
	if was.Result == nil {
		return f, fmt.Errorf("the run in %s is finished, and was not made by train, which would know how it ended: to train "+
			"its result further, give it as --model and another --out", in.out)
	}
	if err := json.Unmarshal(was.Result, &f); err != nil {
		return f, fmt.Errorf("the result in %s cannot be read: %w", filepath.Join(in.dir, trainer.RunName), err)
	}
	return f, nil
}

// repeat prints how to continue a finished run and which of its settings differ from those now requested. Programs get
// its result.
func (in *inputs) repeat(was *trainer.RunFile, result summary) error {
	if result.Stopped != "" {
		in.note("the run in %s is finished: it ended after step %d, with %s, and more steps would not "+
			"change that; to train its result further, give it as --model and another --out",
			in.out, result.Steps, result.Stopped)
	} else {
		limit := "epochs"
		if was.Identity["max-steps"] == fmt.Sprint(result.Steps) {
			limit = "max-steps"
		}
		in.note("the run in %s is finished, after step %d: to continue it, give the same command with larger --%s than %s",
			in.out, result.Steps, limit, was.Identity[limit])
	}
	now := in.settings()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if then, ok := was.Settings[name]; ok && then != now[name] && name != "out" {
			in.note("it was made with --%s %s, and not %s: for that, leave --resume out", name, shown(then), shown(now[name]))
		}
	}
	if cli.IsTerminal(in.stdout) {
		return nil
	}
	result.Out = in.out
	return cli.PrintJSON(in.stdout, result)
}

// summary returns the result of the run. If the weights are those of the best evaluation, so are loss and tone.
func (r *running) summary(res trainer.Result, tone *float64) summary {
	f := summary{
		Out: r.out, Steps: res.Step, Skipped: res.Skipped, Examples: res.Examples, Tokens: res.Tokens, Padding: res.Padding,
		Targets: res.Targets, Seconds: res.Seconds, Wall: time.Since(r.began).Seconds(),
		FirstStep: r.beginning.took.Seconds(), Loss: res.Loss, WeightsOfStep: res.Step, Stopped: res.Stopped,
		PlannedMemory: int64(r.Memory.Total()), Tone: tone,
	}
	if f.PeakMemory = trainer.PeakMemory(); !r.Device.IsCPU() {
		f.PeakMemory = int64(r.Device.InUse()) // at the end, when it no longer grows
	}
	if res.Seconds > 0 {
		f.TokensSec, f.TargetsSec = float64(res.Tokens)/res.Seconds, float64(res.Targets)/res.Seconds
		mean := float64(r.set.Tokens) / float64(len(r.set.Examples))
		f.TFLOPS = model.FLOPs(r.base.Config, r.Plan.ModelOptions(r.base.Config), mean) * f.TokensSec / 1e12
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

// logBenchmark adds a row to the benchmark log. Of a resumed run, only a part of the energy would be known.
func (r *running) logBenchmark(f summary) error {
	if r.benchmarkLog == "" {
		return nil
	}
	mode := "standard"
	if r.fused.String() != "none" {
		mode = "fused"
	}
	joules := 0.0
	if r.run.From == "" {
		joules = r.power.watts() * f.Seconds
	}
	return report.AppendBenchmark(r.benchmarkLog, report.BenchmarkRow{
		Time: time.Now(), Mode: mode, Wall: time.Duration(f.Seconds * float64(time.Second)), TotalTokens: f.Tokens,
		TrainedTokens: f.Targets, PaddedTokens: f.Tokens + f.Padding, PeakMemory: f.PeakMemory, TFLOPS: f.TFLOPS,
		Joules: joules, Device: r.where(), DType: r.flag("dtype"), Model: r.modelName(),
		Batch: r.config.Batch, Seq: r.config.Seq,
		Accumulate: r.config.Accumulate, Label: r.label, Version: cli.Version(),
	})
}

// flag returns the value of a flag as text.
func (t *train) flag(name string) string { return t.flags.Lookup(name).Value.String() }

// card returns the model card of the result. It may be published, so it names a base model that is a directory
// without its path; run.json has the path.
func (r *running) card(res trainer.Result) []byte {
	c := r.config
	var b bytes.Buffer
	fmt.Fprintln(&b, "---")
	if id := hubID(r.baseName()); id != "" {
		fmt.Fprintf(&b, "base_model: %s\n", yaml(id))
	}
	fmt.Fprintf(&b, "library_name: transformers\npipeline_tag: text-generation\ntags:\n- restyle\n---\n\n# %s\n\n",
		filepath.Base(r.dir))
	if r.fromScratch != "" {
		fmt.Fprintf(&b, "A model of the family %s with %s parameters, trained from scratch by restyle on %s.\n\n",
			r.base.Config.Family, thousands(r.base.Config.ParamCount()), r.set.Name)
	} else {
		fmt.Fprintf(&b, "%s, fine-tuned by restyle on %s (%s).\n\n", r.publicName(), r.set.Name,
			count(len(r.examples), "example"))
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"steps", fmt.Sprint(res.Step)}, {"examples per step", fmt.Sprint(c.Batch * c.Accumulate)},
		{"tokens", thousands(res.Tokens)}, {"target tokens", thousands(res.Targets)},
		{"learning rate", fmt.Sprintf("%g, %s, warmup %g", c.LR, c.Schedule, c.Warmup)},
		{"optimizer", r.flag("optimizer") + ", master weights " + string(c.AdamW().Master)}, {"type", r.flag("dtype")},
		{"seed", fmt.Sprint(c.Seed)},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	if res.Best != nil {
		fmt.Fprintf(&b, "| validation loss | %.4f, after step %d |\n", float64(res.Best.Loss), res.Best.Step)
	}
	fmt.Fprintf(&b, "\n![The loss of every step and the validation loss](loss.svg)\n\nrun.json has all settings, "+
		"metrics.jsonl every step.\n\n%s", r.usage())
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

// usage is the part of the model card that shows how to use the model, from its directory or repository.
func (r *running) usage() string {
	chat, prompt := "chat --tuned .", `messages = [{"role": "user", "content": "Your question"}]
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")`
	if r.fromScratch != "" {
		chat += " --only tuned"
	}
	if r.codec.Template.Name == template.Raw().Name {
		chat, prompt = chat+` --raw --prompt "A text"`, `inputs = tokenizer("A text", return_tensors="pt")`
	}
	return fmt.Sprintf(usage, prompt, chat)
}

const usage = "## Usage\n\n```python\n" + `from transformers import AutoModelForCausalLM, AutoTokenizer

path = "."  # this directory, or the id of its repository on the hub
tokenizer = AutoTokenizer.from_pretrained(path)
model = AutoModelForCausalLM.from_pretrained(path)
%s
answer = model.generate(**inputs, max_new_tokens=256)[0, inputs["input_ids"].shape[1]:]
print(tokenizer.decode(answer, skip_special_tokens=True))
` + "```\n\nWith restyle, in this directory: `%s`\n"

// baseName returns the name by which chat finds the base model, or "" for a model trained from scratch.
func (in *inputs) baseName() string {
	if in.fromScratch != "" {
		return ""
	}
	return trainer.BaseName(in.base)
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
func (in *inputs) checkBatches(was trainer.RunFile) error {
	if in.batchesFile == "" {
		return nil
	}
	now := in.plan.Recipe()
	if was.Identity["epochs"] == now["epochs"] && was.Identity["max-steps"] == now["max-steps"] {
		return nil
	}
	if _, err := os.Stat(in.batchesFile); err == nil {
		return cli.Usagef("--write-batches %s: the file has the steps of the run before it became longer: choose a new "+
			"name for those from here on", in.batchesFile)
	}
	return nil
}

// writeBatches writes the batches of all steps, beginning with first, to --write-batches.
func (j *job) writeBatches(first int) error {
	if j.batchesFile == "" {
		return nil
	}
	info, err := os.Stat(j.batchesFile)
	isNew := err != nil
	var f io.WriteCloser
	switch {
	case isNew:
		f, err = disk.Open(j.batchesFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	case info.Mode().IsRegular(): // of the run that is resumed: it has every step
		j.note("--write-batches: %s exists, and stays as it is", j.batchesFile)
		return nil
	default:
		f, err = disk.OpenDevice(j.batchesFile)
	}
	if err != nil {
		return fmt.Errorf("--write-batches: %w", err)
	}
	err = j.Plan.Write(f, first)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if isNew {
			_ = os.Remove(j.batchesFile) // the same command writes it again
		}
		return fmt.Errorf("--write-batches: %w", err)
	}
	return nil
}
