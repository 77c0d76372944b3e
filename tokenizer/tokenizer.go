package tokenizer

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"unicode/utf8"
)

// Tokenizer encodes and decodes by the rules of one tokenizer.json. It is safe for concurrent use; each goroutine that
// encodes at the same time as others holds about a MiB of cache, which is kept for the next one.
type Tokenizer struct {
	vocab
	model bpe

	// normalized added tokens are looked for after the normalizer, raw ones before; specials are all that are special,
	// by their content.
	raw, normalized, specials matcher
	normalizer                []rewrite
	preparation               []rewrite // the pre-tokenizers that change the text
	splits                    []splitter
	classes                   *classTable
	before, after             []int32 // what the template puts around a text
	decoder                   decoder

	mu   sync.Mutex
	idle []*encoder
}

// Load reads a tokenizer.json. Errors name the file and say what is wrong in it; a pattern, component or model type
// that this package does not know is one.
func Load(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for without end
		return nil, fmt.Errorf("%s is not a file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse reads the contents of a tokenizer.json. The result keeps nothing of data.
func Parse(data []byte) (*Tokenizer, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("a tokenizer.json is UTF-8, and this is not")
	}
	doc, err := readDocument(data)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{classes: classes()}
	normalizer := flatten(doc.Normalizer, func(c *component) []component { return c.Normalizers })
	preTokenizer := flatten(doc.PreTokenizer, func(c *component) []component { return c.PreTokenizers })
	decoder := flatten(doc.Decoder, func(c *component) []component { return c.Decoders })
	byteLevel, err := t.readPreTokenizer(preTokenizer)
	if err != nil {
		return nil, err
	}
	if t.normalizer, err = readNormalizer(normalizer); err != nil {
		return nil, err
	}
	if t.decoder, err = readDecoder(decoder, byteLevel); err != nil {
		return nil, err
	}
	if err := checkGrowth("normalizer and pre_tokenizer", slices.Concat(normalizer, preTokenizer)); err != nil {
		return nil, err
	}
	if err := checkGrowth("decoder", decoder); err != nil {
		return nil, err
	}
	entries, err := doc.Model.readVocab()
	if err != nil {
		return nil, err
	}
	if t.vocab, err = newVocab(entries, doc.Added, byteLevel, len(data)); err != nil {
		return nil, err
	}
	if t.model, err = newBPE(&t.vocab, &doc.Model); err != nil {
		return nil, err
	}
	if !byteLevel && len(t.splits) == 0 && !t.model.ignoreMerges && t.model.marksOnlyStart(&t.vocab) {
		t.splits = []splitter{beforeMark}
	}
	t.readAdded(doc.Added)
	t.decodeTable()
	if t.before, t.after, err = readTemplate(doc.PostProcessor, &t.vocab); err != nil {
		return nil, err
	}
	return t, nil
}

// VocabSize is the number of tokens, added ones included. A vocabulary may have holes: compare a model's embedding rows
// with [Tokenizer.MaxID], which must be smaller.
func (t *Tokenizer) VocabSize() int { return t.size }

// MaxID is the largest id of any token.
func (t *Tokenizer) MaxID() int32 { return int32(len(t.texts)) - 1 }

// TokenID finds the id of a token by its text as tokenizer.json writes it, such as "<|eot_id|>" or "Ġthe".
func (t *Tokenizer) TokenID(token string) (id int32, ok bool) { return t.id(token) }

// Token is the text of a token as tokenizer.json writes it; "" for an id that no token has.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.texts[id]
}

// Bytes are what a token stands for in decoded text: for "Ġthe" they are " the", for "<0x0A>" of a tokenizer with byte
// fallback a newline. They need not be whole characters. Nil for an id that no token has.
func (t *Tokenizer) Bytes(id int32) []byte {
	if !t.has(id) {
		return nil
	}
	return []byte(t.decoder.pieces[id])
}

// IsSpecial reports whether a token is marked special: it structures the text and is not part of it, as
// "<|begin_of_text|>". It is false for an id that no token has.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.has(id) && t.special[id] }

// SpecialIDs are the ids of all special tokens, ascending.
func (t *Tokenizer) SpecialIDs() []int32 {
	var ids []int32
	for id, special := range t.special {
		if special {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// readAdded sorts the added tokens into those that are looked for before and after the normalizer.
func (t *Tokenizer) readAdded(added []addedToken) {
	var raw, normalized, specials []addedToken
	for _, a := range added {
		if a.Special {
			specials = append(specials, a)
		}
		if a.Normalized && len(t.normalizer) > 0 {
			a.Content = t.normalize(a.Content)
			normalized = append(normalized, a)
		} else if a.Normalized {
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.normalized, t.specials = newMatcher(raw), newMatcher(normalized), newMatcher(specials)
}

// normalize applies the normalizer to a text alone.
func (t *Tokenizer) normalize(text string) string {
	s := stretch{text: text}
	for _, f := range t.normalizer {
		s = f(s)
	}
	return s.text
}

// decodeTable fills in what each token decodes to. An added token that is normalised on the way in is decoded from its
// normalised form.
func (t *Tokenizer) decodeTable() {
	t.decoder.pieces = slices.Clone(t.texts)
	for _, a := range t.normalized.tokens {
		t.decoder.pieces[a.ID] = a.Content
	}
	t.decoder.prepare()
}
