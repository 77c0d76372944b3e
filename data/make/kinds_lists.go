package main

import (
	"slices"
	"strings"
)

// listKinds are about lists, tuples and sets: choosing, changing, sorting, combining and counting their items.
var listKinds = []Kind{
	{
		Name: "filter_compare",
		Ask: []string{
			"{Print|Show} a list of the numbers that are $how than $k.",
			"Keep only the numbers $how than $k and print them as a list.",
			"Use a list comprehension to get all numbers that are $how than $k.",
			"How do I select the values $how than $k from this list?",
			"Write code that picks every number $how than $k out of the list.",
			"I only need the numbers that are $how than $k.",
			"Filter the list: print just the values $how than $k.",
			"Extract the entries that are $how than $k into a new list. Print it.",
			"Make a new list with the numbers $how than $k and print it.",
			"Given the list, print those of its numbers that are $how than $k.",
			"Drop every number unless it is $how than $k, and display the list that remains.",
			"From the list below, output the items $how than $k.",
			"Find all the numbers in the list that are $how than $k.",
		},
		Held: []string{
			"Go through the numbers and collect each one that is $how than $k.",
			"Of the given values I would like to see those $how than $k, as a list.",
			"Which of these numbers are $how than $k? Print them in a list.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			how := pick(d, [2]string{"greater", ">"}, [2]string{"larger", ">"}, [2]string{"less", "<"}, [2]string{"smaller", "<"})
			numbers := d.Distinct(5, 8, 1, 99)
			return Slots{"numbers": numbers, "k": middle(d, numbers), "how": how[0], "op": how[1]}
		},
		Derived: []string{"op"},
		Code:    "numbers = $numbers\nresult = [number for number in numbers if number $op $k]\nprint(result)",
		Check: printedNumbers + `
expected = list($numbers)
for n in $numbers:
    if n == $k or (n < $k) == ("$how" in ("greater", "larger")):
        expected.remove(n)
assert got == expected
`,
	},
	{
		Name: "filter_long_words",
		Ask: []string{
			"Print the words that have more than $n letters.",
			"Keep only the words with more than $n letters and print the list.",
			"How do I get all words that are longer than $n letters?",
			"Use a list comprehension to pick the words longer than $n characters.",
			"Write code that makes a list of the words with more than $n letters.",
			"I need a list of all the words that are longer than $n characters.",
			"Which of these words have more than $n letters? Print them as a list.",
			"Remove all words of $n letters or fewer and display what is left as a list.",
			"From the list, select each word whose length is greater than $n.",
			"Given the words, print a list of those longer than $n letters.",
			"Collect the long words, meaning those with over $n characters, and print them.",
			"Show the words whose length is more than $n.",
		},
		Held: []string{
			"Filter the words: only those with more than $n letters should stay.",
			"Find every word in the list that has more than $n letters.",
			"Output only such items of the list as are more than $n characters long.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			for {
				words, n := d.Words(5, 7), d.Int(3, 5)
				if len(words[0]) > n && len(words[1]) <= n {
					d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
					return Slots{"words": words, "n": n}
				}
			}
		},
		Code: "words = $words\nlong_words = [word for word in words if len(word) > $n]\nprint(long_words)",
		Check: printedWords + `
expected = [w for w in $words if w[$n:]]
assert got == expected
`,
	},
	{
		Name: "map_lambda",
		Ask: []string{
			"Each number should become $k times as large. Solve it with lambda and map.",
			"Multiply all numbers of the list by $k with map and lambda, then print the list.",
			"How do I use map with a lambda to multiply these numbers by $k?",
			"Run a lambda over the list with map so that its items are multiplied by $k. Display the outcome.",
			"With map, make a new list in which every number is multiplied by $k.",
			"Write code with map and lambda that multiplies the numbers by $k and prints them.",
			"Show how map and a lambda can multiply each item by $k.",
			"I want every number in the list times $k. Use map and a lambda function.",
			"Given the list, print a list of its numbers times $k by means of map.",
			"Let map and a lambda multiply the items by $k. Print the new list.",
			"Print the numbers multiplied by $k, using map with a lambda.",
			"Take the list and use map to get each number times $k.",
		},
		Held: []string{
			"Build the list of all the values times $k through map and an anonymous function.",
			"Use map and a lambda to {multiply each number|multiply every number} by $k.",
			"Apply a lambda that multiplies by $k to each item of the list, using map.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 6, 2, 50), "k": d.Int(2, 20)} },
		Code:  "numbers = $numbers\nresult = list(map(lambda number: number * $k, numbers))\nprint(result)",
		Check: printedNumbers + `assert got == [sum([n] * $k) for n in $numbers]`,
	},
	{
		Name: "filter_multiples_lambda",
		Ask: []string{
			"Use filter and a lambda to keep the numbers that are divisible by $k.",
			"With filter and lambda, print all multiples of $k in the list.",
			"How do I use filter with a lambda to get the multiples of $k?",
			"Filter the list with a lambda so that only multiples of $k are left.",
			"Write code that selects the multiples of $k using filter and a lambda.",
			"Pass a lambda to filter in order to list all the multiples of $k.",
			"I want the numbers that $k divides evenly. Use filter with a lambda.",
			"Print a list of the multiples of $k by applying filter to the numbers.",
			"Through filter and an anonymous function, get those values that leave no remainder with $k.",
			"Apply filter with a lambda to the list and keep each multiple of $k.",
			"Let filter choose the numbers that are divisible by $k, and print them as a list.",
			"Take the list and filter out everything but the multiples of $k. Use a lambda.",
		},
		Held: []string{
			"Given the list, use filter and lambda to find the numbers divisible by $k.",
			"Only numbers divisible by $k may stay. Do it by calling filter with a lambda, and print the list.",
			"Show how filter can pick the numbers divisible by $k. Use a lambda.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			k := d.Int(3, 12)
			numbers := d.Distinct(3, 5, 1, 99)
			for range d.Int(1, 3) {
				numbers = append(numbers, k*d.Int(1, 9))
			}
			d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
			return Slots{"numbers": numbers, "k": k}
		},
		Code:  "numbers = $numbers\nresult = list(filter(lambda number: number % $k == 0, numbers))\nprint(result)",
		Check: printedNumbers + `assert got == [n for n in $numbers if n in range(0, 1000, $k)]`,
	},
	{
		Name: "powers_comprehension",
		Ask: []string{
			"Make a list of the {squares|square numbers} of all numbers from $start to $stop and print it.",
			"Which code builds a list of squared integers that begins with the square of $start and ends with that of $stop?",
			"How do I get a list of the squares from $start to $stop with a list comprehension?",
			"Print a list with the square of each number from $start to $stop.",
			"Write a list comprehension that squares the numbers from $start up to and including $stop.",
			"I need a list of the squares of $start to $stop, both included.",
			"Create the list of squares for the integers from $start to $stop.",
			"Given the range from $start to $stop, print the list of squared numbers.",
			"Show the squares of all integers from $start to $stop in one list.",
			"Square every number from $start to $stop and print the list.",
			"For each integer from $start to $stop, both included, compute its square and put it in a list. Display the list.",
			"Generate the squares of the numbers from $start through $stop as a list.",
		},
		Held: []string{
			"Let the list hold the squares of the numbers $start to $stop. Print it.",
			"Use a list comprehension to build the squares of the numbers from $start to $stop.",
			"Output one list: the numbers $start to $stop, each multiplied by itself.",
		},
		Draw: func(d Draw) Slots {
			start := d.Int(1, 40)
			return Slots{"start": start, "stop": start + d.Int(3, 20)}
		},
		Code:  "squares = [number ** 2 for number in range($start, $stop + 1)]\nprint(squares)",
		Check: printedNumbers + `assert got == [n * n for n in range($start, $stop + 1)]`,
	},
	{
		Name: "sort_numbers",
		Ask: []string{
			"Sort the numbers in $order order.",
			"Print the list sorted in $order order.",
			"How do I sort this list in $order order?",
			"The numbers are mixed up. Rearrange them so that they stand in $order order, then print them.",
			"Write code that prints the numbers in $order order.",
			"I need the list below in $order order.",
			"What code outputs the given numbers in $order order?",
			"Given a list of numbers, print it in $order order.",
			"Make a sorted copy of the list, in $order order, and print it.",
			"Arrange the numbers in $order order.",
			"Use sorted to bring the list into $order order.",
			"Take this list, sort it in $order order, and output it.",
		},
		Held: []string{
			"Display all the values in $order order.",
			"Put these numbers in $order order and print them.",
			"Order the values in $order order and show the list.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			order := pick(d, [2]string{"ascending", "sorted(numbers)"}, [2]string{"descending", "sorted(numbers, reverse=True)"})
			return Slots{"numbers": d.Distinct(5, 7, 1, 120), "order": order[0], "call": order[1]}
		},
		Derived: []string{"call"},
		Code:    "numbers = $numbers\nresult = $call\nprint(result)",
		Check: printedNumbers + `
import heapq
expected = heapq.nsmallest(99, $numbers)
assert got == (expected if "$order" == "ascending" else expected[::-1])
`,
		Wrong: []string{
			"numbers = $numbers\nresult = numbers[::-1]\nprint(result)",
			"numbers = $numbers\nresult = sorted(numbers, reverse=\"$order\" == \"ascending\")\nprint(result)",
			"numbers = $numbers\nresult = sorted(numbers, key=str)[1:]\nprint(result)",
		},
	},
	{
		Name: "sort_words_by_length",
		Ask: []string{
			"Sort the words by length, {the shortest first|shortest first}.",
			"Print the words from the shortest to the longest.",
			"How do I sort this list of words by their length?",
			"Order the words by the number of their letters, the shortest word first.",
			"Write code that sorts the list by word length.",
			"I need these words sorted by how long they are, the short ones first.",
			"Arrange the words by length, starting with the shortest.",
			"Given a list of words, print it sorted by length.",
			"Output these strings ranked by their number of characters, from few to many.",
			"Put short words before long ones and print the list.",
			"Show the list in order of word length.",
			"Rearrange the list so that the word lengths go up, and display it.",
		},
		Held: []string{
			"Take the words and sort them according to their length.",
			"The fewer letters a word has, the earlier it should come. Print the list in that order.",
			"Use len as the sort key and print the sorted words.",
		},
		Input: "$words",
		Draw:  func(d Draw) Slots { return Slots{"words": differentLengths(d)} },
		Code:  "words = $words\nby_length = sorted(words, key=len)\nprint(by_length)",
		Check: printedWords + `
expected = []
for size in range(30):
    expected += [w for w in $words if len(w) == size]
assert got == expected
`,
		Wrong: []string{
			"words = $words\nby_length = sorted(words, key=len, reverse=True)\nprint(by_length)",
			"words = $words\nby_length = [len(word) for word in words]\nprint(by_length)",
			"words = $words\nwords.sort(key=len)\nprint(words[0])",
		},
	},
	{
		Name: "sort_pairs",
		Ask: []string{
			"Sort the tuples by their second item.",
			"Rearrange the list so that the tuple with the lowest number is first and the one with the highest is last.",
			"How do I sort this list of tuples by the second element?",
			"Order the list by the number in each tuple, from low to high.",
			"Each tuple ends with a number. Display the tuples sorted by that number.",
			"Write code that sorts the tuples by the number they hold, in ascending order.",
			"I need these pairs sorted by the second entry.",
			"Arrange the tuples so that their numbers go up, and print the list.",
			"Given a list of pairs, print it sorted by the second part of each pair.",
			"Sort this list by number instead of by name.",
			"Show the list of tuples ordered by the second element, smallest first.",
			"Put the pairs in order of their numbers, beginning with the smallest.",
		},
		Held: []string{
			"Print the pairs sorted by number, the smallest number first.",
			"Use a lambda as the key to sort the pairs by their second value.",
			"Output the pairs in ascending order of what stands in second place.",
		},
		Input: "$pairs",
		Draw: func(d Draw) Slots {
			names := d.Names(3, 4)
			numbers := d.Distinct(len(names), len(names), 10, 99)
			return Slots{"pairs": pairs(names, numbers)}
		},
		Code: "pairs = $pairs\nresult = sorted(pairs, key=lambda pair: pair[1])\nprint(result)",
		Check: `
import re
got = re.findall(r"[A-Za-z]+|\d+", re.sub(r"^[^\[(]*[\[(]", "", printed))
expected = []
for number, name in sorted((number, name) for name, number in $pairs):
    expected += [name, str(number)]
assert got == expected
`,
		Wrong: []string{
			"pairs = $pairs\nresult = sorted(pairs, key=lambda pair: -pair[1])\nprint(result)",
			"pairs = $pairs\nresult = sorted(pair[1] for pair in pairs)\nprint(result)",
			"pairs = $pairs\nresult = min(pairs, key=lambda pair: pair[1])\nprint(result)",
		},
	},
	{
		Name: "unique_in_order",
		Ask: []string{
			"Remove the duplicates from the list, but keep the order.",
			"Print the list without duplicates, in the original order.",
			"How do I remove repeated values from this list and keep the order of the rest?",
			"Write code that drops duplicate items and keeps each first occurrence in place.",
			"I want every value only once, in the order in which the values first appear.",
			"Get rid of the repeated items without changing the order, and print the list.",
			"Deduplicate the list below while preserving its order.",
			"Given a list with repeats, print it with each value once and in the same order.",
			"Delete all duplicates from the list. The order should stay as it is.",
			"Display the distinct entries, arranged as they first come up in the list.",
			"Take the list, throw away the repeats, keep the order, and print it.",
			"Build a new list that has no repeated items but the same order.",
		},
		Held: []string{
			"Several values occur more than once. Output a list with every one of them a single time, order preserved.",
			"Make a list of the different values in the order of their first appearance.",
			"Show each distinct item once, in the order of the list.",
		},
		Input: "$items",
		Draw: func(d Draw) Slots {
			if d.IntN(2) == 0 {
				numbers := d.Distinct(3, 5, 1, 50)
				for range d.Int(2, 3) {
					numbers = append(numbers, numbers[d.IntN(len(numbers))])
				}
				d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
				return Slots{"items": numbers}
			}
			words := d.Words(3, 4)
			for range d.Int(2, 3) {
				words = append(words, words[d.IntN(len(words))])
			}
			d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			return Slots{"items": words}
		},
		Code: "items = $items\nunique = list(dict.fromkeys(items))\nprint(unique)",
		Check: `
import re
got = re.findall(r"[A-Za-z]+|\d+", re.sub(r"^[^\[{(:]*[\[{(:]", "", printed))
items = $items
assert got == [str(item) for i, item in enumerate(items) if item not in items[:i]]
`,
		Wrong: []string{
			"items = $items\nunique = sorted(set(items), reverse=True)\nprint(unique, len(items))",
			"items = $items\nunique = [item for item in items if items.count(item) == 1]\nprint(unique)",
			"items = $items\nunique = items\nprint(unique)",
		},
	},
	{
		Name: "common_items",
		Ask: []string{
			"Print the numbers that are in both lists, sorted.",
			"Find the common elements of the two lists and print them in ascending order.",
			"Determine the overlap of both lists and display it sorted.",
			"How do I get a sorted list of the values that occur in both lists?",
			"Use sets to find what the lists have in common, and print it as a sorted list.",
			"Write code that prints the intersection of the two lists in ascending order.",
			"I need the numbers that both lists contain, sorted.",
			"Compute the intersection of these two lists and print it sorted.",
			"Given two lists, print a sorted list of their common numbers.",
			"Show the sorted numbers that stand in the first list and also in the second.",
			"Make a sorted list of all the elements that the lists share.",
			"Collect the shared values of the lists below, sort them, and print them.",
		},
		Held: []string{
			"Which numbers do the two lists share? Print them sorted.",
			"A number counts only if each of the two lists has it. Output those numbers in ascending order.",
			"Compare the two lists and output the numbers found in both, in ascending order.",
		},
		Input: "first = $first\nsecond = $second",
		Draw: func(d Draw) Slots {
			numbers := d.Distinct(9, 9, 1, 60)
			shared := d.Int(1, 3)
			first := append([]int{}, numbers[:5]...)
			second := append([]int{}, numbers[5-shared:9-shared]...)
			d.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
			d.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
			return Slots{"first": first, "second": second}
		},
		Code: `
first = $first
second = $second
common = sorted(set(first) & set(second))
print(common)
`,
		Check: printedNumbers + `assert got == [n for n in range(100) if n in $first and n in $second]`,
	},
	{
		Name: "list_difference",
		Ask: []string{
			"Print the items of the first list that are not in the second list.",
			"Which items stand in the first list but not in the second? Print them as a list.",
			"How do I get the elements of the first list that the second list does not have?",
			"Make a list of everything in the first list that is missing from the second.",
			"Display whatever the first list holds that cannot be found in the second.",
			"I need the items that are only in the first of the two lists.",
			"Use a list comprehension to find what the first list has and the second has not.",
			"The second list says what to leave out of the first. Print what is left.",
			"Compare the lists and show which items of the first one are absent from the second.",
			"Find the items that the first list contains and the second does not.",
			"Subtract the second list from the first and print what remains.",
			"Take the first list, leave out all items of the second, and output the result.",
		},
		Held: []string{
			"Write code that removes from the first list all items that the second one contains, and prints the rest.",
			"Given two lists, print those items of the first that do not occur in the second.",
			"Output the entries which are unique to the first list when compared with the second.",
		},
		Input: "first = $first\nsecond = $second",
		Draw: func(d Draw) Slots {
			words := d.Words(6, 7)
			first := append([]string{}, words[:4]...)
			second := append([]string{}, words[d.Int(2, 3):]...)
			d.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
			d.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
			return Slots{"first": first, "second": second}
		},
		Code: `
first = $first
second = $second
result = [item for item in first if item not in second]
print(result)
`,
		Check: printedWords + `assert sorted(got) == sorted(set($first) - set($second))`,
	},
	{
		Name: "add_item",
		Ask: []string{
			"Which code makes \"$word\" the final entry of this list and prints it?",
			"Append \"$word\" to this list.",
			"How do I append \"$word\" to the list below?",
			"Put \"$word\" at the end of the list and show the list.",
			"Write code that adds the item \"$word\" after the last item.",
			"I want \"$word\" to be the new last item of the list.",
			"Print the list after \"$word\" was appended to it.",
			"Extend the list with the word \"$word\" and print it.",
			"Given the list, append the string \"$word\" and print the result.",
			"The list lacks \"$word\". Put it in last place and output the whole list.",
			"Attach \"$word\" to the list at its end.",
			"Use append to add \"$word\" to the list.",
		},
		Held: []string{
			"Place \"$word\" behind all the other items and display the list.",
			"Let \"$word\" become the last element of the list. Print the list.",
			"Add \"$word\" to the end of the list and print the list.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			words := d.Words(4, 6)
			return Slots{"words": words[1:], "word": words[0]}
		},
		Code:  "words = $words\nwords.append(\"$word\")\nprint(words)",
		Check: printedWords + `assert got == [*$words, "$word"]`,
		Wrong: []string{
			"words = $words\nwords.insert(0, \"$word\")\nprint(words)",
			"words = $words\nwords.extend(\"$word\")\nprint(words)",
			"words = $words\nwords = words.append(\"$word\")\nprint(words)",
		},
	},
	{
		Name: "insert_item",
		Ask: []string{
			"Insert \"$word\" at index $i of the list and print the list.",
			"Put \"$word\" into the list at index $i.",
			"Index $i is where \"$word\" belongs. Insert it there and print the longer list.",
			"Add the item \"$word\" at index $i and show the list.",
			"Write code that inserts \"$word\" in the list so that its index is $i.",
			"Squeeze \"$word\" into the list such that it gets index $i, and display all items.",
			"Print the list after \"$word\" was inserted at index $i.",
			"Given the list, place \"$word\" at index $i without losing any item.",
			"Let \"$word\" have index $i in the list. Nothing should be overwritten. Print the list.",
			"At index $i of the list, insert the string \"$word\".",
			"Use insert to put \"$word\" at index $i, then print the list.",
			"Make room at index $i of the list for \"$word\" and print it.",
		},
		Held: []string{
			"I want \"$word\" to stand at index $i, with the later items moved back.",
			"The list should have \"$word\" inserted at position $i, counting from 0. Output it.",
			"How do I insert \"$word\" at index $i of this list?",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			words := d.Words(5, 7)
			return Slots{"words": words[1:], "word": words[0], "i": d.Int(1, 3)}
		},
		Code:  "words = $words\nwords.insert($i, \"$word\")\nprint(words)",
		Check: printedWords + `assert got == $words[:$i] + ["$word"] + $words[$i:]`,
		Wrong: []string{
			"words = $words\nwords[$i] = \"$word\"\nprint(words)",
			"words = $words\nwords.append(\"$word\")\nprint(words)",
			"words = $words\nwords.insert($i + 1, \"$word\")\nprint(words)",
		},
	},
	{
		Name: "remove_item",
		Ask: []string{
			"Remove \"$word\" from the list and print the list.",
			"Delete the item \"$word\" from this list.",
			"How do I take \"$word\" out of the list?",
			"Print the list without \"$word\".",
			"Write code that removes the word \"$word\" from the list.",
			"I no longer want \"$word\" in this list.",
			"Get rid of \"$word\" and show the rest of the list.",
			"Make \"$word\" disappear from the list, then display it.",
			"Drop the word \"$word\" from the list and print it.",
			"Use remove to delete \"$word\" from the list.",
			"All items but \"$word\" should stay in the list. Print the shorter list.",
			"Cross \"$word\" off this list and print it.",
		},
		Held: []string{
			"Given the list, remove \"$word\" and print what is left.",
			"Take \"$word\" off the list and output the other items.",
			"Which code outputs this list after the removal of \"$word\"?",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			words := d.Words(4, 6)
			return Slots{"words": words, "word": words[d.IntN(len(words))]}
		},
		Code:  "words = $words\nwords.remove(\"$word\")\nprint(words)",
		Check: printedWords + `assert got == [w for w in $words if w != "$word"]`,
	},
	{
		Name: "index_of_item",
		Ask: []string{
			"What index would I use to get \"$word\" from the list? Print it.",
			"At which index does the list have \"$word\"? Print it.",
			"How do I find the index of \"$word\" in this list?",
			"Determine the place of \"$word\" in the list as an index.",
			"Write code that prints the index of the item \"$word\".",
			"Where in the list is \"$word\"? Print its index.",
			"I need the index of \"$word\" in the list below.",
			"Look up the index of \"$word\" and print it.",
			"Given the list, output the index at which \"$word\" stands.",
			"Show the list index of the word \"$word\".",
			"Search the list for \"$word\" and print its index.",
			"Tell me the index that \"$word\" has in this list.",
		},
		Held: []string{
			"Locate \"$word\" among the items and display its zero-based index.",
			"Print the index of \"$word\" in the list.",
			"Find the position of \"$word\" in the list, counting from 0.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			words := d.Words(5, 7)
			return Slots{"words": words, "word": words[d.Int(2, len(words)-1)]}
		},
		Code:  "words = $words\nposition = words.index(\"$word\")\nprint(position)",
		Check: printedNumbers + `assert got[-1:] == [{w: i for i, w in enumerate($words)}["$word"]]`,
		Wrong: []string{
			"words = $words\nposition = words.index(\"$word\") + 1\nprint(position)",
			"words = $words\nposition = len(words)\nprint(position)",
			"words = $words\nposition = words[0]\nprint(position)",
		},
	},
	{
		Name: "items_at_edge",
		Ask: []string{
			"Print the $edge $n items of the list.",
			"Get the $edge $n elements of this list.",
			"How do I get the $edge $n items of the list?",
			"Use a slice to print the $edge $n elements.",
			"Write code that prints a list of the $edge $n values.",
			"Which code selects the $edge $n values from these?",
			"Show the $edge $n elements of the list as a list.",
			"Given the list, print its $edge $n items.",
			"Display a part of the list, namely the $edge $n of its items.",
			"Make a new list from the $edge $n items and print it.",
			"What are the $edge $n elements of the list? Print them.",
			"Cut the list down to its $edge $n items and output it.",
		},
		Held: []string{
			"Take the $edge $n entries of this list and print them.",
			"Slice the list so that just the $edge $n entries remain, then print it.",
			"I only need the $edge $n items of the list below.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			n := d.Int(2, 4)
			edge, slice := "first", ":"+python(n)
			if d.IntN(2) == 0 {
				edge, slice = "last", "-"+python(n)+":"
			}
			return Slots{"numbers": d.Distinct(6, 8, 1, 99), "n": n, "edge": edge, "slice": slice}
		},
		Derived: []string{"slice"},
		Code:    "numbers = $numbers\nresult = numbers[$slice]\nprint(result)",
		Check: printedNumbers + `
rest = list($numbers)
while len(rest) > $n:
    rest.pop(-1 if "$edge" == "first" else 0)
assert got == rest
`,
	},
	{
		Name: "swap_items",
		Ask: []string{
			"Swap the items at index $i and index $j and print the list.",
			"Interchange what stands at index $i with what stands at index $j and output the list.",
			"How do I swap the items at the indexes $i and $j of this list?",
			"In the list, swap index $i with index $j.",
			"Write code that exchanges the item at index $i with the one at index $j.",
			"I want the elements at index $i and index $j to change places.",
			"Print the list after the items at index $i and index $j were swapped.",
			"Given the list, let the items at index $i and index $j trade places, then print it.",
			"Switch the positions of the elements at index $i and index $j.",
			"Use tuple assignment to swap the items at index $i and index $j.",
			"Let index $i get the item of index $j, and the other way round. Display the list.",
			"Show the list with the items at indexes $i and $j exchanged.",
		},
		Held: []string{
			"Take the list, swap its elements $i and $j, counting from 0, and print it.",
			"Exchange the elements with the indexes $i and $j.",
			"Two items, those at index $i and $j, should be switched. Print the resulting list.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			words := d.Words(5, 6)
			at := d.Distinct(2, 2, 0, 4)
			return Slots{"words": words, "i": min(at[0], at[1]), "j": max(at[0], at[1])}
		},
		Code: "words = $words\nwords[$i], words[$j] = words[$j], words[$i]\nprint(words)",
		Check: printedWords + `
expected = dict(enumerate($words))
kept = expected[$i]
expected[$i] = expected[$j]
expected[$j] = kept
assert got == list(expected.values())
`,
	},
	{
		Name: "zip_lists",
		Ask: []string{
			"Combine the two lists into a list of pairs.",
			"Use zip to pair up the items of the two lists, and print the list of tuples.",
			"How do I make a list of tuples from these two lists?",
			"Merge the lists elementwise: the result should be a list of tuples.",
			"Pair each name with the number at the same place and print the pairs.",
			"Write code that zips the lists together into a list of tuples.",
			"Output one list that holds a tuple for each name and the number belonging to it.",
			"Put the two lists together so that each name stands in a tuple with its number.",
			"Given a list of names and a list of numbers, print the list of (name, number) tuples.",
			"Build pairs from the two lists and print them as a list.",
			"Join both lists item by item into tuples. Print the list.",
			"Show the two lists zipped into one.",
		},
		Held: []string{
			"Match every name with its number and display all of the pairs in a list.",
			"Print a list of tuples, each with a name and its number.",
			"I need the names and the numbers as one list of pairs.",
		},
		Input: "names = $names\nnumbers = $numbers",
		Draw: func(d Draw) Slots {
			names := d.Names(3, 5)
			return Slots{"names": names, "numbers": d.Ints(len(names), len(names), 10, 99)}
		},
		Code: `
names = $names
numbers = $numbers
pairs = list(zip(names, numbers))
print(pairs)
`,
		Check: `
import re
got = re.findall(r"[A-Za-z]+|\d+", re.sub(r"^[^\[(]*[\[(]", "", printed))
expected = []
for i, name in enumerate($names):
    expected += [name, str($numbers[i])]
assert got == expected and printed.count("(") >= len($names)
`,
		Wrong: []string{
			"names = $names\nnumbers = $numbers\npairs = names + numbers\nprint(pairs)",
			"names = $names\nnumbers = $numbers\npairs = list(zip(numbers, names))\nprint(pairs)",
			"names = $names\nnumbers = $numbers\npairs = zip(names, numbers)\nprint(pairs)",
		},
	},
	{
		Name: "flatten_list",
		Ask: []string{
			"Flatten the nested list.",
			"Turn this list of lists into one flat list and print it.",
			"How do I flatten a list of lists like this?",
			"Make a single list out of the inner lists.",
			"Write code that puts all numbers of the nested list into one list.",
			"I need the numbers of all the inner lists in one list.",
			"Use a list comprehension with two loops to flatten the list.",
			"Given a nested list, print it as a flat list.",
			"Remove one level of nesting from this list and output the numbers.",
			"Unpack the inner lists so that one plain list of numbers is printed.",
			"Show the items of this list of lists as a flat list.",
			"Display a flat version of the nested list.",
		},
		Held: []string{
			"Take the nested list and output a list with no lists inside.",
			"There are lists within the list below. Merge them all into one and print it.",
			"Combine the inner lists to one list and print it.",
		},
		Input: "$rows",
		Draw:  func(d Draw) Slots { return Slots{"rows": nested(d, 2, 3, 2, 3)} },
		Code: `
rows = $rows
flat = [number for row in rows for number in row]
print(flat)
`,
		Check: printedNumbers + `
import itertools
assert got == list(itertools.chain.from_iterable($rows)) and "[[" not in printed and "], [" not in printed
`,
		Wrong: []string{
			"rows = $rows\nflat = rows[0]\nprint(flat)",
			"rows = $rows\nflat = [row for row in rows]\nprint(flat)",
			"rows = $rows\nflat = sum(sum(row) for row in rows)\nprint(flat)",
		},
	},
	{
		Name: "numbered_list",
		Ask: []string{
			"Print the items with numbers from $start on, like \"$start. item\".",
			"Display the list as numbered lines; the first of them begins with \"$start. \".",
			"How do I print a numbered list that starts at $start, in the form \"$start. item\"?",
			"Use enumerate to print the items with their numbers, beginning with $start, a full stop and a space after each number.",
			"Put a running number that starts with $start, then a full stop and a space, before every item and print the lines.",
			"I want a numbered list. It starts with \"$start. \" and the first item.",
			"Show the items as a numbered list that begins with number $start, such as \"$start. item\".",
			"Print all the items line by line with a number, a full stop and a space in front. Start at $start.",
			"Given the list, print its items numbered from $start, in the style \"$start. item\".",
			"Count the items from $start upwards and print lines such as \"$start. item\".",
			"Output each item on a line of the form \"number. item\", with numbers from $start.",
			"Loop over the list with enumerate, starting at $start, and print \"number. item\" for each.",
		},
		Held: []string{
			"Number the lines: print each item as \"$start. item\", counting up from $start.",
			"Write a loop that prints every item after its number and a full stop. The first number is $start.",
			"Enumerate the items for a reader: one per line, the first as \"$start. item\".",
		},
		Input: "$words",
		Draw:  func(d Draw) Slots { return Slots{"words": d.Words(3, 5), "start": d.Int(1, 20)} },
		Code: `
words = $words
for number, word in enumerate(words, start=$start):
    print(f"{number}. {word}")
`,
		Check: printedLines + `
number = $start
for word, line in zip($words, got):
    assert line == str(number) + ". " + word
    number += 1
assert len(got) == len($words)
`,
	},
	{
		Name: "any_all_function",
		Ask: []string{
			"Write a function $fn(numbers) that returns True if $which the numbers is greater than $k and False otherwise.",
			"Create a function $fn that checks whether $which the numbers in a list is greater than $k.",
			"Define $fn(numbers), which tells if $which the numbers is above $k.",
			"I need a function named $fn that returns True when $which the items of a list is larger than $k.",
			"How do I write a function $fn that tests if $which the numbers it gets is greater than $k?",
			"Implement $fn so that it returns whether $which the numbers in its list is greater than $k.",
			"A list passes if $which its values is greater than $k. Write the check as a function $fn that returns a boolean.",
			"Given a list, return True if $which its numbers is greater than $k. Call the function $fn.",
			"Build a function $fn for a list of numbers. It returns True if $which them is greater than $k.",
			"Name a function $fn and let it return True exactly if $which the numbers handed to it is over $k.",
			"Show me a function $fn that decides if $which the values in a list is bigger than $k.",
			"What is a short function $fn that returns True only when $which the numbers exceeds $k?",
		},
		Held: []string{
			"Develop $fn(numbers) so that it reports True or False: $which the numbers is higher than $k.",
			"Make a function called $fn that takes a list and says whether $which the values is more than $k.",
			"Write the function $fn. Its result is a boolean: is $which the numbers greater than $k?",
		},
		Draw: func(d Draw) Slots {
			which := pick(d, [2]string{"at least one of", "any"}, [2]string{"any of", "any"}, [2]string{"every one of", "all"}, [2]string{"each of", "all"})
			return Slots{"k": d.Int(2, 99), "which": which[0], "call": which[1], "fn": pick(d, "check", "check_list", "test_numbers", "check_numbers", "is_above", "passes")}
		},
		Derived: []string{"call"},
		Code:    "def $fn(numbers):\n    return $call(number > $k for number in numbers)",
		Check: gives + `
for numbers in [[$k], [$k + 1], [$k - 1], [0, $k + 1], [$k + 1, $k + 2], [$k + 5, $k, $k + 1], [1, -2, 0], [$k + 30, $k + 1, $k + 7]]:
    above = len([n for n in numbers if n > $k])
    assert gives($fn, above > 0 if "$call" == "any" else above == len(numbers), list(numbers))
`,
	},
	{
		Name: "word_lengths",
		Ask: []string{
			"Print a list with the length of each word.",
			"Make a list of the word lengths.",
			"Count the characters of each of the words and display the counts in a list.",
			"Use a list comprehension to get the length of every word.",
			"Write code that prints the number of letters of each word, as a list.",
			"I need a list that holds the length of every word.",
			"How do I turn this list of words into a list of their lengths?",
			"Given the words, print how many letters each one has, as a list.",
			"Find the length of each word in the list and print the lengths.",
			"Show the lengths of all the words in one list.",
			"Replace each word by its length and print the list.",
			"Output one list in which each word is represented by its number of letters.",
		},
		Held: []string{
			"How long are these words? Print a list of their lengths.",
			"Map the list of words to a list of numbers that say how long they are.",
			"Measure every word of the list and output the lengths.",
		},
		Input: "$words",
		Draw:  func(d Draw) Slots { return Slots{"words": d.Words(4, 6)} },
		Code:  "words = $words\nlengths = [len(word) for word in words]\nprint(lengths)",
		Check: printedNumbers + `assert got == list(map(len, $words))`,
		Wrong: []string{
			"words = $words\nlengths = len(words)\nprint(lengths)",
			"words = $words\nlengths = sorted(len(word) for word in words[1:])\nprint(lengths)",
			"words = $words\nlengths = sum(len(word) for word in words)\nprint(lengths)",
		},
	},
	{
		Name: "add_to_each_word",
		Ask: []string{
			"Add \"$part\" to the $edge of each word and print the list.",
			"Put \"$part\" at the $edge of every word in the list.",
			"How do I add \"$part\" to the $edge of each string in this list?",
			"Make a list in which every word has \"$part\" at its $edge.",
			"Each string should carry \"$part\" at its $edge. Output the changed list.",
			"Write code that gives each word a \"$part\" at the $edge and prints the list.",
			"I want \"$part\" attached to the $edge of all the words.",
			"Display the words as a list after \"$part\" has been put at the $edge of each one.",
			"Attach \"$part\" to every word, at the $edge of it, and print the new list.",
			"Show the list with \"$part\" added to the $edge of every word.",
			"Extend each word by \"$part\" at its $edge and print the list.",
			"Take the list and put \"$part\" to the $edge of every item.",
		},
		Held: []string{
			"Use a list comprehension to put \"$part\" at the $edge of each word.",
			"Given the words, print a list of them with \"$part\" at the $edge of each.",
			"Change all the items by adding \"$part\" to their $edge, then print the list.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			part := pick(d, "s", "_", "-", "!", "ing", "er", "ly", "x", ".txt", ".py", ".csv", "pre", "un", "my_", "new_", "_1", "*", "#", "re", "_old", "the_", "id_")
			edge, sum := "end", "word + \""+part+"\""
			if d.IntN(2) == 0 {
				edge, sum = "front", "\""+part+"\" + word"
			}
			return Slots{"words": d.Words(3, 5), "part": part, "edge": edge, "sum": sum}
		},
		Derived: []string{"sum"},
		Code:    "words = $words\nresult = [$sum for word in words]\nprint(result)",
		Check: `
import ast, re
try:
    got = ast.literal_eval(printed[printed.index("["):].strip())
except (ValueError, SyntaxError):
    got = printed.split()
assert got == [("%s$part" if "$edge" == "end" else "$part%s") % w for w in $words]
`,
	},
	{
		Name: "chunk_function",
		Ask: []string{
			"Let the function $fn return consecutive pieces of a list, each holding $k items, apart from a smaller final piece if there are items left.",
			"Create a function $fn that cuts a list into lists of length $k. The last one may have fewer items.",
			"Define $fn(items), which returns the items in groups of $k, the last group possibly smaller.",
			"I need a function named $fn that divides a list into parts of $k items each and returns the parts as a list of lists. The last part can be shorter.",
			"How do I write a function $fn that breaks a list into pieces of size $k, with a shorter last piece if needed?",
			"Implement $fn so that it returns its list cut into sublists of $k items, whatever is left over coming last.",
			"Make a function called $fn that takes a list and returns a list of chunks, each $k items long except perhaps the last.",
			"Given a list, return it as a list of slices of $k items each, the last one with the remaining items. Call the function $fn.",
			"Build a function $fn that groups the items of a list by $k and returns the groups. Left-over items form a smaller group at the end.",
			"A long list should be returned as many short ones of $k items, the final one maybe shorter. Write this as function $fn.",
			"Write $fn, a function that returns the list in batches of $k. The last batch may be smaller.",
			"What function $fn splits a list into lists of $k items and keeps the rest in a shorter last list?",
		},
		Held: []string{
			"Develop $fn(items) to partition a list into consecutive blocks of $k elements and return the blocks; the final block takes what remains.",
			"Show me a function $fn to chunk a list: $k items a chunk, fewer in the last one when the list runs out.",
			"Write a function $fn(items) that splits a list into chunks of $k items and returns a list of them. The last chunk may be shorter.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"k": d.Int(2, 20), "fn": pick(d, "chunk", "chunks", "split_list", "batches", "group", "make_chunks", "make_groups", "cut_list", "pieces", "split_items", "blocks")}
		},
		Code: `
def $fn(items):
    return [items[i:i + $k] for i in range(0, len(items), $k)]
`,
		Check: gives + `
for size in [0, 1, $k - 1, $k, $k + 1, 2 * $k, 3 * $k + 1, 50]:
    expected, items = [], list(range(5, size + 5))
    for n in items:
        if not expected or len(expected[-1]) == $k:
            expected.append([])
        expected[-1].append(n)
    assert gives($fn, expected, items)
`,
	},
	{
		Name: "rotate_list",
		Ask: []string{
			"Rotate the list to the left by $k places and print it.",
			"Move the first $k items to the end of the list.",
			"Turn the list round to the left $k times, one item at a time, and print it in the end.",
			"Print the list rotated left by $k.",
			"Write code that moves the first $k elements behind the others.",
			"Perform a left rotation of the list, by $k positions, and display the outcome.",
			"I want this list rotated by $k positions to the left.",
			"Given the list, print it after a left rotation by $k places.",
			"Use slicing to rotate the list $k places to the left.",
			"Shift all items $k places to the left. Items that fall off come back at the end.",
			"Put the first $k elements at the end of the list and print it.",
			"Show the list after its first $k items have moved to the back.",
		},
		Held: []string{
			"Take the first $k items off the front, add them at the end, and print the list.",
			"The leading $k elements shall become the last ones, in the same order. Output the list.",
			"How do I rotate this list $k steps to the left?",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Distinct(5, 7, 1, 99), "k": d.Int(2, 4)} },
		Code:  "numbers = $numbers\nrotated = numbers[$k:] + numbers[:$k]\nprint(rotated)",
		Check: printedNumbers + `
from collections import deque
expected = deque($numbers)
expected.rotate(-$k)
assert got == list(expected)
`,
	},
	{
		Name: "row_sums",
		Ask: []string{
			"Print the sum of each row of the matrix as a list.",
			"Make a list of the row sums.",
			"How do I add up each inner list and print the sums as a list?",
			"Use a list comprehension to get the sum of every row.",
			"Write code that prints a list with the total of each inner list.",
			"I need the totals of the rows of this matrix in a list.",
			"Given a list of lists, print the list of their sums.",
			"Total up each of the rows and display the totals in a list.",
			"Find the row totals of this table and show them as a list.",
			"Add the numbers of each inner list and print one list of results.",
			"Every inner list has a sum. Output these sums, in order, as a list.",
			"Take the matrix below and output the sums of its rows.",
		},
		Held: []string{
			"Sum every row of the matrix and print the sums in one list.",
			"For each row of the matrix, compute the sum. Print all the sums in a list.",
			"Reduce each row of the table to the sum of its numbers and print the resulting list.",
		},
		Input: "$rows",
		Draw:  func(d Draw) Slots { return Slots{"rows": nested(d, 2, 3, 2, 3)} },
		Code: `
rows = $rows
totals = [sum(row) for row in rows]
print(totals)
`,
		Check: printedNumbers + `
expected = []
for row in $rows:
    expected.append(0)
    for n in row:
        expected[-1] += n
assert got == expected
`,
	},
	{
		Name: "every_nth",
		Ask: []string{
			"Thin out the list: from the first number on, only every $nth one should be printed.",
			"Take every $nth element, beginning with the first one, and print the list.",
			"How do I get every $nth item of this list? The first item should be included.",
			"Step through the list from its start, output every $nth value as a list.",
			"Write code that keeps the first item and then every $nth one.",
			"I need every $nth value of the list, starting from the first value.",
			"Given the list, print a list of every $nth item, the first included.",
			"Make a new list from every $nth item, starting at the first, and print it.",
			"Show every $nth element of the list. Start with the first element.",
			"Starting with the first number, print every $nth number of the list.",
			"Select every $nth entry, counted from the first, and output them as a list.",
			"Beginning at index 0, pick every $nth item of the list and print them.",
		},
		Held: []string{
			"Display the first item and each $nth item after it.",
			"Print every $nth item of the list, starting with the first.",
			"Use a slice with a step to print every $nth item, starting at index 0.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			step := d.Int(2, 4)
			return Slots{"numbers": d.Distinct(7, 9, 1, 99), "step": step, "nth": []string{"second", "third", "fourth"}[step-2]}
		},
		Derived: []string{"step"},
		Code:    "numbers = $numbers\nresult = numbers[::$step]\nprint(result)",
		Check:   printedNumbers + `assert got == [n for i, n in enumerate($numbers) if i % $step == 0]`,
	},
	{
		Name: "replace_values",
		Ask: []string{
			"Replace every $old in the list with $new and print the list.",
			"Change each $old to $new in this list.",
			"How do I replace all $old by $new in the list?",
			"Use a list comprehension to turn every $old into $new.",
			"Write code that puts $new in place of each $old and prints the list.",
			"What code exchanges the entries equal to $old for $new and prints the outcome?",
			"Print the list with $new instead of $old.",
			"Given the list, swap every value $old for $new and print it.",
			"Wherever $old occurs in the list, $new should stand instead. Display the new list.",
			"Substitute $new for every $old of the list.",
			"Find each $old in the list, replace it with $new and show the list.",
			"Take the list and output it with all $old changed into $new.",
		},
		Held: []string{
			"Make a copy of the list in which $old is replaced by $new, and print it.",
			"Correct the list: each value of $old has to become $new.",
			"I want the number $new wherever the list has $old.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			numbers := d.Distinct(4, 5, 1, 99)
			old := numbers[0]
			numbers = append(numbers, old)
			if d.IntN(2) == 0 {
				numbers = append(numbers, old)
			}
			d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
			return Slots{"numbers": numbers, "old": old, "new": pick(d, 0, 100, d.Int(1, 99))}
		},
		Code:  "numbers = $numbers\nresult = [$new if number == $old else number for number in numbers]\nprint(result)",
		Check: printedNumbers + `assert got == [{$old: $new}.get(n, n) for n in $numbers]`,
	},
	{
		Name: "count_value",
		Ask: []string{
			"Count how often $k {occurs|appears} in the list.",
			"What is the number of entries with the value $k? Display it.",
			"Print the number of times the list contains $k.",
			"Write code that counts the value $k in this list.",
			"How do I count how many of these numbers are equal to $k?",
			"I need to know how often the number $k stands in the list.",
			"Given the list, count the number $k and print the count.",
			"Find out how many times $k shows up in the list.",
			"Show the count of $k in the following list.",
			"Use count to find how often $k is in the list.",
			"Determine the frequency of $k among the numbers below.",
			"Tell me how many times the value $k is repeated in this list.",
		},
		Held: []string{
			"Output how many items of the list equal $k.",
			"How many times is $k in the list? Print the count.",
			"Go over the numbers and report how many of them are $k.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			few := d.Distinct(3, 3, 1, 60)
			numbers := append([]int{}, few...)
			for range d.Int(3, 4) {
				numbers = append(numbers, few[d.IntN(3)])
			}
			d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
			return Slots{"numbers": numbers, "k": few[0]}
		},
		Code:  "numbers = $numbers\ncount = numbers.count($k)\nprint(count)",
		Check: printedNumbers + `assert got[-1:] == [len([n for n in $numbers if n == $k])]`,
		Wrong: []string{
			"numbers = $numbers\ncount = numbers.index($k) + 10\nprint(count)",
			"numbers = $numbers\ncount = len(numbers)\nprint(count)",
			"numbers = $numbers\ncount = $k in numbers\nprint(count)",
		},
	},
	{
		Name: "nth_largest",
		Ask: []string{
			"Find the $nth largest number in the list.",
			"What is the $nth largest of these numbers? Print it.",
			"Print the $nth highest value of the list.",
			"Display the number that ranks $nth by size, counted from the largest.",
			"Write code that prints the $nth biggest number.",
			"I need the $nth largest value in the list below.",
			"Pick the $nth largest out of these values and output it.",
			"Given the list, output its $nth largest item.",
			"Show the $nth greatest number of the list.",
			"Look for the $nth largest of the values and print it.",
			"Which number of the list is the $nth largest? Print it.",
			"Take the list and find out its $nth highest number.",
		},
		Held: []string{
			"Determine which value would be in $nth place if the list were sorted from high to low.",
			"How do I get the $nth largest number from this list?",
			"Sort the numbers in descending order and print the $nth one.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			i := d.Int(2, 3)
			return Slots{"numbers": d.Distinct(2*i+2, 8, 1, 120), "i": i, "nth": []string{"third", "fourth"}[i-2]}
		},
		Derived: []string{"i"},
		Code:    "numbers = $numbers\nordered = sorted(numbers, reverse=True)\nprint(ordered[$i])",
		Check: printedNumbers + `
rest = list($numbers)
for _ in range($i):
    rest.remove(max(rest))
assert got[-1:] == [max(rest)]
`,
	},
	{
		Name: "set_union",
		Ask: []string{
			"Merge the two lists into one sorted list without duplicates.",
			"Print all the words that are in at least one of the two lists, sorted and each only once.",
			"How do I combine these lists so that no word is repeated and the words are sorted?",
			"Use sets to unite the two lists, and print the sorted result.",
			"Write code that prints the sorted union of both lists.",
			"I need one sorted list with the words of both lists and no repeats.",
			"Form the union of the two lists and print it in alphabetical order.",
			"Given two lists of words, print a sorted list of all the different words.",
			"Collect all the words of the lists below alphabetically and without repetition.",
			"Show every word of the two lists once, in alphabetical order.",
			"Combine the lists as sets and print the words in sorted order.",
			"Unite both lists, list each word a single time, and display the words from a to z.",
		},
		Held: []string{
			"Make a sorted list of the distinct words of the two lists.",
			"Which different words do the two lists have together? Output them sorted.",
			"Put the words of both lists together, drop the duplicates, sort them and print them.",
		},
		Input: "first = $first\nsecond = $second",
		Draw: func(d Draw) Slots {
			words := d.Words(5, 6)
			first, second := append([]string{}, words[:3]...), append([]string{}, words[d.Int(1, 2):]...)
			d.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
			return Slots{"first": first, "second": second[:min(len(second), 4)]}
		},
		Code: `
first = $first
second = $second
union = sorted(set(first) | set(second))
print(union)
`,
		Check: printedWords + `
expected = list($first)
for word in $second:
    if word not in expected:
        expected.append(word)
expected.sort()
assert got == expected
`,
	},
	{
		Name: "unpack_tuple",
		Ask: []string{
			"Unpack the tuple into the variables $a and $b and print each on its own line.",
			"Put the first value of the tuple into $a and the second into $b, and display them on two lines.",
			"How do I unpack this tuple into $a and $b and print them on two lines?",
			"Write code that unpacks the tuple into $a and $b and prints them line by line.",
			"Which code assigns this tuple to $a and $b in one go and outputs the two on lines of their own?",
			"I want the values of this tuple in the variables $a and $b, both printed on separate lines.",
			"Store the items of the tuple in $a and $b with one assignment, and print them one below the other.",
			"Given the tuple, set $a and $b from it and print each in a line of its own.",
			"Use tuple unpacking to get $a and $b, and print them on separate lines.",
			"Split the tuple into two variables, $a and $b. Print the first, then the second, on two lines.",
			"Show how to unpack the tuple as $a and $b, printing one of them per line.",
			"Let $a and $b take the two values of the tuple and print both, each on a new line.",
		},
		Held: []string{
			"Assign the two parts of the tuple to $a and $b, then print both, one per line.",
			"Take the tuple apart: name its values $a and $b and print each on a line.",
			"Extract $a and $b from the tuple, then print one after the other, each on its line.",
		},
		Input: "$pair",
		Draw: func(d Draw) Slots {
			sort := pick(d, "name age", "word count", "city number", "name score", "item price", "item amount", "color size", "title year", "label value", "key value")
			a, b, _ := strings.Cut(sort, " ")
			first := d.Word()
			if a == "name" {
				first = d.Name()
			}
			return Slots{"a": a, "b": b, "pair": "(\"" + first + "\", " + python(d.Int(2, 99)) + ")"}
		},
		Code: "$a, $b = $pair\nprint($a)\nprint($b)",
		Check: printedLines + `
assert (globals().get("$a", $pair[0]), globals().get("$b", $pair[1])) == $pair
assert [line.split()[-1] for line in got] == [str(x) for x in $pair]
`,
		Wrong: []string{
			"$b, $a = $pair\nprint($a)\nprint($b)",
			"$a, $b = $pair\nprint($a)\nprint($a)",
			"$a = $pair\n$b = $a\nprint($a)\nprint($b)",
		},
	},
}

// differentLengths draws words that all have lengths of their own.
func differentLengths(d Draw) []string {
	var chosen []string
	taken := map[int]bool{}
	for _, word := range d.Words(10, 10) {
		if !taken[len(word)] && len(chosen) < 5 {
			chosen, taken[len(word)] = append(chosen, word), true
		}
	}
	if len(chosen) < 3 {
		return differentLengths(d)
	}
	return chosen
}

// middle returns a threshold between the extremes of some different numbers: one of them, or a number between them.
func middle(d Draw, numbers []int) int {
	ordered := slices.Sorted(slices.Values(numbers))
	low, high := ordered[len(ordered)/2-1], ordered[len(ordered)/2]
	if d.IntN(2) == 0 {
		return low
	}
	return d.Int(low, high)
}

// pairs writes a Python list of (word, number) tuples.
func pairs(names []string, numbers []int) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = "(\"" + name + "\", " + python(numbers[i]) + ")"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// nested writes a Python list of lists of numbers.
func nested(d Draw, leastRows, mostRows, least, most int) string {
	rows := make([]string, d.Int(leastRows, mostRows))
	for i := range rows {
		rows[i] = python(d.Ints(least, most, 1, 30))
	}
	return "[" + strings.Join(rows, ", ") + "]"
}
