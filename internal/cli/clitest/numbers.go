// Package clitest checks that a command accepts or refuses unusual numbers in each of its flags.
package clitest

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/cli"
)

// A Number is what a flag that takes a number makes of some values. All others are refused.
type Number struct {
	Zero     func(t *testing.T) // counts the effect of 0; nil if 0 is refused
	Negative bool               // takes negative numbers
	Infinite bool               // takes +Inf
}

// Numbers compares the flags of a command with a table of those that take a number: each must have a row, whose effect
// Numbers checks. run runs the command with more flags than those that it always needs, and returns its exit code
// and its messages. What is refused is a mistake that is named with its flag and value.
func Numbers(t *testing.T, flags *cli.Flags, table map[string]Number, run func(args ...string) (int, string)) {
	t.Helper()
	left := maps.Clone(table)
	flags.VisitAll(func(f *flag.Flag) {
		getter, ok := f.Value.(flag.Getter)
		if !ok {
			return
		}
		var values []string
		switch getter.Get().(type) {
		case int, int64:
			values = []string{"-1", "0"}
		case float64:
			values = []string{"-1", "0", "NaN", "+Inf", "-Inf"}
		case time.Duration:
			values = []string{"-1s", "0s"}
		default:
			return
		}
		n, ok := table[f.Name]
		delete(left, f.Name)
		if !ok {
			t.Errorf("--%s takes a number: say in the table what 0 does", f.Name)
			return
		}
		t.Run(f.Name, func(t *testing.T) {
			for _, v := range values {
				switch {
				case strings.HasPrefix(v, "0") && n.Zero != nil:
					n.Zero(t)
				case v[0] == '-' && n.Negative, v == "+Inf" && n.Infinite:
				default:
					refused(t, f.Name, v, run)
				}
			}
		})
	})
	for _, name := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("--%s is in the table, but is no flag that takes a number", name)
	}
}

// refused checks that a value of a flag is refused as a mistake that names both.
func refused(t *testing.T, name, value string, run func(args ...string) (int, string)) {
	t.Helper()
	code, said := run("--"+name, value)
	if code != cli.Usage || !strings.Contains(said, "--"+name+" "+value) {
		t.Errorf("--%s %s: exit code %d, and it does not name both: %s", name, value, code, said)
	}
}
