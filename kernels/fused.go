package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Fused is a set of operations that run as one kernel. FusedOps lists the operations that can.
type Fused map[string]bool

// FusedOps lists the operations that can run as one kernel or as several, in the order in which a layer runs them.
var FusedOps = []string{"rmsnorm", "layernorm", "attention", "swiglu", "linear_activation", "crossentropy"}

// All returns the set of all fused operations.
func All() Fused { return parsed(FusedOps) }

func parsed(names []string) Fused {
	f := Fused{}
	for _, n := range names {
		f[n] = true
	}
	return f
}

// ParseFused parses a set such as "all", "none", "rmsnorm,swiglu" or "all,-attention": names are added from left to
// right, and names after a minus sign are removed. "true" is all and "false" is none, so that a flag can be given
// without a value.
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
			return nil, fmt.Errorf("fused operations %q: unknown name %q: use all, none, %s", s, name,
				strings.Join(FusedOps, ", "))
		}
	}
	return f, nil
}

// String returns the set as ParseFused reads it.
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
