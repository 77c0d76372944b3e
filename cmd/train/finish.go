package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	Trained       int64          `json:"trained_tokens"`
	Seconds       float64        `json:"seconds"`      // in steps
	Wall          float64        `json:"wall_seconds"` // of this call, with evaluations and saving
	TokensSec     float64        `json:"tokens_per_second"`
	TrainedSec    float64        `json:"trained_tokens_per_second"`
	TFLOPS        float64        `json:"tflops"`
	PeakMemory    int64          `json:"peak_memory_bytes"`
	Loss          report.Number  `json:"loss"`
	ValLoss       *report.Number `json:"val_loss,omitempty"`
	Tone          *float64       `json:"tone,omitempty"`
	WeightsOfStep int            `json:"weights_of_step"`
	Stopped       string         `json:"stopped,omitempty"`
}

// finish saves the result and says what it is.
func (t *train) finish(p *place, m *model.Llama, r trainer.Result, wall time.Duration) error {
	weights, why := r.Step, "the last ones"
	if r.Best != nil {
		weights, why = r.Best.Step, fmt.Sprintf("the best of %d steps by validation loss, %.4f", r.Step, float64(r.Best.Loss))
	}
	if err := hf.Save(t.out, t.origin, t.device, m.Params(), hf.SaveOptions{Card: t.card(r)}); err != nil {
		return err
	}
	if err := t.run.Forget(-1); err != nil {
		return err
	}
	f := figures{
		Out: t.out, Steps: r.Step, Skipped: r.Skipped, Examples: r.Examples, Tokens: r.Tokens, Trained: r.Trained, Seconds: r.Seconds,
		Wall: wall.Seconds(), Loss: r.Loss, WeightsOfStep: weights, Stopped: r.Stopped, PeakMemory: peakMemory(),
	}
	if r.Seconds > 0 {
		f.TokensSec, f.TrainedSec = float64(r.Tokens)/r.Seconds, float64(r.Trained)/r.Seconds
		f.TFLOPS = t.flops() * f.TokensSec / 1e12
	}
	if r.Best != nil {
		f.ValLoss = &r.Best.Loss
	}
	if e := t.outputs.last; e != nil {
		f.Tone = e.Tone
	}
	if err := p.end(t.allSettings(), f); err != nil {
		return err
	}
	if r.Stopped != "" {
		t.outputs.say("ended after step %d of %d: %s", r.Step, t.plan.Steps, r.Stopped)
	}
	t.outputs.say("%s has the weights after step %d, %s", t.out, weights, why)
	t.outputs.say("%s tokens in %s: %s tok/s, %s learned", thousands(r.Tokens), time.Duration(r.Seconds*float64(time.Second)).Round(time.Second/10), short(f.TokensSec), short(f.TrainedSec))
	if t.fromScratch == "" {
		t.outputs.say("ask it: go run ./cmd/chat%s", tunedFlag(t.out))
	}
	if err := t.logBenchmark(f); err != nil {
		return err
	}
	enc := json.NewEncoder(t.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(f)
}

func tunedFlag(out string) string {
	if out == "out" {
		return ""
	}
	return " --tuned " + out
}

// flops is how many floating-point operations a token takes in training: six for each weight that multiplies, and those of
// attention over a causal context as long as the mean example (llm.c and llmq count so).
func (t *train) flops() float64 {
	c := t.origin.Config
	products := c.ParamCount()
	if !c.Tied {
		products -= int64(c.Vocab) * int64(c.Dim) // the embedding is looked up
	}
	mean := float64(t.set.Tokens) / float64(len(t.set.Examples))
	return 6*float64(products) + 6*float64(c.Layers*c.Heads*c.HeadDim)*mean
}

// logBenchmark adds a row to the benchmark log.
func (t *train) logBenchmark(f figures) error {
	if t.benchmark == "" {
		return nil
	}
	mode := "standard"
	if t.fused.String() != "none" {
		mode = "fused"
	}
	return report.AppendBenchmark(t.benchmark, report.BenchmarkRow{
		Time: time.Now(), Mode: mode, Wall: time.Duration(f.Seconds * float64(time.Second)), TotalTokens: f.Tokens, TrainedTokens: f.Trained,
		PaddedTokens: f.Tokens, // there is no padding
		PeakMemory:   f.PeakMemory, TFLOPS: f.TFLOPS, Device: t.where(), DType: t.dtype, Model: t.modelName(), Batch: t.batch, Seq: t.seq,
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
	fmt.Fprintf(&b, "library_name: transformers\npipeline_tag: text-generation\ntags:\n- restyle\n---\n\n# %s\n\n", filepath.Base(t.absOut()))
	if t.fromScratch != "" {
		fmt.Fprintf(&b, "A Llama of %s parameters, trained from nothing by restyle on %s.\n\n", thousands(t.origin.Config.ParamCount()), t.set.Name)
	} else {
		fmt.Fprintf(&b, "%s, fine-tuned by restyle on %s (%s examples).\n\n", t.baseName(), t.set.Name, thousands(int64(len(t.train))))
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

// baseName is how the base model is found again, also from elsewhere.
func (t *train) baseName() string {
	if info, err := os.Stat(t.model); err == nil && info.IsDir() && t.model != "starter" {
		if abs, err := filepath.Abs(t.model); err == nil {
			return abs
		}
	}
	return t.model
}

func (t *train) absOut() string {
	if abs, err := filepath.Abs(t.out); err == nil {
		return abs
	}
	return t.out
}

// yaml quotes what would not be a plain scalar.
func yaml(s string) string {
	if strings.ContainsAny(s, ":#'\"{}[]&*!|>%@`\n") || strings.TrimSpace(s) != s {
		quoted, _ := json.Marshal(s)
		return string(quoted)
	}
	return s
}

// writeBatches writes every step of the run as it is trained, a JSON object a line, for a program that trains the same.
func (t *train) writeBatches() error {
	f, err := os.Create(t.batches)
	if err != nil {
		return fmt.Errorf("--write-batches: %w", err)
	}
	err = t.plan.Write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("--write-batches: %w", err)
	}
	return nil
}
