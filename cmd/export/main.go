// Command export writes a copy of a model with weights in 8 or 4 bits, or with an adapter merged in. See -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"restyle/data"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	_ "restyle/internal/limits" // checks them before main
	"restyle/internal/models"
)

const about = `
export MODEL OUT --weights int8|int4|nf4 writes a copy of a model whose linear layers have weights in 8 or
4 bits. chat, bench and train open it like any other model; programs other than restyle cannot read
it. MODEL is a directory, a .gguf file, a hub id, or starter, the embedded model.

export ADAPTER OUT merges a low-rank adapter into its base model. ADAPTER is a hub id, or a
directory with an adapter_config.json as train or PEFT writes it. transformers, vLLM and restyle open
the result like any other model.

export MODEL OUT.gguf --gguf TYPE writes a model, or an ADAPTER merged into its base, as a file for llama.cpp,
ollama and LM Studio; --gguf lora writes the adapter alone, for llama.cpp beside a file of its base. A
Modelfile for ollama comes with it. MODEL may be a .gguf file.

  export starter out-int4 --weights int4
  export starter out-int4 --weights int4 --quality    also measure what it costs in answers
  export adapter merged                               into the base that the adapter names
  export adapter merged --base models/base            which is there
  export trained model.gguf --gguf q4_k_m             4.8 bits a weight
  export adapter adapter.gguf --gguf lora             for llama.cpp, beside its base

8 or 4 bits: the head, and an embedding that is tied to it, get 8 bits. An embedding that is not tied,
norms, biases, learned positions, and the routers of a mixture keep their type. The weights of experts
are rounded to nearest: GPTQ would need enough inputs of each. In memory are the quantized model, and
of the original one layer at a time. export prints each matrix with its error, and then weights,
perplexity of the reference answers to the held-out questions and, with --quality, what bench quality
counts of the models' own answers, before and after.

Merging: each weight W becomes W + scale·B·A, computed in float32 and rounded once to the type that W
has in the base. One weight at a time is in memory. A base in 8 or 4 bits becomes one of 16 bits first.
export prints how far each matrix moved, and fails if one did not.

GGUF: the types are llama.cpp's presets f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m and q4_0, their blocks those
of its quantizer without an importance matrix. Some MB of weights are in memory at a time. With --rounding
gptq, the q4_0 blocks in a model's layers are calibrated as int4 is: as many bytes, nearer to the model on texts
like the starter dataset's. That needs an original model and the memory that int4 needs. export then reads
the file back and compares: what texts become as tokens, the chat templates, the tokens that end
an answer, every weight, and what both models expect of reference answers (KL divergence, and how often
the most probable token is the same). That needs memory for one model at a time. A file that fails is kept under
another name, and the exit code is 1.`

// options are the flags.
type options struct {
	weights, rounding, template string
	adapter                     string // directory of the adapter to export; "" for a model
	base, onto                  string
	text                        int
	gguf                        string
	checked                     bool
	quality, version            bool
	threads                     int
}

func main() {
	// If a reader such as head or tee is gone, the rest is not shown, but everything is still written under its name.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	status := cli.NewStatusLine(stderr)
	notes := cli.CleanWriter(status)
	if _, ok := cli.LoadEnv("export", notes); !ok {
		return cli.Usage
	}
	o := options{rounding: "gptq", text: 128, checked: true}
	f := o.flags(stdout, notes)
	paths, code, done := f.ParsePaths(args)
	if done {
		return code
	}
	if o.version {
		fmt.Fprintln(stdout, "export", cli.Version())
		return cli.Done
	}
	if o.gguf != "" && !f.Given("rounding") {
		o.rounding = "nearest"
	}
	err := o.checkFirst(paths)
	if err == nil && paths[0] != data.StarterName {
		o.adapter, err = hf.FindAdapter(ctx, newHub(status), paths[0])
	}
	if err == nil && o.adapter == "" {
		err = models.CheckFinished(paths[0])
	}
	if err == nil {
		err = o.check(paths, f.Given)
	}
	if err == nil && o.gguf == "" {
		err = probe(paths[1])
	}
	switch {
	case err != nil:
	case o.gguf != "":
		err = o.writeGGUF(ctx, paths[0], paths[1], stdout, status)
	case o.adapter != "":
		err = o.merge(ctx, paths[0], paths[1], stdout, status)
	default:
		err = o.quantize(ctx, paths[0], paths[1], stdout, status)
	}
	status.Clear()
	var usage *cli.UsageError
	switch {
	case err == nil:
		return cli.Done
	case errors.As(err, &usage):
		fmt.Fprintf(notes, "export: %v\nsee export -h\n", err)
		return cli.Usage
	case errors.As(err, new(*stopped)):
		fmt.Fprintf(notes, "export: stopped: %v\n", err)
		return cli.Stopped
	case ctx.Err() != nil:
		fmt.Fprintln(notes, "export: stopped; nothing was written")
		return cli.Stopped
	case hub.Retryable(err):
		fmt.Fprintf(notes, "export: %v\nrun the same command again later\n", err)
		return cli.Retry
	}
	fmt.Fprintf(notes, "export: %v\n", err)
	return cli.Failed
}

func (o *options) flags(stdout, notes io.Writer) *cli.Flags {
	f := cli.New("export", about, stdout, notes)
	f.Group("Weights")
	f.Add(&o.weights, "weights", "weights of the linear layers in the model's layers, `int8|int4|nf4`; a MODEL needs it")
	f.Add(&o.rounding, "rounding", "how weights become 4-bit codes, `gptq|nearest`: gptq compensates errors by what a "+
		"calibration text needs, nearest rounds each weight by itself, as 8-bit codes always are, and --gguf without this "+
		"flag")
	f.Add(&o.text, "text", "number of conversations of the starter dataset that gptq is calibrated with")
	f.Add(&o.template, "template", infer.TemplateHelp()+"; the copy keeps its default")
	f.Add(&o.quality, "quality", "also ask both models the held-out questions, as bench quality does: minutes for the "+
		"embedded model, hours for a large one")
	f.Group("Adapters")
	f.Add(&o.base, "base", "the model that the adapter was trained on, a directory or hub id; default: the one that "+
		"the adapter names, which may be a path from the adapter's directory")
	f.Add(&o.onto, "onto", "merge into this model instead, such as the 16-bit original of a base in 4 bits; the "+
		"adapter was not trained on it, which the model card says")
	f.Group("GGUF")
	f.Add(&o.gguf, "gguf", "write a GGUF file with weights of this type, `f32|f16|bf16|q8_0|q6_k|q5_k_m|q4_k_m|q4_0`, "+
		"or lora: the adapter alone")
	f.Add(&o.checked, "check", "read the file back and compare it with the model; --check=false for none")
	f.Group("Device")
	f.Add(&o.threads, "threads", "CPU threads; 0 uses GOMAXPROCS")
	f.Group("Other")
	f.Add(&o.version, "version", "print the version")
	return f
}

// checkFirst reports arguments that are invalid whether MODEL is an adapter or not: on the hub, finding that out takes
// time.
func (o options) checkFirst(paths []string) error {
	switch {
	case len(paths) != 2:
		return cli.Usagef("%s: name two, MODEL and OUT", cli.Count(len(paths), "path"))
	case !slices.Contains([]string{"", "int8", "int4", "nf4"}, o.weights):
		return cli.Usagef("--weights %q: must be int8, int4 or nf4", o.weights)
	case o.gguf == "":
		return checkFree(paths[1])
	}
	return nil
}

// check reports other invalid arguments. given reports whether a flag was given.
func (o options) check(paths []string, given func(flag string) bool) error {
	switch {
	case o.gguf != "":
		return o.checkGGUF(paths, given)
	case given("check"):
		return cli.Usagef("--check is for --gguf: leave it out")
	case o.adapter != "":
		return o.checkMerge(paths, given)
	case o.base != "" || o.onto != "":
		return cli.Usagef("--base and --onto are for adapters, and %s has no adapter_config.json: leave them out",
			paths[0])
	case o.weights == "":
		return cli.Usagef("there is no --weights and no --gguf, and %s is no adapter: set --weights to "+
			"int8, int4 or nf4, or --gguf to a type", paths[0])
	case o.weights != "int4" && o.rounding == "gptq" && given("rounding"):
		return cli.Usagef("--rounding gptq is for int4, and --weights %s are rounded to nearest: leave one out", o.weights)
	}
	return o.checkRounding(given)
}

// checkRounding reports invalid flags for how weights are rounded, and for the threads that do it.
func (o options) checkRounding(given func(flag string) bool) error {
	switch {
	case o.rounding != "gptq" && o.rounding != "nearest":
		return cli.Usagef("--rounding %q: must be gptq or nearest", o.rounding)
	case o.text < 1:
		return cli.Usagef("--text %d: must be at least 1", o.text)
	case !o.calibrates() && given("text"):
		return cli.Usagef("--text is for --rounding gptq, of --weights int4 or --gguf q4_0, and nothing else is " +
			"calibrated: leave it out")
	}
	return cli.CheckThreads(o.threads)
}
