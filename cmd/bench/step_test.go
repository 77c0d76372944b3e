package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
)

// tinyConfig is the config.json of a model that trains in an instant.
const tinyConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64,
"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
"max_position_embeddings": 64, "rms_norm_eps": 1e-5}`

// tinyModel writes tinyConfig to a file, and returns the file's path.
func tinyModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	expect.OK(t, os.WriteFile(path, []byte(tinyConfig), 0o644))
	return path
}

// cells returns the cells of a Markdown table, without its head and the text around it.
func cells(table string) (rows [][]string) {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| step") {
			rows = append(rows, strings.Split(strings.Trim(line, "| \n"), " | "))
		}
	}
	return rows
}

// within reports whether a share equals a printed percentage, after rounding.
func within(share, percent string) bool {
	var s, p float64
	_, err := fmt.Sscan(share, &s)
	_, err2 := fmt.Sscanf(percent, "%f%%", &p)
	return err == nil && err2 == nil && math.Abs(100*s-p) < 0.6
}

func TestStep(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log.csv")
	code, out, errs := bench(t, "step", "--config", tinyModel(t), "--shapes", "1x8x2, 2x16", "--fused", "both", "--steps",
		"2", "--warmup", "0",
		"--train-only", "mlp", "--log", log, "--device", "cpu", "--check")
	if code != cli.Done {
		t.Fatalf("%d: %s", code, errs)
	}
	rows := cells(out)
	for i, want := range []string{"1x8x2 standard mlp", "1x8x2 fused mlp", "2x16x1 standard mlp", "2x16x1 fused mlp"} {
		// log 64 is 4.16
		if i >= len(rows) || strings.Join(rows[i][:3], " ") != want || !strings.HasPrefix(rows[i][10], "4.") {
			t.Fatalf("row %d is not one of %q:\n%s", i, want, out)
		}
		if !strings.HasSuffix(rows[i][8], ", +0.0%") { // on the CPU the estimate is exact to the byte
			t.Errorf("the estimate of %s is off: %s", want, rows[i][8])
		}
	}
	file, err := os.Open(log)
	expect.OK(t, err)
	defer file.Close()
	logged, err := csv.NewReader(file).ReadAll()
	if err != nil || len(logged) != 5 {
		t.Fatalf("%v, %v", logged, err)
	}
	for i, row := range logged[1:] {
		cell := func(name string) string { return row[slices.Index(logged[0], name)] }
		if cell("Mode") != rows[i][1] || cell("Label") != "mlp trained" || cell("Peak_Share") == "" || cell("TFLOPS") == "" ||
			cell("Device") != "cpu" ||
			cell("Total_Tokens") != []string{"16", "32"}[i/2] || !within(cell("Peak_Share"), rows[i][6]) {
			t.Errorf("%v", row)
		}
	}
}

// TestStepOnGPU checks that the memory estimate also holds on a GPU.
func TestStepOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("a few seconds on the emulated GPU")
	}
	code, out, errs := bench(t, "step", "--config", tinyModel(t), "--shapes", "1x8x2", "--steps", "1", "--warmup", "0",
		"--check", "--device", "emulated")
	if strings.Contains(errs, cuda.ErrNoCompiler.Error()) {
		t.Skip(errs)
	}
	if code != cli.Done || !strings.Contains(out, ", +0.0%") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

// TestStep_TimesProductsFirst checks that a step's products are timed before the step, unless the flags say to take the
// first algorithm of each.
func TestStep_TimesProductsFirst(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc", "libcublasLt")
	cudatest.Set(t, "IDLE=1 MEMORY=17179869184")
	for _, c := range []struct {
		args []string
		kept int
	}{{nil, 1}, {[]string{"--deterministic"}, 0}, {[]string{"--own-products"}, 0}} {
		dir := cudatest.Cache(t)
		t.Setenv("RESTYLE_CACHE", dir)
		args := append([]string{"step", "--config", tinyModel(t), "--shapes", "1x16x2", "--steps", "1", "--warmup", "0",
			"--device", "cuda"}, c.args...)
		if code, out, errs := bench(t, args...); code != cli.Done {
			t.Errorf("%v: %d: %s%s", c.args, code, out, errs)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "products-*")); err != nil || len(files) != c.kept {
			t.Errorf("%v: %v, %v", c.args, files, err)
		}
	}
}

// TestStepOnFilledGPU checks that --check fails if another process uses more of the GPU than the estimate knows.
func TestStepOnFilledGPU(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc")
	cudatest.Set(t, "IDLE=1 MEMORY=17179869184 USED=5000000000")
	t.Setenv("RESTYLE_CACHE", cudatest.Cache(t))
	args := []string{"step", "--config", tinyModel(t), "--shapes", "1x8", "--steps", "1", "--warmup", "0", "--device",
		"cuda"}
	if code, out, errs := bench(t, append(args, "--check")...); code != cli.Failed ||
		!strings.Contains(errs, "1x8x1 fused, all trained: the estimate is ") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

// TestStepCheck checks that --check fails if an estimate is off by more than 5%.
func TestStepCheck(t *testing.T) {
	for _, c := range []struct {
		estimate int
		wrong    bool
	}{{1000, false}, {1049, false}, {1051, true}, {951, false}, {949, true}} {
		table := &stepTable{out: io.Discard}
		l := &stepLine{batch: 1, seq: 8, accumulate: 1, config: model.Config{Vocab: 8, Dim: 8, Heads: 1, KVHeads: 1,
			HeadDim: 8, Layers: 1, Inner: 8}}
		expect.OK(t, table.add(l, stepResult{Mode: "fused", Seconds: []float64{1}, Memory: 1000,
			estimate: c.estimate}))
		if err := table.check(); (err != nil) != c.wrong {
			t.Errorf("an estimate of %d for 1000: %v", c.estimate, err)
		}
	}
}

// TestStepSeconds checks that bench takes more steps than requested until they have lasted long enough.
func TestStepSeconds(t *testing.T) {
	code, out, errs := bench(t, "step", "--config", tinyModel(t), "--shapes", "1x8", "--steps", "1", "--warmup", "0",
		"--seconds", "0.2", "--device", "cpu")
	rows := cells(out)
	if code != cli.Done || len(rows) != 1 {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	var median, least, most float64
	if _, err := fmt.Sscanf(rows[0][4], "%f, %f to %f", &median, &least, &most); err != nil || least < 200 &&
		least == most {
		t.Errorf("one step of %s, %v", rows[0][4], err)
	}
}

// TestStep_BesideAnotherProgram checks the description of a step that another program gets, and bench's use of the
// result. A script plays that program.
func TestStep_BesideAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	config := tinyModel(t)
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return "sh " + path + " " + filepath.Join(dir, "told")
	}
	answer := script("answer", `cat > "$1"
echo a warning
echo '{"mode": "torch-eager", "label": "torch 9, AdamW", "seconds": [0.5, 0.25, 1.0], '\
'"joules": 30, "memory": 3221225472, "loss": 4.5}'
`)
	log := filepath.Join(dir, "log.csv")
	args := []string{"step", "--config", config, "--shapes", "2x8x2", "--steps", "1", "--warmup", "1", "--seconds", "0.01",
		"--train-only", "mlp", "--device", "cpu", "--log", log}
	code, out, errs := bench(t, append(args, "--beside", answer)...)
	rows := cells(out)
	if code != cli.Done || len(rows) != 2 {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	want := "2x8x2 torch-eager mlp 64 500.00, 250.00 to 1000.00"
	if got := strings.Join(rows[1][:5], " "); got != want || rows[1][7] != "3.0 GiB" || rows[1][8] != "" ||
		rows[1][9] != "312.5" || rows[1][10] != "4.5000" {
		t.Errorf("%q", rows[1])
	}
	logged, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(logged), ",torch-eager,0.5000,32,64.00,") ||
		!strings.Contains(string(logged), ",10.0,cpu,bf16,") ||
		!strings.Contains(string(logged), `,2,8,2,"torch 9, AdamW, mlp trained",`) {
		t.Errorf("%s, %v", logged, err)
	}
	told, err := os.ReadFile(filepath.Join(dir, "told"))
	var step besideStep
	if err == nil {
		err = json.Unmarshal(told, &step)
	}
	step.Config = nil
	if fmt.Sprint(step) != "{[] 2 8 2 [mlp] <nil> none bf16 cpu 1 1 0.01}" ||
		!strings.Contains(string(told), `"hidden_size":32`) || err != nil {
		t.Errorf("it was told %s, %v", told, err)
	}
	for name, c := range map[string]struct{ script, want string }{
		"fails":      {"echo trouble >&2; echo no memory >&2; exit 3", "exit status 3: no memory"},
		"no JSON":    {"echo done", "it ended without an answer"},
		"no seconds": {`echo '{"mode": "torch-eager"}'`, "has no mode, or no seconds"},
		"no mode":    {`echo '{"seconds": [1]}'`, "has no mode, or no seconds"},
		"no time":    {`echo '{"mode": "torch-eager", "seconds": [1, 0]}'`, "a step of 0 seconds"},
	} {
		code, out, errs := bench(t, append(args, "--beside", script("bad", c.script), "--beside", answer)...)
		// our result, and the result of the program that answers
		if rows := cells(out); code != cli.Failed || len(rows) != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d: %s%s", name, code, out, errs)
		}
	}
}

// TestStep_Adapters times adapters on quantized weights, which it describes to another program, and gives flags that
// cannot be described to it.
func TestStep_Adapters(t *testing.T) {
	dir := t.TempDir()
	script, told := filepath.Join(dir, "script"), filepath.Join(dir, "told")
	const answer = "cat > \"$1\"\necho '{\"mode\": \"torch-eager\", \"seconds\": [1]}'\n"
	expect.OK(t, os.WriteFile(script, []byte(answer), 0o644))
	args := []string{"step", "--config", tinyModel(t), "--shapes", "2x8", "--steps", "1", "--warmup", "0",
		"--device", "cpu", "--check", "--beside", "sh " + script + " " + told}
	code, out, errs := bench(t, append(args, "--lora", "r=4,alpha=8", "--quantize-base", "nf4")...)
	rows := cells(out)
	if code != cli.Done || len(rows) != 2 || rows[1][2] != rows[0][2] || !strings.HasSuffix(rows[0][2], " on nf4") {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	text, err := os.ReadFile(told)
	if err != nil || !strings.Contains(string(text), `"lora":{"rank":4,"alpha":8},"base":"nf4"`) {
		t.Errorf("it was told %s, %v", text, err)
	}
	for flags, want := range map[string]string{
		"--lora r=4,targets=q_proj": "is told the rank and alpha of --lora only",
		"--lora targets=nothing":    "none of the model's linear layers",
		"--quantize-base nf4":       "set lora",
	} {
		code, _, errs := bench(t, append(args, strings.Fields(flags)...)...)
		if code != cli.Usage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d: %s", flags, code, errs)
		}
	}
}

// TestConfigs_KnownByName checks that the models that bench knows by name have the right parameter counts and
// settings.
func TestConfigs_KnownByName(t *testing.T) {
	for name, params := range map[string]int64{"llama-3.2-1b": 1_235_814_400, "llama-3.1-8b": 8_030_261_248,
		"Llama-2-7B": 6_738_415_616, "llama-2-13b": 13_015_864_320, "llama-2-70b": 68_976_648_192,
		"llama-3.1-70b": 70_553_706_496} {
		if s, err := shapeOf("--config", name); err != nil || s.config.ParamCount() != params {
			t.Errorf("%s: %d parameters, %v", name, s.config.ParamCount(), err)
		}
	}
	s, err := shapeOf("--config", "llama-3.2-1b")
	if c := s.config; err != nil || !c.Tied || c.RoPEScaling == nil || c.RoPEScaling.Factor != 32 ||
		c.MaxPositions != 131072 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, name := range []string{"small", "starter"} {
		if _, err := shapeOf("--config", name); err != nil {
			t.Error(err)
		}
	}
}

// newTiny returns a model with random weights on the CPU.
func newTiny(t *testing.T, c model.Config) *model.Model {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	m, err := model.New(d, c, model.Options{MaxTokens: 32})
	expect.OK(t, err)
	randomWeights(m)
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestStepRefuses(t *testing.T) {
	refuses(t, "step", cli.Usage, map[string]string{
		"--shapes 4":           `--shapes: "4": must be a shape`,
		"--shapes 4x0":         `"0": must be a number`,
		"--shapes 1x200000":    "the model's 131072 positions",
		"--fused some":         "--fused: ",
		"--steps 0":            "--steps 0",
		"--seconds -1":         "--seconds -1",
		"--master x":           `--master "x": must be`,
		"--optimizer sgd":      `--optimizer "sgd": must be`,
		"--dtype f16":          `--dtype "f16": must be`,
		"--recompute all":      `--recompute "all": must be`,
		"--train-only nothing": `--train-only "nothing": `,
		"--config nowhere":     "--config nowhere: ",
	})
}
