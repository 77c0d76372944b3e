package tokenizer

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// addedToken is a token that is found in a text before anything else is done with the text.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only if there is no word character on either side
	LStrip     bool   `json:"lstrip"`      // includes the white space before it
	RStrip     bool   `json:"rstrip"`      // includes the white space after it
	Normalized bool   `json:"normalized"`  // is searched in the normalized text
	Special    bool   `json:"special"`
}

// withIDs gives the added tokens their ids, as tokenizers' add_tokens does: the id of the vocabulary's token with the
// same text, or else the next id, whatever the file says. If the vocabulary has gaps, another token may have that id,
// as also happens in tokenizers. Then the file's id, which fills a gap, is used. If several have the same text, the
// flags of the last apply, but a token that was special stays special.
func withIDs(entries []entry, added []addedToken) []addedToken {
	ids := make(map[string]int32, len(added))
	for _, a := range added {
		ids[a.Content] = -1
	}
	beyond := map[int32]bool{} // ids of the vocabulary after a gap
	for _, e := range entries {
		if _, wanted := ids[e.text]; wanted {
			ids[e.text] = e.id
		}
		if int(e.id) >= len(entries) {
			beyond[e.id] = true
		}
	}
	var out []addedToken
	where := make(map[string]int, len(added))
	next := int32(len(entries))
	for _, a := range added {
		if i, twice := where[a.Content]; twice {
			a.ID, a.Special = out[i].ID, a.Special || out[i].Special
			out[i] = a
			continue
		}
		switch id := ids[a.Content]; {
		case id >= 0:
			a.ID = id
		case !beyond[next] || a.ID < 0:
			a.ID = next
		}
		next = max(next, a.ID+1)
		where[a.Content] = len(out)
		out = append(out, a)
	}
	return out
}

// matcher finds added tokens in a text: the leftmost, and the longest of those with the same start.
type matcher struct {
	tokens  []addedToken // sorted by content
	first   [256]bool    // the first bytes of all tokens
	firsts  []byte
	special bool // all are special
}

func newMatcher(tokens []addedToken) matcher {
	m := matcher{tokens: tokens, special: !slices.ContainsFunc(tokens, func(a addedToken) bool { return !a.Special })}
	slices.SortStableFunc(m.tokens, func(a, b addedToken) int { return cmp.Compare(a.Content, b.Content) })
	for _, a := range tokens {
		if a.Content == "" { // a normalizer may delete all of it
			continue
		}
		if !m.first[a.Content[0]] {
			m.first[a.Content[0]] = true
			m.firsts = append(m.firsts, a.Content[0])
		}
	}
	return m
}

// find returns the next token in text[from:] and its start, or nil if there is none.
func (m *matcher) find(text string, from int) (*addedToken, int) {
	for i := from; i < len(text); i++ {
		if len(m.firsts) < 2 {
			n := -1
			if len(m.firsts) == 1 {
				n = strings.IndexByte(text[i:], m.firsts[0])
			}
			if n < 0 {
				return nil, 0
			}
			i += n
		} else if !m.first[text[i]] {
			continue
		}
		if a := m.longestAt(text[i:]); a != nil {
			return a, i
		}
	}
	return nil, 0
}

// longestAt returns the longest token that text starts with. It narrows down the sorted tokens byte by byte.
func (m *matcher) longestAt(text string) *addedToken {
	var best *addedToken
	tokens := m.tokens
	for depth := 0; depth < len(text); depth++ {
		c := int(text[depth])
		from := below(tokens, depth, c)
		tokens = tokens[from : from+below(tokens[from:], depth, c+1)]
		if len(tokens) == 0 {
			break
		}
		if len(tokens[0].Content) == depth+1 {
			best = &tokens[0]
		}
	}
	return best
}

// below counts the tokens whose byte at depth is smaller than c. All have the same bytes before it. One that ends
// there sorts first.
func below(tokens []addedToken, depth, c int) int {
	return sort.Search(len(tokens), func(i int) bool {
		content := tokens[i].Content
		return len(content) > depth && int(content[depth]) >= c
	})
}

// A cut is the position of an added token in a text, with the white space that it includes.
type cut struct {
	id       int32
	from, to int
}

// cuts appends the added tokens in text to out, in order; without specials it skips special ones. As in Hugging Face's
// loop, the white space that a token includes after itself may contain the start of the next token, which is then
// found as well.
func (m *matcher) cuts(out []cut, text string, specials bool) []cut {
	if m.special && !specials {
		return out
	}
	done, spaces := 0, 0 // spaces is the end of the last run of white space that was checked
	for at := 0; ; {
		a, from := m.find(text, at)
		if a == nil {
			return out
		}
		at = from + len(a.Content)
		to := at
		if a.Special && !specials || a.SingleWord && !aloneIn(text, from, to) {
			continue
		}
		if a.LStrip {
			from = classes().runBack(text, from, min(done, from), space)
		}
		if a.RStrip {
			if to >= spaces {
				spaces = classes().run(text, to, space)
			}
			to = spaces
		}
		out = append(out, cut{a.ID, from, to})
		done = to
	}
}

// aloneIn reports whether there is no word character next to text[from:to].
func aloneIn(text string, from, to int) bool {
	t := classes()
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return (from == 0 || t[before]&word == 0) && (to == len(text) || t[after]&word == 0)
}
