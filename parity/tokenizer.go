package parity

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/tokenizer"
)

var tokenizerFiles = []string{
	"vectors*.jsonl", "tokenizer*.json", "special_tokens_map.json", "generation_config.json",
	"stream.jsonl", "unicode_classes.json",
	"corpus.txt", "merges_*.txt", "words_*.tsv",
}

func isTokenizer(f *folder) bool {
	return slices.ContainsFunc(f.files, isVectors) || f.hasFile("stream.jsonl") || f.hasFile("unicode_classes.json") ||
		f.hasFile("corpus.txt")
}

func isVectors(name string) bool { return globs("vectors*.jsonl", name) }

func compareTokenizer(f *folder) error {
	for _, file := range f.files {
		var err error
		switch {
		case isVectors(file):
			err = f.compareVectors(file)
		case file == "stream.jsonl":
			err = f.compareStream(file)
		case file == "unicode_classes.json":
			err = f.compareClasses(file)
		case file == "corpus.txt":
			err = f.compareTraining()
		}
		if err != nil {
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

// compareStream compares what may be printed as tokens arrive one by one. The ids are Llama-3's.
func (f *folder) compareStream(file string) error {
	tok, err := f.loadTokenizer("llama3/tokenizer.json", "tokenizer.json")
	if err != nil {
		return err
	}
	return f.eachLine(file, func(n int, line []byte) error {
		fields, key, err := f.fields(file, n, line, "note", "ids", "skip_special")
		if err != nil {
			return err
		}
		var v struct {
			IDs                  []int32
			SkipSpecial          bool `json:"skip_special"`
			Bytes, Tail, Decoded string
			Emit                 []string
			Held                 []int
			WellFormed           bool `json:"well_formed"`
		}
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		for _, name := range []string{"ids", "skip_special", "bytes", "emit", "held", "tail", "decoded", "well_formed"} {
			if fields[name] == nil {
				f.missing(key(name))
			}
		}
		s := tok.Stream(v.SkipSpecial)
		var raw []byte
		var emit []string
		var held []int
		printed, wellFormed := "", true
		for _, id := range v.IDs {
			if !v.SkipSpecial || !tok.IsSpecial(id) {
				raw = append(raw, tok.Bytes(id)...)
			}
			out := s.Add(id)
			emit = append(emit, out)
			printed += out
			// Well-formed: the printed text is the bytes so far, without those of an incomplete character.
			cut := len(raw) - len(printed)
			if cut < 0 || cut > 3 || !strings.HasPrefix(string(raw), printed) || !utf8.ValidString(printed) {
				wellFormed = false
			}
			held = append(held, heldBack(raw, printed))
		}
		tail := s.Flush()
		f.compare("streamed bytes", key("bytes"), differ(hex.EncodeToString(raw) == v.Bytes), exact)
		f.compare("streamed text", key("emit"), differ(slices.Equal(emit, v.Emit)), exact)
		f.compare("streamed text", key("tail"), differ(tail == v.Tail), exact)
		f.compare("bytes held back", key("held"), differ(slices.Equal(held, v.Held)), exact)
		f.compare("streamed text", key("decoded"), differ(printed+tail == v.Decoded &&
			tok.Decode(v.IDs, v.SkipSpecial) == v.Decoded), exact)
		f.compare("streamed text", key("well_formed"), differ(wellFormed == v.WellFormed), exact)
		return nil
	})
}

// lossy decodes bytes as UTF-8, and returns where in them each character ends. In invalid bytes, each longest part that
// starts a character becomes one U+FFFD, as Unicode recommends and Python does; Go replaces each byte.
func lossy(raw []byte) (text string, ends []int) {
	var b strings.Builder
	for at := 0; at < len(raw); ends = append(ends, at) {
		r, size := utf8.DecodeRune(raw[at:])
		b.WriteRune(r)
		if r == utf8.RuneError && size == 1 {
			for at+size < len(raw) && !utf8.FullRune(raw[at:at+size+1]) {
				size++
			}
		}
		at += size
	}
	return b.String(), ends
}

// heldBack returns how many of the bytes are missing from the printed text.
func heldBack(raw []byte, printed string) int {
	_, ends := lossy(raw)
	switch n := utf8.RuneCountInString(printed); {
	case n == 0:
		return len(raw)
	case n > len(ends):
		return -1
	default:
		return len(raw) - ends[n-1]
	}
}
