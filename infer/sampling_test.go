package infer

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// vector is one line of recorded sampling: logits, and the tokens that remain under several settings.
type vector struct {
	Name    string
	Vocab   int
	Logits  []byte `json:"logits_f32_le"`
	History []int32
	Argmax  int32
	Cases   []struct {
		Params struct {
			Temperature       *float64
			TopK              int     `json:"top_k"`
			TopP              float64 `json:"top_p"`
			MinP              float64 `json:"min_p"`
			RepetitionPenalty float64 `json:"repetition_penalty"`
		}
		Kept   []int32
		Probs  []float64
		Tie    bool    `json:"top_p_tie"`
		Margin float64 `json:"top_p_margin"` // how far the nearest sum is from top_p, which nothing computes
	}
}

func (v vector) logits() []float32 {
	logits := make([]float32, len(v.Logits)/4)
	for i := range logits {
		logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(v.Logits[4*i:]))
	}
	return logits
}

func TestRecordedSampling(t *testing.T) {
	expect.Lines(t, "testdata/sampling.jsonl", func(_ int, v vector) { v.compare(t) })
}

func TestReferenceSampling(t *testing.T) {
	for _, path := range expect.Recordings(t, "sampling.jsonl") {
		expect.Lines(t, path, func(_ int, v vector) { v.compare(t) })
	}
}

// compare compares the greedy choice, and what remains under each of the settings.
func (v vector) compare(t *testing.T) {
	t.Helper()
	logits := v.logits()
	before := slices.Clone(logits)
	greedy, err := NewSampler(Sampling{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := greedy.Next(logits); err != nil || id != v.Argmax || len(logits) != v.Vocab || len(v.Cases) == 0 {
		t.Errorf("%s: greedy chose %d of %d, %v; want %d of %d; %d cases", v.Name, id, len(logits), err, v.Argmax, v.Vocab,
			len(v.Cases))
	}
	for _, c := range v.Cases {
		p := c.Params
		settings := Sampling{Temperature: 1, TopK: p.TopK, TopP: p.TopP, MinP: p.MinP, RepetitionPenalty: p.RepetitionPenalty}
		if p.Temperature != nil {
			settings.Temperature = *p.Temperature
		}
		name := fmt.Sprintf("%s %+v", v.Name, settings)
		s, err := NewSampler(settings, v.History)
		if err != nil {
			t.Fatal(name, err)
		}
		s.Distribution(logits) // what a filter leaves out is back for the next token
		ids, probs, err := s.Distribution(logits)
		if err != nil {
			t.Error(name, err)
			continue
		}
		want := c.Probs
		if c.Tie { // which of several equal ones remain is undefined
			want = slices.Sorted(slices.Values(want))
			slices.Sort(probs)
		} else if !slices.Equal(ids, c.Kept) {
			t.Errorf("%s: kept %v, want %v", name, ids, c.Kept)
			continue
		}
		if len(probs) != len(want) || len(ids) != len(c.Kept) {
			t.Errorf("%s: %d kept, want %d and %d", name, len(probs), len(want), len(c.Kept))
			continue
		}
		for i := range probs {
			// The recorded float32 probabilities differ from those in float64 by up to 3.2e-7.
			if !(math.Abs(probs[i]-want[i]) <= 1e-6) {
				t.Errorf("%s: probability %d is %v, want %v", name, i, probs[i], want[i])
				break
			}
		}
	}
	if !slices.Equal(logits, before) {
		t.Errorf("%s: the logits were changed", v.Name)
	}
}

// TestCut compares cut with a full sort, on scores of every shape that makes the bins uneven.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct { // in this order: they share the random numbers
		name  string
		shape func(i int) float32
	}{
		{"normal", func(int) float32 { return float32(r.NormFloat64()) }},
		{"rounded", func(int) float32 { return float32(math.Round(r.NormFloat64())) }},
		{"equal", func(int) float32 { return 3 }},
		{"outlier", func(i int) float32 {
			if i == 17 {
				return 1e38
			}
			return float32(r.NormFloat64())
		}},
		{"both ends", func(i int) float32 { return []float32{-3e38, 3e38, float32(r.NormFloat64())}[i%3] }},
		{"steep", func(i int) float32 { return float32(math.Exp(r.NormFloat64() * 8)) }},
	} {
		for _, n := range []int{1, 2, 63, 64, 65, 66, 1000, 5003} {
			s := &Sampler{active: make([]int32, n)}
			for i := range n {
				s.scores = append(s.scores, c.shape(i))
				s.weights = append(s.weights, r.Float64())
			}
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int {
				switch {
				case s.scores[a] > s.scores[b]:
					return -1
				case s.scores[a] < s.scores[b]:
					return 1
				}
				return 0
			})
			for _, k := range []int{1, 2, n / 3, n - 1, n} {
				if k < 1 || k > n {
					continue
				}
				score, end := ones(s).cut(float64(k))
				if want := order[k-1]; end != want || score != s.scores[want] {
					t.Errorf("%s, %d scores: number %d is %d (%v), want %d (%v)", c.name, n, k, end, score, want, s.scores[want])
				}
				// Now with weights. The limit is in the middle of a weight, so that rounding does not matter.
				var above float64
				for _, i := range order[:k-1] {
					above += s.weights[i]
				}
				if _, end := s.cut(above + s.weights[order[k-1]]/2); end != order[k-1] {
					t.Errorf("%s, %d scores: the weights reach the limit at %d, want %d", c.name, n, end, order[k-1])
				}
			}
			if _, end := s.cut(math.Inf(1)); end != order[n-1] {
				t.Errorf("%s, %d scores: without reaching the limit all are taken, not up to %d", c.name, n, end)
			}
		}
	}
}

// ones returns the sampler with every weight 1, so that a limit on weights is a number of candidates.
func ones(s *Sampler) *Sampler {
	c := *s
	c.weights = slices.Repeat([]float64{1}, len(s.scores))
	return &c
}

func TestExp(t *testing.T) {
	for x := 0.0; x > -680; x = 1.01*x - 0.001 {
		if got, want := exp(x), math.Exp(x); !(math.Abs(got-want) <= 1e-9*want) {
			t.Errorf("exp(%v) is %v, want %v", x, got, want)
		}
	}
	for _, x := range []float64{-690, -691, -1e6, math.Inf(-1)} {
		if got := exp(x); got > 1e-299 {
			t.Errorf("exp(%v) is %v", x, got)
		}
	}
}

// TestDraw_Frequencies counts 20,000 draws from four tokens. A count of n trials with probability p has the standard
// deviation sqrt(n·p·(1-p)), which is at most 71 here; five of them are allowed.
func TestDraw_Frequencies(t *testing.T) {
	want := []float64{0.5, 0.3, 0.15, 0.05}
	logits := make([]float32, 4)
	for i, p := range want {
		logits[i] = float32(math.Log(p))
	}
	const n = 20000
	s, err := NewSampler(Sampling{Temperature: 1, Seed: 7}, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]float64, 4)
	for range n {
		id, err := s.Next(logits)
		if err != nil {
			t.Fatal(err)
		}
		counts[id]++
	}
	for i, p := range want {
		if d := math.Abs(counts[i] - n*p); d > 5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("token %d came %v times of %d, want about %v", i, counts[i], n, n*p)
		}
	}
}

func TestSampler_Seed(t *testing.T) {
	logits := make([]float32, 1000)
	draw := func(seed uint64) (ids []int32) {
		s, err := NewSampler(Sampling{Temperature: 1, Seed: seed}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			id, err := s.Next(logits)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}
	if !slices.Equal(draw(3), draw(3)) {
		t.Error("one seed gives two answers")
	}
	if slices.Equal(draw(3), draw(4)) {
		t.Error("two seeds give one answer")
	}
	// The draws must not change from version to version, so that a recorded seed stays useful.
	if got, want := draw(0)[:4], []int32{449, 65, 532, 689}; !slices.Equal(got, want) {
		t.Errorf("seed 0 draws %v, it used to draw %v", got, want)
	}
}

// TestPenaltyFallsOnTheAnswer checks that the penalty applies to drawn tokens as it does to tokens of the prompt,
// once per token however often it occurred.
func TestPenaltyFallsOnTheAnswer(t *testing.T) {
	s, err := NewSampler(Sampling{RepetitionPenalty: 2}, []int32{3})
	if err != nil {
		t.Fatal(err)
	}
	logits := []float32{8, 6, 5, 9}
	for i, want := range []int32{0, 1, 2, 3, 3} { // 9 counts as 4.5 from the start, 8 as 4 after its draw, and so on
		if got, err := s.Next(logits); err != nil || got != want {
			t.Errorf("draw %d: %d, want %d (%v)", i, got, want, err)
		}
	}
}

// TestDraw_Ends checks that a number equal to a sum of weights draws the candidate after them, and that if the number's
// share of the sum is rounded up to the sum itself, the last candidate that has a weight is drawn.
func TestDraw_Ends(t *testing.T) {
	u := uniform(0, 1)
	for want, first := range map[int32]float64{3: math.Nextafter(u, 1), 4: u} {
		s := &Sampler{step: 1, ids: []int32{3, 4}, weights: []float64{first, 1 - first}}
		if got := s.draw(); got != want {
			t.Errorf("%v draws token %d, whose predecessors weigh %v", u, got, first)
		}
	}
	for step := range uint64(50) {
		s := &Sampler{step: step, ids: []int32{3, 4, 5}, weights: []float64{0, math.SmallestNonzeroFloat64, 0}}
		if got := s.draw(); got != 4 {
			t.Fatalf("token %d was drawn, which has no weight", got)
		}
	}
}

func TestBrokenLogits(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for name, logits := range map[string][]float32{
		"NaN": {1, nan, 2}, "+Inf": {1, inf}, "all -Inf": {-inf, -inf}, "none": {},
	} {
		for _, temperature := range []float64{0, 1} {
			s, err := NewSampler(Sampling{Temperature: temperature, TopK: 2, TopP: 0.5}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if id, err := s.Next(logits); err == nil {
				t.Errorf("%s: chose %d", name, id)
			}
		}
	}
}

func TestTinyTemperatures(t *testing.T) {
	logits := []float32{-3, 40, 12, 39.9}
	for _, temperature := range []float64{1e-3, 1e-30, 1e-45, math.SmallestNonzeroFloat64} {
		s, err := NewSampler(Sampling{Temperature: temperature, TopP: 0.9, TopK: 3}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := s.Next(logits); err != nil || id != 1 {
			t.Errorf("temperature %v chose %d, %v", temperature, id, err)
		}
	}
}

func TestSamplingCheck(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for says, all := range map[string][]Sampling{
		"":                    {{Temperature: 1e300, TopK: 1 << 40, TopP: 1, MinP: 1, RepetitionPenalty: 1e300}},
		"temperature ":        {{Temperature: -1}, {Temperature: nan}, {Temperature: inf}},
		"top-k ":              {{TopK: -1}},
		"top-p ":              {{TopP: -0.1}, {TopP: 1.1}, {TopP: nan}},
		"min-p ":              {{MinP: -1}, {MinP: 2}, {MinP: nan}},
		"repetition penalty ": {{RepetitionPenalty: -1}, {RepetitionPenalty: nan}, {RepetitionPenalty: inf}},
	} {
		for _, s := range all {
			_, err := NewSampler(s, nil)
			if (err == nil) != (says == "") || err != nil && !strings.HasPrefix(err.Error(), says) {
				t.Errorf("%+v: %v, want %q", s, err, says)
			}
		}
	}
}

func BenchmarkExp(b *testing.B) {
	for name, f := range map[string]func(float64) float64{"ours": exp, "math": math.Exp} {
		b.Run(name, func(b *testing.B) {
			v := make([]float64, 4096)
			for b.Loop() {
				for i := range v {
					v[i] = f(-float64(i) / 100)
				}
			}
		})
	}
}

// BenchmarkSampler draws one token from a vocabulary of Llama-3's size, with logits like a language model's: most are
// far below the highest.
func BenchmarkSampler(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	logits := make([]float32, 128256)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
	}
	for name, s := range map[string]Sampling{
		"greedy":      {},
		"temperature": {Temperature: 0.8},
		"top-p":       {Temperature: 0.8, TopP: 0.9},
		"top-k":       {Temperature: 0.8, TopK: 40},
		"all":         {Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0.05, RepetitionPenalty: 1.1},
	} {
		b.Run(name, func(b *testing.B) {
			sampler, err := NewSampler(s, []int32{1, 2, 3})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := sampler.Next(logits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
