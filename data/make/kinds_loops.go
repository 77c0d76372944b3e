package main

// loopKinds are about for and while.
var loopKinds = []Kind{
	{
		Name: "print_range",
		Ask: []string{
			"Print the numbers from $a to $b, one per line.",
			"Write a loop that prints every number from $a to $b.",
			"Starting at $a and ending at $b, output every number.",
			"How do I print all numbers from $a up to $b?",
			"Use a for loop to print the numbers $a to $b, both included.",
			"Let a loop count from $a up to and including $b, printing as it goes.",
			"I need a loop that counts from $a to $b and prints each number.",
			"Count from $a to $b and print every number on its own line.",
			"Loop from $a to $b, including $b, and print the numbers.",
			"Write code that outputs each number between $a and $b, both ends included.",
			"Given the limits $a and $b, print every number from the first to the last.",
			"Write a program that counts up from $a to $b.",
		},
		Held: []string{
			"Show all integers from $a to $b with a loop.",
			"I would like to see all the whole numbers from $a to $b printed below each other.",
			"Write a for loop that prints the integers from $a to $b.",
		},
		Draw: func(d Draw) Slots {
			a := d.Int(1, 60)
			return Slots{"a": a, "b": a + d.Int(4, 30)}
		},
		Code: `
for number in range($a, $b + 1):
    print(number)
`,
		Check: printedNumbers + `
assert got[0] == $a and got[-1] == $b and len(got) == $b - $a + 1
assert all(y == x + 1 for x, y in zip(got, got[1:]))
`,
	},
	{
		Name: "multiplication_table",
		Ask: []string{
			"Print the multiplication table of $n up to $m.",
			"Write a loop that prints the {times|multiplication} table of $n from 1 to $m.",
			"How do I print the multiplication table for $n, from 1 to $m?",
			"Show the multiplication table of $n for the factors 1 to $m.",
			"Use a for loop to print $n times 1, $n times 2 and so on up to $n times $m.",
			"Write code to display the times table of $n up to $m.",
			"I need the multiplication table of the number $n with $m lines.",
			"Work out the times table for $n, ending with the factor $m, and display it.",
			"Create a multiplication table for $n that goes up to $m.",
			"Write a program that prints the first $m multiples of $n as a multiplication table.",
			"A pupil needs the multiplication table of $n from 1 to $m. Output it.",
			"Generate the times table of $n from 1 through $m and print it.",
		},
		Held: []string{
			"Print $n multiplied by each number from 1 to $m.",
			"Given the number $n, print its multiplication table up to $m.",
			"Produce $m lines with the multiplication table of $n.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(2, 60), "m": d.Int(5, 20)} },
		Code: `
for i in range(1, $m + 1):
    print($n, "x", i, "=", $n * i)
`,
		Check: `
import re
lines = [[int(x) for x in re.findall(r"\d+", line)] for line in printed.splitlines() if re.search(r"\d", line)]
table = [line for line in lines if line[-1] % $n == 0]
product = 0
assert len(table) == $m
for line in table:
    product += $n
    assert line[-1] == product and (len(line) < 3 or line[0] * line[1] == product)
`,
	},
	{
		Name: "countdown",
		Ask: []string{
			"I would like a loop to count backwards from $a until it has printed $b.",
			"Print the numbers from $a down to $b.",
			"How do I count down from $a to $b in a for loop?",
			"Output a countdown whose first number is $a and whose last number is $b.",
			"Use a for loop to print a countdown from $a to $b.",
			"Show the numbers from $a to $b in descending order.",
			"I need a countdown that starts at $a and ends at $b.",
			"Write code that prints $a, then one less each time, until it reaches $b.",
			"Create a countdown from $a to $b, one number per line.",
			"Loop backwards from $a to $b, including both, and print the numbers.",
			"Write a program that prints a countdown starting with $a and ending with $b.",
			"Print every integer from $a down to and including $b.",
		},
		Held: []string{
			"Start at $a and go down to $b, printing each number on the way.",
			"Write a loop that counts down from $a to $b.",
			"Count down from $a to $b and print each number.",
		},
		Draw: func(d Draw) Slots {
			b := d.Int(1, 25)
			return Slots{"a": b + d.Int(4, 25), "b": b}
		},
		Code: `
for number in range($a, $b - 1, -1):
    print(number)
`,
		Check: printedNumbers + `
assert got == [float(x) for x in reversed(range($b, $a + 1))]
`,
	},
	{
		Name: "sum_of_range",
		Ask: []string{
			"Print the sum of all integers from $a to $b.",
			"Use a loop to add up the numbers from $a to $b.",
			"{Compute|Calculate} the sum of the integers from $a to $b with a for loop and print it.",
			"What is the sum of all numbers from $a to $b? Use a loop.",
			"How do I sum the numbers from $a to $b in a loop?",
			"If every number from $a to $b is added up, what is the total? Print it.",
			"Find the total of the whole numbers $a to $b.",
			"I need the sum of the integers between $a and $b, both included.",
			"Work out what the whole numbers from $a to $b add up to and display it.",
			"Write a program that adds the numbers from $a to $b.",
			"Given the limits $a and $b, print the sum of all integers from the first to the last.",
			"Sum the integers from $a through $b with a for loop.",
		},
		Held: []string{
			"Add all numbers from $a up to $b together and show the total.",
			"Let a loop run from $a to $b and output the sum of the numbers.",
			"Write a loop that sums every integer from $a to $b and print the total.",
		},
		Draw: func(d Draw) Slots {
			a := d.Int(1, 40)
			return Slots{"a": a, "b": a + d.Int(5, 99)}
		},
		Code: `
total = 0
for number in range($a, $b + 1):
    total += number
print(total)
`,
		Check: printedNumbers + `
assert got[-1] == ($a + $b) * ($b - $a + 1) / 2
`,
	},
	{
		Name: "print_with_step",
		Ask: []string{
			"Print the numbers from $a to $b in steps of $k.",
			"With a step of $k, list the numbers from $a to $b, one per line.",
			"How do I print the numbers from $a to $b with a step of $k?",
			"Use range with a step of $k to print the numbers from $a up to at most $b.",
			"Show the numbers from $a to $b, counting by $k.",
			"Count from $a to $b by {$k|steps of $k} and print each number.",
			"I need a loop from $a to $b that adds $k each time and prints the number.",
			"Start at $a and print numbers $k apart, up to $b at most.",
			"Write code that counts from $a to $b in steps of $k.",
			"Loop over the numbers from $a to $b, moving by $k each time, and print them.",
			"Begin with $a, keep adding $k, and output every number that is not above $b.",
			"Given a start of $a, an end of $b and a step of $k, print the numbers.",
		},
		Held: []string{
			"Write a program that prints the numbers from $a to $b with a step size of $k.",
			"Write a for loop that goes from $a to $b in steps of $k and prints each number.",
			"Let a loop count from $a to $b by $k and display what it counts.",
		},
		Draw: func(d Draw) Slots {
			a := d.Int(0, 30)
			return Slots{"a": a, "b": a + d.Int(25, 70), "k": d.Int(2, 9)}
		},
		Code: `
for number in range($a, $b + 1, $k):
    print(number)
`,
		Check: printedNumbers + `
expected, x = [], $a
while x <= $b:
    expected.append(x)
    x += $k
assert got == expected
`,
	},
	{
		Name: "multiply_until_limit",
		Ask: []string{
			"Start with $a and keep multiplying by $k while the number is below $m. Print each number.",
			"Write a while loop that starts at $a and multiplies by $k, printing each number as long as it is less than $m.",
			"Use a while loop to print $a, then $k times as much each time, until $m is reached.",
			"Let a while loop run as long as a number is less than $m: it begins as $a, is printed, and is then multiplied by $k.",
			"Print the numbers that you get by starting at $a and multiplying by $k again and again, as long as they are below $m.",
			"I need a while loop that begins with $a, multiplies by $k in each step and stops at $m or above, printing the numbers below.",
			"With $a as the first value and $k as the factor, print all the values under $m.",
			"Begin at $a, multiply by $k repeatedly and print every value under $m.",
			"Write a program with a while loop: start at $a, multiply by $k, print each value less than $m.",
			"Given a start of $a, a factor of $k and a limit of $m, print all values below the limit.",
			"Show every value of a number that starts at $a and grows by the factor $k, as long as it is smaller than $m.",
			"Print the values below $m of the sequence that starts at $a and is multiplied by $k each time.",
		},
		Held: []string{
			"A number starts at $a and is multiplied by $k in every step. Output its values for as long as they are below $m.",
			"How do I print the numbers that start at $a and are multiplied by $k each time, while they are below $m?",
			"Write code that prints a number that starts at $a and is multiplied by $k each time, while it stays under $m.",
		},
		Draw: func(d Draw) Slots { return Slots{"a": d.Int(1, 12), "k": d.Int(2, 5), "m": d.Step(100, 990, 10)} },
		Code: `
number = $a
while number < $m:
    print(number)
    number *= $k
`,
		Check: printedNumbers + `
expected = [$a * $k ** i for i in range(20) if $a * $k ** i < $m]
assert got == expected
`,
	},
	{
		Name: "print_word_times",
		Ask: []string{
			"Print the word $word $n times, each on a new line.",
			"Write a loop that prints $word $n times.",
			"Use a for loop to print \"$word\" $n times.",
			"How do I print \"$word\" $n times with a loop?",
			"Write a for loop that runs $n times and prints $word each time.",
			"Show the word $word $n times, one per line.",
			"I need a loop that prints \"$word\" exactly $n times.",
			"Repeat the word $word $n times, printing it on a line of its own each time.",
			"With a loop of $n rounds, output \"$word\" in each of them.",
			"Write a program that prints the text \"$word\" $n times.",
			"Loop $n times and print the word $word every time.",
			"Let a loop display the word $word $n times below each other.",
		},
		Held: []string{
			"Print \"$word\" on $n separate lines.",
			"I would like to see $word printed on $n lines.",
			"Write code that outputs $word $n times in a loop.",
		},
		Draw: func(d Draw) Slots { return Slots{"word": d.Word(), "n": d.Int(3, 20)} },
		Code: `
word = "$word"
for _ in range($n):
    print(word)
`,
		Check: `
assert [line.strip() for line in printed.strip().splitlines()] == $n * ["$word"]
`,
	},
	{
		Name: "print_powers_of_range",
		Ask: []string{
			"Print the $power of every number from $a to $b.",
			"Let a loop output the $power for all the whole numbers from $a to $b.",
			"How do I print the $power of all numbers from $a to $b?",
			"Use a loop to print the $power of each integer from $a to $b.",
			"Take the numbers $a to $b one by one and display the $power of each.",
			"I need the $power of every integer from $a up to $b, one per line.",
			"Loop from $a to $b and print the $power of each number.",
			"Write code that prints the $power of all integers from $a to $b.",
			"{Compute|Calculate} and print the $power of each number from $a to $b.",
			"Write a program that goes through the numbers $a to $b and prints the $power of each.",
			"For each number from $a to $b, print its $power.",
			"Given the limits $a and $b, print the $power of every number from the first to the last.",
		},
		Held: []string{
			"Write a for loop that prints the $power of each number from $a to $b.",
			"Show the $power of each number between $a and $b, both included.",
			"What is the $power of each number from $a to $b? Print one result per line.",
		},
		Draw: func(d Draw) Slots {
			a, i := d.Int(1, 40), d.IntN(2)
			return Slots{"a": a, "b": a + d.Int(4, 15), "power": []string{"square", "cube"}[i], "exponent": 2 + i}
		},
		Derived: []string{"exponent"},
		Code: `
for number in range($a, $b + 1):
    print(number ** $exponent)
`,
		Check: `
import re
results = [int(re.findall(r"-?\d+", line)[-1]) for line in printed.splitlines() if line.strip()]
if len(results) == 1:
    results = [int(x) for x in re.findall(r"-?\d+", printed)]
assert results == [{"square": x * x, "cube": x * x * x}["$power"] for x in range($a, $b + 1)]
`,
	},
	{
		Name: "change_each_number",
		Ask: []string{
			"Go through the list and print each number $did $k.",
			"Write a for loop that prints every number of the list $did $k.",
			"Print each element of the list $did $k.",
			"Loop over the numbers and print each of them $did $k.",
			"How do I print each number of this list $did $k?",
			"For each number in the list, print the number $did $k.",
			"What is each of these numbers $did $k? Print one result per line.",
			"Use a for loop to show each number $did $k.",
			"Take the numbers of the list one at a time and print them $did $k.",
			"Let a loop display all the numbers given here, each $did $k.",
			"Given the list, print every number $did $k on its own line.",
			"Write a program that goes over the list and prints each element $did $k.",
		},
		Held: []string{
			"Step through these values and output each one $did $k.",
			"I need a loop that prints every value below $did $k.",
			"Write code that prints all the numbers $did $k, one per line.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			i := d.IntN(3)
			return Slots{
				"numbers": d.Ints(4, 7, 1, 60), "k": d.Int(2, 20), "did": []string{"plus", "minus", "multiplied by"}[i], "sign": []string{"+", "-", "*"}[i],
			}
		},
		Derived: []string{"sign"},
		Code: `
numbers = $numbers
for number in numbers:
    print(number $sign $k)
`,
		Check: printedNumbers + `
change = {"plus": lambda x: x - -$k, "minus": lambda x: x + -$k, "multiplied by": lambda x: sum($k * [x])}["$did"]
assert got == [change(x) for x in $numbers]
`,
	},
	{
		Name: "running_total",
		Ask: []string{
			"Print the running total of the list after each number.",
			"Go through the list and print the {running total|cumulative sum} after each element.",
			"After each of these values, display the total of all the values up to there.",
			"How do I print the cumulative sums of this list?",
			"Show the running total of the numbers, one line per number.",
			"Add up the numbers one by one and print the total after every step.",
			"I need the running totals of the values below.",
			"Loop over the list and print the sum so far after each number.",
			"Write code that prints the cumulative sum after each element of the list.",
			"Take the list and output its running total step by step.",
			"Keep a total while going through the list and print it after each number.",
			"What are the cumulative totals for these numbers? Print them in a loop.",
		},
		Held: []string{
			"Write a loop that prints the running sum of these numbers.",
			"Work through the list and output the running sum at every step.",
			"Given the list, print the sum of the numbers seen so far at every element.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 7, 1, 50)} },
		Code: `
numbers = $numbers
total = 0
for number in numbers:
    total += number
    print(total)
`,
		Check: printedNumbers + `
from itertools import accumulate
assert got == list(accumulate($numbers))
`,
		Wrong: []string{`
numbers = $numbers
total = 0
for number in numbers:
    total += number
print(total)
`},
	},
	{
		Name: "count_matching_numbers",
		Ask: []string{
			"Count how many numbers in the list are $than $k and print the count.",
			"How many numbers in this list are $than $k? Print the answer.",
			"Print the number of elements that are $than $k.",
			"Write a loop that counts the numbers $than $k in the list.",
			"Of these values, how many are $than $k? Output the count.",
			"Go through the list and count the numbers that are $than $k.",
			"I need to know how many of these numbers are $than $k.",
			"Determine the count of all the numbers given here that are $than $k.",
			"Use a for loop and a counter to count the values $than $k.",
			"Write code that prints how many numbers of the list are $than $k.",
			"Given the list, print how many of its elements are $than $k.",
			"Show how many of the numbers below are $than $k.",
		},
		Held: []string{
			"Find out how many of the values are $than $k.",
			"How do I count the numbers $than $k in this list?",
			"Let a counter go up for each number $than $k in the list and display it at the end.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			i := d.IntN(2)
			return Slots{
				"numbers": d.Distinct(5, 8, 1, 60), "k": d.Int(15, 45), "than": []string{"greater than", "less than"}[i], "sign": []string{">", "<"}[i],
			}
		},
		Derived: []string{"sign"},
		Code: `
numbers = $numbers
count = 0
for number in numbers:
    if number $sign $k:
        count += 1
print(count)
`,
		Check: printedNumbers + `
import bisect
ordered = sorted($numbers)
count = {"greater than": len(ordered) - bisect.bisect_right(ordered, $k), "less than": bisect.bisect_left(ordered, $k)}["$than"]
assert got[-1] == count
`,
	},
	{
		Name: "first_multiple_above",
		Ask: []string{
			"Determine the smallest multiple of $k that is larger than $a.",
			"Use a while loop to find the smallest number above $a that is a multiple of $k.",
			"Print the first multiple of $k that is greater than $a.",
			"What is the smallest multiple of $k above $a? Use a while loop to find it.",
			"How do I find the first number above $a that $k divides?",
			"Write a while loop that looks for the next multiple of $k after $a and prints it.",
			"I need the smallest number greater than $a that can be divided by $k.",
			"Starting after $a, find the first number divisible by $k and print it.",
			"Write code that prints the next multiple of $k after $a.",
			"Go up from $a, without $a itself, until a multiple of $k comes, and display it.",
			"Write a program that counts up from $a until it finds a multiple of $k, not counting $a itself.",
			"Given the start $a and the divisor $k, print the first multiple of the divisor above the start.",
		},
		Held: []string{
			"Which number above $a is the first one that $k divides evenly? Output it.",
			"Search for the first number bigger than $a that is a multiple of $k.",
			"Find the first number greater than $a that is divisible by $k.",
		},
		Draw: func(d Draw) Slots { return Slots{"a": d.Int(20, 500), "k": d.Int(7, 40)} },
		Code: `
number = $a + 1
while number % $k != 0:
    number += 1
print(number)
`,
		Check: printedNumbers + `
assert got[-1] == ($a // $k + 1) * $k
`,
	},
	{
		Name: "skip_one_number",
		Ask: []string{
			"Print the numbers from $a to $b, but skip $c.",
			"Write a loop from $a to $b that prints every number except $c.",
			"Let a loop go from $a to $b and jump over $c while it prints the numbers.",
			"How do I print all numbers from $a to $b without $c?",
			"Show the numbers $a to $b but not $c.",
			"Output the whole numbers from $a to $b; only $c must be missing.",
			"I need a loop that prints the integers from $a to $b, with $c left out.",
			"Print every number from $a to $b other than $c.",
			"Write a for loop from $a to $b with a continue statement that skips $c.",
			"Write code that counts from $a to $b and does not print $c.",
			"Count from $a to $b, print the numbers, but leave out $c.",
			"Write a program that prints the numbers $a to $b except for $c.",
		},
		Held: []string{
			"Loop from $a to $b and print each number, skipping $c.",
			"With the exception of $c, display each number from $a to $b.",
			"Use continue to leave out $c when printing the numbers from $a to $b.",
		},
		Draw: func(d Draw) Slots {
			a := d.Int(1, 40)
			b := a + d.Int(6, 20)
			return Slots{"a": a, "b": b, "c": d.Int(a+1, b-1)}
		},
		Code: `
for number in range($a, $b + 1):
    if number == $c:
        continue
    print(number)
`,
		Check: printedNumbers + `
expected = list(range($a, $b + 1))
expected.remove($c)
assert got == expected
`,
	},
	{
		Name: "character_triangle",
		Ask: []string{
			"Print a triangle of $char characters with $n rows.",
			"Print a triangle with $n rows, where row 1 has one $char, row 2 has two, and so on.",
			"Write a loop that prints a left-aligned triangle of \"$char\" with $n lines.",
			"How do I print a triangle of $n rows made of the character $char?",
			"Use a for loop to print a growing triangle of $char with $n rows.",
			"Draw a left-aligned triangle that is $n rows high, using the character $char.",
			"I need a triangle of $char that starts with one character and ends with $n in the last row.",
			"With the character $char, output a triangle that has $n rows, beginning with a single one.",
			"Write code that prints $n lines, the first with one $char, each next one with one more.",
			"Create a text triangle of height $n out of the character $char.",
			"Let a loop draw $n rows of $char so that each row has one more than the one above.",
			"Build a triangle pattern of $n rows with the character $char.",
		},
		Held: []string{
			"Show a triangle made of \"$char\" with $n rows, one more character in each row.",
			"Write a program that prints $n rows of \"$char\", each row one longer than the row before.",
			"I would like a left-aligned triangle $n rows high, made of \"$char\".",
		},
		Draw: func(d Draw) Slots {
			return Slots{"char": pick(d, "*", "#", "+", "@", "x", "o", "=", "%", "&", "A", "B", "X", "O", "Z"), "n": d.Int(3, 15)}
		},
		Code: `
rows = $n
for row in range(1, rows + 1):
    print("$char" * row)
`,
		Check: `
rows = [line.replace(" ", "") for line in printed.rstrip().splitlines()]
assert len(rows) == $n
for i, row in enumerate(rows):
    assert len(row) == i + 1 and set(row) == {"$char"}
`,
	},
}
