package teacher

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/voice"
)

// A restatement is an answer in prose and a good rewrite of it, with changes that spoil the rewrite.
type restatement struct {
	question, answer, rewrite string
	faults                    []fault
}

// A fault replaces text of a rewrite, which then has to fail exactly these checks, separated by spaces.
type fault struct{ old, new, fails string }

func restatements(t testing.TB) (list []restatement) {
	for _, c := range expect.Cases(t, "testdata/restatements.txt", "answer", "rewrite", "old", "new", "fails") {
		r := restatement{question: c.Name, answer: c.Get("answer"), rewrite: c.Get("rewrite")}
		for i, old := range c.All("old") {
			r.faults = append(r.faults, fault{old, c.All("new")[i], c.All("fails")[i]})
		}
		list = append(list, r)
	}
	return list
}

func TestRestatements(t *testing.T) {
	style := passiveAggressive(t)
	audit := func(r restatement, rewrite string) (failed []string, why []string) {
		for _, k := range Audit(style, NoLanguage, dataset.Rewritten{Instruction: r.question, OutputOriginal: r.answer,
			OutputPassiveAggressive: rewrite}) {
			if !k.Pass {
				failed, why = append(failed, k.ID), append(why, k.ID+": "+k.Value)
			}
		}
		return failed, why
	}
	all := restatements(t)
	for _, r := range all {
		if _, why := audit(r, r.rewrite); len(why) > 0 {
			t.Errorf("%s\n  %s", r.question, strings.Join(why, "\n  "))
		}
		for _, f := range r.faults {
			if !strings.Contains(r.rewrite, f.old) {
				t.Fatalf("%s: no %q", r.question, f.old)
			}
			failed, why := audit(r, strings.Replace(r.rewrite, f.old, f.new, 1))
			if !slices.Equal(failed, strings.Fields(f.fails)) {
				t.Errorf("%s: %q for %q: fails %v, wanted is %q:\n  %s", r.question, f.new, f.old, failed, f.fails,
					strings.Join(why, "\n  "))
			}
		}
		// No answer answers the other questions.
		for _, other := range all {
			if failed, _ := audit(restatement{question: other.question, answer: other.answer}, r.rewrite); len(failed) == 0 &&
				other.question != r.question {
				t.Errorf("%s: answered by %s", other.question, r.rewrite)
			}
		}
	}
}

// FuzzRestated repeats answers: an answer contains all of its own facts.
func FuzzRestated(f *testing.F) {
	for _, r := range restatements(f) {
		f.Add(r.question, r.answer)
		f.Add(r.answer, r.rewrite)
	}
	f.Add("How?", "Get 'a `b` \"c\"' without the '.txt' of \u00bd /a/b.c, _not_ at 12:60 or 1,000,0 or 40/39/2024; "+
		"noon, half a dozen.")
	style, err := voice.Builtin(voice.Default)
	expect.OK(f, err)
	f.Fuzz(func(t *testing.T, question, answer string) {
		if !utf8.ValidString(answer) {
			return
		}
		var c *candidate
		hostile.Within(t, hostile.Linear(len(question)+len(answer)), func() {
			c = newCandidate(style, question, splitIn(NoLanguage, answer), answer)
		})
		for _, k := range textChecks {
			if k.only != restated || !c.parts.restated || len(c.parts.Blocks) > 0 {
				continue
			}
			if ok, why := k.f(c); !ok {
				t.Errorf("%s: %s", k.id, why)
			}
		}
	})
}
