package main

// unseenDrawsA draw the parameters of the kinds in kinds/unseen_a.txtar.
var unseenDrawsA = map[string]func(d Draw) Slots{
	"sum_of_multiples": func(d Draw) Slots { return Slots{"k": d.Int(2, 9), "n": d.Int(30, 200)} },
	"sum_above_threshold": func(d Draw) Slots {
		return Slots{"numbers": append(d.Distinct(3, 4, 51, 99), d.Distinct(2, 3, 1, 30)...), "k": d.Int(31, 50)}
	},
	"divisible_by_both": func(d Draw) Slots {
		numbers := d.Distinct(2, 2, 2, 12)
		return Slots{"a": numbers[0], "b": numbers[1], "fn": pick(d, "is_multiple_of_both", "divisible_by_both",
			"check_both")}
	},
	"sum_of_squares":      func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, 2, 30)} },
	"countdown_with_step": func(d Draw) Slots { return Slots{"a": d.Int(50, 99), "b": d.Int(1, 25), "k": d.Int(3, 9)} },
	"largest_digit": func(d Draw) Slots {
		i := d.IntN(2)
		return Slots{"n": d.Int(1000, 999999), "which": []string{"largest", "smallest"}[i],
			"function": []string{"max", "min"}[i]}
	},
	"product_of_digits": func(d Draw) Slots {
		n := 0
		for range d.Int(3, 5) {
			n = 10*n + d.Int(2, 9)
		}
		return Slots{"n": n}
	},
	"label_multiples_function": func(d Draw) Slots {
		labels := d.Words(2, 2)
		return Slots{"k": d.Int(2, 20), "yes": labels[0], "no": labels[1], "fn": pick(d, "label", "describe", "classify",
			"category")}
	},
	"safe_remainder": func(d Draw) Slots {
		return Slots{"d": d.Int(-30, -1), "fn": pick(d, "remainder", "safe_remainder", "modulo", "safe_mod")}
	},
	"list_to_fahrenheit": func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, -20, 45)} },
	"sum_of_divisors":    func(d Draw) Slots { return Slots{"n": d.Int(12, 600)} },
	"sum_of_number_strings": func(d Draw) Slots {
		var texts []string
		for _, n := range d.Ints(3, 6, 1, 250) {
			texts = append(texts, python(n))
		}
		return Slots{"texts": texts}
	},
	"recursive_list_product": func(d Draw) Slots {
		return Slots{"numbers": d.Ints(3, 5, 2, 20), "fn": pick(d, "list_product", "product", "multiply_all", "product_of")}
	},
	"odd_numbers_between": func(d Draw) Slots {
		a, i := d.Int(1, 40), d.IntN(2)
		return Slots{"a": a, "b": a + d.Int(10, 30), "parity": []string{"even", "odd"}[i], "rest": i}
	},
}
