package trainer

import (
	"errors"

	"restyle/infer"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
)

// Rehearse does everything once that the run of a plan repeats: validation losses of long and of short sequences, a
// step over full passes (one for each number of tokens that passes are padded to), and some tokens of a sample. With a
// device that computes nothing (see kernels.Builds), this shows which kernels the run launches.
func Rehearse(d *kernels.Device, c model.Config, p *Plan) (err error) {
	options := p.ModelOptions(c)
	m, err := model.New(d, c, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	m.Before = func(int) {} // layers may have the weights of others
	whole := p.AdamW(0)     // of all ranks, which have what follows among them
	whole.Shard.Size = 1
	o, err := optim.New(d, m.Params(), whole)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	for _, longest := range []int{p.Longest, min(p.Longest, 64)} { // attention has other kernels for short sequences
		if _, err := m.Loss(full(p.MaxTokens, longest)); err != nil {
			return err
		}
	}
	r := &Run{Plan: p, Model: m, Optimizer: o}
	for _, tokens := range options.PassSizes() {
		if _, err := r.Update([]model.Batch{full(tokens, p.Longest)}, 1, 0); err != nil {
			return err
		}
	}
	for layer := model.Outside; layer < c.Layers; layer++ { // the sums of what several ranks have
		sums, _ := o.Sums(layer)
		for _, x := range sums {
			d.Add(x, x, x)
		}
	}
	return infer.Rehearse(m, p.Context(c))
}

// full returns a pass of this many tokens. Most sequences have the maximum length. Some are short, with lengths that
// have other divisors, because unfused attention moves numbers in groups whose size divides the length.
func full(tokens, longest int) model.Batch {
	var of []model.Batch
	for n, left := 1, tokens; left > 0; n *= 2 {
		if n > 8 {
			n = longest
		}
		ids := make([]int32, min(n, left, longest))
		of = append(of, model.Batch{IDs: ids, Labels: ids})
		left -= len(ids)
	}
	return model.Join(of...)
}
