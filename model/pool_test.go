package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// pooled is a sequence in a pool: how many of its tokens are there, and the logits after some of them.
type pooled struct {
	ids    []int32
	blocks []int32
	at     int
	logits map[int][]float32

	adapter Columns

	choose  bool // its next piece asks for a choice instead
	choices map[int]int32
}

// poolOf hands out blocks of a pool to sequences, in a random order.
func poolOf(r *rand.Rand, p *Pool, sequences ...[]int32) (all []*pooled) {
	free := r.Perm(p.Blocks())
	for _, ids := range sequences {
		s := &pooled{ids: ids, logits: map[int][]float32{}, choices: map[int]int32{}}
		for range blocksOf(len(ids)) {
			s.blocks, free = append(s.blocks, int32(free[0])), free[1:]
		}
		all = append(all, s)
	}
	return all
}

// step computes a piece of as many tokens of each sequence.
func (p *Pool) step(t *testing.T, of []*pooled, tokens ...int) {
	t.Helper()
	var pieces []Piece
	for i, s := range of {
		pieces = append(pieces, Piece{IDs: s.ids[s.at:][:tokens[i]], At: s.at, Blocks: s.blocks, Logits: !s.choose,
			Choice: s.choose, Adapter: s.adapter})
	}
	next, err := p.Step(pieces)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range of {
		if s.at += tokens[i]; s.choose {
			s.choices[s.at] = next[i].Choice
			continue
		}
		s.logits[s.at] = slices.Clone(next[i].Logits)
	}
}

// mix computes all of the sequences, in random pieces and random company.
func (p *Pool) mix(t *testing.T, r *rand.Rand, all []*pooled) {
	t.Helper()
	for {
		var some []*pooled
		var tokens []int
		rows := p.MaxRows()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, s := range all {
			n := min(1+r.IntN(4)*r.IntN(10), len(s.ids)-s.at, rows)
			s.choose = r.IntN(3) == 0
			if n > 0 && len(some) < p.MaxPieces() && r.IntN(4) > 0 {
				some, tokens, rows = append(some, s), append(tokens, n), rows-n
			}
		}
		if some != nil {
			p.step(t, some, tokens...)
		}
		if !slices.ContainsFunc(all, func(s *pooled) bool { return s.at < len(s.ids) }) {
			return
		}
	}
}

// poolCases returns models and how far a KVCache's logits may be from a pool's, whose sums have other orders; in 16
// bits, other values are rounded up, here of a model that makes much of small differences.
func poolCases() (cases []struct {
	name  string
	cfg   Config
	opts  Options
	limit float64
}) {
	add := func(name string, cfg Config, opts Options, limit float64) {
		cfg.MaxPositions = 150
		cases = append(cases, struct {
			name  string
			cfg   Config
			opts  Options
			limit float64
		}{name, cfg, opts, limit})
	}
	for name, cfg := range shapes {
		add(name, cfg, Options{DType: tensor.F32}, 1e-5)
		add(name, cfg, Options{DType: tensor.BF16}, 0.03)
	}
	wide := shapes["llama"]
	wide.Dim, wide.Inner, wide.Window = 96, 560, 70
	add("several parts of k, window", wide, Options{DType: tensor.F16}, 0.02)
	add("adapters", wide, Options{DType: tensor.BF16, Adapter: adaptersOf}, 0.03)
	for i, c := range mixtures {
		cfg, q := mixed(i)
		add(c.name, cfg, Options{DType: tensor.F32, Quantization: q}, 1e-4) // as in TestQuantization_Parts
		add(c.name, cfg, Options{DType: tensor.BF16, Quantization: q, Adapter: adaptersOf}, 0.03)
	}
	return cases
}

// TestPool_RowsAlone checks that the logits of a token in random pieces and random company have the bits of the same
// token without company, token by token or as one prompt, and are near a KVCache's logits.
func TestPool_RowsAlone(t *testing.T) {
	for _, c := range poolCases() {
		t.Run(fmt.Sprint(c.name, " ", c.opts.DType), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			o := kernels.Options{Fused: kernels.All(), Threads: 2}
			dev := device(t, o)
			if os.Getenv("RESTYLE_TEST_DEVICE") != "" {
				dev = testGPU(t, o)
			}
			m := open(t, dev, c.cfg, c.opts)
			p, err := m.NewPool(PoolOptions{Blocks: 60, Rows: 141, Pieces: 7})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var ids [][]int32
			for i, n := range []int{141, 1, 16, 17, 30, 100, 66, 15} {
				ids = append(ids, sequence(c.cfg, uint64(i), n).IDs)
			}
			all := poolOf(r, p, ids...)
			of := slices.Clone(all)
			p.mix(t, r, all)
			few := []*pooled{of[0], of[3], of[4]}
			decoded := poolOf(r, p, few[0].ids, few[1].ids, few[2].ids)
			for at := range few[0].ids { // a token of each at a time, which a GPU does by graphs
				running := slices.DeleteFunc(slices.Clone(decoded), func(s *pooled) bool { return at >= len(s.ids) })
				p.step(t, running, 1, 1, 1)
			}
			for i, s := range few {
				slow, fast := decoded[i], poolOf(r, p, s.ids)[0]
				p.step(t, []*pooled{fast}, len(s.ids))
				for at, logits := range fast.logits {
					samePool(t, fmt.Sprintf("prompt of %d", at), logits, slow.logits[at])
				}
				for at, logits := range s.logits {
					samePool(t, fmt.Sprintf("%d of %d", at, len(s.ids)), logits, slow.logits[at])
				}
				for at, choice := range s.choices {
					if want := slices.Index(slow.logits[at], slices.Max(slow.logits[at])); int(choice) != want {
						t.Errorf("%d of %d: token %d, alone %d", at, len(s.ids), choice, want)
					}
				}
				cache, err := m.NewKVCache(len(s.ids))
				if err != nil {
					t.Fatal(err)
				}
				defer cache.Close()
				want, err := m.Extend(cache, s.ids)
				if err != nil {
					t.Fatal(err)
				}
				if off := distance(slow.logits[len(s.ids)], want); !(off <= c.limit) {
					t.Errorf("%d tokens: %.2g from a KVCache's, limit %.2g", len(s.ids), off, c.limit)
				}
			}
			if got, want := m.dev.ScratchPeak(), m.dev.ScratchOf(m.dev.Fused(), m.poolSizes(p.o)); got > want {
				t.Errorf("operations needed %d bytes of scratch memory, estimated %d", got, want)
			}
		})
	}
}

func samePool(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%s: logit %d is %g, alone %g; %.2g off", what, i, got[i], want[i], distance(got, want))
			return
		}
	}
}

// TestPool_Graphs decodes on a GPU, where graphs of 1, 2, 4, … sequences do that, and compares with prompts. The first
// token of each number runs without a graph, the second captures one, and the third launches it.
func TestPool_Graphs(t *testing.T) {
	m := open(t, testGPU(t, kernels.Options{Fused: kernels.All()}), shapes["llama"], Options{DType: tensor.F32})
	p, err := m.NewPool(PoolOptions{Blocks: 3, Rows: 16, Pieces: 4}) // all blocks are in use
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ids := [][]int32{sequence(m.cfg, 1, 9).IDs, sequence(m.cfg, 2, 6).IDs, sequence(m.cfg, 3, 6).IDs}
	decoded := poolOf(rand.New(rand.NewPCG(1, 2)), p, ids...)
	for at := range ids[0] {
		running := decoded // three, which fill a graph of four, then one
		if at >= len(ids[1]) {
			running = decoded[:1]
		}
		decoded[0].choose, decoded[1].choose = len(running) == 1, at%2 == 1
		m.dev.Transfers()
		p.step(t, running, 1, 1, 1)
		if got, want := m.dev.Transfers(), (kernels.Transfers{Uploads: 1, Waits: 1}); len(running) == 1 && got != want {
			t.Errorf("a step that draws tokens makes transfers %+v, want %+v", got, want)
		}
	}
	for i, s := range decoded {
		for n := range s.ids {
			prompt := poolOf(rand.New(rand.NewPCG(1, uint64(i))), p, s.ids)[0] // no graph computes more than one token
			p.step(t, []*pooled{prompt}, n+1)
			if want := prompt.logits[n+1]; s.logits[n+1] != nil {
				samePool(t, fmt.Sprintf("token %d of sequence %d", n, i), s.logits[n+1], want)
			} else if best := slices.Index(want, slices.Max(want)); int(s.choices[n+1]) != best {
				t.Errorf("token %d of sequence %d: choice %d, want %d", n, i, s.choices[n+1], best)
			}
		}
	}
	graphs := 0
	for _, g := range p.graphs {
		if g != nil {
			graphs++
		}
	}
	if graphs != 2 {
		t.Errorf("%d graphs, want those of one and of four sequences", graphs)
	}
}

// TestPool_Errors checks that a piece that cannot be computed is an error that says why, and changes nothing.
func TestPool_Errors(t *testing.T) {
	cfg := shapes["llama"]
	m := open(t, device(t, kernels.Options{}), cfg, Options{})
	o := PoolOptions{Blocks: 5, Rows: 20, Pieces: 2, Context: 40}
	p, err := m.NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ids := func(n int) []int32 { return make([]int32, n) }
	for want, pieces := range map[string][]Piece{
		"at least one": nil,
		"0 tokens":     {{Blocks: ids(1)}},
		"at most 20":   {{IDs: ids(20), Blocks: []int32{0, 1}}, {IDs: ids(1), Blocks: []int32{2}}},
		"in 3 pieces": {{IDs: ids(1), Blocks: []int32{0}}, {IDs: ids(1), Blocks: []int32{1}},
			{IDs: ids(1), Blocks: []int32{2}}},
		"1 blocks for 17":    {{IDs: ids(2), At: 15, Blocks: []int32{0}}},
		"within 40":          {{IDs: ids(1), At: 40, Blocks: []int32{0, 1, 2}}},
		"position -1":        {{IDs: ids(1), At: -1, Blocks: []int32{0}}},
		"block 5":            {{IDs: ids(1), Blocks: []int32{5}}},
		"block -1":           {{IDs: ids(1), Blocks: []int32{-1}}},
		"token 37":           {{IDs: []int32{0, int32(cfg.Vocab)}, Blocks: []int32{0}}},
		"pieces 0 and 1":     {{IDs: ids(1), Blocks: []int32{3}}, {IDs: ids(1), Blocks: []int32{3}}},
		"token -2 at positi": {{IDs: []int32{-2}, Blocks: []int32{0}}},
	} {
		if _, err := p.Step(pieces); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	// What comes before a piece may be shared.
	if _, err := p.Step([]Piece{{IDs: ids(1), At: 16, Blocks: []int32{1, 2}, Logits: false},
		{IDs: ids(1), At: 17, Blocks: []int32{1, 3}}}); err != nil {
		t.Error(err)
	}
	block, rest, err := m.PoolBytes(o)
	if got := p.blocks.Size() + p.acts.Size() + m.dev.ScratchOf(nil, m.poolSizes(o)); err != nil || block*5+rest != got {
		t.Errorf("5 blocks of %d bytes and %d, but there are %d, %v", block, rest, got, err)
	}
	longrope := cfg
	longrope.RoPEScaling = &RoPEScaling{Kind: RoPEDynamic, Factor: 2, OriginalMaxPositions: 32}
	for want, f := range map[string]func() (*Pool, error){
		"0 blocks":  func() (*Pool, error) { return m.NewPool(PoolOptions{Rows: 1, Pieces: 1}) },
		"at most 2": func() (*Pool, error) { return m.NewPool(PoolOptions{Blocks: 1 << 40, Rows: 1, Pieces: 1}) },
		"3 pieces":  func() (*Pool, error) { return m.NewPool(PoolOptions{Blocks: 1, Rows: 2, Pieces: 3}) },
		"1 to 64":   func() (*Pool, error) { return m.NewPool(PoolOptions{Blocks: 1, Rows: 1, Pieces: 1, Context: 65}) },
		"\"dynamic": func() (*Pool, error) { return open(t, m.dev, longrope, Options{}).NewPool(o) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
