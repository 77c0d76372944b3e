package kernels_test

import (
	"bytes"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/quant"
	"restyle/tensor"
)

// aloneRows is the number of rows in TestSetRowsAlone.
const aloneRows = 130

// An aloneOp computes out outputs for each of some rows of in inputs, starting at row number first.
type aloneOp struct {
	name    string
	in, out int
	typ     tensor.DType // of the outputs
	run     func(d *kernels.Device, y, x tensor.Tensor, first int)
}

// aloneKit has what operations on rows of a type take besides the rows.
type aloneKit struct {
	t   testing.TB
	d   *kernels.Device
	a   *kernels.Arena
	typ tensor.DType
}

// of returns a tensor of numbers.
func (k aloneKit) of(t tensor.DType, shape ...int) tensor.Tensor {
	x := k.a.New("x", t, shape...)
	values := kernels.Waves(x.Len())
	if !t.Quantized() {
		k.d.Upload(x, values)
		return x
	}
	codes := make([]byte, x.Bytes())
	if err := quant.RuleFor(t).Quantize(codes, values, x.Dim(-1)); err != nil {
		k.t.Fatal(err)
	}
	k.d.UploadBytes(x, codes)
	return x
}

// products lists products with weights of a type.
func (k aloneKit) products(weights tensor.DType, in, out int) []aloneOp {
	const rank, experts = 24, 3
	w, bias, none := k.of(weights, out, in), k.of(k.typ, out), tensor.Tensor{}
	pairX, pairW, stream := k.of(k.typ, aloneRows, rank), k.of(k.typ, out, rank), k.of(k.typ, aloneRows, out)
	pair := func(y tensor.Tensor, first int) kernels.Pair {
		return kernels.Pair{X: pairX.Slice(first, first+y.Rows()), W: pairW}
	}
	grouped, offsets := k.of(weights, experts*out, in), k.a.New("offsets", tensor.I32, experts+1)
	name := weights.String() + " weights, "
	return []aloneOp{
		{name + "Linear", in, out, tensor.F32, func(d *kernels.Device, y, x tensor.Tensor, _ int) {
			d.Linear(y, x, w, none)
		}},
		{name + "bias and pair", in, out, k.typ, func(d *kernels.Device, y, x tensor.Tensor, first int) {
			d.Linear(y, x, w, bias, pair(y, first))
		}},
		{name + "LinearAdd", in, out, k.typ, func(d *kernels.Device, y, x tensor.Tensor, first int) {
			d.Copy(y, stream.Slice(first, first+y.Rows()))
			d.LinearAdd(y, x, w, bias)
		}},
		{name + "LinearActivation", in, out, k.typ, func(d *kernels.Device, y, x tensor.Tensor, _ int) {
			d.LinearActivation(y, none, x, w, bias, kernels.GELUTanh)
		}},
		{name + "LinearSwiGLU", in, out / 2, k.typ, func(d *kernels.Device, y, x tensor.Tensor, first int) {
			d.LinearSwiGLU(y, none, x, w, bias, pair(y, first))
		}},
		{name + "GroupedLinear", in, out, k.typ, func(d *kernels.Device, y, x tensor.Tensor, first int) {
			var at []int32 // a row's expert follows from its number
			for e := range experts + 1 {
				at = append(at, int32(min(max(e*aloneRows/experts-first, 0), x.Rows())))
			}
			d.UploadI32(offsets, at)
			d.GroupedLinear(y, x, grouped, offsets, x.Rows())
		}},
	}
}

// others lists what else a pass computes of rows.
func (k aloneKit) others() []aloneOp {
	const dim, heads, kvHeads, headDim, positions = 203, 3, 1, 22, 200
	const width = (heads + 2*kvHeads) * headDim
	w, b, head := k.of(k.typ, dim), k.of(k.typ, dim), k.of(k.typ, headDim)
	mean, rstd := k.a.New("mean", tensor.F32, aloneRows), k.a.New("rstd", tensor.F32, aloneRows*(heads+kvHeads))
	cos, sin := k.of(tensor.F32, positions, headDim/2), k.of(tensor.F32, positions, headDim/2)
	at, h := k.a.New("positions", tensor.I32, aloneRows), k.a.New("h", k.typ, aloneRows, dim)
	return []aloneOp{
		{"AddRMSNorm", dim, dim, k.typ, func(d *kernels.Device, y, x tensor.Tensor, _ int) {
			d.AddRMSNorm(y, rstd.Part(0, x.Rows()), h.Slice(0, x.Rows()), x, x, w, 0.1)
		}},
		{"AddLayerNorm", dim, dim, k.typ, func(d *kernels.Device, y, x tensor.Tensor, _ int) {
			n := x.Rows()
			d.AddLayerNorm(y, mean.Slice(0, n), rstd.Part(0, n), h.Slice(0, n), x, x, w, b, 0.1)
		}},
		{"QKNorm, RoPE", width, width, k.typ, func(d *kernels.Device, y, x tensor.Tensor, first int) {
			n := x.Rows()
			var list []int32
			for i := range n {
				list = append(list, int32(first+i+(first+i)%7*10))
			}
			d.UploadI32(at.Slice(0, n), list)
			d.QKNorm(y, rstd.Part(0, n, heads+kvHeads), x, head, head, heads, kvHeads, 0.1)
			d.RoPE(y, at.Slice(0, n), cos, sin, heads, kvHeads)
		}},
		{"SwiGLU", 2 * dim, dim, k.typ, func(d *kernels.Device, y, x tensor.Tensor, _ int) { d.SwiGLU(y, x) }},
		{"GELU", dim, dim, k.typ, func(d *kernels.Device, y, x tensor.Tensor, _ int) { d.GELU(y, x, false) }},
	}
}

// TestSetRowsAlone checks that each row of what a pass computes has the same bits as if it were computed by itself, for
// all types of weights, with k in several parts.
func TestSetRowsAlone(t *testing.T) {
	quantized := []tensor.DType{tensor.INT8, tensor.INT4, tensor.INT4Z, tensor.NF4, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0,
		tensor.Q5_1, tensor.Q8_0, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		d.GuardScratch(nil) // which takes most of the time
		d.SetFused(kernels.All())
		d.SetRowsAlone(true)
		for _, typ := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
			k := aloneKit{t, d, arena(t, d, 16<<20), typ}
			ops := append(k.products(typ, 1101, 74), k.others()...)
			for i, q := range quantized {
				in := 768
				if i < 4 { // whose rows may have any length
					in += 9
				}
				if typ == tensor.BF16 || i%3 == 0 {
					ops = append(ops, k.products(q, in, 36)[:5-i%2]...)
				}
			}
			for _, op := range ops {
				x, y := k.of(typ, aloneRows, op.in), k.a.New("y", op.typ, aloneRows, op.out)
				bytesOf := func(first, n int) []byte {
					part := y.Slice(0, n)
					op.run(d, part, x.Slice(first, first+n), first)
					raw := make([]byte, part.Bytes())
					expect.OK(t, d.DownloadBytes(raw, part))
					return raw
				}
				var alone []byte
				for r := range aloneRows {
					alone = append(alone, bytesOf(r, 1)...)
				}
				row := len(alone) / aloneRows
				for _, n := range []int{2, 3, 7, 8, 9, 16, 17, 33, 64, aloneRows} {
					for _, first := range slices.Compact([]int{0, aloneRows - n}) {
						if !bytes.Equal(bytesOf(first, n), alone[first*row:][:n*row]) {
							t.Errorf("%v %s: %d rows from %d on have other bits than each alone", typ, op.name, n, first)
						}
					}
				}
			}
		}
	})
}
