package openai

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const longestBackoff = time.Minute

// KeyInAnswer stands as the finish reason of an answer that has the API key in it,
// in place of all that the endpoint said: such an answer goes no further.
const KeyInAnswer = "the API key is in it"

// Answer is one whole completion.
type Answer struct {
	Text         string // what the model wrote, without its reasoning
	FinishReason string // as sent: "stop", "length", "content_filter", ...; or KeyInAnswer
	Model        string // the model that the endpoint says it was; may differ from the one asked for
	Endpoint     string // base URL

	PromptTokens     int // 0 when the endpoint did not say
	CompletionTokens int // 0 when the endpoint did not say

	Attempts   int           // requests sent for this answer, 1 or more
	Latency    time.Duration // of the successful attempt, from sending to the end
	FirstToken time.Duration // of the successful attempt, from sending to the first event
}

// Stats is a snapshot of a [Pool].
type Stats struct {
	InFlight int // requests sent and not finished
	Limit    int // how many may be in flight now, over the living endpoints
	Waiting  int // calls of Complete waiting for a slot or for their next attempt
	Alive    int // endpoints that are neither down nor retired
	Total    int // endpoints

	Answers          int64 // completions returned
	PromptTokens     int64 // over those answers
	CompletionTokens int64

	// GiveUpAt is when those that wait give up if no endpoint answers before; zero while one is expected to.
	GiveUpAt time.Time

	Retries    map[string]int // failed attempts that were tried again, by reason
	FirstRetry string         // the first of them: the endpoint and what happened
	Endpoints  []EndpointStats
}

// EndpointStats is a snapshot of one endpoint.
type EndpointStats struct {
	URL      string
	State    string // "alive", "paused" (asked us to slow down), "down" (probed now and then) or "retired" (see Reason)
	InFlight int
	Limit    int
	Until    time.Time // while down or paused, nothing is sent before
	Reason   string    // the last failure while not alive
}

// EndpointModels is what one endpoint says that it serves.
type EndpointModels struct {
	Endpoint string
	Models   []string // in the endpoint's order
	Missing  bool     // the endpoint answers but keeps no list: nothing is known
	Err      error    // *Fatal or *Unavailable: it cannot be used now
}

// Pool sends requests to one or several endpoints. Its methods may be called
// from many goroutines at once.
type Pool struct {
	o      Options
	client *http.Client

	mu        sync.Mutex
	endpoints []*endpoint
	waiting   list.List // of *turn
	timer     *time.Timer
	inFlight  int
	deadSince time.Time
	random    *rand.Rand
	tally     Stats // the counts
}

// New checks o and returns a pool; nothing is sent yet.
func New(o Options) (*Pool, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{o: o, random: rand.New(rand.NewPCG(o.JitterSeed, 0))}
	for _, u := range o.BaseURLs {
		p.endpoints = append(p.endpoints, &endpoint{url: u, limit: newLimit(o.Concurrency, o.MaxConcurrency, o.FirstTokenTimeout)})
	}
	p.client = newClient(o, p.MaxInFlight())
	p.tally.Retries = map[string]int{}
	p.timer = time.AfterFunc(time.Hour, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dispatch()
	})
	p.timer.Stop()
	return p, nil
}

// Complete sends body, as [Request.Body] made it for a stream, and returns the
// answer. It waits for a slot, retries, and moves to another endpoint as needed.
// The error is *[RequestRefused], *[Fatal], *[Unavailable], or wraps ctx's.
func (p *Pool) Complete(ctx context.Context, body []byte) (Answer, error) {
	return p.complete(ctx, body, false)
}

// CompleteFirst is Complete for a request that others wait for: it goes before
// those that have not been sent yet.
func (p *Pool) CompleteFirst(ctx context.Context, body []byte) (Answer, error) {
	return p.complete(ctx, body, true)
}

func (p *Pool) complete(ctx context.Context, body []byte, first bool) (Answer, error) {
	t := &turn{after: make([]time.Time, len(p.endpoints)), first: first}
	for {
		s, err := p.acquire(ctx, t)
		if err != nil {
			return Answer{}, err
		}
		p.countSend(t)
		a, f := p.attempt(ctx, s.e, body)
		if err := p.judge(ctx, t, s, a, f); err != nil {
			return Answer{}, err
		}
		if f == nil {
			a.Attempts = t.sent
			return a, nil
		}
	}
}

func (p *Pool) countSend(t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.sent++; t.sent == 1 {
		t.answers = p.tally.Answers
		return
	}
	p.tally.Retries[t.last.reason]++
	if p.tally.FirstRetry == "" {
		p.tally.FirstRetry = t.lastURL + ": " + t.last.message
	}
}

// judge frees the slot, lets the endpoint and the turn learn from the attempt,
// and returns an error if the turn ends here without an answer.
func (p *Pool) judge(ctx context.Context, t *turn, s slot, a Answer, f *failure) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.dispatch()
	now, e := time.Now(), s.e
	p.giveBack(s)
	if f == nil {
		e.worked()
		e.answered = true
		e.limit.answered(now, e.work.Load(), a.FirstToken, a.Latency)
		p.tally.Answers++
		p.tally.PromptTokens += int64(a.PromptTokens)
		p.tally.CompletionTokens += int64(a.CompletionTokens)
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for %s: %w", e.url, ctx.Err())
	}
	t.last, t.lastURL = f, e.url
	if f.reason == notAnAnswer && !e.answered {
		f.kind = fatal // it is not a server that hiccups, it is the wrong address
	}
	if f.overload {
		e.limit.rejected(now, e.work.Load(), e.inFlight, s.request, e.sent)
	}
	switch f.kind {
	case refused:
		e.worked()
		return &RequestRefused{Endpoint: e.url, Status: f.status, Reason: f.reason, Message: f.message}
	case fatal:
		e.retired = f
	case throttled:
		e.slowDown(f.message)
		if t.throttle.IsZero() {
			t.throttle = now
		}
		if now.Sub(t.throttle) >= p.o.ThrottleTimeout {
			return p.unavailable(t)
		}
	case unreachable:
		e.failed(now, s.probe, f.message, p.random.Float64())
	case broken:
		// Turning some away while answering others is load, not death.
		if loaded := f.overload && f.status != 0 && e.inFlight > 0; !loaded || s.probe {
			e.failed(now, s.probe, f.message, p.random.Float64())
		}
		// A probe finds out whether the endpoint is back. Its request must not pay
		// for that: DeadTimeout bounds it.
		if s.probe {
			break
		}
		if t.attempts++; t.attempts > p.o.Retries {
			return p.unavailable(t)
		}
	}
	bound := min(p.o.Backoff<<min(t.tries, 20), longestBackoff)
	wait := time.Duration(p.random.Float64() * float64(bound))
	t.tries++
	for i := range p.endpoints {
		if p.endpoints[i] == e {
			t.after[i] = now.Add(wait)
		}
	}
	if f.wait >= p.o.DeadTimeout {
		f.wait = p.o.DeadTimeout / 2 // it cannot be sat out: ask once more before giving up
	}
	if pause := now.Add(f.wait); pause.After(e.pausedUntil) {
		e.pausedUntil = pause
	}
	return nil
}

// MaxInFlight is the most requests that the pool will ever have in flight: more
// concurrent calls of Complete than this only wait.
func (p *Pool) MaxInFlight() int {
	if p.o.Concurrency > 0 {
		return p.o.Concurrency
	}
	return p.o.MaxConcurrency * len(p.endpoints)
}

// Stats returns what the pool is doing now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, s := time.Now(), p.tally
	s.Retries = maps.Clone(p.tally.Retries)
	s.InFlight, s.Waiting, s.Total = p.inFlight, p.waiting.Len(), len(p.endpoints)
	if !p.deadSince.IsZero() {
		s.GiveUpAt = p.deadSince.Add(p.o.DeadTimeout)
	}
	for _, e := range p.endpoints {
		s.Endpoints = append(s.Endpoints, e.stats(now))
		if e.alive() {
			s.Alive++
			s.Limit += e.limit.n
		}
	}
	if p.o.Concurrency > 0 {
		s.Limit = min(s.Limit, p.o.Concurrency)
	}
	return s
}

// Close drops idle connections. Calls in progress are ended by their contexts.
func (p *Pool) Close() { p.client.CloseIdleConnections() }
