package openai

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// chunk returns an event whose only choice has these fields.
func chunk(choice string) string { return `{"id":"c1","choices":[{"index":0,` + choice + `}]}` }

// saying returns an event with text, and further fields of its choice.
func saying(text, more string) string {
	return chunk(fmt.Sprintf(`"delta":{"content":%q}%s`, text, more))
}

const long = "a text of more than thirty-two bytes, as an answer is"

// deviations are bodies that deviate from OpenAI's format. An answer is complete if its text is.
var deviations = []struct {
	name, body string
	want       string // the text if there is an answer, else part of the failure's message
	finish     string // "" if there is no answer
	deviates   string // part of what is said about it
}{
	{"an id per chunk", events(strings.Replace(saying("Su", ""), "c1", "c2", 1), saying("re", ""), finishStop), "Sure", "stop",
		"more than one id"},
	{"ids of other types", events(strings.Replace(saying("Su", ""), `"c1"`, "7", 1),
		strings.Replace(saying("re", ""), `"c1"`, "null", 1), strings.Replace(finishStop, `"c1"`, "{}", 1)), "Sure", "stop", ""},
	{"an index that counts", events(saying("Su", ""), strings.Replace(saying("re", ""), `"index":0`, `"index":1`, 1),
		strings.Replace(saying("ly", ""), `"index":0`, `"index":2`, 1), finishStop), "Surely", "stop", "index other than 0"},
	{"an index of other types", events(strings.Replace(saying("Su", ""), `"index":0`, `"index":"0"`, 1),
		strings.Replace(saying("re", ""), `"index":0`, `"index":null`, 1), finishStop), "Sure", "stop", ""},
	{"text after the end of an index that counts", events(saying("Su", ""), strings.Replace(saying("re", `,"finish_reason":"stop"`),
		`"index":0`, `"index":1`, 1), strings.Replace(saying("ly", ""), `"index":0`, `"index":2`, 1)),
		"continues after its finish reason", "", ""},
	{"two choices in turns", events(saying("Su", ""), strings.Replace(saying("No", ""), `"index":0`, `"index":1`, 1),
		saying("re", ""), strings.Replace(finishStop, `"index":0`, `"index":1`, 1), saying("ly", ""), finishStop), "Surely",
		"stop", "several choices"},
	{"two choices in turns, one without an end", events(saying("Su", ""), strings.Replace(saying("No", ""), `"index":0`,
		`"index":1`, 1), saying("re", ""), strings.Replace(finishStop, `"index":0`, `"index":1`, 1)), "without a finish reason",
		"", ""},
	{"two choices in order", events(saying("Su", ""), saying("re", ""), finishStop, strings.Replace(saying("No", ""), `"index":0`,
		`"index":1`, 1), strings.Replace(finishStop, `"index":0`, `"index":1`, 1)), "Sure", "stop", "several choices"},
	{"two choices at once", `{"choices":[{"index":1,"message":{"content":"b"},"finish_reason":"length"},` +
		`{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`, "a", "stop", "several choices"},
	{"delta and message", events(chunk(`"delta":{"content":"Su"},"message":{"content":"Su"}`),
		chunk(`"delta":{"content":"re"},"message":{"content":"re"}`), finishStop), "Sure", "stop", "twice"},
	{"delta and text", events(chunk(`"delta":{"content":"Su"},"text":"Su"`), finishStop), "Su", "stop", "twice"},
	{"delta and all so far", events(chunk(`"delta":{"content":"Su"},"message":{"content":"Su"}`),
		chunk(`"delta":{"content":"re"},"message":{"content":"Sure"}`), finishStop), "Sure", "stop", "twice"},
	{"messages instead of deltas", events(chunk(`"message":{"content":"Su"}`), chunk(`"message":{"content":"re"}`),
		finishStop), "Sure", "stop", ""},
	{"deltas in a whole answer", `{"choices":[{"delta":{"content":"Sure"},"finish_reason":"stop"}]}`, "Sure", "stop", ""},
	{"text alone", `{"choices":[{"text":"Sure","finish_reason":"stop"}]}`, "Sure", "stop", ""},
	{"a delta that is text", events(chunk(`"delta":"Sure"`), finishStop), "Sure", "stop", ""},
	{"all again as a message", events(saying("Su", ""), saying("re", ""), finishStop,
		chunk(`"message":{"content":"Sure"},"finish_reason":"stop"`)), "Sure", "stop", "whole answer again"},
	{"another message at the end", events(saying("Su", ""), saying("re", ""), chunk(
		`"message":{"content":"Surely not"},"finish_reason":"stop"`)), "differs from the text", "", ""},
	{"all again as a delta", events(saying(long[:20], ""), saying(long[20:], ""), saying(long, `,"finish_reason":"stop"`)), long,
		"stop", "whole answer again"},
	{"the same word twice", events(saying("bla", ""), saying("bla", ""), finishStop), "blabla", "stop", ""},
	{"a reason twice", events(saying("Sure", ""), finishStop, finishStop, finishStop), "Sure", "stop", ""},
	{"a reason in every chunk", events(saying("", `,"finish_reason":"stop"`), saying("Su", `,"finish_reason":"stop"`),
		saying("re", `,"finish_reason":"stop"`)), "Sure", "stop", "every chunk"},
	{"length after stop in every chunk", events(saying("Su", `,"finish_reason":"stop"`), saying("re",
		`,"finish_reason":"length"`)), "Sure", "length", ""},
	{"text after the reason", events(saying("Su", ""), finishStop, saying("re", "")), "continues after its finish reason", "",
		""},
	{"text with a reason after the reason", events(saying("Su", ""), finishStop, saying("re", `,"finish_reason":"stop"`)),
		"continues after its finish reason", "", ""},
	{"a line break after the reason", events(saying("Sure", ""), finishStop, saying("\n", "")), "Sure", "stop", ""},
	{"reasons for none", events(saying("S", `,"finish_reason":"null"`), saying("u", `,"finish_reason":""`),
		saying("re", `,"finish_reason":"None"`), finishStop), "Sure", "stop", `finish reason "null" for none`},
	{"no reason but for none", events(saying("Su", `,"finish_reason":"null"`)), "without a finish reason", "", ""},
	{"reason error", events(saying("Su", ""), chunk(`"finish_reason":"ABORTED"`)), `finish reason "ABORTED"`, "", ""},
	{"usage as floats", events(saying("Sure", ""), finishStop, `{"choices":[],"usage":{"prompt_tokens":7.0,`+
		`"completion_tokens":"3"}}`), "Sure", "stop", ""},
	{"usage by other names", events(saying("Sure", ""), finishStop, `{"usage":{"input_tokens":7,"output_tokens":3}}`), "Sure",
		"stop", ""},
	{"usage in every chunk", events(`{"choices":[{"delta":{"content":"Sure"}}],"usage":{"prompt_tokens":7,`+
		`"completion_tokens":1}}`, `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`), "Sure", "stop", ""},
	{"usage as a list", events(`{"choices":[{"delta":{"content":"Sure"},"finish_reason":"stop"}],"usage":[]}`), "Sure",
		"stop", ""},
	{"usage below 0", events(saying("Sure", ""), finishStop, `{"usage":{"prompt_tokens":-7,"completion_tokens":1e99}}`),
		"Sure", "stop", ""},
	{"fields of other types", events(`{"id":[],"created":"now","object":1,"model":{},"choices":[{"delta":{"role":1,` +
		`"content":"Sure","tool_calls":7,"reasoning_content":[{"a":1}]},"logprobs":0,"finish_reason":"stop"}]}`), "Sure",
		"stop", ""},
	{"empty errors", events(strings.Replace(saying("S", ""), "{", `{"error":"",`, 1), strings.Replace(saying("u", ""), "{",
		`{"error":{},`, 1), strings.Replace(saying("r", ""), "{", `{"error":false,`, 1), strings.Replace(saying("e", ""), "{",
		`{"error":{"code":0,"message":""},`, 1), strings.Replace(finishStop, "{", `{"error":[],`, 1)), "Sure", "stop",
		"empty error"},
	{"an error", events(saying("Su", ""), `{"error":{"code":0,"message":"oops"}}`, finishStop), "oops", "", ""},
	{"an error that is text", events(saying("Su", ""), `{"error":"oops"}`, finishStop), "oops", "", ""},
	{"an error that is true", events(saying("Su", ""), `{"error":true,"message":"oops"}`, finishStop), "oops", "", ""},
	{"data in several lines", "data: {\"choices\":\ndata: [\ndata:   {\"delta\":{\"content\":\"Sure\"}}]\ndata: }\n\n" +
		events(finishStop, done), "Sure", "stop", ""},
	{"data in several lines, cut", "data: {\"choices\":\ndata: [", "the answer is empty", "", ""},
	{"data that is broken", events(saying("Su", "")) + "data: {\"choices\":\n\n" + events(saying("re", ""), finishStop),
		"not a chat completion", "", ""},
	{"carriage returns", strings.ReplaceAll(events(saying("Sure", ""), finishStop, done), "\n", "\r"), "Sure", "stop", ""},
	{"CRLF", strings.ReplaceAll(events(saying("Sure", ""), finishStop, done), "\n", "\r\n"), "Sure", "stop", ""},
	{"CRLF in data of several lines", "data: {\"choices\":\r\ndata: [{\"delta\":{\"content\":\"Sure\"}}]}\r\n\r\n" +
		events(finishStop), "Sure", "stop", ""},
	{"byte order mark", "\ufeff" + events(saying("Sure", ""), finishStop), "Sure", "stop", ""},
	{"byte order mark and JSON", "\ufeff" + plain(`"stop"`, `"Sure"`), "Sure", "stop", ""},
	{"signs of life", events("null", "ping", `{"type":"ping"}`, "[HEARTBEAT]", `""`) + "event: ping\n" +
		events(saying("Sure", ""), "[]", finishStop), "Sure", "stop", ""},
	{"DONE in other letters", events(saying("Sure", ""), finishStop, `"[done]"`, saying("ly", "")), "Sure", "stop", ""},
	{"an event per line", saying("Su", "") + "\n" + saying("re", "") + "\n" + finishStop + "\n", "Sure", "stop", ""},
	{"a list of events", "[" + saying("Su", "") + ",\n" + saying("re", "") + "," + finishStop + "]", "Sure", "stop",
		"a list of events"},
	{"JSON and DONE", plain(`"stop"`, `"Sure"`) + "\ndata: [DONE]\n", "Sure", "stop", ""},
	{"JSON that is cut", plain(`"stop"`, `"Sure"`)[:120], "incomplete", "", ""},
	{"an emoji in halves", events(chunk(`"delta":{"content":"a\ud83d"}`), chunk(`"delta":{"content":""}`),
		chunk(`"delta":{"content":"\ude00b"}`), finishStop), "a😀b", "stop", ""},
	{"an emoji in bytes", events(chunk("\"delta\":{\"content\":\"a\xf0\x9f\"}"), chunk("\"delta\":{\"content\":\"\x98\x80b\"}"),
		finishStop), "a😀b", "stop", ""},
	{"half an emoji", events(chunk(`"delta":{"content":"a\ud83d"}`), chunk(`"delta":{"content":"b"}`), finishStop),
		"a\ufffdb", "stop", ""},
	{"half an emoji at the end", events(chunk(`"delta":{"content":"a\ud83d"}`), finishStop), "a\ufffd", "stop", ""},
	{"not half an emoji", events(chunk(`"delta":{"content":"a\\ud83d"}`), chunk(`"delta":{"content":"\\ude00"}`),
		finishStop), `a\ud83d\ude00`, "stop", ""},
	{"parts", events(chunk(`"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},`+
		`{"type":"text","text":"Su"},"re",{"text":"ly"}]}`), finishStop), "Surely", "stop", ""},
	{"a part alone", events(chunk(`"delta":{"content":{"type":"text","text":"Sure"}}`), finishStop), "Sure", "stop", ""},
	{"content null", events(chunk(`"delta":{"content":null}`), saying("Sure", ""), finishStop), "Sure", "stop", ""},
	{"content a number", events(chunk(`"delta":{"content":7}`), finishStop), "neither text nor a list of parts", "", ""},
	{"choices a text", events(`{"choices":"KEY"}`, finishStop), "not a list", "", ""},
	{"no choices", `{"base_resp":{"status_msg":"no balance"}}`, "no balance", "", ""},
}

// TestDeviations reads each body as the response to a request, in one piece and in bytes, and as a batch result.
func TestDeviations(t *testing.T) {
	for _, test := range deviations {
		whole, f := answerTo(strings.NewReader(test.body))
		check(t, test.name, whole, failureOf(f), test.want, test.finish)
		if !strings.Contains(whole.Deviations, test.deviates) {
			t.Errorf("%s: deviates by %q, want %q", test.name, whole.Deviations, test.deviates)
		}
		if strings.HasPrefix(test.name, "usage as floats") || strings.HasPrefix(test.name, "usage by") ||
			strings.HasPrefix(test.name, "usage in") {
			if whole.PromptTokens != 7 || whole.CompletionTokens != 3 {
				t.Errorf("%s: %+v", test.name, whole)
			}
		} else if strings.HasPrefix(test.name, "usage") && whole.PromptTokens+whole.CompletionTokens != 0 {
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

// TestFinishReasons has other names for OpenAI's finish reasons.
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

// TestCutAnswers cuts the connection after a finish reason. What is certain to be complete is an answer.
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
