package jsonform

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"restyle/tokenizer"
)

// A Vocabulary holds the tokens of a tokenizer as a trie of their bytes. Make it once for each model. It is safe for
// concurrent use.
type Vocabulary struct {
	tokenizer *tokenizer.Tokenizer
	nodes     []trieNode // in depth-first order, without the root
	next      []int32    // by id: another token with the same bytes, or -1
	ends      []int32
	words     int // of a set of tokens, 64 bits each
	depth     int // bytes of the longest token
	// ascii means that not every byte is a token. Tokens that are not whole characters are then not used, and other
	// characters than ASCII are not needed for anything.
	ascii     bool
	slow      sync.Mutex // see meter
	compiling sync.Mutex // held by Compile, which takes memory
}

// A trieNode is a prefix of tokens.
type trieNode struct {
	end   int32 // index of the first node after those below it
	token int32 // the token that ends here, or -1
	depth uint8
	char  byte
	plain bool // it and those below it have only plain bytes
}

// plain reports whether a byte is a character of a string by itself.
func plain(b byte) bool { return b >= ' ' && b < 0x7F && b != '"' && b != '\\' }

// longest is the most bytes of a token that is used. Longer ones are rare, and none is needed.
const longest = 64

// NewVocabulary returns the vocabulary of a tokenizer. ends are the tokens that end an answer, as in infer.Codec.
// Special tokens never become part of a document. A tokenizer that lacks a token for one of the bytes that JSON is
// written in is an error.
func NewVocabulary(t *tokenizer.Tokenizer, ends []int32) (*Vocabulary, error) {
	v := &Vocabulary{tokenizer: t, ends: slices.Clone(ends)}
	type token struct {
		text []byte
		id   int32
	}
	var tokens []token
	var single [256]bool
	for id := range t.MaxID() + 1 {
		text := v.text(id)
		if text == nil {
			continue
		}
		tokens = append(tokens, token{text, id})
		if len(text) == 1 {
			single[text[0]] = true
		}
	}
	for b := range single {
		if b >= ' ' && b <= '~' && !single[b] {
			return nil, fmt.Errorf("the vocabulary has no token for %q alone, so it cannot write all JSON: "+
				"use a model whose tokenizer has every byte", rune(b))
		}
		v.ascii = v.ascii || b >= 0x80 && b < 0xF5 && b != 0xC0 && b != 0xC1 && !single[b]
	}
	if v.ascii {
		tokens = slices.DeleteFunc(tokens, func(t token) bool { return !utf8.Valid(t.text) })
	}
	slices.SortFunc(tokens, func(a, b token) int {
		return cmp.Or(bytes.Compare(a.text, b.text), cmp.Compare(a.id, b.id))
	})
	v.words = (int(max(t.MaxID(), slices.Max(append([]int32{0}, ends...)))) + 64) / 64
	v.next = make([]int32, t.MaxID()+1)
	var last []byte
	var path []int32 // the nodes of last
	for _, t := range tokens {
		v.next[t.id] = -1
		shared := 0
		for shared < len(last) && shared < len(t.text) && last[shared] == t.text[shared] {
			shared++
		}
		for _, i := range path[shared:] {
			v.nodes[i].end = int32(len(v.nodes))
		}
		path = path[:shared]
		for _, b := range t.text[shared:] {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{token: -1, depth: uint8(len(path)), char: b})
		}
		node := &v.nodes[path[len(path)-1]]
		v.next[t.id], node.token = node.token, t.id
		v.depth = max(v.depth, len(t.text))
		last = t.text
	}
	for _, i := range path {
		v.nodes[i].end = int32(len(v.nodes))
	}
	for i := len(v.nodes) - 1; i >= 0; i-- {
		n := &v.nodes[i]
		n.plain = plain(n.char)
		for below := int32(i) + 1; below < n.end && n.plain; below = v.nodes[below].end {
			n.plain = v.nodes[below].plain
		}
	}
	return v, nil
}

// IsOf reports whether NewVocabulary would make the same vocabulary of a tokenizer and its ends.
func (v *Vocabulary) IsOf(t *tokenizer.Tokenizer, ends []int32) bool {
	if !slices.Equal(ends, v.ends) || t.MaxID() != v.tokenizer.MaxID() {
		return false
	}
	for id := range t.MaxID() + 1 {
		if t.Token(id) != v.tokenizer.Token(id) || t.IsSpecial(id) != v.tokenizer.IsSpecial(id) ||
			!bytes.Equal(t.Bytes(id), v.tokenizer.Bytes(id)) {
			return false
		}
	}
	return true
}

// Around returns what is around documents that come between two texts. If one of the texts has a special token, which
// no text becomes, the answer starts with that token, or ends without it.
func (v *Vocabulary) Around(before, after string) (a Around) {
	for n := len(before); n > 0; n-- {
		if id, is := v.tokenizer.TokenID(before[:n]); is && v.tokenizer.IsSpecial(id) {
			a.First, before = []int32{id}, strings.TrimLeft(before[n:], " \n")
			break
		}
	}
	if id, is := v.tokenizer.TokenID(strings.TrimSpace(after)); is && v.tokenizer.IsSpecial(id) {
		after = ""
	}
	a.Before, a.After = before, after
	return a
}

// text returns the bytes of a token that can be part of a document, and nil for others.
func (v *Vocabulary) text(id int32) []byte {
	text := v.tokenizer.Bytes(id)
	if len(text) == 0 || len(text) > longest || v.tokenizer.IsSpecial(id) || slices.Contains(v.ends, id) ||
		v.ascii && !utf8.Valid(text) {
		return nil
	}
	return text
}
