package kernels_test

import (
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestNoRows_ChangeNothing checks that every operation accepts zero rows, and that they do not change what accumulates.
func TestNoRows_ChangeNothing(t *testing.T) {
	const vocab, dim, heads, kvHeads = 5, 64, 2, 1
	const typ, f32 = tensor.BF16, tensor.F32
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		d.SetFused(kernels.All())
		a := arena(t, d, 1<<16)
		none, row := tensor.Tensor{}, func(t tensor.DType, columns int) tensor.Tensor {
			return a.New("no rows", t, 0,
				columns)
		}
		x, y, gateUp, rstd, ids := row(typ, dim), row(typ, dim), row(typ, 2*dim), row(f32, 1), row(tensor.I32, 1)
		qkv, heads2, rstds, codes := row(typ, (heads+2*kvHeads)*dim), row(typ, heads*dim), row(f32, heads+kvHeads),
			row(tensor.U8, 1)
		ones := func(name string, t tensor.DType, shape ...int) tensor.Tensor {
			one := a.New(name, t, shape...)
			d.Upload(one, slices.Repeat([]float32{1}, one.Len()))
			return one
		}
		norm, table, w, angles := ones("norm", typ, dim), ones("table", typ, vocab, dim), ones("w", typ, dim, dim),
			ones("angles", f32, 8, dim/2)
		dnorm, dbias, dtable := ones("dnorm", f32, dim), ones("dbias", f32, dim), ones("dtable", f32, vocab, dim)
		dw, k, v := ones("dw", f32, dim, dim),
			ones("k", typ, 8, dim), ones("v", typ, 8, dim)
		offsets := a.New("offsets", tensor.I32, 3)
		d.Zero(offsets)
		s := kernels.AttentionSpec{CuSeqlens: []int32{0, 0, 0}, Offsets: offsets, Heads: heads, KVHeads: kvHeads,
			HeadDim: dim}
		c := kernels.NewControl(a)
		d.Begin(c)

		d.Embedding(x, table, ids)
		d.EmbeddingBackward(dtable, x, ids, -1)
		d.Add(x, y, y)
		d.RMSNorm(y, rstd, x, norm, 1e-5)
		d.RMSNormBackward(y, dnorm, x, x, norm, rstd)
		d.AddRMSNorm(y, rstd, x, x, x, norm, 1e-5)
		d.AddRMSNormBackward(y, dnorm, x, x, norm, rstd)
		d.LayerNorm(y, rstd, rstd, x, norm, norm, 1e-5)
		d.LayerNormBackward(y, dnorm, dbias, x, x, norm, rstd, rstd)
		d.AddLayerNorm(y, rstd, rstd, x, x, x, norm, norm, 1e-5)
		d.AddLayerNormBackward(y, dnorm, dbias, x, x, norm, rstd, rstd)
		d.Linear(x, y, w, none)
		d.LinearBackward(x, y, w, false)
		d.LinearGradient(dw, x, y, 0, true)
		d.BiasGradient(dnorm, x, 0)
		d.NormLinear(x, y, norm, w, none, 1e-5)
		d.NormSwiGLU(row(typ, dim/2), y, norm, w, none, 1e-5)
		d.LinearAdd(x, y, w, none)
		d.QKNorm(qkv, rstds, qkv, norm, norm, heads, kvHeads, 1e-5)
		d.QKNormBackward(qkv, dnorm, dbias, qkv, qkv, norm, norm, rstds, heads, kvHeads)
		d.RoPE(qkv, ids, angles, angles, heads, kvHeads)
		d.RoPEBackward(qkv, ids, angles, angles, heads, kvHeads)
		for _, fused := range []bool{false, true} {
			d.SetFused(kernels.Fused{"attention": fused})
			d.Attention(heads2, rstds, qkv, s)
			d.AttentionBackward(qkv, heads2, heads2, rstds, qkv, s)
		}
		d.SetFused(kernels.All())
		d.AppendKV(k, v, qkv, heads, kvHeads, 3)
		d.AttentionCached(heads2, qkv, k, v, 3, s)
		d.SwiGLU(x, gateUp)
		d.SwiGLUBackward(gateUp, x, gateUp)
		d.SwiGLULinearBackward(gateUp, x, w, row(typ, 2*dim))
		d.ActivationLinearBackward(x, y, w, row(typ, dim), kernels.SiLU)
		d.GELU(x, y, true)
		d.GELUBackward(x, y, y, true)
		d.Mul(x, x, y)
		d.MulBackward(x, y, x, x, y)
		d.Softmax(x, rstd, y)
		d.SoftmaxBackward(x, y, y)
		d.TopK(row(typ, 2), row(tensor.I32, 2), y, 2)
		d.TopKBackward(x, row(typ, 2), row(tensor.I32, 2))
		d.Draw(ids, row(f32, vocab), row(tensor.I32, kernels.DrawWords))
		d.BatchedProduct(kernels.MatricesOf(x), kernels.MatricesOf(y), kernels.MatricesOf(w), 1, false)
		d.GatherRows(x, table, ids)
		d.CrossEntropy(rstd, x, y, ids, 1)
		d.AddLoss(c, rstd)
		d.AddSquares(c, x)
		d.AdamW(kernels.AdamWTensor{W: x, G: x, State: kernels.AdamWState{M: rstd, V: rstd}}, kernels.AdamWStep{Step: 1})
		d.Quantize(codes, rstd, rstd, true)
		d.Dequantize(rstd, codes, rstd, true)
		d.Copy(x, y)
		for _, same := range []tensor.Tensor{dnorm, dbias, dtable, dw, k, v} {
			for i, got := range floats(t, d, same) {
				if got != 1 {
					t.Fatalf("%s[%d] was changed to %v", same.Name, i, got)
				}
			}
		}
		d.ScatterRows(table, x, ids)
		if got := floats(t, d, table); slices.Max(got) != 0 {
			t.Errorf("scattered from no rows: %v", got)
		}
		if r, err := d.Result(c); err != nil || r.Loss != 0 || r.Norm != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
