package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences wherever gen reads something, and looks at all that it prints.
func TestHostileTexts(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Error-Message", "no \x9b2J \u009b2J \u202e such thing") // a header cannot hold ESC
		w.WriteHeader(http.StatusNotFound)
	}))
	defer hub.Close()
	t.Setenv("HF_ENDPOINT", hub.URL)
	t.Setenv("HF_HOME", t.TempDir())
	for name, text := range hostile.Texts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			row := fmt.Sprintf(`{"instruction": %s, "input": "", "output": "print(1)\nprint(2)\nprint(3)\nprint(4)\nprint(5)  # a b c"}`, quoted)
			source := filepath.Join(dir, text+".json")
			if err := os.WriteFile(source, []byte("["+row+","+row+"]"), 0o600); err != nil {
				t.Skip("this file system does not take the name: ", err)
			}
			odd := filepath.Join(dir, "odd.json")
			if err := os.WriteFile(odd, fmt.Appendf(nil, `[{%s: 1, "b": %s}]`, quoted, quoted), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newServer(t, func(c call) bool {
				c.w.Header().Set("Content-Type", "application/json")
				c.w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(c.w, `{"error":{"message":%s,"type":%s,"code":%s}}`, quoted, quoted, quoted)
				return true
			})
			s.set(func() { s.models = []string{"fake", text} })
			look := func(what string, args ...string) {
				t.Helper()
				o := invoke(t, append(args, "--out", filepath.Join(dir, "out.json"), "--work", filepath.Join(dir, what))...)
				for _, output := range []string{o.stdout, o.stderr} {
					if found := hostile.Found(output, false); found != "" {
						t.Errorf("%s: %s", what, found)
					}
				}
			}
			look("preview", "--source", source, "--teacher", "builtin", "--preview", "2")
			look("dry run", "--source", source, "--teacher", "openai", "--model", text, "--base-url", s.base(), "--dry-run")
			look("columns", "--source", odd, "--teacher", "builtin")
			look("column flag", "--source", odd, "--teacher", "builtin", "--columns", "instruction="+text)
			look("style", "--source", source, "--style", filepath.Join(dir, text))
			look("value of a flag", "--temperature", text)
			look("no such source", "--source", filepath.Join(dir, text+"x"))
			look("hub", "--source", "owner/name")
			look("server", "--source", source, "--model", "fake", "--base-url", s.base(), "--retries", "0")
			look("models of a server", "--source", source, "--model", "other", "--base-url", s.base())
			look("choice of models", "--source", source, "--base-url", s.base())
			look("report", "--source", source, "--report")
		})
	}
}
