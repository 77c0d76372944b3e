package model

import (
	"fmt"
	"slices"
)

// Ignore is the label of a token that is not trained.
const Ignore = -100

// A Batch is some sequences of tokens, laid end to end.
type Batch struct {
	IDs []int32
	// Labels are not shifted: the token at position t is trained to predict Labels[t+1] of its own sequence. So the first
	// label of a sequence means nothing. Ignore is a label that is not trained. Nil where there is no loss.
	Labels []int32
	// CuSeqlens is where each sequence begins, and the end of the last: sequence i is CuSeqlens[i] to CuSeqlens[i+1]. Nil: one
	// sequence.
	CuSeqlens []int32
}

// OneSequence is a batch of one sequence without labels.
func OneSequence(ids []int32) Batch { return Batch{IDs: ids} }

// Join is a batch of several, in order.
func Join(batches ...Batch) Batch {
	j := Batch{CuSeqlens: []int32{0}}
	for _, b := range batches {
		at := int32(len(j.IDs))
		j.IDs = append(j.IDs, b.IDs...)
		j.Labels = append(j.Labels, b.Labels...)
		for _, s := range b.cuSeqlens()[1:] {
			j.CuSeqlens = append(j.CuSeqlens, at+s)
		}
	}
	return j
}

// filled is b with tokens behind it that train nothing, up to so many rows, in sequences of at most longest tokens.
func (b Batch) padded(rows, longest int, id int32) Batch {
	f := []Batch{b}
	for left := rows - len(b.IDs); left > 0; left -= longest {
		n := min(left, longest)
		one := Batch{IDs: slices.Repeat([]int32{id}, n)}
		if b.Labels != nil {
			one.Labels = slices.Repeat([]int32{Ignore}, n)
		}
		f = append(f, one)
	}
	if len(f) == 1 {
		return b
	}
	return Join(f...)
}

func (b Batch) cuSeqlens() []int32 {
	if b.CuSeqlens == nil {
		return []int32{0, int32(len(b.IDs))}
	}
	return b.CuSeqlens
}

// Targets returns the number of positions that have a label to predict.
func (b Batch) Targets() int {
	n := 0
	b.eachTarget(func(int, int32) { n++ })
	return n
}

// trained are the positions that predict something, and what.
func (b Batch) targets() (index, targets []int32) {
	b.eachTarget(func(at int, target int32) {
		index = append(index, int32(at))
		targets = append(targets, target)
	})
	return index, targets
}

// eachTrained calls f with every position that predicts something, and what.
func (b Batch) eachTarget(f func(at int, target int32)) {
	if b.Labels == nil {
		return
	}
	s := b.cuSeqlens()
	for i := range len(s) - 1 {
		for t := s[i]; t+1 < s[i+1]; t++ {
			if l := b.Labels[t+1]; l != Ignore {
				f(int(t), l)
			}
		}
	}
}

// check says what is wrong with a batch for a model. Such a batch would read memory that is not there.
func (b Batch) check(cfg Config, limit int) error {
	n := len(b.IDs)
	switch {
	case n == 0:
		return fmt.Errorf("batch: no tokens")
	case n > limit:
		return fmt.Errorf("batch: %d tokens, and the model was opened for %d at once", n, limit)
	case b.Labels != nil && len(b.Labels) != n:
		return fmt.Errorf("batch: %d labels for %d tokens", len(b.Labels), n)
	}
	s := b.cuSeqlens()
	if len(s) < 2 || s[0] != 0 || int(s[len(s)-1]) != n || !slices.IsSorted(s) {
		return fmt.Errorf("batch: sequences begin at %v in %d tokens", s, n)
	}
	for i := range len(s) - 1 {
		if length := int(s[i+1] - s[i]); length > cfg.MaxPositions {
			return fmt.Errorf("batch: a sequence of %d tokens, and the model has %d positions", length, cfg.MaxPositions)
		}
	}
	for i, id := range b.IDs {
		if id < 0 || int(id) >= cfg.Vocab {
			return fmt.Errorf("batch: token %d is %d, and the vocabulary has %d: is this the tokenizer of another model?", i, id, cfg.Vocab)
		}
	}
	for i, l := range b.Labels {
		if l != Ignore && (l < 0 || int(l) >= cfg.Vocab) {
			return fmt.Errorf("batch: label %d is %d, and the vocabulary has %d", i, l, cfg.Vocab)
		}
	}
	return nil
}

// positions are where each token stands in its sequence.
func (b Batch) positions() []int32 {
	p := make([]int32, len(b.IDs))
	s := b.cuSeqlens()
	for i := range len(s) - 1 {
		for t := s[i]; t < s[i+1]; t++ {
			p[t] = t - s[i]
		}
	}
	return p
}

// longest is the length of the longest sequence.
func (b Batch) longest() int {
	n := int32(0)
	s := b.cuSeqlens()
	for i := range len(s) - 1 {
		n = max(n, s[i+1]-s[i])
	}
	return int(n)
}
