package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"restyle/internal/cli"
	"restyle/kernels/cuda"
	"restyle/ranks"
)

// join finds the other ranks of bench step, or starts them. Without others the group is nil. If done, the command ends
// with code.
func (o *stepOptions) join(ctx context.Context, flags *cli.Flags, stderr io.Writer) (g *ranks.Group, code int,
	done bool) {
	var start bool
	place, err := ranks.FromEnv(os.Getenv)
	if err == nil {
		o.device, start, err = place.Settle(o.ranks, o.device, cuda.Ordinals)
	}
	if err == nil && place.Size > 1 && (o.seconds > 0 || len(o.beside) > 0) {
		err = fmt.Errorf("seconds and beside are for one rank: leave them out")
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "bench step: --%v\nsee bench step -h\n", err)
		return nil, cli.Usage, true
	case place.Size == 1:
		return nil, 0, false
	case start:
		if code, err = ranks.Start(place.Size, cli.Retry, stderr, cli.Heard(cli.StopSignals)); err != nil {
			fmt.Fprintf(stderr, "bench step: %v\n", err)
			code = max(code, cli.Failed)
		}
		return nil, code, true
	}
	o.threads = place.Threads(o.threads)
	claims := map[string]string{"version": cli.Version()}
	flags.VisitAll(func(f *flag.Flag) {
		if f.Name != "device" && f.Name != "threads" { // each rank has its own
			claims[f.Name] = f.Value.String()
		}
	})
	if place.Note != "" && place.Rank == 0 {
		fmt.Fprintf(stderr, "bench step: %s\n", place.Note)
	}
	if g, err = ranks.Join(ctx, place, claims); err != nil {
		fmt.Fprintf(stderr, "bench step: %v\n", err)
		if _, is := errors.AsType[*ranks.Refused](err); is {
			return nil, cli.Usage, true
		}
		return nil, cli.Failed, true
	}
	go func() { // a GPU may wait forever for a rank that is gone
		<-g.Lost()
		fmt.Fprintf(stderr, "bench step: %v\n", g.Err())
		os.Exit(cli.Retry)
	}()
	return g, 0, false
}

// rankByRank calls f on rank 0, and then on the others, which find what it has put into the cache.
func (t *stepTable) rankByRank(f func() error) error {
	if t.group == nil {
		return f()
	}
	const name = "the kernels of rank 0"
	if t.group.Rank() > 0 {
		if _, err := t.group.Share(name, nil); err != nil {
			return err
		}
		return f()
	}
	if err := f(); err != nil {
		return err
	}
	_, err := t.group.Share(name, nil)
	return err
}
