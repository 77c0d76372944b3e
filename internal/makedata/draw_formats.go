package main

import "fmt"

// formatDraws draw the parameters of the kinds in kinds/formats.txtar.
var formatDraws = map[string]func(d Draw) Slots{
	"fixed_decimals": func(d Draw) Slots {
		k := d.Int(1, 5)
		return Slots{"x": fmt.Sprintf("%d.%d%d", d.Int(1, 500), d.Int(10, 99), pick(d, 1, 2, 3, 4, 6, 7, 8, 9)), "k": k,
			"spec": fmt.Sprintf(".%df", k)}
	},
	"thousands_separators": func(d Draw) Slots { return Slots{"n": d.Int(1000, pick(d, 99999, 9999999))} },
	"zero_padding":         func(d Draw) Slots { return Slots{"n": d.Int(2, 999), "w": d.Int(5, 12)} },
	"person_sentence":      func(d Draw) Slots { return Slots{"name": d.Name(), "age": d.Int(4, 90)} },
	"align_right":          func(d Draw) Slots { return Slots{"numbers": d.Ints(3, 6, 1, 999), "w": d.Int(5, 12)} },
	"price_with_cents":     func(d Draw) Slots { return Slots{"item": d.Word(), "x": d.Float(1, 60, 1)} },
	"join_numbers": func(d Draw) Slots {
		return Slots{"numbers": d.Ints(3, 6, 1, 99), "sep": pick(d, "-", ", ", "; ", " + ", "/", " and ", ":", " | ", "*",
			" < ", "_", " to ")}
	},
}
