package main

// conditionDraws draw the parameters of the kinds in kinds/conditions.txtar.
var conditionDraws = map[string]func(d Draw) Slots{
	"larger_of_two": func(d Draw) Slots {
		numbers, i := d.Distinct(2, 2, 1, 200), d.IntN(2)
		return Slots{"a": numbers[0], "b": numbers[1], "which": []string{"larger", "smaller"}[i],
			"sign": []string{">", "<"}[i]}
	},
	"even_or_odd": func(d Draw) Slots {
		pair := pick(d, [2]string{"even", "odd"}, [2]string{"Even", "Odd"}, [2]string{"yes", "no"},
			[2]string{"left", "right"}, [2]string{"red", "blue"})
		return Slots{"n": d.Int(2, 999), "even": pair[0], "odd": pair[1]}
	},
	"sign_of_number": func(d Draw) Slots { return Slots{"n": d.Int(-300, 300)} },
	"label_by_threshold": func(d Draw) Slots {
		pair := pick(d, [2]string{"high", "low"}, [2]string{"big", "small"}, [2]string{"hot", "cold"},
			[2]string{"pass", "fail"}, [2]string{"long", "short"}, [2]string{"old", "young"})
		return Slots{"k": d.Int(5, 95), "high": pair[0], "low": pair[1], "fn": pick(d, "label", "classify", "rate",
			"describe", "category", "level")}
	},
	"in_range_function": func(d Draw) Slots {
		a := d.Int(1, 60)
		return Slots{"a": a, "b": a + d.Int(5, 60), "fn": pick(d, "in_range", "is_between", "is_valid", "is_inside",
			"check_range", "accepts")}
	},
	"clamp_function": func(d Draw) Slots {
		a := d.Int(0, 40)
		return Slots{"a": a, "b": a + d.Int(8, 80), "fn": pick(d, "clamp", "limit", "clip", "restrict", "bound",
			"keep_within")}
	},
	"grade_function": func(d Draw) Slots {
		b := d.Int(30, 70)
		return Slots{"a": b + d.Int(5, 28), "b": b, "fn": pick(d, "grade", "get_grade", "letter", "mark", "rate_score",
			"letter_grade")}
	},
	"price_by_age": func(d Draw) Slots {
		p := d.Int(2, 20)
		return Slots{"k": d.Int(5, 65), "p": p, "q": p + d.Int(2, 20), "fn": pick(d, "price", "ticket_price", "fee", "fare",
			"cost", "entry_price")}
	},
	"word_for_multiples": func(d Draw) Slots { return Slots{"n": d.Int(15, 50), "k": d.Int(2, 9), "word": d.Word()} },
	"leap_year": func(d Draw) Slots {
		if d.IntN(2) == 0 {
			return Slots{"n": d.Step(1600, 2400, 4)}
		}
		return Slots{"n": d.Int(1600, 2400)}
	},
}
