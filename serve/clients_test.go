package serve

import (
	"bufio"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"restyle/infer/batch"
)

// recorded is what every client prints, as far as it can ask for it.
var recorded = map[string]string{
	"chat":            script + " stop 30",
	"stream":          script + " stop 30",
	"stop":            "A list is stop",
	"two":             "0 A list length 1 list is length",
	"logprobs":        "A|0.000|2  list|-0.125|2",
	"helper":          "A list is",
	"text":            "A list is length",
	"response":        script + " completed",
	"response stream": script + " response.completed",
	"models":          "starter full closed fault starter",
	"refused":         "400 unsupported_parameter",
	"unknown":         "404 model_not_found",
	"too long":        "400 context_length_exceeded",
	"wrong key":       "401 invalid_api_key",
	"full":            "429 queue_full",
	"draining":        "503 draining",
	"fault":           "The model failed on this request: the server's log says why.",
}

// clients are programs in testdata/clients, in their own languages. RESTYLE_CLIENTS_PYTHON says where their packages
// are, a directory of pip's, and so does RESTYLE_CLIENTS_NODE, a directory with node_modules.
var clients = []struct {
	name    string
	command []string
	own     map[string]string // lines that differ from the others'
}{
	{"go-openai", []string{"go", "run", "."}, nil},
	{"openai-go", []string{"go", "run", ".", "official"}, map[string]string{"fault": "true"}},
	{"openai-python", []string{"python", "use_openai.py"}, nil},
	{"openai-node", []string{"node", "use_openai.mjs"}, nil},
	{"ai-sdk", []string{"node", "use_ai-sdk.mjs"}, nil},
	{"anthropic-python", []string{"python", "use_anthropic.py"}, map[string]string{
		"message": script + " end_turn 30", "stream": "A list is max_tokens", "stop": "A list is stop_sequence ' reversed'",
		"count": "17", "unknown": "404 not_found_error", "wrong key": "401 authentication_error",
		"full": "429 rate_limit_error", "draining": "503 overloaded_error"}},
}

// TestClients_UnderstandEveryAnswer runs each client on a server that says the script, and compares what it prints.
func TestClients_UnderstandEveryAnswer(t *testing.T) {
	f := serving(t, Options{Keys: []string{"the-key"}})
	for _, other := range []struct {
		name string
		*fake
	}{
		{"full", &fake{refuse: batch.ErrFull}}, {"closed", &fake{refuse: batch.ErrClosed}}, {"fault", &fake{failAt: 2}},
	} {
		other.codec = f.codec
		defer func() {
			if n := other.running.Load(); n != 0 {
				t.Errorf("%d answers of %s are not closed", n, other.name)
			}
		}()
		if err := f.Add(Model{Name: other.name, Codec: f.codec, Context: 256, Generator: other.fake}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			run := client(t, c.command)
			run.Env = append(run.Environ(), "BASE_URL="+f.url, "KEY=the-key", "GOFLAGS=",
				"PYTHONPATH="+os.Getenv("RESTYLE_CLIENTS_PYTHON"), "PYTHONDONTWRITEBYTECODE=1")
			out, err := run.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			lines := 0
			for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); lines++ {
				what, got, _ := strings.Cut(s.Text(), ": ")
				want, is := c.own[what]
				if !is {
					want = recorded[what]
				}
				if got != want {
					t.Errorf("%s: %q, not %q", what, got, want)
				}
			}
			if lines < 8 {
				t.Errorf("only %d lines:\n%s", lines, out)
			}
		})
	}
}

// client returns the command of a client, or skips the test if this machine lacks what it needs.
func client(t *testing.T, command []string) *exec.Cmd {
	program, dir := command[0], filepath.Join("testdata", "clients")
	args := append([]string(nil), command[1:]...)
	switch program {
	case "go":
		dir = filepath.Join(dir, "go")
		get := exec.Command("go", "mod", "download")
		get.Dir = dir
		if out, err := get.CombinedOutput(); err != nil {
			t.Skipf("its modules are not there: %v %s", err, out)
		}
	case "python":
		if os.Getenv("RESTYLE_CLIENTS_PYTHON") == "" {
			t.Skip("RESTYLE_CLIENTS_PYTHON is not set: a directory with openai and anthropic, as pip install --target makes it")
		}
		program = "python3"
	case "node":
		packages := os.Getenv("RESTYLE_CLIENTS_NODE")
		if packages == "" {
			t.Skip("RESTYLE_CLIENTS_NODE is not set: a directory with node_modules: openai, ai, @ai-sdk/openai-compatible")
		}
		// Node looks for packages next to a program.
		copied := filepath.Join(packages, args[0])
		text, err := os.ReadFile(filepath.Join(dir, args[0]))
		if err == nil {
			err = os.WriteFile(copied, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(copied) })
		args[0] = copied
	}
	run := exec.Command(program, args...)
	if run.Dir = dir; filepath.IsAbs(args[0]) {
		run.Dir = ""
	}
	run.Stderr = os.Stderr
	return run
}

// TestCurl_GetsEventsAsTheyCome lets each token wait until curl has printed the one before.
func TestCurl_GetsEventsAsTheyCome(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	f := serving(t, Options{})
	f.hold = make(chan struct{})
	server := httptest.NewServer(f.Server) // after hold is set: the race detector does not see that curl asks later
	defer server.Close()
	run := exec.Command("curl", "-sN", server.URL+"/v1/chat/completions", "-d", streamed)
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"A", " list", " is"} {
		f.hold <- struct{}{}
		for lines.Scan() && !strings.Contains(lines.Text(), `"content":"`+want+`"`) {
		}
	}
	close(f.hold)
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if err := run.Wait(); err != nil || last != "data: [DONE]" {
		t.Errorf("%v, at the end %q", err, last)
	}
}
