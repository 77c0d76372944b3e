package main

import "slices"

// algorithmKinds are small classic algorithms.
var algorithmKinds = []Kind{
	{
		Name: "is_prime_function",
		Ask: []string{
			"Write a function $fn(n) that returns True if n is a prime number and False otherwise, and print $fn($n).",
			"Create a function $fn that checks whether a number is prime and print its result for $n.",
			"Define $fn(n), which tells whether n is prime, then print it for $n.",
			"I would like to know if $n is prime. Let a function $fn decide and display True or False.",
			"How do I write a function $fn that checks for primes, and print its result for $n?",
			"Implement a prime test in a function $fn and print whether $n is prime.",
			"Let $fn return whether its argument is a prime number, and print $fn of $n.",
			"Is $n a prime number? Write a function $fn to test it and print the result.",
			"Build a function called $fn that decides if a number is prime and print what it returns for $n.",
			"Write $fn, a function that returns True only for primes, and call it with $n, printing the result.",
			"Show me a function $fn for testing whether a number is prime, with the result for $n printed.",
			"Test if $n is prime with a function named $fn and print the boolean.",
		},
		Held: []string{
			"Develop a function $fn to find out if a number is a prime, and output its answer for $n.",
			"I need a function $fn that tests if a number is prime. Print the result for $n.",
			"Make a function $fn that returns True for prime numbers and False for all others. Print $fn($n).",
		},
		Draw: func(d Draw) Slots {
			return Slots{"n": d.Int(2, 500), "fn": pick(d, "is_prime", "prime", "check_prime", "test_prime")}
		},
		Code: `
def $fn(n):
    if n < 2:
        return False
    for divisor in range(2, int(n ** 0.5) + 1):
        if n % divisor == 0:
            return False
    return True


print($fn($n))
`,
		Check: `
composite = {i * j for i in range(2, 301) for j in range(2, 301) if i * j <= 600}
for n in range(600):
    assert $fn(n) == (n > 1 and n not in composite)
assert printed.split()[-1].rstrip(".") == str($n not in composite)
`,
	},
	{
		Name: "list_of_divisors",
		Ask: []string{
			"Print a list of all the divisors of $n.",
			"Find all divisors of $n and print them as a list.",
			"How do I get a list of all the numbers that divide $n?",
			"Write code that prints the list of divisors of $n, from 1 to $n.",
			"What are the divisors of $n? Print them in a list.",
			"I need a list of the divisors of the number $n.",
			"Make a list of every number from 1 to $n that divides $n, and print it.",
			"Show all the factors of $n in a list.",
			"Determine every factor of $n and show all of them in one list.",
			"Write a program that prints all divisors of $n as a list.",
			"Given the number $n, print the list of its divisors, including 1 and $n.",
			"By which numbers can $n be divided without remainder? Output them as a list.",
		},
		Held: []string{
			"Use a list comprehension to print all divisors of $n.",
			"Work out the divisors of the number $n, 1 and $n included, and display the list.",
			"Collect the divisors of $n in a list and print the list.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(12, 600)} },
		Code: `
number = $n
divisors = [i for i in range(1, number + 1) if number % i == 0]
print(divisors)
`,
		Check: printedNumbers + `
assert sorted(got) == sorted({x for i in range(1, 25) if $n % i == 0 for x in (i, $n // i)})
`,
	},
	{
		Name: "fibonacci_list",
		Ask: []string{
			"Print the first $n numbers of the Fibonacci-like sequence that starts with $a and $b.",
			"Output $n terms of a sequence: it begins with $a and $b, and after that any term is the sum of the two terms before.",
			"How do I print the first $n numbers of a sequence that starts with $a, $b and adds the last two each time?",
			"Write code that prints $n numbers, starting with $a and $b, where every further number is the sum of the two before it.",
			"Let the first two numbers be $a and $b and add up the last two again and again. Display the first $n numbers.",
			"I need the first $n terms of the Fibonacci-style sequence with the first two terms $a and $b.",
			"Start with $a and $b and print $n numbers, each new one being the sum of the last two.",
			"Show the first $n numbers of a Fibonacci sequence that begins with $a and $b.",
			"Generate the Fibonacci sequence from the starting numbers $a and $b and print $n terms.",
			"Write a program that prints the first $n terms of the sequence with $a, $b at the start, each term the sum of the two before.",
			"Given the starting values $a and $b, print the first $n Fibonacci-like numbers.",
			"Like the Fibonacci numbers, but starting with $a and $b: print the first $n terms.",
		},
		Held: []string{
			"A sequence starts with $a and $b, and each next number is the sum of the last two. Print its first $n numbers.",
			"Use a loop to print the first $n terms of a Fibonacci sequence with the starting values $a and $b.",
			"With $a and $b as its start, what are the first $n numbers of a Fibonacci-like sequence? Print them one per line.",
		},
		Draw: func(d Draw) Slots {
			a := d.Int(0, 15)
			return Slots{"a": a, "b": a + d.Int(1, 15), "n": d.Int(5, 15)}
		},
		Code: `
a, b = $a, $b
for _ in range($n):
    print(a)
    a, b = b, a + b
`,
		Check: printedNumbers + `
expected = [$a, $b]
while len(expected) < $n:
    expected.append(sum(expected[-2:]))
assert got == expected
`,
	},
	{
		Name: "collatz_sequence",
		Ask: []string{
			"Print the Collatz sequence of $n down to 1.",
			"Start with $n: halve an even number, turn an odd one into three times the number plus 1, and print each number until 1 is reached.",
			"How do I print the Collatz sequence that starts at $n?",
			"Write a while loop that prints the Collatz sequence from $n to 1.",
			"Use a while loop to print all numbers of the Collatz sequence of $n, including $n and 1.",
			"I need the Collatz sequence for the number $n, printed one number per line.",
			"Beginning with $n, apply the Collatz rule again and again, displaying all numbers till 1.",
			"Write code for the Collatz rule (n / 2 if even, 3n + 1 if odd) that starts with $n and prints the numbers down to 1.",
			"Generate the Collatz sequence of $n and print its numbers.",
			"Which numbers does the Collatz sequence of $n go through? Print them all, 1 included.",
			"Given the starting number $n, print its Collatz sequence.",
			"Print the numbers that the Collatz rule gives from $n to 1, both included.",
		},
		Held: []string{
			"Output the numbers of the Collatz sequence which has $n as its first number and 1 as its last.",
			"Show every number of the Collatz sequence that begins with $n and ends with 1.",
			"Write a program that follows the Collatz rule from $n until it gets to 1 and prints each number.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(5, 300)} },
		Code: `
number = $n
while number != 1:
    print(number)
    if number % 2 == 0:
        number //= 2
    else:
        number = 3 * number + 1
print(number)
`,
		Check: printedNumbers + `
assert got[0] == $n and got[-1] == 1 and got.count(1) == 1
for x, y in zip(got, got[1:]):
    assert y == (x / 2 if x % 2 == 0 else x + x + x + 1)
`,
	},
	{
		Name: "linear_search",
		Ask: []string{
			"Search the list for $x with a loop and print its index.",
			"Find the index of $x in the list with a for loop and print it.",
			"Step through the values one by one and output the index of $x.",
			"Write a linear search that prints the index of $x in the list.",
			"Use enumerate to find the index of $x in the list and print it.",
			"I need the index at which $x stands in the list, found by a linear search.",
			"Loop over the list until you find $x, then print its index.",
			"Show the index of the number $x in the list by searching it from the start.",
			"Go through the list with a loop and print the index where $x is.",
			"Given the list, print the index of $x using a linear search.",
			"At which index of the list is $x? Search with a loop and print the index.",
			"Determine with a linear search which index $x has, and print that index.",
		},
		Held: []string{
			"How do I find the position of $x in this list with a loop?",
			"Where in the list is the number $x? Display its index after searching with a loop.",
			"Write a short program that looks for $x in the list with a loop and prints the index.",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			numbers := d.Distinct(5, 8, 1, 99)
			return Slots{"numbers": numbers, "x": pick(d, numbers...)}
		},
		Code: `
numbers = $numbers
for index, number in enumerate(numbers):
    if number == $x:
        print(index)
        break
`,
		Check: printedNumbers + `
assert got[-1] == $numbers.index($x) and len(got) <= 3
`,
	},
	{
		Name: "bubble_sort",
		Ask: []string{
			"Sort the list with bubble sort and print it.",
			"Use bubble sort to put the numbers in ascending order and print the list.",
			"How do I sort this list with the bubble sort algorithm?",
			"Write a bubble sort for the list and print the sorted list.",
			"Output these values in ascending order after a bubble sort.",
			"I need this list sorted by bubble sort, without the sort method.",
			"Sort the numbers from smallest to largest using bubble sort and print the result.",
			"Bring the numbers into order, smallest first, by bubble sort and display the list.",
			"Order the list in ascending order with nested loops that swap neighbours, and print it.",
			"Given the list, sort it by bubble sort and print the sorted numbers.",
			"Write a program that sorts the numbers with bubble sort and prints them.",
			"Swap neighbouring numbers with bubble sort until the list is sorted, then print it.",
		},
		Held: []string{
			"Implement bubble sort and print the given list in sorted order.",
			"Print the list after sorting it with bubble sort.",
			"With the bubble sort algorithm, arrange this list from low to high and show it.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": mixed(d, 4, 7)} },
		Code: `
numbers = $numbers
for end in range(len(numbers) - 1, 0, -1):
    for i in range(end):
        if numbers[i] > numbers[i + 1]:
            numbers[i], numbers[i + 1] = numbers[i + 1], numbers[i]
print(numbers)
`,
		Check: printedNumbers + `
import heapq
heap = $numbers
heapq.heapify(heap)
assert got[-len(heap):] == [heapq.heappop(heap) for _ in range(len(heap))]
`,
	},
	{
		Name: "second_largest",
		Ask: []string{
			"Determine the second highest among all the numbers given here.",
			"Find the second largest number in the list and print it.",
			"How do I get the second largest of these numbers?",
			"Write code that prints the second highest value of the list.",
			"What is the second largest number in this list? Print it.",
			"I need the second biggest number of the list.",
			"Show the number that comes right after the largest one in size.",
			"Sort the list and print the second largest number.",
			"Take the list and output its second largest element.",
			"Leaving out the largest number, display the largest of the others.",
			"Write a short program that finds the second largest of the numbers.",
			"Print the runner-up of the list, that is, its second largest number.",
		},
		Held: []string{
			"Which of these values is the second largest? Output it.",
			"Given the list, print the second greatest number in it.",
			"Print the second largest number of the list.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": mixed(d, 4, 7)} },
		Code: `
numbers = $numbers
ordered = sorted(numbers)
print(ordered[-2])
`,
		Check: printedNumbers + `
rest = $numbers
rest.remove(max(rest))
assert got[-1] == max(rest)
`,
	},
	{
		Name: "pairs_with_sum",
		Ask: []string{
			"Print all pairs of numbers in the list whose sum is $k.",
			"Find the pairs of numbers in the list that add up to $k and print each pair.",
			"Determine each pair in this list that totals $k and print the two numbers.",
			"Write nested loops that print every pair of numbers from the list with the sum $k.",
			"Use two loops to find the pairs that add up to $k and print them.",
			"Output the pairs of values that have $k as their sum, every pair only once.",
			"Show each pair of numbers in the list whose total is $k.",
			"Which pairs of numbers in the list add up to $k? Print them.",
			"Go through the list and print the pairs of elements with a sum of $k, each pair once.",
			"Given the list, print all pairs that sum to $k.",
			"Write a program that looks for two numbers in the list with the sum $k and prints all such pairs.",
			"Compare every number of the list with the ones after it and print the pairs that add up to $k.",
		},
		Held: []string{
			"I need all pairs of different elements of the list that together make $k.",
			"Two numbers of the list may add up to $k. Display all the pairs for which that is so.",
			"How do I print the pairs in this list that sum to $k?",
		},
		Input: "$numbers",
		Draw: func(d Draw) Slots {
			k := d.Int(12, 60)
			numbers := map[int]bool{}
			for range d.Int(1, 2) {
				x := d.Int(1, (k-1)/2)
				numbers[x], numbers[k-x] = true, true
			}
			for range 2 {
				numbers[d.Int(1, 60)] = true
			}
			var list []int
			for x := range 100 {
				if numbers[x] {
					list = append(list, x)
				}
			}
			d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			return Slots{"numbers": list, "k": k}
		},
		Code: `
numbers = $numbers
for i in range(len(numbers)):
    for j in range(i + 1, len(numbers)):
        if numbers[i] + numbers[j] == $k:
            print(numbers[i], numbers[j])
`,
		Check: printedNumbers + `
from itertools import combinations
pairs = sorted(sorted(got[i:i + 2]) for i in range(0, len(got), 2))
assert pairs == sorted(sorted(pair) for pair in combinations($numbers, 2) if sum(pair) == $k)
`,
	},
	{
		Name: "reverse_digits",
		Ask: []string{
			"Reverse the digits of $n and print the new number.",
			"Print the number $n with its digits in reverse order.",
			"How do I reverse the digits of the number $n?",
			"Write code that prints $n with the digits reversed.",
			"What number do you get by reversing the digits of $n? Print it.",
			"I need the number whose digits are those of $n in reverse order.",
			"Turn the digits of $n around and print the result.",
			"Work out which number $n becomes when its digits are read from right to left, and display it.",
			"Take the number $n and output it with its digits reversed.",
			"Given the number $n, print the number with reversed digits.",
			"Read the number $n from its last digit to its first and output what you get.",
			"Convert $n to a string, reverse it, and print it as a number.",
		},
		Held: []string{
			"Show $n backwards, digit by digit.",
			"Write a program that reverses the digits of $n and prints the result.",
			"The digits of $n should be in the opposite order. Print that number.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(10, 9999)*10 + d.Int(1, 9)} },
		Code: `
number = $n
backwards = int(str(number)[::-1])
print(backwards)
`,
		Check: printedNumbers + `
rest, value = $n, 0
while rest:
    rest, digit = divmod(rest, 10)
    value = 10 * value + digit
assert got[-1] == value
`,
		Wrong: []string{`
number = $n
backwards = int("".join(sorted(str(number))))
print(backwards * 10)
`},
	},
}

// mixed returns different numbers that are not in ascending order.
func mixed(d Draw, least, most int) []int {
	numbers := d.Distinct(least, most, 1, 99)
	for slices.IsSorted(numbers) || numbers[len(numbers)-1] == slices.Max(numbers) {
		numbers = d.Distinct(least, most, 1, 99)
	}
	return numbers
}
