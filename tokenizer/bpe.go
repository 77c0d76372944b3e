package tokenizer

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// noRank is the rank of a pair that cannot be merged.
const noRank = 1<<32 - 1

// bpe is the model: the first symbols of a word, and the pairs of neighbors that merge into one.
type bpe struct {
	// slots is a hash table with linear probing. A slot has the left id, the right id and rank+1; 0 is empty.
	slots  []uint64
	shift  uint8
	factor uint64  // random, so that no file can be made whose pairs all fall into the same slots
	made   []int32 // by rank: the id that the pair merges into

	// byteIDs has the symbol of each byte in a byte-level vocabulary, or with byteFallback the token <0xNN>. asciiIDs
	// has the symbol of each ASCII character for other vocabularies. -1 means that there is none.
	byteIDs      [256]int32
	asciiIDs     [utf8.RuneSelf]int32
	byteFallback bool
	ignoreMerges bool // a word that is a token becomes that token, whatever merging would make of it
	unknown      int32
	fuseUnknown  bool // a run of unknown characters becomes one unknown token
}

func newBPE(v *vocab, m *modelPart) (bpe, error) {
	b := bpe{byteFallback: m.ByteFallback, ignoreMerges: m.IgnoreMerges, fuseUnknown: m.FuseUnknown, unknown: -1}
	complete := v.byteLevel // every byte has a symbol, so nothing is unknown
	for i := range b.byteIDs {
		key := []byte{byte(i)}
		if !v.byteLevel {
			key = fmt.Appendf(nil, "<0x%02X>", i)
		}
		b.byteIDs[i] = -1
		if id, ok := v.find(key); ok {
			b.byteIDs[i] = id
		} else {
			complete = false
		}
	}
	if m.Unknown != nil && !complete {
		id, ok := v.id(*m.Unknown)
		if !ok {
			return b, fmt.Errorf("model: unk_token %q is not in the vocabulary", *m.Unknown)
		}
		b.unknown = id
	}
	if m.ByteFallback && v.byteLevel && !complete {
		return b, fmt.Errorf("model: byte_fallback is not supported with a byte-level vocabulary that lacks a byte")
	}
	for i := range b.asciiIDs {
		b.asciiIDs[i] = -1
		if id, ok := v.find([]byte{byte(i)}); ok {
			b.asciiIDs[i] = id
		}
	}
	return b, b.readMerges(v, m)
}

// readMerges reads the merges in order of rank. If a pair occurs twice the later rank counts, as in Hugging Face's map.
func (b *bpe) readMerges(v *vocab, m *modelPart) error {
	var buf []byte
	// find returns a pair and what it merges into, or false if one of the three is not a token.
	find := func(left, right []byte) (ids [3]int32, ok bool) {
		var keyed, known [3]bool
		buf, keyed[0] = v.appendKey(buf[:0], left)
		n := len(buf)
		buf, keyed[1] = v.appendKey(buf, right)
		if !keyed[0] || !keyed[1] { // tokens outside the byte alphabet: no text starts with these, but files may name them
			ids[0], known[0] = v.id(string(left))
			ids[1], known[1] = v.id(string(right))
			ids[2], known[2] = v.id(string(left) + string(right))
		} else {
			ids[0], known[0] = v.find(buf[:n])
			ids[1], known[1] = v.find(buf[n:])
			ids[2], known[2] = v.find(buf)
		}
		return ids, known == [3]bool{true, true, true}
	}
	var pairs []uint64
	err := m.eachMerge(func(left, right []byte) error {
		if len(pairs) == maxMerges {
			return fmt.Errorf("merges: more than %d, the maximum that this package supports", maxMerges)
		}
		ids, ok := find(left, right)
		if !ok {
			for _, text := range []string{string(left), string(right), string(left) + string(right)} {
				if _, ok := v.id(text); !ok {
					return fmt.Errorf("merge %d, %q with %q: token %q is not in the vocabulary", len(pairs), left, right, text)
				}
			}
		}
		pairs, b.made = append(pairs, pairKey(ids[0], ids[1])), append(b.made, ids[2])
		return nil
	})
	b.fill(pairs)
	return err
}

func pairKey(left, right int32) uint64 { return uint64(left)<<idBits | uint64(right) }

// fill fills the hash table of pairs in order of rank, to at most two thirds.
func (b *bpe) fill(pairs []uint64) {
	size := 2 << bits.Len(uint(len(pairs)*3/4))
	b.slots, b.shift, b.factor = make([]uint64, size), uint8(64-bits.Len(uint(size-1))), rand.Uint64()|1
	for rank, key := range pairs {
		i := int(key * b.factor >> b.shift)
		for b.slots[i] != 0 && b.slots[i]>>rankBits != key {
			i = (i + 1) & (size - 1)
		}
		b.slots[i] = key<<rankBits | uint64(rank+1)
	}
}

// rank returns the rank of the merge of two neighbors, or noRank.
func (b *bpe) rank(left, right int32) uint32 {
	key := pairKey(left, right)
	mask := len(b.slots) - 1
	for i := int(key * b.factor >> b.shift); ; i++ {
		slot := b.slots[i&mask]
		if slot>>rankBits == key && slot != 0 {
			return uint32(slot&(1<<rankBits-1)) - 1
		}
		if slot == 0 {
			return noRank
		}
	}
}

// mark is SentencePiece's representation of a space.
const mark = "▁"

// marksOnlyStart reports whether no merge joins a mark to a symbol before it other than a mark. If so, cutting a text
// into words before marks does not change the result, and words can be cached.
func (b *bpe) marksOnlyStart(v *vocab) bool {
	if _, ok := v.find([]byte(mark)); !ok {
		return false
	}
	for _, slot := range b.slots {
		if key := slot >> rankBits; slot != 0 {
			left, right := v.keys[key>>idBits], v.keys[key&maxID]
			if strings.HasPrefix(right, mark) && !strings.HasSuffix(left, mark) {
				return false
			}
		}
	}
	return true
}
