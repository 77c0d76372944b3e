package trainer

import (
	"errors"

	"restyle/infer"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
)

// Rehearse does once what a run does again and again: a loss, a step over full passes, and, if it has sample answers, some tokens of
// one. With a device that computes nothing (see kernels.Builds) it shows which kernels the run launches.
func Rehearse(d *kernels.Device, c model.Config, s Settings, p *Plan) (err error) {
	m, err := model.New(d, c, s.ModelOptions(c, p))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	o, err := optim.New(d, m.Params(), s.Optimizer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	b := full(p)
	if _, err := m.Loss(b); err != nil {
		return err
	}
	r := &Run{Settings: s, Model: m, Optimizer: o}
	if _, err := r.Move([]model.Batch{b}, 1, 0); err != nil {
		return err
	}
	return infer.Rehearse(m, s.Context(c))
}

// full is a pass of as many tokens as there are at most. Sequences are as long as they can be, and some are short, of lengths with
// other divisors: unfused attention moves as many numbers at once as divide a length.
func full(p *Plan) model.Batch {
	var of []model.Batch
	for n, left := 1, p.MaxTokens; left > 0; n *= 2 {
		if n > 8 {
			n = p.Longest
		}
		ids := make([]int32, min(n, left, p.Longest))
		of = append(of, model.Batch{IDs: ids, Labels: ids})
		left -= len(ids)
	}
	return model.Join(of...)
}
