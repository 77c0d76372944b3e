package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"restyle/dataset/training"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/trainer"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
	"restyle/voice"
)

// train is one call of the command.
type train struct {
	*options
	given          *cli.Flags
	cameFrom       map[string]string // what set a flag's value, if not its default
	stdout, stderr io.Writer
	status         *cli.StatusLine           // stderr is this
	watch          func(phase trainer.Phase) // tests look in here

	dir         string // --out, as it is on the disk
	device      *kernels.Device
	origin      *hf.Checkpoint
	language    infer.Codec
	newTemplate bool // the model is asked in another form than its base
	set         *training.Set
	encoder     *training.Encoder
	training    []training.Example
	heldOut     []training.Example
	settings    trainer.Settings
	plan        *trainer.Plan
	process     int              // bytes that it takes beside its arenas
	widening    trainer.Widening // of passes, on a GPU; none where a run keeps what it began with
	memory      trainer.Memory
	tone        *voice.Style
	run         *trainer.Run
	outputs     *outputs
	gauge       *gauge
	beginning   beginning
}

// note says something that is no error.
func (t *train) note(format string, args ...any) { fmt.Fprintf(t.stderr, format+"\n", args...) }

// do is the command from its flags to the end of the run. Up to learn it changes nothing.
func (t *train) do(ctx context.Context) (err error) {
	if err := t.resolve(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.origin.Close()) }()
	if t.showExample {
		return t.encoder.Show(cli.Raw(t.stdout), t.set.Examples[0], cli.IsTerminal(t.stdout))
	}
	if t.dryRun {
		if err := t.openDevice(record{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.device.Close()) }()
		t.printSettings()
		return t.fits()
	}
	place, err := claim(t.dir, t.resume, t.restart) // before anything in it is looked at
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.release()) }()
	var from string
	var was record // of the run that goes on
	if t.resume {
		if place.was.Finished {
			result, err := t.resultOf(place.was)
			if err != nil || !t.makesLonger(result) {
				return errors.Join(err, t.repeat(place.was, result))
			}
		}
		was = *place.was
		if from, err = t.latest(); err != nil {
			return err
		}
		if from == "" && place.was.Finished {
			return fmt.Errorf("the run in %s is finished and has no checkpoint to go on from: to train its result further, give it as --model and another --out", t.out)
		}
	}
	if err := t.checkBatches(place.was); err != nil {
		return err
	}
	if err := t.openDevice(was); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.device.Close()) }()
	t.printSettings()
	if err := t.fits(); err != nil {
		return err
	}
	if err := t.room(); err != nil {
		return err
	}
	return t.withAdvice(t.learn(ctx, place, from))
}

// resolve finds out all that the run is made of, and allocates nothing large.
func (t *train) resolve(ctx context.Context) (err error) {
	t.cameFrom = map[string]string{}
	t.given.Visit(t.mark("given"))
	if t.preset != "" {
		set, ok := presets[t.preset]
		if !ok {
			return cli.Usagef("--preset %q: there are %s", t.preset, presetNames())
		}
		if err := t.setDefaults(set, "preset "+t.preset); err != nil {
			return err
		}
	}
	if err := t.check(t.given.Given); err != nil {
		return err
	}
	if t.dir, err = realPath(t.out); err != nil {
		return fmt.Errorf("--out: %w: give another directory", err)
	}
	if err := t.checkPaths(t.dir); err != nil {
		return err
	}
	if t.samples > 0 {
		if t.tone, err = voice.Load(t.style); err != nil {
			return cli.Usagef("--style: %v", err)
		}
	}
	if t.benchmarkLog != "" {
		if err := report.CheckBenchmark(t.benchmarkLog); err != nil {
			return err
		}
	}
	if t.origin, err = t.base(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.origin.Close()
		}
	}()
	if err := t.suit(); err != nil {
		return err
	}
	c := t.origin.Config
	if t.seq > c.MaxPositions {
		if t.cameFrom["seq"] == "given" {
			return cli.Usagef("--seq %d: the model has %d positions: give no more", t.seq, c.MaxPositions)
		}
		t.note("--seq %d is more than the model's %d positions: it is lowered to these", t.seq, c.MaxPositions)
		t.seq = c.MaxPositions
	}
	if t.settings, err = t.trainerSettings(); err != nil {
		return err
	}
	if err := t.settings.CheckPatterns(model.ParamsOf(c, model.Options{})); err != nil {
		return cli.Usagef("--%w", err)
	}
	template := t.template
	if len(t.text) > 0 {
		template = "raw"
	}
	if t.language, err = infer.CodecOf(t.origin, template); err != nil {
		return err
	}
	if t.newTemplate, err = t.language.Apply(t.origin); err != nil {
		return err
	}
	if t.set, t.encoder, err = t.examples(ctx); err != nil {
		return err
	}
	if int(t.set.MaxID) >= c.Vocab {
		return fmt.Errorf("the data has token %d, and the model has %d: the tokenizer is not its own", t.set.MaxID, c.Vocab)
	}
	t.training, t.heldOut = t.set.Split(t.val, t.seed)
	if t.patience > 0 && len(t.heldOut) == 0 {
		return cli.Usagef("--patience %d waits for a better validation loss, and of %d examples none can be held out: leave it out, or give more data",
			t.patience, len(t.set.Examples))
	}
	if t.plan, err = trainer.NewPlan(t.settings, t.training, t.heldOut); err != nil {
		return cli.Usagef("--%w", err)
	}
	return nil
}

// latest is the checkpoint that a resumed run goes on from; "" where it had not come to one.
func (t *train) latest() (dir string, err error) {
	found, err := checkpoint.Latest(trainer.CheckpointsIn(t.dir))
	for _, s := range found.Skipped {
		t.note("the checkpoint %s is damaged and is left out: %v", s.Dir, s.Why)
	}
	switch {
	case err == nil:
		return found.Dir, nil
	case !errors.Is(err, checkpoint.ErrNone):
		return "", err
	case len(found.Skipped) > 0:
		return "", fmt.Errorf("no checkpoint in %s is whole: begin anew with --restart, which keeps all of it aside", t.out)
	}
	t.note("the run in %s had not come to a checkpoint yet: it begins again from the first step", t.out)
	return "", nil
}

// identity is what a resume has to find unchanged.
func (t *train) identity() (map[string]string, error) {
	id := t.settings.Recipe()
	id["data"] = t.set.SHA256
	id["train-on"] = t.trainOn
	id["columns"] = t.columns
	id["val"] = fmt.Sprint(t.val)
	id["template"] = t.language.Template.Name
	id["fused"] = t.fused.String()
	var err error
	if t.fromScratch != "" {
		tok, _ := t.origin.ReadFile("tokenizer.json")
		sum := sha256.Sum256(append(t.origin.ConfigJSON, tok...))
		id["model"] = "new " + hex.EncodeToString(sum[:])
	} else if id["model"], err = t.origin.Digest(); err != nil {
		return nil, err
	}
	return id, nil
}

// learn does the run in a place that is ours. What may fail comes before the place is changed.
func (t *train) learn(ctx context.Context, p *place, from string) (err error) {
	began := time.Now()
	t.gauge = newGauge(t.device.Meters)
	id, err := t.identity()
	if err != nil {
		return err
	}
	if t.resume {
		if err := trainer.Same(p.was.Identity, id); err != nil {
			return fmt.Errorf("--resume: %w: give what it was begun with (--epochs and --max-steps may be larger), or begin anew with --restart", err)
		}
	}
	if err := t.precompile(ctx); err != nil {
		return err
	}
	m, err := model.New(t.device, t.origin.Config, t.settings.ModelOptions(t.origin.Config, t.plan))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	switch {
	case from != "": // the weights come with the checkpoint
	case t.fromScratch != "":
		m.Init(uint64(t.seed), 0.02)
	default:
		if err := t.origin.Load(ctx, t.device, m.Params(), t.loading()); err != nil {
			return err
		}
	}
	t.beginning.loaded = time.Now()
	opt, err := optim.New(t.device, m.Params(), t.settings.Optimizer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	t.run = &trainer.Run{
		Settings: t.settings, Plan: t.plan, Model: m, Optimizer: opt, Val: t.heldOut, Dir: t.dir, From: t.origin, Identity: id,
		Decisions: t.decisions(),
		Observe:   t.observe, Ended: t.resume && p.was.Finished,
	}
	if t.samples > 0 {
		ask, err := t.asking(ctx, m)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ask.close()) }()
		t.run.Answer = ask.answer
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // where tee and its like are gone, with the same Ctrl-C or before it, nothing is shown, and all is saved
	defer func() { err = errors.Join(err, t.run.Close()) }()
	if err := t.start(ctx, p, from); err != nil {
		return err
	}
	if t.outputs, err = t.openOutputs(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.outputs.close()) }()
	before := t.run.State().Step
	result, err := t.run.Run(ctx)
	if list := t.device.Profile(); len(list) > 0 {
		t.note("\nkernels, validations and answers included")
		err = errors.Join(err, kernels.PrintProfile(t.stderr, list, max(1, t.run.State().Step-before)))
	}
	if err = errors.Join(err, t.outputs.failed); err != nil {
		return err
	}
	return t.finish(p, m, result, time.Since(began))
}

// start writes down what the run is, and begins it or goes on. A new run is known by its record before there are other files,
// or a kill would leave what no run accepts; a resumed one changes it only when it really goes on.
func (t *train) start(ctx context.Context, p *place, from string) error {
	if from == "" {
		if err := t.writeBatches(0); err != nil {
			return err
		}
		if err := p.begin(t.record(), t.note); err != nil {
			return err
		}
		return t.run.Start(ctx, "")
	}
	if err := t.run.Start(ctx, from); err != nil {
		return err
	}
	t.beginning.loaded = time.Now()
	s := t.run.State()
	if err := t.writeBatches(s.Longer); err != nil {
		return err
	}
	t.note("going on after step %d of %d, from %s", s.Step, t.plan.Steps, from)
	return p.begin(t.record(), t.note)
}

// record is what run.json says of this run.
func (t *train) record() record {
	return record{Settings: t.allSettings(), Identity: t.run.Identity, Decisions: t.run.Decisions}
}

// observe is told of everything that the run does.
func (t *train) observe(event any) {
	switch e := event.(type) {
	case trainer.Notice:
		t.note("%s", e)
		return
	case trainer.Step:
		t.gauge.look(time.Now())
	}
	t.beginning.saw(event, time.Now())
	t.outputs.observe(event)
}

// fits says what to do where the memory is too small.
func (t *train) fits() error {
	limit, whose := int(t.maxMemory), "--max-memory"
	if limit == 0 {
		free, of, known := t.device.Free()
		if !known {
			return nil
		}
		limit, whose = free, "what "+of+" has free"
		if !t.device.IsCPU() {
			limit += t.device.Allocated() // what products have already
		}
	}
	total := t.memory.Total()
	if total <= limit {
		return nil
	}
	if t.maxMemory == 0 && total <= t.device.Capacity() {
		return t.filled(total, limit)
	}
	return fmt.Errorf("this run takes %s, more than %s, %s: %s", kernels.Bytes(total), whose, kernels.Bytes(limit), t.advice(limit))
}

// advice is which flags bring the run down to limit bytes.
func (t *train) advice(limit int) string {
	alone, together := trainer.Fit(t.device, t.fused.Fused, t.origin.Config, t.settings, t.plan, t.process, t.widening, limit)
	switch {
	case alone != nil:
		return "any of these would fit: " + joinOr(alone)
	case together != "":
		return "together these would fit: " + together
	}
	return "no flag brings it down to that: take a smaller model, or a larger machine"
}

// room says early that the disk is too small. What a resumed run has there already counts.
func (t *train) room() error {
	there, err := checkpoint.Steps(trainer.CheckpointsIn(t.dir))
	if err != nil {
		return err
	}
	if !t.resume {
		there = nil // they are set aside
	}
	need := trainer.DiskOf(t.origin.Config, t.settings, t.plan, len(t.heldOut) > 0, len(there))
	if t.resume {
		need -= sizeOf(t.dir)
	}
	if err := checkpoint.Room(t.dir, need); err != nil {
		return fmt.Errorf("the disk is too small for the checkpoints and the result: %w, or keep fewer with --keep", err)
	}
	return nil
}
