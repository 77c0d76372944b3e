package hf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestMerge_AsPEFT merges recorded adapters into their bases and compares with what PEFT makes of them.
func TestMerge_AsPEFT(t *testing.T) {
	for _, name := range []string{"all_r4", "qv_rslora", "modules_to_save", "patterns"} {
		t.Run(name, func(t *testing.T) {
			dir := expect.Reference(t, "golden-next", "lora", name)
			var recorded struct {
				Scaling map[string]float64
				Merge   struct {
					Hashes map[string]string `json:"sha256_bf16"`
				}
			}
			expect.OK(t, json.Unmarshal([]byte(expect.Read(t, filepath.Join(dir, "lora.json"))), &recorded))
			base, err := OpenModel(dir)
			expect.OK(t, err)
			defer base.Close()
			changes := peftChanges(t, filepath.Join(dir, "adapter_model.safetensors"), recorded.Scaling)
			out := mergedInto(t, base, "", changes)
			golden := openFile(t, filepath.Join(dir, "lora.safetensors"))
			for name, change := range changes {
				if c, _ := change(); c.Whole != nil {
					sameValues(t, name, out, c.Whole, tensor.BF16)
					continue
				}
				raw, _, err := readTensor(out.weights.where[name], name)
				expect.OK(t, err)
				if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) == recorded.Merge.Hashes[name] {
					continue
				}
				want, _, err := readTensor(golden, "merged_bf16."+name)
				if err != nil || !nearlySame(raw, want) {
					t.Errorf("%s is not what PEFT makes of it (%v)", name, err)
				}
				t.Logf("%s has not the same bits", name)
			}
			for name, change := range changes {
				want, shape, err := golden.ReadF32("merged." + name)
				if err != nil {
					continue
				}
				c, _ := change()
				was, _, _ := base.ReadF32(name)
				raw := make([]byte, 4*len(was))
				if _, err := c.merge(raw, tensor.F32, was, shape, false, 0); err != nil {
					t.Fatal(err)
				}
				if e := distance(numbers[float32](raw), want); !(e <= 1e-6) { // the order of a sum of up to 6 terms
					t.Errorf("%s in float32: the error is %g", name, e)
				}
			}
		})
	}
}

func openFile(t *testing.T, path string) *Safetensors {
	t.Helper()
	s, err := OpenSafetensors(path)
	expect.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// peftChanges returns the changes that a PEFT adapter makes.
func peftChanges(t *testing.T, path string, scaling map[string]float64) map[string]func() (Change, error) {
	s := openFile(t, path)
	read := func(name string) (values []float32, rows int) {
		values, shape, err := s.ReadF32(name)
		expect.OK(t, err)
		return values, shape[0]
	}
	changes := map[string]func() (Change, error){}
	for _, stored := range s.Names() {
		name := strings.TrimPrefix(stored, "base_model.model.")
		if strings.HasSuffix(name, ".lora_B.weight") {
			continue
		}
		module, low := strings.CutSuffix(name, ".lora_A.weight")
		if low {
			name = module + ".weight"
		}
		changes[name] = func() (c Change, err error) {
			if c.Whole, c.Rank = read(stored); low {
				c.A, c.Whole = c.Whole, nil
				c.B, _ = read(strings.Replace(stored, "lora_A", "lora_B", 1))
				c.Scale = scaling[module]
			}
			return c, nil
		}
	}
	return changes
}

// mergedInto saves the merged model and opens it.
func mergedInto(t *testing.T, base *Checkpoint, layers string, changes map[string]func() (Change, error)) *Checkpoint {
	t.Helper()
	seen := map[string]bool{}
	m := Merge{Base: base, Layers: layers, Changes: changes, Done: func(p model.Param, d Difference) {
		if seen[p.Name] = true; d.Changed == 0 || !(d.Relative() > 0) {
			t.Errorf("%s: %+v", p.Name, d)
		}
	}}
	tensors, err := m.Tensors(t.Context())
	dir := t.TempDir()
	if err == nil {
		err = SaveTensors(dir, base, tensors, SaveOptions{})
	}
	expect.OK(t, err)
	out, err := OpenModel(dir)
	expect.OK(t, err)
	t.Cleanup(func() { out.Close() })
	if len(seen) != len(changes) {
		t.Errorf("%d of %d changes were counted", len(seen), len(changes))
	}
	return out
}

// nearlySame reports whether at most 0.1% of some BF16 numbers differ, by one in the last place: a float32 sum in
// another order may fall on the other side of a rounding.
func nearlySame(a, b []byte) bool {
	x, y := numbers[uint16](a), numbers[uint16](b)
	n := 0
	for i := range x {
		switch off := int(x[i]) - int(y[i]); {
		case off == 1 || off == -1:
			n++
		case off != 0:
			return false
		}
	}
	return n <= len(x)/1000
}

// sameValues compares a weight with values, rounded to its type.
func sameValues(t *testing.T, name string, c *Checkpoint, want []float32, dtype tensor.DType) {
	t.Helper()
	raw, rounded := make([]byte, len(want)*dtype.Size()), make([]float32, len(want))
	narrow(raw, dtype, want)
	widen(rounded, raw, dtype)
	if got, _, err := c.ReadF32(name); err != nil || !slices.Equal(got, rounded) {
		t.Errorf("%s: %v, or other values", name, err)
	}
}

// TestMerge compares every weight of merged models with the formula in float64: for each type, for matrices that
// files store transposed, for quantized bases, and for a tied base that gets a head of its own.
func TestMerge(t *testing.T) {
	const llama = `{"model_type": "llama", "vocab_size": 70, "hidden_size": 48, "intermediate_size": 136,
		"num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
		"rms_norm_eps": 1e-5, "tie_word_embeddings": true}`
	for _, c := range []struct {
		name, config string
		dtype, want  tensor.DType
		quantization model.Quantization
		layers       string
	}{
		{"bf16", llama, tensor.BF16, tensor.BF16, model.Quantization{}, ""},
		{"f16", llama, tensor.F16, tensor.F16, model.Quantization{}, ""},
		{"f32 transposed", smallGPT, tensor.F32, tensor.F32, model.Quantization{}, ""},
		{"trained on int4", llama, tensor.BF16, tensor.BF16, model.Quantization{}, "INT4Z"},
		{"trained on int8, transposed", smallGPT, tensor.F32, tensor.F32, model.Quantization{}, "INT8"},
		{"int8", llama, tensor.BF16, tensor.BF16, model.Quantization{Layers: tensor.INT8, Head: tensor.INT8}, ""},
		{"int8 transposed", smallGPT, tensor.F16, tensor.F16, model.Quantization{Layers: tensor.INT8}, ""},
		{"int4 of f16", llama, tensor.F16, tensor.F16, model.Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, 6))
			base := randomModel(t, random, c.config, c.dtype, c.quantization)
			changes := map[string]func() (Change, error){}
			for i, p := range base.params() {
				if p.Layer >= 0 && len(p.W.Shape) == 2 && i%3 != 0 {
					changes[p.Name] = randomChange(random, p.W.Dim(0), p.W.Dim(1))
				}
			}
			embedding := base.Config.Params()[0]
			changes[head] = randomChange(random, embedding.W.Dim(0), embedding.W.Dim(1))
			whole := normal(random, base.Config.Dim)
			all := base.Config.Params()
			norm := all[slices.IndexFunc(all, func(p model.Param) bool { return p.Norm })]
			changes[norm.Name] = func() (Change, error) { return Change{Whole: whole}, nil }
			out := mergedInto(t, base, c.layers, changes)
			trained := base
			if c.layers != "" {
				trained = quantizedModel(t, base, c.dtype, model.Quantization{Layers: quantizedTypes[c.layers]})
			}
			if strings.Contains(string(out.ConfigJSON), quantizationKey) {
				t.Error("config.json still says how weights are quantized")
			}
			if out.Config.Tied || !out.Quantization.None() {
				t.Errorf("tied is %v, and quantized are %v", out.Config.Tied, out.Quantization)
			}
			for _, p := range out.Config.Params() {
				if info, _ := out.Tensor(p.Name); info.DType != c.want.String() {
					t.Errorf("%s is of type %s, want %v", p.Name, info.DType, c.want)
				}
				from := p.Name
				if p.Name == head {
					from = embedding.Name
				}
				was, shape, err := trained.ReadF32(from)
				expect.OK(t, err)
				if codes, _ := trained.Tensor(from); p.Transposed && codes.DType == "U8" {
					values := slices.Clone(was)
					transpose(was, values, shape[0])
				}
				if changes[p.Name] == nil {
					sameValues(t, p.Name, out, was, c.want)
					continue
				}
				change, _ := changes[p.Name]()
				asFormula(t, p, out, was, change, c.want)
			}
		})
	}
}

func normal(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(0.3 * random.NormFloat64())
	}
	return x
}

func randomChange(random *rand.Rand, out, in int) func() (Change, error) {
	const rank = 3
	c := Change{A: normal(random, rank*in), B: normal(random, out*rank), Rank: rank, Scale: 5.0 / 3}
	return func() (Change, error) { return c, nil }
}

// randomModel saves a model with random weights and opens it.
func randomModel(t *testing.T, random *rand.Rand, config string, dtype tensor.DType, q model.Quantization) *Checkpoint {
	t.Helper()
	c, err := NewModel(map[string][]byte{"config.json": []byte(config)})
	expect.OK(t, err)
	d, params := newParams(t, c.Config, tensor.F32)
	for _, p := range params {
		d.Upload(p.W, normal(random, p.W.Len()))
	}
	dir := t.TempDir()
	expect.OK(t, Save(dir, c, d, params, SaveOptions{DType: dtype}))
	if c, err = OpenModel(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if q.None() {
		return c
	}
	return quantizedModel(t, c, dtype, q)
}

// quantizedModel saves a model with quantized weights and opens it.
func quantizedModel(t *testing.T, c *Checkpoint, dtype tensor.DType, q model.Quantization) *Checkpoint {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	m, err := model.New(d, c.Config, model.Options{DType: dtype, Quantization: q})
	expect.OK(t, err)
	defer m.Close()
	dir := t.TempDir()
	err = c.Load(t.Context(), d, m.Params(), nil)
	expect.OK(t, errors.Join(err, Save(dir, c, d, m.Params(), SaveOptions{})))
	quantized, err := OpenModel(dir)
	expect.OK(t, err)
	t.Cleanup(func() { quantized.Close() })
	return quantized
}

// asFormula compares a merged weight with W + scale·B·A.
func asFormula(t *testing.T, p model.Param, out *Checkpoint, was []float32, c Change, dtype tensor.DType) {
	t.Helper()
	if c.Whole != nil {
		sameValues(t, p.Name, out, c.Whole, dtype)
		return
	}
	raw := make([]byte, len(was)*dtype.Size())
	narrow(raw, dtype, was)
	widen(was, raw, dtype)
	got, _, err := out.ReadF32(p.Name)
	expect.OK(t, err)
	// This is half of the last place, plus the rounding of float32's sums, whose terms are at most 1 or so.
	last := map[tensor.DType]float64{tensor.F32: 0x1p-24, tensor.F16: 0x1p-11, tensor.BF16: 0x1p-8}[dtype]
	rows, cols := p.W.Dim(0), p.W.Dim(1)
	for r := range rows {
		for j := range cols {
			at := r*cols + j
			if p.Transposed {
				at = j*rows + r
			}
			sum := 0.0
			for k := range c.Rank {
				sum += float64(c.B[r*c.Rank+k]) * float64(c.A[k*cols+j])
			}
			want := float64(was[at]) + c.Scale*sum
			if !(math.Abs(float64(got[at])-want) <= last*math.Abs(want)+1e-6) {
				t.Fatalf("%s, row %d, column %d: %g, want %g", p.Name, r, j, got[at], want)
			}
		}
	}
}

// TestMerge_TrainedEmbedding checks that the head of a tied base stays the embedding that was, as in PEFT, and that the
// number of threads changes nothing.
func TestMerge_TrainedEmbedding(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	base := randomModel(t, random, smallGPT, tensor.F16, model.Quantization{})
	embedding := base.Config.Params()[0]
	change := randomChange(random, embedding.W.Dim(0), embedding.W.Dim(1))
	out := mergedInto(t, base, "", map[string]func() (Change, error){embedding.Name: change})
	was, shape, err := base.ReadF32(embedding.Name)
	if err != nil || out.Config.Tied {
		t.Fatalf("%v, and tied is %v", err, out.Config.Tied)
	}
	sameValues(t, head, out, was, tensor.F16)
	var made [2][]byte
	for i := range made {
		made[i] = make([]byte, 2*len(was))
		c, _ := change()
		if _, err := c.merge(made[i], tensor.F16, was, shape, false, 1+2*i); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("3 threads give other weights than one")
	}
}

// TestMerge_Refuses checks what cannot be merged, and that then nothing is saved.
func TestMerge_Refuses(t *testing.T) {
	base := randomModel(t, rand.New(rand.NewPCG(5, 6)), smallGPT, tensor.F16, model.Quantization{})
	all := base.Config.Params()
	matrix := all[slices.IndexFunc(all, func(p model.Param) bool { return p.Transposed })]
	rows, cols := matrix.W.Dim(0), matrix.W.Dim(1)
	low := func(out, in int, a, b float32) Change {
		return Change{A: slices.Repeat([]float32{a}, in), B: slices.Repeat([]float32{b}, out), Rank: 1, Scale: 1}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		change Change
		err    error // of the change
		want   string
	}{
		{"other.weight", t.Context(), Change{}, nil, "1 of the 1 weights that the adapter changes are not in "},
		{matrix.Name, t.Context(), low(rows+1, cols, 1, 1), nil, "which is not rank 1"},
		{matrix.Name, t.Context(), low(rows, cols-1, 1, 1), nil, "which is not rank 1"},
		{matrix.Name, t.Context(), low(rows, cols, 1e3, 1e3), nil, "element 0 is not a number that F16 can hold"},
		{matrix.Name, t.Context(), Change{Whole: []float32{1}}, nil, "the adapter has 1 numbers"},
		{matrix.Name, t.Context(), Change{}, errors.New("unreadable"), "unreadable"},
		{"transformer.ln_f.weight", t.Context(), low(rows, cols, 1, 1), nil, "only matrices can have an adapter"},
		{matrix.Name, stopped, low(rows, cols, 1, 1), nil, "canceled"},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		changes := map[string]func() (Change, error){c.name: func() (Change, error) { return c.change, c.err }}
		m := Merge{Base: base, Changes: changes, Done: func(model.Param, Difference) {}}
		tensors, err := m.Tensors(c.ctx)
		if err == nil {
			err = SaveTensors(dir, base, tensors, SaveOptions{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %s", err, c.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("%s: it left %v", c.want, left)
		}
	}
}
