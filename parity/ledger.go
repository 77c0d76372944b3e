package parity

import (
	"fmt"
	"strings"
)

// A fate is how a recorded value was used.
type fate int

const (
	open        fate = iota // not used yet
	compared                // with a result of ours
	yardstick               // an error of another program: a limit, or a value to compare our error with
	input                   // an input of the other program, or its description
	leftOut                 // by an option
	unsupported             // of a feature that does not exist yet
)

// A ledger has an entry for each value of a directory. The name of an entry consists of the names of the file and of
// the value, as in "golden.json forward.loss".
type ledger struct {
	names []string
	fates map[string]fate
}

// enter adds a value that is not used yet.
func (l *ledger) enter(name string) {
	if l.fates == nil {
		l.fates = map[string]fate{}
	}
	if l.has(name) {
		return
	}
	l.names = append(l.names, name)
	l.fates[name] = open
}

func (l *ledger) has(name string) bool {
	_, ok := l.fates[name]
	return ok
}

// strike records the use of a value. A compared value stays compared.
func (l *ledger) strike(name string, f fate) {
	if was, ok := l.fates[name]; !ok {
		panic(fmt.Sprintf("parity: %s is in no ledger", name))
	} else if was != compared {
		l.fates[name] = f
	}
}

// strikeAll strikes all open values whose name has the prefix.
func (l *ledger) strikeAll(prefix string, f fate) {
	for _, name := range l.names {
		if l.fates[name] == open && strings.HasPrefix(name, prefix) {
			l.fates[name] = f
		}
	}
}

// with returns the names with a fate.
func (l *ledger) with(f fate) (names []string) {
	for _, name := range l.names {
		if l.fates[name] == f {
			names = append(names, name)
		}
	}
	return names
}
