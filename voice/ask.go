package voice

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxAsk and maxAskWords are the maximum lengths of a clause that Ask returns, in bytes and words: a longer one does
// not fit into a sentence.
const (
	maxAsk      = 130
	maxAskWords = 20
)

// Ask returns the request in a question as an imperative clause that fits after "you would like me to": first letter in
// lower case, no final punctuation, first and second person exchanged. So "Could you please write a Python program that
// reverses my list?" becomes "write a Python program that reverses your list". Ask truncates a long request at a clause
// boundary. ok is false if there is no clause that would read well.
func Ask(question string) (ask string, ok bool) {
	if len(question) > 4096 {
		question = question[:4096]
	}
	for _, line := range strings.Split(question, "\n") {
		for i, s := range splitRequests(line) {
			ask := request(s)
			if ask != "" && (i == 0 || !refersBack(ask)) {
				return ask, true
			}
			if verb, _, _ := strings.Cut(strings.TrimSpace(s), " "); imperatives[strings.ToLower(verb)] {
				return "", false // what follows are details of this request
			}
		}
		if strings.TrimSpace(line) != "" {
			break // what follows is input data
		}
	}
	return "", false
}

// refersBack reports whether a clause refers to an earlier sentence: "print it", "clean a string that way".
func refersBack(ask string) bool {
	return strings.HasSuffix(ask, " that way") || strings.Contains(ask, " the check ") ||
		slices.ContainsFunc(strings.Fields(ask), func(w string) bool {
			return slices.Contains([]string{"it", "its", "them", "their"}, strings.Trim(w, ","))
		})
}

// splitRequests splits a line after each mark that ends a sentence.
func splitRequests(line string) []string {
	var out []string
	start := 0
	for i := range len(line) {
		if strings.IndexByte(".?!", line[i]) < 0 || i+1 < len(line) && line[i+1] != ' ' {
			continue
		}
		if strings.HasSuffix(line[:i], "e.g") || strings.HasSuffix(line[:i], "i.e") || strings.HasSuffix(line[:i], "etc") {
			continue
		}
		out = append(out, line[start:i])
		start = i + 1
	}
	return append(out, line[start:])
}

// courtesies lists beginnings of a request that "you would like me to" replaces.
var courtesies = []string{
	"please", "kindly", "hi", "hello", "hey", "ok", "okay", "so", "now", "then", "next", "just", "and",
	"could you please", "can you please", "would you please", "will you please", "could you", "can you", "would you",
	"will you", "would you mind", "i want you to", "i need you to", "i'd like you to", "i would like you to", "i want to",
	"i need to", "i'd like to", "i would like to", "i am trying to", "i'm trying to", "help me to", "help me",
	"your task is to", "the task is to", "your job is to", "you are asked to", "you need to", "you should", "you must",
	"how do i", "how can i", "how would i", "how should i", "how could i", "how might i",
	"how do you", "how can you", "how would you", "how should you", "how could you", "how might you", "how do we",
	"how can we", "how would we", "how does one", "how can one", "how would one", "how to", "what is the best way to",
	"what's the best way to", "what is the easiest way to", "what is a good way to", "what's a good way to",
	"is there a way to", "is it possible to", "tell me how to", "the goal is to",
}

// request returns the clause that Ask makes of one sentence, or "" if there is none.
func request(s string) string {
	s = cleanLine(s)
	s = strings.TrimLeft(s, `"'*-–—:>#0123456789.) `)
	whole := s
	s = afterPreposition(s)
	given := s != whole && (strings.HasPrefix(whole, "Given ") || strings.HasPrefix(whole, "After "))
	for {
		rest, ok := dropCourtesy(s)
		if !ok {
			break
		}
		s = afterPreposition(rest)
	}
	s = fromNoun(s)
	first, rest, _ := strings.Cut(s, " ")
	first = strings.ToLower(first)
	if !imperatives[first] {
		return ""
	}
	if given && (first == "return" || slices.ContainsFunc(strings.Fields(rest), func(w string) bool {
		return w == "one" || w == "ones" || w == "there"
	})) {
		return "" // without what is given, "return the fee" does not ask for a function, nor does "the ones" say of what
	}
	whole = strings.TrimSuffix(dropAsides(first+" "+rest), " like this")
	cut := shorten(whole)
	if rest := strings.TrimLeft(strings.TrimPrefix(whole, cut), ", "); cut != "" && rest != "" {
		next, _, _ := strings.Cut(rest, " ")
		if slices.Contains(conditions, strings.ToLower(next)) {
			return "" // the truncated part changes the request
		}
	}
	s = exchangePersons(cut)
	words := strings.Fields(strings.ToLower(s))
	if len(words) < 3 || len(words) > maxAskWords || !printableAsk(s) || strings.Count(s, `"`)%2 != 0 ||
		strings.Count(s, "(") != strings.Count(s, ")") {
		return ""
	}
	for _, w := range words {
		if slices.Contains(unspeakable, strings.Trim(w, `"'(),`)) {
			return ""
		}
	}
	if !imperatives[words[0]] || slices.Contains(dangling, words[len(words)-1]) || words[1] == "you" ||
		strings.Contains(s, ":") || pronounFirst(words) {
		return ""
	}
	return s
}

// conditions lists words with which a condition starts.
var conditions = []string{"when", "if", "unless", "where", "else", "otherwise", "except", "only"}

// pronounFirst reports whether a clause has a pronoun such as "it" before any noun: then the noun is in a sentence that
// is not part of the clause.
func pronounFirst(words []string) bool {
	for _, w := range words[1:] {
		switch w = strings.Trim(w, `"'(),`); w {
		case "it", "them", "this", "these", "those", "its", "their", "both", "each":
			return true
		case "a", "an", "the", "all", "every", "any", "your", "two", "three", "four", "how", "that":
			return false
		}
	}
	return false
}

// unspeakable are words that would make a clause sound like talk about the answer itself, or about another person.
var unspeakable = []string{"rewrite", "rewritten", "rewriting", "persona", "constraint", "constraints", "prompt",
	"original", "answer", "i", "i'm", "we", "us", "our", "let's", "placeholder"}

// dangling are words that no clause ends with.
var dangling = []string{"a", "an", "the", "and", "or", "of", "to", "in", "for", "with", "that", "which", "from", "by",
	"on", "as", "is", "are", "it's", "such", "e.g", "i.e", "between", "into", "its", "like", "where", "if", "when"}

// dropCourtesy removes one polite beginning.
func dropCourtesy(s string) (rest string, ok bool) {
	longest := 0
	for _, c := range courtesies {
		if len(c) > longest && len(s) > len(c) && strings.EqualFold(s[:len(c)], c) && (s[len(c)] == ' ' || s[len(c)] == ',') {
			longest = len(c)
		}
	}
	if longest == 0 {
		return s, false
	}
	return strings.TrimLeft(s[longest:], ", "), true
}

// prepositions start a phrase that can precede a request: "Given a list, write …", "In Python, how do I …".
var prepositions = []string{"given", "using", "in", "with", "for", "once", "assuming", "suppose", "from", "when", "if",
	"as", "without", "based", "by", "imagine", "consider", "on", "after", "hi", "hello", "also"}

// afterPreposition removes such a phrase, if a request follows it.
func afterPreposition(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if !slices.Contains(prepositions, strings.ToLower(strings.TrimRight(first, ","))) {
		return s
	}
	depth := 0
	for i, r := range s {
		switch r {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',', ':':
			rest := strings.TrimLeft(s[i+1:], " ")
			head := rest
			if polite, ok := dropCourtesy(rest); ok {
				head = polite
			}
			verb, _, _ := strings.Cut(head, " ")
			if depth == 0 && imperatives[strings.ToLower(verb)] {
				return rest
			}
		}
	}
	return s
}

// fromNoun adds the verb that "I need a function that …" and "A Python script to …" lack.
func fromNoun(s string) string {
	rest := s
	for _, lead := range []string{"i need ", "i want ", "i'd like ", "i would like ", "give me ", "need ", "looking for ",
		"i am looking for ", "i'm looking for "} {
		if len(rest) > len(lead) && strings.EqualFold(rest[:len(lead)], lead) {
			rest = rest[len(lead):]
			break
		}
	}
	words := strings.Fields(strings.ToLower(rest))
	if len(words) < 4 || words[0] != "a" && words[0] != "an" && words[0] != "some" {
		return s
	}
	for _, w := range words[1:min(len(words), 5)] {
		switch strings.TrimRight(w, ",") {
		case "function", "program", "script", "class", "snippet", "code", "one-liner", "loop", "method", "algorithm",
			"generator", "decorator":
			return "write " + words[0] + rest[len(words[0]):]
		case "that", "which", "to":
			return s
		}
	}
	return s
}

// dropAsides removes bracketed asides and final punctuation.
func dropAsides(s string) string {
	for {
		open := strings.IndexByte(s, '(')
		if open < 1 || s[open-1] != ' ' {
			break
		}
		end := strings.IndexByte(s[open:], ')')
		if end < 0 {
			break
		}
		rest := s[open+end+1:]
		if next, _ := utf8.DecodeRuneInString(rest); wordRune(next) || next == '(' {
			rest = " " + rest // only the aside separated two words, or another aside follows
		}
		s = s[:open-1] + rest
	}
	return strings.TrimRight(s, " .!?,;:-–—…")
}

// shorten truncates a clause that is too long, at the last clause boundary that leaves enough of it; "" if there is
// none.
func shorten(s string) string {
	if fits(s) {
		return s
	}
	best := ""
	depth, quoted := 0, false
	for i, r := range s {
		switch r {
		case '"':
			quoted = !quoted
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth != 0 || quoted || r != ';' && r != ':' && !clauseAt(s[i:]) {
			continue
		}
		if head := strings.TrimRight(s[:i], " ,;:"); fits(head) && len(strings.Fields(head)) >= 4 && !endsInList(head) {
			best = head
		}
	}
	return best
}

// endsInList reports whether a clause ends with an item of an unfinished list: "create, read, update".
func endsInList(s string) bool {
	comma := strings.LastIndexByte(s, ',')
	return comma >= 0 && len(strings.Fields(s[comma:])) <= 4
}

// clauseAt reports whether a new clause starts at the start of s, at a comma or a space. A comma by itself does not
// prove it, because it may be part of a list.
func clauseAt(s string) bool {
	body, comma := strings.CutPrefix(s, ",")
	if !strings.HasPrefix(body, " ") {
		return false
	}
	first, rest, _ := strings.Cut(body[1:], " ")
	second, _, _ := strings.Cut(rest, " ")
	switch first {
	case "while", "without", "using", "where", "when", "such", "given", "based", "ignoring", "assuming", "-":
		return true
	case "and":
		switch second {
		case "then", "print", "prints", "return", "returns", "output", "outputs", "display", "displays", "store", "stores":
			return true
		}
		return comma && imperatives[second]
	case "so":
		return second == "that"
	case "as":
		return second == "well"
	case "then": // a verb follows, or another item of a list
		return comma && second != "a" && second != "an" && second != "the"
	case "which", "that", "with", "if", "in", "for", "but", "including", "sorted", "or":
		return comma
	}
	return false
}

func fits(s string) bool { return len(s) <= maxAsk && len(strings.Fields(s)) <= maxAskWords }

// exchangePersons replaces the first person with the second: "your" for "my". It returns "" for a clause that has the
// second person already, because the two could not be told apart.
func exchangePersons(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		bare := strings.TrimRight(w, ",;:'")
		tail := w[len(bare):]
		switch strings.ToLower(bare) {
		case "my":
			words[i] = "your" + tail
		case "mine":
			words[i] = "yours" + tail
		case "me":
			words[i] = "you" + tail
		case "you", "your", "yours", "yourself":
			return ""
		case "i":
			words[i] = "you" + tail
			if i+1 < len(words) && words[i+1] == "am" {
				words[i+1] = "are"
			}
		}
	}
	return strings.Join(words, " ")
}

// imperatives are the verbs that a request for code starts with.
var imperatives = wordSet(`
add adjust align alter analyse analyze append apply arrange ask assemble assign average build bundle calculate
capitalise capitalize catch center change check chunk clamp classify clean clear close code collate collect combine
compare compile complete compose compress compute concatenate configure connect construct convert copy correct count
craft create cut deal debug declare decode decompress decrypt deduplicate define delete demonstrate deploy derive
describe design detect determine develop devise differentiate display divide do double download draft draw drop edit
eliminate encode encrypt enumerate estimate evaluate examine exchange execute expand explain export extend extract
fetch figure fill filter find fit fix flatten flip fold format generate get give group guess halve handle hash
identify illustrate implement import improve increment index initialise initialize insert inspect integrate interleave
intersect invert iterate join keep label launch limit list load locate log loop lower make map mask match measure
merge mirror model modify monitor move multiply negate normalise normalize obtain open optimise optimize order
organise organize output overload pad pair parse partition perform permute pick plot port predict prepare prevent
print process produce program prompt provide prune pull put query raise rank read rearrange recommend record reduce
refactor reformat remove rename reorder repair repeat replace report represent request retrieve return reverse roll
rotate round run sample save scale scan schedule scrape search select send separate set show shift shorten shuffle
simplify simulate sketch slice solve sort split square stack stop store strip subtract suggest sum summarise summarize
suppress swap tabulate take tally tell test throw toggle tokenise tokenize track train transform translate transpose
traverse trim truncate turn unpack update use validate verify visualise visualize weigh work wrap write zip come
conceive
`)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}
