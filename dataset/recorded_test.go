package dataset

import (
	"strings"
	"testing"

	"restyle/internal/expect"
)

// recorded are functions of the package, for the table in testdata/recorded.txt.
var recorded = map[string]func(args ...string) string{
	"question": func(a ...string) string { return Question(a[0], a[1]) }, // an instruction and its input
	"pick": func(a ...string) string { // --columns, and the columns that are there
		columns, err := ParseColumns(a[0])
		if err != nil {
			return "error: " + err.Error()
		}
		got, err := wanted{Columns: columns}.pick(strings.Fields(a[1]))
		if err != nil {
			return "error: " + err.Error()
		}
		return strings.Join(got, ", ")
	},
	"choose": func(a ...string) string { // paths of a repository, its card, a config and a split
		paths := strings.Fields(a[0])
		if a[1] != "" {
			paths = append(paths, "README.md")
		}
		got, err := choose(paths, func(string) (string, error) { return a[1], nil }, a[2], a[3])
		if err != nil {
			return "error: " + err.Error()
		}
		return strings.Join(got.files, " ") + got.suffix
	},
}

func TestRecorded(t *testing.T) { expect.Recorded(t, "testdata/recorded.txt", recorded) }
