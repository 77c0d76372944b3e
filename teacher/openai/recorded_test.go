package openai

import (
	"encoding/json"
	"fmt"
	"testing"

	"restyle/internal/expect"
)

// recorded are functions of the package, for the table in testdata/recorded.txt.
var recorded = map[string]func(args ...string) string{
	"body": func(a ...string) string { return parsed(a[0]) }, // of a response
	"stream": func(a ...string) string { // of these events, and no more
		return parsed(events(a...))
	},
	"request": func(a ...string) string { // with these fields more, and with and without a stream
		var r Request
		if err := json.Unmarshal([]byte(a[0]), &r); err != nil {
			return err.Error()
		}
		var out string
		for _, stream := range []bool{false, true} {
			b, err := r.Body(stream)
			out += fmt.Sprintf("%s %v; ", b, err)
		}
		return out
	},
	"key": func(a ...string) string { return fmt.Sprint(Key(a[0], []byte("x")) == Key(a[1], []byte("x"))) },
}

func TestRecorded(t *testing.T) { expect.Recorded(t, "testdata/recorded.txt", recorded) }

func parsed(body string) string {
	a, err := ParseAnswer([]byte(body))
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%q, %d bytes of thoughts, %s, %s, %d + %d tokens, %q", a.Text, a.Thoughts, a.FinishReason, a.Model,
		a.PromptTokens, a.CompletionTokens, a.Deviations)
}
