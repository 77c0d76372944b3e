package main

import "fmt"

// formatKinds are about printing values in a given form.
var formatKinds = []Kind{
	{
		Name: "fixed_decimals",
		Ask: []string{
			"Print the number with exactly $k decimal places.",
			"Format the number with $k decimals and print it.",
			"How do I print this number with $k digits after the decimal point?",
			"Write code that prints the number with $k decimal places, using an f-string.",
			"Use an f-string to show the number with exactly $k decimals.",
			"With $k decimal places, how does this number look? Print it.",
			"Show the number with $k digits after the point.",
			"Print the value below with $k decimals.",
			"Output this value with precisely $k digits following the decimal point.",
			"Given the number, print it formatted to $k decimals.",
			"Write a short program that formats the number to $k decimal places.",
			"Display the number so that it has $k decimals.",
		},
		Held: []string{
			"Take the number and output it with exactly $k decimal places.",
			"The number should appear with $k decimals. Write code that prints it like that.",
			"I need this number printed with $k decimal places.",
		},
		Input: "$x",
		Draw: func(d Draw) Slots {
			k := d.Int(1, 5)
			return Slots{"x": fmt.Sprintf("%d.%d%d", d.Int(1, 500), d.Int(10, 99), pick(d, 1, 2, 3, 4, 6, 7, 8, 9)), "k": k, "spec": fmt.Sprintf(".%df", k)}
		},
		Derived: []string{"spec"},
		Code: `
number = $x
text = f"{number:$spec}"
print(text)
`,
		Check: `
from decimal import Decimal, ROUND_HALF_UP
word = printed.split()[-1]
assert Decimal(word) == Decimal("$x").quantize(Decimal(1).scaleb(-$k), ROUND_HALF_UP)
assert len(word.split(".")[1]) == $k
`,
	},
	{
		Name: "thousands_separators",
		Ask: []string{
			"Print the number with commas as thousands separators.",
			"The number should appear in groups of three digits, with commas. Write code that prints it like that.",
			"How do I print this number with thousands separators?",
			"Write code that prints the number with commas between groups of three digits.",
			"Use an f-string to show the number with commas as thousands separators.",
			"I need this number printed with commas in it, as in 1,000.",
			"Show the number with a comma after every three digits from the right.",
			"Print the large number below with commas so that it is easier to read.",
			"Take the number and output it with thousands separators.",
			"Given the number, print it with commas in the style of 1,000,000.",
			"Output this value with a comma as the separator of thousands.",
			"Display the number with commas between the thousands.",
		},
		Held: []string{
			"Write a short program that adds thousands separators to the number.",
			"Format the number with a comma between the thousands and print it.",
			"With thousands separators, how does this number look? Print it.",
		},
		Input: "$n",
		Draw:  func(d Draw) Slots { return Slots{"n": d.Int(1000, pick(d, 99999, 9999999))} },
		Code: `
number = $n
text = f"{number:,}"
print(text)
`,
		Check: `
import re
assert printed.split()[-1] == re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", "$n")
`,
		Wrong: []string{`
number = $n
print(f"{number}")
`, `
number = $n
print(f"{number:_}")
`, `
number = $n
print(f"{number:,.2f}")
`},
	},
	{
		Name: "zero_padding",
		Ask: []string{
			"Print the number $n padded with zeros to a width of $w.",
			"Format $n with leading zeros so that it has $w digits, and print it.",
			"How do I print $n with leading zeros to a length of $w?",
			"The number $n should be shown $w digits long, filled with zeros at the left. Print it like that.",
			"Use zfill to pad the number $n to $w digits and print it.",
			"I need the number $n with enough leading zeros to be $w digits long.",
			"With a width of $w and leading zeros, how does $n look? Print it.",
			"Fill up $n with zeros on the left to $w characters and print it.",
			"Take the number $n and output it with leading zeros, $w digits in all.",
			"Given the number $n, print it padded with zeros to $w digits.",
			"Write a program that pads $n with zeros on the left until it is $w characters long.",
			"Display $n with leading zeros and a total width of $w.",
		},
		Held: []string{
			"Output the number $n with as many zeros before it as make $w digits altogether.",
			"Write code that prints $n with zeros in front, $w characters wide.",
			"Show the number $n as a {string of $w digits|$w-digit string} with leading zeros.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(2, 999), "w": d.Int(5, 12)} },
		Code: `
number = $n
padded = str(number).zfill($w)
print(padded)
`,
		Check: `
word = printed.split()[-1]
assert len(word) == $w and int(word) == $n and word.isdigit()
`,
	},
	{
		Name: "person_sentence",
		Ask: []string{
			"Store the name $name and the age $age in variables and print \"$name is $age years old\" with an f-string.",
			"Use an f-string with the variables name = \"$name\" and age = $age to print \"$name is $age years old\".",
			"Print the sentence \"$name is $age years old\" from a name and an age variable.",
			"How do I use an f-string to print \"$name is $age years old\" from two variables?",
			"Write code that puts the name $name and the age $age into the sentence \"... is ... years old\" and prints it.",
			"I need to print \"$name is $age years old\" with the name and age taken from variables.",
			"Given the name \"$name\" and the age $age, print the text \"$name is $age years old\".",
			"With name and age variables, print that $name is $age years old, in the form \"$name is $age years old\".",
			"From the two values \"$name\" and $age, build the sentence \"$name is $age years old\" and show it.",
			"Show the line \"$name is $age years old\" using variables and an f-string.",
			"Make variables for the name $name and the age $age, then print \"$name is $age years old\".",
			"Output \"$name is $age years old\" by inserting a name and an age into an f-string.",
		},
		Held: []string{
			"Format the string \"$name is $age years old\" from the values \"$name\" and $age and print it.",
			"Let name be \"$name\" and age be $age, and display \"$name is $age years old\".",
			"Write a program that formats the name $name and the age $age as \"$name is $age years old\".",
		},
		Draw: func(d Draw) Slots { return Slots{"name": d.Name(), "age": d.Int(4, 90)} },
		Code: `
name = "$name"
age = $age
print(f"{name} is {age} years old")
`,
		Check: `
assert printed.strip().rstrip(".") == "$name is $age years old"
`,
	},
	{
		Name: "align_right",
		Ask: []string{
			"Print the numbers of the list below each other, right-aligned in $w characters.",
			"Output the values below each other so that each takes $w characters and stands at the right.",
			"How do I print the numbers of this list right-aligned in a column of width $w?",
			"Write a loop that prints every number right-aligned in a field of $w characters.",
			"The numbers should line up at the right edge of a column $w characters wide. Print them like that.",
			"I need these numbers in a column that is $w characters wide, aligned to the right.",
			"Show the list as a column of width $w with the numbers at the right.",
			"Format each number with a width of $w, aligned right, and print it on a line of its own.",
			"Take the list and output one number per line, padded on the left to $w characters.",
			"Given the list, print its numbers in a right-aligned column with a width of $w.",
			"Write a short program that prints the numbers one per line, each filled with spaces on the left to a width of $w.",
			"Display every number of the list on a separate line, right-aligned to $w characters.",
		},
		Held: []string{
			"Print each number of the list on its own line, aligned to the right with a width of $w.",
			"Use an f-string to print the numbers of the list as a right-aligned column, $w wide.",
			"With a field width of $w and alignment to the right, display all the numbers, one per line.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, 1, 999), "w": d.Int(5, 12)} },
		Code: `
numbers = $numbers
for number in numbers:
    print(f"{number:>$w}")
`,
		Check: `
expected = [" " * ($w - len(str(number))) + str(number) for number in $numbers]
assert [line for line in printed.split("\n") if line.strip()] == expected
`,
	},
	{
		Name: "price_with_cents",
		Ask: []string{
			"Print \"$item: \" and the price $x with two decimals.",
			"Print the item $item and its price $x in the form \"$item: 0.00\", with two decimals.",
			"How do I print \"$item: \" followed by the price $x with exactly two decimals?",
			"Write code that prints the line \"$item: price\" for the price $x, with two digits after the point.",
			"Use an f-string to show the item $item, a colon, a space and the price $x with two decimal places.",
			"I need a price tag for $item: the name, a colon and a space, then the price $x with two decimals.",
			"A $item costs $x. Display it as \"$item: \" with the price shown to two decimals.",
			"Format the price $x with two decimals and print it after \"$item: \".",
			"Given the item \"$item\" and the price $x, print them as \"$item: price\", with two decimals in the price.",
			"Let item be \"$item\" and price be $x, and print \"item: price\" so that the price has two decimals.",
			"Store the item $item and the price $x in variables and print \"item: price\" with two decimals in the price.",
			"Display the item \"$item\" with its price $x, two decimals, separated by a colon and a space.",
		},
		Held: []string{
			"Output the name $item, then a colon and a space, then the price $x with two digits for the cents.",
			"Show the price of the $item, which is $x, as \"$item: \" plus the price with two decimals.",
			"Write a program that prints \"$item: \" and then $x with two decimal places.",
		},
		Draw: func(d Draw) Slots { return Slots{"item": d.Word(), "x": d.Float(1, 60, 1)} },
		Code: `
item = "$item"
price = $x
print(f"{item}: {price:.2f}")
`,
		Check: `
assert printed.strip() == "$item" + ": " + "$x" + "0"
`,
	},
	{
		Name: "join_numbers",
		Ask: []string{
			"Print the numbers of the list in one line with \"$sep\" between them.",
			"Join the numbers of the list with \"$sep\" and print the result.",
			"Output the values on a single line and put \"$sep\" between each two of them.",
			"Write code that prints all numbers of the list on one line, separated by \"$sep\".",
			"Make one string out of the numbers, with \"$sep\" between them, and print it.",
			"I need the numbers as a single string with \"$sep\" as separator.",
			"Show the numbers of the list, separated by \"$sep\", on one line.",
			"Convert the numbers to strings, join them with \"$sep\" and print the text.",
			"Take the list and output its numbers with \"$sep\" between each two.",
			"Given the list, print its numbers as one line of text with the separator \"$sep\".",
			"Write a short program that prints the list with \"$sep\" between its numbers.",
			"With \"$sep\" in between, string these numbers together and print what you get.",
		},
		Held: []string{
			"How do I print this list of numbers as one string with \"$sep\" in between?",
			"The separator is \"$sep\". Display all the numbers in one string with it.",
			"Use join to print the numbers with \"$sep\" between them.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			return Slots{"numbers": d.Ints(3, 6, 1, 99), "sep": pick(d, "-", ", ", "; ", " + ", "/", " and ", ":", " | ", "*", " < ", "_", " to ")}
		},
		Code: `
numbers = $numbers
text = "$sep".join(str(number) for number in numbers)
print(text)
`,
		Check: `
expected = ""
for number in $numbers:
    expected += ("$sep" if expected else "") + str(number)
assert printed.strip("\n") == expected
`,
	},
}
