package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
)

const aboutCompare = `
bench compare tells how many times as fast the rows of the second file are as those of the first,
with the noise of both. A and B are files results.json that the other measurements wrote, or their
directories. With --max-slowdown it is a gate: the exit code is 1 if a row is slower by more than
that and by more than its noise, or if the second file lacks a row of the first.

  bench compare docs/bench/cpu new/results.json
  bench compare before after --max-slowdown 5%`

func runCompare(_ context.Context, args []string, stdout, stderr io.Writer) int {
	limit := ""
	flags := cli.New("bench compare", aboutCompare, stdout, stderr)
	flags.Group("Gate")
	flags.Add(&limit, "max-slowdown", "fail if a row is slower by more than this `share`, such as 5% or 0.05")
	paths, code, done := flags.ParsePaths(args)
	if done {
		return code
	}
	most, err := share(limit)
	if err == nil && len(paths) != 2 {
		err = fmt.Errorf("%s: name two, each a results.json or its directory", cli.Count(len(paths), "file"))
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench compare: %v\nsee bench compare -h\n", err)
		return cli.Usage
	}
	var files [2]*results.File
	for i, path := range paths {
		if files[i], err = results.Load(path); err != nil {
			fmt.Fprintf(stderr, "bench compare: %v\n", err)
			return cli.Failed
		}
	}
	c := results.Compare(files[0], files[1])
	if err := c.Print(stdout); err != nil {
		fmt.Fprintf(stderr, "bench compare: %v\n", err)
		return cli.Failed
	}
	if len(c.Changes) == 0 {
		fmt.Fprintln(stderr, "bench compare: the files have no row in common")
		return cli.Failed
	}
	if limit == "" {
		return cli.Done
	}
	failed := c.Failed(most)
	for _, x := range failed {
		fmt.Fprintf(stdout, "too slow: %s: %s: %.1f%% slower\n", x.Table, x.ID, 100*x.Slower())
	}
	if len(failed)+len(c.Lost) > 0 {
		fmt.Fprintf(stderr, "bench compare: of %s, %d slower by more than %s, %d lost\n",
			cli.Count(len(c.Changes)+len(c.Lost), "row"), len(failed), limit, len(c.Lost))
		return cli.Failed
	}
	return cli.Done
}

// share parses a share such as 5% or 0.05.
func share(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("--max-slowdown %q: must be a share of at least 0, such as 5%% or 0.05", s)
	}
	return v, nil
}
