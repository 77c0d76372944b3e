package llamacpp_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"restyle/hf"
	"restyle/internal/expect"
	"restyle/internal/llamacpp"
	"restyle/internal/llamacpp/llamacpptest"
)

// A recording is what golden-next/gguf has of a model.
type recording struct {
	Files map[string]struct {
		Greedy []struct {
			Prompt []int32 `json:"prompt"`
			Tokens []int32 `json:"tokens"`
			Margin float64 `json:"smallest_margin"`
		} `json:"greedy"`
		Largest float64 `json:"llama_cpp_largest"`
	} `json:"files"`
	Texts []struct {
		Text    string  `json:"text"`
		IDs     []int32 `json:"ids"`
		Special []int32 `json:"ids_special"`
	} `json:"texts"`
}

// readRecording returns a recording, and its directory.
func readRecording(t *testing.T, name string) (r recording, dir string) {
	t.Helper()
	dir = expect.Reference(t, "golden-next", "gguf", name)
	expect.OK(t, json.Unmarshal([]byte(expect.Read(t, filepath.Join(dir, "gguf.json"))), &r))
	return r, dir
}

// apart returns the norm of the difference of a and b, relative to b's.
func apart(a, b []float32) float64 {
	var difference, norm float64
	for i := range b {
		difference += math.Pow(float64(a[i])-float64(b[i]), 2)
		norm += math.Pow(float64(b[i]), 2)
	}
	return math.Sqrt(difference / norm)
}

// TestModel_AsRecorded judges the judge: its logits and greedy tokens agree with the dequantized weights'.
func TestModel_AsRecorded(t *testing.T) {
	for _, c := range []struct {
		model, file string
		limit       float64 // relative to the norm: llama.cpp rounds activations to F16, and to 8 bits for quantized weights
	}{
		{"llama_text", "f32", 1e-5}, {"llama_text", "f16", 2e-3}, {"llama_text", "q8_0", 0.05}, {"llama_text", "q4_0", 0.05},
		{"llama_k", "q4_k_m", 0.05},
	} {
		t.Run(c.model+" "+c.file, func(t *testing.T) {
			recorded, dir := readRecording(t, c.model)
			s, err := hf.OpenSafetensors(filepath.Join(dir, "gguf.safetensors"))
			expect.OK(t, err)
			defer s.Close()
			want, _, err := s.ReadF32("logits." + c.file)
			expect.OK(t, err)
			ids, _, err := s.ReadInts("input_ids")
			expect.OK(t, err)
			m := llamacpptest.Open(t, filepath.Join(dir, c.file+".gguf"), llamacpp.Options{Exact: true})
			got, err := m.Logits(narrow(ids))
			if err != nil || len(got) != len(want) || len(got) != len(ids)*m.Vocab {
				t.Fatalf("%d logits, want %d: %v", len(got), len(want), err)
			}
			off := apart(got, want)
			t.Logf("llama.cpp %s for %s: logits off by %.2g", m.Version, m.CPU, off)
			if !(off <= c.limit) {
				t.Errorf("logits are off by %v", off)
			}
			file := recorded.Files[c.file]
			for _, g := range file.Greedy {
				if g.Margin < 2*file.Largest {
					continue // the rounding of activations may choose another token
				}
				if got, err := m.Greedy(g.Prompt, len(g.Tokens)); err != nil || !slices.Equal(got, g.Tokens) {
					t.Errorf("after %v: %v, want %v: %v", g.Prompt, got, g.Tokens, err)
				}
			}
		})
	}
}

func narrow(wide []int64) (ids []int32) {
	for _, id := range wide {
		ids = append(ids, int32(id))
	}
	return ids
}

// TestModel_Vocabulary compares tokens, end tokens and the chat template with Hugging Face's.
func TestModel_Vocabulary(t *testing.T) {
	recorded, dir := readRecording(t, "llama_text")
	m := llamacpptest.Open(t, filepath.Join(dir, "f32.gguf"), llamacpp.Options{})
	for _, x := range recorded.Texts {
		ids, err := m.Tokenize(x.Text, false, true)
		special, err2 := m.Tokenize(x.Text, true, true)
		if err := errors.Join(err, err2); err != nil || !slices.Equal(ids, x.IDs) || !slices.Equal(special, x.Special) {
			t.Errorf("%q: %v and %v, want %v and %v: %v", x.Text, ids, special, x.IDs, x.Special, err)
		}
	}
	var config struct {
		Template string `json:"chat_template"`
	}
	expect.OK(t, json.Unmarshal([]byte(expect.Read(t, filepath.Join(dir, "tokenizer_config.json"))), &config))
	if text, err := m.Template(); err != nil || text != config.Template || text == "" {
		t.Errorf("template %q, want %q: %v", text, config.Template, err)
	}
	// llama.cpp knows ends by their names: <|end_of_text|>, <|eom_id|>, <|eot_id|>.
	if ends, err := m.Ends(); err != nil || !slices.Equal(ends, []int32{361, 364, 365}) {
		t.Errorf("end tokens %v: %v", ends, err)
	}
}

// TestModel_Cache checks that tokens read at once and one by one, after a trim, are followed by the same ones.
func TestModel_Cache(t *testing.T) {
	recorded, dir := readRecording(t, "llama_text")
	m := llamacpptest.Open(t, filepath.Join(dir, "f32.gguf"), llamacpp.Options{Context: 24})
	want := recorded.Files["f32"].Greedy[1]
	err := errors.Join(m.Trim(0), second(m.Read(want.Prompt)), second(m.Next(1, 4)), m.Trim(len(want.Prompt)))
	expect.OK(t, err)
	got, err := m.Next(want.Tokens[0], 15)
	if err != nil || !slices.Equal(got, want.Tokens[1:]) {
		t.Errorf("%v, want %v: %v", got, want.Tokens[1:], err)
	}
	_, err = m.Next(1, 2)
	expect.Error(t, err, "more than the context has room for")
	_, err = m.Ends()
	expect.Error(t, err, "llama.cpp: exit status 1")
}

func second[T any](_ T, err error) error { return err }

// TestModel_Many answers two prompts at once as one after the other.
func TestModel_Many(t *testing.T) {
	_, dir := readRecording(t, "llama_text")
	file := filepath.Join(dir, "f32.gguf")
	one := llamacpptest.Open(t, file, llamacpp.Options{Exact: true})
	two := llamacpptest.Open(t, file, llamacpp.Options{Exact: true, Sequences: 2})
	prompts := [][]int32{{5, 6, 7}, {8, 9, 5}}
	all, err := two.Many(prompts, 6)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for i, prompt := range prompts {
		if want, err := one.Greedy(prompt, 6); err != nil || !slices.Equal(all[i], want) {
			t.Errorf("prompt %d: %v, alone %v: %v", i, all[i], want, err)
		}
	}
}

// TestOpen_SurvivesCrashes checks that the reason of a refusal, and of an abort, is in the error.
func TestOpen_SurvivesCrashes(t *testing.T) {
	_, dir := readRecording(t, "llama_text")
	whole := []byte(expect.Read(t, filepath.Join(dir, "f32.gguf")))
	layers := slices.Clone(whole)
	copy(layers[218:], "\x00\x00\x00\x00") // as in ../malformed
	for _, c := range []struct {
		name  string
		data  []byte
		words []string
	}{
		{"text.gguf", []byte("no model"), []string{"exit status 1", "invalid magic", "text.gguf"}},
		{"layers.gguf", layers, []string{"signal: aborted", "GGML_ASSERT"}},
	} {
		path := expect.File(t, c.name, string(c.data))
		_, err := llamacpp.Open(t.Context(), path, llamacpp.Options{})
		if errors.Is(err, llamacpp.ErrNone) {
			t.Skip(err)
		}
		expect.Error(t, err, append(c.words, "llama.cpp: ")...)
	}
	m := llamacpptest.Open(t, filepath.Join(dir, "f32.gguf"), llamacpp.Options{})
	expect.Error(t, m.Adapt(filepath.Join(dir, "../adapter/all_r4.gguf"), 1), "exit status 1", "does not load the adapter")
}

func TestOpen_WithoutLibraries(t *testing.T) {
	t.Setenv("RESTYLE_LLAMACPP", "")
	if _, err := llamacpp.Open(t.Context(), "x.gguf", llamacpp.Options{}); !errors.Is(err, llamacpp.ErrNone) {
		t.Error(err)
	}
	t.Setenv("RESTYLE_LLAMACPP", t.TempDir())
	_, err := llamacpp.Open(t.Context(), "x.gguf", llamacpp.Options{})
	if _, missing := os.Stat("/usr/bin/cc"); missing == nil {
		expect.Error(t, err, "there is no ", "libllama.*")
	}
}
