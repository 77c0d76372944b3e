package main

// numberKinds are about arithmetic on single numbers and lists of numbers.
var numberKinds = []Kind{
	{
		Name: "is_multiple_function",
		Ask: []string{
			"Write a function $fn(n) that returns True if n is {divisible by|a multiple of} $k and False otherwise.",
			"Develop a function $fn to determine if a number leaves no remainder when it is divided by $k.",
			"Define $fn(n), which tells whether n is a multiple of $k.",
			"I need a function named $fn that takes a number and returns True when it can be divided by $k without a remainder.",
			"I would like to check numbers for divisibility by $k. Give me a function named $fn for that.",
			"Implement $fn so that it returns True for multiples of $k and False for all other integers.",
			"Make a function $fn that takes an integer and says whether $k divides it evenly.",
			"Given an integer n, return whether it is divisible by $k. Call the function $fn.",
			"Build a small function, $fn, that returns a boolean: is the number divisible by $k?",
			"Write code for a function $fn which returns True only if its argument is {evenly divisible by|a multiple of} $k.",
			"What would a function $fn look like that checks divisibility by $k?",
			"Show me a function $fn that decides if a given number is a multiple of $k.",
		},
		Held: []string{
			"Create a {|Python }function called $fn that checks whether a number is divisible by $k.",
			"How do I write a function $fn that tests if a number is a multiple of $k?",
			"Name a function $fn and let it return True exactly when $k goes into its argument evenly.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"k": d.Int(2, 60), "fn": pick(d, "is_multiple_of", "is_divisible_by", "check_multiple", "can_be_divided", "check_division", "divides_evenly")}
		},
		Code: `
def $fn(n):
    return n % $k == 0
`,
		Check: `
for n in range(-130, 400):
    assert $fn(n) == (n in range(-$k * 200, $k * 400, $k))
`,
	},
	{
		Name: "sum_of_list",
		Ask: []string{
			"{Print|Show} the sum of the numbers in the list.",
			"{Compute|Calculate} the sum of the given numbers and print it.",
			"Add up all the values in this list and print the total.",
			"What is the sum of these numbers? Print it.",
			"How do I get the total of the numbers below?",
			"Find the total of the following list.",
			"If you add all of these values together, what do you get? Write code that prints it.",
			"I have a list of numbers and need their sum.",
			"Take the list below and output the sum of its elements.",
			"Output one number: the sum over the list below.",
			"Given the list, print what its numbers add up to.",
			"Sum all numbers of the given list.",
		},
		Held: []string{
			"Work out the total of all the numbers given here and display it.",
			"Write code that sums the given list and prints the result.",
			"Write a short program that prints the sum of the list.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 7, 1, 99)} },
		Code: `
numbers = $numbers
total = sum(numbers)
print(total)
`,
		Check: printedNumbers + `
expected = 0
for n in $numbers:
    expected += n
assert got[-1] == expected
`,
		Wrong: []string{`
numbers = $numbers
total = max(numbers)
print(total)
`},
	},
	{
		Name: "average_of_list",
		Ask: []string{
			"{Print|Show} the average of the numbers in the list.",
			"{Compute|Calculate} the mean of the given numbers and print it.",
			"Work out the average of all the numbers given here and display it.",
			"How do I get the mean of the numbers below?",
			"Find the average of the following list.",
			"Write code that prints the {mean|average} of the given list.",
			"I have a list of numbers and need their average.",
			"Take the list below and output the mean of its elements.",
			"Write a short program that prints the average of the list.",
			"Given the list, print the mean of its values.",
			"Divide the sum of the numbers by how many there are, and print the result.",
			"Output one number: the mean of the list below.",
		},
		Held: []string{
			"What is the average of these numbers? Print it.",
			"On average, how large are these values? Write code that prints it.",
			"Print the arithmetic mean of the list.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 7, 1, 99)} },
		Code: `
numbers = $numbers
average = sum(numbers) / len(numbers)
print(average)
`,
		Check: printedNumbers + `
import statistics
assert abs(got[-1] - statistics.mean($numbers)) < 0.006
`,
	},
	{
		Name: "product_of_list",
		Ask: []string{
			"{Print|Show} the product of the numbers in the list.",
			"{Compute|Calculate} the product of the given numbers and print it.",
			"Multiply all the values in this list and print the result.",
			"What is the product of these numbers? Print it.",
			"Work out the product of all the numbers given here and display it.",
			"Find the product of the following list.",
			"Write code that multiplies the numbers of the given list and prints the product.",
			"If you multiply all of these values, what do you get? Write code that prints it.",
			"Take the list below and output the product of its elements.",
			"Use a loop to multiply all the numbers of the list, then print the product.",
			"Given the list, print what you get when all its numbers are multiplied.",
			"Multiply all numbers of the given list with each other.",
		},
		Held: []string{
			"How do I multiply all the numbers below together?",
			"I have a list of numbers and need their product.",
			"Output one number: the product over the list below.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, 2, 20)} },
		Code: `
numbers = $numbers
product = 1
for number in numbers:
    product *= number
print(product)
`,
		Check: printedNumbers + `
import math
assert got[-1] == math.prod($numbers)
`,
	},
	{
		Name: "range_of_list",
		Ask: []string{
			"Output the maximum minus the minimum for these values.",
			"{Compute|Calculate} how far the maximum of the list is above the minimum and print it.",
			"What is the difference between the biggest and the smallest of these numbers?",
			"Subtract the smallest number of the list from the largest one and print the result.",
			"Find the range of the following list, that is, its maximum minus its minimum.",
			"Write code that prints the gap between the largest and smallest value of the given list.",
			"I need the difference between the highest and the lowest of these values.",
			"How do I get the difference between the maximum and minimum of this list?",
			"Take the list and output its maximum minus its minimum.",
			"Determine the gap between the lowest and the highest number given here and display it.",
			"Show the difference between max and min of the numbers below.",
			"Write a short program that subtracts the minimum of the list from its maximum.",
		},
		Held: []string{
			"How far apart are the smallest and the largest of these numbers? Print it.",
			"Given the list, print the spread from its lowest to its highest number.",
			"Print the difference between the largest and the smallest number in the list.",
		},
		Input: "$numbers",
		Draw:  func(d Draw) Slots { return Slots{"numbers": d.Distinct(4, 7, 1, 99)} },
		Code: `
numbers = $numbers
difference = max(numbers) - min(numbers)
print(difference)
`,
		Check: printedNumbers + `
ordered = sorted($numbers)
assert got[-1] == ordered[-1] - ordered[0]
`,
	},
	{
		Name: "arithmetic_on_two",
		Ask: []string{
			"Print the $op of $a and $b.",
			"{Compute|Calculate} the $op of $a and $b and print it.",
			"Let a be $a and b be $b. Print the $op of a and b.",
			"How do I print the $op of the numbers $a and $b?",
			"Store $a and $b in variables and print their $op.",
			"Work out the $op of $a and $b and display the result.",
			"Write code to find the $op of $a and $b.",
			"I need the $op of two numbers, $a and $b.",
			"Take the numbers $a and $b and output their $op.",
			"Given two numbers, $a and $b, print their $op.",
			"Show the $op of the numbers $a and $b.",
			"Find the $op of $a and $b and show it.",
		},
		Held: []string{
			"Write a program that prints the $op of $a and $b.",
			"For the two numbers $a and $b, output the $op.",
			"What is the $op of $a and $b? Print it with Python.",
		},
		Draw: func(d Draw) Slots {
			i := d.IntN(3)
			return Slots{
				"op": []string{"sum", "difference", "product"}[i], "sign": []string{"+", "-", "*"}[i], "a": d.Int(50, 300), "b": d.Int(2, 49),
			}
		},
		Derived: []string{"sign"},
		Code: `
a = $a
b = $b
result = a $sign b
print(result)
`,
		Check: printedNumbers + `
import operator
assert abs(got[-1]) == {"sum": operator.add, "difference": operator.sub, "product": operator.mul}["$op"]($a, $b)
`,
	},
	{
		Name: "power_of_number",
		Ask: []string{
			"Print $a to the power of $b.",
			"{Compute|Calculate} $a raised to the power $b and print it.",
			"What is $a to the power of $b? Print it.",
			"How do I raise $a to the power of $b and print the result?",
			"Raise $a to the power $b and show the result.",
			"Write code that prints the number $a raised to the power of $b.",
			"I need to know what $a to the power of $b is.",
			"Take $a as base and $b as exponent and output the power.",
			"Write a program that computes $a to the power of $b.",
			"Show the result of multiplying $a by itself so that it has $b factors, that is, $a to the power $b.",
			"Work out what $a to the power $b is and display it.",
			"Given the base $a and the exponent $b, print the power.",
		},
		Held: []string{
			"Find the value of $a to the power of $b.",
			"Use the power operator to compute $a to the power $b and print it.",
			"With base $a and exponent $b, what is the power? Print the answer.",
		},
		Draw: func(d Draw) Slots { return Slots{"a": d.Int(2, 30), "b": d.Int(4, 12)} },
		Code: `
base = $a
exponent = $b
print(base ** exponent)
`,
		Check: `
import math
assert printed.replace(",", "").split()[-1].rstrip(".") == str(math.prod([$a] * $b))
`,
	},
	{
		Name: "quotient_and_remainder",
		Ask: []string{
			"Carry out the integer division of $a by $b and display quotient and remainder.",
			"Divide $a by $b and print the quotient and the remainder.",
			"{Compute|Calculate} the integer quotient and the remainder when $a is divided by $b, then print both.",
			"Split $a by $b: print the quotient first and the remainder after it.",
			"How do I get the quotient and the remainder of dividing $a by $b?",
			"Find the whole-number quotient and the remainder of $a and $b.",
			"Write code that divides $a by $b and prints the quotient, then the remainder.",
			"I need the quotient and the remainder of the division of $a by $b.",
			"Write a program that prints the quotient and remainder of $a over $b.",
			"Given $a and $b, print the integer quotient and what is left over.",
			"Show how many times $b goes into $a, and the remainder.",
			"Use divmod to print the quotient and the remainder of $a by $b.",
		},
		Held: []string{
			"When $a is divided by $b, what are the quotient and the remainder? Output both.",
			"Print the quotient and the remainder of $a divided by $b.",
			"What are the quotient and remainder of $a divided by $b? Print both.",
		},
		Draw: func(d Draw) Slots { return Slots{"a": d.Int(60, 999), "b": d.Int(3, 29)} },
		Code: `
quotient, remainder = divmod($a, $b)
print(quotient)
print(remainder)
`,
		Check: printedNumbers + `
quotient = 0
while (quotient + 1) * $b <= $a:
    quotient += 1
assert got[-2:] == [quotient, $a - quotient * $b]
`,
		Wrong: []string{`
quotient, remainder = divmod($b, $a)
print(quotient)
print(remainder)
`, `
quotient, remainder = divmod($a, $b)
print(remainder)
print(quotient)
`, `
print($a / $b)
print($a % $b)
`},
	},
	{
		Name: "percent_of_number",
		Ask: []string{
			"What is $p percent of $a? Print it.",
			"Print $p percent of $a.",
			"{Compute|Calculate} $p percent of $a and print the result.",
			"How do I compute $p percent of $a?",
			"Find $p percent of the number $a.",
			"Determine how much $p percent of $a makes.",
			"I need to know how much $p percent of $a is.",
			"Show what $p percent of $a comes to.",
			"Work out $p percent of $a and display it.",
			"Given the number $a, print $p percent of it.",
			"Take $p percent of $a and output it.",
			"How much is $p percent of $a? Write Python code for it.",
		},
		Held: []string{
			"Write a program to compute $p percent of $a.",
			"Of $a, I want $p percent. Output that number.",
			"Write code that prints $p percent of $a.",
		},
		Draw: func(d Draw) Slots { return Slots{"p": d.Int(2, 95), "a": d.Step(100, 950, 10)} },
		Code: `
number = $a
percent = $p
print(number * percent / 100)
`,
		Check: printedNumbers + `
assert abs(got[-1] - 0.01 * $p * $a) < 0.006
`,
	},
	{
		Name: "digit_sum",
		Ask: []string{
			"Print the sum of the digits of $n.",
			"If you add together the digits of $n, what do you get? Output it.",
			"Add up the digits of the number $n.",
			"What is the sum of the digits of $n? Print it.",
			"How do I sum the digits of $n?",
			"Find the sum of all digits in $n.",
			"Write code that prints the digit sum of $n.",
			"I need the sum of the digits of the number $n.",
			"Take the number $n and output the sum of its digits.",
			"Write a program that adds the digits of $n and prints the total.",
			"Work out what the digits of $n add up to and display it.",
			"Show the digit sum of $n.",
		},
		Held: []string{
			"Given the number $n, print what its digits add up to.",
			"{Compute|Calculate} the digit sum of $n and print it.",
			"Determine the digit sum for the number $n.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(1000, 99999)} },
		Code: `
number = $n
total = sum(int(digit) for digit in str(number))
print(total)
`,
		Check: printedNumbers + `
rest, total = $n, 0
while rest:
    total += rest % 10
    rest //= 10
assert got[-1] == total
`,
	},
	{
		Name: "count_digits",
		Ask: []string{
			"Print how many digits the number $n has.",
			"Count the digits of $n and print the count.",
			"How many digits does $n have? Print the answer.",
			"Of how many digits does the number $n consist? Output the count.",
			"Find the number of digits in $n.",
			"Write code that prints the number of digits of $n.",
			"Determine how many digits long $n is.",
			"Show the count of digits in the number $n.",
			"Take the number $n and output its number of digits.",
			"Write a program that counts the digits of $n.",
			"Given the number $n, print its length in digits.",
			"Turn $n into a string and print how many digits it has.",
		},
		Held: []string{
			"Work out the number of digits that $n has and display it.",
			"How do I count the digits of the number $n?",
			"I need to know how many digits there are in $n.",
		},
		Draw: func(d Draw) Slots {
			n := d.Int(1, 9)
			for range d.Int(2, 8) {
				n = 10*n + d.Int(0, 9)
			}
			return Slots{"n": n}
		},
		Code: `
number = $n
digits = len(str(number))
print(digits)
`,
		Check: printedNumbers + `
digits, rest = 0, $n
while rest > 0:
    digits, rest = digits + 1, rest // 10
assert got[-1] == digits
`,
		Wrong: []string{`
number = $n
digits = len(set(str(number)))
print(digits + 10)
`, `
number = $n
print(sum(int(digit) for digit in str(number)) + 20)
`},
	},
	{
		Name: "absolute_difference",
		Ask: []string{
			"Write a function $fn(number) that returns the distance between number and $k.",
			"Create a function $fn that takes a number and returns its absolute difference from $k.",
			"Define $fn(number), which returns how far number is from $k.",
			"I need a function named $fn that gives the distance of a number to $k.",
			"How do I write a function $fn that tells how far a number is from $k?",
			"Implement $fn so that it returns the absolute difference between its argument and $k.",
			"Make a function $fn that takes a number and returns the absolute value of the number minus $k.",
			"Given a number, return its distance from $k. Call the function $fn.",
			"Let $fn be a function of one number that returns its distance from $k, never negative.",
			"Write a function $fn which returns the absolute difference of its argument and $k.",
			"What would a function $fn look like that returns the distance from a number to $k?",
			"Develop a function $fn that finds the absolute difference between a number and $k.",
		},
		Held: []string{
			"Show me a function $fn that returns how far a value is away from $k.",
			"I would like a function, $fn, to tell me the distance between a given number and $k.",
			"Build a function called $fn that measures how far its argument is from $k.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"k": d.Int(2, 200), "fn": pick(d, "distance", "difference", "gap", "distance_from", "how_far", "offset")}
		},
		Code: `
def $fn(number):
    return abs(number - $k)
`,
		Check: `
for x in range(-50, 400, 7):
    assert $fn(x) == max(x - $k, $k - x)
`,
	},
	{
		Name: "round_number",
		Ask: []string{
			"Round $x to $k decimal places and print it.",
			"The number $x has too many decimals. Print it rounded to $k of them.",
			"Write code that rounds $x to $k decimal places.",
			"How do I round the number $x to $k decimals?",
			"Work out $x rounded to $k places and display it.",
			"I need the number $x rounded to $k digits after the point.",
			"Show $x rounded to $k decimal places.",
			"Use round to print $x with $k decimals.",
			"Write a program that rounds $x to $k decimals and prints the result.",
			"Given the number $x, round it to $k decimal places and output it.",
			"Take $x, round it to $k digits after the decimal point, and print it.",
			"Output $x after rounding it to $k decimals.",
		},
		Held: []string{
			"Print $x rounded to $k decimals.",
			"What is $x rounded to $k decimal places? Print it.",
			"Make the number $x shorter by rounding it to $k decimals, then show it.",
		},
		Draw: func(d Draw) Slots {
			whole, decimals := d.Int(1, 99), pick(d, 2, 3)
			fraction := d.Int(10000, 99999)
			for fraction%10 == 0 || fraction%10 == 5 || fraction/10%10 == 0 || fraction/100%10 == 0 || fraction/100%10 == 9 || fraction/1000%10 == 0 || fraction/1000%10 == 9 || fraction/10%10 == 9 {
				fraction = d.Int(10000, 99999)
			}
			return Slots{"x": float64(whole) + float64(fraction)/100000, "k": decimals}
		},
		Code: `
number = $x
rounded = round(number, $k)
print(rounded)
`,
		Check: printedNumbers + `
from decimal import Decimal, ROUND_HALF_UP
assert got[-1] == float(Decimal("$x").quantize(Decimal(1).scaleb(-$k), ROUND_HALF_UP))
`,
	},
	{
		Name: "greatest_common_divisor",
		Ask: []string{
			"Print the greatest common divisor of $a and $b.",
			"{Compute|Calculate} the greatest common divisor of $a and $b with math.gcd.",
			"What is the greatest common divisor of $a and $b? Print it.",
			"How do I find the greatest common divisor of $a and $b?",
			"Find the GCD of $a and $b and print it.",
			"Write code that prints the GCD of $a and $b.",
			"Which is the greatest common divisor that $a and $b share? Output it.",
			"Use the math module to get the GCD of $a and $b.",
			"Show the largest number that divides both $a and $b.",
			"Determine the largest common divisor of $a and $b.",
			"Given $a and $b, print their greatest common divisor.",
			"Import math and print the greatest common divisor of $a and $b.",
		},
		Held: []string{
			"Work out the GCD of the numbers $a and $b and display it.",
			"I need the greatest common divisor of the numbers $a and $b.",
			"Write a program that finds the greatest common divisor of $a and $b.",
		},
		Draw: func(d Draw) Slots {
			k := d.Int(2, 15)
			return Slots{"a": k * d.Int(3, 20), "b": k * d.Int(2, 20)}
		},
		Code: `
import math

divisor = math.gcd($a, $b)
print(divisor)
`,
		Check: printedNumbers + `
assert got[-1] == max(k for k in range(1, $a + 1) if $a % k == 0 and $b % k == 0)
`,
		Wrong: []string{`
import math

print(math.gcd($a, $b) * 2)
`, `
a = $a
b = $b
print(min(a, b) + 1)
`},
	},
	{
		Name: "circle_area",
		Ask: []string{
			"Print the $what of a circle with radius $r.",
			"{Compute|Calculate} the $what of a circle whose radius is $r and print it.",
			"Work out the $what of a circle that has a radius of $r and display it.",
			"How do I compute the $what of a circle of radius $r?",
			"Find the $what of a circle with radius $r.",
			"Write code that prints the $what of a circle with radius $r.",
			"I need the $what of a circle that has the radius $r.",
			"Use math.pi to print the $what of a circle of radius $r.",
			"Write a program that computes the $what of a circle with radius $r.",
			"Given a circle of radius $r, print its $what.",
			"A circle has the radius $r. Print its $what.",
			"For a circle with the radius $r, determine the $what.",
		},
		Held: []string{
			"What is the $what of a circle with a radius of $r? Print it.",
			"The radius of a circle is $r. What is its $what? Output it.",
			"Show the $what of the circle with radius $r.",
		},
		Draw: func(d Draw) Slots {
			if d.IntN(2) == 0 {
				return Slots{"r": d.Int(2, 120), "what": "area", "formula": "math.pi * radius ** 2"}
			}
			return Slots{"r": d.Int(2, 120), "what": "circumference", "formula": "2 * math.pi * radius"}
		},
		Derived: []string{"formula"},
		Code: `
import math

radius = $r
$what = $formula
print($what)
`,
		Check: printedNumbers + `
pi = 3.141592653589793
expected = {"area": pi * $r * $r, "circumference": pi * ($r + $r)}["$what"]
assert abs(got[-1] - expected) < 0.001 * expected
`,
		Wrong: []string{`
import math

radius = $r
print(math.pi * radius)
`},
	},
	{
		Name: "rectangle_area_perimeter",
		Ask: []string{
			"Print the area and the perimeter of a rectangle with width $w and height $h.",
			"A rectangle is $w wide and $h high. Print its area and its perimeter.",
			"{Compute|Calculate} the area and perimeter of a $w by $h rectangle and print both.",
			"What are the area and the perimeter of a rectangle of width $w and height $h?",
			"Work out area and perimeter for a rectangle whose width is $w and whose height is $h.",
			"Write code that prints the area, then the perimeter, of a rectangle with width $w and height $h.",
			"I need the area and the perimeter of a rectangle that measures $w by $h.",
			"The sides of a rectangle are $w and $h. Output first the area and then the perimeter.",
			"Given a rectangle of width $w and height $h, print its area and perimeter.",
			"Write a program that shows the area and the perimeter of a $w by $h rectangle.",
			"Show the area and perimeter of the rectangle with width $w and height $h.",
			"Store the width $w and the height $h in variables and print the area and perimeter of the rectangle.",
		},
		Held: []string{
			"How do I compute the area and perimeter of a rectangle with the sides $w and $h?",
			"Find the area and perimeter of a rectangle with sides $w and $h.",
			"Determine the area and the perimeter when a rectangle is $w wide and $h high.",
		},
		Draw: func(d Draw) Slots { return Slots{"w": d.Int(3, 60), "h": d.Int(7, 60)} },
		Code: `
width = $w
height = $h
print(width * height)
print(2 * (width + height))
`,
		Check: printedNumbers + `
assert got[-2:] == [sum([$w] * $h), $w + $h + $w + $h]
`,
	},
	{
		Name: "square_root",
		Ask: []string{
			"Determine what the square root of $n is.",
			"{Compute|Calculate} the square root of $n with the math module and print it.",
			"What is the square root of $n? Print it.",
			"How do I get the square root of $n?",
			"Find the square root of the number $n.",
			"Write code that prints the square root of $n.",
			"I need the square root of $n.",
			"Use math.sqrt to show the square root of $n.",
			"Write a program that computes the square root of $n.",
			"Which number multiplied by itself gives $n? Output the square root.",
			"Take the number $n and output its square root.",
			"Import math and print the square root of $n.",
		},
		Held: []string{
			"Work out the square root of the number $n and display it.",
			"Given the number $n, print its square root.",
			"Print the square root of $n.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(5, 999)} },
		Code: `
import math

root = math.sqrt($n)
print(root)
`,
		Check: printedNumbers + `
assert got[-1] >= 0 and abs(got[-1] - $n ** 0.5) < 0.006
`,
		Wrong: []string{`
import math

print(math.sqrt($n) / 2)
`, `
import math

print(math.isqrt($n) - 1)
`},
	},
}
