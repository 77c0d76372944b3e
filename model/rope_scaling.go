package model

import (
	"errors"
	"fmt"
	"math"
)

// A RoPEKind is a way of stretching rotary frequencies.
type RoPEKind string

// The kinds of RoPEScaling, by the names that config.json has for them.
const (
	RoPELinear  RoPEKind = "linear"   // positions are divided (Chen et al., 2023)
	RoPEDynamic RoPEKind = "dynamic"  // the base grows with the sequence (NTK-aware scaling)
	RoPEYaRN    RoPEKind = "yarn"     // slow frequencies are divided, fast ones kept (Peng et al., 2023)
	RoPELong    RoPEKind = "longrope" // a divisor for each frequency, by the length (Ding et al., 2024)
	RoPELlama3  RoPEKind = "llama3"   // Llama 3.1 and later
)

// RoPEScaling stretches rotary frequencies for contexts longer than in pretraining, as transformers does
// (modeling_rope_utils.py). With n the number of positions of the pass, d the head's elements, θ the base, f a
// frequency, O OriginalMaxPositions and s Factor, it becomes
//
//	linear    f / s
//	dynamic   as by the base θ·(s·n/MaxPositions - (s-1))^(d/(d-2)) if n > MaxPositions
//	longrope  f / Long[i] if n > O, and f / Short[i] otherwise
//	llama3    f·(k + (1-k)/s), k = (O·f/2π - LowFreqFactor) / (HighFreqFactor - LowFreqFactor) within 0 and 1
//	yarn      f·(1-k + k/s), k = (i-a)/(b-a) within 0 and 1, a and b from BetaFast and BetaSlow
//
// With dynamic and longrope, all rows of a pass have the frequencies of its longest, and keys in a cache stay as they
// were computed. A pass does not depend on passes before it, unlike in transformers with dynamic.
type RoPEScaling struct {
	Kind                 RoPEKind
	Factor               float64
	OriginalMaxPositions int // of yarn, longrope and llama3: the context of pretraining

	LowFreqFactor, HighFreqFactor float64 // of llama3

	BetaFast, BetaSlow   float64 // of yarn: turns within O positions, between which frequencies are blended
	Untruncated          bool    // of yarn: a and b are not rounded to whole frequencies
	MScale, MScaleAllDim float64 // of yarn: see Attention; 0 if not given

	Short, Long []float64 // of longrope: divisors [headDim/2]

	AttentionFactor float64 // of yarn and longrope: Attention; 0: it follows from the others
}

// Attention returns the factor of all cosines and sines, and so of queries and of keys.
//
//	longrope  √(1 + ln s / ln O), 1 if s ≤ 1
//	yarn      m(MScale) / m(MScaleAllDim) if both are given, and m(1) otherwise; m(x) = 0.1·x·ln s + 1, 1 if s ≤ 1
func (s *RoPEScaling) Attention() float64 {
	m := func(x float64) float64 { return 0.1*x*math.Log(max(1, s.Factor)) + 1 }
	switch {
	case s == nil:
		return 1
	case s.AttentionFactor != 0:
		return s.AttentionFactor
	case s.Kind == RoPELong && s.Factor > 1:
		return math.Sqrt(1 + math.Log(s.Factor)/math.Log(float64(s.OriginalMaxPositions)))
	case s.Kind == RoPEYaRN && s.MScale != 0 && s.MScaleAllDim != 0:
		return m(s.MScale) / m(s.MScaleAllDim)
	case s.Kind == RoPEYaRN:
		return m(1)
	}
	return 1
}

// InvFreq returns the angle by which each pair of elements of a head turns from one position to the next, [headDim/2],
// in a pass over n positions: θ^(-2i/headDim), stretched if the model does that. All in float64.
func (c Config) InvFreq(n int) []float64 {
	base, d, s := c.RoPETheta, float64(c.HeadDim), c.RoPEScaling
	if s == nil {
		s = &RoPEScaling{}
	}
	if s.Kind == RoPEDynamic && n > c.MaxPositions {
		base *= math.Pow(s.Factor*float64(n)/float64(c.MaxPositions)-(s.Factor-1), d/(d-2))
	}
	f := make([]float64, c.HeadDim/2)
	for i := range f {
		f[i] = math.Pow(base, -2*float64(i)/d)
	}
	switch s.Kind {
	case RoPELinear:
		for i := range f {
			f[i] /= s.Factor
		}
	case RoPELong:
		divisors := s.Short
		if n > s.OriginalMaxPositions {
			divisors = s.Long
		}
		for i := range f {
			f[i] /= divisors[i]
		}
	case RoPELlama3:
		for i, x := range f {
			turns := float64(s.OriginalMaxPositions) * x / (2 * math.Pi)
			f[i] = s.divided(x, 1-(turns-s.LowFreqFactor)/(s.HighFreqFactor-s.LowFreqFactor))
		}
	case RoPEYaRN:
		// the frequency, counted from the fastest, that makes this number of turns within the original context
		at := func(turns float64) float64 {
			return d * math.Log(float64(s.OriginalMaxPositions)/(2*math.Pi*turns)) / (2 * math.Log(base))
		}
		first, last := at(s.BetaFast), at(s.BetaSlow)
		if !s.Untruncated {
			first, last = math.Floor(first), math.Ceil(last)
		}
		first, last = max(first, 0), min(last, d-1)
		if first == last {
			last += 0.001
		}
		for i, x := range f {
			f[i] = s.divided(x, (float64(i)-first)/(last-first))
		}
	}
	return f
}

// divided returns a frequency of which the share k, limited to 0 and 1, is divided by Factor.
func (s *RoPEScaling) divided(f, k float64) float64 {
	switch {
	case k <= 0:
		return f
	case k >= 1:
		return f / s.Factor
	}
	return (1-k)*f + k*f/s.Factor
}

// ropeLength returns what the frequencies depend on of the number of positions in a pass.
func (c Config) ropeLength(n int) int {
	s := c.RoPEScaling
	switch {
	case s != nil && s.Kind == RoPEDynamic:
		return max(n, c.MaxPositions)
	case s != nil && s.Kind == RoPELong:
		return min(max(n, s.OriginalMaxPositions), s.OriginalMaxPositions+1)
	}
	return 0
}

// ropeByLength reports whether the frequencies depend on the number of positions in a pass.
func (c Config) ropeByLength() bool { return c.ropeLength(1) > 0 }

// Positions returns the length of the longest sequence that the model computes: MaxPositions, or what RoPE's scaling
// makes of it, because some files have the length before scaling there. Dynamic scaling has no limit, because its
// base grows with the sequence.
func (c Config) Positions() int {
	s := c.RoPEScaling
	switch {
	case s == nil || s.Kind == RoPELlama3:
		return c.MaxPositions
	case s.Kind == RoPEDynamic:
		return maxPositions
	}
	original := c.MaxPositions
	if s.OriginalMaxPositions > 0 {
		original = s.OriginalMaxPositions
	}
	return max(c.MaxPositions, int(min(s.Factor*float64(original), maxPositions)))
}

// divisors checks a list of longrope.
func divisors(key string, list []float64, n int) error {
	if len(list) != n {
		return fmt.Errorf("%s has %d numbers: must have %d, one for each frequency", key, len(list), n)
	}
	for _, x := range list {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%s has %v: all must be positive", key, x)
		}
	}
	return nil
}

// validate reports a value, by its key in config.json, with which frequencies would not be positive and finite.
func (s RoPEScaling) validate(c Config) error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	if !positive(s.Factor) {
		return fmt.Errorf("factor %v: must be positive", s.Factor)
	}
	original := s.Kind != RoPELinear && s.Kind != RoPEDynamic
	switch {
	case original && (s.OriginalMaxPositions < 1 || s.OriginalMaxPositions > maxPositions):
		return fmt.Errorf("original_max_position_embeddings %d: must be 1 to %d", s.OriginalMaxPositions, maxPositions)
	case s.AttentionFactor < 0 || math.IsNaN(s.AttentionFactor) || math.IsInf(s.AttentionFactor, 0):
		return fmt.Errorf("attention_factor %v: must be positive", s.AttentionFactor)
	}
	switch s.Kind {
	case RoPELinear:
	case RoPEDynamic:
		if c.HeadDim <= 2 {
			return fmt.Errorf("head_dim %d: must be more than 2", c.HeadDim)
		}
	case RoPEYaRN:
		switch {
		case !positive(s.BetaFast) || !positive(s.BetaSlow) || s.BetaFast < s.BetaSlow:
			return fmt.Errorf("beta_fast %v: must be at least beta_slow %v, which must be positive", s.BetaFast, s.BetaSlow)
		case c.RoPETheta == 1:
			return errors.New("rope_theta 1: all frequencies are the same")
		}
	case RoPELong:
		if s.OriginalMaxPositions == 1 && s.AttentionFactor == 0 {
			return errors.New("original_max_position_embeddings 1: must be more, or attention_factor be given")
		}
		if err := divisors("short_factor", s.Short, c.HeadDim/2); err != nil {
			return err
		}
		if err := divisors("long_factor", s.Long, c.HeadDim/2); err != nil {
			return err
		}
	case RoPELlama3:
		switch {
		case !positive(s.LowFreqFactor) || !positive(s.HighFreqFactor):
			return fmt.Errorf("low_freq_factor %v, high_freq_factor %v: must be positive", s.LowFreqFactor, s.HighFreqFactor)
		case s.LowFreqFactor >= s.HighFreqFactor:
			return errors.New("low_freq_factor: must be less than high_freq_factor")
		}
	default:
		return fmt.Errorf("rope_type %q: there is no such scaling", s.Kind)
	}
	if a := s.Attention(); !positive(a) {
		return fmt.Errorf("mscale: attention's factor would be %v", a)
	}
	return nil
}
