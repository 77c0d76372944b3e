package model

// PoolBlock is the number of tokens of a block of a Pool.
const PoolBlock = 16

// A Piece is some tokens of one sequence that a step of a Pool computes.
type Piece struct {
	// IDs are the tokens, the first at position At. Keys and values of all tokens before them are in Blocks.
	IDs []int32
	At  int
	// Blocks are the sequence's blocks in their order: position n is in block n/PoolBlock, at n%PoolBlock. They have room
	// for all of IDs.
	Blocks []int32
	// Logits asks for the logits of the last token.
	Logits bool
}
