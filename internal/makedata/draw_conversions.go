package main

import (
	"strconv"
	"strings"
)

// conversionDraws draw the parameters of the kinds in kinds/conversions.txtar.
var conversionDraws = map[string]func(d Draw) Slots{
	"number_to_base": func(d Draw) Slots {
		i := d.IntN(3)
		return Slots{"n": d.Int(20, 999), "base": []string{"binary", "hexadecimal", "octal"}[i],
			"letter": []string{"b", "x", "o"}[i]}
	},
	"base_to_number": func(d Draw) Slots {
		i := d.IntN(3)
		base := []int{2, 16, 8}[i]
		return Slots{"text": strconv.FormatInt(int64(d.Int(20, 999)), base), "base": []string{"binary", "hexadecimal",
			"octal"}[i], "number": base}
	},
	"temperature_conversion": func(d Draw) Slots {
		if d.IntN(2) == 0 {
			return Slots{"t": d.Int(-30, 120), "from": "Celsius", "to": "Fahrenheit", "old": "celsius", "new": "fahrenheit",
				"formula": "celsius * 9 / 5 + 32"}
		}
		return Slots{"t": d.Int(-30, 220), "from": "Fahrenheit", "to": "Celsius", "old": "fahrenheit", "new": "celsius",
			"formula": "(fahrenheit - 32) * 5 / 9"}
	},
	"split_into_units": func(d Draw) Slots {
		unit := pick(d, "minutes hours 60", "seconds minutes 60", "hours days 24", "days weeks 7", "months years 12")
		parts := strings.Fields(unit)
		size, _ := strconv.Atoi(parts[2])
		return Slots{"n": d.Int(size+1, min(999, size*20)), "small": parts[0], "large": parts[1], "size": size}
	},
	"unit_by_factor": func(d Draw) Slots {
		unit := strings.Fields(pick(d, "mile miles kilometres 1.6", "kilometre kilometres metres 1000",
			"foot feet centimetres 30.5", "inch inches millimetres 25.4",
			"kilogram kilograms pounds 2.2", "gallon gallons litres 3.8", "pound pounds grams 453.6", "yard yards metres 0.9",
			"litre litres millilitres 1000", "dozen dozens eggs 12"))
		return Slots{"n": d.Int(2, 90), "unit": unit[0], "many": unit[1], "other": unit[2], "k": unit[3]}
	},
	"strings_to_integers": func(d Draw) Slots {
		var texts []string
		for _, n := range d.Ints(3, 6, 1, 250) {
			texts = append(texts, strconv.Itoa(n))
		}
		return Slots{"texts": texts}
	},
	"number_to_digits": func(d Draw) Slots { return Slots{"n": d.Int(100, 999999)} },
	"digits_to_number": func(d Draw) Slots {
		return Slots{"digits": append([]int{d.Int(1, 9)}, d.Ints(2, 6, 0, 9)...)}
	},
	"character_codes": func(d Draw) Slots { return Slots{"word": pick(d, d.Word(), d.Word(), d.Name())} },
	"comma_text_to_numbers": func(d Draw) Slots {
		var texts []string
		for _, n := range d.Ints(3, 7, 1, 250) {
			texts = append(texts, strconv.Itoa(n))
		}
		return Slots{"text": strings.Join(texts, ",")}
	},
}
