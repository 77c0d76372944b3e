package tokenizer

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// addedToken is a token that is cut out of a text before anything else is done with it.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character stands on either side
	LStrip     bool   `json:"lstrip"`      // takes the white space in front of it in
	RStrip     bool   `json:"rstrip"`      // and behind it
	Normalized bool   `json:"normalized"`  // is looked for in the normalised text
	Special    bool   `json:"special"`
}

// matcher finds added tokens in a text: the leftmost, and of those that begin there the longest.
type matcher struct {
	tokens  []addedToken // sorted by content
	first   [256]bool    // the bytes that one begins with
	firsts  []byte
	special bool // all are special
}

func newMatcher(tokens []addedToken) matcher {
	m := matcher{tokens: tokens, special: !slices.ContainsFunc(tokens, func(a addedToken) bool { return !a.Special })}
	slices.SortStableFunc(m.tokens, func(a, b addedToken) int { return cmp.Compare(a.Content, b.Content) })
	for _, a := range tokens {
		if a.Content == "" { // a normalizer may leave nothing of it
			continue
		}
		if !m.first[a.Content[0]] {
			m.first[a.Content[0]] = true
			m.firsts = append(m.firsts, a.Content[0])
		}
	}
	return m
}

// find finds the next token in text[from:], and where it begins; nil when there is none.
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

// longestAt narrows the sorted tokens down to those that text begins with, a byte at a time.
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

// below counts the tokens whose byte at depth is smaller than c. All share what stands before it, and one that ends
// there sorts first.
func below(tokens []addedToken, depth, c int) int {
	return sort.Search(len(tokens), func(i int) bool {
		content := tokens[i].Content
		return len(content) > depth && int(content[depth]) >= c
	})
}

// A cut is where an added token stands in a text, with the white space that it takes in.
type cut struct {
	id       int32
	from, to int
}

// cuts appends the added tokens in text to out, in order. Without specials those are passed over. As in Hugging Face's
// loop the white space that a token takes in behind it may hold the beginning of the next one, which then is cut too.
func (m *matcher) cuts(out []cut, text string, specials bool) []cut {
	if m.special && !specials {
		return out
	}
	done, spaces := 0, 0 // spaces is the end of the last run of white space that was looked at
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

// aloneIn reports whether no word character stands next to text[from:to].
func aloneIn(text string, from, to int) bool {
	t := classes()
	return t.runBack(text, from, 0, word) == from && t.run(text, to, word) == to
}
