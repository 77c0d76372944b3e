package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/measure"
	"restyle/internal/plot"
	"restyle/kernels"
	"restyle/opcheck"
)

const aboutKernels = `
bench kernels times every operation at the sizes of models, forward and backward, in the standard and
in the fused form, in turns. A row has the time with its noise, GB/s and TFLOP/s, the share of what a
copy and a product of large matrices reach in the same run, the memory, the energy if the machine
counts it, and the errors next to the formula in float64.

  bench kernels --out docs/bench/mine
  bench kernels --op attention,linear --device cuda
  bench kernels --seconds 1 --max-time 2s

With the same --out, a run that was interrupted measures what is missing.`

type kernelOptions struct {
	pageOptions
	op         string
	iterations int
	seconds    float64
	list       []*opcheck.Timing
}

func (o *kernelOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench kernels", aboutKernels, stdout, stderr)
	f.Group("Operations")
	f.Add(&o.op, "op", "only operations whose name has one of these `parts`, separated by commas")
	o.timing(f)
	o.add(f)
	return f
}

// timing adds the flags that bench all shares.
func (o *kernelOptions) timing(f *cli.Flags) {
	f.Add(&o.iterations, "iterations", "timings of each row; the result is the median")
	f.Add(&o.seconds, "seconds", "at most about this many `seconds` for the timings of a row's forms, but at least three "+
		"timings each")
}

func newKernelOptions(args []string) *kernelOptions {
	o := &kernelOptions{pageOptions: newPageOptions(args), iterations: 100, seconds: 5, list: opcheck.Timings()}
	return o
}

func runKernels(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return newKernelOptions(append([]string{"kernels"}, args...)).run(ctx, args, stdout, stderr)
}

func (o *kernelOptions) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runMeasurement(ctx, "kernels", o, &o.pageOptions, args, stdout, stderr)
}

func (o *kernelOptions) kernelOptions() kernels.Options { return kernels.Options{} }

// check checks the flags, and keeps only the operations that --op names.
func (o *kernelOptions) check() error {
	if err := checkTimings(o.iterations, o.seconds); err != nil || o.op == "" {
		return err
	}
	var names []string
	for _, t := range o.list {
		if !slices.Contains(names, t.Op) {
			names = append(names, t.Op)
		}
	}
	for part := range strings.SplitSeq(o.op, ",") {
		part = strings.TrimSpace(part)
		if part == "" || !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, part) }) {
			return fmt.Errorf("--op %q: must be parts of %s", part, strings.Join(names, ", "))
		}
	}
	o.list = slices.DeleteFunc(o.list, func(t *opcheck.Timing) bool {
		for part := range strings.SplitSeq(o.op, ",") {
			if strings.Contains(t.Op, strings.TrimSpace(part)) {
				return false
			}
		}
		return true
	})
	return nil
}

var kernelColumns = []results.Column{
	{Name: "sizes", Type: results.Text, Role: results.Key},
	{Name: "op", Type: results.Text, Role: results.Key},
	{Name: "pass", Type: results.Text, Role: results.Key},
	{Name: "type", Type: results.Text, Role: results.Key},
	{Name: "shape", Type: results.Text, Role: results.Key},
	{Name: "form", Type: results.Text, Role: results.Key},
	{Name: "time", Type: results.Number, Role: results.Time, Unit: "ms", About: "median of the timings"},
	{Name: "low", Type: results.Number, Unit: "ms"},
	{Name: "high", Type: results.Number, Unit: "ms"},
	{Name: "noise", Type: results.Number, Role: results.Noise, Unit: "%",
		About: "half the width of the median's 95% confidence interval"},
	{Name: "timings", Type: results.Integer, About: "number of timings"},
	{Name: "rate", Type: results.Number, Unit: "GB/s", About: "of the bytes that any form must move"},
	{Name: "tflops", Type: results.Number, Unit: "TFLOP/s", About: "of the operations that any form must compute"},
	{Name: "of_ceiling", Type: results.Number, Unit: "%", About: "the time that a copy of these bytes or a product of " +
		"these operations takes at best in the same run, as a share of the time"},
	{Name: "speedup", Type: results.Number, Unit: "×", About: "how many times as fast as the standard form, or as " +
		"with BF16 weights"},
	{Name: "speedup_noise", Type: results.Number, Unit: "%"},
	{Name: "memory", Type: results.Number, Unit: "MiB", About: "operands, intermediate results and scratch memory, as " +
		"the allocator counts them"},
	{Name: "saved", Type: results.Number, Unit: "%", About: "memory that the standard form, or BF16 weights, take and " +
		"this one does not"},
	{Name: "energy", Type: results.Number, Unit: "mJ", About: "of the device for one run, by its own counter"},
	{Name: "max_error", Type: results.Number, About: "greatest error next to the formula in float64, relative to the " +
		"result's root mean square"},
	{Name: "mean_error", Type: results.Number, About: "mean error, likewise"},
	{Name: "flops", Type: results.Number},
	{Name: "bytes", Type: results.Number},
	{Name: "copy", Type: results.Number, Unit: "GB/s"},
	{Name: "product", Type: results.Number, Unit: "TFLOP/s"},
	{Name: "why", Type: results.Text, Role: results.Why, About: "why nothing was measured"},
}

// measure measures all rows that are missing.
func (o *kernelOptions) measure(ctx context.Context, s *session, d *kernels.Device) error {
	table, err := s.table(results.Table{Name: "kernels", Title: "Operations", Columns: kernelColumns,
		Settings: fmt.Sprintf("%d timings, %g seconds", o.iterations, o.seconds)})
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(o.list), func(t *opcheck.Timing) bool {
		return !slices.ContainsFunc(kernelRows(t), func(r results.Row) bool { return !table.Done(r) })
	})
	s.status.Draw("compiling kernels")
	rehearse := func(d *kernels.Device) error { return opcheck.RehearseTimings(d, missing) }
	if err := d.Precompile(ctx, rehearse, nil); err != nil {
		return err
	}
	for i, t := range missing {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rows := kernelRows(t)
		s.status.Draw(fmt.Sprintf("%d%%: %s", 100*i/len(missing), t.ID()))
		ceiling, err := ceilingOf(d, t.Type)
		if err != nil {
			return err
		}
		why := ""
		if least := ceiling.Seconds(t.Bytes, t.FLOPs); least > o.maxTime.Seconds() {
			why = fmt.Sprintf("a run takes %.1f s or more, longer than --max-time %v", least, o.maxTime)
		} else if err := attempt(func() error { return o.row(ctx, d, t, ceiling, rows) }); err != nil {
			if ctx.Err() != nil || d.Err() != nil {
				return err
			}
			why = err.Error()
		}
		for k, r := range rows {
			if why != "" {
				for name := range r {
					if c := kernelColumns[slices.IndexFunc(kernelColumns,
						func(c results.Column) bool { return c.Name == name })]; c.Role != results.Key {
						delete(r, name)
					}
				}
				r["why"] = why
			}
			if err := s.Add(table, r); err != nil {
				return err
			}
			if err := printKernel(s.stdout, r, k); err != nil {
				return err
			}
		}
	}
	relate(table)
	return nil
}

// relate computes the shares of the ceiling again, with the best ceiling of all rows of a type: the machine may have
// been slower when the first rows were measured.
func relate(t *results.Table) {
	for _, column := range []string{"copy", "product"} {
		best := map[string]float64{} // by type
		for _, r := range t.Rows {
			if v := r.Number(column); v > best[r.Text("type")] {
				best[r.Text("type")] = v
			}
		}
		for _, r := range t.Rows {
			if r.Number(column) > 0 {
				r[column] = best[r.Text("type")]
			}
		}
	}
	for _, r := range t.Rows {
		if r.Number("time") > 0 {
			c := measure.Ceiling{Bytes: 1e9 * r.Number("copy"), FLOPs: 1e12 * r.Number("product")}
			r.Set("of_ceiling", c.Share(r.Number("bytes"), r.Number("flops"), r.Number("time")/1e3))
		}
	}
}

// kernelRows returns the rows of a timing, one for each form, with their keys.
func kernelRows(t *opcheck.Timing) (rows []results.Row) {
	for _, f := range t.Forms {
		rows = append(rows, results.Row{"sizes": t.Source, "op": t.Op, "pass": t.Pass, "type": t.Type.String(),
			"shape": t.Shape, "form": f.Name})
	}
	return rows
}

// row measures a timing in all of its forms, and fills its rows.
func (o *kernelOptions) row(ctx context.Context, d *kernels.Device, t *opcheck.Timing, ceiling measure.Ceiling,
	rows []results.Row) (err error) {
	r, err := t.Place(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var works []measure.Work
	for i, f := range t.Forms {
		works = append(works, r.Work(f))
		bytes, err := r.Memory(f)
		if err != nil {
			return err
		}
		rows[i].Set("memory", float64(bytes)/(1<<20))
		greatest, mean, err := r.Errors(f)
		if err != nil {
			return err
		}
		rows[i].Set("max_error", greatest)
		rows[i].Set("mean_error", mean)
	}
	shortest := 200 * time.Microsecond
	if !d.IsCPU() {
		shortest = time.Millisecond
	}
	samples, err := measure.Turns(ctx, measure.Options{Warmup: 10, Iterations: o.iterations, Shortest: shortest,
		Budget: time.Duration(o.seconds * float64(time.Second)), Least: 3}, works...)
	if err != nil {
		return err
	}
	for i, sample := range samples {
		seconds := sample.Median()
		low, high := sample.Quartiles()
		row := rows[i]
		for name, v := range map[string]float64{
			"time": 1e3 * seconds, "low": 1e3 * low, "high": 1e3 * high, "noise": sample.Noise(),
			"timings": float64(len(sample.Seconds)), "rate": t.Bytes / seconds / 1e9, "tflops": t.FLOPs / seconds / 1e12,
			"of_ceiling": ceiling.Share(t.Bytes, t.FLOPs, seconds), "flops": t.FLOPs, "bytes": t.Bytes,
			"copy": ceiling.Bytes / 1e9, "product": ceiling.FLOPs / 1e12,
		} {
			row.Set(name, v)
		}
		if i > 0 {
			ratio := sample.Faster(samples[0])
			row.Set("speedup", ratio.Times)
			row.Set("speedup_noise", ratio.Noise)
			row.Set("saved", 1-row.Number("memory")/rows[0].Number("memory"))
		}
		joules, err := energy(d, works[i], seconds)
		if err != nil {
			return err
		}
		row.Set("energy", 1e3*joules)
	}
	return nil
}

// energy returns the joules of one run of work that takes some seconds, or NaN if the machine does not count them. The
// counters change a few times per second, so energy runs the work for a second.
func energy(d *kernels.Device, work measure.Work, seconds float64) (float64, error) {
	before, known := d.Energy()
	if !known {
		return math.NaN(), nil
	}
	times := max(1, int(math.Ceil(1/seconds)))
	if err := work(times); err != nil {
		return 0, err
	}
	after, known := d.Energy()
	if !known || after <= before {
		return math.NaN(), nil
	}
	return (after - before) / float64(times), nil
}

// printKernel prints a row in a line.
func printKernel(w io.Writer, r results.Row, form int) (err error) {
	if form == 0 {
		_, err = fmt.Fprintf(w, "%s, %s %s %s, %s\n", r["sizes"], r["op"], r["pass"], r["type"], r["shape"])
	}
	switch {
	case err != nil:
	case r.Text("why") != "":
		_, err = fmt.Fprintf(w, "  %-11s %s\n", r["form"], r["why"])
	case r.Number("noise") > measure.MaxNoise:
		_, err = fmt.Fprintf(w, "  %-11s too noisy, ±%.0f%%\n", r["form"], 100*r.Number("noise"))
	default:
		_, err = fmt.Fprintf(w, "  %-11s %9s ms ±%2.0f%% %8.4g GB/s %8.4g TFLOP/s %4.0f%% of the ceiling", r["form"],
			plot.Digits(r.Number("time"), 4), 100*r.Number("noise"), r.Number("rate"), r.Number("tflops"),
			100*r.Number("of_ceiling"))
		if x := r.Number("speedup"); x > 0 && err == nil {
			_, err = fmt.Fprintf(w, ", %v", measure.Ratio{Times: x, Noise: r.Number("speedup_noise")})
		}
		if err == nil {
			_, err = fmt.Fprintln(w)
		}
	}
	return err
}
