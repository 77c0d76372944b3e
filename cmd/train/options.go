package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"restyle/chat"
	"restyle/data"
	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
	"restyle/trainer"
)

const about = `
train fine-tunes a model on a dataset of questions and answers.

  train --fused                                                     the embedded starter model on what gen wrote
  train --fused --model meta-llama/Llama-3.2-1B-Instruct            a real one, from the Hugging Face hub
  train --from-scratch config.json --text shakespeare.txt           a new one

The result is in out/, in the layout that every other program reads; go run ./cmd/chat asks it. Ctrl-C finishes the step and
saves; --resume goes on, bit for bit as if nothing had happened, also after a kill. Settings and memory are printed before
anything is allocated; --dry-run ends there.`

// options are the flags.
type options struct {
	data, text           cli.Paths
	split, columns       string
	trainOn, template    string
	val                  float64
	showExample, offline bool

	model, fromScratch, tokenizer, vocabData string
	out                                      string
	resume, restart, sameBits                bool

	epochs, maxSteps, batch, accumulate, seq int
	packing                                  bool
	lr                                       float64
	schedule                                 string
	warmup, weightDecay, clip                float64
	optimizer, master, dtype                 string
	bnb                                      bool
	freeze, trainOnly                        cli.List
	recompute                                string
	seed                                     int64

	gradDType, gradients                 string
	evalEvery, patience, saveEvery, keep int
	sampleEvery, samples                 int

	deviceName string
	fused      fusedFlag
	threads    int
	sync       bool

	deterministic bool
	maxMemory     bytesFlag

	dryRun, version     bool
	selfcheck           bool
	preset              string
	label, benchmarkLog string
	style               string
	batchesFile         string
	logEvery            int
}

// sources are the data sets that are trained on.
func (o *options) sources() []string {
	if len(o.data) == 0 {
		return []string{defaultData}
	}
	return o.data
}

const defaultData = "data/passive_aggressive_data.json"

func defaults() *options {
	return &options{
		split: "train", trainOn: "responses", val: 0.05,
		model: "starter", out: "out",
		epochs: 3, batch: 1, accumulate: 4, seq: 512, lr: 2e-5, schedule: "cosine", warmup: 0.03, weightDecay: 0.01, clip: 1,
		optimizer: "adamw8bit", master: "split8", dtype: "bf16", recompute: "none", gradDType: "auto", gradients: "step",
		keep: 2, samples: 3, deviceName: "auto", benchmarkLog: "benchmark_log.csv", style: "passive-aggressive", logEvery: 10,
	}
}

func (o *options) flags(out io.Writer) *cli.Flags {
	f := cli.New("train", about, out)
	f.Group("What is learned")
	f.Add(&o.data, "data", "a `file` (JSON, JSONL or parquet: gen's, Alpaca's columns, or chat messages), a hub id (owner/name or owner/name@revision), or starter, the embedded set; may be repeated (default "+defaultData+")")
	f.Add(&o.split, "split", "the split of a hub dataset")
	f.Add(&o.columns, "columns", "which columns hold a row, as `instruction=A,input=B,output=C`, where they are not recognised or others are wanted")
	f.Add(&o.text, "text", "plain text instead: a `file` that is learned from end to end; may be repeated")
	f.Add(&o.trainOn, "train-on", "what the loss sees, `responses|all`: the answers alone, or questions and template too")
	f.Add(&o.template, "template", "write conversations as this `family` does instead of as the model's own chat template: "+strings.Join(chat.Names(), ", "))
	f.Add(&o.val, "val", "share of the examples that is held out for the validation loss; 0 for none")
	f.Add(&o.showExample, "show-example", "print one example with its tokens and what the loss sees, and end")

	f.Group("Which model")
	f.Add(&o.model, "model", "the model to tune: a `directory`, a hub id (owner/name or owner/name@revision), or starter, the embedded one")
	f.Add(&o.fromScratch, "from-scratch", "train a new model of this shape: a `config.json`, or a directory that has one and, perhaps, a tokenizer.json")
	f.Add(&o.tokenizer, "tokenizer", "with --from-scratch: a `file` or directory with the tokenizer.json to use; if not given, and none is beside the config, one is made from the data")
	f.Add(&o.vocabData, "vocab-data", "with --from-scratch: more `data` that the vocabulary is made from, though it is not trained on")
	f.Add(&o.offline, "offline", "take hub models and datasets from the cache alone")
	f.Add(&o.out, "out", "the `directory` of the result")
	f.Add(&o.resume, "resume", "go on with the run in --out, from its last checkpoint: an unfinished one, or one that is to have more --epochs or --max-steps than it had")
	f.Add(&o.sameBits, "same-bits", "refuse to --resume where this machine cannot go on with the same bits; the default is to go on and say so")
	f.Add(&o.restart, "restart", "set an unfinished run in --out aside, as .bak, and begin anew")

	f.Group("How it is learned")
	f.Add(&o.epochs, "epochs", "how often each example is seen")
	f.Add(&o.maxSteps, "max-steps", "end after so many steps; 0 for no limit")
	f.Add(&o.batch, "batch", "examples of a micro-batch")
	f.Add(&o.accumulate, "accumulate", "micro-batches of a step: it has batch × accumulate examples")
	f.Add(&o.seq, "seq", "most tokens of an example; what is longer is cut, and counted")
	f.Add(&o.packing, "packing", "fill rows of --seq tokens with several examples, that do not see each other: fewer, larger steps")
	f.Add(&o.lr, "lr", "the highest learning rate; with --from-scratch it depends on the size by default, as do --epochs and --weight-decay")
	f.Add(&o.schedule, "schedule", "how it runs after the warmup: `cosine|linear|constant|wsd`")
	f.Add(&o.warmup, "warmup", "how long it rises: below 1 a share of all steps, else steps")
	f.Add(&o.weightDecay, "weight-decay", "decoupled weight decay, times the learning rate; none on norms and biases")
	f.Add(&o.clip, "clip", "limit of the gradient's global norm; 0 for none")
	f.Add(&o.optimizer, "optimizer", "`adamw8bit|adamw`: state in 8 bits, or in 32")
	f.Add(&o.master, "master", "how a bf16 weight keeps updates smaller than its last place: `split8|sr|fp32`, 8 more bits, stochastic rounding, or a copy in fp32")
	f.Add(&o.bnb, "bnb", "bitsandbytes' AdamW8bit to the letter, which loses small updates; for comparisons")
	f.Add(&o.dtype, "dtype", "type of weights and activations, `bf16|fp32`; default fp32 if any of the model's weights are stored in fp16")
	f.Add(&o.freeze, "freeze", "parameters that are not trained: `patterns` of whole parts of their names, such as embed_tokens,layers.0")
	f.Add(&o.trainOnly, "train-only", "train only parameters that fit these `patterns`, such as mlp; '*' for all of them again, where a preset names some")
	f.Add(&o.gradDType, "grad-dtype", "type of the gradients of blocks' matrices, and of an untied head whose logits are computed at once, `auto|bf16|fp32`: auto is bf16 for a bf16 model on a GPU whose steps are one pass each, and fp32 otherwise")
	f.Add(&o.gradients, "gradients", "how much of them there is at a time, `step|block`: block hands each block's to the optimiser at once, for which the model is gone through twice; less memory, slower")
	f.Add(&o.recompute, "recompute", "what is computed twice to save memory: `none|attention|block`")
	f.Add(&o.seed, "seed", "decides the order of examples, what is held out, and first weights")

	f.Group("What is looked at and kept on the way")
	f.Add(&o.evalEvery, "eval-every", "steps between validations; 0: after each epoch. One is made before the first step, too")
	f.Add(&o.patience, "patience", "validations without a better one after which it ends; 0: never")
	f.Add(&o.saveEvery, "save-every", "steps between checkpoints; 0: after each epoch")
	f.Add(&o.keep, "keep", "how many checkpoints are kept")
	f.Add(&o.samples, "samples", "questions that are answered at each validation, and scored for their tone; 0 for none")
	f.Add(&o.sampleEvery, "sample-every", "steps between such answers; 0: at each validation")
	f.Add(&o.style, "style", "the style that the tone is scored by: a built-in name or a `file`")
	f.Add(&o.logEvery, "log-every", "steps between lines of progress where there is no terminal")

	f.Group("Where it runs")
	f.Add(&o.deviceName, "device", cli.DeviceHelp)
	f.Add(&o.fused, "fused", "run operations as one kernel each: alone for all, or a `set` such as --fused=rmsnorm,swiglu or --fused=all,-attention; of "+strings.Join(kernels.FusedOps, ", "))
	f.Add(&o.threads, "threads", "CPU threads; 0 for as many as GOMAXPROCS says. The result does not depend on it")
	f.Add(&o.sync, "sync", "on a GPU, wait for every kernel, so that an error names the one that failed, and print at the end how long each took; slow")
	f.Add(&o.deterministic, "deterministic", "on a GPU, take cuBLASLt's first algorithm for each matrix product; if not given, one that is at least 3 % faster when it is timed before the run takes its place. A run that is resumed keeps what it began with")
	f.Add(&o.maxMemory, "max-memory", "refuse to take more memory than this `size`, such as 8GiB; what is free, if not given")

	f.Group("Besides")
	f.Add(&o.preset, "preset", "a named set of the other flags, each of which can still be given: "+presetNames())
	f.Add(&o.selfcheck, "selfcheck", "prove --device in about a minute, in --dtype, and end: every operation, a run that is resumed, an answer, and how fast it is")
	f.Add(&o.dryRun, "dry-run", "print settings and memory, and end")
	f.Add(&o.batchesFile, "write-batches", "also write every step's tokens and labels, and its learning rate, to this JSONL `file`: to train the same in another program")
	f.Add(&o.benchmarkLog, "benchmark-log", "the CSV `file` that gets a row for each finished run; empty for none")
	f.Add(&o.label, "label", "a name for this run, in that row")
	f.Add(&o.version, "version", "print the version")
	f.MayBeEmpty("benchmark-log", "label")
	return f
}

// sampleTokens is the most tokens of a sample answer.
const sampleTokens = 160

// trainerSettings are what the flags say, checked.
func (o *options) trainerSettings() (s trainer.Settings, err error) {
	s = trainer.Settings{
		Epochs: o.epochs, MaxSteps: o.maxSteps, Batch: o.batch, Accumulate: o.accumulate, Seq: o.seq, Packing: o.packing,
		LR: o.lr, Schedule: o.schedule, Warmup: o.warmup, Clip: o.clip, Freeze: o.freeze, TrainOnly: o.trainOnly,
		EvalEvery: o.evalEvery, Patience: o.patience, Seed: o.seed, SaveEvery: o.saveEvery, Keep: o.keep, SampleEvery: o.sampleEvery,
	}
	if o.samples > 0 {
		s.AnswerTokens = sampleTokens
	}
	s.Optimizer = optim.Default
	s.Optimizer.Decay, s.Optimizer.BNB, s.Optimizer.Seed = o.weightDecay, o.bnb, uint64(o.seed)
	switch o.optimizer {
	case "adamw8bit":
		s.Optimizer.Bits = 8
	case "adamw":
		s.Optimizer.Bits = 32
	default:
		return s, cli.Usagef("--optimizer %q is neither adamw8bit nor adamw", o.optimizer)
	}
	switch o.dtype {
	case "bf16":
		s.DType = tensor.BF16
	case "fp32":
		s.DType = tensor.F32
	default:
		return s, cli.Usagef("--dtype %q is neither bf16 nor fp32", o.dtype)
	}
	switch o.gradDType {
	case "auto", "fp32":
	case "bf16":
		s.GradType = tensor.BF16
	default:
		return s, cli.Usagef("--grad-dtype %q is none of auto, bf16 and fp32", o.gradDType)
	}
	if s.BlockGradients = o.gradients == "block"; !s.BlockGradients && o.gradients != "step" {
		return s, cli.Usagef("--gradients %q is neither step nor block", o.gradients)
	}
	if s.Optimizer.Master, err = optim.ParseMaster(o.master); err != nil {
		return s, cli.Usagef("--%w", err)
	}
	if o.bnb {
		s.Optimizer.Master = optim.NoMaster
	}
	if s.Recompute, err = model.ParseRecompute(o.recompute); err != nil {
		return s, cli.Usagef("--%w", err)
	}
	if err := s.Check(); err != nil {
		return s, cli.Usagef("--%w", err)
	}
	return s, nil
}

// check finds what is wrong with the flags by themselves.
func (o *options) check(given func(flag string) bool) error {
	switch {
	case o.sameBits && !o.resume:
		return cli.Usagef("--same-bits is about going on with a run: it needs --resume")
	case o.resume && o.restart:
		return cli.Usagef("--resume goes on with a run and --restart sets it aside: leave one out")
	case len(o.text) > 0 && len(o.data) > 0:
		return cli.Usagef("--text and --data exclude each other: leave one out")
	case len(o.text) > 0 && o.columns != "":
		return cli.Usagef("--columns names those of a data set, and --text has none: leave one out")
	case o.fromScratch != "" && given("model"):
		return cli.Usagef("--from-scratch makes a new model and --model tunes one: leave one out")
	case o.fromScratch == "" && (o.tokenizer != "" || o.vocabData != ""):
		return cli.Usagef("--tokenizer and --vocab-data belong to --from-scratch: a model to tune has its own tokenizer")
	case o.trainOn != "responses" && o.trainOn != "all":
		return cli.Usagef("--train-on %q is neither responses nor all", o.trainOn)
	case !(o.val >= 0 && o.val < 1):
		return cli.Usagef("--val %v: give a share of the examples, from 0 up to but not 1", o.val)
	case o.samples < 0:
		return cli.Usagef("--samples %d: give a number of questions, or 0 for none", o.samples)
	case o.logEvery < 1:
		return cli.Usagef("--log-every %d: give a number of steps", o.logEvery)
	case o.threads < 0 || o.threads > mostThreads:
		return cli.Usagef("--threads %d: give up to %d threads, or 0 for all", o.threads, mostThreads)
	case !knownDevice(o.deviceName):
		return cli.Usagef("--device %q: it is one of auto, cpu, cuda, cuda:N, emulated", o.deviceName)
	case o.patience > 0 && o.val == 0:
		return cli.Usagef("--patience waits for a better validation loss, and --val 0 measures none: leave one out")
	case o.bnb && o.optimizer != "adamw8bit":
		return cli.Usagef("--bnb is bitsandbytes' 8-bit AdamW: it needs --optimizer adamw8bit")
	case o.bnb && given("master"):
		return cli.Usagef("--bnb has no master: leave --master out")
	}
	if o.template != "" {
		if _, err := chat.ByName(o.template); err != nil {
			return cli.Usagef("--template: %v", err)
		}
	}
	if _, err := dataset.ParseColumns(o.columns); o.columns != "" && err != nil {
		return cli.Usagef("--columns: %v", err)
	}
	_, err := o.trainerSettings()
	return err
}

// checkPaths refuses a directory of the result that would be set aside, or written into, under somebody's feet.
func (o *options) checkPaths(out string) error {
	if holds(out, ".") {
		return cli.Usagef("--out %s: it is the working directory, or around it, and would be renamed when a new run takes its place: give one of its own", o.out)
	}
	inside := func(flag, path string) error {
		return cli.Usagef("--out %s: --%s %s is in it, and would go when a new run takes its place: give another directory", o.out, flag, path)
	}
	if o.batchesFile != "" {
		if holds(out, o.batchesFile) {
			return inside("write-batches", o.batchesFile)
		}
		if info, err := os.Stat(o.batchesFile); err == nil && info.Mode().IsRegular() && !o.resume {
			return cli.Usagef("--write-batches %s: there is such a file: give a new name", o.batchesFile)
		}
		if _, err := os.Stat(filepath.Dir(o.batchesFile)); err != nil {
			return fmt.Errorf("--write-batches: %w: give a name in a directory that is there", err)
		}
	}
	read := map[string][]string{"model": {o.model}, "from-scratch": {o.fromScratch}, "tokenizer": {o.tokenizer}, "text": o.text,
		"vocab-data": {o.vocabData}, "data": o.sources()}
	for _, flag := range slices.Sorted(maps.Keys(read)) {
		for _, path := range read[flag] {
			if _, err := os.Stat(path); err == nil && path != data.StarterName && holds(out, path) {
				return inside(flag, path)
			}
		}
	}
	return nil
}

// knownDevice says whether --device is of a known form; whether there is such a one is seen when it is opened.
func knownDevice(name string) bool {
	number, numbered := strings.CutPrefix(name, "cuda:")
	if numbered {
		_, err := strconv.ParseUint(number, 10, 16)
		return err == nil
	}
	return slices.Contains([]string{"auto", "cpu", "cuda", "emulated"}, name)
}

// fusedFlag is a set of operations, or all of them where the flag has no value.
type fusedFlag struct{ kernels.Fused }

func (f *fusedFlag) String() string { return f.Fused.String() }

// IsBoolFlag lets --fused stand alone.
func (f *fusedFlag) IsBoolFlag() bool { return true }

// Set reads the set.
func (f *fusedFlag) Set(s string) (err error) {
	if strings.TrimSpace(s) == "" {
		return errors.New("it is empty: give a set, none, or the flag alone")
	}
	f.Fused, err = kernels.ParseFused(s)
	return err
}

// bytesFlag is a number of bytes, written with a unit.
type bytesFlag int

func (b *bytesFlag) String() string {
	if *b == 0 {
		return ""
	}
	return kernels.Bytes(int(*b))
}

// Set reads such as 8GiB, 8GB, 8g, 500MB or a bare number of bytes.
func (b *bytesFlag) Set(s string) error {
	text := strings.ToLower(strings.TrimSpace(s))
	unit := 1.0
	for _, u := range []struct {
		suffix string
		size   float64
	}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}} {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(number), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n*unit >= 1) || n*unit > 1<<60 {
		return fmt.Errorf("%q is no size: write it as 8GiB or 500MB", s)
	}
	*b = bytesFlag(n * unit)
	return nil
}

// mostThreads is how many threads the kernels take.
const mostThreads = 1024

// threadCount is how many threads run.
func (o *options) threadCount() int {
	if o.threads > 0 {
		return o.threads
	}
	return runtime.GOMAXPROCS(0)
}
