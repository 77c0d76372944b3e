package trainer

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"restyle/lora"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
)

// Config holds the settings of a run. Start with [ConfigFor]; [Config.Fields] returns the default, range and help
// of each.
type Config struct {
	Epochs     int  // passes over the examples; 0: as many as MaxSteps needs
	MaxSteps   int  // steps after which the run ends; 0: no limit
	Batch      int  // examples per micro-batch
	Accumulate int  // micro-batches per step
	Seq        int  // maximum tokens per example
	Packing    bool // fill packs of up to Seq tokens with examples; a micro-batch has Batch packs

	LR           float64 // peak learning rate
	Schedule     string  // learning rate after the warmup, see optim.ParseSchedule
	Warmup       float64 // fraction of all steps if below 1, otherwise steps
	WeightDecay  float64
	Beta1, Beta2 float64 // decay of AdamW's moments
	Eps          float64
	Clip         float64 // maximum global norm of the gradient; 0: no clipping
	BalanceLoss  float64 // factor of a mixture of experts' auxiliary loss, see model.Gradients; 0: none
	Optimizer    Optimizer
	Master       optim.Master // how BF16 and F16 weights keep small updates; ignored with BNB
	BNB          bool         // bitsandbytes' 8-bit AdamW exactly, which has no master weights

	DType        tensor.DType // of weights and activations: BF16, F16 or F32
	Freeze       []string     // patterns of parameters that are not trained, see Trainable
	TrainOnly    []string     // patterns of parameters that are; none: all, or with LoRA none
	LoRA         lora.Spec    // the adapters to train instead of the model's weights; the zero Spec: none
	LoRAAlso     []string     // more modules to train and save whole, as in lora.Spec.Also
	QuantizeBase string       // type that layers' weights have while adapters are trained: none, nf4, int4 or int8
	GradDType    GradDType
	Gradients    Gradients
	Shard        Sharding
	Recompute    model.Recompute
	Seed         int64

	EvalEvery    int // steps between evaluations; 0: after each epoch, and at least ten in a run if they are cheap
	Patience     int // evaluations without improvement after which the run ends; 0: it does not end early
	SaveEvery    int // steps between checkpoints; 0: by time
	Keep         int // checkpoints to keep
	Samples      int // sample questions per evaluation; 0: none
	SampleTokens int // maximum tokens per sample
	SampleEvery  int // steps between additional samples, besides the evaluations' samples; 0: none
}

// Optimizer is the number of bits in which AdamW keeps its moments.
type Optimizer int

// The optimizers.
const (
	AdamW8bit Optimizer = 8 // quantized in blocks of 256
	AdamW     Optimizer = 32
)

// Gradients determines how much of the gradients is held at a time.
type Gradients string

const (
	// StepGradients holds the gradients of all layers until the step's update.
	StepGradients Gradients = "step"
	// LayerGradients holds the gradients of one layer at a time, and passes them to the optimizer as soon as they are
	// final. The backward pass runs twice, the first time for the norm, and a step is one pass.
	LayerGradients Gradients = "layer"
)

// Sharding determines what several ranks divide among themselves: each then has only its part of it.
type Sharding string

const (
	// ShardOptimizer divides the optimizer's state (ZeRO-1).
	ShardOptimizer Sharding = "optimizer"
	// ShardGradients also divides the sums of layers' gradients (ZeRO-2). The ranks exchange the gradients of every pass.
	ShardGradients Sharding = "gradients"
	// ShardWeights also divides the weights of layers (ZeRO-3). The ranks gather them in every forward and backward pass.
	ShardWeights Sharding = "weights"
)

// GradDType is the type of the gradients of layers' matrices, see model.Options.GradType.
type GradDType string

// These are the types of gradients. AutoGrad is BF16 on a GPU if the model is in BF16 and each step is one pass.
// Otherwise it is F32.
const (
	AutoGrad GradDType = "auto"
	BF16Grad GradDType = "bf16"
	F32Grad  GradDType = "fp32"
)

// Larger values are taken for typing errors. Within these limits, sums of sizes do not overflow.
const (
	maxTokens     = 1 << 24 // per pass
	maxAccumulate = 1 << 20
	maxEpochs     = 100_000
	maxSteps      = 10_000_000
	maxKeep       = 10_000
)

// Fields returns each field of c once, in the order of the help.
func (c *Config) Fields() []Field {
	const training, memory = "Training", "Device and memory"
	list := []Field{
		{Name: "epochs", Group: training, Value: &c.Epochs, Default: 3, Max: maxEpochs,
			Help: "passes over the data; 0 for as many as max-steps needs"},
		{Name: "max-steps", Group: training, Value: &c.MaxSteps, Max: maxSteps,
			Help: "stop after this many steps; 0 for no limit"},
		{Name: "batch", Group: training, Value: &c.Batch, Default: 1, Min: 1, Max: maxTokens,
			Help: "examples per micro-batch"},
		{Name: "accumulate", Group: training, Value: &c.Accumulate, Default: 4, Min: 1, Max: maxAccumulate,
			Help: "micro-batches per step (gradient accumulation); a step has batch × accumulate examples"},
		{Name: "seq", Group: training, Value: &c.Seq, Default: 512, Min: 2, Max: maxTokens,
			Help: "maximum tokens per example; longer examples are truncated and reported"},
		{Name: "packing", Group: training, Value: &c.Packing,
			Help: "pack several examples into each sequence of up to seq tokens, without attention between them; " +
				"steps become fewer and larger"},
		{Name: "lr", Group: training, Value: &c.LR, Default: 2e-5,
			Help: "peak learning rate; for a new model the default depends on its size, as do those of epochs and weight-decay"},
		{Name: "schedule", Group: training, Default: "cosine",
			Value: choose(&c.Schedule, "cosine|linear|constant|wsd", "cosine", "linear", "constant", "wsd"),
			Help:  "learning rate after the warmup, `cosine|linear|constant|wsd`; wsd decays over the last fifth of the steps"},
		{Name: "warmup", Group: training, Value: &c.Warmup, Default: 0.03,
			Help: "warmup length: a fraction of all steps if below 1, otherwise a number of steps"},
		{Name: "weight-decay", Group: training, Value: &c.WeightDecay, Default: optim.Default.Decay,
			Help: "decoupled weight decay, multiplied by the learning rate; none on norms and biases"},
		{Name: "beta1", Value: &c.Beta1, Default: optim.Default.Beta1, Max: belowOne},
		{Name: "beta2", Value: &c.Beta2, Default: optim.Default.Beta2, Max: belowOne},
		{Name: "eps", Value: &c.Eps, Default: optim.Default.Eps, Min: math.SmallestNonzeroFloat64},
		{Name: "clip", Group: training, Value: &c.Clip, Default: 1.0, Max: math.Inf(1),
			Help: "clip the gradient to this global norm; 0 disables clipping"},
		{Name: "balance-loss", Group: training, Value: &c.BalanceLoss,
			Help: "factor of the auxiliary loss that spreads tokens over the experts of a mixture, 0 for none; for a mixture " +
				"the default is its router_aux_loss_coef, as in transformers with output_router_logits"},
		{Name: "optimizer", Group: training, Default: AdamW8bit,
			Value: choose(&c.Optimizer, "adamw8bit|adamw", AdamW8bit, AdamW),
			Help:  "AdamW with its state in 8 or in 32 bits, `adamw8bit|adamw`"},
		{Name: "master", Group: training, Default: optim.Split8,
			Value: choose(&c.Master, "split8|sr|fp32|none", optim.Split8, optim.Stochastic, optim.FP32, optim.NoMaster),
			Help: "how bf16 and fp16 weights keep updates below their precision, `split8|sr|fp32`: 8 extra bits per weight, " +
				"stochastic rounding, or an fp32 copy"},
		{Name: "bnb", Group: training, Value: &c.BNB,
			Help: "bitsandbytes' AdamW8bit exactly, which loses small updates; for comparisons"},
		{Name: "dtype", Group: training, Default: tensor.BF16,
			Value: choose(&c.DType, "bf16|fp16|fp32", tensor.BF16, tensor.F16, tensor.F32),
			Help: "type of weights and activations, `bf16|fp16|fp32`; fp16, with a loss scale that train finds, is for GPUs " +
				"without bf16; the default is fp32 if any of the model's weights are stored in fp16"},
		{Name: "freeze", Group: training, Value: &c.Freeze,
			Help: "parameters not to train: `patterns` of whole parts of their names, such as embed_tokens,layers.0"},
		{Name: "train-only", Group: training, Value: &c.TrainOnly,
			Help: "train only parameters that match these `patterns`, such as mlp; '*' for all of them again, if a preset " +
				"names some"},
		{Name: "lora", Group: training, Value: loraFlag{&c.LoRA},
			Help: "train low-rank adapters instead of the model's weights: with these `settings`, such as " +
				"r=8,alpha=16,targets=q_proj+v_proj,rslora, or without a value " + lora.Default().String() +
				". The result is an adapter as PEFT has it. Unless given, lr is then 2e-4, or 2e-3 for " + SmallModels +
				" and the embedded model, and weight-decay 0"},
		{Name: "lora-also", Group: training, Value: &c.LoRAAlso,
			Help: "`modules` to train and save whole beside adapters, such as lm_head"},
		{Name: "quantize-base", Group: memory, Default: notQuantized,
			Value: choose(&c.QuantizeBase, "none|nf4|int4|int8", notQuantized, "nf4", "int4", "int8"),
			Help: "with lora, hold the weights of layers in 4 or 8 bits, `none|nf4|int4|int8`: less memory, and the adapters " +
				"learn beside the rounded weights (QLoRA)"},
		{Name: "grad-dtype", Group: memory, Default: AutoGrad,
			Value: choose(&c.GradDType, "auto|bf16|fp32", AutoGrad, BF16Grad, F32Grad),
			Help: "type of the gradients of layers' matrices, and of an untied head whose logits are computed at once, " +
				"`auto|bf16|fp32`; auto is bf16 for a bf16 model on a GPU whose steps are one pass each, and fp32 otherwise"},
		{Name: "gradients", Group: memory, Default: StepGradients,
			Value: choose(&c.Gradients, "step|layer", StepGradients, LayerGradients),
			Help: "gradients held at a time, `step|layer`: those of the whole step, or those of one layer, for which the " +
				"backward pass runs twice; less memory, slower"},
		{Name: "shard", Group: memory, Free: true, Default: ShardOptimizer,
			Value: choose(&c.Shard, "optimizer|gradients|weights", ShardOptimizer, ShardGradients, ShardWeights),
			Help:  "what ranks divide, `optimizer|gradients|weights`: AdamW's state, and gradients, and weights (ZeRO-1 to 3)"},
		{Name: "recompute", Group: memory, Free: true, Default: model.RecomputeNone,
			Value: choose(&c.Recompute, "none|attention|layer", model.RecomputeNone, model.RecomputeAttention,
				model.RecomputeLayer),
			Help: "what the backward pass recomputes to save memory (gradient checkpointing), `none|attention|layer`"},
		{Name: "seed", Group: training, Value: &c.Seed,
			Help: "seed of the order of examples, of the validation split and of new weights"},
	}
	return append(list, c.evaluationFields()...)
}

// evaluationFields returns the fields of evaluations and checkpoints.
func (c *Config) evaluationFields() []Field {
	const evaluation = "Evaluation and checkpoints"
	return []Field{
		{Name: "eval-every", Group: evaluation, Value: &c.EvalEvery,
			Help: "steps between validations; 0 for after each epoch, and ten evenly spaced ones if they cost little"},
		{Name: "patience", Group: evaluation, Value: &c.Patience,
			Help: "stop after this many validations without improvement; 0 disables early stopping"},
		{Name: "save-every", Group: evaluation, Value: &c.SaveEvery, Free: true,
			Help: "steps between checkpoints; 0 for after each epoch and every ten minutes, but in at most a tenth of the " +
				"time. There is one at the end in any case"},
		{Name: "keep", Group: evaluation, Value: &c.Keep, Free: true, Default: 2, Min: 1, Max: maxKeep,
			Help: "checkpoints to keep"},
		{Name: "samples", Group: evaluation, Value: &c.Samples, Free: true, Default: 3,
			Help: "questions to answer at each validation, with the tone of the answers scored; 0 for none"},
		{Name: "sample-tokens", Value: &c.SampleTokens, Free: true, Default: 160, Min: 1, Max: maxTokens},
		{Name: "sample-every", Group: evaluation, Value: &c.SampleEvery, Free: true,
			Help: "steps between samples other than those at validations; 0 for none"},
	}
}

// DefaultConfig returns a Config with the default of every field. [ConfigFor] adds what suits a model.
func DefaultConfig() (c Config) {
	for _, f := range c.Fields() {
		f.Reset()
	}
	return c
}

// Check returns an error for the first field that is out of range or conflicts with another. The error begins with the
// field's name.
func (c Config) Check() error {
	for _, f := range c.Fields() {
		if err := f.Check(); err != nil {
			return err
		}
	}
	if c.Epochs == 0 && c.MaxSteps == 0 {
		return fmt.Errorf("epochs 0: must be 1 to %d, or max-steps must be set", maxEpochs)
	}
	if c.Batch*c.Seq > maxTokens {
		return fmt.Errorf("batch %d: must be 1 to %d with seq %d", c.Batch, maxTokens/c.Seq, c.Seq)
	}
	if c.BNB && c.Optimizer != AdamW8bit {
		return fmt.Errorf("bnb: bitsandbytes' AdamW keeps its state in 8 bits: set optimizer to adamw8bit")
	}
	if c.DType == tensor.F16 && c.BNB {
		return fmt.Errorf("bnb: it updates no fp16 weights: set dtype to bf16 or fp32")
	}
	if c.DType == tensor.F16 && c.GradDType == BF16Grad {
		return fmt.Errorf("grad-dtype bf16: must be auto or fp32 with dtype fp16")
	}
	if err := c.checkLoRA(); err != nil {
		return err
	}
	for _, x := range c.patterns() {
		if _, err := path.Match(x.pattern, ""); err != nil {
			return fmt.Errorf("%s %q: malformed pattern: %w", x.field, x.pattern, err)
		}
	}
	return nil
}

// CheckShard returns an error if this many ranks cannot divide what Shard says. Like the error of Check, it begins with
// the field's name.
func (c Config) CheckShard(ranks int) error {
	if ranks > 1 && c.Shard == ShardWeights && (c.Adapts() || c.Freeze != nil || c.TrainOnly != nil) {
		return fmt.Errorf("shard %s: must be %s or %s with lora, freeze or train-only on several ranks: each keeps only "+
			"what it updates", c.Shard, ShardOptimizer, ShardGradients)
	}
	return nil
}

// AdamW returns the settings of the optimizer.
func (c Config) AdamW() optim.Config {
	o := optim.Config{
		Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Eps, Decay: c.WeightDecay, Bits: int(c.Optimizer), Master: c.Master,
		BNB: c.BNB, Seed: uint64(c.Seed),
	}
	if c.BNB {
		o.Master = optim.NoMaster
	}
	return o
}

// recorded returns all fields, by name, in the form that records use.
func (c Config) recorded() map[string]string {
	r := map[string]string{}
	for _, f := range c.Fields() {
		r[f.Name] = f.recorded()
	}
	return r
}

// recipe returns the fields that determine the bits of the result, by name, in the form that records use.
func (c Config) recipe() map[string]string {
	r := c.recorded()
	for _, f := range c.Fields() {
		if f.Free {
			delete(r, f.Name)
		}
	}
	r["master"] = string(c.AdamW().Master)
	delete(r, "grad-dtype") // Plan.Recipe has the type that it resolves to
	unset := DefaultConfig().recorded()
	for _, name := range []string{"lora", "lora-also", "quantize-base"} { // which earlier versions did not have
		if r[name] == unset[name] {
			delete(r, name)
		}
	}
	return r
}

type fieldPattern struct{ field, pattern string }

func (c Config) patterns() (all []fieldPattern) {
	for _, p := range c.Freeze {
		all = append(all, fieldPattern{"freeze", p})
	}
	for _, p := range c.TrainOnly {
		all = append(all, fieldPattern{"train-only", p})
	}
	return all
}

// Trainable reports whether c trains the parameter of this name: TrainOnly matches it or is empty, and Freeze does not
// match it. Patterns are as in path.Match, with the dots of a name as slashes. A pattern matches a name that contains
// it as whole parts: "mlp", "layers.0", "*_proj", "q_proj.weight". With LoRA, what TrainOnly and LoRAAlso do not name
// is not trained, except for the adapters.
func (c Config) Trainable(name string) bool {
	named := len(c.TrainOnly) == 0 && !c.Adapts() || anyMatches(c.TrainOnly, name) || c.spec().Whole(name)
	return named && !c.Frozen(name)
}

// Frozen reports whether Freeze matches the parameter of this name.
func (c Config) Frozen(name string) bool { return anyMatches(c.Freeze, name) }

func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	parts := strings.Split(name, ".")
	n := len(strings.Split(pattern, "."))
	for i := 0; i+n <= len(parts); i++ {
		if ok, _ := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.Join(parts[i:i+n], "/")); ok {
			return true
		}
	}
	ok, _ := path.Match(pattern, name) // "*" matches dots here: "model.layers.*.weight"
	return ok
}

// CheckModel returns an error for a setting that does not suit a model. Like the error of Check, it begins with the
// field's name.
func (c Config) CheckModel(m model.Config) error {
	if c.BalanceLoss != 0 && m.Mixture == nil {
		return fmt.Errorf("balance-loss %v: must be 0, as the model has no experts", c.BalanceLoss)
	}
	return c.CheckPatterns(model.ParamsOf(m, model.Options{}))
}

// CheckPatterns returns an error for a pattern that matches none of params, and if no parameter is left to train. Like
// the error of Check, it begins with the field's name.
func (c Config) CheckPatterns(params []model.Param) error {
	for _, x := range c.patterns() {
		if !slices.ContainsFunc(params, func(p model.Param) bool { return matches(x.pattern, p.Name) }) {
			return fmt.Errorf("%s %q: matches no parameter: names are like %s, and a pattern like mlp, layers.0 or *_proj "+
				"matches whole parts of one",
				x.field, x.pattern, params[len(params)/2].Name)
		}
	}
	if !c.Adapts() && !slices.ContainsFunc(params, func(p model.Param) bool { return c.Trainable(p.Name) }) {
		return fmt.Errorf("freeze, train-only: they leave none of the %d parameters to train", len(params))
	}
	return nil
}
