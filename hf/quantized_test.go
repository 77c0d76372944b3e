package hf

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// TestQuantizedModel quantizes the starter model while it is loaded, saves it, and opens it again: as it was saved,
// and dequantized. Logits must be the same in all three, up to rounding in the last, and near the original's.
func TestQuantizedModel(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	starter, err := OpenModel("../data/starter-llama")
	expect.OK(t, err)
	defer starter.Close()
	dir := filepath.Join(t.TempDir(), "quantized")
	q := model.Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}
	plain := logitsOf(t, d, starter, model.Quantization{}, "")
	made := logitsOf(t, d, starter, q, dir)
	saved, err := OpenModel(dir)
	expect.OK(t, err)
	defer saved.Close()
	if !saved.Quantization.Equal(q) {
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
	if c, err := OpenModel(again); err != nil || !c.Quantization.None() {
		t.Errorf("a model saved without quantized weights: %v", err)
	} else {
		for _, p := range c.params() {
			a, shape, err1 := saved.ReadF32(p.Name)
			b, want, err2 := c.ReadF32(p.Name)
			if err := errors.Join(err1, err2); err != nil || !slices.Equal(shape, want) || !slices.Equal(a, b) {
				t.Errorf("%s of shape %v, want %v: %v", p.Name, shape, want, err)
			}
		}
		c.Close()
	}
	other := model.Quantization{Layers: tensor.INT8, Head: tensor.INT8}
	m, err := model.New(d, saved.Config, model.Options{DType: tensor.F32, Quantization: other})
	expect.OK(t, err)
	defer m.Close()
	if err := saved.Load(context.Background(), d, m.Params(), nil); err == nil ||
		!strings.Contains(err.Error(), "cannot be quantized to INT8") {
		t.Errorf("quantized a second time: %v", err)
	}
	damaged(t, d, dir, q)
}

// TestQuantizedExperts quantizes a mixture of experts, saves it, and opens it dequantized: the logits must be the
// quantized model's, up to rounding. The routers stay as they are.
func TestQuantizedExperts(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	c, err := OpenModel(writeModel(t, smallMixtral, newWeights(t, smallMixtral, tensor.BF16)))
	expect.OK(t, err)
	defer c.Close()
	plain := logitsOf(t, d, c, model.Quantization{}, "")
	for of, limit := range map[tensor.DType]float64{tensor.INT8: 0.03, tensor.INT4: 0.5, tensor.INT4Z: 0.5} {
		dir := filepath.Join(t.TempDir(), of.String())
		q := model.Quantization{Layers: of, Head: tensor.INT8}
		made := logitsOf(t, d, c, q, dir)
		saved, err := OpenModel(dir)
		expect.OK(t, err)
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
		if want := 2*(4+3*3) + 1; !saved.Quantization.Equal(q) || quantized != want {
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
	expect.OK(t, err)
	defer m.Close()
	expect.OK(t, c.Load(context.Background(), d, m.Params(), nil))
	ids := []int32{5, 17, 300, 42, 7, 99, 1000, 3, 8, 21, 600, 4, 9, 250, 13, 6}
	for i := range ids {
		ids[i] %= int32(c.Config.Vocab)
	}
	expect.OK(t, m.Logits(model.Batch{IDs: ids}, func(_ int, l []float32) { all = append(all, l...) }))
	if dir != "" {
		expect.OK(t, Save(dir, c, d, m.Params(), SaveOptions{}))
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
	expect.OK(t, err)
	const name = "model.layers.0.self_attn.q_proj.weight"
	var header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	length := 8 + int(good[0]) + int(good[1])<<8 + int(good[2])<<16
	_ = json.Unmarshal(good[8:length], &header)
	at := length + header[name].Offsets[0]
	bad := append([]byte{}, good...)
	bad[at], bad[at+1] = 0, 0x7C // the first scale: an infinity
	expect.OK(t, os.WriteFile(path, bad, 0o666))
	c, err := OpenModel(dir)
	expect.OK(t, err)
	defer c.Close()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Quantization: q})
	expect.OK(t, err)
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
		"{\n  \"load_in_4bit\": true,\n  \"bits\": 4\n}":         `is { "load_in_4bit": true, "bits": 4 }: only`,
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

// FuzzQuantized changes a tensor of a quantized model: its type, its shape, its size, a byte of it, or what config.json
// says about it. Opening and loading it must give one error that names the tensor or the file, or weights that are as
// Quantize writes them.
func FuzzQuantized(f *testing.F) {
	const config = `{"model_type": "llama", "vocab_size": 5, "hidden_size": 6, "intermediate_size": 4,
		"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 6, "quantization_config": `
	const good = `{"quant_method": "restyle", "layers": "INT4Z", "head": "INT8"}`
	types := []string{"U8", "I8", "BF16", "F32", "F16", "I32", "F8_E4M3", "U4", ""}
	for i, kind := range types {
		f.Add(good, uint8(i*3), kind, 6, 96, uint16(6*96*[]int{1, 1, 2, 4, 2, 4, 1, 1, 0}[i]), uint16(0), uint8(0))
		f.Add(good, uint8(1), kind, 6, 96, uint16(6*96*[]int{1, 1, 2, 4, 2, 4, 1, 1, 0}[i]), uint16(0), uint8(0))
	}
	f.Add(good, uint8(1), "U8", 6, 96, uint16(576), uint16(1), uint8(0x7C)) // a scale that is infinite
	f.Add(good, uint8(1), "U8", 6, 95, uint16(570), uint16(0), uint8(0))
	f.Add(good, uint8(1), "U8", 6, 16, uint16(96), uint16(0), uint8(0)) // scales without codes
	f.Add(good, uint8(1), "BF16", 6, 6, uint16(72), uint16(0), uint8(0))
	f.Add(good, uint8(1), "U8", -1, 1<<62, uint16(576), uint16(0), uint8(0))
	f.Add(`{"quant_method": "restyle", "layers": "INT8"}`, uint8(1), "U8", 6, 32, uint16(192), uint16(3), uint8(0x80))
	f.Add(`{"quant_method": "gptq"}`, uint8(0), "U8", 0, 0, uint16(0), uint16(0), uint8(0))
	f.Add(`null`, uint8(1), "U8", 6, 96, uint16(576), uint16(0), uint8(0))
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(f, err)
	f.Cleanup(func() { d.Close() })
	c, err := ParseConfig([]byte(config + good + "}"))
	expect.OK(f, err)
	params := model.ParamsOf(c, model.Options{Quantization: model.Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, quantization string, which uint8, kind string, rows, row int, size, at uint16,
		flip uint8) {
		changed := params[int(which)%len(params)].Name
		header, data := map[string]any{}, []byte{}
		for _, p := range params {
			dtype, shape, bytes := "U8", storedShape(p), make([]byte, count(storedShape(p)))
			if !p.W.DType.Quantized() {
				dtype, bytes = "F32", make([]byte, 4*p.W.Len())
			}
			if p.Name == changed {
				dtype, shape, bytes = kind, []int{rows, row}, make([]byte, size)
			}
			if int(at) < len(bytes) && p.Name == changed {
				bytes[at] ^= flip
			}
			header[p.Name] = map[string]any{"dtype": dtype, "shape": shape,
				"data_offsets": []int{len(data), len(data) + len(bytes)}}
			data = append(data, bytes...)
		}
		text, err := json.Marshal(header)
		expect.OK(t, err)
		file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
		write(t, filepath.Join(dir, "config.json"), config+quantization+"}")
		write(t, filepath.Join(dir, singleName), string(file)+string(text)+string(data))
		if err := loaded(d, dir); err != nil {
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 || !strings.Contains(err.Error(), changed) &&
				!strings.Contains(err.Error(), "config.json") && !strings.Contains(err.Error(), singleName) {
				t.Errorf("not one error that says what is wrong: %v", err)
			}
		}
	})
}

// loaded opens a model and loads it as it is stored. It returns an error of Check for weights that Load has let pass.
func loaded(d *kernels.Device, dir string) error {
	c, err := OpenModel(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Quantization: c.Quantization})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := c.Load(context.Background(), d, m.Params(), nil); err != nil {
		return err
	}
	for _, p := range m.Params() {
		if !p.W.DType.Quantized() {
			continue
		}
		info, _ := c.Tensor(p.Name)
		if info.DType != "U8" {
			panic("loaded " + p.Name + " from " + info.DType)
		}
		if err := quant.Check(p.W.Raw(), p.W.DType, p.W.Dim(-1)); err != nil {
			panic("loaded " + p.Name + ": " + err.Error())
		}
	}
	return nil
}

// TestSave_RefusesLayersOfSeveralTypes saves models whose quantization config.json cannot express.
func TestSave_RefusesLayersOfSeveralTypes(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	c, err := OpenModel("../data/starter-llama")
	expect.OK(t, err)
	defer c.Close()
	const name = "model.layers.0.self_attn.v_proj.weight"
	for _, q := range []model.Quantization{
		{Weights: map[string]tensor.DType{name: tensor.INT8}},
		{Layers: tensor.INT8, Weights: map[string]tensor.DType{name: 0}},
		{Layers: tensor.INT8, Weights: map[string]tensor.DType{name: tensor.INT4}},
	} {
		m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Quantization: q})
		expect.OK(t, err)
		dir := filepath.Join(t.TempDir(), "mixed")
		if err := Save(dir, c, d, m.Params(), SaveOptions{}); err == nil ||
			!strings.Contains(err.Error(), "one type for all layers") {
			t.Errorf("%+v: %v", q, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
