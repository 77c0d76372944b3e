package kernels

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/tensor"
)

// TestGuardScratch writes before and after scratch memory, and checks that both writes are reported by name when it is
// released, and nothing once the guards are removed.
func TestGuardScratch(t *testing.T) {
	d, err := Open("cpu", Options{Threads: 1})
	expect.OK(t, err)
	defer d.Close()
	var got []string
	report := func(what string) { got = append(got, what) }
	use := func(spoil func(x tensor.Tensor)) {
		defer d.release(d.mark())
		d.scratch("first", tensor.F32, 9)
		x := d.scratch("x", tensor.BF16, 3)
		if v, err := d.Floats(x); err == nil && len(got) == 0 && fmt.Sprint(v) != "[NaN NaN NaN]" && d.released != nil {
			t.Errorf("scratch memory begins as %v", v)
		}
		spoil(x)
	}
	write := func(at int) func(x tensor.Tensor) {
		return func(x tensor.Tensor) {
			x.DType, x.Shape, x.Addr = tensor.U8, []int{1}, x.Addr+uintptr(at)
			x.Raw()[0] = 1
		}
	}
	d.GuardScratch(report)
	use(write(5))
	if got != nil {
		t.Errorf("the last byte: %q", got)
	}
	use(write(6))
	use(write(-1))
	if want := []string{"x BF16[3]: written beyond its end", "x BF16[3]: written before its beginning"}; !slices.Equal(got,
		want) {
		t.Errorf("%q, not %q", strings.Join(got, ", "), want)
	}
	d.GuardScratch(nil)
	use(write(6))
	if len(got) != 2 {
		t.Errorf("without guards: %q", got)
	}
}

// TestAttention_RefusesOffsetsOnHost checks that attention on a GPU refuses sequences without offsets on the GPU.
func TestAttention_RefusesOffsetsOnHost(t *testing.T) {
	d := &Device{gpu: &gpu{}, counts: map[string]int{}}
	x := tensor.Tensor{Addr: align, DType: tensor.F32, Shape: []int{3, 12}}
	for want, offsets := range map[string]tensor.Tensor{
		"offsets is DType(0)[]: must be I32[2]": {},
		"offsets is I32[3]: must be I32[2]":     {Addr: align, DType: tensor.I32, Shape: []int{3}},
		"offsets is F32[2]: must be I32[2]":     {Addr: align, DType: tensor.F32, Shape: []int{2}},
	} {
		s := AttentionSpec{CuSeqlens: []int32{0, 3}, Offsets: offsets, Heads: 1, KVHeads: 1, HeadDim: 4}
		MustPanic(t, want, "Attention: "+want, func() { d.Attention(x, x, x, s) })
		MustPanic(t, want, "AttentionBackward: "+want, func() { d.AttentionBackward(x, x, x, x, x, s) })
	}
}
