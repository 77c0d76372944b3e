package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"time"

	"restyle/internal/cli"
	"restyle/parity"
)

const aboutParity = `
bench parity PATH... compares what this module computes with recorded reference outputs, in every
directory below the paths: logits, hidden states, gradients and training steps of models, greedy
answers, operations, optimizers, tokens. It only names recordings of other texts, such as chat
templates, which go test compares.

  bench parity ../reference/golden
  bench parity ../reference/golden --quick --only 'golden/model/*'

The exit code is 1 if a value differs by more than its limit, is missing, or was recorded but not
compared. bench parity recognizes a directory by its files, so it also takes other outputs that were
recorded in the same form.`

// parityOptions are the flags.
type parityOptions struct {
	json    string
	each    bool
	quick   bool
	only    string
	fused   string
	device  string
	threads int
}

func (o *parityOptions) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("bench parity", aboutParity, stdout, stderr)
	f.Group("Comparison")
	f.Add(&o.only, "only", "only directories whose path, or its last element, matches this `pattern`, such as 'qwen*' "+
		"or golden/optim")
	f.Add(&o.quick, "quick", "of a full-size model, compare only the short row's forward pass and the first layer: "+
		"seconds "+
		"instead of minutes, 5 GB instead of 13")
	f.Add(&o.fused, "fused", fusedHelp+"; both for none and all")

	f.Group("Output")
	f.Add(&o.each, "each", "print every comparison, not only the worst of each kind")
	f.Add(&o.json, "json", "also write the table and its details as JSON to this `file`")

	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.threads, "threads", threadsHelp)
	return f
}

func runParity(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &parityOptions{fused: "both", device: "cpu"}
	flags := o.flags(stdout, stderr)
	paths, code, done := flags.ParsePaths(args)
	if done {
		return code
	}
	fused, _, err := fusedSets(o.fused)
	switch {
	case err == nil && len(paths) == 0:
		err = fmt.Errorf("no path: name the directory of the reference outputs")
	case err == nil:
		_, err = path.Match(o.only, "")
	}
	if err = cmp.Or(err, cli.CheckThreads(o.threads), cli.CheckDevice(o.device)); err != nil {
		fmt.Fprintf(stderr, "bench parity: %v\nsee bench parity -h\n", err)
		return cli.Usage
	}
	start := time.Now()
	show := cli.Progress{Line: cli.NewStatusLine(cli.Raw(stderr))}
	report, err := parity.Run(ctx, paths, parity.Options{
		Device: o.device, Threads: o.threads, Fused: fused, Quick: o.quick, Only: o.only, Progress: show.Draw,
		Note: func(line string) { fmt.Fprintf(stderr, "bench parity: %s\n", line) },
	})
	show.Line.Clear()
	if err == nil {
		err = o.print(report, time.Since(start), stdout)
	}
	return checked(ctx, "parity", err, err == nil && report.OK, stderr)
}

// result is the JSON of the result line and of the file of --json, which also has the rows.
type result struct {
	Command     string  `json:"command"`
	Seconds     float64 `json:"seconds"`
	Comparisons int     `json:"comparisons"`
	*parity.Report
	Rows []parity.Row `json:"rows,omitempty"`
}

// print writes the table, the file of --json, and the result line.
func (o *parityOptions) print(report *parity.Report, took time.Duration, stdout io.Writer) error {
	rows := report.Rows
	if !o.each {
		rows = report.Summary()
	}
	if err := report.Write(stdout, rows); err != nil {
		return err
	}
	r := result{
		Command: "parity", Seconds: took.Round(time.Millisecond).Seconds(), Comparisons: len(report.Rows), Report: report,
	}
	if o.json != "" {
		full := r
		full.Rows = rows
		if err := writeJSON(o.json, full); err != nil {
			return err
		}
	}
	return cli.PrintJSON(stdout, r)
}
