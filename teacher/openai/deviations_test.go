package openai

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"restyle/internal/expect"
)

// chunk returns an event whose only choice has these fields.
func chunk(choice string) string { return `{"id":"c1","choices":[{"index":0,` + choice + `}]}` }

// saying returns an event with text, and further fields of its choice.
func saying(text, more string) string {
	return chunk(fmt.Sprintf(`"delta":{"content":%q}%s`, text, more))
}

// A deviation is a body that deviates from OpenAI's format. An answer is complete if its text is.
type deviation struct {
	name     string
	want     string // the text if there is an answer, else part of the failure's message
	finish   string // "" if there is no answer
	deviates string // part of what is said about it
	body     string
}

// deviations returns the deviations in testdata/deviations.txt. STOP is the event that ends an answer.
func deviations(t testing.TB) (list []deviation) {
	for _, c := range expect.Cases(t, "testdata/deviations.txt", "want", "finish", "deviates", "event", "body") {
		body := c.Get("body")
		for _, event := range c.All("event") {
			body += events(strings.Replace(event, "STOP", finishStop, 1))
		}
		list = append(list, deviation{c.Name, c.Get("want"), c.Get("finish"), c.Get("deviates"), body})
	}
	return list
}

// TestDeviations_AreRead reads each body as the response to a request, in one piece and in bytes, and as a batch
// result.
func TestDeviations_AreRead(t *testing.T) {
	for _, test := range deviations(t) {
		whole, f := answerTo(strings.NewReader(test.body))
		check(t, test.name, whole, failureOf(f), test.want, test.finish)
		if !strings.Contains(strings.Join(whole.Deviations, ", "), test.deviates) {
			t.Errorf("%s: deviates by %q, want %q", test.name, whole.Deviations, test.deviates)
		}
		tokens := [2]int{7, 3}
		if test.name == "usage as a list" || test.name == "usage below 0" {
			tokens = [2]int{}
		}
		if strings.HasPrefix(test.name, "usage") && [2]int{whole.PromptTokens, whole.CompletionTokens} != tokens {
			t.Errorf("%s: %+v", test.name, whole)
		}
		bytes, f := answerTo(iotest.OneByteReader(strings.NewReader(test.body)))
		check(t, test.name+", in bytes", bytes, failureOf(f), test.want, test.finish)
		batch, err := ParseAnswer([]byte(test.body))
		check(t, test.name+", in a batch", batch, err, test.want, test.finish)
		batch, err = ParseAnswer(fmt.Appendf(nil, "%q", strings.ToValidUTF8(test.body, "")))
		if strings.ToValidUTF8(test.body, "") == test.body && !strings.Contains(test.body, "\ufeff") {
			check(t, test.name+", in a string", batch, err, test.want, test.finish)
		}
	}
}

// failureOf returns f as an error that is nil if f is.
func failureOf(f *failure) error {
	if f == nil {
		return nil
	}
	return f
}

func check(t *testing.T, name string, a Answer, err error, want, finish string) {
	t.Helper()
	switch {
	case finish == "" && (err == nil || !strings.Contains(err.Error(), want) && want != "incomplete"):
		t.Errorf("%s: got %+v, %v, want a failure that says %q", name, a, err, want)
	case finish != "" && (err != nil || a.Text != want || a.FinishReason != finish):
		t.Errorf("%s: got %q, %q, %v, want %q, %q", name, a.Text, a.FinishReason, err, want, finish)
	case err != nil && (strings.Contains(err.Error(), "struct") || strings.Contains(err.Error(), "Go ")):
		t.Errorf("%s: %v", name, err)
	}
}

// TestFinishReasons checks other names for OpenAI's finish reasons.
func TestFinishReasons(t *testing.T) {
	for want, sent := range map[string]string{
		"stop": "stop STOP eos_token end_turn stop_sequence eos EOS completed COMPLETE finished FINISH_REASON_STOP " +
			"end-of-turn </s>",
		"length":         "length max_tokens MAX_TOKENS length_limit model_length ERROR_LIMIT max_output_tokens",
		"content_filter": "content_filter SAFETY RECITATION refusal ERROR_TOXIC guardrail_intervened sensitive",
		"tool_calls":     "tool_calls",
		"":               "null none",
	} {
		for _, reason := range strings.Fields(sent) {
			a := assembly{}
			got, f := a.reason([]byte(fmt.Sprintf("%q", reason)))
			if f != nil || got != want || (reason != want) != (len(a.odd) == 1) {
				t.Errorf("%s: got %q, %v, %q; want %q", reason, got, f, a.odd, want)
			}
		}
	}
}

// TestCutAnswers cuts the connection after a finish reason. Text that is certain to be complete is an answer.
func TestCutAnswers(t *testing.T) {
	for _, test := range []struct {
		body string
		want bool
	}{
		{events(saying("Su", ""), saying("re", ""), finishStop), true},
		{events(saying("Su", ""), saying("re", `,"finish_reason":"stop"`)), true},
		{events(saying("Sure", `,"finish_reason":"stop"`), chunk(`"finish_reason":"stop"`)), true},
		{events(saying("Su", `,"finish_reason":"stop"`), saying("re", `,"finish_reason":"stop"`)), false},
		{events(saying("", `,"finish_reason":"stop"`)), false},
		{events(saying("Su", "")), false},
	} {
		cut := iotest.ErrReader(io.ErrUnexpectedEOF)
		if a, f := answerTo(io.MultiReader(strings.NewReader(test.body), cut)); (f == nil) != test.want {
			t.Errorf("%s: got %+v, %v", test.body, a, f)
		}
		if a, f := answerTo(io.MultiReader(strings.NewReader(test.body+events(done)), cut)); (f == nil) !=
			strings.Contains(test.body, "stop") {
			t.Errorf("%s, then the end mark: got %+v, %v", test.body, a, f)
		}
	}
}
