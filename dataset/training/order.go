package training

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// mix returns a pseudo-random number that depends only on values: the first 64 bits of their SHA-256, all big-endian.
func mix(values ...uint64) uint64 {
	var b []byte
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// Order returns the order of n examples in an epoch: a permutation of 0 to n-1. It depends only on the arguments and
// must never change, because resumed runs rely on it.
//
// It is the Fisher–Yates shuffle from the last index down: index i is swapped with floor(u (i+1) / 2^64), where u is
// the next number of PCG-DXSM (math/rand/v2) with the seeds mix(seed, epoch, 0) and mix(seed, epoch, 1).
func Order(n int, seed int64, epoch int) []int {
	r := rand.NewPCG(mix(uint64(seed), uint64(epoch), 0), mix(uint64(seed), uint64(epoch), 1))
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j, _ := bits.Mul64(r.Uint64(), uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// Split holds out a share of the examples for validation. Which ones depends only on the questions, the share and the
// seed. Both parts keep the order of the set.
//
// Rows that ask the same questions, whatever the answers, are in the same part: otherwise validation would measure
// questions that the model has seen. Split takes the questions in the order of a hash of seed and question, and holds
// out each whose rows still fit into the share, rounded to whole rows. With a share above 0 and at least two different
// questions, each part has at least one. With one question, or a share of 0 or less, Split holds out nothing.
func (s *Set) Split(share float64, seed int64) (train, val []Example) {
	if !(share > 0) {
		return s.Examples, nil
	}
	rows := map[uint64]int{} // by question
	for _, ex := range s.Examples {
		rows[ex.key()]++
	}
	questions := make([]uint64, 0, len(rows))
	for q := range rows {
		questions = append(questions, q)
	}
	slices.SortFunc(questions, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(mix(uint64(seed), a), mix(uint64(seed), b)), cmp.Compare(a, b))
	})
	if len(questions) < 2 {
		return s.Examples, nil
	}
	room := int(math.Round(min(share, 1) * float64(len(s.Examples))))
	held := map[uint64]bool{}
	for _, q := range questions {
		if rows[q] <= room && len(held) < len(questions)-1 {
			held[q] = true
			room -= rows[q]
		}
	}
	if len(held) == 0 { // every question has more rows than the share: take the one with the fewest
		held[slices.MinFunc(questions, func(a, b uint64) int { return cmp.Compare(rows[a], rows[b]) })] = true
	}
	for _, ex := range s.Examples {
		if held[ex.key()] {
			val = append(val, ex)
		} else {
			train = append(train, ex)
		}
	}
	return train, val
}

// key returns a number that identifies the question. An example without a question has its own.
func (ex Example) key() uint64 {
	if ex.question != 0 {
		return ex.question
	}
	return uint64(ex.Row) << 1 // questions are odd
}
