package tokenizer

import (
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"restyle/internal/disk"
)

// A Tokenizer encodes and decodes by the rules of one tokenizer.json. It is safe for concurrent use. Each goroutine
// that encodes at the same time as others needs about a MiB for caches, which are reused later.
type Tokenizer struct {
	vocab
	model    bpe
	maxPlain int32 // the largest id of a token that is not an added one

	// raw added tokens are searched before the normalizer runs, normalized ones after it. specials are all special tokens,
	// by their content.
	raw, normalized, specials matcher
	normalizer                []rewrite
	preparation               []rewrite // the pre-tokenizers that change the text
	splits                    []splitter
	classes                   *classTable
	before, after             []int32 // what the template adds to a text
	decoder                   decoder

	mu   sync.Mutex
	idle []*encoder
}

// maxFile is the maximum size of a tokenizer.json in bytes. Large ones have tens of MB.
const maxFile = 256 << 20

// Load reads a tokenizer.json. Errors name the file and what is wrong in it. Patterns, components and model types that
// this package does not support are errors.
func Load(path string) (*Tokenizer, error) {
	data, err := disk.ReadInput(path, maxFile)
	if err != nil {
		return nil, err
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse parses the contents of a tokenizer.json. The result does not refer to data.
func Parse(data []byte) (*Tokenizer, error) {
	return parse(data, func(own []addedToken) ([]addedToken, error) { return own, nil })
}

// parse is Parse; more may add to the added tokens, or change their flags.
func parse(data []byte, more func(own []addedToken) ([]addedToken, error)) (*Tokenizer, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("not UTF-8, as a tokenizer.json must be")
	}
	doc, err := readDocument(data)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{classes: classes()}
	byteLevel, err := t.readComponents(doc)
	if err != nil {
		return nil, err
	}
	entries, err := doc.Model.readVocab()
	if err != nil {
		return nil, err
	}
	for _, a := range doc.Added {
		if a.ID < 0 {
			return nil, fmt.Errorf("added token %q: id %d is out of range: ids go from 0 to %d", a.Content, a.ID, maxID)
		}
	}
	added, err := more(doc.Added)
	if err != nil {
		return nil, err
	}
	size := len(data) // of all files
	for _, a := range added {
		size += 1 + len(a.Content)
	}
	added = withIDs(entries, added)
	if t.vocab, err = newVocab(entries, added, byteLevel, size); err != nil {
		return nil, err
	}
	if t.model, err = newBPE(&t.vocab, &doc.Model); err != nil {
		return nil, err
	}
	if !byteLevel && len(t.splits) == 0 && !t.model.ignoreMerges && t.model.marksOnlyStart(&t.vocab) {
		t.splits = []splitter{beforeMark}
	}
	rest := budget(maxExpansion*size + 1<<16)
	if err := t.readAdded(added, &rest); err != nil {
		return nil, err
	}
	isAdded := map[int32]bool{}
	for _, a := range added {
		isAdded[a.ID] = true
	}
	t.maxPlain = -1
	for _, e := range entries {
		if e.id > t.maxPlain && !isAdded[e.id] {
			t.maxPlain = e.id
		}
	}
	if err := t.decodeTable(&rest); err != nil {
		return nil, err
	}
	if t.before, t.after, err = readTemplate(doc.PostProcessor, &t.vocab); err != nil {
		return nil, err
	}
	return t, nil
}

// readComponents reads the normalizer, the pre-tokenizer and the decoder. It reports whether the vocabulary is
// byte-level.
func (t *Tokenizer) readComponents(doc *document) (byteLevel bool, err error) {
	normalizer := flatten(nil, doc.Normalizer, func(c *component) []component { return c.Normalizers })
	preTokenizer := flatten(nil, doc.PreTokenizer, func(c *component) []component { return c.PreTokenizers })
	decoder := flatten(nil, doc.Decoder, func(c *component) []component { return c.Decoders })
	if n := max(len(normalizer), len(preTokenizer), len(decoder)); n > maxComponents {
		return false, fmt.Errorf("the normalizer, the pre_tokenizer or the decoder has %d parts: at most %d are supported", n,
			maxComponents)
	}
	if byteLevel, err = t.readPreTokenizer(preTokenizer); err != nil {
		return false, err
	}
	if t.normalizer, err = readNormalizer(normalizer); err != nil {
		return false, err
	}
	if t.decoder, err = readDecoder(decoder, byteLevel); err != nil {
		return false, err
	}
	if err := checkGrowth("normalizer and pre_tokenizer", slices.Concat(normalizer, preTokenizer)); err != nil {
		return false, err
	}
	return byteLevel, checkGrowth("decoder", decoder)
}

// VocabSize returns the number of tokens, including added ones. A vocabulary may have gaps, so ids may be larger.
func (t *Tokenizer) VocabSize() int { return t.size }

// MaxID returns the largest id of any token.
func (t *Tokenizer) MaxID() int32 { return int32(len(t.texts)) - 1 }

// MaxPlainID returns the largest id of a token that is not an added one, or -1 if all are: text without added tokens
// becomes no larger ids.
func (t *Tokenizer) MaxPlainID() int32 { return t.maxPlain }

// CheckRows returns an error that names the first of the ids for which a model with rows embeddings has none.
func (t *Tokenizer) CheckRows(ids []int32, rows int) error {
	for _, id := range ids {
		if int(id) >= rows && t.has(id) {
			return fmt.Errorf("token %q has the id %d, but the model has only %d embeddings: leave it out, or add "+
				"embeddings to the model", t.texts[id], id, rows)
		}
	}
	return nil
}

// TokenID returns the id of a token by its text in tokenizer.json, such as "<|eot_id|>" or "Ġthe".
func (t *Tokenizer) TokenID(token string) (id int32, ok bool) { return t.id(token) }

// Token returns the text of a token as in tokenizer.json, or "" for an id without a token.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.texts[id]
}

// Bytes returns the bytes that a token represents in decoded text: " the" for "Ġthe", a newline for "<0x0A>" of a
// tokenizer with byte fallback. They need not be whole characters. It returns nil for an id without a token.
func (t *Tokenizer) Bytes(id int32) []byte {
	if !t.has(id) {
		return nil
	}
	return []byte(t.decoder.texts[id])
}

// IsSpecial reports whether a token is special: it structures the text without being part of it, like
// "<|begin_of_text|>". It returns false for an id without a token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.has(id) && t.special[id] }

// SpecialIDs returns the ids of all special tokens, ascending.
func (t *Tokenizer) SpecialIDs() []int32 {
	var ids []int32
	for id, special := range t.special {
		if special {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// readAdded divides the added tokens into tokens to search before and after the normalizer runs.
func (t *Tokenizer) readAdded(added []addedToken, rest *budget) error {
	var raw, normalized, specials []addedToken
	for _, a := range added {
		if a.Special {
			specials = append(specials, a)
		}
		if a.Normalized && len(t.normalizer) > 0 {
			a.Content = t.normalize(a.Content)
			if err := rest.spend(len(a.Content)); err != nil {
				return err
			}
			normalized = append(normalized, a)
		} else if a.Normalized {
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.normalized, t.specials = newMatcher(raw), newMatcher(normalized), newMatcher(specials)
	return nil
}

// normalize applies only the normalizer to a text.
func (t *Tokenizer) normalize(text string) string {
	s := stretch{text: text}
	for _, f := range t.normalizer {
		s = f(s)
	}
	return s.text
}

// decodeTable computes what each token decodes to. An added token that is normalized in encoding decodes to its
// normalized form.
func (t *Tokenizer) decodeTable(rest *budget) error {
	t.decoder.texts = slices.Clone(t.texts)
	for _, a := range t.normalized.tokens {
		t.decoder.texts[a.ID] = a.Content
	}
	return t.decoder.prepare(rest)
}
