package voice

import "strings"

// Keyword returns the most telling noun of a question: the earliest entry of a fixed list of programming subjects,
// particular ones such as "palindrome" before general ones such as "list". It is "" when none occurs.
func Keyword(question string) string {
	if len(question) > 4096 {
		question = question[:4096]
	}
	text, _, _ := strings.Cut(question, "\n") // what follows is input data
	var b strings.Builder
	b.WriteByte(' ')
	for _, t := range tokens(text, -1) {
		b.WriteString(t.word)
		b.WriteByte(' ')
	}
	padded := b.String()
	for _, k := range keywords {
		if strings.Contains(padded, k.one) || k.many != "" && strings.Contains(padded, k.many) {
			return k.text
		}
	}
	return ""
}

// A keyword is a subject and its two forms in padded text: in lower case, between spaces.
type keyword struct{ text, one, many string }

func keywordsOf(list string) (all []keyword) {
	padded := func(form string) string {
		if form == "" {
			return ""
		}
		return " " + strings.ToLower(strings.ReplaceAll(form, "-", " ")) + " "
	}
	for text := range strings.SplitSeq(list, "\n") {
		all = append(all, keyword{text, padded(text), padded(plural(text))})
	}
	return all
}

// keywords are the subjects that Keyword knows, the particular before the general.
var keywords = keywordsOf(`palindrome
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
prefix
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
class`)
