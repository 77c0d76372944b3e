package main

import (
	"os"
	"strings"
	"sync"
	"testing"

	"restyle/internal/cli"
)

// TestKeyStaysHome checks that an address from .env never gets a key from elsewhere.
func TestKeyStaysHome(t *testing.T) {
	const fromFile = "sk-file-0123456789abcdefghij"
	source := tasks(t, 20)
	for _, c := range []struct {
		name, env string
		realURL   bool // the address is in the environment too
		args      []string
		key       string // that the server gets
		says      string
	}{
		{"address in .env, key in the environment", "OPENAI_BASE_URL=URL\n", false, nil, "", "gen sends no key there"},
		{"both in .env, key in the environment", "OPENAI_BASE_URL=URL\nOPENAI_API_KEY=" + fromFile + "\n", false, nil, "",
			"gen sends no key there"},
		{"address in .env and as a flag", "OPENAI_BASE_URL=URL\n", false, []string{"--base-url", "URL"}, canary, ""},
		{"address in .env and in the environment", "OPENAI_BASE_URL=URL\n", true, nil, canary, ""},
		{"a judge as a flag", "OPENAI_BASE_URL=URL\n", false, []string{"--judge", "fake", "--judge-url", "URL"}, canary,
			"gen sends no key there"},
		{"address in the environment, key in .env", "OPENAI_API_KEY=" + fromFile + "\n", true, nil, canary, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, name := range []string{"TEACHER_MODEL", "OPENAI_BASE_URL"} {
				t.Setenv(name, "") // so that it is restored
				os.Unsetenv(name)
			}
			var mu sync.Mutex
			keys := map[string]bool{}
			s := newServer(t, func(c call) bool {
				mu.Lock()
				defer mu.Unlock()
				keys[strings.TrimPrefix(c.r.Header.Get("Authorization"), "Bearer ")] = true
				return false
			})
			if c.realURL {
				os.Setenv("OPENAI_BASE_URL", s.base())
			}
			if err := os.WriteFile(".env", []byte(strings.ReplaceAll(c.env, "URL=URL", "URL="+s.base())), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--source", source, "--rows", "5", "--model", "fake", "--retries", "0"}
			for _, arg := range c.args {
				args = append(args, strings.ReplaceAll(arg, "URL", s.base()))
			}
			o := invoke(t, args...)
			mu.Lock()
			defer mu.Unlock()
			if !keys[c.key] {
				t.Errorf("the server got %d keys, not the one that it should: %v", len(keys), o)
			}
			for key := range keys {
				if key != c.key && (key == canary || key == fromFile) && !strings.Contains(c.name, "judge") {
					t.Errorf("the server got a key that it should not: %v", o)
				}
			}
			if c.says != "" && !strings.Contains(o.stderr, c.says) || c.says == "" &&
				strings.Contains(o.stderr, "sends no key") {
				t.Error(o)
			}
			if o.code == cli.Usage {
				t.Error(o)
			}
		})
	}
}
