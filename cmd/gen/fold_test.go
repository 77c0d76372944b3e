package main

import (
	"strings"
	"testing"

	"restyle/internal/cli"
)

// TestFoldSystem runs gen with servers whose chat templates take no system prompt. Each says so in its own words.
func TestFoldSystem(t *testing.T) {
	source := tasks(t, 40)
	for _, c := range []struct {
		status  int
		message string
	}{
		{400, "System role not supported"}, // Gemma's template in vLLM
		{500, "Jinja Exception: System role not supported"},
		{400, "Conversation roles must alternate user/assistant/user/assistant/..."}, // Mistral's
		{400, "Only user and assistant roles are supported!"},
		{400, "Developer instruction is not enabled for models/gemma-3-27b-it"}, // Google AI Studio
		{400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."},
		{422, "system messages are not supported"},
	} {
		t.Run(c.message, func(t *testing.T) {
			s := newServer(t, func(ask call) bool {
				if q, _ := parseQuery(ask.body); q.Messages[0].Role != "system" {
					return false
				}
				status(c.status, c.message)(ask)
				return true
			})
			f := newFolder(t)
			args := []string{"--source", source, "--rows", "15", "--out", f.out, "--base-url", s.base(), "--model", "fake",
				"--retries", "0"}
			code := cli.Failed
			if c.status == 500 {
				code = cli.Retry
			}
			o := must(t, code, args...)
			if !strings.Contains(o.stderr, c.message) || !strings.Contains(o.stderr, "--fold-system") {
				t.Error(o)
			}
			o = must(t, cli.Done, append(args, "--fold-system", "--judge", "fake")...)
			f.sound(t, 15)
			if strings.Contains(o.stderr, "without the judge's opinion") {
				t.Error(o)
			}
		})
	}
}

// TestFoldedMessages compares the first request with and without --fold-system: the same words in the same order.
func TestFoldedMessages(t *testing.T) {
	shown := func(args ...string) string {
		o := must(t, cli.Done, append([]string{"--source", tasks(t, 10), "--rows", "5", "--dry-run", "--base-url",
			"http://127.0.0.1:1/v1", "--model", "m", "--out", newFolder(t).out}, args...)...)
		requests, _, _ := strings.Cut(o.stdout, "{\"fit\"") // the estimate of the tokens
		return requests
	}
	plain, folded := shown(), shown("--fold-system")
	if strings.Contains(folded, "── system") || strings.Count(folded, "── user") != strings.Count(plain, "── user") {
		t.Errorf("folded:\n%s", folded)
	}
	words := func(text string) string {
		for _, role := range []string{"system", "user", "assistant"} {
			text = strings.ReplaceAll(text, "── "+role+"\n", "")
		}
		return strings.Join(strings.Fields(text), " ")
	}
	if words(folded) != words(plain) {
		t.Errorf("folded:\n%s\nplain:\n%s", folded, plain)
	}
}

// TestFoldSystem_OnlyForThatError has an error that mentions the system prompt for another reason.
func TestFoldSystem_OnlyForThatError(t *testing.T) {
	s := newServer(t, always(status(400, "this is too much for my file system")))
	o := must(t, cli.Failed, "--source", tasks(t, 20), "--rows", "5", "--out", newFolder(t).out, "--base-url", s.base(),
		"--model", "fake")
	if strings.Contains(o.stderr, "--fold-system") {
		t.Error(o)
	}
}
