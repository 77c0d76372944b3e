package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/opcheck"
)

const aboutOps = `
bench ops runs the cases of every operation on a device and prints what the device can do: one line
per operation, forward and backward, with a cell for each type, unfused and fused.

  ok 41%     correct: the largest error is 41% of its limit
  FAIL 2/16  2 of 16 cases are wrong; the reasons are below the table
  -          the operation has no such form

  bench ops
  bench ops --op rmsnorm,attention --threads 1
  bench ops --device cuda

bench ops compares results with the same formulas in float64, and gradients with finite differences
of the formulas. The environment variable RESTYLE_CPU selects the CPU's instruction set. The exit
code is 1 if any case is wrong.`

// opsOptions are the flags, and the cases that they select from.
type opsOptions struct {
	op      string
	json    string
	device  string
	threads int

	list []*opcheck.Case
}

func (o *opsOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench ops", aboutOps, stdout, stderr)
	f.Group("Operations")
	f.Add(&o.op, "op", "only these operations, `names` separated by commas; default all: "+
		strings.Join(opcheck.Ops(o.list),
			", "))

	f.Group("Output")
	f.Add(&o.json, "json", "also write the table and all errors as JSON to this `file`")

	f.Group("Device")
	f.Add(&o.device, "device", "device to run on, `auto|cpu|cuda|cuda:N|emulated`; emulated is a GPU emulated by the "+
		"CPU, to find "+
		"mistakes in kernels")
	f.Add(&o.threads, "threads", threadsHelp)
	return f
}

func runOps(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &opsOptions{device: "cpu", list: opcheck.All()}
	return o.run(ctx, args, stdout, stderr)
}

func (o *opsOptions) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := o.flags(stdout, stderr)
	if code, done := flags.Parse(args); done {
		return code
	}
	if err := cmp.Or(o.choose(), cli.CheckThreads(o.threads), cli.CheckDevice(o.device)); err != nil {
		fmt.Fprintf(stderr, "bench ops: %v\nsee bench ops -h\n", err)
		return cli.Usage
	}
	status := cli.NewStatusLine(cli.Raw(stderr))
	report, err := o.measure(ctx, status)
	status.Clear()
	if err == nil {
		err = o.print(report, stdout)
	}
	return checked(ctx, "ops", err, err == nil && report.OK, stderr)
}

// checked prints how a command that checks results ended, and returns its exit code.
func checked(ctx context.Context, name string, err error, ok bool, stderr io.Writer) int {
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "bench %s: stopped\n", name)
	case err != nil:
		fmt.Fprintf(stderr, "bench %s: %v\n", name, err)
	case ok:
		return cli.Done
	}
	return cli.Failed
}

// choose keeps only the cases of the operations that --op names.
func (o *opsOptions) choose() error {
	if o.op == "" {
		return nil
	}
	var names []string
	for name := range strings.SplitSeq(o.op, ",") {
		name = strings.TrimSpace(name)
		if all := opcheck.Ops(o.list); !slices.Contains(all, name) {
			return fmt.Errorf("--op %q: must be one of %s", name, strings.Join(all, ", "))
		}
		names = append(names, name)
	}
	other := func(c *opcheck.Case) bool { return !slices.Contains(names, c.Op) }
	o.list = slices.DeleteFunc(o.list, other)
	return nil
}

// measure runs all cases. It returns an error only if the device fails.
func (o *opsOptions) measure(ctx context.Context, status *cli.StatusLine) (*opsReport, error) {
	start := time.Now()
	d, err := kernels.Open(o.device, kernels.Options{Threads: o.threads})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for _, n := range d.Notes() {
		fmt.Fprintf(status, "bench ops: %s\n", n)
	}
	r := &opsReport{Command: "ops", Device: d.Name(), Cases: len(o.list)}
	if d.IsCPU() {
		r.Level, r.Threads = d.Level(), cpu.Threads()
	}
	for i, c := range o.list {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		status.Draw(fmt.Sprintf("%s, %d%%", c.ID(), 100*i/len(o.list)))
		for _, fused := range c.Forms() {
			result, err := c.Check(d, fused)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.ID(), err)
			}
			r.add(c, fused, result)
		}
	}
	r.OK = r.Failed == 0
	r.Seconds = time.Since(start).Round(time.Millisecond).Seconds()
	return r, nil
}

// print writes the table, the file of --json, and the result line.
func (o *opsOptions) print(r *opsReport, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, r.text()); err != nil {
		return err
	}
	if o.json != "" {
		if err := writeJSON(o.json, r); err != nil {
			return err
		}
	}
	last := *r
	last.Rows = nil
	return cli.PrintJSON(stdout, last)
}
