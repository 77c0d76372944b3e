package optim

import (
	"math"
	"strings"
	"testing"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

func TestClip(t *testing.T) {
	for _, c := range []struct{ norm, limit, want float64 }{
		{10, 1, 1 / (10 + 1e-6)}, {0.5, 1, 1}, {10, 0, 1}, {0, 1, 1},
	} {
		if got := Clip(c.norm, c.limit); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("norm %g, limit %g: %g, want %g", c.norm, c.limit, got, c.want)
		}
	}
}

// TestAdamW has three steps of two parameters beside the formula in float64, one of them with decay and one frozen.
func TestAdamW(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.NewArena("test", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	const n = 37
	params := []model.Param{
		{Name: "matrix", W: a.New("w", tensor.F32, n), Grad: a.New("g", tensor.F32, n), Decay: true},
		{Name: "norm", W: a.New("w", tensor.F32, n), Grad: a.New("g", tensor.F32, n)},
		{Name: "frozen", W: a.New("w", tensor.F32, n), Decay: true},
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
		d.Upload(params[p].W, x)
	}
	c := Default
	o, err := New(d, params, c) // too small for 8 bits
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for step := 1; step <= 3; step++ {
		lr, scale := 1e-2/float64(step), 0.5*float64(step) // AdamW does not see a scale that stays
		for p := range 2 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(math.Cos(float64(3*p + i*step)))
				g := float64(x[i]) * scale
				if params[p].Decay {
					w[p][i] *= 1 - lr*c.Decay
				}
				m[p][i] = c.Beta1*m[p][i] + (1-c.Beta1)*g
				v[p][i] = c.Beta2*v[p][i] + (1-c.Beta2)*g*g
				mHat := m[p][i] / (1 - math.Pow(c.Beta1, float64(step)))
				vHat := v[p][i] / (1 - math.Pow(c.Beta2, float64(step)))
				w[p][i] -= lr * mHat / (math.Sqrt(vHat) + c.Eps)
			}
			d.Upload(params[p].Grad, x)
		}
		norm, err := Norm(d, params)
		if err != nil {
			t.Fatal(err)
		}
		var want float64
		for p := range 2 {
			for i := range n {
				want += math.Pow(float64(float32(math.Cos(float64(3*p+i*step)))), 2)
			}
		}
		if want = math.Sqrt(want); math.Abs(norm-want) > 1e-6*want {
			t.Errorf("norm %g, want %g", norm, want)
		}
		o.Step(lr, scale)
	}
	for p := range 2 {
		got, err := d.Floats(params[p].W)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			// Three float32 updates of about 1e-2 to weights of about 1.
			if math.Abs(float64(got[i])-w[p][i]) > 3e-7 {
				t.Errorf("%s[%d] is %v, want %v", params[p].Name, i, got[i], w[p][i])
			}
		}
	}
	if got, _ := d.Floats(params[2].W); got[1] != float32(math.Sin(15)) {
		t.Error("a frozen parameter moved")
	}
	if o.Steps() != 3 {
		t.Errorf("%d steps", o.Steps())
	}
	for _, bad := range []func(*Config){
		func(c *Config) { c.Beta1 = 1 }, func(c *Config) { c.Beta2 = -1 }, func(c *Config) { c.Eps = 0 },
		func(c *Config) { c.Decay = math.NaN() }, func(c *Config) { c.Bits = 4 }, func(c *Config) { c.Master = "" },
		func(c *Config) { c.BNB = true },
	} {
		c := Default
		bad(&c)
		if _, err := New(d, params, c); err == nil || !strings.HasPrefix(err.Error(), "AdamW: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
