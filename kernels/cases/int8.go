package cases

import (
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

// linearINT8Case is a layer with INT8 weights and activations. It has the limits of other layers: of the formula's
// sums, the float32 product of both scales is rounded, and then that of a sum and a scale.
func linearINT8Case(t, to tensor.DType, rows, in, out int, bias, add bool) *Case {
	c := quantizedLinearCase(tensor.INT8, t, to, rows, in, out, bias, add)
	c.Op, c.Kernels = "linear_int8", [2][]string{{"linear_int8"}}
	c.Tolerance, c.Elements = 0, nil
	c.Forward = func(d *kernels.Device, x Tensors) { d.LinearINT8(x["y"], x["x"], x["w"], x["bias"], add) }
	want := c.Want
	c.Want = func(x Values) Values {
		coded := Values{"x": rowsINT8(x["x"], in), "w": x["w"], "y": x["y"]}
		if bias {
			coded["bias"] = x["bias"]
		}
		return want(coded)
	}
	return c
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
			// tiles of wgmma.cu: of whole words, in turns, to another type, and of k in parts
			linearINT8Case(t, t, 130, 321, 200, true, true),
			linearINT8Case(t, tensor.F32, 70, 272, 136, true, true),
			linearINT8Case(t, t, 5, 3610, 24, true, true))
	}
	return cases
}
