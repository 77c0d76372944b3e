package trainer

import (
	"fmt"
	"strings"

	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// Memory is what a run takes by purpose. It is what will be allocated, to the byte, and computing it allocates nothing.
type Memory struct {
	Parts []Part
}

// A Part of the memory, in bytes.
type Part struct {
	What  string
	Bytes int
}

// Total is the sum.
func (m Memory) Total() (bytes int) {
	for _, p := range m.Parts {
		bytes += p.Bytes
	}
	return bytes
}

// ModelOptions are how a run's model is opened. answers is how many positions the sample answers need, 0 for none.
func (s Settings) ModelOptions(p *Plan, answers int) model.Options {
	return model.Options{
		DType: s.DType, MaxTokens: p.MaxTokens, Longest: p.Longest, Context: answers,
		Train: true, Trained: s.Trained, Recompute: s.Recompute,
	}
}

// MemoryOf is what a run of these settings takes on a device.
func MemoryOf(d *kernels.Device, c model.Config, s Settings, p *Plan, answers int) Memory {
	o := s.ModelOptions(p, answers)
	size := model.MemoryOf(d, c, o)
	return Memory{Parts: []Part{
		{"weights", size.Weights},
		{"gradients", size.Gradients},
		{"optimiser state", optim.SizeOf(model.ParamsOf(c, o), s.Optimizer)},
		{fmt.Sprintf("activations of %d tokens", p.MaxTokens), size.Activations},
		{"intermediates of operations", size.Scratch},
		{"RoPE's angles", size.Angles},
		{"cache of sample answers", size.Cache},
	}}
}

// A remedy is a change of settings that saves memory.
type remedy struct {
	flag  string
	apply func(s *Settings) bool // false where it changes nothing
}

var remedies = []remedy{
	{"--recompute attention", func(s *Settings) bool {
		return set(&s.Recompute, model.RecomputeAttention) && s.Recompute != model.RecomputeBlock
	}},
	{"--recompute block", func(s *Settings) bool { return set(&s.Recompute, model.RecomputeBlock) }},
	{"--batch 1", func(s *Settings) bool { return set(&s.Batch, 1) }},
	{"--dtype bf16", func(s *Settings) bool { return set(&s.DType, tensor.BF16) }},
	{"--optimizer adamw8bit", func(s *Settings) bool { return set(&s.Optimizer.Bits, 8) }},
	{"--master split8", func(s *Settings) bool {
		return s.Optimizer.Master == optim.FP32 && set(&s.Optimizer.Master, optim.Split8)
	}},
	{"--master sr", func(s *Settings) bool { return s.DType == tensor.BF16 && set(&s.Optimizer.Master, optim.Stochastic) }},
	{"--seq 256", func(s *Settings) bool { return s.Seq > 256 && set(&s.Seq, 256) }},
	{"--train-only mlp", func(s *Settings) bool {
		if len(s.TrainOnly) > 0 {
			return false
		}
		s.TrainOnly = []string{"mlp"}
		return true
	}},
}

func set[T comparable](v *T, to T) bool {
	if *v == to {
		return false
	}
	*v = to
	return true
}

// Fit says which flags would bring a run down to limit bytes: each that does it alone, or else as many as it takes
// together. It is empty where none of them do.
func Fit(d *kernels.Device, c model.Config, s Settings, p *Plan, answers, limit int) (alone []string, together string) {
	total := func(s Settings) int {
		q := *p
		q.Longest = min(q.Longest, s.Seq)
		q.MaxTokens = min(q.MaxTokens, s.Batch*s.Seq)
		return MemoryOf(d, c, s, &q, answers).Total()
	}
	for _, r := range remedies {
		if one := s; r.apply(&one) {
			if n := total(one); n <= limit {
				alone = append(alone, fmt.Sprintf("%s (%s)", r.flag, kernels.Bytes(n)))
			}
		}
	}
	if alone != nil {
		return alone, ""
	}
	var flags []string
	for _, r := range remedies[1:] { // recomputing attention is a part of recomputing blocks
		if !r.apply(&s) {
			continue
		}
		if r.flag == "--master sr" && len(flags) > 0 && flags[len(flags)-1] == "--master split8" {
			flags = flags[:len(flags)-1]
		}
		flags = append(flags, r.flag)
		if n := total(s); n <= limit {
			return nil, fmt.Sprintf("%s (%s)", strings.Join(flags, " "), kernels.Bytes(n))
		}
	}
	return nil, ""
}
