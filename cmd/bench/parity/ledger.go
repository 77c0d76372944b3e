package parity

import (
	"fmt"
	"strings"
)

// A fate is what became of a figure.
type fate int

const (
	open        fate = iota // nobody looked at it
	compared                // with a result of ours
	yardstick               // it says how far other programs are off: a limit, or something to hold ours against
	input                   // it was given to the program, or says what was
	leftOut                 // by a flag
	unsupported             // what it is about does not exist yet
)

// A ledger has an entry for each figure of a folder. An entry's name is the file's and the figure's own, as in
// "golden.json forward.loss".
type ledger struct {
	names []string
	fates map[string]fate
}

// enter adds a figure that nobody has looked at.
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

// strike says what became of a figure. One that was compared stays so.
func (l *ledger) strike(name string, f fate) {
	if was, ok := l.fates[name]; !ok {
		panic(fmt.Sprintf("parity: %s is in no ledger", name))
	} else if was != compared {
		l.fates[name] = f
	}
}

// strikeAll strikes all that is still open and whose name begins so.
func (l *ledger) strikeAll(prefix string, f fate) {
	for _, name := range l.names {
		if l.fates[name] == open && strings.HasPrefix(name, prefix) {
			l.fates[name] = f
		}
	}
}

// with are the names that have a fate.
func (l *ledger) with(f fate) (names []string) {
	for _, name := range l.names {
		if l.fates[name] == f {
			names = append(names, name)
		}
	}
	return names
}
