package main

import "strings"

// unseenKindsB combine, in ways that training never shows, what it does show about texts, lists, dictionaries and classes.
var unseenKindsB = []Kind{
	{
		Name: "filter_then_sort",
		Held: []string{
			"Print the numbers that are greater than $k, sorted in descending order.",
			"Keep only the numbers greater than $k and show them from the largest to the smallest.",
			"Which of these numbers are greater than $k? Print them as a list in descending order.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			numbers := d.Distinct(6, 8, 1, 99)
			return Slots{"numbers": numbers, "k": middle(d, numbers)}
		},
		Code: "numbers = $numbers\nresult = sorted([number for number in numbers if number > $k], reverse=True)\nprint(result)",
		Check: printedNumbers + `
expected, rest = [], [n for n in $numbers if not n <= $k]
while rest:
    expected.append(max(rest))
    rest.remove(max(rest))
assert got == expected
`,
		Wrong: []string{
			"numbers = $numbers\nresult = sorted([number for number in numbers if number > $k] + [0])\nprint(result)",
			"numbers = $numbers\nresult = sorted(numbers, reverse=True)\nprint(result, $k)",
		},
	},
	{
		Name: "join_long_words",
		Held: []string{
			"Join all words that have more than $n letters with \"$sep\" and print the result.",
			"Print the words longer than $n letters as one string, separated by \"$sep\".",
			"Make one string out of the words with more than $n letters, with \"$sep\" between them, and print it.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			for {
				words, n := d.Words(5, 7), d.Int(3, 4)
				if len(words[0]) > n && len(words[1]) > n && len(words[2]) <= n {
					d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
					return Slots{"words": words, "n": n, "sep": pick(d, "-", ", ", " + ", "/", "_")}
				}
			}
		},
		Code: `
words = $words
long_words = [word for word in words if len(word) > $n]
print("$sep".join(long_words))
`,
		Check: printedText + `
expected = ""
for word in $words:
    if word[$n:]:
        expected += ("$sep" if expected else "") + word
assert got == expected
`,
	},
	{
		Name: "sum_of_filtered_dict",
		Held: []string{
			"Add up the values of the dictionary that are greater than $k and print the sum.",
			"What is the total of all the values in this dictionary that are greater than $k? Print it.",
			"Print the sum of the dictionary's values, counting only values greater than $k.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			values := d.Distinct(5, 5, 2, 99)
			return Slots{"name": dictName(d), "dict": dict(d.Words(5, 5), values), "k": middle(d, values)}
		},
		Code: "$name = $dict\ntotal = sum(value for value in $name.values() if value > $k)\nprint(total)",
		Check: printedNumbers + `
expected = sum($dict.values())
for value in $dict.values():
    if value <= $k:
        expected -= value
assert got[-1:] == [expected]
`,
	},
	{
		Name: "vowels_per_word",
		Held: []string{
			"Print a list with the number of vowels in each word.",
			"How many vowels does each of these words have? Print the counts as a list.",
			"Make a list that says for every word how many vowels it contains, and print it.",
		},
		Input: "$words",
		Draw:  func(d Draw) Slots { return Slots{"words": d.Words(4, 6)} },
		Code: `
words = $words
counts = [sum(1 for letter in word if letter in "aeiou") for word in words]
print(counts)
`,
		Check: printedNumbers + `
import re
assert got == [len(re.findall("[aeiou]", word)) for word in $words]
`,
	},
	{
		Name: "reverse_each_word",
		Held: []string{
			"Reverse every word of the text, but keep the words in their order.",
			"Print the text with the letters of each word reversed. The order of the words stays the same.",
			"Turn around the letters of each word in this text, word by word, and print the new text.",
		},
		Input: "$text",
		Draw:  func(d Draw) Slots { return Slots{"text": d.Phrase(3, 5)} },
		Code: `
text = "$text"
words = [word[::-1] for word in text.split()]
print(" ".join(words))
`,
		Check: printedText + `assert got.split() == ["".join(reversed(word)) for word in "$text".split()]`,
	},
	{
		Name: "upper_case_dict",
		Held: []string{
			"Make a dictionary that maps each word to the word in upper case, and print it.",
			"Print a dictionary in which every word is a key and the same word in upper case is its value.",
			"Build a dictionary from each of the words to its upper case form and show it.",
		},
		Input: "$words",
		Draw:  func(d Draw) Slots { return Slots{"words": d.Words(3, 5)} },
		Code: `
words = $words
result = {word: word.upper() for word in words}
print(result)
`,
		Check: printedDict + `assert got == {word: "".join(chr(ord(letter) - 32) for letter in word) for word in $words}`,
	},
	{
		Name: "longest_words_first",
		Held: []string{
			"Sort the words by length with the longest first and print the first $n of them as a list.",
			"Print a list of the $n longest words, the longest one first.",
			"Order the words from long to short and show the first $n as a list.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			words := differentLengths(d)
			return Slots{"words": words, "n": d.Int(2, len(words)-1)}
		},
		Code: `
words = $words
by_length = sorted(words, key=len, reverse=True)
print(by_length[:$n])
`,
		Check: printedWords + `
rest, expected = list($words), []
while len(expected) < $n:
    longest = max(rest, key=len)
    rest.remove(longest)
    expected.append(longest)
assert got == expected
`,
	},
	{
		Name: "unique_sorted_first",
		Held: []string{
			"Remove the duplicates, sort the numbers in ascending order, and print the first $n of them.",
			"Print the $n smallest different numbers of the list in ascending order.",
			"Sort the distinct numbers of the list and print a list of the first $n.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			numbers := d.Distinct(5, 5, 1, 99)
			numbers = append(numbers, min(numbers[0], numbers[1], numbers[2], numbers[3]), numbers[4])
			d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
			return Slots{"numbers": numbers, "n": d.Int(2, 4)}
		},
		Code: `
numbers = $numbers
unique = sorted(set(numbers))
print(unique[:$n])
`,
		Check: printedNumbers + `assert got == [n for n in range(1, 100) if n in $numbers][:$n]`,
		Wrong: []string{
			"numbers = $numbers\nunique = sorted(numbers, reverse=True)\nprint(unique[:$n])",
			"numbers = $numbers\nunique = sorted(set(numbers))\nprint(unique)",
			"numbers = $numbers\nprint(sorted(set(numbers))[-$n:])",
		},
	},
	{
		Name: "flat_extreme",
		Held: []string{
			"Print the $most number in the nested list.",
			"Find the $most of all the numbers in these inner lists and print it.",
			"Flatten the list of lists and print its $most number.",
		},
		Input: "$rows",
		Draw: func(d Draw) Slots {
			most := pick(d, [2]string{"largest", "max"}, [2]string{"smallest", "min"})
			return Slots{"rows": nested(d, 2, 3, 3, 3), "most": most[0], "call": most[1]}
		},
		Derived: []string{"call"},
		Code: `
rows = $rows
flat = [number for row in rows for number in row]
print($call(flat))
`,
		Check: printedNumbers + `assert got[-1:] == [sorted(sum($rows, []))[-1 if "$most" == "largest" else 0]]`,
		Wrong: []string{
			"rows = $rows\nprint($call(rows))",
			"rows = $rows\nflat = [number for row in rows for number in row]\nprint(sum(flat))",
			"rows = $rows\nflat = [number for row in rows for number in row]\nprint(len(flat) + 100)",
		},
	},
	{
		Name: "count_prefix_function",
		Held: []string{
			"Write a function $fn(words) that returns how many of the words start with \"$part\".",
			"Create a function $fn that takes a list of words and counts those that start with \"$part\".",
			"I need a function named $fn that returns the number of words in a list which start with \"$part\".",
		},
		Draw: func(d Draw) Slots {
			return Slots{"part": d.Word()[:2], "fn": pick(d, "count_words", "count_matches", "count_starts", "how_many", "number_of_words")}
		},
		Code: "def $fn(words):\n    return sum(1 for word in words if word.startswith(\"$part\"))",
		Check: gives + `
for words in [[], ["$part"], ["x$part", "$part" + "x", "$part$part"], ["$part"[0], "river", "$part" + "ab"], ["$part"] * 5]:
    assert gives($fn, len([w for w in words if w[:2] == "$part"]), words)
`,
	},
	{
		Name: "names_of_dicts_above",
		Held: []string{
			"Print a list of the names of all people whose $field is greater than $k.",
			"Which people have a $field greater than $k? Print a list of their names.",
			"Get the name of each person with a $field greater than $k and print the names as a list.",
		},
		Input: "people = $people",
		Draw: func(d Draw) Slots {
			field := pick(d, "age", "score", "height", "level")
			names, numbers := d.Names(3, 3), d.Distinct(3, 3, 5, 99)
			var people []string
			for i, name := range names {
				people = append(people, "{\"name\": \""+name+"\", \""+field+"\": "+python(numbers[i])+"}")
			}
			return Slots{"people": "[" + strings.Join(people, ", ") + "]", "field": field, "k": middle(d, numbers)}
		},
		Code: `
people = $people
names = [person["name"] for person in people if person["$field"] > $k]
print(names)
`,
		Check: printedWords + `
expected = [person["name"] for person in $people]
for person in $people:
    if not person["$field"] > $k:
        expected.remove(person["name"])
assert got == expected
`,
	},
	{
		Name: "upper_words_with_letter",
		Held: []string{
			"Print a list of the words that start with \"$letter\", in upper case.",
			"Take the words that start with \"$letter\", change them to upper case, and print them as a list.",
			"Make a list of all the words beginning with \"$letter\", written in upper case, and print it.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			for {
				words := d.Words(5, 7)
				letter := words[0][:1]
				count := 0
				for _, w := range words {
					if w[:1] == letter {
						count++
					}
				}
				if count > 1 {
					return Slots{"words": words, "letter": letter}
				}
			}
		},
		Code: `
words = $words
result = [word.upper() for word in words if word.startswith("$letter")]
print(result)
`,
		Check: printedWords + `assert got == [w for w in map(str.upper, $words) if w[0] == "$letter".upper()]`,
	},
	{
		Name: "sorted_merge",
		Held: []string{
			"Combine the two lists into one and print it in $order order.",
			"Put the numbers of both lists together in one list, in $order order, and print it.",
			"Merge these lists and show all of the numbers in $order order.",
		},
		Input: "first = $first\nsecond = $second",
		Draw: func(d Draw) Slots {
			order := pick(d, [2]string{"ascending", "sorted(first + second)"}, [2]string{"descending", "sorted(first + second, reverse=True)"})
			numbers := d.Distinct(8, 8, 1, 99)
			cut := d.Int(3, 5)
			return Slots{"first": numbers[:cut], "second": numbers[cut:], "order": order[0], "call": order[1]}
		},
		Derived: []string{"call"},
		Code: `
first = $first
second = $second
merged = $call
print(merged)
`,
		Check: printedNumbers + `
expected = [n for n in range(100) if n in $first or n in $second]
assert got == (expected if "$order" == "ascending" else expected[::-1])
`,
	},
	{
		Name: "account_class",
		Held: []string{
			"Write a class $cls with an attribute $attr that starts at $start, a method $up(n) that adds n to it, and a method $down(n) that subtracts n from it.",
			"Create a class $cls. Its $attr is $start at first. The method $up adds a number to $attr and the method $down takes a number away from it.",
			"I need a class named $cls with $attr set to $start, where $up(n) increases $attr by n and $down(n) decreases it by n.",
		},
		Draw: func(d Draw) Slots {
			words := strings.Fields(pick(d, "Account balance deposit withdraw", "Tank level fill drain", "Lamp brightness raise_by dim",
				"Wallet money earn spend", "Train speed accelerate brake", "Lift floor go_up go_down"))
			return Slots{"cls": words[0], "attr": words[1], "up": words[2], "down": words[3], "start": d.Int(2, 99)}
		},
		Code: `
class $cls:
    def __init__(self):
        self.$attr = $start

    def $up(self, n):
        self.$attr += n

    def $down(self, n):
        self.$attr -= n
`,
		Check: `
one, two = $cls(), $cls()
assert one.$attr == $start
one.$up(30)
assert one.$attr - 30 == $start
one.$down(12)
assert one.$attr - 18 == $start and two.$attr == $start
two.$down(1)
assert two.$attr + 1 == $start
`,
	},
	{
		Name: "group_by_length",
		Held: []string{
			"Group the words by their length in a dictionary and print it.",
			"Print a dictionary whose keys are word lengths and whose values are lists of the words with that length.",
			"Make a dictionary that has a list of words for each word length, and print it.",
		},
		Input: "$words",
		Draw:  func(d Draw) Slots { return Slots{"words": d.Words(4, 6)} },
		Code: `
words = $words
groups = {}
for word in words:
    groups.setdefault(len(word), []).append(word)
print(groups)
`,
		Check: `
import re
got = {int(key): re.findall(r"[a-z]+", items) for key, items in re.findall(r"(\d+)['\"]?: *\[(.*?)\]", printed)}
assert got == {n: [w for w in $words if len(w) == n] for n in set(map(len, $words))}
`,
	},
	{
		Name: "replace_and_case",
		Held: []string{
			"Replace \"$old\" with \"$new\" in the text and print it in upper case.",
			"Print the text in upper case after \"$old\" has been replaced by \"$new\".",
			"Change \"$old\" to \"$new\" in the text and show the result in upper case.",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			text := d.Sentence()
			parts := strings.Fields(text)
			return Slots{"text": text, "old": parts[len(parts)-1], "new": d.Word()}
		},
		Code: `
text = "$text"
result = text.replace("$old", "$new").upper()
print(result)
`,
		Check: printedText + `assert got == "".join(c.upper() for c in "$new".join("$text".split("$old")))`,
	},
	{
		Name: "map_pairs",
		Held: []string{
			"Print a list with $k added to the number in each tuple. The names stay as they are.",
			"Add $k to the second item of every tuple and print the new list of tuples.",
			"Make a list of the same pairs with each number $k larger, and print it.",
		},
		Input: "$pairs",
		Draw: func(d Draw) Slots {
			names := d.Names(3, 4)
			return Slots{"pairs": pairs(names, d.Distinct(4, 4, 10, 99)), "k": d.Int(2, 50)}
		},
		Code: `
pairs = $pairs
result = [(name, number + $k) for name, number in pairs]
print(result)
`,
		Check: `
import re
got = re.findall(r"[A-Za-z]+|\d+", re.sub(r"^[^\[(]*[\[(]", "", printed))
expected = []
for pair in $pairs:
    expected += [pair[0], str(pair[1] + $k)]
assert got == expected
`,
	},
}
