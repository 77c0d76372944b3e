package teacher

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/teacher/openai"
)

// TestRemote_Ask checks what happens to a server's answers and refusals, and that second attempts are sent before
// first ones.
func TestRemote_Ask(t *testing.T) {
	var order []string
	begin := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch order = append(order, string(body)); string(body) {
		case "no":
			w.WriteHeader(422)
		case "late":
			w.WriteHeader(500)
		case "slow":
			<-begin
		}
		json.NewEncoder(w).Encode(map[string]any{"model": "other", "usage": map[string]int{"prompt_tokens": 5,
			"completion_tokens": 3}, "choices": []any{map[string]any{"index": 0, "finish_reason": "length",
			"message": map[string]any{"role": "assistant", "content": "Well.", "reasoning_content": "hm"}}}})
	}))
	defer server.Close()
	url := server.URL + "/v1"
	pool, err := openai.New(openai.Options{BaseURLs: []string{url}, Retries: -1, Concurrency: 1})
	expect.OK(t, err)
	defer pool.Close()
	remote := &Remote{Pool: pool, Model: "m"}
	ask := func(body string, attempt int) (Answer, string, error) {
		return remote.Ask(t.Context(), &Prompt{Attempt: attempt}, Request{Body: []byte(body), Keys: []string{"a", "b"}})
	}

	a, key, err := ask("well", 1)
	a.Milliseconds = 0
	if want := (Answer{Text: "Well.", Thoughts: len(`"hm"`), Finish: "length", Model: "other", Endpoint: url,
		PromptTokens: 5, CompletionTokens: 3}); a != want || key != openai.Key(url, []byte("well")) || err != nil {
		t.Errorf("%+v, %s, %v", a, key, err)
	}
	var refused *Refused
	if a, key, err = ask("no", 1); a != (Answer{}) || key != openai.Key(url, []byte("no")) || !errors.As(err, &refused) ||
		refused.Status != 422 || !strings.Contains(refused.Reason, "422") {
		t.Errorf("%+v, %s, %v", a, key, err)
	}
	var unavailable *openai.Unavailable
	if a, key, err = ask("late", 1); a != (Answer{}) || key != "" || !errors.As(err, &unavailable) {
		t.Errorf("%+v, %s, %v", a, key, err)
	}
	if _, key, err = remote.Ask(t.Context(), &Prompt{}, Request{Keys: []string{"no body"}}); key != "" ||
		!errors.As(err, &refused) || *refused != (Refused{Reason: "no body"}) {
		t.Errorf("%s, %v", key, err)
	}

	order = nil
	done := make(chan error)
	for i, c := range []struct {
		body    string
		attempt int
	}{{"slow", 1}, {"first", 1}, {"second", 2}} {
		go func() { _, _, err := ask(c.body, c.attempt); done <- err }()
		for s := pool.Stats(); s.InFlight+s.Waiting < i+1; s = pool.Stats() {
			runtime.Gosched()
		}
	}
	close(begin)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(order, []string{"slow", "second", "first"}) {
		t.Errorf("sent in the order %v", order)
	}

	remote.Pool = nil
	if a, key, err = ask("x", 1); a != (Answer{}) || key != "b" || err != ErrPending {
		t.Errorf("without a server: %+v, %s, %v", a, key, err)
	}
}
