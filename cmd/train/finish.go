package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"restyle/hf"
	"restyle/internal/cli"
	"restyle/model"
	"restyle/trainer"
	"restyle/trainer/report"
)

// figures are a run's result: the last line on standard output, and in run.json.
type figures struct {
	Out           string         `json:"out"`
	Steps         int            `json:"steps"`
	Skipped       int            `json:"skipped_steps"`
	Examples      int64          `json:"examples"`
	Tokens        int64          `json:"tokens"`
	Padding       int64          `json:"padding_tokens,omitempty"` // beside those
	Trained       int64          `json:"trained_tokens"`
	Seconds       float64        `json:"seconds"`            // in steps
	Wall          float64        `json:"wall_seconds"`       // of this call, with evaluations and saving
	FirstStep     float64        `json:"first_step_seconds"` // from when the weights were there to the end of this call's first step, without evaluations
	TokensSec     float64        `json:"tokens_per_second"`
	TrainedSec    float64        `json:"trained_tokens_per_second"`
	TFLOPS        float64        `json:"tflops"`
	PlannedMemory int64          `json:"planned_memory_bytes"`
	PeakMemory    int64          `json:"peak_memory_bytes"`
	Loss          report.Number  `json:"loss"`
	ValLoss       *report.Number `json:"val_loss,omitempty"`
	Tone          *float64       `json:"tone,omitempty"`
	WeightsOfStep int            `json:"weights_of_step"`
	Stopped       string         `json:"stopped,omitempty"`
}

// finish saves the result and says what it is.
func (t *train) finish(p *place, m *model.Model, r trainer.Result, wall time.Duration) error {
	if err := hf.Save(t.dir, t.origin, t.device, m.Params(), hf.SaveOptions{Card: t.card(r)}); err != nil {
		return err
	}
	f := t.figures(r, wall)
	line, err := cli.JSONLine(f)
	if err != nil {
		return err
	}
	if err := t.logBenchmark(f); err != nil { // before the run counts as finished, or a kill between them would lose the row
		return err
	}
	done := t.record()
	done.Finished, done.Result = true, line
	if err := p.write(done); err != nil {
		return err
	}
	why := "the last ones"
	if r.Best != nil {
		why = fmt.Sprintf("the best of %d steps by validation loss, %.4f", r.Step, float64(r.Best.Loss))
	}
	if r.Stopped != "" {
		t.note("ended after step %d of %d: %s", r.Step, t.plan.Steps, r.Stopped)
	}
	t.note("%s has the weights after step %d, %s", t.out, f.WeightsOfStep, why)
	t.note("%s tokens in %s: %s tok/s, %s learned", thousands(r.Tokens), time.Duration(r.Seconds*float64(time.Second)).Round(time.Second/10), short(f.TokensSec), short(f.TrainedSec))
	if held := t.gauge.held(); held != "" {
		t.note("%s", held)
	}
	switch flag := tunedFlag(t.out); {
	case t.fromScratch == "":
		t.note("ask it: go run ./cmd/chat%s", flag)
	case len(t.text) > 0:
		t.note("have it go on with a text: go run ./cmd/chat%s --only tuned --raw --prompt TEXT", flag)
	default:
		t.note("ask it: go run ./cmd/chat%s --only tuned", flag)
	}
	// Where the reader or the terminal is gone, nobody listens, and run.json has it.
	if _, err = t.stdout.Write(line); errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) {
		return nil
	}
	return err
}

// makesLonger says whether this run is to have more steps than the one that was finished. Where its patience was over, more would
// change nothing.
func (t *train) makesLonger(was figures) bool { return was.Stopped == "" && t.plan.Steps > was.Steps }

// resultOf are the figures that a finished run came to.
func (t *train) resultOf(was *record) (f figures, err error) {
	if err := json.Unmarshal(was.Result, &f); err != nil {
		return f, fmt.Errorf("the result in %s cannot be read: %w", filepath.Join(t.dir, runFile), err)
	}
	return f, nil
}

// repeat says what a finished run came to, how it can be gone on with, and what it was made with that is not asked for now.
func (t *train) repeat(was *record, result figures) error {
	if result.Stopped != "" {
		t.note("the run in %s is finished: it ended after step %d, with %s, and more steps would not change that; "+
			"to train its result further, give it as --model and another --out", t.out, result.Steps, result.Stopped)
	} else {
		t.note("the run in %s is finished, after step %d: to go on with it, give the same command with larger --epochs than %s or --max-steps than %s "+
			"(0: no limit), whichever ended it", t.out, result.Steps, was.Identity["epochs"], was.Identity["max-steps"])
	}
	now := t.allSettings()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if then, ok := was.Settings[name]; ok && then != now[name] && name != "out" {
			t.note("it was made with --%s %s, and not %s: for that, leave --resume out", name, shown(then), shown(now[name]))
		}
	}
	var line bytes.Buffer
	if err := json.Compact(&line, was.Result); err != nil {
		return err
	}
	_, err := fmt.Fprintln(t.stdout, line.String())
	return err
}

// figures are what a run came to. Where the weights are those of the best evaluation, so are loss and tone.
func (t *train) figures(r trainer.Result, wall time.Duration) figures {
	f := figures{
		Out: t.out, Steps: r.Step, Skipped: r.Skipped, Examples: r.Examples, Tokens: r.Tokens, Padding: r.Padding, Trained: r.Trained, Seconds: r.Seconds,
		Wall: wall.Seconds(), FirstStep: t.beginning.took.Seconds(), Loss: r.Loss, WeightsOfStep: r.Step, Stopped: r.Stopped, PlannedMemory: int64(t.memory.Total()), PeakMemory: t.peakMemory(),
		Tone: t.outputs.tone,
	}
	if r.Seconds > 0 {
		f.TokensSec, f.TrainedSec = float64(r.Tokens)/r.Seconds, float64(r.Trained)/r.Seconds
		mean := float64(t.set.Tokens) / float64(len(t.set.Examples))
		f.TFLOPS = model.FLOPs(t.origin.Config, t.settings.ModelOptions(t.origin.Config, t.plan), mean) * f.TokensSec / 1e12
	}
	if b := r.Best; b != nil {
		f.WeightsOfStep, f.ValLoss, f.Tone = b.Step, &b.Loss, b.Tone
	}
	return f
}

// peakMemory is the most memory that the process has taken, or, on a GPU, what is in use there at the end: it no longer grows.
func (t *train) peakMemory() int64 {
	if t.device.IsCPU() {
		return peakMemory()
	}
	return int64(t.device.InUse())
}

// tunedFlag is how chat is told of the result, as a shell takes it.
func tunedFlag(out string) string {
	if out == "out" {
		return ""
	}
	if strings.ContainsFunc(out, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+=:@%", r)
	}) {
		out = "'" + strings.ReplaceAll(out, "'", `'\''`) + "'"
	}
	return " --tuned " + out
}

// logBenchmark adds a row to the benchmark log.
func (t *train) logBenchmark(f figures) error {
	if t.benchmarkLog == "" {
		return nil
	}
	mode := "standard"
	if t.fused.String() != "none" {
		mode = "fused"
	}
	return report.AppendBenchmark(t.benchmarkLog, report.BenchmarkRow{
		Time: time.Now(), Mode: mode, Wall: time.Duration(f.Seconds * float64(time.Second)), TotalTokens: f.Tokens, TrainedTokens: f.Trained,
		PaddedTokens: f.Tokens + f.Padding, PeakMemory: f.PeakMemory, TFLOPS: f.TFLOPS, Device: t.where(), DType: t.dtype, Model: t.modelName(), Batch: t.batch, Seq: t.seq,
		Accumulate: t.accumulate, Label: t.label, Version: cli.Version(),
	})
}

// card is the model card of the result. chat reads in it which model this one was made from.
func (t *train) card(r trainer.Result) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "---")
	if t.fromScratch == "" {
		fmt.Fprintf(&b, "base_model: %s\n", yaml(t.baseName()))
	}
	fmt.Fprintf(&b, "library_name: transformers\npipeline_tag: text-generation\ntags:\n- restyle\n---\n\n# %s\n\n", filepath.Base(t.dir))
	if t.fromScratch != "" {
		fmt.Fprintf(&b, "A Llama of %s parameters, trained from nothing by restyle on %s.\n\n", thousands(t.origin.Config.ParamCount()), t.set.Name)
	} else {
		fmt.Fprintf(&b, "%s, fine-tuned by restyle on %s (%s examples).\n\n", t.publicName(), t.set.Name, thousands(int64(len(t.training))))
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"steps", fmt.Sprint(r.Step)}, {"examples a step", fmt.Sprint(t.batch * t.accumulate)}, {"tokens", thousands(r.Tokens)},
		{"learned tokens", thousands(r.Trained)}, {"learning rate", fmt.Sprintf("%g, %s, warmup %g", t.lr, t.schedule, t.warmup)},
		{"optimiser", t.optimizer + ", master " + string(t.settings.Optimizer.Master)}, {"type", t.dtype}, {"seed", fmt.Sprint(t.seed)},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	if r.Best != nil {
		fmt.Fprintf(&b, "| validation loss | %.4f, after step %d |\n", float64(r.Best.Loss), r.Best.Step)
	}
	fmt.Fprintf(&b, "\nAll settings stand in run.json, every step in metrics.jsonl.\n")
	return b.Bytes()
}

// baseName is how chat finds the base model again, also from another directory: a hub id, or an absolute path.
func (t *train) baseName() string {
	if info, err := os.Stat(t.model); err == nil && info.IsDir() && t.model != "starter" {
		if abs, err := filepath.Abs(t.model); err == nil {
			return abs
		}
	}
	return t.model
}

// yaml quotes what would not be a plain scalar.
func yaml(s string) string {
	if strings.ContainsAny(s, ":#'\"{}[]&*!|>%@`\n") || strings.TrimSpace(s) != s {
		quoted, _ := json.Marshal(s)
		return string(quoted)
	}
	return s
}

// checkBatches refuses a file of the steps of a run that is to have more of them now.
func (t *train) checkBatches(was *record) error {
	if !t.resume || t.batchesFile == "" {
		return nil
	}
	now := t.settings.Recipe()
	if was.Identity["epochs"] == now["epochs"] && was.Identity["max-steps"] == now["max-steps"] {
		return nil
	}
	if _, err := os.Stat(t.batchesFile); err == nil {
		return cli.Usagef("--write-batches %s: it has the steps of the run before it was made longer: give a new name, for those from here on", t.batchesFile)
	}
	return nil
}

// writeBatches writes every step of the run but the first ones, which are so many, as it is trained, a JSON object a line, for a
// program that trains the same.
func (t *train) writeBatches(first int) error {
	if t.batchesFile == "" {
		return nil
	}
	how := os.O_WRONLY
	info, err := os.Stat(t.batchesFile)
	switch {
	case err != nil:
		how |= os.O_CREATE | os.O_EXCL
	case info.Mode().IsRegular(): // of the run that is gone on with: it has every step
		t.note("--write-batches: %s is there, and stays as it is", t.batchesFile)
		return nil
	}
	f, err := os.OpenFile(t.batchesFile, how, 0o666)
	if err != nil {
		return fmt.Errorf("--write-batches: %w", err)
	}
	err = t.plan.Write(f, first)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if how&os.O_EXCL != 0 {
			_ = os.Remove(t.batchesFile) // the same command makes it again
		}
		return fmt.Errorf("--write-batches: %w", err)
	}
	return nil
}
