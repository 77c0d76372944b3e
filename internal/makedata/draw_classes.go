package main

import "strings"

// classDraws draw the parameters of the kinds in kinds/classes.txtar.
var classDraws = map[string]func(d Draw) Slots{
	"class_attributes": func(d Draw) Slots {
		fields := some(d, 2, 2, fields)
		return Slots{"cls": pick(d, classNames...), "a": fields[0], "b": fields[1]}
	},
	"counter_class": func(d Draw) Slots {
		return Slots{
			"cls": pick(d, "Counter", "Meter", "Clock", "Tracker", "Score", "Player", "Game"), "attr": pick(d, "count", "value",
				"total", "points", "level"),
			"method": pick(d, "add", "increase", "step", "update", "grow", "next", "click"),
			"start":  pick(d, 0, 10, 100, d.Int(2, 50)), "step": d.Int(2, 25),
		}
	},
	"stack_class": func(d Draw) Slots {
		return Slots{
			"cls": pick(d, "Stack", "Pile", "ItemStack", "Tower", "Deck", "History"), "push": pick(d, "push", "put", "add",
				"place", "insert"),
			"pop": pick(d, "pop", "take", "remove", "get", "draw", "undo"),
		}
	},
	"product_class": func(d Draw) Slots {
		theme := strings.Fields(pick(d,
			"width height area Rectangle Room Field Garden Screen", "length width area Floor Table Carpet Yard Page",
			"price amount total Order Purchase Item Sale Ticket", "rows columns cells Grid Board Matrix Sheet Table",
			"speed time distance Trip Car Train Runner Flight", "rate hours pay Job Worker Shift Task Salary",
			"weight count load Package Truck Delivery Crate Box", "days hours time Course Project Plan Camp Workshop",
			"pages words length Book Report Story Letter Article"))
		return Slots{"a": theme[0], "b": theme[1], "method": pick(d, "", "get_", "compute_", "find_") + theme[2],
			"cls": pick(d, theme[3:]...)}
	},
	"inherit_method": func(d Draw) Slots {
		pair := strings.Fields(pick(d, "Animal Dog", "Animal Cat", "Animal Bird", "Vehicle Car", "Vehicle Boat",
			"Shape Circle", "Shape Square", "Plant Tree", "Person Student", "Person Teacher", "Tool Hammer", "Food Apple"))
		said := d.Words(2, 2)
		return Slots{"base": pair[0], "sub": pair[1], "x": said[0], "y": said[1], "method": pick(d, "name", "describe",
			"info", "label", "text", "kind")}
	},
	"str_method": func(d Draw) Slots {
		cls := pick(d, classNames...)
		label := pick(d, cls, "Item", "Object", "Info", "Text", "Entry", "Data", "Record", "Name", "Value")
		return Slots{"cls": cls, "attr": pick(d, "name", "title", "label", "color", "code", "number", "size", "key"),
			"label": label}
	},
	"class_constant": func(d Draw) Slots {
		return Slots{
			"cls": pick(d, classNames...), "const": pick(d, "rate", "price", "factor", "size", "weight", "cost", "tax", "fee"),
			"k": d.Int(2, 90), "method": pick(d, "total", "compute", "multiply", "scale", "result", "apply"),
		}
	},
	"property_class": func(d Draw) Slots {
		names := strings.Fields(pick(d, "boxes items", "coins value", "pages lines", "rows seats", "bags weight",
			"units total", "packs cards", "tables chairs", "parts cost", "trips miles"))
		return Slots{"cls": pick(d, "Stock", "Order", "Store", "Plan", "Report", "Load", "Offer", "Project"), "a": names[0],
			"b": names[1], "k": d.Int(2, 60)}
	},
	"dataclass": func(d Draw) Slots {
		texts, numbers := pick(d, "name", "title", "label", "color", "city", "code"), pick(d, "age", "price", "size", "year",
			"count", "weight", "score")
		number := pick(d, "int", "float")
		if d.IntN(3) == 0 {
			return Slots{"cls": pick(d, classNames...), "a": numbers, "at": number, "b": texts, "bt": "str"}
		}
		return Slots{"cls": pick(d, classNames...), "a": texts, "at": "str", "b": numbers, "bt": number}
	},
	"add_method": func(d Draw) Slots {
		return Slots{
			"cls": pick(d, classNames...), "attr": pick(d, "price", "size", "weight", "speed", "score", "length", "points"),
			"k": d.Int(2, 60), "method": pick(d, "total", "scaled", "result", "multiply", "grow", "compute", "bigger"),
		}
	},
	"make_object": func(d Draw) Slots {
		attr, value := pick(d, "title", "label", "kind", "text"), d.Word()
		switch d.IntN(3) {
		case 0:
			attr, value = "name", d.Name()
		case 1:
			attr, value = "color", pick(d, "red", "green", "blue", "black", "white", "gold", "gray", "pink", "brown", "orange")
		}
		return Slots{"cls": pick(d, classNames...), "attr": attr, "value": value}
	},
	"list_class": func(d Draw) Slots {
		return Slots{
			"cls": pick(d, "Basket", "Cart", "Shelf", "Library", "Garden", "Box", "Team", "Shop", "Album", "Bag", "Store",
				"Room"),
			"items": pick(d, "items", "things", "entries", "parts", "elements"), "add": pick(d, "add", "append", "put",
				"add_item", "store"),
		}
	},
	"compare_objects": func(d Draw) Slots {
		fields := some(d, 2, 2, fields)
		return Slots{"cls": pick(d, classNames...), "a": fields[0], "b": fields[1], "key": fields[d.IntN(2)]}
	},
}

var classNames = strings.Fields("Car Book Person Student Player Product House Animal Ticket Order Item City Team " +
	"Planet Phone Song Movie Tree Robot Ship")

var fields = strings.Fields("name age color size price title year weight speed score length height city code level")
