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
)

// A Plan is which examples each step of a run takes. It follows from settings and examples alone.
type Plan struct {
	Steps     int // of the whole run
	MaxTokens int // most tokens that go through the model at once
	Longest   int // most tokens of an example, held out or not
	Padded    int // tokens of an example if it were padded to Settings.Seq

	s        Settings
	rate     optim.Schedule
	examples []training.Example
	ends     []int   // the step behind the last one of each epoch
	epoch    int     // the one that rows are of
	rows     [][]int // the examples of each row; a row is one example unless there is packing
}

// Left is how often something that is done every so many steps, or with 0 at the end of each epoch, and after the last step, is
// done after a step of the run.
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

// NewPlan lays out a run over examples; what is held out from it only has to fit. It is an error when there is nothing to train
// on, or the warm-up is longer than the run.
func NewPlan(s Settings, examples, heldOut []training.Example) (*Plan, error) {
	if len(examples) == 0 {
		return nil, fmt.Errorf("there is no example to train on")
	}
	p := &Plan{s: s, examples: examples, epoch: -1, Padded: s.Seq}
	for _, e := range slices.Concat(examples, heldOut) {
		p.Longest = max(p.Longest, len(e.IDs))
	}
	epochs := s.Epochs
	if epochs == 0 { // as many as the steps need
		epochs = s.MaxSteps
	}
	for e := 0; e < epochs && (s.MaxSteps == 0 || p.Steps < s.MaxSteps); e++ {
		n := len(examples)
		if s.Packing {
			p.load(e)
			n = len(p.rows)
		}
		each := s.Batch * s.Accumulate
		p.Steps += (n + each - 1) / each
		p.ends = append(p.ends, p.Steps)
	}
	if s.MaxSteps > 0 {
		p.Steps = min(p.Steps, s.MaxSteps)
	}
	p.MaxTokens = s.passTokens(p.Longest)
	warmup := s.Warmup
	if warmup < 1 {
		warmup *= float64(p.Steps)
	}
	if !(warmup <= float64(p.Steps)) {
		return nil, fmt.Errorf("warmup %v: the run has %d steps: give a share below 1, or no more steps than these", s.Warmup, p.Steps)
	}
	var err error
	p.rate, err = optim.ParseSchedule(s.Schedule, s.LR, int(math.Round(warmup)), p.Steps)
	return p, err
}

// passTokens is how many tokens go through the model at once, where the longest example has so many. Micro-batches share one
// pass as long as they have no more tokens than one of them may have: it costs no memory beyond what the settings ask for.
// Where all of a step is smaller than that, so is the pass. With BlockGradients a pass is all of a step.
func (s Settings) passTokens(longest int) int {
	switch {
	case s.BlockGradients:
		return s.stepTokens(longest)
	case s.Packing:
		return s.Batch * s.Seq
	}
	return min(s.Batch*s.Seq, s.stepTokens(longest))
}

// stepTokens is how many tokens a step has at most.
func (s Settings) stepTokens(longest int) int {
	if s.Packing {
		longest = s.Seq
	}
	return s.Batch * s.Accumulate * longest
}

// OnePass says that each step goes through the model at once.
func (p *Plan) OnePass() bool { return p.MaxTokens >= p.s.stepTokens(p.Longest) }

// Widen has passes of up to so many tokens, instead of what the settings ask for: for a device that is faster with more at a time.
func (p *Plan) Widen(tokens int) {
	p.MaxTokens = max(p.MaxTokens, min(tokens, p.s.stepTokens(p.Longest)))
}

// load makes the rows of an epoch.
func (p *Plan) load(epoch int) {
	if p.epoch == epoch {
		return
	}
	p.epoch = epoch
	order := training.Order(len(p.examples), p.s.Seed, epoch)
	if p.s.Packing {
		p.rows = training.Pack(p.examples, order, p.s.Seq)
		return
	}
	p.rows = make([][]int, len(order))
	for i := range order {
		p.rows[i] = order[i : i+1]
	}
}

// Epoch is the epoch of a step, from 0.
func (p *Plan) Epoch(step int) int {
	e, _ := slices.BinarySearch(p.ends, step+1)
	return min(e, len(p.ends)-1)
}

// EndsEpoch says whether a step is the last of its epoch.
func (p *Plan) EndsEpoch(step int) bool { return step+1 == p.ends[p.Epoch(step)] }

// Done is how much of the data has been seen before a step, in epochs.
func (p *Plan) Done(step int) float64 {
	e := p.Epoch(step)
	first := 0
	if e > 0 {
		first = p.ends[e-1]
	}
	return float64(e) + float64(step-first)/float64(p.ends[e]-first)
}

// Step is the batches of a step, each for one pass through the model, and how many examples they have. The last step of an
// epoch may have fewer than the others.
func (p *Plan) Step(step int) (batches []model.Batch, examples int) {
	e := p.Epoch(step)
	p.load(e)
	if e > 0 {
		step -= p.ends[e-1]
	}
	each := p.s.Batch * p.s.Accumulate
	rows := p.rows[step*each : min((step+1)*each, len(p.rows))]
	var micro []model.Batch
	for len(rows) > 0 {
		n := min(p.s.Batch, len(rows))
		var of []model.Batch
		for _, row := range rows[:n] {
			for _, i := range row {
				of = append(of, batch(p.examples[i]))
			}
		}
		rows, examples = rows[n:], examples+len(of)
		micro = append(micro, model.Join(of...))
	}
	return inPasses(micro, p.MaxTokens), examples
}

func batch(e training.Example) model.Batch { return model.Batch{IDs: e.IDs, Labels: e.Labels} }

// inPasses lays batches end to end, in order, into as few passes of at most limit tokens as that order allows.
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

// Write writes every step but the first ones, which are so many, as a JSON object a line: its learning rate, and the ids, labels
// and borders of the sequences of each of its passes. It is for training the same in another program.
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
		batches, _ := p.Step(step)
		for _, b := range batches {
			line.Passes = append(line.Passes, pass{b.IDs, b.Labels, b.CuSeqlens})
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return out.Flush()
}
