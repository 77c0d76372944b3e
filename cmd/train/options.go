package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"restyle/data"
	"restyle/dataset"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/lora"
	"restyle/trainer"
	"restyle/voice"
)

const about = `
train fine-tunes a model on a dataset of questions and answers.

  train --fused                                            the embedded model on what gen wrote
  train --fused --model meta-llama/Llama-3.2-1B-Instruct   a real one, from the Hugging Face hub
  train --from-scratch config.json --text shakespeare.txt  a new one

The result is in out/, in the Hugging Face layout; chat asks it. Ctrl-C finishes the step and saves, and --resume
continues, bit for bit as if nothing had happened, also after a kill. train prints settings and memory before
it allocates any; --dry-run stops there.`

// options are the values of the flags.
type options struct {
	config trainer.Config

	data                 dataFlag
	columns              columnsFlag
	text                 cli.Files
	split                string
	trainOn, template    string
	val                  float64
	showExample, offline bool

	model, baseModel                  string
	opened                            bool // the model is: whether it is an adapter is known
	fromScratch, tokenizer, vocabData string
	loraText                          string // of --lora
	vocab                             string
	out                               string
	resume, restart, sameBits         bool

	style    string
	logEvery int

	deviceName          string
	fused               fusedFlag
	ranks               int
	threads             int
	sync, deterministic bool
	maxMemory           bytesFlag

	dryRun, selfcheck, version bool
	allSettings                bool
	preset                     string
	label, benchmarkLog        string
	logCSV                     string
	batchesFile                string
}

// The groups of the help.
const (
	groupData, groupModel           = "Data", "Model and output"
	groupTraining, groupEvaluations = "Training", "Evaluation and checkpoints"
	groupDevice, groupOther         = "Device and memory", "Other"
)

// fields returns the flags that are not settings of training.
func (o *options) fields() []trainer.Field {
	return append([]trainer.Field{
		{Name: "data", Group: groupData, Value: &o.data,
			Help: "a `file` (JSON, JSONL, CSV or parquet: gen's output, questions and answers, chat messages or plain " +
				"text), a hub id (owner/name, with @revision or :config after it), a directory laid out like one, or " +
				"starter, the embedded dataset; may be repeated, or a pattern like 'data/*.jsonl' (default " + defaultData + ")"},
		{Name: "split", Group: groupData, Value: &o.split, Default: "train",
			Help: "split of a hub dataset or directory, or a path or pattern of its files"},
		{Name: "columns", Group: groupData, Value: &o.columns,
			Help: "columns of a row, as `instruction=A,input=B,output=C`, with system=D, or text=E alone, if others are " +
				"wanted than those recognized: after a --data, its own; before the first, those of all others"},
		{Name: "text", Group: groupData, Value: &o.text,
			Help: "plain text instead of --data: a `file` whose every token is a target; may be repeated"},
		{Name: "train-on", Group: groupData, Value: &o.trainOn, Default: "responses",
			Help: "tokens that count in the loss, `responses|all`: the answers only, or prompts and template too"},
		{Name: "template", Group: groupData, Value: &o.template, Help: infer.TemplateHelp()},
		{Name: "val", Group: groupData, Value: &o.val, Default: 0.05, Max: math.Nextafter(1, 0),
			Help: "fraction of the examples to hold out for the validation loss; 0 for none"},
		{Name: "show-example", Group: groupData, Value: &o.showExample,
			Help: "print one example with its target tokens marked, and exit"},

		{Name: "model", Group: groupModel, Value: &o.model, Default: data.StarterName,
			Help: "model to fine-tune: a `directory`, a .gguf file, a hub id (owner/name, owner/name@revision, or " +
				"owner/name:Q4_K_M for the GGUF file of a type), or starter, the embedded one; or an adapter, as a directory or " +
				"hub id, which is then trained further, with its own --lora and --quantize-base"},
		{Name: "base", Group: groupModel, Value: &o.baseModel,
			Help: "if --model is an adapter, its base: a `directory`, a .gguf file, a hub id or starter; the default is " +
				"the one that it names"},
		{Name: "from-scratch", Group: groupModel, Value: &o.fromScratch,
			Help: "train a new model of this shape: a `config.json`, or a directory with one and optionally a tokenizer.json"},
		{Name: "tokenizer", Group: groupModel, Value: &o.tokenizer,
			Help: "with --from-scratch: the tokenizer.json to use, a `file` or its directory; the default is the one next to " +
				"the config, and if there is none, one made from the data"},
		{Name: "vocab", Group: groupModel, Value: &o.vocab, Default: "bpe",
			Help: "with --from-scratch: tokens of a new vocabulary, `bpe|chars`: merged bytes, or characters of --text"},
		{Name: "vocab-data", Group: groupModel, Value: &o.vocabData,
			Help: "with --from-scratch: more `data` for making the vocabulary; it is not trained on"},
		{Name: "offline", Group: groupModel, Value: &o.offline, Help: "use only what the hub's cache has"},
		{Name: "out", Group: groupModel, Value: &o.out, Default: "out", Help: "`directory` of the result"},
		{Name: "resume", Group: groupModel, Value: &o.resume,
			Help: "continue the run in --out from its last checkpoint: an unfinished run, or a finished one with larger " +
				"--epochs or --max-steps"},
		{Name: "same-bits", Group: groupModel, Value: &o.sameBits,
			Help: "of a new run, the same bits on any number of --ranks: the gradients of micro-batches are added up one " +
				"after another, which is slower; with --resume, refuse if this machine cannot compute the bits of a run that " +
				"was not interrupted; the default is to continue and say so"},
		{Name: "restart", Group: groupModel, Value: &o.restart,
			Help: "rename an unfinished run in --out to .bak, and start over"},

		{Name: "style", Group: groupEvaluations, Value: &o.style, Default: voice.Default,
			Help: "style whose tone samples are scored by, a built-in name or a `file`; by default only for gen's output"},
		{Name: "log-every", Group: groupEvaluations, Value: &o.logEvery,
			Help: "steps between progress lines if there is no terminal; 0 for a line at most every five seconds"},

		{Name: "device", Group: groupDevice, Value: &o.deviceName, Default: "auto", Help: cli.DeviceHelp},
		{Name: "ranks", Group: groupDevice, Value: &o.ranks,
			Help: "start this many processes on this host, which share each step's examples; with --device cuda:all or " +
				"cuda:0,1 one for each GPU. torchrun, mpirun and srun start them on several hosts: see docs/many.md"},
		{Name: "fused", Group: groupDevice, Value: &o.fused,
			Help: "use fused kernels: all of them (--fused), or a `set` such as rmsnorm,swiglu or all,-attention; of " +
				strings.Join(kernels.FusedOps, ", ")},
		{Name: "threads", Group: groupDevice, Value: &o.threads, Max: cli.MaxThreads,
			Help: "CPU threads; 0 for GOMAXPROCS. The result does not depend on it"},
		{Name: "sync", Group: groupDevice, Value: &o.sync,
			Help: "on a GPU, wait for every kernel, so that an error names the one that failed, and print the time of each at " +
				"the end; slow"},
		{Name: "deterministic", Group: groupDevice, Value: &o.deterministic,
			Help: "on a GPU, use cuBLASLt's first algorithm for each matrix product; the default is to time others before the " +
				"run, and to use one that is at least 3% faster. A resumed run keeps its algorithms"},
		{Name: "max-memory", Group: groupDevice, Value: &o.maxMemory,
			Help: "maximum memory, a `size` such as 8GiB; the default is what is free"},
	}, o.otherFields()...)
}

// otherFields returns the flags of the last group.
func (o *options) otherFields() []trainer.Field {
	return []trainer.Field{
		{Name: "preset", Group: groupOther, Value: &o.preset,
			Help: "a named set of other flags, each of which can still be given: " + presetNames()},
		{Name: "selfcheck", Group: groupOther, Value: &o.selfcheck,
			Help: "check --device in about a minute, in --dtype, and exit: every operation, a resumed run, an answer, and the " +
				"speed. The first time on a GPU it compiles 800 kernels, which 16 cores do in half a minute"},
		{Name: "dry-run", Group: groupOther, Value: &o.dryRun, Help: "print settings and memory, and exit"},
		{Name: "all-settings", Group: groupOther, Value: &o.allSettings,
			Help: "print every setting, not only those that differ from their defaults"},
		{Name: "write-batches", Group: groupOther, Value: &o.batchesFile,
			Help: "also write the tokens, labels and learning rate of every step to this JSONL `file`, to train the same in " +
				"another program"},
		{Name: "benchmark-log", Group: groupOther, Value: &o.benchmarkLog, Default: "benchmark_log.csv",
			Help: "CSV `file` that gets a row for each finished run; empty for none"},
		{Name: "log-csv", Group: groupOther, Value: &o.logCSV,
			Help: "also write step, train_loss, val_loss and lr of every step to this CSV `file`"},
		{Name: "label", Group: groupOther, Value: &o.label, Help: "name of this run in that row"},
		{Name: "version", Group: groupOther, Value: &o.version, Help: "print the version"},
	}
}

const defaultData = "data/passive_aggressive_data.json"

// A dataFlag is --data: datasets, and the --columns that each has of its own.
type dataFlag struct {
	cli.Files
	columns []string // by dataset; "": the columns of all datasets
	last    int      // index of the first dataset of the last --data
}

// Set adds a dataset, or the datasets that match a pattern.
func (d *dataFlag) Set(s string) error {
	d.last = len(d.Files)
	err := d.Files.Set(s)
	d.columns = append(d.columns, make([]string, len(d.Files)-len(d.columns))...)
	return err
}

// A columnsFlag is --columns: before the first --data, it gives the columns of all datasets, and after a --data, its
// own.
type columnsFlag struct {
	of  *dataFlag
	all string
}

func (c *columnsFlag) String() string {
	if c.of == nil || len(c.of.Files) == 0 {
		return c.all
	}
	each := make([]string, len(c.of.Files))
	for i := range each {
		each[i] = cmp.Or(c.of.columns[i], c.all)
	}
	if different := slices.Compact(slices.Clone(each)); len(different) == 1 {
		return each[0]
	}
	for i, s := range each {
		each[i] = cmp.Or(s, "-")
	}
	return strings.Join(each, "; ")
}

// Set checks columns and sets them for the last --data, or for all.
func (c *columnsFlag) Set(s string) error {
	if _, err := dataset.ParseColumns(s); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "columns: "))
	}
	if strings.TrimSpace(s) == "" {
		return errors.New("it is empty: name columns, or leave it out")
	}
	if len(c.of.Files) == 0 {
		if c.all != "" {
			return errors.New("it is given twice before the first --data: leave one out, or put it after its --data")
		}
		c.all = s
		return nil
	}
	for i := c.of.last; i < len(c.of.Files); i++ {
		if c.of.columns[i] != "" {
			return fmt.Errorf("--data %s has it twice: leave one out, or put it before all --data for all of them",
				c.of.Files[i])
		}
		c.of.columns[i] = s
	}
	return nil
}

// A source is a dataset to train on, and the columns of its rows.
type source struct {
	spec    string
	columns dataset.Columns
}

// sources returns the datasets to train on.
func (o *options) sources() []source {
	if len(o.data.Files) == 0 {
		return []source{newSource(defaultData, o.columns.all)}
	}
	var list []source
	for i, spec := range o.data.Files {
		list = append(list, newSource(spec, cmp.Or(o.data.columns[i], o.columns.all)))
	}
	return list
}

func newSource(spec, columns string) source {
	c, _ := dataset.ParseColumns(columns) // columnsFlag.Set has already parsed it
	return source{spec, c}
}

// newOptions returns options with their defaults, and the flags that set them.
func newOptions(stdout, stderr io.Writer) (*options, *cli.Flags) {
	o, f := &options{config: trainer.DefaultConfig()}, cli.New("train", about, stdout, stderr)
	own := o.fields()
	for _, x := range own {
		x.Reset()
	}
	o.columns.of = &o.data
	all := append(o.config.Fields(), own...)
	for i, x := range all {
		if x.Name == "lora" {
			all[i].Value = &loraFlag{x.Value.(flag.Value), &o.loraText}
		}
	}
	for _, group := range []string{groupData, groupModel, groupTraining, groupEvaluations, groupDevice, groupOther} {
		f.Group(group)
		for _, x := range all {
			if x.Group == group {
				f.Add(x.Value, x.Name, x.Help)
			}
		}
	}
	f.First("Most used", "data", "model", "out", "fused", "device")
	f.Optional("fused", "all")
	f.Optional("lora", "")
	f.Defaults(o.defaults)
	f.MayBeEmpty("benchmark-log", "label")
	return o, f
}

// check returns a usage error for flags that are wrong for all data and models.
func (o *options) check(given func(flag string) bool) error {
	for _, f := range o.fields() {
		if err := f.Check(); err != nil {
			return cli.Usagef("--%w", err)
		}
	}
	switch {
	case o.resume && o.restart:
		return cli.Usagef("--resume continues a run and --restart starts over: leave one out")
	case len(o.text) > 0 && len(o.data.Files) > 0:
		return cli.Usagef("--text and --data exclude each other: leave one out")
	case len(o.text) > 0 && o.columns.all != "":
		return cli.Usagef("--columns names the columns of a dataset, and --text has none: leave one out")
	case given("split") && o.split != "train" && !slices.ContainsFunc(o.sources(), func(s source) bool {
		return dataset.HasSplits(s.spec)
	}):
		return cli.Usagef("--split %s: a file has no splits, only a dataset on the hub or in a directory: leave it out",
			o.split)
	case o.fromScratch != "" && given("model"):
		return cli.Usagef("--from-scratch makes a new model and --model fine-tunes one: leave one out")
	case o.fromScratch != "" && o.config.Adapts() && !o.dryRun:
		return cli.Usagef("--lora trains adapters of a model that knows something, and --from-scratch makes a new one: " +
			"leave one out")
	case o.fromScratch != "" && o.baseModel != "":
		return cli.Usagef("--base is for adapters, and --from-scratch makes a new model: leave it out")
	case o.fromScratch == "" && (o.tokenizer != "" || o.vocabData != ""):
		return cli.Usagef("--tokenizer and --vocab-data need --from-scratch: a model to fine-tune has its own tokenizer")
	case o.vocab != "bpe" && o.vocab != "chars":
		return cli.Usagef("--vocab %q: must be bpe or chars", o.vocab)
	case o.vocab == "chars" && (o.fromScratch == "" || len(o.text) == 0):
		return cli.Usagef("--vocab chars needs --from-scratch and --text: it is made of the characters of a text")
	case o.vocab == "chars" && o.tokenizer != "":
		return cli.Usagef("--vocab chars makes a vocabulary and --tokenizer gives one: leave one out")
	case o.trainOn != "responses" && o.trainOn != "all":
		return cli.Usagef("--train-on %q: must be responses or all", o.trainOn)
	case cli.CheckDevice(o.deviceName) != nil:
		return cli.CheckDevice(o.deviceName)
	case o.config.Patience > 0 && o.val == 0:
		return cli.Usagef("--patience waits for a better validation loss, and --val 0 measures none: leave one out")
	case o.config.BNB && given("master"):
		return cli.Usagef("--bnb has no master weights: leave --master out")
	}
	config := o.config
	switch {
	case o.fromScratch != "" || config.Adapts() || o.model == data.StarterName:
	case models.CheckWhole(o.model) != nil:
		config.LoRA = lora.Default() // the adapter's own follow
	case !o.opened && !hf.IsPath(o.model): // perhaps an adapter on the hub: suit checks it again
		config.QuantizeBase, config.LoRAAlso = "none", nil
	}
	if err := config.Check(); err != nil {
		return cli.Usagef("--%w", err)
	}
	return nil
}

// checkCSV returns an error if the file of --log-csv cannot be written, so that a run fails before it starts.
func (o *options) checkCSV(out string) error {
	if o.logCSV == "" || disk.Holds(out, o.logCSV) && !disk.Holds(out, filepath.Dir(filepath.Dir(o.logCSV))) {
		return nil // nothing to write, or right in the directory that the run makes
	}
	path, err := disk.Follow(o.logCSV)
	if err == nil {
		err = unix.Access(filepath.Dir(path), unix.W_OK)
		if info, missing := os.Stat(path); missing == nil && !info.Mode().IsRegular() {
			err = errors.New("it is not a regular file")
		}
	}
	if err != nil {
		return fmt.Errorf("--log-csv %s: %w: choose a file in a directory that can be written", o.logCSV, err)
	}
	return nil
}

// checkPaths returns an error if the directory of the result contains the working directory or anything that the run
// reads, because a later run would rename it.
func (o *options) checkPaths(out string) error {
	if disk.Holds(out, ".") {
		return cli.Usagef("--out %s: is or contains the working directory, and a later run would rename it: choose a "+
			"separate directory", o.out)
	}
	inside := func(flag, path string) error {
		return cli.Usagef("--out %s: contains --%s %s, and a later run would rename it: choose another directory", o.out,
			flag, path)
	}
	if o.batchesFile != "" {
		if disk.Holds(out, o.batchesFile) {
			return inside("write-batches", o.batchesFile)
		}
		if info, err := os.Stat(o.batchesFile); err == nil && info.Mode().IsRegular() && !o.resume {
			return cli.Usagef("--write-batches %s: the file exists: choose a new name", o.batchesFile)
		}
		if _, err := os.Stat(filepath.Dir(o.batchesFile)); err != nil {
			return fmt.Errorf("--write-batches: %w: choose a file in an existing directory", err)
		}
	}
	for _, f := range []struct{ flag, path string }{{"log-csv", o.logCSV}, {"benchmark-log", o.benchmarkLog}} {
		if f.path != "" && disk.Holds(out, f.path) && filepath.Ext(f.path) != ".csv" {
			return cli.Usagef("--%s %s: in the directory of --out, whose files the run writes, its name must end in .csv",
				f.flag, f.path)
		}
	}
	log, err := disk.RealPath(o.benchmarkLog)
	if err == nil && o.logCSV != "" && o.benchmarkLog != "" && disk.Holds(log, o.logCSV) {
		return cli.Usagef("--log-csv %s: is also the file of --benchmark-log: choose another name", o.logCSV)
	}
	if err := o.checkCSV(out); err != nil {
		return err
	}
	read := map[string][]string{"model": {o.model}, "base": {o.baseModel}, "from-scratch": {o.fromScratch},
		"tokenizer": {o.tokenizer}, "text": o.text, "vocab-data": {o.vocabData}, "style": {o.style},
		"write-batches": {o.batchesFile}}
	for _, s := range o.sources() {
		read["data"] = append(read["data"], dataset.LocalPath(s.spec))
	}
	for _, flag := range slices.Sorted(maps.Keys(read)) {
		for _, path := range read[flag] {
			if path != "" && o.logCSV != "" && cli.SameFile(o.logCSV, path) {
				return cli.Usagef("--log-csv %s: is also the file of --%s: choose another name", o.logCSV, flag)
			}
			if _, err := os.Stat(path); err == nil && path != data.StarterName && disk.Holds(out, path) {
				return inside(flag, path)
			}
		}
	}
	return nil
}

// A loraFlag is --lora and keeps its text: an adapter that is trained further has its own values for what the text
// leaves out.
type loraFlag struct {
	flag.Value
	text *string
}

// Set sets the adapters.
func (f *loraFlag) Set(s string) error {
	*f.text = s
	return f.Value.Set(s)
}

// A fusedFlag is a set of operations, or all of them if the flag has no value.
type fusedFlag struct{ kernels.Fused }

func (f *fusedFlag) String() string { return f.Fused.String() }

// Set parses a set of operations.
func (f *fusedFlag) Set(s string) (err error) {
	if strings.TrimSpace(s) == "" {
		return errors.New("it is empty: give a set, none, or the flag without a value")
	}
	f.Fused, err = kernels.ParseFused(s)
	return err
}

// A bytesFlag is a number of bytes, written with a unit.
type bytesFlag int

func (b *bytesFlag) String() string {
	if *b == 0 {
		return ""
	}
	return kernels.Bytes(int(*b))
}

// Set parses a size such as 8GiB, 8GB, 8g or 500MB, or a bare number of bytes.
func (b *bytesFlag) Set(s string) error {
	text := strings.ToLower(strings.TrimSpace(s))
	unit := 1.0
	for _, u := range []struct {
		suffix string
		size   float64
	}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9},
		{"tb", 1e12}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}} {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(number), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n*unit >= 1) || n*unit > 1<<60 {
		return errors.New("must be a size such as 8GiB or 500MB")
	}
	*b = bytesFlag(n * unit)
	return nil
}
