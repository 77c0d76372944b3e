package trainer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"restyle/dataset/training"
	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// benchShapes are the embedded model, two layers of Llama-3.2-1B with a small vocabulary, and the same with the whole
// vocabulary.
var benchShapes = []struct{ name, config string }{
	{"starter", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 2048, "hidden_size": 256,
	"intermediate_size": 688,
		"num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
		"max_position_embeddings": 1024, "tie_word_embeddings": true}`},
	{"llama-3.2-1b-2layers", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 4096,
	"hidden_size": 2048, "intermediate_size": 8192,
		"num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
		"max_position_embeddings": 131072, "tie_word_embeddings": true}`},
	{"llama-3.2-1b-2layers-and-head", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
	"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
		"num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
		"max_position_embeddings": 131072, "tie_word_embeddings": true}`},
}

// BenchmarkStep measures a whole optimizer step of four micro-batches of 512 tokens, all of them targets: forward,
// backward, norm, clipping and 8-bit AdamW with a split master, as train does by default. It reports tokens per second
// of the median step and of the best one.
func BenchmarkStep(b *testing.B) {
	for _, shape := range benchShapes {
		for _, dtype := range []tensor.DType{tensor.BF16, tensor.F32} {
			b.Run(fmt.Sprintf("%s/%v", shape.name, dtype), func(b *testing.B) {
				benchmarkStep(b, shape.config, dtype)
			})
		}
	}
}

func benchmarkStep(b *testing.B, config string, dtype tensor.DType) {
	const seq, micro = 512, 4
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	from, err := hf.NewModel(map[string][]byte{"config.json": []byte(config)})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var examples []training.Example
	for range micro {
		e := training.Example{}
		for range seq {
			e.IDs = append(e.IDs, int32(r.IntN(from.Config.Vocab)))
		}
		e.Labels = slices.Clone(e.IDs)
		examples = append(examples, e)
	}
	s := DefaultConfig()
	s.Epochs, s.MaxSteps, s.Accumulate, s.Seq, s.Schedule, s.Warmup, s.DType, s.Samples = 0, 10000, micro, seq, "constant",
		0, dtype, 0
	plan, err := NewPlan(s, examples, nil)
	if err != nil {
		b.Fatal(err)
	}
	m, err := model.New(d, from.Config, plan.ModelOptions(from.Config))
	if err != nil {
		b.Fatal(err)
	}
	m.Init(1, 0.02)
	o, err := optim.New(d, m.Params(), s.AdamW())
	if err != nil {
		b.Fatal(err)
	}
	run := &Run{Plan: plan, Model: m, Optimizer: o, Dir: b.TempDir(), Base: from}
	if err := run.startFrom(context.Background(), ""); err != nil {
		b.Fatal(err)
	}
	defer run.Close()
	if err := run.step(); err != nil {
		b.Fatal(err)
	}
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := run.step(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(seq*micro/times[len(times)/2].Seconds(), "tok/s")
	b.ReportMetric(seq*micro/times[0].Seconds(), "best-tok/s")
}
