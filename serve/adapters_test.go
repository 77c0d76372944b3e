package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"restyle/infer/batch"
)

// TestAdapters_ComeAndGo loads an adapter, asks it, drops it while it answers, and loads it again. The answer in
// progress continues to its end.
func TestAdapters_ComeAndGo(t *testing.T) {
	f := serving(t, Options{})
	dropped := 0
	other := &fake{codec: starter(t), hold: make(chan struct{})}
	f.options.Load = func(_ context.Context, name, path string) (Model, error) {
		if path != "radio/7" {
			return Model{}, fmt.Errorf("no %s", path)
		}
		return Model{Name: name, Codec: other.codec, Context: 256, Parent: "starter", Generator: other,
			Drop: func() { dropped++ }}, nil
	}
	const load, drop = `{"lora_name":"radio","lora_path":"radio/7"}`, `{"lora_name":"radio"}`
	ask := `{"model":"radio","seed":0,` + asked + `}`
	for range 2 {
		if status, text := f.post(t, "/v1/chat/completions", ask); status != http.StatusNotFound {
			t.Fatalf("before it is loaded: %d %s", status, text)
		}
		status, text := f.post(t, "/v1/load_lora_adapter", load)
		if status != 200 || text != "Success: LoRA adapter 'radio' added successfully." {
			t.Fatalf("%d %s", status, text)
		}
		all := f.all()
		base, err := all[0].forms.vocabulary()
		if v, e := all[1].forms.vocabulary(); err != nil || e != nil || v != base {
			t.Errorf("an adapter with the base's tokens has a vocabulary of its own: %v, %v", err, e)
		}
		if base.IsOf(other.codec.Tokenizer, []int32{0}) {
			t.Error("a vocabulary is also that of other ends")
		}
		r, err := http.Get(f.url + "/v1/models/radio")
		if err != nil || r.StatusCode != 200 {
			t.Fatal(r, err)
		}
		r.Body.Close()
		answered := make(chan string)
		go func() {
			_, text := f.post(t, "/v1/chat/completions", ask)
			answered <- text
		}()
		other.hold <- struct{}{} // it has started
		status, text = f.post(t, "/v1/unload_lora_adapter", drop)
		if status != 200 || text != "Success: LoRA adapter 'radio' removed successfully." {
			t.Fatalf("%d %s", status, text)
		}
		for text = ""; text == ""; {
			select {
			case other.hold <- struct{}{}:
			case text = <-answered:
			}
		}
		if !strings.Contains(text, "That is all.") {
			t.Error(text)
		}
	}
	if dropped != 2 {
		t.Errorf("dropped %d times", dropped)
	}
}

// TestAdapters_AreRefusedByName sends what cannot be loaded or dropped.
func TestAdapters_AreRefusedByName(t *testing.T) {
	f := serving(t, Options{Keys: []string{"k"}})
	var fails error
	loads, drops := 0, 0
	load := func(context.Context, string, string) (Model, error) {
		loads++
		return Model{Drop: func() { drops++ }}, fails
	}
	for _, c := range []struct {
		path, body string
		fails      error
		status     int
		has        string
	}{
		{"load", `{"lora_path":"x"}`, nil, 400, "lora_name: it must be a name"},
		{"load", `{"lora_name":"a\u0007","lora_path":"x"}`, nil, 400, "lora_name: it must be a name"},
		{"load", `{"lora_name":"` + strings.Repeat("a", 201) + `","lora_path":"x"}`, nil, 400, "200"},
		{"load", `{"lora_name":7,"lora_path":"x"}`, nil, 400, "lora_name: must be a text"},
		{"load", `{"lora_name":"a"}`, nil, 400, "lora_path: it is missing"},
		{"load", `{"lora_name":"starter","lora_path":"x"}`, nil, 400, `there is a model \"starter\" already`},
		{"load", `{"lora_name":"a","lora_path":"x"}`, nil, 400, "a model needs a name"},
		{"load", `{"lora_name":"a","lora_path":"x"}`, errors.New("no such file"), 400, "lora_path: no such file"},
		{"load", `{"lora_name":"a","lora_path":"x"}`, fmt.Errorf("x: %w", batch.ErrNoRoom), 503, "--adapter-ranks"},
		{"load", `{"lora_name":"a","lora_path":"x"}`, fmt.Errorf("x: %w", batch.ErrClosed), 503, "about to end"},
		{"load", `{"lora_name":"a","lora_path":"x"}`, fmt.Errorf("x: %w", &batch.Fault{What: "storing", Why: "secret"}),
			500, "The server failed, not the request: the server's log says why."},
		{"unload", `{"lora_name":"a"}`, nil, 404, `\"a\" does not exist`},
		{"unload", `{"lora_name":"starter"}`, nil, 400, "and stays"},
		{"unload", `{}`, nil, 400, "lora_name: it must be a name"},
	} {
		f.options.Load, fails = nil, c.fails
		if status, text := f.post(t, "/v1/"+c.path+"_lora_adapter", c.body, "Authorization", "Bearer k"); status != 403 ||
			!strings.Contains(text, "--adapter-dir") {
			t.Errorf("not allowed: %d %s", status, text)
		}
		f.options.Load = load
		if status, text := f.post(t, "/v1/"+c.path+"_lora_adapter", c.body); status != 401 {
			t.Errorf("without a key: %d %s", status, text)
		}
		status, text := f.post(t, "/v1/"+c.path+"_lora_adapter", c.body, "Authorization", "Bearer k")
		if status != c.status || !strings.Contains(text, c.has) {
			t.Errorf("%s %.60s: %d %s, want %d %s", c.path, c.body, status, text, c.status, c.has)
		}
	}
	if n := len(f.all()); n != 1 || loads != 5 || drops != 1 {
		t.Errorf("%d models, %d loads, %d drops", n, loads, drops)
	}
}

// TestAdapters_SlowDisksHoldNobody loads an adapter whose disk answers late: that request and those that wait for it
// end in time, and the adapter is dropped when it comes. A loader that panics ends one request.
func TestAdapters_SlowDisksHoldNobody(t *testing.T) {
	f := serving(t, Options{})
	disk, dropped := make(chan struct{}), make(chan struct{})
	f.options.Load = func(_ context.Context, name, path string) (Model, error) {
		if path == "broken" {
			panic("no such node")
		}
		<-disk
		return Model{Name: name, Parent: "starter", Drop: func() { close(dropped) }}, nil
	}
	load := func(path string, want int) {
		t.Helper()
		status, text := f.post(t, "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"`+path+`"}`)
		if status != want || strings.Contains(text, "node") {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
	load("broken", http.StatusInternalServerError)
	f.options.Timeout = 20 * time.Millisecond
	load("slow", http.StatusGatewayTimeout)
	load("broken", http.StatusGatewayTimeout)
	close(disk)
	<-dropped
	f.changing <- struct{}{} // when all is over
	if n := len(f.all()); n != 1 {
		t.Errorf("%d models", n)
	}
}
