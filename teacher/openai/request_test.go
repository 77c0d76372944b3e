package openai

import (
	"encoding/json"
	"fmt"
	"math"
	neturl "net/url"
	"strings"
	"testing"
	"time"

	"restyle/internal/secret"
	"restyle/internal/secret/secrettest"
)

func TestBody(t *testing.T) {
	hello := []Message{{"user", "hi"}}
	for _, test := range []struct {
		name   string
		r      Request
		stream bool
		want   string // or part of the error
	}{
		{"least", Request{Model: "m", Messages: hello}, false,
			`{"messages":[{"role":"user","content":"hi"}],"model":"m","seed":0,"temperature":0}`},
		{"stream", Request{Model: "m", Messages: hello}, true,
			`{"messages":[{"role":"user","content":"hi"}],"model":"m","seed":0,"stream":true,` +
				`"stream_options":{"include_usage":true},"temperature":0}`},
		{"all", Request{"m", hello, 0.8, 512, -3, []string{"a", "b"},
			map[string]any{"top_k": 40, "chat_template_kwargs": map[string]any{"b": 1, "a": false}}}, false,
			`{"chat_template_kwargs":{"a":false,"b":1},"max_tokens":512,"messages":[{"role":"user","content":"hi"}],` +
				`"model":"m","seed":-3,"stop":["a","b"],"temperature":0.8,"top_k":40}`},
		{"fields left out", Request{Model: "m", Messages: hello, MaxTokens: 5, Extra: map[string]any{"seed": nil,
			"temperature": nil, "max_tokens": nil, "stream_options": nil, "max_completion_tokens": 5}}, true,
			`{"max_completion_tokens":5,"messages":[{"role":"user","content":"hi"}],"model":"m","stream":true}`},
		{"no model", Request{Messages: hello}, true, "without a model"},
		{"no messages", Request{Model: "m"}, true, "without messages"},
		{"not UTF-8", Request{Model: "m", Messages: []Message{{"user", "a\xff"}}}, true, "message 0: not valid UTF-8"},
		{"a role that is not UTF-8", Request{Model: "m", Messages: []Message{{"user", "a"}, {"\xff", "a"}}}, true,
			"message 1: not valid UTF-8"},
		{"NaN", Request{Model: "m", Messages: hello, Temperature: math.NaN()}, true, "NaN"},
		{"a function", Request{Model: "m", Messages: hello, Extra: map[string]any{"f": func() {}}}, true, "unsupported type"},
		{"extra stream", Request{Model: "m", Messages: hello, Extra: map[string]any{"stream": false}}, true,
			`extra field "stream"`},
	} {
		for range 5 { // the order of maps must not matter
			got, err := test.r.Body(test.stream)
			if err != nil {
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v", test.name, err)
				}
				continue
			}
			if string(got) != test.want || !json.Valid(got) {
				t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
			}
		}
	}
}

func TestKey(t *testing.T) {
	const base = "http://localhost:8000/v1"
	body := []byte(`{"a":1}`)
	if len(Key(base, body)) != 64 {
		t.Errorf("got %q", Key(base, body))
	}
	for _, same := range []string{base + "/", "HTTP://LocalHost:8000/v1", base + "//"} {
		if Key(same, body) != Key(base, body) {
			t.Errorf("%s has another key than %s", same, base)
		}
	}
	if Key("https://a.b:443/v1", body) != Key("https://A.b/v1/", body) ||
		Key("http://[::1]:80", body) != Key("http://[::1]/", body) {
		t.Error("a default port makes a difference")
	}
	seen := map[string]string{}
	for _, other := range []string{base, "https://localhost:8000/v1", "http://localhost:8001/v1",
		"http://localhost:8000/V1", "http://localhost:8000", "", "not a URL", "http://[::1"} {
		for _, body := range []string{"", `{"a":1}`, `{"a":2}`} {
			k := Key(other, []byte(body))
			if seen[k] != "" {
				t.Errorf("%s %s has the key of %s", other, body, seen[k])
			}
			seen[k] = other + " " + body
		}
	}
}

func TestOptions(t *testing.T) {
	good := func(change func(*Options)) Options {
		o := Options{BaseURLs: []string{"http://localhost:8000/v1"}}
		change(&o)
		return o
	}
	url := func(urls ...string) Options { return Options{BaseURLs: urls, APIKey: secret.New(canary)} }
	for _, test := range []struct {
		o    Options
		want string // part of the error; accepted if empty
	}{
		{url("http://localhost:8000/v1"), ""},
		{url("https://example.com/v1/", "http://[::1]:8000"), ""},
		{url(" http://localhost:8000/v1\n"), ""},
		{url(), "no base URL"},
		{url(""), "does not start with"},
		{url("localhost:8000/v1"), "does not start with"},
		{url("ftp://localhost/v1"), "does not start with"},
		{url("http://"), "names no host"},
		{url("http://:8000/v1"), "names no host"},
		{url("http://a b/"), "not a URL"},
		{url("http://me:" + neturl.QueryEscape(canary) + "@host/v1"), "a user or password"},
		{url("http://host/v1?key=" + canary), "a query"},
		{url("http://host/v1#x"), "a query or a fragment"},
		{url(canary), "does not start with"},
		{url("http://host/v1/chat/completions"), "remove /chat/completions"},
		{url("http://host/v1", "http://HOST:80/v1/"), "twice"},
		{url("http://host/v1"), "unencrypted"},
		{url("http://10.0.0.1/v1"), "unencrypted"},
		{url("http://localhost.example/v1"), "unencrypted"},
		{url("http://localhost/v1", "http://host/v1"), "unencrypted"},
		{url("http://a.localhost/v1", "http://127.0.0.1:1/v1", "https://host/v1"), ""},
		{good(func(o *Options) { o.BaseURLs = []string{"http://host/v1"} }), ""},
		{good(func(o *Options) { o.APIKey = secret.New("two words") }), "space"},
		{good(func(o *Options) { o.APIKey = secret.New("ключ-ключ") }), "outside ASCII"},
		{good(func(o *Options) { o.Concurrency = -1 }), "concurrency -1: must be"},
		{good(func(o *Options) { o.MaxConcurrency = -1 }), "maximum concurrency -1: must be"},
		{good(func(o *Options) { o.Retries = -2 }), "retries -2: must be"},
		{good(func(o *Options) { o.StallTimeout = -time.Second }), "stall timeout -1s: must not"},
		{good(func(o *Options) { o.MaxAnswerBytes = -1 }), "maximum answer size -1: must not"},
	} {
		p, err := New(test.o)
		if test.want == "" && err != nil || test.want != "" && (err == nil ||
			!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "%!")) {
			t.Errorf("%q: got %v, want %q", test.o.BaseURLs, err, test.want)
		}
		if err != nil {
			secrettest.Check(t, err)
			continue
		}
		p.Close()
	}
	o, err := good(func(o *Options) { o.Retries = -1 }).withDefaults()
	got := fmt.Sprint(o.Concurrency, o.MaxConcurrency, o.Retries, o.ConnectTimeout, o.FirstTokenTimeout, o.StallTimeout,
		o.TotalTimeout, o.Backoff, o.ThrottleTimeout, o.DeadTimeout, o.MaxAnswerBytes)
	if want := "0 256 -1 10s 5m0s 1m0s 15m0s 500ms 30m0s 2m0s 33554432"; err != nil || got != want || o.JitterSeed == 0 {
		t.Errorf("defaults %s, seed %d, %v; want %s", got, o.JitterSeed, err, want)
	}
}
