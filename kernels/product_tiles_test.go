package kernels

import (
	"slices"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// everyTile launches each tile of products of rows and columns of dim elements in one of the layouts, whichever of the
// tiles the sizes would choose.
func everyTile(d *Device, t tensor.DType, rows, dim int) error {
	var x, y, w, dw tensor.Tensor
	cut := func(a *Arena) {
		x, y = a.New("x", t, rows, dim), a.New("y", t, rows, dim)
		w, dw = a.New("w", t, dim, dim), a.New("dw", t, dim, dim)
	}
	a, err := d.NewArena("tiles", SizeOf(cut))
	if err != nil {
		return err
	}
	cut(a)
	for i, tile := range tensorTiles {
		d.tiled(layerProducts(x, w, y, dw)[i%3], tile, 1)
	}
	if d.gpu.Major == 9 {
		for i, tile := range slices.Concat(wgmmaTiles, wgmmaQuantizedTiles) {
			for _, tile.turns = range []bool{false, true}[:1+number(tile.inTurns())] {
				if tile.pieces == 0 || t == tensor.BF16 {
					d.everyForm(i, tile, layerProducts(x, w, y, dw))
				}
			}
		}
	}
	return a.Close()
}

// everyForm launches a tile in each form that it has: with an activation, gated, of two pairs of operands, of codes,
// of groups of rows, of the other layouts, and with an activation's gradient.
func (d *Device) everyForm(i int, tile wgmmaTile, p [3]cpu.Product) {
	_, atOnce := tile.out(true)
	plain, c := p[0], codedOf(p)
	if tile.pieces > 0 { // quantized weights take less memory, and any bits are a number
		p[0].B.DType = []tensor.DType{tensor.INT8, tensor.INT4, tensor.INT4Z}[i%3]
	}
	gated := p[0]
	gated.C.Cols /= 2
	p[0].Act = []cpu.Activation{SiLU, GELUTanh, cpu.NoActivation, GELUExact}[i%4]
	d.wgmmaTiled(p[0], p[0].C, true, false, tile, coded{})
	if atOnce > 0 {
		d.wgmmaTiled(gated, p[0].A, true, true, tile, coded{})
	}
	if tile.pieces > 0 {
		return
	}
	pair := plain
	pair.A2, pair.B2 = plain.A, plain.B
	d.wgmmaTiled(pair, pair.C, false, false, tile, coded{})
	halves := tile
	halves.partSteps = blocks(c.A.Cols, 4*wgmmaDepth) // half of the steps
	d.wgmmaTiled(c.pairs(), c.C, false, false, halves, c)
	groups := tile
	groups.groups = ofRows
	if plain.C.DType == tensor.BF16 { // there are no numbers of rows
		d.wgmmaTiled(plain, plain.C, false, false, groups, coded{})
	}
	if atOnce > 0 {
		c.C = gated.C
		d.wgmmaTiled(c.pairs(), p[0].A, true, true, tile, c)
		if plain.C.DType == tensor.BF16 {
			d.wgmmaTiled(gated, p[0].A, true, true, groups, coded{})
		}
	}
	if tile.columns%64 != 0 {
		return
	}
	for _, q := range p[1:] {
		d.wgmmaTiled(q, q.C, false, false, tile, coded{})
	}
	tile.gradient = true
	q := p[1]
	q.Pre, q.Act = p[0].C.Addr, []cpu.Activation{GELUExact, GELUTanh, GELUTanh, SiLU}[i%4] // Pre has the size of C
	d.wgmmaTiled(q, q.C, false, false, tile, coded{})
	q.Act, q.C.Cols = actSwiGLU, q.C.Cols/2&^7
	q.B.Cols = q.C.Cols
	ups := q.C
	ups.Addr += uintptr(ups.Cols * ups.DType.Size())
	d.wgmmaTiled(q, ups, false, false, tile, coded{})
}

// ofRows are groups of rows.
var ofRows = groups{kind: groupRows, offsets: tensor.Tensor{Shape: []int{3}}}

// codedOf returns the product of a layer's output in codes: any bits are codes, and they take less memory than x, w and
// dw.
func codedOf(p [3]cpu.Product) coded {
	c := coded{Product: p[0]}
	c.B.DType = tensor.INT8
	c.codes = tensor.Tensor{DType: tensor.U8, Shape: []int{c.A.Rows, c.A.Cols}, Addr: c.A.Addr}
	c.scales = tensor.Tensor{DType: tensor.F32, Shape: []int{c.A.Rows}, Addr: p[2].C.Addr}
	return c
}

// layerProducts returns the products of a layer: y, dx and dw. dx uses the memory of x, and dy the memory of y.
func layerProducts(x, w, y, dw tensor.Tensor) [3]cpu.Product {
	return [3]cpu.Product{
		{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true},
		{C: x.Matrix(), A: y.Matrix(), B: w.Matrix()},
		{C: dw.Matrix(), A: y.Matrix(), TransA: true, B: x.Matrix()},
	}
}
