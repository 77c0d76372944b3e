package serve

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"restyle/infer"
	"restyle/infer/jsonform"
	"restyle/serve/web"
	"restyle/tokenizer"
)

const (
	calling = "Let me see.\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a.py\"}}\n</tool_call>\n" +
		"<tool_call>\n{\"name\": \"time\"}\n</tool_call>"
	function = `"description":"Reads a file.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}`
	tools    = `"tools":[{"type":"function","function":{"name":"read",` + function + `}},` +
		`{"type":"function","function":{"name":"time"}}]`
	flatTools  = `"tools":[{"type":"function","name":"read",` + function + `},{"type":"function","name":"time"}]`
	otherTools = `"tools":[{"name":"read","description":"Reads a file.","input_schema":{"type":"object","properties":` +
		`{"path":{"type":"string"}}}},{"name":"time","input_schema":{}}]`
)

// TestCalls_AreThese compares answers that call tools with recorded ones.
func TestCalls_AreThese(t *testing.T) {
	const ask = `"messages":[{"role":"user","content":"What is in a.py?"}],"seed":0`
	f := servingTools(t, "qwen2.5")
	f.script = calling
	for name, c := range map[string]struct{ path, body string }{
		"chat-calls":           {"/v1/chat/completions", `{` + ask + `,` + tools + `}`},
		"chat-calls-stream":    {"/v1/chat/completions", `{"stream":true,` + ask + `,` + tools + `}`},
		"chat-calls-none":      {"/v1/chat/completions", `{"tool_choice":"none",` + ask + `,` + tools + `}`},
		"chat-calls-cut":       {"/v1/chat/completions", `{"max_tokens":30,` + ask + `,` + tools + `}`},
		"chat-calls-one":       {"/v1/chat/completions", `{"parallel_tool_calls":false,` + ask + `,` + tools + `}`},
		"response-calls":       {"/v1/responses", `{"input":"What is in a.py?","seed":0,` + flatTools + `}`},
		"response-call-stream": {"/v1/responses", `{"input":"What is in a.py?","seed":0,"stream":true,` + flatTools + `}`},
		"message-calls":        {"/v1/messages", `{"max_tokens":99,` + ask + `,` + otherTools + `}`},
		"message-calls-one": {"/v1/messages", `{"max_tokens":99,"stream":true,` +
			`"tool_choice":{"type":"auto","disable_parallel_tool_use":true},` + ask + `,` + otherTools + `}`},
		"message-calls-stream": {"/v1/messages", `{"max_tokens":99,"stream":true,` + ask + `,` + otherTools + `}`},
	} {
		t.Run(name, func(t *testing.T) { f.recorded(t, name, c.path, c.body) })
	}
}

// TestCalls_OfEarlierTurns gives a conversation with a call and its result in the form of each API: all become the
// same prompt.
func TestCalls_OfEarlierTurns(t *testing.T) {
	f := servingTools(t, "qwen2.5")
	const question, arguments = `{"role":"user","content":"What is in a.py?"}`, `"{\"path\": \"a.py\"}"`
	const said = `{"role":"assistant","content":[{"type":"text","text":"Well."},`
	var prompts []string
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"messages":[` + question + `,{"role":"assistant","content":"Well.","tool_calls":[` +
			`{"id":"call_1","type":"function","function":{"name":"read","arguments":` + arguments + `}}]},` +
			`{"role":"tool","tool_call_id":"call_1","content":"x = 1"}],` + tools + `}`},
		{"/v1/messages", `{"max_tokens":9,"messages":[` + question + `,` + said +
			`{"type":"tool_use","id":"call_1","name":"read","input":{"path":"a.py"}}]},{"role":"user","content":[` +
			`{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"x = 1"}]}]}],` +
			otherTools + `}`},
		{"/v1/responses", `{"input":[` + question + `,{"type":"message","role":"assistant","content":[` +
			`{"type":"output_text","text":"Well."}]},` +
			`{"type":"function_call","call_id":"call_1","name":"read","arguments":` + arguments + `},` +
			`{"type":"function_call_output","call_id":"call_1","output":"x = 1"}],` + flatTools + `}`},
	} {
		if status, text := f.post(t, c.path, c.body); status != 200 {
			t.Fatal(c.path, status, text)
		}
		text := f.codec.Tokenizer.Decode(f.last.Load().Prompt, false)
		_, text, _ = strings.Cut(text, "What is in a.py?")
		// A call that is an item of its own is a message of its own.
		text = strings.ReplaceAll(text, "<|im_end|>\n<|im_start|>assistant\n<tool_call>", "\n<tool_call>")
		prompts = append(prompts, text)
	}
	if !strings.Contains(prompts[0], "<tool_response>\nx = 1") ||
		!strings.Contains(prompts[0], `"arguments": {"path": "a.py"}`) {
		t.Errorf("a call and its result are not in %s", prompts[0])
	}
	for _, other := range prompts[1:] {
		if other != prompts[0] {
			t.Errorf("got  %q\nwant %q", other, prompts[0])
		}
	}
}

// TestPage_HasAPolicy checks the header by which a browser runs nothing but the page's own files.
func TestPage_HasAPolicy(t *testing.T) {
	f := serving(t, Options{Page: web.Files})
	for path, kind := range map[string]string{"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css"} {
		r, err := http.Get(f.url + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		policy, got := r.Header.Get("Content-Security-Policy"), r.Header.Get("Content-Type")
		if r.StatusCode != 200 || !strings.HasPrefix(got, kind) || !strings.Contains(policy, "default-src 'self'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d %s %s", path, r.StatusCode, got, policy)
		}
	}
}

// TestConstraints tells which text may come, by what each request asks for.
func TestConstraints(t *testing.T) {
	f := servingTools(t, "qwen2.5")
	const chat = "/v1/chat/completions"
	const ask = `"messages":[{"role":"user","content":"q"}],`
	const schema = `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`
	for _, c := range []struct{ path, body, good, bad string }{
		{chat, ask + `"response_format":{"type":"json_object"}`, `{"b": [1]}`, `[1]`},
		{chat, ask + `"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` + schema +
			`}}`, `{"a": 1}`, `{"b": 1}`},
		{"/v1/responses", `"input":"q","text":{"format":{"type":"json_schema","name":"x","schema":` + schema + `}}`,
			`{"a": 1}`, `{"a": "1"}`},
		{"/v1/completions", `"prompt":"q","response_format":{"type":"json_object"}`, `{}`, `1`},
		{chat, ask + `"tool_choice":"required",` + tools,
			"<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>", `{"name"`},
		{"/v1/messages", ask + `"max_tokens":9,"tool_choice":{"type":"tool","name":"read"},` + otherTools,
			"<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"x\"}}\n</tool_call>",
			"<tool_call>\n{\"name\": \"time\""},
	} {
		if status, text := f.post(t, c.path, "{"+c.body+"}"); status != 200 {
			t.Fatal(c.body, status, text)
		}
		for _, text := range []string{c.good, c.bad} {
			f.post(t, c.path, "{"+c.body+"}")
			if got := takes(f.codec.Tokenizer, f.last.Load().Constraint, text); got != (text == c.good) {
				t.Errorf("%s: %q may come: %v", c.body, text, got)
			}
		}
	}
	f.post(t, chat, "{"+ask+tools+"}")
	if f.last.Load().Constraint != nil {
		t.Error("an answer that need not call is constrained")
	}
}

// takes reports whether a constraint allows the tokens of a text.
func takes(tok *tokenizer.Tokenizer, c infer.Constraint, text string) bool {
	for _, id := range tok.Encode(text, tokenizer.EncodeOptions{}).IDs {
		logits := make([]float32, tok.MaxID()+1)
		if c.Mask(logits); math.IsInf(float64(logits[id]), -1) || c.Accept(id) != nil {
			return false
		}
	}
	return true
}

// TestConstraints_AreRefusedByName has what cannot be.
func TestConstraints_AreRefusedByName(t *testing.T) {
	f := servingTools(t, "qwen2.5")
	for _, c := range []struct{ body, has string }{
		{`"response_format":{"type":"xml"}`, `response_format: the type \"xml\"`},
		{`"response_format":{"type":"json_schema"}`, "response_format: it has no schema"},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"multipleOf":2}}}}}`,
			"response_format: schema: $.properties.a: the keyword"},
		{`"response_format":{"type":"json_object"},"ignore_eos":true`, "ignore_eos: not together with response_format"},
		{`"response_format":{"type":"json_object"},` + tools, "response_format: not together with tools"},
		{`"tools":[{"type":"web_search"}]`, "tools: tools[0].type"},
		{`"tool_choice":"required"`, "tools: tool_choice required: there are no tools"},
		{`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"not":{}}}}]`,
			`the keyword \"not\" is not supported`},
	} {
		status, text := f.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"q"}],`+c.body+`}`)
		if status != 400 || !strings.Contains(text, c.has) {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
	if n := f.started.Load(); n != 0 {
		t.Errorf("%d of them were asked", n)
	}
	if e := f.broken(t.Context(), fmt.Errorf("after token 9: %w", jsonform.ErrCostly)); e != costly {
		t.Errorf("a schema that takes too long: %v", e)
	}
}
