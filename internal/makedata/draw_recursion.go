package main

// recursionDraws draw the parameters of the kinds in kinds/recursion.txtar.
var recursionDraws = map[string]func(d Draw) Slots{
	"recursive_factorial": func(d Draw) Slots {
		return Slots{"n": d.Int(3, 30), "fn": pick(d, "factorial", "fact", "compute_factorial", "product_to", "get_factorial",
			"multiply_down", "factorial_of")}
	},
	"recursive_fibonacci": func(d Draw) Slots {
		return Slots{"n": d.Int(3, 20), "fn": pick(d, "fibonacci", "fib", "compute_fibonacci", "fib_number", "get_fib",
			"fibonacci_at", "nth_fib", "fib_recursive", "recursive_fib", "sequence")}
	},
	"recursive_power": func(d Draw) Slots {
		return Slots{"b": d.Int(2, 40), "fn": pick(d, "power", "raise_to", "compute_power", "nth_power", "exponent",
			"power_of")}
	},
	"recursive_sum_to": func(d Draw) Slots {
		return Slots{"n": d.Int(5, 200), "fn": pick(d, "sum_to", "total", "add_up", "sum_numbers", "recursive_sum",
			"add_down")}
	},
	"recursive_sequence": func(d Draw) Slots {
		return Slots{"a": d.Int(1, 30), "q": d.Int(2, 9), "r": d.Int(1, 20), "fn": pick(d, "term", "sequence", "value",
			"step", "f", "seq")}
	},
	"recursive_list_sum": func(d Draw) Slots {
		return Slots{"numbers": d.Ints(3, 6, 1, 60), "fn": pick(d, "list_sum", "sum_list", "total", "add_all",
			"recursive_sum", "sum_of")}
	},
	"recursive_gcd": func(d Draw) Slots {
		k := d.Int(2, 12)
		return Slots{"a": k * d.Int(3, 20), "b": k * d.Int(2, 20), "fn": pick(d, "gcd", "find_gcd", "common_divisor",
			"euclid", "greatest_divisor", "divisor")}
	},
}
