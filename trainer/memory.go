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

// ModelOptions are how a run's model is opened.
func (s Settings) ModelOptions(c model.Config, p *Plan) model.Options {
	return model.Options{
		DType: s.DType, MaxTokens: p.MaxTokens, Longest: p.Longest, Context: s.Context(c),
		Train: true, Trainable: s.Trained, Recompute: s.Recompute, GradType: s.GradType, ReuseGradients: s.BlockGradients, HeadBytes: s.HeadBytes,
		PadPasses: s.Fill,
	}
}

// Context is how many positions the sample answers with their questions may take: those of an example and an answer, as far as
// the model has them. It is 0 where there are none.
func (s Settings) Context(c model.Config) int {
	if s.AnswerTokens == 0 {
		return 0
	}
	return min(c.MaxPositions, s.Seq+s.AnswerTokens)
}

// MemoryOf is what a run of these settings takes on a device with these fused operations.
func MemoryOf(d *kernels.Device, f kernels.Fused, c model.Config, s Settings, p *Plan) Memory {
	o := s.ModelOptions(c, p)
	size := model.MemoryOf(d, f, c, o)
	return Memory{Parts: []Part{
		{"weights", size.Weights},
		{"gradients", size.Gradients},
		{"optimiser state", optim.SizeOf(model.ParamsOf(c, o), s.Optimizer)},
		{fmt.Sprintf("activations of %d tokens", p.MaxTokens), size.Activations},
		{"intermediates of operations", size.Scratch},
		{"RoPE's angles", size.Angles},
		{"cache of sample answers", size.KVCache},
	}}
}

// DiskOf is what a run's directory comes to take at most, in bytes: the checkpoints that are kept and the one that is being
// written, the best weights of which each of them tells, and the result. there is how many checkpoints a run has that goes on.
func DiskOf(c model.Config, s Settings, p *Plan, evaluated bool, there int) int64 {
	params := model.ParamsOf(c, s.ModelOptions(c, p))
	weights := 0
	for _, x := range params {
		weights += x.W.Bytes()
	}
	checkpoints := min(s.Keep+1, there+p.Left(s.SaveEvery, 0))
	models := 1
	if evaluated {
		models += min(checkpoints, 1+p.Left(s.EvalEvery, 0)) // one is made before the first step
	}
	return int64(models)*int64(weights) + int64(checkpoints)*int64(weights+optim.SizeOf(params, s.Optimizer))
}

// mostTogether is how many tokens keep a GPU busy: more at once are no faster.
const mostTogether = 16384

// A Widening has micro-batches of a step go through a GPU together. The zero value leaves passes as they are.
type Widening struct {
	Within int  // bytes: passes are as wide as the run has room for in so many
	Half   bool // gradients of matrices are BF16 if a step is one pass then, and F32 if not
}

// Apply widens the passes of p, and with Half sets s.GradType.
func (w Widening) Apply(d *kernels.Device, f kernels.Fused, c model.Config, s *Settings, p *Plan) {
	if w.Half {
		one := *p
		s.GradType = tensor.BF16
		if w.widen(d, f, c, *s, &one); one.OnePass() {
			p.Widen(one.MaxTokens)
			return
		}
		s.GradType = 0
	}
	w.widen(d, f, c, *s, p)
}

func (w Widening) widen(d *kernels.Device, f kernels.Fused, c model.Config, s Settings, p *Plan) {
	for tokens := mostTogether; tokens > p.MaxTokens; tokens /= 2 {
		wide := *p
		wide.Widen(tokens)
		if MemoryOf(d, f, c, s, &wide).Total() <= w.Within {
			p.Widen(tokens)
			return
		}
	}
}

// A choice is what flags decide of a run's memory.
type choice struct {
	Settings
	fused    kernels.Fused
	widening Widening
}

// A remedy is a change of a flag that may save memory.
type remedy struct {
	flag, value string
	apply       func(c *choice)
}

// remedies are in the order in which one would try them: from what changes nothing of the result to what changes most.
var remedies = []remedy{
	{"--fused", "", func(c *choice) { c.fused = kernels.All() }},
	{"--recompute", "attention", func(c *choice) {
		if c.Recompute != model.RecomputeLayer {
			c.Recompute = model.RecomputeAttention
		}
	}},
	{"--recompute", "block", func(c *choice) { c.Recompute = model.RecomputeLayer }},
	{"--batch", "1", func(c *choice) { c.Batch = 1 }},
	{"--samples", "0", func(c *choice) { c.AnswerTokens = 0 }},
	{"--dtype", "bf16", func(c *choice) { c.DType = tensor.BF16 }},
	{"--optimizer", "adamw8bit", func(c *choice) { c.Optimizer.Bits = 8 }},
	{"--master", "split8", func(c *choice) {
		if c.Optimizer.Master == optim.FP32 {
			c.Optimizer.Master = optim.Split8
		}
	}},
	{"--master", "sr", func(c *choice) {
		if !c.Optimizer.BNB { // which has no master
			c.Optimizer.Master = optim.Stochastic
		}
	}},
	{"--seq", "256", func(c *choice) { c.Seq = min(c.Seq, 256) }},
	{"--train-only", "mlp", func(c *choice) {
		if len(c.TrainOnly) == 0 {
			c.TrainOnly = []string{"mlp"}
		}
	}},
}

// Fit says which flags would bring a run down to limit bytes: each that does it alone, or else as many as it takes
// together. It is empty where none of them do. What helps nothing, or could not be given beside the other settings, is left
// out. fused and w are the run's. beside are the bytes that the process takes besides.
func Fit(d *kernels.Device, fused kernels.Fused, c model.Config, s Settings, p *Plan, beside int, w Widening, limit int) (alone []string, together string) {
	widened := p.MaxTokens > s.passTokens(p.Longest)
	total := func(x choice) int {
		q := *p
		q.s, q.Longest = x.Settings, min(q.Longest, x.Seq)
		q.MaxTokens = x.passTokens(q.Longest)
		switch {
		case x.widening != Widening{}:
			x.widening.Apply(d, x.fused, c, &x.Settings, &q)
		case widened: // it keeps what it began with
			q.Widen(p.MaxTokens)
		}
		return MemoryOf(d, x.fused, c, x.Settings, &q).Total() + beside
	}
	remedies := remedies
	if most := limit >> 20 << 20; w.Within > most-beside {
		remedies = append([]remedy{{"--max-memory", fmt.Sprintf("%dMiB", most>>20), func(c *choice) {
			c.widening.Within, c.HeadBytes = most-beside, min(c.HeadBytes, model.HeadBytes(most))
		}}}, remedies...)
	}
	names := model.ParamsOf(c, model.Options{})
	// with is a choice with one remedy more, and whether that helps.
	with := func(x choice, r remedy) (choice, bool) {
		before := total(x)
		r.apply(&x)
		return x, total(x) < before && x.Check() == nil && x.CheckPatterns(names) == nil
	}
	now := choice{s, fused, w}
	for _, r := range remedies {
		if one, helps := with(now, r); helps && total(one) <= limit {
			alone = append(alone, fmt.Sprintf("%s (%s)", flags([]remedy{r}), kernels.Bytes(total(one))))
		}
	}
	if alone != nil {
		return alone, ""
	}
	var taken []remedy
	for _, r := range remedies {
		next, helps := with(now, r)
		if !helps {
			continue
		}
		if n := len(taken); n > 0 && taken[n-1].flag == r.flag {
			taken = taken[:n-1]
		}
		now, taken = next, append(taken, r)
		if n := total(now); n <= limit {
			return nil, fmt.Sprintf("%s (%s)", flags(taken), kernels.Bytes(n))
		}
	}
	return nil, ""
}

// flags are remedies as they are typed.
func flags(list []remedy) string {
	var words []string
	for _, r := range list {
		words = append(words, strings.TrimSpace(r.flag+" "+r.value))
	}
	return strings.Join(words, " ")
}
