package optim

import (
	"math"
	"testing"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestCosine has the rates of a short run worked out by hand.
func TestCosine(t *testing.T) {
	s := Cosine(1e-3, 3, 10)
	for step, want := range map[int]float64{
		0: 0, 1: 1e-3 / 3, 2: 2e-3 / 3, 3: 1e-3,
		10: 0, 50: 0, // it does not rise again
	} {
		if got := s(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %g, want %g", step, got, want)
		}
	}
	if got, want := s(5)+s(8), 1e-3; math.Abs(got-want) > 1e-12 {
		t.Errorf("steps as far from the middle add up to %g, want %g", got, want)
	}
	if got := Cosine(1, 0, 4)(0); got != 1 {
		t.Errorf("without warm-up it begins with %g", got)
	}
	if got := Cosine(1, 5, 5)(5); math.IsNaN(got) {
		t.Error("a run that is all warm-up ends with NaN")
	}
}

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
	c := DefaultAdamW
	o, err := NewAdamW(d, params, c)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for step := 1; step <= 3; step++ {
		lr, scale := 1e-2/float64(step), 0.5
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
	for _, bad := range []AdamWConfig{{Beta1: 1, Beta2: 0.9, Eps: 1e-8}, {Beta1: 0.9, Beta2: -1, Eps: 1e-8}, {Beta1: 0.9, Beta2: 0.9}, {Beta1: 0.9, Beta2: 0.9, Eps: 1, Decay: math.NaN()}} {
		if _, err := NewAdamW(d, params, bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
