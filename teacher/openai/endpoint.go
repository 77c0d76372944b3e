package openai

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	failuresToOpen = 3 // in a row, without an answer between them
	longestProbe   = 30 * time.Second
)

// An endpoint is the state of one base URL. The pool's mutex guards all of it but work.
type endpoint struct {
	url   string
	limit *limit
	work  atomic.Int64 // bytes of answers received

	inFlight int
	sent     uint64 // requests sent, which numbers them
	answered bool   // it has answered in this run

	pausedUntil time.Time // it asked to wait until then
	throttled   bool      // it has asked to slow down since its last answer

	// The circuit is open while opened > 0: then only probes are sent, one request
	// at a time and not before probeAt.
	failures int
	opened   int
	probeAt  time.Time
	probing  bool
	reason   string // the last failure
	damage   bool   // all failures since the last answer were answers that may be incomplete

	deviations []string // from OpenAI's format

	retired *failure // why it is unusable in this run; nil if it is usable
}

func (e *endpoint) alive() bool { return e.retired == nil && e.opened == 0 }

// answers reports whether e is expected to answer a request that is sent now.
func (e *endpoint) answers() bool { return e.alive() && !e.throttled }

// room reports whether a request may be sent now.
func (e *endpoint) room(now time.Time) bool {
	switch {
	case e.retired != nil || now.Before(e.pausedUntil):
		return false
	case e.opened > 0:
		return !e.probing && !now.Before(e.probeAt)
	}
	return e.inFlight < e.limit.n
}

// wakes returns when room may become true merely because time passes, or zero if it will not.
func (e *endpoint) wakes(now time.Time) time.Time {
	at := e.pausedUntil
	if e.opened > 0 && e.probeAt.After(at) {
		at = e.probeAt
	}
	if e.retired != nil || e.probing || !at.After(now) {
		return time.Time{}
	}
	return at
}

// worked closes the circuit after an answer.
func (e *endpoint) worked() { e.failures, e.opened, e.reason, e.throttled = 0, 0, "", false }

// maxDeviations bounds the number of deviations that are listed per endpoint.
const maxDeviations = 12

// deviates records how an answer deviates from OpenAI's format.
func (e *endpoint) deviates(how []string) {
	for _, h := range how {
		if len(e.deviations) < maxDeviations && !slices.Contains(e.deviations, h) {
			e.deviations = append(e.deviations, h)
		}
	}
}

// slowDown records that e asked to slow down. It closes the circuit, because e works.
func (e *endpoint) slowDown(reason string) {
	e.worked()
	e.reason, e.throttled = reason, true
}

// failed counts a failure, and opens the circuit after a few. Once it is open, only
// a failed probe lengthens the wait, not a request that was sent before.
func (e *endpoint) failed(now time.Time, probe bool, reason string, jitter float64) {
	e.failures++
	e.reason = reason
	if e.opened > 0 && !probe || e.failures < failuresToOpen {
		return
	}
	wait := min(time.Second<<min(e.opened, 10), longestProbe)
	e.opened++
	e.probeAt = now.Add(time.Duration(float64(wait) * (0.5 + jitter/2)))
}

func (e *endpoint) stats(now time.Time) EndpointStats {
	s := EndpointStats{URL: e.url, State: "alive", InFlight: e.inFlight, Limit: e.limit.n, Reason: e.reason,
		Deviations: slices.Clone(e.deviations)}
	switch {
	case e.retired != nil:
		s.State, s.Reason = "retired", e.retired.message
	case e.opened > 0:
		s.State, s.Until = "down", e.probeAt
	case now.Before(e.pausedUntil) || e.throttled:
		s.State, s.Until = "paused", e.pausedUntil
	default:
		s.Reason = ""
	}
	return s
}
