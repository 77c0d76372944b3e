package optim

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
	"restyle/tensor"
)

// TestGPU_ContinuesFromCPU continues on a GPU from the state after steps on the CPU, and takes more steps on both: of
// all parameters at once, and layer by layer. Codes and their scales must have the same bits.
func TestGPU_ContinuesFromCPU(t *testing.T) {
	cudatest.Once(t)
	gpu, err := kernels.Open("emulated", kernels.Options{})
	cudatest.Opened(t, gpu, err)
	const limit = 0.05 // about half of the norm
	shapes := [][]int{{67, 64}, {300}, {65, 64}, {20, 20}}
	for _, master := range []Master{Split8, Stochastic} {
		cfg := Default
		cfg.Master, cfg.Seed = master, 7
		// start returns parameters and their optimizer. The second and third parameters belong to a layer, the others to
		// none.
		start := func(dev *kernels.Device) ([]model.Param, *AdamW) {
			params := placeOn(t, dev, tensor.BF16, shapes...)
			for i := range params {
				params[i].Layer = []int{model.Outside, 0, 0, model.Outside}[i]
				dev.Upload(params[i].W, normal(uint64(i), params[i].W.Len(), 0.02))
			}
			o, err := New(dev, params, cfg)
			expect.OK(t, err)
			return params, o
		}
		cpu, _ := place(t, tensor.BF16)
		params, onCPU := start(cpu)
		others, onGPU := start(gpu)
		step := func(dev *kernels.Device, o *AdamW, params []model.Param, layers bool) kernels.StepResult {
			for i, p := range params {
				dev.Upload(p.Grad, normal(uint64(100*o.Steps()+i), p.W.Len(), 1e-3))
			}
			if !layers {
				r, err := o.Step(1e-3, limit)
				if err != nil || !r.Taken || r.Scale > 0.9 {
					t.Fatal(r, err)
				}
				return r
			}
			for _, layer := range []int{0, model.Outside, 5} { // layer 5 has no parameters
				o.AddSquares(layer)
			}
			o.Decide(limit)
			for _, layer := range []int{model.Outside, 5, 0} {
				o.UpdateLayer(layer, 1e-3)
			}
			r, err := o.End()
			if err != nil || !r.Taken || r.Scale > 0.9 {
				t.Fatal(r, err)
			}
			return r
		}
		step(cpu, onCPU, params, false)
		for i, x := range onCPU.State() {
			gpu.UploadBytes(onGPU.State()[i], x.Raw())
		}
		for i, p := range params {
			gpu.UploadBytes(others[i].W, p.W.Raw())
		}
		onGPU.SetSteps(onCPU.Steps())
		for _, layers := range []bool{false, true, false} {
			a, b := step(cpu, onCPU, params, false), step(gpu, onGPU, others, layers)
			if !(math.Abs(a.Norm-b.Norm) <= 1e-12*a.Norm) {
				t.Errorf("%s: the norm is %v, and %v on the GPU", master, a.Norm, b.Norm)
			}
			for i, x := range onCPU.State() {
				y := onGPU.State()[i]
				raw := make([]byte, y.Bytes())
				expect.OK(t, gpu.DownloadBytes(raw, y))
				coded := strings.HasSuffix(x.Name, "_absmax") || x.DType == tensor.U8 && !strings.HasSuffix(x.Name, ".residual")
				if coded && !bytes.Equal(raw, x.Raw()) {
					t.Errorf("%s: %s has other bits on the GPU", master, x.Name)
				}
			}
			for i, p := range params {
				moved := floats(t, gpu, others[i].W)
				for j, w := range floats(t, cpu, p.W) {
					if !(math.Abs(float64(w-moved[j])) <= 0x1p-7*math.Abs(float64(w))+1e-9) {
						t.Fatalf("%s: %s[%d] is %v, and %v on the GPU", master, p.Name, j, w, moved[j])
					}
				}
			}
		}
		if err := errors.Join(onCPU.Close(), onGPU.Close()); err != nil {
			t.Error(err)
		}
	}
}
