package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestClients_KilledAtRandom has clients that leave at random moments of random requests, with a cache too small for
// all of them. Afterwards no request and no block is in use, and there are no more goroutines than before, and no more
// memory is in use than after the first ones. With RESTYLE_LONG it runs for 20 minutes.
func TestClients_KilledAtRandom(t *testing.T) {
	url, _, _ := running(t, "starter", "--listen", "127.0.0.1:0", "--context", "256", "--cache", "512", "--sequences", "6",
		"--queue", "10")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	random := rand.New(rand.NewPCG(1, 2))
	killed, whole := 0, 0
	round := func() {
		var group sync.WaitGroup
		var lock sync.Mutex
		for range 8 {
			body, patience := request(random), time.Duration(random.IntN(60))*time.Millisecond
			group.Go(func() {
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				if patience > 20*time.Millisecond {
					defer time.AfterFunc(patience, kill).Stop()
				}
				ended := completes(ctx, client, url, body)
				lock.Lock()
				defer lock.Unlock()
				if ended {
					whole++
				} else {
					killed++
				}
			})
		}
		group.Wait()
	}
	rounds := func(n int) (bytes uint64) {
		for range n {
			round()
		}
		unused(t, client, url)
		client.CloseIdleConnections()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines := runtime.NumGoroutine()
	warm, end := 5, time.Now()
	if os.Getenv("RESTYLE_LONG") != "" {
		warm, end = 100, end.Add(20*time.Minute)
	}
	before := rounds(warm)
	after := rounds(5)
	for time.Now().Before(end) {
		after = rounds(100)
		t.Logf("%.1f MB in use after %d requests", float64(after)/1e6, whole+killed)
	}
	for begun := time.Now(); runtime.NumGoroutine() > goroutines+1; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d goroutines, were %d", runtime.NumGoroutine(), goroutines)
		}
	}
	t.Logf("%d requests were answered, %d killed; memory in use %.1f MB, then %.1f; goroutines %d, then %d", whole, killed,
		float64(before)/1e6, float64(after)/1e6, goroutines, runtime.NumGoroutine())
	if whole == 0 || killed == 0 {
		t.Error("not both")
	}
	if after > before+8<<20 { // caches may be fuller, and the test keeps the log, 250 bytes a request
		t.Errorf("%d bytes are in use, were %d", after, before)
	}
}

// request returns a random request.
func request(r *rand.Rand) string {
	schema := fmt.Sprintf(`{"properties":{"a":{"pattern":"^[a-z]{%d}$"}}}`, 1+r.IntN(30))
	more := []string{``, `,"stream":true`, `,"n":3`, `,"logprobs":true,"stream":true`,
		`,"response_format":{"type":"json_object"}`,
		`,"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}`}[r.IntN(6)]
	return fmt.Sprintf(`{"max_tokens":%d,"seed":%d,"messages":[{"role":"user","content":%q}]%s}`, 1+r.IntN(60), r.IntN(9),
		strings.Repeat("How do I reverse a list? ", 1+r.IntN(12)), more)
}

// completes asks, and reports whether the answer, or a refusal, came to its end.
func completes(ctx context.Context, client *http.Client, url, body string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	response, err := client.Do(r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil
}

// unused waits until no request runs or waits, and no block is in use.
func unused(t *testing.T, client *http.Client, url string) {
	t.Helper()
	busy := regexp.MustCompile(`(?m)^restyle_(num_requests_\w+|kv_cache_usage_perc)\{.*\} [^0\s].*$`)
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r, err := client.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(text), "restyle_kv_cache_usage_perc{") {
			t.Fatalf("%s %v", text, err)
		}
		found := busy.Find(text)
		if found == nil {
			return
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("still in use: %s", found)
		}
	}
}
