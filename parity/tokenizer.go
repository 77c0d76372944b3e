package parity

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/tokenizer"
)

var tokenizerFiles = []string{"vectors*.jsonl", "tokenizer*.json", "special_tokens_map.json", "generation_config.json"}

func isTokenizer(f *folder) bool {
	return slices.ContainsFunc(f.files, isVectors) && !f.hasConversations()
}

func isVectors(name string) bool { return globs("vectors*.jsonl", name) }

func compareTokenizer(f *folder) error {
	for _, file := range f.files {
		if !isVectors(file) {
			continue
		}
		if err := f.compareVectors(file); err != nil {
			return err
		}
	}
	return nil
}

// loadTokenizer loads the first of these files that exists. Paths are relative to the directory.
func (f *folder) loadTokenizer(paths ...string) (*tokenizer.Tokenizer, error) {
	for _, p := range paths {
		if _, err := os.Stat(f.path(p)); err == nil {
			return tokenizer.Load(f.path(p))
		}
	}
	return nil, fmt.Errorf("there is no tokenizer at %s", f.path(strings.Join(paths, " or ")))
}

// compareVectors compares the tokens of each text. vectors_X.jsonl belongs to tokenizer_X.json. A tokenizer that is
// data and not a reference may be in a directory of the same name next to all reference outputs, in data/tokenizer.
func (f *folder) compareVectors(file string) error {
	suffix := strings.TrimSuffix(strings.TrimPrefix(file, "vectors"), ".jsonl")
	tok, err := f.loadTokenizer("tokenizer"+suffix+".json", filepath.Join("../../../data/tokenizer", filepath.Base(f.dir),
		"tokenizer.json"))
	if err != nil {
		return err
	}
	return f.eachLine(file, func(n int, line []byte) error {
		fields, key, err := f.fields(file, n, line, "text", "kind", "quirk")
		if err != nil {
			return err
		}
		var v struct {
			Text, Decoded string
			IDs           []int32
			IDsSpecial    []int32  `json:"ids_special"`
			IDsPlain      *[]int32 `json:"ids_plain"` // absent if equal to IDs
			Tokens        []string
			DecodedSkip   *string `json:"decoded_skip"` // absent if equal to Decoded
		}
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		for _, name := range []string{"text", "ids", "ids_special", "tokens", "decoded"} {
			if fields[name] == nil {
				f.missing(key(name))
			}
		}
		ids := tok.Encode(v.Text, tokenizer.EncodeOptions{Special: tokenizer.Everywhere}).IDs
		special := tok.Encode(v.Text, tokenizer.EncodeOptions{AddSpecial: true, Special: tokenizer.Everywhere}).IDs
		plain := tok.Encode(v.Text, tokenizer.EncodeOptions{}).IDs
		var tokens []string
		for _, id := range v.IDs {
			tokens = append(tokens, tok.Token(id))
		}
		f.compare("ids", key("ids"), differ(slices.Equal(ids, v.IDs)), exact)
		f.compare("ids with special tokens added", key("ids_special"), differ(slices.Equal(special, v.IDsSpecial)), exact)
		f.compare("tokens", key("tokens"), differ(slices.Equal(tokens, v.Tokens)), exact)
		f.compare("decoded", key("decoded"), differ(tok.Decode(v.IDs, false) == v.Decoded), exact)
		// If one of these two is absent, it equals another, which is compared as well.
		at, want := key("ids"), v.IDs
		if v.IDsPlain != nil {
			at, want = key("ids_plain"), *v.IDsPlain
		}
		f.compare("ids without special tokens", at, differ(slices.Equal(plain, want)), exact)
		at, text := key("decoded"), v.Decoded
		if v.DecodedSkip != nil {
			at, text = key("decoded_skip"), *v.DecodedSkip
		}
		f.compare("decoded without special tokens", at, differ(tok.Decode(v.IDs, true) == text), exact)
		return nil
	})
}
