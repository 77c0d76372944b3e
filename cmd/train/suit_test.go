package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/voice"
)

// stored writes the tiny base model with its weights in another type.
func stored(t *testing.T, dtype tensor.DType) string {
	t.Helper()
	from, err := hf.OpenModel(tinyBase)
	expect.OK(t, err)
	defer from.Close()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	m, err := model.New(d, from.Config, model.Options{DType: tensor.F32, MaxTokens: 1})
	expect.OK(t, err)
	defer m.Close()
	expect.OK(t, from.Load(t.Context(), d, m.Params(), nil))
	dir := filepath.Join(t.TempDir(), "model")
	expect.OK(t, hf.Save(dir, from, d, m.Params(), hf.SaveOptions{DType: dtype}))
	return dir
}

// mixed writes the tiny base model with two types: one for the weights whose names contain part, another for the
// others.
func mixed(t *testing.T, part string, matching, others tensor.DType) string {
	t.Helper()
	dir := stored(t, others)
	file := filepath.Join(dir, "model.safetensors")
	open := func(file string) *hf.Safetensors {
		s, err := hf.OpenSafetensors(file)
		expect.OK(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	a, b := open(filepath.Join(stored(t, matching), "model.safetensors")), open(file)
	var list []hf.TensorData
	for _, name := range b.Names() {
		from, dtype := b, others
		if strings.Contains(name, part) {
			from, dtype = a, matching
		}
		info, _ := from.Tensor(name)
		list = append(list, hf.TensorData{Name: name, DType: dtype, Shape: info.Shape, Write: func(w io.Writer) error {
			data := make([]byte, info.Bytes)
			if err := from.ReadAt(name, data, 0); err != nil {
				return err
			}
			_, err := w.Write(data)
			return err
		}})
	}
	expect.OK(t, hf.WriteSafetensors(file, nil, list))
	return dir
}

// saying changes the type that a model's config.json gives for its weights.
func saying(t *testing.T, dir, dtype string) string {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	config := regexp.MustCompile(`"(torch_)?dtype": "\w+"`)
	data := readFile(t, path)
	if !config.Match(data) {
		t.Fatalf("%s names no type", data)
	}
	expect.OK(t, os.WriteFile(path, config.ReplaceAll(data, []byte(`"dtype": "`+dtype+`"`)), 0o666))
	return dir
}

// TestDType_FollowsStoredWeights checks that F16 weights are trained in F32, which loses nothing, and that train says
// so if a type loses precision. The files' headers decide the stored type, not config.json.
func TestDType_FollowsStoredWeights(t *testing.T) {
	for _, c := range []struct {
		name    string
		model   string
		flag    string
		trained string
		says    string
	}{
		{"F16", stored(t, tensor.F16), "", "fp32", "stored in F16 and trained in F32, which keeps them"},
		{"F16 in BF16", stored(t, tensor.F16), "bf16", "bf16",
			"stored in F16 and trained in BF16, which loses 3 of the 11 bits of F16"},
		{"F32", stored(t, tensor.F32), "", "bf16", "stored in F32 and trained in BF16, which loses 16 of the 24 bits of F32"},
		{"F16 in F16", stored(t, tensor.F16), "fp16", "fp16", ""},
		{"F32 in F16", stored(t, tensor.F32), "fp16", "fp16",
			"stored in F32 and trained in F16, which loses numbers beyond 65,504 and digits"},
		{"F32 in F32", stored(t, tensor.F32), "fp32", "fp32", ""},
		{"BF16", stored(t, tensor.BF16), "", "bf16", ""},
		{"BF16 in F32", stored(t, tensor.BF16), "fp32", "fp32", ""},
		{"F16, said to be BF16", saying(t, stored(t, tensor.F16), "bfloat16"), "", "fp32",
			"stored in F16 and trained in F32, which keeps them"},
		{"BF16, said to be F16", saying(t, stored(t, tensor.BF16), "float16"), "", "bf16", ""},
		{"F32, said to be BF16", saying(t, stored(t, tensor.F32), "bfloat16"), "", "bf16",
			"which loses 16 of the 24 bits of F32"},
		{"norms in F16", mixed(t, "norm", tensor.F16, tensor.BF16), "", "fp32",
			"and F16 (160 values) and trained in F32, which keeps them"},
		{"norms in F32", mixed(t, "norm", tensor.F32, tensor.BF16), "", "bf16",
			"and F32 (160 values) and trained in BF16, which loses 16 of the 24 bits of F32;"},
		{"norms in F32, the rest in F16", mixed(t, "norm", tensor.F32, tensor.F16), "bf16", "bf16",
			"which loses 3 of the 11 bits of F16 and 16 of the 24 bits of F32;"},
	} {
		args := small(t, filepath.Join(t.TempDir(), "out"), "--dry-run", "--all-settings", "--model", c.model)
		if c.flag != "" {
			args = append(args, "--dtype", c.flag)
		}
		o := must(t, cli.Done, args...)
		if !hasSetting(o.stdout, "dtype", c.trained) {
			t.Errorf("%s: not trained in %s: %v", c.name, c.trained, o)
		}
		if c.says == "" && strings.Contains(o.stdout, "are stored in") || !strings.Contains(o.stdout, c.says) {
			t.Errorf("%s: want %q: %v", c.name, c.says, o)
		}
	}
}

// TestSuit_Small checks that a small model is trained on all examples at its own rate, unless flags say otherwise.
func TestSuit_Small(t *testing.T) {
	base, err := hf.NewModel(map[string][]byte{"config.json": []byte(`{"architectures": ["LlamaForCausalLM"],
		"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
		"num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192, "tie_word_embeddings": true}`)})
	expect.OK(t, err)
	for _, c := range []struct {
		flags   []string
		lr, val float64
	}{
		{nil, 1e-4, 0},
		{[]string{"--lr", "1e-4"}, 1e-4, 0},
		{[]string{"--lora"}, 2e-3, 0},
		{[]string{"--lora", "r=4", "--lr", "1e-4"}, 1e-4, 0},
		{[]string{"--val", "0.1"}, 1e-4, 0.1},
		{[]string{"--patience", "2"}, 1e-4, 0.05},
		{[]string{"--eval-every", "20"}, 1e-4, 0.05},
	} {
		o, f := newOptions(io.Discard, io.Discard)
		if code, done := f.Parse(c.flags); done {
			t.Fatalf("%q: exit code %d", c.flags, code)
		}
		if err := newTrain(o, f, io.Discard, io.Discard, nil, nil).suit(base); err != nil || o.config.LR != c.lr ||
			o.val != c.val {
			t.Errorf("%q: --lr %g --val %g, %v", c.flags, o.config.LR, o.val, err)
		}
	}
}

// hasSetting reports whether the table of settings has a flag with that value.
func hasSetting(table, flag, value string) bool {
	fields := strings.Fields(table)
	for i := range len(fields) - 1 {
		if fields[i] == flag && fields[i+1] == value {
			return true
		}
	}
	return false
}

// TestFromScratch_DefaultLearningRate checks that a new model gets a learning rate by its size, unless one is given.
func TestFromScratch_DefaultLearningRate(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(tinyBase, "config.json"))
	expect.OK(t, err)
	config := filepath.Join(t.TempDir(), "config.json")
	expect.OK(t, os.WriteFile(config, data, 0o666))
	dry := []string{"--dry-run", "--all-settings", "--from-scratch", config, "--data", rows(t, 40), "--out",
		filepath.Join(t.TempDir(), "out"), "--seq", "64"}
	o := must(t, cli.Done, dry...)
	for flag, value := range map[string]string{"lr": "0.003", "epochs": "6", "weight-decay": "0.1"} {
		if !hasSetting(o.stdout, flag, value) || !strings.Contains(o.stdout, "r "+flag+" ") {
			t.Errorf("--%s %s is not in the table as chosen for the model: %v", flag, value, o)
		}
	}
	o = must(t, cli.Done, append(dry, "--lr", "5e-4", "--preset", "8gb")...)
	if !hasSetting(o.stdout, "lr", "0.0005") || !strings.Contains(o.stdout, "* lr ") {
		t.Errorf("a given --lr does not win: %v", o)
	}
	var shape map[string]any
	expect.OK(t, json.Unmarshal(data, &shape))
	shape["architectures"], shape["model_type"] = []string{"MixtralForCausalLM"}, "mixtral"
	for want, stored := range map[string]any{"0.001": nil, "0.02": 0.02} {
		shape["router_aux_loss_coef"] = stored
		if data, err = json.Marshal(shape); err == nil {
			err = os.WriteFile(config, data, 0o666)
		}
		expect.OK(t, err)
		if o = must(t, cli.Done, dry...); !hasSetting(o.stdout, "balance-loss", want) {
			t.Errorf("with router_aux_loss_coef %v, --balance-loss %s is not in the table: %v", stored, want, o)
		}
	}
}

// TestTexts_AllAreUsed checks that training uses all of several texts, and makes the vocabulary from all of them.
func TestTexts_AllAreUsed(t *testing.T) {
	dir := t.TempDir()
	var config map[string]any
	expect.OK(t, json.Unmarshal(readFile(t, filepath.Join(tinyBase, "config.json")), &config))
	data, err := json.Marshal(config)
	expect.OK(t, err)
	for name, text := range map[string]string{
		"config.json": string(data), "a.txt": strings.Repeat("alpha ", 300), "b.txt": strings.Repeat("omega ", 500)} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"--dry-run", "--from-scratch", file("config.json"), "--out", file("out"), "--seq", "16", "--val", "0"}
	tokens := func(args ...string) int {
		o := must(t, cli.Done, args...)
		_, after, _ := strings.Cut(o.stdout, "held out; ")
		text, _, _ := strings.Cut(after, " ")
		n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
		expect.OK(t, err)
		return n
	}
	both := append(args, "--text", file("a.txt"), "--text", file("b.txt"))
	o := must(t, cli.Done, both...)
	if !strings.Contains(o.stdout, "a.txt and b.txt") {
		t.Errorf("%v", o)
	}
	// The vocabulary has a token for each of the two words, so each text has as many tokens as words, and a few that
	// chunks share.
	if n := tokens(both...); n < 800 || n > 900 {
		t.Errorf("%d tokens of 300 and 500 words", n)
	}
}

// TestNothingHeldOut checks that if --val cannot hold out any example, the table says so and why.
func TestNothingHeldOut(t *testing.T) {
	for _, c := range []struct{ data, says string }{
		{`[{"instruction":"joke","output":"a"},{"instruction":"joke","output":"b"}]`,
			"nothing can be held out for a validation loss: all examples ask the same"},
		{`[{"instruction":"joke","output":"a"}]`, "nothing can be held out for a validation loss: there is one example"},
		{`[{"instruction":"joke","output":"a"},{"instruction":"pun","output":"b"}]`, ""},
	} {
		path := filepath.Join(t.TempDir(), "rows.json")
		expect.OK(t, os.WriteFile(path, []byte(c.data), 0o666))
		o := must(t, cli.Done, "--dry-run", "--model", tinyBase, "--data", path, "--val", "0.5", "--out",
			filepath.Join(t.TempDir(), "out"))
		if c.says == "" && strings.Contains(o.stdout, "can be held out") || !strings.Contains(o.stdout, c.says) {
			t.Errorf("%s: want %q: %v", c.data, c.says, o)
		}
	}
}

// TestTensorBoard_ToneTagOfVoice checks that only the default voice, which is the original project's, has the
// original's tag in TensorBoard.
func TestTensorBoard_ToneTagOfVoice(t *testing.T) {
	for style, want := range map[string]string{"passive-aggressive": "Metrics/Rudeness_Score",
		"pirate": "Metrics/Tone_Score"} {
		s, err := voice.Load(style)
		expect.OK(t, err)
		if got := (&train{voice: s}).toneTag(); got != want {
			t.Errorf("%s: %s, want %s", style, got, want)
		}
	}
}
