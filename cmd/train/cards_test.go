package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels/cuda/cudatest"
)

// cardModels are the config.json files of the models in docs/gpu.md, with the keys that determine memory.
var cardModels = map[string]map[string]any{
	"Llama-3.2-1B": {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
		"num_attention_heads": 32,
		"num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": true},
	"Llama-3.2-3B": {"vocab_size": 128256, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28,
		"num_attention_heads": 24,
		"num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": true},
	"Llama-3.1-8B": {"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32,
		"num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": false},
	"Qwen2.5-1.5B": {"vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
		"num_attention_heads": 12,
		"num_key_value_heads": 2, "tie_word_embeddings": true, "model_type": "qwen2",
		"architectures": []string{"Qwen2ForCausalLM"}},
}

// A card row is | 8 GB | Llama-3.2-1B | `--preset 8gb` | 6.7 GiB | what was measured |. A row without a card has the
// card of the row above.
var cardRow = regexp.MustCompile(`(?m)^\| *(?:(\d+) GB)? *\| ([\w.-]+) \| (?:` + "`([^`]*)`" +
	`)? *\| (\d+\.\d GiB) \|`)

// TestDocs_MemoryOfCards checks that the memory that docs/gpu.md and docs/many.md give for models on cards is what
// train says on a card of that size.
func TestDocs_MemoryOfCards(t *testing.T) {
	dir := t.TempDir()
	cardFiles(t, dir)
	cudatest.Use(t, "libcuda", "libnvrtc")
	for path, c := range map[string]struct {
		rows  int // at least
		flags string
	}{
		"../../docs/gpu.md":  {rows: 6},
		"../../docs/many.md": {rows: 4, flags: "--seq 512 --batch 4 --epochs 1"},
	} {
		rows, card := 0, 0
		for _, m := range cardRow.FindAllStringSubmatch(string(readFile(t, path)), -1) {
			fmt.Sscan(m[1], &card)
			rows++
			cudatest.Set(t, fmt.Sprintf("IDLE=1 MEMORY=%d USED=0", card<<30))
			o := process(t, cli.Done, append([]string{"--fused", "--device", "cuda", "--dry-run", "--from-scratch",
				filepath.Join(dir, m[2]+".json"),
				"--tokenizer", filepath.Join(dir, "tokenizer"), "--data", filepath.Join(dir, "long.json")},
				strings.Fields(c.flags+" "+m[3])...)...)
			memory := regexp.MustCompile(`total +(.*)`).FindStringSubmatch(o.stdout)
			if !strings.Contains(o.stdout, "in passes of up to 2048 tokens") || memory == nil {
				t.Errorf("%s: %v", m[0], o)
				continue
			}
			var gib float64
			if fmt.Sscanf(memory[1], "%f GiB", &gib); gib < 1 || gib > 0.97*float64(card) {
				t.Errorf("%s: it takes %s", m[0], memory[1])
			}
			if memory[1] != m[4] {
				t.Errorf("%s: %s has %s, train says %s", path, m[0], m[4], memory[1])
			}
		}
		if rows < c.rows {
			t.Errorf("%s has %d rows of cards", path, rows)
		}
	}
}

// cardFiles writes the models, a tokenizer that is large enough for them, and examples longer than --seq.
func cardFiles(t *testing.T, dir string) {
	t.Helper()
	write := func(path string, v any) {
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path), data, 0o666)
		}
		expect.OK(t, err)
	}
	for name, shape := range cardModels {
		config := map[string]any{"model_type": "llama", "architectures": []string{"LlamaForCausalLM"},
			"max_position_embeddings": 32768, "rms_norm_eps": 1e-5}
		maps.Copy(config, shape)
		write(name+".json", config)
	}
	const starter = "../../data/starter-llama"
	expect.OK(t, os.CopyFS(filepath.Join(dir, "tokenizer"), os.DirFS(starter)))
	var tok map[string]any
	expect.OK(t, json.Unmarshal(readFile(t, filepath.Join(starter, "tokenizer.json")), &tok))
	vocab := tok["model"].(map[string]any)["vocab"].(map[string]any)
	for i := len(vocab) + len(tok["added_tokens"].([]any)); i < 128256; i++ {
		vocab[fmt.Sprint("unused", i)] = i
	}
	write("tokenizer/tokenizer.json", tok)
	var examples []map[string]string
	for i := range 8 {
		examples = append(examples, map[string]string{"instruction": fmt.Sprint("Question ", i),
			"output": strings.Repeat("a long answer ", 600)})
	}
	write("long.json", examples)
}
