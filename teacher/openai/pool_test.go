package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"restyle/internal/expect"
	"restyle/internal/secret"
	"restyle/internal/secret/secrettest"
)

// bubble runs f with a network in a synctest bubble, which fails if a goroutine remains. A test that waits forever
// fails after a week of the bubble's time.
func bubble(t *testing.T, f func(t *testing.T, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		end := time.AfterFunc(7*24*time.Hour, func() { panic(t.Name() + ": a week has passed") })
		n := newNetwork()
		f(t, n)
		n.close()
		end.Stop()
	})
}

// reading reads the request before it answers, as servers must to notice that a client has gone.
func reading(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		h(w, r)
	}
}

func two(o *Options) { o.BaseURLs = []string{"http://a.localhost/v1", "http://b.localhost/v1"} }

func TestComplete_BytesOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		body, err := Request{Model: "o3-mini<&>", Messages: []Message{{"system", ""}, {"user", "né\u2028"}},
			Stop: []string{"</rewrite>"}, MaxTokens: 9, Extra: map[string]any{"top_k": 1, "seed": nil}}.Body(true)
		expect.OK(t, err)
		want := `{"max_tokens":9,"messages":[{"role":"system","content":""},{"role":"user","content":"né\u2028"}],` +
			`"model":"o3-mini<&>","stop":["</rewrite>"],"stream":true,"stream_options":{"include_usage":true},` +
			`"temperature":0,"top_k":1}`
		if string(body) != want {
			t.Fatalf("body\n%s\nwant\n%s", body, want)
		}
		n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			if string(got) != want || r.ContentLength != int64(len(want)) {
				t.Errorf("received %q, %d bytes", got, r.ContentLength)
			}
			for name, value := range map[string]string{"Authorization": "Bearer " + canary, "Content-Type": "application/json"} {
				if r.Header.Get(name) != value {
					t.Errorf("%s is %q", name, r.Header.Get(name))
				}
			}
			if r.Method != "POST" || r.URL.String() != "/v1/chat/completions" {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			stream(goodStream)(w, r)
		}))
		p := testPool(t, n, nil)
		defer p.Close()
		a, err := p.Complete(context.Background(), body)
		expect.OK(t, err)
		want2 := Answer{Text: goodText, FinishReason: "stop", Model: "m", Endpoint: "http://teacher.localhost/v1",
			PromptTokens: 7, CompletionTokens: 3, Attempts: 1}
		a.Latency, a.FirstToken = 0, 0
		if !reflect.DeepEqual(a, want2) {
			t.Errorf("got %+v", a)
		}
	})
}

func TestNoKeyNoHeader(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := r.Header["Authorization"]; ok {
				t.Errorf("sent %q", r.Header["Authorization"])
			}
			stream(goodStream)(w, r)
		}))
		p := testPool(t, n, func(o *Options) { o.APIKey = secret.New(" \n") })
		defer p.Close()
		if _, err := p.Complete(context.Background(), testBody(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReportedAsSent checks that finish reason and model are returned as the endpoint sends them, except for another
// name of a reason, which the endpoint's statistics state.
func TestReportedAsSent(t *testing.T) {
	for _, reason := range []string{"stop", "length", "content_filter", "tool_calls", "eos_token"} {
		bubble(t, func(t *testing.T, n *network) {
			body := strings.ReplaceAll(strings.ReplaceAll(goodStream, `"stop"`, `"`+reason+`"`), `"model":"m"`,
				`"model":"another"`)
			n.serve(host, reading(stream(body)))
			p := testPool(t, n, func(o *Options) { o.APIKey = secret.New("another") }) // a dummy key
			defer p.Close()
			a, err := p.Complete(context.Background(), testBody(t))
			want, deviates := reason, []string(nil)
			if reason == "eos_token" {
				want, deviates = "stop", []string{`finish reason "eos_token" for stop`}
			}
			if got := p.Stats().Endpoints[0].Deviations; !slices.Equal(got, deviates) {
				t.Errorf("%s: deviates by %q", reason, got)
			}
			if err != nil || a.FinishReason != want || a.Model != "another" || a.Text != goodText {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// TestEchoedKey checks that no part of an answer that contains the key is returned.
func TestEchoedKey(t *testing.T) {
	for _, place := range []string{"whatever.", `"stop"`, `"model":"m"`} {
		bubble(t, func(t *testing.T, n *network) {
			n.serve(host, reading(stream(strings.ReplaceAll(goodStream, place,
				place[:len(place)-1]+"KEY"+place[len(place)-1:]))))
			p := testPool(t, n, nil)
			defer p.Close()
			a, err := p.Complete(context.Background(), testBody(t))
			if err != nil || a.Text != "" || a.Model != "" || a.FinishReason != KeyInAnswer {
				t.Errorf("%s: %+v, %v", place, a, err)
			}
			secrettest.Check(t, a)
		})
	}
}

func TestComplete_Times(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		n.serve(host, reading(wait(3*time.Second, then(events(delta("Su")),
			wait(4*time.Second, stream(events(delta("re"), finishStop, done)))))))
		p := testPool(t, n, nil)
		defer p.Close()
		a, err := p.Complete(context.Background(), testBody(t))
		if err != nil || a.Text != "Sure" || a.FirstToken != 3*time.Second || a.Latency != 7*time.Second {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestQueueIsNotTheTeacher checks that waiting for a slot may take longer than any timeout of an attempt.
func TestQueueIsNotTheTeacher(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		n.serve(host, reading(wait(9*time.Minute, stream(goodStream))))
		p := testPool(t, n, func(o *Options) {
			o.Concurrency, o.FirstTokenTimeout, o.TotalTimeout = 1, 10*time.Minute, 10*time.Minute
		})
		defer p.Close()
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if a, err := p.Complete(context.Background(), testBody(t)); err != nil || a.Latency != 9*time.Minute {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
		synctest.Wait()
		if s := p.Stats(); s.InFlight != 1 || s.Waiting != 19 || s.Limit != 1 {
			t.Errorf("stats %+v", s)
		}
		wg.Wait()
		if got := time.Since(start); got != 180*time.Minute {
			t.Errorf("took %v", got)
		}
		s := p.Stats()
		if s.Answers != 20 || s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestFixedConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var busy, peak atomic.Int64
		h := reading(func(w http.ResponseWriter, r *http.Request) {
			peak.Store(max(peak.Load(), busy.Add(1)))
			time.Sleep(time.Second)
			busy.Add(-1)
			stream(goodStream)(w, r)
		})
		n.serve("a.localhost:80", h)
		n.serve("b.localhost:80", h)
		p := testPool(t, n, func(o *Options) { two(o); o.Concurrency = 7 })
		defer p.Close()
		start := time.Now()
		var wg sync.WaitGroup
		for range 70 {
			wg.Go(func() { p.Complete(context.Background(), testBody(t)) })
		}
		wg.Wait()
		if peak.Load() != 7 || time.Since(start) != 10*time.Second || p.MaxInFlight() != 7 {
			t.Errorf("peak %d, %v, at most %d", peak.Load(), time.Since(start), p.MaxInFlight())
		}
	})
}

func TestCancel(t *testing.T) {
	for _, where := range []string{"waiting for a slot", "in flight", "waiting for a retry", "before"} {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				n.serve(host, reading(silence))
				if where == "waiting for a retry" {
					n.serve(host, reading(status(503, "", "Retry-After", "100")))
				}
				p := testPool(t, n, func(o *Options) { o.Concurrency = 1 })
				defer p.Close()
				background, stop := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				if where == "waiting for a slot" {
					wg.Go(func() { p.Complete(background, testBody(t)) })
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				if where == "before" {
					cancel()
				}
				start := time.Now()
				_, err := p.Complete(ctx, testBody(t))
				if !errors.Is(err, ctx.Err()) || ctx.Err() == nil {
					t.Errorf("got %v", err)
				}
				if d := time.Since(start); where != "before" && d != 10*time.Second || where == "before" && d != 0 {
					t.Errorf("after %v", d)
				}
				secrettest.Check(t, err)
				stop()
				cancel()
				wg.Wait()
				if s := p.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.Alive != 1 {
					t.Errorf("left over: %+v", s)
				}
			})
		})
	}
}

// TestFailover checks that if a request fails at one endpoint, the other answers it at once, and the dead one gets no
// more requests.
func TestFailover(t *testing.T) {
	for _, how := range []string{"refused", "500", "401", "429", "cut", "redirect"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				var bad, good atomic.Int64
				h := map[string]http.HandlerFunc{"500": status(500, "KEY"), "401": status(401, "KEY"), "cut": cut,
					"429": status(429, "KEY", "Retry-After", "60"), "redirect": status(307, "", "Location",
						"http://b.localhost/")}[how]
				if h != nil {
					n.serve("a.localhost:80", reading(func(w http.ResponseWriter, r *http.Request) { bad.Add(1); h(w, r) }))
				}
				n.serve("b.localhost:80", reading(func(w http.ResponseWriter, r *http.Request) {
					good.Add(1)
					stream(goodStream)(w,
						r)
				}))
				p := testPool(t, n, two)
				defer p.Close()
				start := time.Now()
				for range 100 {
					a, err := p.Complete(context.Background(), testBody(t))
					if err != nil || a.Endpoint != "http://b.localhost/v1" {
						t.Fatalf("%+v, %v", a, err)
					}
				}
				if time.Since(start) > 0 {
					t.Errorf("waited %v though the other was free", time.Since(start))
				}
				if bad.Load() > 3 || good.Load() != 100 {
					t.Errorf("%d calls to the bad endpoint, %d to the good", bad.Load(), good.Load())
				}
				s := p.Stats()
				state := map[string]string{"429": "paused", "401": "retired", "redirect": "retired"}[how]
				if state == "" {
					state = "down"
				}
				if s.Endpoints[0].State != state || s.Endpoints[0].Reason == "" && state != "paused" || s.Total != 2 {
					t.Errorf("stats %+v", s)
				}
				secrettest.Check(t, s)
			})
		})
	}
}

// TestRecovery checks that an endpoint that was down is probed after a while, and used again.
func TestRecovery(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var a atomic.Int64
		n.serve("b.localhost:80", reading(wait(time.Second, stream(goodStream))))
		p := testPool(t, n, func(o *Options) { two(o); o.Concurrency = 4 })
		defer p.Close()
		go func() {
			time.Sleep(5 * time.Minute)
			n.serve("a.localhost:80", reading(wait(time.Second,
				func(w http.ResponseWriter, r *http.Request) { a.Add(1); stream(goodStream)(w, r) })))
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					if _, err := p.Complete(ctx, testBody(t)); err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		time.Sleep(4 * time.Minute)
		if s := p.Stats(); s.Alive != 1 || s.Endpoints[0].State != "down" || s.Retries["unreachable"] > 30 {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(2 * time.Minute)
		if s := p.Stats(); s.Alive != 2 || s.Endpoints[0].State != "alive" {
			t.Errorf("stats %+v", s)
		}
		wg.Wait()
		if a.Load() < 400 {
			t.Errorf("the endpoint that came back got %d calls", a.Load())
		}
	})
}

func TestAllDead(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		p := testPool(t, n, two)
		defer p.Close()
		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := p.Complete(context.Background(), testBody(t))
				var u *Unavailable
				if !errors.As(err, &u) || !u.AllDead || u.Reason != "unreachable" {
					t.Errorf("got %v", err)
				}
				if d := time.Since(start); d < 2*time.Minute || d > 3*time.Minute {
					t.Errorf("after %v", d)
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); s.Alive != 0 {
			t.Errorf("stats %+v", s)
		}
		// Later calls fail sooner, and still notice when the endpoint is back.
		time.Sleep(time.Hour)
		n.serve("b.localhost:80", reading(stream(goodStream)))
		for i := 0; ; i++ {
			_, err := p.Complete(context.Background(), testBody(t))
			if err == nil {
				break
			}
			if i == 5 {
				t.Fatal(err)
			}
		}
	})
}

func TestAllRetired(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var calls atomic.Int64
		for _, host := range []string{"a.localhost:80", "b.localhost:80"} {
			n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) { calls.Add(1); status(401, "KEY")(w, r) }))
		}
		p := testPool(t, n, two)
		defer p.Close()
		for range 5 {
			_, err := p.Complete(context.Background(), testBody(t))
			var f *Fatal
			if !errors.As(err, &f) || f.Status != 401 || !strings.Contains(err.Error(), "check the API key") {
				t.Errorf("got %v", err)
			}
		}
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

// TestBalance checks that eight replicas of different speed share the work in proportion to their speed.
func TestBalance(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var urls []string
		calls := make([]atomic.Int64, 4)
		for i := range calls {
			urls = append(urls, fmt.Sprintf("http://e%d.localhost/v1", i))
			slow := time.Duration(i+1) * 100 * time.Millisecond
			n.serve(fmt.Sprintf("e%d.localhost:80", i), reading(func(w http.ResponseWriter, r *http.Request) {
				calls[i].Add(1)
				time.Sleep(slow)
				stream(goodStream)(w, r)
			}))
		}
		p := testPool(t, n, func(o *Options) { o.BaseURLs = urls; o.MaxConcurrency = 8 })
		defer p.Close()
		var wg sync.WaitGroup
		var next atomic.Int64
		for range 64 {
			wg.Go(func() {
				for next.Add(1) <= 1200 {
					if _, err := p.Complete(context.Background(), testBody(t)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i := range 3 {
			if fast, slow := calls[i].Load(), calls[i+1].Load(); fast <= slow {
				t.Errorf("endpoint %d got %d calls, the slower %d got %d", i, fast, i+1, slow)
			}
		}
		if got, want := calls[0].Load(), int64(1200*12/25); got < want*8/10 || got > want*12/10 {
			t.Errorf("the fastest got %d calls, its share is %d", got, want)
		}
	})
}

// TestPauseIsForAll checks that 429 with Retry-After delays all requests, not only the one that got it, which is then
// sent first.
func TestPauseIsForAll(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var calls atomic.Int64
		var first string
		start := time.Now()
		n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if calls.Add(1) == 2 && string(body) != first {
				t.Errorf("after %q comes %q", first, body)
			}
			if calls.Load() == 1 {
				first = string(body)
				status(429, "", "Retry-After", "90")(w, r)
				return
			}
			if time.Since(start) < 90*time.Second {
				t.Errorf("called after %v", time.Since(start))
			}
			stream(goodStream)(w, r)
		}))
		p := testPool(t, n, func(o *Options) { o.Concurrency = 1; o.Retries = -1 })
		defer p.Close()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if _, err := p.Complete(context.Background(), fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// TestOneProbe checks that an endpoint that is down gets one request at a time.
func TestOneProbe(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var calls, busy atomic.Int64
		n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
			call, now := calls.Add(1), busy.Add(1)
			defer busy.Add(-1)
			// The circuit opens with the third failure; other requests are in flight by then.
			if call > 2*startLimit {
				if now > 1 {
					t.Errorf("%d requests at once to an endpoint that is down", now)
				}
				time.Sleep(20 * time.Second)
			}
			status(500, "KEY")(w, r)
		}))
		p := testPool(t, n, nil)
		defer p.Close()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := p.Complete(context.Background(), testBody(t))
				if reasonOf(err) == "" {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if calls.Load() < 2*startLimit+2 {
			t.Errorf("%d calls: not asked again", calls.Load())
		}
	})
}

// TestStorm_EachAnswerOnce checks that in a storm of everything that is retried, every request gets its answer once.
func TestStorm_EachAnswerOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		bad := []http.HandlerFunc{status(429, "KEY"), status(503, "KEY", "Retry-After", "1"), status(500, ""), cut,
			then(events(delta("Su")), cut), stream(events(delta("Su"))), then(events(delta("Su")), silence),
			stream(`{"error":"KEY"}`)}
		var calls atomic.Int64
		h := reading(func(w http.ResponseWriter, r *http.Request) {
			i := calls.Add(1)
			time.Sleep(time.Duration(i%7) * 100 * time.Millisecond)
			if i%4 == 0 {
				bad[int(i/4)%len(bad)](w, r)
				return
			}
			body, _ := io.ReadAll(r.Body)
			stream(events(delta(string(body)), finishStop, done))(w, r)
		})
		n.serve("a.localhost:80", h)
		n.serve("b.localhost:80", h)
		p := testPool(t, n, func(o *Options) { two(o); o.Retries = 20 })
		defer p.Close()
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				body := fmt.Sprintf("request %d", i)
				a, err := p.Complete(context.Background(), []byte(body))
				if err != nil || a.Text != body {
					t.Errorf("request %d: %q, %v", i, a.Text, err)
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); s.Answers != 500 || s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestModels(t *testing.T) {
	list := `{"data":[{"id":"m1","name":"x","created":"soon"},{"id":"a-` + canary + `"}],"models":[{"name":"a\nb"},` +
		`{"name":"` + strings.Repeat("z", 513) + `"}]}`
	for _, test := range []struct {
		name    string
		play    http.HandlerFunc
		models  string
		missing bool
		err     string
	}{
		{"list", status(200, list), "m1, a-[redacted], a b, " + strings.Repeat("z", 509) + "…", false, ""},
		{"Ollama", status(200, `{"models":[{"name":"llama3"}]}`), "llama3", false, ""},
		{"empty", status(200, `{"data":[]}`), "", true, ""},
		{"400", status(400, "KEY"), "", true, ""},
		{"404", status(404, "KEY"), "", true, ""},
		{"405", status(405, "KEY"), "", true, ""},
		{"501", status(501, "KEY"), "", true, ""},
		{"web page", status(200, "<html>KEY"), "", true, ""},
		{"401", status(401, "KEY"), "", false, "Fatal 401 401 Unauthorized: "},
		{"403", status(403, "KEY"), "", false, "Fatal 403 403 Forbidden: "},
		{"500", status(500, "KEY"), "", false, "Unavailable 500 1 500 Internal Server Error: "},
		{"redirect", status(307, "", "Location", "http://thief.test/KEY"), "", false, "Fatal redirect 307 Temporary"},
		{"silence", silence, "", false, "Unavailable total timeout 1 not complete within 30s"},
		{"endless", endless, "", false, "Unavailable answer too large 1 the answer is longer than 8 MiB"},
		{"refused", nil, "", false, "Unavailable unreachable 1 dial tcp: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				if test.play != nil {
					n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
						if r.Method != "GET" || r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer "+canary {
							t.Errorf("%s %s", r.Method, r.URL)
						}
						test.play(w, r)
					}))
				}
				p := testPool(t, n, func(o *Options) { o.FirstTokenTimeout = time.Second })
				defer p.Close()
				start := time.Now()
				got, err := p.Models(context.Background())
				if len(got) != 1 || strings.Join(got[0].Models, ", ") != test.models || got[0].Missing != test.missing ||
					got[0].Endpoint != "http://teacher.localhost/v1" {
					t.Fatalf("got %+v, %v", got, err)
				}
				said := ""
				switch err := got[0].Err.(type) {
				case *Fatal:
					said = fmt.Sprintf("Fatal %s %s", err.Reason, err.Message)
				case *Unavailable:
					said = fmt.Sprintf("Unavailable %s %d %s", err.Reason, err.Attempts, err.Message)
				}
				if !strings.HasPrefix(said, test.err) || (err != nil) != (test.err != "") ||
					err != nil && !strings.Contains(err.Error(), "http://teacher.localhost/v1: ") {
					t.Errorf("got %s: %v; want %s", said, err, test.err)
				}
				if time.Since(start) > 30*time.Second {
					t.Errorf("took %v", time.Since(start))
				}
				secrettest.Check(t, got)
				secrettest.Check(t, err)
			})
		})
	}
}

func TestModelsOfSeveral(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		n.serve("b.localhost:80", reading(status(200, `{"data":[{"id":"m"}]}`)))
		p := testPool(t, n, two)
		defer p.Close()
		got, err := p.Models(context.Background())
		if err != nil || got[0].Err == nil || got[1].Err != nil || got[1].Models[0] != "m" {
			t.Errorf("got %+v, %v", got, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := p.Models(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAcceptThenSilence uses a server that accepts connections and then sends nothing.
func TestAcceptThenSilence(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var open []net.Conn
		n.set(host, func(c net.Conn) { open = append(open, c) })
		p := testPool(t, n, func(o *Options) { o.Retries = -1 })
		defer p.Close()
		start := time.Now()
		_, err := p.Complete(context.Background(), testBody(t))
		if reasonOf(err) != "first token timeout" || time.Since(start) != 5*time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		for _, c := range open {
			c.Close()
		}
	})
}

// TestPool_Hold holds a pool that has room for more, and lets it go again.
func TestPool_Hold(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var inFlight atomic.Int64
		n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
			inFlight.Add(1)
			time.Sleep(time.Second)
			inFlight.Add(-1)
			stream(goodStream)(w, r)
		}))
		p := testPool(t, n, func(o *Options) { o.Concurrency = 8 })
		defer p.Close()
		p.Hold(3)
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				if _, err := p.Complete(context.Background(), testBody(t)); err != nil {
					t.Error(err)
				}
			})
		}
		for _, held := range []int{3, 1, 0} {
			p.Hold(held)
			time.Sleep(1300 * time.Millisecond) // answers come at full seconds
			want := int64(held)
			if held == 0 {
				want = 8
			}
			if got := inFlight.Load(); got != want {
				t.Errorf("held to %d: %d in flight", held, got)
			}
		}
		wg.Wait()
	})
}
