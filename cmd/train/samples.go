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

// A sampler has the model answer a few questions, and scores the tone of the answers.
type sampler struct {
	engine    *infer.Engine
	style     *voice.Style // nil for plain text, which has no tone
	tokens    int          // maximum per answer
	questions []string
	prompts   [][]int32
}

// newSampler takes the questions from the first held-out examples, or from the first training examples if none is held
// out. From plain text it takes the first tokens, which the model continues.
func (t *train) newSampler(ctx context.Context, m *model.Model) (*sampler, error) {
	e, err := infer.NewWithCodec(m, t.codec, t.plan.Context(m.Config()))
	if err != nil {
		return nil, err
	}
	a := &sampler{engine: e, style: t.voice, tokens: t.config.SampleTokens}
	from := t.plan.HeldOut
	if len(from) == 0 {
		from = t.examples
	}
	from = from[:min(t.config.Samples, len(from))]
	if t.onlyText {
		a.style = nil
		for _, e := range from {
			a.add(t.codec.Tokenizer.Decode(e.IDs[:min(8, len(e.IDs))], true), e.IDs[:min(8, len(e.IDs))])
		}
		return a, nil
	}
	conversations, err := t.conversations(ctx, from)
	if err != nil {
		return nil, errors.Join(err, e.Close())
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
		if c.Tools != "" || c.Variables != "" {
			refused = append(refused, errors.New("the row has tools or other variables of the template"))
			continue
		}
		prompt, err := e.Prompt(c.Messages[:last], a.tokens)
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

func (a *sampler) add(question string, prompt []int32) {
	a.questions, a.prompts = append(a.questions, question), append(a.prompts, prompt)
}

// conversations reads the rows of the given examples again, as text.
func (t *train) conversations(ctx context.Context, of []training.Example) (found []dataset.Conversation, err error) {
	first := 0 // number of the current dataset's first row
	for _, s := range t.sources() {
		source, err := t.open(ctx, s)
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

// generate answers all questions, always with the most probable token. If ctx ends, generate returns ctx's error.
func (a *sampler) generate(ctx context.Context) (samples []trainer.Sample, err error) {
	a.engine.ResetCache()
	for i, prompt := range a.prompts {
		text, err := a.one(ctx, prompt)
		if err != nil {
			return nil, err
		}
		sample := trainer.Sample{Question: a.questions[i], Answer: text}
		if a.style != nil {
			score := a.style.Tone(voice.Read(text)).Score
			sample.Tone = &score
		}
		samples = append(samples, sample)
	}
	return samples, nil
}

func (a *sampler) one(ctx context.Context, prompt []int32) (text string, err error) {
	g, err := a.engine.Start(prompt, infer.Options{MaxTokens: a.tokens})
	if err != nil {
		return "", err
	}
	for g.Next(ctx) {
		text += g.Text()
	}
	if err := ctx.Err(); err != nil {
		return "", err // the answer may be incomplete
	}
	return text, g.Err()
}
