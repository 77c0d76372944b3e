package kernels

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"restyle/tensor"
)

// attentionFormula is attention and its gradients in float64, from x [rows, width] and, where there is any, dy. Every
// intermediate goes through round: the identity, or what stores it in a 16-bit type, as a chain of single operations does.
// sizes is the sum of the sizes of all that an element of dx is a sum of.
func attentionFormula(m AttentionSpec, x, dy []float64, round func(float64) float64) (y, lse, dx, sizes []float64) {
	rows, w, n, share := len(x)/m.width(), m.width(), m.HeadDim, m.Heads/m.KVHeads
	y, lse, dx = make([]float64, rows*m.Heads*n), make([]float64, m.Heads*rows), make([]float64, len(x))
	sizes = make([]float64, len(x))
	scale := 1 / math.Sqrt(float64(n))
	p := make([]float64, rows)
	m.each(func(begin, end int) {
		for h := range m.Heads {
			kc, vc := (m.Heads+h/share)*n, (m.Heads+m.KVHeads+h/share)*n
			for i := begin; i < end; i++ {
				first, last := begin, i
				if m.Window > 0 {
					first = max(first, i-m.Window+1)
				}
				if m.Unmasked {
					last = end - 1
				}
				q, out := x[i*w+h*n:][:n], y[(i*m.Heads+h)*n:][:n]
				top, sum := math.Inf(-1), 0.0
				for j := first; j <= last; j++ {
					p[j] = round(round(dot(q, x[j*w+kc:][:n])) * scale)
					top = max(top, p[j])
				}
				for j := first; j <= last; j++ {
					sum += math.Exp(p[j] - top)
				}
				l := top + math.Log(sum)
				lse[h*rows+i] = l
				for j := first; j <= last; j++ {
					p[j] = round(math.Exp(p[j] - l))
					for e, v := range x[j*w+vc:][:n] {
						out[e] += p[j] * v
					}
				}
				for e := range out {
					out[e] = round(out[e])
				}
				if dy == nil {
					continue
				}
				g := dy[(i*m.Heads+h)*n:][:n]
				delta, deltaSize := dot(g, out), 0.0
				for e := range n {
					deltaSize += math.Abs(g[e] * out[e])
				}
				for j := first; j <= last; j++ {
					dp := round(dot(g, x[j*w+vc:][:n]))
					ds := round(round(p[j]*(dp-delta)) * scale)
					size := p[j] * (math.Abs(dp) + deltaSize) * scale
					for e := range n {
						dx[i*w+h*n+e] += ds * x[j*w+kc+e]
						dx[j*w+kc+e] += ds * q[e]
						dx[j*w+vc+e] += p[j] * g[e]
						sizes[i*w+h*n+e] += size * math.Abs(x[j*w+kc+e])
						sizes[j*w+kc+e] += size * math.Abs(q[e])
						sizes[j*w+vc+e] += p[j] * math.Abs(g[e])
					}
				}
			}
		}
	})
	for i := range dx {
		dx[i] = round(dx[i])
	}
	return y, lse, dx, sizes
}

func exact(x float64) float64       { return x }
func roundToBF16(x float64) float64 { return float64(tensor.Round(float32(x))) }

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

// attentionCase is the operation on random values, queries and keys with the deviation spread.
func attentionCase(t tensor.DType, m AttentionSpec, spread float64) opCase {
	rows := int(m.CuSeqlens[len(m.CuSeqlens)-1])
	qkv := act("qkv", t, rows, m.width())
	qkv.fill = func(r *rand.Rand, i int) float64 {
		if i%m.width() < (m.Heads+m.KVHeads)*m.HeadDim {
			return r.NormFloat64() * spread
		}
		return r.NormFloat64()
	}
	c := opCase{
		op: "attention", name: fmt.Sprintf("%v %v heads %d/%d x%d window %d spread %g", t, m.CuSeqlens, m.Heads, m.KVHeads, m.HeadDim, m.Window, spread),
		in: []operand{qkv}, out: []operand{act("y", t, rows, m.Heads*m.HeadDim), plain("lse", tensor.F32, m.Heads, rows)},
		forward:  func(d *Device, x tensors) { d.Attention(x["y"], x["lse"], x["qkv"], m) },
		backward: func(d *Device, x tensors) { d.AttentionBackward(x["dqkv"], x["dy"], x["y"], x["lse"], x["qkv"], m) },
		want: func(x values) values {
			y, lse, _, _ := attentionFormula(m, x["qkv"], nil, exact)
			return values{"y": y, "lse": lse}
		},
		tolerance: attentionTolerance(t, spread),
		kernels: [2][]string{{
			"attention_scores", "attention_softmax", "attention_values",
			"attention_weights", "attention_dvalues", "attention_dweights", "attention_delta", "attention_dscores", "attention_dqueries", "attention_dkeys", "attention_store",
		}, {"attention", "attention_backward"}},
	}
	if m.Unmasked {
		c.name += " unmasked"
	}
	// An element may be off by more than all are on average. In BF16 it is rounded, and so are the weights and the scores'
	// gradients of which it is a sum.
	each := limit{elementLimits[t].relative, 4 * c.tolerance}
	if t == tensor.BF16 {
		each.rms = 0x1p-6
	}
	c.elements = map[string]limit{"y": each, "dqkv": each}
	return c
}

// attentionTolerance is the limit for y and the gradients. In F32 the exponents matter: scores of size s have an ulp of
// s·2⁻²³, which is the relative error of their exponentials; 3e-6 for a spread of 1, four roundings of scores up to 60 for a
// spread of 4. In BF16 the weights and the scores' gradients are rounded to 2⁻⁹ each, and a gradient sees dy·y of the
// rounded y too: twice what one rounding may do.
func attentionTolerance(t tensor.DType, spread float64) float64 {
	if t == tensor.BF16 {
		return 1.2e-2
	}
	if spread > 1 {
		return 1.5e-5
	}
	return 3e-6
}

func attentionCases() (cases []opCase) {
	for _, t := range both {
		for _, m := range []AttentionSpec{
			{CuSeqlens: []int32{0, 1}, Heads: 1, KVHeads: 1, HeadDim: 8},
			{CuSeqlens: []int32{0, 17}, Heads: 2, KVHeads: 1, HeadDim: 16},
			{CuSeqlens: []int32{0, 3, 3, 4, 13}, Heads: 3, KVHeads: 3, HeadDim: 10, Window: 4},
			{CuSeqlens: []int32{0, 20, 41}, Heads: 6, KVHeads: 2, HeadDim: 24},
			{CuSeqlens: []int32{0, 3, 3, 4, 21}, Heads: 4, KVHeads: 2, HeadDim: 10, Unmasked: true},
		} {
			cases = append(cases, attentionCase(t, m, 1))
		}
	}
	return cases
}

func TestAttention(t *testing.T) { testOps(t, attentionCases()) }

// attentionShapes are many more, for which differences would take too long: the gradients' formula is compared.
func attentionShapes() (list []AttentionSpec) {
	for _, n := range []int32{1, 2, 17, 63, 65, 130} {
		list = append(list, AttentionSpec{CuSeqlens: []int32{0, n}, Heads: 4, KVHeads: 2, HeadDim: 32})
	}
	for _, dim := range []int{8, 14, 16, 24, 32, 40, 64, 80, 96, 128, 192} {
		list = append(list, AttentionSpec{CuSeqlens: []int32{0, 70}, Heads: 2, KVHeads: 2, HeadDim: dim})
	}
	for _, heads := range [][2]int{{1, 1}, {3, 1}, {6, 2}, {5, 1}, {70, 1}} {
		list = append(list, AttentionSpec{CuSeqlens: []int32{0, 67}, Heads: heads[0], KVHeads: heads[1], HeadDim: 16})
	}
	for _, window := range []int{1, 2, 8, 17, 64, 100, 1000} {
		list = append(list, AttentionSpec{CuSeqlens: []int32{0, 0, 1, 150, 151, 151, 229}, Heads: 4, KVHeads: 2, HeadDim: 16, Window: window})
	}
	for _, n := range []int32{1, 2, 17, 65, 130, 300, 600} { // from 257 on, several chunks of keys
		list = append(list, AttentionSpec{CuSeqlens: []int32{0, 0, n, 2*n + 1}, Heads: 4, KVHeads: 2, HeadDim: 16, Unmasked: true})
	}
	return append(list,
		AttentionSpec{CuSeqlens: []int32{0}, Heads: 2, KVHeads: 1, HeadDim: 16}, // no sequence at all
		AttentionSpec{CuSeqlens: []int32{0, 0, 0}, Heads: 2, KVHeads: 1, HeadDim: 16},
		AttentionSpec{CuSeqlens: []int32{0, 0, 1, 3, 60, 61, 200, 200}, Heads: 8, KVHeads: 4, HeadDim: 32},
		AttentionSpec{CuSeqlens: []int32{0, 600, 601}, Heads: 2, KVHeads: 1, HeadDim: 16}, // several chunks of keys
		AttentionSpec{CuSeqlens: []int32{0, 30, 1130}, Heads: 1, KVHeads: 1, HeadDim: 8, Window: 300},
	)
}

func TestAttentionShapes(t *testing.T) {
	type recorded struct{ y, lse, dx, sizes []float64 }
	formulas := map[string]recorded{}
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, dt := range both {
			for _, m := range attentionShapes() {
				for _, spread := range []float64{1, 4} {
					if spread > 1 && m.HeadDim != 16 {
						continue
					}
					c := attentionCase(dt, m, spread)
					for _, fused := range []bool{false, true} {
						r := c.place(t, d)
						f, ok := formulas[c.name]
						if !ok {
							f.y, f.lse, f.dx, f.sizes = attentionFormula(m, r.at["qkv"], r.at["dy"], exact)
							formulas[c.name] = f
						}
						d.SetFused(Fused{"attention": fused})
						c.forward(d, r.x)
						c.backward(d, r.x)
						compare := func(name string, want []float64, limit float64) {
							if e := distance(floats(t, d, r.x[name]), want); !(e <= limit) {
								t.Errorf("%s, fused %v: %s is off by %.3g, limit %.1g", c.name, fused, name, e, limit)
							}
						}
						compare("y", f.y, min(c.tolerance, 6e-3))
						compare("lse", f.lse, 2e-6)
						compare("dqkv", f.dx, c.tolerance)
						for _, x := range []struct {
							name string
							want []float64
						}{{"y", f.y}, {"lse", f.lse}} {
							c.compareEach(t, x.name, r.x[x.name].DType, floats(t, d, r.x[x.name]), x.want)
						}
						// Terms may be larger than their sum. In each, the weight is rounded, and y, which dy·y has, and the score's
						// gradient.
						term := 2 * c.tolerance
						if dt == tensor.BF16 {
							term = 2 * 0x1p-8
						}
						for i, got := range floats(t, d, r.x["dqkv"]) {
							limit := elementLimits[dt].relative*math.Abs(f.dx[i]) + term*f.sizes[i]
							if !(math.Abs(got-f.dx[i]) <= limit) {
								t.Errorf("%s, fused %v: dqkv[%d] is %g, want %g, limit %.3g", c.name, fused, i, got, f.dx[i], limit)
								break
							}
						}
						for i, g := range r.guard {
							if b := bytesOf(t, d, g); bytes.Count(b, []byte{guardByte}) != len(b) {
								t.Errorf("%s: operand %d was written beyond its end", c.name, i)
							}
						}
						r.arena.Close()
					}
				}
			}
		}
	})
}

// TestAttentionThreads has the same bytes come out of any number of threads, where there is work for more than those.
func TestAttentionThreads(t *testing.T) {
	m := AttentionSpec{CuSeqlens: []int32{0, 90, 700}, Heads: 4, KVHeads: 2, HeadDim: 16}
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, dt := range both {
			for _, fused := range []bool{false, true} {
				d.SetFused(Fused{"attention": fused})
				c := attentionCase(dt, m, 1)
				r := c.place(t, d)
				var want [3][]byte
				for _, n := range []int{1, 2, 3, 5} {
					withThreads(t, n, func() {
						c.forward(d, r.x)
						c.backward(d, r.x)
					})
					for i, name := range []string{"y", "lse", "dqkv"} {
						if n == 1 {
							want[i] = bytesOf(t, d, r.x[name])
						} else if !bytes.Equal(bytesOf(t, d, r.x[name]), want[i]) {
							t.Errorf("%s, fused %v: %s is another with %d threads", c.name, fused, name, n)
						}
					}
				}
				r.arena.Close()
			}
		}
	})
}

// TestAttentionBF16 has the error be at most twice that of a chain of operations that each round to bfloat16.
func TestAttentionBF16(t *testing.T) {
	m := AttentionSpec{CuSeqlens: []int32{0, 100, 161}, Heads: 4, KVHeads: 2, HeadDim: 32}
	var y, dx, chainY, chainDX []float64
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, fused := range []bool{false, true} {
			c := attentionCase(tensor.BF16, m, 1)
			r := c.place(t, d)
			if y == nil {
				y, _, dx, _ = attentionFormula(m, r.at["qkv"], r.at["dy"], exact)
				chainY, _, chainDX, _ = attentionFormula(m, r.at["qkv"], r.at["dy"], roundToBF16)
			}
			d.SetFused(Fused{"attention": fused})
			c.forward(d, r.x)
			c.backward(d, r.x)
			for _, x := range []struct {
				name        string
				want, chain []float64
			}{{"y", y, chainY}, {"dqkv", dx, chainDX}} {
				got, chain := distance(floats(t, d, r.x[x.name]), x.want), distance(x.chain, x.want)
				if !(got <= 2*chain) {
					t.Errorf("fused %v: %s is off by %.3g, the chain by %.3g", fused, x.name, got, chain)
				}
			}
			r.arena.Close()
		}
	})
}

// TestAttentionHugeScores has scores of some ±10⁴ and ±10⁹: weights are 0 and 1, and gradients finite.
func TestAttentionHugeScores(t *testing.T) {
	m := AttentionSpec{CuSeqlens: []int32{0, 40, 150}, Heads: 4, KVHeads: 2, HeadDim: 16, Window: 33}
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, dt := range both {
			for _, spread := range []float64{50, 1.5e4} {
				for _, fused := range []bool{false, true} {
					c := attentionCase(dt, m, spread)
					r := c.place(t, d)
					d.SetFused(Fused{"attention": fused})
					c.forward(d, r.x)
					c.backward(d, r.x)
					for _, name := range []string{"y", "lse", "dqkv"} {
						for i, v := range floats(t, d, r.x[name]) {
							if math.IsNaN(v) || math.IsInf(v, 0) || name == "y" && math.Abs(v) > 6 {
								t.Fatalf("%s, fused %v: %s[%d] is %v", c.name, fused, name, i, v)
							}
						}
					}
					r.arena.Close()
				}
			}
		}
	})
}

// TestAttentionNeighbours has a sequence's results, to the last bit, be the same whatever lies beside it: NaN too.
func TestAttentionNeighbours(t *testing.T) {
	const n, before, after = 77, 31, 40
	alone := AttentionSpec{CuSeqlens: []int32{0, n}, Heads: 4, KVHeads: 2, HeadDim: 24}
	among := alone
	among.CuSeqlens = []int32{0, 1, before, before + n, before + n, before + n + after}
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, dt := range both {
			for _, fused := range []bool{false, true} {
				d.SetFused(Fused{"attention": fused})
				one, many := attentionCase(dt, alone, 1), attentionCase(dt, among, 1)
				fill := func(from int, columns int) func(*rand.Rand, int) float64 {
					return func(_ *rand.Rand, i int) float64 {
						if i < from*columns || i >= (from+n)*columns {
							return math.NaN()
						}
						return rand.New(rand.NewPCG(5, uint64(i-from*columns))).NormFloat64()
					}
				}
				one.in[0].fill, many.in[0].fill = fill(0, alone.width()), fill(before, alone.width())
				one.out[0].fill, many.out[0].fill = fill(0, 4*24), fill(before, 4*24)
				a, b := one.place(t, d), many.place(t, d)
				d.Upload(a.x["dy"], toF32(valuesOf(one.out[0], a.x["dy"].Len())))
				d.Upload(b.x["dy"], toF32(valuesOf(many.out[0], b.x["dy"].Len())))
				one.forward(d, a.x)
				one.backward(d, a.x)
				many.forward(d, b.x)
				many.backward(d, b.x)
				for _, name := range []string{"y", "dqkv"} {
					x, y := a.x[name], b.x[name].Slice(before, before+n)
					if !bytes.Equal(bytesOf(t, d, x), bytesOf(t, d, y)) {
						t.Errorf("%v fused %v: %s is another among other sequences", dt, fused, name)
					}
				}
				a.arena.Close()
				b.arena.Close()
			}
		}
	})
}

func valuesOf(o operand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = o.fill(nil, i)
	}
	return v
}

func toF32(x []float64) []float32 {
	v := make([]float32, len(x))
	for i := range v {
		v[i] = float32(x[i])
	}
	return v
}

// TestAttentionMemory has the fused kernels' working memory grow with the length at most, and stay far below one matrix of
// scores.
func TestAttentionMemory(t *testing.T) {
	const n = 4096
	m := AttentionSpec{CuSeqlens: []int32{0, n}, Heads: 4, KVHeads: 1, HeadDim: 8}
	d, err := Open("cpu", Options{Fused: All(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := attentionCase(tensor.F32, m, 1)
	r := c.place(t, d)
	c.forward(d, r.x)
	if got := d.ScratchPeak(); got > 256<<10 {
		t.Errorf("the forward pass used %s", Bytes(got))
	}
	c.backward(d, r.x)
	// Keys, values and their gradients of a quarter of the sequence, and four sums of the queries' gradients, padded to 16.
	if got, limit := d.ScratchPeak(), 4*16*(5*n/4+4*n*m.Heads)+1<<20; got > limit {
		t.Errorf("the backward pass used %s, limit %s", Bytes(got), Bytes(limit))
	}
	r.arena.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestAttentionRefuses has every mistake of a program panic with the operation's name.
func TestAttentionRefuses(t *testing.T) {
	d, err := Open("cpu", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	good := AttentionSpec{CuSeqlens: []int32{0, 2, 3}, Heads: 4, KVHeads: 2, HeadDim: 8}
	c := attentionCase(tensor.F32, good, 1)
	r := c.place(t, d)
	defer r.arena.Close()
	for name, change := range map[string]func(m *AttentionSpec, x tensors){
		"heads that do not divide":  func(m *AttentionSpec, x tensors) { m.KVHeads = 3 },
		"no heads":                  func(m *AttentionSpec, x tensors) { m.Heads, m.KVHeads = 0, 0 },
		"an odd head dimension":     func(m *AttentionSpec, x tensors) { m.HeadDim = 7 },
		"a negative window":         func(m *AttentionSpec, x tensors) { m.Window = -1 },
		"a window without a mask":   func(m *AttentionSpec, x tensors) { m.Window, m.Unmasked = 2, true },
		"rows without sequence":     func(m *AttentionSpec, x tensors) { m.CuSeqlens = []int32{0, 2} },
		"sequences out of order":    func(m *AttentionSpec, x tensors) { m.CuSeqlens = []int32{0, 4, 3} },
		"sequences that begin late": func(m *AttentionSpec, x tensors) { m.CuSeqlens = []int32{1, 3} },
		"no sequences":              func(m *AttentionSpec, x tensors) { m.CuSeqlens = nil },
		"another width":             func(m *AttentionSpec, x tensors) { m.HeadDim = 16 },
		"a short lse":               func(m *AttentionSpec, x tensors) { x["lse"] = x["lse"].Part(0, 3) },
		"a wrong type": func(m *AttentionSpec, x tensors) {
			x["y"] = tensor.Tensor{DType: tensor.BF16, Shape: x["y"].Shape, Addr: x["y"].Addr}
		},
	} {
		m, x := good, maps.Clone(r.x)
		change(&m, x)
		for op, f := range map[string]func(){
			"Attention":         func() { d.Attention(x["y"], x["lse"], x["qkv"], m) },
			"AttentionBackward": func() { d.AttentionBackward(x["dqkv"], x["dy"], x["y"], x["lse"], x["qkv"], m) },
		} {
			func() {
				defer func() {
					if s := fmt.Sprint(recover()); !strings.HasPrefix(s, op+":") {
						t.Errorf("%s with %s: %s", op, name, s)
					}
				}()
				f()
			}()
		}
	}
}
