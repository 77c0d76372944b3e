package main

import "strconv"

// errorDraws draw the parameters of the kinds in kinds/errors.txtar.
var errorDraws = map[string]func(d Draw) Slots{
	"safe_division": func(d Draw) Slots {
		return Slots{"d": d.Int(-30, 60), "fn": pick(d, "divide", "safe_divide", "quotient", "ratio", "try_divide",
			"division")}
	},
	"safe_int": func(d Draw) Slots {
		return Slots{"d": d.Int(-30, 60), "fn": pick(d, "to_int", "safe_int", "parse_int", "parse_number", "read_int",
			"as_int")}
	},
	"safe_item": func(d Draw) Slots {
		return Slots{"d": pick(d, d.Word(), "none", "missing", "unknown", "nothing"), "fn": pick(d, "get_item", "safe_get",
			"item_at", "fetch", "lookup", "pick_item")}
	},
	"raise_below_minimum": func(d Draw) Slots {
		return Slots{"k": d.Int(1, 99), "fn": pick(d, "check", "validate", "require", "check_value", "ensure", "verify")}
	},
	"catch_conversion_error": func(d Draw) Slots {
		text := strconv.Itoa(d.Int(2, 999))
		if d.IntN(2) == 0 {
			text = pick(d, text+pick(d, "a", "b", "x", "z"), d.Word())
		}
		return Slots{"text": text, "message": pick(d, "not a number", "invalid number", "bad input", "no integer", "error",
			"cannot convert", "wrong value")}
	},
	"skip_invalid_numbers": func(d Draw) Slots {
		var texts []string
		for _, n := range d.Ints(2, 4, 1, 99) {
			texts = append(texts, strconv.Itoa(n))
		}
		texts = append(texts, d.Words(1, 2)...)
		d.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		return Slots{"texts": texts}
	},
	"custom_exception": func(d Draw) Slots {
		return Slots{"k": d.Int(2, 99), "class": pick(d, "LimitError", "TooLargeError", "RangeError", "SizeError",
			"ExcessError"), "fn": pick(d, "check", "validate", "check_limit", "test_value", "verify")}
	},
}
