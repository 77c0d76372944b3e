package serve

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/answers again")

// changing is what differs from run to run.
var changing = regexp.MustCompile(`(?:fc_|"(?:call_)?id":")[a-z0-9]{9}\b|` +
	`((?:chatcmpl-|cmpl-|resp_|msg_)[0-9a-f]{24}|"created(?:_at)?":\d+)`)

// TestAnswers_AreThese compares whole answers and streams with recorded ones: read these to see what goes over the
// wire.
func TestAnswers_AreThese(t *testing.T) {
	const ask = `"messages":[{"role":"user","content":"How do I reverse a list?"}],"seed":0`
	f := serving(t, Options{})
	for name, c := range map[string]struct{ path, body string }{
		"chat":        {"/v1/chat/completions", `{"model":"starter",` + ask + `}`},
		"chat-stream": {"/v1/chat/completions", `{"model":"starter","stream":true,"max_tokens":3,` + ask + `}`},
		"chat-usage": {"/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},` +
			`"max_tokens":1,` + ask + `}`},
		"chat-two":     {"/v1/chat/completions", `{"n":2,"max_completion_tokens":2,"max_tokens":9,` + ask + `}`},
		"chat-stop":    {"/v1/chat/completions", `{"stop":" reversed","logprobs":true,"top_logprobs":2,` + ask + `}`},
		"chat-stopped": {"/v1/chat/completions", `{"stop":["xs","z"],"stream":true,"logprobs":true,` + ask + `}`},
		"text":         {"/v1/completions", `{"prompt":"One, two","echo":true,"seed":0}`},
		"text-list":    {"/v1/completions", `{"prompt":["One",[5,6]],"n":2,"max_tokens":1,"seed":0,"logprobs":1}`},
		"text-stream":  {"/v1/completions", `{"prompt":[5,6],"echo":true,"max_tokens":2,"seed":0,"stream":true}`},
		"response":     {"/v1/responses", `{"input":"Hello","instructions":"Be brief.","seed":0}`},
		"response-stream": {"/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]}],` +
			`"max_output_tokens":2,"seed":0,"stream":true,"store":true,"reasoning":{"summary":"auto"}}`},
		"message": {"/v1/messages", `{"max_tokens":99,"stop_sequences":["speak"],` +
			`"system":[{"type":"text","text":"Be brief."}],` + ask + `}`},
		"message-stream": {"/v1/messages", `{"max_tokens":2,"stream":true,` + ask + `}`},
		"message-count":  {"/v1/messages/count_tokens", `{` + ask + `}`},
		"tokenize":       {"/tokenize", `{"prompt":"naïve"}`},
		"tokenize-chat":  {"/tokenize", `{"messages":[{"role":"user","content":"Hi"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			f.recorded(t, name, c.path, c.body)
		})
	}
}

// TestLogprobs_OfAllTokens asks for log probabilities of an answer that has more bytes in tokens than in text, and a
// stop string that does not come.
func TestLogprobs_OfAllTokens(t *testing.T) {
	f := serving(t, Options{})
	f.script = "One.<|im_end|>"
	_, got := f.post(t, "/v1/chat/completions", `{"logprobs":true,"stop":"zzz",`+asked+`}`)
	if n := strings.Count(got, `"logprob"`); !strings.Contains(got, `"content":"One."`) || n == 0 ||
		!strings.Contains(got, fmt.Sprintf(`"completion_tokens":%d`, n)) {
		t.Errorf("log probabilities of %d tokens: %s", n, got)
	}
}

// recorded compares an answer with the file of that name.
func (f *fixture) recorded(t *testing.T, name, path, body string) {
	t.Helper()
	status, got := f.post(t, path, body)
	if status != 200 {
		t.Fatal(status, got)
	}
	got = changing.ReplaceAllString(got, "…")
	file := filepath.Join("testdata", "answers", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
	}
}
