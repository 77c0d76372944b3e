package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"restyle/internal/cli"
	"restyle/internal/many"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
	"restyle/trainer"
)

const aboutMany = `
bench many simulates training on many GPUs, on paper: it goes through a step layer by layer, with figures
that were measured on one and two GPUs, and prints for each sharding what a GPU keeps and sends, how much
of the sending takes place beside the computing, and the tokens per second of all GPUs. Efficiency is
against one GPU with enough memory. The winner is the fastest that fits, of equals the one that shards
least. docs/many.md says what is left out.

  bench many
  bench many --config llama-3.1-8b --gpus 16,32 --shape 1x2048x4 --between 50
  bench many --config llama-3.1-70b --gpus 64,512 --recompute layer`

// manyOptions are the flags.
type manyOptions struct {
	stepOptions // config, shape, recompute

	gpus, gather, allReduce, hops   string
	perNode                         int
	tflops, update, between, memory float64

	sizes []int        // of gpus
	link  many.Cluster // without GPUs
}

func newManyOptions() *manyOptions {
	o := &manyOptions{stepOptions: newStepOptions(), gpus: "8,64,512", perNode: 8, tflops: 560, update: 247, memory: 139,
		between: 400, gather: "89,253", allReduce: "133,318", hops: "3.4,14"}
	o.shapes, o.config = "8x2048", "llama-3.2-1b,llama-3.1-8b"
	return o
}

func (o *manyOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench many", aboutMany, stdout, stderr)
	f.Group("Training")
	f.Add(&o.config, "config", configHelp)
	f.Add(&o.shapes, "shape", "each GPU's part of a step: a `shape` as for bench step, sequences per pass x tokens per "+
		"sequence, and optionally x passes per step")
	for _, x := range o.settings.Fields() {
		if x.Name == "recompute" {
			f.Add(x.Value, x.Name, "what the backward pass recomputes: none or layer")
		}
	}
	f.Add(&o.gpus, "gpus", "`numbers` of GPUs, separated by commas")
	f.Add(&o.perNode, "per-node", "GPUs of a node")

	f.Group("Measured on an H200")
	f.Add(&o.tflops, "tflops", "TFLOP/s of passes, without the optimizer: the default is for Llama-3.2-1B with "+
		"8 x 2048 tokens (docs/bench/gpu.md)")
	f.Add(&o.update, "update", "1e9 parameters per second of the norm and AdamW: the default is from the same page")
	f.Add(&o.memory, "memory", "memory of a GPU in GiB")
	f.Add(&o.gather, "gather", "NCCL's bus `bandwidths` in a node of an all-gather and a reduce-scatter of 16 MiB and of "+
		"1 GiB, GB/s: the default is for two GPUs")
	f.Add(&o.allReduce, "all-reduce", "the same `bandwidths` of an all-reduce")

	f.Group("Assumed")
	f.Add(&o.between, "between", "GB/s that a node sends to the others: the default is 8 network cards of 400 Gbit/s")
	f.Add(&o.hops, "hops", "`microseconds` from a GPU of a ring to the next, in the node and to another: the default "+
		"is what NCCL reckons with (NVIDIA/nccl, src/graph/tuning.cc, Ring, Simple)")
	return f
}

// check checks the flags, and reads those that have several numbers.
func (o *manyOptions) check() (err error) {
	if o.sizes, err = numbers("--gpus", o.gpus); err != nil {
		return err
	}
	if o.perNode < 1 {
		return fmt.Errorf("--per-node %d: must be at least 1", o.perNode)
	}
	names := []string{"tflops", "update", "memory", "between"}
	for i, value := range []float64{o.tflops, o.update, o.memory, o.between} {
		if !(value > 0) || math.IsInf(value, 1) {
			return fmt.Errorf("--%s %v: must be a number above 0", names[i], value)
		}
	}
	if r := o.settings.Recompute; r != model.RecomputeNone && r != model.RecomputeLayer {
		return fmt.Errorf("--recompute %s: must be none or layer", r)
	}
	const small, large = 16 << 20, 1 << 30 // bytes, of which each of two GPUs sends half, or all in an all-reduce
	o.link.PerNode, o.link.Between = o.perNode, o.between*1e9
	if o.link.Gather, err = link("--gather", o.gather, small/2, large/2); err != nil {
		return err
	}
	if o.link.AllReduce, err = link("--all-reduce", o.allReduce, small, large); err != nil {
		return err
	}
	o.link.Hop, o.link.HopBetween, err = pair("--hops", o.hops, 1e-6)
	return err
}

// pair reads two positive numbers of a unit.
func pair(flag, list string, unit float64) (a, b float64, err error) {
	first, second, _ := strings.Cut(list, ",")
	a, errA := strconv.ParseFloat(strings.TrimSpace(first), 64)
	b, errB := strconv.ParseFloat(strings.TrimSpace(second), 64)
	if cmp.Or(errA, errB) != nil || !(a > 0 && b > 0) || math.IsInf(a+b, 1) {
		return 0, 0, fmt.Errorf("%s %q: must be two numbers above 0 with a comma between them", flag, list)
	}
	return a * unit, b * unit, nil
}

// link reads the bandwidths of two sizes.
func link(flag, list string, small, large float64) (many.Link, error) {
	a, b, err := pair(flag, list, 1e9)
	if err == nil && (b < a || large/b <= small/a) {
		err = fmt.Errorf("%s %q: 1 GiB must be faster than 16 MiB, and take longer", flag, list)
	}
	return many.Fit(small, a, large, b), err
}

func runMany(_ context.Context, args []string, stdout, stderr io.Writer) int {
	o := newManyOptions()
	if code, done := o.flags(stdout, stderr).Parse(args); done {
		return code
	}
	models, err := shapesOf("--config", o.config)
	err = cmp.Or(o.check(), err)
	for i := 0; i < len(models) && err == nil; i++ {
		err = o.print(stepLine{config: models[i].config, name: models[i].name, settings: o.settings}, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench many: %v\nsee bench many -h\n", err)
		return cli.Usage
	}
	return cli.Done
}

// job returns a GPU's share of the steps of a line.
func (o *manyOptions) job(l stepLine) (j many.Job, err error) {
	plan := &trainer.Plan{Config: l.settings, MaxTokens: l.batch * l.seq, Longest: l.seq}
	if l.accumulate == 1 {
		plan.GradType = tensor.BF16
	}
	j = many.Job{Layers: l.config.Layers, Passes: l.accumulate}
	options, params := plan.ModelOptions(l.config), 0
	for _, p := range model.ParamsOf(l.config, options) {
		part := &j.Outside
		if p.Layer == 0 {
			part = &j.Layer
		}
		if p.Layer <= 0 {
			part.Weights += float64(p.W.Bytes())
			part.Gradients += float64(p.Grad.Bytes())
		}
		params += p.W.Len()
	}
	// A layer takes what one more layer adds to a model: a third forward, two thirds backward.
	flops := func(c model.Config) float64 { return model.FLOPs(c, options, float64(l.seq+1)/2) }
	two := l.config
	two.Layers++
	all := flops(l.config)
	layer, second := flops(two)-all, float64(plan.MaxTokens)/(o.tflops*1e12)
	j.Forward, j.Backward, j.Head = layer/3*second, layer*2/3*second, (all-layer*float64(j.Layers))*second
	if l.settings.Recompute == model.RecomputeLayer {
		j.Backward += j.Forward
	}
	j.Update = float64(params) / (o.update * 1e9)
	j.State = float64(optim.SizeOf(model.ParamsOf(l.config, options), l.settings.AdamW()))
	var b kernels.Builds
	gpu := gpus[90]
	gpu.Name, gpu.Memory = "H200", int(o.memory*(1<<30))
	err = b.Rehearse(gpu, kernels.Options{Fused: kernels.All()}, func(d *kernels.Device) error {
		m := model.MemoryOf(d, kernels.All(), l.config, options)
		j.Rest = float64(m.Activations + m.Scratch + m.Angles + d.Overhead(1))
		return nil
	})
	return j, err
}

// print prints the table of a model.
func (o *manyOptions) print(l stepLine, out io.Writer) error {
	if err := l.shape(o.shapes); err != nil {
		return fmt.Errorf("--shape: %w", err)
	}
	j, err := o.job(l)
	if err != nil {
		return err
	}
	tokens := float64(l.batch * l.seq * l.accumulate)
	one := j.Simulate(many.AllReduce, many.Cluster{GPUs: 1, PerNode: 1}).Seconds
	fmt.Fprintf(out, "%s, simulated: %.0f tokens a GPU and step, %.0f tokens/s and %.1f GiB on one GPU\n\n"+
		"| GPUs | sharding | kept, GiB | sent, GB | computing, ms | sending, ms | of it hidden | tokens/s | efficiency | "+
		"fits | winner |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|---|---|\n",
		l.name, tokens, tokens/one, j.Kept(many.AllReduce, 1)/(1<<30))
	for _, n := range o.sizes {
		cluster := o.link
		cluster.GPUs = n
		var results [many.Shardings]many.Result
		winner, fits := -1, [many.Shardings]string{}
		for i := range results {
			s := many.Sharding(i)
			if results[i], fits[i] = j.Simulate(s, cluster), "no"; j.Kept(s, n) > o.memory*(1<<30) {
				continue
			}
			if fits[i] = "yes"; winner < 0 || results[i].Seconds < 0.999*results[winner].Seconds {
				winner = i
			}
		}
		for i, r := range results {
			s, won := many.Sharding(i), ""
			if i == winner {
				won = s.String()
			}
			fmt.Fprintf(out, "| %d | %s | %.1f | %.1f | %.0f | %.0f | %.0f%% | %.0f | %.0f%% | %s | %s |\n", n, s,
				j.Kept(s, n)/(1<<30), r.Sent/1e9, 1e3*r.Computing, 1e3*r.Sending, 100*r.Hidden(),
				float64(n)*tokens/r.Seconds, 100*one/r.Seconds, fits[i], won)
		}
	}
	_, err = fmt.Fprintln(out)
	return err
}
