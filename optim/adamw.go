// Package optim moves parameters: AdamW, the global norm by which gradients are clipped, and how the learning rate runs.
package optim

import (
	"fmt"
	"math"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// AdamWConfig are the constants of AdamW (Loshchilov and Hutter, arXiv 1711.05101). NewAdamW takes them as they are:
// begin with DefaultAdamW.
type AdamWConfig struct {
	Beta1, Beta2 float64 // decay of the means of gradients and of their squares
	Eps          float64 // added to the root of the second
	Decay        float64 // weight decay per step, times the learning rate; of parameters that have Decay
}

// DefaultAdamW is what PyTorch takes: betas 0.9 and 0.999, eps 1e-8, decay 0.01.
var DefaultAdamW = AdamWConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01}

// AdamW is the optimiser with its state in float32: two moments a parameter.
type AdamW struct {
	c      AdamWConfig
	d      *kernels.Device
	params []model.Param
	m, v   []tensor.Tensor // F32, of each parameter
	arena  *kernels.Arena
	step   int
}

// NewAdamW is an optimiser of those parameters that are trained, with all moments zero.
func NewAdamW(d *kernels.Device, params []model.Param, c AdamWConfig) (*AdamW, error) {
	for _, x := range []struct {
		name string
		v    float64
		ok   bool
	}{
		{"beta1", c.Beta1, c.Beta1 >= 0 && c.Beta1 < 1},
		{"beta2", c.Beta2, c.Beta2 >= 0 && c.Beta2 < 1},
		{"eps", c.Eps, c.Eps > 0 && !math.IsInf(c.Eps, 0)},
		{"decay", c.Decay, c.Decay >= 0 && !math.IsInf(c.Decay, 0)},
	} {
		if !x.ok {
			return nil, fmt.Errorf("AdamW: %s %v makes no sense", x.name, x.v)
		}
	}
	o := &AdamW{c: c, d: d}
	for _, p := range params {
		if p.Trained() {
			o.params = append(o.params, p)
		}
	}
	var err error
	if o.arena, err = d.NewArena("optimiser state", kernels.SizeOf(o.cut)); err != nil {
		return nil, err
	}
	o.cut(o.arena)
	for i := range o.params {
		d.Zero(o.m[i])
		d.Zero(o.v[i])
	}
	return o, nil
}

func (o *AdamW) cut(a *kernels.Arena) {
	o.m, o.v = nil, nil
	for _, p := range o.params {
		o.m = append(o.m, a.New("m "+p.Name, tensor.F32, p.W.Len()))
		o.v = append(o.v, a.New("v "+p.Name, tensor.F32, p.W.Len()))
	}
}

// Step moves every parameter once, against its gradient times scale (which is where clipping comes in), with learning
// rate lr. With an lr of 0 the moments advance and nothing moves.
func (o *AdamW) Step(lr, scale float64) {
	o.step++
	for i, p := range o.params {
		decay := 0.0
		if p.Decay {
			decay = o.c.Decay
		}
		o.d.AdamW(p.W, o.m[i], o.v[i], p.Grad, lr, o.c.Beta1, o.c.Beta2, o.c.Eps, decay, scale, o.step)
	}
}

// Steps is how often Step was called.
func (o *AdamW) Steps() int { return o.step }

// Close gives the state's memory back.
func (o *AdamW) Close() error { return o.arena.Close() }
