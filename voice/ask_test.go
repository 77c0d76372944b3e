package voice

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/hostile"
)

// TestAskReference measures how many real requests Ask understands, and checks that each clause can be printed.
func TestAskReference(t *testing.T) {
	for _, set := range []struct {
		name                 string
		wantAsk, wantKeyword float64
	}{
		{"original_passive_aggressive_data.json", 0.9, 0.8},
		{"gpteacher_codegen-instruct.json", 0.75, 0.8},
	} {
		t.Run(set.name, func(t *testing.T) {
			rows := reference(t, set.name)
			asks, keys, gerunds := 0, 0, 0
			for _, r := range rows {
				ask, ok := Ask(r.Instruction)
				if ok {
					asks++
					checkAsk(t, ask)
					if gerundClause(ask) != "" {
						gerunds++
					}
				}
				if Keyword(r.Instruction) != "" {
					keys++
				}
			}
			t.Logf("of %d questions %d have a clause, %d an -ing form of it, %d a keyword", len(rows), asks, gerunds, keys)
			n := float64(len(rows))
			if float64(asks) < set.wantAsk*n || float64(keys) < set.wantKeyword*n {
				t.Errorf("%d clauses and %d keywords of %d", asks, keys, len(rows))
			}
		})
	}
}

func checkAsk(t *testing.T, ask string) {
	t.Helper()
	words := strings.Fields(ask)
	if !printableAsk(ask) || len(words) < 3 || len(words) > maxAskWords || !imperatives[words[0]] {
		t.Errorf("unfit clause %q", ask)
	}
}

func FuzzAsk(f *testing.F) {
	for _, seed := range []string{"Write a function (to sort", "Given a, b: please, could you write \"x y z",
		"I need a a function that", "how to how to how to", "Write a.b.c. Sort my i am list", "(((", "In , , ,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, question string) {
		var ask string
		var ok bool
		hostile.Within(t, hostile.Linear(len(question)), func() { ask, ok = Ask(question) })
		if ok != (ask != "") {
			t.Fatalf("%q, %v", ask, ok)
		}
		if ok {
			checkAsk(t, ask)
			if c := gerundClause(ask); c != "" && !strings.Contains(c, "ing") {
				t.Errorf("-ing form %q", c)
			}
		}
		first := len(keywords)
		for _, forms := range keywordForms {
			for _, form := range forms {
				if strings.Contains(padded(question), form.padded) {
					first = min(first, form.rank)
				}
			}
		}
		if k := Keyword(question); k != append(slices.Clone(keywords), "")[first] {
			t.Errorf("keyword %q of %q", k, question)
		}
	})
}
