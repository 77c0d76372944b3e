package infer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"restyle/kernels"
)

// Sampling configures how the next token is chosen from the logits. The steps and their order are the same as in
// Hugging Face's generate: repetition penalty, temperature, top-k, top-p, min-p, softmax, draw. The zero value is
// greedy decoding.
type Sampling struct {
	// Temperature divides the logits. 0 chooses the highest logit, among equals the lowest id; then of the other settings
	// only RepetitionPenalty has an effect.
	Temperature float64
	// TopK keeps the K highest scores, and all that equal the lowest of these (Fan et al., 2018). 0 keeps all.
	TopK int
	// TopP keeps the most probable tokens until their probabilities add up to P, at least one (nucleus sampling, Holtzman
	// et al., 2019). 0 and 1 keep all.
	TopP float64
	// MinP drops tokens that are less than P times as probable as the most probable one (Nguyen et al., 2024). 0 keeps
	// all.
	MinP float64
	// RepetitionPenalty divides positive logits and multiplies negative ones of all tokens that occur in the prompt or the
	// answer, once each (CTRL, Keskar et al., 2019). 1 changes nothing, and neither does 0, unless the model has a penalty
	// of its own: see Rules.
	RepetitionPenalty float64
	// Seed determines the draws: apart from the probabilities, each depends only on Seed and the token's index in its
	// answer.
	Seed uint64
}

// Check reports a setting that is out of range.
func (s Sampling) Check() error {
	switch {
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 1):
		return fmt.Errorf("temperature %v: must be a finite number, at least 0 (greedy)", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("top-k %d: must be a number of tokens, or 0 for all", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("top-p %v: must be at least 0 and at most 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return fmt.Errorf("min-p %v: must be at least 0 and at most 1", s.MinP)
	case !(s.RepetitionPenalty >= 0) || math.IsInf(s.RepetitionPenalty, 1):
		return fmt.Errorf("repetition penalty %v: must be a positive finite number, or 0 or 1 for none", s.RepetitionPenalty)
	}
	return nil
}

// A Sampler chooses the tokens of one answer. It keeps its scratch memory between tokens, and is not safe for
// concurrent use.
type Sampler struct {
	Sampling
	step uint64         // tokens drawn
	seen map[int32]bool // ids that the repetition penalty applies to
	past []int32        // the same ids in the order of their first occurrence

	rules   Rules
	ends    map[int32]bool
	history []int32 // prompt and answer, if the rules need them

	// The candidates that are left after each filter, by ascending id.
	ids     []int32
	scores  []float32
	weights []float64 // exp(score - highest score)

	bins   [1024]float64
	active []int32
}

// NewSampler returns a Sampler for the answer to a prompt. Settings that are out of range are an error.
func NewSampler(s Sampling, prompt []int32) (*Sampler, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return newSampler(s, prompt, Rules{}, nil), nil
}

func newSampler(s Sampling, prompt []int32, rules Rules, ends map[int32]bool) *Sampler {
	sampler := &Sampler{Sampling: s, seen: map[int32]bool{}, rules: rules, ends: ends}
	for _, id := range prompt {
		sampler.remember(id)
	}
	return sampler
}

func (s *Sampler) remember(id int32) {
	if s.rules.forbids() {
		s.history = append(s.history, id)
	}
	if s.penalises() && !s.seen[id] {
		s.seen[id] = true
		s.past = append(s.past, id)
	}
}

func (s *Sampler) penalises() bool { return s.RepetitionPenalty != 0 && s.RepetitionPenalty != 1 }

// greedy reports whether the highest logit is chosen, whatever came before.
func (s *Sampler) greedy() bool {
	return s.Temperature == 0 && !s.penalises() && !s.rules.forbids()
}

// Next chooses a token and remembers it. logits is [vocab] and is not changed. If a logit is NaN or +Inf, or all are
// -Inf, that is an error: the model or its weights are broken.
func (s *Sampler) Next(logits []float32) (int32, error) {
	if err := s.filter(logits); err != nil {
		return 0, err
	}
	id := s.draw()
	s.drew(id)
	return id, nil
}

func (s *Sampler) drew(id int32) {
	s.step++
	s.remember(id)
}

// device returns how a device draws the next token, provided that the token depends on nothing but the logits.
func (s *Sampler) device() (how kernels.Draw, ok bool) {
	return kernels.Draw{TopP: s.TopP, MinP: s.MinP, Uniform: uniform(s.Seed, s.step), Temperature: float32(s.Temperature),
		TopK: int32(min(s.TopK, math.MaxInt32))}, !s.penalises() && !s.rules.forbids()
}

// Distribution returns the ids among which Next would draw, ascending, and their probabilities. It draws nothing.
func (s *Sampler) Distribution(logits []float32) (ids []int32, probs []float64, err error) {
	if err := s.filter(logits); err != nil {
		return nil, nil, err
	}
	probs = slices.Clone(s.weights)
	total := sum(probs)
	for i := range probs {
		probs[i] /= total
	}
	return slices.Clone(s.ids), probs, nil
}

// filter sets the candidates of the draw and their weights.
func (s *Sampler) filter(logits []float32) error {
	top, err := s.load(logits)
	if err != nil {
		return err
	}
	highest := s.scores[top]
	temperature := float32(s.Temperature)
	if temperature == 0 || highest/temperature > math.MaxFloat32 || highest/temperature < -math.MaxFloat32 {
		s.keepOnly(top) // even if the division overflows: its limit is greedy decoding
		return nil
	}
	if temperature != 1 {
		highest /= temperature
		s.divide(temperature)
	}
	if s.TopK > 0 && s.TopK < len(s.scores) {
		last, _ := s.cut(float64(s.TopK))
		s.keep(func(i int) bool { return s.scores[i] >= last })
	}
	for i, score := range s.scores {
		s.weights[i] = exp(float64(score) - float64(highest))
	}
	if s.TopP > 0 && s.TopP < 1 {
		last, end := s.cut(s.TopP * sum(s.weights))
		s.keep(func(i int) bool { return s.scores[i] > last || s.scores[i] == last && i <= end })
	}
	if s.MinP > 0 {
		s.keep(func(i int) bool { return s.weights[i] >= s.MinP })
	}
	return nil
}

// load makes every finite logit a candidate of weight 1, applies the repetition penalty and the rules, and returns the
// index of the highest candidate, the first among equals.
func (s *Sampler) load(logits []float32) (top int, err error) {
	n := len(logits)
	if cap(s.ids) < n {
		s.ids = make([]int32, n)
		s.scores = make([]float32, n)
		s.weights = make([]float64, n)
		s.active = make([]int32, n)
	}
	s.ids, s.scores, s.weights = s.ids[:n], s.scores[:n], s.weights[:n]
	copy(s.scores, logits)
	penalty := float32(s.RepetitionPenalty)
	for _, id := range s.past {
		switch score := logits[id]; {
		case score < 0:
			s.scores[id] = score * penalty
		case score > 0:
			s.scores[id] = score / penalty
		}
	}
	s.rules.each(s.history, int(s.step), s.ends, func(id int32) {
		if 0 <= id && int(id) < n {
			s.scores[id] = float32(math.Inf(-1))
		}
	})
	kept := 0
	highest := float32(math.Inf(-1))
	for id, score := range s.scores {
		switch {
		case score > math.MaxFloat32 || score != score:
			return 0, fmt.Errorf("the logit of token %d is %v: the model's weights are broken, or a computation overflowed", id,
				score)
		case score < -math.MaxFloat32:
			continue
		case score > highest:
			highest, top = score, kept
		}
		s.ids[kept], s.scores[kept], s.weights[kept] = int32(id), score, 1
		kept++
	}
	if kept == 0 {
		if s.rules.forbids() {
			return 0, errors.New("generation_config.json forbids every token")
		}
		return 0, errors.New("every logit is -Inf: the model's weights are broken")
	}
	s.ids, s.scores, s.weights = s.ids[:kept], s.scores[:kept], s.weights[:kept]
	return top, nil
}

// divide divides the scores by the temperature and drops those that become -Inf.
func (s *Sampler) divide(temperature float32) {
	low := float32(0)
	for i := range s.scores {
		s.scores[i] /= temperature
		low = min(low, s.scores[i])
	}
	if low < -math.MaxFloat32 {
		s.keep(func(i int) bool { return s.scores[i] >= -math.MaxFloat32 })
	}
}

func (s *Sampler) keepOnly(i int) {
	s.ids[0], s.scores[0], s.weights[0] = s.ids[i], s.scores[i], 1
	s.ids, s.scores, s.weights = s.ids[:1], s.scores[:1], s.weights[:1]
}

// keep keeps the candidates for which pass returns true.
func (s *Sampler) keep(pass func(i int) bool) {
	kept := 0
	for i := range s.ids {
		if pass(i) {
			s.ids[kept], s.scores[kept], s.weights[kept] = s.ids[i], s.scores[i], s.weights[i]
			kept++
		}
	}
	s.ids, s.scores, s.weights = s.ids[:kept], s.scores[:kept], s.weights[:kept]
}

// cut takes candidates from the highest score down, among equals the lowest id first, until their weights add up to
// limit. It returns the score and the index of the last one taken.
//
// It sorts only the few candidates around the cut: a histogram of the scores tells in which bin the cut is, and then
// the members of that bin get a histogram of their own.
func (s *Sampler) cut(limit float64) (last float32, index int) {
	const fewEnough = 64
	active, above := s.active[:len(s.scores)], 0.0
	for i := range active {
		active[i] = int32(i)
	}
	for len(active) > fewEnough {
		lo, hi := s.scores[active[0]], s.scores[active[0]]
		for _, i := range active {
			lo, hi = min(lo, s.scores[i]), max(hi, s.scores[i])
		}
		if lo == hi {
			break // all equal, and already in the order of their ids
		}
		high, scale := float64(hi), float64(len(s.bins)-1)/(float64(hi)-float64(lo))
		clear(s.bins[:])
		for _, i := range active {
			s.bins[int((high-float64(s.scores[i]))*scale)] += s.weights[i]
		}
		crossed, lowest := 0, int((high-float64(lo))*scale)
		for crossed < lowest && above+s.bins[crossed] < limit {
			above += s.bins[crossed]
			crossed++
		}
		members := active[:0]
		for _, i := range active {
			if int((high-float64(s.scores[i]))*scale) == crossed {
				members = append(members, i)
			}
		}
		active = members
	}
	slices.SortFunc(active, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.scores[b], s.scores[a]), cmp.Compare(a, b))
	})
	for _, i := range active {
		if above += s.weights[i]; above >= limit {
			return s.scores[i], int(i)
		}
	}
	i := active[len(active)-1] // rounding kept the sum just below the limit
	return s.scores[i], int(i)
}

// draw draws a candidate by inverting the cumulative distribution at a uniform number.
func (s *Sampler) draw() int32 {
	target := uniform(s.Seed, s.step) * sum(s.weights)
	var cumulative float64
	last := 0
	for i, w := range s.weights {
		if w == 0 {
			continue
		}
		last = i
		if cumulative += w; cumulative > target {
			break
		}
	}
	return s.ids[last]
}

// uniform returns a number in [0, 1) that depends only on seed and step. So the same seed reproduces an answer, and two
// models that are asked with the same seed differ only by their probabilities.
func uniform(seed, step uint64) float64 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], step)
	copy(key[16:], "restyle sampling")
	return rand.New(rand.NewChaCha8(key)).Float64()
}

func sum(v []float64) (total float64) {
	for _, x := range v {
		total += x
	}
	return total
}

// exp returns e^x for x <= 0, to a relative error of 1e-9, and 0 if that is below 1e-300. It takes a fraction of
// math.Exp's time, and draws need no more precision. With x = (k + f)·ln 2 and |f| <= 1/2 it is 2^k times the series of
// e^(f·ln 2).
func exp(x float64) float64 {
	if x < -690 {
		return 0
	}
	k := int64(x*math.Log2E - 0.5) // truncates towards zero: rounds to nearest
	y := x - float64(k)*math.Ln2
	y2 := y * y
	series := 1 + y + y2*(1./2+y*(1./6)+y2*(1./24+y*(1./120)+y2*(1./720+y*(1./5040)+y2*(1./40320))))
	return math.Float64frombits(uint64(k+1023)<<52) * series
}
