package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// table reads the faults of several files of this form:
//
//	Prose, up to the first fault.
//
//	# area/what
//	file trainer/plan.go
//	test ./trainer -run TestPlan_EveryStep
//	-old text
//	-its second line
//	+new text
//
// The lines after each minus, joined by line feeds, are the text that the fault replaces, which may begin and end
// within lines of the source. A fault without a plus deletes it. "why" may precede "file": a line for the reader.
func table(files ...string) ([]mutant, error) {
	var all []mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, entry := range strings.Split("\n"+string(text), "\n# ")[1:] {
			m, err := parse(entry)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, m.name, err)
			}
			if slices.ContainsFunc(all, func(other mutant) bool { return other.name == m.name }) {
				return nil, fmt.Errorf("%s: %s is there twice", file, m.name)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// parse reads a fault: what follows its number sign.
func parse(entry string) (mutant, error) {
	lines := strings.Split(strings.TrimRight(entry, "\n"), "\n")
	m := mutant{name: lines[0]}
	var before, after []string
	for _, line := range lines[1:] {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "-"):
			before = append(before, line[1:])
		case strings.HasPrefix(line, "+"):
			after = append(after, line[1:])
		case word == "file":
			m.file = rest
		case word == "test":
			m.tests = rest
		case word != "why":
			return m, fmt.Errorf("a line begins with why, file, test, - or +, not with %q", line)
		}
	}
	m.old, m.new = strings.Join(before, "\n"), strings.Join(after, "\n")
	switch {
	case !strings.Contains(m.name, "/") || strings.ContainsAny(m.name, " \t"):
		return m, fmt.Errorf("a name is area/what, without spaces")
	case m.file == "" || !strings.Contains(m.tests, "./"):
		return m, fmt.Errorf("it has no file, or its tests name no package")
	case m.old == m.new:
		return m, fmt.Errorf("it changes nothing")
	}
	return m, nil
}

// tables returns the files of a module's faults.
func tables(root string) ([]string, error) {
	return filepath.Glob(filepath.Join(root, "internal", "mutants", "faults", "*.txt"))
}
