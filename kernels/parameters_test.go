package kernels_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"restyle/kernels"
)

// elsewhere has the parameters, by the start of their names, that neither a case nor a form of AdamW varies, and the
// tests that do.
var elsewhere = map[string]string{
	"op_adamw.cu adamw_range":         "TestAdamWAll",
	"op_adamw.cu adamw_squares":       "TestSquaresAll",
	"op_squares.cu add_squares":       "TestAddSquares",
	"step_control.cu":                 "TestDecide",
	"product_few.cu":                  "TestRowsAlone_OfAnyNumber",
	"op_sort.cu sort_ids pad":         "TestEmbeddingPad",
	"op_attention_dq.cu attention_dq": "a backward pass has sequences, and shares its code with caches, which have none",
	"op_attention_dkv.cu":             "the same",
}

// TestParameters finds what no case tests of a kernel: an operand that is left out of every case or of none, although
// the kernel can do without it, and a number that is always the same. A fault in what depends on it would not be found.
func TestParameters(t *testing.T) {
	given := kernels.EveryGiven(t, checkedLaunches(t, true))
	unused := maps.Clone(elsewhere)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		g, wrong := given[name], ""
		switch {
		case len(g.Values) == 0:
			wrong = "no case launches its kernel"
		case g.Pointer && !g.Values[1]:
			wrong = "NULL in every case"
		case g.Nullable && !g.Values[0]:
			wrong = "NULL in no case"
		case !g.Pointer && len(g.Values) == 1:
			wrong = "the same in every case"
		}
		for known := range elsewhere {
			if wrong != "" && strings.HasPrefix(name, known) {
				wrong = ""
				delete(unused, known)
			}
		}
		if wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
	for known := range unused {
		t.Errorf("%s is varied by the cases now: take it off the list", known)
	}
}
