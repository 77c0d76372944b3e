package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestGPTQ quantizes a matrix for correlated inputs. Its products must be closer to the exact ones than those of
// weights that are rounded to nearest, and with uncorrelated inputs the codes must be the nearest.
func TestGPTQ(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const in, out, samples = 200, 8, 400
	w := make([]float32, in*out)
	for i := range w {
		w[i] = float32(random.NormFloat64())
	}
	hessian, x := make([]float32, in*in), make([]float64, samples*in)
	for s := range samples {
		row := x[s*in:][:in]
		for i := range row {
			row[i] = random.NormFloat64()
			if i > 0 {
				row[i] += 0.9 * row[i-1]
			}
		}
		for i := range in {
			for j := range in {
				hessian[i*in+j] += float32(row[i] * row[j])
			}
		}
	}
	identity := make([]float32, in*in)
	for i := range in {
		identity[i*in+i] = 1
	}
	for _, r := range Rules {
		size := len(w) / in * r.DType().RowBytes(in)
		nearest, gptq, plain := make([]byte, size), make([]byte, size), make([]byte, size)
		for _, err := range []error{r.Quantize(nearest, w, in), r.GPTQ(gptq, w, in, hessian),
			r.GPTQ(plain, w, in, identity), Check(gptq, r.DType(), in)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if string(plain) != string(nearest) {
			t.Errorf("%s: GPTQ with uncorrelated inputs does not round to nearest", r)
		}
		off := func(rows []byte) (sum float64) {
			back := make([]float32, len(w))
			if err := Dequantize(back, rows, r.DType(), in); err != nil {
				t.Fatal(err)
			}
			for s := range samples {
				for o := range out {
					y := 0.0
					for i := range in {
						y += x[s*in+i] * float64(back[o*in+i]-w[o*in+i])
					}
					sum += y * y
				}
			}
			return math.Sqrt(sum)
		}
		if a, b := off(gptq), off(nearest); a > 0.8*b {
			t.Errorf("%s: GPTQ's products are off by %.3g, those of rounding to nearest by %.3g", r, a, b)
		}
	}
}
