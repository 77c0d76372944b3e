package main

// loopDraws draw the parameters of the kinds in kinds/loops.txtar.
var loopDraws = map[string]func(d Draw) Slots{
	"print_range": func(d Draw) Slots {
		a := d.Int(1, 60)
		return Slots{"a": a, "b": a + d.Int(4, 30)}
	},
	"multiplication_table": func(d Draw) Slots { return Slots{"n": d.Int(2, 60), "m": d.Int(5, 20)} },
	"countdown": func(d Draw) Slots {
		b := d.Int(1, 25)
		return Slots{"a": b + d.Int(4, 25), "b": b}
	},
	"sum_of_range": func(d Draw) Slots {
		a := d.Int(1, 40)
		return Slots{"a": a, "b": a + d.Int(5, 99)}
	},
	"print_with_step": func(d Draw) Slots {
		a := d.Int(0, 30)
		return Slots{"a": a, "b": a + d.Int(25, 70), "k": d.Int(2, 9)}
	},
	"multiply_until_limit": func(d Draw) Slots {
		return Slots{"a": d.Int(1, 12), "k": d.Int(2, 5),
			"m": d.Step(100, 990, 10)}
	},
	"print_word_times": func(d Draw) Slots { return Slots{"word": d.Word(), "n": d.Int(3, 20)} },
	"print_powers_of_range": func(d Draw) Slots {
		a, i := d.Int(1, 40), d.IntN(2)
		return Slots{"a": a, "b": a + d.Int(4, 15), "power": []string{"square", "cube"}[i], "exponent": 2 + i}
	},
	"change_each_number": func(d Draw) Slots {
		i := d.IntN(3)
		return Slots{
			"numbers": d.Ints(4, 7, 1, 60), "k": d.Int(2, 20), "did": []string{"plus", "minus", "multiplied by"}[i],
			"sign": []string{"+", "-", "*"}[i],
		}
	},
	"running_total": func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 7, 1, 50)} },
	"count_matching_numbers": func(d Draw) Slots {
		i := d.IntN(2)
		return Slots{
			"numbers": d.Distinct(5, 8, 1, 60), "k": d.Int(15, 45), "than": []string{"greater than", "less than"}[i],
			"sign": []string{">", "<"}[i],
		}
	},
	"first_multiple_above": func(d Draw) Slots { return Slots{"a": d.Int(20, 500), "k": d.Int(7, 40)} },
	"skip_one_number": func(d Draw) Slots {
		a := d.Int(1, 40)
		b := a + d.Int(6, 20)
		return Slots{"a": a, "b": b, "c": d.Int(a+1, b-1)}
	},
	"character_triangle": func(d Draw) Slots {
		return Slots{"char": pick(d, "*", "#", "+", "@", "x", "o", "=", "%", "&", "A", "B", "X", "O", "Z"), "n": d.Int(3, 15)}
	},
}
