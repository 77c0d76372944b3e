package parity

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"restyle/tokenizer"
)

// trainedJSON is the part of a trained tokenizer.json that is compared.
type trainedJSON struct {
	Model struct {
		Vocab  map[string]int
		Merges []json.RawMessage
	}
}

// pairs returns the merges, which are written as "a b" or ["a", "b"].
func (t trainedJSON) pairs() ([]string, error) {
	var list []string
	for _, raw := range t.Model.Merges {
		var pair []string
		var joined string
		if json.Unmarshal(raw, &pair) == nil {
			joined = strings.Join(pair, " ")
		} else if err := json.Unmarshal(raw, &joined); err != nil {
			return nil, err
		}
		list = append(list, joined)
	}
	return list, nil
}

// compareTraining trains on corpus.txt: on the whole text for merges_whole.txt and tokenizer.json, and line by line for
// merges_lines.txt. words_whole.tsv lists the words that the text splits into.
func (f *folder) compareTraining() error {
	data, err := f.read("corpus.txt")
	if err != nil {
		return err
	}
	corpus := string(data)
	f.enter("corpus.txt")
	f.strike("corpus.txt", input)
	var whole []byte // the tokenizer that was trained on the whole text
	for _, file := range f.files {
		if !globs("merges_*.txt", file) {
			continue
		}
		texts := map[string]iter.Seq[string]{
			"merges_whole.txt": slices.Values([]string{corpus}), "merges_lines.txt": strings.Lines(corpus),
		}[file]
		if texts == nil {
			return fmt.Errorf("%s: merges are known of the whole corpus and of its lines", file)
		}
		data, err := f.read(file)
		if err != nil {
			return err
		}
		want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		trained, got, err := train(texts, 256+len(want))
		if err != nil {
			return err
		}
		f.enter(file)
		f.compare("merges", file, differ(slices.Equal(got, want)), exact)
		if file == "merges_whole.txt" {
			whole = trained
		}
	}
	if f.hasFile("tokenizer.json") && whole != nil {
		if err := f.compareTrained("tokenizer.json", whole, corpus); err != nil {
			return err
		}
	}
	if f.hasFile("words_whole.tsv") {
		return f.compareWords("words_whole.tsv", corpus)
	}
	return nil
}

func train(texts iter.Seq[string], size int) (trained []byte, merges []string, err error) {
	if trained, err = tokenizer.Train(texts, tokenizer.TrainOptions{VocabSize: size,
		Pattern: tokenizer.GPT2Pattern}); err != nil {
		return nil, nil, err
	}
	var t trainedJSON
	if err := json.Unmarshal(trained, &t); err != nil {
		return nil, nil, err
	}
	merges, err = t.pairs()
	return trained, merges, err
}

// compareTrained compares the vocabulary and the merges of a tokenizer.json, and its encoding of the text.
func (f *folder) compareTrained(file string, trained []byte, corpus string) error {
	data, err := f.read(file)
	if err != nil {
		return err
	}
	var got, want trainedJSON
	if err := json.Unmarshal(trained, &got); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &want); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, part := range []string{" vocab", " merges"} {
		f.enter(file + part)
	}
	ours, err := got.pairs()
	if err != nil {
		return err
	}
	theirs, err := want.pairs()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	same := len(got.Model.Vocab) == len(want.Model.Vocab)
	for token, id := range want.Model.Vocab {
		mine, ok := got.Model.Vocab[token]
		same = same && ok && mine == id
	}
	f.compare("trained vocabulary", file+" vocab", differ(same), exact)
	f.compare("merges", file+" merges", differ(slices.Equal(ours, theirs)), exact)
	a, err := tokenizer.Parse(trained)
	if err != nil {
		return err
	}
	b, err := tokenizer.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	f.compare("ids of the corpus", file+" vocab", differ(slices.Equal(a.Encode(corpus, tokenizer.EncodeOptions{}).IDs,
		b.Encode(corpus, tokenizer.EncodeOptions{}).IDs)), exact)
	return nil
}

// compareWords counts the words of the text. With a vocabulary in which each recorded word is one token, the text must
// consist only of those tokens.
func (f *folder) compareWords(file, corpus string) error {
	data, err := f.read(file)
	if err != nil {
		return err
	}
	want := map[string]int{}
	vocab := map[string]int{}
	for _, c := range alphabet() {
		vocab[c] = len(vocab)
	}
	for line := range strings.Lines(string(data)) {
		word, count, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.Atoi(count)
		if !ok || err != nil {
			return fmt.Errorf("%s: %q is no word and number", file, line)
		}
		want[word] = n
		if _, is := vocab[word]; !is {
			vocab[word] = len(vocab)
		}
	}
	tok, err := byteLevel(tokenizer.GPT2Pattern, vocab, nil, "")
	if err != nil {
		return err
	}
	got := map[string]int{}
	for _, id := range tok.Encode(corpus, tokenizer.EncodeOptions{}).IDs {
		got[tok.Token(id)]++
	}
	wrong := 0.0
	for word, n := range want {
		wrong += differ(got[word] == n)
	}
	f.enter(file)
	f.compare("words", file, wrong+differ(len(got) == len(want)), exact)
	return nil
}
