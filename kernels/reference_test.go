package kernels_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"restyle/hf"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// TestReferenceGELU compares with results of 40 digits, at special values and odd sizes, at every instruction set.
func TestReferenceGELU(t *testing.T) {
	eachReference(t, "gelu", func(t *testing.T, d *kernels.Device, a *kernels.Arena, c reference) {
		read := func(name string) []float32 {
			v, _, err := c.file.ReadF32(c.Name + "." + name)
			expect.OK(t, err)
			return v
		}
		x, dy, y := read("x"), read("dy"), read("y")
		place := func(v []float32) tensor.Tensor {
			p := a.New("operand", c.typ, len(v))
			d.Upload(p, v)
			return p
		}
		px, pdy := place(x), place(dy)
		py, pdx := a.New("y", c.typ, len(x)), a.New("dx", c.typ, len(x))
		d.GELU(py, px, c.Params.Form == "tanh")
		d.GELUBackward(pdx, pdy, px, c.Params.Form == "tanh")
		compare := func(name string, at tensor.Tensor, want []float32, absolute func(i int) float64) {
			got, err := d.Floats(at)
			expect.OK(t, err)
			for i, w := range want {
				limit := absolute(i)
				if c.typ == tensor.BF16 { // rounded once
					limit = 10*limit + 0x1p-8*math.Abs(float64(w))
				}
				if off := math.Abs(float64(got[i]) - float64(w)); !(off <= limit) {
					t.Errorf("%s at %v is %v, want %v", name, x[i], got[i], w)
				}
			}
		}
		compare("y", py, y, func(i int) float64 { return 1e-6 + 1e-6*math.Abs(float64(x[i])) })
		compare("dx", pdx, read("dx"), func(i int) float64 { return 3e-6 * max(1, math.Abs(float64(dy[i]))) })
	})
}

// A reference is a case with recorded results.
type reference struct {
	Name, DType string
	Params      struct{ Form string }
	typ         tensor.DType
	file        *hf.Safetensors
}

// eachReference calls f with every recorded case of an operation, at every instruction set.
func eachReference(t *testing.T, op string, f func(t *testing.T, d *kernels.Device, a *kernels.Arena, c reference)) {
	root := expect.Reference(t)
	path := filepath.Join(root, "golden-next/ops", op)
	text, err := os.ReadFile(path + ".json")
	if os.IsNotExist(err) {
		t.Skip(err)
	}
	var list struct{ Cases []reference }
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list.Cases) == 0 {
		t.Fatalf("%s.json: %d cases, %v", path, len(list.Cases), err)
	}
	file, err := hf.OpenSafetensors(path + ".safetensors")
	expect.OK(t, err)
	defer file.Close()
	for _, level := range cpu.Levels() {
		for _, c := range list.Cases {
			t.Run(level.String()+" "+c.Name, func(t *testing.T) {
				d, err := kernels.Open("cpu", kernels.Options{Level: level.String(), Threads: 1})
				expect.OK(t, err)
				a, err := d.NewArena("case", 1<<20)
				expect.OK(t, err)
				c.file = file
				if c.typ, err = tensor.ParseDType(c.DType); err != nil {
					t.Fatal(err)
				}
				f(t, d, a, c)
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
