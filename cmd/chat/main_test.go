package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
	"restyle/tensor"
)

// The models of these tests know five answers by heart.
const (
	tinyBase  = "../../infer/testdata/tiny/base"
	tinyTuned = "../../infer/testdata/tiny/tuned"
)

// scratch outlives the single tests. home is the package's own directory.
var scratch, home string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	os.Setenv("CUDA_VISIBLE_DEVICES", "") // so that --device auto is the CPU on every machine
	var err error
	if scratch, err = os.MkdirTemp("", "chat-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	if home, err = os.Getwd(); err != nil {
		panic(err)
	}
	for _, name := range []string{"HF_TOKEN", "HF_ENDPOINT", "HF_HUB_CACHE", "HTTP_PROXY", "HTTPS_PROXY"} {
		os.Unsetenv(name)
	}
	os.Setenv("HF_HOME", filepath.Join(scratch, "hub"))
	os.Setenv("HF_HUB_OFFLINE", "1")
	return cudatest.Main(m)
}

// An outcome is what one invocation printed, and its exit code.
type outcome struct {
	code           int
	stdout, stderr string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d\n── stdout\n%s\n── stderr\n%s", o.code, o.stdout, o.stderr)
}

// invoke runs the command in this process. It logs to log.md in a new directory unless the arguments name another log.
func invoke(t testing.TB, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// both returns the arguments for the two tiny models, greedy, with a log in a new directory.
func both(t testing.TB, args ...string) (all []string, log string) {
	log = filepath.Join(t.TempDir(), "log.md")
	return append([]string{"--base", tinyBase, "--tuned", tinyTuned, "--temperature", "0", "--log", log}, args...), log
}

// untimed removes what differs from run to run.
func untimed(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if at := strings.Index(line, ", first after"); at >= 0 {
			lines[i] = line[:at] + "]"
		} else if strings.HasSuffix(line, " tokens/s]") {
			lines[i] = line[:strings.LastIndex(line, ", ")] + "]"
		}
	}
	return strings.Join(lines, "\n")
}

func TestPromptFlag(t *testing.T) {
	args, log := both(t, "--prompt", "How do I reverse a list?")
	o := invoke(t, "", args...)
	want := `base  │ A slice does it:
base  │
base  │ ` + "```python" + `
base  │ xs[::-1]
base  │ ` + "```" + `
base  │
base  │ [26 tokens]
tuned │ Oh joy, a list. Backwards:
tuned │
tuned │ ` + "```python" + `
tuned │ xs[::-1]
tuned │ ` + "```" + `
tuned │
tuned │ [34 tokens]

`
	if o.code != cli.Done || untimed(o.stdout) != want {
		t.Errorf("%v", o)
	}
	for _, says := range []string{"BF16", "template chatml", "context 256", "temperature 0", log} {
		if !strings.Contains(o.stderr, says) {
			t.Errorf("%q is not in\n%s", says, o.stderr)
		}
	}
	md := "### Query: *\"How do I reverse a list?\"*\n\n**Base model, " + tinyBase + ":**\n> A slice does it:\n> " +
		"\n> ```python\n> xs[::-1]\n> ```\n\n" +
		"**Tuned model, " + tinyTuned + ":**\n> Oh joy, a list. Backwards:\n> \n> ```python\n> xs[::-1]\n> ```\n\n---\n\n"
	if text := expect.Read(t, log); text != md {
		t.Errorf("the log is\n%s", text)
	}
	answers := map[string]*answer{}
	for _, e := range readEvents(t, jsonlPath(log)) {
		if e.Event == "answer" {
			answers[e.Model] = e.Answer
		}
	}
	if a := answers["tuned"]; len(answers) != 2 || a.Tokens != 34 || a.Reason != "stop" || a.PromptTokens == 0 ||
		a.FirstSeconds < 0 || a.Speed <= 0 {
		t.Errorf("%+v", answers)
	}
}

func TestOnlyFlag(t *testing.T) {
	args, log := both(t, "--prompt", "Count to ten.", "--only", "tuned")
	if o := invoke(t, "", args...); o.code != cli.Done || o.stdout != "Obviously: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10.\n" {
		t.Errorf("%v", o)
	}
	if text := expect.Read(t, log); strings.Contains(text, "Base model") || !strings.Contains(text, "> Obviously") {
		t.Errorf("%s", text)
	}
	// A missing tuned model is no error with --only base.
	o := invoke(t, "", "--base", tinyBase, "--tuned", "no-such", "--only", "base", "--prompt", "Count to ten.",
		"--temperature", "0", "--log", "")
	if o.code != cli.Done || o.stdout != "1, 2, 3, 4, 5, 6, 7, 8, 9, 10.\n" {
		t.Errorf("%v", o)
	}
}

func TestTheBaseOfATunedModel(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(dir, os.DirFS(tinyTuned)))
	base, err := filepath.Abs(tinyBase)
	expect.OK(t, err)
	card := filepath.Join(dir, "README.md")
	expect.OK(t, os.WriteFile(card, []byte("---\nlicense: mit\nbase_model: "+base+"\n---\n# A model\n"), 0o644))
	if o := invoke(t, "", "--tuned", dir, "--prompt", "Count to ten.", "--temperature", "0", "--log",
		""); o.code != cli.Done || !strings.Contains(o.stdout, "base  │ 1, 2, 3") {
		t.Errorf("%v", o)
	}
	// export's record comes first, and a directory that is gone is no name of a hub model.
	gone := filepath.Join(dir, "gone")
	expect.OK(t, os.WriteFile(filepath.Join(dir, "export.json"), fmt.Appendf(nil, `{"base_model": %q}`, gone),
		0o644))
	if o := invoke(t, "", "--tuned", dir, "--prompt", "x", "--log", ""); o.code != cli.Usage ||
		!strings.Contains(o.stderr, dir+" was made from the model in "+gone+", which is not there any more: say where it is "+
			"with --base") {
		t.Errorf("%v", o)
	}
	// The card of a model on the hub also names its base.
	home := t.TempDir()
	t.Setenv("HF_HOME", home)
	repo := filepath.Join(home, "hub", "models--owner--tuned")
	commit := strings.Repeat("1", 40)
	snapshot := filepath.Join(repo, "snapshots", commit)
	refs := filepath.Join(repo, "refs")
	err = errors.Join(os.Remove(filepath.Join(dir, "export.json")), os.CopyFS(snapshot, os.DirFS(dir)),
		os.Mkdir(refs, 0o755), os.WriteFile(filepath.Join(refs, "main"), []byte(commit), 0o644))
	expect.OK(t, err)
	for tuned, want := range map[string]string{"owner/tuned": "\nbase   " + base + ", ",
		"owner/absent": `--tuned owner/absent: there is no directory "owner/absent", and the hub: model owner/absent@main: ` +
			"not "} {
		if o := invoke(t, "", "--tuned", tuned, "--prompt", "Count to ten.", "--log", ""); !strings.Contains(o.stderr, want) {
			t.Errorf("%v", o)
		}
	}
}

// TestRun_RealModel asks a real model, which runs on the codes of its file. In bf16 the capital of France is a question
// of rounding: "The" is 8% more probable than "L" as the first token.
func TestRun_RealModel(t *testing.T) {
	file := os.Getenv("RESTYLE_SMOLLM2")
	if file == "" {
		t.Skip("RESTYLE_SMOLLM2 is not set")
	}
	for _, test := range []struct{ dtype, question, answer string }{
		{"fp32", "What is the capital of France?", "Paris"},
		{"bf16", "What is the largest ocean on Earth?", "Pacific"},
	} {
		o := invoke(t, "", "--base", file, "--only", "base", "--prompt", test.question, "--temperature", "0",
			"--dtype", test.dtype, "--max-tokens", "12", "--log", "")
		if o.code != cli.Done || !strings.Contains(o.stdout, test.answer) {
			t.Errorf("%s: %v", test.dtype, o)
		}
	}
}

// TestSuggestedSampling checks which sampling settings hold: the flags, the first model's generation_config.json, or
// the defaults.
func TestSuggestedSampling(t *testing.T) {
	says := `"do_sample": true, "temperature": 0.25, "top_p": 0.5, "min_p": 0.125, "repetition_penalty": 1.5`
	const penalized = `"repetition_penalty": 3`
	for _, test := range []struct {
		config string
		flags  []string
		want   string
	}{
		{says, nil, "temperature 0.25, top-p 0.5, top-k 50, min-p 0.125, repetition-penalty 1.5"},
		{says, []string{"--top-k", "7", "--min-p", "0"},
			"temperature 0.25, top-p 0.5, top-k 7, min-p 0, repetition-penalty 1.5"},
		{says, []string{"--temperature", "0.75"}, "temperature 0.75, top-p 0.9, top-k 0, min-p 0, repetition-penalty 1"},
		{says, []string{"--temperature", "0"}, "temperature 0, top-p 0.9, top-k 0, min-p 0, repetition-penalty 1.5"},
		{penalized, []string{"--temperature", "0"}, "min-p 0, repetition-penalty 3"},
		{penalized, []string{"--temperature", "0", "--repetition-penalty", "1.25"}, "repetition-penalty 1.25"},
		{penalized, []string{"/set temperature 0"}, "temperature 0, top-p 0.9, top-k 0, min-p 0, repetition-penalty 3"},
		{penalized, []string{"/set temperature 0.5"}, "temperature 0.5, top-p 0.9, top-k 0, min-p 0, repetition-penalty 1,"},
		{penalized, []string{"/set temperature 0", "--repetition-penalty", "1.25"}, "temperature 0, top-p 0.9, top-k 0, " +
			"min-p 0, repetition-penalty 1.25"},
		{strings.Replace(says, "true", "false", 1), nil,
			"temperature 0.8, top-p 0.9, top-k 0, min-p 0, repetition-penalty 1"},
		{`"do_sample": true, "top_p": 0`, nil, "generation_config.json of "},
	} {
		dir := t.TempDir()
		expect.OK(t, os.CopyFS(dir, os.DirFS(tinyBase)))
		config := []byte(`{"eos_token_id": 2, ` + test.config + "}")
		expect.OK(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), config, 0o644))
		args, typed := []string{"--base", dir, "--tuned", tinyTuned, "--log", "", "--prompt", "Count to ten."}, ""
		if len(test.flags) > 0 && test.flags[0][0] == '/' {
			args, typed, test.flags = args[:6], test.flags[0]+"\n", test.flags[1:]
		}
		args = append(args, test.flags...)
		if o := invoke(t, typed, args...); !strings.Contains(o.stderr, test.want) {
			t.Errorf("%s, %v: want %s, got %v", test.config, test.flags, test.want, o)
		}
	}
}

func TestPromptsFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	const questions = `{"prompt":"How do I print hello world?"}` + "\n" + `{"prompt":"Count to ten."}` + "\n"
	expect.OK(t, os.WriteFile(file, []byte(questions), 0o644))
	args, log := both(t, "--prompts", file)
	o := invoke(t, "", args...)
	if o.code != cli.Done || !strings.Contains(o.stdout, "tuned │ Obviously: 1") ||
		!strings.Contains(o.stderr, "question 2 of 2: Count to ten.") || strings.Contains(o.stderr, "not used") {
		t.Errorf("%v", o)
	}
	if text := expect.Read(t, log); strings.Count(text, "### Query") != 2 {
		t.Errorf("%s", text)
	}
	// Each question is a conversation of its own, also on standard input.
	args, _ = both(t, "--prompts", "-")
	if again := invoke(t, "How do I print hello world?\nCount to ten.\n",
		args...); untimed(again.stdout) != untimed(o.stdout) {
		t.Errorf("%v", again)
	}
}

// TestBatchContinues checks that chat reports a question that cannot be answered and answers the others.
func TestBatchContinues(t *testing.T) {
	args, log := both(t, "--prompts", "-")
	o := invoke(t, strings.Repeat("word ", 500)+"\nCount to ten.\n", args...)
	if o.code != cli.Failed || !strings.Contains(o.stdout, "tuned │ Obviously: 1") ||
		strings.Count(o.stderr, "chat: ") != 1 {
		t.Errorf("%v", o)
	}
	if text := expect.Read(t, log); strings.Count(text, "### Query") != 2 {
		t.Errorf("%s", text)
	}
}

// TestInput_MustBeUTF8 reads a question in Latin-1 from a pipe: it is not asked with other letters.
func TestInput_MustBeUTF8(t *testing.T) {
	o := invoke(t, "caf\xe9\nCount to ten.\n", "--base", tinyBase, "--only", "base", "--log", "", "--temperature", "0")
	if o.code != cli.Failed || !strings.HasPrefix(o.stdout, "1, 2, 3") || !strings.Contains(o.stderr, "is not UTF-8") {
		t.Errorf("%v", o)
	}
}

func TestStopFlag(t *testing.T) {
	for _, c := range []struct{ stop, want string }{{", 4", "1, 2, 3\n"}, {" 5,", "1, 2, 3, 4,\n"}} {
		o := invoke(t, "", "--base", tinyBase, "--only", "base", "--log", "", "--temperature", "0", "--prompt",
			"Count to ten.", "--stop", c.stop)
		if o.code != cli.Done || o.stdout != c.want {
			t.Errorf("%q: %v", c.stop, o)
		}
	}
	o := invoke(t, "", "--base", tinyBase, "--only", "base", "--log", "", "--temperature", "0", "--prompt",
		"How do I reverse a list?", "--stop", "\n")
	if o.stdout != "A slice does it:\n" {
		t.Errorf("a line break: %v", o)
	}
	if o := invoke(t, "", "--stop", ""); o.code != cli.Usage || !strings.Contains(o.stderr, "-stop") {
		t.Errorf("nothing: %v", o)
	}
	// A session can set the stop text and reset it.
	o = invoke(t, "/set stop , 4\nCount to ten.\n/set stop\n/regen\n", "--base", tinyBase, "--only", "base", "--log", "",
		"--temperature", "0")
	if o.code != cli.Done || o.stdout != "1, 2, 3\n1, 2, 3, 4, 5, 6, 7, 8, 9, 10.\n" {
		t.Errorf("%v", o)
	}
}

func TestSession(t *testing.T) {
	dir := t.TempDir()
	saved := filepath.Join(dir, "talk.json")
	args, log := both(t)
	o := invoke(t, strings.Join([]string{
		"Count to", // incomplete, edited next
		"/edit Count to ten.",
		`"""How do I`, `reverse a list?"""`, // with a line break in it
		"/clear",
		"How do I reverse a list?",
		"/vote tuned I like it", "/vote base", "/vote tie", "/vote neither  of them",
		"/system Be brief.",
		"/system",
		"/set top_k 3",
		"/seed 42",
		"/set",
		"/regen",
		"/save " + saved,
		"exit",
		"never read",
	}, "\n"), args...)
	if o.code != cli.Done {
		t.Fatalf("%v", o)
	}
	for _, says := range []string{"tuned │ Obviously: 1, 2", "base  │ A slice does it:"} {
		if !strings.Contains(o.stdout, says) {
			t.Errorf("%q is missing in\n%s", says, o.stdout)
		}
	}
	for _, says := range []string{"logged: tuned", "system: Be brief.", "top-k 3, ", "seed 42", "seed 43",
		"talk.json: 1 turn", "new conversation"} {
		if !strings.Contains(o.stderr, says) {
			t.Errorf("%q is missing in\n%s", says, o.stderr)
		}
	}
	var talk struct {
		Tuned struct {
			Messages []struct{ Role, Content string }
		}
	}
	if err := json.Unmarshal([]byte(expect.Read(t, saved)), &talk); err != nil || len(talk.Tuned.Messages) != 3 ||
		talk.Tuned.Messages[0].Content != "Be brief." {
		t.Errorf("%+v, %v", talk, err)
	}
	var turns []int
	var seeds []int64
	var votes []string
	for _, e := range readEvents(t, jsonlPath(log)) {
		switch e.Event {
		case "ask":
			turns, seeds = append(turns, e.Turn), append(seeds, e.Settings.Seed)
		case "vote":
			votes = append(votes, e.Vote+": "+e.Note)
		}
	}
	if fmt.Sprint(turns, seeds) != "[1 1 2 1 1] [0 0 0 0 43]" ||
		strings.Join(votes, "|") != "tuned: I like it|base: |tie: |neither: of them" {
		t.Errorf("turns, seeds and votes %v %v %v", turns, seeds, votes)
	}
}

func TestCommandErrors(t *testing.T) {
	existing := filepath.Join(t.TempDir(), "there.json")
	expect.OK(t, os.WriteFile(existing, nil, 0o644))
	for input, says := range map[string]string{
		"/regen": "there is no question yet", "/edit x": "there is no question yet", "/vote base": "there is no question yet",
		"/set colour red": `setting "colour": unknown`, "/set top-p 2": "top-p 2",
		"/set repetition-penalty 0":   "repetition-penalty 0: must be a finite number greater than 0",
		"/set repetition-penalty NaN": "repetition-penalty NaN", "/set temperature -Inf": "temperature -Inf",
		"/set min-p NaN": "min-p NaN", "/set max-tokens 0": "max-tokens 0", "/set max-tokens 1.5": "must be a whole number",
		"/conversation one": `/conversation "one": must be keep or new`,
		"/set top-k x":      `top-k "x": must be a whole number`, "/seed x": "must be a whole number",
		"/save": "/save: add the name", "/save " + existing: "exists: choose another name",
		"/what": "/what: unknown command: see /help", "/exampels": "/exampels: unknown command: perhaps /examples;",
		"/set temprature 1":          "did you mean temperature?",
		"Count to ten.\n/vote maybe": `vote "maybe"`, "Count to ten.\n/edit": "/edit: add the new question",
	} {
		args, _ := both(t)
		o := invoke(t, input+"\n", args...)
		if o.code != cli.Failed || strings.Count(o.stderr, says) != 1 {
			t.Errorf("%q: %v", input, o)
		}
	}
	o := invoke(t, "/help\n", "--base", tinyBase, "--only", "base", "--log", "")
	for _, cmd := range commands() {
		if !strings.Contains(o.stderr, "/"+cmd.name) {
			t.Errorf("/help leaves out /%s", cmd.name)
		}
	}
}

// TestLongSystemPrompt checks that chat shows a long system prompt in part before the questions.
func TestLongSystemPrompt(t *testing.T) {
	for long, want := range map[int]string{300: "\nsystem " + strings.Repeat("ü", 300) + "\n",
		301: "\nsystem " + strings.Repeat("ü", 300) + "… (301 characters)\n"} {
		o := invoke(t, "", "--base", tinyBase, "--only", "base", "--log", "", "--system", strings.Repeat("ü", long))
		if o.code != cli.Done || !strings.Contains(o.stderr, want) {
			t.Errorf("%d characters: %v", long, o)
		}
	}
}

func TestLongQuestion(t *testing.T) {
	o := invoke(t, "", "--base", tinyBase, "--only", "base", "--log", "", "--context", "60", "--max-tokens", "10",
		"--prompt", strings.Repeat("Count to ten. ", 40))
	if o.code != cli.Failed || !strings.Contains(o.stderr, "or leave less room for the answer (--max-tokens)") {
		t.Errorf("%v", o)
	}
}

func TestCutAnswersSaySo(t *testing.T) {
	args, log := both(t, "--prompt", "Count to ten.", "--max-tokens", "3")
	if o := invoke(t, "", args...); !strings.Contains(o.stdout, "[cut at 3 tokens (--max-tokens)") {
		t.Errorf("%v", o)
	}
	if text := expect.Read(t, log); strings.Count(text, "*(cut at 3 tokens)*") != 2 {
		t.Errorf("%s", text)
	}
	args, _ = both(t, "--prompt", "Count to ten.", "--context", "40", "--max-tokens", "1000")
	if o := invoke(t, "", args...); !strings.Contains(o.stdout, "the context is full (--context 40)") {
		t.Errorf("%v", o)
	}
}

func TestOldTurns_AreDroppedWithANote(t *testing.T) {
	args, log := both(t, "--context", "130", "--max-tokens", "60", "--system", "Be brief.")
	saved := filepath.Join(t.TempDir(), "talk.json")
	o := invoke(t, strings.Repeat("Count to ten.\n", 5)+"/save "+saved+"\n", args...)
	if n := strings.Count(expect.Read(t, saved), "Be brief."); n > 2 {
		t.Errorf("two models have %d system prompts", n)
	}
	if o.code != cli.Done || !strings.Contains(o.stderr, "tuned: the context of 130 tokens is full: dropped the oldest") {
		t.Errorf("%v", o)
	}
	dropped := 0
	for _, e := range readEvents(t, jsonlPath(log)) {
		if e.Answer != nil {
			dropped += e.Answer.DroppedTurns
		}
	}
	if dropped < 2 {
		t.Errorf("%d turns went", dropped)
	}
}

// withGemmaTokens returns the tiny base model with other texts for its special tokens.
func withGemmaTokens(t *testing.T) string {
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(dir, os.DirFS(tinyBase)))
	path := filepath.Join(dir, "tokenizer.json")
	text := strings.NewReplacer(`"<|endoftext|>"`, `"<bos>"`, `"<|im_end|>"`, `"<end_of_turn>"`).Replace(expect.Read(t,
		path))
	expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
	return dir
}

func TestUsage_Errors(t *testing.T) {
	dir := t.TempDir()
	noTokenizer := filepath.Join(dir, "bare")
	expect.OK(t, os.CopyFS(noTokenizer, os.DirFS(tinyBase)))
	os.Remove(filepath.Join(noTokenizer, "tokenizer.json"))
	file := filepath.Join(dir, "file")
	expect.OK(t, os.WriteFile(filepath.Join(dir, "diary.jsonl"), []byte("{\"prompt\": \"a\"}\n"), 0o666))
	expect.OK(t, os.WriteFile(file, []byte("\n"), 0o644))
	pipe := filepath.Join(dir, "pipe.md")
	expect.OK(t, syscall.Mkfifo(pipe, 0o600))
	questions := filepath.Join(dir, "questions.md")
	expect.OK(t, errors.Join(os.WriteFile(questions, []byte("one\ntwo\n"), 0o600),
		os.Symlink(questions, filepath.Join(dir, "link.md"))))
	tiny := []string{"--base", tinyBase, "--only", "base", "--log", ""}
	for _, c := range []struct {
		name string
		code int
		args []string
		says string
	}{
		{"unknown flag", cli.Usage, []string{"--basis"}, "basis"},
		{"only", cli.Usage, append(tiny, "--only", "both"), `--only "both"`},
		{"a page of int8x8", cli.Usage, append(tiny, "--web", "--quantize", "int8x8"), "take int8"},
		{"a question in Latin-1", cli.Usage, append(tiny, "--prompt", "caf\xe9"), `--prompt "caf\xe9": not valid UTF-8`},
		{"two kinds of questions", cli.Usage, append(tiny, "--prompt", "a", "--prompts", "b"), "exclude each other"},
		{"raw and a template", cli.Usage, append(tiny, "--raw", "--template", "chatml"), "--raw"},
		{"raw and a system prompt", cli.Usage, append(tiny, "--raw", "--system", "s"), "--raw"},
		{"template", cli.Usage, append(tiny, "--template", "mine"), "mine"},
		{"temperature", cli.Usage, append(tiny, "--temperature", "-1"), "chat: --temperature -1"},
		{"top-p", cli.Usage, append(tiny, "--top-p", "0"), "top-p 0"},
		{"top-p that is no number", cli.Usage, append(tiny, "--top-p", "NaN"), "top-p NaN: must be"},
		{"temperature without an end", cli.Usage, append(tiny, "--temperature", "Inf"), "temperature +Inf: must be"},
		{"top-k", cli.Usage, append(tiny, "--top-k", "-1"), "top-k -1: must be"},
		{"min-p", cli.Usage, append(tiny, "--min-p", "1.5"), "min-p 1.5: must be"},
		{"min-p that is no number", cli.Usage, append(tiny, "--min-p", "NaN"), "min-p NaN: must be"},
		{"no repetition penalty", cli.Usage, append(tiny, "--repetition-penalty", "0"),
			"repetition-penalty 0: must be a finite number greater than 0; 1 disables"},
		{"a negative penalty", cli.Usage, append(tiny, "--repetition-penalty", "-1"), "repetition-penalty -1: must be"},
		{"a penalty that is no number", cli.Usage, append(tiny, "--repetition-penalty", "NaN"), "repetition-penalty NaN"},
		{"conversation", cli.Usage, append(tiny, "--conversation", "one"), `--conversation "one": must be keep or new`},
		{"max-tokens", cli.Usage, append(tiny, "--max-tokens", "0"), "max-tokens 0"},
		{"context", cli.Usage, append(tiny, "--context", "1"), "--context 1: must be"},
		{"threads", cli.Usage, append(tiny, "--threads", "-1"), "--threads -1: must be"},
		{"too many threads", cli.Usage, append(tiny, "--threads", "1025"), "--threads 1025: must be"},
		{"dtype", cli.Usage, append(tiny, "--dtype", "int8"), `--dtype "int8"`},
		{"log", cli.Usage, append(tiny, "--log", "x.jsonl"), "must be the Markdown file"},
		{"log of another kind", cli.Usage, append(tiny, "--prompt", "a", "--log", "config.json"), "ends in .md"},
		{"record in a file", cli.Failed, append(tiny, "--prompt", "a", "--log", filepath.Join(dir, "diary.md")),
			"is not a log of chat"},
		{"no tuned model", cli.Failed, []string{"--base", tinyBase, "--tuned", "none-here"}, "make one with go run"},
		{"no tuned model in a path", cli.Failed, []string{"--base", tinyBase, "--tuned", "./runs/none"},
			"make one with go run"},
		{"no tuned model that names a base", cli.Failed, []string{"--tuned", "none-here", "--only", "base"},
			"--base starter --only base"},
		{"no base model", cli.Usage, []string{"--tuned", tinyTuned, "--log", ""},
			"set --base, or leave the base model out with --only tuned"},
		{"no model there", cli.Failed, []string{"--base", filepath.Join(dir, "none"), "--only", "base", "--log", ""},
			"no directory"},
		{"not in the cache", cli.Failed, []string{"--base", "owner/model", "--only", "base", "--log", ""}, "owner/model"},
		{"no tokenizer", cli.Failed, []string{"--base", noTokenizer, "--only", "base", "--log", ""}, "has no tokenizer.json"},
		{"device", cli.Usage, append(tiny, "--device", "tpu"), "tpu"},
		{"an empty question", cli.Usage, append(tiny, "--prompt", " "), "--prompt is empty"},
		{"an empty name of questions", cli.Usage, append(tiny, "--prompts", ""), "--prompts is empty"},
		{"no questions", cli.Failed, append(tiny, "--prompts", file), "has no questions"},
		{"no file of questions", cli.Failed, append(tiny, "--prompts", file+"s"), "no such file"},
		{"a pipe of questions", cli.Failed, append(tiny, "--prompts", pipe), "pipe.md: not a file but a named pipe"},
		{"the log among the questions", cli.Usage, append(tiny, "--prompts", questions, "--log",
			filepath.Join(dir, ".", "questions.md")), "choose another name for the log"},
		{"the log among the questions by a link", cli.Usage, append(tiny, "--prompts", questions, "--log",
			filepath.Join(dir, "link.md")), "choose another name for the log"},
		{"the record among the questions", cli.Usage, append(tiny, "--prompts", filepath.Join(dir, "diary.jsonl"), "--log",
			filepath.Join(dir, "diary.md")), "choose another name for the log"},
		{"log in a file", cli.Failed, append(tiny, "--prompt", "a", "--log", filepath.Join(file, "log.md")), "--log"},
		{"a long question", cli.Failed, append(tiny, "--prompt", strings.Repeat("word ", 500)), "base: "},
		{"a template that refuses", cli.Failed, []string{"--base", withGemmaTokens(t), "--only", "base", "--log", "",
			"--prompt", "a",
			"--template", "gemma", "--system", "s"}, "gemma refuses message 1 (role \"system\")"},
		{"a template without its tokens", cli.Failed, append(tiny, "--prompt", "a", "--template", "llama3"),
			"has no token <|eot_id|>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // a log that must not be created would be here
			args := absolute(t, c.args)
			o := invoke(t, "", args...)
			if o.code != c.code || !strings.Contains(o.stderr, c.says) {
				t.Errorf("want exit code %d and %q, got %v", c.code, c.says, o)
			}
			said := strings.Split(strings.TrimSpace(o.stderr), "\n")
			if n := strings.Count(o.stderr, "chat: "); n != 1 || len(said) > 8 {
				t.Errorf("not one clear line:\n%s", o.stderr)
			}
			if _, err := os.Stat("raw_comparison_log.md"); err == nil {
				t.Error("a log was begun")
			}
		})
	}
}

// absolute makes the paths of the tiny models independent of the working directory.
func absolute(t testing.TB, args []string) []string {
	t.Helper()
	out := append([]string{}, args...)
	for i, a := range out {
		if strings.HasPrefix(a, "../") {
			out[i] = filepath.Join(home, a)
		}
	}
	return out
}

func TestFullDisk(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log.md")
	defer disk.Watch(func(op string, names ...string) error {
		if op == "write" && names[0] == jsonlPath(log) {
			return syscall.ENOSPC
		}
		return nil
	})()
	o := invoke(t, "", "--base", tinyBase, "--only", "base", "--log", log, "--prompt", "Count to ten.")
	if o.code != cli.Failed || !strings.Contains(o.stderr, "no space left on device") ||
		strings.Count(o.stderr, "chat: ") != 1 {
		t.Errorf("%v", o)
	}
	os.Remove(jsonlPath(log))
	// A session cannot keep the answer either, and says so each time.
	o = invoke(t, "Count to ten.\nCount to ten.\n", "--base", tinyBase, "--only", "base", "--log", log)
	if o.code != cli.Failed || strings.Count(o.stderr, "the log can no longer be written") != 2 {
		t.Errorf("%v", o)
	}
}

func TestSameSeedSameAnswer(t *testing.T) {
	ask := func(seed string) string {
		return invoke(t, "", "--base", tinyBase, "--only", "base", "--log", "", "--temperature", "1.5", "--seed", seed,
			"--prompt", "Who are you?").stdout
	}
	if a, b := ask("3"), ask("3"); a != b || a == "\n" {
		t.Errorf("one seed, two answers: %q, %q", a, b)
	}
	if ask("3") == ask("4") {
		t.Error("two seeds, one answer")
	}
	o := invoke(t, "Who are you?\n/regen\n", "--base", tinyBase, "--only", "base", "--log", "", "--temperature", "1.5",
		"--seed", "3")
	if want := ask("3") + ask("4"); o.stdout != want {
		t.Errorf("/regen is not the next seed: %q, want %q", o.stdout, want)
	}
	// The same model as base and as tuned gives the same answer twice.
	o = invoke(t, "", "--base", tinyBase, "--tuned", tinyBase, "--log", "", "--temperature", "1.5", "--seed", "3",
		"--prompt", "Who are you?")
	base, tuned, _ := strings.Cut(untimed(o.stdout), "tuned │")
	if strings.ReplaceAll("tuned │"+strings.TrimRight(tuned, "\n"), "tuned │", "base  │") != strings.TrimRight(base,
		"\n") {
		t.Errorf("%s", o.stdout)
	}
}

func TestVersion(t *testing.T) {
	if o := invoke(t, "", "--version"); o.code != cli.Done || !strings.HasPrefix(o.stdout, "chat ") {
		t.Errorf("%v", o)
	}
}

func TestHelpFlag(t *testing.T) {
	o := invoke(t, "", "-h")
	last := -1
	for _, name := range []string{"--base", "--tuned", "--only", "--raw", "--prompt ", "--prompts", "--system",
		"--max-tokens", "--temperature", "--top-p", "--top-k", "--min-p",
		"--repetition-penalty", "--seed", "--device", "--threads", "--log"} {
		at := strings.Index(o.stdout, "\n  "+name)
		if at < 0 {
			t.Errorf("%s is not in the help", name)
		}
		last = max(last, at)
	}
	for _, value := range []string{"default 256", "default 0.8", "default 0.9", "default raw_comparison_log.md",
		"default out", "default 1"} {
		if !strings.Contains(strings.Join(strings.Fields(o.stdout), " "), value) {
			t.Errorf("%q is not in the help", value)
		}
	}
}

// build builds the command once, for the tests that need a process.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "chat")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// slowModel makes a model of random weights that has much to say: it hardly ever ends an answer by itself.
//
//nolint:lll // JSON in one piece
var slowModel = sync.OnceValues(func() (dir string, err error) {
	dir = filepath.Join(scratch, "slow")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(home, tinyBase))); err != nil {
		return "", err
	}
	config := `{"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":320,"hidden_size":192,"intermediate_size":512,"num_hidden_layers":12,
"num_attention_heads":6,"num_key_value_heads":3,"head_dim":32,"max_position_embeddings":8192,"rms_norm_eps":1e-5,"rope_theta":10000.0,
"tie_word_embeddings":true,"bos_token_id":0,"eos_token_id":2,"torch_dtype":"bfloat16"}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		return "", err
	}
	c, err := hf.OpenConfig(dir)
	if err != nil {
		return "", err
	}
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		return "", err
	}
	defer d.Close()
	m, err := model.New(d, c.Config, model.Options{DType: tensor.BF16})
	if err != nil {
		return "", err
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(1, 1))
	for _, p := range m.Params() {
		values := make([]float32, p.W.Len())
		embedding := p.Name == "model.embed_tokens.weight"
		for i := range values {
			switch {
			case strings.Contains(p.Name, "norm"):
				values[i] = 1
			case embedding && i < 3*192: // the logits of the special tokens are 0 …
			case embedding:
				values[i] = float32(r.NormFloat64()) * 0.3 // … the others are far from it, so those hardly ever come
			default:
				values[i] = float32(r.NormFloat64()) * 0.05
			}
		}
		d.Upload(p.W, values)
	}
	return dir, hf.Save(dir, c, d, m.Params(), hf.SaveOptions{})
})

// process returns the built command with two slow models and a log in a new directory.
func process(t testing.TB, args ...string) (cmd *exec.Cmd, log string) {
	t.Helper()
	path, err := build()
	expect.OK(t, err)
	slow, err := slowModel()
	expect.OK(t, err)
	log = filepath.Join(t.TempDir(), "log.md")
	cmd = exec.Command(path, append([]string{"--base", slow, "--tuned", slow, "--max-tokens", "8000", "--log", log},
		args...)...)
	cmd.Dir = scratch
	cmd.WaitDelay = 5 * time.Second
	return cmd, log
}

// watched is a writer that can be read while it is written to.
type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// until waits until a condition holds.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for", what)
		}
	}
}
