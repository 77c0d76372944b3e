package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"restyle/infer/batch"
)

const asked = `"messages":[{"role":"user","content":"Hi"}]`

// TestRequests_AreRefusedByName sends what the server cannot do. Each error is in the form of its API, names the
// field, and says what to do; none reaches a model.
func TestRequests_AreRefusedByName(t *testing.T) {
	f := serving(t, Options{Body: 1 << 16, Queue: 8})
	for _, c := range []struct {
		path, body string
		status     int
		param, has string
	}{
		{"chat/completions", `{"logit_bias":{"5":-100},` + asked + `}`, 400, "logit_bias", "does not support"},
		{"chat/completions", `{"functions":[{"name":"f"}],` + asked + `}`, 400, "functions", ""},
		{"chat/completions", `{"audio":{"voice":"x"},` + asked + `}`, 400, "audio", ""},
		{"chat/completions", `{"modalities":["text","audio"],` + asked + `}`, 400, "modalities", "only text"},
		{"chat/completions", `{"frequency_penalty":0.5,` + asked + `}`, 400, "frequency_penalty", "repetition_penalty"},
		{"chat/completions", `{"reasoning_effort":"high",` + asked + `}`, 400, "reasoning_effort", "chat_template_kwargs"},
		{"chat/completions", `{"chat_template_kwargs":{"deep":true},` + asked + `}`, 400, "chat_template_kwargs", `"deep"`},
		{"chat/completions", `{"chat_template_kwargs":{"messages":[]},` + asked + `}`, 400, "chat_template_kwargs",
			"messages"},
		{"chat/completions", `{"n":0,` + asked + `}`, 400, "n", "from 1 to"},
		{"chat/completions", `{"n":1000000,` + asked + `}`, 400, "n", "from 1 to"},
		{"chat/completions", `{"n":9,` + asked + `}`, 400, "n", "at most 8 answers in one request, as many as may wait"},
		{"completions", `{"prompt":["x","y","z"],"n":3}`, 400, "n", "at most 8"},
		{"chat/completions", `{"temperature":-1,` + asked + `}`, 400, "temperature", "from 0"},
		{"chat/completions", `{"temperature":"hot",` + asked + `}`, 400, "temperature", `a number, not "hot"`},
		{"chat/completions", `{"temperature":1e999,` + asked + `}`, 400, "temperature", "a number"},
		{"chat/completions", `{"max_tokens":-5,` + asked + `}`, 400, "max_tokens", "from 1"},
		{"chat/completions", `{"max_tokens":1.5,` + asked + `}`, 400, "max_tokens", "whole"},
		{"chat/completions", `{"stop":"",` + asked + `}`, 400, "stop", "from 1 to"},
		{"chat/completions", `{"stop":{"a":1},` + asked + `}`, 400, "stop", "list of texts"},
		{"chat/completions", `{"seed":1.5e30,` + asked + `}`, 400, "seed", "whole"},
		{"chat/completions", `{"seed":18446744073709551615,` + asked + `}`, 400, "seed", "64 bits"},
		{"chat/completions", `{"top_logprobs":5,` + asked + `}`, 400, "top_logprobs", "only with logprobs"},
		{"chat/completions", `{"logprobs":true,"top_logprobs":21,` + asked + `}`, 400, "top_logprobs", "20"},
		{"chat/completions", `{"stream_options":{"include_usage":true},` + asked + `}`, 400, "stream_options",
			"only with"},
		{"chat/completions", `{"model":"gpt-7",` + asked + `}`, 404, "model", `"starter"`},
		{"chat/completions", `{"messages":[]}`, 400, "messages", "at least one"},
		{"chat/completions", `{"messages":[{"content":"Hi"}]}`, 400, "messages", "no role"},
		{"chat/completions", `{"messages":[{"role":"user","contents":"Hi"}]}`, 400, "messages", "1: it has no content"},
		{"chat/completions", `{"messages":[{"role":"developer","content":null}]}`, 400, "messages", "no content"},
		{"chat/completions", `{"messages":[7]}`, 400, "messages", "message 1: must be an object"},
		{"chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 400,
			"messages", `type "image_url"`},
		{"chat/completions", `{"messages":[{"role":"user","content":"` + strings.Repeat("many words ", 200) + `"}]}`, 400,
			"messages", "maximum context length is 256 tokens. However, your messages resulted in"},
		{"chat/completions", `{"messages":[`, 400, "", "not JSON"},
		{"chat/completions", `[]`, 400, "", "must be a JSON object"},
		{"chat/completions", "{\"model\":\"\xff\"}", 400, "", "UTF-8"},
		{"chat/completions", strings.Repeat(`{"a":`, 20000), 413, "", ""},
		{"chat/completions", strings.Repeat(`[`, 60000), 400, "", "not JSON"},
		{"completions", `{"prompt":"x","n":-5}`, 400, "n", "from 1 to"},
		{"completions", `{"prompt":"x","n":9000000000000000000}`, 400, "n", "from 1 to"},
		{"completions", `{"prompt":"x","suffix":"y"}`, 400, "suffix", ""},
		{"completions", `{"prompt":"x","best_of":3}`, 400, "best_of", "use n"},
		{"completions", `{"prompt":"x","echo":true,"logprobs":1}`, 400, "echo", "log probabilities"},
		{"completions", `{"prompt":{}}`, 400, "prompt", "a text"},
		{"completions", `{"prompt":[["x"]]}`, 400, "prompt", "a text"},
		{"completions", `{"prompt":[]}`, 400, "prompt", "a text"},
		{"completions", `{}`, 400, "prompt", "missing"},
		{"responses", `{"input":"x","previous_response_id":"resp_1"}`, 400, "previous_response_id", "whole conversation"},
		{"responses", `{"input":"x","background":true}`, 400, "background", "wait"},
		{"responses", `{"input":"x","tools":[{"type":"web_search"}]}`, 400, "tools", ""},
		{"responses", `{"input":"x","text":{"format":{"type":"grammar"}}}`, 400, "text", ""},
		{"responses", `{"input":"x","reasoning":{"effort":"high"}}`, 400, "reasoning", "effort"},
		{"responses", `{"input":[{"type":"item_reference","id":"x"}]}`, 400, "input", `"item_reference"`},
		{"responses", `{"input":"x","truncation":"auto"}`, 400, "truncation", "send less"},
		{"messages", `{"max_tokens":5,"thinking":{"type":"enabled","budget_tokens":9},` + asked + `}`, 400, "thinking",
			"as they like"},
		{"messages", `{` + asked + `}`, 400, "max_tokens", "missing"},
		{"messages", `{"max_tokens":5,"system":7,` + asked + `}`, 400, "system", "a text or a list"},
		{"messages/count_tokens", `{"model":"claude",` + asked + `}`, 404, "model", `"starter"`},
		{"chat/nothing", `{}`, 404, "", "POST /v1/chat/nothing"},
		{"models", `{}`, 405, "", "takes GET"},
	} {
		status, text := f.post(t, "/v1/"+c.path, c.body)
		var got struct {
			Type  string
			Error struct{ Message, Type, Param, Code string }
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != c.status || got.Error.Type == "" ||
			!strings.Contains(got.Error.Message, c.has) || !strings.Contains(got.Error.Message, c.param) {
			t.Errorf("%s %.100s: %d %s %v", c.path, c.body, status, text, err)
		}
		if anthropic := strings.HasPrefix(c.path, "messages"); anthropic != (got.Type == "error") || !anthropic &&
			got.Error.Param != c.param {
			t.Errorf("%s %.100s: not in the form of its API: %s", c.path, c.body, text)
		}
	}
	if n := f.started.Load(); n != 0 {
		t.Errorf("%d of them were asked", n)
	}
}

// TestRequests_MayCarryWhatChangesNothing sends fields that programs send with their neutral values, and some unknown
// ones, which a header names.
func TestRequests_MayCarryWhatChangesNothing(t *testing.T) {
	f := serving(t, Options{})
	r, err := http.Post(f.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"logit_bias":{},
		"frequency_penalty":0.0,"presence_penalty":0,"functions":null,"tool_choice":"auto","response_format":{"type":"text"},
		"user":"me","store":true,"metadata":{"a":"b"},"service_tier":"auto","top_k":-1,"temperature":1e-45,"z\u00e9":1,"a":2,
		"model":null,`+asked+`}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if got := r.Header.Get("X-Restyle-Ignored"); r.StatusCode != 200 || got != `a, z\u00e9` {
		t.Errorf("%d, ignored %q", r.StatusCode, got)
	}
	if o := f.last.Load(); o.Temperature != 0 || o.TopK != 0 || o.MaxTokens != 256-len(o.Prompt) {
		t.Errorf("%+v", o)
	}
}

// TestSampling_IsWhatTheAuthorsSuggest checks what a request gets that leaves it out: the embedded model's authors
// suggest temperature 0.8, top-p 0.9 and min-p 0.2. A temperature of the client's own brings none of theirs.
func TestSampling_IsWhatTheAuthorsSuggest(t *testing.T) {
	f := serving(t, Options{MaxTokens: 3})
	for body, want := range map[string][3]float64{
		`{` + asked + `}`:                                 {0.8, 0.9, 0.2},
		`{"top_p":0.5,"min_p":0.1,` + asked + `}`:         {0.8, 0.5, 0.1},
		`{"top_p":0,` + asked + `}`:                       {0.8, mostProbable, 0.2},
		`{"temperature":0.3,"seed":-1,` + asked + `}`:     {0.3, 0, 0},
		`{"temperature":null,"top_p":null,` + asked + `}`: {0.8, 0.9, 0.2},
	} {
		if status, text := f.post(t, "/v1/chat/completions", body); status != 200 {
			t.Fatal(status, text)
		}
		o := f.last.Load()
		if got := [3]float64{o.Temperature, o.TopP, o.MinP}; got != want || o.MaxTokens != 3 {
			t.Errorf("%s: %v, %d tokens", body, got, o.MaxTokens)
		}
	}
}

// TestErrors_TellWhenToTryAgain checks full queues, draining and faults, before and in streams.
func TestErrors_TellWhenToTryAgain(t *testing.T) {
	f := serving(t, Options{})
	for _, c := range []struct {
		refuse  error
		failAt  int
		status  int
		after   string
		has     []string
		message bool // in Anthropic's API
	}{
		{refuse: batch.ErrFull, status: 429, after: "1", has: []string{"rate_limit_error", "queue_full"}},
		{refuse: batch.ErrFull, status: 429, after: "1", has: []string{"rate_limit_error"}, message: true},
		{refuse: batch.ErrClosed, status: 503, after: "5", has: []string{"draining"}},
		{refuse: batch.ErrClosed, status: 503, after: "5", has: []string{"overloaded_error"}, message: true},
		{refuse: errors.New("token 7 is outside"), status: 400, has: []string{"invalid_request_error", "token 7"}},
		{failAt: 2, status: 200, has: []string{`"role":"assistant"`, "\n\ndata: {\"error\":{", "(broken off)"}},
		{failAt: 2, status: 200, has: []string{"event: error\ndata: {\"error\":{", `"type":"error"`, "(broken off)"},
			message: true},
	} {
		f.refuse, f.failAt = c.refuse, c.failAt
		path, body := "/v1/chat/completions", streamed
		if c.message {
			path, body = "/v1/messages", `{"max_tokens":9,`+streamed[1:]
		}
		r, err := http.Post(f.url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		status, text := f.post(t, path, body)
		if status != c.status || r.Header.Get("Retry-After") != c.after {
			t.Errorf("%+v: %d, after %q: %s", c, status, r.Header.Get("Retry-After"), text)
		}
		for _, part := range c.has {
			if !strings.Contains(text, part) {
				t.Errorf("%+v: no %q in\n%s", c, part, text)
			}
		}
		if strings.Contains(text, "device is gone") || strings.Contains(text, "[DONE]") {
			t.Errorf("%+v: says too much: %s", c, text)
		}
	}
	f.refuse, f.failAt = nil, 0
	status, text := f.post(t, "/v1/chat/completions", streamed)
	if status != 200 || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("afterwards: %d %s", status, text)
	}
}
