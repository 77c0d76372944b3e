package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"restyle/dataset/training"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/ranks"
	"restyle/tensor"
	"restyle/trainer"
	"restyle/trainer/checkpoint"
	"restyle/voice"
)

// train is one call of the command: its flags, and then what they become.
type train struct {
	*options
	flags          *cli.Flags
	cameFrom       map[string]string // what set each flag that does not have its default
	stdout, stderr io.Writer
	status         *cli.StatusLine     // stderr writes through it
	quiet          bool                // print no notes: this is not rank 0
	watch          func(trainer.Phase) // for tests; may be nil

	place ranks.Place  // of this process, set by findPlace
	group *ranks.Group // the ranks of the run, set by join; nil: only this one

	taking atomic.Bool // steps, see begun

	// What the flags name, set by resolve.
	dir         string         // --out, absolute and without links
	base        *hf.Checkpoint // the model to train
	adapter     *hf.Adapter    // of base, to train further; nil: none
	codec       infer.Codec
	newTemplate bool // the result has another chat template than base has
	onlyText    bool // all data is plain text: it is continued, and nothing is asked
	set         *training.Set
	encoder     *training.Encoder
	examples    []training.Example // the examples of set to train on
	plan        *trainer.Plan      // as on the CPU
	voice       *voice.Style       // for the tone of samples; nil without samples, and for data of no style

	job *trainer.Job // the run as planned for the device, set by onDevice

	// The run whose model is open, set by execute.
	run       *trainer.Run
	began     time.Time
	gauge     *gauge
	power     *wattmeter
	beginning *beginning
}

func newTrain(o *options, f *cli.Flags, stdout, stderr io.Writer, status *cli.StatusLine,
	watch func(trainer.Phase)) *train {
	t := &train{options: o, flags: f, cameFrom: map[string]string{}, stdout: stdout, stderr: stderr, status: status,
		watch: watch}
	f.Visit(func(x *flag.Flag) { t.cameFrom[x.Name] = "given" })
	return t
}

// note prints a message that is no error.
func (t *train) note(format string, args ...any) {
	if t.quiet {
		return
	}
	text := fmt.Sprintf(format, args...)
	if t.status.On() {
		text = strings.Join(cli.Wrap(text, max(20, t.status.Width()-1)), "\n")
	}
	fmt.Fprintln(t.stderr, text)
}

// do runs the command, from the flags to the end of the training run. It changes nothing before execute.
func (t *train) do(ctx context.Context) (err error) {
	if err := t.resolve(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.base.Close(), t.adapter.Close()) }()
	switch {
	case t.showExample:
		return t.printExample()
	case t.dryRun:
		return t.onDevice(trainer.RunFile{}, t.checkMemory)
	}
	if err := t.join(ctx); err != nil {
		return err
	}
	defer func() { t.group.Close(err) }()
	if t.group.Rank() > 0 {
		return t.follow(ctx)
	}
	dir, err := trainer.Claim(t.dir, t.resume) // lock it before anything in it is read
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Release()) }()
	if err := t.checkRun(dir); err != nil {
		return err
	}
	if !t.csvInside() {
		unlock, err2 := t.lockCSV()
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	var from string
	var was trainer.RunFile // of the run to resume
	if t.resume {
		if dir.Was.Finished {
			result, err := t.resultOf(dir.Was)
			if err != nil {
				return err
			}
			if !t.makesLonger(result) {
				return t.repeat(dir.Was, result)
			}
		}
		was = *dir.Was
		if from, err = t.latest(); err != nil {
			return err
		}
		if from == "" && was.Finished {
			return fmt.Errorf("the run in %s is finished and has no checkpoint to continue from: to train its result further, "+
				"give it as --model, and another --out", t.out)
		}
		if err := t.checkBatches(was); err != nil {
			return err
		}
	}
	return t.onDevice(was, func() error {
		if err := t.checkMemory(); err != nil {
			return err
		}
		if err := t.checkDisk(); err != nil {
			return err
		}
		return t.withAdvice(t.execute(ctx, dir, from))
	})
}

// checkRun returns an error if the flags do not fit the run in the directory, or its absence.
func (t *train) checkRun(dir *trainer.Dir) error {
	switch {
	case t.resume && dir.Was == nil:
		return fmt.Errorf("--resume: there is no run in %s: leave --resume out to start one", dir.Path)
	case dir.Was != nil && !dir.Was.Finished && !t.resume && !t.restart:
		return fmt.Errorf("there is an unfinished run in %s: continue it (the same command and --resume), or start over "+
			"(--restart, which renames it to .bak)", dir.Path)
	}
	return nil
}

// latest returns the checkpoint that a run resumes from, or "" if the run has not saved one yet.
func (t *train) latest() (dir string, err error) {
	found, err := checkpoint.Latest(trainer.CheckpointsIn(t.dir))
	for _, s := range found.Skipped {
		t.note("checkpoint %s is damaged and is skipped: %v", s.Dir, s.Why)
	}
	switch {
	case err == nil:
		return found.Dir, nil
	case !errors.Is(err, checkpoint.ErrNone):
		return "", err
	case len(found.Skipped) > 0:
		return "", fmt.Errorf("no checkpoint in %s is intact: start over with --restart, which renames the directory", t.out)
	}
	t.note("the run in %s has no checkpoint yet: it starts again from the first step", t.out)
	return "", nil
}

// onDevice opens the device, plans the run for it, prints settings and memory, and calls f. A resumed run keeps the
// instruction set of was if the machine has it, and the algorithms of its matrix products if the device is the same.
func (t *train) onDevice(was trainer.RunFile, f func() error) (err error) {
	d, differs, err := trainer.OpenDevice(t.deviceName, kernels.Options{
		Threads: t.place.Threads(t.threads), Fused: t.fused.Fused, Sync: t.sync, Deterministic: t.deterministic,
		NoBF16: t.config.DType != tensor.BF16,
	}, was.Record)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, n := range d.Notes() {
		t.note("%s", n)
	}
	if was.Identity[trainer.SameBits] != "" && !t.plan.SameBits {
		if err := t.plan.Share(t.place.Size, true); err != nil {
			return cli.Usagef("--%w", err)
		}
	}
	before, now := cmp.Or(was.Decisions["ranks"], "1"), t.plan.RanksAndShard()
	if was.Decisions != nil && before != now && !t.plan.SameBits {
		differs = append(differs, fmt.Sprintf("ranks: the run began on %s, and this is %s", before, now))
	}
	for _, why := range differs {
		switch {
		case t.group.Rank() > 0:
			return fmt.Errorf("this rank is not like rank 0: %s: give every rank the same hardware", why)
		case t.sameBits:
			return fmt.Errorf("--same-bits: %s: use the machine, the --device and the number of ranks that it began on, or "+
				"leave --same-bits out", why)
		}
		t.note("%s: continuing, but not with the same bits", why)
	}
	t.job = trainer.NewJob(d, t.base, t.plan, trainer.JobOptions{
		Scratch: t.fromScratch != "", Adapter: t.adapter, MaxMemory: int(t.maxMemory), Was: was.Record, Group: t.group,
		Progress: t.progress(),
	})
	t.print()
	return f()
}

// progress returns a function that shows the work before the first step. It shows the reading of weights after a
// second.
func (t *train) progress() func(task trainer.Task, done, of int64) {
	began, drawn := time.Now(), time.Time{}
	return func(task trainer.Task, done, of int64) {
		switch {
		case done == of:
			t.status.Clear()
			began = time.Now()
		case task != trainer.Reading:
			t.status.Draw(fmt.Sprintf("%s: %d of %d", task, done, of))
		case time.Since(began) >= time.Second && time.Since(drawn) >= redraw:
			drawn = time.Now()
			t.status.Draw(fmt.Sprintf("%s: %s of %s", task, kernels.Bytes(int(done)), kernels.Bytes(int(of))))
		}
	}
}

// checkMemory returns an error that names flags that help if the run does not fit into memory.
func (t *train) checkMemory() error {
	err := t.job.CheckMemory()
	var e *trainer.TooLargeError
	if !errors.As(err, &e) {
		return cmp.Or(err, t.checkRanksMemory())
	}
	return &tooLarge{fmt.Errorf("%s: %s", e.Reason, advice(e.Remedies)), e.Busy}
}

// tooLarge is the error of a run that does not fit. If busy, it would fit if other processes did not use the GPU.
type tooLarge struct {
	error
	busy bool
}

// advice describes remedies by the flags that they change.
func advice(list []trainer.Remedy) string {
	var ways []string
	together := "any of these would fit: "
	for _, r := range list {
		var words []string
		for _, c := range r.Changes {
			words = append(words, strings.TrimSpace("--"+c.Setting+" "+c.Value))
		}
		if len(words) > 1 {
			together = "together these would fit: "
		}
		ways = append(ways, fmt.Sprintf("%s (%s)", strings.Join(words, " "), kernels.Bytes(r.Bytes)))
	}
	if ways == nil {
		return "no flag makes it fit: use a smaller model, or a larger machine"
	}
	return together + joinOr(ways)
}

// withAdvice adds flags that save memory to the error of a GPU that ran out of memory during the run.
func (t *train) withAdvice(err error) error {
	var e *kernels.OutOfMemory
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, advice(t.job.Remedies(min(e.Reach(), t.job.Memory.Total()-1))))
}

// checkDisk returns an error if the disk is too small for the run. What a resumed run already has on it counts.
func (t *train) checkDisk() error {
	there, err := checkpoint.Steps(trainer.CheckpointsIn(t.dir))
	if err != nil {
		return err
	}
	if !t.resume {
		there = nil // a new run renames them
	}
	need := trainer.MaxDisk(t.base.Config, t.job.Plan, len(there))
	if t.resume {
		need -= checkpoint.Size(t.dir)
	}
	if err := checkpoint.Room(t.dir, need); err != nil {
		return fmt.Errorf("the disk is too small for the checkpoints and the result: %w, or keep fewer with --keep", err)
	}
	return nil
}

// execute does the run in directory dir. Everything that may fail comes before the directory changes.
func (t *train) execute(ctx context.Context, dir *trainer.Dir, from string) (err error) {
	t.began = time.Now()
	if err := errors.Join(t.identify(t.job.Identity), t.begin()); err != nil {
		return err
	}
	if t.resume {
		if err := trainer.CheckIdentity(dir.Was.Identity, t.job.Identity); err != nil {
			return fmt.Errorf("--resume: %w: give the flags that it began with (--epochs and --max-steps may be larger), or "+
				"start over with --restart", err)
		}
	}
	run, err := t.job.OpenIn(ctx, dir, from)
	t.status.Clear()
	if err != nil {
		return err
	}
	t.run = run
	if run.Ranks != nil && run.Ranks.Note != "" {
		t.note("%s", run.Ranks.Note)
	}
	t.gauge = newGauge(t.job.Device.Meters)
	t.power = &wattmeter{read: t.job.Device.Energy}
	t.beginning = &beginning{loaded: time.Now()}
	defer func() { err = errors.Join(err, run.Close()) }()
	run.Settings, run.Version = t.settings(), cli.Version()
	if t.config.Samples > 0 {
		samples, err := t.newSampler(ctx, run.Model)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, samples.engine.Close()) }()
		run.GenerateSamples = samples.generate
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// If a reader such as tee is gone, through the same Ctrl-C or before it, nothing is shown, but everything is saved.
	signal.Ignore(syscall.SIGPIPE)
	run.Hooks.Notice = func(notice string) { t.note("%s", notice) }
	if err := t.start(ctx); err != nil {
		return err
	}
	return t.steps(ctx)
}

// start starts or resumes the run.
func (t *train) start(ctx context.Context) error {
	if t.run.From == "" {
		if err := t.writeBatches(0); err != nil {
			return err
		}
		return t.run.Start(ctx)
	}
	if err := t.run.Start(ctx); err != nil {
		return err
	}
	t.beginning.loaded = time.Now()
	s := t.run.State()
	t.note("continuing after step %d of %d, from %s", s.Step, t.job.Plan.Steps, t.run.From)
	return t.writeBatches(s.Longer)
}

// steps takes the steps of a started run, and saves the result.
func (t *train) steps(ctx context.Context) (err error) {
	out, err := t.openOutputs()
	if err != nil {
		return &begun{err}
	}
	defer func() { err = errors.Join(err, out.close()) }()
	before := t.run.State().Step
	t.taking.Store(true)
	result, err := t.run.Run(ctx)
	if err == trainer.ErrStopped {
		err = &stopped{result.Step, t.job.Plan.Steps}
	}
	if list := t.job.Device.Profile(); len(list) > 0 {
		t.note("\nkernels, validations and samples included")
		err = errors.Join(err, kernels.PrintProfile(t.stderr, list, max(1, t.run.State().Step-before)))
	}
	if err = errors.Join(err, out.failed); err != nil {
		return &begun{err}
	}
	return t.finish(result, out)
}

// begun is an error that occurs after a run has started.
type begun struct{ error }

// Unwrap returns what went wrong.
func (e *begun) Unwrap() error { return e.error }

// stopped is the error of a run that stopped early.
type stopped struct{ step, steps int }

// Error names the step after which the run stopped.
func (e *stopped) Error() string { return fmt.Sprintf("stopped after step %d of %d", e.step, e.steps) }

// Unwrap returns trainer.ErrStopped.
func (e *stopped) Unwrap() error { return trainer.ErrStopped }
