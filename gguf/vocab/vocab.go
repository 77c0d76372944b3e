// Package vocab turns the tokenizer that a GGUF file describes into the files of Hugging Face, and back.
//
// A GGUF file has tokens, merges and the name of a pre-tokenizer, whose meaning is written in llama.cpp.
// [Vocab.Files] writes them as tokenizer.json with the same ids for the same text; [FromFiles] is the other
// direction. The rules come from llama.cpp's src/llama-vocab.cpp, and for writing from its conversion/base.py.
//
// Two kinds of tokenizers can be read: "gpt2", byte-level BPE, and "llama", SentencePiece's BPE with scores and byte
// fallback. The differences from llama.cpp are few. In each, this package does as the model's own tokenizer does:
//
//   - llama.cpp knows the letters, numbers and white space of an older Unicode.
//   - With scores, llama.cpp may merge plain text into a control token; here merging never makes one.
//   - llama.cpp has approximations of some patterns: for "tekken" and "gpt-4o" it splits otherwise at combining marks,
//     and where a capital letter beyond ASCII follows a small one; for "deepseek-llm" and "deepseek-coder" at white
//     space beyond ASCII.
package vocab

import (
	"fmt"
	"unicode/utf8"
)

// A Vocab is the tokenizer of a GGUF file: the values of its keys, which start with tokenizer.ggml unless a comment
// says otherwise. Absent ids are -1, and absent switches are nil.
type Vocab struct {
	Model  string    // model: "gpt2" or "llama"
	Pre    string    // pre: the name of the pre-tokenizer
	Tokens []string  // tokens, by id
	Types  []int     // token_type of each token: Normal to Byte
	Merges []string  // merges: "a b", the most important first
	Scores []float32 // scores of each token, for "llama"

	BOS, EOS, EOT, EOM int // bos_token_id, eos_token_id, eot_token_id, eom_token_id
	Unknown, Pad       int // unknown_token_id, padding_token_id
	AddBOS, AddEOS     *bool
	AddSpacePrefix     *bool
	Template           string            // tokenizer.chat_template
	Templates          map[string]string // tokenizer.chat_template.NAME by NAME
	HuggingFace        string            // tokenizer.huggingface.json: a whole tokenizer.json
}

// The types of tokens.
const (
	Normal      = 1
	Unknown     = 2
	Control     = 3 // structures the text without being part of it: a special added token
	UserDefined = 4 // found before all else: an added token that is not special
	Unused      = 5 // fills ids up to the model's rows
	Byte        = 6 // <0x00> to <0xFF>
)

// unread lists the kinds of tokenizers that are not read, and what they are.
var unread = map[string]string{"bert": "WordPiece", "t5": "Unigram", "rwkv": "RWKV's", "plamo2": "PLaMo 2's",
	"gemma4": "Gemma 4's", "hybriddna": "one of DNA", "whitespace": "one of whole words", "none": "none",
	"no_vocab": "none", "": "none"}

// read returns the tokens' ids, after checking everything that Files relies on. It sets the ids that llama.cpp
// assumes for "llama" if the file has none.
func (v *Vocab) read() (map[string]int, error) {
	if what, known := unread[v.Model]; v.HuggingFace == "" && v.Model != "gpt2" && v.Model != "llama" {
		if !known {
			what = "unknown"
		}
		return nil, fmt.Errorf("tokenizer.ggml.model is %q (%s): only \"gpt2\" and \"llama\" are supported, and others "+
			"with tokenizer.huggingface.json: take the model's directory of Hugging Face instead", v.Model, what)
	}
	n := len(v.Tokens)
	switch {
	case n == 0:
		return nil, fmt.Errorf("tokenizer.ggml.tokens is missing or empty: the file has no tokenizer")
	case len(v.Types) != n:
		return nil, fmt.Errorf("tokenizer.ggml.token_type has %d elements and tokens %d: both must have one for each token",
			len(v.Types), n)
	case v.Model == "llama" && len(v.Scores) != n:
		return nil, fmt.Errorf("tokenizer.ggml.scores has %d elements and tokens %d: both must have one for each token",
			len(v.Scores), n)
	}
	ids := make(map[string]int, n)
	for id, token := range v.Tokens {
		old, twice := ids[token]
		switch {
		case token == "":
			return nil, fmt.Errorf("token %d is empty", id)
		case !utf8.ValidString(token):
			return nil, fmt.Errorf("token %d, %q, is not UTF-8", id, token)
		case twice:
			return nil, fmt.Errorf("tokens %d and %d are both %q: each must be there once", old, id, token)
		case v.Types[id] < Normal || v.Types[id] > Byte:
			return nil, fmt.Errorf("token %d, %q, has the type %d: types go from %d to %d", id, token, v.Types[id], Normal,
				Byte)
		}
		ids[token] = id
	}
	for _, named := range []struct {
		key   string
		id    *int
		usual int // in "llama"
	}{{"bos", &v.BOS, 1}, {"eos", &v.EOS, 2}, {"unknown", &v.Unknown, 0}, {"eot", &v.EOT, -1}, {"eom", &v.EOM, -1},
		{"padding", &v.Pad, -1}} {
		if *named.id < -1 || *named.id >= n {
			return nil, fmt.Errorf("tokenizer.ggml.%s_token_id is %d: there are %d tokens", named.key, *named.id, n)
		}
		if *named.id < 0 && v.Model == "llama" && named.usual < n {
			*named.id = named.usual
		}
	}
	return ids, nil
}

// text returns the text of a token, "" for -1.
func (v *Vocab) text(id int) string {
	if id < 0 {
		return ""
	}
	return v.Tokens[id]
}

// on returns a switch, or usual if it is absent.
func on(s *bool, usual bool) bool {
	if s != nil {
		return *s
	}
	return usual
}
