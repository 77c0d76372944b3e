package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/tensor"
)

const tinyBase = "../../infer/testdata/tiny/base" // tied, BF16, of width 32, with 2 layers

// adapterOf writes an adapter of rank 2 and scale 2 on q_proj and down_proj of the tiny model. more is more of its
// configuration, record its record; change, unless it is nil, changes the values of tensors.
func adapterOf(t *testing.T, more, record string, change func(name string, values []float32)) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(7, 8))
	var all []hf.TensorData
	add := func(name string, rows, cols int) {
		values := make([]float32, rows*cols)
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		if change != nil {
			change(name, values)
		}
		write := func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }
		all = append(all, hf.TensorData{Name: "base_model.model." + name, DType: tensor.F32, Shape: []int{rows, cols},
			Write: write})
	}
	for _, m := range []struct {
		name    string
		out, in int
	}{{"0.self_attn.q_proj", 32, 32}, {"0.mlp.down_proj", 32, 64}, {"1.self_attn.q_proj", 32, 32},
		{"1.mlp.down_proj", 32, 64}} {
		add("model.layers."+m.name+".lora_A.weight", 2, m.in)
		add("model.layers."+m.name+".lora_B.weight", m.out, 2)
	}
	if strings.Contains(more, "lm_head") {
		add("lm_head.weight", 320, 32)
	}
	config := `{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "down_proj"]` + more + `}`
	err := errors.Join(hf.WriteSafetensors(filepath.Join(dir, "adapter_model.safetensors"), nil, all),
		os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(config), 0o666))
	if record != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "restyle_adapter.json"), []byte(record), 0o666))
	}
	expect.OK(t, err)
	return dir
}

// times returns a change of the tensors whose name contains part.
func times(part string, by float32) func(name string, values []float32) {
	return func(name string, values []float32) {
		for i := range values {
			if strings.Contains(name, part) {
				values[i] *= by
			}
		}
	}
}

// TestMerge_Cases merges adapters with flags: what is printed, and that OUT is a complete model or does not exist.
func TestMerge_Cases(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	base, err := filepath.Abs(tinyBase)
	expect.OK(t, err)
	c, err := hf.OpenModel(base)
	expect.OK(t, err)
	defer c.Close()
	digest, err := c.Digest()
	expect.OK(t, err)
	right, wrong := fmt.Sprintf(`{"base_digest": %q}`, digest), `{"base_digest": "0123456789abcdef"}`
	named := fmt.Sprintf(`, "base_model_name_or_path": %q`, base)
	nan := float32(math.NaN())
	for _, c := range []struct {
		name, more, record string
		change             func(name string, values []float32)
		flags              string
		code               int
		want               string
	}{
		{"base of the adapter", named, right, nil, "", cli.Done, "layer 1     "},
		{"base beside the adapter", `, "base_model_name_or_path": "./base"`, "", nil, "", cli.Done, "try it: "},
		{"files of its own", named, right, nil, "", cli.Done, "try it: "},
		{"tokenizer of another model", named, right, nil, "", cli.Failed, "does not fit its base: its ids go up to "},
		{"on the hub", `, "base_model_name_or_path": "owner/base"`, "", nil, "", cli.Done, "try it: "},
		{"no base", "", "", nil, "", cli.Usage, "does not name its base model: say where it is with --base"},
		{"base that is gone", `, "base_model_name_or_path": "/no/such"`, "", nil, "", cli.Usage,
			"say where it is with --base"},
		{"base by flag", "", "", nil, "--base " + base, cli.Done, "q_proj  down_proj"},
		{"another base", named, wrong, nil, "", cli.Failed, ", or merge into this one with --onto"},
		{"another base, wanted", named, wrong, nil, "--onto " + base, cli.Done, "q_proj  down_proj"},
		{"base of another shape", named, "", nil, "--base starter", cli.Failed, "which is not rank 2"},
		{"base of 4 bits", named, `{"quantized_base": "INT4Z"}`, nil, "", cli.Done, "q_proj  down_proj"},
		{"base of unknown bits", named, `{"quantized_base": "INT3"}`, nil, "", cli.Failed, `weights in "INT3"`},
		{"damaged record", named, `{"base_digest": 1}`, nil, "", cli.Failed, "restyle_adapter.json"},
		{"untrained layer", named, "", times("1.self_attn.q_proj.lora_B", 0), "", cli.Failed,
			"does not change q_proj of layer 1: "},
		{"lost in rounding", named, "", times("lora_B", 1e-9), "", cli.Failed, "; and 1 more: "},
		{"NaN", named, "", times("0.mlp.down_proj.lora_A", nan), "", cli.Failed, "NaN"},
		{"too large", named, "", times("lora_", 1e30), "", cli.Failed, "is not a number that BF16 can hold"},
		{"head", named + `, "modules_to_save": ["lm_head"]`, "", nil, "", cli.Done, "outside"},
		{"quantized", named, "", nil, "--weights int8", cli.Usage, "-merged\n  export "},
		{"rounding", named, "", nil, "--rounding nearest", cli.Usage, "--rounding is for --weights"},
		{"base twice", named, "", nil, "--base x --onto y", cli.Usage, "leave one out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, out := adapterOf(t, c.more, c.record, c.change), filepath.Join(t.TempDir(), "out")
			expect.OK(t, os.CopyFS(filepath.Join(in, "base"), os.DirFS(base)))
			name := in
			switch c.name {
			case "files of its own": // as of train --template
				expect.OK(t, os.WriteFile(filepath.Join(in, "tokenizer_config.json"), []byte(`{"chat_template": "own"}`), 0o666))
			case "tokenizer of another model":
				expect.OK(t, os.WriteFile(filepath.Join(in, "tokenizer.json"),
					[]byte(expect.Read(t, "../../data/starter-llama/tokenizer.json")), 0o666))
			}
			if c.name == "on the hub" {
				expect.InCache(t, map[string]string{"owner/adapter": in, "owner/base": base})
				name = "owner/adapter"
			}
			var said strings.Builder
			code := run(t.Context(), append([]string{name, out}, strings.Fields(c.flags)...), &said, &said)
			if code != c.code || !strings.Contains(said.String(), c.want) {
				t.Errorf("exit code %d: %s", code, &said)
			}
			if c.code == cli.Done {
				merged(t, in, base, out)
			} else if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Error("something is left:", err)
			}
			if onto := strings.HasPrefix(c.flags, "--onto"); c.code == cli.Done &&
				strings.Contains(expect.Read(t, filepath.Join(out, "README.md")), "| the adapter was trained on | ") != onto {
				t.Error("the card does not tell what the adapter was trained on")
			}
		})
	}
}

// merged checks the model in OUT: its small files are the adapter's or else the base's, the weights that the adapter
// leaves are the base's, and a merged one follows the formula.
func merged(t *testing.T, in, base, out string) {
	t.Helper()
	was, err := hf.OpenModel(base)
	expect.OK(t, err)
	defer was.Close()
	is, err := hf.OpenModel(out)
	expect.OK(t, err)
	defer is.Close()
	for _, name := range []string{"tokenizer.json", "generation_config.json", "tokenizer_config.json"} {
		from := filepath.Join(in, name)
		if _, err := os.Stat(from); err != nil {
			from = filepath.Join(base, name)
		}
		if expect.Read(t, filepath.Join(out, name)) != expect.Read(t, from) {
			t.Errorf("%s is not that in %s", name, filepath.Dir(from))
		}
	}
	if from, err := infer.BaseOf(t.Context(), nil, out); err != nil || !strings.HasSuffix(from, "/base") {
		t.Errorf("it says that it was made from %q, %v", from, err)
	}
	card := expect.Read(t, filepath.Join(out, "README.md"))
	if !strings.Contains(card, "| scale | 2 |\n") {
		t.Error(card)
	}
	if strings.Contains(card, "as in training | INT4Z |") {
		return // package hf compares such weights
	}
	a, err := hf.OpenAdapter(in)
	expect.OK(t, err)
	defer a.Close()
	changes := a.Changes()
	for _, p := range is.Config.Params() {
		got, _, err := is.ReadF32(p.Name)
		expect.OK(t, err)
		if changes[p.Name] == nil {
			if before, _, _ := was.ReadF32(p.Name); !slices.Equal(got, before) {
				t.Errorf("%s is not the base's", p.Name)
			}
		}
	}
	w, _, _ := was.ReadF32("model.layers.1.mlp.down_proj.weight")
	got, _, _ := is.ReadF32("model.layers.1.mlp.down_proj.weight")
	c, err := changes["model.layers.1.mlp.down_proj.weight"]()
	expect.OK(t, err)
	row, column := 17, 41
	want := float64(w[row*64+column]) + 2*(float64(c.B[row*2])*float64(c.A[column])+
		float64(c.B[row*2+1])*float64(c.A[64+column]))
	if e := math.Abs(float64(got[row*64+column]) - want); !(e <= 0x1p-8*math.Abs(want)) { // half of the last place of BF16
		t.Errorf("row %d, column %d is off by %g", row, column, e)
	}
	if head := a.Spec.Whole("lm_head.weight"); is.Config.Tied == head {
		t.Errorf("the head is the embedding: %v", is.Config.Tied)
	}
}

// TestMerge_AsPEFT runs the command on recorded adapters. Package hf compares every weight.
func TestMerge_AsPEFT(t *testing.T) {
	for _, name := range []string{"all_r4", "qv_rslora", "modules_to_save", "patterns", "qlora_nf4"} {
		t.Run(name, func(t *testing.T) {
			dir, out := expect.Reference(t, "golden-next", "lora", name), filepath.Join(t.TempDir(), "out")
			var said strings.Builder
			if code := run(t.Context(), []string{dir, out, "--base", dir}, &said, &said); code != cli.Done {
				t.Fatalf("exit code %d: %s", code, &said)
			}
			c, err := hf.OpenModel(out)
			expect.OK(t, err)
			defer c.Close()
			golden, err := hf.OpenSafetensors(filepath.Join(dir, "lora.safetensors"))
			expect.OK(t, err)
			defer golden.Close()
			found := 0
			for _, recorded := range golden.Names() {
				name, ok := strings.CutPrefix(recorded, "merged_bf16.")
				if !ok {
					continue
				}
				found++
				want, _, err1 := golden.ReadF32(recorded)
				got, _, err2 := c.ReadF32(name)
				expect.OK(t, errors.Join(err1, err2))
				differ := 0
				for i, x := range want {
					if got[i] != x {
						differ++
					}
				}
				if differ > len(want)/1000 { // a float32 sum in another order may round the other way
					t.Errorf("%s: %d of %d elements differ", name, differ, len(want))
				}
			}
			if found != 2 {
				t.Errorf("%d weights were compared", found)
			}
		})
	}
}

// TestMerge_Stopped interrupts a merge halfway: nothing is left.
func TestMerge_Stopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in, out := adapterOf(t, "", "", nil), filepath.Join(t.TempDir(), "a", "out")
	lines := &drawn{text: "merging: model.layers.", found: stop}
	status := &cli.StatusLine{W: lines, Width: func() int { return 80 }}
	err := options{base: tinyBase, adapter: in}.merge(ctx, in, out, io.Discard, status)
	if !errors.Is(err, context.Canceled) || lines.found != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(out)); !errors.Is(err, os.ErrNotExist) {
		t.Error("something is left:", err)
	}
}
