package web

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
)

// TestPage_InABrowser drives the page in a headless Chromium, if there is one, against a server that answers like
// serve.
func TestPage_InABrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium: install Debian's package of that name")
	}
	result := make(chan string, 1)
	server := httptest.NewServer(fake(t, result))
	defer server.Close()
	run := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-port=0", server.URL+"/?drive")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer run.Wait()
	defer run.Process.Kill()
	select {
	case got := <-result:
		if got != "ok" {
			t.Error(got)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the page has not come to its end")
	}
}

// fake returns a server with two models, which asks for a key. With ?drive, the page has testdata/drive.js.
func fake(t testing.TB, result chan string) http.Handler {
	mux := http.NewServeMux()
	files := http.FileServerFS(Files)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		if r.URL.Path != "/" || r.URL.RawQuery == "" {
			files.ServeHTTP(w, r)
			return
		}
		page, err := fs.ReadFile(Files, "index.html")
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, strings.Replace(string(page), "</head>", `<script src="drive.js" defer></script></head>`, 1))
	})
	mux.HandleFunc("GET /drive.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		io.WriteString(w, expect.Read(t, "testdata/drive.js"))
	})
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		result <- string(text)
	})
	allowed := func(w http.ResponseWriter, r *http.Request) bool {
		ok := r.Header.Get("Authorization") == "Bearer secret"
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"message":"No key.","type":"invalid_request_error"}}`)
		}
		return ok
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if allowed(w, r) {
			io.WriteString(w, `{"object":"list","data":[{"id":"base"},{"id":"tuned"}]}`)
		}
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		if allowed(w, r) {
			answer(w, r)
		}
	})
	return mux
}

// answer streams an answer that tells what it was asked.
func answer(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model    string
		Seed     int
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) == 0 {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string) {
		fmt.Fprintf(w, "data: %s\n\n", event)
		w.(http.Flusher).Flush()
	}
	delta := func(text string) {
		quoted, _ := json.Marshal(text)
		send(`{"choices":[{"index":0,"delta":{"content":` + string(quoted) + `},"finish_reason":null}]}`)
		time.Sleep(5 * time.Millisecond)
	}
	send(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
	switch request.Messages[len(request.Messages)-1].Content {
	case "Go on for ever":
		for r.Context().Err() == nil {
			delta("again ")
		}
		return
	case "Break":
		if request.Model == "tuned" {
			send(`{"error":{"message":"The model has failed.","type":"server_error"}}`)
		}
		return
	}
	text := fmt.Sprintf("Answer of %s with seed %d to %d messages: <b>no</b>\n```python\nprint(xs[::-1])\n```\nDone.",
		request.Model, request.Seed, len(request.Messages))
	for len(text) > 0 {
		n := min(5, len(text))
		delta(text[:n])
		text = text[n:]
	}
	send(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	send(`{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":12,"total_tokens":32}}`)
	send("[DONE]")
}
