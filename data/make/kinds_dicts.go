package main

import "strings"

// dictKinds are about dictionaries: looking up, changing, counting, choosing and turning them round.
var dictKinds = []Kind{
	{
		Name: "dict_lookup",
		Ask: []string{
			"Print the value for the key \"$key\".",
			"What does the dictionary say for \"$key\"? Print it.",
			"Look up \"$key\" in the dictionary and print the value.",
			"How do I get the value of \"$key\" from this dictionary?",
			"Write code that prints what is stored under \"$key\".",
			"I need the number that belongs to \"$key\".",
			"Find out which value the key \"$key\" maps to and output it.",
			"Get the entry for \"$key\" and show it.",
			"Read the value of \"$key\" out of the dictionary and print it.",
			"Fetch the item with the key \"$key\" from the dictionary, then print it.",
			"Access the key \"$key\" of this dictionary and print its value.",
			"Show the value that goes with \"$key\" in the dictionary.",
		},
		Held: []string{
			"Display the number that the dictionary holds for \"$key\".",
			"Given the dictionary, output the value of the key \"$key\".",
			"Which number does the dictionary have for \"$key\"? Print it.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			keys := d.Words(3, 5)
			return Slots{"name": dictName(d), "dict": dict(keys, d.Distinct(len(keys), len(keys), 2, 99)), "key": keys[d.IntN(len(keys))]}
		},
		Code:  "$name = $dict\nprint($name[\"$key\"])",
		Check: printedNumbers + `assert got[-1:] == [value for key, value in $dict.items() if key == "$key"]`,
		Wrong: []string{
			"$name = $dict\nprint(\"$key\" in $name)",
			"$name = $dict\nprint(list($name).index(\"$key\") + 100)",
			"$name = $dict\nprint(sum($name.values()))",
		},
	},
	{
		Name: "lookup_default_function",
		Ask: []string{
			"Write a function $fn(data, key) that returns the value of the key in the dictionary, or $default if the key is missing.",
			"Create a function $fn that takes a dictionary and a key and returns the value, with $default as the default.",
			"Develop $fn(data, key) to fetch from a dictionary safely: if the key does not occur, the answer is $default.",
			"I need a function named $fn. It gets a dictionary and a key and returns the value or, if there is none, $default.",
			"How do I write a function $fn(data, key) that falls back to $default for keys that the dictionary does not have?",
			"Implement $fn(data, key) so that it returns data[key] if possible and $default otherwise.",
			"Make a function called $fn that reads a key from a dictionary without an error. Unknown keys give $default. Its arguments are the dictionary and the key.",
			"Given a dictionary and a key, return the value or $default if the key does not exist. Call the function $fn.",
			"Build $fn(data, key): it returns the entry of the dictionary data for the key, and $default for a missing key.",
			"Show me a function $fn that takes a dictionary and a key and uses get to return the value or $default.",
			"Write $fn, a function of a dictionary and a key that returns the stored value, or the number $default when nothing is stored.",
			"Let $fn(data, key) be a lookup in the dictionary data in which $default stands for all absent keys.",
		},
		Held: []string{
			"Define $fn(data, key), which looks the key up in a dictionary and returns $default when it is not there.",
			"A missing key should yield $default. Write the function $fn that takes a dictionary and a key and returns the right value.",
			"What would a function $fn(data, key) be that returns $default whenever the key is not in the dictionary, and else the value?",
		},
		Draw: func(d Draw) Slots {
			return Slots{"default": pick(d, 0, -1, 100, d.Int(2, 99)), "fn": pick(d, "lookup", "get_value", "find_value", "read_key", "fetch", "get_or_default", "safe_get", "value_of", "look_up")}
		},
		Code: "def $fn(data, key):\n    return data.get(key, $default)",
		Check: gives + `
data = {"a": 12345, "b": 0, "c": -7, "d": ""}
for key in ["a", "b", "c", "d", "x", ""]:
    try:
        expected = data[key]
    except KeyError:
        expected = $default
    assert gives($fn, expected, dict(data), key)
assert gives($fn, $default, {}, "a")
`,
	},
	{
		Name: "dict_set",
		Ask: []string{
			"Add the key \"$key\" with the value $value to the dictionary and print it.",
			"Set \"$key\" to $value in this dictionary.",
			"How do I add \"$key\" with the value $value to the dictionary?",
			"Put an entry \"$key\" with the number $value into the dictionary and show it.",
			"Assign $value to the key \"$key\" and display the updated dictionary.",
			"I want the dictionary to have $value for \"$key\" too.",
			"Print the dictionary after \"$key\" was set to $value.",
			"There is no \"$key\" in the dictionary so far. Give it the value $value and output everything.",
			"Insert \"$key\" into the dictionary, with $value as its value.",
			"Let the key \"$key\" have the value $value and print the whole dictionary.",
			"The dictionary needs an entry for \"$key\", which is $value. Add it and print the dictionary.",
			"Extend the dictionary by \"$key\" with the value $value and print it.",
		},
		Held: []string{
			"Write code that stores $value under the key \"$key\".",
			"Given the dictionary, add a new item: the key \"$key\" and the value $value. Print the result.",
			"Save the number $value for \"$key\" in the dictionary below, then print it.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			keys := d.Words(4, 5)
			return Slots{"name": dictName(d), "dict": dict(keys[1:], d.Ints(4, 4, 2, 99)), "key": keys[0], "value": d.Int(2, 99)}
		},
		Code:  "$name = $dict\n$name[\"$key\"] = $value\nprint($name)",
		Check: printedDict + `assert got == {key: str(value) for key, value in [*$dict.items(), ("$key", $value)]}`,
	},
	{
		Name: "dict_delete",
		Ask: []string{
			"Erase \"$key\" with its value and print the remaining dictionary.",
			"Delete \"$key\" from this dictionary.",
			"How do I remove \"$key\" from the dictionary?",
			"Print the dictionary without the key \"$key\".",
			"Write code that deletes the entry for \"$key\" and prints the rest.",
			"I no longer need \"$key\" in this dictionary.",
			"Take the key \"$key\" out of the dictionary and show what is left.",
			"Given the dictionary, delete the item with the key \"$key\" and print it.",
			"Use del to remove the key \"$key\".",
			"All keys except \"$key\" should stay. Output the dictionary that results.",
			"Get rid of the entry \"$key\" and print the dictionary.",
			"The entry for \"$key\" should be deleted. Print the dictionary after that.",
		},
		Held: []string{
			"Make the dictionary forget \"$key\" and display it.",
			"Drop \"$key\" and its value from the dictionary. Print the dictionary.",
			"Remove the key \"$key\" from the dictionary and print it.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			keys := d.Words(3, 5)
			return Slots{"name": dictName(d), "dict": dict(keys, d.Ints(5, 5, 2, 99)), "key": keys[d.IntN(len(keys))]}
		},
		Code:  "$name = $dict\ndel $name[\"$key\"]\nprint($name)",
		Check: printedDict + `assert got == {key: str(value) for key, value in $dict.items() if key != "$key"}`,
	},
	{
		Name: "count_items",
		Ask: []string{
			"Count how often each word occurs and print the dictionary of counts.",
			"Make a dictionary that says how many times each word is in the list.",
			"Turn the list into a dictionary whose values are the counts of its words.",
			"Print a dictionary with every word and its number of occurrences.",
			"Write code that builds a dictionary of word counts.",
			"Tally the words below in a dictionary and display it.",
			"Loop over the words and count them in a dictionary. Print the dictionary.",
			"Given a list of words, print a dictionary of how often each one appears.",
			"Find out how many times each item is repeated and show it as a dictionary.",
			"Create a frequency table of the words, as a dictionary.",
			"For each different word, count its occurrences. Print them as a dictionary.",
			"Go through the list and collect the number of times each word is used in a dictionary.",
		},
		Held: []string{
			"I need the frequency of each word as a dictionary.",
			"Which word stands in the list how often? Output a dictionary that tells.",
			"How do I count the words of this list in a dictionary?",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			few := d.Words(2, 3)
			words := append([]string{}, few...)
			for range d.Int(2, 4) {
				words = append(words, few[d.IntN(len(few))])
			}
			d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			return Slots{"words": words}
		},
		Code: `
words = $words
counts = {}
for word in words:
    counts[word] = counts.get(word, 0) + 1
print(counts)
`,
		Check: printedDict + `assert got == {w: str($words.count(w)) for w in $words}`,
	},
	{
		Name: "count_letters_of_word",
		Ask: []string{
			"Count the letters of \"$word\" in a dictionary and print it.",
			"How often does each letter occur in \"$word\"? Print a dictionary.",
			"Make a dictionary with the number of times each letter is in \"$word\".",
			"Print a dictionary of the letter counts of \"$word\".",
			"Write code that counts every character of the string \"$word\" in a dictionary.",
			"I want a dictionary that shows how many times each letter appears in \"$word\".",
			"Build the letter frequencies of \"$word\" as a dictionary.",
			"Tally up the characters of \"$word\" and display the dictionary you get.",
			"Loop over \"$word\" and count its letters in a dictionary.",
			"Find the frequency of each letter in the word \"$word\" and show it as a dictionary.",
			"For the string \"$word\", output a dictionary: the letters are the keys and their counts the values.",
			"Let a dictionary map each letter of \"$word\" to its number of occurrences. Print it.",
		},
		Held: []string{
			"Given the word \"$word\", count each of its letters and print the dictionary of counts.",
			"How do I get a dictionary with the count of each character in \"$word\"?",
			"Which letters make up \"$word\", and how many of each? Answer with a printed dictionary.",
		},
		Draw: func(d Draw) Slots { return Slots{"word": d.Word() + pick(d, "", d.Word())} },
		Code: `
word = "$word"
counts = {}
for letter in word:
    counts[letter] = counts.get(letter, 0) + 1
print(counts)
`,
		Check: printedDict + `
from collections import Counter
assert got == {letter: str(count) for letter, count in Counter("$word").items()}
`,
	},
	{
		Name: "sort_dict_by_value",
		Ask: []string{
			"Output the pairs of the dictionary such that the values go down from line to line.",
			"Sort the dictionary by value in descending order and print each key and value on a line.",
			"How do I print the items of this dictionary sorted by value, the largest first, line by line?",
			"Put whoever has the most in the first line, then the others, down to the least. Print name and number in each line.",
			"Write code that prints the key and value of each item, with the highest value first.",
			"I need the dictionary printed one entry per line, the biggest value on top.",
			"List all the keys with their values, one to a line, in descending order of the values.",
			"Given the dictionary, print its items sorted by value from largest to smallest, each on a line.",
			"Order the items by number, highest first, and print one name and number per line.",
			"Use sorted with a lambda to print the items by descending value, a line each.",
			"Rank the entries by value: print key and value per line, the largest value first.",
			"Loop over the items in descending order of their values and print key and value.",
		},
		Held: []string{
			"Display a ranking with the top value first: key and value on a line of their own.",
			"Print the names and numbers from the highest number to the lowest, one pair per line.",
			"Show the entries line by line, ordered by their values from high to low.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			keys := d.Names(3, 4)
			return Slots{"name": pick(d, "scores", "points", "ages", "votes", "goals", "marks", "totals"), "dict": dict(keys, d.Distinct(4, 4, 2, 99))}
		},
		Code: `
$name = $dict
for key, value in sorted($name.items(), key=lambda item: item[1], reverse=True):
    print(key, value)
`,
		Check: `
import re
got = [re.findall(r"[A-Za-z]+|\d+", line) for line in printed.strip().splitlines()]
rest, expected = dict($dict), []
while rest:
    best = max(rest, key=rest.get)
    expected.append([best, str(rest.pop(best))])
assert got == expected
`,
	},
	{
		Name: "filter_dict",
		Ask: []string{
			"Keep only the entries with a value $how than $k and print the dictionary.",
			"Print a dictionary of the items whose values are $how than $k.",
			"How do I filter this dictionary for values $how than $k?",
			"Use a dictionary comprehension to select the entries that are $how than $k.",
			"Write code that makes a new dictionary from the items with values $how than $k.",
			"Pick the pairs out of the dictionary in which the number is $how than $k, and print them as a dictionary.",
			"Given the dictionary, print the part of it in which the values are $how than $k.",
			"Select the items with a number $how than $k and show them as a dictionary.",
			"Discard all entries unless their value is $how than $k and display the new dictionary.",
			"Filter the dictionary so that only values $how than $k remain.",
			"Build a smaller dictionary with all the values that are $how than $k, and print it.",
			"Take the dictionary and keep each item if its value is $how than $k. Print what you kept.",
		},
		Held: []string{
			"Which entries have a value $how than $k? Print them as a dictionary.",
			"Output a dictionary with the same keys and values, limited to values $how than $k.",
			"I need a dictionary of just those entries whose value is $how than $k.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			how := pick(d, [2]string{"greater", ">"}, [2]string{"higher", ">"}, [2]string{"less", "<"}, [2]string{"lower", "<"})
			keys, values := d.Words(4, 5), d.Distinct(5, 5, 2, 99)
			return Slots{"name": dictName(d), "dict": dict(keys, values), "k": middle(d, values[:len(keys)]), "how": how[0], "op": how[1]}
		},
		Derived: []string{"op"},
		Code: `
$name = $dict
result = {key: value for key, value in $name.items() if value $op $k}
print(result)
`,
		Check: printedDict + `
expected = {}
for key, value in $dict.items():
    if value != $k and (value < $k) == ("$how" in ("less", "lower")):
        expected[key] = str(value)
assert got == expected
`,
	},
	{
		Name: "invert_dict",
		Ask: []string{
			"Swap the keys and values of the dictionary and print it.",
			"Create the opposite mapping of the dictionary below and output it.",
			"How do I turn the keys into values and the values into keys?",
			"Use a dictionary comprehension to exchange keys and values.",
			"Write code that prints the dictionary with keys and values swapped.",
			"I want a dictionary in which the numbers are the keys and the words are the values.",
			"Make a dictionary from value to key and print it.",
			"Given the dictionary, print its inverse.",
			"Flip the dictionary around: each value should lead to its key. Print it.",
			"Print a dictionary where key and value of each entry have changed places.",
			"Let every key trade places with its value and display the new dictionary.",
			"Reverse the mapping of the dictionary, from numbers back to words, and print it.",
		},
		Held: []string{
			"Build the inverted dictionary and show it.",
			"Invert this dictionary, so that the values become the keys.",
			"The values are all different, so they can serve as keys. Print the dictionary turned round like that.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			return Slots{"name": dictName(d), "dict": dict(d.Words(3, 5), d.Distinct(5, 5, 2, 99))}
		},
		Code: `
$name = $dict
inverted = {value: key for key, value in $name.items()}
print(inverted)
`,
		Check: printedDict + `assert got == dict(zip(map(str, $dict.values()), $dict))`,
	},
	{
		Name: "merge_dicts",
		Ask: []string{
			"Merge the two dictionaries and print the result. For a key that is in both, the second one counts.",
			"Combine both dictionaries into one, with the second taking precedence, and print it.",
			"How do I merge these dictionaries so that values of the second replace those of the first?",
			"Output one dictionary that has every key of the two, with the value of the second if it has one.",
			"Write code that joins the dictionaries, the second overriding the first, and prints the result.",
			"I need a single dictionary with all entries. The second dictionary wins when both have a key.",
			"Overlay the first dictionary with the second one, and print the merged dictionary.",
			"Given two dictionaries, print a merged one that prefers values of the second.",
			"Put the items of the second dictionary into the first, replacing what is there, and show it.",
			"Unite the two dictionaries in a new one. Values from the second should be kept for shared keys. Print it.",
			"Print all entries of both dictionaries as one dictionary, letting the second overwrite the first.",
			"Build a dictionary from both of these, where the second has the last word, and print it.",
		},
		Held: []string{
			"Bring both dictionaries together; where they disagree, trust the second. Display the outcome.",
			"Make one dictionary out of the two. If a key occurs twice, use the value from the second.",
			"Update the first dictionary with the second and print it.",
		},
		Input: "first = $first\nsecond = $second",
		Draw: func(d Draw) Slots {
			keys := d.Words(4, 5)
			return Slots{"first": dict(keys[:3], d.Ints(3, 3, 2, 49)), "second": dict(keys[d.Int(1, 2):], d.Ints(4, 4, 50, 99))}
		},
		Code: `
first = $first
second = $second
merged = {**first, **second}
print(merged)
`,
		Check: printedDict + `
expected = {}
for part in ($first, $second):
    for key in part:
        expected[key] = str(part[key])
assert got == expected
`,
	},
	{
		Name: "dict_from_lists",
		Ask: []string{
			"Make a dictionary from the two lists: the keys from the first, the values from the second.",
			"Use zip to build a dictionary out of the two lists and print it.",
			"How do I turn a list of keys and a list of values into a dictionary?",
			"Print a dictionary that maps each key of the first list to the value at the same place in the second.",
			"Combine the lists to a dictionary and print it.",
			"Write code that creates a dictionary with these keys and values.",
			"I have a list of keys and a list of values and need a dictionary.",
			"Given the keys and the values, print the dictionary that they form.",
			"From these parallel lists, one of keys and one of values, construct a dictionary and print it.",
			"Let each key get the value at the same index, and print the dictionary.",
			"Build a dictionary from the lists below.",
			"Match keys and values by their position and display them as a dictionary.",
		},
		Held: []string{
			"Create a dictionary in which every key has its value from the other list. Print it.",
			"Convert the pair of lists into a single dictionary, then output it.",
			"Pair the keys with the values in a dictionary and show it.",
		},
		Input: "keys = $keys\nvalues = $values",
		Draw: func(d Draw) Slots {
			keys := d.Words(3, 5)
			return Slots{"keys": keys, "values": d.Ints(len(keys), len(keys), 2, 99)}
		},
		Code: `
keys = $keys
values = $values
result = dict(zip(keys, values))
print(result)
`,
		Check: printedDict + `
values = $values
assert got == {key: str(values[i]) for i, key in enumerate($keys)}
`,
	},
	{
		Name: "sum_of_dict_values",
		Ask: []string{
			"Add up all the values of the dictionary.",
			"Determine how much all of the entries amount to together and display it.",
			"What is the total of the values in this dictionary? Print it.",
			"How do I sum the values of a dictionary like this?",
			"Ignore the keys and total the numbers of the dictionary. Print the total.",
			"I need the sum of all values below, whatever their keys.",
			"Given the dictionary, print what its values add up to.",
			"Compute the total over all entries of the dictionary.",
			"Find the sum of the numbers that the dictionary holds and show it.",
			"Use sum and values to get the total.",
			"Sum up the values and print one number.",
			"Take the dictionary and output the total of its values.",
		},
		Held: []string{
			"Print the sum of the dictionary's values.",
			"Write code that prints the total of all the numbers in the dictionary.",
			"All the values added together: which number is that? Output it.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			return Slots{"name": dictName(d), "dict": dict(d.Words(3, 5), d.Distinct(5, 5, 2, 99))}
		},
		Code: "$name = $dict\ntotal = sum($name.values())\nprint(total)",
		Check: printedNumbers + `
expected = 0
for key in $dict:
    expected += $dict[key]
assert got[-1:] == [expected]
`,
	},
	{
		Name: "best_key",
		Ask: []string{
			"Print the name with the $most number.",
			"Who has the $most value in the dictionary? Print the name.",
			"Find the key with the $most value and print it.",
			"How do I get the name that has the $most value?",
			"Write code that prints the key whose value is the $most.",
			"I need the name of the person with the $most number.",
			"One entry has the $most value. Print its key.",
			"Show who has the $most number of all.",
			"Look for the $most value in the dictionary and print its key.",
			"Pick from the dictionary the name that goes with the $most of the numbers and print it.",
			"Go by the values: print the name that comes with the $most one.",
			"Output the name for which the number is the $most.",
		},
		Held: []string{
			"Determine whose number is the $most and display that name.",
			"Given the dictionary, print the key that belongs to the $most value.",
			"Which key has the $most value? Print it.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			most := pick(d, [2]string{"highest", "max"}, [2]string{"largest", "max"}, [2]string{"lowest", "min"}, [2]string{"smallest", "min"})
			return Slots{
				"name": pick(d, "scores", "points", "ages", "votes", "goals", "marks", "totals"), "dict": dict(d.Names(4, 5), d.Distinct(5, 5, 2, 99)),
				"most": most[0], "call": most[1],
			}
		},
		Derived: []string{"call"},
		Code:    "$name = $dict\nbest = $call($name, key=$name.get)\nprint(best)",
		Check: `
import re
ranking = sorted($dict.items(), key=lambda item: item[1])
expected = ranking[-1 if "$most" in ("highest", "largest") else 0][0]
assert [word for word in re.findall(r"[A-Za-z]+", printed) if word in $dict] == [expected]
`,
		Wrong: []string{
			"$name = $dict\nbest = $call($name.values())\nprint(best)",
			"$name = $dict\nfor key in $name:\n    print(key)",
			"$name = $dict\nbest = $call($name, key=lambda key: -$name[key])\nprint(best)",
		},
	},
	{
		Name: "change_all_values",
		Ask: []string{
			"Add $k to every value of the dictionary and print it.",
			"Increase all values by $k.",
			"Give each key a value that is higher by $k and display the dictionary.",
			"Raise each number in the dictionary by $k and show the dictionary.",
			"Write code that makes every value $k larger and prints the dictionary.",
			"I want all the values to go up by $k.",
			"Loop over the keys and increase each value by $k, then print the dictionary.",
			"Given the dictionary, print it with $k added to each value.",
			"Every entry gets $k more. Print the new dictionary.",
			"Update the dictionary by adding $k to all its numbers, and print it.",
			"Print the dictionary after each value has grown by $k.",
			"Output the same dictionary with its values all raised by $k.",
		},
		Held: []string{
			"How do I add $k to each value in this dictionary?",
			"Everyone should have $k more than now. Change the dictionary like that and print it.",
			"Take the dictionary, add $k to each of its values, and output it.",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			return Slots{"name": dictName(d), "dict": dict(d.Words(3, 4), d.Distinct(5, 5, 2, 99)), "k": d.Int(2, 50)}
		},
		Code: `
$name = $dict
for key in $name:
    $name[key] += $k
print($name)
`,
		Check: printedDict + `assert got == {key: str(value + $k) for key, value in $dict.items()}`,
	},
	{
		Name: "field_of_dicts",
		Ask: []string{
			"Print a list with the $field of each {person|entry}.",
			"Get the value of \"$field\" from every dictionary in the list and print them as a list.",
			"How do I make a list of the \"$field\" values of these dictionaries?",
			"Use a list comprehension to collect the $field of every person.",
			"Reduce each dictionary to its \"$field\" and display the values in a list.",
			"I need a list of the \"$field\" entries of all the dictionaries.",
			"Given a list of dictionaries, print a list of what each one has for \"$field\".",
			"I am only interested in the $field of each of them. Output a list of that.",
			"From every dictionary take the value of \"$field\", and print all of them in one list.",
			"Make a new list that holds just the $field of each entry, and print it.",
			"Go through the list and collect the value for the key \"$field\". Print the collected list.",
			"Show the $field of every entry, as a list.",
		},
		Held: []string{
			"Write code that prints a list of all the values stored under \"$field\".",
			"Extract the $field of each person into a list.",
			"Pull \"$field\" out of each of the dictionaries and print the list that you get.",
		},
		Input: "people = $people",
		Draw: func(d Draw) Slots {
			other := pick(d, "age", "score", "points", "level", "height", "size")
			field := pick(d, "name", other)
			var people []string
			for _, name := range d.Names(2, 3) {
				people = append(people, "{\"name\": \""+name+"\", \""+other+"\": "+python(d.Int(5, 99))+"}")
			}
			return Slots{"people": "[" + strings.Join(people, ", ") + "]", "field": field}
		},
		Code: `
people = $people
result = [person["$field"] for person in people]
print(result)
`,
		Check: `
import re
got = re.findall(r"[A-Za-z]+|\d+", re.sub(r"^[^\[:]*[\[:]", "", printed))
assert got == [str(value) for person in $people for key, value in person.items() if key == "$field"]
`,
	},
	{
		Name: "group_words",
		Ask: []string{
			"Classify the words below by what letter comes first. Print the dictionary of word lists.",
			"Make a dictionary that lists the words for each first letter.",
			"How do I group these words by the letter they start with?",
			"Print a dictionary whose keys are first letters and whose values are lists of words.",
			"Write code that sorts the words into a dictionary by first letter.",
			"I need a dictionary with the words grouped by their initial letter.",
			"Collect the words in lists by first letter and print the dictionary of lists.",
			"Given a list of words, build a dictionary from first letter to words, and print it.",
			"Put all words with the same first letter in one list of a dictionary, and show it.",
			"For every initial, the dictionary should have a list of the words with that initial. Output it.",
			"Create an index of the words: a dictionary from the first letter to the list of words.",
			"Group this list by first letter and output the groups as a dictionary.",
		},
		Held: []string{
			"Arrange the words in a dictionary according to the letter with which they begin, and display it.",
			"Let each first letter be a key with a list of its words. Print the dictionary.",
			"Group the words by their first letter in a dictionary and print it.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			for {
				words := d.Words(4, 6)
				seen := map[byte]bool{}
				for _, w := range words {
					seen[w[0]] = true
				}
				if len(seen) < len(words) && len(seen) > 1 {
					return Slots{"words": words}
				}
			}
		},
		Code: `
words = $words
groups = {}
for word in words:
    groups.setdefault(word[0], []).append(word)
print(groups)
`,
		Check: `
import re
got = {key: re.findall(r"[a-z]+", items) for key, items in re.findall(r"([a-z])['\"]?: *\[(.*?)\]", printed)}
assert got == {letter: [w for w in $words if w.startswith(letter)] for letter in {w[0] for w in $words}}
`,
	},
	{
		Name: "print_dict_lines",
		Ask: []string{
			"Print each key and its value on a line, in the form \"key$sep value\".",
			"Loop over the dictionary and print every entry as \"key$sep value\".",
			"For all entries, a line with the pattern \"key$sep value\" should be printed.",
			"Show the dictionary with one entry per line, written as \"key$sep value\".",
			"Write a loop that prints \"key$sep value\" for each item of the dictionary.",
			"Display every entry of the dictionary on a separate line that reads \"key$sep value\".",
			"Given the dictionary, print all of its items in the style \"key$sep value\".",
			"Use an f-string to print each key and value as \"key$sep value\".",
			"Go through the items and print lines that look like \"key$sep value\".",
			"Print the keys and values of the dictionary line by line as \"key$sep value\".",
			"Output one line for each entry: \"key$sep value\".",
			"List the contents of the dictionary, each line in the format \"key$sep value\".",
		},
		Held: []string{
			"I want every entry on its own line, like \"key$sep value\".",
			"Format each item of the dictionary as \"key$sep value\" and put it on a line of its own.",
			"How do I print the items of this dictionary line by line in the form \"key$sep value\"?",
		},
		Input: "$name = $dict",
		Draw: func(d Draw) Slots {
			return Slots{"name": dictName(d), "dict": dict(d.Words(3, 5), d.Ints(5, 5, 2, 99)), "sep": pick(d, ":", " =", " ->", " -", ";", " is")}
		},
		Code: `
$name = $dict
for key, value in $name.items():
    print(f"{key}$sep {value}")
`,
		Check: printedLines + `
expected = []
for key in $dict:
    expected.append(key + "$sep " + str($dict[key]))
assert got == expected
`,
	},
	{
		Name: "dict_of_lengths",
		Ask: []string{
			"Make a dictionary with the length of each word and print it.",
			"Use a dictionary comprehension to map every word to its length.",
			"How do I build a dictionary from each word to the number of its letters?",
			"Print a dictionary whose keys are the words and whose values are their lengths.",
			"Write code that creates a dictionary of word lengths.",
			"I need a dictionary that tells how long each word is.",
			"Given a list of words, print a dictionary with each word and its length.",
			"Display a dictionary in which one can look up how many characters each of the words has.",
			"Turn the list into a dictionary from word to word length.",
			"For each word, store its length in a dictionary, and print the dictionary.",
			"Associate every word with its letter count in a dictionary and output it.",
			"Show the words and their lengths as a dictionary.",
		},
		Held: []string{
			"Let a dictionary hold the number of letters of each word. Print it.",
			"Create a dictionary where each of these words has its length as the value.",
			"Measure the words and keep the lengths in a dictionary with the words as keys. Print it.",
		},
		Input: "$words",
		Draw:  func(d Draw) Slots { return Slots{"words": d.Words(3, 6)} },
		Code: `
words = $words
lengths = {word: len(word) for word in words}
print(lengths)
`,
		Check: printedDict + `assert got == dict(zip($words, [str(sum(1 for _ in w)) for w in $words]))`,
	},
	{
		Name: "nested_lookup",
		Ask: []string{
			"Two lookups are needed: first $who, then the $field. Print what you find.",
			"Look up the $field of $who in the nested dictionary and print it.",
			"How do I get the $field of $who from this dictionary?",
			"Fetch $who from the data and output the $field.",
			"Write code that prints the $field stored for $who.",
			"I need the $field of $who from the data below.",
			"Given the nested dictionary, output the $field of $who.",
			"Get the $field of $who out of the dictionary and print it.",
			"Show which $field the dictionary has for $who.",
			"Read the $field of $who from the dictionary of dictionaries and print it.",
			"Access the $field that belongs to $who and print it.",
			"From the data, print just the $field of $who.",
		},
		Held: []string{
			"Display the $field that is recorded for $who.",
			"Print the $field of $who.",
			"What is the $field of $who? Print it.",
		},
		Input: "data = $data",
		Draw: func(d Draw) Slots {
			names := d.Names(2, 2)
			a := pick(d, "age", "score", "level")
			b := pick(d, "height", "points", "size")
			var entries []string
			for _, name := range names {
				entries = append(entries, "\""+name+"\": {\""+a+"\": "+python(d.Int(5, 49))+", \""+b+"\": "+python(d.Int(50, 99))+"}")
			}
			return Slots{"data": "{" + strings.Join(entries, ", ") + "}", "who": names[d.IntN(2)], "field": pick(d, a, b)}
		},
		Code: "data = $data\nprint(data[\"$who\"][\"$field\"])",
		Check: printedNumbers + `
data = $data
assert got[-1:] == [value for name, entry in data.items() if name == "$who" for key, value in entry.items() if key == "$field"]
`,
	},
}

// dict writes a Python dictionary of words and numbers; there may be more numbers than words.
func dict(keys []string, values []int) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = "\"" + key + "\": " + python(values[i])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// dictName returns a natural name for a dictionary of words and numbers.
func dictName(d Draw) string {
	return pick(d, "stock", "prices", "counts", "amounts", "scores", "weights", "orders", "sizes")
}
