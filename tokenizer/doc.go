// Package tokenizer converts text to token ids and back, exactly as Hugging Face tokenizers does with the same
// tokenizer.json. It also trains small byte-level vocabularies.
//
// It supports byte-pair encoding (BPE) of two kinds:
//
//   - byte-level: GPT-2, Llama 3, Qwen2 and Qwen3, SmolLM2, Mistral Nemo, Falcon 3, DeepSeek. The file's pattern splits
//     the text, and merging starts from bytes.
//   - with byte fallback: Llama 2, Mistral, TinyLlama. Spaces become "▁", merging starts from characters, and a
//     character that is not in the vocabulary becomes the tokens of its bytes, <0x00> to <0xFF>.
//
// The path of a text through [Tokenizer.Encode]:
//
//	added tokens -> normalizer -> normalized added tokens -> pre-tokenizer -> words -> tokens -> template
//	(added.go)      (rewrite.go,  (added.go)                 (rewrite.go,     (word.go) (merge.go) (BOS, EOS)
//	                 nfc.go)                                  split.go)
//
// The most common split patterns are recognized by their exact text and implemented by hand (split.go). Others, such
// as the patterns of Mistral's tekken, GPT-4o, Falcon and DeepSeek, are read as regular expressions, in the part of
// the syntax that published ones use and that takes linear time (regex.go). A pattern, component or model type that
// is not supported is an error that names it.
//
// # Offsets
//
// Every token has the bytes of the text that it represents, and the tokens of a text tile it: see [Encoding].
//
// # Text that is not UTF-8
//
// A byte that is not part of a UTF-8 character counts as a character that is neither letter, number nor space.
// Byte-level tokenizers and those with byte fallback keep it as that byte. Decoding always returns valid UTF-8: other
// bytes become U+FFFD.
//
// # Intended differences from Hugging Face
//
//   - Special tokens in a text are recognized only in the parts that the caller names (EncodeOptions.Special).
//   - Decoding skips a special token whose content a normalizer changes like every other special token; tokenizers 0.23
//     keeps it.
//   - "truncation" and "padding" of the file are ignored, as transformers ignores them.
package tokenizer
