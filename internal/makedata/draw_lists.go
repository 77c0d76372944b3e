package main

import (
	"slices"
	"strings"
)

// listDraws draw the parameters of the kinds in kinds/lists.txtar.
var listDraws = map[string]func(d Draw) Slots{
	"filter_compare": func(d Draw) Slots {
		how := pick(d, [2]string{"greater", ">"}, [2]string{"larger", ">"}, [2]string{"less", "<"}, [2]string{"smaller", "<"})
		numbers := d.Distinct(5, 8, 1, 99)
		return Slots{"numbers": numbers, "k": middle(d, numbers), "how": how[0], "op": how[1]}
	},
	"filter_long_words": func(d Draw) Slots {
		for {
			words, n := d.Words(5, 7), d.Int(3, 5)
			if len(words[0]) > n && len(words[1]) <= n {
				d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
				return Slots{"words": words, "n": n}
			}
		}
	},
	"map_lambda": func(d Draw) Slots { return Slots{"numbers": d.Ints(4, 6, 2, 50), "k": d.Int(2, 20)} },
	"filter_multiples_lambda": func(d Draw) Slots {
		k := d.Int(3, 12)
		numbers := d.Distinct(3, 5, 1, 99)
		for range d.Int(1, 3) {
			numbers = append(numbers, k*d.Int(1, 9))
		}
		d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		return Slots{"numbers": numbers, "k": k}
	},
	"powers_comprehension": func(d Draw) Slots {
		start := d.Int(1, 40)
		return Slots{"start": start, "stop": start + d.Int(3, 20)}
	},
	"sort_numbers": func(d Draw) Slots {
		order := pick(d, [2]string{"ascending", "sorted(numbers)"}, [2]string{"descending", "sorted(numbers, reverse=True)"})
		return Slots{"numbers": d.Distinct(5, 7, 1, 120), "order": order[0], "call": order[1]}
	},
	"sort_words_by_length": func(d Draw) Slots { return Slots{"words": differentLengths(d)} },
	"sort_pairs": func(d Draw) Slots {
		names := d.Names(3, 4)
		numbers := d.Distinct(len(names), len(names), 10, 99)
		return Slots{"pairs": pairs(names, numbers)}
	},
	"unique_in_order": func(d Draw) Slots {
		if d.IntN(2) == 0 {
			numbers := d.Distinct(3, 5, 1, 50)
			for range d.Int(2, 3) {
				numbers = append(numbers, numbers[d.IntN(len(numbers))])
			}
			d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
			return Slots{"items": numbers}
		}
		words := d.Words(3, 4)
		for range d.Int(2, 3) {
			words = append(words, words[d.IntN(len(words))])
		}
		d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return Slots{"items": words}
	},
	"common_items": func(d Draw) Slots {
		numbers := d.Distinct(9, 9, 1, 60)
		shared := d.Int(1, 3)
		first := append([]int{}, numbers[:5]...)
		second := append([]int{}, numbers[5-shared:9-shared]...)
		d.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
		d.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
		return Slots{"first": first, "second": second}
	},
	"list_difference": func(d Draw) Slots {
		words := d.Words(6, 7)
		first := append([]string{}, words[:4]...)
		second := append([]string{}, words[d.Int(2, 3):]...)
		d.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
		d.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
		return Slots{"first": first, "second": second}
	},
	"add_item": func(d Draw) Slots {
		words := d.Words(4, 6)
		return Slots{"words": words[1:], "word": words[0]}
	},
	"insert_item": func(d Draw) Slots {
		words := d.Words(5, 7)
		return Slots{"words": words[1:], "word": words[0], "i": d.Int(1, 3)}
	},
	"remove_item": func(d Draw) Slots {
		words := d.Words(4, 6)
		return Slots{"words": words, "word": words[d.IntN(len(words))]}
	},
	"index_of_item": func(d Draw) Slots {
		words := d.Words(5, 7)
		return Slots{"words": words, "word": words[d.Int(2, len(words)-1)]}
	},
	"items_at_edge": func(d Draw) Slots {
		n := d.Int(2, 4)
		edge, slice := "first", ":"+python(n)
		if d.IntN(2) == 0 {
			edge, slice = "last", "-"+python(n)+":"
		}
		return Slots{"numbers": d.Distinct(6, 8, 1, 99), "n": n, "edge": edge, "slice": slice}
	},
	"swap_items": func(d Draw) Slots {
		words := d.Words(5, 6)
		at := d.Distinct(2, 2, 0, 4)
		return Slots{"words": words, "i": min(at[0], at[1]), "j": max(at[0], at[1])}
	},
	"zip_lists": func(d Draw) Slots {
		names := d.Names(3, 5)
		return Slots{"names": names, "numbers": d.Ints(len(names), len(names), 10, 99)}
	},
	"flatten_list":  func(d Draw) Slots { return Slots{"rows": nested(d, 2, 3, 2, 3)} },
	"numbered_list": func(d Draw) Slots { return Slots{"words": d.Words(3, 5), "start": d.Int(1, 20)} },
	"any_all_function": func(d Draw) Slots {
		which := pick(d, [2]string{"at least one of", "any"}, [2]string{"any of", "any"}, [2]string{"every one of", "all"},
			[2]string{"each of", "all"})
		return Slots{"k": d.Int(2, 99), "which": which[0], "call": which[1], "fn": pick(d, "check", "check_list",
			"test_numbers", "check_numbers", "is_above", "passes")}
	},
	"word_lengths": func(d Draw) Slots { return Slots{"words": d.Words(4, 6)} },
	"add_to_each_word": func(d Draw) Slots {
		part := pick(d, "s", "_", "-", "!", "ing", "er", "ly", "x", ".txt", ".py", ".csv", "pre", "un", "my_", "new_", "_1",
			"*", "#", "re", "_old", "the_", "id_")
		edge, sum := "end", "word + \""+part+"\""
		if d.IntN(2) == 0 {
			edge, sum = "front", "\""+part+"\" + word"
		}
		return Slots{"words": d.Words(3, 5), "part": part, "edge": edge, "sum": sum}
	},
	"chunk_function": func(d Draw) Slots {
		return Slots{"k": d.Int(2, 20), "fn": pick(d, "chunk", "chunks", "split_list", "batches", "group", "make_chunks",
			"make_groups", "cut_list", "pieces", "split_items", "blocks")}
	},
	"rotate_list": func(d Draw) Slots { return Slots{"numbers": d.Distinct(5, 7, 1, 99), "k": d.Int(2, 4)} },
	"row_sums":    func(d Draw) Slots { return Slots{"rows": nested(d, 2, 3, 2, 3)} },
	"every_nth": func(d Draw) Slots {
		step := d.Int(2, 4)
		return Slots{"numbers": d.Distinct(7, 9, 1, 99), "step": step, "nth": []string{"second", "third", "fourth"}[step-2]}
	},
	"replace_values": func(d Draw) Slots {
		numbers := d.Distinct(4, 5, 1, 99)
		old := numbers[0]
		numbers = append(numbers, old)
		if d.IntN(2) == 0 {
			numbers = append(numbers, old)
		}
		d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		return Slots{"numbers": numbers, "old": old, "new": pick(d, 0, 100, d.Int(1, 99))}
	},
	"count_value": func(d Draw) Slots {
		few := d.Distinct(3, 3, 1, 60)
		numbers := append([]int{}, few...)
		for range d.Int(3, 4) {
			numbers = append(numbers, few[d.IntN(3)])
		}
		d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		return Slots{"numbers": numbers, "k": few[0]}
	},
	"nth_largest": func(d Draw) Slots {
		i := d.Int(2, 3)
		return Slots{"numbers": d.Distinct(2*i+2, 8, 1, 120), "i": i, "nth": []string{"third", "fourth"}[i-2]}
	},
	"set_union": func(d Draw) Slots {
		words := d.Words(5, 6)
		first, second := append([]string{}, words[:3]...), append([]string{}, words[d.Int(1, 2):]...)
		d.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
		return Slots{"first": first, "second": second[:min(len(second), 4)]}
	},
	"unpack_tuple": func(d Draw) Slots {
		sort := pick(d, "name age", "word count", "city number", "name score", "item price", "item amount", "color size",
			"title year", "label value", "key value")
		a, b, _ := strings.Cut(sort, " ")
		first := d.Word()
		if a == "name" {
			first = d.Name()
		}
		return Slots{"a": a, "b": b, "pair": "(\"" + first + "\", " + python(d.Int(2, 99)) + ")"}
	},
}

// differentLengths returns words of which no two have the same length.
func differentLengths(d Draw) []string {
	var chosen []string
	taken := map[int]bool{}
	for _, word := range d.Words(10, 10) {
		if !taken[len(word)] && len(chosen) < 5 {
			chosen, taken[len(word)] = append(chosen, word), true
		}
	}
	if len(chosen) < 3 {
		return differentLengths(d)
	}
	return chosen
}

// middle returns a threshold between the extremes of several different numbers: one of the numbers, or a number between
// them.
func middle(d Draw, numbers []int) int {
	ordered := slices.Sorted(slices.Values(numbers))
	low, high := ordered[len(ordered)/2-1], ordered[len(ordered)/2]
	if d.IntN(2) == 0 {
		return low
	}
	return d.Int(low, high)
}

// pairs returns a Python list of (word, number) tuples.
func pairs(names []string, numbers []int) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = "(\"" + name + "\", " + python(numbers[i]) + ")"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// nested returns a Python list of lists of numbers.
func nested(d Draw, leastRows, mostRows, least, most int) string {
	rows := make([]string, d.Int(leastRows, mostRows))
	for i := range rows {
		rows[i] = python(d.Ints(least, most, 1, 30))
	}
	return "[" + strings.Join(rows, ", ") + "]"
}
