package main

// conditionKinds are about if, elif and else.
var conditionKinds = []Kind{
	{
		Name: "larger_of_two",
		Ask: []string{
			"Decide with an if statement which of $a and $b is $which and display that number.",
			"Use an if statement to print the $which of $a and $b.",
			"Compare $a and $b and print the $which number.",
			"Let a be $a and b be $b, compare the two, and print the $which.",
			"How do I print the $which of two numbers, $a and $b, with an if statement?",
			"Write an if statement that prints the $which number of $a and $b.",
			"I need code that compares $a with $b and prints the $which one.",
			"Find the $which of $a and $b without min or max.",
			"Given the numbers $a and $b, print the $which one with if and else.",
			"Write a program that compares the numbers $a and $b and shows the $which one.",
			"Store $a and $b in variables and print the $which of them with an if statement.",
			"Show the $which of the numbers $a and $b by comparing them.",
		},
		Held: []string{
			"Of $a and $b, output the $which number by means of if and else.",
			"Print the $which of the two numbers $a and $b using if and else.",
			"Which of $a and $b is the $which number? Use if and else to print it.",
		},
		Draw: func(d Draw) Slots {
			numbers, i := d.Distinct(2, 2, 1, 200), d.IntN(2)
			return Slots{"a": numbers[0], "b": numbers[1], "which": []string{"larger", "smaller"}[i], "sign": []string{">", "<"}[i]}
		},
		Derived: []string{"sign"},
		Code: `
a = $a
b = $b
if a $sign b:
    print(a)
else:
    print(b)
`,
		Check: printedNumbers + `
assert got == [sorted([$a, $b])[{"larger": 1, "smaller": 0}["$which"]]]
`,
	},
	{
		Name: "even_or_odd",
		Ask: []string{
			"Check whether $n is even or odd and print \"$even\" or \"$odd\".",
			"Print \"$even\" if $n is even, otherwise print \"$odd\".",
			"Write an if statement that prints \"$even\" when $n is even and \"$odd\" when it is odd.",
			"Is $n even or odd? Print \"$even\" for even and \"$odd\" for odd.",
			"How do I print \"$even\" for an even number and \"$odd\" for an odd one, with the number $n?",
			"Let the program say \"$even\" when $n is even, but \"$odd\" when it is odd.",
			"I need code that prints \"$even\" if the number $n is even or else \"$odd\".",
			"Use if and else to print \"$even\" or \"$odd\" depending on whether $n is even or odd.",
			"With the number $n, output \"$even\" in case it is even and \"$odd\" in case it is odd.",
			"Write a program that tells whether $n is even (\"$even\") or odd (\"$odd\").",
			"Find out if $n can be divided by 2 and print \"$even\" if it can, \"$odd\" if it cannot.",
			"Take the number $n and show \"$even\" for even or \"$odd\" for odd.",
		},
		Held: []string{
			"Given the number $n, print \"$even\" when it is even and \"$odd\" when it is odd.",
			"Decide if $n is an even number. Display \"$even\" if it is and \"$odd\" otherwise.",
			"Test if the number $n is even: print \"$even\" if so and \"$odd\" if not.",
		},
		Draw: func(d Draw) Slots {
			pair := pick(d, [2]string{"even", "odd"}, [2]string{"Even", "Odd"}, [2]string{"yes", "no"}, [2]string{"left", "right"}, [2]string{"red", "blue"})
			return Slots{"n": d.Int(2, 999), "even": pair[0], "odd": pair[1]}
		},
		Code: `
number = $n
if number % 2 == 0:
    print("$even")
else:
    print("$odd")
`,
		Check: `
expected, other = ("$even", "$odd") if "$n"[-1] in "02468" else ("$odd", "$even")
assert expected in printed.split() and other not in printed.split()
`,
	},
	{
		Name: "sign_of_number",
		Ask: []string{
			"Print whether $n is positive, negative or zero.",
			"Which is $n: positive, negative or zero? Display it with if, elif and else.",
			"Write an if statement that prints \"positive\", \"negative\" or \"zero\" for the number $n.",
			"Is $n positive, negative or zero? Print the right word.",
			"How do I find out if the number $n is positive, negative or zero?",
			"Use if, elif and else to print whether $n is positive, negative or zero.",
			"I need code that tells if $n is a positive number, a negative number or zero.",
			"Given the number $n, print \"positive\", \"negative\" or \"zero\".",
			"Test the sign of $n and print \"positive\", \"negative\" or \"zero\".",
			"Write a program that prints the sign of $n as a word: positive, negative or zero.",
			"For the number $n, output one of the words positive, negative and zero.",
			"Decide whether $n is positive, negative or zero and show the word.",
		},
		Held: []string{
			"Take the number $n and show if it is positive, negative or zero.",
			"Check if $n is positive, negative or zero and print the answer.",
			"Let the program say if the number $n is positive, negative or just zero.",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(-300, 300)} },
		Code: `
number = $n
if number > 0:
    print("positive")
elif number < 0:
    print("negative")
else:
    print("zero")
`,
		Check: `
import re
words = re.findall("positive|negative|zero", printed.lower())
assert words == ["zero" if $n == 0 else "negative" if "$n".startswith("-") else "positive"]
`,
		Wrong: []string{`
number = $n
if number > 0:
    print("negative")
elif number < 0:
    print("positive")
else:
    print("zero")
`, `
number = $n
print("positive" if number * 0 else "negative or positive")
`, `
number = $n
if number == 0:
    print("zero")
else:
    print("not zero")
`},
	},
	{
		Name: "label_by_threshold",
		Ask: []string{
			"Write a function $fn(value) that returns \"$high\" if value is greater than $k and \"$low\" otherwise.",
			"Create a function $fn that returns \"$high\" for numbers above $k and \"$low\" for all others.",
			"Define $fn(value): it returns \"$high\" when the value is above $k, otherwise \"$low\".",
			"I would like a function named $fn. For numbers over $k it should return \"$high\", for the others \"$low\".",
			"How do I write a function $fn that returns \"$high\" above $k and \"$low\" otherwise?",
			"Implement $fn, which returns \"$high\" if its argument is greater than $k, and \"$low\" if not.",
			"Let $fn be a function that gives back \"$high\" if the number passed in exceeds $k, and \"$low\" if it does not.",
			"Given a number, return \"$high\" if it is more than $k and \"$low\" otherwise. Call the function $fn.",
			"Build a function called $fn that returns the string \"$high\" for values greater than $k and \"$low\" for the rest.",
			"Write $fn, a function of one number. It returns \"$high\" when the number is bigger than $k and \"$low\" when it is not.",
			"Show me a function $fn with an if statement: above $k it returns \"$high\", otherwise \"$low\".",
			"Use if and else in a function $fn that returns \"$high\" for a value above $k and \"$low\" for any other value.",
		},
		Held: []string{
			"Develop a function $fn that answers \"$high\" when it is given more than $k and \"$low\" in all other cases.",
			"I need a function $fn that takes a number and returns \"$high\" if it is over $k, or else \"$low\".",
			"Make a function $fn that compares a number with $k and returns \"$high\" if it is larger, \"$low\" if it is not.",
		},
		Draw: func(d Draw) Slots {
			pair := pick(d, [2]string{"high", "low"}, [2]string{"big", "small"}, [2]string{"hot", "cold"}, [2]string{"pass", "fail"}, [2]string{"long", "short"}, [2]string{"old", "young"})
			return Slots{"k": d.Int(5, 95), "high": pair[0], "low": pair[1], "fn": pick(d, "label", "classify", "rate", "describe", "category", "level")}
		},
		Code: `
def $fn(value):
    if value > $k:
        return "$high"
    return "$low"
`,
		Check: `
for value in [-5, 0, 1, $k - 1, $k, $k + 1, $k + 2, 500]:
    assert $fn(value) == ["$low", "$high"][value >= $k + 1]
assert $fn($k + 0.5) == "$high"
`,
	},
	{
		Name: "in_range_function",
		Ask: []string{
			"Write a function $fn(number) that returns True if number is between $a and $b, both included.",
			"Create a function $fn that checks whether a number lies between $a and $b, including both ends.",
			"Define $fn(number), which tells whether the number is at least $a and at most $b.",
			"I need a function $fn that returns True for numbers from $a to $b inclusive and False for all others.",
			"How do I write a function $fn that tests if a number is from $a to $b inclusive?",
			"Implement $fn so that it returns True when its argument is at least $a and not more than $b.",
			"Make a function $fn that takes a number and says if it is in the range from $a to $b, ends included.",
			"Given a number, return whether it is between $a and $b inclusive. Call the function $fn.",
			"Let $fn return True exactly when the number passed to it is in the closed interval from $a to $b.",
			"Write $fn, a function that returns True only for values from $a up to and including $b.",
			"Show me a function $fn that checks that a number is not below $a and not above $b.",
			"Develop a function $fn to find out if a value is no less than $a and no greater than $b.",
		},
		Held: []string{
			"Use a chained comparison in a function $fn to test whether a number is between $a and $b inclusive.",
			"I would like $fn to be a function that accepts the numbers $a through $b with True and rejects the others with False.",
			"Build a function called $fn that returns a boolean: is the number at least $a and at most $b?",
		},
		Draw: func(d Draw) Slots {
			a := d.Int(1, 60)
			return Slots{"a": a, "b": a + d.Int(5, 60), "fn": pick(d, "in_range", "is_between", "is_valid", "is_inside", "check_range", "accepts")}
		},
		Code: `
def $fn(number):
    return $a <= number <= $b
`,
		Check: `
accepted = set(range($a, $b + 1))
for number in range(-20, 200):
    assert $fn(number) == (number in accepted)
`,
	},
	{
		Name: "clamp_function",
		Ask: []string{
			"Write a function $fn(number) that limits a number to the range from $a to $b.",
			"Develop a function $fn that clips any number to the interval from $a to $b.",
			"Define $fn(number), which returns the number, but at least $a and at most $b.",
			"I need a function $fn that keeps a number within $a and $b: smaller becomes $a, larger becomes $b.",
			"I would like a function, $fn, that returns its argument unless it is under $a or over $b; then it returns that limit.",
			"Implement $fn, which clamps its argument to the range $a to $b.",
			"Make a function $fn that takes a number and forces it into the range from $a to $b.",
			"Given a number, return it limited to at least $a and at most $b. Call the function $fn.",
			"Build a function called $fn that restricts a value to lie between $a and $b.",
			"Write $fn, a function that clamps a number so that the result is never below $a or above $b.",
			"Show me a function $fn that limits its argument to $a at the lower end and $b at the upper end.",
			"Use if statements in a function $fn to return $a when the number is too small, $b when it is too large, else the number. The limits are $a and $b.",
		},
		Held: []string{
			"Create a function $fn that returns $a for numbers below $a, $b for numbers above $b, and the number itself otherwise.",
			"How do I write a function $fn that clamps a number between $a and $b?",
			"Let $fn bring numbers below $a up to $a and numbers above $b down to $b, and leave the others as they are.",
		},
		Draw: func(d Draw) Slots {
			a := d.Int(0, 40)
			return Slots{"a": a, "b": a + d.Int(8, 80), "fn": pick(d, "clamp", "limit", "clip", "restrict", "bound", "keep_within")}
		},
		Code: `
def $fn(number):
    if number < $a:
        return $a
    if number > $b:
        return $b
    return number
`,
		Check: `
for number in range(-30, 200):
    assert $fn(number) == sorted([$a, number, $b])[1]
`,
	},
	{
		Name: "grade_function",
		Ask: []string{
			"Write a function $fn(score) that returns \"A\" for a score of at least $a, \"B\" for at least $b and \"C\" otherwise.",
			"Create a function $fn that gives the grade A from $a points, B from $b points, and C below that.",
			"Define $fn(score), which returns the letter A if the score is $a or more, B if it is $b or more, else C.",
			"I need a function $fn that returns \"A\" for scores of $a and up, \"B\" for scores of $b and up, and \"C\" for the rest.",
			"How do I write a function $fn that returns grade A from $a, B from $b and C below $b?",
			"Implement $fn with if, elif and else: at least $a is \"A\", at least $b is \"B\", anything else is \"C\".",
			"I would like the function $fn to return the grade of a score, where A starts at $a, B starts at $b and C is what remains.",
			"Given a score, return its grade. Call the function $fn: $a or more is an A, $b or more is a B, less is a C.",
			"Build a function called $fn that returns \"A\" when the score is at least $a, \"B\" when it is at least $b, or \"C\".",
			"Let $fn map a score to \"A\" (from $a), \"B\" (from $b) or \"C\" (under $b).",
			"Show me a function $fn that grades a score with A (at least $a), B (at least $b) or C.",
			"Use elif in a function $fn that returns A for scores not below $a, B for scores not below $b and C for the others.",
		},
		Held: []string{
			"Develop a function $fn for grades: whoever has $a points or more gets \"A\", $b points or more \"B\", fewer \"C\".",
			"Make a function $fn that turns a score into a grade: A needs $a points, B needs $b points, all else is C.",
			"Write $fn, a grading function. Scores from $a get \"A\", scores from $b get \"B\", lower scores get \"C\".",
		},
		Draw: func(d Draw) Slots {
			b := d.Int(30, 70)
			return Slots{"a": b + d.Int(5, 28), "b": b, "fn": pick(d, "grade", "get_grade", "letter", "mark", "rate_score", "letter_grade")}
		},
		Code: `
def $fn(score):
    if score >= $a:
        return "A"
    elif score >= $b:
        return "B"
    else:
        return "C"
`,
		Check: `
grades = "C" * $b + "B" * ($a - $b) + "A" * (120 - $a)
for score, expected in enumerate(grades):
    assert $fn(score) == expected
`,
	},
	{
		Name: "price_by_age",
		Ask: []string{
			"Write a function $fn(age) that returns a price of $p for ages under $k and $q otherwise.",
			"Create a function $fn that returns the ticket price: $p for people younger than $k, $q for everyone else.",
			"Develop a function $fn that tells the price for an age: it costs $p for anyone not yet $k and $q for the others.",
			"I need a function $fn: people under $k pay $p and all others pay $q. It takes the age and returns the price.",
			"How do I write a function $fn that returns the price $p below the age of $k and $q from then on?",
			"Implement $fn, which takes an age and returns $p when it is below $k, otherwise $q.",
			"Make a function $fn that takes the age of a visitor and returns $p if the visitor is under $k, else $q.",
			"Given an age, return the entrance fee. Call the function $fn: under $k it is $p, from $k on it is $q.",
			"Build a function called $fn that returns $p for an age below $k and $q for any other age.",
			"Write $fn, a function from an age to a ticket price. Children under $k pay $p, the others pay $q.",
			"Show me a function $fn that returns the fare: $p for those under $k, $q for the rest.",
			"A ticket costs $p for people younger than $k and $q for others. Let $fn return the price for an age.",
		},
		Held: []string{
			"Define $fn(age), which returns $p if age is less than $k and $q if it is not.",
			"I would like a function named $fn that takes an age. It must return $p below $k and $q at $k or above.",
			"Use an if statement in a function $fn that returns $p for ages smaller than $k and $q for all other ages.",
		},
		Draw: func(d Draw) Slots {
			p := d.Int(2, 20)
			return Slots{"k": d.Int(5, 65), "p": p, "q": p + d.Int(2, 20), "fn": pick(d, "price", "ticket_price", "fee", "fare", "cost", "entry_price")}
		},
		Code: `
def $fn(age):
    if age < $k:
        return $p
    return $q
`,
		Check: `
prices = [$p] * $k + [$q] * 60
for age, expected in enumerate(prices):
    assert $fn(age) == expected
`,
	},
	{
		Name: "word_for_multiples",
		Ask: []string{
			"Print the numbers from 1 to $n, but print \"$word\" instead of every multiple of $k.",
			"Write a loop from 1 to $n that prints \"$word\" for multiples of $k and the number itself otherwise.",
			"Count from 1 to $n and replace each number divisible by $k with \"$word\".",
			"How do I print 1 to $n with \"$word\" in place of the multiples of $k?",
			"Let a loop go from 1 to $n and say \"$word\" in place of any number that $k divides.",
			"For each number from 1 to $n, print \"$word\" if $k divides it, else print the number.",
			"I need a loop over 1 to $n that shows \"$word\" whenever the number is a multiple of $k, otherwise the number.",
			"A game counts from 1 to $n and says \"$word\" for the multiples of $k. Output what it says, one item per line.",
			"Loop from 1 to $n. Print \"$word\" when the number is divisible by $k and print the number when it is not.",
			"Show the numbers from 1 to $n, writing \"$word\" for each multiple of $k.",
			"Write a program like FizzBuzz with one rule: from 1 to $n, multiples of $k become \"$word\".",
			"Print 1 to $n, one per line, where multiples of $k are shown as \"$word\".",
		},
		Held: []string{
			"Use a for loop to print the numbers 1 to $n; for those divisible by $k print \"$word\".",
			"Write code that prints the numbers from 1 to $n, with every multiple of $k replaced by \"$word\".",
			"Display each number from 1 up to $n, except that the multiples of $k turn into \"$word\".",
		},
		Draw: func(d Draw) Slots { return Slots{"n": d.Int(15, 50), "k": d.Int(2, 9), "word": d.Word()} },
		Code: `
for number in range(1, $n + 1):
    if number % $k == 0:
        print("$word")
    else:
        print(number)
`,
		Check: `
expected = [str(x) for x in range(1, $n + 1)]
expected[$k - 1::$k] = ["$word"] * ($n // $k)
assert printed.split() == expected
`,
	},
	{
		Name: "leap_year",
		Ask: []string{
			"Does the year $n count as a leap year? Answer by printing True or False.",
			"Is $n a leap year? Print True or False.",
			"Print True if $n is a leap year and False otherwise.",
			"Write code that tells whether $n is a leap year by printing True or False.",
			"How do I find out if the year $n is a leap year? It should print True or False.",
			"Test if $n is a leap year and print the boolean result.",
			"I need code that prints True when the year $n is a leap year, else False.",
			"Given the year $n, print whether it is a leap year as True or False.",
			"Use the leap year rules (4, 100, 400) to print True or False for the year $n.",
			"Determine if the year $n has 366 days, and display True or False.",
			"Take the year $n and show True if it is a leap year and False if not.",
			"Find out whether $n was or will be a leap year and print True or False.",
		},
		Held: []string{
			"For the year $n, output True in case it is a leap year and False in case it is not.",
			"Write a program that decides if $n is a leap year and prints True or False.",
			"Check whether the year $n is a leap year and print True or False.",
		},
		Draw: func(d Draw) Slots {
			if d.IntN(2) == 0 {
				return Slots{"n": d.Step(1600, 2400, 4)}
			}
			return Slots{"n": d.Int(1600, 2400)}
		},
		Code: `
year = $n
is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
print(is_leap)
`,
		Check: `
import calendar
assert printed.split()[-1].rstrip(".") == str(calendar.isleap($n))
`,
		Wrong: []string{`
year = $n
is_leap = year % 4 != 0
print(is_leap)
`, `
year = $n
is_leap = year % 4
print(is_leap)
`, `
year = $n
print(not (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)))
`},
	},
}
