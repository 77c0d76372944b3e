package optim

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestAdamW compares three steps of two parameters with the formula in float64. One parameter has weight decay and one
// is frozen.
func TestAdamW(t *testing.T) {
	dev, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	arena, err := dev.NewArena("test", 1<<16)
	expect.OK(t, err)
	defer arena.Close()
	const n = 37
	params := []model.Param{
		{Name: "matrix", W: arena.New("w", tensor.F32, n), Grad: arena.New("g", tensor.F32, n), Decay: true},
		{Name: "norm", W: arena.New("w", tensor.F32, n), Grad: arena.New("g", tensor.F32, n)},
		{Name: "frozen", W: arena.New("w", tensor.F32, n), Decay: true},
	}
	w, m, v := [2][n]float64{}, [2][n]float64{}, [2][n]float64{}
	for p := range params {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Sin(float64(7*p + i)))
			if p < 2 {
				w[p][i] = float64(x[i])
			}
		}
		dev.Upload(params[p].W, x)
	}
	cfg := Default
	o, err := New(dev, params, cfg) // too small for 8 bits
	expect.OK(t, err)
	defer o.Close()
	for step := 1; step <= 3; step++ {
		lr, scale := 1e-2/float64(step), 0.5/float64(step) // a constant scale cancels out in AdamW
		for p := range 2 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(math.Cos(float64(3*p + i*step)))
				g := float64(x[i]) * scale
				if params[p].Decay {
					w[p][i] *= 1 - lr*cfg.Decay
				}
				m[p][i] = cfg.Beta1*m[p][i] + (1-cfg.Beta1)*g
				v[p][i] = cfg.Beta2*v[p][i] + (1-cfg.Beta2)*g*g
				mHat := m[p][i] / (1 - math.Pow(cfg.Beta1, float64(step)))
				vHat := v[p][i] / (1 - math.Pow(cfg.Beta2, float64(step)))
				w[p][i] -= lr * mHat / (math.Sqrt(vHat) + cfg.Eps)
			}
			dev.Upload(params[p].Grad, x)
		}
		norm, err := Norm(dev, params)
		expect.OK(t, err)
		var want float64
		for p := range 2 {
			for i := range n {
				want += math.Pow(float64(float32(math.Cos(float64(3*p+i*step)))), 2)
			}
		}
		if want = math.Sqrt(want); !(math.Abs(norm-want) <= 1e-6*want) {
			t.Errorf("norm %g, want %g", norm, want)
		}
		if r, err := o.Step(lr, scale*(norm+1e-6)); err != nil || !r.Taken || r.Norm != norm ||
			!(math.Abs(r.Scale-scale) <= 1e-15) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	for p := range 2 {
		got, err := dev.Floats(params[p].W)
		expect.OK(t, err)
		for i := range got {
			// Three float32 updates of about 1e-2 to weights of about 1.
			if !(math.Abs(float64(got[i])-w[p][i]) <= 3e-7) {
				t.Errorf("%s[%d] is %v, want %v", params[p].Name, i, got[i], w[p][i])
			}
		}
	}
	if got, _ := dev.Floats(params[2].W); got[1] != float32(math.Sin(15)) {
		t.Error("a frozen parameter moved")
	}
	if o.Steps() != 3 {
		t.Errorf("%d steps", o.Steps())
	}
	inf := math.Inf(1)
	for says, bad := range map[string]func(*Config){
		"": func(c *Config) { c.Beta1, c.Beta2, c.Decay = 0, 0, 0 },
		"AdamW: beta1 1: must be at least 0 and less": func(c *Config) { c.Beta1 = 1 },
		"AdamW: beta1 -0.1: ":                         func(c *Config) { c.Beta1 = -0.1 },
		"AdamW: beta2 1: must be at least 0 and less": func(c *Config) { c.Beta2 = 1 },
		"AdamW: beta2 -1: ":                           func(c *Config) { c.Beta2 = -1 },
		"AdamW: eps 0: must be positive and finite":   func(c *Config) { c.Eps = 0 },
		"AdamW: eps +Inf: ":                           func(c *Config) { c.Eps = inf },
		"AdamW: decay NaN: must be finite":            func(c *Config) { c.Decay = math.NaN() },
		"AdamW: decay -1: ":                           func(c *Config) { c.Decay = -1 },
		"AdamW: decay +Inf: ":                         func(c *Config) { c.Decay = inf },
		"AdamW: 4 bits per moment: must be 8 or 32":   func(c *Config) { c.Bits = 4 },
		`AdamW: master "": must be`:                   func(c *Config) { c.Master = "" },
		"AdamW: master split8: bitsandbytes":          func(c *Config) { c.BNB = true },
	} {
		cfg := Default
		bad(&cfg)
		o, err := New(dev, params, cfg)
		if (err == nil) != (says == "") || err != nil && !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", cfg, err, says)
		}
		if err == nil {
			o.Close()
		}
	}
}

// TestStepNotTaken checks that a gradient or a loss that is not finite changes nothing at all, and that the next step
// is as if the skipped one had not happened.
func TestStepNotTaken(t *testing.T) {
	for what, spoil := range map[string]func(dev *kernels.Device, o *AdamW, g, loss tensor.Tensor){
		"an infinite gradient": func(dev *kernels.Device, o *AdamW, g, loss tensor.Tensor) {
			dev.Upload(g.Part(3, 1), []float32{float32(math.Inf(1))})
		},
		"a gradient that is no number": func(dev *kernels.Device, o *AdamW, g, loss tensor.Tensor) {
			dev.Upload(g.Part(0, 1), []float32{float32(math.NaN())})
		},
		"an infinite loss": func(dev *kernels.Device, o *AdamW, g, loss tensor.Tensor) {
			dev.Upload(loss, []float32{1, float32(math.Inf(-1))})
		},
	} {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			var ends [2][]byte
			for i := range ends {
				dev, params := place(t, dtype, []int{67, 64}, []int{20})
				arena, err := dev.NewArena("loss", 256)
				expect.OK(t, err)
				loss := arena.New("loss", tensor.F32, 2)
				o, err := New(dev, params, Default)
				expect.OK(t, err)
				once := func() kernels.StepResult {
					o.AddLoss(loss)
					r, err := o.Step(1e-2, 0.1)
					expect.OK(t, err)
					return r
				}
				fill := func() {
					dev.Upload(loss, []float32{1, 2})
					for j, p := range params {
						dev.Upload(p.Grad, normal(uint64(j), p.W.Len(), 1))
					}
				}
				fill()
				if r := once(); !r.Taken || r.Loss != 3 || r.Scale >= 1 {
					t.Fatalf("%+v", r)
				}
				if i == 1 {
					spoil(dev, o, params[0].Grad, loss)
					if r := once(); r.Taken || o.Steps() != 1 {
						t.Errorf("%s: %+v after %d steps", what, r, o.Steps())
					}
					fill()
				}
				if r := once(); !r.Taken || r.Loss != 3 || o.Steps() != 2 {
					t.Errorf("%s: %+v after %d steps", what, r, o.Steps())
				}
				for _, x := range append(o.State(), params[0].W, params[1].W) {
					ends[i] = append(ends[i], x.Raw()...)
				}
				expect.OK(t, errors.Join(o.Close(), arena.Close()))
			}
			if !bytes.Equal(ends[0], ends[1]) {
				t.Errorf("%s, %v: it left something", what, dtype)
			}
		}
	}
}
