package main

import (
	"strconv"
	"strings"
)

// conversionKinds are about turning values of one sort into another: bases, units, text and numbers.
var conversionKinds = []Kind{
	{
		Name: "number_to_base",
		Ask: []string{
			"Convert the number $n to $base and print it without a prefix.",
			"Print the number $n in $base, without any prefix.",
			"How do I print the number $n in $base without a prefix?",
			"The decimal number $n should be output in $base without any prefix.",
			"What is $n in $base? Print it without a prefix.",
			"I need the number $n written in $base, without a prefix.",
			"Express $n in $base and print that, leaving the prefix out.",
			"Show the $base digits of the number $n.",
			"Use format to print $n in $base without a prefix.",
			"Write a program that converts $n to $base digits and prints only the digits.",
			"Given the decimal number $n, print it in $base with no prefix.",
			"Take the number $n and output its $base digits, without a prefix.",
		},
		Held: []string{
			"Work out how $n is written in $base and display just the digits.",
			"Write code that shows $n in $base, with no prefix in front.",
			"Turn $n into $base digits and print them without a prefix.",
		},
		Draw: func(d Draw) Slots {
			i := d.IntN(3)
			return Slots{"n": d.Int(20, 999), "base": []string{"binary", "hexadecimal", "octal"}[i], "letter": []string{"b", "x", "o"}[i]}
		},
		Derived: []string{"letter"},
		Code: `
number = $n
digits = format(number, "$letter")
print(digits)
`,
		Check: `
rest, digits, base = $n, "", {"binary": 2, "octal": 8, "hexadecimal": 16}["$base"]
while rest:
    rest, digit = divmod(rest, base)
    digits = "0123456789abcdef"[digit] + digits
assert printed.split()[-1].lower() == digits
`,
	},
	{
		Name: "base_to_number",
		Ask: []string{
			"Convert the $base number $text to decimal and print it.",
			"Print the decimal value of the $base number $text.",
			"How do I convert the $base string \"$text\" to an integer?",
			"Write code that prints the $base number $text as a decimal number.",
			"What is the $base number $text in decimal? Print it.",
			"I need the decimal value of \"$text\", which is a $base number.",
			"Turn the $base string \"$text\" into an integer and print it.",
			"Show the decimal value of the $base digits $text.",
			"Read \"$text\" as $base and show the resulting number.",
			"Write a program that converts the $base number $text to a decimal number.",
			"Given the $base string \"$text\", print the number it stands for.",
			"Work out which decimal number the $base number $text is and display it.",
		},
		Held: []string{
			"Take the $base number $text and output it in decimal.",
			"The string \"$text\" is a number in $base. Output it as an ordinary integer.",
			"Use int to read \"$text\" as a $base number and print its value.",
		},
		Draw: func(d Draw) Slots {
			i := d.IntN(3)
			base := []int{2, 16, 8}[i]
			return Slots{"text": strconv.FormatInt(int64(d.Int(20, 999)), base), "base": []string{"binary", "hexadecimal", "octal"}[i], "number": base}
		},
		Derived: []string{"number"},
		Code: `
text = "$text"
number = int(text, $number)
print(number)
`,
		Check: printedNumbers + `
value = 0
for digit in "$text":
    value = value * {"binary": 2, "octal": 8, "hexadecimal": 16}["$base"] + "0123456789abcdef".index(digit)
assert got[-1] == value
`,
	},
	{
		Name: "temperature_conversion",
		Ask: []string{
			"Convert $t degrees $from to $to and print the result.",
			"It is $t degrees $from outside. Display that in $to.",
			"How do I convert a temperature of $t degrees $from to $to?",
			"Write code that converts $t degrees $from into $to.",
			"Work out the temperature in $to when it is $t degrees in $from.",
			"I need $t degrees $from as a temperature in $to.",
			"Turn the temperature $t from $from into $to and print it.",
			"Show how many degrees $to are $t degrees $from.",
			"{Compute|Calculate} the $to temperature for $t degrees $from.",
			"Write a program that prints a temperature of $t degrees $from in $to.",
			"Given a temperature of $t in $from, print it in $to.",
			"Take $t degrees $from and output the same temperature in $to.",
		},
		Held: []string{
			"Print $t degrees $from in degrees $to.",
			"What are $t degrees $from in $to? Print it.",
			"Express $t degrees $from as degrees $to and output the number.",
		},
		Draw: func(d Draw) Slots {
			if d.IntN(2) == 0 {
				return Slots{"t": d.Int(-30, 120), "from": "Celsius", "to": "Fahrenheit", "old": "celsius", "new": "fahrenheit", "formula": "celsius * 9 / 5 + 32"}
			}
			return Slots{"t": d.Int(-30, 220), "from": "Fahrenheit", "to": "Celsius", "old": "fahrenheit", "new": "celsius", "formula": "(fahrenheit - 32) * 5 / 9"}
		},
		Derived: []string{"formula", "old", "new"},
		Code: `
$old = $t
$new = $formula
print($new)
`,
		Check: printedNumbers + `
expected = {"Fahrenheit": $t * 1.8 + 32, "Celsius": ($t - 32) / 1.8}["$to"]
assert abs(got[-1] - expected) < 0.06
`,
	},
	{
		Name: "split_into_units",
		Ask: []string{
			"Convert $n $small to $large and $small and print both.",
			"Print how many $large and $small are in $n $small.",
			"How do I split $n $small into $large and $small?",
			"Write code that turns $n $small into $large and remaining $small and prints both numbers.",
			"What are $n $small in $large and $small? Print both.",
			"I need $n $small as $large and $small.",
			"Something lasts $n $small. Output that in $large and $small.",
			"Show $n $small as whole $large and the $small left over.",
			"Use divmod to convert $n $small into $large and $small.",
			"Express $n $small in $large plus the $small that remain.",
			"Given $n $small, print the full $large and the remaining $small.",
			"Take $n $small and output how many $large they are and how many $small remain.",
		},
		Held: []string{
			"Work out how many whole $large fit into $n $small and how many $small are left, and display both.",
			"Break $n $small down into $large and $small and print the two numbers.",
			"Write a program that prints $n $small as $large and $small.",
		},
		Draw: func(d Draw) Slots {
			unit := pick(d, "minutes hours 60", "seconds minutes 60", "hours days 24", "days weeks 7", "months years 12")
			parts := strings.Fields(unit)
			size, _ := strconv.Atoi(parts[2])
			return Slots{"n": d.Int(size+1, min(999, size*20)), "small": parts[0], "large": parts[1], "size": size}
		},
		Derived: []string{"size"},
		Code: `
total = $n
$large, $small = divmod(total, $size)
print($large, "$large", $small, "$small")
`,
		Check: printedNumbers + `
size = {"minutes": 60, "seconds": 60, "hours": 24, "days": 7, "months": 12}["$small"]
assert got[-2:] == [float(($n - $n % size) / size), $n % size]
`,
	},
	{
		Name: "unit_by_factor",
		Ask: []string{
			"Convert $n $many to $other and print the result. One $unit is $k $other.",
			"Print $n $many in $other, where one $unit is $k $other.",
			"A $unit equals $k $other. Work out what $n $many make in $other and display it.",
			"Write code that converts $n $many to $other, given that one $unit is $k $other.",
			"What are $n $many in $other, if one $unit is $k $other? Print it.",
			"I need $n $many in $other. One $unit equals $k $other.",
			"Turn $n $many into $other and print the number; a $unit has $k $other.",
			"Show how many $other there are in $n $many when one $unit is $k $other.",
			"{Compute|Calculate} the number of $other in $n $many. There are $k $other in one $unit.",
			"Write a program that prints how many $other $n $many are, at $k $other per $unit.",
			"With $k $other to the $unit, print $n $many as $other.",
			"If a $unit has $k $other, how many $other do $n $many have? Output the answer.",
		},
		Held: []string{
			"One $unit is $k $other. How do I convert $n $many to $other?",
			"Express $n $many as $other and output the number. The factor is $k $other for a $unit.",
			"Use the factor $k to convert $n $many to $other: one $unit is $k $other.",
		},
		Draw: func(d Draw) Slots {
			unit := strings.Fields(pick(d, "mile miles kilometres 1.6", "kilometre kilometres metres 1000", "foot feet centimetres 30.5", "inch inches millimetres 25.4",
				"kilogram kilograms pounds 2.2", "gallon gallons litres 3.8", "pound pounds grams 453.6", "yard yards metres 0.9", "litre litres millilitres 1000", "dozen dozens eggs 12"))
			return Slots{"n": d.Int(2, 90), "unit": unit[0], "many": unit[1], "other": unit[2], "k": unit[3]}
		},
		Code: `
$many = $n
$other = $many * $k
print($other)
`,
		Check: printedNumbers + `
assert abs(got[-1] - sum([$k] * $n)) < 0.051
`,
	},
	{
		Name: "strings_to_integers",
		Ask: []string{
			"Convert the strings in the list to integers and print the new list.",
			"Turn every string of this list into an integer and print the result.",
			"How do I convert this list of strings to a list of integers?",
			"Write code that makes a list of integers from the list of strings and prints it.",
			"These numbers are stored as text. Output them as a list of integers.",
			"I need the items of this list as integers. Print the list.",
			"Change the strings below to integers and print them as a list.",
			"Work out the list of ints for the list of strings given here and display it.",
			"Convert each element of the list from a string to an int and print the list.",
			"Given the list of number strings, print the list of integers.",
			"Make integers out of these strings and print the list of them.",
			"Print the following list with its strings turned into integers.",
		},
		Held: []string{
			"The list has numbers as strings. Print it as a list of integers.",
			"Use int to convert each string of the list and show the new list.",
			"Every item here should be an integer instead of a string; show the converted list.",
		},
		Input: "$texts",
		Draw: func(d Draw) Slots {
			var texts []string
			for _, n := range d.Ints(3, 6, 1, 250) {
				texts = append(texts, strconv.Itoa(n))
			}
			return Slots{"texts": texts}
		},
		Code: `
texts = $texts
numbers = [int(text) for text in texts]
print(numbers)
`,
		Check: printedNumbers + `
import json
assert got == json.loads("[" + ",".join($texts) + "]")
assert "'" not in printed and '"' not in printed and "." not in printed
`,
	},
	{
		Name: "number_to_digits",
		Ask: []string{
			"Express the number $n as a list of single digits and show the list.",
			"Print the digits of $n as a list of integers.",
			"How do I turn the number $n into a list of its digits?",
			"Write code that splits $n into its digits and prints them as a list.",
			"Split the number $n into a list of digits and print the list.",
			"I need the digits of the number $n as a list of integers.",
			"Turn $n into a list of integers, one for each digit, and print it.",
			"Show the list of digits of the number $n.",
			"Make a list with the digits of $n, as integers, and print it.",
			"Of which digits does the number $n consist? Output them as a list of integers.",
			"Given the number $n, print the list of its digits, from left to right.",
			"Take the number $n apart into digits and output them as a list.",
		},
		Held: []string{
			"Work out the list of the digits that make up $n and display it.",
			"Write a program that prints a list of the digits of $n.",
			"Convert the number $n to a list of its digits and print it.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(100, 999999)} },
		Code: `
number = $n
digits = [int(digit) for digit in str(number)]
print(digits)
`,
		Check: printedNumbers + `
value = 0
for digit in got:
    assert 0 <= digit <= 9
    value = value * 10 + digit
assert value == $n and "'" not in printed
`,
	},
	{
		Name: "digits_to_number",
		Ask: []string{
			"Join the digits of the list into one number and print it.",
			"Turn this list of digits into a single integer and print it.",
			"Out of the list of digits, create a single int and print it.",
			"Write code that combines the digits in the list to one integer and prints it.",
			"Convert the list of digits to the number that they form and print it.",
			"Work out which number these digits form together and display it.",
			"Put the digits together to form a single number and print it.",
			"Print the integer whose digits are in the list.",
			"Build one integer from the digits below and show it.",
			"Given the list of digits, print the number that they form.",
			"Make a number from the following digits and print it.",
			"Write a short program that turns the digits of the list into one number.",
		},
		Held: []string{
			"I need the number that has these digits, in this order.",
			"Read the digits from left to right as one number and output that number.",
			"How do I make one number out of this list of digits?",
		},
		Input: "$digits",
		Draw: func(d Draw) Slots {
			return Slots{"digits": append([]int{d.Int(1, 9)}, d.Ints(2, 6, 0, 9)...)}
		},
		Code: `
digits = $digits
number = int("".join(str(digit) for digit in digits))
print(number)
`,
		Check: printedNumbers + `
value = 0
for digit in $digits:
    value = value * 10 + digit
assert got == [value]
`,
	},
	{
		Name: "character_codes",
		Ask: []string{
			"Print the character codes of the letters in \"$word\" as a list.",
			"Convert each letter of \"$word\" to its {ASCII|Unicode} code and print the list of codes.",
			"How do I get a list of the character codes of \"$word\"?",
			"Write code that prints a list with the ord value of every letter in \"$word\".",
			"What are the ASCII codes of the letters in the word $word? Print them as a list.",
			"I need the list of the character codes for the word \"$word\".",
			"Turn the word $word into a list of character codes and print it.",
			"Work out the code of every character in \"$word\" and display the codes in a list.",
			"Use ord to print the codes of the letters of \"$word\" in a list.",
			"Write a program that prints the list of character codes for \"$word\".",
			"Which character codes do the letters of the word $word have? Output a list.",
			"Take each letter of \"$word\", find its code with ord, and print all codes as a list.",
		},
		Held: []string{
			"Show the Unicode code of each character in \"$word\", as a list.",
			"Given the word \"$word\", print a list of the codes of its characters.",
			"Express the word \"$word\" as a list of ord values and show it.",
		},
		Draw: func(d Draw) Slots { return Slots{"word": pick(d, d.Word(), d.Word(), d.Name())} },
		Code: `
word = "$word"
codes = [ord(letter) for letter in word]
print(codes)
`,
		Check: printedNumbers + `
assert got == list("$word".encode("ascii"))
`,
	},
	{
		Name: "comma_text_to_numbers",
		Ask: []string{
			"In the text there are integers, separated by commas. Output them as a list.",
			"Convert the comma-separated string to a list of integers and print it.",
			"How do I turn this comma-separated string into a list of integers?",
			"Extract the numbers between the commas as ints and show the list.",
			"The string holds numbers with commas between them. Print a list of these integers.",
			"I need the numbers of this comma-separated string as a list of integers.",
			"Turn the string into a list of integers, splitting at the commas, and print it.",
			"Use split and int to make a list of numbers from the string and print it.",
			"Parse the comma-separated numbers below into a list of integers and print it.",
			"Given the string with commas, print the list of its integers.",
			"Make a list of ints from the string of numbers and print it.",
			"Print the numbers of the following string as a list of integers.",
		},
		Held: []string{
			"Work out the list of integers that this comma-separated text contains and display it.",
			"Split the string at the commas and print the numbers as a list of integers.",
			"Write code that reads the numbers in the string and prints them as a list of integers.",
		},
		Input: "\"$text\"",
		Draw: func(d Draw) Slots {
			var texts []string
			for _, n := range d.Ints(3, 7, 1, 250) {
				texts = append(texts, strconv.Itoa(n))
			}
			return Slots{"text": strings.Join(texts, ",")}
		},
		Code: `
text = "$text"
numbers = [int(part) for part in text.split(",")]
print(numbers)
`,
		Check: printedNumbers + `
assert got == [$text]
assert not set(printed) & set("'.")
`,
	},
}
