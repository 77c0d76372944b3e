package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/teacher"
	"restyle/voice"
)

const about = `
gen rewrites the answers of a dataset in another voice and keeps their code byte for byte.

  gen                                  the embedded dataset and the built-in rewriter: runs anywhere
  gen --source iamtarun/python_code_instructions_18k_alpaca \
      --base-url http://localhost:8000/v1 --model meta-llama/Meta-Llama-3-8B-Instruct
  gen --source my.jsonl --teacher-model meta-llama/Meta-Llama-3-8B-Instruct --quantize int4

gen writes a JSON array of {instruction, input, output_original, output_passive_aggressive} and, next to it, a
certificate for each row. The same command resumes a run that was stopped or killed.`

// options are the flags.
type options struct {
	sources        cli.Files
	split, columns string
	skipBad        bool
	rows, sample   int

	out, work, card string
	restart         bool

	teacher     string
	home        home
	baseURLs    cli.List
	model       string
	temperature float64
	maxTokens   int
	extra       string
	foldSystem  bool
	concurrency int

	connectTimeout, firstTimeout, stallTimeout, totalTimeout, deadTimeout time.Duration
	retries                                                               int

	style    string
	comments bool
	seed     int64
	python   string
	language string

	judge        string
	judgeURLs    cli.List
	minTone      int
	priceIn      float64
	priceOut     float64
	preview      int
	dryRun       bool
	report       bool
	emit, ingest string
	version      bool

	rowsGiven, languageGiven bool
}

// builtinRows is the built-in rewriter's default number of rows. A small model learns more, and forgets less, from many
// rows that it sees once than from a few that it sees often: bench quality measures it.
const builtinRows = 4608

func defaults() *options {
	return &options{
		split: "train", rows: 576,
		out:     "data/passive_aggressive_data.json",
		teacher: "auto", temperature: 0.8, maxTokens: 512,
		connectTimeout: 10 * time.Second, firstTimeout: 5 * time.Minute, stallTimeout: time.Minute,
		totalTimeout: 15 * time.Minute, deadTimeout: 2 * time.Minute, retries: 5,
		style: voice.Default, language: teacher.Python,
	}
}

func (o *options) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("gen", about, stdout, stderr)
	f.Group("Input")
	f.Add(&o.sources, "source", "dataset to rewrite: a parquet, JSON, JSONL, CSV or TSV `file` of questions and answers "+
		"or of chat messages, a Hugging Face hub dataset as owner/name, with @revision or :config after it, a directory "+
		"laid out like one, or starter, the embedded dataset; repeat it for several, which are read in this order "+
		"(default starter)")
	f.Add(&o.split, "split", "split of the hub datasets and directories, or a path or pattern of files in them")
	f.Add(&o.columns, "columns", "names of the columns, as `instruction=A,input=B,output=C`; needed only if gen does "+
		"not recognize them")
	f.Add(&o.rows, "rows", "rows to make; 0 for all that the source has. The built-in rewriter costs nothing")
	f.Lookup("rows").DefValue = fmt.Sprintf("%d with the built-in rewriter, %d with a server", builtinRows, o.rows)
	f.Add(&o.sample, "sample", "use only `N` rows of the source, drawn by --seed, in the source's order. gen makes all "+
		"of them that pass the checks, or as many as --rows says if it is given too")
	f.Add(&o.skipBad, "skip-bad", "skip rows that cannot be read, such as a line that is not JSON, and list them among "+
		"the rejects; without it they are errors")

	f.Group("Output")
	f.Add(&o.out, "out", "dataset to write, as .json, .jsonl or .parquet, with its certificates and the rejected rows "+
		"next to it. An existing `file` that differs is renamed to .bak, .bak.2 and so on")
	f.Add(&o.card, "card", "also write a dataset card in Markdown, as the hub shows it, to this `file`")
	f.Add(&o.work, "work", "`directory` of the journal, which holds every answer ever received; <out>.work if not given")
	f.Add(&o.restart, "restart", "start over: rename the journal of an earlier run to journal.log.bak")

	o.teacherFlags(f)

	f.Group("Style")
	f.Add(&o.style, "style", fmt.Sprintf("voice: %s, or a style `file` (go doc restyle/voice describes its format)",
		strings.Join(voice.Names(), ", ")))
	f.Add(&o.comments, "comments", "also add remarks to the code, as comments")
	f.Add(&o.seed, "seed", "seed of all random choices")
	f.Add(&o.language, "language", "`tag` of the code's fences: python; any, for fenced code of all languages; another, "+
		"such as sql, which code without a fence is then taken for; or none, for prose, which a model restates")
	f.Lookup("language").DefValue = "python, or none if no row of the source has code"
	f.Add(&o.python, "python", "also parse the source answers with this Python `program`, as a second check that they "+
		"are Python")
	f.Add(&o.judge, "judge", "`model` that rates each row; its opinion goes into the certificate, and decides "+
		"nothing without --min-tone")
	f.Add(&o.judgeURLs, "judge-url", "base `URL` of the judge's server; the teacher's if not given")
	f.Add(&o.minTone, "min-tone", "refuse an answer whose tone the judge rates below this, of 1 to 5, and ask once more; "+
		"0 refuses none")

	f.Group("Preview and report")
	f.Add(&o.preview, "preview", "show the first `N` rows before and after, with their checks; write nothing")
	f.Add(&o.dryRun, "dry-run", "show the settings, the first prompt and an estimate of the tokens; send and write "+
		"nothing")
	f.Add(&o.report, "report", "check the rows of --out again; show the yield, the openers and the tone, and plot the "+
		"tone. If rows fail, name them and exit with 1")
	f.Add(&o.priceIn, "price-in", "US dollars per million prompt tokens, to show the cost")
	f.Add(&o.priceOut, "price-out", "US dollars per million completion tokens, to show the cost")

	f.Group("Batch API (OpenAI's JSONL, which vllm run-batch and LiteLLM read too)")
	f.Add(&o.emit, "emit-batch", "write the requests that have no answer yet to this `file`; later rounds ask again for "+
		"refused rows")
	f.Add(&o.ingest, "ingest-batch", "read answers from this `file` of results, in any order, and make the rows that "+
		"they are enough for")

	f.Group("Other")
	f.Add(&o.version, "version", "print the version")
	return f
}

func (o *options) teacherFlags(f *cli.Flags) {
	f.Group("Teacher")
	f.Add(&o.teacher, "teacher", "what rewrites, `auto|builtin|openai`: builtin is rules and a phrase bank, without a "+
		"model; openai is any OpenAI-compatible server; auto is openai if a base URL or a model is set")
	f.Add(&o.baseURLs, "base-url", "base `URL` of a server, such as http://localhost:8000/v1; repeat it for several "+
		"servers. If only a model is given, OpenAI's")
	f.Env("base-url", "OPENAI_BASE_URL")
	f.Add(&o.model, "model", "`id` of the model; not needed if the server has only one")
	f.Env("model", "TEACHER_MODEL")
	f.Add(&o.home.model, "teacher-model", "have restyle's own server answer with this `model`: a hub id, a directory or "+
		"a .gguf file. gen starts serve, waits until it has loaded the model, and ends it. The same seed gives the same rows")
	f.Add(&o.home.quantize, "quantize", "quantize the weights of --teacher-model, as serve does: int8, int4 or nf4")
	f.Add(&o.home.device, "device", "device of --teacher-model, as of serve: auto, cpu, cuda or cuda:N")
	f.Lookup("device").DefValue = "auto"
	f.Add(&o.home.program, "serve-program", "serve `program` for --teacher-model")
	f.Lookup("serve-program").DefValue = "serve beside gen, else built from the source in this directory"
	f.Add(&o.temperature, "temperature", "sampling temperature, 0 to 2")
	f.Add(&o.maxTokens, "max-tokens", "maximum tokens per answer; doubled once for an answer that was truncated")
	f.Add(&o.extra, "extra", "more fields for the request's body, as a `JSON` object such as {\"top_k\": 40}; null "+
		"omits a field")
	f.Add(&o.foldSystem, "fold-system", "put the system prompt into the first user message, for models that refuse the "+
		"role, such as Gemma 2 and older Mistral models")
	f.Add(&o.concurrency, "concurrency", "concurrent requests; 0 adapts to what the servers can handle")
	f.Add(&o.connectTimeout, "connect-timeout", "time limit for connecting to a server")
	f.Add(&o.firstTimeout, "first-token-timeout", "time limit for the first token of an answer")
	f.Add(&o.stallTimeout, "stall-timeout", "time limit between two parts of an answer")
	f.Add(&o.totalTimeout, "total-timeout", "time limit for a whole answer; none of these limits counts the time in "+
		"gen's own queue")
	f.Add(&o.deadTimeout, "dead-timeout", "how long to wait while every server is down or asks gen to wait")
	f.Add(&o.retries, "retries", "retries per request; a server's request to slow down does not count as one")
}

// check returns what is wrong with the flags themselves, before anything is opened.
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
		return cli.Usagef("--rows %d: must be 0 or more; 0 makes all rows of the source", o.rows)
	case o.split != "train" && !slices.ContainsFunc(o.sources, dataset.HasSplits):
		return cli.Usagef("--split %s: a file has no splits, only a dataset on the hub or in a directory: leave it out",
			o.split)
	case o.sample < 0:
		return cli.Usagef("--sample %d: must be 1 or more; leave it out to use all rows", o.sample)
	case o.preview < 0:
		return cli.Usagef("--preview %d: must be 0 or more", o.preview)
	case o.teacher != "auto" && o.teacher != "builtin" && o.teacher != "openai":
		return cli.Usagef("--teacher %q: must be auto, builtin or openai", o.teacher)
	case !(o.temperature >= 0 && o.temperature <= 2):
		return cli.Usagef("--temperature %v: must be 0 to 2", o.temperature)
	case o.minTone < 0 || o.minTone > 5:
		return cli.Usagef("--min-tone %d: must be 1 to 5, or 0 to refuse no answer", o.minTone)
	case o.minTone > 0 && o.judge == "":
		return cli.Usagef("--min-tone %d: needs a judge that rates the tone: set --judge", o.minTone)
	case len(o.judgeURLs) > 0 && o.judge == "":
		return cli.Usagef("--judge-url %s: is the server of a judge: set --judge as well", o.judgeURLs[0])
	case o.maxTokens < 1:
		return cli.Usagef("--max-tokens %d: must be at least 1", o.maxTokens)
	case o.concurrency < 0:
		return cli.Usagef("--concurrency %d: must be 0 or more; 0 adapts to the servers", o.concurrency)
	case o.retries < 0:
		return cli.Usagef("--retries %d: must be 0 or more", o.retries)
	case o.teacher == "builtin" && (o.emit != "" || o.ingest != ""):
		return cli.Usagef("--teacher builtin: a batch needs a model that answers it: set --model instead")
	}
	if err := cmp.Or(o.checkHome(), o.checkTimesAndPrices()); err != nil {
		return err
	}
	if o.language = teacher.LanguageOf(o.language); o.language == "" {
		return cli.Usagef("--language: must be python, any, none or the tag of a language, such as sql")
	}
	if o.work == "" {
		o.work = o.out + ".work"
	}
	if len(o.sources) == 0 {
		o.sources = cli.Files{dataset.StarterSpec}
	}
	if o.sample > 0 && !o.rowsGiven {
		o.rows, o.rowsGiven = 0, true
	}
	switch ext := strings.ToLower(filepath.Ext(o.out)); ext {
	case ".json", ".jsonl", ".parquet":
	default:
		return cli.Usagef("--out %s: unknown extension %q: use .json, .jsonl or .parquet", o.out, ext)
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	if o.python != "" {
		if _, err := exec.LookPath(o.python); err != nil {
			return cli.Usagef("--python: %v", err)
		}
	}
	return o.checkExtra()
}

// checkExtra reports whether --extra is empty or an object of fields that gen does not set itself.
func (o *options) checkExtra() error {
	if o.extra == "" {
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(o.extra), &v); err != nil {
		return cli.Usagef("--extra: not JSON: %v", err)
	}
	extra, ok := v.(map[string]any)
	if !ok {
		return cli.Usagef("--extra: must be a JSON object, such as {\"top_k\": 40}")
	}
	for _, name := range []string{"model", "messages", "stream"} {
		if _, ok := extra[name]; ok {
			return cli.Usagef("--extra: field %q: gen sets it itself: leave it out", name)
		}
	}
	return nil
}

// checkHome returns an error that names the flags that do not go with --teacher-model.
func (o *options) checkHome() error {
	others := o.teacher == "builtin" || len(o.baseURLs) > 0 || o.model != "" || o.emit != "" || o.ingest != ""
	switch {
	case o.home.given() && others:
		return cli.Usagef("--teacher-model %s: gen starts a server of its own for it: leave out --teacher builtin, "+
			"--base-url, --model and batches", o.home.model)
	case !o.home.given() && o.home != (home{}):
		return cli.Usagef("--quantize, --device and --serve-program are of --teacher-model: set that as well")
	}
	return nil
}

// checkTimesAndPrices returns an error if one of the flags of these kinds is out of range.
func (o *options) checkTimesAndPrices() error {
	for _, limit := range []struct {
		flag string
		time time.Duration
	}{{"connect-timeout", o.connectTimeout}, {"first-token-timeout", o.firstTimeout}, {"stall-timeout", o.stallTimeout},
		{"total-timeout", o.totalTimeout}, {"dead-timeout", o.deadTimeout}} {
		if limit.time <= 0 {
			return cli.Usagef("--%s %v: must be greater than 0, such as 30s or 5m", limit.flag, limit.time)
		}
	}
	for _, price := range []struct {
		flag    string
		dollars float64
	}{{"price-in", o.priceIn}, {"price-out", o.priceOut}} {
		if !(price.dollars >= 0) || math.IsInf(price.dollars, 1) {
			return cli.Usagef("--%s %v: must be a finite number, 0 or more", price.flag, price.dollars)
		}
	}
	return nil
}

// checkFiles returns an error if two flags name the same file, though each needs its own.
func (o *options) checkFiles() error {
	for i, source := range o.sources {
		for _, before := range o.sources[:i] {
			if source == before || cli.SameFile(source, before) {
				return cli.Usagef("--source %s: given twice", source)
			}
		}
	}
	outputs := o.outputs()
	for i, file := range outputs {
		for _, before := range outputs[:i] {
			if file.path != "" && cli.SameFile(file.path, before.path) {
				return cli.Usagef("--%s and --%s write the same file, %s: give each its own", file.flag, before.flag, file.path)
			}
		}
		isSource := func(source string) bool { return cli.SameFile(file.path, source) }
		switch {
		case o.report || file.path == "":
		case slices.ContainsFunc(o.sources, isSource):
			return cli.Usagef("--%s would overwrite %s, which is --source: choose another name", file.flag, file.path)
		case o.ingest != "" && cli.SameFile(file.path, o.ingest):
			return cli.Usagef("--%s would overwrite %s, which is --ingest-batch: choose another name", file.flag, file.path)
		}
	}
	return nil
}

// outputs returns the files that gen may write, each with its flag.
func (o *options) outputs() []struct{ flag, path string } {
	return []struct{ flag, path string }{
		{"out", o.out}, {"out", dataset.CertificatePath(o.out)}, {"out", dataset.RejectsPath(o.out)}, {"card", o.card},
		{"emit-batch", o.emit},
	}
}

// apart returns the files that must not be read as a source's rows: the next run would otherwise read what this one
// writes.
func (o *options) apart() (files []string) {
	if o.report || o.dryRun || o.preview > 0 {
		return nil
	}
	for _, file := range o.outputs() {
		files = append(files, file.path)
	}
	return append(files, o.ingest)
}
