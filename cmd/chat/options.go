package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"restyle/chat"
	"restyle/infer"
	"restyle/internal/cli"
)

const about = `
chat asks a base model and a tuned one the same questions, and shows both answers side by side.

  chat                                            the model in out/ beside the one that it was made from
  chat --base meta-llama/Llama-3.2-1B-Instruct --only base --prompt "How do I reverse a list?"

Both answer with the same seed and the same sampling, so that they differ by their weights alone. Every question and
answer is kept in raw_comparison_log.md, with all figures in the .jsonl file beside it. Inside, /help lists what can be
typed; Ctrl-C stops an answer and keeps it, a second one leaves.`

// options are the flags.
type options struct {
	base, tuned, only, template string
	raw, offline                bool

	prompt, prompts, system string

	settings
	context int

	device, dtype string
	threads       int

	log     string
	version bool
}

// settings are how answers are made. They can be changed while chatting.
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

// stops are texts at which an answer ends. A flag gives one as it is: commas, spaces and line breaks are part of it.
type stops []string

func (s *stops) String() string { return fmt.Sprintf("%q", []string(*s)) }

// Set adds a text.
func (s *stops) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: leave the flag out")
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

func (o *options) flags(out io.Writer) *cli.Flags {
	f := cli.New("chat", about, out)
	f.Group("Who is asked")
	f.Add(&o.base, "base", "the base model: a `directory`, a hub id (owner/name or owner/name@revision), or starter, the embedded one; if not given, the model that the tuned one says it was made from")
	f.Add(&o.tuned, "tuned", "the tuned model: a `directory`, a hub id or starter")
	f.Add(&o.only, "only", "ask one of them alone: `base|tuned`")
	f.Add(&o.template, "template", "write prompts as this `family` does instead of as the model's own chat template: "+strings.Join(chat.Names(), ", "))
	f.Add(&o.raw, "raw", "use no chat template: the model continues the text of the question")
	f.Add(&o.offline, "offline", "take hub models from the cache alone")

	f.Group("What is asked (without any of these: what is typed)")
	f.Add(&o.prompt, "prompt", "one `question`; then chat ends")
	f.Add(&o.prompts, "prompts", "a `file` of questions, one a line, or a JSON object with \"prompt\" a line; - reads standard input. Each is a conversation of its own")
	f.Add(&o.system, "system", "the system `prompt`")

	f.Group("How answers are made")
	f.Add(&o.MaxTokens, "max-tokens", "most tokens of an answer")
	f.Add(&o.Temperature, "temperature", "0 always takes the most probable token; higher is more varied")
	f.Add(&o.TopP, "top-p", "draw from the most probable tokens that have this share together; 1 for all")
	f.Add(&o.TopK, "top-k", "draw from the `K` most probable tokens; 0 for all")
	f.Add(&o.MinP, "min-p", "leave out tokens less probable than this share of the most probable one's; 0 for none")
	f.Add(&o.RepetitionPenalty, "repetition-penalty", "above 1, tokens that are there already become less probable; 1 for none")
	f.Add(&o.Seed, "seed", "decides the draws; an answer can be told again from it")
	f.Add(&o.Stop, "stop", "end an answer at this `text`; may be repeated")
	f.Add(&o.context, "context", "most tokens of a conversation; no more than a model was made for are used. When it is full the oldest turns go")

	f.Group("Where it runs")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.dtype, "dtype", cli.DTypeHelp)
	f.Add(&o.threads, "threads", "CPU threads; 0 for as many as GOMAXPROCS says")

	f.Group("What is kept")
	f.Add(&o.log, "log", "the Markdown `file` to which every question and its answers are appended, with a .jsonl beside it; empty for none")
	f.Add(&o.version, "version", "print the version")
	f.MayBeEmpty("log", "system")
	return f
}

// check finds what is wrong with the flags by themselves.
func (o *options) check() error {
	_, known := infer.DTypes[o.dtype]
	switch {
	case o.only != "" && o.only != baseLabel && o.only != tunedLabel:
		return cli.Usagef("--only %q is neither base nor tuned", o.only)
	case o.prompt != "" && o.prompts != "":
		return cli.Usagef("--prompt and --prompts exclude each other: put the one question into the file")
	case o.raw && o.template != "" && o.template != chat.Raw().Name:
		return cli.Usagef("--raw uses no template, but --template %s is given: leave one out", o.template)
	case o.raw && o.system != "":
		return cli.Usagef("--raw has no place for a system prompt: put it in front of the question")
	case o.context < 2:
		return cli.Usagef("--context is %d: give a number of tokens", o.context)
	case o.threads < 0:
		return cli.Usagef("--threads is %d: give a number of threads, or 0 for all", o.threads)
	case !known:
		return cli.Usagef("--dtype %q is not auto, bf16 or fp32", o.dtype)
	case strings.EqualFold(filepath.Ext(o.log), ".jsonl"):
		return cli.Usagef("--log %q names the record: name the Markdown file, and the record goes beside it as .jsonl", o.log)
	case o.log != "" && !slices.Contains([]string{"", ".md", ".markdown", ".txt"}, strings.ToLower(filepath.Ext(o.log))):
		return cli.Usagef("--log %q is not named as Markdown: answers are appended to it: give a name that ends in .md", o.log)
	case o.log != "" && o.prompts != "" && (cli.SameFile(o.prompts, o.log) || cli.SameFile(o.prompts, jsonlPath(o.log))):
		return cli.Usagef("--prompts %s is also where --log %s puts the answers: give another name to the log", o.prompts, o.log)
	}
	if o.raw {
		o.template = chat.Raw().Name
	}
	if o.template != "" {
		if _, err := chat.ByName(o.template); err != nil {
			return cli.Usagef("--template: %v", err)
		}
	}
	if err := o.settings.check(); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// check says which setting is out of its range.
func (s settings) check() error {
	switch {
	case s.MaxTokens < 1:
		return fmt.Errorf("max-tokens %d: give at least 1", s.MaxTokens)
	case s.TopP == 0:
		return fmt.Errorf("top-p 0: give a share above 0, up to 1, which is all")
	}
	return s.sampling(0).Check()
}

// sampling is how tokens are drawn at the nth attempt to answer one question.
func (s settings) sampling(attempt int) infer.Sampling {
	return infer.Sampling{
		Temperature: s.Temperature, TopP: s.TopP, TopK: s.TopK, MinP: s.MinP, RepetitionPenalty: s.RepetitionPenalty,
		Seed: uint64(s.Seed) + uint64(attempt),
	}
}
