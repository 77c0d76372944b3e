package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestDeviatingServers has servers that deviate from OpenAI's format, each in several ways, and checks that none of
// their answers is lost.
func TestDeviatingServers(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	for name, c := range map[string]struct {
		deviate func(event map[string]any, i int)
		says    []string
	}{
		"ids, index and message": {func(e map[string]any, i int) {
			e["id"] = fmt.Sprint("chat.id.", i)
			for _, c := range e["choices"].([]any) {
				c.(map[string]any)["index"], c.(map[string]any)["message"] = i, c.(map[string]any)["delta"]
			}
		}, []string{"more than one id", "the text of a chunk twice", "index other than 0"}},
		"reasons, errors and usage": {func(e map[string]any, i int) {
			e["error"], e["usage"] = map[string]any{}, []any{}
			for _, c := range e["choices"].([]any) {
				c := c.(map[string]any)
				switch c["finish_reason"] {
				case nil:
					c["finish_reason"] = "null"
				case "stop":
					c["finish_reason"] = "end_turn"
				}
			}
		}, []string{"an empty error", `"null" for none`, `"end_turn" for stop`, "estimates them"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(ask call) bool {
				q, _ := parseQuery(ask.body)
				for i, line := range ask.events(q.answer()) {
					var e map[string]any
					if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &e) == nil {
						c.deviate(e, i)
						b, _ := json.Marshal(e)
						line = "data: " + string(b) + "\n\n"
					}
					io.WriteString(ask.w, line)
				}
				return true
			})
			f := newFolder(t)
			o := must(t, cli.Done, runArgs(f, source, s.base(), "--price-in", "1")...)
			if f.result(t) != want {
				t.Error("the result differs from that of a server that does not deviate")
			}
			for _, says := range c.says {
				if strings.Count(o.stderr, says) != 1 {
					t.Errorf("want %q once in %v", says, o)
				}
			}
			if cost := lastLine(t, o)["cost_usd"].(float64); cost <= 0 {
				t.Errorf("cost %v", cost)
			}
		})
	}
}

// TestUselessAnswers_StopTheRun has a server whose answers are useless, from the start or after good ones: gen must
// stop soon, say why, and resume once the server works, with the cost of the whole run.
func TestUselessAnswers_StopTheRun(t *testing.T) {
	t.Parallel()
	const most = 20 + 80 // and one of each of the 80 rows, which a busy machine may check later
	source := tasks(t, 8*faultRows)
	// gen stops after 20 useless answers in a row: up to three others of the four in flight may be checked before.
	same := "<rewrite>\nOh good, the same words for everybody, obviously. Seriously, I suppose it is fine. Somebody has " +
		"to bother to write it down for you again, and that somebody is me.\n\n[[CODE_1]]"
	for name, c := range map[string]struct {
		answer func(call)
		good   int // answers before
		most   int // answers that are paid for after them
		says   []string
	}{
		"from the start": {func(c call) { c.stream("I would rather not.", "stop") }, 0, most,
			[]string{"none of the last 2", "failed A1: the answer has no <rewrite> tag", "--preview 1"}},
		"after some": {func(c call) { c.stream("I would rather not.", "stop") }, 15, most,
			[]string{"none of the last 2", "failed A1: ", "so far: "}},
		"all the same": {func(c call) { c.stream(same, "stop") }, 15, 3 * most,
			[]string{"none of the last 2", "failed A10: "}},
		"filtered": {func(c call) { c.stream(same, "SAFETY") }, 15, most, []string{`it ended with "content_filter"`}},
		"thoughts": {func(c call) {
			io.WriteString(c.w, event("c", `{"reasoning_content":"Hm. "}`, "null")+event("c", "{}", `"length"`))
		}, 15, most, []string{"spent all of its tokens on thoughts", "--max-tokens 512", "enable_thinking"}},
		"cut off": {func(c call) { c.stream(same[:60], "MAX_TOKENS") }, 15, most,
			[]string{"cut off at the limit of its length", "--max-tokens 512"}},
		"unreadable": {func(c call) { io.WriteString(c.w, event("c", `{"content":7}`, "null")) }, 15, most,
			[]string{"cannot be read: event 1 of the answer: content: neither text"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bad atomic.Bool
			bad.Store(true)
			s := newServer(t, func(ask call) bool {
				if calls, _ := ask.s.counts(); calls <= c.good || !bad.Load() {
					return false
				}
				c.answer(ask)
				return true
			})
			s.good = true
			f := newFolder(t)
			args := runArgs(f, source, s.base(), "--concurrency", "4", "--rows", "80", "--price-in", "1",
				"--price-out", "2")
			o := must(t, cli.Failed, args...)
			if calls, _ := s.counts(); calls-c.good > c.most {
				t.Errorf("%d answers were paid for, after %d good ones", calls, c.good)
			}
			for _, says := range c.says {
				if !strings.Contains(o.stderr, says) {
					t.Errorf("want %q in %v", says, o)
				}
			}
			bad.Store(false)
			o = must(t, cli.Done, args...)
			f.sound(t, 80)
			paid := 0.0
			for line := range strings.Lines(expect.Read(t, filepath.Join(f.out+".work", "journal.log"))) {
				var r struct {
					Answer struct {
						Finish, Text, Key string
						In                float64 `json:"prompt_tokens"`
						Out               float64 `json:"completion_tokens"`
					}
				}
				if json.Unmarshal([]byte(line[9:]), &r) == nil {
					paid += (r.Answer.In + 2*r.Answer.Out) / 1e6
				}
			}
			// The server does not count the tokens of some useless answers: gen estimates them.
			last := lastLine(t, o)
			cost := last["cost_usd"].(float64)
			if cost < paid-1e-9 || last["estimated"] == nil && !(math.Abs(cost-paid) <= 1e-9) {
				t.Errorf("cost %v, want %v", cost, paid)
			}
		})
	}
}

// TestRefusedFields has servers that refuse a field of the request. The message must say how to leave it out, and gen
// must make its rows with that.
func TestRefusedFields(t *testing.T) {
	t.Parallel()
	source := tasks(t, 20)
	for _, c := range []struct {
		status         int
		field, message string
		extra          string // "" if the message must not name --extra
	}{
		{422, "seed", `[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted"}]`,
			`{"seed":null}`},
		{400, "max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. Use " +
			"'max_completion_tokens' instead.", `{"max_tokens":null,"max_completion_tokens":512}`},
		{400, "model", "stop this at once", ""},
	} {
		s := newServer(t, func(ask call) bool {
			if !strings.Contains(string(ask.body), `"`+c.field+`":`) {
				return false
			}
			status(c.status, c.message)(ask)
			return true
		})
		s.good = true
		args := []string{"--source", source, "--out", newFolder(t).out, "--base-url", s.base(), "--model", "fake"}
		for _, how := range [][]string{{"--preview", "1"}, {"--rows", "5"}} {
			o := must(t, cli.Failed, append(args, how...)...)
			if c.extra == "" && strings.Contains(o.stderr, "--extra") || !strings.Contains(o.stderr, c.extra) {
				t.Errorf("%s: want --extra '%s' in %v", c.message, c.extra, o)
			}
			if c.extra != "" {
				must(t, cli.Done, append(args, append(how, "--extra", c.extra)...)...)
			}
		}
	}
}

// TestModelIDs names models as people do, while the servers list them under other ids.
func TestModelIDs(t *testing.T) {
	s := newServer(t, nil)
	s.set(func() { s.models = []string{"models/gemini-2.5-flash", "llama3:latest", "Qwen/Qwen3-8B"} })
	for model, code := range map[string]int{"gemini-2.5-flash": cli.Done, "llama3": cli.Done, "qwen/qwen3-8b": cli.Done,
		"llama3:latest": cli.Done, "Qwen3": cli.Failed, "gemini": cli.Failed} {
		must(t, code, "--source", tasks(t, 20), "--base-url", s.base(), "--model", model, "--preview", "1",
			"--out", newFolder(t).out)
	}
}
