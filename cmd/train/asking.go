package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/infer"
	"restyle/model"
	"restyle/trainer"
	"restyle/voice"
)

// asking answers a few questions with the model as it is, to hear its tone.
type asking struct {
	t         *train
	engine    *infer.Engine
	questions []string
	prompts   [][]int32
}

// asking takes the first held-out examples, or of all where none is held out. In plain text, the beginnings of pieces are
// continued.
func (t *train) asking(ctx context.Context, m *model.Model) (*asking, error) {
	a := &asking{t: t}
	var err error
	if a.engine, err = infer.NewWithCodec(m, t.language, t.settings.Context(m.Config())); err != nil {
		return nil, err
	}
	from := t.heldOut
	if len(from) == 0 {
		from = t.training
	}
	from = from[:min(t.samples, len(from))]
	if len(t.text) > 0 {
		for _, e := range from {
			a.add(t.language.Tokenizer.Decode(e.IDs[:min(8, len(e.IDs))], true), e.IDs[:min(8, len(e.IDs))])
		}
		return a, nil
	}
	conversations, err := t.conversations(ctx, from)
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	var refused []error
	for _, c := range conversations {
		last := len(c.Messages)
		for last > 0 && c.Messages[last-1].Role != "user" {
			last--
		}
		if last == 0 {
			continue
		}
		prompt, err := a.engine.Prompt(c.Messages[:last], sampleTokens)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		a.add(c.Messages[last-1].Content, prompt.IDs)
	}
	if n := len(refused); n > 0 {
		t.note("%d of %d sample questions cannot be asked: %v", n, len(conversations), refused[0])
	}
	return a, nil
}

func (a *asking) add(question string, prompt []int32) {
	a.questions, a.prompts = append(a.questions, question), append(a.prompts, prompt)
}

// conversations reads the rows of some examples once more, as text.
func (t *train) conversations(ctx context.Context, of []training.Example) (found []dataset.Conversation, err error) {
	first := 0 // row of the data set at hand
	for _, spec := range t.sources() {
		source, err := dataset.OpenConversations(ctx, spec, t.sourceOptions(spec))
		if err != nil {
			return nil, err
		}
		n := 0
		for ; len(found) < len(of); n++ {
			var c dataset.Conversation
			if c, err = source.Next(); err != nil {
				break
			}
			if slices.ContainsFunc(of, func(e training.Example) bool { return e.Row == first+c.Row }) {
				found = append(found, c)
			}
		}
		first += n
		if closed := source.Close(); err == nil || err == io.EOF {
			err = closed
		}
		if err != nil || len(found) == len(of) {
			return found, err
		}
	}
	return found, nil
}

// answer asks everything, always taking the most probable token. It ends early with ctx's error.
func (a *asking) answer(ctx context.Context) (samples []trainer.Sample, err error) {
	a.engine.ResetCache()
	for i, prompt := range a.prompts {
		text, err := a.one(ctx, prompt)
		if err != nil {
			return nil, err
		}
		samples = append(samples, trainer.Sample{Question: a.questions[i], Answer: text, Tone: a.t.tone.Tone(voice.Read(text)).Score})
	}
	return samples, nil
}

func (a *asking) one(ctx context.Context, prompt []int32) (text string, err error) {
	g, err := a.engine.Start(prompt, infer.Options{MaxTokens: sampleTokens})
	if err != nil {
		return "", err
	}
	for g.Next(ctx) {
		text += g.Text()
	}
	if err := ctx.Err(); err != nil {
		return "", err // the answer may have been cut off
	}
	return text, g.Err()
}

func (a *asking) close() error { return a.engine.Close() }
