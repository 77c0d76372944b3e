package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// verbs are the first words of imperative phrasings.
var verbs = strings.Fields(`
	Add Append Apply Ask Build Calculate Change Check Collect Combine Compare Complete Compute Concatenate Construct
	Convert Copy Count Create Decide Define Delete Demonstrate Derive Design Determine Develop Display Divide Double
	Draw Drop Encode Evaluate Exchange Extract Figure Fill Filter Find Flatten Format Generate Get Give Go Group
	Identify Implement Import Insert Join Keep List Locate Loop Lowercase Make Map Measure Merge Model Move Multiply
	Name Negate Obtain Order Output Pair Pick Prepare Print Produce Program Provide Put Raise Rearrange Remove Rename
	Repeat Replace Report Return Reverse Rewrite Rotate Round Search Select Show Sort Split Square Start Store Strip
	Subtract Sum Supply Swap Take Tell Test Transform Trim Truncate Turn Uppercase Use Verify Work Wrap Write`)

// imperative reports whether a phrasing starts with one of verbs.
func imperative(line string) bool {
	first, _, _ := strings.Cut(line, " ")
	for _, verb := range verbs {
		if first == verb {
			return true
		}
	}
	return false
}

var choicePattern = regexp.MustCompile(`\{([^{}]*\|[^{}]*)\}`)

// choose resolves the {a|b} choices of a phrasing at random.
func choose(d Draw, line string) string {
	return choicePattern.ReplaceAllStringFunc(line, func(choice string) string {
		return pick(d, strings.Split(choice[1:len(choice)-1], "|")...)
	})
}

// decorate wraps a phrasing in one of the ways in which people wrap any request. About half of the phrasings stay
// unchanged.
func decorate(d Draw, line string) string {
	single := !strings.Contains(line, ". ") && !strings.Contains(line, "? ") && !strings.Contains(line, ": ")
	python := strings.Contains(line, "Python")
	lower := string(unicode.ToLower(rune(line[0]))) + line[1:]
	stem := strings.TrimSuffix(lower, ".")
	roll := d.IntN(20)
	switch {
	case !imperative(line):
		if roll < 3 && !python {
			return line + " Use Python."
		}
		return line
	case roll < 2:
		return "Please " + lower
	case roll < 4 && !python:
		return pick(d, "In Python, ", "Using Python, ") + lower
	case roll < 5 && !python:
		return line + pick(d, " Use Python.", " Please use Python.")
	case roll < 7 && single:
		return pick(d, "Can you ", "Could you ") + stem + "?"
	case roll < 8 && single:
		return pick(d, "I want you to ", "I'd like you to ") + lower
	}
	return line
}

var articlePattern = regexp.MustCompile(`\b([Aa]) (\$[a-z][a-z0-9]*)`)

// phrase turns a phrasing into an instruction: it resolves choices, decorates, corrects articles and fills slots.
func phrase(d Draw, line string, slots Slots) (string, error) {
	line = decorate(d, choose(d, line))
	line = articlePattern.ReplaceAllStringFunc(line, func(match string) string {
		article, slot, _ := strings.Cut(match, " ")
		if value, ok := slots[slot[1:]]; ok && vowelSound(python(value)) {
			return article + "n " + slot
		}
		return match
	})
	text, err := fill(line, slots)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(text, "{}|") && choicePattern.MatchString(text) {
		return "", fmt.Errorf("phrasing %q has a choice left over", text)
	}
	return text, nil
}

// vowelSound reports whether "an" is the right article before a word, judging by its first letter, or before a number.
func vowelSound(word string) bool {
	return word != "" && (strings.ContainsRune("aeioAEIO8", rune(word[0])) || word == "11" || word == "18") &&
		!strings.HasPrefix(word, "one")
}

var normalPattern = regexp.MustCompile(`[^a-z0-9]+`)

// normal returns a question without case, spaces and punctuation, for comparisons.
func normal(question string) string {
	return normalPattern.ReplaceAllString(strings.ToLower(question), "")
}

// normalCode returns code with normalized spacing.
func normalCode(code string) string { return strings.Join(strings.Fields(code), " ") }
