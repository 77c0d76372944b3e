package main

import "strings"

// unseenDrawsB draw the parameters of the kinds in kinds/unseen_b.txtar.
var unseenDrawsB = map[string]func(d Draw) Slots{
	"filter_then_sort": func(d Draw) Slots {
		numbers := d.Distinct(6, 8, 1, 99)
		return Slots{"numbers": numbers, "k": middle(d, numbers)}
	},
	"join_long_words": func(d Draw) Slots {
		for {
			words, n := d.Words(5, 7), d.Int(3, 4)
			if len(words[0]) > n && len(words[1]) > n && len(words[2]) <= n {
				d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
				return Slots{"words": words, "n": n, "sep": pick(d, "-", ", ", " + ", "/", "_")}
			}
		}
	},
	"sum_of_filtered_dict": func(d Draw) Slots {
		values := d.Distinct(5, 5, 2, 99)
		return Slots{"name": dictName(d), "dict": dict(d.Words(5, 5), values), "k": middle(d, values)}
	},
	"vowels_per_word":   func(d Draw) Slots { return Slots{"words": d.Words(4, 6)} },
	"reverse_each_word": func(d Draw) Slots { return Slots{"text": d.Phrase(3, 5)} },
	"upper_case_dict":   func(d Draw) Slots { return Slots{"words": d.Words(3, 5)} },
	"longest_words_first": func(d Draw) Slots {
		words := differentLengths(d)
		return Slots{"words": words, "n": d.Int(2, len(words)-1)}
	},
	"unique_sorted_first": func(d Draw) Slots {
		numbers := d.Distinct(5, 5, 1, 99)
		numbers = append(numbers, min(numbers[0], numbers[1], numbers[2], numbers[3]), numbers[4])
		d.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		return Slots{"numbers": numbers, "n": d.Int(2, 4)}
	},
	"flat_extreme": func(d Draw) Slots {
		most := pick(d, [2]string{"largest", "max"}, [2]string{"smallest", "min"})
		return Slots{"rows": nested(d, 2, 3, 3, 3), "most": most[0], "call": most[1]}
	},
	"count_prefix_function": func(d Draw) Slots {
		return Slots{"part": d.Word()[:2], "fn": pick(d, "count_words", "count_matches", "count_starts", "how_many",
			"number_of_words")}
	},
	"names_of_dicts_above": func(d Draw) Slots {
		field := pick(d, "age", "score", "height", "level")
		names, numbers := d.Names(3, 3), d.Distinct(3, 3, 5, 99)
		var people []string
		for i, name := range names {
			people = append(people, "{\"name\": \""+name+"\", \""+field+"\": "+python(numbers[i])+"}")
		}
		return Slots{"people": "[" + strings.Join(people, ", ") + "]", "field": field, "k": middle(d, numbers)}
	},
	"upper_words_with_letter": func(d Draw) Slots {
		for {
			words := d.Words(5, 7)
			letter := words[0][:1]
			count := 0
			for _, w := range words {
				if w[:1] == letter {
					count++
				}
			}
			if count > 1 {
				return Slots{"words": words, "letter": letter}
			}
		}
	},
	"sorted_merge": func(d Draw) Slots {
		order := pick(d, [2]string{"ascending", "sorted(first + second)"},
			[2]string{"descending", "sorted(first + second, reverse=True)"})
		numbers := d.Distinct(8, 8, 1, 99)
		cut := d.Int(3, 5)
		return Slots{"first": numbers[:cut], "second": numbers[cut:], "order": order[0], "call": order[1]}
	},
	"account_class": func(d Draw) Slots {
		words := strings.Fields(pick(d, "Account balance deposit withdraw", "Tank level fill drain",
			"Lamp brightness raise_by dim",
			"Wallet money earn spend", "Train speed accelerate brake", "Lift floor go_up go_down"))
		return Slots{"cls": words[0], "attr": words[1], "up": words[2], "down": words[3], "start": d.Int(2, 99)}
	},
	"group_by_length": func(d Draw) Slots { return Slots{"words": d.Words(4, 6)} },
	"replace_and_case": func(d Draw) Slots {
		text := d.Sentence()
		parts := strings.Fields(text)
		return Slots{"text": text, "old": parts[len(parts)-1], "new": d.Word()}
	},
	"map_pairs": func(d Draw) Slots {
		names := d.Names(3, 4)
		return Slots{"pairs": pairs(names, d.Distinct(4, 4, 10, 99)), "k": d.Int(2, 50)}
	},
}
