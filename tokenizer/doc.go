// Package tokenizer turns text into token ids and back, exactly as Hugging Face tokenizers does it from the same
// tokenizer.json, and trains small byte-level vocabularies.
//
// It reads byte-pair encoding (BPE) of two kinds:
//
//   - byte-level: GPT-2, Llama 3, Qwen2 and Qwen3, SmolLM2. Text is split by the file's own pattern, and the symbols that
//     merging starts from are bytes.
//   - with byte fallback: Llama 2, Mistral, TinyLlama. Spaces become "▁", the symbols are characters, and a character
//     that is not in the vocabulary becomes the tokens of its bytes, <0x00> to <0xFF>.
//
// The way of a text through [Tokenizer.Encode]:
//
//	added tokens -> normalizer -> normalized added tokens -> pre-tokenizer -> words -> tokens -> template
//	(added.go)      (rewrite.go,  (added.go)                 (rewrite.go,     (word.go) (merge.go) (BOS, EOS)
//	                 nfc.go)                                  split.go)
//
// A split pattern is not run by a regular expression engine: the published ones are known by their exact text and
// written by hand (split.go). A pattern, component or model type that is not known is an error that names it.
//
// # Offsets
//
// Every token knows the bytes of the text that it stands for, and the tokens of a text tile it: see [Encoding].
//
// # Text that is not UTF-8
//
// A byte that is not part of a UTF-8 character is a character of its own that is neither letter, number nor space. A
// byte-level tokenizer and one with byte fallback keep it as that byte. Decoding always gives valid UTF-8: bytes that
// are none become U+FFFD.
//
// # Where it differs from Hugging Face on purpose
//
//   - Special tokens are recognised in a text only where the caller says so (EncodeOptions.Special).
//   - A special token whose content a normalizer changes is skipped in decoding like every other special token;
//     tokenizers 0.23 keeps it.
//   - "truncation" and "padding" of the file are ignored, as transformers ignores them.
package tokenizer
