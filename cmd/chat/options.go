package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/chat"
	"restyle/infer"
	"restyle/internal/cli"
)

const about = `
chat asks a base model and a tuned one the same questions, and shows both answers side by side.

  chat                                            the model in out/, next to its base model
  chat --base meta-llama/Llama-3.2-1B-Instruct --only base --prompt "How do I reverse a list?"

Both models use the same seed and sampling settings, so only their weights differ. chat appends every question and
answer to raw_comparison_log.md, and all measurements to the .jsonl file next to it. In a conversation, /help lists the
commands. Ctrl-C stops an answer and keeps it; a second one leaves.`

// options are the values of the flags.
type options struct {
	base, tuned, only, template string
	raw, offline                bool

	prompt, prompts, system, conversation string
	web                                   bool

	settings
	set     *cli.Flags // which flags the command line sets
	greedy  float64    // the first model's repetition penalty for greedy answers, 0 for none
	context int

	device, dtype, quantize string
	threads                 int

	log     string
	version bool
}

// settings configure answers. /set changes them during a conversation.
type settings struct {
	Temperature       float64 `json:"temperature"`
	TopP              float64 `json:"top_p"`
	TopK              int     `json:"top_k"`
	MinP              float64 `json:"min_p"`
	RepetitionPenalty float64 `json:"repetition_penalty"`
	MaxTokens         int     `json:"max_tokens"`
	Seed              int64   `json:"seed"`
	Stop              stops   `json:"stop,omitempty"`
}

// stops are texts that end an answer. Each flag adds one as it is, with its commas, spaces and line breaks.
type stops []string

func (s *stops) String() string { return fmt.Sprintf("%q", []string(*s)) }

// Set adds a text.
func (s *stops) Set(text string) error {
	if text == "" {
		return errors.New("is empty: leave the flag out")
	}
	*s = append(*s, text)
	return nil
}

func defaults() *options {
	return &options{
		tuned: "out", device: "auto", dtype: "auto", context: 8192, log: "raw_comparison_log.md",
		settings: settings{Temperature: 0.8, TopP: 0.9, RepetitionPenalty: 1, MaxTokens: 256},
	}
}

func (o *options) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("chat", about, stdout, stderr)
	f.Group("Models")
	f.Add(&o.base, "base", "base model: a `directory`, a .gguf file, a hub id (owner/name, owner/name@revision, or "+
		"owner/name:Q4_K_M for the GGUF file of a type), or starter, the embedded one; if empty, the base model that "+
		"the tuned model's files name")
	f.Add(&o.tuned, "tuned", "tuned model: a `directory` or hub id, of a model or of an adapter, a .gguf file or starter")
	f.Add(&o.only, "only", "ask only one of the models, `base|tuned`")
	f.Add(&o.template, "template", infer.TemplateHelp())
	f.Add(&o.raw, "raw", "use no chat template: the models continue the text of the question")
	f.Add(&o.offline, "offline", "use only hub models that are in the cache")

	f.Group("Questions")
	f.Add(&o.prompt, "prompt", "ask this `question`, then exit; without --prompt and --prompts, chat reads questions "+
		"from the terminal or standard input")
	f.Add(&o.prompts, "prompts", "ask the questions in this `file`, then exit: one per line, or JSON, as lines or one "+
		"array: texts, objects with \"prompt\" or \"messages\", and \"system\"; - reads standard input")
	f.Add(&o.web, "web", "chat in a browser instead: start serve with the models, at an address that only this machine "+
		"reaches, and open its page. The flags of questions, sampling and the log do not apply: the page has its own")
	f.Add(&o.conversation, "conversation", "keep one conversation, or start a new one for each question, `keep|new`; if "+
		"empty, new for --prompts, and otherwise keep")
	f.Add(&o.system, "system", "system `prompt`")

	f.Group("Sampling")
	f.Add(&o.MaxTokens, "max-tokens", "maximum tokens per answer")
	f.Add(&o.Temperature, "temperature", "sampling temperature; 0 always takes the most probable token, higher values "+
		"vary more. Without this flag, this and the four below come from the first model's generation_config.json, "+
		"if it has some")
	f.Add(&o.TopP, "top-p", "nucleus sampling: keep the most probable tokens until their probabilities add up to this; "+
		"1 keeps all")
	f.Add(&o.TopK, "top-k", "keep only the `K` most probable tokens; 0 keeps all")
	f.Add(&o.MinP, "min-p", "drop tokens less probable than this times the most probable one; 0 drops none")
	f.Add(&o.RepetitionPenalty, "repetition-penalty",
		"above 1, make tokens that already occur less probable; 1 disables the penalty")
	f.Add(&o.Seed, "seed", "sampling seed; the same seed reproduces an answer")
	f.Add(&o.Stop, "stop", "end answers at this `text`; may be repeated")
	f.Add(&o.context, "context", "maximum tokens of a conversation, limited to what the model supports; if it is full, "+
		"the oldest turns are dropped")

	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.dtype, "dtype", cli.DTypeHelp)
	f.Add(&o.quantize, "quantize",
		"quantize the weights of linear layers to `int8|int8x8|int4|nf4` while the models are loaded; the "+
			"head, and an embedding tied to it, to int8; everything else keeps its type; int8x8 is int8 with activations "+
			"in 8 bits too, which is faster on CPUs, and for prompts on an H100 or H200")
	f.Add(&o.threads, "threads", "CPU threads; 0 uses GOMAXPROCS")

	f.Group("Log")
	f.Add(&o.log, "log", "append every question and its answers to this Markdown `file`, and all measurements to the "+
		".jsonl file next to it; empty disables the log")
	f.Add(&o.version, "version", "print the version")
	f.MayBeEmpty("log", "system")
	o.set = f
	return f
}

// check reports invalid flags, as far as they are by themselves.
func (o *options) check() error {
	_, known := infer.DTypes[o.dtype]
	_, quantization := infer.Quantizations[o.quantize]
	switch {
	case o.only != "" && o.only != baseLabel && o.only != tunedLabel:
		return cli.Usagef("--only %q: must be base or tuned", o.only)
	case o.web && (o.prompt != "" || o.prompts != "" || o.system != ""):
		return cli.Usagef("--web: the page has its own place for --prompt, --prompts and --system: leave them out")
	case o.web && o.quantize == infer.INT8x8:
		return cli.Usagef("--web: serve cannot --quantize to int8x8: take int8")
	case o.prompt != "" && o.prompts != "":
		return cli.Usagef("--prompt and --prompts exclude each other: put the question into the file")
	case o.raw && o.template != "" && o.template != chat.Raw().Name:
		return cli.Usagef("--raw uses no template, but --template %s names one: leave one of them out", o.template)
	case o.conversation != "" && o.conversation != "keep" && o.conversation != "new":
		return cli.Usagef("--conversation %q: must be keep or new", o.conversation)
	case o.raw && o.system != "":
		return cli.Usagef("--raw has no place for a system prompt: put it in front of the question")
	case o.context < 2:
		return cli.Usagef("--context %d: must be at least 2 tokens", o.context)
	case cli.CheckThreads(o.threads) != nil:
		return cli.CheckThreads(o.threads)
	case cli.CheckDevice(o.device) != nil:
		return cli.CheckDevice(o.device)
	case !known:
		return cli.Usagef("--dtype %q: must be auto, bf16, fp16 or fp32", o.dtype)
	case !quantization:
		return cli.Usagef("--quantize %q: must be int8, int8x8, int4 or nf4", o.quantize)
	case strings.EqualFold(filepath.Ext(o.log), ".jsonl"):
		return cli.Usagef("--log %q: must be the Markdown file: the .jsonl file goes next to it", o.log)
	case o.log != "" && !slices.Contains([]string{"", ".md", ".markdown", ".txt"}, strings.ToLower(filepath.Ext(o.log))):
		return cli.Usagef("--log %q: not the name of a Markdown file, and chat appends to it: choose a name that ends in .md",
			o.log)
	case o.log != "" && o.prompts != "" && (cli.SameFile(o.prompts, o.log) || cli.SameFile(o.prompts, jsonlPath(o.log))):
		return cli.Usagef("--prompts %s: --log %s would write into this file: choose another name for the log", o.prompts,
			o.log)
	}
	for _, f := range []struct{ flag, text string }{
		{"prompt", o.prompt}, {"system", o.system}, {"stop", strings.Join(o.Stop, "")},
	} {
		if !utf8.ValidString(f.text) {
			return cli.Usagef("--%s %.40q: not valid UTF-8: convert it, or set the terminal to UTF-8", f.flag, f.text)
		}
	}
	if o.raw {
		o.template = chat.Raw().Name
	}
	if err := o.settings.check(); err != nil {
		return cli.Usagef("--%w", err)
	}
	return nil
}

// check reports a setting that is out of range. The error starts with the name of its flag.
func (s settings) check() error {
	switch {
	case s.MaxTokens < 1:
		return fmt.Errorf("max-tokens %d: must be at least 1", s.MaxTokens)
	case !(s.TopP > 0 && s.TopP <= 1):
		return fmt.Errorf("top-p %v: must be greater than 0 and at most 1, which keeps all tokens", s.TopP)
	case !(s.RepetitionPenalty > 0) || math.IsInf(s.RepetitionPenalty, 1):
		return fmt.Errorf("repetition-penalty %v: must be a finite number greater than 0; 1 disables the penalty",
			s.RepetitionPenalty)
	}
	return s.sampling(0).Check()
}

// takeSampling takes the sampling that a model's authors suggest, nil for none, except for what flags set.
// --temperature is the user's own choice: with it, takeSampling takes none of their settings, except the repetition
// penalty if it is 0, because greedy decoding has one as well.
func (o *options) takeSampling(by *infer.Sampling, penalty float64) error {
	o.greedy = penalty
	values := map[string]any{}
	switch {
	case o.set.Given("temperature") && o.Temperature == 0:
		values["repetition-penalty"] = penalty
	case by == nil || o.set.Given("temperature"):
		return nil
	default:
		values = map[string]any{"temperature": by.Temperature, "top-k": by.TopK, "top-p": by.TopP, "min-p": by.MinP,
			"repetition-penalty": by.RepetitionPenalty}
	}
	for name, value := range values {
		if o.set.Given(name) {
			continue
		}
		if err := o.set.Set(name, fmt.Sprint(value)); err != nil {
			return err
		}
	}
	return o.settings.check()
}

// sampling returns the settings for the given attempt to answer a question: each has another seed.
func (s settings) sampling(attempt int) infer.Sampling {
	return infer.Sampling{
		Temperature: s.Temperature, TopP: s.TopP, TopK: s.TopK, MinP: s.MinP, RepetitionPenalty: s.RepetitionPenalty,
		Seed: uint64(s.Seed) + uint64(attempt),
	}
}
