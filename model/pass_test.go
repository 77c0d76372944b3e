package model

import (
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// TestStaged_OffsetsOfSequences checks that the offsets of a pass's sequences are on the device, at the same address
// for every pass, and that offsets of empty sequences are dropped: there may be more empty sequences than tokens.
func TestStaged_OffsetsOfSequences(t *testing.T) {
	cfg := shapes["llama"]
	dev := device(t, kernels.Options{})
	m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 5, Train: true})
	where := tensor.Tensor{}
	for _, test := range []struct{ starts, want []int32 }{
		{nil, []int32{0, 3}},
		{[]int32{0, 1, 3}, []int32{0, 1, 3}},
		{[]int32{0, 1, 2, 3, 4, 5}, []int32{0, 1, 2, 3, 4, 5}},
		{[]int32{0, 0, 0, 0, 0, 0, 0, 1, 3, 3, 3}, []int32{0, 1, 3}},
	} {
		n := test.want[len(test.want)-1]
		b := sequence(cfg, 1, int(n))
		b.CuSeqlens = test.starts
		p, err := m.newPass(b)
		expect.OK(t, err)
		s := m.layers[0].attention.specOf(p)
		if !slices.Equal(s.CuSeqlens, test.want) || !slices.Equal(s.Offsets.I32(), test.want) {
			t.Errorf("%v: %v, on the device %v, not %v", test.starts, s.CuSeqlens, s.Offsets.I32(), test.want)
		}
		if got := p.ids.I32(); !slices.Equal(got, b.IDs) {
			t.Errorf("%v: ids %v, not %v", test.starts, got, b.IDs)
		}
		if where.Ok() && where.Addr != s.Offsets.Addr {
			t.Errorf("%v: the offsets lie at %#x, not %#x", test.starts, s.Offsets.Addr, where.Addr)
		}
		where = s.Offsets
	}
}
