package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"restyle/internal/cli"
)

// TestWeb starts a program in serve's place: chat passes its models and flags on, opens the page and ends the program.
// It reads the program's log while the browser runs, or the program would wait.
func TestWeb(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(self), "serve")
	script := "#!/bin/sh\ntrap 'exit 0' TERM\necho \"$@\" >\"$0.args\"\necho loading it >&2\n" +
		"echo listening on http://127.0.0.1:1234 >&2\n" +
		"for i in $(seq 5000); do echo line $i of the log of requests >&2; done\nwhile :; do sleep 0.01; done\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(program)
	ctx, cancel := context.WithCancel(t.Context())
	defer func(b func(string) error) { browser = b }(browser)
	opened := ""
	browser = func(url string) error {
		opened = url
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if got, _ := os.ReadFile(program + ".args"); len(got) > 0 {
				break
			}
		}
		cancel()
		return os.ErrNotExist
	}
	var stdout, stderr bytes.Buffer
	args := []string{"--web", "--base", "starter", "--tuned", "starter", "--device", "cpu", "--quantize", "int8"}
	code := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	got, _ := os.ReadFile(program + ".args")
	defer os.Remove(program + ".args")
	want := "base=starter tuned=starter --listen 127.0.0.1:0 --device cpu --dtype auto --context 8192 --sequences 4 " +
		"--threads 0 --quantize int8\n"
	if code != cli.Stopped || opened != "http://127.0.0.1:1234" || string(got) != want {
		t.Errorf("exit %d, opened %q, serve got %q, want %q\n%s", code, opened, got, want, stderr.String())
	}
	for _, text := range []string{"loading it", "chat is at http://127.0.0.1:1234 until Ctrl-C",
		"open that address yourself"} {
		if !strings.Contains(stderr.String(), text) {
			t.Errorf("no %q in %s", text, stderr.String())
		}
	}
	c := &chatter{options: defaults()}
	adapter := t.TempDir()
	if err := os.WriteFile(filepath.Join(adapter, "adapter_config.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	alone := c.serveArgs([]modelRef{{tunedLabel, adapter, "starter"}})
	if got := strings.Join(alone[:3], " "); got != "base=starter --adapter tuned="+adapter {
		t.Errorf("an adapter alone: %s", got)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no memory >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	code = run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	if code != cli.Failed || !strings.Contains(stderr.String(), "no memory") ||
		!strings.Contains(stderr.String(), "--web: serve ended: exit status 1") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}
