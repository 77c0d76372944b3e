package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"restyle/grade"
)

const (
	leastKilled = 3 // minimum number of planted wrong answers that each held-out check must find
	firstTried  = 8 // among this many of the most telling ones
	allTried    = 1 << 30
)

// A count is the number of planted wrong answers of a sort that were tried, and the number that the checks found.
type count struct{ tried, killed int }

// A tally holds the counts by sort of change.
type tally map[string]*count

func (t tally) tried() (n int) {
	for _, c := range t {
		n += c.tried
	}
	return n
}

func (t tally) killed() (n int) {
	for _, c := range t {
		n += c.killed
	}
	return n
}

// A survivor is a mutant that its check accepted as right: the check has a gap, or the mutant is the same program in
// other words.
type survivor struct {
	kind string
	mutant
}

// plant runs the first most mutants of each row. It returns tooFew if a row's check finds fewer than leastKilled of
// the first firstTried. It does not count mutants that fail to parse.
func plant(ctx context.Context, seed uint64, rows []Row, most int) (tally, []survivor, error) {
	var planted []mutant
	var trials []grade.Trial
	var owner []int
	for i, row := range rows {
		all := mutants(row, otherSlots(seed, row))
		for _, m := range all[:min(most, len(all))] {
			planted, owner = append(planted, m), append(owner, i)
			trials = append(trials, row.trial(m.code))
		}
	}
	verdicts, err := judge(ctx, trials)
	if err != nil {
		return nil, nil, err
	}
	result, survivors := tally{}, []survivor(nil)
	parsed, killed := make([]int, len(rows)), make([]int, len(rows))
	for i, v := range verdicts {
		if !v.Parses {
			continue
		}
		row, sort := owner[i], planted[i].sort
		if result[sort] == nil {
			result[sort] = &count{}
		}
		result[sort].tried++
		parsed[row]++
		if !v.Right {
			result[sort].killed++
			if parsed[row] <= firstTried {
				killed[row]++
			}
		} else {
			survivors = append(survivors, survivor{rows[row].kind.Name, planted[i]})
		}
	}
	var few tooFew
	for i, n := range killed {
		if n < leastKilled {
			few.rows, few.killed, few.of = append(few.rows, rows[i]), append(few.killed, n), append(few.of, parsed[i])
		}
	}
	if few.rows != nil {
		return result, survivors, &few
	}
	return result, survivors, nil
}

// tooFew is the error of checks that found too few planted wrong answers: killed of those that parse.
type tooFew struct {
	rows       []Row
	killed, of []int
}

func (e *tooFew) Error() string {
	row := e.rows[0]
	return fmt.Sprintf("kind %s: the check finds only %d of the first %d wrong answers: tighten Check or add to Wrong\n"+
		"%s\n%s\n---\n%s", row.kind.Name, e.killed[0], min(firstTried, e.of[0]), row.Instruction, row.Input, row.Output)
}

// otherSlots draws parameters that another question of the same kind might have.
func otherSlots(seed uint64, row Row) Slots {
	return row.kind.Draw(newDraw(seed, "other/"+row.kind.Name+"/"+row.Instruction))
}

// sortedSlots iterates over slots by name.
func sortedSlots(slots Slots) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range slices.Sorted(maps.Keys(slots)) {
			if !yield(name, slots[name]) {
				return
			}
		}
	}
}
