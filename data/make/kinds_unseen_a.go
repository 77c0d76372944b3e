package main

// unseenKindsA are never trained: new combinations of what the kinds about numbers, loops, conditions and functions show one at a time.
var unseenKindsA = []Kind{
	{
		Name: "sum_of_multiples",
		Held: []string{
			"Print the sum of all multiples of $k from 1 to $n.",
			"Add up every number from 1 to $n that is divisible by $k and print the total.",
		},
		Draw: func(d Draw) Slots { return Slots{"k": d.Int(2, 9), "n": d.Int(30, 200)} },
		Code: `
total = 0
for number in range(1, $n + 1):
    if number % $k == 0:
        total += number
print(total)
`,
		Check: printedNumbers + `
count = $n // $k
assert got[-1] == $k * count * (count + 1) / 2
`,
	},
	{
		Name: "sum_above_threshold",
		Held: []string{
			"Print the sum of the numbers in the list that are greater than $k.",
			"Add up only those numbers of the list that are above $k and print the result.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			return Slots{"numbers": append(d.Distinct(3, 4, 51, 99), d.Distinct(2, 3, 1, 30)...), "k": d.Int(31, 50)}
		},
		Code: `
numbers = $numbers
total = 0
for number in numbers:
    if number > $k:
        total += number
print(total)
`,
		Check: printedNumbers + `
assert got[-1] == sum(filter(lambda x: x - $k > 0, $numbers))
`,
	},
	{
		Name: "divisible_by_both",
		Held: []string{
			"Write a function $fn(n) that returns True if n is divisible by both $a and $b and False otherwise.",
			"Create a function $fn that checks whether a number is a multiple of $a and also a multiple of $b.",
		},
		Draw: func(d Draw) Slots {
			numbers := d.Distinct(2, 2, 2, 12)
			return Slots{"a": numbers[0], "b": numbers[1], "fn": pick(d, "is_multiple_of_both", "divisible_by_both", "check_both")}
		},
		Code: `
def $fn(n):
    return n % $a == 0 and n % $b == 0
`,
		Check: `
both = set(range(0, 700, $a)) & set(range(0, 700, $b))
for n in range(700):
    assert $fn(n) == (n in both)
`,
	},
	{
		Name: "sum_of_squares",
		Held: []string{
			"Print the sum of the squares of the numbers in the list.",
			"Square every number of the list, add the squares up and print the total.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, 2, 30)} },
		Code: `
numbers = $numbers
total = 0
for number in numbers:
    total += number ** 2
print(total)
`,
		Check: printedNumbers + `
assert got[-1] == sum(map(lambda x: x * x, $numbers))
`,
	},
	{
		Name: "countdown_with_step",
		Held: []string{
			"Count down from $a to $b in steps of $k and print each number.",
			"Write a loop that starts at $a, subtracts $k each time and prints the numbers, not going below $b.",
		},
		Draw: func(d Draw) Slots { return Slots{"a": d.Int(50, 99), "b": d.Int(1, 25), "k": d.Int(3, 9)} },
		Code: `
for number in range($a, $b - 1, -$k):
    print(number)
`,
		Check: printedNumbers + `
expected, x = [], $a
while x >= $b:
    expected.append(x)
    x -= $k
assert got == expected
`,
	},
	{
		Name: "largest_digit",
		Held: []string{
			"Print the $which digit of the number $n.",
			"Find the $which of the digits in $n and print it.",
		},
		Draw: func(d Draw) Slots {
			i := d.IntN(2)
			return Slots{"n": d.Int(1000, 999999), "which": []string{"largest", "smallest"}[i], "function": []string{"max", "min"}[i]}
		},
		Derived: []string{"function"},
		Code: `
number = $n
digit = $function(int(digit) for digit in str(number))
print(digit)
`,
		Check: printedNumbers + `
assert got[-1] == int(sorted("$n")[{"largest": -1, "smallest": 0}["$which"]])
`,
	},
	{
		Name: "product_of_digits",
		Held: []string{
			"Print the product of the digits of $n.",
			"Multiply all the digits of the number $n with each other and print the result.",
		},
		Draw: func(d Draw) Slots {
			n := 0
			for range d.Int(3, 5) {
				n = 10*n + d.Int(2, 9)
			}
			return Slots{"n": n}
		},
		Code: `
number = $n
product = 1
for digit in str(number):
    product *= int(digit)
print(product)
`,
		Check: printedNumbers + `
import math
rest, digits = $n, []
while rest:
    digits.append(rest % 10)
    rest //= 10
assert got[-1] == math.prod(digits)
`,
	},
	{
		Name: "label_multiples_function",
		Held: []string{
			"Write a function $fn(number) that returns \"$yes\" if number is a multiple of $k and \"$no\" otherwise.",
			"Create a function $fn that returns the string \"$yes\" for numbers divisible by $k and \"$no\" for all the others.",
		},
		Draw: func(d Draw) Slots {
			labels := d.Words(2, 2)
			return Slots{"k": d.Int(2, 20), "yes": labels[0], "no": labels[1], "fn": pick(d, "label", "describe", "classify", "category")}
		},
		Code: `
def $fn(number):
    if number % $k == 0:
        return "$yes"
    return "$no"
`,
		Check: `
expected = (["$yes"] + ["$no"] * ($k - 1)) * 10
for number, label_expected in enumerate(expected):
    assert $fn(number) == label_expected
`,
	},
	{
		Name: "safe_remainder",
		Held: []string{
			"Write a function $fn(a, b) that returns the remainder of a divided by b, or $d if b is zero.",
			"Create a function $fn that returns a % b and catches the ZeroDivisionError by returning $d.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"d": d.Int(-30, -1), "fn": pick(d, "remainder", "safe_remainder", "modulo", "safe_mod")}
		},
		Code: `
def $fn(a, b):
    try:
        return a % b
    except ZeroDivisionError:
        return $d
`,
		Check: `
for a, b in [(7, 3), (10, 5), (1, 9), (100, 7)]:
    assert $fn(a, b) == a - a // b * b
for a in [0, 4, -2]:
    assert $fn(a, 0) == $d
`,
	},
	{
		Name: "list_to_fahrenheit",
		Held: []string{
			"The list holds temperatures in degrees Celsius. Print each of them in Fahrenheit.",
			"Convert every temperature of the list from Celsius to Fahrenheit and print the results, one per line.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, -20, 45)} },
		Code: `
temperatures = $numbers
for celsius in temperatures:
    print(celsius * 9 / 5 + 32)
`,
		Check: printedNumbers + `
expected = [1.8 * x + 32 for x in $numbers]
assert len(got) == len(expected) and all(abs(x - y) < 0.06 for x, y in zip(got, expected))
`,
	},
	{
		Name: "sum_of_divisors",
		Held: []string{
			"Print the sum of all divisors of $n, including 1 and $n.",
			"Find every number that divides $n, 1 and $n included, and print the sum of them.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(12, 600)} },
		Code: `
number = $n
total = 0
for i in range(1, number + 1):
    if number % i == 0:
        total += i
print(total)
`,
		Check: printedNumbers + `
assert got[-1] == sum({x for i in range(1, 25) if $n % i == 0 for x in (i, $n // i)})
`,
	},
	{
		Name: "sum_of_number_strings",
		Held: []string{
			"Convert the strings of the list to integers and print their sum.",
			"The list holds numbers as strings. Print what they add up to.",
		},
		Input: "$texts",
		Draw: func(d Draw) Slots {
			var texts []string
			for _, n := range d.Ints(3, 6, 1, 250) {
				texts = append(texts, python(n))
			}
			return Slots{"texts": texts}
		},
		Code: `
texts = $texts
total = sum(int(text) for text in texts)
print(total)
`,
		Check: printedNumbers + `
expected = 0
for text in $texts:
    expected += int(text)
assert got[-1] == expected
`,
	},
	{
		Name: "recursive_list_product",
		Held: []string{
			"Write a recursive function $fn that returns the product of the numbers in a list, and print it for this list.",
			"Multiply the numbers of the list with a recursive function called $fn and print the result.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			return Slots{"numbers": d.Ints(3, 5, 2, 20), "fn": pick(d, "list_product", "product", "multiply_all", "product_of")}
		},
		Code: `
def $fn(numbers):
    if not numbers:
        return 1
    return numbers[0] * $fn(numbers[1:])


print($fn($numbers))
`,
		Check: printedNumbers + `
import math
for numbers in [[5], [1, 2, 3], [10, -4, 7]]:
    assert $fn(numbers) == math.prod(numbers)
assert got[-1] == math.prod($numbers)
` + callsItself,
	},
	{
		Name: "odd_numbers_between",
		Held: []string{
			"Print all the $parity numbers from $a to $b, one per line.",
			"Loop from $a to $b and print only the numbers that are $parity.",
		},
		Draw: func(d Draw) Slots {
			a, i := d.Int(1, 40), d.IntN(2)
			return Slots{"a": a, "b": a + d.Int(10, 30), "parity": []string{"even", "odd"}[i], "rest": i}
		},
		Derived: []string{"rest"},
		Code: `
for number in range($a, $b + 1):
    if number % 2 == $rest:
        print(number)
`,
		Check: printedNumbers + `
assert got == [x for x in range($a, $b + 1) if str(x)[-1] in {"even": "02468", "odd": "13579"}["$parity"]]
`,
	},
}
