package kernels

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An OutOfMemory is the error of an arena for which a GPU has no room. Its text is a table of what uses the memory.
type OutOfMemory struct {
	Device, For string         // "cuda:0", "gradients"
	Want        int            // bytes requested
	Arenas      map[string]int // bytes of this process's arenas, by name
	Free, Total int            // bytes as the driver counts them; the rest is used by other processes and the driver
	Context     int            // bytes of the driver's part that are this process's: Device.Context
	cause       error
}

func (d *Device) outOfMemory(name string, bytes int, cause error) error {
	e := &OutOfMemory{Device: d.name, For: name, Want: bytes, Arenas: map[string]int{}, Context: d.Context(),
		cause: cause}
	for a := range d.arenas {
		e.Arenas[a.name] += a.size
	}
	var err error
	if e.Free, e.Total, err = d.gpu.Free(); err != nil {
		return fmt.Errorf("memory for %s: %s on %s: %w", name, Bytes(bytes), d.name, err)
	}
	return e
}

// Unwrap returns the driver's error.
func (e *OutOfMemory) Unwrap() error { return e.cause }

// Reach returns the bytes that this process could have, Device.Overhead included: what it has plus what is free.
func (e *OutOfMemory) Reach() int { return min(e.Total, e.Free+e.arenas()+e.Context) }

// arenas returns the bytes of all arenas.
func (e *OutOfMemory) arenas() (n int) {
	for _, bytes := range e.Arenas {
		n += bytes
	}
	return n
}

// Error returns a line, followed by the table.
func (e *OutOfMemory) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory for %s: %s on %s: %v", e.For, Bytes(e.Want), e.Device, e.cause)
	row := func(what string, bytes int) { fmt.Fprintf(&b, "\n  %-32s %11s", what, Bytes(bytes)) }
	largest := func(a, b string) int { return cmp.Or(cmp.Compare(e.Arenas[b], e.Arenas[a]), cmp.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(e.Arenas), largest) {
		row(name, e.Arenas[name])
	}
	row("other processes, the driver", e.Total-e.Free-e.arenas())
	row("free", e.Free)
	row("in all", e.Total)
	return b.String()
}
