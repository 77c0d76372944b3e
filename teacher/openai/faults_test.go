package openai

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"restyle/internal/expect"
	"restyle/internal/secret"
	"restyle/internal/secret/secrettest"
)

const host = "teacher.localhost:80"

// Handlers for the scenes. They replace KEY in a text by the key in many spellings.

func with(text string) string { return strings.ReplaceAll(text, "KEY", echoes()) }

func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], strings.ReplaceAll(headers[i+1], "KEY", canary))
		}
		w.WriteHeader(code)
		io.WriteString(w, with(body))
	}
}

func openaiError(message, kind, code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message+" KEY", kind, code)
}

func stream(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, with(body))
	}
}

// events returns a stream of these events.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

func delta(text string) string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
		`"delta":{"content":%q},"finish_reason":null}]}`, text)
}

const (
	finishStop = `{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},` +
		`"finish_reason":"stop"}]}`
	done = "[DONE]"
)

// then writes a part, flushes, and continues with the next handler.
func then(part string, next func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, part)
		http.NewResponseController(w).Flush()
		next(w, r)
	}
}

func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func every(d time.Duration, text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
			http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

func wait(d time.Duration, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			next(w, r)
		case <-r.Context().Done():
		}
	}
}

func bomb(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	line := []byte("data: " + delta(strings.Repeat("a", 64<<10)) + "\n\n")
	for range 80 {
		z.Write(line)
	}
	z.Close()
	w.Header().Set("Content-Encoding", "gzip")
	w.Write(b.Bytes())
}

func endless(w http.ResponseWriter, r *http.Request) {
	line := []byte("data: " + delta(strings.Repeat("a", 16<<10)) + "\n\n")
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

func plain(finish, content string) string {
	return fmt.Sprintf(`{
  "id": "c1", "object": "chat.completion", "model": "m",
  "choices": [{"index": 0, "message": {"role": "assistant", "content": %s}, "finish_reason": %s}],
  "usage": {"prompt_tokens": 7, "completion_tokens": 3}
}`, content, finish)
}

type outcome string

const (
	answers outcome = "an answer"         // at the first attempt
	retries outcome = "*Unavailable"      // fails each time, and is retried
	refuses outcome = "*RequestRefused"   // at once
	dies    outcome = "*Fatal"            // at once
	waits   outcome = "waits, then gives" // is throttled
)

// scenes lists all ways in which an endpoint may behave. Scenes that are retried are also played once before a good
// answer, which must be returned.
var scenes = []struct {
	name   string
	play   http.HandlerFunc
	want   outcome
	reason string        // of the error, or text of the answer
	pause  time.Duration // at least this before the second attempt
}{
	{"good", stream(goodStream), answers, goodText, 0},
	{"good without DONE", stream(strings.ReplaceAll(goodStream, "data: [DONE]\n\n", "")), answers, goodText, 0},
	{"good with CRLF", stream(strings.ReplaceAll(goodStream, "\n", "\r\n")), answers, goodText, 0},
	{"good without blank lines", stream(strings.ReplaceAll(goodStream, "\n\n", "\n")), answers, goodText, 0},
	{"good without spaces", stream(strings.ReplaceAll(goodStream, "data: ", "data:")), answers, goodText, 0},
	{"good without last line break", stream(events(delta(goodText)) + "data: " + finishStop), answers, goodText, 0},
	{"good with byte order mark", stream("\ufeff" + goodStream), answers, goodText, 0},
	{"good with other fields", stream("retry: 3\nid: 7\nevent: message\n" + goodStream), answers, goodText, 0},
	{"usage missing", stream(events(delta(goodText), finishStop, done)), answers, goodText, 0},
	{"usage null", stream(events(strings.Replace(delta(goodText), "{", `{"usage":null,`, 1), finishStop, done)), answers,
		goodText, 0},
	{"no id", stream(strings.ReplaceAll(events(delta(goodText), finishStop, done), `"id":"c1",`, "")), answers, goodText,
		0},
	{"error null", stream(strings.ReplaceAll(events(delta(goodText), finishStop, done), `"id"`, `"error":null,"id"`)),
		answers, goodText, 0},
	{"500 comments at a time", stream(strings.ReplaceAll(goodStream, "data:", strings.Repeat(": keep-alive\n\n",
		500)+"data:")), answers, goodText, 0},
	{"line of 1 MiB", stream(events(delta(strings.Repeat("z", 1<<20)), finishStop, done)), answers,
		strings.Repeat("z", 1<<20), 0},
	{"reasoning", stream(events(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`,
		`{"choices":[{"index":0,"delta":{"reasoning":"hm","content":null}}]}`, delta(goodText), finishStop, done)), answers,
		goodText, 0},
	{"content in the finish event", stream(events(strings.Replace(delta(goodText), `"finish_reason":null`,
		`"finish_reason":"stop"`, 1), done)), answers, goodText, 0},
	{"content in parts", stream(events(`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","text":"no"},`+
		`{"type":"text","text":"Sure, whatever."}]}}]}`, finishStop)), answers, goodText, 0},
	{"null content", stream(events(`{"choices":[{"index":0,"delta":{"content":null},"finish_reason":"stop"}]}`, done)),
		answers, "", 0},
	{"odd fields", stream(events(`{"id":null,"created":1.5,"model":null,"system_fingerprint":null,`+
		`"choices":[{"index":0,"delta":{"role":null,"tool_calls":null,"refusal":null,"reasoning":{"a":1},"content":"Sure,`+
		` whatever."},"logprobs":null,"content_filter_results":{}}],"usage":null}`, finishStop,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":null,"queue_time":0.5}}`,
		done)), answers, goodText, 0},
	{"unread fields of other types", stream(events(`{"id":"c1","created":"today","object":"chat.completion.chunk",`+
		`"system_fingerprint":{},"choices":[{"index":0,"delta":{"role":1,"tool_calls":"none","content":"Sure, whatever."},`+
		`"logprobs":[],"content_filter_results":"clean"}]}`, finishStop, `{"choices":[],"usage":{"prompt_tokens":1,`+
		`"completion_tokens":2,"total_tokens":"3","prompt_tokens_details":"none","completion_tokens_details":[]}}`, done)),
		answers, goodText, 0},
	{"refusal", stream(events(`{"choices":[{"index":0,"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}`, done)),
		answers, "I will not.", 0},
	{"refusal in parts", stream(plain(`"stop"`, `[{"type":"refusal","refusal":"I will not."}]`)), answers,
		"I will not.", 0},
	{"finish repeated beside usage", stream(events(delta(goodText), finishStop, strings.Replace(finishStop, "{",
		`{"usage":{"prompt_tokens":1,"completion_tokens":1},`, 1))), answers, goodText, 0},
	{"text after DONE", stream(goodStream + events(delta("more"))), answers, goodText, 0},
	{"cut after finish", then(events(delta(goodText), finishStop), cut), answers, goodText, 0},
	{"silence after finish", then(events(delta(goodText), finishStop), silence), answers, goodText, 0},
	{"silence after DONE", then(goodStream, silence), answers, goodText, 0},
	{"split UTF-8", then("", func(w http.ResponseWriter, r *http.Request) {
		for _, b := range []byte(events(delta("naïve 🙃 日本"), finishStop, done)) {
			w.Write([]byte{b})
			http.NewResponseController(w).Flush()
		}
	}), answers, "naïve 🙃 日本", 0},
	{"half an escape", stream(events(`{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}`, finishStop, done)),
		answers, "a\ufffd", 0},
	{"plain JSON", stream(plain(`"stop"`, `"Sure, whatever."`)), answers, goodText, 0},
	{"plain JSON, null content", stream(plain(`"stop"`, `null`)), answers, "", 0},
	{"status 201", status(201, goodStream), answers, goodText, 0},
	{"slow first byte", wait(4*time.Minute, stream(goodStream)), answers, goodText, 0},
	{"keep-alives for 4 minutes", then("", func(w http.ResponseWriter, r *http.Request) {
		for range 240 {
			io.WriteString(w, ": wait\n\n")
			http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
		io.WriteString(w, goodStream)
	}), answers, goodText, 0},
	{"redirect, same host", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			http.Redirect(w, r, "/v2", http.StatusPermanentRedirect)
			return
		}
		if b, _ := io.ReadAll(r.Body); len(b) == 0 || r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		stream(goodStream)(w, r)
	}, answers, goodText, 0},

	{"400", status(400, openaiError("bad", "invalid_request_error", "")), refuses, "400", 0},
	{"400 context length", status(400, openaiError("too long", "invalid_request_error", "context_length_exceeded")),
		refuses, "400", 0},
	{"400 content filter", status(400, openaiError("no", "", "content_filter")), refuses, "400", 0},
	{"400 old vLLM", status(400, `{"object":"error","message":"too long KEY","type":"BadRequestError","param":null,`+
		`"code":400}`), refuses, "400", 0},
	{"400 wrong model", status(400, openaiError("Invalid model name passed in model=m", "", "")), dies, "model", 0},
	{"400 no credit", status(400, openaiError("Your credit balance is too low to access the API.", "invalid_request_error",
		"")), dies, "quota", 0},
	{"401", status(401, openaiError("Incorrect API key provided: "+canary[:8]+"****, KEY", "invalid_request_error",
		"invalid_api_key"), "Www-Authenticate", "Bearer KEY"), dies, "401", 0},
	{"402", status(402, ""), dies, "402", 0},
	{"403", status(403, "<html><head><title>Forbidden</title></head><body>KEY</body></html>"), dies, "403", 0},
	{"404", status(404, "404 page not found KEY"), dies, "404", 0},
	{"404 wrong model", status(404, openaiError("The model `m` does not exist.", "NotFoundError", "404")), dies, "model",
		0},
	{"404 Ollama", status(404, `{"error":"model \"m\" not found, try pulling it first KEY"}`), dies, "model", 0},
	{"405", status(405, ""), dies, "405", 0},
	{"408", status(408, ""), retries, "408", 0},
	{"409", status(409, ""), retries, "409", 0},
	{"413", status(413, "too large KEY"), refuses, "413", 0},
	{"418", status(418, "KEY"), refuses, "418", 0},
	{"422 FastAPI", status(422, `{"detail":[{"loc":["body","seed"],"msg":"extra fields not permitted KEY",`+
		`"type":"value_error.extra"}]}`), refuses, "422", 0},
	{"429", status(429, openaiError("slow down", "rate_limit_error", "rate_limit_exceeded")), waits, "429", 0},
	{"429 seconds", status(429, "", "Retry-After", "20"), waits, "429", 20 * time.Second},
	{"429 date", status(429, "", "Date", "Sat, 01 Jan 2000 00:00:00 GMT", "Retry-After", "Sat, 01 Jan 2000 00:00:30 GMT"),
		waits, "429", 30 * time.Second},
	{"429 ms", status(429, "", "Retry-After-Ms", "2500", "Retry-After", "100"), waits, "429", 2500 * time.Millisecond},
	{"429 reset", status(429, "", "X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Reset-Tokens", "1m2s"), waits, "429",
		62 * time.Second},
	{"429 tomorrow", status(429, "KEY", "Retry-After", "86400"), waits, "429", time.Minute},
	{"429 nonsense", status(429, "", "Retry-After", "NaN", "X-Ratelimit-Reset-Tokens", "KEY", "X-Ratelimit-Reset", "-5"),
		waits, "429", 0},
	{"429 no quota", status(429, openaiError("You exceeded your current quota", "insufficient_quota",
		"insufficient_quota")), dies, "quota", 0},
	{"429 never", status(429, openaiError("Request too large for m on tokens per min (TPM)", "tokens",
		"rate_limit_exceeded")), retries, "429", 0},
	{"429 Google", status(429, `[{"error":{"code":429,"message":"KEY","status":"RESOURCE_EXHAUSTED"}}]`), waits, "429", 0},
	{"500", status(500, openaiError("oops", "server_error", "")), retries, "500", 0},
	{"502", status(502, "<html><body><h1>Bad Gateway</h1> KEY"), retries, "502", 0},
	{"503", status(503, `{"error":{"code":503,"message":"Loading model KEY","type":"unavailable_error"}}`), retries, "503",
		0},
	{"503 later", status(503, "", "Retry-After", "7"), retries, "503", 7 * time.Second},
	{"504", status(504, ""), retries, "504", 0},
	{"529", status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded KEY"}}`), retries, "529",
		0},
	{"501", status(501, ""), dies, "501", 0},
	{"204", status(204, ""), dies, notAnAnswer, 0},
	{"redirect, other host", status(307, "", "Location", "http://thief.test/v1/KEY?key=KEY"), dies, "redirect", 0},
	{"redirect, other port", status(308, "", "Location", "http://teacher.localhost:8080/v1"), dies, "redirect", 0},
	{"redirect to TLS", status(301, "", "Location", "https://teacher.localhost/v1/chat/completions"), dies, "redirect", 0},
	{"redirect to GET", status(302, "", "Location", "/login"), dies, "redirect", 0},
	{"redirect to itself", status(307, "", "Location", "/v1/chat/completions"), dies, "redirect", 0},
	{"redirect nowhere", status(307, ""), dies, "redirect", 0},

	{"first token never", silence, retries, "first token timeout", 5 * time.Minute},
	{"headers, then silence", then("", silence), retries, "first token timeout", 5 * time.Minute},
	{"keep-alives for ever", then("", every(time.Second, ": wait\n\n")), retries, "first token timeout", 5 * time.Minute},
	{"stall", then(events(delta("Su")), silence), retries, "stall", time.Minute},
	{"stall in a line", then(events(delta("Su"))+"data: {", silence), retries, "stall", time.Minute},
	{"slow loris", then(events(delta("Su"))+"data: ", every(50*time.Second, " ")), retries, "total timeout",
		15 * time.Minute},
	{"slow for ever", then("", every(10*time.Second, events(delta("a")))), retries, "total timeout", 15 * time.Minute},
	{"closed at once", cut, retries, "connection lost", 0},
	{"cut, chunked", then(events(delta("Su")), cut), retries, "connection lost", 0},
	{"cut, clean", stream(events(delta("Su"))), retries, "cut off", 0},
	{"cut, DONE", stream(events(delta("Su"), done)), retries, "cut off", 0},
	{"cut in a line", stream(events(delta("Su")) + "data: " + finishStop[:40]), retries, "cut off", 0},
	{"usage without finish", stream(events(delta("Su"), `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		done)), retries, "cut off", 0},
	{"empty body", stream(""), retries, "damaged answer", 0},
	{"only DONE", stream(events(done)), retries, "damaged answer", 0},
	{"empty choices", stream(events(`{"id":"c1","choices":[]}`, done)), retries, "damaged answer", 0},
	{"plain JSON, empty choices", stream(`{"id":"c1","object":"chat.completion","choices":[]}`), retries, "damaged answer",
		0},
	{"plain JSON, no finish", stream(plain("null", `"Su"`)), retries, "cut off", 0},
	{"invalid JSON", stream(events(delta("Su"), `{"id": KEY`, finishStop)), retries, "damaged answer", 0},
	{"invalid plain JSON", stream("{\n\"id\": KEY"), retries, "damaged answer", 0},
	{"wrong types", stream(events(`{"choices":"KEY"}`)), refuses, "unreadable answer", 0},
	{"content a number", stream(events(`{"choices":[{"index":0,"delta":{"content":7}}]}`)), refuses, "unreadable answer",
		0},
	{"HTML", stream("<!doctype html><html><title>Login</title>KEY</html>"), dies, notAnAnswer, 0},
	{"error, 200", stream(openaiError("oops", "server_error", "")), retries, "error in answer", 0},
	{"error, 200, refused", stream(openaiError("too long", "invalid_request_error", "context_length_exceeded")), refuses,
		"400", 0},
	{"error, 200, number", stream(`{"error":{"message":"KEY","code":503}}`), retries, "503", 0},
	{"error, 200, text", stream(`{"error":"KEY"}`), retries, "error in answer", 0},
	{"error, 200, detail", stream(`{"object":"error","message":"KEY","code":50001}`), retries, "error in answer", 0},
	{"error in stream", stream(events(delta("Su"), `{"error":{"message":"KEY"}}`, done)), retries, "error in answer", 0},
	{"error in stream, spaced", stream(events(delta("Su"), `{ "error" : {"message":"KEY"} }`, finishStop)), retries,
		"error in answer", 0},
	{"error in stream, without data", stream(events(delta("Su")) + "{\"error\":{\"message\":\"KEY\"}}\n"), retries,
		"error in answer", 0},
	{"error in stream, own field", stream(events(delta("Su")) + "error: {\"message\":\"KEY\"}\n"), retries,
		"error in answer", 0},
	{"error in stream, own event", stream(events(delta("Su")) + "event: error\ndata: {\"message\":\"KEY\"}\n\n" +
		events(finishStop)), retries, "error in answer", 0},
	{"error in stream, text", stream(events(delta("Su")) + "event: error\ndata: KEY\n\n"), retries, "error in answer", 0},
	{"error in stream, limit", stream(events(delta("Su"), `{"error":{"message":"KEY","type":"rate_limit_error"}}`)), waits,
		"429", 0},
	{"finish reason error", stream(events(delta("Su"), strings.Replace(finishStop, `"stop"`, `"error"`, 1), done)),
		retries, "error in answer", 0},
	{"content after finish", stream(events(delta("Su"), finishStop, delta("re"), done)), retries, "damaged answer", 0},
	{"everything twice", stream(events(delta("Su"), finishStop, delta("Su"), finishStop, done)), retries, "damaged answer",
		0},
	{"endless", endless, retries, "answer too large", 0},
	{"endless line", then("data: ", func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(bytes.Repeat([]byte("a"), 64<<10)); err != nil {
				return
			}
		}
	}), retries, "answer too large", 0},
	{"gzip bomb", bomb, retries, "answer too large", 0},
	{"not HTTP", func(w http.ResponseWriter, r *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		io.WriteString(c, with("KEY SSH-2.0\r\n\r\n"))
		c.Close()
	}, retries, "connection lost", 0},
}

// testPool returns a pool with one endpoint, teacher.localhost, on n.
func testPool(t *testing.T, n *network, change func(*Options)) *Pool {
	t.Helper()
	o := Options{BaseURLs: []string{"http://teacher.localhost/v1"}, APIKey: secret.New(canary), JitterSeed: 1,
		MaxAnswerBytes: 4 << 20, dial: n.dial}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	expect.OK(t, err)
	return p
}

func testBody(t *testing.T) []byte {
	t.Helper()
	body, err := Request{Model: "m", Messages: []Message{{"user", "hello"}}}.Body(true)
	expect.OK(t, err)
	return body
}

// messages has parts of the errors' texts, by reason.
var messages = map[string]string{
	"first token timeout": "no token within 5m0s", "stall": "no data for 1m0s in the middle of the answer",
	"total timeout": "not complete within 15m0s", "answer too large": "the answer is longer than 4 MiB",
	"connection lost": "connection lost: ",
}

func reasonOf(err error) string {
	var r *RequestRefused
	var f *Fatal
	var u *Unavailable
	switch {
	case errors.As(err, &r):
		return r.Reason
	case errors.As(err, &f):
		return f.Reason
	case errors.As(err, &u):
		return u.Reason
	}
	return ""
}

func TestFaults_OfServers(t *testing.T) {
	for _, scene := range scenes {
		t.Run(scene.name, func(t *testing.T) {
			for _, once := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					n := newNetwork()
					defer n.close()
					thief := 0
					for _, other := range []string{"thief.test:80", "teacher.localhost:8080", "teacher.localhost:443"} {
						n.set(other, func(c net.Conn) { thief++; c.Close() })
					}
					var calls atomic.Int64
					var second time.Time
					start := time.Now()
					n.serve(host, func(w http.ResponseWriter, r *http.Request) {
						call := calls.Add(1)
						// A server notices that a client has gone only after it has read the body.
						body, _ := io.ReadAll(r.Body)
						r.Body = io.NopCloser(bytes.NewReader(body))
						if call == 2 {
							second = time.Now()
						}
						if call > 1 && once {
							stream(goodStream)(w, r)
							return
						}
						scene.play(w, r)
					})
					p := testPool(t, n, nil)
					defer p.Close()
					a, err := p.Complete(context.Background(), testBody(t))

					want, text := scene.want, scene.reason
					if once && (want == retries || want == waits) {
						want, text = answers, goodText
					}
					switch want {
					case answers:
						if err != nil || a.Text != text {
							t.Fatalf("got %.80q, error %v; want the answer %.80q", a.Text, err, text)
						}
						if a.FinishReason != finishOf(a) || a.Endpoint != "http://teacher.localhost/v1" {
							t.Errorf("answer %+v", a)
						}
					case refuses, dies, retries, waits:
						if want == waits {
							want = retries
						}
						if got := fmt.Sprintf("*%s", strings.TrimPrefix(fmt.Sprintf("%T", err), "*openai.")); got != string(want) ||
							reasonOf(err) != text {
							t.Fatalf("got %s for %q: %v; want %s for %q", got, reasonOf(err), err, want, text)
						}
					}
					var r *RequestRefused
					if errors.As(err, &r) && r.Status != 200 && strconv.Itoa(r.Status) != r.Reason {
						t.Errorf("refused with the status %d and the reason %q", r.Status, r.Reason)
					}
					if err != nil && (!strings.Contains(err.Error(), "http://teacher.localhost/v1") ||
						!strings.Contains(err.Error(), messages[text])) {
						t.Errorf("error %q, which should say %q", err, messages[text])
					}
					elapsed := time.Since(start)
					switch {
					case scene.want == answers:
						if calls.Load() != 1 && !strings.HasPrefix(scene.name, "redirect") {
							t.Errorf("%d calls for one answer", calls.Load())
						}
					case scene.want == retries && !once:
						// A request that takes minutes to fail is given up when the endpoint is dead.
						var u *Unavailable
						if errors.As(err, &u); calls.Load() != 6 && !(u.AllDead && calls.Load() >= 4) {
							t.Errorf("%d calls, want 6", calls.Load())
						}
					case scene.want == waits && !once:
						var u *Unavailable
						if errors.As(err, &u); !u.AllDead || elapsed != 2*time.Minute || scene.pause == 0 && calls.Load() < 7 {
							t.Errorf("%d calls in %v, want the dead timeout to end it: %v", calls.Load(), elapsed, err)
						}
					case scene.want == retries || scene.want == waits:
						if calls.Load() != 2 || a.Attempts != 2 {
							t.Errorf("%d calls, %d attempts; want 2", calls.Load(), a.Attempts)
						}
						if got := second.Sub(start); got < scene.pause || got > scene.pause+2*time.Second {
							t.Errorf("second attempt after %v, want %v and little more", got, scene.pause)
						}
						if p.Stats().Retries[scene.reason] != 1 {
							t.Errorf("retries %v, want one for %q", p.Stats().Retries, scene.reason)
						}
					case scene.want == refuses || scene.want == dies:
						if calls.Load() != 1 && scene.name != "redirect to itself" {
							t.Errorf("%d calls, want 1", calls.Load())
						}
					}
					if thief > 0 {
						t.Errorf("another host was called")
					}
					if s := p.Stats(); s.InFlight != 0 || s.Waiting != 0 {
						t.Errorf("left over: %+v", s)
					}
					if err != nil && len(err.Error()) > maxMessage+200 {
						t.Errorf("error of %d bytes", len(err.Error()))
					}
					secrettest.Check(t, err)
					secrettest.Check(t, a)
					secrettest.Check(t, p.Stats())
					secrettest.Check(t, p)
					secrettest.Check(t, p.o)
				})
				if scene.want != retries && scene.want != waits {
					break
				}
			}
		})
	}
}

// finishOf returns the finish reason of the answers of the table.
func finishOf(a Answer) string {
	if a.Text == "I will not." {
		return Refusal
	}
	return "stop"
}
