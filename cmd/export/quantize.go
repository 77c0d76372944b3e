package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"restyle/data"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/model"
)

// calibrates reports whether weights are rounded by GPTQ, which a text calibrates.
func (o options) calibrates() bool {
	return o.rounding == "gptq" && (o.weights == "int4" || strings.EqualFold(o.gguf, "q4_0"))
}

// heldOut returns the questions whose reference answers give the perplexity.
var heldOut = func() ([]data.Question, error) {
	questions, err := data.Questions()
	// Questions of groups may refer to an earlier answer, and their checks take many answers.
	return slices.DeleteFunc(questions, func(q data.Question) bool { return q.Group != "" }), err
}

// quantize does the work, from the model in IN to the model in OUT, and prints what it costs.
func (o options) quantize(ctx context.Context, in, out string, stdout io.Writer, status *cli.StatusLine) error {
	questions, err := heldOut()
	if err != nil {
		return err
	}
	c, err := o.write(ctx, in, out, questions, stdout, status)
	if c == nil {
		return err
	}
	if err == nil && o.quality {
		c.answers, err = o.answers(ctx, in, out, questions, status)
	}
	status.Clear()
	stop := ctx.Err() != nil
	if stop {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s is complete, but could not be measured: %w", out, err)
	}
	err = errors.Join(err, c.print(stdout))
	fmt.Fprintf(stdout, "try it: %s --tuned %s --only tuned\n", cli.Command("chat"), cli.ShellQuote(data.DirArg(out)))
	if stop {
		return &stopped{out}
	}
	return err
}

// stopped is the error of a command that was interrupted after it had written OUT.
type stopped struct{ out string }

// Error says what OUT contains.
func (e *stopped) Error() string {
	return e.out + " is complete, but not everything is measured"
}

// open opens a model and prints its notes.
func open(ctx context.Context, name string, status *cli.StatusLine) (*hf.Checkpoint, error) {
	c, err := models.Open(ctx, newHub(status), name)
	return noted(c, err, status)
}

// newHub returns the hub, which shows on the status line what it is doing.
func newHub(status *cli.StatusLine) *hub.Hub {
	h := hub.FromEnv()
	h.Waiting = func(message string) { fmt.Fprintln(status, cli.Clean(message)) }
	h.Progress = func(p hub.Progress) { status.DrawUntil(p.Done == p.Total, p.String()) }
	return h
}

// noted prints the notes of a model that has been opened.
func noted(c *hf.Checkpoint, err error, status *cli.StatusLine) (*hf.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	for _, n := range c.Notes {
		fmt.Fprintln(cli.CleanWriter(status), n)
	}
	return c, nil
}

// write writes the quantized model, prints its matrices, and measures perplexity. It returns nil if nothing was
// written.
func (o options) write(ctx context.Context, in, out string, questions []data.Question, stdout io.Writer,
	status *cli.StatusLine) (written *cost, err error) {
	c, err := open(ctx, in, status)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := checkOriginal(c); err != nil {
		return nil, err
	}
	t, err := o.texts(ctx, c, questions)
	if err != nil {
		return nil, err
	}
	d, err := kernels.Open("cpu", kernels.Options{Threads: o.threads, Fused: kernels.All()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	show := &cli.Progress{Line: status}
	after, err := nearest(ctx, d, c, infer.Quantizations[o.weights], show)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	need := weightBytes(after)[1]
	if free, err := disk.Free(out); err == nil && need > float64(free) {
		return nil, fmt.Errorf("%s: it needs %s, but only %s are free: free some space", out, kernels.Bytes(int(need)),
			kernels.Bytes(int(free)))
	}
	before, err := openOriginal(ctx, d, c)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	if o.calibrates() {
		if err := calibrate(ctx, before, after, t.calibration, show); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	status.Draw("writing " + out)
	save := func() error { return hf.Save(out, c, d, after.Params(), hf.SaveOptions{}) }
	if err := fill(o.record(in), out, save); err != nil {
		return nil, err
	}
	written = &cost{bytes: weightBytes(after)}
	if err := table(ctx, stdout, before, after, show); err != nil {
		return written, err
	}
	if t.unmeasured != nil {
		_, err := fmt.Fprintf(stdout, "perplexity is not measured: %v\n", t.unmeasured)
		return written, err
	}
	written.perplexity, err = o.perplexities(ctx, t.answers, before, after, stdout, show)
	return written, err
}

// checkOriginal returns an error if a model has no original weights.
func checkOriginal(c *hf.Checkpoint) error {
	if !c.Quantization.None() {
		return fmt.Errorf("%s is quantized already: use the original model", c.Name)
	}
	return nil
}

// nearest returns the model with each weight rounded by itself.
func nearest(ctx context.Context, d *kernels.Device, c *hf.Checkpoint, q model.Quantization, show *cli.Progress) (
	*model.Model, error) {
	m, err := model.New(d, c.Config, model.Options{DType: c.DType(), MaxTokens: maxTokens, Quantization: q})
	if err != nil {
		return nil, err
	}
	err = c.Load(ctx, d, m.Params(), func(done, total int64) {
		show.Draw("rounding to nearest", "", float64(done)/float64(total))
	})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// perplexities measures the perplexity of answers before and after quantization, and prints the perplexity with INT8
// activations.
func (o options) perplexities(ctx context.Context, answers []model.Batch, before *original, after *model.Model,
	stdout io.Writer, show *cli.Progress) (of [2]float64, err error) {
	measure := func(task string, m *model.Model, load func(context.Context, int) error) (float64, error) {
		return perplexity(ctx, m, load, answers, func(what string, share float64) { show.Draw(task, what, share) })
	}
	if of[0], err = measure("perplexity before", before.Model, before.load); err != nil {
		return of, err
	}
	if of[1], err = measure("perplexity after", after, nil); err != nil || o.weights != "int8" {
		return of, err
	}
	d := after.Device()
	d.SetINT8Activations(true)
	ofINT8, err := measure("perplexity with INT8 activations", after, nil)
	d.SetINT8Activations(false)
	if err != nil {
		return of, err
	}
	show.Line.Clear()
	_, err = fmt.Fprintf(stdout, "perplexity with INT8 activations too, as in chat --quantize int8x8: %.4f, %+.2f%%\n",
		ofINT8, 100*(ofINT8/of[0]-1))
	return of, err
}
