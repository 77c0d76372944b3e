package voice

import (
	"regexp"
	"slices"
	"strings"
)

// Keyword returns the most specific subject of a question: the first entry that the question contains of a fixed list
// of programming subjects, in which specific ones such as "palindrome" precede general ones such as "list". It returns
// "" if there is none.
func Keyword(question string) string {
	best := len(keywords)
	for rest := padded(question); len(rest) > 1; {
		length := strings.IndexByte(rest[1:], ' ')
		for _, form := range keywordForms[rest[1:1+length]] {
			if form.rank < best && strings.HasPrefix(rest, form.padded) {
				best = form.rank
			}
		}
		rest = rest[1+length:]
	}
	if best == len(keywords) {
		return ""
	}
	return keywords[best]
}

// quoted matches text in quotation marks, which is data and not a subject.
var quoted = regexp.MustCompile("\"[^\"]*\"")

// naming has words before a name, which is not a subject either.
var naming = []string{"called", "named", "item", "method", "what"}

// padded returns the words of a question's first line in lower case, each between spaces, without quoted text and
// names.
func padded(question string) string {
	if len(question) > 4096 {
		question = question[:4096]
	}
	text, _, _ := strings.Cut(question, "\n") // what follows is input data
	var b strings.Builder
	b.WriteByte(' ')
	before := ""
	for _, t := range tokens(quoted.ReplaceAllString(text, " _ "), -1) {
		if !slices.Contains(naming, before) {
			b.WriteString(t.word)
			b.WriteByte(' ')
		}
		before = t.word
	}
	return b.String()
}

// A keywordForm is the singular or the plural of a subject.
type keywordForm struct {
	padded string // its words, as padded returns them
	rank   int    // index of the subject in keywords
}

// keywordForms has the forms of all keywords, by first word.
var keywordForms = func() map[string][]keywordForm {
	by := map[string][]keywordForm{}
	for rank, subject := range keywords {
		for _, form := range []string{subject, plural(subject)} {
			if words := strings.Fields(strings.ToLower(strings.ReplaceAll(form, "-", " "))); len(words) > 0 {
				by[words[0]] = append(by[words[0]], keywordForm{" " + strings.Join(words, " ") + " ", rank})
			}
		}
	}
	return by
}()

// keywords are the subjects that Keyword knows, the specific before the general.
var keywords = strings.Split(`palindrome
anagram
pangram
Fibonacci
FizzBuzz
Levenshtein
Collatz
hangman
tic-tac-toe
blackjack
leap year
roman numeral
binary search
bubble sort
insertion sort
selection sort
merge sort
quicksort
run-length encoding
caesar cipher
cipher
factorial
prime
perfect square
GCD
LCM
multiplication table
vowel
consonant
permutation
linked list
binary tree
neural network
web scraper
chatbot
calculator
password
email address
phone number
regular expression
decorator
generator
context manager
iterator
recursion
inheritance
polymorphism
bank account
shopping cart
inventory
stack
queue
heap
graph
matrix
triangle
rectangle
circle
polygon
vector
polynomial
equation
median
average
temperature
currency
calendar
date
timestamp
countdown
dice
lottery
histogram
sentiment
regression
encryption
database
spreadsheet
JSON
CSV
HTML
XML
SQL
URL
website
file
duplicate
substring
subsequence
suffix
digit
acronym
punctuation
whitespace
character
word
sentence
paragraph
letter
dictionary
tuple
loop
array
list
string
integer
number
text
function
class`, "\n")
