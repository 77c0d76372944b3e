package trainer

import (
	"cmp"
	"fmt"

	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// Memory is the memory of a run by purpose.
type Memory struct {
	Parts []Part
}

// A Part is the memory of one purpose, in bytes.
type Part struct {
	What  string
	Bytes int
}

// Total returns the sum of all parts, in bytes.
func (m Memory) Total() (bytes int) {
	for _, p := range m.Parts {
		bytes += p.Bytes
	}
	return bytes
}

// ModelOptions returns the options with which to open the plan's model.
func (p *Plan) ModelOptions(c model.Config) model.Options {
	return model.Options{
		DType: p.Config.DType, MaxTokens: p.MaxTokens, Longest: p.Longest, Context: p.Context(c),
		Train: true, Trainable: p.Config.Trainable, Adapter: p.Config.adapter(), AdapterDropout: p.Config.LoRA.Dropout,
		Quantization: p.Config.quantization(p.Stored), Recompute: p.Config.Recompute, GradType: p.GradType,
		ReuseGradients: p.reuse(), ReuseWeights: p.reuseWeights(), HeadBytes: p.HeadBytes, PadPasses: p.PadPasses,
	}
}

// reuse returns model.Options.ReuseGradients. While the gradients of one layer go to other ranks, the next layer's are
// computed.
func (p *Plan) reuse() int {
	switch {
	case p.Config.Gradients == LayerGradients:
		return 1
	case p.Config.Shard != ShardOptimizer && p.Ranks > 1:
		return 2
	}
	return 0
}

// reuseWeights returns model.Options.ReuseWeights. While the weights of one layer are used, the next layer's are
// gathered.
func (p *Plan) reuseWeights() int {
	if p.shardsWeights() {
		return 2
	}
	return 0
}

// AdamW returns the settings of a rank's optimizer.
func (p *Plan) AdamW(rank int) optim.Config {
	c := p.Config.AdamW()
	c.Shard = optim.Shard{Rank: rank, Size: p.Ranks}
	switch {
	case p.SameBits:
		c.Shard.Sums = optim.AllSums
	case p.Config.Shard != ShardOptimizer && p.Ranks > 1:
		c.Shard.Sums = optim.LayerSums
	}
	return c
}

// Context returns the maximum tokens of a sample with its question: an example's maximum plus an answer's, but at most
// the model's positions. It returns 0 if there are no samples.
func (p *Plan) Context(c model.Config) int {
	if p.Config.Samples == 0 {
		return 0
	}
	return min(c.Positions(), p.Config.Seq+p.Config.SampleTokens)
}

// MemoryOf returns the memory of a plan's run on a device with these fused operations: exactly the bytes that the run
// will allocate. It allocates nothing itself.
func MemoryOf(d *kernels.Device, f kernels.Fused, c model.Config, p *Plan) Memory {
	o := p.ModelOptions(c)
	size := model.MemoryOf(d, f, c, o)
	m := Memory{Parts: []Part{
		{"weights", size.Weights + partsBytes(model.ParamsOf(c, o), p)},
		{"gradients", size.Gradients},
		{"optimizer state", optim.SizeOf(model.ParamsOf(c, o), p.AdamW(0))},
		{fmt.Sprintf("activations of %d tokens", p.MaxTokens), size.Activations},
		{"scratch of operations", size.Scratch},
		{"RoPE angles", size.Angles},
		{"KV cache for samples", size.KVCache},
	}}
	if p.SameBits {
		m.Parts = append(m.Parts, Part{"gradients of other ranks", exchangeBytes(model.ParamsOf(c, o), p)})
	}
	return m
}

// MaxDisk returns an upper bound on the bytes of a run's directory: the checkpoints that are kept and the one being
// written, the best weights that each of them refers to, and the result. saved is the number of checkpoints that a
// resumed run already has.
func MaxDisk(c model.Config, p *Plan, saved int) int64 {
	params := p.Config.weights(model.ParamsOf(c, p.ModelOptions(c)))
	weights := weightBytes(params)
	checkpoints := p.Config.Keep + 1
	if every := p.Config.SaveEvery; every > 0 { // otherwise they come by time
		checkpoints = min(checkpoints, saved+p.Left(every, 0))
	}
	models := 1
	if len(p.HeldOut) > 0 {
		models += min(checkpoints, 1+p.EvaluationsLeft(0)) // plus the evaluation before the first step
	}
	return int64(models)*int64(weights) + int64(checkpoints)*int64(weights+optim.SizeOf(params, p.Config.AdamW()))
}

func weightBytes(params []model.Param) (bytes int) {
	for _, p := range params {
		bytes += p.W.Bytes()
	}
	return bytes
}

// maxTogether is the number of tokens per pass that keeps a GPU busy: more are no faster.
const maxTogether = 16384

// A widening makes several micro-batches of a step share a pass on a GPU. The zero value leaves passes as they are.
type widening struct {
	within int  // maximum memory of the run in bytes, which limits the width
	half   bool // gradients of matrices are BF16 if each step is then one pass, otherwise F32
}

// apply widens the passes of p, and sets p.GradType if half is set.
func (w widening) apply(d *kernels.Device, f kernels.Fused, c model.Config, p *Plan) {
	if w.half {
		one := *p
		one.GradType = tensor.BF16
		if w.widen(d, f, c, &one); one.OnePass() {
			*p = one
			return
		}
		p.GradType = 0
	}
	w.widen(d, f, c, p)
}

func (w widening) widen(d *kernels.Device, f kernels.Fused, c model.Config, p *Plan) {
	for tokens := maxTogether; tokens > p.MaxTokens; tokens /= 2 {
		wide := *p
		wide.Widen(tokens)
		if MemoryOf(d, f, c, &wide).Total() <= w.within {
			*p = wide
			return
		}
	}
}

// A Change gives a setting another value: a field of Config by its name, or "fused" or "max-memory".
type Change struct {
	Setting string
	Value   string // "" for fused: all operations
}

// A Remedy is a list of changes that together reduce the memory of a run to Bytes.
type Remedy struct {
	Changes []Change
	Bytes   int
}

// changes are in the order in which they are tried: from those that keep the result to those that affect it most.
var changes = []Change{
	{"fused", ""}, {"shard", "gradients"}, {"shard", "weights"}, {"recompute", "attention"}, {"recompute", "layer"},
	{"batch", "1"}, {"samples", "0"}, {"dtype", "bf16"},
	{"optimizer", "adamw8bit"}, {"master", "split8"}, {"master", "sr"}, {"seq", "256"}, {"lora", ""},
	{"quantize-base", "nf4"}, {"train-only", "mlp"},
}

// A fitting searches for settings with which a run fits into limit bytes.
type fitting struct {
	d       *kernels.Device
	model   model.Config
	process int // bytes that the process takes besides the arenas
	limit   int
	wide    int // tokens per pass that remedies keeps if nothing widens passes, or 0
}

// A variant is a run with some settings changed.
type variant struct {
	plan     Plan
	fused    kernels.Fused
	widening widening
}

// remedies returns the single changes that are enough, or if none is, one remedy of as many changes as necessary. It
// returns none if all of them are not enough. It leaves out changes that save nothing or conflict with other settings.
func (f fitting) remedies(now variant) (list []Remedy) {
	if p := &now.plan; p.MaxTokens > p.passTokens() {
		f.wide = p.MaxTokens
	}
	changes := changes
	if limit := f.limit >> 20 << 20; now.widening.within > limit-f.process {
		changes = append([]Change{{"max-memory", fmt.Sprintf("%dMiB", limit>>20)}}, changes...)
	}
	for _, c := range changes {
		if one, saves := f.with(now, c); saves && f.total(one) <= f.limit {
			list = append(list, Remedy{[]Change{c}, f.total(one)})
		}
	}
	if list != nil {
		return list
	}
	if r, ok := f.several(now, nil, true); ok {
		return []Remedy{r}
	}
	if now.plan.Ranks < 2 {
		return nil
	}
	// What conflicts with divided weights, such as lora, may save more.
	var taken []Change
	if now.plan.Config.Shard != ShardGradients {
		now.plan.Config.Shard, taken = ShardGradients, []Change{{"shard", string(ShardGradients)}}
	}
	if r, ok := f.several(now, taken, false); ok {
		return []Remedy{r}
	}
	return nil
}

// several makes one change after another, in addition to the ones that are already taken, until the run fits. If
// divide is true, the weights may be divided.
func (f fitting) several(now variant, taken []Change, divide bool) (r Remedy, ok bool) {
	for _, c := range changes {
		next, saves := f.with(now, c)
		if !saves || !divide && c.Value == string(ShardWeights) {
			continue
		}
		if n := len(taken); n > 0 && taken[n-1].Setting == c.Setting {
			taken = taken[:n-1]
		}
		now, taken = next, append(taken, c)
		if n := f.total(now); n <= f.limit {
			return Remedy{taken, n}, true
		}
	}
	return r, false
}

// with returns v with a change, and reports whether the change saves memory and is valid.
func (f fitting) with(v variant, c Change) (changed variant, saves bool) {
	before, config := f.total(v), &v.plan.Config
	switch {
	case c.Setting == "fused":
		v.fused = kernels.All()
	case c.Setting == "max-memory":
		limit := f.limit >> 20 << 20
		v.widening.within, v.plan.HeadBytes = limit-f.process, min(v.plan.HeadBytes, model.HeadBytes(limit))
	case c.Setting == "train-only" && config.TrainOnly != nil: // the user's choice stays
	default:
		for _, field := range config.Fields() {
			if field.Name == c.Setting && field.Set(c.Value) != nil {
				return v, false
			}
		}
	}
	names := model.ParamsOf(f.model, model.Options{})
	err := cmp.Or(config.Check(), config.CheckShard(v.plan.Ranks), config.CheckPatterns(names))
	return v, f.total(v) < before && err == nil
}

// total returns the memory of a variant, with its passes widened accordingly.
func (f fitting) total(v variant) int {
	p := v.plan
	p.Longest = min(p.Longest, p.Config.Seq)
	p.MaxTokens = p.passTokens()
	if v.widening == (widening{}) {
		p.Widen(f.wide)
	} else {
		v.widening.apply(f.d, v.fused, f.model, &p)
	}
	return MemoryOf(f.d, v.fused, f.model, &p).Total() + f.process
}
