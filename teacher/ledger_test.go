package teacher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"restyle/voice"
)

func TestRotateIsFairAndSpaced(t *testing.T) {
	for _, k := range []int{1, 2, 3, 14, 49} {
		for seed := range uint64(3) {
			counts, last := make([]int, k), make([]int, k)
			for i := range last {
				last[i] = -k
			}
			for n := range 20*k + min(3, k-1) {
				c := rotate(seed, 7, n, k)
				counts[c]++
				if n-last[c] <= k/2-1 {
					t.Fatalf("k %d: value %d came back after %d rows", k, c, n-last[c])
				}
				last[c] = n
			}
			for c, n := range counts {
				if n < 20 || n > 21 {
					t.Errorf("k %d: value %d came %d times in %d rounds", k, c, n, 20)
				}
			}
		}
	}
	if rotate(0, 1, 5, 40) == rotate(1, 1, 5, 40) && rotate(0, 1, 6, 40) == rotate(1, 1, 6, 40) &&
		rotate(0, 1, 7, 40) == rotate(1, 1, 7, 40) {
		t.Error("another seed gives the same order")
	}
}

// TestLedgerNearCopy adds a row that says what the first row says in another order, and little else.
func TestLedgerNearCopy(t *testing.T) {
	var sentences []string
	for i := range 12 {
		sentences = append(sentences, fmt.Sprintf("Here p%[1]d says q%[1]d and r%[1]d while s%[1]d waits for t%[1]d and "+
			"u%[1]d.", i))
	}
	l := newLedger(&voice.Style{Repeat: [2]float64{3, 3}})
	if refusal := l.admit(saidIn(voice.Read("First of all. "+strings.Join(sentences, " ")), "")); refusal != "" {
		t.Fatal(refusal)
	}
	slices.Reverse(sentences)
	if refusal := l.admit(saidIn(voice.Read("Now for another. "+strings.Join(sentences, " ")), "")); refusal != nearCopy {
		t.Errorf("a near copy: %q", refusal)
	}
}

func TestOpenersFollowQuestions(t *testing.T) {
	names := func(k int) (all []string) {
		for i := range k {
			all = append(all, fmt.Sprintf("Opener n%d", i))
		}
		return all
	}
	for _, k := range []int{minOpeners, 34, 105} {
		d, again := newAssigner(&voice.Style{Openers: names(k)}, 3), newAssigner(&voice.Style{Openers: names(k)}, 3)
		rng := rand.New(rand.NewPCG(1, uint64(k)))
		counts, shared := map[string]int{}, map[string]map[string]int{}
		const rows = 4000
		for n := range rows {
			// A third of the questions start with the same word, which is too many for one opener. The others start
			// with one of 60 words.
			first := "Write"
			if rng.IntN(3) > 0 {
				first = fmt.Sprintf("Verb%d", rng.IntN(60))
			}
			question := fmt.Sprintf("%s a%d b%d c", first, rng.IntN(9), rng.IntN(9))
			c := d.next(question)
			if other := again.next(question); other.Opener != c.Opener {
				t.Fatalf("k %d, row %d: %q and %q", k, n, c.Opener, other.Opener)
			}
			counts[c.Opener]++
			if shared[first] == nil {
				shared[first] = map[string]int{}
			}
			shared[first][c.Opener]++
			// The ledger would refuse an opener of more than a tenth of the rows.
			if n > 100 && counts[c.Opener] > budget(openerShare, n, 3) {
				t.Fatalf("k %d, row %d: %q was assigned %d times", k, n, c.Opener, counts[c.Opener])
			}
		}
		if len(counts) != k {
			t.Errorf("%d of %d openers were assigned", len(counts), k)
		}
		most := 0
		for _, n := range shared["Verb7"] {
			most = max(most, n)
		}
		// A first word that occurs in one row in ninety gets its own opener, unless there are few openers.
		all := 0
		for _, n := range shared["Verb7"] {
			all += n
		}
		if k == 105 && most < all*2/3 {
			t.Errorf("%d of %d rows with the same first word have the same opener", most, all)
		}
	}
	// Case and later words make no difference within the quota.
	d := newAssigner(&voice.Style{Openers: names(105)}, 0)
	if a, b := d.next("Reverse a list").Opener, d.next("reverse the string").Opener; a != b {
		t.Errorf("%q and %q", a, b)
	}
	if d.next("").Opener == "" {
		t.Error("no opener for an empty question")
	}
}

// randomProse returns text that repeats itself often, so that every rule of the ledger has something to refuse.
func randomProse(rng *rand.Rand) string {
	var b strings.Builder
	// The first opener is too frequent, and some texts continue with the same three words.
	o := max(0, rng.IntN(60)-8)
	fmt.Fprintf(&b, "Opener n%d ", o)
	if rng.IntN(2) == 0 {
		fmt.Fprintf(&b, "goes on thus ")
	}
	fmt.Fprintf(&b, "w%d w%d w%d. ", rng.IntN(3000), rng.IntN(3000), rng.IntN(3000))
	for range 2 + rng.IntN(4) {
		switch k := rng.IntN(60); {
		case k < 15:
			fmt.Fprintf(&b, "s%da s%db s%dc s%dd. ", k, k, k, k)
		case k < 18: // five words that recur in different sentences
			fmt.Fprintf(&b, "w%d r%da r%db r%dc r%dd r%de w%d. ", rng.IntN(3000), k, k, k, k, k, rng.IntN(3000))
		default:
			for range 4 + rng.IntN(8) {
				fmt.Fprintf(&b, "w%d ", rng.IntN(3000))
			}
			b.WriteString("x. ")
		}
	}
	return b.String()
}

// TestLedgerBudget admits random rows and recounts the accepted ones by brute force.
func TestLedgerBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := newLedger(&voice.Style{Repeat: [2]float64{3, 3}})
	var rows []string
	refusals := map[string]int{}
	for range 3000 {
		prose := randomProse(rng)
		if refusal := l.admit(saidIn(voice.Read(prose), "")); refusal != "" {
			refusals[strings.SplitN(refusal, `"`, 2)[0]]++
			continue
		}
		rows = append(rows, prose)
		if rng.IntN(50) == 0 { // a near copy of an accepted row
			words := strings.Fields(rows[rng.IntN(len(rows))])
			words[len(words)-2] = "changed"
			if l.admit(saidIn(voice.Read(strings.Join(words, " ")), "")) == "" {
				t.Fatalf("a near copy was accepted: %q", words)
			}
		}
	}
	openers, firsts, sentences, shingles := map[string]int{}, map[string]int{}, map[string]int{}, map[uint64]int{}
	sets := make([]map[uint64]bool, len(rows))
	for i, r := range rows {
		openers[voice.Read(r).Opener()]++
		firsts[voice.Read(r).FirstFive()]++
		for _, s := range distinct(voice.Read(r).Sentences()) {
			sentences[s]++
		}
		sets[i] = map[uint64]bool{}
		for _, s := range distinct(voice.Read(r).Shingles(5)) {
			shingles[s]++
			sets[i][s] = true
		}
	}
	n := float64(len(rows))
	check := func(what string, count int, share float64) {
		if float64(count) > share*n {
			t.Errorf("%s: %d of %d rows, allowed %.0f%%", what, count, len(rows), 100*share)
		}
	}
	for o, c := range openers {
		check("opener "+o, c, openerShare)
	}
	for o, c := range firsts {
		check("first five "+o, c, firstShare)
	}
	for o, c := range sentences {
		check("sentence "+o, c, 0.03)
	}
	for o, c := range shingles {
		check(fmt.Sprint("shingle ", o), c, shingleShare)
	}
	for i := range sets {
		for j := range i {
			common := 0
			for s := range sets[i] {
				if sets[j][s] {
					common++
				}
			}
			if union := len(sets[i]) + len(sets[j]) - common; union > 0 && 2*common >= union {
				t.Errorf("rows %d and %d overlap by %d of %d:\n%s\n%s", j, i, common, union, rows[j], rows[i])
			}
		}
	}
	if len(rows) < 500 || len(refusals) < 4 {
		t.Errorf("%d rows and refusals %v: the test does not exercise every rule", len(rows), refusals)
	}
}

func TestLedgerRefusalRecordsNothing(t *testing.T) {
	l := newLedger(&voice.Style{Repeat: [2]float64{3, 3}})
	a := "Oh good, another question about lists that nobody has ever asked before today."
	if r := l.admit(saidIn(voice.Read(a), "x")); r != "" {
		t.Fatal(r)
	}
	before := fmt.Sprintf("%+v %+v %+v %d", l.rows, l.openers, l.sentences, len(l.texts.met))
	for range 2 {
		if l.admit(saidIn(voice.Read(a), "x")) == "" {
			t.Fatal("the same text was accepted twice")
		}
	}
	if after := fmt.Sprintf("%+v %+v %+v %d", l.rows, l.openers, l.sentences, len(l.texts.met)); after != before {
		t.Errorf("a refused row was recorded: %s, then %s", before, after)
	}
}

// TestBudgetBounds uses up each budget and then exceeds it by one, with 100 rows and with ten, where a few uses are
// free.
func TestBudgetBounds(t *testing.T) {
	for refusal, c := range map[string]struct {
		set    func(*said)
		limits [4]int // of 10, 100, 500 and 2000 rows
	}{
		`already open with "same"`:             {func(s *said) { s.opener = "same" }, [4]int{3, 10, 50, 200}},
		`already use the device "same"`:        {func(s *said) { s.device = "same" }, [4]int{3, 10, 50, 200}},
		`already begin "same"`:                 {func(s *said) { s.first = "same" }, [4]int{2, 5, 25, 100}},
		"it has nothing to do":                 {func(s *said) { s.loose = true }, [4]int{5, 50, 250, 1000}},
		`already contain the sentence "same"`:  {func(s *said) { s.sentences = []string{"same"} }, [4]int{2, 3, 10, 20}},
		"already share a run of eight words":   {func(s *said) { s.runs = append(s.runs, 7) }, [4]int{2, 3, 10, 40}},
		"already share a run of five words wi": {func(s *said) { s.shingles = append(s.shingles, 7) }, [4]int{3, 8, 40, 160}},
	} {
		for i, limit := range c.limits {
			rows := [4]int{10, 100, 500, 2000}[i]
			l := newLedger(&voice.Style{Repeat: [2]float64{1, 2}})
			row := func(i int) said {
				word := fmt.Sprint(i)
				return said{opener: word, device: "d" + word, first: word, sentences: []string{word},
					shingles: []uint64{uint64(i) + 1000},
					runs:     []uint64{uint64(i) + 1000}}
			}
			for i := range rows - 1 {
				s := row(i)
				if i < limit-1 {
					c.set(&s)
				}
				l.record(s)
			}
			s := row(rows)
			c.set(&s)
			if got := l.excess(s, 1); got != "" {
				t.Errorf("%s, %d rows: the last of %d that are allowed is refused: %s", refusal, rows, limit, got)
			}
			l.record(s)
			if got := l.excess(s, 0); got != "" {
				t.Errorf("%s, %d rows: %d are allowed and said to be too many: %s", refusal, rows, limit, got)
			}
			s = row(rows + 1)
			c.set(&s)
			if got := l.excess(s, 1); !strings.Contains(got, refusal) {
				t.Errorf("%s, %d rows: one more than %d: %q", refusal, rows, limit, got)
			}
			if s = row(rows + 2); l.excess(s, 1) != "" {
				t.Errorf("%s, %d rows: refuses a row that has nothing in common: %s", refusal, rows, l.excess(s, 1))
			}
		}
	}
}

// TestLedger_WithoutWhatOthersSay takes what another text says out of a text: what is left is compared as if it had
// been there alone.
func TestLedger_WithoutWhatOthersSay(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	a, b := voice.Read(randomProse(rng)), voice.Read(randomProse(rng))
	s := saidIn(a, "")
	if rest := s.without(saidIn(b, "")); rest.bands != s.bands || !slices.Equal(rest.shingles, s.shingles) {
		t.Error("another text takes something away")
	}
	if rest := s.without(s); rest.bands != signature(nil) || len(rest.shingles)+len(rest.runs)+len(rest.sentences) > 0 {
		t.Errorf("something is left: %+v", rest)
	}
}
