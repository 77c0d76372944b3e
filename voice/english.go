package voice

import (
	"fmt"
	"strings"
)

// suggest returns ": did you mean …?" with the most similar name. If none is similar, it returns all names, or "" if
// there are many.
func suggest(word string, names []string) string {
	best, distance := "", 3
	for _, n := range names {
		if d := editDistance(word, n, distance); d < distance {
			best, distance = n, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(": did you mean %q?", best)
	case 0 < len(names) && len(names) <= 40:
		return ": use one of " + strings.Join(names, ", ")
	}
	return ""
}

// editDistance returns the Levenshtein distance of two words, but at most limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}

// clip truncates a text for an error message.
func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:57], "") + "..."
}

var ones = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen " +
	"fifteen sixteen seventeen eighteen nineteen")
var tens = strings.Fields("- - twenty thirty forty fifty sixty seventy eighty ninety")

// numberWord returns a number from 0 to 99 in words.
func numberWord(n int) string {
	switch {
	case n < 20:
		return ones[n]
	case n%10 == 0:
		return tens[n/10]
	}
	return tens[n/10] + "-" + ones[n%10]
}

// irregular has the irregular plurals of the nouns that Keyword returns; "" if there is no plural.
var irregular = map[string]string{
	"matrix": "matrices", "leap year": "leap years", "recursion": "", "inheritance": "", "JSON": "", "CSV": "",
	"HTML": "", "XML": "", "punctuation": "", "whitespace": "", "Fibonacci": "", "FizzBuzz": "", "regression": "",
	"encryption": "", "sentiment": "", "temperature": "", "hangman": "", "tic-tac-toe": "", "blackjack": "", "SQL": "",
	"text": "", "run-length encoding": "", "binary search": "binary searches", "bubble sort": "", "insertion sort": "",
	"selection sort": "", "merge sort": "", "quicksort": "", "polymorphism": "", "Levenshtein": "", "Collatz": "",
	"GCD": "", "LCM": "",
}

// plural returns the plural of a noun, or "" if it has none.
func plural(noun string) string {
	if p, ok := irregular[noun]; ok || noun == "" {
		return p
	}
	switch last := noun[len(noun)-1]; {
	case last == 's' || last == 'x' || last == 'z' || strings.HasSuffix(noun, "ch") || strings.HasSuffix(noun, "sh"):
		return noun + "es"
	case last == 'y' && len(noun) > 1 && !isVowel(noun[len(noun)-2]):
		return noun[:len(noun)-1] + "ies"
	}
	return noun + "s"
}

// doubled has verbs that double their last consonant although they have several syllables.
var doubled = map[string]bool{
	"admit": true, "begin": true, "debug": true, "format": true, "input": true, "output": true, "permit": true,
	"program": true, "refer": true, "reformat": true, "submit": true, "transfer": true, "unzip": true,
}

// gerund returns the -ing form of a verb.
func gerund(verb string) string {
	n := len(verb)
	if n < 2 {
		return verb + "ing"
	}
	last := verb[n-1]
	switch {
	case strings.HasSuffix(verb, "ie"):
		return verb[:n-2] + "ying"
	case last == 'e' && !strings.HasSuffix(verb, "ee") && verb != "be":
		return verb[:n-1] + "ing"
	case n >= 3 && !isVowel(last) && !strings.ContainsRune("wxy", rune(last)) && isVowel(verb[n-2]) && !isVowel(verb[n-3]):
		groups := 0
		for i := range n {
			if isVowel(verb[i]) && (i == 0 || !isVowel(verb[i-1])) {
				groups++
			}
		}
		if groups == 1 || doubled[verb] {
			return verb + string(last) + "ing"
		}
	}
	return verb + "ing"
}

func isVowel(c byte) bool { return strings.IndexByte("aeiou", c) >= 0 }

// gerundClause turns "write a function" into "writing a function". It returns "" if a second imperative follows,
// because "writing a list and print it" is not English.
func gerundClause(ask string) string {
	verb, rest, _ := strings.Cut(ask, " ")
	if verb == "" {
		return ""
	}
	words := strings.Fields(rest)
	infinitive := false
	for i, w := range words {
		if w == "to" && i+1 < len(words) && imperatives[words[i+1]] {
			infinitive = true // later verbs depend on this one: "writing a function to find and print it"
		}
		if i > 1 && imperatives[w] && words[i-1] == "and" && strings.HasSuffix(words[i-2], ",") {
			return "" // a comma before "and" ends the dependent clause
		}
		if i > 0 && imperatives[w] && !infinitive {
			switch words[i-1] {
			case "and", "then", "or", "but":
				return ""
			}
			if strings.HasSuffix(words[i-1], ",") {
				return ""
			}
		}
	}
	return strings.TrimSpace(gerund(verb) + " " + rest)
}
