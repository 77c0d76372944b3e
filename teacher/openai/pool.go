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

// Refusal is the finish reason of an answer that is complete and, as its server says, a refusal: the text says why.
const Refusal = "refusal"

// KeyInAnswer is the finish reason of an answer that contained the API key. Everything that the endpoint sent is
// removed from such an answer.
const KeyInAnswer = "the API key is in it"

// An Answer is one complete chat completion.
type Answer struct {
	Text         string // without the model's reasoning
	Thoughts     int    // bytes of reasoning that came apart from the text
	FinishReason string // "stop", "length", "content_filter", ..., in OpenAI's spelling; KeyInAnswer or Refusal
	Model        string // as the endpoint names it, which may differ from the request
	Endpoint     string // base URL

	PromptTokens     int // 0 if the endpoint did not report it
	CompletionTokens int // 0 if the endpoint did not report it

	Deviations []string // how the response deviates from OpenAI's format

	Attempts   int           // requests sent for this answer, 1 or more
	Latency    time.Duration // of the successful attempt, from sending to the end
	FirstToken time.Duration // of the successful attempt, from sending to the first event
}

// Stats is a snapshot of a [Pool].
type Stats struct {
	InFlight int // requests sent and not finished
	Limit    int // how many may be in flight now, over the endpoints that are alive
	Waiting  int // calls of Complete that wait for a slot or for their next attempt
	Alive    int // endpoints that are neither down nor retired
	Total    int // endpoints

	Answers int64 // completions returned

	// GiveUpAt is when waiting calls give up if no endpoint answers before; zero while
	// one is expected to answer.
	GiveUpAt time.Time

	Retries    map[string]int // failed attempts that were retried, by reason
	FirstRetry string         // endpoint and failure of the first of them
	Endpoints  []EndpointStats
}

// EndpointStats is a snapshot of one endpoint.
type EndpointStats struct {
	URL      string
	State    string // "alive", "paused" (it asked to slow down), "down" (probed now and then) or "retired" (unusable)
	InFlight int
	Limit    int
	Until    time.Time // while down or paused: no request is sent before
	Reason   string    // the last failure, unless alive

	Deviations []string // how its answers deviate from OpenAI's format
}

// EndpointModels is the list of models of one endpoint.
type EndpointModels struct {
	Endpoint string
	Models   []string // in the endpoint's order
	Missing  bool     // the endpoint answers but has no list, so its models are unknown
	Err      error    // *Fatal or *Unavailable if the endpoint cannot be used now
}

// A Pool sends requests to one or several endpoints. Its methods may be called
// concurrently.
type Pool struct {
	o      Options
	client *http.Client

	mu        sync.Mutex
	endpoints []*endpoint
	waiting   list.List // of *turn
	timer     *time.Timer
	inFlight  int
	held      int // requests that may be in flight; 0 for as many as the endpoints' limits allow
	deadSince time.Time
	random    *rand.Rand
	tally     Stats // only the counts are used
}

// New checks o and returns a pool. It sends nothing.
func New(o Options) (*Pool, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{o: o, random: rand.New(rand.NewPCG(o.JitterSeed, 0))}
	for _, u := range o.BaseURLs {
		limit := newLimit(o.Concurrency, o.MaxConcurrency, o.FirstTokenTimeout)
		p.endpoints = append(p.endpoints, &endpoint{url: u, limit: limit})
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

// Complete sends body, which [Request.Body] returned for a stream, and returns the
// answer. It waits for a slot, retries, and changes to another endpoint as needed.
// The error is a *[RequestRefused], a *[Fatal] or an *[Unavailable], or wraps ctx's.
func (p *Pool) Complete(ctx context.Context, body []byte) (Answer, error) {
	return p.complete(ctx, body, false)
}

// CompleteFirst is like Complete, for a request that others wait for: it is sent before the requests that have not
// been sent yet.
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

// judge frees the slot, updates the endpoint and the turn after an attempt, and
// returns an error if the turn ends without an answer.
func (p *Pool) judge(ctx context.Context, t *turn, s slot, a Answer, f *failure) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.dispatch()
	now, e := time.Now(), s.e
	p.giveBack(s)
	if f == nil {
		e.worked()
		e.answered = true
		e.deviates(a.Deviations)
		e.limit.answered(now, e.work.Load(), a.FirstToken, a.Latency)
		p.tally.Answers++
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for %s: %w", e.url, ctx.Err())
	}
	t.last, t.lastURL = f, e.url
	t.damage = f.damage && (t.damage || t.sent == 1)
	e.damage = f.damage && (e.damage || e.failures == 0)
	if f.reason == notAnAnswer && !e.answered {
		f.kind = fatal // the wrong address, not a server with a problem
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
		// An endpoint that rejects some requests while it answers others is loaded, not down.
		if loaded := f.overload && f.status != 0 && e.inFlight > 0; !loaded || s.probe {
			e.failed(now, s.probe, f.message, p.random.Float64())
		}
		// A probe tests whether the endpoint is back. Its request must not lose a retry by that: DeadTimeout bounds
		// it. An answer that may be incomplete shows that the endpoint is back, and how it behaves.
		if s.probe && !f.damage {
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
		f.wait = p.o.DeadTimeout / 2 // too long to wait: ask once more before giving up
	}
	if pause := now.Add(f.wait); pause.After(e.pausedUntil) {
		e.pausedUntil = pause
	}
	return nil
}

// Hold makes the pool send no request while n or more are in flight, until Hold is called again. 0 ends that.
func (p *Pool) Hold(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = n
	p.dispatch()
}

// MaxInFlight returns the maximum number of requests in flight. More concurrent calls
// of Complete than this only wait.
func (p *Pool) MaxInFlight() int {
	if p.o.Concurrency > 0 {
		return p.o.Concurrency
	}
	return p.o.MaxConcurrency * len(p.endpoints)
}

// Stats returns a snapshot of the pool.
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

// Close closes idle connections. It does not end calls in progress.
func (p *Pool) Close() { p.client.CloseIdleConnections() }
