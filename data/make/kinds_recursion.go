package main

// recursionKinds are about functions that call themselves.
var recursionKinds = []Kind{
	{
		Name: "recursive_factorial",
		Ask: []string{
			"Write a recursive function $fn(n) that returns the factorial of n, and print $fn($n).",
			"Create a recursive function $fn for the factorial and print the factorial of $n.",
			"Define $fn(n) recursively so that it returns n factorial, then print it for $n.",
			"I need a recursive factorial function called $fn, and a line that prints the factorial of $n.",
			"Develop a function $fn that works out factorials by calling itself, and output the factorial of $n.",
			"Implement the factorial with recursion in a function $fn and print the result for $n.",
			"Make a function $fn that calls itself to compute a factorial. Print the factorial of $n.",
			"I would like to see the factorial of $n, computed by the recursive function $fn.",
			"Print the factorial of $n with a recursive function called $fn.",
			"Build a recursive function named $fn that returns the factorial of its argument and print $fn($n).",
			"{Compute|Calculate} the factorial of $n with a recursive function $fn and print it.",
			"Show me recursion with the factorial: a function $fn, called for $n and printed.",
		},
		Held: []string{
			"How do I write a recursive factorial function $fn and print its value for $n?",
			"Use recursion in a function $fn to compute the factorial of a number and print it for $n.",
			"Let $fn be a recursive function for factorials and display what it returns for $n.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"n": d.Int(3, 30), "fn": pick(d, "factorial", "fact", "compute_factorial", "product_to", "get_factorial", "multiply_down", "factorial_of")}
		},
		Code: `
def $fn(n):
    if n <= 1:
        return 1
    return n * $fn(n - 1)


print($fn($n))
`,
		Check: `
import math
for n in [1, 2, 3, 6, 10, 20]:
    assert $fn(n) == math.factorial(n)
assert printed.split()[-1] == str(math.factorial($n))
` + callsItself,
	},
	{
		Name: "recursive_fibonacci",
		Ask: []string{
			"Let $fn be the recursive Fibonacci function, 0 for 0 and 1 for 1, and display what it returns for $n.",
			"Create a recursive Fibonacci function $fn, starting with 0 and 1, and print its value for $n.",
			"Define $fn(n) recursively as the nth Fibonacci number (0, 1, 1, 2, ...), counting from 0, then print it for $n.",
			"I need a recursive function $fn that returns Fibonacci number n, where number 0 is 0 and number 1 is 1. Print it for $n.",
			"How do I write a recursive Fibonacci function $fn, with 0 for 0 and 1 for 1, and print its value for $n?",
			"Implement Fibonacci with recursion in a function $fn, where $fn(0) is 0 and $fn(1) is 1. Print $fn($n).",
			"Make a function $fn that calls itself twice to get the nth Fibonacci number, from 0 for n = 0, and print it for $n.",
			"Use recursion in a function $fn to compute Fibonacci numbers. $fn(0) is 0, $fn(1) is 1, and $fn($n) should be printed.",
			"Print Fibonacci number $n with a recursive function called $fn. Fibonacci number 0 is 0 and number 1 is 1.",
			"I would like to see Fibonacci number $n, where numbers 0 and 1 are 0 and 1, computed by the recursive function $fn.",
			"{Compute|Calculate} Fibonacci number $n, counting from 0, with a recursive function $fn and print it.",
			"Show me recursion with the Fibonacci numbers 0, 1, 1, 2 and so on: a function $fn(n) from index 0, printed for $n.",
		},
		Held: []string{
			"Develop a function $fn that finds Fibonacci numbers by calling itself (index 0 gives 0, index 1 gives 1), and output $fn($n).",
			"Build a recursive function named $fn that returns the Fibonacci number at index n, index 0 being 0, and print $fn($n).",
			"Write a recursive function $fn(n) for the Fibonacci numbers with $fn(0) = 0 and $fn(1) = 1, and print $fn($n).",
		},
		Draw: func(d Draw) Slots {
			return Slots{"n": d.Int(3, 20), "fn": pick(d, "fibonacci", "fib", "compute_fibonacci", "fib_number", "get_fib", "fibonacci_at", "nth_fib", "fib_recursive", "recursive_fib", "sequence")}
		},
		Code: `
def $fn(n):
    if n < 2:
        return n
    return $fn(n - 1) + $fn(n - 2)


print($fn($n))
`,
		Check: printedNumbers + `
a, b = 0, 1
for n in range(18):
    assert $fn(n) == a
    a, b = b, a + b
assert got[-1] == round((1 + 5 ** 0.5) ** $n / 5 ** 0.5 / 2 ** $n)
` + callsItself,
	},
	{
		Name: "recursive_power",
		Ask: []string{
			"Write a recursive function $fn(n) that returns $b to the power of n.",
			"Create a recursive function $fn that takes n and returns $b to the nth power.",
			"Let $fn(n) give $b to the power n by recursion.",
			"I need a recursive function $fn for the powers of $b. It takes the exponent n.",
			"How do I write a recursive function $fn(n) that computes $b to the power n?",
			"Develop a function $fn that works out powers of $b by calling itself; its parameter n is the exponent.",
			"Make a function $fn that calls itself to raise $b to the power n.",
			"Use recursion to write $fn(n), which returns $b raised to n.",
			"Build a recursive function called $fn that returns $b to the power of its argument.",
			"Write $fn, a recursive function of n. It multiplies $b by itself and returns $b to the power of n.",
			"Show me a recursive function $fn(n) that returns the nth power of $b.",
			"Without the ** operator, write a recursive function $fn(n) that returns $b to the power of n.",
		},
		Held: []string{
			"Implement $fn(n) recursively: the result is $b to the power of n.",
			"I would like $fn to be a recursive function that returns $b raised to the exponent it is given.",
			"Define $fn(n) with recursion so that it returns $b ** n.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"b": d.Int(2, 40), "fn": pick(d, "power", "raise_to", "compute_power", "nth_power", "exponent", "power_of")}
		},
		Code: `
def $fn(n):
    if n == 0:
        return 1
    return $b * $fn(n - 1)
`,
		Check: `
value = 1
for n in range(12):
    assert $fn(n) == value
    value *= $b
` + callsItself,
	},
	{
		Name: "recursive_sum_to",
		Ask: []string{
			"Write a recursive function $fn(n) that returns the sum of the numbers from 1 to n, and print $fn($n).",
			"Create a recursive function $fn that adds up 1 to n and print its result for $n.",
			"Define $fn(n) recursively as the sum of all integers from 1 to n, then print it for $n.",
			"I need a recursive function $fn that sums the numbers 1 to n. Print the sum for $n.",
			"How do I write a recursive function $fn(n) for the sum from 1 to n, and print it for $n?",
			"Implement the sum of 1 to n with recursion in a function $fn and print $fn($n).",
			"Make a function $fn that calls itself to add the integers from 1 to n. Print the result for $n.",
			"Develop a function $fn that works out the sum from 1 to n by calling itself, and output it for $n.",
			"Print the sum of the numbers from 1 to $n with a recursive function called $fn.",
			"Build a recursive function named $fn that returns 1 + 2 + ... + n and print $fn($n).",
			"I would like to see the sum of the numbers 1 to $n, computed by the recursive function $fn.",
			"Show me recursion with a function $fn(n) that adds the numbers from n down to 1, printed for $n.",
		},
		Held: []string{
			"Use recursion in a function $fn to sum all numbers from 1 up to n and print it for $n.",
			"{Compute|Calculate} the sum of the integers 1 to $n with a recursive function $fn and print it.",
			"Let $fn be a recursive function that sums 1 to n, and display what it returns for $n.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"n": d.Int(5, 200), "fn": pick(d, "sum_to", "total", "add_up", "sum_numbers", "recursive_sum", "add_down")}
		},
		Code: `
def $fn(n):
    if n == 0:
        return 0
    return n + $fn(n - 1)


print($fn($n))
`,
		Check: printedNumbers + `
for n in [1, 2, 3, 10, 99]:
    assert $fn(n) == n * (n + 1) // 2
assert got[-1] == $n * ($n + 1) // 2
` + callsItself,
	},
	{
		Name: "recursive_sequence",
		Ask: []string{
			"I would like $fn(n) to return term n of a sequence by recursion. Term 0 is $a; the others are $q times the previous term plus $r.",
			"A sequence starts with $a, and each next term is $q times the last one plus $r. Write a recursive function $fn(n) that returns term n, where term 0 is $a.",
			"Define $fn(n) recursively: $fn(0) is $a, and $fn(n) is $q times $fn(n - 1) plus $r.",
			"Let $fn be given by $fn(0) = $a and, for n above 0, $fn(n) = $q * $fn(n - 1) + $r.",
			"How do I write a recursive function $fn where $fn(0) is $a and $fn(n) is $q * $fn(n - 1) + $r?",
			"Implement the recurrence $fn(0) = $a, $fn(n) = $q * $fn(n - 1) + $r as a recursive function.",
			"Make a recursive function $fn(n). For n = 0 it returns $a, otherwise $q times $fn(n - 1) plus $r.",
			"Use recursion for $fn(n): the value is $a when n is 0, else $q times the value for n - 1, plus $r.",
			"Build a recursive function called $fn for the terms of a sequence: term 0 is $a, and every other term is $q times its predecessor plus $r.",
			"Create a function $fn(n) that calls itself. It returns $a for 0 and $q * $fn(n - 1) + $r for larger n.",
			"Show me a recursive function $fn(n) that begins with $a for n = 0, and multiplies by $q and adds $r in each further step.",
			"Write $fn, a recursive function of n, with the start value $a at 0 and the rule \"$q times the previous value plus $r\".",
		},
		Held: []string{
			"Develop a recursive function $fn that returns $a if n is 0, and if not, multiplies $fn(n - 1) by $q and adds $r.",
			"Write a recursive function $fn(n) for the sequence that starts with $a at n = 0, where each term is $q times the term before plus $r.",
			"I need a recursive function $fn with $fn(0) = $a and $fn(n) = $q * $fn(n - 1) + $r.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"a": d.Int(1, 30), "q": d.Int(2, 9), "r": d.Int(1, 20), "fn": pick(d, "term", "sequence", "value", "step", "f", "seq")}
		},
		Code: `
def $fn(n):
    if n == 0:
        return $a
    return $q * $fn(n - 1) + $r
`,
		Check: `
expected = $a
for n in range(10):
    assert $fn(n) == expected
    expected = $q * expected + $r
` + callsItself,
	},
	{
		Name: "recursive_list_sum",
		Ask: []string{
			"Write a recursive function $fn that returns the sum of a list, and print it for this list.",
			"Use recursion in a function $fn to add up the list, and print the result.",
			"Create a recursive function $fn that sums the numbers of a list. Print the sum of the list below.",
			"Define a function $fn that adds the first number to the sum of the rest by calling itself, and print its result for this list.",
			"How do I sum this list with a recursive function called $fn? Print the sum.",
			"By recursion, not with a loop, let $fn find the sum of a list, and print it for the values here.",
			"I need a recursive function $fn to add up a list of numbers, and a line that prints it for this list.",
			"Make a recursive function $fn for the sum of a list and print the sum of the numbers below.",
			"Develop a recursive function $fn to total the numbers in a list and output the total for the one given.",
			"Build a function named $fn that calls itself to sum a list, and print the total of the given numbers.",
			"Write $fn, a function that sums a list recursively, and call it on the list below, printing the result.",
			"Print the sum of the list with a recursive function $fn.",
		},
		Held: []string{
			"Sum the list with recursion: write a function $fn and print its result.",
			"I would like $fn to add up a list by calling itself. Display the sum for these numbers.",
			"Implement a recursive list sum called $fn and print what it returns for the given list.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			return Slots{"numbers": d.Ints(3, 6, 1, 60), "fn": pick(d, "list_sum", "sum_list", "total", "add_all", "recursive_sum", "sum_of")}
		},
		Code: `
def $fn(numbers):
    if not numbers:
        return 0
    return numbers[0] + $fn(numbers[1:])


print($fn($numbers))
`,
		Check: printedNumbers + `
for numbers in [[5], [1, 2, 3], [10, -4, 7, 7], list(range(30))]:
    assert $fn(numbers) == sum(numbers)
assert got[-1] == sum($numbers)
` + callsItself,
	},
	{
		Name: "recursive_gcd",
		Ask: []string{
			"Write a recursive function $fn(a, b) for the greatest common divisor and print $fn($a, $b).",
			"I would like to see the GCD of $a and $b, computed by the recursive function $fn.",
			"Define $fn(a, b) with Euclid's algorithm, recursively, then print the result for $a and $b.",
			"I need a recursive function $fn for the GCD of two numbers. Print it for $a and $b.",
			"How do I write a recursive GCD function $fn and print its result for $a and $b?",
			"Implement Euclid's algorithm as a recursive function $fn and print the GCD of $a and $b.",
			"Make a function $fn that calls itself to find the greatest common divisor. Print it for $a and $b.",
			"Use recursion in a function $fn to get the GCD of two numbers and print it for $a and $b.",
			"Print the greatest common divisor of $a and $b with a recursive function called $fn.",
			"Build a recursive function named $fn that returns the GCD of its two arguments and print $fn($a, $b).",
			"Develop a function $fn that finds greatest common divisors by calling itself, and output the one of $a and $b.",
			"Show me Euclid's algorithm as a recursive function $fn, with the result for $a and $b printed.",
		},
		Held: []string{
			"Find the GCD of $a and $b with a recursive function $fn and print it.",
			"Create a recursive function $fn that returns the greatest common divisor of two numbers, and print it for $a and $b.",
			"Let $fn be a recursive function for the greatest common divisor and display what it returns for $a and $b.",
		},
		Draw: func(d Draw) Slots {
			k := d.Int(2, 12)
			return Slots{"a": k * d.Int(3, 20), "b": k * d.Int(2, 20), "fn": pick(d, "gcd", "find_gcd", "common_divisor", "euclid", "greatest_divisor", "divisor")}
		},
		Code: `
def $fn(a, b):
    if b == 0:
        return a
    return $fn(b, a % b)


print($fn($a, $b))
`,
		Check: printedNumbers + `
import math
for a, b in [(12, 18), (18, 12), (7, 5), (100, 75), (9, 9), (1, 30)]:
    assert $fn(a, b) == math.gcd(a, b)
assert got[-1] == max(k for k in range(1, 1000) if $a % k == $b % k == 0)
` + callsItself,
	},
}
