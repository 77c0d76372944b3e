package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"restyle/internal/expect"
)

// A capacityServer serves `slots` requests at once, each for `service`. Requests without a slot wait, or are rejected
// with 429. held adds up the nanoseconds in which slots were used.
func capacityServer(slots int, service time.Duration, reject bool, held *atomic.Int64) http.HandlerFunc {
	free := make(chan struct{}, slots)
	return func(w http.ResponseWriter, r *http.Request) {
		if reject {
			select {
			case free <- struct{}{}:
			default:
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, `{"error":{"message":"too many at once","type":"rate_limit_error"}}`)
				return
			}
		} else {
			free <- struct{}{}
		}
		start := time.Now()
		time.Sleep(service)
		held.Add(int64(time.Since(start)))
		<-free
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, goodStream)
	}
}

//nolint:lll // as a server sends it
const goodStream = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"Sure, "},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"whatever."},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}

data: [DONE]

`

const goodText = "Sure, whatever."

func ownTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// flood sends n requests from as many goroutines as the pool can use, and returns the time for all of them and for
// the second half.
func flood(t testing.TB, p *Pool, n int) (all, half time.Duration) {
	body, err := Request{Model: "m", Messages: []Message{{"user", "hello"}}}.Body(true)
	expect.OK(t, err)
	var next, done atomic.Int64
	var middle atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range min(p.MaxInFlight(), n) {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				a, err := p.Complete(context.Background(), body)
				if err != nil || a.Text != goodText {
					t.Errorf("answer %q, error %v", a.Text, err)
					return
				}
				if done.Add(1) == int64(n/2) {
					middle.Store(int64(time.Since(start)))
				}
			}
		})
	}
	wg.Wait()
	all = time.Since(start)
	return all, all - time.Duration(middle.Load())
}

// TestCapacity measures in simulated time, in which only the pool's decisions count, however busy the machine is.
func TestCapacity(t *testing.T) {
	const slots, service, n = 32, 50 * time.Millisecond, 2400
	for _, reject := range []bool{false, true} {
		bubble(t, func(t *testing.T, net *network) {
			var held atomic.Int64
			net.serve(host, capacityServer(slots, service, reject, &held))
			p := testPool(t, net, nil)
			defer p.Close()
			all, half := flood(t, p, n)
			ideal := time.Duration(n) * service / slots
			used, steady := float64(ideal)/float64(all), float64(ideal)/2/float64(half)
			t.Logf("429 %v: used %.1f%% of the capacity, %.1f%% in the second half, limit %d, retries %v", reject, 100*used,
				100*steady, p.Stats().Limit, p.Stats().Retries)
			if used < 0.95 || steady < 0.985 {
				t.Errorf("429 %v: used %.3f of the capacity, %.3f in the second half", reject, used, steady)
			}
			if r := p.Stats().Retries["429"]; r > 100 {
				t.Errorf("%d rejections", r)
			}
		})
	}
}

func BenchmarkCapacity(b *testing.B) {
	const slots, service = 32, 50 * time.Millisecond
	for _, reject := range []bool{false, true} {
		name := "queue"
		if reject {
			name = "429"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var held atomic.Int64
				s := httptest.NewServer(capacityServer(slots, service, reject, &held))
				p, err := New(Options{BaseURLs: []string{s.URL}})
				expect.OK(b, err)
				const n = 3200
				before := ownTime()
				all, half := flood(b, p, n)
				capacity := float64(slots) / service.Seconds()
				b.ReportMetric(100*n/all.Seconds()/capacity, "%used")
				b.ReportMetric(100*n/2/half.Seconds()/capacity, "%steady")
				// On a busy machine a sleep of 50 ms takes longer: this is the share of the slots' real time that the client
				// used.
				b.ReportMetric(100*float64(held.Load())/float64(slots*all.Nanoseconds()), "%held")
				b.ReportMetric(float64((ownTime()-before).Microseconds())/n, "cpu-µs/request") // including the server's
				st := p.Stats()
				b.ReportMetric(float64(st.Limit), "limit")
				b.ReportMetric(float64(st.Retries["429"]), "rejections")
				p.Close()
				s.Close()
			}
		})
	}
}
