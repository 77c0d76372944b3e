package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/tensor"
)

// TestFineProducts_SameOnEveryGPU multiplies weights with fine groups on a GPU whose thread blocks take several tiles
// each, and on one that has a thread block for each: the results are the same bits, of one row of activations, of
// several in passes, and of a gated one. Of the longer rows, warps have several turns.
func TestFineProducts_SameOnEveryGPU(t *testing.T) {
	const out = 104 // seven tiles, also of a gated row's half as many
	d := Emulated(t, Options{Fused: All()})
	random := rand.New(rand.NewPCG(7, 8))
	for _, w := range []tensor.DType{tensor.Q4_K, tensor.Q5_0, tensor.Q6_K, tensor.Q8_0} {
		for _, in := range []int{768, 8448} {
			t.Run(fmt.Sprintf("%v %d", w, in), func(t *testing.T) {
				var weights, norm, x, y, gated tensor.Tensor
				lay := func(a *Arena) {
					weights, norm, x = a.New("w", w, out, in), a.New("norm", tensor.BF16, in), a.New("x", tensor.BF16, 3, in)
					y, gated = a.New("y", tensor.F32, 3, out), a.New("gated", tensor.BF16, 1, out/2)
				}
				a, err := d.NewArena("test", SizeOf(lay))
				if err != nil {
					t.Fatal(err)
				}
				lay(a)
				raw := make([]byte, weights.Bytes())
				for i := range raw {
					raw[i] = byte(random.Uint32()) &^ 0x40 // scales are finite
				}
				d.UploadBytes(weights, raw)
				d.Upload(norm, Waves(in))
				d.Upload(x, Waves(3*in))
				results := func(multiprocessors int) (all []float32) {
					d.Upload(y, slices.Repeat([]float32{-1}, 3*out)) // so that what is not computed differs
					d.Upload(gated, slices.Repeat([]float32{float32(multiprocessors)}, out/2))
					was := d.gpu.SMs
					defer func() { d.gpu.SMs = was }()
					d.gpu.SMs = multiprocessors
					for _, rows := range []int{1, 3} {
						d.Linear(y.Slice(0, rows), x.Slice(0, rows), weights, tensor.Tensor{})
						d.NormSwiGLU(gated, x.Slice(0, 1), norm, weights, tensor.Tensor{}, 1e-6)
						for _, from := range []tensor.Tensor{y.Slice(0, rows), gated} {
							values, err := d.Floats(from)
							if err != nil {
								t.Fatal(err)
							}
							all = append(all, values...)
						}
					}
					return all
				}
				if one, many := results(1), results(100); !slices.Equal(one, many) {
					t.Error("the results depend on the number of multiprocessors")
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
