package main

import "strings"

// classKinds are about classes: attributes, methods, inheritance, properties and dataclasses.
var classKinds = []Kind{
	{
		Name: "class_attributes",
		Ask: []string{
			"Write a class $cls with the attributes $a and $b, both set in the constructor.",
			"Create a class called $cls whose constructor takes $a and $b and stores them.",
			"Define a class $cls that has $a and $b as attributes.",
			"I need a class named $cls. Its objects are made from $a and $b and keep both.",
			"How do I write a class $cls with an __init__ that saves $a and $b?",
			"Set up a class by the name of $cls which keeps the $a and $b that it is created with.",
			"Implement the class $cls with two attributes, first $a, then $b.",
			"Give me a class $cls: it is created with $a and $b and holds them as attributes.",
			"Design a class $cls: the constructor arguments $a and $b become attributes of the same names.",
			"Show a class named $cls whose __init__ method takes $a and $b and sets the attributes.",
			"Model a $cls as a class with $a and $b given to the constructor.",
			"What does a class $cls look like that takes $a and $b and remembers them?",
		},
		Held: []string{
			"Build a simple class $cls for objects that have $a and $b, passed in that order.",
			"Objects of the class $cls should carry $a and $b, handed over when they are made. Write that class.",
			"Make a class $cls that stores $a and $b when an object is created.",
		},
		Draw: func(d Draw) Slots {
			fields := some(d, 2, 2, fields)
			return Slots{"cls": pick(d, classNames...), "a": fields[0], "b": fields[1]}
		},
		Code: `
class $cls:
    def __init__(self, $a, $b):
        self.$a = $a
        self.$b = $b
`,
		Check: `
for a, b in [(1, 2), ("x", "y"), (None, [3])]:
    thing = $cls(a, b)
    assert thing.$a == a and thing.$b == b
other = $cls(7, 8)
assert thing.$a is None and other.$b == 8
`,
	},
	{
		Name: "counter_class",
		Ask: []string{
			"Write a class $cls whose attribute $attr starts at $start. The method $method adds $step to it.",
			"Every object of the class $cls has its own $attr, which is $start when it is new. Calling $method on it adds $step. Write the class.",
			"Define a class $cls. It begins with $attr at $start, and each call of $method raises it by $step.",
			"I need a class named $cls with an attribute $attr that is $start at first and a method $method that adds $step to it.",
			"How do I write a class $cls whose $attr starts at $start, with a $method method that increases $attr by $step?",
			"Make a class called $cls: $attr is $start in a new object, and $method adds $step to $attr.",
			"Implement a class $cls where $attr equals $start in the beginning and grows by $step with every call of $method.",
			"Build a counter class $cls. Its $attr starts with $start and its method $method adds $step.",
			"Give me a class $cls that counts in $attr: from $start on, $step more for each call of $method.",
			"Show a class $cls with the attribute $attr, initially $start, and the method $method, which adds $step.",
			"Design $cls, a class without constructor arguments: $attr is $start, until $method is called and makes it $step larger.",
			"What would a class $cls be whose method $method adds $step to $attr, and whose $attr starts at $start?",
		},
		Held: []string{
			"Develop a small class $cls having $attr = $start in its constructor and a $method method for adding $step to $attr.",
			"Create a class $cls with $attr set to $start and a method $method that increases $attr by $step.",
			"Let the class $cls keep a number $attr with the first value $start; $method should increase it by $step.",
		},
		Draw: func(d Draw) Slots {
			return Slots{
				"cls": pick(d, "Counter", "Meter", "Clock", "Tracker", "Score", "Player", "Game"), "attr": pick(d, "count", "value", "total", "points", "level"),
				"method": pick(d, "add", "increase", "step", "update", "grow", "next", "click"), "start": pick(d, 0, 10, 100, d.Int(2, 50)), "step": d.Int(2, 25),
			}
		},
		Code: `
class $cls:
    def __init__(self):
        self.$attr = $start

    def $method(self):
        self.$attr += $step
`,
		Check: `
first, second = $cls(), $cls()
expected = $start
for _ in range(4):
    assert first.$attr == expected and second.$attr == $start
    first.$method()
    expected = expected - -$step
`,
	},
	{
		Name: "stack_class",
		Ask: []string{
			"Write a stack class $cls with the methods $push and $pop.",
			"Create a class $cls that works as a stack: $push puts an item on top, $pop takes the top item off and returns it.",
			"Define a class $cls for a stack, with $push(item) and $pop().",
			"The items of my class $cls should come back in reverse order: put in with $push, taken out with $pop. Write it.",
			"How do I write a stack class $cls whose methods are called $push and $pop?",
			"Make a class $cls with a list inside. $push appends an item to it, $pop returns the last item and removes it.",
			"Provide the class $cls, a stack based on a list, offering $push for one item and $pop without arguments.",
			"Build a class $cls that stores items: $push(item) adds one, $pop() gives back the newest.",
			"Give me a simple stack called $cls, with a method $push for adding and a method $pop for removing and returning items.",
			"Show how to write a stack as a class $cls that has the methods $push and $pop.",
			"Develop a stack class $cls. Call its methods $push and $pop.",
			"What does a stack class $cls with $push(item) and $pop() look like?",
		},
		Held: []string{
			"Design a class $cls behaving like a stack, where $pop returns what $push added last.",
			"I need a stack as a class named $cls. $push adds an item and $pop removes and returns the last one.",
			"Implement a last-in, first-out stack $cls with $push and $pop.",
		},
		Draw: func(d Draw) Slots {
			return Slots{
				"cls": pick(d, "Stack", "Pile", "ItemStack", "Tower", "Deck", "History"), "push": pick(d, "push", "put", "add", "place", "insert"),
				"pop": pick(d, "pop", "take", "remove", "get", "draw", "undo"),
			}
		},
		Code: `
class $cls:
    def __init__(self):
        self.items = []

    def $push(self, item):
        self.items.append(item)

    def $pop(self):
        return self.items.pop()
`,
		Check: `
stack, other, kept = $cls(), $cls(), []
for word in ["a", "b", "b", "c", "d"]:
    stack.$push(word)
    kept.insert(0, word)
    other.$push(1)
assert stack.$pop() == kept[0] and stack.$pop() == kept[1]
stack.$push("z")
assert [stack.$pop() for _ in range(4)] == ["z"] + kept[2:]
assert other.$pop() == 1
`,
		Wrong: []string{
			`
class $cls:
    def __init__(self):
        self.items = []

    def $push(self, item):
        self.items.append(item)

    def $pop(self):
        return self.items.pop(0)
`,
			`
class $cls:
    items = []

    def $push(self, item):
        self.items.append(item)

    def $pop(self):
        return self.items.pop()
`,
			`
class $cls:
    def __init__(self):
        self.items = []

    def $push(self, item):
        self.items.append(item)

    def $pop(self):
        return self.items[-1]
`,
		},
	},
	{
		Name: "product_class",
		Ask: []string{
			"Write a class $cls with $a and $b and a method $method that returns $a times $b.",
			"Create a class $cls. Its constructor takes $a and $b, and its method $method returns their product.",
			"Define a class $cls with the attributes $a and $b and a method $method that multiplies them.",
			"I need a class named $cls that is made from $a and $b and has a method $method returning $a * $b.",
			"How do I write a class $cls with $a, $b and a method $method that gives their product?",
			"Make a class $cls that stores $a and $b. The method $method should return $a multiplied by $b.",
			"Implement the class $cls, which stores $a and $b, and whose method $method returns the product of the two.",
			"Build a class $cls which takes $a and $b and can compute $a times $b with $method().",
			"Set up a class $cls with a constructor for $a and $b. Let $method return one times the other.",
			"Show a class $cls that keeps $a and $b and multiplies them in the method $method.",
			"Develop a class $cls with an __init__ for $a and $b and a $method method which returns $a times $b.",
			"Design the class $cls: two numbers, $a and $b, go in, and $method() hands back the product of them.",
		},
		Held: []string{
			"What would a class $cls look like that takes $a and $b and returns their product from $method?",
			"For an object of class $cls, made with $a and $b, calling $method should yield $a multiplied by $b. Write the class.",
			"Give me a class $cls having $a and $b as attributes and $method as a method for their product.",
		},
		Draw: func(d Draw) Slots {
			theme := strings.Fields(pick(d,
				"width height area Rectangle Room Field Garden Screen", "length width area Floor Table Carpet Yard Page", "price amount total Order Purchase Item Sale Ticket",
				"rows columns cells Grid Board Matrix Sheet Table", "speed time distance Trip Car Train Runner Flight", "rate hours pay Job Worker Shift Task Salary",
				"weight count load Package Truck Delivery Crate Box", "days hours time Course Project Plan Camp Workshop", "pages words length Book Report Story Letter Article"))
			return Slots{"a": theme[0], "b": theme[1], "method": pick(d, "", "get_", "compute_", "find_") + theme[2], "cls": pick(d, theme[3:]...)}
		},
		Code: `
class $cls:
    def __init__(self, $a, $b):
        self.$a = $a
        self.$b = $b

    def $method(self):
        return self.$a * self.$b
`,
		Check: `
for a, b in [(2, 3), (0, 9), (7, 1), (12, 12), (1.5, 4)]:
    assert abs($cls(a, b).$method() - (sum([a] * b) if isinstance(b, int) else 6)) < 1e-9
thing = $cls(4, 5)
assert (thing.$a, thing.$b) == (4, 5)
thing.$a = 10
assert thing.$method() == 50
`,
	},
	{
		Name: "inherit_method",
		Ask: []string{
			"Write a class $base with a method $method that returns \"$x\", and a subclass $sub that returns \"$y\" instead.",
			"Design a parent class $base and a child class $sub; calling $method yields \"$x\" for the parent and \"$y\" for the child.",
			"Define a class $base whose method $method returns \"$x\" and a class $sub that inherits from it and overrides $method to return \"$y\".",
			"I need a base class $base, where $method returns \"$x\", and a child class $sub, where it returns \"$y\".",
			"$sub should extend $base and change what $method returns, from \"$x\" to \"$y\". Write both classes.",
			"Make a class $base and a subclass $sub of it. $method gives \"$x\" for the first and \"$y\" for the second.",
			"Implement inheritance: $base has a method $method that returns \"$x\", and its subclass $sub overrides it with \"$y\".",
			"Show method overriding with a class $base that returns \"$x\" from $method and a subclass $sub that returns \"$y\".",
			"Build a class $sub that derives from a class $base. The method $method returns \"$x\" in $base but \"$y\" in $sub.",
			"Give me two classes, $base and its subclass $sub, with a method $method: \"$x\" is returned by the one and \"$y\" by the other.",
			"Let $base be a class with $method returning \"$x\". Then write a subclass $sub whose $method returns \"$y\".",
			"Demonstrate inheritance with $base, whose $method returns \"$x\", and $sub, a subclass whose $method returns \"$y\".",
		},
		Held: []string{
			"Create the classes $base and $sub. $sub inherits from $base. Their method $method returns \"$x\" in $base and \"$y\" in $sub.",
			"How do I write a class $base with $method returning \"$x\" and a subclass $sub in which $method returns \"$y\"?",
			"Set up $base with a $method that returns \"$x\". Derive $sub from it, with \"$y\" as the result of $method.",
		},
		Draw: func(d Draw) Slots {
			pair := strings.Fields(pick(d, "Animal Dog", "Animal Cat", "Animal Bird", "Vehicle Car", "Vehicle Boat", "Shape Circle", "Shape Square", "Plant Tree", "Person Student", "Person Teacher", "Tool Hammer", "Food Apple"))
			said := d.Words(2, 2)
			return Slots{"base": pair[0], "sub": pair[1], "x": said[0], "y": said[1], "method": pick(d, "name", "describe", "info", "label", "text", "kind")}
		},
		Code: `
class $base:
    def $method(self):
        return "$x"


class $sub($base):
    def $method(self):
        return "$y"
`,
		Check: `
assert $base().$method() == "$x"
assert $sub().$method() == "$y"
assert issubclass($sub, $base) and not issubclass($base, $sub)
`,
		Wrong: []string{
			"class $base:\n    def $method(self):\n        return \"$x\"\n\n\nclass $sub:\n    def $method(self):\n        return \"$y\"",
			"class $base:\n    def $method(self):\n        return \"$x\"\n\n\nclass $sub($base):\n    pass",
			"class $base:\n    def $method(self):\n        return \"$y\"\n\n\nclass $sub($base):\n    def $method(self):\n        return \"$x\"",
		},
	},
	{
		Name: "str_method",
		Ask: []string{
			"Write a class $cls with an attribute $attr whose objects are printed as \"$label: \" and the $attr.",
			"Create a class $cls that takes a $attr. Its __str__ method returns \"$label: \" followed by the $attr.",
			"Define a class $cls with $attr and a __str__ that gives \"$label: \" plus the $attr.",
			"I need a class named $cls made from a $attr. When it is printed, it should show \"$label: \" and then the $attr.",
			"How do I write a class $cls with the attribute $attr so that str() of it is \"$label: \" and the $attr?",
			"Make a class called $cls that stores $attr and prints as \"$label: \" with the $attr after it.",
			"An object of class $cls holds a $attr; converted to a string it reads \"$label: \" and the $attr. Write the class.",
			"Build a class $cls whose constructor takes $attr and whose string form is \"$label: \" followed by that $attr.",
			"Give me a class $cls with a $attr and a __str__ method that returns \"$label: \" and the $attr.",
			"Set up the class $cls with $attr as its only attribute, and let its __str__ put \"$label: \" before it.",
			"Use an f-string in the __str__ of a class $cls to return \"$label: \" and the attribute $attr.",
			"What is a class $cls that keeps a $attr and turns into the text \"$label: \" plus $attr?",
		},
		Held: []string{
			"Design a class $cls: print(obj) should give \"$label: \" and directly after it the $attr passed to the constructor.",
			"Implement __str__ for a class $cls with one attribute, $attr. The text is \"$label: \", then the $attr.",
			"Show how a class $cls can define __str__ to return \"$label: \" and its $attr, which is set in __init__.",
		},
		Draw: func(d Draw) Slots {
			cls := pick(d, classNames...)
			label := pick(d, cls, "Item", "Object", "Info", "Text", "Entry", "Data", "Record", "Name", "Value")
			return Slots{"cls": cls, "attr": pick(d, "name", "title", "label", "color", "code", "number", "size", "key"), "label": label}
		},
		Code: `
class $cls:
    def __init__(self, $attr):
        self.$attr = $attr

    def __str__(self):
        return f"$label: {self.$attr}"
`,
		Check: `
for value in ["oak", "two words", 17]:
    thing = $cls(value)
    assert thing.$attr == value and str(thing) == "$label" + ": " + str(value)
`,
	},
	{
		Name: "class_constant",
		Ask: []string{
			"Write a class $cls with the class attribute $const = $k and a method $method(n) that returns n times $const.",
			"Create a class $cls. It has a class variable $const with the value $k, and $method(n) returns n multiplied by $const.",
			"Design a class $cls in which $const, a class attribute, is $k. A call of $method with a number returns that number times $const.",
			"I need a class named $cls with $const set to $k for all objects and a method $method that multiplies its argument by it.",
			"How do I write a class $cls with a class attribute $const of $k and a method $method(n) for n times $const?",
			"Make a class called $cls that has the constant $const = $k. Its method $method returns the argument times $const.",
			"Implement the class $cls: $const is a class attribute equal to $k, and $method(n) gives n times $const.",
			"Build a class $cls without a constructor. The class attribute $const is $k, and $method multiplies a number by it.",
			"Give me a class $cls with $const = $k as a class attribute, used by a method $method to return n times $const.",
			"Show a class $cls that shares $const = $k among its objects and returns n * $const from $method(n).",
			"Use a class attribute: $cls has $const = $k, and its method $method returns a given number times $const.",
			"Set up $cls as a class with the class-level value $const = $k plus a method $method to multiply a number by $const.",
		},
		Held: []string{
			"Define a class $cls whose class attribute $const is $k and whose method $method takes n and returns n * $const.",
			"All objects of the class $cls share $const, which equals $k. Write it, with $method(n) returning $const times n.",
			"What would a class $cls be with a class variable $const, equal to $k, and a method $method that multiplies by it?",
		},
		Draw: func(d Draw) Slots {
			return Slots{
				"cls": pick(d, classNames...), "const": pick(d, "rate", "price", "factor", "size", "weight", "cost", "tax", "fee"),
				"k": d.Int(2, 90), "method": pick(d, "total", "compute", "multiply", "scale", "result", "apply"),
			}
		},
		Code: `
class $cls:
    $const = $k

    def $method(self, n):
        return n * self.$const
`,
		Check: `
assert $cls.$const == $k
for n in [0, 1, 2, 13]:
    assert $cls().$method(n) == sum($k for _ in range(n))
`,
	},
	{
		Name: "property_class",
		Ask: []string{
			"Write a class $cls with an attribute $a and a property $b that is $k times $a.",
			"Create a class $cls that takes $a and has a read-only property $b, which returns $a multiplied by $k.",
			"Define a class $cls with $a set in the constructor and a property $b equal to $a times $k.",
			"I need a class named $cls. It stores $a, and its property $b gives $a times $k.",
			"Design a class $cls holding $a; reading $b, a property, multiplies $a by $k.",
			"Make a class called $cls with $a as an attribute. Use @property for $b, which is $a times $k.",
			"Implement $cls so that objects made from $a have a property $b with the value $a times $k.",
			"In the class $cls, $b should not be stored but be a property, always $k times $a. Write the class.",
			"Give me a class $cls where $a is stored and $b is a property that returns it multiplied by $k.",
			"Show the use of @property in a class $cls: $a is an attribute, $b is $a times $k.",
			"Use a property in the class $cls to compute $b from $a by multiplying by $k.",
			"What does a class $cls look like that has the attribute $a and the property $b, $k times as much?",
		},
		Held: []string{
			"How do I write a class $cls with a property $b that returns $k times the attribute $a?",
			"Build a class $cls whose __init__ takes $a and whose property $b is computed as $a times $k.",
			"Set up $cls with a constructor argument $a. The property $b returns that value times $k.",
		},
		Draw: func(d Draw) Slots {
			names := strings.Fields(pick(d, "boxes items", "coins value", "pages lines", "rows seats", "bags weight", "units total", "packs cards", "tables chairs", "parts cost", "trips miles"))
			return Slots{"cls": pick(d, "Stock", "Order", "Store", "Plan", "Report", "Load", "Offer", "Project"), "a": names[0], "b": names[1], "k": d.Int(2, 60)}
		},
		Code: `
class $cls:
    def __init__(self, $a):
        self.$a = $a

    @property
    def $b(self):
        return self.$a * $k
`,
		Check: `
thing = $cls(3)
assert thing.$a == 3 and thing.$b == $k + $k + $k
thing.$a = 10
assert thing.$b == int("$k" + "0")
assert $cls(0).$b == 0
`,
	},
	{
		Name: "dataclass",
		Ask: []string{
			"Set up a data class $cls. Declare $a with type $at and $b with type $bt.",
			"Create a dataclass called $cls that has a field $a of type $at and a field $b of type $bt.",
			"Define $cls as a dataclass with $a: $at and $b: $bt.",
			"I need a dataclass named $cls. Its fields are $a, of type $at, and $b, of type $bt.",
			"How do I write a dataclass $cls with $a as $at and $b as $bt?",
			"Make a dataclass $cls which holds $a ($at) and $b ($bt), in this order.",
			"Use the dataclass decorator for a class $cls with $a: $at and $b: $bt.",
			"Implement $cls with @dataclass. It has the field $a of type $at, then the field $b of type $bt.",
			"Build a dataclass for a $cls with two fields: $a is of type $at and $b is of type $bt.",
			"Model a $cls by a dataclass that consists of $a (type $at) and $b (type $bt).",
			"Show a dataclass $cls that stores $a as $at and $b as $bt.",
			"What is the dataclass $cls with the fields $a: $at and $b: $bt?",
		},
		Held: []string{
			"Design $cls using dataclasses: the first field, $a, is declared as $at, the second, $b, as $bt.",
			"Give me a class $cls as a dataclass, with $a typed $at and $b typed $bt.",
			"Write a dataclass $cls with the fields $a ($at) and $b ($bt).",
		},
		Draw: func(d Draw) Slots {
			texts, numbers := pick(d, "name", "title", "label", "color", "city", "code"), pick(d, "age", "price", "size", "year", "count", "weight", "score")
			number := pick(d, "int", "float")
			if d.IntN(3) == 0 {
				return Slots{"cls": pick(d, classNames...), "a": numbers, "at": number, "b": texts, "bt": "str"}
			}
			return Slots{"cls": pick(d, classNames...), "a": texts, "at": "str", "b": numbers, "bt": number}
		},
		Code: `
from dataclasses import dataclass


@dataclass
class $cls:
    $a: $at
    $b: $bt
`,
		Check: `
import dataclasses
assert dataclasses.is_dataclass($cls)
assert [(f.name, getattr(f.type, "__name__", f.type)) for f in dataclasses.fields($cls)] == [("$a", "$at"), ("$b", "$bt")]
assert $cls(5, 6) == $cls($a=5, $b=6) != $cls(6, 5)
`,
		Wrong: []string{
			"class $cls:\n    $a: $at\n    $b: $bt",
			"from dataclasses import dataclass\n\n\n@dataclass\nclass $cls:\n    $b: $bt\n    $a: $at",
			"from dataclasses import dataclass\n\n\n@dataclass\nclass $cls:\n    $a: $at",
		},
	},
	{
		Name: "add_method",
		Ask: []string{
			"Add a method $method to the class that returns $attr times $k.",
			"Give this class a method $method, which returns $attr multiplied by $k.",
			"Supplement the given class: calling $method on an object must return $k times its $attr.",
			"Extend the class by a method $method that multiplies $attr by $k and returns the result.",
			"Write the class again with a new method $method that returns its $attr times $k.",
			"Equip the class with $method, a method that hands back its $attr times $k.",
			"Complete this class with a method called $method. It returns $attr times $k.",
			"Take the class and put a method $method into it that returns $k times $attr.",
			"The class lacks a method $method that returns its $attr multiplied by $k. Add it.",
			"Show the class with an additional method $method, whose result is $attr times $k.",
			"Insert a method named $method in this class to return $attr times $k.",
			"Change the class so that it also has a method $method that gives back $attr times $k.",
		},
		Held: []string{
			"I want the class below to have a method $method returning $attr times $k.",
			"Objects of this class should also know $method(), the $attr multiplied by $k. Write the whole class.",
			"How do I add a method $method that returns $k times the $attr of the object?",
		},
		Input: "class $cls:\n    def __init__(self, $attr):\n        self.$attr = $attr",
		Draw: func(d Draw) Slots {
			return Slots{
				"cls": pick(d, classNames...), "attr": pick(d, "price", "size", "weight", "speed", "score", "length", "points"), "k": d.Int(2, 60),
				"method": pick(d, "total", "scaled", "result", "multiply", "grow", "compute", "bigger"),
			}
		},
		Code: `
class $cls:
    def __init__(self, $attr):
        self.$attr = $attr

    def $method(self):
        return self.$attr * $k
`,
		Check: `
for value in [0, 1, 7, 50]:
    thing = $cls(value)
    assert thing.$method() == sum([value] * $k) and thing.$attr == value
`,
	},
	{
		Name: "make_object",
		Ask: []string{
			"Create an object of the class $cls with the $attr \"$value\" and print its $attr.",
			"Keep the class and make a $cls with the $attr \"$value\". Print the $attr of the object.",
			"How do I create a $cls object whose $attr is \"$value\" and print that $attr?",
			"Use this class: make one object with \"$value\" as its $attr and print the attribute.",
			"Write code with this class that builds a $cls from \"$value\" and prints its $attr.",
			"I want a $cls with the $attr \"$value\". Show the class, create the object and print its $attr.",
			"Given the class, create an instance with $attr \"$value\" and print its $attr.",
			"Instantiate the class with \"$value\" and display the $attr of the new $cls.",
			"Complete the program: create a $cls with the $attr \"$value\" and print the object's $attr.",
			"Extend the code so that it makes a $cls with $attr \"$value\" and prints the $attr.",
			"Build upon this class: make one $cls whose $attr is \"$value\" and display that $attr.",
			"Take the class $cls, create an object whose $attr is \"$value\", and print the $attr.",
		},
		Held: []string{
			"Make an instance of $cls from the text \"$value\" and output its $attr.",
			"After the class, create an object with the $attr \"$value\" and print the $attr of that object.",
			"Continue the code below with an object of $cls that has \"$value\" as $attr, then print this $attr.",
		},
		Input: "class $cls:\n    def __init__(self, $attr):\n        self.$attr = $attr",
		Draw: func(d Draw) Slots {
			attr, value := pick(d, "title", "label", "kind", "text"), d.Word()
			switch d.IntN(3) {
			case 0:
				attr, value = "name", d.Name()
			case 1:
				attr, value = "color", pick(d, "red", "green", "blue", "black", "white", "gold", "gray", "pink", "brown", "orange")
			}
			return Slots{"cls": pick(d, classNames...), "attr": attr, "value": value}
		},
		Code: `
class $cls:
    def __init__(self, $attr):
        self.$attr = $attr


thing = $cls("$value")
print(thing.$attr)
`,
		Check: printedText + `
assert got == "$value"
made = [x for x in globals().values() if isinstance(x, $cls)]
assert not made or made[0].$attr == "$value"
assert $cls("z").$attr == "z"
`,
	},
	{
		Name: "list_class",
		Ask: []string{
			"Objects of the class $cls own a list, $items. Adding to it is done by $add(item), and count() gives the number of its items. Write this class.",
			"Create a class $cls that keeps a list called $items. $add(item) puts an item into it, and count() returns its length.",
			"Define a class $cls with an empty list $items, a method $add for adding one item and a method count for the number of items.",
			"Set up the class $cls with $items = [] in the constructor, and the methods $add(item) and count().",
			"How do I write a class $cls whose method $add appends to its list $items and whose method count returns the length?",
			"Make a class called $cls. It starts with an empty list $items, has $add(item) to append and count() to get the length.",
			"Implement $cls, a class with the list $items and two methods: $add(item) and count(), the latter for the number of items.",
			"Build a class $cls around a list $items: the method $add appends an item, and the method count returns the size of the list.",
			"Give me a class $cls that has $items as an empty list at first, $add(item) to fill it and count() to get the number of items.",
			"Show a class $cls in which $add(item) stores an item in the list $items and count() returns how many were stored.",
			"Develop a class $cls with the methods $add(item), which appends to the list $items, and count(), which returns its length.",
			"What does a class $cls look like that has a list $items, a method $add to append an item, and a method count?",
		},
		Held: []string{
			"Design a class $cls for collecting: its list $items is empty at first, $add(item) makes it longer, count() says how long it is.",
			"Write a class $cls with a list $items, a method $add(item) that appends to it, and a method count() that returns how many items there are.",
			"I need a class named $cls that collects things in the list $items with $add(item) and tells their number with count().",
		},
		Draw: func(d Draw) Slots {
			return Slots{
				"cls":   pick(d, "Basket", "Cart", "Shelf", "Library", "Garden", "Box", "Team", "Shop", "Album", "Bag", "Store", "Room"),
				"items": pick(d, "items", "things", "entries", "parts", "elements"), "add": pick(d, "add", "append", "put", "add_item", "store"),
			}
		},
		Code: `
class $cls:
    def __init__(self):
        self.$items = []

    def $add(self, item):
        self.$items.append(item)

    def count(self):
        return len(self.$items)
`,
		Check: `
one, two = $cls(), $cls()
for n in range(5):
    assert one.count() == n and one.$items == list("abcde")[:n]
    one.$add("abcde"[n])
two.$add("x")
assert two.count() == 1 and one.count() == 5
`,
		Wrong: []string{
			`
class $cls:
    def __init__(self):
        self.$items = []

    def $add(self, item):
        self.$items = [item]

    def count(self):
        return len(self.$items)
`,
		},
	},
	{
		Name: "compare_objects",
		Ask: []string{
			"Write a class $cls with $a and $b. Two objects are equal when their $key is the same.",
			"Create a class $cls that takes $a and $b and whose __eq__ compares only $key.",
			"Define a class $cls with the attributes $a and $b, where == checks just the $key.",
			"I need a class named $cls, made from $a and $b, with an __eq__ method that returns whether the $key of both objects is equal.",
			"How do I write a class $cls with $a and $b so that objects with the same $key are equal?",
			"Set up a class $cls holding $a and $b, in which the operator == tells if both have one and the same $key.",
			"Implement __eq__ in a class $cls with $a and $b: it should look at $key alone.",
			"Build a class $cls whose constructor takes $a and $b, and let == be decided by $key.",
			"Design the class $cls: the constructor gets $a and $b, and comparing two objects with == goes by their $key.",
			"Show a class $cls that has $a and $b as attributes and defines __eq__ by comparing the $key.",
			"Develop a class $cls with $a and $b whose objects are equal exactly if their $key matches.",
			"What would a class $cls with $a and $b look like if its objects should be equal whenever $key is equal?",
		},
		Held: []string{
			"Give me a class $cls with $a and $b in which equality means an equal $key.",
			"Two objects of class $cls, each with $a and $b, count as the same if $key agrees. Write the class with its __eq__.",
			"Make a class called $cls storing $a and $b. Objects compare as equal if they have the same $key.",
		},
		Draw: func(d Draw) Slots {
			fields := some(d, 2, 2, fields)
			return Slots{"cls": pick(d, classNames...), "a": fields[0], "b": fields[1], "key": fields[d.IntN(2)]}
		},
		Code: `
class $cls:
    def __init__(self, $a, $b):
        self.$a = $a
        self.$b = $b

    def __eq__(self, other):
        return self.$key == other.$key
`,
		Check: `
both = [$cls(a, b) for a in (1, 2) for b in ("x", "y")]
for one in both:
    for other in both:
        assert (one == other) == (one.$key in [other.$key])
assert (both[2].$a, both[2].$b) == (2, "x")
`,
	},
}

var classNames = strings.Fields("Car Book Person Student Player Product House Animal Ticket Order Item City Team Planet Phone Song Movie Tree Robot Ship")

var fields = strings.Fields("name age color size price title year weight speed score length height city code level")
