package main

import "strings"

// stringKinds are about texts: their letters, words, cases, parts and positions.
var stringKinds = []Kind{
	{
		Name: "reverse_text",
		Ask: []string{
			"Reverse the {string|text} \"$text\" and print it.",
			"Starting with the string \"$text\", build its mirror image and print that.",
			"How do I reverse the string \"$text\"?",
			"Write code that prints the letters of \"$text\" in reverse order.",
			"What do I have to write so that \"$text\" comes out reversed?",
			"Take the string \"$text\", turn it around and print the result.",
			"What is \"$text\" when it is read from right to left? Print it.",
			"Show the reverse of \"$text\".",
			"Store \"$text\" in a variable and print that text reversed.",
			"{Flip|Invert} the order of the characters in \"$text\" and output the new string.",
			"Output the text \"$text\" from its last letter to its first.",
			"Given the string \"$text\", print the same string back to front.",
			"Use slicing to reverse \"$text\".",
		},
		Held: []string{
			"Display \"$text\" with all of its characters in the opposite order.",
			"Print \"$text\" backwards.",
			"I want to see \"$text\" spelled backwards.",
		},
		Draw:  func(d Draw) Slots { return Slots{"text": d.Phrase(1, 3)} },
		Code:  "text = \"$text\"\nbackwards = text[::-1]\nprint(backwards)",
		Check: printedText + `assert got == "".join(reversed("$text"))`,
		Wrong: []string{
			"text = \"$text\"\nprint(text[:-1])",
			"text = \"$text\"\nprint(\" \".join(text.split()[::-1]))\nprint(text)",
		},
	},
	{
		Name: "count_letter",
		Ask: []string{
			"Count how often the letter \"$letter\" {occurs|appears} in \"$text\".",
			"How many times does \"$letter\" occur in \"$text\"? Print the number.",
			"Print the number of times the letter \"$letter\" is found in \"$text\".",
			"Find out how many \"$letter\" there are in the text \"$text\".",
			"I need to know how often \"$letter\" stands in \"$text\".",
			"Determine the frequency of the letter \"$letter\" in the phrase \"$text\".",
			"Write code that counts every \"$letter\" in \"$text\" and prints the count.",
			"In the string \"$text\", how often is the letter \"$letter\" used?",
			"Look through \"$text\" and tell me how many of its characters are \"$letter\".",
			"Let the text be \"$text\". Print how many letters \"$letter\" it contains.",
			"How do I count the occurrences of \"$letter\" in \"$text\"?",
			"Output the count of \"$letter\" in the string \"$text\".",
		},
		Held: []string{
			"Show how many times the character \"$letter\" shows up in \"$text\".",
			"What is the number of occurrences of the character \"$letter\" within \"$text\"?",
			"Given the text \"$text\", count the letter \"$letter\".",
		},
		Draw: func(d Draw) Slots {
			text := d.Phrase(2, 4)
			letters := strings.ReplaceAll(text, " ", "")
			return Slots{"text": text, "letter": string(letters[d.IntN(len(letters))])}
		},
		Code:  "text = \"$text\"\ncount = text.count(\"$letter\")\nprint(count)",
		Check: printedNumbers + `assert got[-1:] == [len("$text".split("$letter")) - 1]`,
		Wrong: []string{
			"text = \"$text\"\ncount = text.find(\"$letter\") + 100\nprint(count)",
			"text = \"$text\"\ncount = len(text)\nprint(count)",
			"text = \"$text\"\nprint(text.replace(\"$letter\", \"\"))",
		},
	},
	{
		Name: "change_case",
		Ask: []string{
			"{Convert|Change} the text to $case.",
			"The text I have needs to be in $case. What code prints it that way?",
			"How do I write the following text in $case?",
			"Turn the given sentence into $case and print it.",
			"I have a line of text that should be in $case.",
			"Write code that prints the text in $case.",
			"Given the text, output it in $case.",
			"Show the sentence below in $case.",
			"Take this string and print it in $case.",
			"Rewrite the text below in $case.",
			"Display the words below in $case.",
			"Make the following sentence appear in $case.",
		},
		Held: []string{
			"Use a string method to put this text in $case, then print it.",
			"Print this text in $case.",
			"Format the given string so that it is printed in $case.",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			form := pick(d, [2]string{"upper case", "upper"}, [2]string{"capital letters", "upper"}, [2]string{"title case", "title"}, [2]string{"lower case", "lower"})
			text := d.Sentence()
			if form[1] == "lower" {
				text = strings.Join(d.Names(3, 6), " ")
			}
			return Slots{"text": text, "case": form[0], "method": form[1]}
		},
		Derived: []string{"method"},
		Code:    "text = \"$text\"\nresult = text.$method()\nprint(result)",
		Check: printedText + `
parts = "$text".split(" ")
change = {"upper case": str.upper, "capital letters": str.upper, "lower case": str.lower, "title case": lambda w: w[0].upper() + w[1:]}["$case"]
assert got == " ".join(map(change, parts))
`,
		Wrong: []string{
			"text = \"$text\"\nprint(text.swapcase().capitalize())",
			"text = \"$text\"\ntext.$method()\nprint(text)",
			"text = \"$text\"\nprint(text[1:].$method())",
		},
	},
	{
		Name: "count_vowels",
		Ask: []string{
			"Count the vowels in the {given|following} text.",
			"How many vowels does this text {contain|have}? Print the number.",
			"Print the number of vowels in the text.",
			"What is the total number of vowels in the sentence that I give you?",
			"I need the number of vowels in the text below.",
			"Find out how many vowels there are in the given sentence.",
			"Check each letter of the string and print how many vowels you found.",
			"Loop over the letters of the text and count the vowels.",
			"How do I count all the vowels in this string?",
			"Show how many letters of the sentence are vowels.",
			"Go through this text and count every vowel in it.",
			"Output the vowel count of the text.",
		},
		Held: []string{
			"Determine how many of the characters below are vowels.",
			"Write code that counts the letters a, e, i, o and u in this sentence.",
			"Given a text, count its vowels and print the count.",
		},
		Input: "$text",
		Draw:  func(d Draw) Slots { return Slots{"text": d.Sentence()} },
		Code: `
text = "$text"
count = 0
for letter in text:
    if letter in "aeiou":
        count += 1
print(count)
`,
		Check: printedNumbers + `assert got[-1:] == [sum(map("$text".count, "aeiou"))]`,
	},
	{
		Name: "palindromes_in_list",
		Ask: []string{
			"Print the palindromes in the list.",
			"Which of these words are palindromes? Print them as a list.",
			"Keep only the words that read the same forwards and backwards, and print them.",
			"Write code that finds all palindromes among the words.",
			"How do I get a list of the palindromes from these words?",
			"Compare each word with its reverse and print a list of those that are equal to it.",
			"I want a list with just the words that stay the same when they are reversed.",
			"Given a list of words, print the ones that are palindromes.",
			"Some of the words below equal themselves spelled backwards. Print a list of those.",
			"Filter the list so that only palindromes remain, then print it.",
			"Go through the words and collect every palindrome in a new list. Print that list.",
			"Determine which words are spelled the same in both directions and display them in a list.",
			"Use a list comprehension to select the palindromes.",
		},
		Held: []string{
			"Show all words of the list that are palindromes.",
			"Leave out all words that are not palindromes and output the rest.",
			"Find the palindromes in the following list.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			words := append(d.Words(2, 4), some(d, 1, 3, palindromes)...)
			d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			return Slots{"words": words}
		},
		Code: `
words = $words
palindromes = [word for word in words if word == word[::-1]]
print(palindromes)
`,
		Check: printedWords + `assert got == [w for w in $words if list(w) == list(reversed(w))]`,
	},
	{
		Name: "replace_word",
		Ask: []string{
			"Replace \"$old\" with \"$new\" in the text and print it.",
			"Wherever \"$old\" stands in the sentence, write \"$new\" instead and print what you get.",
			"Change \"$old\" to \"$new\" in this text.",
			"How do I swap the word \"$old\" for \"$new\" in the text?",
			"Output the following text after the word \"$old\" has become \"$new\".",
			"The text says \"$old\", but it should say \"$new\". Print the corrected text.",
			"Print the sentence with \"$old\" replaced by \"$new\".",
			"Substitute \"$new\" for \"$old\" in the text below.",
			"I want \"$old\" turned into \"$new\" in this line of text.",
			"Use a string method to replace every \"$old\" in the text with \"$new\".",
			"Take the text below and output it with \"$new\" where \"$old\" stood.",
			"Given the text, exchange \"$old\" for \"$new\" and show the new text.",
		},
		Held: []string{
			"In the {given|following} sentence, replace the word \"$old\" by \"$new\".",
			"Write code that puts \"$new\" in place of \"$old\" and prints the sentence.",
			"What code corrects \"$old\" to \"$new\" in the sentence and displays it?",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			text := d.Sentence()
			parts := strings.Fields(text)
			return Slots{"text": text, "old": parts[len(parts)-1], "new": d.Word()}
		},
		Code:  "text = \"$text\"\nresult = text.replace(\"$old\", \"$new\")\nprint(result)",
		Check: printedText + `assert got == "$new".join("$text".split("$old")) and ("$old" == "$new" or got != "$text")`,
		Wrong: []string{
			"text = \"$text\"\nprint(text.replace(\"$old\", \"\"))",
			"text = \"$text\"\nprint(text + \" $new\")",
			"text = \"$text\"\nprint(\"$new\")",
		},
	},
	{
		Name: "join_words",
		Ask: []string{
			"Join the words with \"$sep\" between them and print the result.",
			"Print the items of the list as one string, separated by \"$sep\".",
			"How do I combine these words into one string with \"$sep\" as the separator?",
			"Make a single string from the list, putting \"$sep\" between the words.",
			"Connect all the words of the list with \"$sep\".",
			"I have a list of words and want one text in which \"$sep\" separates them.",
			"Display the whole list on one line, its entries divided by \"$sep\".",
			"Turn this list into one string. Put \"$sep\" between the items.",
			"Given the list of words, output them in one line joined by \"$sep\".",
			"Write \"$sep\" between neighbouring words of the list and print the string that results.",
			"Concatenate the words below with \"$sep\" in between.",
			"Show the words as one text with \"$sep\" between each two of them.",
		},
		Held: []string{
			"Merge these strings into one, with \"$sep\" as the glue, and print it.",
			"Write code that joins the list using \"$sep\" and prints the string.",
			"Use join to build a string from the list, with \"$sep\" as separator.",
		},
		Input: "$words",
		Draw: func(d Draw) Slots {
			return Slots{"words": d.Words(3, 6), "sep": pick(d, "-", ", ", " + ", "/", "_", "; ", " and ", " or ", ".", "|", " - ", "+", "*", " > ")}
		},
		Code: "words = $words\ntext = \"$sep\".join(words)\nprint(text)",
		Check: printedLines + `
import functools
assert got[-1].endswith(functools.reduce(lambda a, b: a + "$sep" + b, $words)) and got[-1].count("$sep") == len($words) - 1
`,
		Wrong: []string{
			"words = $words\ntext = \" \".join(words)\nprint(text)",
			"words = $words\nfor word in words:\n    print(word, end=\"$sep\")",
			"words = $words\ntext = \"\".join(word + \"$sep\" for word in words)\nprint(text)",
		},
	},
	{
		Name: "split_text",
		Ask: []string{
			"Split the text at every \"$sep\" and print the list of parts.",
			"Break this string into a list of words. They are separated by \"$sep\".",
			"Use \"$sep\" as the delimiter, divide the string below into pieces and print them as a list.",
			"Print a list with the parts of the string that stand between the \"$sep\" signs.",
			"The text holds several words with \"$sep\" between them. Print them as a list.",
			"Turn the string into a list, using \"$sep\" as the separator.",
			"Write code that splits the given text on \"$sep\" and prints the list.",
			"Cut the text apart at \"$sep\" and show the list that you get.",
			"I need the words of this text as a list. The separator is \"$sep\".",
			"Separate the text at each \"$sep\" and output the resulting list.",
			"Given a string with \"$sep\" between the words, print the list of words.",
			"Which code gives me a list of the words that \"$sep\" separates in this string?",
		},
		Held: []string{
			"How do I split the text by \"$sep\" into a list?",
			"Parse the text: its fields are divided by \"$sep\". Output a list of the fields.",
			"Make a list from the following text by splitting it at \"$sep\".",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			sep := pick(d, ",", ";", "-", "/", "|", ":", "_", "+", "*", "#")
			return Slots{"text": strings.Join(d.Words(3, 6), sep), "sep": sep}
		},
		Code: "text = \"$text\"\nparts = text.split(\"$sep\")\nprint(parts)",
		Check: `
import re
assert re.findall(r"[a-z]+", re.sub(r"^[^\[]*\[", "", printed)) == re.findall(r"[a-z]+", "$text")
assert "$sep" == "," or "$sep" not in printed.rpartition("[")[2]
`,
		Wrong: []string{
			"text = \"$text\"\nparts = text.split(\"$sep\")\nprint(len(parts))",
			"text = \"$text\"\nparts = text.split(\"$sep\")\nprint(parts[1:])",
			"text = \"$text\"\nparts = list(text)\nprint(parts)",
			"text = \"$text\"\nparts = text.split(\"$sep\")\nprint(parts[0])",
		},
	},
	{
		Name: "count_words",
		Ask: []string{
			"Count the words in the {text|sentence}.",
			"How many words does the {given|following} text have? Print the number.",
			"Print the number of words in this sentence.",
			"Write code that counts how many words the text {contains|has}.",
			"Determine the amount of words in the passage below.",
			"Split the text into words and print how many there are.",
			"Given a sentence, print its word count.",
			"Of how many words does this sentence consist? Display the figure.",
			"Find the number of words in the text and show it.",
			"Output how many words this line of text is made of.",
			"Take the sentence below and count its words.",
			"Show the number of words that the text has.",
		},
		Held: []string{
			"I need the word count of the text below.",
			"How do I count the words of this text?",
			"Calculate the length of the text, measured in words.",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			text := d.Sentence()
			if d.IntN(2) == 0 {
				text += pick(d, " and ", " but ", " so ") + d.Sentence()
			}
			return Slots{"text": text}
		},
		Code:  "text = \"$text\"\nwords = text.split()\nprint(len(words))",
		Check: printedNumbers + `assert got[-1:] == ["$text".count(" ") + 1]`,
		Wrong: []string{
			"text = \"$text\"\nprint(len(text))",
			"text = \"$text\"\nwords = text.split()\nprint(words)",
			"text = \"$text\"\nprint(text.count(\" \"))",
		},
	},
	{
		Name: "longest_word",
		Ask: []string{
			"Determine the longest of the words below.",
			"What is the longest word of the {given|following} text? Print it.",
			"Print the longest word in this sentence.",
			"Write code that finds the word with the most letters in the text.",
			"Which word of this text is the longest? Print it.",
			"I need the longest word from the text below.",
			"Given a text, print the word that has the greatest length.",
			"How do I get the longest word out of this sentence?",
			"Show the word with the most letters.",
			"No word of the sentence has more letters than one of them. Output that word.",
			"Look for the longest word in this text and print it.",
			"Take the sentence and print its longest word.",
		},
		Held: []string{
			"Pick out the word that is longer than all others in the text, and display it.",
			"Split the text into words and output the longest one.",
			"Find the longest word in the {text|sentence}.",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			for {
				words := d.Words(4, 7)
				longest, ties := 0, 0
				for _, w := range words {
					if len(w) == longest {
						ties++
					} else if len(w) > longest {
						longest, ties = len(w), 0
					}
				}
				if ties == 0 && len(words[0]) < longest {
					return Slots{"text": strings.Join(words, " ")}
				}
			}
		},
		Code:  "text = \"$text\"\nwords = text.split()\nlongest = max(words, key=len)\nprint(longest)",
		Check: printedText + `assert got != "$text" and got.split()[-1].strip("\"'.") == sorted("$text".split(), key=lambda w: -len(w))[0]`,
		Wrong: []string{
			"text = \"$text\"\nwords = text.split()\nlongest = min(words, key=len)\nprint(longest)",
			"text = \"$text\"\nwords = text.split()\nprint(max(len(word) for word in words))",
			"text = \"$text\"\nwords = text.split()\nprint(words[0])",
		},
	},
	{
		Name: "initials",
		Ask: []string{
			"Make an acronym from the {text|words}: the first letter of each word, in upper case.",
			"Print the first letter of every word as one string in capital letters.",
			"What is the upper case acronym for these words? Print it.",
			"How do I build an acronym in upper case from these words?",
			"Write code that prints the initials of the words in capital letters, without spaces.",
			"Abbreviate the text to the capital initials of its words and print that.",
			"I want the upper case initials of the words below as one string.",
			"Create the abbreviation of this text from the capital first letters of its words.",
			"Given a text, print the acronym that its words form, in upper case.",
			"Form a string from the upper case first letters of all the words.",
			"Show the acronym of the text below, in capitals.",
			"Output the first letters of the words joined together and in upper case.",
		},
		Held: []string{
			"Turn the text into an acronym in capital letters.",
			"Collect each word's first character, capitalise it and print them all as one string.",
			"Take the first letter of each word, make it upper case, and join the letters.",
		},
		Input: "$text",
		Draw:  func(d Draw) Slots { return Slots{"text": d.Phrase(3, 6)} },
		Code: `
text = "$text"
letters = [word[0].upper() for word in text.split()]
print("".join(letters))
`,
		Check: printedText + `
import re
assert got == "".join(re.findall(r"(?:^| )([a-z])", "$text")).upper()
`,
	},
	{
		Name: "remove_letter_function",
		Ask: []string{
			"Write a function $fn(text) that {returns|gives back} the text without the letter \"$letter\".",
			"Create a function $fn that removes every \"$letter\" from a string and returns the result.",
			"Define $fn(text), which takes out all letters \"$letter\".",
			"I need a function named $fn that deletes each \"$letter\" from the text it is given.",
			"How do I write a function $fn that drops the letter \"$letter\" from a string?",
			"Implement $fn so that it returns its text with all \"$letter\" removed.",
			"Make a function called $fn that takes a text and returns it with no \"$letter\" in it.",
			"Develop $fn(text): it should leave out each \"$letter\" and return what remains.",
			"Build a function $fn that strips the letter \"$letter\" out of a string.",
			"Write the function $fn. It returns the same text, but every \"$letter\" is gone.",
			"The letter \"$letter\" must not be in the result. Write the function $fn that cleans a string that way.",
			"Show me a function, $fn, that returns a copy of a string without the letter \"$letter\".",
		},
		Held: []string{
			"Given a text, return it without any \"$letter\". Call the function $fn.",
			"What does a function $fn look like that removes the character \"$letter\" from a text?",
			"Name a function $fn and let it return its argument with the letter \"$letter\" deleted.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"fn": pick(d, "remove", "drop", "clean", "delete", "strip", "without") + pick(d, "_letter", "_char", "", "_letters"), "letter": string(rune('a' + d.IntN(26)))}
		},
		Code: "def $fn(text):\n    return text.replace(\"$letter\", \"\")",
		Check: gives + `
for text in ["", "$letter", "abc $letter def$letter", "$letter$letter x", "the quick brown fox jumps over the lazy dog", "b n"]:
    assert gives($fn, "".join(c for c in text if c != "$letter"), text)
`,
		Wrong: []string{
			"def $fn(text):\n    return text.replace(\"$letter\", \" \")",
			"def $fn(text):\n    return text.strip(\"$letter\")",
			"def $fn(text):\n    return text.replace(\"$letter\", \"\", 1)",
		},
	},
	{
		Name: "starts_or_ends_function",
		Ask: []string{
			"Does a word begin or end as wanted? Write $fn(word) that returns True when the word $how with \"$part\".",
			"Create a function $fn that checks whether a string $how with \"$part\".",
			"Define $fn(word), which tells if a word $how with \"$part\".",
			"Let $fn be a function whose result is True exactly if its word $how with \"$part\".",
			"How do I write a function $fn that returns True when a string $how with \"$part\"?",
			"Implement $fn so that it returns True for each word that $how with \"$part\", else False.",
			"Make a function called $fn. It takes a word and returns whether it $how with \"$part\".",
			"Given a word, return True if it $how with \"$part\". Call the function $fn.",
			"Build a function $fn that tests if a text $how with \"$part\".",
			"Write code for $fn, a function that returns a boolean: the word $how with \"$part\" or not.",
			"Show a function $fn that finds out whether a given word $how with \"$part\".",
			"What would a function $fn be that returns True only if the string $how with \"$part\"?",
		},
		Held: []string{
			"Develop a function $fn that accepts a string and decides if it $how with \"$part\".",
			"Write a function $fn(word) that returns True if the word $how with \"$part\" and False otherwise.",
			"I need a function named $fn that says whether its argument $how with \"$part\".",
		},
		Draw: func(d Draw) Slots {
			how := pick(d, "starts", "ends")
			word := d.Word()
			n := d.Int(2, 3)
			part := word[:n]
			if how == "ends" {
				part = word[len(word)-n:]
			}
			return Slots{"how": how, "method": how + "with", "part": part, "fn": pick(d, "check", "matches", "has_part", "is_match", "test_word", "fits", "check_word")}
		},
		Derived: []string{"method"},
		Code:    "def $fn(word):\n    return word.$method(\"$part\")",
		Check: gives + `
for word in ["", "$part", "$part" + "xyz", "xyz" + "$part", "xy$part" + "zq", "$part" + "$part", "$part"[:-1], "$part"[1:], "river"]:
    n = len("$part")
    piece = word[:n] if "$how" == "starts" else word[max(len(word) - n, 0):]
    assert gives($fn, piece == "$part", word)
`,
		Wrong: []string{
			"def $fn(word):\n    return \"$part\" in word",
			"def $fn(word):\n    return word == \"$part\"",
			"def $fn(word):\n    return not word.$method(\"$part\")",
		},
	},
	{
		Name: "pad_word",
		Ask: []string{
			"Pad \"$word\" on the $side with \"$fill\" to a {width|length} of $width and print it.",
			"Print \"$word\" filled up on the $side with \"$fill\" until it is $width characters long.",
			"How do I pad the string \"$word\" with \"$fill\" on the $side so that it has $width characters?",
			"Fill the $side of \"$word\" with \"$fill\" up to $width characters.",
			"Write code that pads \"$word\" to $width characters, adding \"$fill\" on the $side.",
			"Display \"$word\" so that with \"$fill\" on the $side it reaches $width characters.",
			"Add \"$fill\" to the $side of \"$word\" until its length is $width, then print it.",
			"Given the word \"$word\", print it with a total length of $width by putting \"$fill\" on the $side.",
			"The word \"$word\" should take up $width columns: put as many \"$fill\" as needed on its $side and print it.",
			"Extend \"$word\" to length $width. Use \"$fill\" as the fill character on the $side.",
			"Take \"$word\" and pad its $side with \"$fill\" so that $width characters are printed.",
			"Output \"$word\" as a field of $width characters with \"$fill\" on the $side.",
		},
		Held: []string{
			"Show \"$word\" with padding \"$fill\" on the $side and a total width of $width.",
			"Make the text \"$word\" exactly $width characters long with \"$fill\" characters to the $side of it. Print it.",
			"I want \"$word\" to be $width characters wide, with \"$fill\" as padding on the $side.",
		},
		Draw: func(d Draw) Slots {
			side := pick(d, [2]string{"left", "rjust"}, [2]string{"right", "ljust"})
			return Slots{"word": d.Word(), "fill": pick(d, "*", "-", ".", "=", "#", "+", "_", "0"), "width": d.Int(10, 40), "side": side[0], "method": side[1]}
		},
		Derived: []string{"method"},
		Code:    "word = \"$word\"\npadded = word.$method($width, \"$fill\")\nprint(padded)",
		Check: printedText + `
padding = "$fill" * ($width - len("$word"))
assert got == (padding + "$word" if "$side" == "left" else "$word" + padding)
`,
		Wrong: []string{
			"word = \"$word\"\nprint(word.center($width, \"$fill\"))",
			"word = \"$word\"\nprint(word + \"$fill\" * $width)",
			"word = \"$word\"\nprint(word.$method($width))",
		},
	},
	{
		Name: "letters_at_edge",
		Ask: []string{
			"Print the $edge $n letters of \"$word\".",
			"Extract the substring made of the $edge $n letters of \"$word\", then output it.",
			"How do I get the $edge $n letters from \"$word\"?",
			"Use slicing to print the $edge $n characters of \"$word\".",
			"Show the $edge $n letters of the word \"$word\".",
			"From the string \"$word\", print only the $edge $n letters.",
			"I need the $edge $n characters of \"$word\".",
			"What are the $edge $n letters of \"$word\"? Print them.",
			"Write code that outputs the $edge $n letters of \"$word\".",
			"Given the word \"$word\", take its $edge $n letters and print them.",
			"Display a piece of \"$word\", namely its $edge $n characters.",
			"Store \"$word\" in a variable and print its $edge $n characters.",
		},
		Held: []string{
			"Cut the $edge $n letters out of \"$word\" and print them.",
			"Get the $edge $n characters of the string \"$word\" and print them.",
			"Which code shows me just the $edge $n characters of the text \"$word\"?",
		},
		Draw: func(d Draw) Slots {
			word, n := d.Word()+d.Word(), d.Int(2, 5)
			if len(word) == 2*n {
				word += "s"
			}
			edge, slice := "first", ":"+python(n)
			if d.IntN(2) == 0 {
				edge, slice = "last", "-"+python(n)+":"
			}
			return Slots{"word": word, "n": n, "edge": edge, "slice": slice}
		},
		Derived: []string{"slice"},
		Code:    "word = \"$word\"\npart = word[$slice]\nprint(part)",
		Check: printedText + `
letters = list("$word")
while len(letters) > $n:
    letters.pop(-1 if "$edge" == "first" else 0)
assert got == "".join(letters)
`,
		Wrong: []string{
			"word = \"$word\"\nprint(word[$n:])",
			"word = \"$word\"\nprint(word[:-$n])",
			"word = \"$word\"\nprint(word[$n])",
		},
	},
	{
		Name: "caesar_function",
		Ask: []string{
			"Write a function $fn(text) that shifts each {lower case letter|lower-case letter} by $k places in the alphabet, wrapping around after z. Leave other characters alone.",
			"Create a function $fn for a Caesar cipher with a shift of $k. The text is in lower case, and spaces stay as they are.",
			"Define $fn(text), a Caesar cipher that moves the letters a to z on by $k and keeps everything else.",
			"Caesar used to shift letters. Write $fn, which shifts lower case letters by $k and returns the text with its spaces kept.",
			"How do I write a Caesar cipher function $fn with shift $k for lower case letters? Other characters stay the same.",
			"Implement a Caesar cipher as $fn. Move each letter from a to z by $k, start again at a after z, and do not change spaces.",
			"Let $fn turn a lower case string into its Caesar code for a shift of $k, without touching spaces.",
			"Build $fn, which encodes a lower case text by replacing each letter with the one $k places later, wrapping at z. Keep the spaces.",
			"Write the Caesar cipher function $fn. It moves letters by $k, works on lower case text and keeps spaces.",
			"Given a lower case text, return it shifted by $k letters in the manner of Caesar, spaces untouched. Call the function $fn.",
			"Show a function $fn that applies a Caesar shift of $k to the lower case letters of a text and nothing else.",
			"What would a Caesar cipher function $fn look like if the shift is $k, the text is lower case and spaces are kept?",
		},
		Held: []string{
			"Develop $fn(text) to encode a message in lower case: letters go $k forward, z is followed by a, all other characters remain.",
			"I need a function named $fn that encrypts lower case text with a Caesar shift of $k and leaves spaces alone.",
			"Make a function called $fn that returns a lower case text with every letter moved $k places forward. Spaces stay unchanged.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"k": d.Int(2, 25), "fn": pick(d, "caesar", "encrypt", "encode", "cipher", "shift", "shift_text", "encode_text", "caesar_cipher", "shift_letters", "move_letters")}
		},
		Code: `
def $fn(text):
    result = ""
    for letter in text:
        if letter.isalpha():
            position = (ord(letter) - ord("a") + $k) % 26
            letter = chr(position + ord("a"))
        result += letter
    return result
`,
		Check: gives + `
import string
plain = string.ascii_lowercase
table = str.maketrans(plain, plain[$k:] + plain[:$k])
for text in ["", "abc xyz", plain, "hello my old friend", "z", "a zoo"]:
    assert gives($fn, text.translate(table), text)
`,
	},
	{
		Name: "find_position",
		Ask: []string{
			"Find the position at which \"$word\" starts in the text.",
			"At which index does \"$word\" start in the {given|following} text? Print it.",
			"Print the index where \"$word\" begins in this text.",
			"Where in the string does \"$word\" start? Print the index.",
			"How do I find the index where \"$word\" starts in the string?",
			"Write code that prints the position at which \"$word\" starts.",
			"I need the index at which \"$word\" starts in this string.",
			"Search the text for \"$word\" and print the index where it starts.",
			"How far from the start of the text does \"$word\" begin? Print the index.",
			"Use find to get the index of \"$word\" in the text, and print it.",
			"Show at what character index \"$word\" begins.",
			"Locate \"$word\" in the string below and display the index of its first character.",
		},
		Held: []string{
			"Look up where \"$word\" starts in the text below and print the index.",
			"The text contains \"$word\". Print the index at which it begins.",
			"Given the text, output the index of the first letter of \"$word\".",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			for {
				parts := d.Words(4, 6)
				text, word := strings.Join(parts, " "), parts[d.Int(1, len(parts)-1)]
				if strings.Count(text, word) == 1 {
					return Slots{"text": text, "word": word}
				}
			}
		},
		Code:  "text = \"$text\"\nposition = text.find(\"$word\")\nprint(position)",
		Check: printedNumbers + `assert got[-1:] == [len("$text".partition("$word")[0])]`,
		Wrong: []string{
			"text = \"$text\"\nposition = text.split().index(\"$word\")\nprint(position)",
			"text = \"$text\"\nposition = text.find(\"$word\") + 1\nprint(position)",
			"text = \"$text\"\nprint(text.count(\"$word\"))\nprint(\"$word\" in text)",
		},
	},
	{
		Name: "print_letters",
		Ask: []string{
			"Print each letter of \"$word\" on its own line.",
			"Display \"$word\" vertically, with a new line for each of its letters.",
			"How do I print the letters of \"$word\" one below the other?",
			"Write a loop that prints the characters of \"$word\" line by line.",
			"Take the letters of \"$word\" one by one and put each on a line of the output.",
			"Show every letter of \"$word\" on a separate line.",
			"I want the letters of the word \"$word\" printed under each other.",
			"Use a for loop to output the letters of \"$word\", one on each line.",
			"Iterate over the string \"$word\" and print each character.",
			"Given the word \"$word\", print its letters one at a time on new lines.",
			"Spell out \"$word\": print one letter after the other, each on a line.",
			"Output the string \"$word\" as a column, one letter in each line.",
		},
		Held: []string{
			"Loop over \"$word\" and print every letter.",
			"Go through the string \"$word\" and print one character per line.",
			"Write \"$word\" downwards, a single character on every line.",
		},
		Draw:  func(d Draw) Slots { return Slots{"word": d.Word() + pick(d, "", d.Word())} },
		Code:  "word = \"$word\"\nfor letter in word:\n    print(letter)",
		Check: printedLines + `assert "/".join(got) == "/".join("$word")`,
		Wrong: []string{
			"word = \"$word\"\nfor letter in word:\n    print(word)",
			"word = \"$word\"\nfor letter in word[1:]:\n    print(letter)",
			"word = \"$word\"\nfor letter in word:\n    print(letter, end=\"\")",
		},
	},
	{
		Name: "contains_function",
		Ask: []string{
			"Write a function $fn(text) that returns True if the text contains \"$word\" and False otherwise.",
			"Create a function $fn that checks whether \"$word\" is in a text.",
			"Define $fn(text), which tells if \"$word\" occurs in the text.",
			"I need a function named $fn that returns True when a string has \"$word\" in it.",
			"How do I write a function $fn that checks if a string contains \"$word\"?",
			"Implement $fn so that it returns whether its text includes \"$word\".",
			"Is \"$word\" somewhere in the text? Let the function $fn(text) answer with a boolean.",
			"Given a text, return True if \"$word\" appears in it and else False. Call the function $fn.",
			"Build a function $fn that looks for \"$word\" in a string and returns True or False.",
			"Name a function $fn and make it return True exactly when its argument holds \"$word\".",
			"Show me a function $fn for testing if the text it gets mentions \"$word\".",
			"What function $fn returns True only for texts with \"$word\" in them?",
		},
		Held: []string{
			"Develop a function $fn to search a string for \"$word\" and report True or False.",
			"Make a function called $fn that takes a text and says if \"$word\" is part of it.",
			"Write the function $fn. It returns a boolean that is True if \"$word\" is found in the text.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"word": d.Word(), "fn": pick(d, "contains", "has_word", "mentions", "includes", "check_text", "is_in_text", "search")}
		},
		Code: "def $fn(text):\n    return \"$word\" in text",
		Check: gives + `
for text in ["", "$word", "my $word is here", "no such thing", "$word" + "s", "xx$word", "$word"[:-1]]:
    assert gives($fn, text.find("$word") >= 0, text)
`,
		Wrong: []string{
			"def $fn(text):\n    return \"$word\" not in text",
			"def $fn(text):\n    return text == \"$word\"",
			"def $fn(text):\n    return text.startswith(\"$word\")",
		},
	},
	{
		Name: "reverse_word_order",
		Ask: []string{
			"Reverse the order of the words in the {text|sentence}.",
			"Print the words of the {given|following} text in reverse order.",
			"Display the text such that its final word comes first, then the one before it, and so on.",
			"Write code that prints the sentence with its last word first and its first word last.",
			"Turn the word order of the text around and print it.",
			"I want the words of this text from last to first, on one line.",
			"Given a sentence, print its words in the opposite order.",
			"Put the words of the text in backward order and print the new text.",
			"Show this sentence with its words in reversed order.",
			"Split the text into words, reverse them, and join them again with spaces.",
			"Output the text word by word from the end to the start, on one line.",
			"Flip the sequence of words in the sentence and output it.",
		},
		Held: []string{
			"How do I reverse the order of words in this sentence?",
			"Each word shall keep its spelling, but their sequence is to be reversed. Print that text.",
			"Take the sentence below and print it with the order of the words reversed.",
		},
		Input: "$text",
		Draw:  func(d Draw) Slots { return Slots{"text": d.Sentence()} },
		Code:  "text = \"$text\"\nwords = text.split()\nprint(\" \".join(words[::-1]))",
		Check: printedWords + `
expected = []
for word in "$text".split():
    expected.insert(0, word)
assert got == expected
`,
		Wrong: []string{
			"text = \"$text\"\nprint(text[::-1])",
			"text = \"$text\"\nwords = text.split()\nprint(\" \".join(sorted(words)))\nprint(words)",
			"text = \"$text\"\nwords = text.split()\nprint(\" \".join(words))",
		},
	},
	{
		Name: "strip_marks",
		Ask: []string{
			"Remove the \"$mark\" signs from both ends of \"$text\".",
			"Strip all \"$mark\" from the start and the end of \"$text\" and print it.",
			"How do I remove the leading and trailing \"$mark\" of \"$text\"?",
			"Print \"$text\" without the \"$mark\" characters around it.",
			"Trim \"$mark\" off the two ends of the string \"$text\", then output it.",
			"Write code that strips \"$mark\" from the text \"$text\".",
			"I have the string \"$text\" and want to get rid of \"$mark\" at both ends.",
			"What is left of \"$text\" once the \"$mark\" signs on both sides are gone? Print it.",
			"Given the text \"$text\", print it with the outer \"$mark\" signs stripped.",
			"The text \"$text\" has \"$mark\" at both ends. Print it without them.",
			"Show \"$text\" after all leading and trailing \"$mark\" have been removed.",
			"Delete the \"$mark\" signs that surround the text in \"$text\" and print it.",
		},
		Held: []string{
			"Take the string \"$text\" and cut off each \"$mark\" at its beginning and end.",
			"Clean up \"$text\" by removing every \"$mark\" on the left and on the right.",
			"Display the string \"$text\" with no \"$mark\" before or after it.",
		},
		Draw: func(d Draw) Slots {
			mark := pick(d, "*", "-", "#", "=", "+", "_", "~", "!")
			return Slots{"mark": mark, "text": strings.Repeat(mark, d.Int(1, 4)) + d.Phrase(1, 2) + strings.Repeat(mark, d.Int(1, 4))}
		},
		Code: "text = \"$text\"\nclean = text.strip(\"$mark\")\nprint(clean)",
		Check: printedText + `
import re
assert got == re.sub(r"[^a-z ]", "", "$text")
`,
		Wrong: []string{
			"text = \"$text\"\nprint(text.lstrip(\"$mark\"))",
			"text = \"$text\"\nprint(text.rstrip(\"$mark\"))",
			"text = \"$text\"\nprint(text.strip())",
		},
	},
	{
		Name: "count_word_in_text",
		Ask: []string{
			"The word \"$word\" may be there several times. Display the exact number.",
			"Count how many times \"$word\" {occurs|appears} in the text.",
			"Print how often the text uses the word \"$word\".",
			"Write code that counts the word \"$word\" in this text.",
			"I need to know how many of these words are \"$word\".",
			"Find the number of times \"$word\" is in the text.",
			"Given the text, count the occurrences of the word \"$word\" and print the count.",
			"Split the text into words and count \"$word\".",
			"Show how many times the word \"$word\" is repeated in the text.",
			"Go over the text and report how many of its words equal \"$word\".",
			"Output the count of the word \"$word\".",
			"Tell me how many times \"$word\" stands among the words of the text.",
		},
		Held: []string{
			"Determine the frequency of the word \"$word\" in the words below.",
			"How do I count the word \"$word\" in the text below?",
			"How often does the word \"$word\" occur in the text? Print the number.",
		},
		Input: "$text",
		Draw: func(d Draw) Slots {
			few := d.Words(2, 3)
			text := append([]string{}, few...)
			for range d.Int(3, 4) {
				text = append(text, few[d.IntN(len(few))])
			}
			d.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
			return Slots{"text": strings.Join(text, " "), "word": few[0]}
		},
		Code:  "text = \"$text\"\nwords = text.split()\nprint(words.count(\"$word\"))",
		Check: printedNumbers + `assert got[-1:] == [sum(1 for w in "$text".split(" ") if w == "$word")]`,
		Wrong: []string{
			"text = \"$text\"\nwords = text.split()\nprint(len(words))",
			"text = \"$text\"\nwords = text.split()\nprint(words.index(\"$word\") + 100)",
			"text = \"$text\"\nwords = set(text.split())\nprint(\"$word\" in words)",
		},
	},
}

var palindromes = strings.Fields("level radar noon civic kayak madam refer rotor stats tenet wow eye mom dad pop deed peep toot solos sees")
