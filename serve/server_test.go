package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"restyle/internal/hostile"
)

const streamed = `{"stream":true,"seed":0,` + asked + `}`

// TestChecks_RefuseStrangers checks keys, names and origins.
func TestChecks_RefuseStrangers(t *testing.T) {
	f := serving(t, Options{Keys: []string{"first-key", "second-key"}, Hosts: []string{"127.0.0.1", "localhost"},
		Origins: []string{"https://good.example"}, Page: fstest.MapFS{"index.html": {Data: []byte("page")}}})
	const chat = "/v1/chat/completions"
	for _, c := range []struct {
		path, body string
		headers    []string
		status     int
	}{
		{chat, `{` + asked + `}`, nil, 401},
		{chat, `{` + asked + `}`, []string{"Authorization", "Bearer first"}, 401},
		{chat, `{` + asked + `}`, []string{"Authorization", "Bearer first-key-and-more"}, 401},
		{chat, `{` + asked + `}`, []string{"Authorization", "first-key"}, 401},
		{chat, `{` + asked + `}`, []string{"Authorization", "Bearer first-key"}, 200},
		{chat, `{` + asked + `}`, []string{"authorization", "bearer second-key"}, 200},
		{"/v1/messages", `{"max_tokens":1,` + asked + `}`, []string{"X-Api-Key", "second-key"}, 200},
		{"/v1/messages", `{"max_tokens":1,` + asked + `}`, []string{"X-Api-Key", "third-key"}, 401},
		{chat, `{` + asked + `}`, []string{"Authorization", "Bearer first-key", "Host", "evil.example:80"}, 403},
		{chat, `{` + asked + `}`, []string{"Authorization", "Bearer first-key", "Host", "LOCALHOST:80"}, 200},
		{chat, `{` + asked + `}`, []string{"Authorization", "Bearer first-key", "Origin", "https://evil.example"}, 403},
		{chat, `{` + asked + `}`, []string{"Authorization", "Bearer first-key", "Origin", "https://good.example"}, 200},
		{"GET /health", "", nil, 200},
		{"GET /ready", "", nil, 200},
		{"GET /", "", nil, 200},
		{"GET /", "", []string{"Host", "evil.example"}, 403},
		{"GET /v1/models", "", nil, 401},
		{"GET /metrics", "", nil, 401},
		{"GET /metrics", "", []string{"Authorization", "Bearer first-key"}, 200},
		{"OPTIONS " + chat, "", []string{"Origin", "https://good.example", "Access-Control-Request-Method", "POST"}, 204},
		{"OPTIONS " + chat, "", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 401},
	} {
		method, path, ok := strings.Cut(c.path, " ")
		if !ok {
			method, path = http.MethodPost, c.path
		}
		r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		r.Host = r.Header.Get("Host")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		allowed := response.Header.Get("Access-Control-Allow-Origin")
		good := r.Header.Get("Origin") == "https://good.example"
		if response.StatusCode != c.status || good != (allowed != "") {
			t.Errorf("%s %v: %d, allowed %q", c.path, c.headers, response.StatusCode, allowed)
		}
	}
}

// TestClients_ThatLeaveFreeTheirAnswers drops clients in the middle of streams and of whole answers: their answers
// end within a token, and no goroutine remains.
func TestClients_ThatLeaveFreeTheirAnswers(t *testing.T) {
	f := serving(t, Options{})
	f.hold = make(chan struct{})
	http.DefaultClient.CloseIdleConnections()
	before := runtime.NumGoroutine()
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		body := []string{`{"n":3,` + asked + `}`, `{"n":3,` + streamed[1:]}[i%2]
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range i % 5 {
				f.hold <- struct{}{}
			}
			for f.running.Load() < 3 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		until(t, "the answers end", func() bool { return f.running.Load() == 0 })
	}
	http.DefaultClient.CloseIdleConnections()
	until(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// until waits for something that must happen soon, whatever else the machine does.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for begun := time.Now(); !happened(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestEnd_LetsAnswersFinish closes a server with a stream in progress, which continues, and ends another, which breaks
// off with an error.
func TestEnd_LetsAnswersFinish(t *testing.T) {
	for _, whole := range []bool{true, false} {
		f := serving(t, Options{})
		f.hold = make(chan struct{})
		var text string
		var group sync.WaitGroup
		group.Go(func() { _, text = f.post(t, "/v1/chat/completions", streamed) })
		for range 2 { // the second one comes after the first has been passed on
			f.hold <- struct{}{}
		}
		f.Close()
		if status, text := f.post(t, "/v1/chat/completions", streamed); status != 503 || !strings.Contains(text, "draining") {
			t.Error(status, text)
		}
		if whole {
			close(f.hold)
		} else {
			f.End()
		}
		group.Wait()
		if whole != strings.HasSuffix(text, "[DONE]\n\n") || whole == strings.HasSuffix(text, "(broken off)") ||
			whole == strings.Contains(text, `"code":"draining"`) {
			t.Errorf("whole %v: %s", whole, text)
		}
	}
}

// TestTimeout_IsAnError lets requests take too long, and checks the signs of life meanwhile.
func TestTimeout_IsAnError(t *testing.T) {
	f := serving(t, Options{Timeout: 200 * time.Millisecond, Alive: 10 * time.Millisecond})
	f.hold = make(chan struct{})
	status, text := f.post(t, "/v1/chat/completions", `{`+asked+`}`)
	if status != 504 || !strings.Contains(text, "timeout") {
		t.Error(status, text)
	}
	for _, c := range []struct{ path, body, alive string }{
		{"chat/completions", asked, `{"delta":{},"finish_reason":null`},
		{"completions", `"prompt":"x"`, `"text":""`},
		{"responses", `"input":"x"`, "event: response.in_progress"},
		{"messages", `"max_tokens":5,` + asked, "event: ping"},
	} {
		status, text := f.post(t, "/v1/"+c.path, `{"stream":true,`+c.body+`}`)
		if status != 200 || strings.Count(text, c.alive) < 3 || !strings.HasSuffix(text, "(broken off)") {
			t.Errorf("%s: %d %s", c.path, status, text)
		}
	}
}

// TestMetrics_Count checks the metrics after requests that succeeded and one that did not.
func TestMetrics_Count(t *testing.T) {
	f := serving(t, Options{})
	f.post(t, "/v1/chat/completions", `{"n":2,"max_tokens":3,"seed":0,`+asked+`}`)
	f.post(t, "/v1/chat/completions", `{"seed":0,`+asked+`}`)
	f.post(t, "/v1/chat/completions", `{"tools":[1],`+asked+`}`)
	r, err := http.Get(f.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	seen := map[string]string{}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		seen[name] = value
	}
	const model = `{model_name="starter"`
	for name, want := range map[string]string{
		"restyle_request_success_total" + model + `,finished_reason="length"`: "2",
		"restyle_request_success_total" + model + `,finished_reason="stop"`:   "1",
		"restyle_request_failure_total" + model + `,status="400"`:             "1",
		"restyle_time_to_first_token_seconds_count" + model:                   "3",
		"restyle_time_to_first_token_seconds_bucket" + model + `,le="+Inf"`:   "3",
		"restyle_e2e_request_latency_seconds_count" + model:                   "2",
		"restyle_num_requests_running" + model:                                "0",
	} {
		if seen[name] != want {
			t.Errorf("%s} is %q, not %s", name, seen[name], want)
		}
	}
}

// TestLog_HasNoPromptsAndNoKeys searches the log for them, and for what it must have.
func TestLog_HasNoPromptsAndNoKeys(t *testing.T) {
	f := serving(t, Options{Keys: []string{"sesame-0123456789"}})
	for i, key := range []string{"sesame-0123456789", "wrong-0123456789"} {
		f.post(t, "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"my secret question"}],"x":"unknown-field","seed":0}`,
			"Authorization", "Bearer "+key, "X-Request-Id", fmt.Sprint("mine-", i))
		f.post(t, "/v1/messages", `{"max_tokens":2,"tools":["hidden tool"],"messages":[]}`, "X-Api-Key", key)
	}
	log := f.log.String()
	for _, secret := range []string{"sesame", "wrong-", "secret question", "hidden tool", "list is", "unknown-field"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q: %s", secret, log)
		}
	}
	var line struct {
		ID, Model      string
		Status, Tokens int
	}
	if err := json.Unmarshal([]byte(strings.SplitN(log, "\n", 2)[0]), &line); err != nil || line.ID != "mine-0" ||
		line.Model != "starter" || line.Status != 200 || line.Tokens != 30 {
		t.Errorf("%+v, %v", line, err)
	}
}

// TestPanic_FailsOneRequest lets a template's tokenizer be absent, as a fault of the program, and what follows an
// answer have one.
func TestPanic_FailsOneRequest(t *testing.T) {
	f := serving(t, Options{})
	f.failAt, f.panics = 1, true
	if status, text := f.post(t, "/v1/chat/completions", `{"n":2,`+asked+`}`); status != 500 ||
		!strings.Contains(text, "server_error") || strings.Contains(text, "out of range") {
		t.Error(status, text)
	}
	f.Server.models[0].Codec.Tokenizer = nil
	status, text := f.post(t, "/v1/chat/completions", streamed)
	if status != 500 || !strings.Contains(text, "server_error") {
		t.Error(status, text)
	}
	if r, err := http.Get(f.url + "/health"); err != nil || r.StatusCode != 200 {
		t.Error(r, err)
	}
}

// FuzzBody sends any body to every API.
func FuzzBody(f *testing.F) {
	for _, body := range []string{`{` + asked + `}`, streamed, `{"prompt":["x",[1]],"n":2,"stop":["a"]}`, `{"input":"x"}`,
		`{"max_tokens":1,"system":[{"type":"text","text":"x"}],` + asked + `}`, `{"tools":[],"top_k":-1,"seed":-9}`,
		`{"response_format":{"type":"json_schema","json_schema":{"schema":{"pattern":"^[a-z]{2}$"}}},` + asked + `}`,
		`{"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},null],` + flatTools + `}`,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}],` + otherTools + `}`} {
		f.Add(body)
	}
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	s := New(Options{})
	codec := starter(f)
	if err := s.Add(Model{Name: "starter", Codec: codec, Context: 256, Generator: &fake{codec: codec}}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(text string) (*body, error) {
			b, err := parseBody([]byte(text))
			if err != nil {
				return nil, err
			}
			return b, nil
		}
		if _, err := hostile.Parse(t, text, read); err != nil {
			return
		}
		for _, ask := range []func(b *body) *question{
			func(b *body) *question { return s.chatQuestion(b, "") },
			func(b *body) *question { q, _ := s.completionsQuestion(b, ""); return q },
			func(b *body) *question { q, _ := s.responsesQuestion(b, ""); return q },
			func(b *body) *question { return s.messagesQuestion(b, "", false) },
		} {
			b, _ := parseBody([]byte(text))
			if q := ask(b); b.err == nil && (q.choices() < 1 || q.choices() > maxChoices || len(q.prompts[0]) == 0) {
				t.Errorf("%d answers to a prompt of %d tokens", q.choices(), len(q.prompts[0]))
			}
		}
	})
}

// deaf is a client's connection that takes a few writes, and no more within their deadlines.
type deaf struct {
	http.ResponseWriter
	left      int
	deadlines int
	written   func()
}

func (d *deaf) SetWriteDeadline(at time.Time) error {
	if until := time.Until(at); until > 0 && until <= 7*time.Second {
		d.deadlines++
	}
	return nil
}

func (d *deaf) Write(data []byte) (int, error) {
	if d.written != nil {
		d.written()
	}
	if d.left--; d.left < 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return len(data), nil
}

func (d *deaf) FlushError() error { return nil }

// TestMetrics_DoNotWaitForTheirReader checks that a client that does not read them holds up no request.
func TestMetrics_DoNotWaitForTheirReader(t *testing.T) {
	f := serving(t, Options{Slow: 7 * time.Second})
	w := &deaf{ResponseWriter: httptest.NewRecorder(), left: 1}
	w.written = func() {
		if !f.models[0].metrics.lock.TryLock() {
			t.Fatal("the metrics are locked")
		}
		f.models[0].metrics.lock.Unlock()
	}
	f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.left != 0 || w.deadlines != 2 {
		t.Errorf("%d writes left, %d deadlines", w.left, w.deadlines)
	}
}

// TestStreams_MayBeSilent lets tokens take longer than a client may take to read them, over HTTP/2.
func TestStreams_MayBeSilent(t *testing.T) {
	f := serving(t, Options{Slow: 50 * time.Millisecond})
	f.pace = 150 * time.Millisecond
	server := httptest.NewUnstartedServer(f.Server)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	r, err := server.Client().Post(server.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"stream":true,"max_tokens":3,`+asked+`}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.ProtoMajor != 2 || !strings.HasSuffix(string(text), "[DONE]\n\n") {
		t.Errorf("%s: %v: %s", r.Proto, err, text)
	}
}

// TestClients_ThatDoNotReadAreDropped checks that each write has a deadline, and that one that is missed ends the
// answer.
func TestClients_ThatDoNotReadAreDropped(t *testing.T) {
	f := serving(t, Options{Slow: 7 * time.Second})
	w := &deaf{ResponseWriter: httptest.NewRecorder(), left: 5}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(streamed))
	f.ServeHTTP(w, r)
	const more = 2 // for the header, and for the end
	if w.deadlines != 6+more || f.running.Load() != 0 || !strings.Contains(f.log.String(), `"status":499`) {
		t.Errorf("%d writes with deadlines, %d answers, %s", w.deadlines, f.running.Load(), f.log.String())
	}
}
