package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// guests are adapters of different ranks, of different modules: all, a few, and one of each layer.
var guests = []struct {
	rank    int
	scale   float64
	modules []string
}{{3, 2, []string{"proj", "c_attn", "c_fc"}}, {16, 0.5, []string{"q_proj", "v_proj", "down_proj", "c_attn"}},
	{20, 1.5, []string{"o_proj", "c_proj"}}}

// guest returns random factors of an adapter.
func guest(m *Model, i int, seed uint64) map[string]Factors {
	r, g, all := rand.New(rand.NewPCG(uint64(i), seed)), guests[i], map[string]Factors{}
	values := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64() / 4)
		}
		return x
	}
	_ = m.eachNeighbor(func(a *adapter, _ int, n neighbor) error {
		for _, part := range g.modules {
			if strings.Contains(n.module, part) {
				all[n.module] = Factors{values(g.rank * a.a.Dim(1)), values(n.n * g.rank), g.rank, g.scale}
				break
			}
		}
		return nil
	})
	return all
}

// beside returns the options of a model with an adapter of its own, and the values of its parameters.
func beside(o Options, all map[string]Factors) (Options, map[string][]float32) {
	o.AdapterRoom, o.Adapter = 0, func(module string) (int, float64, bool) {
		f, ok := all[module]
		return f.Rank, f.Scale, ok
	}
	params := map[string][]float32{}
	for module, f := range all {
		params[module+factorA], params[module+factorB] = f.A, f.B
	}
	return o, params
}

// TestRoom_AdaptersAreAlone computes sequences of a model and of three adapters that share it, in random pieces and
// company. Their logits have the bits of a model without others, also in columns where others were before, and are
// near the logits of a model with an adapter of its own.
func TestRoom_AdaptersAreAlone(t *testing.T) {
	for _, c := range poolCases() {
		if c.opts.Adapter != nil && c.opts.Quantization.None() || c.cfg.Family == "qwen3_moe" {
			continue
		}
		t.Run(fmt.Sprint(c.name, " ", c.opts.DType), func(t *testing.T) {
			o := kernels.Options{Fused: kernels.All(), Threads: 2}
			dev := device(t, o)
			if os.Getenv("RESTYLE_TEST_DEVICE") != "" {
				dev = testGPU(t, o)
			}
			c.opts.Adapter, c.opts.AdapterRoom = nil, 96
			checkRoom(t, dev, c.cfg, c.opts, c.limit)
		})
	}
}

func checkRoom(t *testing.T, dev *kernels.Device, cfg Config, o Options, limit float64) {
	pool := func(o Options, pieces int) (*Model, *Pool) {
		m := open(t, dev, cfg, o)
		p, err := m.NewPool(PoolOptions{Blocks: 60, Rows: 141, Pieces: pieces})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return m, p
	}
	set := func(m *Model, at Columns, all map[string]Factors) {
		if err := m.SetAdapter(at, all); err != nil {
			t.Fatal(err)
		}
	}
	m, p := pool(o, 7)
	places := []Columns{{64, 80}, {0, 16}, {16, 48}}
	set(m, places[2], guest(m, 1, 7)) // of rank 16, in all but the last places of one of 20
	for i, at := range places {
		set(m, at, guest(m, i, 0))
	}
	var ids [][]int32
	for i, n := range []int{50, 33, 17, 40, 16, 1, 30, 66} {
		ids = append(ids, sequence(cfg, uint64(i), n).IDs)
	}
	all := poolOf(rand.New(rand.NewPCG(5, 6)), p, ids...)
	for i, s := range all {
		if i%4 > 0 {
			s.adapter = places[i%4-1]
		}
	}
	of := append([]*pooled(nil), all...)
	p.mix(t, rand.New(rand.NewPCG(3, 4)), all)
	for g := -1; g < len(guests); g++ {
		alone := o
		if g < 0 && !m.zeroPairsMatter() {
			alone.AdapterRoom = 0
		}
		only, single := pool(alone, 1)
		var own *Pool
		at := Columns{}
		if g >= 0 {
			at = Columns{0, places[g].To - places[g].From}
			set(only, at, guest(only, g, 0))
			options, params := beside(o, guest(only, g, 0))
			var with *Model
			with, own = pool(options, 1)
			copyParams(t, with, m)
			setValues(with, params)
		}
		for i, s := range of {
			if i%4 != g+1 {
				continue
			}
			for n, logits := range s.logits {
				one := poolOf(rand.New(rand.NewPCG(1, 1)), single, s.ids)[0]
				one.adapter = at
				single.step(t, []*pooled{one}, n)
				samePool(t, fmt.Sprintf("adapter %d, %d tokens of sequence %d", g, n, i), logits, one.logits[n])
				if own == nil {
					continue
				}
				near := poolOf(rand.New(rand.NewPCG(1, 1)), own, s.ids)[0]
				own.step(t, []*pooled{near}, n)
				if off := distance(logits, near.logits[n]); !(off <= limit) {
					t.Errorf("adapter %d, %d tokens: %.2g from an adapter of a model's own, limit %.2g", g, n, off, limit)
				}
			}
		}
	}
}

// copyParams copies the parameters of another model.
func copyParams(t *testing.T, to, from *Model) {
	t.Helper()
	raw := map[string][]byte{}
	for _, p := range from.Params() {
		raw[p.Name] = make([]byte, p.W.Bytes())
		if err := from.dev.DownloadBytes(raw[p.Name], p.W); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range to.Params() {
		if raw[p.Name] != nil {
			to.dev.UploadBytes(p.W, raw[p.Name])
		}
	}
}

// TestRoom_Refuses checks what cannot be in a room, and that a refused adapter changes nothing.
func TestRoom_Refuses(t *testing.T) {
	cfg := shapes["biases, untied"]
	m := open(t, device(t, kernels.Options{}), cfg, Options{DType: tensor.F16, AdapterRoom: 32})
	q, head := "model.layers.0.self_attn.q_proj", "lm_head"
	good := Factors{make([]float32, 2*cfg.Dim), make([]float32, 2*cfg.Heads*cfg.HeadDim), 2, 8}
	of := func(change func(f *Factors)) map[string]Factors {
		f := good
		f.A, f.B = append([]float32(nil), good.A...), append([]float32(nil), good.B...)
		change(&f)
		return map[string]Factors{q: f}
	}
	nan := float32(math.NaN())
	for want, modules := range map[string]map[string]Factors{
		"q_proj: factors of rank 2 with 32 and 35 numbers": of(func(f *Factors) { f.B = f.B[1:] }),
		"of rank at most 16":                       of(func(f *Factors) { f.Rank = 17 }),
		"the number NaN":                           of(func(f *Factors) { f.A[5] = nan }),
		"number 80000, which is not finite in F16": of(func(f *Factors) { f.B[3] = 10000 }),
	} {
		if err := m.SetAdapter(Columns{16, 32}, modules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, ranks := range map[string]map[string]int{
		"it changes lm_head: ": {head: 3, q: 4}, "changes nothing": {}, "its rank is 272": {q: 257},
	} {
		if _, err := AdapterWidth(cfg, ranks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if w, err := AdapterWidth(cfg, map[string]int{q: 17}); w != 32 || err != nil {
		t.Errorf("%d columns for rank 17, %v", w, err)
	}
	_, err := New(m.dev, cfg, Options{AdapterRoom: 20})
	if err == nil || !strings.Contains(err.Error(), "multiple of 16") {
		t.Error(err)
	}
}

// TestPlace checks that columns are free, and that no part of a CPU's sums ends among them, in any of three modules.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		room, width int
		taken       []Columns
		want        int // -1: no room
	}{
		{64, 16, nil, 0}, {64, 16, []Columns{{0, 16}, {16, 48}}, 48}, {64, 32, []Columns{{16, 32}}, 32},
		{64, 48, []Columns{{16, 32}}, -1}, {96, 80, nil, -1}, {96, 64, nil, 0}, {96, 64, []Columns{{0, 16}}, -1},
		{512, 256, nil, 0}, {512, 256, []Columns{{16, 32}}, 256}, {272, 256, nil, -1},
	} {
		got, ok := place(c.room, c.width, c.taken)
		if ok != (c.want >= 0) || ok && got != (Columns{c.want, c.want + c.width}) {
			t.Errorf("%+v: %v, %t", c, got, ok)
		}
	}
	for _, c := range []struct {
		want, least int
		widths      []int
	}{
		{0, 0, nil}, {48, 0, []int{16, 32}}, {128, 0, []int{96}}, {256, 0, []int{256}}, {64, 50, []int{16, 32}},
		{128, 128, []int{128}}, {224, 144, []int{128}}, {240, 0, []int{128, 64}}, {112, 0, []int{32, 64}},
	} {
		if got := AdapterRoom(c.least, c.widths...); got != c.want {
			t.Errorf("room of %d or more for %v: %d, want %d", c.least, c.widths, got, c.want)
		}
	}
}
