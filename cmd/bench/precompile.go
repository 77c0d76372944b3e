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

const aboutPrecompile = `
bench precompile compiles the kernels that training and asking a model launch, also for GPUs that this
machine lacks. It stores them in the cache of the other commands, for a container image or a
directory that many machines share. It needs NVRTC. The other commands compile kernels for other
shapes when they first launch them.

  bench precompile --arch sm_90a
  RESTYLE_CACHE=/opt/kernels bench precompile --arch sm_80,sm_86,sm_89 --config path/to/config.json --shapes 1x512x4`

// gpus has a typical GPU for each architecture, because the number of multiprocessors decides how kernels divide their
// work.
var gpus = map[int]cuda.Properties{
	75:  {Name: "T4", SMs: 40, Memory: 16 << 30},
	80:  {Name: "A100", SMs: 108, Memory: 80 << 30},
	86:  {Name: "RTX 3090", SMs: 82, Memory: 24 << 30},
	89:  {Name: "RTX 4090", SMs: 128, Memory: 24 << 30},
	90:  {Name: "H100", SMs: 132, Memory: 80 << 30},
	100: {Name: "B200", SMs: 148, Memory: 180 << 30},
	120: {Name: "RTX 5090", SMs: 170, Memory: 32 << 30},
}

// precompileOptions are the flags.
type precompileOptions struct {
	stepOptions
	archs string
}

func (o *precompileOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench precompile", aboutPrecompile, stdout, stderr)
	f.Group("Kernels")
	f.Add(&o.archs, "arch", "GPU `architectures`, separated by commas: sm_80, sm_86, sm_89, sm_90a, sm_100a, "+
		"sm_120a and others")
	f.Add(&o.shapes, "shapes", "`shapes` of steps, as for bench step; by default none is longer than the model allows")
	o.modelFlags(f)
	return f
}

// defaultShapes returns the shapes that are compiled for a model with so many positions if none are given.
func defaultShapes(positions int) string {
	return fmt.Sprintf("1x%[1]dx4,4x%[1]d,8x%d", min(512, positions), min(2048, positions))
}

func runPrecompile(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &precompileOptions{stepOptions: newStepOptions()}
	o.shapes, o.fused = defaultShapes(1<<20), "both"
	flags := o.flags(stdout, stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	if s, err := shapeOf("--config", o.config); err == nil && !flags.Given("shapes") { // lines reports the error
		o.shapes = defaultShapes(s.config.Positions())
	}
	lines, err := o.lines()
	var list []cuda.Properties
	if err == nil {
		list, err = architectures(o.archs)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench precompile: %v\nsee bench precompile -h\n", err)
		return cli.Usage
	}
	if err := o.compile(ctx, list, lines, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "bench precompile: %v\n", err)
		return cli.Failed
	}
	return cli.Done
}

// architectures parses a list such as sm_80,sm_90a.
func architectures(names string) (list []cuda.Properties, err error) {
	for name := range strings.SplitSeq(names, ",") {
		number, ok := strings.CutPrefix(strings.TrimSpace(name), "sm_")
		capability, err := strconv.Atoi(strings.TrimRight(number, "af"))
		if !ok || err != nil || capability < 75 || capability > 1000 {
			return nil, fmt.Errorf("--arch %q: must be architectures such as sm_80 or sm_90a, separated by commas", names)
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

// compile compiles the kernels that the lines launch, for each GPU.
func (o *precompileOptions) compile(ctx context.Context, list []cuda.Properties, lines []stepLine,
	stdout, stderr io.Writer) error {
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
		progress := func(done, of int) { status.Draw(fmt.Sprintf("%s: %d of %d", arch, done, of)) }
		err = b.Compile(ctx, c, cache, []string{arch}, progress)
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
	}{"precompile", compiled, cache.Dir, time.Since(start).Seconds()})
	if err == nil {
		_, err = fmt.Fprintf(stdout, "%s\n", last)
	}
	return err
}
