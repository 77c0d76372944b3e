package voice

import (
	"iter"
	"math"
	"strings"
)

// smallWords are the classes of frequent English words that Order knows. Each is a line.
var smallWords = func() map[string]int {
	classes := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(`
the a an
my your our their its every
this that these those each some any no all another both his her such
of
in for with from by into on at between during without about over under after before through against among upon around `+
		`behind near off up down out
to
as than like
is are was were isn't aren't wasn't weren't am
be been being
has have had hasn't haven't hadn't having
can could will would should must may might can't couldn't won't wouldn't shouldn't cannot shall
do does did don't doesn't didn't
i he she we they i'm i'll i've i'd he's she's we're they're we'll they'll it's that's there's you're you'll you've `+
		`let's we've they've you'd
it you one there
me him us them myself yourself itself himself themselves
and or but nor
if because when while where since unless until though although whether
who which what how why whose
not never
very too so just only also still then even now here again always already quite rather perhaps ever once
`), "\n") {
		for _, w := range strings.Fields(line) {
			classes[w] = i
		}
	}
	return classes
}()

// endings are the classes of other words, by how they end. The last two classes are for numbers and for all other
// words.
var endings = []string{"ly", "ing", "ed", "s"}

// followers tells how often a word of one class (the row) is followed by a word of another: m as often as by chance,
// and each letter from there half a power of two more or less. It was counted in 490,000 words: the comments of Go's
// standard library, the documents of this project, and The Wonderful Wizard of Oz.
var followers = strings.Fields(`
aaaaaaaaaaaaafabdaailnmlho
adaaaacagcadafdabjbgkmkoho
klklihmoemqmonchjjekmlkogn
pqqadafacaaaflpehnafhnimol
qqoihjhbffbblnojipalkohkll
oomahacaqmaqeloeglhimkfimn
oomikkfiijhjrpkgojgmmmmknm
nlmgkimahaaahlhcilrqpmsgll
lgjkjgkaababakebeggmplsejn
opodhohasmadkmnfbkppnkpjkl
aafacakasraomkhfcgsppadaam
iklcgelgapammpggijsnmmadck
gijafdgphsssabgfdknpokpfam
fjkmmmnseqsrighljliongknfk
konjprqnknllmjkpnodqpmjiak
momgkhlkhmlnqofaoonpnnnnlm
onohhfafacbhssafhelkjojigl
llkifncqbqrsrpgaeeikmglofk
khhfjkmbrpflfgbaghamolohgo
mmoalkpioniospgkqkhnpmnlhm
jjlhnmpimmknnlinomloloqlhm
nnnmooklbikilnonmlhlnkingl
kllfrppgaefdhkomnhdmokemhl
nlnoooonemmlkmlopogmllnknk
nbemlmjldihkefbpniejflhpnl
kkmonnnnflmlklnonmfllmjnom
`)

// classOf returns the class of a word: its row and column in followers.
func classOf(word string) int {
	n := len(followers)
	if class, ok := smallWords[word]; ok {
		return class
	}
	if '0' <= word[0] && word[0] <= '9' {
		return n - 2
	}
	for i, end := range endings {
		if strings.HasSuffix(word, end) && len(word) > len(end)+2 && !strings.HasSuffix(word, "ss") {
			return n - 2 - len(endings) + i
		}
	}
	return n - 1
}

// A pair is the classes of two words that follow each other.
type classPair struct{ first, second int }

// Order returns how much more the words of a text follow each other as in English sentences than by chance: the sum
// of the logarithms in followers, divided by the root of their number, so that chance has the same spread in texts of
// any length. Sentences have about 4, shuffled words -6. Anything that the style's prompt and examples do themselves
// does not lower it: a pirate says "me parrot" and "it be".
func (s *Style) Order(text Text) float64 {
	sum, n := 0, 0
	for p := range classPairs(text) {
		if rarity := int(followers[p.first][p.second]) - 'm'; rarity > 0 || s.pairs[p] < 2 {
			sum += rarity
		}
		n++
	}
	return float64(sum) / 2 / math.Sqrt(float64(max(1, n)))
}

// classPairs yields the classes of every two words that follow each other.
func classPairs(text Text) iter.Seq[classPair] {
	return func(yield func(classPair) bool) {
		for run := range text.Runs() {
			for i := 1; i < len(run); i++ {
				if !yield(classPair{classOf(run[i-1]), classOf(run[i])}) {
					return
				}
			}
		}
	}
}

// English returns the share of a text's words that are small English words, such as "the" and "of". English prose has
// about half of its words from them, other languages hardly any.
func (t Text) English() float64 {
	small, all := 0, 0
	for run := range t.Runs() {
		for _, w := range run {
			if SmallWord(w) {
				small++
			}
			all++
		}
	}
	return float64(small) / float64(max(1, all))
}

// SmallWord reports whether a word, in lower case, is a frequent English word without much meaning of its own.
func SmallWord(word string) bool {
	_, ok := smallWords[word]
	return ok
}

// readPairs counts the pairs in the style's prompt and examples.
func (s *Style) readPairs() {
	s.pairs = map[classPair]int{}
	texts := []string{s.System}
	for _, e := range s.Examples {
		texts = append(texts, e.Rewrite)
	}
	for _, text := range texts {
		for p := range classPairs(Read(text)) {
			s.pairs[p]++
		}
	}
}
