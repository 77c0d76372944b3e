package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"restyle/dataset"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/trainer"
	"restyle/trainer/report"
	"restyle/voice"
)

// resolve opens what the flags name. It allocates nothing large. The caller must close base and adapter.
func (t *train) resolve(ctx context.Context) (err error) {
	if t.preset != "" {
		set, ok := presets[t.preset]
		if !ok {
			return cli.Usagef("--preset %q: must be one of %s", t.preset, presetNames())
		}
		if err := t.setDefaults(set, "preset "+t.preset); err != nil {
			return err
		}
	}
	if err := t.check(t.flags.Given); err != nil {
		return err
	}
	if t.place.Rank > 0 { // which writes neither
		t.logCSV, t.benchmarkLog = "", ""
	}
	if t.dir, err = disk.RealPath(t.out); err != nil {
		return fmt.Errorf("--out: %w: choose another directory", err)
	}
	if err := t.checkPaths(t.dir); err != nil {
		return err
	}
	if t.config.Samples > 0 {
		if t.voice, err = voice.Load(t.style); err != nil {
			return cli.Usagef("--style: %v", err)
		}
	}
	if t.benchmarkLog != "" {
		if err := report.CheckBenchmark(t.benchmarkLog); err != nil {
			return fmt.Errorf("--benchmark-log: %w", err)
		}
	}
	t.onlyText = t.holdsText(ctx)
	if t.base, err = t.openBase(ctx); err != nil {
		return err
	}
	if err := t.read(ctx); err != nil {
		return errors.Join(err, t.base.Close(), t.adapter.Close())
	}
	return nil
}

// read completes the flags that depend on the model, reads the data and plans the run.
func (t *train) read(ctx context.Context) error {
	for _, n := range t.base.Notes {
		t.note("%s", n)
	}
	if err := t.suit(t.base); err != nil {
		return err
	}
	c := t.base.Config
	if err := t.config.CheckModel(c); err != nil {
		return cli.Usagef("--%w", err)
	}
	if err := t.config.CheckLoRA(c, t.base.Quantization); err != nil {
		return cli.Usagef("--%w", err)
	}
	var err error
	if t.adapter != nil {
		err = t.config.CheckAdapter(t.adapter)
	} else if !t.resume {
		err = t.config.CheckIdle(c)
	}
	if err != nil {
		return cli.Usagef("--%w", err)
	}
	template := t.template
	if len(t.text) > 0 || t.onlyText && template == "" {
		template = "raw"
	}
	codec, err := infer.CodecOf(t.base, template)
	if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
		return cli.Usagef("--template: %w", unknown)
	}
	if err != nil {
		return err
	}
	t.codec = codec
	if t.newTemplate, err = codec.Apply(t.base); err != nil {
		return err
	}
	set, encoder, err := t.readData(ctx, codec)
	if err != nil {
		return err
	}
	t.set, t.encoder = set, encoder
	for _, x := range set.Examples {
		if int(set.MaxID) < c.Vocab {
			break
		}
		if err := codec.Tokenizer.CheckRows(x.IDs, c.Vocab); err != nil {
			return fmt.Errorf("row %s of the data: %w", set.Place(x.Row), err)
		}
	}
	examples, heldOut := set.Split(t.val, t.config.Seed)
	if t.config.Patience > 0 && len(heldOut) == 0 {
		return cli.Usagef("--patience %d waits for a better validation loss, and of %d examples none can be held out: "+
			"leave it out, or give more data", t.config.Patience, len(set.Examples))
	}
	t.examples = examples
	if t.plan, err = trainer.NewPlan(t.config, examples, heldOut); err != nil {
		return cli.Usagef("--%w", err)
	}
	if err := t.plan.Share(t.place.Size, t.sameBits && !t.resume); err != nil {
		return cli.Usagef("--%w", err)
	}
	if t.config.Shard != trainer.ShardOptimizer && t.place.Size == 1 {
		t.note("--shard %s divides nothing, as there is one rank: the run is as without it", t.config.Shard)
	}
	if t.voice != nil && t.cameFrom["style"] == "" && !strings.Contains(set.Format, dataset.FormatRewritten) {
		t.voice = nil // the answers have no style to be scored by
	}
	return nil
}

// identify adds to an identity what must be the same in a resumed run, besides the recipe.
func (t *train) identify(id map[string]string) error {
	id["data"] = t.set.SHA256
	id["train-on"] = t.trainOn
	id["columns"] = t.columns.String()
	id["val"] = fmt.Sprint(t.val)
	id["template"] = t.codec.Template.Name
	id["fused"] = t.fused.String()
	if t.fromScratch != "" {
		tok, _ := t.base.ReadFile("tokenizer.json")
		sum := sha256.Sum256(append(t.base.ConfigJSON, tok...))
		id["model"] = "new " + hex.EncodeToString(sum[:])
		return nil
	}
	var err error
	if id["model"], err = t.base.Digest(); err != nil || !t.config.Adapts() {
		return err
	}
	id["adapter"] = "" // a new one
	if t.adapter != nil {
		id["adapter"], err = t.adapter.Digest()
	}
	return err
}
