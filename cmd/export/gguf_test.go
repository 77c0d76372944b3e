package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/data"
	"restyle/gguf"
	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/internal/llamacpp"
	"restyle/internal/llamacpp/llamacpptest"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/tokenizer"
)

// exported runs the command, which must succeed, and returns the file and what it printed.
func exported(t *testing.T, in string, flags ...string) (path, printed string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "out", "model.gguf")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append([]string{in, path}, flags...), &stdout, &stderr); code != cli.Done {
		t.Fatalf("export %s %v: exit code %d: %s\n%s", in, flags, code, stderr.String(), stdout.String())
	}
	return path, stdout.String()
}

// TestGGUF_ReadsBack exports a model with each type, and the file again, which must change nothing if it can be said.
func TestGGUF_ReadsBack(t *testing.T) {
	for _, m := range gguf.Mixes {
		path, printed := exported(t, tinyBase, "--gguf", m.Name)
		if strings.Contains(printed, "WRONG") || !strings.Contains(printed, "KL divergence") {
			t.Errorf("%s: %s", m.Name, printed)
		}
		again, _ := exported(t, path, "--gguf", m.Name)
		a, b := weightsOf(t, path), weightsOf(t, again)
		if m.Name == "f32" || m.Name == "f16" || m.Name == "bf16" || m.Name == "q8_0" {
			for name := range a {
				if !bytes.Equal(a[name], b[name]) {
					t.Errorf("%s: %s has other bytes when it is exported again", m.Name, name)
				}
			}
		}
		modelfile, err := os.ReadFile(strings.TrimSuffix(path, ".gguf") + ".Modelfile")
		if err != nil || !strings.Contains(string(modelfile), "FROM ./model.gguf\n") {
			t.Errorf("%v: Modelfile: %s", err, modelfile)
		}
	}
}

// TestGGUF_GPTQ writes Q4_0 with both roundings: only the matrices in layers may differ, in as many bytes, and GPTQ's
// predictions are nearer to the model's, 0.042 nats per token instead of 0.071.
func TestGGUF_GPTQ(t *testing.T) {
	nearest, said := exported(t, data.StarterName, "--gguf", "q4_0")
	gptq, saidGPTQ := exported(t, data.StarterName, "--gguf", "Q4_0", "--rounding", "gptq", "--text", "64")
	divergence := func(printed string) (kl float64) {
		_, rest, _ := strings.Cut(printed, "KL divergence ")
		if _, err := fmt.Sscan(rest, &kl); err != nil {
			t.Fatalf("%v: %s", err, printed)
		}
		return kl
	}
	if a, b := divergence(saidGPTQ), divergence(said); !(a < 0.8*b) {
		t.Errorf("the KL divergence is %.4f with GPTQ, and %.4f without", a, b)
	}
	a, b := weightsOf(t, nearest), weightsOf(t, gptq)
	for name, was := range a {
		matrix := strings.HasPrefix(name, "blk.") && !strings.Contains(name, "norm")
		if same := bytes.Equal(was, b[name]); len(was) != len(b[name]) || same == matrix {
			t.Errorf("%s has %d bytes, and %d with GPTQ: the same: %t", name, len(was), len(b[name]), same)
		}
	}
}

func weightsOf(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := gguf.Open(path)
	expect.OK(t, err)
	defer f.Close()
	all := map[string][]byte{}
	for _, x := range f.Tensors() {
		all[x.Name] = make([]byte, x.Bytes)
		expect.OK(t, f.ReadAt(x.Name, all[x.Name], 0))
	}
	return all
}

// TestGGUF_KeepsAFailedFileAside makes the check fail by allowing no divergence at all.
func TestGGUF_KeepsAFailedFileAside(t *testing.T) {
	was := mostKL[gguf.Q4_0]
	mostKL[gguf.Q4_0] = -1
	defer func() { mostKL[gguf.Q4_0] = was }()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{tinyBase, filepath.Join(dir, "x.gguf"), "--gguf", "q4_0"}, &stdout, &stderr)
	entries, err := os.ReadDir(dir)
	if err != nil || code != cli.Failed || len(entries) != 1 || entries[0].Name() != "x.failed.gguf" ||
		!strings.Contains(stderr.String(), "is not the model") || !strings.Contains(stdout.String(), "WRONG") {
		t.Errorf("%v, exit code %d, %v: %s\n%s", err, code, entries, stderr.String(), stdout.String())
	}
}

// TestGGUF_ChecksWhatItCan exports a model whose attention has a window shorter than the texts of the check, and whose
// chat template cannot be rendered.
func TestGGUF_ChecksWhatItCan(t *testing.T) {
	in := t.TempDir()
	expect.OK(t, os.CopyFS(in, os.DirFS(tinyBase)))
	path := filepath.Join(in, "config.json")
	text, err := os.ReadFile(path)
	expect.OK(t, err)
	text = bytes.Replace(text, []byte(`"llama"`), []byte(`"mistral"`), 1)
	text = bytes.Replace(text, []byte(`LlamaForCausalLM`), []byte(`MistralForCausalLM`), 1)
	expect.OK(t, os.WriteFile(path, bytes.Replace(text, []byte("{"), []byte(`{"sliding_window": 4,`), 1), 0o666))
	expect.OK(t, os.WriteFile(filepath.Join(in, "chat_template.jinja"), []byte("{% for"), 0o666))
	if _, printed := exported(t, in, "--gguf", "f32"); !strings.Contains(printed, "of 4 tokens") ||
		!strings.Contains(printed, "note: the chat template is in the file as it is, but restyle cannot use it") {
		t.Error(printed)
	}
}

// TestGGUF_ReadsTheTokenizerFirst has a file next to a tokenizer that cannot be read: no file is written just to be
// compared.
func TestGGUF_ReadsTheTokenizerFirst(t *testing.T) {
	in, out := t.TempDir(), filepath.Join(t.TempDir(), "new", "x.gguf")
	expect.OK(t, os.CopyFS(in, os.DirFS(tinyBase)))
	expect.OK(t, os.WriteFile(filepath.Join(in, "added_tokens.json"), nil, 0o666))
	var said bytes.Buffer
	code := run(t.Context(), []string{in, out, "--gguf", "q8_0"}, &said, &said)
	if _, err := os.Stat(filepath.Dir(out)); err == nil || code != cli.Failed ||
		!strings.Contains(said.String(), "added_tokens.json: it is not a JSON object") {
		t.Errorf("exit code %d, %v: %s", code, err, &said)
	}
	if code := run(t.Context(), []string{in, out, "--gguf", "q8_0", "--check=false"}, &said, &said); code != cli.Done {
		t.Errorf("exit code %d without the check: %s", code, &said)
	}
}

func TestGGUF_Usage(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there.gguf")
	expect.OK(t, os.WriteFile(there, nil, 0o666))
	adapter := adapterOf(t, `, "base_model_name_or_path": "x"`, "", nil)
	out := filepath.Join(dir, "out.gguf")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{tinyBase, out, "--gguf", "q3_k"}, "use one of f32, f16"},
		{[]string{tinyBase, out, "--gguf", "lora"}, "--gguf lora is for adapters"},
		{[]string{tinyBase, dir, "--gguf", "f16"}, "end it in .gguf"},
		{[]string{tinyBase, there, "--gguf", "f16"}, "is there already"},
		{[]string{tinyBase, out, "--gguf", "f16", "--weights", "int8"}, "leave one out"},
		{[]string{tinyBase, out, "--gguf", "f16", "--base", "x"}, "are for adapters"},
		{[]string{tinyBase, out, "--gguf", "q4_k_m", "--rounding", "gptq"}, "is for --gguf q4_0"},
		{[]string{adapter, out, "--gguf", "q4_0", "--rounding", "gptq", "--base", "x"}, "merge it first"},
		{[]string{tinyBase, out, "--gguf", "q4_0", "--text", "8"}, "--text is for --rounding gptq"},
		{[]string{tinyBase, out, "--check=false"}, "--check is for --gguf"},
		{[]string{adapter, out, "--gguf", "f16", "--base", "x", "--onto", "y"}, "leave one out"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), c.args, &stdout, &stderr)
		if code != cli.Usage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: exit code %d: %s: want %q", c.args[2:], code, stderr.String(), c.want)
		}
	}
}

// llamaLimits has the maximum relative errors of llama.cpp's logits: with weights of 16 bits and fewer it rounds
// activations to F16 or 8 bits.
var llamaLimits = map[string]float64{"f32": 1e-5, "f16": 2e-3, "bf16": 1e-2, "q8_0": 0.05, "q6_k": 0.05, "q5_k_m": 0.05,
	"q4_k_m": 0.05, "q4_0": 0.05}

// TestGGUF_InLlamaCPP compares what llama.cpp makes of exported files with what restyle makes of them: tokens, chat
// template, ends of answers, logits of every type, and greedy answers in F32.
func TestGGUF_InLlamaCPP(t *testing.T) {
	for _, name := range []string{tinyBase, data.StarterName} {
		for _, m := range gguf.Mixes {
			if name != tinyBase && m.Name != "f32" && m.Name != "q4_k_m" { // each start of llama.cpp takes half a second
				continue
			}
			path, _ := exported(t, name, "--gguf", m.Name, "--check=false")
			theirs := llamacpptest.Open(t, path, llamacpp.Options{Exact: true})
			c, err := hf.OpenGGUF(path)
			expect.OK(t, err)
			if m.Name == "f32" {
				sameText(t, c, theirs)
			}
			ids := make([]int32, 40)
			for i := range ids {
				ids[i] = int32((i*i*7 + 3*i + 1) % 256)
			}
			ours := logitsOf(t, c, ids)
			want, err := theirs.Logits(ids)
			expect.OK(t, err)
			if e := relative(ours, want); !(e <= llamaLimits[m.Name]) {
				t.Errorf("%s as %s: llama.cpp's logits differ by %.3g: at most %g", name, m.Name, e, llamaLimits[m.Name])
			}
			c.Close()
			theirs.Close()
		}
	}
}

// sameText compares tokenizers, templates, ends and greedy answers.
func sameText(t *testing.T, c *hf.Checkpoint, theirs *llamacpp.Model) {
	t.Helper()
	own, err := tokenizer.Read(c.ReadFile)
	expect.OK(t, err)
	questions, err := data.Questions()
	expect.OK(t, err)
	texts := slices.Clone(probes)
	for _, q := range questions {
		texts = append(texts, q.Instruction, q.Output)
	}
	for _, text := range texts {
		want, err := theirs.Tokenize(text, false, true)
		expect.OK(t, err)
		got := own.Encode(text, tokenizer.EncodeOptions{}).IDs
		if !slices.Equal(got, want) && !slices.Contains(probes, text) {
			t.Errorf("%.60q becomes %v here, and %v in llama.cpp", text, got, want)
		}
	}
	template, err := theirs.Template()
	if err != nil || template != c.Tokenizer.ChatTemplate {
		t.Errorf("%v: llama.cpp has the template %.80q: want %.80q", err, template, c.Tokenizer.ChatTemplate)
	}
	ends, err := theirs.Ends()
	if err != nil || !slices.Equal(ends, c.Generation.EOS) {
		t.Errorf("%v: in llama.cpp, %v end an answer: want %v", err, ends, c.Generation.EOS)
	}
	prompt := own.Encode("Write a function that adds two numbers.", tokenizer.EncodeOptions{}).IDs
	want, err := theirs.Greedy(prompt, 24)
	expect.OK(t, err)
	for i, id := range want {
		logits := logitsOf(t, c, append(slices.Clone(prompt), want[:i]...))
		last := logits[len(logits)-c.Config.Vocab:]
		// Sums in another order may decide between equally likely tokens.
		if last[argmax(last)]-last[id] > 1e-4 {
			t.Fatalf("token %d of a greedy answer is %d in llama.cpp, and %d here", i, id, argmax(last))
		}
	}
}

// logitsOf computes logits in float32, on weights as the file has them.
func logitsOf(t *testing.T, c *hf.Checkpoint, ids []int32) (all []float32) {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{Threads: 1, Fused: kernels.All()})
	expect.OK(t, err)
	defer d.Close()
	o := model.Options{DType: tensor.F32, MaxTokens: len(ids), Quantization: c.Quantization}
	err = withModel(d, c.Config, o, func(m *model.Model) error {
		if err := c.Load(t.Context(), d, m.Params(), nil); err != nil {
			return err
		}
		return m.Logits(model.Batch{IDs: ids}, func(_ int, logits []float32) { all = append(all, logits...) })
	})
	expect.OK(t, err)
	return all
}

// TestGGUF_AdapterInLlamaCPP compares an adapter next to its base in llama.cpp with the merged model here.
func TestGGUF_AdapterInLlamaCPP(t *testing.T) {
	adapter := adapterOf(t, `, "use_rslora": true`, "", nil)
	base, _ := exported(t, tinyBase, "--gguf", "f32")
	alone, _ := exported(t, adapter, "--gguf", "lora", "--base", tinyBase)
	merged, _ := exported(t, adapter, "--gguf", "f32", "--base", tinyBase)
	theirs := llamacpptest.Open(t, base, llamacpp.Options{Exact: true})
	expect.OK(t, theirs.Adapt(alone, 1))
	ids := []int32{5, 9, 200, 31, 7, 7, 64}
	want, err := theirs.Logits(ids)
	expect.OK(t, err)
	c, err := hf.OpenGGUF(merged)
	expect.OK(t, err)
	defer c.Close()
	if e := relative(logitsOf(t, c, ids), want); !(e <= 1e-5) {
		t.Errorf("llama.cpp's logits with the adapter differ by %.3g from the merged model's: at most 1e-5", e)
	}
}
