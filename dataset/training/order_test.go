package training

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/chat"
	"restyle/internal/expect"
)

// TestOrderIsFixed compares with orders recorded when the function was written, because resumed runs rely on them.
func TestOrderIsFixed(t *testing.T) {
	for _, c := range []struct {
		n     int
		seed  int64
		epoch int
		want  []int
	}{
		{10, 0, 0, []int{8, 6, 9, 3, 5, 7, 2, 0, 4, 1}},
		{10, 0, 1, []int{6, 1, 7, 0, 5, 3, 9, 4, 2, 8}},
		{10, -1, 0, []int{6, 1, 7, 3, 8, 0, 5, 9, 2, 4}},
		{3, 1 << 40, 7, []int{0, 1, 2}},
	} {
		if got := Order(c.n, c.seed, c.epoch); !slices.Equal(got, c.want) {
			t.Errorf("Order(%d, %d, %d) = %#v, want %#v", c.n, c.seed, c.epoch, got, c.want)
		}
	}
}

func TestOrderIsAPermutation(t *testing.T) {
	seen := map[string]bool{}
	for n := range 70 {
		for epoch := range 3 {
			for _, seed := range []int64{0, 1, -1} {
				order := Order(n, seed, epoch)
				if s := fmt.Sprint(order); n > 12 && seen[s] { // among 12! or more orders, two equal ones are a fault
					t.Errorf("Order(%d, %d, %d) is another's too", n, seed, epoch)
				} else {
					seen[s] = true
				}
				slices.Sort(order)
				for i, x := range order {
					if x != i {
						t.Fatalf("Order(%d, %d, %d) is no permutation", n, seed, epoch)
					}
				}
			}
		}
	}
}

// TestOrderIsUniform checks that each of 5 examples is about equally often at each of 5 positions. The counts of 5,000
// fair orders have a standard deviation of 28; 150 is more than five of them.
func TestOrderIsUniform(t *testing.T) {
	var at [5][5]int
	for epoch := range 5000 {
		for place, i := range Order(5, 3, epoch) {
			at[place][i]++
		}
	}
	for place, counts := range at {
		for i, n := range counts {
			if n < 850 || n > 1150 {
				t.Errorf("example %d is %d times at place %d, not about 1000 times", i, n, place)
			}
		}
	}
}

// asking makes examples that ask the questions with these numbers.
func asking(questions ...uint64) *Set {
	s := &Set{}
	for i, q := range questions {
		s.Examples = append(s.Examples, Example{IDs: []int32{1, 2}, Labels: []int32{Ignore, 2}, Row: i, question: q})
	}
	return s
}

func rowsOf(examples []Example) []int {
	var rows []int
	for _, ex := range examples {
		rows = append(rows, ex.Row)
	}
	return rows
}

func TestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		n := 2 + r.IntN(60)
		questions := make([]uint64, n)
		different := map[uint64]bool{}
		kinds := 1 + r.IntN(n)
		for i := range questions {
			questions[i] = 2*uint64(r.IntN(kinds)) + 1
			different[questions[i]] = true
		}
		s := asking(questions...)
		share, seed := []float64{0.001, 0.05, 0.3, 0.5, 0.999, 1, 7}[r.IntN(7)], r.Int64()
		train, val := s.Split(share, seed)
		again, _ := s.Split(share, seed)
		if !slices.Equal(rowsOf(train), rowsOf(again)) {
			t.Fatal("two splits differ")
		}
		together := append(rowsOf(train), rowsOf(val)...)
		if !slices.IsSorted(rowsOf(train)) || !slices.IsSorted(rowsOf(val)) {
			t.Fatal("the order of the set is lost")
		}
		slices.Sort(together)
		for i, row := range together {
			if row != i {
				t.Fatalf("row %d is at %d of both sides", row, i)
			}
		}
		if len(together) != n {
			t.Fatalf("%d of %d rows are on a side", len(together), n)
		}
		side := map[uint64]bool{}
		for _, ex := range train {
			side[ex.question] = true
		}
		for _, ex := range val {
			if side[ex.question] {
				t.Fatalf("question %d is on both sides of %v", ex.question, questions)
			}
		}
		if len(different) == 1 {
			if val != nil {
				t.Fatalf("the only question is held out of %v", questions)
			}
			continue
		}
		if len(train) == 0 || len(val) == 0 {
			t.Fatalf("%d and %d of %v at share %g", len(train), len(val), questions, share)
		}
	}
}

func TestSplitShare(t *testing.T) {
	questions := make([]uint64, 1000)
	for i := range questions {
		questions[i] = mix(uint64(i)) | 1
	}
	s := asking(questions...)
	for _, c := range []struct {
		share float64
		want  int
	}{{0, 0}, {-1, 0}, {0.0001, 1}, {0.05, 50}, {0.1234, 123}, {0.5, 500}, {1, 999}} {
		_, val := s.Split(c.share, 0)
		if len(val) != c.want {
			t.Errorf("share %g: %d of 1000, want %d", c.share, len(val), c.want)
		}
	}
	_, a := s.Split(0.1, 0)
	_, b := s.Split(0.1, 1)
	if slices.Equal(rowsOf(a), rowsOf(b)) {
		t.Error("two seeds hold out the same")
	}
	// One more row changes what is held out by only one or two rows.
	more := asking(append(slices.Clone(questions), 99)...)
	_, c := more.Split(0.1, 0)
	both := 0
	for _, row := range rowsOf(a) {
		if slices.Contains(rowsOf(c), row) {
			both++
		}
	}
	if both < len(a)-2 {
		t.Errorf("only %d of %d stay held out when a row comes", both, len(a))
	}
}

// TestSplitByQuestion checks that rows with the same question are recognized by it, whatever their answers and targets
// are.
func TestSplitByQuestion(t *testing.T) {
	for _, all := range []bool{false, true} {
		e := encoderOf(t, "chatml")
		e.All = all
		var rows []task
		for i := range 40 {
			rows = append(rows, task{fmt.Sprintf("What is %d?", i%20), fmt.Sprintf("It is %d.", i)})
		}
		s, err := load(t, e, rows)
		expect.OK(t, err)
		train, val := s.Split(0.25, 1)
		if len(train) != 30 || len(val) != 10 {
			t.Errorf("%d and %d", len(train), len(val))
		}
		for _, v := range val {
			for _, x := range train {
				if v.Row%20 == x.Row%20 {
					t.Errorf("rows %d and %d ask the same and are on two sides", x.Row, v.Row)
				}
			}
		}
	}
}

// lengths makes examples of these lengths.
func lengths(tokens ...int) []Example {
	var examples []Example
	for _, n := range tokens {
		examples = append(examples, Example{IDs: make([]int32, n)})
	}
	return examples
}

func TestPack(t *testing.T) {
	for _, c := range []struct {
		lengths, order []int
		seq            int
		want           string
	}{
		{[]int{5, 5, 5}, []int{2, 0, 1}, 10, "[[2 0] [1]]"},
		{[]int{9, 6, 4, 1}, []int{0, 1, 2, 3}, 10, "[[0 3] [1 2]]"},
		{[]int{9, 6, 4, 1}, []int{3, 2, 1, 0}, 10, "[[3 0] [2 1]]"},
		{[]int{3, 10}, []int{0, 1}, 10, "[[0] [1]]"},
		{[]int{3, 3, 3, 3}, []int{1, 3}, 10, "[[1 3]]"},
		{nil, nil, 10, "[]"},
	} {
		if got := fmt.Sprint(Pack(lengths(c.lengths...), c.order, c.seq)); got != c.want {
			t.Errorf("%v in the order %v, seq %d: %s, want %s", c.lengths, c.order, c.seq, got, c.want)
		}
	}
	defer func() {
		if p := recover(); fmt.Sprint(p) != "training: Pack: example 1 has 11 tokens, a pack 10" {
			t.Errorf("an example that is too long: %v", p)
		}
	}()
	Pack(lengths(1, 11), []int{0, 1}, 10)
}

func TestPackProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		seq := 1 + r.IntN(300)
		sizes := make([]int, r.IntN(80))
		total := 0
		for i := range sizes {
			sizes[i] = 1 + r.IntN(seq)
			total += sizes[i]
		}
		examples := lengths(sizes...)
		order := Order(len(sizes), r.Int64(), 0)
		place := map[int]int{}
		for p, i := range order {
			place[i] = p
		}
		rows := Pack(examples, order, seq)
		seen := map[int]bool{}
		last := -1
		for _, row := range rows {
			n, before := 0, -1
			for _, i := range row {
				if seen[i] {
					t.Fatalf("example %d is there twice", i)
				}
				if place[i] < before {
					t.Fatalf("the order within %v is lost", row)
				}
				seen[i], before = true, place[i]
				n += sizes[i]
			}
			if n > seq || n == 0 {
				t.Fatalf("a row of %d tokens, seq %d", n, seq)
			}
			if place[row[0]] < last {
				t.Fatalf("rows are not in the order of their first examples")
			}
			last = place[row[0]]
		}
		if len(seen) != len(sizes) {
			t.Fatalf("%d of %d examples are packed", len(seen), len(sizes))
		}
		// No two packs fit into one, so there are fewer than twice as many as necessary.
		if least := (total + seq - 1) / seq; len(rows) > max(1, 2*least) {
			t.Errorf("%d rows where %d might do", len(rows), least)
		}
	}
}

// BenchmarkPack packs 40,000 examples, with the lengths of typical answers, into long packs.
func BenchmarkPack(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	sizes := make([]int, 40000)
	total := 0
	for i := range sizes {
		sizes[i] = 20 + int(150*r.ExpFloat64())%2000
		total += sizes[i]
	}
	examples, order := lengths(sizes...), Order(len(sizes), 0, 0)
	rows := 0
	for b.Loop() {
		rows = len(Pack(examples, order, 8192))
	}
	b.ReportMetric(float64(total)/float64(rows*8192), "filled")
}

// TestAsked checks that rows are told apart by all questions in them and their roles, and that answers do not count.
func TestAsked(t *testing.T) {
	same := [][]chat.Message{
		talk("uHello", "aHi.", "uAnd two?", "aFour."),
		talk("uHello", "aOh.", "uAnd two?", "aTwo."),
	}
	for _, c := range same {
		if asked(c) != asked(same[0]) || asked(c) == 0 {
			t.Errorf("%v: %d, want %d", c, asked(c), asked(same[0]))
		}
	}
	seen := map[uint64]string{asked(same[0]): "hello"}
	for _, c := range [][]chat.Message{
		talk("uHello", "aHi.", "uAnd three?", "aSix."), // the same beginning
		talk("aHello.", "uOne?", "aOne."),              // answers first
		talk("aHello.", "uTwo?", "aTwo."),
		talk("sBe.", "uOne?", "aOne."),
		talk("uBe.", "uOne?", "aOne."), // other roles
		talk("uBe.One?", "aOne."),      // divided elsewhere
		talk("uBe", "u.One?", "aOne."),
		talk("uoneusertwo", "aOne."), // divided where a role could begin
		talk("uone", "utwo", "aOne."),
	} {
		q := asked(c)
		if q == 0 || seen[q] != "" {
			t.Errorf("%v has the number %d of %s", c, q, seen[q])
		}
		seen[q] = fmt.Sprint(c)
	}
	for _, c := range [][]chat.Message{talk("aYes."), talk("sBe.", "aYes."), nil} {
		if q := asked(c); q != 0 {
			t.Errorf("%v asks nothing, and has the number %d", c, q)
		}
	}
}

// TestSplitTellsOpenersApart checks that conversations that begin with the same greeting are held out by the questions
// that follow.
func TestSplitTellsOpenersApart(t *testing.T) {
	for _, opener := range []string{"uHello", "aWelcome."} {
		s := &Set{}
		for i := range 20 {
			messages := append(talk(opener), talk("aHi.", fmt.Sprintf("uWhat is %d?", i/2), "aA number.")...)
			s.Examples = append(s.Examples, Example{IDs: []int32{1, 2}, Labels: []int32{Ignore, 2}, Row: i,
				question: asked(messages)})
		}
		train, val := s.Split(0.5, 0)
		if len(train) != 10 || len(val) != 10 {
			t.Errorf("%s: %d and %d", opener, len(train), len(val))
		}
		held := map[int]bool{}
		for _, e := range val {
			held[e.Row/2] = true
		}
		for _, e := range train {
			if held[e.Row/2] {
				t.Errorf("%s: question %d is on both sides", opener, e.Row/2)
			}
		}
	}
}

// TestSHA256_ChangesWithEachID checks that the checksum of a set changes with each id, each label, and the end of each
// example.
func TestSHA256_ChangesWithEachID(t *testing.T) {
	sum := func(examples ...Example) string {
		s := &Set{Examples: examples}
		s.count()
		return s.SHA256
	}
	seen := map[string]int{}
	for i, examples := range [][]Example{
		{{IDs: []int32{1, 2, 3}, Labels: []int32{Ignore, 2, 3}}},
		{{IDs: []int32{1, 2, 4}, Labels: []int32{Ignore, 2, 3}}},
		{{IDs: []int32{1, 2, 3}, Labels: []int32{Ignore, Ignore, 3}}},
		{{IDs: []int32{1, 2, 3}, Labels: []int32{Ignore, 2, Ignore}}},
		{{IDs: []int32{1, 2}, Labels: []int32{Ignore, 2}}, {IDs: []int32{3}, Labels: []int32{3}}},
		{{IDs: []int32{1}, Labels: []int32{Ignore}}, {IDs: []int32{2, 3}, Labels: []int32{2, 3}}},
	} {
		if before, ok := seen[sum(examples...)]; ok {
			t.Errorf("sets %d and %d have the same sum", before, i)
		}
		seen[sum(examples...)] = i
	}
}
