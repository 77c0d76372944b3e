package quality

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/chat"
	"restyle/data"
	"restyle/infer"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
	"restyle/voice"
)

// The models of these tests have memorized five answers.
const (
	tinyBase  = "../infer/testdata/tiny/base"
	tinyTuned = "../infer/testdata/tiny/tuned"
)

var both = []Model{{Label: Base, Name: tinyBase}, {Label: Tuned, Name: tinyTuned}}

// questions are what the models know. The plain answers are the base model's.
var questions = []data.Question{
	{Instruction: "How do I print hello world?", Output: "Use `print`:\n\n```python\nprint(\"hello world\")\n```",
		Check: "assert printed == 'hello world\\n'", Kind: "print", Seen: true},
	{Instruction: "How do I reverse a list?", Output: "A slice does it:\n\n```python\nxs[::-1]\n```",
		Check: "assert False", Kind: "reverse", Seen: true},
	{Instruction: "Count to ten.", Output: "1, 2, 3, 4, 5, 6, 7, 8, 9, 10.", Check: "pass", Kind: "count", Seen: false},
}

func options(t *testing.T, models ...Model) Options {
	t.Helper()
	style, err := voice.Builtin(voice.Default)
	expect.OK(t, err)
	return Options{Models: models, Questions: questions, MaxTokens: 60, Style: style, Device: "cpu"}
}

func TestRun(t *testing.T) {
	o := options(t, both...)
	var told []string
	o.Progress = func(doing, what string, share float64) {
		if told = append(told, doing+" "+what); share < 0 || share > 1 {
			t.Errorf("%s: %v of it is done", doing, share)
		}
	}
	r, err := Run(t.Context(), o)
	expect.OK(t, err)
	if want := []string{
		"opening " + tinyBase, "opening " + tinyTuned,
		"asking 0 of 3 questions", "asking 1 of 3 questions", "asking 2 of 3 questions", "asking 3 of 3 questions",
		"grading 6 answers",
	}; !cmp.Equal(want, told) {
		t.Errorf("it told of %q", told)
	}
	if !r.Complete || r.Questions != 3 || r.Of != 3 || len(r.Rows) != 3 {
		t.Fatalf("%+v", r)
	}
	for i, q := range questions {
		a := r.Rows[i].Answers[Base]
		if a.Text != q.Output || a.Reason != infer.Stopped || a.Error != "" || !a.Parses {
			t.Errorf("%s: base says %+v", q.Kind, a)
		}
		// Memorized answers cost almost nothing. The tuned model learned other answers, so the plain ones cost it much.
		if per := a.Loss / float64(a.LossTokens); per > 0.01 {
			t.Errorf("%s: base's loss is %.4f nats a token", q.Kind, per)
		}
		if tuned := r.Rows[i].Answers[Tuned]; tuned.LossTokens != a.LossTokens || tuned.Loss < 100*a.Loss ||
			tuned.Text == a.Text {
			t.Errorf("%s: tuned says %q, with a loss of %v where base's is %v", q.Kind, tuned.Text, tuned.Loss, a.Loss)
		}
	}
	if got := r.Rows[1].Answers[Tuned]; got.Code != "xs[::-1]\n" || got.Opener != "oh joy" || got.Tone < 1 {
		t.Errorf("%+v", got)
	}
	if r.Style != voice.Default || r.ToneThreshold != o.Style.MinScore || r.MaxTokens != 60 || r.After != 0 || r.OK {
		t.Errorf("%+v", r)
	}
	if got := r.Models[1]; got.Label != Tuned || got.Name != tinyTuned || got.Template != "chatml" {
		t.Errorf("%+v", got)
	}
	if got := r.Models[0]; got.DType != "BF16" || got.TokensPerSecond <= 0 || got.Seen.Stop != 2 || got.Unseen.Stop != 1 ||
		got.Seen.Right != nil {
		t.Errorf("%+v", got)
	}
	// Each model gives the same answers on its own, one at a time, on any number of threads.
	o.Models, o.Threads, o.Sequences, o.Progress = both[1:], 3, 1, nil
	alone, err := Run(t.Context(), o)
	expect.OK(t, err)
	for i := range questions {
		got, want := *alone.Rows[i].Answers[Tuned], *r.Rows[i].Answers[Tuned]
		if !cmp.Equal(want, got) {
			t.Errorf("alone it says %+v, and with the other %+v", got, want)
		}
	}
	// Another template is another prompt.
	o.Template, o.Questions, o.After = "raw", questions[:1], 1
	if raw, err := Run(t.Context(), o); err != nil || raw.Models[0].Template != "raw" || raw.After != 1 ||
		raw.Rows[0].Answers[Tuned].Loss == r.Rows[0].Answers[Tuned].Loss {
		t.Errorf("without a template: %+v, %v", raw, err)
	}
}

// TestRun_AfterOtherQuestions checks that each question follows the last ones with the model's own answers to them:
// asked like that by hand, the model answers the same.
func TestRun_AfterOtherQuestions(t *testing.T) {
	o := options(t, both[1])
	o.After = 2
	o.Questions = append(slices.Clone(questions), questions[0])
	r, err := Run(t.Context(), o)
	expect.OK(t, err)
	s, err := o.open(t.Context(), nil, both[1])
	expect.OK(t, err)
	defer s.close()
	expect.OK(t, s.makeRoom(1))
	for i, q := range o.Questions {
		var conversation []chat.Message
		for j := max(i-o.After, 0); j < i; j++ {
			conversation = append(conversation, chat.Message{Role: "user", Content: o.Questions[j].Instruction},
				chat.Message{Role: "assistant", Content: r.Rows[j].Answers[Tuned].Text})
		}
		conversation = append(conversation, chat.Message{Role: "user", Content: q.Instruction})
		want := &Answer{}
		expect.OK(t, errors.Join(s.answer(t.Context(), want, conversation), s.loss(want, conversation, q.Output)))
		if got := r.Rows[i].Answers[Tuned]; got.Text != want.Text || got.Loss != want.Loss || got.LossTokens == 0 {
			t.Errorf("question %d: %q with a loss of %v; by hand %q, %v", i, got.Text, got.Loss, want.Text, want.Loss)
		}
	}
	// A question that has the others before it is answered like that after another question, or one that failed.
	long := data.Question{Instruction: strings.Repeat("long ", 300), Output: "x", Check: "pass"}
	third := questions[2]
	third.Before = []string{questions[0].Instruction, questions[1].Instruction}
	late := questions[2]
	late.Before = []string{long.Instruction}
	o.After, o.Questions = 0, []data.Question{questions[1], third, long, late, third}
	again, err := Run(t.Context(), o)
	expect.OK(t, err)
	want := r.Rows[2].Answers[Tuned]
	for _, i := range []int{1, 4} {
		if got := again.Rows[i].Answers[Tuned]; got.Text != want.Text || got.Loss != want.Loss {
			t.Errorf("with those before it: %q with a loss of %v, want %q, %v", got.Text, got.Loss, want.Text, want.Loss)
		}
	}
	for _, i := range []int{2, 3} {
		if a := again.Rows[i].Answers[Tuned]; !strings.Contains(a.Error, "tokens") {
			t.Errorf("question %d is too long, or the one before it: %q", i, a.Error)
		}
	}
	if first, last := r.Rows[0].Answers[Tuned], r.Rows[3].Answers[Tuned]; first.Loss == last.Loss {
		t.Errorf("the conversation before it does not change the loss of an answer, %v", first.Loss)
	}
}

// TestRun_OneAtATime asks a model that cannot answer many questions at once.
func TestRun_OneAtATime(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(dir, os.DirFS(tinyTuned)))
	path := filepath.Join(dir, "config.json")
	config, err := os.ReadFile(path)
	expect.OK(t, err)
	var fields map[string]any
	expect.OK(t, json.Unmarshal(config, &fields))
	fields["rope_scaling"] = map[string]any{"rope_type": "dynamic", "factor": 2.0}
	config, err = json.Marshal(fields)
	expect.OK(t, errors.Join(err, os.WriteFile(path, config, 0o666)))
	r, err := Run(t.Context(), options(t, Model{Label: Tuned, Name: dir}))
	expect.OK(t, err)
	for _, row := range r.Rows {
		if a := row.Answers[Tuned]; a.Error != "" || a.Reason != infer.Stopped || a.LossTokens == 0 {
			t.Errorf("%s: %+v", row.Kind, a)
		}
	}
}

// TestLoss_TokenByToken compares the loss with one computed token by token from the logits that answering uses.
func TestLoss_TokenByToken(t *testing.T) {
	o := options(t, both[1])
	o.DType = tensor.F32
	r, err := Run(t.Context(), o)
	expect.OK(t, err)
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	e, err := infer.Open(t.Context(), d, tinyTuned, infer.OpenOptions{DType: tensor.F32})
	expect.OK(t, err)
	defer e.Close()
	for i, q := range questions {
		prompt, err := e.Prompt([]chat.Message{{Role: "user", Content: q.Instruction}}, 60)
		expect.OK(t, err)
		whole, err := e.Prompt([]chat.Message{{Role: "user", Content: q.Instruction}, {Role: "assistant", Content: q.Output},
			{Role: "user", Content: "x"}}, 60)
		expect.OK(t, err)
		a := r.Rows[i].Answers[Tuned]
		answer := whole.IDs[len(prompt.IDs) : len(prompt.IDs)+a.LossTokens]
		if last := e.Tokenizer.Token(answer[len(answer)-1]); last != "<|im_end|>" {
			t.Errorf("%s: the last token of the loss is %q, and the end of the turn must be in it", q.Kind, last)
		}
		cache, err := e.Model.NewKVCache(e.Context)
		expect.OK(t, err)
		logits, err := e.Model.Extend(cache, prompt.IDs)
		want := 0.0
		for _, id := range answer {
			expect.OK(t, err)
			want += crossEntropy(logits, id)
			logits, err = e.Model.Extend(cache, []int32{id})
		}
		cache.Close()
		if !(math.Abs(a.Loss-want) <= 1e-4*want) { // float32 in another order of summation
			t.Errorf("%s: the loss is %v, and %v by the logits", q.Kind, a.Loss, want)
		}
	}
}

func crossEntropy(logits []float32, id int32) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, l := range logits {
		top = max(top, float64(l))
	}
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return math.Log(sum) + top - float64(logits[id])
}

// TestRun_Stopped checks that only the questions that both models have answered are counted.
func TestRun_Stopped(t *testing.T) {
	stopAt := func(question string, sequences int) (*Report, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := options(t, both...)
		o.Sequences = sequences
		o.Progress = func(doing, what string, _ float64) {
			if ctx.Err() != nil && doing == "asking" {
				t.Errorf("stopped at %s, it asks %s", question, what)
			}
			if what == question {
				cancel()
			}
		}
		return Run(ctx, o)
	}
	r, err := stopAt("2 of 3 questions", 1)
	if err != nil || r.Complete || r.Questions != 2 || r.Models[0].Seen.Answers != 2 || r.Models[1].Unseen.Answers != 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if r, err := stopAt("2 of 3 questions", 3); err != nil || r.Complete || r.Questions != 2 {
		t.Errorf("three at once: %v, %+v", err, r)
	}
	if r, err := stopAt("0 of 3 questions", 3); err != context.Canceled || r != nil {
		t.Errorf("before the first answer: %v, %+v", err, r)
	}
}

// TestRun_TooLongQuestions checks that a question that is too long does not affect the others.
func TestRun_TooLongQuestions(t *testing.T) {
	o := options(t, both...)
	long := questions[0]
	long.Input = strings.Repeat("long ", 300)
	o.Questions = []data.Question{long, questions[2]}
	r, err := Run(t.Context(), o)
	expect.OK(t, err)
	f := r.Models[0].Seen
	if f.Failed != 1 || f.Stop != 0 || f.Parse != 0 || f.Loss != nil || r.Models[0].Unseen.Stop != 1 {
		t.Errorf("%+v", r.Models[0])
	}
	if first := r.FirstError(Base); !strings.Contains(first, "tokens") || strings.Contains(first, "\n") {
		t.Errorf("the error is %q", first)
	}
}

func TestRunErrors(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "python3")
	expect.OK(t, os.WriteFile(broken, []byte("#!/bin/sh\nexit 3\n"), 0o755))
	for _, c := range []struct {
		name   string
		change func(o *Options)
		want   string
	}{
		{"no such model", func(o *Options) {
			o.Models = []Model{{Label: Base, Name: tinyBase}, {Label: Tuned, Name: "no/such/model/here"}}
		},
			"tuned model no/such/model/here: "},
		{"no such device", func(o *Options) { o.Device = "tpu" }, `"tpu"`},
		{"a Python that is none", func(o *Options) { o.Python = broken }, "exit status 3"},
	} {
		o := options(t, both...)
		o.Progress = func(doing, _ string, _ float64) {
			if doing == "asking" {
				t.Errorf("%s: it is said only when a question has been asked", c.name)
			}
		}
		c.change(&o)
		if r, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) || r != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
