package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/trainer"
	"restyle/trainer/report"
	"restyle/voice"
)

// inputs are the parts of a run that the flags name. They do not change.
type inputs struct {
	*train
	dir         string         // --out, absolute and without links
	base        *hf.Checkpoint // the model to train
	codec       infer.Codec
	newTemplate bool // the result has another chat template than base has
	set         *training.Set
	encoder     *training.Encoder
	examples    []training.Example // those of set to train on
	plan        *trainer.Plan      // as on the CPU
	style       *voice.Style       // for the tone of samples; nil without samples, and for data of no style
}

// resolve opens what the flags name. It allocates nothing large. The caller must close the base of the result.
func (t *train) resolve(ctx context.Context) (*inputs, error) {
	if t.preset != "" {
		set, ok := presets[t.preset]
		if !ok {
			return nil, cli.Usagef("--preset %q: must be one of %s", t.preset, presetNames())
		}
		if err := t.setDefaults(set, "preset "+t.preset); err != nil {
			return nil, err
		}
	}
	if err := t.check(t.flags.Given); err != nil {
		return nil, err
	}
	dir, err := disk.RealPath(t.out)
	if err != nil {
		return nil, fmt.Errorf("--out: %w: choose another directory", err)
	}
	if err := t.checkPaths(dir); err != nil {
		return nil, err
	}
	var style *voice.Style
	if t.config.Samples > 0 {
		if style, err = voice.Load(t.style); err != nil {
			return nil, cli.Usagef("--style: %v", err)
		}
	}
	if t.benchmarkLog != "" {
		if err := report.CheckBenchmark(t.benchmarkLog); err != nil {
			return nil, fmt.Errorf("--benchmark-log: %w", err)
		}
	}
	t.onlyText = t.holdsText(ctx)
	base, err := t.openBase(ctx)
	if err != nil {
		return nil, err
	}
	in, err := t.read(ctx, base, dir, style)
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	return in, nil
}

// read completes the flags that depend on the model, reads the data and plans the run.
func (t *train) read(ctx context.Context, base *hf.Checkpoint, dir string, style *voice.Style) (*inputs, error) {
	for _, n := range base.Notes {
		t.note("%s", n)
	}
	if err := t.suit(base); err != nil {
		return nil, err
	}
	c := base.Config
	if err := t.config.CheckModel(c); err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	template := t.template
	if len(t.text) > 0 || t.onlyText && template == "" {
		template = "raw"
	}
	codec, err := infer.CodecOf(base, template)
	if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
		return nil, cli.Usagef("--template: %w", unknown)
	}
	if err != nil {
		return nil, err
	}
	changed, err := codec.Apply(base)
	if err != nil {
		return nil, err
	}
	set, encoder, err := t.readData(ctx, codec)
	if err != nil {
		return nil, err
	}
	for _, x := range set.Examples {
		if int(set.MaxID) < c.Vocab {
			break
		}
		if err := codec.Tokenizer.CheckRows(x.IDs, c.Vocab); err != nil {
			return nil, fmt.Errorf("row %s of the data: %w", set.Place(x.Row), err)
		}
	}
	examples, heldOut := set.Split(t.val, t.config.Seed)
	if t.config.Patience > 0 && len(heldOut) == 0 {
		return nil, cli.Usagef("--patience %d waits for a better validation loss, and of %d examples none can be held out: "+
			"leave it out, or give more data", t.config.Patience, len(set.Examples))
	}
	plan, err := trainer.NewPlan(t.config, examples, heldOut)
	if err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	if style != nil && t.cameFrom["style"] == "" && !strings.Contains(set.Format, dataset.FormatRewritten) {
		style = nil // the answers have no style to be scored by
	}
	return &inputs{t, dir, base, codec, changed, set, encoder, examples, plan, style}, nil
}

// identify adds to a job's identity what must be the same in a resumed run, besides the recipe.
func (j *job) identify() error {
	id := j.Identity
	id["data"] = j.set.SHA256
	id["train-on"] = j.trainOn
	id["columns"] = j.columns.String()
	id["val"] = fmt.Sprint(j.val)
	id["template"] = j.codec.Template.Name
	id["fused"] = j.fused.String()
	if j.fromScratch != "" {
		tok, _ := j.base.ReadFile("tokenizer.json")
		sum := sha256.Sum256(append(j.base.ConfigJSON, tok...))
		id["model"] = "new " + hex.EncodeToString(sum[:])
		return nil
	}
	digest, err := j.base.Digest()
	id["model"] = digest
	return err
}
