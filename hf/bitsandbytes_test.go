package hf

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
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

const packedConfig = `{"model_type": "llama", "vocab_size": 30, "hidden_size": 64, "intermediate_size": 512,
	"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
	"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false,
	"bnb_4bit_quant_type": "nf4", "bnb_4bit_quant_storage": "uint8", "llm_int8_skip_modules": null,
	"llm_int8_threshold": 6.0}}`

// A part is a tensor of a file.
type part struct {
	dtype tensor.DType
	shape []int
	data  []byte
}

// packedModel returns the tensors of a model as bitsandbytes saves them, and the values of all weights. down_proj's
// scales are quantized in turn, which leaves several nested blocks. The scales of the others are not.
func packedModel(t testing.TB) (all map[string]part, values map[string][]float32) {
	t.Helper()
	c, err := ParseConfig([]byte(packedConfig))
	expect.OK(t, err)
	all, values = map[string]part{}, map[string][]float32{}
	random := rand.New(rand.NewPCG(7, 8))
	floats := func(shape []int, x []float32) part {
		p := part{tensor.F32, shape, make([]byte, 4*len(x))}
		narrow(p.data, tensor.F32, x)
		return p
	}
	for _, p := range model.ParamsOf(c, model.Options{Quantization: model.Quantization{Layers: tensor.NF4}}) {
		x, n := make([]float32, p.W.Len()), p.W.Len()
		for i := range x {
			x[i] = float32(random.NormFloat64()) / 8
		}
		if values[p.Name] = x; p.W.DType != tensor.NF4 {
			all[p.Name] = floats(p.W.Shape, x)
			continue
		}
		codes, scales := make([]byte, n/2), make([]float32, n/64)
		for i := range codes {
			codes[i] = byte(random.Uint32())
		}
		state := map[string]any{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": p.W.Shape}
		if strings.Contains(p.Name, "down_proj") {
			nestedCodes, nested := make([]byte, len(scales)), []float32{0.02, 0.03}
			for i := range nestedCodes {
				nestedCodes[i] = byte(random.Uint32())
			}
			const offset = 0.123
			scales = quant.UnnestNF4(nestedCodes, nested, quant.DynamicMap(true), offset)
			all[p.Name+".absmax"] = part{tensor.U8, []int{len(scales)}, nestedCodes}
			all[p.Name+".nested_absmax"] = floats([]int{2}, nested)
			all[p.Name+".nested_quant_map"] = floats([]int{256}, quant.DynamicMap(true))
			state["nested_blocksize"], state["nested_dtype"], state["nested_offset"] = 256, "float32", offset
		} else {
			for i := range scales {
				scales[i] = 0.1 + random.Float32()/8
			}
			all[p.Name+".absmax"] = floats([]int{len(scales)}, scales)
		}
		text, _ := json.Marshal(state)
		table := tensor.NF4.Coding().Table
		all[p.Name] = part{tensor.U8, []int{n / 2, 1}, codes}
		all[p.Name+".quant_map"] = floats([]int{16}, table[:])
		all[p.Name+stateSuffix] = part{tensor.U8, []int{len(text)}, text}
		for i := range x {
			x[i] = table[codes[i/2]>>(4-i%2*4)&15] * scales[i/64]
		}
	}
	return all, values
}

func writeParts(t testing.TB, config string, all map[string]part) (dir string) {
	t.Helper()
	var list []TensorData
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		list = append(list, TensorData{name, p.dtype, p.shape, func(out io.Writer) error {
			_, err := out.Write(p.data)
			return err
		}})
	}
	dir = t.TempDir()
	write(t, filepath.Join(dir, "config.json"), config)
	expect.OK(t, WriteSafetensors(filepath.Join(dir, singleName), nil, list))
	return dir
}

// TestBitsAndBytes reads a model's weights, loads it with the codes as they are and with their values, and saves it in
// restyle's own layout.
func TestBitsAndBytes(t *testing.T) {
	all, values := packedModel(t)
	c, err := OpenModel(writeParts(t, packedConfig, all))
	expect.OK(t, err)
	defer c.Close()
	q := model.Quantization{Layers: tensor.NF4}
	if !c.Quantization.Equal(q) || len(c.packed) != 7 {
		t.Errorf("%+v, %d packed weights", c.Quantization, len(c.packed))
	}
	for name, want := range values {
		if got, _, err := c.ReadF32(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: other values: %v", name, err)
		}
	}
	const down = "model.layers.0.mlp.down_proj.weight"
	for _, at := range []int{64, 256 * 64, 300 * 64} {
		n := min(5000, len(values[down])-at)
		got, read, err := c.packedValues(down, c.packed[down], at, n)
		if err != nil || read != n/2 || !slices.Equal(got, values[down][at:at+n]) {
			t.Errorf("%d numbers from %d on: %d bytes, %v", n, at, read, err)
		}
	}
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	dir := filepath.Join(t.TempDir(), "saved")
	coded := logitsOf(t, d, c, q, dir)
	if off := distance(coded, logitsOf(t, d, c, model.Quantization{}, "")); off > 1e-5 {
		t.Errorf("logits of codes and of values are %g apart", off)
	}
	saved, err := OpenModel(dir)
	expect.OK(t, err)
	defer saved.Close()
	if !saved.Quantization.Equal(q) || saved.packed != nil || distance(logitsOf(t, d, saved, q, ""), coded) != 0 {
		t.Errorf("the saved model has %+v", saved.Quantization)
	}
	for name, want := range values {
		if got, _, err := saved.ReadF32(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s as saved: other values: %v", name, err)
		}
	}
}

// TestBitsAndBytes_Reference compares values with what bitsandbytes makes of a model in which blocks run over the ends
// of rows. Such a model can only be loaded by its values.
func TestBitsAndBytes_Reference(t *testing.T) {
	dir := expect.Reference(t, "golden-next", "lora", "qlora_nf4")
	c, err := OpenModel(dir)
	expect.OK(t, err)
	defer c.Close()
	var recorded struct {
		Base struct {
			SHA256 map[string]map[string]string
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "lora.json"))
	if err == nil {
		err = json.Unmarshal(text, &recorded)
	}
	if err != nil || len(recorded.Base.SHA256) != 14 {
		t.Fatalf("%d weights: %v", len(recorded.Base.SHA256), err)
	}
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	for name, of := range map[string]tensor.DType{"float32": tensor.F32, "bf16": tensor.BF16} {
		m, err := model.New(d, c.Config, model.Options{DType: of})
		expect.OK(t, err)
		defer m.Close()
		var last [2]int64
		err = c.Load(context.Background(), d, m.Params(), func(done, total int64) { last = [2]int64{done, total} })
		if err != nil || last[0] != last[1] {
			t.Fatalf("%d bytes of %d: %v", last[0], last[1], err)
		}
		for _, p := range m.Params() {
			want, is := recorded.Base.SHA256[p.Name]
			if got := fmt.Sprintf("%x", sha256.Sum256(p.W.Raw())); is && got != want[name] {
				t.Errorf("%s in %v: sha256 %s, want %s", p.Name, of, got, want[name])
			}
		}
	}
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Quantization: c.Quantization})
	expect.OK(t, err)
	defer m.Close()
	err = c.Load(context.Background(), d, m.Params(), nil)
	expect.Error(t, err, "has rows of 92 numbers, which bitsandbytes' blocks of 64 straddle")
}

func TestBitsAndBytes_Refusals(t *testing.T) {
	const q = "model.layers.0.self_attn.q_proj.weight"
	all, _ := packedModel(t)
	for _, c := range []struct {
		from, to string // in config.json, or
		name     string // a tensor that is replaced, or removed if this has no type
		by       part
		want     string
	}{
		{from: `"load_in_8bit": false`, to: `"load_in_8bit": true`, want: "has load_in_8bit: of bitsandbytes only nf4"},
		{from: `"load_in_4bit": true, `, want: "has no load_in_4bit"},
		{from: `"nf4"`, to: `"fp4"`, want: `bnb_4bit_quant_type "fp4": only nf4 is supported: use the repository`},
		{from: `"uint8"`, to: `"bfloat16"`, want: `bnb_4bit_quant_storage "bfloat16": only uint8`},
		{from: `"load_in_4bit": true`, to: `"load_in_4bit": 1`, want: "load_in_4bit"},
		{name: q, by: part{tensor.F32, []int{64, 64}, make([]byte, 4*64*64)}, want: "llm_int8_skip_modules"},
		{name: q, by: part{tensor.U8, []int{64, 64}, make([]byte, 64*64)}, want: q + " has shape"},
		{name: q + stateSuffix, want: q + " has no quant_state.bitsandbytes__nf4"},
		{name: q + ".absmax", want: q + ".absmax is"},
		{name: q + ".quant_map", by: part{tensor.F32, []int{16}, make([]byte, 64)}, want: "quant_map is not that of nf4"},
		{name: q + ".nested_absmax_2", by: part{tensor.U8, []int{1}, []byte{0}}, want: "unknown"},
		{name: q + stateSuffix, by: stateOf(`{"quant_type": "fp4", "blocksize": 64}`), want: `quant_type "fp4"`},
		{name: q + stateSuffix, by: stateOf(`{"quant_type": "nf4", "blocksize": 128}`),
			want: "blocksize 128: only nf4 and 64"},
		{name: q + stateSuffix, by: stateOf(`{"quant_type": "nf4", "blocksize": 64, "shape": [64, 65]}`),
			want: "must be [64 64]"},
		{name: q + stateSuffix, by: stateOf(`{"quant_type": "nf4", "blocksize": 64, "shape": [64, 64], "nested_offset": 1,
			"nested_blocksize": 128}`), want: "nested_blocksize 128"},
		{name: q + stateSuffix, by: stateOf(`nf4`), want: "bitsandbytes__nf4: invalid"},
	} {
		parts := maps.Clone(all)
		if parts[c.name] = c.by; c.by.dtype == 0 {
			delete(parts, c.name)
		}
		opened, err := OpenModel(writeParts(t, strings.Replace(packedConfig, c.from, c.to, 1), parts))
		expect.Error(t, err, c.want)
		if err == nil {
			opened.Close()
		}
	}
}

func stateOf(text string) part { return part{tensor.U8, []int{len(text)}, []byte(text)} }

// FuzzBitsAndBytes changes what the files say about a weight, and a byte of one of its tensors. The result must be
// one error that names the weight or a file, or finite numbers.
func FuzzBitsAndBytes(f *testing.F) {
	const down = "model.layers.0.mlp.down_proj.weight"
	all, _ := packedModel(f)
	f.Add(string(all[down+stateSuffix].data), uint8(0), uint16(0), uint8(0))
	f.Add(string(all[down+stateSuffix].data), uint8(2), uint16(3), uint8(0x7F))
	f.Add(string(all[down+stateSuffix].data), uint8(5), uint16(7), uint8(0x7F))
	f.Add(`{"quant_type": "nf4", "blocksize": 64, "shape": [64, 512]}`, uint8(1), uint16(0), uint8(0))
	f.Add(`{"quant_type": "nf4", "blocksize": 64, "shape": [64, 512], "nested_offset": 1e39}`, uint8(1), uint16(0),
		uint8(0))
	f.Fuzz(func(t *testing.T, state string, which uint8, at uint16, flip uint8) {
		parts := maps.Clone(all)
		parts[down+stateSuffix] = stateOf(state)
		name := down + append(packedParts, "")[int(which)%(len(packedParts)+1)]
		if changed := parts[name]; int(at) < len(changed.data) {
			changed.data = slices.Clone(changed.data)
			changed.data[at] ^= flip
			parts[name] = changed
		}
		c, err := OpenModel(writeParts(t, packedConfig, parts))
		var values []float32
		if err == nil {
			defer c.Close()
			values, _, err = c.ReadF32(down)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000) {
			t.Errorf("not one error that says what is wrong: %v", err)
		}
		for i, x := range values {
			if err == nil && x-x != 0 {
				t.Fatalf("number %d is %v", i, x)
			}
		}
	})
}
