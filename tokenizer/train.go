package tokenizer

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"slices"
)

// TrainOptions configure Train.
type TrainOptions struct {
	// VocabSize is the number of tokens: 256 for the bytes, one per merge, and the special tokens. Train returns
	// fewer if the texts are too short for that many merges.
	VocabSize int
	// Pattern splits texts into words, which no token crosses: GPT2Pattern, Llama3Pattern (the default) or Qwen2Pattern.
	Pattern string
	// SingleDigits gives every digit a token of its own.
	SingleDigits bool
	// Special lists the special tokens. They get the last ids, in order. Train does not look for them in the texts.
	Special []string
	// BOS, one of Special, is the token that EncodeOptions.AddSpecial puts before a text; "" for none.
	BOS string
}

// Train trains a byte-level BPE vocabulary on texts and returns it as a tokenizer.json, for [Parse] and for Hugging
// Face. It splits every text by itself: to get the merges of Hugging Face for a file, pass its lines with their line
// ends. The result is exact, and the same everywhere:
//
//   - ids 0 to 255 are the bytes in the order of the byte-level alphabet: "!" is 0;
//   - every round merges the most frequent pair of neighbors, or, if several are equally frequent, the one with the
//     smallest (id of left, id of right);
//   - "aaa" contains (a, a) twice, and is merged from the left without overlap;
//   - a merge whose text is a token already becomes that token, not a new one.
func Train(texts iter.Seq[string], o TrainOptions) ([]byte, error) {
	if o.Pattern == "" {
		o.Pattern = Llama3Pattern
	}
	split := patterns[o.Pattern]
	size := o.VocabSize - len(o.Special)
	switch {
	case split == nil:
		return nil, fmt.Errorf("train a tokenizer: the split pattern %q is not supported", o.Pattern)
	case size < 256 || o.VocabSize > maxID:
		return nil, fmt.Errorf("train a tokenizer: VocabSize %d with %d special tokens: must be at least 256 more than "+
			"these, and at most %d", o.VocabSize, len(o.Special), maxID)
	case o.BOS != "" && !slices.Contains(o.Special, o.BOS):
		return nil, fmt.Errorf("train a tokenizer: BOS %q is not among the special tokens %q", o.BOS, o.Special)
	}
	splits := []splitter{split}
	if o.SingleDigits {
		splits = []splitter{digits(true), split}
	}
	tr := newTrainer(countWords(texts, splits))
	for len(tr.tokens) < size && tr.round() {
	}
	return writeTokenizer(tr.tokens, tr.merges, o, layout{preTokenizer(o), byteLevel(true), alphabet().write})
}

// countWords counts the words of texts.
func countWords(texts iter.Seq[string], splits []splitter) map[string]int {
	words := make(map[string]int)
	table := classes()
	var count func(text string, splits []splitter)
	count = func(text string, splits []splitter) {
		if len(splits) == 0 {
			words[text]++
			return
		}
		for text != "" {
			n := splits[0](table, text)
			count(text[:n], splits[1:])
			text = text[n:]
		}
	}
	for text := range texts {
		count(text, splits)
	}
	return words
}

// A pair is a pair of neighboring tokens.
type pair struct{ left, right int32 }

// A trainedWord is a word as its present tokens.
type trainedWord struct {
	tokens []int32
	count  int
}

// pairCount has the present count of a pair, and the words in which it has occurred.
type pairCount struct {
	count int
	words []int32
}

// candidate is a pair with its count when it was queued.
type candidate struct {
	pair
	count int
}

type candidates []candidate

func (q candidates) Len() int      { return len(q) }
func (q candidates) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *candidates) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *candidates) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (q candidates) Less(i, j int) bool {
	a, b := q[i], q[j]
	return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.left, b.left), cmp.Compare(a.right, b.right)) < 0
}

type trainer struct {
	tokens []string // by id, as bytes
	ids    map[string]int32
	merges []pair
	words  []trainedWord
	pairs  map[pair]*pairCount
	queue  candidates
	grown  []pair // pairs whose count this round has raised
}

func newTrainer(words map[string]int) *trainer {
	tr := &trainer{ids: make(map[string]int32), pairs: make(map[pair]*pairCount)}
	var byChar []rune
	for _, char := range alphabet().char {
		byChar = append(byChar, char)
	}
	slices.Sort(byChar)
	var byteID [256]int32
	for id, char := range byChar {
		b := byte(alphabet().byteOf[char])
		byteID[b] = int32(id)
		tr.ids[string([]byte{b})] = int32(id)
		tr.tokens = append(tr.tokens, string([]byte{b}))
	}
	for text, count := range words {
		w := trainedWord{make([]int32, len(text)), count}
		for i := range len(text) {
			w.tokens[i] = byteID[text[i]]
		}
		tr.words = append(tr.words, w)
	}
	for n, w := range tr.words {
		for i := 1; i < len(w.tokens); i++ {
			tr.change(pair{w.tokens[i-1], w.tokens[i]}, w.count, n)
		}
	}
	tr.enqueue()
	return tr
}

// change changes the count of a pair in a word.
func (tr *trainer) change(p pair, by, word int) {
	c := tr.pairs[p]
	if c == nil {
		c = &pairCount{}
		tr.pairs[p] = c
	}
	c.count += by
	if by > 0 {
		if n := len(c.words); n == 0 || c.words[n-1] != int32(word) {
			c.words = append(c.words, int32(word))
		}
		tr.grown = append(tr.grown, p)
	}
}

// enqueue queues the pairs whose count has grown.
func (tr *trainer) enqueue() {
	slices.SortFunc(tr.grown, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.left, b.left),
			cmp.Compare(a.right, b.right))
	})
	for _, p := range slices.Compact(tr.grown) {
		if c := tr.pairs[p].count; c > 0 {
			heap.Push(&tr.queue, candidate{p, c})
		}
	}
	tr.grown = tr.grown[:0]
}

// round makes one merge. It returns false if nothing is left to merge.
func (tr *trainer) round() bool {
	for len(tr.queue) > 0 {
		best := heap.Pop(&tr.queue).(candidate)
		now := tr.pairs[best.pair]
		if now == nil || now.count == 0 {
			continue
		}
		if now.count != best.count { // it has fallen since then: queue it again
			heap.Push(&tr.queue, candidate{best.pair, now.count})
			continue
		}
		text := tr.tokens[best.left] + tr.tokens[best.right]
		id, known := tr.ids[text]
		if !known {
			id = int32(len(tr.tokens))
			tr.ids[text] = id
			tr.tokens = append(tr.tokens, text)
		}
		tr.merges = append(tr.merges, best.pair)
		delete(tr.pairs, best.pair)
		for _, n := range now.words {
			tr.merge(int(n), best.pair, id)
		}
		delete(tr.pairs, best.pair)
		tr.enqueue()
		return true
	}
	return false
}

// merge replaces a pair in a word and updates the counts of the pairs around it.
func (tr *trainer) merge(n int, p pair, id int32) {
	w := &tr.words[n]
	out := w.tokens[:0]
	for i := 0; i < len(w.tokens); i++ {
		if i+1 == len(w.tokens) || w.tokens[i] != p.left || w.tokens[i+1] != p.right {
			out = append(out, w.tokens[i])
			continue
		}
		if len(out) > 0 {
			tr.change(pair{out[len(out)-1], p.left}, -w.count, n)
			tr.change(pair{out[len(out)-1], id}, w.count, n)
		}
		if i+2 < len(w.tokens) {
			tr.change(pair{p.right, w.tokens[i+2]}, -w.count, n)
			tr.change(pair{id, w.tokens[i+2]}, w.count, n)
		}
		out = append(out, id)
		i++
	}
	w.tokens = out
}
