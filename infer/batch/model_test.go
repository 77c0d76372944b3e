package batch

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"restyle/infer"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestBatch_OfAModel asks a model many questions twice, in another order, in other company, with other blocks and
// steps: the tokens and the bits of their log probabilities are the same, also for some questions that are asked
// without company. The tokens are also the ones that the sampler chooses when it gets all logits, for their log
// probabilities. Three of four are asked of adapters, which lie in other places the second time. With RESTYLE_LONG it
// asks 10,000, and on the emulated GPU a few.
func TestBatch_OfAModel(t *testing.T) {
	device, questions, alone := cmp.Or(os.Getenv("RESTYLE_TEST_DEVICE"), "cpu"), 60, 6
	switch {
	case os.Getenv("RESTYLE_LONG") != "":
		questions, alone = 10000, 100
	case device == "emulated":
		questions, alone = 16, 4
	}
	d, err := kernels.Open(device, kernels.Options{Fused: kernels.All(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := model.Config{Family: "llama", Vocab: 300, Dim: 128, Inner: 256, Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 32,
		MaxPositions: 512, NormEps: 1e-5, RoPETheta: 10000, Tied: true, PadID: -1}
	m, err := model.New(d, c, model.Options{DType: tensor.BF16, AdapterRoom: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	random := rand.New(rand.NewPCG(7, 8))
	for _, p := range m.Params() {
		x := make([]float32, p.W.Len())
		for i := range x {
			x[i] = 0.08 * float32(random.NormFloat64())
		}
		d.Upload(p.W, x)
	}
	all := make([]Request, questions)
	for i := range all {
		r := &all[i]
		for n := range 1 + random.IntN(90) {
			r.Prompt = append(r.Prompt, int32((n/30+i%3)%7)) // many start alike
		}
		r.Prompt = append(r.Prompt, int32(random.IntN(c.Vocab)))
		r.Options = infer.Options{MaxTokens: 1 + random.IntN(60), IgnoreEnd: true,
			Sampling: infer.Sampling{Temperature: float64(i%3) / 2, TopP: float64(i%5) / 4, Seed: uint64(i)}}
		r.Logprobs, r.Key = i%2 == 0, fmt.Sprint(i%2)
	}
	of := make([]int, questions)
	for i := range of {
		of[i] = i
	}
	first := answer(t, m, all, of, model.PoolOptions{Blocks: 400, Rows: 256, Pieces: 64}, len(of))
	random.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	second := answer(t, m, all, of, model.PoolOptions{Blocks: 14, Rows: 33, Pieces: 9}, len(of)) // some make room
	single := answer(t, m, all, of[:alone], model.PoolOptions{Blocks: 20, Rows: 150, Pieces: 1}, 1)
	for i := range all {
		if !slices.Equal(first[i], second[i]) {
			t.Fatalf("question %d: %v, in other company %v", i, first[i], second[i])
		}
	}
	for _, i := range of[:alone] {
		if !slices.Equal(first[i], single[i]) {
			t.Errorf("question %d: %v, alone %v", i, first[i], single[i])
		}
		all[i].Logprobs = true
	}
	whole := answer(t, m, all, of[:alone], model.PoolOptions{Blocks: 100, Rows: 150, Pieces: 8}, alone)
	for _, i := range of[:alone] {
		if !slices.EqualFunc(first[i], whole[i], func(a, b said) bool { return a.id == b.id }) {
			t.Errorf("question %d: %v, by all logits %v", i, first[i], whole[i])
		}
	}
}

// answer returns the answers to some of the requests, up to most at once: each token and its log probability.
func answer(t *testing.T, m *model.Model, all []Request, of []int, o model.PoolOptions, most int) map[int][]said {
	t.Helper()
	pool, err := m.NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := New(pool, infer.Codec{}, m.Config().Vocab, Options{Context: 200, Queue: len(all)})
	defer b.Close()
	adapters := attachThree(t, m, b, o.Blocks == 14)
	answers := map[int][]said{}
	var lock sync.Mutex
	var group sync.WaitGroup
	room := make(chan struct{}, most)
	for _, i := range of {
		room <- struct{}{}
		start := b.Start
		if i%4 > 0 {
			start = adapters[i%4-1].Start
		}
		a, err := start(all[i])
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			var tokens []said
			for a.Next(t.Context()) {
				tokens = append(tokens, said{a.Token().ID, a.Token().Logprob})
			}
			if err := a.Err(); err != nil {
				t.Error(err)
			}
			lock.Lock()
			answers[i] = tokens
			lock.Unlock()
			<-room
		})
	}
	group.Wait()
	if s := b.Stats(); o.Blocks == 14 && s.Preempted == 0 {
		t.Error("no answer made room for others")
	}
	return answers
}

// attachThree attaches adapters of ranks 3, 16 and 24, the last one first if backwards is true.
func attachThree(t *testing.T, m *model.Model, b *Batch, backwards bool) (all [3]*Adapter) {
	t.Helper()
	order := []int{0, 1, 2}
	if backwards {
		slices.Reverse(order)
	}
	for _, i := range order {
		rank := []int{3, 16, 24}[i]
		modules, ranks := map[string]model.Factors{}, map[string]int{}
		random := rand.New(rand.NewPCG(9, uint64(i)))
		for _, p := range m.Params() {
			module, ok := strings.CutSuffix(p.Name, "_proj.weight")
			if !ok || i == 1 && strings.HasSuffix(module, "gate") {
				continue
			}
			values := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = 0.1 * float32(random.NormFloat64())
				}
				return x
			}
			out, in := p.W.Dim(0), p.W.Dim(1)
			modules[module+"_proj"] = model.Factors{A: values(rank * in), B: values(out * rank), Rank: rank, Scale: 2}
			ranks[module+"_proj"] = rank
		}
		width, err := model.AdapterWidth(m.Config(), ranks)
		if err != nil {
			t.Fatal(err)
		}
		place := func(taken []model.Columns) (model.Columns, bool) { return m.PlaceAdapter(width, taken) }
		set := func(at model.Columns) error { return m.SetAdapter(at, modules) }
		if all[i], err = b.Attach(infer.Codec{}, fmt.Sprint(i), place, set); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// said is a token of an answer, and its log probability if it was asked for.
type said struct {
	id      int32
	logprob float64
}
