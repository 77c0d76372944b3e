package batch

import (
	"restyle/infer"
	"restyle/model"
)

// A Stepper computes steps of a model that keeps keys and values in blocks of model.PoolBlock tokens: a [model.Pool].
type Stepper interface {
	// Step computes the pieces, which are of different sequences, and stores their keys and values. It returns the logits,
	// [vocab], of the pieces that want them, in order; the next Step may overwrite them. The bits of a row depend on the
	// tokens of its sequence up to it, and on nothing else.
	Step(pieces []model.Piece) ([][]float32, error)
	// Blocks is the number of blocks that there are, MaxRows the most tokens of a step, and MaxPieces the most pieces.
	Blocks() int
	MaxRows() int
	MaxPieces() int
}

// A Request is what an answer is generated from.
type Request struct {
	Prompt []int32
	infer.Options
	// Logprobs asks for the log probabilities of the tokens and of the Top most probable ones at each place, before
	// temperature and filters.
	Logprobs bool
	Top      int
	// Key is whom the request is from. Keys take turns, and nobody's blocks are shared with another key.
	Key string
}

// A Token is a token of an answer.
type Token struct {
	ID int32
	// Text is what the token added to the answer: often a word, sometimes nothing or the end of a word held back, never part
	// of a character.
	Text string
	// Logprob is the token's log probability and Top the most probable tokens, the first of equals the one with the lowest
	// id, if the request asked for them.
	Logprob float64
	Top     []Logprob
}

// A Logprob is a token and its log probability.
type Logprob struct {
	ID      int32
	Logprob float64
}
