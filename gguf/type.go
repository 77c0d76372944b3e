// Package gguf reads and writes GGUF, the files of llama.cpp, ollama and LM Studio: a list of keys with values, and
// tensors whose elements may be coded in blocks. It knows the container and the blocks, but nothing about models.
//
// The format is specified in ggml's docs/gguf.md, version 3. Package gguf also reads version 2.
package gguf

import (
	"fmt"
	"slices"
)

// A Type is the type of a tensor's elements, with the numbers that files have.
type Type uint32

// The types that are read and written. Types with a Q store blocks of 32 or, with a K, 256 neighbors in a row.
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

// types has the names of all types that files may have, and the number of elements and bytes of a block: 1 and the
// size of an element for types without blocks. The numbers come from gguf-py's GGML_QUANT_SIZES.
var types = map[Type]struct {
	name            string
	elements, bytes int
}{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2},
	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20}, Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34},
	Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176}, Q6_K: {"Q6_K", 256, 210},
	9: {"Q8_1", 32, 36}, 10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 15: {"Q8_K", 256, 292},
	16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74}, 18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50},
	20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136},
	24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
}

// Types lists the types that are read and written, by their numbers.
var Types = []Type{F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16}

// String returns the name of a type, with its number if it is none of Types.
func (t Type) String() string {
	switch known := types[t]; {
	case t.Supported():
		return known.name
	case known.name != "":
		return fmt.Sprintf("%s (type %d)", known.name, uint32(t))
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Supported reports whether the type is one of Types.
func (t Type) Supported() bool { return slices.Contains(Types, t) }

// Block returns the number of neighbors in a row that are stored together, and the number of their bytes. These are 1
// and the size of an element for types without blocks, and 0 and 0 if the type is not supported.
func (t Type) Block() (elements, bytes int) {
	if !t.Supported() {
		return 0, 0
	}
	known := types[t]
	return known.elements, known.bytes
}

// RowBytes returns the bytes of a row of n elements, a multiple of the type's block.
func (t Type) RowBytes(n int) int {
	elements, bytes := t.Block()
	return n / elements * bytes
}
