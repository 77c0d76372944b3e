package gguf

import (
	"fmt"
	"strings"
	"testing"

	"restyle/internal/expect"
)

func TestMix_TypeOf(t *testing.T) {
	small := Model{Architecture: "llama", Layers: 28, Heads: 16, KVHeads: 8}
	tied, mixtral := small, small
	tied.Tied, mixtral.Experts = true, 8
	large := Model{Architecture: "llama", Layers: 80, Heads: 64, KVHeads: 8}
	llama1 := Model{Architecture: "llama", Layers: 80, Heads: 64, KVHeads: 64}
	for _, c := range []struct {
		mix   string
		model Model
		name  string
		row   int
		want  Type
	}{
		{"f32", small, "blk.0.attn_q.weight", 256, F32},
		{"f16", small, "blk.0.attn_q.weight", 100, F16},
		{"bf16", small, "output.weight", 100, BF16},
		{"bf16", small, "blk.0.attn_q_norm.weight", 128, F32},
		{"q8_0", small, "blk.0.attn_q.bias", 128, F32},
		{"q8_0", small, "output.weight", 96, Q8_0},
		{"q8_0", mixtral, "blk.0.ffn_gate_inp.weight", 256, F32},
		{"q6_k", small, "blk.0.ffn_down.weight", 256, Q6_K},
		{"q4_0", small, "output.weight", 256, Q6_K},
		{"q4_0", small, "output.weight", 96, Q8_0},
		{"q4_0", small, "token_embd.weight", 256, Q4_0},
		{"q4_0", tied, "token_embd.weight", 256, Q6_K},
		{"q4_0", small, "blk.0.ffn_down.weight", 256, Q4_0},
		{"q4_0", small, "blk.0.ffn_down.weight", 688, F16},
		{"q4_0", mixtral, "blk.0.attn_k.weight", 256, Q8_0},
		{"q4_k_m", small, "token_embd.weight", 256, Q4_K},
		{"q4_k_m", tied, "token_embd.weight", 256, Q6_K},
		{"q4_k_m", tied, "token_embd.weight", 96, Q8_0},
		{"q4_k_m", small, "output.weight", 100, F16},
		{"q4_k_m", small, "blk.2.attn_v.weight", 256, Q6_K},
		{"q4_k_m", small, "blk.3.attn_v.weight", 256, Q4_K},
		{"q4_k_m", small, "blk.3.attn_v.weight", 288, Q5_0},
		{"q4_k_m", small, "blk.2.ffn_down.weight", 288, Q8_0},
		{"q4_k_m", small, "blk.2.ffn_up.weight", 256, Q4_K},
		{"q4_k_m", large, "blk.10.attn_v.weight", 256, Q5_K},
		{"q4_k_m", large, "blk.10.ffn_down.weight", 256, Q4_K},
		{"q4_k_m", large, "blk.9.attn_v.weight", 256, Q6_K},
		{"q4_k_m", llama1, "blk.10.attn_v.weight", 256, Q4_K},
		{"q4_k_m", Model{Architecture: "qwen2", Layers: 80}, "blk.10.attn_v.weight", 256, Q5_K},
		{"q4_k_m", mixtral, "blk.2.attn_v.weight", 256, Q8_0},
		{"q4_k_m", mixtral, "blk.3.attn_output.weight", 256, Q5_K},
		{"q4_k_m", mixtral, "blk.2.ffn_down_exps.weight", 256, Q6_K},
		{"q4_k_m", mixtral, "blk.3.ffn_down_exps.weight", 256, Q4_K},
		{"q5_k_m", small, "blk.5.ffn_down.weight", 256, Q6_K},
		{"q5_k_m", small, "blk.6.ffn_down.weight", 288, Q5_1},
		{"q5_k_m", large, "blk.10.attn_v.weight", 256, Q5_K},
	} {
		mix, err := ParseMix(c.mix)
		expect.OK(t, err)
		dims := []int{c.row, 64}
		if strings.HasSuffix(c.name, "bias") {
			dims = dims[:1]
		}
		if got := mix.TypeOf(c.model, c.name, dims); got != c.want {
			t.Errorf("%s: %s of %+v with rows of %d is %v, want %v", c.mix, c.name, c.model, c.row, got, c.want)
		}
	}
	_, err := ParseMix("q4_k_s")
	expect.Error(t, err, `type "q4_k_s": use one of f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m, q4_0`)
}

// TestMoreBits_Layers checks the layers that llama.cpp's recorded types of Qwen3-0.6B and 14B have.
func TestMoreBits_Layers(t *testing.T) {
	for layers, want := range map[int]string{
		2: "[1]", 6: "[2 5]", 28: "[0 1 2 5 8 11 14 17 20 23 24 25 26 27]",
		40: "[0 1 2 3 4 7 10 13 16 19 22 25 28 31 34 35 36 37 38 39]",
	} {
		var more []int
		for i := range layers {
			if moreBits(i, layers) {
				more = append(more, i)
			}
		}
		if got := fmt.Sprint(more); got != want {
			t.Errorf("%d layers: %s, want %s", layers, got, want)
		}
	}
}
