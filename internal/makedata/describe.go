package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

//go:embed README.md.tmpl
var readmeTemplate string

// describe returns README.md: a description of the dataset, with numbers counted from the rows.
func describe(s set, seed uint64, tally tally) ([]byte, error) {
	trained, unseen := map[string]*kindSummary{}, map[string]*kindSummary{}
	train := ofKinds(s.train)
	for _, row := range train {
		summary(trained, row).add(row)
	}
	seen := 0
	for _, row := range s.held {
		if row.kind.Trained() {
			seen++
		} else {
			summary(unseen, row).add(row)
		}
	}
	phrasings := 0
	for _, f := range trained {
		phrasings += f.Asks
	}
	first := slices.IndexFunc(train, func(r Row) bool { return r.Input == "" })
	second := slices.IndexFunc(train, func(r Row) bool { return r.Input != "" })
	page, err := template.New("README").Parse(readmeTemplate)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = page.Execute(&text, map[string]any{
		"Seed": seed, "AllRows": len(s.train), "Rows": len(train), "Seen": seen, "Unseen": len(s.held) - seen,
		"Topics": len(s.topics), "TopicRows": tallyRows(s.train, func(r Row) bool { return r.group != "" }),
		"Words":     tallyRows(s.train, func(r Row) bool { return r.group != "" && r.kind.Code == "" }),
		"Refusals":  tallyRows(s.train, func(r Row) bool { return r.group == "outside" }),
		"TypedRows": tallyRows(s.train, func(r Row) bool { return r.group == "" && r.check == "" }), "LeastRows": leastRows,
		"MostRows": mostRows, "LeastDraws": leastDraws, "Trained": sorted(trained), "UnseenKinds": sorted(unseen),
		"Example": train[first], "ExampleInput": train[second], "Phrasings": phrasings, "PerKind": fmt.Sprintf("%.1f",
			float64(phrasings)/float64(len(trained))),
		"Outputs":       distinct(train, func(r Row) string { return r.Output }),
		"Instructions":  distinct(train, func(r Row) string { return r.Instruction }),
		"WithInput":     percent(tallyRows(train, func(r Row) bool { return r.Input != "" }), len(train)),
		"OutputLengths": histogram(train, 50, func(r Row) int { return len(r.Output) }),
		"AskLengths":    histogram(train, 25, func(r Row) int { return len(r.Instruction) }),
		"Typed":         tallyRows(s.asked, func(r Row) bool { return r.group == "typed" }),
		"Outside":       tallyRows(s.asked, func(r Row) bool { return r.group == "outside" }),
		"Turns":         tallyRows(s.asked, func(r Row) bool { return r.group == "turns" }),
		"Mutants":       mutantTable(tally), "Tried": tally.tried(), "Killed": tally.killed(), "Planted": leastKilled,
	})
	return text.Bytes(), err
}

// ofKinds returns the rows of kinds in whole sentences.
func ofKinds(rows []Row) (some []Row) {
	for _, row := range rows {
		if row.group == "" && row.check != "" {
			some = append(some, row)
		}
	}
	return some
}

// kindSummary describes one kind.
type kindSummary struct {
	Name      string
	Asks      int // number of hand-written phrasings
	Rows      int
	WithInput bool
	Example   string
	outputs   map[string]bool
	chars     int
}

func summary(all map[string]*kindSummary, row Row) *kindSummary {
	if all[row.kind.Name] == nil {
		all[row.kind.Name] = &kindSummary{
			Name: row.kind.Name, Asks: len(row.kind.Ask), WithInput: row.Input != "",
			Example: strings.ReplaceAll(row.Instruction, "|", `\|`), outputs: map[string]bool{},
		}
	}
	return all[row.kind.Name]
}

func (k *kindSummary) add(row Row) {
	k.Rows++
	k.outputs[row.Output] = true
	k.chars += len(row.Output)
}

// Outputs returns the number of distinct answers.
func (k *kindSummary) Outputs() int { return len(k.outputs) }

// Length returns the mean length of the answers in characters.
func (k *kindSummary) Length() int { return k.chars / k.Rows }

func sorted(all map[string]*kindSummary) []*kindSummary {
	var list []*kindSummary
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

func distinct(rows []Row, text func(Row) string) int {
	seen := map[string]bool{}
	for _, row := range rows {
		seen[text(row)] = true
	}
	return len(seen)
}

func tallyRows(rows []Row, when func(Row) bool) (n int) {
	for _, row := range rows {
		if when(row) {
			n++
		}
	}
	return n
}

func percent(part, whole int) string { return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole)) }

// histogram draws how many rows have each length, in steps of width.
func histogram(rows []Row, width int, length func(Row) int) string {
	counts := map[int]int{}
	most := 0
	for _, row := range rows {
		bin := length(row) / width
		counts[bin]++
		most = max(most, counts[bin])
	}
	var text strings.Builder
	for bin := slices.Min(slices.Collect(maps.Keys(counts))); bin <= slices.Max(slices.Collect(maps.Keys(counts))); bin++ {
		bar := strings.Repeat("#", (counts[bin]*50+most-1)/most)
		fmt.Fprintf(&text, "%s\n", strings.TrimRight(fmt.Sprintf("%4d-%-4d %5d %s", bin*width, (bin+1)*width-1, counts[bin],
			bar), " "))
	}
	return strings.TrimRight(text.String(), "\n")
}

func mutantTable(tally tally) string {
	var text strings.Builder
	for _, sort := range slices.Sorted(maps.Keys(tally)) {
		fmt.Fprintf(&text, "| %s | %d | %d |\n", sort, tally[sort].tried, tally[sort].killed)
	}
	return strings.TrimRight(text.String(), "\n")
}
