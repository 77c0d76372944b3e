package trainer

import (
	"fmt"
	"iter"
	"math"
	"path"
	"slices"
	"strings"

	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// Settings are the numbers of a run. All but those of the last group decide bits of its result.
type Settings struct {
	Epochs   int // how often every example is seen
	MaxSteps int // ends the run earlier; 0 for no such limit. The learning rate runs to this end

	Batch      int  // examples of a micro-batch
	Accumulate int  // micro-batches of a step
	Seq        int  // most tokens of an example
	Packing    bool // fill rows of Seq tokens with examples; a row then takes the place of an example in a batch

	LR       float64 // the highest learning rate
	Schedule string  // how it runs: see optim.ParseSchedule
	Warmup   float64 // below 1 a share of all steps, else steps
	Clip     float64 // limit of the gradient's global norm; 0 for none

	Optimizer optim.Config
	DType     tensor.DType
	GradType  tensor.DType // of the gradients of matrices, see model.Options: BF16, or 0 for F32
	Recompute model.Recompute
	HeadBytes int // see model.Options, also of Fill
	Fill      bool
	// BlockGradients keeps the gradients of one block at a time and hands them to the optimiser as they become final. The
	// backward pass runs twice for it, the first time for the norm. A step is one pass then.
	BlockGradients bool
	Freeze         []string // patterns of parameters that are not trained
	TrainOnly      []string // patterns of those that are; none: all

	EvalEvery int // steps between evaluations; 0: at the end of each epoch
	Patience  int // evaluations without a better one after which the run ends; 0: it goes on
	Seed      int64

	SaveEvery    int // steps between checkpoints; 0: at the end of each epoch
	Keep         int // how many checkpoints are kept
	SampleEvery  int // steps between sample answers; 0: at every evaluation
	AnswerTokens int // the most tokens of a sample answer, for which memory is taken; 0: no answers are asked for
}

// Beyond these a number is a slip of the fingers, and below them sums of sizes do not overflow.
const (
	mostTokens     = 1 << 24 // of a pass
	mostAccumulate = 1 << 20
	mostEpochs     = 100_000
	mostSteps      = 10_000_000
	mostKept       = 10_000
)

// Check says which setting makes no sense. The message begins with the setting's name, which is that of its flag.
func (s Settings) Check() error {
	for _, x := range []struct {
		bad  bool
		what string
	}{
		{s.Epochs < 1 && s.MaxSteps < 1 || s.Epochs < 0 || s.Epochs > mostEpochs,
			fmt.Sprintf("epochs %d: give from 1 to %d, or 0 and a number of steps", s.Epochs, mostEpochs)},
		{s.MaxSteps < 0 || s.MaxSteps > mostSteps, fmt.Sprintf("max-steps %d: give up to %d, or 0 for no limit", s.MaxSteps, mostSteps)},
		{s.Seq < 2 || s.Seq > mostTokens, fmt.Sprintf("seq %d: give from 2 to %d tokens", s.Seq, mostTokens)},
		{s.Batch < 1 || s.Batch > mostTokens/max(s.Seq, 1), fmt.Sprintf("batch %d: give at least 1 example, and with seq %d no more than %d",
			s.Batch, s.Seq, mostTokens/max(s.Seq, 1))},
		{s.Accumulate < 1 || s.Accumulate > mostAccumulate, fmt.Sprintf("accumulate %d: give from 1 to %d micro-batches", s.Accumulate, mostAccumulate)},
		{!(s.LR >= 0) || math.IsInf(s.LR, 0), fmt.Sprintf("lr %v: give a number of 0 or more", s.LR)},
		{!(s.Warmup >= 0) || math.IsInf(s.Warmup, 0), fmt.Sprintf("warmup %v: give a share below 1, or a number of steps", s.Warmup)},
		{!(s.Optimizer.Decay >= 0) || math.IsInf(s.Optimizer.Decay, 0),
			fmt.Sprintf("weight-decay %v: give a number from 0", s.Optimizer.Decay)},
		{!(s.Clip >= 0), fmt.Sprintf("clip %v: give a norm, or 0 for none", s.Clip)},
		{s.EvalEvery < 0, fmt.Sprintf("eval-every %d: give a number of steps, or 0 for each epoch", s.EvalEvery)},
		{s.Patience < 0, fmt.Sprintf("patience %d: give a number of evaluations, or 0 for no early stop", s.Patience)},
		{s.SaveEvery < 0, fmt.Sprintf("save-every %d: give a number of steps, or 0 for each epoch", s.SaveEvery)},
		{s.Keep < 1 || s.Keep > mostKept, fmt.Sprintf("keep %d: give from 1 to %d checkpoints", s.Keep, mostKept)},
		{s.SampleEvery < 0, fmt.Sprintf("sample-every %d: give a number of steps, or 0 for every evaluation", s.SampleEvery)},
	} {
		if x.bad {
			return fmt.Errorf("%s", x.what)
		}
	}
	for name, patterns := range s.patterns() {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				return fmt.Errorf("%s: the pattern %q: %w", name, p, err)
			}
		}
	}
	_, err := optim.ParseSchedule(s.Schedule, s.LR, 0, 1)
	return err
}

// patterns are those of parameters, with the setting's name.
func (s Settings) patterns() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		_ = yield("freeze", s.Freeze) && yield("train-only", s.TrainOnly)
	}
}

// Recipe is the settings that decide bits, by name, as a resume compares them.
func (s Settings) Recipe() map[string]string {
	r := map[string]string{}
	for name, v := range map[string]any{
		"epochs": s.Epochs, "max-steps": s.MaxSteps, "batch": s.Batch, "accumulate": s.Accumulate, "seq": s.Seq, "packing": s.Packing,
		"lr": s.LR, "schedule": s.Schedule, "warmup": s.Warmup, "clip": s.Clip, "weight-decay": s.Optimizer.Decay,
		"beta1": s.Optimizer.Beta1, "beta2": s.Optimizer.Beta2, "eps": s.Optimizer.Eps, "optimizer": s.Optimizer.Bits,
		"master": s.Optimizer.Master, "bnb": s.Optimizer.BNB, "dtype": s.DType, "freeze": s.Freeze, "train-only": s.TrainOnly,
		"eval-every": s.EvalEvery, "patience": s.Patience, "seed": s.Seed,
	} {
		r[name] = fmt.Sprint(v)
	}
	if s.Optimizer.Seed != uint64(s.Seed) {
		r["seed"] += fmt.Sprintf(" (of rounding %d)", s.Optimizer.Seed)
	}
	if s.GradType != 0 { // runs of before had no such choice
		r["grad-dtype"] = s.GradType.String()
	}
	if s.BlockGradients {
		r["gradients"] = "block"
	}
	return r
}

// Trained says whether a parameter is trained: one that TrainOnly names, or any where that is empty, unless Freeze names it.
// A pattern is path.Match's with the dots of a name for slashes, and fits a name that has it anywhere in whole parts: "mlp",
// "layers.0", "*_proj", "q_proj.weight".
func (s Settings) Trained(name string) bool {
	return (len(s.TrainOnly) == 0 || anyFits(s.TrainOnly, name)) && !anyFits(s.Freeze, name)
}

func anyFits(patterns []string, name string) bool {
	for _, p := range patterns {
		if fits(p, name) {
			return true
		}
	}
	return false
}

func fits(pattern, name string) bool {
	parts := strings.Split(name, ".")
	n := len(strings.Split(pattern, "."))
	for i := 0; i+n <= len(parts); i++ {
		if ok, _ := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.Join(parts[i:i+n], "/")); ok {
			return true
		}
	}
	ok, _ := path.Match(pattern, name) // "*" goes across dots here: "model.layers.*.weight"
	return ok
}

// CheckPatterns says which pattern fits no parameter: a slip that would otherwise train everything, or nothing. The message
// begins as Check's.
func (s Settings) CheckPatterns(params []model.Param) error {
	trained := 0
	for _, p := range params {
		if s.Trained(p.Name) {
			trained++
		}
	}
	for name, patterns := range s.patterns() {
		for _, pattern := range patterns {
			if !slices.ContainsFunc(params, func(p model.Param) bool { return fits(pattern, p.Name) }) {
				return fmt.Errorf("%s: the pattern %q fits no parameter: names are like %s, and a pattern like mlp, layers.0 or *_proj fits whole parts of one",
					name, pattern, params[len(params)/2].Name)
			}
		}
	}
	if trained == 0 {
		return fmt.Errorf("freeze, train-only: nothing is left to train: they leave out all %d parameters", len(params))
	}
	return nil
}
