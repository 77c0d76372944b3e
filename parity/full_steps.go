package parity

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"restyle/model"
	"restyle/optim"
)

// adamwPaths returns the paths of the losses after a step of AdamW: one whose learning rate is recorded next to it, and
// others whose names contain theirs.
func (m *fullFolder) adamwPaths() (paths []string) {
	for path := range m.j.values {
		if path == "adamw.loss" || strings.HasPrefix(path, "adamw.loss_with_lr_") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// adamw compares the loss after one step from zero moments, with the current gradients. Only one parameter at a time
// has moments, because all moments would take as much memory as weights and gradients.
func (m *fullFolder) adamw(l *model.Model, path string) error {
	rate := m.j.input("adamw.lr")
	if _, named, ok := strings.Cut(path, "loss_with_lr_"); ok {
		var err error
		if rate, err = strconv.ParseFloat(named, 64); err != nil {
			return err
		}
	}
	betas := m.j.numbers("adamw.betas")
	m.j.strike("adamw.betas", input)
	if len(betas) != 2 {
		return fmt.Errorf("betas %v are not two", betas)
	}
	c := optim.Config{Beta1: betas[0], Beta2: betas[1], Eps: m.j.input("adamw.eps"),
		Decay: m.j.input("adamw.weight_decay"),
		Bits:  32, Master: optim.NoMaster}
	for _, p := range l.Params() {
		o, err := optim.New(m.d, []model.Param{p}, c)
		if err != nil {
			return err
		}
		if _, err := o.Step(rate, 0); err != nil {
			return err
		}
		if err := o.Close(); err != nil {
			return err
		}
	}
	loss, err := m.loss(l)
	m.j.compare("loss after AdamW", path, loss, fullStep)
	return err
}

// loss returns the loss of all rows.
func (m *fullFolder) loss(l *model.Model) (float64, error) {
	var losses []model.Loss
	for _, b := range m.rows {
		loss, err := l.Loss(m.batch(b))
		if err != nil {
			return math.NaN(), err
		}
		losses = append(losses, loss)
	}
	return mean(losses), nil
}

// sgd compares the losses and norms of the steps w -= lr·gradient. The gradients of the first step are already there.
func (m *fullFolder) sgd(l *model.Model) error {
	j := m.j
	rate := float32(j.input("sgd.lr"))
	steps := len(j.numbers("sgd.grad_norm"))
	var losses, norms []float64
	for step := range steps + 1 {
		var loss float64
		var err error
		if step < steps {
			var all []model.Loss
			if all, err = m.gradient(l, m.rows); err == nil {
				loss = mean(all)
				var norm float64
				norm, err = optim.Norm(m.d, l.Params())
				norms = append(norms, norm)
			}
		} else {
			loss, err = m.loss(l)
		}
		if err != nil {
			return err
		}
		losses = append(losses, loss)
		if step == steps {
			break
		}
		for _, p := range l.Params() {
			if err := m.descend(p, rate); err != nil {
				return err
			}
		}
	}
	m.compare("losses of SGD", j.key("sgd.loss"), relatives(losses, j.numbers("sgd.loss")), fullStep)
	m.compare("gradient norms of SGD", j.key("sgd.grad_norm"), relatives(norms, j.numbers("sgd.grad_norm")), fullStep)
	return nil
}

// descend moves a parameter against its gradient.
func (m *fullFolder) descend(p model.Param, rate float32) error {
	return inPieces(p.W.Len(), func(at, n int) error {
		w, err := m.d.Floats(p.W.Part(at, n))
		if err != nil {
			return err
		}
		g, err := m.d.Floats(p.Grad.Part(at, n))
		if err != nil {
			return err
		}
		for i := range w {
			w[i] -= rate * g[i]
		}
		m.d.Upload(p.W.Part(at, n), w)
		return nil
	})
}

// inPieces calls f for pieces of n elements that fit into memory next to the model.
func inPieces(n int, f func(at, n int) error) error {
	const piece = 1 << 23
	for at := 0; at < n; at += piece {
		if err := f(at, min(piece, n-at)); err != nil {
			return err
		}
	}
	return nil
}
