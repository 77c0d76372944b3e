package trainer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"restyle/dataset/training"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// A Plan lays out a run: which examples each step takes, and in which passes they go through the model. [NewPlan] makes
// it from settings and examples only; [NewJob] fits it to a device.
type Plan struct {
	Config    Config
	Steps     int                // of the whole run
	MaxTokens int                // maximum tokens per pass
	Longest   int                // maximum tokens of an example, held out or not
	HeldOut   []training.Example // for the validation loss; may be empty
	Ranks     int                // that each step's examples are divided among, see Share; 0: 1
	SameBits  bool               // the bits of the result do not depend on Ranks, see Share

	// These depend on the device, see model.Options. NewPlan leaves them zero, except for a GradType that Config requests.
	HeadBytes int
	PadPasses bool
	GradType  tensor.DType // 0: F32

	// Stored is how the model's weights are stored. NewPlan leaves it zero.
	Stored model.Quantization

	rate     optim.Schedule
	examples []training.Example
	ends     []int   // for each epoch, the step after its last one
	evenly   int     // validations evenly spaced over the run, see space
	epoch    int     // of packs
	packs    [][]int // the examples of each pack; without packing, one each
}

// Left returns how often something is still due after a step, if it is due every so many steps (or after each epoch, if
// every is 0) and after the last step.
func (p *Plan) Left(every, step int) (times int) {
	if step >= p.Steps {
		return 0
	}
	if every > 0 {
		return (p.Steps+every-1)/every - step/every
	}
	for _, end := range p.ends {
		if end > step {
			times++
		}
	}
	return times
}

// NewPlan plans a run over examples. Of heldOut, only the lengths matter to the plan. NewPlan returns an error if a
// setting is wrong (see [Config.Check]), if there are no examples, or if the warmup is longer than the run.
func NewPlan(c Config, examples, heldOut []training.Example) (*Plan, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("there is no example to train on")
	}
	p := &Plan{Config: c, HeldOut: heldOut, examples: examples, epoch: -1}
	if c.GradDType == BF16Grad {
		p.GradType = tensor.BF16
	}
	for _, e := range slices.Concat(examples, heldOut) {
		p.Longest = max(p.Longest, len(e.IDs))
	}
	epochs := c.Epochs
	if epochs == 0 { // as many as the steps require
		epochs = c.MaxSteps
	}
	for e := 0; e < epochs && (c.MaxSteps == 0 || p.Steps < c.MaxSteps); e++ {
		n := len(examples)
		if c.Packing {
			p.load(e)
			n = len(p.packs)
		}
		each := c.Batch * c.Accumulate
		p.Steps += (n + each - 1) / each
		p.ends = append(p.ends, p.Steps)
	}
	if c.MaxSteps > 0 {
		p.Steps = min(p.Steps, c.MaxSteps)
	}
	p.space(0)
	p.MaxTokens = p.passTokens()
	warmup := c.Warmup
	if warmup < 1 {
		warmup *= float64(p.Steps)
	}
	if !(warmup <= float64(p.Steps)) {
		return nil, fmt.Errorf("warmup %v: must be a fraction below 1, or at most %d, the number of steps", c.Warmup, p.Steps)
	}
	var err error
	p.rate, err = optim.ParseSchedule(c.Schedule, c.LR, int(math.Round(warmup)), p.Steps)
	return p, err
}

// Recipe returns the settings that determine the bits of the result, by name, in the form that records keep and a
// resumed run compares.
func (p *Plan) Recipe() map[string]string {
	r := p.Config.recipe()
	if p.GradType != 0 {
		r["grad-dtype"] = p.GradType.String()
	}
	if p.SameBits {
		r[SameBits] = "true"
	}
	return r
}

// SameBits is the entry of a record's Identity that says Plan.SameBits, if it is true.
const SameBits = "same-bits"

// passTokens returns the maximum tokens of a pass. Micro-batches share a pass while it stays within batch × seq tokens,
// the largest possible micro-batch, so sharing costs no memory. If even the largest step is smaller, its size is the
// limit. With LayerGradients a pass is a whole step.
func (p *Plan) passTokens() int {
	if p.Config.Gradients == LayerGradients {
		return p.stepTokens()
	}
	if p.SameBits {
		return p.Config.Batch * p.longest()
	}
	return min(p.Config.Batch*p.Config.Seq, p.stepTokens())
}

// longest returns the maximum tokens of an example or a pack.
func (p *Plan) longest() int {
	if p.Config.Packing {
		return p.Config.Seq
	}
	return p.Longest
}

// stepTokens returns the maximum tokens that a rank has of a step.
func (p *Plan) stepTokens() int {
	ranks := max(1, p.Ranks)
	return (p.Config.Batch*p.Config.Accumulate + ranks - 1) / ranks * p.longest()
}

// OnePass reports whether every step is one pass.
func (p *Plan) OnePass() bool { return p.MaxTokens >= p.stepTokens() }

// Widen raises MaxTokens to tokens, or to a whole step if that is less: a GPU is faster with more tokens at a time.
func (p *Plan) Widen(tokens int) {
	p.MaxTokens = max(p.MaxTokens, min(tokens, p.stepTokens()))
}

// load makes the packs of an epoch.
func (p *Plan) load(epoch int) {
	if p.epoch == epoch {
		return
	}
	p.epoch = epoch
	order := training.Order(len(p.examples), p.Config.Seed, epoch)
	if p.Config.Packing {
		p.packs = training.Pack(p.examples, order, p.Config.Seq)
		return
	}
	p.packs = make([][]int, len(order))
	for i := range order {
		p.packs[i] = order[i : i+1]
	}
}

// Epoch returns the epoch of a step, from 0.
func (p *Plan) Epoch(step int) int {
	e, _ := slices.BinarySearch(p.ends, step+1)
	return min(e, len(p.ends)-1)
}

// EpochSteps returns the number of steps of the first epoch.
func (p *Plan) EpochSteps() int { return p.ends[0] }

// EndsEpoch reports whether a step is the last of its epoch.
func (p *Plan) EndsEpoch(step int) bool { return step+1 == p.ends[p.Epoch(step)] }

// Done returns the number of epochs before a step, including the fraction of the current one.
func (p *Plan) Done(step int) float64 {
	e := p.Epoch(step)
	first := 0
	if e > 0 {
		first = p.ends[e-1]
	}
	return float64(e) + float64(step-first)/float64(p.ends[e]-first)
}

// Step returns the passes of a step, for all ranks, and the number of their examples. The last step of an epoch may
// have fewer than the others.
func (p *Plan) Step(step int) (passes []model.Batch, examples int) {
	byRank, examples := p.byRank(step)
	return slices.Concat(byRank...), examples
}

// byRank returns the passes of a step for each rank: of n ranks, rank r has the packs r, r+n, r+2n and so on. With
// SameBits a micro-batch is a pass, and a rank has every n-th of these passes.
func (p *Plan) byRank(step int) (passes [][]model.Batch, examples int) {
	e := p.Epoch(step)
	p.load(e)
	if e > 0 {
		step -= p.ends[e-1]
	}
	each := p.Config.Batch * p.Config.Accumulate
	packs := p.packs[step*each : min((step+1)*each, len(p.packs))]
	passes = make([][]model.Batch, max(1, p.Ranks))
	if p.SameBits {
		micro, examples := p.micro(packs)
		for i, b := range micro {
			passes[i%len(passes)] = append(passes[i%len(passes)], b)
		}
		return passes, examples
	}
	for rank := range passes {
		var own [][]int
		for i := rank; i < len(packs); i += len(passes) {
			own = append(own, packs[i])
		}
		micro, n := p.micro(own)
		passes[rank] = inPasses(micro, p.MaxTokens)
		examples += n
	}
	return passes, examples
}

// micro returns the micro-batches of packs, and the number of their examples.
func (p *Plan) micro(packs [][]int) (micro []model.Batch, examples int) {
	for len(packs) > 0 {
		n := min(p.Config.Batch, len(packs))
		var of []model.Batch
		for _, pack := range packs[:n] {
			for _, i := range pack {
				of = append(of, batch(p.examples[i]))
			}
		}
		packs, examples = packs[n:], examples+len(of)
		micro = append(micro, model.Join(of...))
	}
	return micro, examples
}

func batch(e training.Example) model.Batch { return model.Batch{IDs: e.IDs, Labels: e.Labels} }

// inPasses joins batches, in order, into as few passes of at most limit tokens as that order allows.
func inPasses(batches []model.Batch, limit int) (passes []model.Batch) {
	tokens, first := 0, 0
	for i, b := range batches {
		if i > first && tokens+len(b.IDs) > limit {
			passes = append(passes, model.Join(batches[first:i]...))
			tokens, first = 0, i
		}
		tokens += len(b.IDs)
	}
	if first < len(batches) {
		passes = append(passes, model.Join(batches[first:]...))
	}
	return passes
}

// LR returns the learning rate of a step.
func (p *Plan) LR(step int) float64 { return p.rate(step) }

// Write writes one line of JSON per step, starting with step first: its learning rate and, for each of its passes, the
// token ids, the labels and the starts of its sequences. Another program can train the same steps from it.
func (p *Plan) Write(w io.Writer, first int) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	type pass struct {
		IDs    []int32 `json:"ids"`
		Labels []int32 `json:"labels"`
		Starts []int32 `json:"starts"`
	}
	for step := first; step < p.Steps; step++ {
		line := struct {
			Step   int     `json:"step"`
			LR     float64 `json:"lr"`
			Passes []pass  `json:"passes"`
		}{Step: step + 1, LR: p.rate(step)}
		passes, _ := p.Step(step)
		for _, b := range passes {
			line.Passes = append(line.Passes, pass{b.IDs, b.Labels, b.CuSeqlens})
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return out.Flush()
}
