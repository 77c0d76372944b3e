package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"restyle/grade"
	syntax "restyle/internal/python"
)

// show prints rows of some kinds with their verdicts, and the mutants that their checks did not find.
func show(ctx context.Context, seed uint64, name string, count int, stdout io.Writer) error {
	all, err := kinds()
	if err != nil {
		return err
	}
	var rows []Row
	for _, kind := range all {
		if name != "all" && !strings.Contains(kind.Name, name) {
			continue
		}
		if err := kind.validate(); err != nil {
			return fmt.Errorf("kind %s: %w", kind.Name, err)
		}
		lines := slices.Concat(kind.Ask, kind.Held)
		drawn, err := drawRows(newDraw(seed, "show/"+kind.Name), kind, lines, count, count, map[string]bool{})
		if err != nil {
			return fmt.Errorf("kind %s: %w", kind.Name, err)
		}
		rows = append(rows, drawn...)
	}
	if len(rows) == 0 {
		return fmt.Errorf("no kind has %q in its name", name)
	}
	for _, row := range rows {
		fmt.Fprintf(stdout, "=== %s\n%s\n%s\n---\n%s\n", row.kind.Name, row.Instruction, row.Input, row.Output)
	}
	if err := verify(ctx, rows); err != nil {
		return err
	}
	tally, survivors, err := plant(ctx, seed, rows, allTried)
	for _, s := range survivors {
		fmt.Fprintf(stdout, "=== not found: %s, %s changed\n%s\n", s.kind, s.sort, s.code)
	}
	fmt.Fprintf(stdout, "%d rows right; %d of %d mutants found\n", len(rows), tally.killed(), tally.tried())
	return err
}

// showTopics prints questions about some topics with their answers, checks them, and prints which wrong answers the
// checks did not find.
func showTopics(ctx context.Context, seed uint64, name string, count int, stdout io.Writer) error {
	all, err := readTopics()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(t Topic) bool {
		return name != "all" && !strings.Contains(t.Name, name) && !strings.Contains(t.File, name)
	})
	if len(all) == 0 {
		return fmt.Errorf("no topic and no file of topics has %q in its name", name)
	}
	var rows, ran, words []Row
	for _, t := range all {
		d := newDraw(seed, "show/"+t.Name)
		fmt.Fprintf(stdout, "=== %s\n", t.Name)
		asked, err := t.examples(d, count)
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
		for i, row := range asked {
			if i == 0 || row.Output != asked[i-1].Output {
				fmt.Fprintf(stdout, "%s\n---\n%s\n", row.Instruction, row.Output)
			} else {
				fmt.Fprintln(stdout, row.Instruction)
			}
		}
		for i, row := range asked {
			if !slices.ContainsFunc(asked[:i], func(r Row) bool { return r.Output == row.Output && r.check == row.check }) {
				rows = append(rows, row)
			}
		}
		if asked[0].words {
			words = append(words, asked[0])
		} else {
			ran = append(ran, asked[0])
		}
	}
	if err := verify(ctx, rows); err != nil {
		return err
	}
	tally, survivors, err := plant(ctx, seed, ran, firstTried)
	var few *tooFew
	if err != nil && !errors.As(err, &few) {
		return err
	}
	for _, s := range survivors {
		fmt.Fprintf(stdout, "=== not found: %s, %s changed\n%s\n", s.kind, s.sort, s.code)
	}
	if few != nil {
		for _, row := range few.rows {
			fmt.Fprintf(stdout, "=== %s: its check finds fewer than %d wrong answers\n", row.kind.Name, leastKilled)
		}
	}
	fmt.Fprintf(stdout, "%d answers about %d topics right; %d of %d mutants found\n", len(rows), len(all), tally.killed(),
		tally.tried())
	newDraw(seed, "show/accepted").Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return accepted(ctx, words, stdout)
}

// examples returns some rows about the topic, then those of its whole questions and of its follow-ups.
func (t Topic) examples(d Draw, count int) (rows []Row, err error) {
	add := func(row Row, failed error) {
		if failed == nil && t.Code != "" {
			failed = syntax.Check(row.Output)
		}
		if failed != nil && err == nil {
			err = fmt.Errorf("%q: %w", row.Instruction, failed)
		}
		rows = append(rows, row)
	}
	for range count {
		add(t.row(d))
	}
	for _, line := range t.Other {
		add(t.asked(d, line))
	}
	before := rows[len(rows)-1]
	for _, f := range t.Then {
		for _, line := range f.Ask {
			add(t.then(f, line, before))
		}
	}
	return rows, err
}

// accepted prints which topics' checks of words take the answer of another one: of the next few.
func accepted(ctx context.Context, words []Row, stdout io.Writer) error {
	const others = 8
	var trials []grade.Trial
	var of [][2]string
	for i, row := range words {
		for j := range min(others, len(words)-1) {
			other := words[(i+j+1)%len(words)]
			if slices.Contains(row.also, other.kind.Name) {
				continue
			}
			trials = append(trials, row.trial(other.Output))
			of = append(of, [2]string{row.kind.Name, other.kind.Name})
		}
	}
	verdicts, err := judge(ctx, trials)
	for i, v := range verdicts {
		if v.Right {
			fmt.Fprintf(stdout, "=== the check of %s takes the answer of %s\n", of[i][0], of[i][1])
		}
	}
	return err
}
