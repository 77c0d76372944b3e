package cuda

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// multiplied returns the product of small whole numbers that the emulated GPU's cuBLASLt computes, with an address that
// is off by off bytes.
func multiplied(t *testing.T, s Shape, add bool, off int) ([]float32, error) {
	t.Helper()
	t.Setenv("RESTYLE_CACHE", cudatest.Dir())
	g, _ := openEmulated(t)
	b, err := OpenEmulatedBLAS(g)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.Version == 0 || b.Path == "" {
		t.Error(b.Version, b.Path)
	}
	place := func(n int, value func(i int) float32) uintptr {
		var bytes []byte
		for i := range n {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(value(i)))
		}
		at, err := g.Alloc(len(bytes) + 256)
		if err == nil {
			err = g.Upload(at, bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	number := func(i int) float32 { return float32(i%7 - 3) }
	a, x := place(100, number), place(100, func(i int) float32 { return number(3 * i) })
	c, bias := place(100, func(int) float32 { return 1000 }), uintptr(0)
	if s.Bias {
		bias = place(10, func(i int) float32 { return float32(100 * i) })
	}
	work, err := g.Alloc(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	s.Type, s.Result, s.AlignA, s.AlignB, s.AlignC, s.Workspace = tensor.F32, tensor.F32, 256, 256, 256, 1<<10
	if s.Batch > 0 {
		s.AlignA, s.AlignB, s.AlignC = 4, 4, 4
	}
	p, err := b.Plan(s)
	if err != nil {
		return nil, err
	}
	defer p.Discard()
	p.Multiply(0, a+uintptr(off), x, c, bias, add, work, 1<<10)
	got := make([]byte, 400)
	if err := g.Download(got, c); err != nil {
		return nil, err
	}
	var list []float32
	for ; len(got) > 0; got = got[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(got)))
	}
	return list, nil
}

// TestBLAS_EveryForm checks that every form of a product means what Shape says, also in a batch, whose products may
// share A or B.
func TestBLAS_EveryForm(t *testing.T) {
	const m, n, k = 3, 4, 5
	number := func(i int) float32 { return float32(i%7 - 3) }
	for form := range 32 {
		ta, tb, bias, add := form&1 > 0, form&2 > 0, form&4 > 0, form&8 > 0
		s := Shape{M: m, N: n, K: k, LDA: 6, LDB: 7, LDC: 8, TransA: ta, TransB: tb, Bias: bias}
		if form >= 16 {
			s.Batch, s.NextA, s.NextB, s.NextC = 3, []int{33, 0, 5}[form%3], []int{0, 31, 30}[form%3], 29
		}
		got, err := multiplied(t, s, add, 0)
		if err != nil {
			t.Fatal(err)
		}
		for row := range m * max(1, s.Batch) {
			one, i := row/m, row%m
			for j := range n {
				want := float32(0)
				for e := range k {
					a, b := i*6+e, e*7+j
					if ta {
						a = e*6 + i
					}
					if tb {
						b = j*7 + e
					}
					want += number(one*s.NextA+a) * number(3*(one*s.NextB+b))
				}
				if bias {
					want += float32(100 * j)
				}
				if add {
					want += 1000
				}
				if c := got[one*s.NextC+i*8+j]; c != want {
					t.Errorf("%+v, add %t: element %d, %d of product %d is %v, not %v", s, add, i, j, one, c, want)
				}
			}
			if got[one*s.NextC+i*8+n] != 1000 {
				t.Errorf("%+v: what lies beside row %d of product %d was written", s, i, one)
			}
		}
	}
}

// TestBLASErrors has a product without an algorithm, an address that differs from the planned one, and a missing
// library.
func TestBLASErrors(t *testing.T) {
	s := Shape{M: 3, N: 4, K: 5, LDA: 4, LDB: 7, LDC: 8}
	if _, err := multiplied(t, s, false, 0); err == nil ||
		!strings.Contains(err.Error(), "cuBLASLt: CUBLAS_STATUS_INVALID_VALUE") {
		t.Error(err)
	}
	s.LDA = 6
	g, f, _, to := emulated(t, "place", 64)
	b, err := OpenEmulatedBLAS(g)
	if err != nil {
		t.Fatal(err)
	}
	unsupported, invalid := s, s
	unsupported.Type, unsupported.Result = tensor.F32, tensor.BF16
	invalid.Batch = 3 // all products would have the same C
	for _, s := range []Shape{unsupported, invalid} {
		if p, err := b.Plan(s); p != nil || err != nil {
			t.Errorf("what there is no algorithm for: %v, %v", p, err)
		}
	}
	s.Type, s.Result, s.AlignA, s.AlignB, s.AlignC = tensor.F32, tensor.F32, 256, 256, 256
	p, err := b.Plan(s)
	if err != nil {
		t.Fatal(err)
	}
	g.Launch(f, Dim3{X: 2}, Dim3{X: 64}, 0, uint64(to)) // past the end of the memory
	p.Multiply(0, to, to, to, 0, false, to, 0)
	if err := g.Err(); !Fault(err) || !strings.HasPrefix(err.Error(),
		"multiply matrices, at or before kernel place: CUDA_ERROR_LAUNCH_FAILED") {
		t.Errorf("a GPU that has failed before a product: %v", err)
	}
	p.Discard()
	g.Close()
	if _, err := multiplied(t, s, false, 4); err == nil || !strings.HasPrefix(err.Error(), "multiply matrices") {
		t.Error(err)
	}
	for _, c := range []struct {
		a, c uintptr // offsets from the start of the memory
		want string
	}{{0, 256, "cublasLtMatmul has C where no memory is"}, {256, 0, "cublasLtMatmul has B where no memory is"}} {
		g, _, from, to := emulated(t, "place", 64)
		b, err := OpenEmulatedBLAS(g)
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Plan(s)
		if err != nil {
			t.Fatal(err)
		}
		p.Multiply(0, from+c.a, from, to+c.c, 0, false, to, 0)
		if err := g.Err(); !Fault(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, not %s", err, c.want)
		}
		p.Discard()
		g.Close()
	}
	t.Setenv("RESTYLE_CUBLASLT", "/a/file")
	g = openStandIn(t, 0)
	if _, err := OpenBLAS(g); err == nil || !strings.Contains(err.Error(), "tried /a/file") {
		t.Error(err)
	}
	if _, err := openBLAS(g, []string{cudatest.Library(t, "libnvrtc")}); err == nil ||
		!strings.Contains(err.Error(), "it has no ") {
		t.Error(err)
	}
}
