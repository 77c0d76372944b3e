package main

import "strings"

// stringDraws draw the parameters of the kinds in kinds/strings.txtar.
var stringDraws = map[string]func(d Draw) Slots{
	"reverse_text": func(d Draw) Slots { return Slots{"text": d.Phrase(1, 3)} },
	"count_letter": func(d Draw) Slots {
		text := d.Phrase(2, 4)
		letters := strings.ReplaceAll(text, " ", "")
		return Slots{"text": text, "letter": string(letters[d.IntN(len(letters))])}
	},
	"change_case": func(d Draw) Slots {
		form := pick(d, [2]string{"upper case", "upper"}, [2]string{"capital letters", "upper"},
			[2]string{"title case", "title"}, [2]string{"lower case", "lower"})
		text := d.Sentence()
		if form[1] == "lower" {
			text = strings.Join(d.Names(3, 6), " ")
		}
		return Slots{"text": text, "case": form[0], "method": form[1]}
	},
	"count_vowels": func(d Draw) Slots { return Slots{"text": d.Sentence()} },
	"palindromes_in_list": func(d Draw) Slots {
		words := append(d.Words(2, 4), some(d, 1, 3, palindromes)...)
		d.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return Slots{"words": words}
	},
	"replace_word": func(d Draw) Slots {
		text := d.Sentence()
		parts := strings.Fields(text)
		return Slots{"text": text, "old": parts[len(parts)-1], "new": d.Word()}
	},
	"join_words": func(d Draw) Slots {
		return Slots{"words": d.Words(3, 6), "sep": pick(d, "-", ", ", " + ", "/", "_", "; ", " and ", " or ", ".", "|",
			" - ", "+", "*", " > ")}
	},
	"split_text": func(d Draw) Slots {
		sep := pick(d, ",", ";", "-", "/", "|", ":", "_", "+", "*", "#")
		return Slots{"text": strings.Join(d.Words(3, 6), sep), "sep": sep}
	},
	"count_words": func(d Draw) Slots {
		text := d.Sentence()
		if d.IntN(2) == 0 {
			text += pick(d, " and ", " but ", " so ") + d.Sentence()
		}
		return Slots{"text": text}
	},
	"longest_word": func(d Draw) Slots {
		for {
			words := d.Words(4, 7)
			longest, ties := 0, 0
			for _, w := range words {
				if len(w) == longest {
					ties++
				} else if len(w) > longest {
					longest, ties = len(w), 0
				}
			}
			if ties == 0 && len(words[0]) < longest {
				return Slots{"text": strings.Join(words, " ")}
			}
		}
	},
	"initials": func(d Draw) Slots { return Slots{"text": d.Phrase(3, 6)} },
	"remove_letter_function": func(d Draw) Slots {
		return Slots{"fn": pick(d, "remove", "drop", "clean", "delete", "strip", "without") + pick(d, "_letter", "_char", "",
			"_letters"), "letter": string(rune('a' + d.IntN(26)))}
	},
	"starts_or_ends_function": func(d Draw) Slots {
		how := pick(d, "starts", "ends")
		word := d.Word()
		n := d.Int(2, 3)
		part := word[:n]
		if how == "ends" {
			part = word[len(word)-n:]
		}
		return Slots{"how": how, "method": how + "with", "part": part, "fn": pick(d, "check", "matches", "has_part",
			"is_match", "test_word", "fits", "check_word")}
	},
	"pad_word": func(d Draw) Slots {
		side := pick(d, [2]string{"left", "rjust"}, [2]string{"right", "ljust"})
		return Slots{"word": d.Word(), "fill": pick(d, "*", "-", ".", "=", "#", "+", "_", "0"), "width": d.Int(10, 40),
			"side": side[0], "method": side[1]}
	},
	"letters_at_edge": func(d Draw) Slots {
		word, n := d.Word()+d.Word(), d.Int(2, 5)
		if len(word) == 2*n {
			word += "s"
		}
		edge, slice := "first", ":"+python(n)
		if d.IntN(2) == 0 {
			edge, slice = "last", "-"+python(n)+":"
		}
		return Slots{"word": word, "n": n, "edge": edge, "slice": slice}
	},
	"caesar_function": func(d Draw) Slots {
		return Slots{"k": d.Int(2, 25), "fn": pick(d, "caesar", "encrypt", "encode", "cipher", "shift", "shift_text",
			"encode_text", "caesar_cipher", "shift_letters", "move_letters")}
	},
	"find_position": func(d Draw) Slots {
		for {
			parts := d.Words(4, 6)
			text, word := strings.Join(parts, " "), parts[d.Int(1, len(parts)-1)]
			if strings.Count(text, word) == 1 {
				return Slots{"text": text, "word": word}
			}
		}
	},
	"print_letters": func(d Draw) Slots { return Slots{"word": d.Word() + pick(d, "", d.Word())} },
	"contains_function": func(d Draw) Slots {
		return Slots{"word": d.Word(), "fn": pick(d, "contains", "has_word", "mentions", "includes", "check_text",
			"is_in_text", "search")}
	},
	"reverse_word_order": func(d Draw) Slots { return Slots{"text": d.Sentence()} },
	"strip_marks": func(d Draw) Slots {
		mark := pick(d, "*", "-", "#", "=", "+", "_", "~", "!")
		return Slots{"mark": mark, "text": strings.Repeat(mark, d.Int(1, 4)) + d.Phrase(1, 2) +
			strings.Repeat(mark, d.Int(1, 4))}
	},
	"count_word_in_text": func(d Draw) Slots {
		few := d.Words(2, 3)
		text := append([]string{}, few...)
		for range d.Int(3, 4) {
			text = append(text, few[d.IntN(len(few))])
		}
		d.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
		return Slots{"text": strings.Join(text, " "), "word": few[0]}
	},
}

var palindromes = strings.Fields("level radar noon civic kayak madam refer rotor stats tenet wow eye mom dad pop " +
	"deed peep toot solos sees")
