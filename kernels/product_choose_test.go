package kernels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestFastest checks that the first algorithm that works is chosen, unless another takes at least 3% less time by its
// median.
func TestFastest(t *testing.T) {
	for _, c := range []struct {
		times [][]time.Duration
		want  int
	}{
		{[][]time.Duration{{100, 100, 100}, {98, 98, 98}}, 0},
		{[][]time.Duration{{100, 100, 100}, {97, 97, 97}}, 1},
		{[][]time.Duration{{100, 100, 100}, {97, 97, 97}, {96, 96, 96}}, 2},
		{[][]time.Duration{{100, 100, 100}, {90, 90, 90}, {90, 90, 90}}, 1},
		{[][]time.Duration{{100, 100, 100}, {1, 99, 200}}, 0}, // one quick run is luck
		{[][]time.Duration{{90, 1000, 90}, {89, 89, 89}}, 0},  // and one slow one is not
		{[][]time.Duration{nil, {100, 100, 100}, {98, 98, 98}}, 1},
		{[][]time.Duration{{100, 100, 100}, nil, {90, 90, 90}}, 2},
		{[][]time.Duration{nil, nil}, 0},
	} {
		if got := fastest(c.times); got != c.want {
			t.Errorf("%v: %d, not %d", c.times, got, c.want)
		}
	}
}

// chooser opens the emulated GPU, whose cuBLASLt has these algorithms, with a directory for its choices.
func chooser(t *testing.T, algorithms, dir string, o Options) *Device {
	t.Helper()
	cudatest.Once(t)
	cudatest.Set(t, "PRODUCTS="+algorithms)
	d, err := Open("emulated", o)
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		failed := d.Err()
		if err := d.Close(); err != nil && failed == nil {
			t.Error(err)
		}
	})
	d.gpu.cache = cuda.Cache{Dir: dir}
	return d
}

// layer runs a linear layer with a bias, forward and backward, of sizes that cuBLASLt takes. It appends the results,
// unless d only rehearses.
func layer(d *Device, results *[]float32) error {
	a, err := d.NewArena("operands", 1<<20)
	if err != nil {
		return err
	}
	defer a.Close()
	x, w, bias, y := a.New("x", tensor.F32, 32, 64), a.New("w", tensor.F32, 48, 64), a.New("bias", tensor.F32, 48),
		a.New("y", tensor.F32, 32, 48)
	dw := a.New("dw", tensor.F32, 48, 64)
	for i, operand := range []tensor.Tensor{x, w, bias} {
		values := make([]float32, operand.Len())
		for j := range values {
			values[j] = float32(math.Sin(float64(1 + i + 7*j)))
		}
		d.Upload(operand, values)
	}
	d.Linear(y, x, w, bias)
	d.LinearGradient(dw, y, x, 0, false)
	got, err := d.Floats(dw)
	if results != nil {
		*results = got
	}
	return err
}

// chosen has d choose algorithms, and returns the algorithm of each product, how often one was timed, and the results.
func chosen(t *testing.T, d *Device) (which []int, timed int, results []float32) {
	t.Helper()
	if err := d.Precompile(t.Context(), func(d *Device) error { return layer(d, nil) }, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(d.gpu.blas.shapes); n != 2 {
		t.Fatalf("%d products", n)
	}
	if err := d.ChooseProducts(t.Context(), func(int, int) { timed++ }); err != nil {
		t.Fatal(err)
	}
	choices := d.Choices()
	for _, s := range d.gpu.blas.shapes {
		plan, err := d.gpu.blas.Plan(s)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		if choice := choices[s.String()]; choice != "" {
			for at = 0; at < plan.Algorithms && plan.Algorithm(at) != choice; at++ {
			}
		}
		which = append(which, at)
		plan.Discard()
	}
	if err := layer(d, &results); err != nil {
		t.Fatal(err)
	}
	return which, timed, results
}

// TestChooseProducts checks that the first algorithm, or one that is 3% faster, is chosen and computes the products.
func TestChooseProducts(t *testing.T) {
	same := map[int][]float32{}
	for _, c := range []struct {
		algorithms string
		o          Options
		want       int // index among the algorithms that are offered
		order      int // the order of the sums
	}{
		{"100", Options{}, 0, 0},
		{"100,98", Options{}, 0, 0},
		{"100,97", Options{}, 1, 1},
		{"100,90", Options{Deterministic: true}, 0, 0},
		{"100,99,96.9", Options{}, 2, 2},
		{"100,x50", Options{}, 0, 0},
		{"x50,100,98", Options{}, 1, 1},
		{"x50,100,90", Options{}, 2, 2},
		{"100,o50,90", Options{}, 1, 2},                    // an algorithm that rounds partial sums is not offered
		{"100,98,97.5,98,99,99,99,99,50", Options{}, 0, 0}, // at most eight are tried
	} {
		which, timed, results := chosen(t, chooser(t, c.algorithms, cudatest.Cache(t), c.o))
		if !slices.Equal(which, []int{c.want, c.want}) {
			t.Errorf("%s: %v, not %d", c.algorithms, which, c.want)
		}
		if want := 2; c.o.Deterministic != (timed == 0) || timed != 0 && timed != want {
			t.Errorf("%s: %d timed", c.algorithms, timed)
		}
		for order, before := range same {
			if slices.Equal(results, before) != (order == c.order) {
				t.Errorf("%s: results as by order %d: %t", c.algorithms, order, order != c.order)
			}
		}
		same[c.order] = results
	}
}

// TestChooseNone makes every algorithm fail, and checks that the run itself reports that.
func TestChooseNone(t *testing.T) {
	d := chooser(t, "x1,x2", cudatest.Cache(t), Options{})
	if err := d.Precompile(t.Context(), func(d *Device) error { return layer(d, nil) }, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.ChooseProducts(t.Context(), nil); err != nil || len(d.Choices()) != 0 {
		t.Error(err, d.Choices())
	}
	if err := layer(d, nil); err == nil || !strings.Contains(err.Error(), "CUBLAS_STATUS_EXECUTION_FAILED") {
		t.Error(err)
	}
}

// TestChoicesKept checks that the same library on the same GPU finds its choices again, that any other does not, and
// that a damaged file is not used.
func TestChoicesKept(t *testing.T) {
	whole := cudatest.Cache(t)
	if which, timed, _ := chosen(t, chooser(t, "100,90", whole, Options{})); timed != 2 ||
		!slices.Equal(which, []int{1, 1}) {
		t.Fatal(which, timed)
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, file string, d *Device)
		timed  int
		want   int // index after all algorithms take the same time
	}{
		"nothing":         {func(*testing.T, string, *Device) {}, 0, 1},
		"another library": {func(_ *testing.T, _ string, d *Device) { d.gpu.blas.Version++ }, 2, 0},
		"another GPU":     {func(_ *testing.T, _ string, d *Device) { d.gpu.GPU.Name = "another" }, 2, 0},
		"a smaller slice": {func(_ *testing.T, _ string, d *Device) { d.gpu.SMs-- }, 2, 0},
		"another file of the library": {func(t *testing.T, _ string, d *Device) {
			d.gpu.blas.Path = filepath.Join(t.TempDir(), "none")
		}, 2, 0},
		"no file": {func(t *testing.T, file string, _ *Device) { check(t, os.Remove(file)) }, 2, 0},
		"a bit flipped": {func(t *testing.T, file string, _ *Device) {
			text, err := os.ReadFile(file)
			check(t, err)
			text[len(text)/2] ^= 1
			check(t, os.WriteFile(file, text, 0o600))
		}, 2, 0},
		"cut off": {func(t *testing.T, file string, _ *Device) { check(t, os.Truncate(file, 100)) }, 2, 0},
		"a folder": {func(t *testing.T, file string, _ *Device) {
			check(t, errors.Join(os.Remove(file), os.Mkdir(file, 0o700)))
		}, 2, 0},
		"no folder":        {func(_ *testing.T, _ string, d *Device) { d.gpu.cache.Dir = "" }, 2, 0},
		"the first of one": {func(_ *testing.T, _ string, d *Device) { say(d, "", false) }, 0, -1},
		"not of cuBLASLt": {func(_ *testing.T, _ string, d *Device) {
			say(d, strings.Repeat("0", 128), true)
		}, 2, 0},
		"no algorithm": {func(_ *testing.T, _ string, d *Device) { say(d, "12", true) }, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := cudatest.Cache(t)
			check(t, os.CopyFS(dir, os.DirFS(whole)))
			files, err := filepath.Glob(filepath.Join(dir, "products-*"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			check(t, os.Chmod(files[0], 0o600)) // the umask decided
			d := chooser(t, "100,100", dir, Options{})
			c.change(t, files[0], d)
			which, timed, _ := chosen(t, d)
			want := []int{c.want, c.want}
			if c.want < 0 {
				want = []int{1, 0}
				slices.Sort(which)
				slices.Reverse(which)
			}
			if timed != c.timed || !slices.Equal(which, want) {
				t.Errorf("%d timed, %v", timed, which)
			}
			if err := os.RemoveAll(filepath.Join(dir, "nothing")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// say edits the file of choices, for one product or for all.
func say(d *Device, choice string, all bool) {
	b := d.gpu.blas.BLAS
	known := d.gpu.cache.Choices(b)
	for _, product := range slices.Sorted(maps.Keys(known)) {
		known[product] = choice
		if !all {
			break
		}
	}
	d.gpu.cache.KeepChoices(b, known)
}

// TestKeepChoices checks that a run keeps the choices that it started with, even if others are faster now, and accepts
// no others.
func TestKeepChoices(t *testing.T) {
	first := chooser(t, "100,90", cudatest.Cache(t), Options{})
	_, _, want := chosen(t, first)
	kept := first.Choices()
	d := chooser(t, "90,100", cudatest.Cache(t), Options{})
	d.KeepChoices(kept)
	if which, timed, got := chosen(t, d); timed != 0 || !slices.Equal(which, []int{1, 1}) || !slices.Equal(got, want) {
		t.Errorf("%v, %d timed", which, timed)
	}
	if !maps.Equal(d.Choices(), kept) {
		t.Errorf("%v, not %v", d.Choices(), kept)
	}
	d = chooser(t, "100,90", cudatest.Cache(t), Options{})
	d.KeepChoices(nil)
	if which, timed, _ := chosen(t, d); timed != 0 || !slices.Equal(which, []int{0, 0}) {
		t.Errorf("%v, %d timed", which, timed)
	}
	for product := range kept {
		kept[product] = strings.Repeat("ab", 64)
	}
	for name, use := range map[string]func(d *Device) error{
		"checked before": func(d *Device) error {
			err := d.Precompile(t.Context(), func(d *Device) error { return layer(d, nil) }, nil)
			return errors.Join(err, d.ChooseProducts(t.Context(), nil))
		},
		"at once": func(d *Device) error { return layer(d, new([]float32)) },
	} {
		d = chooser(t, "100,90", cudatest.Cache(t), Options{})
		d.KeepChoices(kept)
		if err := use(d); err == nil || !strings.Contains(err.Error(), "stored algorithm for product 32x48x64") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChooseStopped checks that choosing reports if it is stopped early, and keeps what was timed by then.
func TestChooseStopped(t *testing.T) {
	dir := cudatest.Cache(t)
	d := chooser(t, "100,90", dir, Options{})
	if err := d.Precompile(t.Context(), func(d *Device) error { return layer(d, nil) }, nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := d.ChooseProducts(ctx, func(int, int) { stop() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := len(d.gpu.cache.Choices(d.gpu.blas.BLAS)); n != 1 {
		t.Errorf("%d are kept", n)
	}
	if len(d.arenas) != 1 { // only the workspace
		t.Errorf("%d arenas", len(d.arenas))
	}
}

// TestProducts checks that Products distinguishes all different products.
func TestProducts(t *testing.T) {
	library, own := chooser(t, "1", cudatest.Cache(t), Options{}), chooser(t, "1", t.TempDir(), Options{OwnProducts: true})
	if got := library.Products(); !strings.Contains(got, "emulated GPU (2 multiprocessors) with cuBLASLt 130001 (") {
		t.Error(got)
	}
	if got := own.Products(); got != "emulated GPU (2 multiprocessors) with restyle's own products" {
		t.Error(got)
	}
	own.KeepChoices(map[string]string{"a": "b"})
	if err := own.ChooseProducts(t.Context(), nil); err != nil || own.Choices() != nil {
		t.Error(err, own.Choices())
	}
	s := cuda.Shape{M: 1, N: 2, K: 3, LDA: 4, LDB: 5, LDC: 6, Type: tensor.BF16, Result: tensor.F32, AlignA: 16,
		AlignB: 32, AlignC: 64, Workspace: 7}
	seen := map[string]bool{}
	for _, change := range []func(*cuda.Shape){
		func(*cuda.Shape) {}, func(s *cuda.Shape) { s.M++ }, func(s *cuda.Shape) { s.N++ }, func(s *cuda.Shape) { s.K++ },
		func(s *cuda.Shape) { s.LDA++ }, func(s *cuda.Shape) { s.LDB++ }, func(s *cuda.Shape) { s.LDC++ },
		func(s *cuda.Shape) { s.TransA = true }, func(s *cuda.Shape) { s.TransB = true },
		func(s *cuda.Shape) { s.Bias = true }, func(s *cuda.Shape) { s.Batch = 2 }, func(s *cuda.Shape) {
			s.Batch,
				s.NextA = 2, 1
		}, func(s *cuda.Shape) { s.Batch, s.NextB = 2, 1 },
		func(s *cuda.Shape) { s.Batch, s.NextC = 2, 1 },
		func(s *cuda.Shape) { s.Type = tensor.F32 }, func(s *cuda.Shape) { s.Result = tensor.BF16 },
		func(s *cuda.Shape) { s.AlignA *= 2 }, func(s *cuda.Shape) { s.AlignB *= 2 }, func(s *cuda.Shape) { s.AlignC *= 2 },
		func(s *cuda.Shape) { s.Workspace++ },
	} {
		other := s
		change(&other)
		if text := fmt.Sprint(other); seen[text] {
			t.Errorf("two products are %s", text)
		} else {
			seen[text] = true
		}
	}
}
