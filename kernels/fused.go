package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Fused is the set of operations that run as one kernel. Those that have one are in FusedOps.
type Fused map[string]bool

// FusedOps are the operations that can run as one kernel or as several, in the order in which a block runs them.
var FusedOps = []string{"rmsnorm", "attention", "swiglu", "crossentropy"}

// All is every operation fused.
func All() Fused { return parsed(FusedOps) }

func parsed(names []string) Fused {
	f := Fused{}
	for _, n := range names {
		f[n] = true
	}
	return f
}

// ParseFused reads a set such as "all", "none", "rmsnorm,swiglu" or "all,-attention": names are added from left to right,
// those behind a minus taken away. "true" is all and "false" none, so that it can be a flag without a value.
func ParseFused(s string) (Fused, error) {
	f := Fused{}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		bare, without := strings.CutPrefix(name, "-")
		switch {
		case bare == "all" || bare == "true":
			for _, n := range FusedOps {
				f[n] = !without
			}
		case name == "none" || name == "false" || name == "":
			f = Fused{}
		case slices.Contains(FusedOps, bare):
			f[bare] = !without
		default:
			return nil, fmt.Errorf("fused operations %q: %q is not one of all, none, %s", s, name, strings.Join(FusedOps, ", "))
		}
	}
	return f, nil
}

// String is the set as ParseFused reads it.
func (f Fused) String() string {
	var names []string
	for _, n := range FusedOps {
		if f[n] {
			names = append(names, n)
		}
	}
	switch len(names) {
	case 0:
		return "none"
	case len(FusedOps):
		return "all"
	}
	return strings.Join(names, ",")
}
