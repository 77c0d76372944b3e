package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/voice"
)

const about = `
gen rewrites the answers of a dataset in another voice, with their code kept byte for byte.

  gen                                      the embedded set, the built-in rewriter: runs anywhere
  gen --source iamtarun/python_code_instructions_18k_alpaca \
      --base-url http://localhost:8000/v1 --model meta-llama/Meta-Llama-3-8B-Instruct

The result is a JSON array of {instruction, input, output_original, output_passive_aggressive}, with a
certificate for each row beside it. A run that was stopped or killed goes on when it is started again.`

// options are the flags.
type options struct {
	source, split, columns string
	rows                   int

	out, work, card string
	restart         bool

	teacher     string
	baseURLs    cli.List
	model       string
	temperature float64
	maxTokens   int
	extra       string
	concurrency int

	connectTimeout, firstTimeout, stallTimeout, totalTimeout, deadTimeout time.Duration
	retries                                                               int

	style    string
	comments bool
	seed     int64
	python   string

	judge        string
	judgeURLs    cli.List
	priceIn      float64
	priceOut     float64
	preview      int
	dryRun       bool
	report       bool
	emit, ingest string
	version      bool

	rowsGiven bool
}

// builtinRows is how many rows the built-in rewriter makes where nobody says. A small model learns more from many rows that
// it sees twice than from a few that it sees often, and forgets less: bench quality tells.
const builtinRows = 2304

func defaults() *options {
	return &options{
		source: dataset.StarterSpec, split: "train", rows: 576,
		out:     "data/passive_aggressive_data.json",
		teacher: "auto", temperature: 0.8, maxTokens: 512,
		connectTimeout: 10 * time.Second, firstTimeout: 5 * time.Minute, stallTimeout: time.Minute, totalTimeout: 15 * time.Minute, deadTimeout: 2 * time.Minute, retries: 5,
		style: voice.Default,
	}
}

func (o *options) flags(out io.Writer) *cli.Flags {
	f := cli.New("gen", about, out)
	f.Group("What is rewritten")
	f.Add(&o.source, "source", "a parquet, JSON or JSONL `file`, a dataset on the Hugging Face hub as owner/name or owner/name@revision, or starter, the embedded set")
	f.Add(&o.split, "split", "which split of a hub dataset")
	f.Add(&o.columns, "columns", "which columns hold what, as `instruction=A,input=B,output=C`; recognised where they have usual names")
	f.Add(&o.rows, "rows", "how many rows to make; 0 for as many as the source gives. If not given, the built-in rewriter, which costs nothing, makes "+strconv.Itoa(builtinRows))

	f.Group("Where it goes")
	f.Add(&o.out, "out", "the dataset, as .json, .jsonl or .parquet; certificates go beside it. What is there and differs is kept as `file`.bak, .bak.2 and so on")
	f.Add(&o.card, "card", "also write a dataset card for the hub, in Markdown, to this `file`")
	f.Add(&o.work, "work", "the `folder` of the journal, which holds every answer ever received; <out>.work if not given")
	f.Add(&o.restart, "restart", "set the journal of an earlier run aside (as journal.log.bak) and begin anew")

	f.Group("Who rewrites")
	f.Add(&o.teacher, "teacher", "builtin (rules and a phrase bank, no model), openai (any OpenAI-compatible server), or auto: openai where a base URL or a model is set")
	f.Add(&o.baseURLs, "base-url", "a `URL` such as http://localhost:8000/v1; repeat it for several servers. With a model alone it is OpenAI's own")
	f.Env("base-url", "OPENAI_BASE_URL")
	f.Add(&o.model, "model", "the model's `id` there; not needed where a server has just one")
	f.Env("model", "TEACHER_MODEL")
	f.Add(&o.temperature, "temperature", "sampling temperature of the teacher, 0 to 2; 0 is sent too")
	f.Add(&o.maxTokens, "max-tokens", "most tokens of an answer; doubled once for an answer that was cut off")
	f.Add(&o.extra, "extra", "more fields for the request's body, as a `JSON` object such as {\"top_k\": 40}; null leaves a field out")
	f.Add(&o.concurrency, "concurrency", "requests in flight at once; 0 adapts to what the servers bear")
	f.Add(&o.connectTimeout, "connect-timeout", "most time to connect to a server")
	f.Add(&o.firstTimeout, "first-token-timeout", "most time until the first token of an answer")
	f.Add(&o.stallTimeout, "stall-timeout", "most time between two pieces of an answer")
	f.Add(&o.totalTimeout, "total-timeout", "most time for one answer; waiting in gen's own queue counts in none of these")
	f.Add(&o.deadTimeout, "dead-timeout", "how long to wait without any answer while every server is down or tells gen to wait")
	f.Add(&o.retries, "retries", "how often a failed request is sent again; being told to slow down does not count")

	f.Group("How")
	f.Add(&o.style, "style", fmt.Sprintf("the voice: %s, or the path of a style `file` (go doc restyle/voice says how to write one)", strings.Join(voice.Names(), ", ")))
	f.Add(&o.comments, "comments", "have remarks put into the code as comments too")
	f.Add(&o.seed, "seed", "decides everything that is dealt by chance")
	f.Add(&o.python, "python", "also have this python `program` parse the source answers, as a second opinion on which of them are Python")
	f.Add(&o.judge, "judge", "a `model` whose opinion of each row is added to its certificate; it decides nothing")
	f.Add(&o.judgeURLs, "judge-url", "the `URL` of the judge's server; the teacher's if not given")

	f.Group("Looking before and after")
	f.Add(&o.preview, "preview", "show the first `N` rows before and after, with their checks, and write nothing")
	f.Add(&o.dryRun, "dry-run", "show the settings, the first prompt, and what the run would take; ask nothing, write nothing")
	f.Add(&o.report, "report", "check the rows of --out anew and show the yield, the openers and the tone; write a plot of the tone. Ends with 1 and names rows if any fails")
	f.Add(&o.priceIn, "price-in", "US dollars a million prompt tokens, to show the cost")
	f.Add(&o.priceOut, "price-out", "US dollars a million completion tokens, to show the cost")

	f.Group("By batch instead of live (OpenAI Batch JSONL, also read by vllm run-batch and LiteLLM)")
	f.Add(&o.emit, "emit-batch", "write the requests that have no answer yet to this `file`; further rounds ask again for refused rows")
	f.Add(&o.ingest, "ingest-batch", "take the answers from this `file` of results, in any order, and make the rows that they suffice for")
	f.Add(&o.version, "version", "print the version")
	return f
}

// check finds what is wrong with the flags by themselves.
func (o *options) check() error {
	modes := 0
	for _, on := range []bool{o.preview > 0, o.dryRun, o.report, o.emit != "", o.ingest != ""} {
		if on {
			modes++
		}
	}
	switch {
	case modes > 1:
		return cli.Usagef("only one of --preview, --dry-run, --report, --emit-batch and --ingest-batch can be given")
	case o.rows < 0:
		return cli.Usagef("--rows is %d: give a number of rows, or 0 for all", o.rows)
	case o.preview < 0:
		return cli.Usagef("--preview is %d: give a number of rows", o.preview)
	case o.teacher != "auto" && o.teacher != "builtin" && o.teacher != "openai":
		return cli.Usagef("--teacher %q is not auto, builtin or openai", o.teacher)
	case !(o.temperature >= 0 && o.temperature <= 2):
		return cli.Usagef("--temperature is %v: give a number from 0 to 2", o.temperature)
	case o.maxTokens < 1:
		return cli.Usagef("--max-tokens is %d: give at least 1", o.maxTokens)
	case o.concurrency < 0:
		return cli.Usagef("--concurrency is %d: give a number of requests, or 0 to adapt", o.concurrency)
	case o.retries < 0:
		return cli.Usagef("--retries is %d: give 0 or more", o.retries)
	case o.connectTimeout <= 0 || o.firstTimeout <= 0 || o.stallTimeout <= 0 || o.totalTimeout <= 0 || o.deadTimeout <= 0:
		return cli.Usagef("timeouts must be above 0, such as 30s or 5m")
	case !(o.priceIn >= 0 && o.priceOut >= 0):
		return cli.Usagef("prices must be 0 or above")
	case o.teacher == "builtin" && (o.emit != "" || o.ingest != ""):
		return cli.Usagef("a batch needs a model to answer it: set --model instead of --teacher builtin")
	case o.work == "":
		o.work = o.out + ".work"
	}
	switch ext := strings.ToLower(filepath.Ext(o.out)); ext {
	case ".json", ".jsonl", ".parquet":
	default:
		return cli.Usagef("--out %q has the extension %q: use .json, .jsonl or .parquet", o.out, ext)
	}
	outputs := []struct{ flag, path string }{
		{"out", o.out}, {"out", dataset.CertificatePath(o.out)}, {"card", o.card}, {"emit-batch", o.emit},
	}
	for i, file := range outputs {
		for _, before := range outputs[:i] {
			if file.path != "" && cli.SameFile(file.path, before.path) {
				return cli.Usagef("--%s and --%s write the same file, %s: give each its own", file.flag, before.flag, file.path)
			}
		}
		switch {
		case o.report || file.path == "":
		case cli.SameFile(file.path, o.source):
			return cli.Usagef("--%s would overwrite %s, which is --source: choose another name", file.flag, file.path)
		case o.ingest != "" && cli.SameFile(file.path, o.ingest):
			return cli.Usagef("--%s would overwrite %s, which is --ingest-batch: choose another name", file.flag, file.path)
		}
	}
	if o.extra != "" {
		extra := map[string]any{}
		if err := json.Unmarshal([]byte(o.extra), &extra); err != nil {
			return cli.Usagef("--extra is not a JSON object: %v", err)
		}
		for _, name := range []string{"model", "messages", "stream"} {
			if _, ok := extra[name]; ok {
				return cli.Usagef("--extra sets %q, which gen decides itself: leave it out", name)
			}
		}
	}
	if o.python != "" {
		if _, err := exec.LookPath(o.python); err != nil {
			return cli.Usagef("--python: %v", err)
		}
	}
	return nil
}
