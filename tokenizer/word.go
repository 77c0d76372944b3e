package tokenizer

import "math/bits"

// Words repeat, so their tokens are cached in a hash table: each hash value has two slots, and a new word replaces the
// older of the two. A slot is one cache line, and the whole table fits into a core's L2 cache.
const (
	cacheBits   = 13
	cachedBytes = 23 // maximum length of a cached word
	cachedIDs   = 8  // maximum number of its tokens
)

// wordKey holds a word's bytes, and its length in the last byte.
type wordKey [3]uint64

type wordSlot struct {
	key     wordKey
	ids     [cachedIDs]int32
	lengths [cachedIDs]uint8 // of each token in bytes; 0 after the last
}

// encoder is the working memory of one goroutine, with the tokens so far.
type encoder struct {
	merger
	cache [][2]wordSlot // the newer one first
	cuts  [2][]cut
	ids   []int32
	ends  []int32
}

// encodeWord appends the tokens of text[from:to]. Their ends are counted from base.
func (e *encoder) encodeWord(text string, from, to, base int) {
	n := to - from
	if n > cachedBytes {
		e.encodeUncached(text[from:to], base+from)
		return
	}
	key := keyOf(text, from, n)
	slots := &e.cache[key.hash()>>(64-cacheBits)]
	slot := &slots[0]
	if slot.key != key {
		if slot = &slots[1]; slot.key != key {
			first, at := len(e.ids), base+from
			e.encodeUncached(text[from:to], at)
			slots[1] = slots[0]
			slots[0].remember(key, e.ids[first:], e.ends[first:], at)
			return
		}
	}
	end := base + from
	for i, length := range slot.lengths {
		if length == 0 {
			break
		}
		end += int(length)
		e.ids = append(e.ids, slot.ids[i])
		e.ends = append(e.ends, int32(end))
	}
}

// remember caches a word's tokens in the slot, if they fit and cover the word.
func (s *wordSlot) remember(key wordKey, ids []int32, ends []int32, at int) {
	*s = wordSlot{}
	if len(ids) == 0 || len(ids) > cachedIDs {
		return
	}
	for i, end := range ends {
		length := int(end) - at
		if length == 0 { // a token without bytes looks like the end of the list
			return
		}
		s.ids[i], s.lengths[i] = ids[i], uint8(length)
		at = int(end)
	}
	s.key = key
}

// encodeUncached appends the tokens of a word that starts at base.
func (e *encoder) encodeUncached(word string, base int) {
	if e.ignoreMerges {
		if id, ok := e.find([]byte(word)); ok {
			e.ids, e.ends = append(e.ids, id), append(e.ends, int32(base+len(word)))
			return
		}
	}
	e.merge(word)
	for i, s := range e.symbols {
		end := len(word)
		if i+1 < len(e.symbols) {
			end = int(e.symbols[i+1].at)
		}
		e.ids, e.ends = append(e.ids, s.id), append(e.ends, int32(base+end))
	}
}

// keyOf returns the key of text[from:from+n].
func keyOf(text string, from, n int) (key wordKey) {
	if from+24 <= len(text) { // read eight bytes at a time, and mask off the excess
		s := text[from : from+24]
		key[0] = load(s)
		switch {
		case n < 8:
			key[0] &= 1<<(8*n) - 1
		case n < 16:
			key[1] = load(s[8:]) & (1<<(8*(n-8)) - 1)
		default:
			key[1] = load(s[8:])
			key[2] = load(s[16:]) & (1<<(8*(n-16)) - 1)
		}
	} else {
		for i := range n {
			key[i/8] |= uint64(text[from+i]) << (i % 8 * 8)
		}
	}
	key[2] |= uint64(n) << 56
	return key
}

// load reads eight bytes, little-endian.
func load(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (k *wordKey) hash() uint64 {
	high, low := bits.Mul64(k[0]^hashFactor, k[1]^bits.RotateLeft64(k[2], 32)^0xD6E8FEB86659FD93)
	return (high ^ low) * hashFactor
}

// hashFactor is 2^64 divided by the golden ratio: multiplication spreads close keys over the upper bits (Knuth, 6.4).
const hashFactor = 0x9E3779B97F4A7C15
