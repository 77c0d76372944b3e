package optim

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/model"
	"restyle/tensor"
)

// place allocates parameters with gradients, and a device for them on one thread.
func place(t *testing.T, dtype tensor.DType, shapes ...[]int) (*kernels.Device, []model.Param) {
	t.Helper()
	dev, err := kernels.Open("cpu", kernels.Options{Threads: 1})
	expect.OK(t, err)
	return dev, placeOn(t, dev, dtype, shapes...)
}

// placeOn allocates parameters with gradients on a device.
func placeOn(t *testing.T, dev *kernels.Device, dtype tensor.DType, shapes ...[]int) (params []model.Param) {
	t.Helper()
	cut := func(arena *kernels.Arena) {
		params = nil
		for i, s := range shapes {
			name := fmt.Sprint("p", i)
			params = append(params, model.Param{Name: name, W: arena.New(name, dtype, s...), Grad: arena.New("grad "+name,
				tensor.F32, s...), Decay: len(s) > 1})
		}
	}
	arena, err := dev.NewArena("test", kernels.SizeOf(cut))
	expect.OK(t, err)
	t.Cleanup(func() { arena.Close() })
	cut(arena)
	return params
}

func normal(seed uint64, n int, scale float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(scale * rng.NormFloat64())
	}
	return x
}

func floats(t *testing.T, dev *kernels.Device, x tensor.Tensor) []float32 {
	t.Helper()
	v, err := dev.Floats(x)
	expect.OK(t, err)
	return v
}

// configs returns every form of AdamW.
func configs() (list []Config) {
	for _, bits := range []int{8, 32} {
		for _, m := range []Master{Split8, Stochastic, FP32, NoMaster} {
			cfg := Default
			cfg.Bits, cfg.Master, cfg.Seed = bits, m, 7
			list = append(list, cfg)
		}
		cfg := Default
		cfg.Bits, cfg.Master, cfg.BNB = bits, NoMaster, true
		list = append(list, cfg)
	}
	return list
}

// TestState_Tensors checks which state tensors there are, their names and types, and that SizeOf returns their size.
func TestState_Tensors(t *testing.T) {
	shapes := [][]int{{64, 64}, {4095, 1}, {5000}, {65, 64}}
	for _, c := range []struct {
		dtype  tensor.DType
		edit   func(*Config)
		want   string // state of the first parameter, a matrix of 4,096
		little string // of the second, too small for 8 bits, and of the third, a vector of 5,000
		vector string // of the third, if it differs
	}{
		{tensor.BF16, func(c *Config) {}, "m U8, m_absmax F32, v U8, v_absmax F32, residual U8", "m F32, v F32, master F32",
			""},
		{tensor.BF16, func(c *Config) { c.Master = Stochastic }, "m U8, m_absmax F32, v U8, v_absmax F32",
			"m F32, v F32, master F32", ""},
		{tensor.BF16, func(c *Config) { c.Master = FP32 }, "m U8, m_absmax F32, v U8, v_absmax F32, master F32",
			"m F32, v F32, master F32", ""},
		{tensor.BF16, func(c *Config) { c.Master = NoMaster }, "m U8, m_absmax F32, v U8, v_absmax F32", "m F32, v F32", ""},
		{tensor.BF16, func(c *Config) { c.Bits = 32 }, "m F32, v F32, residual U8", "m F32, v F32, master F32", ""},
		{tensor.F32, func(c *Config) {}, "m U8, m_absmax F32, v U8, v_absmax F32", "m F32, v F32", ""},
		// bitsandbytes decides by size only, and gets vectors too.
		{tensor.BF16, func(c *Config) { c.Master, c.BNB = NoMaster, true }, "m U8, m_absmax F32, v U8, v_absmax F32",
			"m F32, v F32",
			"m U8, m_absmax F32, v U8, v_absmax F32"},
		{tensor.BF16, func(c *Config) { c.Master, c.BNB, c.Bits = NoMaster, true, 32 }, "m F32, v F32", "m F32, v F32", ""},
	} {
		dev, params := place(t, c.dtype, shapes...)
		config := Default
		c.edit(&config)
		o, err := New(dev, params, config)
		expect.OK(t, err)
		got, seen, size := map[string][]string{}, map[string]bool{}, o.squares.Bytes()
		for _, x := range o.State() {
			param, what, _ := strings.Cut(x.Name, ".")
			got[param] = append(got[param], what+" "+x.DType.String())
			if seen[x.Name] {
				t.Errorf("two tensors are called %s", x.Name)
			}
			seen[x.Name] = true
			size += x.Bytes()
		}
		for param, want := range map[string]string{"p0": c.want, "p1": c.little, "p2": cmp.Or(c.vector, c.little),
			"p3": c.want} {
			if list := strings.Join(got[param], ", "); list != want {
				t.Errorf("%v %+v: %s has %s, want %s", c.dtype, config, param, list, want)
			}
		}
		if n := SizeOf(params, config); n != o.arena.Size() || n < size || n > size+256*len(seen) {
			t.Errorf("SizeOf says %d, %d were allocated for %d bytes", n, o.arena.Size(), size)
		}
		var counted int
		kernels.SizeOf(func(arena *kernels.Arena) { // nothing follows these
			var list []model.Param
			for i, s := range shapes {
				list = append(list, model.Param{Name: fmt.Sprint("p", i), W: arena.New("w", c.dtype, s...),
					Grad: arena.New("g", tensor.F32, s...)})
			}
			counted = SizeOf(list, config)
		})
		if counted != o.arena.Size() {
			t.Errorf("of parameters without memory it is %d, not %d", counted, o.arena.Size())
		}
		expect.OK(t, o.Close())
	}
}

// TestResume saves weights, state and Steps after five steps, takes five more, and restores them in a new optimizer.
// The result must have the same bits, also with another number of threads.
func TestResume(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.BF16, tensor.F32} {
		for _, cfg := range configs() {
			dev, params := place(t, dtype, []int{67, 64}, []int{300}, []int{20, 20})
			for i, p := range params {
				dev.Upload(p.W, normal(uint64(i), p.W.Len(), 0.02))
			}
			run := func(o *AdamW, to int) {
				for o.Steps() < to {
					for i, p := range params {
						dev.Upload(p.Grad, normal(uint64(100*o.Steps()+i), p.W.Len(), 1e-3))
					}
					take(t, o, 1e-3, 1)
				}
			}
			snapshot := func(o *AdamW) (all [][]byte) {
				list := o.State()
				for _, p := range params {
					list = append(list, p.W)
				}
				for _, x := range list {
					all = append(all, bytes.Clone(x.Raw()))
				}
				return all
			}
			o, err := New(dev, params, cfg)
			expect.OK(t, err)
			run(o, 5)
			half := snapshot(o)
			run(o, 10)
			whole := snapshot(o)
			if slices.EqualFunc(half, whole, bytes.Equal) {
				t.Fatal("nothing happened")
			}
			o.Close()

			if o, err = New(dev, params, cfg); err != nil {
				t.Fatal(err)
			}
			list := o.State()
			for _, p := range params {
				list = append(list, p.W)
			}
			for i, x := range list {
				dev.UploadBytes(x, half[i])
			}
			o.SetSteps(5)
			expect.OK(t, cpu.SetThreads(3))
			run(o, 10)
			if !slices.EqualFunc(snapshot(o), whole, bytes.Equal) {
				t.Errorf("%v, %+v: a run that was resumed ends with other bits", dtype, cfg)
			}
			o.Close()
		}
	}
}

// TestStochasticRounding checks that the rounding of a weight depends only on the seed, the step, the tensor and the
// index of the weight. If two weights shared a draw, their errors would add up instead of cancelling.
func TestStochasticRounding(t *testing.T) {
	const n = 4096
	for _, bits := range []int{8, 32} {
		run := func(seed uint64) (weights [][]float32) { // of two identical tensors, after each of two steps
			cfg := Default
			cfg.Bits, cfg.Master, cfg.Decay, cfg.Seed = bits, Stochastic, 0, seed
			dev, params := place(t, tensor.BF16, []int{n, 1}, []int{n, 1})
			o, err := New(dev, params, cfg)
			expect.OK(t, err)
			defer o.Close()
			for range 2 {
				for _, p := range params {
					dev.Upload(p.W, slices.Repeat([]float32{1}, n))
					dev.Upload(p.Grad, slices.Repeat([]float32{1}, n))
				}
				take(t, o, 1.0/512, 0) // half of the distance from 1 to the next lower BF16: up or down
				for _, p := range params {
					weights = append(weights, floats(t, dev, p.W))
				}
			}
			return weights
		}
		first := run(7)
		if !slices.EqualFunc(first, run(7), slices.Equal) {
			t.Errorf("%d bits: the same seed rounds in another way", bits)
		}
		draws := append(first, run(8)...)
		for i, x := range draws {
			// Of 4,096 draws, 64 are two deviations from the mean; 1 - 1/512 is halfway between two weights.
			moved := 0
			for _, w := range x {
				if w != 1 {
					moved++
				}
			}
			if moved < n/2-5*32 || moved > n/2+5*32 {
				t.Errorf("%d bits: %d of %d weights moved, by half of the distance to the next", bits, moved, n)
			}
			for j, y := range draws[:i] {
				same := 0
				for k := range x {
					if x[k] == y[k] {
						same++
					}
				}
				if same < n/2-5*32 || same > n/2+5*32 {
					t.Errorf("%d bits: of two draws, %d and %d, %d of %d are alike", bits, i, j, same, n)
				}
			}
		}
	}
}

// TestMaster_BeginsAsWeights checks that an F32 master copy starts equal to the weights, for tensors of any size.
func TestMaster_BeginsAsWeights(t *testing.T) {
	const n = 2<<20 + 5
	dev, params := place(t, tensor.BF16, []int{n, 1}, []int{300})
	for i, p := range params {
		dev.Upload(p.W, normal(uint64(i), p.W.Len(), 0.02))
	}
	cfg := Default
	cfg.Master = FP32
	o, err := New(dev, params, cfg)
	expect.OK(t, err)
	defer o.Close()
	for i, p := range params {
		if !slices.Equal(floats(t, dev, o.state[i].Master), floats(t, dev, p.W)) {
			t.Errorf("the master of %s is not its weights", p.Name)
		}
	}
}

// TestLostUpdates takes 500 steps of fine-tuning: BF16 weights of deviation 0.02, a learning rate that falls from 2e-5
// along a cosine, and gradients of three parts noise and one part signal. For each form of master weights it measures
// the share of float32 AdamW's path that it keeps, ⟨way, its way⟩ / ‖its way‖², and the relative error of its
// path, ‖way − its way‖ / ‖its way‖. The moments are float32, so that only rounding differs.
func TestLostUpdates(t *testing.T) {
	const n, steps, lr = 4096, 500, 2e-5
	start, signal := normal(1, n, 0.02), normal(2, n, 0.3e-3)
	run := func(dtype tensor.DType, cfg Config) (way []float64) {
		dev, params := place(t, dtype, []int{n, 1})
		p := params[0]
		half := make([]float32, n)
		for i, w := range start {
			half[i] = tensor.RoundBF16(w)
		}
		dev.Upload(p.W, half)
		o, err := New(dev, params, cfg)
		expect.OK(t, err)
		defer o.Close()
		rate := Cosine(lr, 0, steps)
		for step := range steps {
			g := normal(uint64(1000+step), n, 1e-3)
			for i := range g {
				g[i] += signal[i]
			}
			dev.Upload(p.Grad, g)
			take(t, o, rate(step), 0)
		}
		end := floats(t, dev, p.W)
		for _, x := range o.State() {
			switch {
			case strings.HasSuffix(x.Name, ".master"):
				end = floats(t, dev, x)
			case strings.HasSuffix(x.Name, ".residual"):
				for i, r := range x.U8() {
					end[i] = math.Float32frombits(math.Float32bits(end[i]) + uint32(int32(int8(r))<<8))
				}
			}
		}
		for i, w := range end {
			way = append(way, float64(w)-float64(half[i]))
		}
		return way
	}
	cfg := Default
	cfg.Decay, cfg.Bits, cfg.Master = 0, 32, NoMaster
	truth := run(tensor.F32, cfg)
	for _, x := range []struct {
		master          Master
		least, most     float64 // share kept
		closer, farther float64 // relative error
	}{
		// The noise of stochastic rounding is a random walk. 24 bits round 256 times as finely, to nearest. A float32 master
		// is the reference itself.
		{NoMaster, 0.05, 0.35, 0.7, 1},
		{Stochastic, 0.97, 1.03, 0, 0.4},
		{Split8, 0.99, 1.01, 0, 0.01},
		{FP32, 1, 1, 0, 0},
	} {
		cfg.Master = x.master
		way := run(tensor.BF16, cfg)
		var along, off, whole float64
		for i, w := range truth {
			along, off, whole = along+way[i]*w, off+(way[i]-w)*(way[i]-w), whole+w*w
		}
		kept, far := along/whole, math.Sqrt(off/whole)
		t.Logf("%-6s keeps %.1f%% of the way and is %.2f%% off", x.master, 100*kept, 100*far)
		if kept < x.least || kept > x.most || far < x.closer || far > x.farther {
			t.Errorf("%s keeps %v of the way and is %v off", x.master, kept, far)
		}
	}
}

// TestNoExplosion has quantization blocks whose gradients span so many decades that bitsandbytes codes v as 0 while m
// is not 0, and takes steps of hundreds to millions of learning rates. Ours must stay close to the exact update, which
// is at most 7.3 lr.
func TestNoExplosion(t *testing.T) {
	const lr, steps = 1e-3, 50
	kinds := map[string]func(i int, rng *rand.Rand) float64{
		"one a million times the others": func(i int, rng *rand.Rand) float64 {
			g := 1e-6 * rng.NormFloat64()
			if i == 100 {
				return 1
			}
			return g
		},
		"log-normal, sigma 3": func(_ int, rng *rand.Rand) float64 {
			return 1e-3 * math.Copysign(math.Exp(3*rng.NormFloat64()), rng.NormFloat64())
		},
		"every decade from 1e-8 to 1e2": func(i int, _ *rand.Rand) float64 {
			return math.Pow(10, -8+10*float64(i)/255) * float64(1-2*(i%2))
		},
	}
	for name, gradient := range kinds {
		largest := func(cfg Config) (worst float64) {
			dev, params := place(t, tensor.F32, []int{4096, 1})
			o, err := New(dev, params, cfg)
			expect.OK(t, err)
			defer o.Close()
			rng := rand.New(rand.NewPCG(5, 6))
			before := make([]float32, 4096)
			for range steps {
				g := make([]float32, 4096)
				for i := range g {
					g[i] = float32(gradient(i%256, rng))
				}
				dev.Upload(params[0].Grad, g)
				take(t, o, lr, 0)
				after := floats(t, dev, params[0].W)
				for i, w := range after {
					worst = max(worst, math.Abs(float64(w)-float64(before[i]))/lr)
				}
				before = after
			}
			return worst
		}
		ours := Default
		theirs := ours
		theirs.Master, theirs.BNB = NoMaster, true
		exact := ours
		exact.Bits = 32
		a, b, e := largest(ours), largest(theirs), largest(exact)
		t.Logf("%s: the largest update is %.3g lr in 8 bits, %.3g exactly, %.3g of bitsandbytes", name, a, e, b)
		if a > 5 || b < 100 {
			t.Errorf("%s: the largest update is %v lr, and %v of bitsandbytes", name, a, b)
		}
	}
}

// TestEightBits compares 8-bit moments with float32 AdamW: the paths differ only by quantization noise.
func TestEightBits(t *testing.T) {
	const n, steps, lr = 8977, 200, 1e-3
	run := func(bits int) []float32 {
		dev, params := place(t, tensor.F32, []int{n, 1})
		cfg := Default
		cfg.Bits = bits
		o, err := New(dev, params, cfg)
		expect.OK(t, err)
		defer o.Close()
		scale := normal(9, n, 1)
		for step := range steps {
			g := normal(uint64(step), n, 1e-3)
			for i := range g {
				g[i] = (g[i] + 3e-4) * float32(math.Exp(float64(scale[i]))) // log-normal, sigma 1
			}
			dev.Upload(params[0].Grad, g)
			take(t, o, lr, 0)
		}
		return floats(t, dev, params[0].W)
	}
	exact, eight := run(32), run(8)
	var off, whole float64
	for i, w := range exact {
		off += float64(eight[i]-w) * float64(eight[i]-w)
		whole += float64(w) * float64(w)
	}
	far := math.Sqrt(off / whole)
	t.Logf("after %d steps the way is %.1f%% off", steps, 100*far)
	if far > 0.08 { // a step is off by some 11% at this spread, not always to the same side
		t.Errorf("the way is %v off", far)
	}
}

// TestUpdate checks that updates without a decision are steps that are not clipped, and that they count.
func TestUpdate(t *testing.T) {
	run := func(step func(o *AdamW) error) (all [][]byte) {
		dev, params := place(t, tensor.BF16, []int{67, 64}, []int{20})
		o, err := New(dev, params, Default)
		expect.OK(t, err)
		defer o.Close()
		for n := range 3 {
			for i, p := range params {
				dev.Upload(p.Grad, normal(uint64(3*n+i), p.W.Len(), 1))
			}
			if err := step(o); err != nil || o.Steps() != n+1 {
				t.Errorf("%d steps, not %d, %v", o.Steps(), n+1, err)
			}
		}
		for _, x := range append(o.State(), params[0].W, params[1].W) {
			all = append(all, bytes.Clone(x.Raw()))
		}
		return all
	}
	steps := run(func(o *AdamW) error { _, err := o.Step(1e-2, 0); return err })
	updates := run(func(o *AdamW) error { o.Update(1e-2); return nil })
	if !slices.EqualFunc(updates, steps, bytes.Equal) {
		t.Error("updates and steps end with other bits")
	}
}

func TestParseMaster(t *testing.T) {
	for _, s := range []string{"split8", "sr", "fp32", "none"} {
		if m, err := ParseMaster(s); string(m) != s || err != nil {
			t.Errorf("%s: %v, %v", s, m, err)
		}
	}
	for _, s := range []string{"", "split16", "SR"} {
		if _, err := ParseMaster(s); err == nil || !strings.Contains(err.Error(), "split8, sr, fp32 or none") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// take takes a step and fails the test if the optimizer skips it.
func take(t testing.TB, o *AdamW, lr, limit float64) {
	t.Helper()
	if r, err := o.Step(lr, limit); err != nil || !r.Taken {
		t.Fatal(r, err)
	}
}

// TestState_OfAdaptersHas32Bits checks that a large factor of an adapter is not quantized, unlike other matrices.
func TestState_OfAdaptersHas32Bits(t *testing.T) {
	dev, params := place(t, tensor.F32, []int{64, 64}, []int{64, 64})
	params[0].Adapter = true
	o, err := New(dev, params, Default)
	expect.OK(t, err)
	defer o.Close()
	for _, x := range o.State() {
		quantized := x.DType == tensor.U8 || strings.HasSuffix(x.Name, "absmax")
		if strings.HasPrefix(x.Name, "p0.") == quantized {
			t.Errorf("%s is %v", x.Name, x.DType)
		}
	}
}
