package optim

import "math"

// A Scaler is the factor by which losses are multiplied so that their gradients fit F16, whose smallest number is 2⁻²⁴
// and whose largest is 65,504 (Micikevicius et al. 2018, arXiv 1710.03740). It looks for the largest factor with which
// no gradient overflows, by the rule of PyTorch's GradScaler: an overflow multiplies it by Backoff, and Interval steps
// in a row without one by Growth. Start with NewScaler.
type Scaler struct {
	Scale    float32 `json:"scale"`      // of the next step's losses
	Good     int     `json:"good_steps"` // steps in a row without an overflow since Scale may last have grown
	Growth   float64 `json:"-"`
	Backoff  float64 `json:"-"`
	Interval int     `json:"-"`
}

// NewScaler returns a Scaler with PyTorch's defaults: 65,536, doubled after 2,000 steps, halved after an overflow.
// Powers of two change no digit of a gradient.
func NewScaler() *Scaler { return &Scaler{Scale: 65536, Growth: 2, Backoff: 0.5, Interval: 2000} }

// Update takes the result of a step: whether any gradient overflowed, to an infinity or NaN. A Scale that would become
// infinite does not grow. It can shrink to 0.
func (s *Scaler) Update(overflow bool) {
	if overflow {
		s.Scale, s.Good = float32(float64(s.Scale)*s.Backoff), 0
		return
	}
	if s.Good++; s.Good < s.Interval {
		return
	}
	s.Good = 0
	if larger := float32(float64(s.Scale) * s.Growth); !math.IsInf(float64(larger), 0) {
		s.Scale = larger
	}
}

// factor returns the factor of losses, or 1 if there is no Scaler.
func (s *Scaler) factor() float32 {
	if s == nil {
		return 1
	}
	return s.Scale
}

// unscale returns the factor of gradients that undoes the factor of losses.
func (s *Scaler) unscale() float64 { return float64(float32(1 / float64(s.factor()))) }

// LossScale returns the factor by which the caller must multiply losses before it computes gradients: the Scaler's, or
// 1 if there is none.
func (o *AdamW) LossScale() float32 { return o.Scaler.factor() }
