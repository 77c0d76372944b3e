package openai

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"restyle/internal/hostile"
)

// answerTo returns the answer in a body, as r splits it into reads.
func answerTo(r io.Reader) (Answer, *failure) {
	o, _ := Options{BaseURLs: []string{"http://h/v1"}, MaxAnswerBytes: 1 << 20}.withDefaults()
	p := &Pool{o: o, client: &http.Client{Transport: roundTrip(func(*http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(r)}
	})}}
	a, f := p.attempt(context.Background(), &endpoint{url: "http://h/v1"}, []byte("{}"))
	a.FirstToken, a.Latency = 0, 0
	return a, f
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := f(r)
	resp.Request = r
	return resp, nil
}

func TestEventReader(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{"", ""},
		{"data: a\n\n: c\ndata:b\r\n\r\nid: 1\nretry: 2\nevent: x\ndata:   [DONE]  \ndata: c\n", "a|b"},
		{"event: error\ndata: {\"message\":\"m\"}\ndata: 2\n", "!{\"message\":\"m\"}|2"},
		{"event: error\ndata: a \"b\"\n", "!a \"b\""},
		{"error: {\"message\":\"m\"}\n", "!{\"message\":\"m\"}"},
		{"\n\n {\n \"a\":\n 1 }\n", "{\n \"a\":\n 1 }"},
		{"{\"a\":1}{\"a\":2}\n[3]", "{\"a\":1}|{\"a\":2}|[3]"},
		{"data: 1\n{\"error\":2}\n", "1|{\"error\":2}"},
		{"data: {\"a\":1}", "{\"a\":1}"},
		{"data: {\"a\":", ""},
		{"data: {\"a\":\n\n", "{\"a\":"},
		{"data: {\rdata: \"a\":\rdata: [1]\rdata: }\r\rdata: 1\r", "{\n\"a\":\n[1]\n}|1"},
		{"data: {\ndata: }", "{\n}"},
		{"data:\ndata: \n", ""},
		{"<html>\ndata: {}\n", ""},
		{"data: {}\nupstream error\n", "{}"},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(test.body),
			"bytes": iotest.OneByteReader(strings.NewReader(test.body))} {
			var got []string
			reader := newEventReader(r)
			e, err := reader.next()
			for ; err == nil; e, err = reader.next() {
				got = append(got, strings.Repeat("!", map[bool]int{true: 1}[e.isError])+string(e.data))
			}
			if err != io.EOF || strings.Join(got, "|") != test.want {
				t.Errorf("%q, %s: got %q, %v; want %q", test.body, name, got, err, test.want)
			}
		}
	}
}

// FuzzAnswer checks that the answer does not depend on how the body is split into reads, and that there is none
// without a finish reason.
func FuzzAnswer(f *testing.F) {
	f.Add(goodStream)
	f.Add(plain(`"stop"`, `"x"`))
	f.Add(events(delta("a"), `{"error":{"message":"m","code":503}}`))
	f.Add("event: error\ndata: x\n\n" + events(finishStop, done))
	f.Add(events(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"x"}]},"finish_reason":"length"}],` +
		`"usage":{"prompt_tokens":-1}}`))
	for _, test := range deviations(f) {
		f.Add(test.body)
	}
	f.Add("\ufeff: c\r\nretry: 1\r\n" + strings.ReplaceAll(goodStream, "\n", "\r\n"))
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000) // each level would be copied
	f.Add(`{"choices":[{"message":{"content":` + deep + `},"finish_reason":"stop"}]}`)
	f.Add(`{"choices":[{"message":{"content":` + strings.Repeat(`{"text":`, 3000) + `""` + strings.Repeat("}", 3000) +
		`},"finish_reason":"stop"}]}`)
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var a Answer
		var fa *failure
		// A list may have events of two bytes, and each is decoded by itself.
		allowed := hostile.Linear(10 * len(body))
		hostile.Within(t, allowed, func() { a, fa = answerTo(strings.NewReader(body)) })
		b, fb := answerTo(iotest.OneByteReader(strings.NewReader(body)))
		if !reflect.DeepEqual(a, b) || (fa == nil) != (fb == nil) || fa != nil && *fa != *fb {
			t.Fatalf("whole: %+v, %v; in bytes: %+v, %v", a, fa, b, fb)
		}
		var batch Answer
		var err error
		hostile.Within(t, allowed, func() { batch, err = ParseAnswer([]byte(body)) })
		if fa == nil && err == nil && (batch.Text != a.Text || batch.FinishReason != a.FinishReason) {
			t.Fatalf("whole: %+v; in a batch: %+v", a, batch)
		}
		if fa == nil && (a.FinishReason == "" || len(a.Text) > len(body) || a.PromptTokens < 0 || a.CompletionTokens < 0) {
			t.Fatalf("answer %+v", a)
		}
		if fa != nil && (fa.message == "" || fa.reason == "" || len(fa.message) > maxMessage+200) {
			t.Fatalf("failure %+v", fa)
		}
	})
}
