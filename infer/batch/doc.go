// Package batch generates many answers of one model at once. A [Batch] runs steps: each computes the next token of
// every running answer, and pieces of prompts that have just come, within a budget of tokens.
//
// An answer's tokens and their probabilities depend only on its prompt and its options: not on what else runs, on
// when it came, on what part of its prompt another answer had left in the cache, or on whether it had to make room
// for others. That follows from the [Stepper], whose rows do not depend on each other or on their number, and from
// draws that depend only on the seed and the token's index.
//
// Keys and values are kept in blocks of tokens, which sequences share as far as they start alike. See Kwon et al. 2023,
// "Efficient Memory Management for Large Language Model Serving with PagedAttention".
package batch
