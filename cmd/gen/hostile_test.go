package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences into everything that gen reads, and checks everything that it prints.
func TestHostileTexts(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Error-Message", "no \x9b2J \u009b2J \u202e such thing") // a header cannot hold ESC
		w.WriteHeader(http.StatusNotFound)
	}))
	defer hub.Close()
	t.Setenv("HF_ENDPOINT", hub.URL)
	t.Setenv("HF_HOME", t.TempDir())
	hostile.Each(t, func(t *hostile.Test) {
		row := fmt.Sprintf(`{"instruction": %s, "input": "",`+
			` "output": "print(1)\nprint(2)\nprint(3)\nprint(4)\nprint(5)  # a b c"}`, t.JSON)
		source := t.Write(t.Text+".json", "["+row+","+row+"]")
		odd := t.Write("odd.json", fmt.Sprintf(`[{%s: 1, "b": %s}]`, t.JSON, t.JSON))
		s := newServer(t, func(c call) bool {
			c.w.Header().Set("Content-Type", "application/json")
			c.w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(c.w, `{"error":{"message":%s,"type":%s,"code":%s}}`, t.JSON, t.JSON, t.JSON)
			return true
		})
		s.set(func() { s.models = []string{"fake", t.Text} })
		look := func(what string, args ...string) {
			t.Helper()
			o := invoke(t, append(args, "--out", filepath.Join(t.Dir, "out.json"), "--work", filepath.Join(t.Dir, what))...)
			t.Look(what, o.stdout, o.stderr)
		}
		look("preview", "--source", source, "--teacher", "builtin", "--preview", "2")
		look("dry run", "--source", source, "--teacher", "openai", "--model", t.Text, "--base-url", s.base(), "--dry-run")
		look("columns", "--source", odd, "--teacher", "builtin")
		look("column flag", "--source", odd, "--teacher", "builtin", "--columns", "instruction="+t.Text)
		look("style", "--source", source, "--style", filepath.Join(t.Dir, t.Text))
		look("value of a flag", "--temperature", t.Text)
		look("no such source", "--source", filepath.Join(t.Dir, t.Text+"x"))
		look("hub", "--source", "owner/name")
		look("server", "--source", source, "--model", "fake", "--base-url", s.base(), "--retries", "0")
		look("models of a server", "--source", source, "--model", "other", "--base-url", s.base())
		look("choice of models", "--source", source, "--base-url", s.base())
		look("report", "--source", source, "--report")
	})
}
