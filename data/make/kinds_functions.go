package main

// functionKinds are about defining and calling functions.
var functionKinds = []Kind{
	{
		Name: "linear_function",
		Ask: []string{
			"Write a function $fn(x) that returns $a times x plus $b.",
			"Create a function $fn that multiplies its argument by $a and adds $b.",
			"Let $fn give back its argument x multiplied by $a and increased by $b.",
			"I need a function $fn that takes a number, multiplies it by $a, adds $b and returns the result.",
			"How do I write a function $fn that returns $a times its argument plus $b?",
			"Develop a function $fn with one parameter x that yields $a * x + $b.",
			"Make a function $fn that takes x and returns $a * x + $b.",
			"Given a number x, return $a times x plus $b. Call the function $fn.",
			"Build a function called $fn for the formula $a * x + $b.",
			"Write $fn, a function of x. It multiplies x by $a, then adds $b.",
			"Show me a function $fn whose result is its argument times $a, plus $b.",
			"Turn the formula $a * x + $b into a function named $fn.",
		},
		Held: []string{
			"Implement the linear function $fn(x) = $a * x + $b.",
			"I would like $fn to be a function that first multiplies a number by $a and then adds $b to it.",
			"Define $fn(x), which returns $a * x + $b.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"a": d.Int(2, 30), "b": d.Int(1, 60), "fn": pick(d, "linear_function", "straight_line", "evaluate_line", "compute_value", "apply_formula", "value_of_line")}
		},
		Code: `
def $fn(x):
    return $a * x + $b
`,
		Check: `
expected = $b
for x in range(50):
    assert $fn(x) == expected
    expected += $a
assert $fn(-1) == $b - $a
`,
	},
	{
		Name: "function_and_call",
		Ask: []string{
			"Write a function $fn(number) that returns the number $did $k, and print its result for $x.",
			"Define $fn(number), which returns the number $did $k, then call it with $x and print what it returns.",
			"Create a function $fn that returns its argument $did $k. Print $fn($x).",
			"Make a function $fn that takes a number and returns it $did $k, and print the result of calling it with $x.",
			"Implement $fn, which returns its argument $did $k, and print the value for $x.",
			"How do I define a function $fn that returns a number $did $k, and print its value for $x?",
			"I need a function $fn that returns a number $did $k, and a line that prints $fn($x).",
			"Develop a function $fn whose result is its argument $did $k, and output what it gives for $x.",
			"Write a function named $fn that gives back its argument $did $k, and show the result for $x.",
			"Define a function $fn to return a number $did $k, and use it to print the result for $x.",
			"I would like a function $fn that returns any number $did $k. Display its result for the number $x.",
			"Show how to define $fn, which returns a number $did $k, and how to call it with $x and print the result.",
		},
		Held: []string{
			"Build a function called $fn that returns the number $did $k. Then call it with $x and print the result.",
			"Write $fn, a function that returns its argument $did $k. Call it with the argument $x and print the answer.",
			"Let $fn return the number it is given $did $k, and print $fn of $x.",
		},
		Draw: func(d Draw) Slots {
			i := d.IntN(3)
			return Slots{
				"k": d.Int(2, 40), "x": d.Int(41, 99), "did": []string{"plus", "minus", "multiplied by"}[i], "sign": []string{"+", "-", "*"}[i],
				"fn": pick(d, "change", "apply", "calculate", "convert", "update", "adjust"),
			}
		},
		Derived: []string{"sign"},
		Code: `
def $fn(number):
    return number $sign $k


print($fn($x))
`,
		Check: printedNumbers + `
change = {"plus": lambda x: x - -$k, "minus": lambda x: x + -$k, "multiplied by": lambda x: sum($k * [x])}["$did"]
for x in [1, 5, 12, 33, $x]:
    assert $fn(x) == change(x)
assert got[-1] == change($x)
`,
	},
	{
		Name: "default_argument",
		Ask: []string{
			"I would like the function $fn(name, greeting) to return greeting plus space plus name, with \"$hello\" as the default greeting.",
			"Create a function $fn(name, greeting=\"$hello\") that returns the greeting followed by a space and the name.",
			"Define $fn(name, greeting) with the default greeting \"$hello\". It returns the greeting and the name with a space between them.",
			"Let $fn take a name and, optionally, a greeting (\"$hello\" when omitted), and give back the greeting, a space and the name.",
			"How do I write a function $fn(name, greeting) whose greeting defaults to \"$hello\" and that returns greeting, space and name?",
			"Implement $fn(name, greeting=\"$hello\"), which returns the greeting, then a space, then the name.",
			"Make a function $fn that takes a name and an optional greeting, \"$hello\" by default, and returns both as one string, greeting first, with a space between.",
			"Build a function $fn(name, greeting) that returns \"greeting name\". The default value for greeting is \"$hello\".",
			"Write a function called $fn that takes a name and a greeting with the default value \"$hello\" and returns the greeting and the name, separated by a space.",
			"Show me a function $fn with a default argument: $fn(name, greeting=\"$hello\") returns greeting, a space, and name.",
			"Write $fn, a function with a name parameter and a greeting parameter that is \"$hello\" unless given. It returns the two with a space between, greeting first.",
			"Use a default argument in $fn(name, greeting) so that greeting is \"$hello\" when left out, and return the greeting, a space and the name.",
		},
		Held: []string{
			"Develop a function $fn that returns a greeting and a name with a space between them. The parameters are name and greeting, and greeting is \"$hello\" if missing.",
			"Write a function $fn(name, greeting) where greeting is \"$hello\" by default, returning the greeting, a space and the name.",
			"I need a function $fn with the parameters name and greeting that joins greeting and name with a space. If no greeting is given, use \"$hello\".",
		},
		Draw: func(d Draw) Slots {
			return Slots{
				"hello": pick(d, "Hello", "Hi", "Hey", "Welcome", "Dear", "Good day", "Howdy", "Ahoy", "Greetings", "Salute", "Cheers", "Thanks", "Goodbye", "Bye", "Good morning", "Good night", "Cheerio", "Farewell", "Bravo", "Hurray"),
				"fn":    pick(d, "greet", "say_hello", "welcome", "make_greeting", "salute", "address", "greeting_for", "hello", "greet_person", "say"),
			}
		},
		Code: `
def $fn(name, greeting="$hello"):
    return f"{greeting} {name}"
`,
		Check: `
for name in ["Ada", "Max", "Zoe Lee"]:
    assert $fn(name) == " ".join(["$hello", name])
    assert $fn(name, "Yo") == " ".join(["Yo", name])
    assert $fn(name, greeting="So long") == "So long " + name
`,
	},
	{
		Name: "any_number_of_arguments",
		Ask: []string{
			"Write a function $fn that takes any number of arguments and returns their sum {plus $k|increased by $k}.",
			"Create a function $fn(*numbers) that returns the sum of all its arguments plus $k.",
			"Define $fn(*numbers), which adds up all its arguments, starting from $k.",
			"I need a function $fn that accepts any number of numbers and returns their sum plus $k.",
			"How do I write a function $fn that can take any number of arguments and returns $k plus their sum?",
			"Let $fn accept any number of values and give back the sum of all of them plus $k.",
			"Make a function $fn that takes as many numbers as you like and returns their total plus $k.",
			"Build a function called $fn that accepts a variable number of arguments and returns their sum plus $k.",
			"Develop a function $fn to which one can pass however many numbers; it returns $k more than their sum.",
			"Show me a function $fn that uses *numbers to return the sum of its arguments plus $k.",
			"Use *numbers in a function $fn that adds all its arguments and then adds $k.",
			"Write a function named $fn that can be called with any count of numbers and returns their sum plus $k.",
		},
		Held: []string{
			"Write $fn, a function with a variable number of arguments. It returns the sum of them all plus $k.",
			"I would like $fn to take a variable number of arguments and return their total with $k added.",
			"Implement $fn with *numbers so that it returns the sum of the arguments plus $k.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"k": d.Int(2, 99), "fn": pick(d, "add_all", "total", "sum_all", "combine", "add_up", "total_of")}
		},
		Code: `
def $fn(*numbers):
    return sum(numbers) + $k
`,
		Check: `
import functools
for numbers in [[], [1], [4, -2], [3, 9, 27], list(range(12))]:
    assert $fn(*numbers) == functools.reduce(lambda x, y: x + y, numbers, $k)
`,
	},
	{
		Name: "discount_function",
		Ask: []string{
			"Write a function $fn(price) that returns the price {reduced by|after a discount of} $p percent.",
			"I would like $fn to take the normal price and return the sale price, which is $p percent lower.",
			"Define $fn(price), which takes $p percent off the price and returns the result.",
			"I need a function $fn that returns a price after a discount of $p percent.",
			"How do I write a function $fn that subtracts $p percent from a price?",
			"Implement $fn, which lowers its argument by $p percent.",
			"Make a function $fn that takes a price and returns the price less $p percent.",
			"Given a price, return it reduced by $p percent. Call the function $fn.",
			"Build a function called $fn that applies a $p percent discount to a price.",
			"Write $fn, a function that returns what is left of a price after $p percent are taken off.",
			"Develop a function $fn to work out a price when there is a reduction of $p percent.",
			"In a shop everything is $p percent off. Write a function $fn that takes the old price and returns the new one.",
		},
		Held: []string{
			"Show me a function $fn that gives $p percent discount on a price.",
			"Create a function $fn that takes a price and returns it with a discount of $p percent.",
			"Let $fn give back the price it is given minus $p percent of it.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"p": d.Int(2, 75), "fn": pick(d, "discount", "sale_price", "reduce_price", "new_price", "apply_discount", "lower_price")}
		},
		Code: `
def $fn(price):
    return price - price * $p / 100
`,
		Check: `
for price in [0, 1, 20, 99.5, 100, 250, 1000]:
    assert abs($fn(price) - price * (1 - 0.01 * $p)) < 0.006
`,
	},
	{
		Name: "items_in_boxes",
		Ask: []string{
			"There are $k $things in a $box. Write a function $fn($boxes) that returns how many $things are in that many $boxes.",
			"A $box holds $k $things. Write a function $fn that takes the number of $boxes and returns the number of $things.",
			"Write a function $fn($boxes) that returns the number of $things in the given number of $boxes, with $k $things in each $box.",
			"Develop a function $fn to find the number of $things in a number of $boxes, given that a $box has $k $things.",
			"I need a function $fn that converts a number of $boxes to a number of $things. One $box is $k $things.",
			"How do I write a function $fn($boxes) that tells how many $things there are if every $box has $k $things?",
			"I would like a function named $fn that is told how many $boxes there are and returns how many $things that makes, $k $things for each $box.",
			"Implement $fn($boxes): it returns how many $things there are when each $box has $k $things.",
			"Make a function $fn that takes a count of $boxes and returns the count of $things. A $box has $k $things.",
			"Given the number of $boxes, return the number of $things. Call the function $fn; there are $k $things per $box.",
			"Build a function called $fn that computes the number of $things in some $boxes, where one $box holds $k $things.",
			"Show me a function $fn($boxes) for the number of $things when a $box has $k of them.",
		},
		Held: []string{
			"Every $box is packed with $k $things. Let $fn take a number of $boxes and give back the number of $things in them.",
			"Each $box contains $k $things. Define $fn($boxes), which returns the total number of $things.",
			"Create a function $fn that turns $boxes into $things, at $k $things per $box.",
		},
		Draw: func(d Draw) Slots {
			things := pick(d, "pens", "eggs", "cups", "books", "coins", "stamps", "plates", "bolts", "cards", "seeds", "apples", "candles")
			box := pick(d, "box", "bag", "crate", "pack", "case", "carton", "basket")
			boxes := box + "s"
			if box == "box" {
				boxes = "boxes"
			}
			return Slots{"k": d.Int(4, 60), "things": things, "box": box, "boxes": boxes, "fn": pick(d, "count_", "total_", "number_of_") + things}
		},
		Code: `
def $fn($boxes):
    return $boxes * $k
`,
		Check: `
expected = 0
for count in range(40):
    assert $fn(count) == expected
    expected += $k
`,
	},
	{
		Name: "return_two_results",
		Ask: []string{
			"Write a function $fn(a, b) that returns the $one and the $two of its arguments as a tuple.",
			"Create a function $fn that takes two numbers and returns both their $one and their $two.",
			"Define $fn(a, b), which returns two values: the $one and the $two of a and b.",
			"I need a function $fn that returns the $one and the $two of two numbers, in this order.",
			"How do I write a function $fn(a, b) that returns the $one and the $two at once?",
			"Implement $fn so that it returns a tuple with the $one and the $two of its two arguments.",
			"Make a function $fn that takes a and b and returns their $one first and their $two second.",
			"Given two numbers, return their $one and their $two. Call the function $fn.",
			"Let $fn have two parameters and return a tuple in which the $one comes before the $two.",
			"Write $fn, a function with two results for two numbers a and b, namely the $one and the $two.",
			"Show me a function $fn that returns more than one value: the $one and the $two of a and b.",
			"Develop a function $fn that works out, for two numbers a and b, the $one as well as the $two, and returns the pair.",
		},
		Held: []string{
			"Return the $one and the $two of two numbers from a function called $fn.",
			"I would like $fn to give me the $one and, after it, the $two of the two numbers I pass.",
			"Build a function called $fn(a, b) that returns a pair: the $one, then the $two.",
		},
		Draw: func(d Draw) Slots {
			operations := some(d, 2, 2, []string{"sum +", "difference -", "product *", "quotient /"})
			one, sign1 := operations[0][:len(operations[0])-2], operations[0][len(operations[0])-1:]
			two, sign2 := operations[1][:len(operations[1])-2], operations[1][len(operations[1])-1:]
			return Slots{
				"one": one, "two": two, "sign1": sign1, "sign2": sign2,
				"fn": pick(d, "compute", "calculate", "both_results", "combine", "results", "two_results", "number_pair", "arithmetic", "work_out", "evaluate", "operate", "compare", "process", "math_pair"),
			}
		},
		Derived: []string{"sign1", "sign2"},
		Code: `
def $fn(a, b):
    return a $sign1 b, a $sign2 b
`,
		Check: `
import operator
table = {"sum": operator.add, "difference": operator.sub, "product": operator.mul, "quotient": operator.truediv}
for a, b in [(6, 3), (10, 4), (-2, 5), (7, 7), (100, 8)]:
    one, two = $fn(a, b)
    assert abs(one - table["$one"](a, b)) < 1e-9 and abs(two - table["$two"](a, b)) < 1e-9
`,
	},
	{
		Name: "polynomial_function",
		Ask: []string{
			"Write a function $fn(x) for the polynomial $a*x^2 + $b*x + $c.",
			"Develop a function $fn that takes a number x and finds the value of $a*x^2 + $b*x + $c there.",
			"Define $fn(x), which returns $a * x ** 2 + $b * x + $c.",
			"I need a function $fn that evaluates $a*x^2 + $b*x + $c for a given x.",
			"I would like $fn to return $a*x^2 + $b*x + $c when it is called with x.",
			"Implement the quadratic function $fn(x) = $a*x^2 + $b*x + $c.",
			"Make a function $fn that takes x and returns the value of $a*x^2 + $b*x + $c.",
			"Given x, return $a times the square of x, plus $b times x, plus $c. Call the function $fn.",
			"Build a function called $fn for the quadratic polynomial with the coefficients $a, $b and $c, highest power first.",
			"Write $fn, a function of x. Its value is $a*x^2 + $b*x + $c.",
			"Show me a function $fn that returns the value of the polynomial $a*x^2 + $b*x + $c at x.",
			"Turn the polynomial $a*x^2 + $b*x + $c into a function $fn(x).",
		},
		Held: []string{
			"Create a function $fn that returns $a times x squared plus $b times x plus $c.",
			"How do I write a function $fn that computes the polynomial $a*x^2 + $b*x + $c?",
			"Let $fn(x) be the quadratic $a*x^2 + $b*x + $c.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"a": d.Int(2, 9), "b": d.Int(2, 20), "c": d.Int(1, 40), "fn": pick(d, "f", "poly", "polynomial", "quadratic", "evaluate", "value_at")}
		},
		Code: `
def $fn(x):
    return $a * x ** 2 + $b * x + $c
`,
		Check: `
for x in [-7, -1, 0, 1, 2, 3, 10, 2.5]:
    assert abs($fn(x) - (($a * x + $b) * x + $c)) < 1e-9
`,
	},
	{
		Name: "greeting_function",
		Ask: []string{
			"Write a function $fn(name) that returns \"$hello, \" followed by the name and an exclamation mark.",
			"Create a function $fn that takes a name and returns the string \"$hello, NAME!\" with the name filled in.",
			"Define $fn(name), which returns \"$hello, \", the name, and \"!\" as one string.",
			"I need a function $fn that greets a person: for Tom it returns \"$hello, Tom!\".",
			"How do I write a function $fn(name) that returns for example \"$hello, Anna!\" for Anna?",
			"Implement $fn so that $fn(\"Ben\") returns \"$hello, Ben!\".",
			"I would like $fn to take somebody's name and return \"$hello, \", that name and an exclamation mark.",
			"Given a name, return a greeting such as \"$hello, Mia!\". Call the function $fn.",
			"Build a function called $fn that puts a name into the text \"$hello, ...!\" in place of the dots and returns it.",
			"Let $fn return a string made of \"$hello, \", the name passed in, and \"!\".",
			"Show me a function $fn with an f-string that returns \"$hello, Leo!\" for the name Leo.",
			"Use an f-string in a function $fn that returns \"$hello, \" followed by a given name and \"!\".",
		},
		Held: []string{
			"Develop a function $fn that gives back \"$hello, Paul!\" when it is called with \"Paul\", and so on for other names.",
			"Make a function $fn that returns \"$hello, \" plus its argument plus \"!\".",
			"Write $fn, a function that takes a name and returns \"$hello, \" and the name and \"!\".",
		},
		Draw: func(d Draw) Slots {
			return Slots{
				"hello": pick(d, "Hello", "Hi", "Hey", "Welcome", "Good day", "Howdy", "Ahoy", "Greetings", "Cheers", "Thanks", "Goodbye", "Bye", "Good morning", "Good night", "Cheerio", "Farewell", "Bravo", "Hurray", "Well done", "Congratulations"),
				"fn":    pick(d, "greet", "say_hello", "welcome", "make_greeting", "salute", "address", "greeting_for", "message_for", "greet_person", "say"),
			}
		},
		Code: `
def $fn(name):
    return f"$hello, {name}!"
`,
		Check: `
for name in ["Ada", "Max", "Zoe Lee", "x"]:
    assert $fn(name) == "".join(["$hello", ", ", name, "!"])
`,
	},
	{
		Name: "compound_interest",
		Ask: []string{
			"Write a function $fn(amount) that returns what an amount grows to in $n years at $p percent interest per year, compounded yearly.",
			"Create a function $fn that takes an amount and returns its value after $n years with $p percent compound interest a year.",
			"Develop a function $fn that works out how large an amount is after $n years of growing $p percent each year.",
			"I need a function $fn that tells what an amount is worth after $n years if it earns $p percent compound interest each year.",
			"How do I write a function $fn that applies $p percent yearly compound interest for $n years to an amount?",
			"Implement $fn for compound interest: $p percent a year, $n years, the starting amount is the argument.",
			"Make a function $fn that takes an amount and lets it grow by $p percent a year for $n years.",
			"Given an amount, return its value after it has grown by $p percent in each of $n years. Call the function $fn.",
			"Build a function called $fn that computes compound interest on an amount over $n years at $p percent and returns the final amount.",
			"Write $fn, a function that returns the final amount after $n years when the interest is $p percent a year and is compounded.",
			"Show me a function $fn for the growth of an amount by $p percent per year over $n years.",
			"Let $fn give back the amount it is given, increased by $p percent $n times in a row.",
		},
		Held: []string{
			"Define $fn(amount), which returns the amount after $n years of $p percent yearly compound interest.",
			"I would like $fn to take my savings and return what they will be in $n years with compound interest of $p percent a year.",
			"An amount grows by $p percent every year. Write a function $fn that returns it after $n years.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"n": d.Int(2, 25), "p": d.Int(2, 15), "fn": pick(d, "grow", "final_amount", "compound", "savings", "future_value", "interest")}
		},
		Code: `
def $fn(amount):
    return amount * (1 + $p / 100) ** $n
`,
		Check: `
for start in [1, 50, 100, 1234.5]:
    expected = start
    for year in range($n):
        expected += expected * 0.01 * $p
    assert abs($fn(start) - expected) < 0.006 + 1e-6 * expected
`,
	},
}
