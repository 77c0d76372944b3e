package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// LayerNorm subtracts the mean of every row, divides the row by its standard deviation (Ba, Kiros & Hinton 2016), and
// scales and shifts its elements:
//
//	mean[r] = Σᵢ x[r,i] / dim
//	rstd[r] = 1 / √(Σᵢ (x[r,i] − mean[r])² / dim + eps)
//	y[r,i] = (x[r,i] − mean[r]) · rstd[r] · w[i] + b[i]
//
// x and y are [rows, dim], w and b are [dim], all of one type; b may be the zero Tensor, for a norm without bias. mean
// and rstd are [rows] F32, kept for the backward pass. The result is rounded once, when y is stored. y may be x.
func (d *Device) LayerNorm(y, mean, rstd, x, w, b tensor.Tensor, eps float32) {
	checkLayerNorm("LayerNorm", "y", y, mean, rstd, x, w, b)
	d.ran("layernorm")
	if d.gpu != nil {
		m, g := normForward(y, w)
		d.launch(kernel{"op_layernorm.cu", "layernorm", m}, g,
			addr(y), addr(mean), addr(rstd), addr(x), addr(w), addr(b), i32(y.Rows()), f32(eps))
		return
	}
	cpu.LayerNorm(y, mean, rstd, x, w, b, eps)
}

// LayerNormBackward computes the gradient of LayerNorm. With x̂ = (x − mean) · rstd and g = dy · w:
//
//	dx[r,i] = rstd[r] · (g[r,i] − Σⱼ g[r,j] / dim − x̂[r,i] · Σⱼ g[r,j] · x̂[r,j] / dim)
//	dw[i] += Σᵣ dy[r,i] · x̂[r,i]
//	db[i] += Σᵣ dy[r,i]
//
// dx, dy and x are [rows, dim] of one type; dw and db are [dim] F32 and must not overlap; either is the zero Tensor if
// its parameter is frozen or does not exist. dx may be dy.
func (d *Device) LayerNormBackward(dx, dw, db, dy, x, w, mean, rstd tensor.Tensor) {
	checkLayerNorm("LayerNormBackward", "dx", dx, mean, rstd, x, w, tensor.Tensor{})
	checkNormGradient("LayerNormBackward", dw, dy, x, w)
	checkNormGradient("LayerNormBackward", db, dy, x, w)
	d.ran("layernorm_backward")
	d.layerNormBackward(dx, dw, db, dy, x, w, mean, rstd, false)
}

// AddLayerNorm adds to the residual stream and normalizes the sum:
//
//	h = a + b
//	y = LayerNorm(h, w, bias)
//
// h is rounded to its type first, and the norm is computed from the rounded h. h may be a or b. Shapes and types are
// LayerNorm's.
//
// Fused ("layernorm") it is one kernel. Unfused: Add, LayerNorm.
func (d *Device) AddLayerNorm(y, mean, rstd, h, a, b, w, bias tensor.Tensor, eps float32) {
	checkLayerNorm("AddLayerNorm", "y", y, mean, rstd, h, w, bias)
	want("AddLayerNorm", "a", a, h.DType, h.Len())
	want("AddLayerNorm", "b", b, h.DType, h.Len())
	if !d.fused("layernorm") {
		d.Add(h, a, b)
		d.LayerNorm(y, mean, rstd, h, w, bias, eps)
		return
	}
	d.ran("add_layernorm")
	if d.gpu != nil {
		m, g := normForward(y, w)
		d.launch(kernel{"op_layernorm.cu", "add_layernorm", m}, g, addr(y), addr(mean), addr(rstd), addr(h), addr(a), addr(b),
			addr(w), addr(bias), i32(y.Rows()), f32(eps))
		return
	}
	cpu.AddLayerNorm(y, mean, rstd, h, a, b, w, bias, eps)
}

// AddLayerNormBackward adds the gradient through LayerNorm to dh, which already holds the gradient of the residual
// stream; with dx as in LayerNormBackward:
//
//	dh += dx
//	dw[i] += Σᵣ dy[r,i] · x̂[r,i]
//	db[i] += Σᵣ dy[r,i]
//
// h is the sum that AddLayerNorm stored. dh is the gradient of both of its addends. Shapes and types are
// LayerNormBackward's.
//
// Fused ("layernorm") it is one kernel, and the sum is rounded once. Unfused: LayerNormBackward into scratch memory,
// Add.
func (d *Device) AddLayerNormBackward(dh, dw, db, dy, h, w, mean, rstd tensor.Tensor) {
	checkLayerNorm("AddLayerNormBackward", "dh", dh, mean, rstd, h, w, tensor.Tensor{})
	checkNormGradient("AddLayerNormBackward", dw, dy, h, w)
	checkNormGradient("AddLayerNormBackward", db, dy, h, w)
	if !d.fused("layernorm") {
		defer d.release(d.mark())
		dx := addNormScratch(d.scratch, h.DType, h.Rows(), h.Dim(-1))
		d.LayerNormBackward(dx, dw, db, dy, h, w, mean, rstd)
		d.Add(dh, dh, dx)
		return
	}
	d.ran("add_layernorm_backward")
	d.layerNormBackward(dh, dw, db, dy, h, w, mean, rstd, true)
}

// layerNormBackward computes the gradients. The parameters' gradients, dw and, if there is one, db, are first summed
// into partials in scratch memory.
func (d *Device) layerNormBackward(dx, dw, db, dy, x, w, mean, rstd tensor.Tensor, add bool) {
	defer d.release(d.mark())
	width := w.Len() * (1 + number(db.Ok()))
	var partials tensor.Tensor
	if d.gpu == nil {
		if dw.Ok() || db.Ok() {
			partials = normScratch(d.scratch, cpu.NormPartials(dx.Rows(), w.Len()), width)
		}
		cpu.LayerNormBackward(dx, dw, db, dy, x, w, mean, rstd, partials, add)
		return
	}
	m, g := d.normRingGrid(dx, w)
	if dw.Ok() || db.Ok() {
		partials = normScratch(d.scratch, g.blocks.X, width)
	}
	d.launch(kernel{"op_layernorm.cu", "layernorm_backward", m}, g, addr(dx).twice(add), addr(partials), addr(dy), addr(x),
		addr(w), addr(mean), addr(rstd), i32(dx.Rows()), flag(add), flag(db.Ok()))
	d.addPartials(partials, dw, db)
}

func checkLayerNorm(op, name string, y, mean, rstd, x, w, b tensor.Tensor) {
	checkNorm(op, name, y, rstd, x, w)
	want(op, "mean", mean, tensor.F32, y.Rows())
	if b.Ok() {
		want(op, "b", b, y.DType, w.Len())
	}
}
