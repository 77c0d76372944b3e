package main

import (
	"fmt"
	"os"
	"strings"

	"restyle/internal/cli"
)

// dataRows says which files were read, which columns were used, and which were not.
func (t *train) dataRows() []string {
	s := t.set
	line := fmt.Sprintf("%s: %s, %s", s.Name, count(s.Rows, "row"), s.Format)
	if len(s.Used) > 0 {
		line += ", with " + strings.Join(s.Used, ", ")
	}
	rows := []string{line}
	if len(s.Files) > 0 {
		rows = append(rows, "files read: "+cli.Some(s.Files))
	}
	if len(s.Unused) > 0 {
		rows = append(rows, "not used: "+cli.Some(s.Unused))
	}
	if s.Masked > 0 {
		rows = append(rows, fmt.Sprintf("context, not learned: %s that the data marks so", count(s.Masked, "answer")))
	}
	if s.Asides > 0 {
		rows = append(rows, fmt.Sprintf("context, not learned: %s of answers that the data marks so",
			count(s.Asides, "part")))
	}
	if s.Asked > 0 && !t.encoder.All {
		rows = append(rows, fmt.Sprintf("not learned: %s besides answers that the data marks so (--train-on all learns them)",
			count(s.Asked, "message")))
	}
	return rows
}

// printExample prints what was read, and one example.
func (t *train) printExample() error {
	out := cli.Raw(t.stdout)
	for _, s := range append(t.dataRows(), t.warnings()...) {
		fmt.Fprintln(t.stdout, s)
	}
	fmt.Fprintln(t.stdout)
	color := cli.IsTerminal(t.stdout) && os.Getenv("NO_COLOR") == "" // https://no-color.org
	return t.encoder.Show(out, t.set.Examples[0], color)
}
