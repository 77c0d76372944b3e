package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/trainer"
)

const aboutKernels = `
bench kernels compiles the kernels that training a model and asking it launch, for GPUs that need not be there, and keeps
them where the other commands look for compiled kernels: for an image, or a folder that many machines share. It needs NVRTC.
Kernels of other lengths than were named are compiled when they are first launched.

  bench kernels --precompile sm_90a
  RESTYLE_CACHE=/opt/kernels bench kernels --precompile sm_80,sm_86,sm_89 --model path/to/config.json --shapes 1x512x4`

// gpus are what is typical of the GPUs of an architecture: how many multiprocessors there are decides how work is cut.
var gpus = map[int]cuda.Properties{
	75:  {Name: "T4", SMs: 40, Memory: 16 << 30},
	80:  {Name: "A100", SMs: 108, Memory: 80 << 30},
	86:  {Name: "RTX 3090", SMs: 82, Memory: 24 << 30},
	89:  {Name: "RTX 4090", SMs: 128, Memory: 24 << 30},
	90:  {Name: "H100", SMs: 132, Memory: 80 << 30},
	100: {Name: "B200", SMs: 148, Memory: 180 << 30},
	120: {Name: "RTX 5090", SMs: 170, Memory: 32 << 30},
}

// kernelOptions are the flags.
type kernelOptions struct {
	stepOptions
	archs string
}

func (o *kernelOptions) flags(out io.Writer) *cli.Flags {
	f := cli.New("bench kernels", aboutKernels, out)
	f.Group("What is compiled")
	f.Add(&o.archs, "precompile", "`architectures` of GPUs, with commas between them: sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a and others")
	f.Add(&o.model, "model", "config.json of the model, a `file`; default: the shape of Llama-3.2-1B")
	f.Add(&o.shapes, "shapes", "`shapes` of steps, as bench step has them")
	f.Add(&o.fused, "fused", "how operations run: none (one a kernel), all (fused), both, or a `set` such as rmsnorm,swiglu")
	f.Add(&o.trainOnly, "train-only", "`patterns` of the parameters that are trained, such as mlp; default all")
	f.Add(&o.recompute, "recompute", "what the backward pass computes again, `none|attention|layer`")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`")
	f.Add(&o.optimizer, "optimizer", "`adamw8bit|adamw`")
	f.Add(&o.master, "master", "what stands behind bf16 weights, `split8|sr|fp32|none`")
	return f
}

func runKernels(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &kernelOptions{stepOptions: stepOptions{shapes: "1x512x4,4x512,8x2048", fused: "both", recompute: "none", dtype: "bf16",
		optimizer: "adamw8bit", master: "split8", gradients: "step", steps: 1}}
	flags := o.flags(stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	lines, err := o.lines()
	var list []cuda.Properties
	if err == nil {
		list, err = architectures(o.archs)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench kernels: %v\nsee bench kernels -h\n", err)
		return cli.Usage
	}
	if err := o.compile(ctx, list, lines, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "bench kernels: %v\n", err)
		return cli.Failed
	}
	return cli.Done
}

// architectures reads a list such as sm_80,sm_90a.
func architectures(names string) (list []cuda.Properties, err error) {
	for name := range strings.SplitSeq(names, ",") {
		number, ok := strings.CutPrefix(strings.TrimSpace(name), "sm_")
		capability, err := strconv.Atoi(strings.TrimRight(number, "af"))
		if !ok || err != nil || capability < 75 || capability > 1000 {
			return nil, fmt.Errorf("--precompile %q: name architectures such as sm_80 or sm_90a, with commas between them", names)
		}
		p, known := gpus[capability]
		if !known {
			p = gpus[90]
			p.Name = "sm_" + number
		}
		p.Major, p.Minor = capability/10, capability%10
		list = append(list, p)
	}
	return list, nil
}

// compile compiles what the lines launch on each GPU.
func (o *kernelOptions) compile(ctx context.Context, list []cuda.Properties, lines []stepLine, stdout, stderr io.Writer) error {
	status := cli.NewStatusLine(cli.Raw(stderr))
	defer status.Clear()
	cache := cuda.DefaultCache()
	compiled := map[string]int{}
	start := time.Now()
	for _, p := range list {
		c, err := cuda.OpenCompiler(p)
		if err != nil {
			return err
		}
		arch, err := c.Arch(p.Major, p.Minor)
		if err != nil {
			return err
		}
		var b kernels.Builds
		for _, l := range lines {
			l.settings.Samples, l.settings.SampleTokens, l.settings.Seq = 1, 256, l.seq
			plan := &trainer.Plan{Config: l.settings, MaxTokens: l.batch * l.seq, Longest: l.seq}
			err := b.Rehearse(p, kernels.Options{Fused: l.fused}, func(d *kernels.Device) error {
				return trainer.Rehearse(d, l.config, plan)
			})
			if err != nil {
				return err
			}
		}
		err = b.Compile(ctx, c, cache, []string{arch}, func(done, of int) { status.Draw(fmt.Sprintf("%s: %d of %d", arch, done, of)) })
		if err != nil {
			return err
		}
		compiled[arch] = b.Len()
		status.Clear()
		fmt.Fprintf(stdout, "%-11s %d kernels, by NVRTC %d.%d, in %s\n", arch, b.Len(), c.Major, c.Minor, cache.Dir)
	}
	last, err := json.Marshal(struct {
		Command string         `json:"command"`
		Builds  map[string]int `json:"builds"`
		Cache   string         `json:"cache"`
		Seconds float64        `json:"seconds"`
	}{"kernels", compiled, cache.Dir, time.Since(start).Seconds()})
	if err == nil {
		_, err = fmt.Fprintf(stdout, "%s\n", last)
	}
	return err
}
