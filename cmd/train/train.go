package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"restyle/data"
	"restyle/dataset"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/trainer"
	"restyle/trainer/checkpoint"
	"restyle/voice"
)

// train is one call of the command.
type train struct {
	*options
	given          *cli.Flags
	from           map[string]string // where a flag's value comes from, if not from its default
	stdout, stderr io.Writer
	terminal       bool
	watch          func(phase trainer.Phase) // tests look in here

	device   *kernels.Device
	origin   *hf.Checkpoint
	language infer.Language
	set      *dataset.Set
	encoder  *dataset.Encoder
	train    []dataset.Example
	val      []dataset.Example
	settings trainer.Settings
	plan     *trainer.Plan
	answers  int // positions for sample answers
	tone     *voice.Style
	run      *trainer.Run
	outputs  *outputs
}

// note says something that is no error.
func (t *train) note(format string, args ...any) { fmt.Fprintf(t.stderr, format+"\n", args...) }

// do is the command from its flags to the end of the run.
func (t *train) do(ctx context.Context) (err error) {
	if err := t.resolve(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.origin.Close()) }()
	if t.showExample {
		return t.encoder.Show(t.stdout, t.set.Examples[0], cli.IsTerminal(t.stdout))
	}
	place := newPlace(t.out)
	if !t.dryRun {
		if err := place.inspect(t.resume, t.restart); err != nil {
			return err
		}
		if place.finished && t.resume {
			t.note("the run in %s is finished: there is nothing to go on with", t.out)
			return nil
		}
	}
	from, err := t.openDevice(place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.device.Close()) }()
	memory := trainer.MemoryOf(t.device, t.origin.Config, t.settings, t.plan, t.answers)
	t.printSettings(memory)
	if err := t.fits(memory); err != nil || t.dryRun {
		return err
	}
	unlock, err := place.claim(t.note)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return t.learn(ctx, place, from)
}

// resolve finds out all that the run is made of, and allocates nothing large.
func (t *train) resolve(ctx context.Context) (err error) {
	t.from = map[string]string{}
	t.given.Visit(t.mark("given"))
	if t.preset != "" {
		set, ok := presets[t.preset]
		if !ok {
			return usagef("--preset %q: there are %s", t.preset, presetNames())
		}
		if err := t.setDefaults(set, "preset "+t.preset); err != nil {
			return err
		}
	}
	if err := t.check(t.given.Given); err != nil {
		return err
	}
	if t.samples > 0 {
		if t.tone, err = voice.Load(t.style); err != nil {
			return usagef("--style: %v", err)
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
	if t.fromScratch == "" && t.model == data.StarterName {
		recipe, err := recipeOf(t.origin)
		if err == nil {
			err = t.setDefaults(recipe, "its recipe")
		}
		if err == nil {
			err = t.check(func(string) bool { return false })
		}
		if err != nil {
			return err
		}
	}
	if t.settings, err = t.options.settings(); err != nil {
		return &usageError{err}
	}
	c := t.origin.Config
	if err := t.settings.CheckPatterns(model.ParamsOf(c, model.Options{})); err != nil {
		return &usageError{err}
	}
	template := t.template
	if t.text != "" {
		template = "raw"
	}
	if t.language, err = infer.LanguageOf(t.origin, template); err != nil {
		return err
	}
	if t.set, t.encoder, err = t.examples(ctx, t.language, c.MaxPositions); err != nil {
		return err
	}
	if int(t.set.MaxID) >= c.Vocab {
		return fmt.Errorf("the data has token %d, and the model has %d: the tokenizer is not its own", t.set.MaxID, c.Vocab)
	}
	t.train, t.val = t.set.Split(t.options.val, t.seed)
	if t.plan, err = trainer.NewPlan(t.settings, t.train); err != nil {
		return err
	}
	if t.samples > 0 {
		t.answers = min(c.MaxPositions, t.seq+sampleTokens)
	}
	return nil
}

// openDevice opens the device; a resumed run goes on with the instruction set that it began with, where the machine has it.
func (t *train) openDevice(p *place) (from string, err error) {
	o := kernels.Options{Threads: t.threads, Fused: t.fused.Fused, Sync: t.sync}
	var then trainer.State
	if t.resume && !t.dryRun {
		found, err := checkpoint.Latest(trainer.CheckpointsIn(t.out))
		for _, s := range found.Skipped {
			t.note("the checkpoint %s is damaged and is left out: %v", s.Dir, s.Why)
		}
		switch {
		case err == nil:
			from = found.Dir
			if then, err = trainer.ReadState(from); err != nil {
				return "", err
			}
			o.Level = then.Decisions["cpu"]
		case !errors.Is(err, checkpoint.ErrNone):
			return "", err
		case len(found.Skipped) > 0:
			return "", fmt.Errorf("no checkpoint in %s is whole: begin anew with --restart, which keeps all of it aside", t.out)
		default:
			t.note("the run in %s had not come to a checkpoint yet: it begins again from the first step", t.out)
		}
	}
	name := t.options.device
	if t.device, err = kernels.Open(name, o); err != nil && o.Level != "" {
		t.note("this machine lacks the instruction set %s that the run was begun with: it goes on, but not with the same bits (%v)", o.Level, err)
		o.Level = ""
		t.device, err = kernels.Open(name, o)
	}
	return from, err
}

// identity is what a resume has to find unchanged.
func (t *train) identity() (map[string]string, error) {
	id := t.settings.Recipe()
	id["data"] = t.set.SHA256
	id["held out"] = fmt.Sprint(t.options.val)
	id["template"] = t.language.Family.Name
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

// learn does the run in a place that is ours.
func (t *train) learn(ctx context.Context, p *place, from string) (err error) {
	began := time.Now()
	id, err := t.identity()
	if err != nil {
		return err
	}
	m, err := model.New(t.device, t.origin.Config, t.settings.ModelOptions(t.plan, t.answers))
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
	opt, err := optim.New(t.device, m.Params(), t.settings.Optimizer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	t.run = &trainer.Run{
		Settings: t.settings, Plan: t.plan, Model: m, Optimizer: opt, Val: t.val, Dir: t.out, From: t.origin, Identity: id,
		Decisions: map[string]string{"cpu": t.device.Level(), "passes": fmt.Sprintf("of up to %d tokens", t.plan.MaxTokens)},
	}
	if t.samples > 0 {
		ask, err := t.asking(ctx, m)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ask.close()) }()
		t.run.Answer = ask.answer
	}
	if err := p.begin(t.allSettings()); err != nil {
		return err
	}
	if t.batches != "" {
		if err := t.writeBatches(); err != nil {
			return err
		}
	}
	if err := t.run.Start(ctx, from); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.run.Close()) }()
	if from != "" {
		t.note("going on after step %d of %d, from %s", t.run.State().Step, t.plan.Steps, from)
	}
	if t.outputs, err = t.openOutputs(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.outputs.close()) }()
	t.run.Observe = t.outputs.observe
	result, err := t.run.Run(ctx)
	if err = errors.Join(err, t.outputs.failed); err != nil {
		return err
	}
	return t.finish(p, m, result, time.Since(began))
}

// fits says what to do where the memory is too small.
func (t *train) fits(m trainer.Memory) error {
	limit, whose := int(t.maxMemory), "--max-memory"
	if limit == 0 {
		if limit, whose = freeMemory(), "what this machine has free"; limit == 0 {
			return nil
		}
	}
	if m.Total() <= limit {
		return nil
	}
	alone, together := trainer.Fit(t.device, t.origin.Config, t.settings, t.plan, t.answers, limit)
	advice := "no flag brings it down to that: take a smaller model, or a larger machine"
	switch {
	case alone != nil:
		advice = "any of these would fit: " + joinOr(alone)
	case together != "":
		advice = "together these would fit: " + together
	}
	return fmt.Errorf("this run takes %s, more than %s, %s: %s", kernels.Bytes(m.Total()), whose, kernels.Bytes(limit), advice)
}

// writable says early what would fail late.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".try")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
