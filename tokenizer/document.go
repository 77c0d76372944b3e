package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
)

// document is a tokenizer.json, parsed except for its vocabulary and merges.
type document struct {
	Added         []addedToken
	Normalizer    *component
	PreTokenizer  *component
	PostProcessor *component
	Decoder       *component
	Model         modelPart
}

// modelPart is the "model" of a tokenizer.json.
type modelPart struct {
	Type         *string
	Dropout      *float64
	Unknown      *string
	Prefix       *string
	Suffix       *string
	FuseUnknown  bool
	ByteFallback bool
	IgnoreMerges bool

	data          []byte // of the whole file
	vocab, merges extent
}

// readDocument parses a tokenizer.json except for its vocabulary and merges, whose extents it records.
func readDocument(data []byte) (*document, error) {
	r, doc := jsonReader{data: data}, &document{}
	version := "1.0"
	fields := map[string]any{
		"version": &version, "added_tokens": &doc.Added, "normalizer": &doc.Normalizer, "pre_tokenizer": &doc.PreTokenizer,
		"post_processor": &doc.PostProcessor, "decoder": &doc.Decoder,
	}
	err := r.object(func(key []byte) error {
		if string(key) == "model" {
			return doc.Model.read(&r)
		}
		return r.field("", string(key), fields)
	})
	switch {
	case err != nil:
		return nil, err
	case r.next() != 0 || r.at < len(data):
		return nil, r.errorf("%s after the end", r.found())
	case version != "1.0":
		return nil, fmt.Errorf("version %q of tokenizer.json is not supported: only 1.0 is", version)
	}
	return doc, doc.Model.check()
}

// field reads the value of a key into its place in fields, or skips it.
func (r *jsonReader) field(prefix, key string, fields map[string]any) error {
	place, ok := fields[key]
	if !ok {
		_, err := r.skip()
		return err
	}
	if _, is := place.(**component); is {
		if err := r.checkValues(key); err != nil {
			return err
		}
	}
	return r.value(prefix+key, place)
}

// maxValues is the largest number of commas and opening braces in a normalizer, pre-tokenizer, post-processor or
// decoder: every component that "{}" or "0" makes takes hundreds of bytes. In published files they have at most a
// hundred.
const maxValues = 2000

// checkValues looks ahead at the value that is next.
func (r jsonReader) checkValues(key string) error {
	s, err := r.skip()
	if err != nil {
		return err
	}
	part := r.data[s.from:s.to]
	if n := bytes.Count(part, []byte("{")) + bytes.Count(part, []byte(",")); n > maxValues {
		return fmt.Errorf("%s: it has %d values, and no published one has more than %d: this file is damaged or hostile",
			key, n, maxValues)
	}
	return nil
}

func (m *modelPart) read(r *jsonReader) error {
	m.data = r.data
	fields := map[string]any{
		"type": &m.Type, "dropout": &m.Dropout, "unk_token": &m.Unknown, "continuing_subword_prefix": &m.Prefix,
		"end_of_word_suffix": &m.Suffix, "fuse_unk": &m.FuseUnknown, "byte_fallback": &m.ByteFallback,
		"ignore_merges": &m.IgnoreMerges,
	}
	return r.object(func(key []byte) (err error) {
		switch string(key) {
		case "vocab":
			m.vocab, err = r.skip()
		case "merges":
			m.merges, err = r.skip()
		default:
			err = r.field("model.", string(key), fields)
		}
		return err
	})
}

// check refuses what BPE models of the supported kinds do not have.
func (m *modelPart) check() error {
	switch {
	case m.Type != nil && *m.Type != "BPE":
		return fmt.Errorf("model type %q is not supported: only BPE is", *m.Type)
	case m.vocab == extent{} || m.merges == extent{}:
		return fmt.Errorf("there is no model with a vocab and merges: this is not the tokenizer.json of a BPE model")
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model: dropout %v is not supported: set it to null", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("model: continuing_subword_prefix %q is not supported", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("model: end_of_word_suffix %q is not supported", *m.Suffix)
	}
	return nil
}

// readVocab reads the vocabulary, in the order of the file.
func (m *modelPart) readVocab() ([]entry, error) {
	r := jsonReader{data: m.data[:m.vocab.to], at: m.vocab.from}
	text := make([]byte, 0, (m.vocab.to-m.vocab.from)/2)
	var entries []entry
	var ends []int
	err := r.object(func(key []byte) error {
		text = append(text, key...)
		id, err := r.id()
		entries, ends = append(entries, entry{id: id}), append(ends, len(text))
		return err
	})
	all, from := string(text), 0
	for i, end := range ends {
		entries[i].text, from = all[from:end], end
	}
	return entries, err
}

// eachMerge calls each for every merge in order: "a b" or ["a", "b"].
func (m *modelPart) eachMerge(each func(left, right []byte) error) error {
	r := jsonReader{data: m.data[:m.merges.to], at: m.merges.from}
	var first []byte
	return r.array(func() error {
		if r.next() != '[' {
			text, err := r.str()
			if err != nil {
				return err
			}
			space := slices.Index(text, ' ')
			if bytes.HasPrefix(text, []byte("#version")) {
				return nil
			}
			if space < 0 || slices.Contains(text[space+1:], ' ') {
				return r.errorf("merge %q is not two tokens with one space between them", text)
			}
			return each(text[:space], text[space+1:])
		}
		n := 0
		var second []byte
		err := r.array(func() error {
			text, err := r.str()
			if n++; n == 1 {
				first = append(first[:0], text...)
			}
			second = text
			return err
		})
		if err == nil && n != 2 {
			err = r.errorf("a merge of %d tokens: want two", n)
		}
		if err != nil {
			return err
		}
		return each(first, second)
	})
}
