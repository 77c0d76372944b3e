package main

// functionDraws draw the parameters of the kinds in kinds/functions.txtar.
var functionDraws = map[string]func(d Draw) Slots{
	"linear_function": func(d Draw) Slots {
		return Slots{"a": d.Int(2, 30), "b": d.Int(1, 60), "fn": pick(d, "linear_function", "straight_line", "evaluate_line",
			"compute_value", "apply_formula", "value_of_line")}
	},
	"function_and_call": func(d Draw) Slots {
		i := d.IntN(3)
		return Slots{
			"k": d.Int(2, 40), "x": d.Int(41, 99), "did": []string{"plus", "minus", "multiplied by"}[i],
			"sign": []string{"+", "-", "*"}[i], "fn": pick(d, "change", "apply", "calculate", "convert", "update", "adjust"),
		}
	},
	"default_argument": func(d Draw) Slots {
		return Slots{
			"hello": pick(d, "Hello", "Hi", "Hey", "Welcome", "Dear", "Good day", "Howdy", "Ahoy", "Greetings", "Salute",
				"Cheers", "Thanks", "Goodbye", "Bye", "Good morning", "Good night", "Cheerio", "Farewell", "Bravo", "Hurray"),
			"fn": pick(d, "greet", "say_hello", "welcome", "make_greeting", "salute", "address", "greeting_for", "hello",
				"greet_person", "say"),
		}
	},
	"any_number_of_arguments": func(d Draw) Slots {
		return Slots{"k": d.Int(2, 99), "fn": pick(d, "add_all", "total", "sum_all", "combine", "add_up", "total_of")}
	},
	"discount_function": func(d Draw) Slots {
		return Slots{"p": d.Int(2, 75), "fn": pick(d, "discount", "sale_price", "reduce_price", "new_price", "apply_discount",
			"lower_price")}
	},
	"items_in_boxes": func(d Draw) Slots {
		things := pick(d, "pens", "eggs", "cups", "books", "coins", "stamps", "plates", "bolts", "cards", "seeds", "apples",
			"candles")
		box := pick(d, "box", "bag", "crate", "pack", "case", "carton", "basket")
		boxes := box + "s"
		if box == "box" {
			boxes = "boxes"
		}
		return Slots{"k": d.Int(4, 60), "things": things, "box": box, "boxes": boxes, "fn": pick(d, "count_", "total_",
			"number_of_") + things}
	},
	"return_two_results": func(d Draw) Slots {
		operations := some(d, 2, 2, []string{"sum +", "difference -", "product *", "quotient /"})
		one, sign1 := operations[0][:len(operations[0])-2], operations[0][len(operations[0])-1:]
		two, sign2 := operations[1][:len(operations[1])-2], operations[1][len(operations[1])-1:]
		return Slots{
			"one": one, "two": two, "sign1": sign1, "sign2": sign2,
			"fn": pick(d, "compute", "calculate", "both_results", "combine", "results", "two_results", "number_pair",
				"arithmetic", "work_out", "evaluate", "operate", "compare", "process", "math_pair"),
		}
	},
	"polynomial_function": func(d Draw) Slots {
		return Slots{"a": d.Int(2, 9), "b": d.Int(2, 20), "c": d.Int(1, 40), "fn": pick(d, "f", "poly", "polynomial",
			"quadratic", "evaluate", "value_at")}
	},
	"greeting_function": func(d Draw) Slots {
		return Slots{
			"hello": pick(d, "Hello", "Hi", "Hey", "Welcome", "Good day", "Howdy", "Ahoy", "Greetings", "Cheers", "Thanks",
				"Goodbye", "Bye", "Good morning", "Good night", "Cheerio", "Farewell", "Bravo", "Hurray", "Well done",
				"Congratulations"),
			"fn": pick(d, "greet", "say_hello", "welcome", "make_greeting", "salute", "address", "greeting_for",
				"message_for", "greet_person", "say"),
		}
	},
	"compound_interest": func(d Draw) Slots {
		return Slots{"n": d.Int(2, 25), "p": d.Int(2, 15), "fn": pick(d, "grow", "final_amount", "compound", "savings",
			"future_value", "interest")}
	},
}
