package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// one lets play handle the request with this body, and answers every other request.
func one(body string, play http.HandlerFunc) http.HandlerFunc {
	return reading(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); string(b) == body {
			play(w, r)
			return
		}
		stream(goodStream)(w, r)
	})
}

// among completes a request while others succeed, so that the endpoint counts as alive.
func among(t *testing.T, p *Pool, body string, pause time.Duration) (Answer, error) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := p.Complete(ctx, []byte("another")); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(pause)
		}
	})
	a, err := p.Complete(context.Background(), []byte(body))
	stop()
	wg.Wait()
	return a, err
}

// TestRetriesAreCounted checks that a request is sent as often as Retries says, and that the error has the number of
// other answers in the meantime.
func TestRetriesAreCounted(t *testing.T) {
	for _, retries := range []int{-1, 1, 3} {
		bubble(t, func(t *testing.T, n *network) {
			var calls int
			n.serve(host, one("bad", func(w http.ResponseWriter, r *http.Request) { calls++; status(500, "")(w, r) }))
			p := testPool(t, n, func(o *Options) { o.Retries = retries })
			defer p.Close()
			_, err := among(t, p, "bad", 100*time.Millisecond)
			var u *Unavailable
			if want := max(0, retries) + 1; !errors.As(err, &u) || calls != want || u.Attempts != want || u.AllDead ||
				retries > 0 && u.Others == 0 {
				t.Errorf("%d retries: %d calls, %+v", retries, calls, err)
			}
			if got := p.Stats().Retries["500"]; got != calls-1 {
				t.Errorf("%d calls, %d retries", calls, got)
			}
		})
	}
}

// TestThrottleTimeout checks that a request to slow down uses up no retry, but that a request that gets only those
// while others are answered gives up in the end, after waits of half a second at first and up to a minute.
func TestThrottleTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		calls := 0
		n.serve(host, one("bad", func(w http.ResponseWriter, r *http.Request) { calls++; status(429, "")(w, r) }))
		p := testPool(t, n, func(o *Options) { o.Retries = -1 })
		defer p.Close()
		start := time.Now()
		_, err := among(t, p, "bad", 10*time.Second)
		var u *Unavailable
		if d := time.Since(start); !errors.As(err, &u) || u.AllDead || u.Others == 0 || d < 30*time.Minute ||
			d > 32*time.Minute || calls != u.Attempts || calls < 40 || calls > 120 {
			t.Errorf("after %v, %d calls: %v", d, calls, err)
		}
	})
}

// TestProbesAreFree checks that a probe uses up no retry.
func TestProbesAreFree(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		start := time.Now()
		n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
			if time.Since(start) < 90*time.Second {
				status(503, "")(w, r)
				return
			}
			stream(goodStream)(w, r)
		}))
		p := testPool(t, n, func(o *Options) { o.Retries = 2 })
		defer p.Close()
		var wg sync.WaitGroup
		for range 3 { // their first failures open the circuit
			wg.Go(func() {
				if a, err := p.Complete(context.Background(), testBody(t)); err != nil || a.Attempts < 2 {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); s.Retries["503"] < 6 {
			t.Errorf("%v: not asked again while it was down", s.Retries)
		}
	})
}

// TestLeastBusyIsNext checks that requests go to the endpoint with the lowest load.
func TestLeastBusyIsNext(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var calls [2]atomic.Int64
		for i, address := range []string{"a.localhost:80", "b.localhost:80"} {
			n.serve(address, reading(func(w http.ResponseWriter, r *http.Request) {
				calls[i].Add(1)
				wait(time.Minute, stream(goodStream))(w, r)
			}))
		}
		p := testPool(t, n, func(o *Options) { two(o); o.Concurrency = 6 })
		defer p.Close()
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if _, err := p.Complete(context.Background(), testBody(t)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if a, b := calls[0].Load(), calls[1].Load(); a != 3 || b != 3 {
			t.Errorf("%d requests at one, %d at the other", a, b)
		}
		wg.Wait()
	})
}

// TestFatalIsNotTriedAgain checks that a fatal failure is not retried, and is not counted as a retry.
func TestFatalIsNotTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		n.serve("a.localhost:80", reading(status(401, "")))
		n.serve("b.localhost:80", reading(wait(time.Second, status(401, ""))))
		p := testPool(t, n, two)
		defer p.Close()
		if _, err := p.Complete(context.Background(), testBody(t)); err == nil {
			t.Error("answered")
		}
		if s := p.Stats(); s.Retries["401"] != 1 { // retried at the other endpoint
			t.Errorf("retries: %v", s.Retries)
		}
	})
}

// TestWaitIsSeen checks that Stats shows a wait that an endpoint asks for, which is shortened if it exceeds
// DeadTimeout.
func TestWaitIsSeen(t *testing.T) {
	for _, c := range []struct {
		after string
		pause time.Duration // that the pool keeps
	}{{"90", 90 * time.Second}, {"120", time.Minute}, {"1e99", time.Minute}} {
		bubble(t, func(t *testing.T, n *network) {
			n.serve(host, reading(status(429, "slow down", "Retry-After", c.after)))
			p := testPool(t, n, nil)
			defer p.Close()
			start := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := p.Complete(context.Background(), testBody(t))
				var u *Unavailable
				if d := time.Since(start); !errors.As(err, &u) || !u.AllDead || u.Reason != "429" || d != 2*time.Minute {
					t.Errorf("%s: after %v: %v", c.after, d, err)
				}
			})
			time.Sleep(time.Second)
			s := p.Stats()
			if e := s.Endpoints[0]; !s.GiveUpAt.Equal(start.Add(2*time.Minute)) || e.State != "paused" ||
				!e.Until.Equal(start.Add(c.pause)) || e.Reason == "" {
				t.Errorf("%s: %+v", c.after, s)
			}
			wg.Wait()
		})
	}
	// The pool waits for an accepted request, however many others are rejected.
	bubble(t, func(t *testing.T, n *network) {
		p := testPool(t, n, func(o *Options) { o.FirstTokenTimeout = time.Hour })
		defer p.Close()
		start := time.Now()
		n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
			if b, _ := io.ReadAll(r.Body); string(b) == "slow" {
				wait(10*time.Minute, stream(goodStream))(w, r)
				return
			}
			if time.Since(start) < 10*time.Minute {
				status(429, "")(w, r)
				return
			}
			stream(goodStream)(w, r)
		}))
		var wg sync.WaitGroup
		for _, body := range []string{"slow", "turned away", "turned away, too"} {
			wg.Go(func() {
				if _, err := p.Complete(context.Background(), []byte(body)); err != nil {
					t.Errorf("%s: %v", body, err)
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); !s.GiveUpAt.IsZero() {
			t.Errorf("answered, and given up at %v", s.GiveUpAt)
		}
	})
}

// TestTotalTimeoutHolds checks that the total timeout applies in every phase, even if the answer started just before
// it.
func TestTotalTimeoutHolds(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		n.serve(host, reading(wait(14*time.Minute+50*time.Second, then(events(delta("Su")), silence))))
		p := testPool(t, n, func(o *Options) { o.Retries, o.FirstTokenTimeout = -1, 15*time.Minute })
		defer p.Close()
		start := time.Now()
		_, err := p.Complete(context.Background(), testBody(t))
		if reasonOf(err) != "total timeout" || time.Since(start) != 15*time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestOverload checks that an endpoint that rejects some requests with 503 or 529 while it answers others counts as
// overloaded: it gets fewer requests, and does not count as down.
func TestOverload(t *testing.T) {
	for _, code := range []int{503, 529} {
		bubble(t, func(t *testing.T, n *network) {
			var busy atomic.Int64
			n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
				defer busy.Add(-1)
				if busy.Add(1) > 1 {
					status(code, "")(w, r)
					return
				}
				wait(time.Hour, stream(goodStream))(w, r)
			}))
			p := testPool(t, n, func(o *Options) {
				o.FirstTokenTimeout, o.TotalTimeout, o.Retries = 2*time.Hour, 2*time.Hour,
					-1
			})
			defer p.Close()
			var wg sync.WaitGroup
			for range startLimit {
				wg.Go(func() { p.Complete(context.Background(), testBody(t)) })
			}
			time.Sleep(time.Minute)
			if s := p.Stats(); s.Alive != 1 || s.Limit >= startLimit || s.InFlight != 1 {
				t.Errorf("%d: %+v", code, s)
			}
			wg.Wait()
		})
	}
}

// TestEndIsNotAwaited uses a server that keeps the connection open after an answer. The answer is there shortly after
// its last event, or a little later if the server might still report the number of tokens.
func TestEndIsNotAwaited(t *testing.T) {
	for body, most := range map[string]time.Duration{
		goodStream: drainTimeout, events(delta(goodText), finishStop): lingerTimeout + drainTimeout,
	} {
		bubble(t, func(t *testing.T, n *network) {
			n.serve(host, reading(then(body, silence)))
			p := testPool(t, n, nil)
			defer p.Close()
			start := time.Now()
			if a, err := p.Complete(context.Background(), testBody(t)); err != nil || a.Text != goodText ||
				time.Since(start) > most {
				t.Errorf("%q after %v, want it after at most %v; %v", a.Text, time.Since(start), most, err)
			}
		})
	}
}

// TestEndpoint_Wakes checks whether an endpoint has room, when it will have by itself, and how it is shown, after
// events at second 0: f is a failure, p a failed probe, a an answer, t a request to slow down, w one to wait for three
// seconds, o a probe that is under way.
func TestEndpoint_Wakes(t *testing.T) {
	begin := time.Unix(1000, 0)
	for _, c := range []struct {
		events string
		second int
		want   string // room, wakes at, state, until, with a reason
	}{
		{"", 0, "true - alive - false"}, {"ff", 0, "true - alive - false"}, {"fff", 0, "false 1 down 1 true"},
		{"fff", 1, "true - down 1 true"}, {"ffff", 0, "false 1 down 1 true"}, {"fffp", 0, "false 2 down 2 true"},
		{"fffppppppp", 0, "false 30 down 30 true"}, {"fffppa", 0, "true - alive - false"},
		{"ffaf", 0, "true - alive - false"},
		{"w", 0, "false 3 paused 3 false"}, {"w", 3, "true - alive - false"}, {"t", 0, "true - paused - true"},
		{"tw", 0, "false 3 paused 3 true"}, {"ta", 0, "true - alive - false"}, {"ffft", 0, "true - paused - true"},
		{"wfff", 0, "false 3 down 1 true"}, {"wfffpp", 0, "false 4 down 4 true"}, {"wfffpp", 3, "false 4 down 4 true"},
		{"fffppaw", 0, "false 3 paused 3 false"}, {"fffo", 0, "false - down 1 true"}, {"fffo", 1, "false - down 1 true"},
	} {
		e := &endpoint{limit: newLimit(1, 1, time.Second)}
		for _, event := range c.events {
			switch event {
			case 'f', 'p':
				e.failed(begin, event == 'p', "why", 1)
			case 'a':
				e.worked()
			case 't':
				e.slowDown("slow")
			case 'w':
				e.pausedUntil = begin.Add(3 * time.Second)
			case 'o':
				e.probing = true
			}
		}
		now := begin.Add(time.Duration(c.second) * time.Second)
		second := func(at time.Time) string {
			if at.IsZero() {
				return "-"
			}
			return fmt.Sprint(at.Sub(begin).Seconds())
		}
		s := e.stats(now)
		for i := range 99 {
			e.deviates([]string{fmt.Sprint(i / 2 % 20), "0"})
		}
		if len(s.Deviations)+12 != len(e.stats(now).Deviations) || e.deviations[11] != "11" {
			t.Errorf("deviations %q, then %q", s.Deviations, e.deviations)
		}
		got := fmt.Sprintf("%t %s %s %s %t", e.room(now), second(e.wakes(now)), s.State, second(s.Until), s.Reason != "")
		if got != c.want {
			t.Errorf("%q, second %d: %s, want %s", c.events, c.second, got, c.want)
		}
	}
}
