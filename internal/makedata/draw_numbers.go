package main

// numberDraws draw the parameters of the kinds in kinds/numbers.txtar.
var numberDraws = map[string]func(d Draw) Slots{
	"is_multiple_function": func(d Draw) Slots {
		return Slots{"k": d.Int(2, 60), "fn": pick(d, "is_multiple_of", "is_divisible_by", "check_multiple", "can_be_divided",
			"check_division", "divides_evenly")}
	},
	"sum_of_list":     func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 7, 1, 99)} },
	"average_of_list": func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 7, 1, 99)} },
	"product_of_list": func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, 2, 20)} },
	"range_of_list":   func(d Draw) Slots { return Slots{"numbers": d.Distinct(4, 7, 1, 99)} },
	"arithmetic_on_two": func(d Draw) Slots {
		i := d.IntN(3)
		return Slots{
			"op": []string{"sum", "difference", "product"}[i], "sign": []string{"+", "-", "*"}[i], "a": d.Int(50, 300),
			"b": d.Int(2, 49),
		}
	},
	"power_of_number":        func(d Draw) Slots { return Slots{"a": d.Int(2, 30), "b": d.Int(4, 12)} },
	"quotient_and_remainder": func(d Draw) Slots { return Slots{"a": d.Int(60, 999), "b": d.Int(3, 29)} },
	"percent_of_number":      func(d Draw) Slots { return Slots{"p": d.Int(2, 95), "a": d.Step(100, 950, 10)} },
	"digit_sum":              func(d Draw) Slots { return Slots{"n": d.Int(1000, 99999)} },
	"count_digits": func(d Draw) Slots {
		n := d.Int(1, 9)
		for range d.Int(2, 8) {
			n = 10*n + d.Int(0, 9)
		}
		return Slots{"n": n}
	},
	"absolute_difference": func(d Draw) Slots {
		return Slots{"k": d.Int(2, 200), "fn": pick(d, "distance", "difference", "gap", "distance_from", "how_far", "offset")}
	},
	"round_number": func(d Draw) Slots {
		whole, decimals := d.Int(1, 99), pick(d, 2, 3)
		fraction := d.Int(10000, 99999)
		for fraction%10 == 0 || fraction%10 == 5 || fraction/10%10 == 0 || fraction/100%10 == 0 || fraction/100%10 == 9 ||
			fraction/1000%10 == 0 || fraction/1000%10 == 9 || fraction/10%10 == 9 {
			fraction = d.Int(10000, 99999)
		}
		return Slots{"x": float64(whole) + float64(fraction)/100000, "k": decimals}
	},
	"greatest_common_divisor": func(d Draw) Slots {
		k := d.Int(2, 15)
		return Slots{"a": k * d.Int(3, 20), "b": k * d.Int(2, 20)}
	},
	"circle_area": func(d Draw) Slots {
		if d.IntN(2) == 0 {
			return Slots{"r": d.Int(2, 120), "what": "area", "formula": "math.pi * radius ** 2"}
		}
		return Slots{"r": d.Int(2, 120), "what": "circumference", "formula": "2 * math.pi * radius"}
	},
	"rectangle_area_perimeter": func(d Draw) Slots { return Slots{"w": d.Int(3, 60), "h": d.Int(7, 60)} },
	"square_root":              func(d Draw) Slots { return Slots{"n": d.Int(5, 999)} },
}
