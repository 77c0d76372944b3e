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

// at returns an event with another index of its choice.
func at(index int, event string) string {
	return strings.Replace(event, `"index":0`, fmt.Sprintf(`"index":%d`, index), 1)
}

const long = "a text of more than thirty-two bytes, as an answer is"

// deviations are bodies that deviate from OpenAI's format. An answer is complete if its text is.
var deviations = []struct {
	name     string
	want     string // the text if there is an answer, else part of the failure's message
	finish   string // "" if there is no answer
	deviates string // part of what is said about it
	body     string
}{
	{"an id per chunk", "Sure", "stop", "more than one id",
		events(strings.Replace(saying("Su", ""), "c1", "c2", 1), saying("re", ""), finishStop)},
	{"ids of other types", "Sure", "stop", "",
		events(strings.Replace(saying("Su", ""), `"c1"`, "7", 1), strings.Replace(saying("re", ""), `"c1"`, "null", 1),
			strings.Replace(finishStop, `"c1"`, "{}", 1))},
	{"an index that counts", "Surely", "stop", "index other than 0",
		events(saying("Su", ""), at(1, saying("re", "")), at(2, saying("ly", "")), finishStop)},
	{"an index of other types", "Sure", "stop", "",
		events(strings.Replace(saying("Su", ""), `"index":0`, `"index":"0"`, 1), strings.Replace(saying("re", ""),
			`"index":0`, `"index":null`, 1), finishStop)},
	{"text after the end of an index that counts", "continues after its finish reason", "", "",
		events(saying("Su", ""), at(1, saying("re", `,"finish_reason":"stop"`)), at(2, saying("ly", "")))},
	{"two choices in turns", "Surely", "stop", "several choices",
		events(saying("Su", ""), at(1, saying("No", "")), saying("re", ""), at(1, finishStop), saying("ly", ""),
			finishStop)},
	{"two choices in turns, one without an end", "without a finish reason", "", "",
		events(saying("Su", ""), at(1, saying("No", "")), saying("re", ""), at(1, finishStop))},
	{"two choices in order", "Sure", "stop", "several choices",
		events(saying("Su", ""), saying("re", ""), finishStop, at(1, saying("No", "")), at(1, finishStop))},
	{"two choices at once", "a", "stop", "several choices",
		`{"choices":[{"index":1,"message":{"content":"b"},"finish_reason":"length"},` +
			`{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`},
	{"delta and message", "Sure", "stop", "twice",
		events(chunk(`"delta":{"content":"Su"},"message":{"content":"Su"}`),
			chunk(`"delta":{"content":"re"},"message":{"content":"re"}`), finishStop)},
	{"delta and text", "Su", "stop", "twice",
		events(chunk(`"delta":{"content":"Su"},"text":"Su"`), finishStop)},
	{"delta and all so far", "Sure", "stop", "twice",
		events(chunk(`"delta":{"content":"Su"},"message":{"content":"Su"}`),
			chunk(`"delta":{"content":"re"},"message":{"content":"Sure"}`), finishStop)},
	{"messages instead of deltas", "Sure", "stop", "",
		events(chunk(`"message":{"content":"Su"}`), chunk(`"message":{"content":"re"}`), finishStop)},
	{"deltas in a whole answer", "Sure", "stop", "",
		`{"choices":[{"delta":{"content":"Sure"},"finish_reason":"stop"}]}`},
	{"text alone", "Sure", "stop", "",
		`{"choices":[{"text":"Sure","finish_reason":"stop"}]}`},
	{"a delta that is text", "Sure", "stop", "",
		events(chunk(`"delta":"Sure"`), finishStop)},
	{"all again as a message", "Sure", "stop", "whole answer again",
		events(saying("Su", ""), saying("re", ""), finishStop,
			chunk(`"message":{"content":"Sure"},"finish_reason":"stop"`))},
	{"another message at the end", "differs from the text", "", "",
		events(saying("Su", ""), saying("re", ""), chunk(`"message":{"content":"Surely not"},"finish_reason":"stop"`))},
	{"all again as a delta", long, "stop", "whole answer again",
		events(saying(long[:20], ""), saying(long[20:], ""), saying(long, `,"finish_reason":"stop"`))},
	{"the same word twice", "blabla", "stop", "",
		events(saying("bla", ""), saying("bla", ""), finishStop)},
	{"a reason twice", "Sure", "stop", "",
		events(saying("Sure", ""), finishStop, finishStop, finishStop)},
	{"a reason in every chunk", "Sure", "stop", "every chunk",
		events(saying("", `,"finish_reason":"stop"`), saying("Su", `,"finish_reason":"stop"`), saying("re",
			`,"finish_reason":"stop"`))},
	{"length after stop in every chunk", "Sure", "length", "",
		events(saying("Su", `,"finish_reason":"stop"`), saying("re", `,"finish_reason":"length"`))},
	{"text after the reason", "continues after its finish reason", "", "",
		events(saying("Su", ""), finishStop, saying("re", ""))},
	{"text with a reason after the reason", "continues after its finish reason", "", "",
		events(saying("Su", ""), finishStop, saying("re", `,"finish_reason":"stop"`))},
	{"a line break after the reason", "Sure", "stop", "",
		events(saying("Sure", ""), finishStop, saying("\n", ""))},
	{"reasons for none", "Sure", "stop", `finish reason "null" for none`,
		events(saying("S", `,"finish_reason":"null"`), saying("u", `,"finish_reason":""`), saying("re",
			`,"finish_reason":"None"`), finishStop)},
	{"no reason but for none", "without a finish reason", "", "",
		events(saying("Su", `,"finish_reason":"null"`))},
	{"reason error", `finish reason "ABORTED"`, "", "",
		events(saying("Su", ""), chunk(`"finish_reason":"ABORTED"`))},
	{"usage as floats", "Sure", "stop", "",
		events(saying("Sure", ""), finishStop, `{"choices":[],"usage":{"prompt_tokens":7.0,`+`"completion_tokens":"3"}}`)},
	{"usage by other names", "Sure", "stop", "",
		events(saying("Sure", ""), finishStop, `{"usage":{"input_tokens":7,"output_tokens":3}}`)},
	{"usage of Groq", "Sure", "stop", "",
		events(saying("Sure", ""), strings.Replace(finishStop, "{", `{"x_groq":{"usage":{"prompt_tokens":7,`+
			`"completion_tokens":3}},`, 1))},
	{"usage with thoughts in the total", "Sure", "stop", "",
		events(saying("Sure", ""), finishStop, `{"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":10}}`)},
	{"usage in every chunk", "Sure", "stop", "",
		events(`{"choices":[{"delta":{"content":"Sure"}}],"usage":{"prompt_tokens":7,`+`"completion_tokens":1}}`,
			`{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
			`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`)},
	{"usage in a choice", "Sure", "stop", "",
		events(chunk(`"delta":{"content":"Sure"},"finish_reason":"stop","usage":{"prompt_tokens":7,` +
			`"completion_tokens":3}`))},
	{"usage as a list", "Sure", "stop", "",
		events(`{"choices":[{"delta":{"content":"Sure"},"finish_reason":"stop"}],"usage":[]}`)},
	{"usage below 0", "Sure", "stop", "",
		events(saying("Sure", ""), finishStop, `{"usage":{"prompt_tokens":-7,"completion_tokens":1e99}}`)},
	{"fields of other types", "Sure", "stop", "",
		events(`{"id":[],"created":"now","object":1,"model":{},"choices":[{"delta":{"role":1,` +
			`"content":"Sure","tool_calls":7,"reasoning_content":[{"a":1}]},"logprobs":0,"finish_reason":"stop"}]}`)},
	{"empty errors", "Sure", "stop", "empty error",
		events(strings.Replace(saying("S", ""), "{", `{"error":"",`, 1), strings.Replace(saying("u", ""), "{",
			`{"error":{},`, 1), strings.Replace(saying("r", ""), "{", `{"error":false,`, 1), strings.Replace(saying("e", ""),
			"{", `{"error":{"code":0,"message":""},`, 1), strings.Replace(finishStop, "{", `{"error":[],`, 1))},
	{"an error", "oops", "", "",
		events(saying("Su", ""), `{"error":{"code":0,"message":"oops"}}`, finishStop)},
	{"an error that is text", "oops", "", "",
		events(saying("Su", ""), `{"error":"oops"}`, finishStop)},
	{"an error that is true", "oops", "", "",
		events(saying("Su", ""), `{"error":true,"message":"oops"}`, finishStop)},
	{"an error of a choice", "bad gateway", "", "",
		`{"choices":[{"message":{"content":"Su"},"finish_reason":"stop","error":{"code":502,"message":"bad gateway"}}]}`},
	{"errors", "oops", "", "",
		events(saying("Su", ""), `{"errors":[{"message":"oops"}]}`, finishStop)},
	{"an error by its type", "oops", "", "",
		events(saying("Su", ""), `{"type":"error","message":"oops"}`, finishStop)},
	{"an error by its code", "oops", "", "",
		events(saying("Su", ""), `{"code":500,"message":"oops"}`, finishStop)},
	{"an error of Groq", "over capacity", "", "",
		events(saying("Su", ""), strings.Replace(finishStop, "{", `{"x_groq":{"error":"over capacity"},`, 1))},
	{"an error of MiniMax", "token limit", "", "",
		events(saying("Su", ""), strings.Replace(finishStop, "{", `{"base_resp":{"status_code":1039,`+
			`"status_msg":"token limit"},`, 1))},
	{"a status that is no error", "Sure", "stop", "",
		events(strings.Replace(saying("Sure", ""), "{", `{"code":200,"base_resp":{"status_code":0},`, 1), finishStop)},
	{"an error after the end", "Sure", "stop", "error after the end",
		events(saying("Sure", ""), finishStop, `{"error":"oops"}`) + "event: error\ndata: oops\n\n"},
	{"all so far as a delta", long, "stop", "text so far in every chunk",
		events(saying(long[:9], ""), saying(long[:30], ""), saying(long[:50], ""), saying(long, ""), finishStop)},
	{"data in several lines", "Sure", "stop", "",
		"data: {\"choices\":\ndata: [\ndata:   {\"delta\":{\"content\":\"Sure\"}}]\ndata: }\n\n" + events(finishStop,
			done)},
	{"data in several lines, cut", "the answer is empty", "", "",
		"data: {\"choices\":\ndata: ["},
	{"data that is broken", "not a chat completion", "", "",
		events(saying("Su", "")) + "data: {\"choices\":\n\n" + events(saying("re", ""), finishStop)},
	{"carriage returns", "Sure", "stop", "",
		strings.ReplaceAll(events(saying("Sure", ""), finishStop, done), "\n", "\r")},
	{"CRLF", "Sure", "stop", "",
		strings.ReplaceAll(events(saying("Sure", ""), finishStop, done), "\n", "\r\n")},
	{"CRLF in data of several lines", "Sure", "stop", "",
		"data: {\"choices\":\r\ndata: [{\"delta\":{\"content\":\"Sure\"}}]}\r\n\r\n" + events(finishStop)},
	{"byte order mark", "Sure", "stop", "",
		"\ufeff" + events(saying("Sure", ""), finishStop)},
	{"byte order mark and JSON", "Sure", "stop", "",
		"\ufeff" + plain(`"stop"`, `"Sure"`)},
	{"a stream of a stream", "Sure", "stop", "",
		strings.ReplaceAll(events(saying("Sure", ""), finishStop, done), "data:", "data: data:")},
	{"not a number", "NaN: NaN \"", "stop", "",
		events(strings.Replace(saying("Na", ""), "{", `{"rate":-Infinity,`, 1), strings.Replace(saying("N: NaN \"", ""),
			"{", `{"t":[NaN],`, 1), finishStop)},
	{"not a number in JSON", "NaN", "stop", "",
		strings.Replace(plain(`"stop"`, `"NaN"`), "{", `{"t": NaN,`, 1)},
	{"signs of life", "Sure", "stop", "",
		events("null", "ping", `{"type":"ping"}`, "[HEARTBEAT]", `""`) + "event: ping\n" + events(saying("Sure", ""), "[]",
			finishStop)},
	{"DONE in other letters", "Sure", "stop", "",
		events(saying("Sure", ""), finishStop, `"[done]"`, saying("ly", ""))},
	{"an event per line", "Sure", "stop", "",
		saying("Su", "") + "\n" + saying("re", "") + "\n" + finishStop + "\n"},
	{"a list of events", "Sure", "stop", "a list of events",
		"[" + saying("Su", "") + ",\n" + saying("re", "") + "," + finishStop + "]"},
	{"JSON and DONE", "Sure", "stop", "",
		plain(`"stop"`, `"Sure"`) + "\ndata: [DONE]\n"},
	{"JSON that is cut", "incomplete", "", "",
		plain(`"stop"`, `"Sure"`)[:120]},
	{"an emoji in halves", "a😀b", "stop", "",
		events(chunk(`"delta":{"content":"a\ud83d"}`), chunk(`"delta":{"content":""}`),
			chunk(`"delta":{"content":"\ude00b"}`), finishStop)},
	{"an emoji in bytes", "a😀b", "stop", "",
		events(chunk("\"delta\":{\"content\":\"a\xf0\x9f\"}"), chunk("\"delta\":{\"content\":\"\x98\x80b\"}"), finishStop)},
	{"half an emoji", "a\ufffdb", "stop", "",
		events(chunk(`"delta":{"content":"a\ud83d"}`), chunk(`"delta":{"content":"b"}`), finishStop)},
	{"half an emoji at the end", "a\ufffd", "stop", "",
		events(chunk(`"delta":{"content":"a\ud83d"}`), finishStop)},
	{"not half an emoji", `a\ud83d\ude00`, "stop", "",
		events(chunk(`"delta":{"content":"a\\ud83d"}`), chunk(`"delta":{"content":"\\ude00"}`), finishStop)},
	{"parts", "Surely", "stop", "",
		events(chunk(`"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},`+
			`{"type":"text","text":"Su"},"re",{"text":"ly"}]}`), finishStop)},
	{"a refusal in parts", "I will not.", "stop", "",
		events(chunk(`"delta":{"content":[{"type":"refusal","refusal":"I will not."}]}`), finishStop)},
	{"a part alone", "Sure", "stop", "",
		events(chunk(`"delta":{"content":{"type":"text","text":"Sure"}}`), finishStop)},
	{"content null", "Sure", "stop", "",
		events(chunk(`"delta":{"content":null}`), saying("Sure", ""), finishStop)},
	{"content a number", "neither text nor a list of parts", "", "",
		events(chunk(`"delta":{"content":7}`), finishStop)},
	{"choices a text", "not a list", "", "",
		events(`{"choices":"KEY"}`, finishStop)},
	{"no choices", "no balance", "", "",
		`{"base_resp":{"status_msg":"no balance"}}`},
}

// TestDeviations_AreRead reads each body as the response to a request, in one piece and in bytes, and as a batch
// result.
func TestDeviations_AreRead(t *testing.T) {
	for _, test := range deviations {
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
