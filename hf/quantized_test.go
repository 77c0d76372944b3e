package hf

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestQuantizedModel quantizes the starter model while it is loaded, saves it, and opens it again: as it was saved, and
// dequantized. Logits must be the same in all three, up to rounding of the last, and near those of the original.
func TestQuantizedModel(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	starter, err := Open(context.Background(), nil, "starter")
	if err != nil {
		t.Fatal(err)
	}
	defer starter.Close()
	dir := filepath.Join(t.TempDir(), "quantized")
	q := model.Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}
	plain := logitsOf(t, d, starter, model.Quantization{}, "")
	made := logitsOf(t, d, starter, q, dir)
	saved, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	if saved.Quantization != q {
		t.Errorf("the saved model has %+v: want %+v", saved.Quantization, q)
	}
	if off := distance(logitsOf(t, d, saved, q, ""), made); off != 0 {
		t.Errorf("logits of the saved model are off by %g", off)
	}
	again := filepath.Join(t.TempDir(), "dequantized")
	if off := distance(logitsOf(t, d, saved, model.Quantization{}, again), made); off > 1e-5 {
		t.Errorf("logits of the dequantized model are off by %g", off)
	}
	if off := distance(made, plain); off < 1e-3 || off > 0.6 {
		t.Errorf("logits of the quantized model are %g away from the original's", off)
	}
	if c, err := OpenModel(again); err != nil || c.Quantization != (model.Quantization{}) {
		t.Errorf("a model saved without quantized weights: %v", err)
	} else {
		c.Close()
	}
	other := model.Quantization{Layers: tensor.INT8, Head: tensor.INT8}
	m, err := model.New(d, saved.Config, model.Options{DType: tensor.F32, Quantization: other})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := saved.Load(context.Background(), d, m.Params(), nil); err == nil ||
		!strings.Contains(err.Error(), "cannot be quantized to INT8") {
		t.Errorf("quantized a second time: %v", err)
	}
	damaged(t, d, dir, q)
}

// TestQuantizedExperts quantizes a mixture of experts, saves it, and opens it dequantized: the logits must be those of
// the quantized model, up to rounding. The routers stay as they are.
func TestQuantizedExperts(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := OpenModel(writeModel(t, smallMixtral, newWeights(t, smallMixtral, tensor.BF16)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	plain := logitsOf(t, d, c, model.Quantization{}, "")
	for of, limit := range map[tensor.DType]float64{tensor.INT8: 0.03, tensor.INT4: 0.5, tensor.INT4Z: 0.5} {
		dir := filepath.Join(t.TempDir(), of.String())
		q := model.Quantization{Layers: of, Head: tensor.INT8}
		made := logitsOf(t, d, c, q, dir)
		saved, err := OpenModel(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer saved.Close()
		quantized := 0
		for _, p := range saved.params() {
			is := p.W.DType.Quantized()
			if strings.Contains(p.Name, "experts") != is && strings.Contains(p.Name, "moe") {
				t.Errorf("%s is quantized: %t", p.Name, is)
			} else if is {
				quantized++
			}
		}
		if want := 2*(4+3*3) + 1; saved.Quantization != q || quantized != want {
			t.Errorf("%v: %d matrices of %+v are quantized, want %d", of, quantized, saved.Quantization, want)
		}
		if off := distance(logitsOf(t, d, saved, model.Quantization{}, ""), made); off > 1e-5 {
			t.Errorf("%v: logits of the dequantized model are off by %g", of, off)
		}
		if off := distance(made, plain); off == 0 || off > limit {
			t.Errorf("%v: logits are %g away from the original's", of, off)
		}
	}
}

// logitsOf loads a model in F32 and returns logits. If dir is not empty, it saves the model there.
func logitsOf(t *testing.T, d *kernels.Device, c *Checkpoint, q model.Quantization, dir string) (all []float32) {
	t.Helper()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, MaxTokens: 16, Quantization: q})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := c.Load(context.Background(), d, m.Params(), nil); err != nil {
		t.Fatal(err)
	}
	ids := []int32{5, 17, 300, 42, 7, 99, 1000, 3, 8, 21, 600, 4, 9, 250, 13, 6}
	for i := range ids {
		ids[i] %= int32(c.Config.Vocab)
	}
	if err := m.Logits(model.Batch{IDs: ids}, func(_ int, l []float32) { all = append(all, l...) }); err != nil {
		t.Fatal(err)
	}
	if dir != "" {
		if err := Save(dir, c, d, m.Params(), SaveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// distance returns the relative distance of two lists.
func distance(a, b []float32) float64 {
	var off, all float64
	for i := range b {
		off += math.Pow(float64(a[i]-b[i]), 2)
		all += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(off / all)
}

// damaged changes a saved model and expects an error that names what is wrong.
func damaged(t *testing.T, d *kernels.Device, dir string, q model.Quantization) {
	path := filepath.Join(dir, "model.safetensors")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const name = "model.layers.0.self_attn.q_proj.weight"
	var header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	length := 8 + int(good[0]) + int(good[1])<<8 + int(good[2])<<16
	_ = json.Unmarshal(good[8:length], &header)
	at := length + header[name].Offsets[0]
	bad := append([]byte{}, good...)
	bad[at], bad[at+1] = 0, 0x7C // the first scale: an infinity
	if err := os.WriteFile(path, bad, 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Quantization: q})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := c.Load(context.Background(), d, m.Params(), nil); err == nil || !strings.Contains(err.Error(), name) ||
		!strings.Contains(err.Error(), "scale 0 is +Inf") {
		t.Errorf("a damaged scale: %v", err)
	}
}

func TestQuantizedConfig(t *testing.T) {
	const rest = `"model_type": "llama", "quantization_config": `
	for text, want := range map[string]string{
		`{"quant_method": "gptq", "bits": 4}`:                    "only weights that restyle has quantized",
		`{"quant_method": "restyle", "bits": "4"}`:               "must be layers or head",
		`{"quant_method": "restyle", "layers": "INT5"}`:          "must be layers or head",
		`{"quant_method": "restyle"}`:                            "names no quantized weights",
		`{"quant_method": "restyle", "layers": "INT4", "x": ""}`: "must be layers or head",
	} {
		if _, err := ParseConfig([]byte("{" + rest + text + "}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseConfig([]byte("{" + rest + `{"quant_method": "restyle", "layers": "INT4"}}`)); err != nil {
		t.Error(err)
	}
}
