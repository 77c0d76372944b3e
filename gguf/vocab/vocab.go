// Package vocab turns the tokenizer that a GGUF file describes into tokenizer.json, and back.
package vocab
