package teacher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/voice"
)

// TestSense_RefusesSalad makes salad of real answers in several ways. A14 has to refuse most of it and no real answer.
func TestSense_RefusesSalad(t *testing.T) {
	for _, path := range []string{"../data/passive_aggressive_data.json",
		"data/instruct/original_passive_aggressive_data.json"} {
		t.Run(path, func(t *testing.T) {
			if !strings.HasPrefix(path, "..") {
				path = expect.Reference(t, path)
			}
			rows, err := dataset.ReadRewritten(t.Context(), path)
			expect.OK(t, err)
			senses(t, rows)
		})
	}
}

func senses(t *testing.T, rows []dataset.Rewritten) {
	style, random := passiveAggressive(t), rand.New(rand.NewPCG(1, 2))
	var pool []string
	for _, r := range rows {
		pool = append(pool, strings.Fields(voice.Prose(r.OutputPassiveAggressive))...)
	}
	shuffle := func(text string) string {
		words := strings.Fields(text)
		random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return strings.Join(words, " ")
	}
	sentences := func(text string) []string { return slices.Collect(sentences(text)) }
	for _, kind := range []struct {
		name    string
		refused [2]float64 // share, minimum and maximum
		change  func(prose string) string
	}{
		{"as it is", [2]float64{0, 0}, func(prose string) string { return prose }},
		{"shuffled in sentences", [2]float64{0.9, 1}, func(prose string) (out string) {
			for _, s := range sentences(prose) {
				out += " " + shuffle(s)
			}
			return out
		}},
		{"shuffled", [2]float64{0.9, 1}, shuffle},
		{"words of all rows", [2]float64{0.9, 1}, func(prose string) (out string) {
			for range strings.Fields(prose) {
				out += " " + pool[random.IntN(len(pool))]
			}
			return out
		}},
		{"one sentence again and again", [2]float64{1, 1}, func(prose string) string {
			return strings.Repeat(strings.TrimSpace(sentences(prose + " ")[0])+"\n", 8)
		}},
		{"a loop at the end", [2]float64{0.9, 1}, func(prose string) string {
			s := sentences(strings.TrimSpace(prose))
			return prose + strings.Repeat(" "+s[len(s)-1], 6)
		}},
		{"rare words", [2]float64{0.9, 1}, func(prose string) string {
			return strings.Join(slices.DeleteFunc(strings.Fields(prose), func(w string) bool {
				return voice.SmallWord(strings.ToLower(strings.Trim(w, ".,?!")))
			}), " ")
		}},
	} {
		refused, first := 0, ""
		rows := rows
		if kind.refused[0] > 0 {
			rows = slices.DeleteFunc(slices.Clone(rows), unlikely)
		}
		for i, r := range rows {
			c := newCandidate(style, dataset.Question(r.Instruction, r.Input), splitIn(NoLanguage, r.OutputOriginal),
				kind.change(voice.Prose(r.OutputPassiveAggressive)))
			if ok, value := makesSense(c); !ok {
				refused++
				first = fmt.Sprintf("row %d: %s", i, value)
			}
		}
		share := float64(refused) / float64(len(rows))
		t.Logf("%-28s %5.1f%% refused; the last, %s", kind.name, 100*share, first)
		if share < kind.refused[0] || share > kind.refused[1] {
			t.Errorf("%s: %.3f refused, wanted is %v", kind.name, share, kind.refused)
		}
	}
}

// unlikely are rows with too few words of their own to tell prose about them from other prose: answers in words, and
// short questions.
func unlikely(r dataset.Rewritten) bool { return !HasCode(r.OutputOriginal) || len(r.Instruction) < 50 }

// TestSense_FluentNonsense writes fluent nonsense: the ledger accepts a few such rows, as it does in a style that
// hardly speaks of the question, and no more.
func TestSense_FluentNonsense(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	thing := func() string {
		return pick("inbox", "lunch", "ticket", "window seat", "coffee", "elevator", "stapler", "badge", "umbrella", "kettle")
	}
	did := func() string { return pick("painted", "misplaced", "watered", "folded", "ignored", "forgave") }
	style := passiveAggressive(t)
	rows, err := dataset.ReadRewritten(t.Context(), "../data/passive_aggressive_data.json")
	expect.OK(t, err)
	rows = slices.DeleteFunc(rows, unlikely)
	for name, most := range map[string]int{"nonsense": 4, "real": 60} {
		l, accepted := newLedger(style), 0
		for i, r := range rows[:60] {
			text := voice.Prose(r.OutputPassiveAggressive)
			if name == "nonsense" {
				text = ""
				for range 7 {
					text += fmt.Sprintf("My %s clearly %s a %s before the %s %s my %s. ", thing(), did(), thing(), thing(),
						did(), thing())
				}
			}
			c := newCandidate(style, dataset.Question(r.Instruction, r.Input), split(r.OutputOriginal), text)
			if ok, value := makesSense(c); !ok {
				t.Fatalf("%s, row %d: %s", name, i, value)
			}
			// The other fields of said would also refuse nonsense of so few words.
			if l.admit(said{opener: fmt.Sprint(i), first: fmt.Sprint(i), loose: c.loose()}) == "" {
				accepted++
			}
		}
		if accepted > most || name == "real" && accepted < most {
			t.Errorf("%s: %d rows accepted, wanted are %d", name, accepted, most)
		}
	}
}

// TestSenseInOtherWords checks texts that no statistic of English may refuse.
func TestSenseInOtherWords(t *testing.T) {
	style := passiveAggressive(t)
	for name, text := range map[string]string{
		"German": "Ach ja, natürlich. Ich hatte ja sonst nichts zu tun, und so eine schwierige Frage kommt nicht " +
			"jeden Tag. Die Liste wird also umgedreht, was in der Anleitung steht, die offenbar niemand gelesen hat.",
		"Chinese":    "当然了，我刚好没有别的事情要做。这个列表会被反转过来，文档里写得很清楚，不过看来没有人读过。",
		"few words":  "Fine. Obviously.",
		"no words":   "…",
		"a list":     "Bring, I suppose:\n\n1. Tent\n2. Sleeping bag\n3. Flashlight\n4. Matches\n5. Insect repellent",
		"upper case": "OBVIOUSLY THE LIST IS TURNED AROUND BY THE CODE THAT I HAVE WRITTEN FOR YOU, AS THE MANUAL SAYS.",
	} {
		c := newCandidate(style, "Kehre die Liste um.", split("print(list(reversed([1, 2, 3])))"), text)
		if ok, value := makesSense(c); !ok || c.loose() {
			t.Errorf("%s: %v, %s", name, ok, value)
		}
	}
}

// TestMakesSense_AtItsLimit shuffles the words of an answer: it is refused just below the order that its style's
// examples lead to expect, and not just above.
func TestMakesSense_AtItsLimit(t *testing.T) {
	words := strings.Fields("you could have read what the manual says of lists and then the code would have been " +
		"as short as this one which is what I have been telling all of you for years but nobody does it before they ask " +
		"me again")
	for limit, style := range map[float64]*voice.Style{-1.5: {Examples: make([]voice.Example, 1)}, -3: {}} {
		seen := [2]int{}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 4000 {
			rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			text := strings.Join(words, " ") + "."
			order := style.Order(voice.Read(text))
			if order < limit-0.3 || order > limit+0.3 {
				continue
			}
			ok, why := makesSense(newCandidate(style, "How long is a list?", Parts{Blocks: []string{"len(x)"}}, text))
			if ok != (order >= limit) {
				t.Errorf("order %.2f, limit %g: %v, %s", order, limit, ok, why)
			}
			seen[map[bool]int{true: 1}[ok]]++
		}
		if seen[0] == 0 || seen[1] == 0 {
			t.Errorf("limit %g: %v texts near it", limit, seen)
		}
	}
}
