package vocab

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const mark = "▁" // a space in SentencePiece's tokens

// maxSplits limits the length of a vocabulary's merges as a multiple of the length of its tokens. Llama 2's is three.
const maxSplits = 32

// sentencePiece returns the layout for "llama".
func (v *Vocab) sentencePiece(ids map[string]int) (layout, error) {
	for b := range 256 {
		if _, ok := ids[fmt.Sprintf("<0x%02X>", b)]; !ok {
			return layout{}, fmt.Errorf("there is no token <0x%02X>: a vocabulary without all bytes is not supported", b)
		}
	}
	merges, err := v.scoredMerges(ids)
	if err != nil {
		return layout{}, err
	}
	l := layout{
		model: object{"dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": true, "byte_fallback": true, "ignore_merges": false},
		merges: merges,
		addBOS: true,
	}
	if v.Unknown >= 0 {
		l.model["unk_token"] = v.text(v.Unknown)
	}
	replace := func(old, text string) object {
		return object{"type": "Replace", "pattern": object{"String": old}, "content": text}
	}
	normalizers := []object{replace(" ", mark)}
	decoders := []object{replace(mark, " "), {"type": "ByteFallback"}, {"type": "Fuse"}}
	if on(v.AddSpacePrefix, true) {
		normalizers = slices.Insert(normalizers, 0, object{"type": "Prepend", "prepend": mark})
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	l.normalizer = object{"type": "Sequence", "normalizers": normalizers}
	l.decoder = object{"type": "Sequence", "decoders": decoders}
	return l, nil
}

// mergeable reports whether text can become the token by merging.
func (v *Vocab) mergeable(id int) bool { return v.Types[id] == Normal || v.Types[id] == Unused }

// splits calls each for every way to make a token from two that text can become, with the number of bytes of the left
// one. A character that is not a token counts as one: llama.cpp merges it, and BPE cannot.
func (v *Vocab) splits(token string, ids map[string]int, each func(at int) error) error {
	for at := range token {
		if at == 0 {
			continue
		}
		known, missing := 0, ""
		for _, part := range []string{token[:at], token[at:]} {
			id, ok := ids[part]
			switch {
			case ok && v.mergeable(id):
				known++
			case !ok && utf8.RuneCountInString(part) == 1:
				known, missing = known+1, part
			}
		}
		if known < 2 {
			continue
		}
		if missing != "" {
			return fmt.Errorf("the token %q has the character %q, which is no token itself: this vocabulary is not "+
				"supported", token, missing)
		}
		if err := each(at); err != nil {
			return err
		}
	}
	return nil
}

// scoredMerges returns every way to make a token from two others, the token with the highest score first. llama.cpp
// merges the neighbors that make it, and the leftmost of equal scores. BPE does the same: one rank for each pair
// orders as the scores do, if no two tokens have the same score.
func (v *Vocab) scoredMerges(ids map[string]int) (merges []string, err error) {
	order := make([]int, 0, len(v.Tokens))
	size := 1 << 16
	for id, token := range v.Tokens {
		if math.IsNaN(float64(v.Scores[id])) {
			return nil, fmt.Errorf("the score of token %d, %q, is not a number", id, token)
		}
		size += maxSplits * len(token)
		if v.mergeable(id) && utf8.RuneCountInString(token) > 1 && !strings.Contains(token, " ") {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v.Scores[b], v.Scores[a]) })
	last := -1 // the last token with a merge
	for _, id := range order {
		token, before := v.Tokens[id], len(merges)
		err := v.splits(token, ids, func(at int) error {
			if size -= len(token); size < 0 {
				return errors.New("its tokens consist of each other in more ways than those of any published vocabulary: " +
					"this file is damaged or hostile")
			}
			merges = append(merges, token[:at]+" "+token[at:])
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(merges) == before {
			continue
		}
		if last >= 0 && v.Scores[last] == v.Scores[id] {
			return nil, fmt.Errorf("the tokens %q and %q have the same score, %v: what is merged first is not known. Take "+
				"the model's directory of Hugging Face instead", v.Tokens[last], token, v.Scores[id])
		}
		last = id
	}
	return merges, nil
}

// scored sets the scores for merges that are in the order of scores: all ways to make a token follow each other.
func (f *from) scored() error {
	f.Model, f.Pre = "llama", "default"
	if err := f.prefix(); err != nil {
		return err
	}
	for b := range 256 {
		id, known := f.ids[fmt.Sprintf("<0x%02X>", b)]
		if !known {
			return fmt.Errorf("tokenizer.json has byte_fallback, but no token <0x%02X>: no GGUF file can say so", b)
		}
		f.Types[id] = Byte
	}
	if f.Unknown >= 0 {
		f.Types[f.Unknown] = Unknown
	}
	const never = -1e9 // of tokens that no merge makes
	f.Scores = make([]float32, f.rows)
	for id := range f.Scores {
		f.Scores[id] = never
	}
	made, rank, last := map[string]bool{}, 0, -1
	for i, m := range f.file.Model.Merges {
		id, known := f.ids[m[0]+m[1]]
		switch {
		case !known:
			return fmt.Errorf("tokenizer.json: merge %d makes %q, which is no token", i, m[0]+m[1])
		case id != last && f.Scores[id] != never:
			return fmt.Errorf("tokenizer.json: merge %d makes %q as an earlier one does, with others between: its merges "+
				"are not those of SentencePiece, and no GGUF file can say so", i, m[0]+m[1])
		case id != last:
			rank, last = rank+1, id
		}
		f.Scores[id], made[m[0]+" "+m[1]] = -float32(rank), true
	}
	for id, text := range f.Tokens {
		if !f.mergeable(id) {
			continue
		}
		err := f.splits(text, f.ids, func(at int) error {
			if !made[text[:at]+" "+text[at:]] {
				return fmt.Errorf("tokenizer.json does not merge %q with %q, as llama.cpp would: no GGUF file can say so",
					text[:at], text[at:])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prefix sets whether a space is put before texts.
func (f *from) prefix() error {
	prefix, spaces := false, false
	for _, c := range f.file.Normalizer {
		switch {
		case c.Type == "Prepend" && c.Prepend == mark && !spaces:
			prefix = true
		case c.Type == "Replace" && c.Pattern.String != nil && *c.Pattern.String == " " && c.Content == mark:
			spaces = true
		default:
			return fmt.Errorf("tokenizer.json has the normalizer %q: no GGUF file can say so", c.Type)
		}
	}
	for _, c := range f.file.PreTokenizer {
		if c.Type != "Metaspace" || c.Replacement != mark || c.Split == nil || *c.Split || spaces {
			return fmt.Errorf("tokenizer.json has the pre_tokenizer %q: no GGUF file can say so", c.Type)
		}
		spaces, prefix = true, c.PrependScheme != "never"
		if prefix {
			f.note("llama.cpp puts a space before every text, and after every control token, where this tokenizer "+
				"(Metaspace, %q) does so only before texts without one", c.PrependScheme)
		}
	}
	if !spaces {
		return errors.New("tokenizer.json does not write spaces as ▁: no GGUF file can say so")
	}
	f.AddSpacePrefix = &prefix
	return nil
}
