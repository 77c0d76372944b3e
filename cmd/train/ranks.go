package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/ranks"
	"restyle/trainer"
)

// findPlace finds the place of this process among the ranks of the run, and makes --device its own. If the flags ask
// for several ranks and nothing has started them, start is true.
func (t *train) findPlace() (start bool, err error) {
	if t.place, err = ranks.FromEnv(os.Getenv); err != nil {
		return false, cli.Usagef("%w", err)
	}
	if t.deviceName, start, err = t.place.Settle(t.ranks, t.deviceName, cuda.Ordinals); err != nil {
		return false, cli.Usagef("--%w", err)
	}
	return start && !t.alone(), nil
}

// alone reports whether the flags ask for what rank 0 does without the others.
func (t *train) alone() bool { return t.dryRun || t.showExample || t.selfcheck }

// startRanks starts the ranks, and returns their exit code.
func (t *train) startRanks() int {
	code, err := ranks.Start(t.place.Size, cli.Retry, t.stderr, cli.Heard(cli.StopSignals))
	if err != nil {
		fmt.Fprintf(t.stderr, "train: starting %d ranks: %v\n", t.place.Size, err)
		return max(code, cli.Failed)
	}
	return code
}

// join meets the other ranks, and compares with rank 0 what determines the result. Without others it does nothing.
func (t *train) join(ctx context.Context) error {
	if t.place.Size == 1 {
		return nil
	}
	claims := t.plan.Recipe()
	if err := t.identify(claims); err != nil {
		return err
	}
	claims["version"], claims["shard"] = cli.Version(), string(t.config.Shard)
	if t.place.Note != "" && t.place.Rank == 0 {
		t.note("%s", t.place.Note)
	}
	var err error
	t.group, err = ranks.Join(ctx, t.place, claims)
	if refused, is := errors.AsType[*ranks.Refused](err); is {
		return cli.Usagef("%w: give every rank the same program, flags, data and model", refused)
	}
	if err == nil {
		go t.endWhenLost(t.group)
	}
	return err
}

// hangs is the time after the loss of a rank in which this one ends by itself, unless something of the GPU hangs. A
// checkpoint that is being written, which rank 0 does, is waited for, up to maxRounds of that time.
const hangs, maxRounds = 10 * time.Second, 60

// endWhenLost ends the program some time after a rank was lost, because a sum on a GPU may wait for that rank for ever.
func (t *train) endWhenLost(g *ranks.Group) {
	<-g.Lost()
	for round := 0; round == 0 || g.Rank() == 0 && round < maxRounds && !g.Watched(); round++ {
		time.Sleep(hangs)
	}
	err := g.Err()
	if t.taking.Load() {
		err = &begun{err}
	}
	os.Exit(t.exit(context.Background(), err))
}

// begin tells the other ranks what rank 0 has decided for its device.
func (t *train) begin() error {
	if t.group == nil {
		return nil
	}
	text, err := json.Marshal(trainer.Record{Identity: t.job.Identity, Decisions: t.job.Decisions()})
	if err == nil {
		_, err = t.group.Share("the decisions for the device", text)
	}
	return err
}

// follow does the work of ranks other than 0. They print nothing but errors, and end when rank 0 does, whatever
// signals come.
func (t *train) follow(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	text, err := t.group.Share("the decisions for the device", nil)
	if errors.Is(err, ranks.ErrEnded) { // there was nothing to do
		return nil
	}
	if err != nil {
		return err
	}
	var was trainer.RunFile
	if err := json.Unmarshal(text, &was.Record); err != nil {
		return err
	}
	return t.onDevice(was, func() (err error) {
		if err := t.identify(t.job.Identity); err != nil {
			return err
		}
		if err := trainer.CheckIdentity(was.Identity, t.job.Identity); err != nil {
			return fmt.Errorf("this rank is not like rank 0: %w: give every rank the same hardware", err)
		}
		if err := t.checkMemory(); err != nil {
			return err
		}
		run, err := t.job.OpenIn(ctx, nil, "")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		if err := run.Start(ctx); err != nil {
			return err
		}
		t.taking.Store(true)
		if _, err = run.Run(ctx); err != nil {
			return &begun{err}
		}
		return nil
	})
}

// checkRanksMemory returns an error if the ranks of rank 0's host take more than its memory: the others have not taken
// theirs yet.
func (t *train) checkRanksMemory() error {
	d, n, one := t.job.Device, t.place.LocalSize, t.job.Memory.Total()
	if !d.IsCPU() || n <= 1 || t.place.Rank > 0 {
		return nil
	}
	if free, whose, known := d.Free(); known && n*one > free {
		return fmt.Errorf("each of the %d ranks on this host takes %s, and %s has %s free: start fewer", n,
			kernels.Bytes(one), whose, kernels.Bytes(free))
	}
	return nil
}
