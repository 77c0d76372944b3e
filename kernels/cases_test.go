package kernels_test

import (
	"testing"

	"restyle/kernels"
	"restyle/kernels/cases"
	"restyle/tensor"
)

func TestAdd(t *testing.T)          { testOp(t, "add") }
func TestAttention(t *testing.T)    { testOp(t, "attention") }
func TestAdamW(t *testing.T)        { testOp(t, "adamw") }
func TestCached(t *testing.T)       { testOp(t, "cached") }
func TestCrossEntropy(t *testing.T) { testOp(t, "crossentropy") }
func TestEmbedding(t *testing.T)    { testOp(t, "embedding") }
func TestGELU(t *testing.T)         { testOp(t, "gelu") }
func TestLinear(t *testing.T)       { testOp(t, "linear") }
func TestQKNorm(t *testing.T)       { testOp(t, "qknorm") }
func TestQuantized(t *testing.T)    { testOp(t, "quantize") }
func TestRMSNorm(t *testing.T)      { testOp(t, "rmsnorm") }
func TestRoPE(t *testing.T)         { testOp(t, "rope") }
func TestRows(t *testing.T)         { testOp(t, "rows") }
func TestSwiGLU(t *testing.T)       { testOp(t, "swiglu") }

// testOp proves an operation's cases on every device.
func testOp(t *testing.T, op string) {
	t.Helper()
	list := cases.Of(op)
	if len(list) == 0 {
		t.Fatalf("no case of %s", op)
	}
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, c := range list {
			for _, fused := range c.Forms() {
				name := c.ID()
				if fused {
					name += " fused"
				}
				t.Run(name, func(t *testing.T) { testCase(t, d, c, fused) })
			}
		}
	})
}

func testCase(t *testing.T, d *kernels.Device, c *cases.Case, fused bool) {
	r, err := c.Check(d, fused)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []cases.Pass{r.Forward, r.Backward} {
		if p.NoKernel != "" {
			t.Errorf("%s has no kernel for %s", d.Name(), p.NoKernel)
		}
		for _, fault := range p.Faults {
			t.Error(fault)
		}
	}
}

// What tests use that run operations themselves.

// place has a case's operands in memory.
func place(t testing.TB, d *kernels.Device, c *cases.Case) *cases.Run {
	t.Helper()
	r, err := c.Place(d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// arena is one that is closed when the test ends.
func arena(t testing.TB, d *kernels.Device, bytes int) *kernels.Arena {
	t.Helper()
	a, err := d.NewArena("test", bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func filled(n int, f func(i int) float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(f(i))
	}
	return x
}

// bytesOf is a tensor's memory, read back.
func bytesOf(t testing.TB, d *kernels.Device, x tensor.Tensor) []byte {
	t.Helper()
	b := make([]byte, x.Bytes())
	if err := d.DownloadBytes(b, x); err != nil {
		t.Fatal(err)
	}
	return b
}

func floats(t testing.TB, d *kernels.Device, x tensor.Tensor) []float64 {
	t.Helper()
	f, err := d.Floats(x)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float64, len(f))
	for i := range f {
		v[i] = float64(f[i])
	}
	return v
}
