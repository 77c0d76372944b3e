package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"restyle/infer"
	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
	"restyle/tensor"
)

// llama returns the shape of a Llama of 3.1 or 3.2.
func llama(dim, inner, layers, heads, headDim int, tied bool) model.Config {
	return model.Config{Family: "llama", Vocab: 128256, Dim: dim, Inner: inner, Layers: layers, Heads: heads, KVHeads: 8,
		HeadDim: headDim, MaxPositions: 131072, NormEps: 1e-5, RoPETheta: 500000, Tied: tied, PadID: -1}
}

var teachers = map[string]model.Config{
	"Llama-3.2-1B":  llama(2048, 8192, 16, 32, 64, true),
	"Llama-3.2-3B":  llama(3072, 8192, 28, 24, 128, true),
	"Llama-3.1-8B":  llama(4096, 14336, 32, 32, 128, false),
	"Llama-3.1-70B": llama(8192, 28672, 80, 64, 128, false),
}

// A row is | 8 GB | Llama-3.2-1B | `--quantize int4` | 1.9 GiB | 5,000 tokens |. One without a card has the card above.
var teacherRow = regexp.MustCompile(`(?m)^\| *(?:(\d+) GB)? *\| ([\w.-]+) \| (?:` + "`--quantize (\\w+)`" +
	`)? *\| (\d+\.\d GiB) \| (\d+,000 tokens) \|`)

// TestDocs_TeachersOfCards checks what docs/gen.md says of teachers on cards: the memory of weights and steps, and the
// thousands of tokens that serve keeps by default on a card of that size.
func TestDocs_TeachersOfCards(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc")
	text, err := os.ReadFile("../../docs/gen.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := teacherRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 6 {
		t.Fatalf("%d rows", len(rows))
	}
	c := &command{options: defaults()}
	c.models = make([]modelRef, 1)
	card := 0
	for _, row := range rows {
		fmt.Sscan(row[1], &card)
		cudatest.Set(t, fmt.Sprintf("IDLE=1 MEMORY=%d USED=%d", card<<30, 640<<20))
		d, err := kernels.Open("cuda", kernels.Options{Fused: kernels.All()})
		if err != nil {
			t.Fatal(err)
		}
		config := teachers[row[2]]
		of := model.Options{DType: tensor.BF16, Quantization: infer.Quantizations[row[3]], Context: 1}
		size := model.MemoryOf(d, d.Fused(), config, of)
		o := c.poolOptions(d, config)
		block, rest, err := model.PoolBytesOf(d, config, of, o)
		if err != nil {
			t.Fatal(err)
		}
		free, _, _ := d.Free()
		weights := size.Weights + size.KVCache
		tokens := c.cacheTokens(o, block, free-weights-rest)
		if need := weights + rest + tokens/model.PoolBlock*block; need > free {
			t.Errorf("%s: %d bytes do not fit into %d", row[0], need, free)
		}
		takes, keeps := fmt.Sprintf("%.1f GiB", float64(weights+rest)/(1<<30)), fmt.Sprintf("%d,000 tokens", tokens/1000)
		if takes != row[4] || keeps != row[5] {
			t.Errorf("%s: it takes %s, and keeps %s", strings.TrimSpace(row[0]), takes, keeps)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
