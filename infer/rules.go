package infer

import (
	"slices"

	"restyle/hf"
)

// Rules are what a model's generation_config.json says about every answer, including greedy ones, as transformers'
// generate applies it. The zero value changes nothing.
type Rules struct {
	RepetitionPenalty float64 // for answers whose Sampling has none; 0 and 1 change nothing
	// NoRepeatNGram is the length of the sequences of tokens of which none occurs twice in prompt and answer; 0 for none.
	NoRepeatNGram int
	// An answer does not continue a text to one of the sequences Forbidden, contains no token of Suppressed, and does not
	// start with one of SuppressedFirst. As in transformers, a token that ends answers may be in Suppressed, but is not a
	// sequence of Forbidden.
	Forbidden                   [][]int32
	Suppressed, SuppressedFirst []int32
	// No answer ends before it has MinNew tokens, and MinTokens with its prompt.
	MinNew, MinTokens int
}

func rulesOf(g hf.GenerationConfig) Rules {
	return Rules{g.RepetitionPenalty, g.NoRepeatNGram, g.Forbidden, g.Suppressed, g.SuppressedFirst, g.MinNew, g.MinTokens}
}

// forbids reports whether the rules may exclude tokens.
func (r Rules) forbids() bool {
	return r.NoRepeatNGram > 0 || len(r.Forbidden)+len(r.Suppressed)+len(r.SuppressedFirst) > 0 || r.MinNew > 0 ||
		r.MinTokens > 0
}

// each calls forbid for every token that must not follow, some several times. history is the prompt and the answer so
// far, which has n tokens; ends are the tokens that end it.
func (r Rules) each(history []int32, n int, ends map[int32]bool, forbid func(id int32)) {
	if k := r.NoRepeatNGram; k > 0 && len(history) >= k {
		last := history[len(history)-k+1:]
		for i := k; i <= len(history); i++ {
			if slices.Equal(history[i-k:i-1], last) {
				forbid(history[i-1])
			}
		}
	}
	for _, words := range r.Forbidden {
		k := len(words) - 1
		switch {
		case k < 0 || k == 0 && ends[words[0]]:
		case k <= len(history) && slices.Equal(history[len(history)-k:], words[:k]):
			forbid(words[k])
		}
	}
	for _, id := range r.Suppressed {
		forbid(id)
	}
	if n == 0 {
		for _, id := range r.SuppressedFirst {
			forbid(id)
		}
	}
	if n < r.MinNew || len(history) < r.MinTokens {
		for id := range ends {
			forbid(id)
		}
	}
}
