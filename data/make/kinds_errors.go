package main

import "strconv"

// errorKinds are about raising and handling exceptions.
var errorKinds = []Kind{
	{
		Name: "safe_division",
		Ask: []string{
			"Write a function $fn(a, b) that returns a divided by b, or $d if b is zero, using try and except.",
			"Create a function $fn that divides two numbers and returns $d on a ZeroDivisionError.",
			"Define $fn(a, b), which returns a / b and catches division by zero by returning $d.",
			"I need a function $fn that divides a by b without crashing: when b is 0, it returns $d.",
			"Develop a function $fn that works out a / b and falls back to $d if b turns out to be zero.",
			"Implement $fn so that it returns the quotient of its two arguments, and $d when the second one is 0.",
			"Make a function $fn that takes a and b and returns a / b, with $d as the result if there is a ZeroDivisionError.",
			"I would like $fn to divide its first argument by its second and to return $d rather than fail with a ZeroDivisionError.",
			"Build a function called $fn for safe division: a / b normally, $d for a zero divisor.",
			"Write $fn, a function that catches the ZeroDivisionError of a / b and returns $d instead.",
			"Show me a function $fn that divides a by b and gives back $d if b is zero.",
			"Divide two numbers safely in a function called $fn, which returns $d when the division is by zero.",
		},
		Held: []string{
			"How do I write a function $fn(a, b) that handles division by zero and returns $d in that case?",
			"Use try and except in a function $fn(a, b) that returns a / b, or $d if dividing by zero.",
			"Let $fn(a, b) give back the quotient of a and b, except for b = 0, where it gives back $d.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"d": d.Int(-30, 60), "fn": pick(d, "divide", "safe_divide", "quotient", "ratio", "try_divide", "division")}
		},
		Code: `
def $fn(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return $d
`,
		Check: `
for a, b in [(6, 3), (1, 4), (-9, 2), (0, 5), (7.5, 2.5)]:
    assert abs($fn(a, b) * b - a) < 1e-9
for a in [1, 0, -3]:
    assert $fn(a, 0) == $d
`,
	},
	{
		Name: "safe_int",
		Ask: []string{
			"Let $fn(text) give back the whole number that text stands for, or $d if it stands for none.",
			"Create a function $fn that turns a string into an int, or returns $d on a ValueError.",
			"Define $fn(text), which returns int(text) and catches the ValueError by returning $d.",
			"I need a function $fn that parses an integer from a string and returns $d for strings that are no integers.",
			"How do I write a function $fn(text) that converts a string to an int and returns $d when it fails?",
			"Implement $fn so that it returns the integer in its string argument, and $d if there is a ValueError.",
			"Make a function $fn that takes a string and returns it as an int, with $d as the result for invalid strings.",
			"Use try and except in a function $fn(text) that returns int(text), or $d if the text is not a number.",
			"Build a function called $fn that reads an integer from text and falls back to $d for bad text.",
			"I would like $fn to parse its argument as an integer and to return $d rather than fail with a ValueError.",
			"Show me a function $fn that converts text to an int and gives back $d when the text is no number.",
			"Convert strings to integers safely in a function called $fn, which returns $d for a string that is not an integer.",
		},
		Held: []string{
			"Develop a function $fn that makes an int of a string; for a string such as \"abc\" it has to return $d.",
			"Write $fn, a function that catches the ValueError of int(text) and returns $d instead.",
			"Write a function $fn(text) that converts text to an integer and returns $d if that is not possible.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"d": d.Int(-30, 60), "fn": pick(d, "to_int", "safe_int", "parse_int", "parse_number", "read_int", "as_int")}
		},
		Code: `
def $fn(text):
    try:
        return int(text)
    except ValueError:
        return $d
`,
		Check: `
for number in [0, 5, -17, 400, 12345]:
    assert $fn(str(number)) == number
for text in ["abc", "", "4x", "1.5", "ten"]:
    assert $fn(text) == $d
`,
	},
	{
		Name: "safe_item",
		Ask: []string{
			"Write a function $fn(items, index) that returns items[index], or \"$d\" if the index is out of range.",
			"Create a function $fn that gets an item of a list by index and returns \"$d\" on an IndexError.",
			"Let $fn(items, index) give back the item at that position, or \"$d\" if the list has no such position.",
			"I need a function $fn that looks up an index in a list and returns \"$d\" when the list is too short.",
			"How do I write a function $fn(items, index) that returns \"$d\" instead of raising an IndexError?",
			"Develop a function $fn that finds the item of a list at an index; where the index is too large it has to return \"$d\".",
			"Make a function $fn that takes a list and an index and returns the item there, with \"$d\" as the result for a bad index.",
			"Use try and except in a function $fn(items, index) that returns items[index], or \"$d\" if that fails with an IndexError.",
			"Build a function called $fn that reads an item from a list and falls back to \"$d\" for an index out of range.",
			"Write $fn, a function that catches the IndexError of items[index] and returns \"$d\" instead.",
			"Show me a function $fn that returns the item of a list at an index and gives back \"$d\" when the index is out of range.",
			"Get list items safely with a function called $fn(items, index), which returns \"$d\" when the index does not exist.",
		},
		Held: []string{
			"Implement $fn so that it returns the list item at a given index, and \"$d\" if there is none.",
			"I would like $fn to take a list and an index and return that item, or \"$d\" rather than fail with an IndexError.",
			"Define $fn(items, index), which returns the item at the index and catches the IndexError by returning \"$d\".",
		},
		Draw: func(d Draw) Slots {
			return Slots{"d": pick(d, d.Word(), "none", "missing", "unknown", "nothing"), "fn": pick(d, "get_item", "safe_get", "item_at", "fetch", "lookup", "pick_item")}
		},
		Code: `
def $fn(items, index):
    try:
        return items[index]
    except IndexError:
        return "$d"
`,
		Check: `
items = [10, 20, 30, "x"]
for index, item in enumerate(items):
    assert $fn(items, index) == item
for index in [4, 5, 100]:
    assert $fn(items, index) == "$d"
assert $fn([], 0) == "$d"
`,
	},
	{
		Name: "raise_below_minimum",
		Ask: []string{
			"Write a function $fn(value) that raises a ValueError if value is less than $k and returns value otherwise.",
			"Create a function $fn that returns its argument, but raises a ValueError for numbers below $k.",
			"Define $fn(value): it raises a ValueError with the message \"too small\" if value is below $k, else it returns value.",
			"I need a function $fn that checks a number: under $k it raises a ValueError, otherwise it returns the number.",
			"How do I write a function $fn(value) that raises a ValueError when value is smaller than $k and returns it if not?",
			"Implement $fn so that it raises ValueError for values below $k and returns all other values unchanged.",
			"Make a function $fn that takes a value and returns it, or raises a ValueError if it is less than $k.",
			"Develop a function $fn that gives back its argument if it is at least $k and otherwise raises a ValueError.",
			"Build a function called $fn that refuses values under $k with a ValueError and returns the rest.",
			"Write $fn, a function that returns the value it is given unless it is less than $k; then it raises a ValueError.",
			"I would like $fn to stop with a ValueError on any value under $k and to return every other value.",
			"Check a value in a function called $fn: raise a ValueError if it is smaller than $k, and return it if it is fine.",
		},
		Held: []string{
			"Use raise in a function $fn(value): a ValueError for a value below $k, otherwise return the value.",
			"Show me a function $fn that raises ValueError(\"too small\") for values less than $k and returns other values.",
			"Let $fn(value) return value, but only from $k up; a smaller value must raise a ValueError.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"k": d.Int(1, 99), "fn": pick(d, "check", "validate", "require", "check_value", "ensure", "verify")}
		},
		Code: `
def $fn(value):
    if value < $k:
        raise ValueError("too small")
    return value
`,
		Check: `
for value in [$k, $k + 1, $k + 50, 1000]:
    assert $fn(value) == value
for value in [$k - 1, $k - 5, -100]:
    try:
        $fn(value)
    except ValueError:
        continue
    raise AssertionError("no ValueError for a value that is too small")
`,
	},
	{
		Name: "catch_conversion_error",
		Ask: []string{
			"Attempt to convert the text to an int. Display the result, or \"$message\" should there be a ValueError.",
			"Try to turn the string into an int and print the number. If that fails, print \"$message\".",
			"How do I print this string as an integer, or \"$message\" if it is not one?",
			"If the text is an integer, print that integer; catch the error and print \"$message\" if it is not.",
			"Use try and except to convert the string to an int; print the int or, on an error, \"$message\".",
			"I need code that prints the string as an int and prints \"$message\" when the string is no number.",
			"Print the integer value of the string, catching the ValueError with the message \"$message\".",
			"Parse the string as an integer and print it. Print \"$message\" in case of a ValueError.",
			"Take the string and print it as an int, or print \"$message\" if it cannot be converted.",
			"Given the string, print its integer value, or \"$message\" when int raises a ValueError.",
			"Show the string as an integer, or show \"$message\" if the conversion fails.",
			"Handle the ValueError of converting the string to an int by printing \"$message\"; otherwise print the int.",
		},
		Held: []string{
			"Output the whole number in this text, or the words \"$message\" if int cannot read it.",
			"Convert the string to an integer and print it, but print \"$message\" if there is a ValueError.",
			"Write code with try and except that prints int of the string, or \"$message\" on a ValueError.",
		},
		Input: `"$text"`,
		Draw: func(d Draw) Slots {
			text := strconv.Itoa(d.Int(2, 999))
			if d.IntN(2) == 0 {
				text = pick(d, text+pick(d, "a", "b", "x", "z"), d.Word())
			}
			return Slots{"text": text, "message": pick(d, "not a number", "invalid number", "bad input", "no integer", "error", "cannot convert", "wrong value")}
		},
		Code: `
text = "$text"
try:
    print(int(text))
except ValueError:
    print("$message")
`,
		Check: `
expected = "$text" if "$text".isdigit() else "$message"
assert printed.strip() == expected
`,
		Wrong: []string{`
text = "$text"
print(text + "$message")
`, `
text = "$text"
try:
    print(len(text))
except TypeError:
    print("$message")
`, `
text = "$text"
if text.isdigit():
    print("$message")
else:
    print(int(text))
`},
	},
	{
		Name: "skip_invalid_numbers",
		Ask: []string{
			"Convert the strings of the list to integers, skip those that are not numbers, and print the list of integers.",
			"Make a list of the integers in this list of strings, leaving out invalid strings, and print it.",
			"How do I convert this list of strings to integers and skip the ones that raise a ValueError?",
			"Write a loop with try and except that collects the strings which are integers as ints, and print the list.",
			"Use try and except to turn the strings into ints, ignoring bad ones, and print the result as a list.",
			"Work through the strings, catch the ValueError of the bad ones, and show the good ones as a list of ints.",
			"Go through the strings, convert each to an int if possible, and print the list of ints.",
			"Print the list of integers that the strings contain; strings that are no numbers should be left out.",
			"Output a list of ints made from those of the strings that really are integers.",
			"Given the list of strings, print a list with the ones that can be converted to int, as ints.",
			"Convert what can be converted in this list of strings to integers, skip the rest, and print the list.",
			"Collect the integers from the strings in a new list, pass over every ValueError, and print the list.",
		},
		Held: []string{
			"Take the list of strings and output the integers in it as a list, without the strings that cannot be converted.",
			"Some of these strings are no numbers. Drop them and display the others as a list of integers.",
			"I need a list of all the valid integers in this list of strings. Print the list.",
		},
		Input: "$texts",
		Draw: func(d Draw) Slots {
			var texts []string
			for _, n := range d.Ints(2, 4, 1, 99) {
				texts = append(texts, strconv.Itoa(n))
			}
			texts = append(texts, d.Words(1, 2)...)
			d.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
			return Slots{"texts": texts}
		},
		Code: `
texts = $texts
numbers = []
for text in texts:
    try:
        numbers.append(int(text))
    except ValueError:
        pass
print(numbers)
`,
		Check: printedNumbers + `
assert got == [int(text) for text in $texts if text[0] in "0123456789"]
assert not set(printed) & set("'.\"")
`,
	},
	{
		Name: "custom_exception",
		Ask: []string{
			"Define an exception class $class and a function $fn(value) that raises it if value is greater than $k and returns value otherwise.",
			"I would like to have an exception $class of my own, raised by a function $fn whenever its argument is more than $k. If it is not, the argument comes back.",
			"Write an exception class called $class and a function $fn that raises it when its argument is over $k, else returns the argument.",
			"I need an exception named $class and a function $fn(value) that raises $class if value is more than $k and returns value if not.",
			"How do I define my own exception $class and a function $fn that raises it for values greater than $k and returns all others?",
			"Implement a custom exception $class, and a function $fn(value) that returns value but raises $class above $k.",
			"Make a class $class that derives from Exception, and a function $fn that raises it for numbers greater than $k and otherwise returns the number.",
			"Build an exception class $class. Then write $fn(value), which raises it when value exceeds $k and returns value in all other cases.",
			"Show me a custom exception $class together with a function $fn that raises it if the value is greater than $k and returns the value if it is not.",
			"Derive $class from Exception and raise it in a function $fn(value) when value is above $k; otherwise return value.",
			"Develop an exception class $class and let the function $fn raise it for arguments over $k; smaller ones are simply returned.",
			"Define $class as an exception. The function $fn(value) should raise it if value is larger than $k and return value otherwise.",
		},
		Held: []string{
			"Write $class, an exception of my own, and $fn, a function that raises it for any value greater than $k and returns any other value.",
			"Create a custom exception $class. Write a function $fn(value) that raises it for values above $k and returns the other values.",
			"Let $class be an exception and $fn a function of value that raises $class for a value above $k and gives back the value if it is not above.",
		},
		Draw: func(d Draw) Slots {
			return Slots{"k": d.Int(2, 99), "class": pick(d, "LimitError", "TooLargeError", "RangeError", "SizeError", "ExcessError"), "fn": pick(d, "check", "validate", "check_limit", "test_value", "verify")}
		},
		Code: `
class $class(Exception):
    pass


def $fn(value):
    if value > $k:
        raise $class("too large")
    return value
`,
		Check: `
assert issubclass($class, Exception)
for value in [$k, $k - 1, 0, -5]:
    assert $fn(value) == value
for value in [$k + 1, $k + 7, 1000]:
    try:
        $fn(value)
    except $class:
        continue
    raise AssertionError("no exception for a value that is too large")
`,
	},
}
