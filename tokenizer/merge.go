package tokenizer

import "unicode/utf8"

// A symbol is a part of a word that is one token so far.
type symbol struct {
	id         int32
	at         int32  // its start in the word
	prev, next int32  // in long words: the neighbors that remain, -1 at the ends
	rank       uint32 // of the merge with the next symbol
}

// merger splits words into tokens. It is the working memory of one goroutine.
type merger struct {
	*bpe
	*vocab
	symbols []symbol
	heap    []uint64 // rank<<32 | position: the lowest rank first, and the leftmost of equal ranks
}

// shortWord is the number of symbols up to which scanning all of them for the next merge is faster than a heap.
const shortWord = 32

// merge leaves the word's tokens in m.symbols. While neighbors can be merged, it merges the pair with the lowest
// rank, and the leftmost of equal ranks. Time is proportional to n log n.
func (m *merger) merge(word string) {
	m.start(word)
	m.rankAll()
	if len(m.symbols) <= shortWord {
		m.mergeShort()
	} else {
		m.mergeLong()
	}
}

func (m *merger) rankAll() {
	s := m.symbols
	for i := range s {
		s[i].rank = noRank
		if i+1 < len(s) {
			s[i].rank = m.rank(s[i].id, s[i+1].id)
		}
	}
}

func (m *merger) mergeShort() {
	s := m.symbols
	for {
		lowest, at := uint32(noRank), 0
		for i := range s {
			if s[i].rank < lowest {
				lowest, at = s[i].rank, i
			}
		}
		if lowest == noRank {
			m.symbols = s
			return
		}
		s[at].id = m.made[lowest]
		s = append(s[:at+1], s[at+2:]...)
		s[at].rank = noRank
		if at+1 < len(s) {
			s[at].rank = m.rank(s[at].id, s[at+1].id)
		}
		if at > 0 {
			s[at-1].rank = m.rank(s[at-1].id, s[at].id)
		}
	}
}

func (m *merger) mergeLong() {
	s := m.symbols
	if len(s) == 0 {
		return
	}
	m.heap = m.heap[:0]
	for i := range s {
		s[i].prev, s[i].next = int32(i)-1, int32(i)+1
		m.push(s, int32(i))
	}
	s[len(s)-1].next = -1
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	for len(m.heap) > 0 {
		top, last := m.heap[0], len(m.heap)-1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
		m.sink(0)
		rank, at := uint32(top>>32), int32(uint32(top))
		if s[at].rank != rank {
			continue // one of the two has been merged with another
		}
		gone := s[at].next
		next := s[gone].next
		s[at].id = m.made[rank]
		s[at].next = next
		s[at].rank = noRank
		s[gone].rank = noRank
		if next >= 0 {
			s[next].prev = at
			s[at].rank = m.rank(s[at].id, s[next].id)
			m.push(s, at)
			m.rise(len(m.heap) - 1)
		}
		if prev := s[at].prev; prev >= 0 {
			s[prev].rank = m.rank(s[prev].id, s[at].id)
			m.push(s, prev)
			m.rise(len(m.heap) - 1)
		}
	}
	n := 0
	for i := int32(0); i >= 0; i = s[i].next {
		s[n], n = s[i], n+1
	}
	m.symbols = s[:n]
}

// push adds the pair that starts at symbol i to the heap, if it can be merged.
func (m *merger) push(s []symbol, i int32) {
	if s[i].rank != noRank {
		m.heap = append(m.heap, uint64(s[i].rank)<<32|uint64(i))
	}
}

func (m *merger) rise(i int) {
	h := m.heap
	for i > 0 && h[i] < h[(i-1)/2] {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		i = (i - 1) / 2
	}
}

func (m *merger) sink(i int) {
	h := m.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// start splits a word into its first symbols. It drops a character without a symbol if the vocabulary has no unknown
// token.
func (m *merger) start(word string) {
	m.symbols = m.symbols[:0]
	unknown := -1 // start of the unknown characters that are not yet placed, -1 if there are none
	for i := 0; i < len(word); {
		id, size := m.character(word, i)
		switch {
		case id >= 0:
			unknown = m.placeUnknown(unknown)
			m.symbols = append(m.symbols, symbol{id: id, at: int32(i)})
		case m.byteFallback && m.startBytes(word, i, i+size):
			// Unknown characters come after the bytes, as in Hugging Face's loop.
		case m.unknown >= 0:
			if !m.fuseUnknown {
				unknown = m.placeUnknown(unknown)
			}
			if unknown < 0 {
				unknown = i
			}
		}
		i += size
	}
	m.placeUnknown(unknown)
}

// character returns the symbol of the character at word[i], or -1, and its length in bytes.
func (m *merger) character(word string, i int) (id int32, size int) {
	if m.byteLevel {
		return m.byteIDs[word[i]], 1
	}
	if word[i] < utf8.RuneSelf {
		return m.asciiIDs[word[i]], 1
	}
	_, size = utf8.DecodeRuneInString(word[i:])
	if id, ok := m.find([]byte(word[i : i+size])); ok {
		return id, size
	}
	return -1, size
}

// startBytes appends the tokens of the bytes word[from:to], if each has one.
func (m *merger) startBytes(word string, from, to int) bool {
	for i := from; i < to; i++ {
		if m.byteIDs[word[i]] < 0 {
			return false
		}
	}
	for i := from; i < to; i++ {
		m.symbols = append(m.symbols, symbol{id: m.byteIDs[word[i]], at: int32(i)})
	}
	return true
}

// placeUnknown appends the unknown token for the characters from at on, if at is not negative.
func (m *merger) placeUnknown(at int) int {
	if at >= 0 {
		start := int32(at)
		if n := len(m.symbols); n > 0 {
			start = max(start, m.symbols[n-1].at)
		}
		m.symbols = append(m.symbols, symbol{id: m.unknown, at: start})
	}
	return -1
}
