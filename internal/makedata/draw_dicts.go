package main

import "strings"

// dictDraws draw the parameters of the kinds in kinds/dicts.txtar.
var dictDraws = map[string]func(d Draw) Slots{
	"dict_lookup": func(d Draw) Slots {
		keys := d.Words(3, 5)
		return Slots{"name": dictName(d), "dict": dict(keys, d.Distinct(len(keys), len(keys), 2, 99)),
			"key": keys[d.IntN(len(keys))]}
	},
	"lookup_default_function": func(d Draw) Slots {
		return Slots{"default": pick(d, 0, -1, 100, d.Int(2, 99)), "fn": pick(d, "lookup", "get_value", "find_value",
			"read_key", "fetch", "get_or_default", "safe_get", "value_of", "look_up")}
	},
	"dict_set": func(d Draw) Slots {
		keys := d.Words(4, 5)
		return Slots{"name": dictName(d), "dict": dict(keys[1:], d.Ints(4, 4, 2, 99)), "key": keys[0], "value": d.Int(2, 99)}
	},
	"dict_delete": func(d Draw) Slots {
		keys := d.Words(3, 5)
		return Slots{"name": dictName(d), "dict": dict(keys, d.Ints(5, 5, 2, 99)), "key": keys[d.IntN(len(keys))]}
	},
	"count_items": func(d Draw) Slots {
		few := d.Words(2, 3)
		words := append([]string{}, few...)
		for range d.Int(2, 4) {
			words = append(words, few[d.IntN(len(few))])
		}
		d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return Slots{"words": words}
	},
	"count_letters_of_word": func(d Draw) Slots { return Slots{"word": d.Word() + pick(d, "", d.Word())} },
	"sort_dict_by_value": func(d Draw) Slots {
		keys := d.Names(3, 4)
		return Slots{"name": pick(d, "scores", "points", "ages", "votes", "goals", "marks", "totals"),
			"dict": dict(keys, d.Distinct(4, 4, 2, 99))}
	},
	"filter_dict": func(d Draw) Slots {
		how := pick(d, [2]string{"greater", ">"}, [2]string{"higher", ">"}, [2]string{"less", "<"}, [2]string{"lower", "<"})
		keys, values := d.Words(4, 5), d.Distinct(5, 5, 2, 99)
		return Slots{"name": dictName(d), "dict": dict(keys, values), "k": middle(d, values[:len(keys)]), "how": how[0],
			"op": how[1]}
	},
	"invert_dict": func(d Draw) Slots {
		return Slots{"name": dictName(d), "dict": dict(d.Words(3, 5), d.Distinct(5, 5, 2, 99))}
	},
	"merge_dicts": func(d Draw) Slots {
		keys := d.Words(4, 5)
		return Slots{"first": dict(keys[:3], d.Ints(3, 3, 2, 49)), "second": dict(keys[d.Int(1, 2):], d.Ints(4, 4, 50, 99))}
	},
	"dict_from_lists": func(d Draw) Slots {
		keys := d.Words(3, 5)
		return Slots{"keys": keys, "values": d.Ints(len(keys), len(keys), 2, 99)}
	},
	"sum_of_dict_values": func(d Draw) Slots {
		return Slots{"name": dictName(d), "dict": dict(d.Words(3, 5), d.Distinct(5, 5, 2, 99))}
	},
	"best_key": func(d Draw) Slots {
		most := pick(d, [2]string{"highest", "max"}, [2]string{"largest", "max"}, [2]string{"lowest", "min"},
			[2]string{"smallest", "min"})
		return Slots{
			"name": pick(d, "scores", "points", "ages", "votes", "goals", "marks", "totals"),
			"dict": dict(d.Names(4, 5), d.Distinct(5, 5, 2, 99)), "most": most[0], "call": most[1],
		}
	},
	"change_all_values": func(d Draw) Slots {
		return Slots{"name": dictName(d), "dict": dict(d.Words(3, 4), d.Distinct(5, 5, 2, 99)), "k": d.Int(2, 50)}
	},
	"field_of_dicts": func(d Draw) Slots {
		other := pick(d, "age", "score", "points", "level", "height", "size")
		field := pick(d, "name", other)
		var people []string
		for _, name := range d.Names(2, 3) {
			people = append(people, "{\"name\": \""+name+"\", \""+other+"\": "+python(d.Int(5, 99))+"}")
		}
		return Slots{"people": "[" + strings.Join(people, ", ") + "]", "field": field}
	},
	"group_words": func(d Draw) Slots {
		for {
			words := d.Words(4, 6)
			seen := map[byte]bool{}
			for _, w := range words {
				seen[w[0]] = true
			}
			if len(seen) < len(words) && len(seen) > 1 {
				return Slots{"words": words}
			}
		}
	},
	"print_dict_lines": func(d Draw) Slots {
		return Slots{"name": dictName(d), "dict": dict(d.Words(3, 5), d.Ints(5, 5, 2, 99)), "sep": pick(d, ":", " =", " ->",
			" -", ";", " is")}
	},
	"dict_of_lengths": func(d Draw) Slots { return Slots{"words": d.Words(3, 6)} },
	"nested_lookup": func(d Draw) Slots {
		names := d.Names(2, 2)
		a := pick(d, "age", "score", "level")
		b := pick(d, "height", "points", "size")
		var entries []string
		for _, name := range names {
			entries = append(entries, "\""+name+"\": {\""+a+"\": "+python(d.Int(5, 49))+", \""+b+"\": "+python(d.Int(50,
				99))+"}")
		}
		return Slots{"data": "{" + strings.Join(entries, ", ") + "}", "who": names[d.IntN(2)], "field": pick(d, a, b)}
	},
}

// dict returns a Python dictionary of words and numbers. There may be more numbers than words.
func dict(keys []string, values []int) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = "\"" + key + "\": " + python(values[i])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// dictName returns a natural name for a dictionary of words and numbers.
func dictName(d Draw) string {
	return pick(d, "stock", "prices", "counts", "amounts", "scores", "weights", "orders", "sizes")
}
