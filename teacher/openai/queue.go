package openai

import (
	"container/list"
	"context"
	"fmt"
	"time"
)

// A turn is one call of Complete. It enters the queue once per attempt.
type turn struct {
	first    bool        // precedes turns that were never sent
	after    []time.Time // by endpoint: not before this time, because the turn failed there
	attempts int         // failures that used up a retry
	sent     int         // requests sent
	answers  int64       // the pool's answers when the turn was first sent
	tries    int         // failures of any kind, with which the backoff grows
	throttle time.Time   // when an endpoint first asked to slow down
	damage   bool        // all failures were complete answers that cannot be used
	last     *failure
	lastURL  string

	ready chan slot // receives a slot, or is closed with err set
	err   error
	place *list.Element
}

// early reports whether t precedes turns that were never sent.
func (t *turn) early() bool { return t.first || t.tries > 0 }

// A slot is the right to send one request.
type slot struct {
	e       *endpoint
	request uint64
	probe   bool
}

// acquire waits for a slot. Retries, and requests that others wait for, precede the rest.
func (p *Pool) acquire(ctx context.Context, t *turn) (slot, error) {
	p.mu.Lock()
	t.ready, t.err = make(chan slot, 1), nil
	if t.early() {
		t.place = p.waiting.PushFront(t)
	} else {
		t.place = p.waiting.PushBack(t)
	}
	p.dispatch()
	p.mu.Unlock()

	select {
	case s, ok := <-t.ready:
		if !ok {
			return slot{}, t.err
		}
		return s, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.place != nil {
		p.waiting.Remove(t.place)
	} else if s, ok := <-t.ready; ok {
		p.giveBack(s)
	}
	p.dispatch()
	return slot{}, fmt.Errorf("waiting for an endpoint: %w", ctx.Err())
}

// giveBack frees a slot, without any conclusion about the endpoint.
func (p *Pool) giveBack(s slot) {
	s.e.inFlight--
	p.inFlight--
	if s.probe {
		s.e.probing = false
	}
}

// dispatch gives free slots to waiting turns, fails turns that wait in vain, and
// sets the timer for its next run. The caller holds the mutex.
func (p *Pool) dispatch() {
	now := time.Now()
	for place := p.waiting.Front(); place != nil && p.room(now); {
		t := place.Value.(*turn)
		next := place.Next()
		if e := p.choose(t, now); e != nil {
			p.leave(t)
			p.inFlight++
			e.inFlight++
			e.sent++
			s := slot{e: e, request: e.sent, probe: e.opened > 0}
			e.probing = e.probing || s.probe
			e.limit.start(now, e.work.Load())
			t.ready <- s
		}
		place = next
	}
	p.checkDead(now)
	for _, e := range p.endpoints {
		if e.room(now) || now.Before(e.pausedUntil) {
			e.limit.slack()
		}
	}
	p.setTimer(now)
}

// leave removes t from the queue.
func (p *Pool) leave(t *turn) {
	p.waiting.Remove(t.place)
	t.place = nil
}

// room reports whether any endpoint has room for a request.
func (p *Pool) room(now time.Time) bool {
	if p.o.Concurrency > 0 && p.inFlight >= p.o.Concurrency || p.held > 0 && p.inFlight >= p.held {
		return false
	}
	for _, e := range p.endpoints {
		if e.room(now) {
			return true
		}
	}
	return false
}

// choose returns the endpoint with the fewest requests in flight relative to its
// limit, among those that have room and that t need not avoid; nil if there is none.
func (p *Pool) choose(t *turn, now time.Time) *endpoint {
	var best *endpoint
	for i, e := range p.endpoints {
		if !e.room(now) || now.Before(t.after[i]) {
			continue
		}
		if best == nil || e.inFlight*best.limit.n < best.inFlight*e.limit.n {
			best = e
		}
	}
	return best
}

// checkDead fails all waiting turns if no endpoint is usable any more, or if for
// DeadTimeout every endpoint has been down or has asked to slow down, without an
// answer.
func (p *Pool) checkDead(now time.Time) {
	usable, working := false, false
	for _, e := range p.endpoints {
		if e.answers() {
			p.deadSince = time.Time{}
			return
		}
		usable = usable || e.retired == nil
		working = working || e.alive() && e.inFlight > 0 // on requests that it has accepted
	}
	if p.deadSince.IsZero() {
		p.deadSince = now
	}
	if usable && (working || now.Sub(p.deadSince) < p.o.DeadTimeout) {
		return
	}
	for p.waiting.Len() > 0 {
		t := p.waiting.Front().Value.(*turn)
		t.err = p.whyDead(t, usable)
		p.leave(t)
		close(t.ready)
	}
}

// whyDead returns the error of a turn that checkDead fails.
func (p *Pool) whyDead(t *turn, usable bool) error {
	e := p.endpoints[0]
	if !usable {
		return e.retired.fatal(e.url)
	}
	for _, other := range p.endpoints {
		if e.retired != nil {
			e = other
		}
	}
	if t.last == nil { // never sent: other turns found the endpoints dead
		return &Unavailable{Endpoint: e.url, Reason: "unreachable", AllDead: true, Damage: e.damage,
			Message: e.reason}
	}
	err := p.unavailable(t)
	err.AllDead = true
	return err
}

// unavailable returns the error of a turn that gives up.
func (p *Pool) unavailable(t *turn) *Unavailable {
	return &Unavailable{Endpoint: t.lastURL, Reason: t.last.reason, Attempts: t.sent,
		Others: int(p.tally.Answers - t.answers), Damage: t.damage, Message: t.last.message}
}

// setTimer has dispatch run again when time alone lets it do more.
func (p *Pool) setTimer(now time.Time) {
	p.timer.Stop()
	if p.waiting.Len() == 0 {
		return
	}
	var wake time.Time
	sooner := func(at time.Time) {
		if at.After(now) && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	for _, e := range p.endpoints {
		sooner(e.wakes(now))
	}
	// Turns that failed before are at the front of the queue.
	for place := p.waiting.Front(); place != nil && place.Value.(*turn).early(); place = place.Next() {
		for _, at := range place.Value.(*turn).after {
			sooner(at)
		}
	}
	if !p.deadSince.IsZero() {
		sooner(p.deadSince.Add(p.o.DeadTimeout))
	}
	if !wake.IsZero() {
		p.timer.Reset(wake.Sub(now))
	}
}
