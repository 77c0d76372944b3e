// Command export writes a copy of a model with weights in 8 or 4 bits. See -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"restyle/data"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	_ "restyle/internal/limits" // checks them before main
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/model"
)

const about = `
export MODEL OUT --weights int8|int4 writes a copy of a model whose linear layers have weights in 8 or
4 bits. chat, bench and train open it like any other model; programs other than restyle cannot read
it. MODEL is a directory, a hub id, or starter, the embedded model.

  export starter out-int4 --weights int4
  export starter out-int4 --weights int4 --quality    also measure what it costs in answers

The head, and an embedding that is tied to it, get 8 bits. An embedding that is not tied, norms,
biases, learned positions, and the routers of a mixture keep their type. The weights of experts are
rounded to nearest: GPTQ would need enough inputs of each.

In memory are the quantized model, and of the original one layer at a time. export prints each
matrix with its error, and then weights, perplexity of the reference answers to the held-out questions
and, with --quality, what bench quality counts of the models' own answers, before and after.`

// options are the flags.
type options struct {
	weights, rounding, template string
	text                        int
	quality, version            bool
	threads                     int
}

func main() {
	os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	status := cli.NewStatusLine(stderr)
	notes := cli.CleanWriter(status)
	if _, ok := cli.LoadEnv("export", notes); !ok {
		return cli.Usage
	}
	o := options{rounding: "gptq", text: 128}
	f := o.flags(stdout, notes)
	paths, code, done := f.ParsePaths(args)
	if done {
		return code
	}
	if o.version {
		fmt.Fprintln(stdout, "export", cli.Version())
		return cli.Done
	}
	err := o.check(paths, f.Given)
	if err == nil {
		err = probe(paths[1])
	}
	if err == nil {
		err = o.quantize(ctx, paths[0], paths[1], stdout, status)
	}
	status.Clear()
	var usage *cli.UsageError
	switch {
	case err == nil:
		return cli.Done
	case errors.As(err, &usage):
		fmt.Fprintf(notes, "export: %v\nsee export -h\n", err)
		return cli.Usage
	case errors.As(err, new(*stopped)):
		fmt.Fprintf(notes, "export: stopped: %v\n", err)
		return cli.Stopped
	case ctx.Err() != nil:
		fmt.Fprintln(notes, "export: stopped; nothing was written")
		return cli.Stopped
	case hub.Retryable(err):
		fmt.Fprintf(notes, "export: %v\nrun the same command again later\n", err)
		return cli.Retry
	}
	fmt.Fprintf(notes, "export: %v\n", err)
	return cli.Failed
}

func (o *options) flags(stdout, notes io.Writer) *cli.Flags {
	f := cli.New("export", about, stdout, notes)
	f.Group("Weights")
	f.Add(&o.weights, "weights", "weights of the linear layers in the model's layers, `int8|int4`")
	f.Add(&o.rounding, "rounding", "how weights become 4-bit codes, `gptq|nearest`: gptq compensates errors by what a "+
		"calibration text needs, nearest rounds each weight by itself, as 8-bit codes always are")
	f.Add(&o.text, "text", "number of conversations of the starter dataset that gptq is calibrated with")
	f.Add(&o.template, "template", infer.TemplateHelp()+"; the copy keeps its default")
	f.Add(&o.quality, "quality", "also ask both models the held-out questions, as bench quality does: minutes for the "+
		"embedded model, hours for a large one")
	f.Group("Device")
	f.Add(&o.threads, "threads", "CPU threads; 0 uses GOMAXPROCS")
	f.Group("Other")
	f.Add(&o.version, "version", "print the version")
	return f
}

// check reports invalid arguments. given reports whether a flag was given.
func (o options) check(paths []string, given func(flag string) bool) error {
	switch {
	case len(paths) != 2:
		return cli.Usagef("%s: name two, MODEL and OUT", cli.Count(len(paths), "path"))
	case o.weights == "":
		return cli.Usagef("there is no --weights: set int8 or int4")
	case o.weights != "int8" && o.weights != "int4":
		return cli.Usagef("--weights %q: must be int8 or int4", o.weights)
	case o.rounding != "gptq" && o.rounding != "nearest":
		return cli.Usagef("--rounding %q: must be gptq or nearest", o.rounding)
	case o.text < 1:
		return cli.Usagef("--text %d: must be at least 1", o.text)
	case cli.CheckThreads(o.threads) != nil:
		return cli.CheckThreads(o.threads)
	case o.weights == "int8" && o.rounding == "gptq" && given("rounding"):
		return cli.Usagef("--rounding gptq makes 4-bit codes, and --weights int8 are rounded to nearest: leave one out")
	case !o.calibrates() && given("text"):
		return cli.Usagef("--text is for --rounding gptq of --weights int4, and nothing else is calibrated: leave it out")
	}
	return checkFree(paths[1])
}

// calibrates reports whether weights are rounded by GPTQ, which a text calibrates.
func (o options) calibrates() bool { return o.weights == "int4" && o.rounding == "gptq" }

// quantize does the work, from the model in IN to that in OUT, and prints what it costs.
func (o options) quantize(ctx context.Context, in, out string, stdout io.Writer, status *cli.StatusLine) error {
	questions, err := data.Questions()
	if err != nil {
		return err
	}
	// Those of groups may refer to an answer before, and their checks take many answers.
	questions = slices.DeleteFunc(questions, func(q data.Question) bool { return q.Group != "" })
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

// Error says what is there.
func (e *stopped) Error() string {
	return e.out + " is complete, but not everything is measured"
}

// write writes the quantized model, prints its matrices, and measures perplexity. It returns nil if nothing was
// written.
func (o options) write(ctx context.Context, in, out string, questions []data.Question, stdout io.Writer,
	status *cli.StatusLine) (written *cost, err error) {
	h := hub.FromEnv()
	h.Waiting = func(message string) { fmt.Fprintln(status, cli.Clean(message)) }
	h.Progress = func(p hub.Progress) { status.DrawUntil(p.Done == p.Total, p.String()) }
	c, err := models.Open(ctx, h, in)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, n := range c.Notes {
		fmt.Fprintln(cli.CleanWriter(status), n)
	}
	if c.Quantization != (model.Quantization{}) {
		return nil, fmt.Errorf("%s is quantized already: use the original model", in)
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
	after, err := o.nearest(ctx, d, c, show)
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
	if err := o.fill(in, out, func() error { return hf.Save(out, c, d, after.Params(), hf.SaveOptions{}) }); err != nil {
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

// nearest returns the model with each weight rounded by itself.
func (o options) nearest(ctx context.Context, d *kernels.Device, c *hf.Checkpoint, show *cli.Progress) (*model.Model,
	error) {
	m, err := model.New(d, c.Config, model.Options{DType: dtypeOf(c), MaxTokens: maxTokens,
		Quantization: infer.Quantizations[o.weights]})
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

// perplexities measures the perplexity of answers before and after, and prints that with INT8 activations.
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
