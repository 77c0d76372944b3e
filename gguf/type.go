// Package gguf reads and writes GGUF, the files of llama.cpp, ollama and LM Studio: a list of keys with values, and
// tensors whose elements may be coded in blocks. It knows the container and the blocks, and nothing of models.
//
// The format is that of ggml's docs/gguf.md, version 3; version 2 is read as well.
package gguf

import (
	"fmt"
	"slices"
)

// A Type is the type of a tensor's elements, with the numbers that files have.
type Type uint32

// The types that are read and written. Those with a Q store blocks of 32 or, with a K, 256 neighbors in a row.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30
)

// types have the names of all types that files may have, and the size of a block of those that are read.
var types = map[Type]struct {
	name            string
	elements, bytes int
}{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2},
	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20}, Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24}, Q8_0: {"Q8_0", 32, 34},
	Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176}, Q6_K: {"Q6_K", 256, 210},
	9: {name: "Q8_1"}, 10: {name: "Q2_K"}, 11: {name: "Q3_K"}, 15: {name: "Q8_K"}, 16: {name: "IQ2_XXS"},
	17: {name: "IQ2_XS"}, 18: {name: "IQ3_XXS"}, 19: {name: "IQ1_S"}, 20: {name: "IQ4_NL"}, 21: {name: "IQ3_S"},
	22: {name: "IQ2_S"}, 23: {name: "IQ4_XS"}, 24: {name: "I8"}, 25: {name: "I16"}, 26: {name: "I32"}, 27: {name: "I64"},
	28: {name: "F64"}, 29: {name: "IQ1_M"}, 34: {name: "TQ1_0"}, 35: {name: "TQ2_0"}, 39: {name: "MXFP4"},
	40: {name: "NVFP4"}, 41: {name: "Q1_0"}, 42: {name: "Q2_0"},
}

// Types are the types that are read and written, by their numbers.
var Types = []Type{F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16}

// String returns the name of a type, with its number if it is none of Types.
func (t Type) String() string {
	switch known := types[t]; {
	case known.elements > 0:
		return known.name
	case known.name != "":
		return fmt.Sprintf("%s (type %d)", known.name, uint32(t))
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Supported reports whether the type is one of Types.
func (t Type) Supported() bool { return slices.Contains(Types, t) }

// Block returns the number of neighbors in a row that are stored together, and of their bytes: 1 and its size for the
// types without blocks, 0 and 0 if the type is not supported.
func (t Type) Block() (elements, bytes int) {
	known := types[t]
	return known.elements, known.bytes
}

// RowBytes returns the bytes of a row of n elements, a multiple of the type's block.
func (t Type) RowBytes(n int) int {
	elements, bytes := t.Block()
	return n / elements * bytes
}
