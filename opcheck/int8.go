package opcheck

import (
	"maps"

	"restyle/kernels"
	"restyle/quant"
	"restyle/tensor"
)

// rowsINT8 returns the values of rows of n numbers after quantization to INT8.
func rowsINT8(x []float64, n int) []float64 {
	list := make([]float64, len(x))
	for from := 0; from < len(x); from += n {
		row := make([]float32, n)
		for i := range row {
			row[i] = float32(x[from+i])
		}
		scale, zero, err := quant.INT8.Scale(row)
		if err != nil {
			panic(err) // the numbers are finite
		}
		for i, v := range row {
			list[from+i] = float64(quant.INT8.Code(v, scale, zero)) * float64(scale)
		}
	}
	return list
}

// linearINT8Case returns a layer with INT8 weights and activations. It has the limits of other layers: of the formula's
// sums, the float32 product of both scales is rounded, and then the product of a sum and a scale.
func linearINT8Case(t, to tensor.DType, rows, in, out int, bias, add bool) *Case {
	c := quantizedLinearCase(tensor.INT8, t, to, rows, in, out, bias, add)
	c.Op, c.Kernels = "linear_int8", [2][]string{{"linear_int8"}}
	c.Tolerance, c.Elements = 0, nil
	c.Forward = func(d *kernels.Device, x Tensors) { d.LinearINT8(x["y"], x["x"], x["w"], x["bias"], add) }
	c.codeActivations(in)
	return c
}

// codeActivations makes the formula quantize x, which has rows of n numbers.
func (c *Case) codeActivations(n int) {
	want := c.Want
	c.Want = func(x Values) Values {
		coded := maps.Clone(x)
		coded["x"] = rowsINT8(x["x"], n)
		return want(coded)
	}
}

// int8ActivationsCases returns layers on a device that quantizes the activations of INT8 weights, as LinearINT8 does.
func int8ActivationsCases(t tensor.DType) (cases []*Case) {
	add := func(c *Case, in int) {
		if c.Name += " and activations"; len(c.Forms()) == 1 {
			c.Op = "linear_int8"
		}
		forward := c.Forward
		c.Forward = func(d *kernels.Device, x Tensors) {
			d.SetINT8Activations(true)
			defer d.SetINT8Activations(false)
			forward(d, x)
		}
		c.codeActivations(in)
		cases = append(cases, c)
	}
	sizes := [][3]int{{9, 129, 16}, {40, 328, 72}, {130, 321, 200}}
	if t != tensor.BF16 { // few rows of BF16 are not quantized on a GPU
		sizes = append(sizes, [3]int{1, 130, 31}, [3]int{8, 64, 40})
	}
	for i, size := range sizes {
		c := quantizedLinearCase(tensor.INT8, t, t, size[0], size[1], size[2], i%2 == 0, i%3 == 1)
		c.Tolerance, c.Elements = 0, nil
		add(c, size[1])
	}
	for i, size := range [][3]int{{140, 328, 200}, {9, 72, 96}, {17, 33, 31}, {300, 136, 192}} {
		add(withQuantized(linearSwiGLUCase(t, size[0], size[1], size[2], i%2 == 0, i > 1), tensor.INT8), size[1])
	}
	return cases
}

func linearINT8Cases() (cases []*Case) {
	for _, t := range Types {
		// one to four rows without tiles, and more of them; ends of rows of weights that fill no tile, word or vector
		for i, size := range [][3]int{
			{1, 1, 1}, {2, 130, 3}, {3, 392, 31}, {8, 64, 70}, {9, 129, 16}, {17, 176, 33}, {33, 208, 97}, {50, 64, 64},
		} {
			cases = append(cases, linearINT8Case(t, t, size[0], size[1], size[2], i%3 == 2, i%4 == 1))
		}
		cases = append(cases, linearINT8Case(t, tensor.F32, 12, 200, 70, true, false),
			// tiles of product_wgmma_int8.cu: of whole words, in turns, to another type, and of k in parts
			linearINT8Case(t, t, 130, 321, 200, true, true),
			linearINT8Case(t, tensor.F32, 70, 272, 136, true, true),
			linearINT8Case(t, t, 5, 3610, 24, true, true), linearINT8Case(t, t, 9, 5000, 16, false, false))
		cases = append(cases, int8ActivationsCases(t)...)
	}
	return cases
}
