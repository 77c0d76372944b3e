package main

import "slices"

// algorithmDraws draw the parameters of the kinds in kinds/algorithms.txtar.
var algorithmDraws = map[string]func(d Draw) Slots{
	"is_prime_function": func(d Draw) Slots {
		return Slots{"n": d.Int(2, 500), "fn": pick(d, "is_prime", "prime", "check_prime", "test_prime")}
	},
	"list_of_divisors": func(d Draw) Slots { return Slots{"n": d.Int(12, 600)} },
	"fibonacci_list": func(d Draw) Slots {
		a := d.Int(0, 15)
		return Slots{"a": a, "b": a + d.Int(1, 15), "n": d.Int(5, 15)}
	},
	"collatz_sequence": func(d Draw) Slots { return Slots{"n": d.Int(5, 300)} },
	"linear_search": func(d Draw) Slots {
		numbers := d.Distinct(5, 8, 1, 99)
		return Slots{"numbers": numbers, "x": pick(d, numbers...)}
	},
	"bubble_sort":    func(d Draw) Slots { return Slots{"numbers": mixed(d, 4, 7)} },
	"second_largest": func(d Draw) Slots { return Slots{"numbers": mixed(d, 4, 7)} },
	"pairs_with_sum": func(d Draw) Slots {
		k := d.Int(12, 60)
		numbers := map[int]bool{}
		for range d.Int(1, 2) {
			x := d.Int(1, (k-1)/2)
			numbers[x], numbers[k-x] = true, true
		}
		for range 2 {
			numbers[d.Int(1, 60)] = true
		}
		var list []int
		for x := range 100 {
			if numbers[x] {
				list = append(list, x)
			}
		}
		d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return Slots{"numbers": list, "k": k}
	},
	"reverse_digits": func(d Draw) Slots { return Slots{"n": d.Int(10, 9999)*10 + d.Int(1, 9)} },
}

// mixed returns different numbers that are not in ascending order.
func mixed(d Draw, least, most int) []int {
	numbers := d.Distinct(least, most, 1, 99)
	for slices.IsSorted(numbers) || numbers[len(numbers)-1] == slices.Max(numbers) {
		numbers = d.Distinct(least, most, 1, 99)
	}
	return numbers
}
