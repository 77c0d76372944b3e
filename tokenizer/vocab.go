package tokenizer

import (
	"fmt"
	"hash/maphash"
	"math/bits"
)

// maxID is the largest id of a token and maxMerges the largest number of merges. A pair of ids and the rank of its
// merge fit into 64 bits (merge.go). The largest published vocabularies have about 260,000 tokens and twice as many
// merges.
const (
	idBits    = 21
	rankBits  = 64 - 2*idBits
	maxID     = 1<<idBits - 1
	maxMerges = 1<<rankBits - 2
)

// The longest tokens, in bytes. Published ones have at most 300, and those that this package trains are as long as the
// longest repetition in their texts. Every place in a text may be compared with all of an added token.
const (
	maxToken = 1 << 16
	maxAdded = 1 << 9
)

// entry is a token in the file's vocabulary.
type entry struct {
	text string
	id   int32
}

// vocab holds the tokens by id and by text.
type vocab struct {
	size    int
	present []bool
	special []bool
	texts   []string // as in the file
	// keys are what BPE compares: the bytes that a token represents in a byte-level vocabulary, otherwise its text. A
	// byte-level token outside the alphabet has none.
	keys  []string
	seed  maphash.Seed
	index []uint64 // open addressing over keys: the upper half of the hash, and id+1
	// named has the tokens that have no key, or are not in the vocabulary, by text.
	named     map[string]int32
	byteLevel bool
}

// newVocab builds the tables of the vocabulary and the added tokens. An id must be smaller than the length of the file,
// so that no table is larger than the file.
func newVocab(entries []entry, added []addedToken, byteLevel bool, fileSize int) (vocab, error) {
	v := vocab{byteLevel: byteLevel, seed: maphash.MakeSeed(), named: make(map[string]int32)}
	top := int32(-1)
	for _, e := range entries {
		top = max(top, e.id)
	}
	for _, a := range added {
		if a.ID < 0 || a.ID > maxID {
			return v, fmt.Errorf("added token %q: id %d is out of range: ids go from 0 to %d", a.Content, a.ID, maxID)
		}
		if len(a.Content) > maxAdded {
			return v, fmt.Errorf("added token %.60q… has %d bytes: at most %d are supported", a.Content, len(a.Content),
				maxAdded)
		}
		top = max(top, a.ID)
	}
	if int(top) >= fileSize {
		return v, fmt.Errorf("token id %d is out of range: a tokenizer.json of %d bytes cannot have that many tokens", top,
			fileSize)
	}
	v.texts, v.keys = make([]string, top+1), make([]string, top+1)
	v.present, v.special = make([]bool, top+1), make([]bool, top+1)
	v.index = make([]uint64, 2<<bits.Len(uint(len(entries))))

	arena := make([]byte, 0, fileSize/4)
	starts := make([]int32, 0, len(entries)+1)
	for _, e := range entries {
		if len(e.text) > maxToken {
			return v, fmt.Errorf("vocab: token %.60q… has %d bytes: at most %d are supported", e.text, len(e.text), maxToken)
		}
		if v.present[e.id] {
			return v, fmt.Errorf("vocab: %q and %q both have id %d: give every token its own", v.texts[e.id], e.text, e.id)
		}
		v.put(e.id, e.text)
		starts = append(starts, int32(len(arena)))
		if byteLevel {
			var ok bool
			if arena, ok = alphabet().appendBytes(arena, []byte(e.text)); !ok {
				arena = arena[:starts[len(starts)-1]]
				if old, twice := v.named[e.text]; twice {
					return v, fmt.Errorf("vocab: %q has two ids, %d and %d: keep one", e.text, old, e.id)
				}
				v.named[e.text] = e.id
			}
		}
	}
	all := string(arena)
	starts = append(starts, int32(len(arena)))
	for i, e := range entries {
		key := e.text
		if byteLevel {
			if key = all[starts[i]:starts[i+1]]; key == "" {
				continue
			}
		}
		if old, ok := v.find([]byte(key)); ok {
			return v, fmt.Errorf("vocab: %q has two ids, %d and %d: keep one", e.text, old, e.id)
		}
		v.insert(key, e.id)
	}
	return v, v.add(added)
}

func (v *vocab) put(id int32, text string) {
	v.present[id], v.texts[id] = true, text
	v.size++
}

// add adds the added tokens. One that is also in the vocabulary must have the same id there.
func (v *vocab) add(added []addedToken) error {
	for _, a := range added {
		old, known := v.id(a.Content)
		switch {
		case a.Content == "":
			return fmt.Errorf("added token with id %d has no content", a.ID)
		case known && old != a.ID:
			return fmt.Errorf("added token %q has id %d, but also id %d: keep one", a.Content, a.ID, old)
		case !known && v.present[a.ID]:
			return fmt.Errorf("added token %q has id %d, which %q has already: give every token its own", a.Content, a.ID,
				v.texts[a.ID])
		case !known:
			v.put(a.ID, a.Content)
			v.named[a.Content] = a.ID
		}
		v.special[a.ID] = v.special[a.ID] || a.Special
	}
	return nil
}

func (v *vocab) has(id int32) bool { return 0 <= id && int(id) < len(v.present) && v.present[id] }

// id returns the id of a token by its text in the file.
func (v *vocab) id(text string) (int32, bool) {
	if id, ok := v.named[text]; ok {
		return id, true
	}
	key, ok := v.appendKey(nil, []byte(text))
	if !ok {
		return 0, false
	}
	return v.find(key)
}

// appendKey appends the key of a token to dst. It returns false if the token has none.
func (v *vocab) appendKey(dst, text []byte) ([]byte, bool) {
	if !v.byteLevel {
		return append(dst, text...), true
	}
	return alphabet().appendBytes(dst, text)
}

// find returns the id of a token by its key.
func (v *vocab) find(key []byte) (int32, bool) {
	hash := maphash.Bytes(v.seed, key)
	mask := uint64(len(v.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := v.index[i]
		if slot == 0 {
			return 0, false
		}
		if id := int32(uint32(slot)) - 1; slot>>32 == hash>>32 && v.keys[id] == string(key) {
			return id, true
		}
	}
}

func (v *vocab) insert(key string, id int32) {
	v.keys[id] = key
	hash := maphash.String(v.seed, key)
	mask := uint64(len(v.index) - 1)
	i := hash & mask
	for v.index[i] != 0 {
		i = (i + 1) & mask
	}
	v.index[i] = hash>>32<<32 | uint64(id+1)
}
