package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/ranks"
	"restyle/tensor"
	"restyle/trainer"
	"restyle/trainer/report"
)

// A stepResult is the result of timing steps, in this or in another program.
type stepResult struct {
	Mode    string    `json:"mode"`    // such as fused, or torch-eager
	Label   string    `json:"label"`   // details: versions, the optimizer
	Seconds []float64 `json:"seconds"` // of each timed step
	Joules  float64   `json:"joules"`  // energy of all timed steps on the device; 0: unknown
	Memory  int64     `json:"memory"`  // bytes of the device in use at the end
	Loss    float64   `json:"loss"`    // mean over the tokens of the last step

	estimate int // expected value of Memory in bytes; 0: there is none
}

// A stepTable prints results as rows of a Markdown table, and logs them.
type stepTable struct {
	out               io.Writer
	log, label, dtype string
	group             *ranks.Group // that take the steps; nil: only this process

	device  string  // name, from the first line
	product string  // the maker's name of the device
	ceiling float64 // floating-point operations per second of a bare product
	wrong   []error // estimates that were off
}

// open measures the ceiling before the first line.
func (t *stepTable) open(d *kernels.Device, dtype tensor.DType) (err error) {
	if t.ceiling > 0 {
		return nil
	}
	t.device, t.product = d.Name(), cmp.Or(d.Model(), d.Name())
	c, err := ceilingOf(d, dtype)
	if err != nil {
		return err
	}
	t.ceiling = c.FLOPs
	_, err = fmt.Fprintf(t.out, "%s, a bare product in %s: %.4g TFLOP/s\n\n"+
		"| step | mode | trained | tokens/s | ms, min to max | TFLOP/s | of the product | memory | estimate | J per 1,000 "+
		"tokens | loss |\n"+
		"|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n", t.product, t.dtype, t.ceiling/1e12)
	return err
}

// maxEstimateError is the maximum relative error of a memory estimate.
const maxEstimateError = 0.05

// add prints the result of a line, and appends it to the log.
func (t *stepTable) add(l *stepLine, r stepResult) error {
	steps := float64(len(r.Seconds))
	slices.Sort(r.Seconds)
	fastest, median, slowest := r.Seconds[0], r.Seconds[len(r.Seconds)/2], r.Seconds[len(r.Seconds)-1]
	tokens, size := l.batch*l.seq*l.accumulate, t.group.Size()
	plan := trainer.Plan{Config: l.settings, MaxTokens: tokens, Longest: l.seq}
	options := plan.ModelOptions(l.config)
	tokens *= size
	ceiling := t.ceiling * float64(size)
	flops := model.FLOPs(l.config, options, float64(l.seq+1)/2) * float64(tokens) / median

	shape, trained := strings.TrimSpace(fmt.Sprintf("%dx%dx%d %s", l.batch, l.seq, l.accumulate, t.label)), "all"
	switch c := l.settings; {
	case c.Adapts():
		trained = "lora " + c.LoRA.String()
		if c.QuantizeBase != "none" {
			trained += " on " + c.QuantizeBase
		}
	case len(c.TrainOnly) > 0:
		trained = strings.Join(c.TrainOnly, ",")
	}
	if size > 1 {
		shape += fmt.Sprintf(" on %d ranks", size)
		r.Label = strings.TrimPrefix(fmt.Sprintf("%s, %d ranks", r.Label, size), ", ")
	}
	estimate, joules := "", ""
	if r.estimate > 0 {
		off := float64(r.estimate)/float64(r.Memory) - 1
		estimate = fmt.Sprintf("%s, %+.1f%%", kernels.Bytes(r.estimate), 100*off)
		if math.Abs(off) > maxEstimateError {
			t.wrong = append(t.wrong, fmt.Errorf("%s %s, %s trained: the estimate is %s, but %s are in use",
				shape, r.Mode, trained, kernels.Bytes(r.estimate), kernels.Bytes(int(r.Memory))))
		}
	}
	if r.Joules > 0 {
		joules = fmt.Sprintf("%.1f", r.Joules/steps/float64(tokens)*1e3)
	}
	_, err := fmt.Fprintf(t.out, "| %s | %s | %s | %.0f | %.2f, %.2f to %.2f | %.4g | %.0f%% | %s | %s | %s | %.4f |\n",
		shape, r.Mode, trained, float64(tokens)/median, 1e3*median, 1e3*fastest, 1e3*slowest,
		flops/1e12, 100*flops/ceiling, kernels.Bytes(int(r.Memory)), estimate, joules, r.Loss)
	if err != nil || t.log == "" {
		return err
	}
	label := []string{t.label, r.Label}
	if trained != "all" {
		label = append(label, trained+" trained")
	}
	return report.AppendBenchmark(t.log, report.BenchmarkRow{
		Time: time.Now(), Mode: r.Mode, Wall: time.Duration(median * float64(time.Second)), TotalTokens: int64(tokens),
		TrainedTokens: int64(tokens - size*l.batch*l.accumulate), PaddedTokens: int64(tokens), PeakMemory: r.Memory,
		TFLOPS: flops / 1e12, PeakShare: flops / ceiling, Joules: r.Joules / steps,
		Device: t.product, DType: t.dtype, Model: l.name, Batch: l.batch, Seq: l.seq, Accumulate: l.accumulate,
		Label:   strings.Join(slices.DeleteFunc(label, func(s string) bool { return s == "" }), ", "),
		Version: cli.Version(),
	})
}

// check returns an error if an estimate was too far off.
func (t *stepTable) check() error { return errors.Join(t.wrong...) }
