package openai

import "time"

const (
	startLimit   = 4   // small enough for a server with one slot, and 3 doublings from 32
	growthWanted = 1.1 // a doubling must raise the rate by this factor to count
	growthSure   = 1.5 // a doubling that raises the rate by this factor was certainly worth it
	stepWorth    = 0.3 // a probe must raise the rate by this share of what it adds
	firstHold    = 4   // rounds until the first probe; doubles while probes fail
	longestHold  = 64
)

// A limitMode says what a limit does at the end of a round.
type limitMode int

const (
	ramping    limitMode = iota // doubles while the rate grows
	descending                  // halves while the rate does not fall
	holding                     // stays, for hold rounds
	probing                     // tries a little more than base
)

// A limit decides how many requests one endpoint gets at once. It is a state machine
// without a clock: each event brings the time.
//
// Time is divided into rounds, each with as many answers as the limit allows requests. The work of a round (bytes of
// answers received) divided by its duration is the rate, and the limit searches for the smallest number of requests
// that reaches the highest rate. It compares rates, not latencies, because a server that batches answers each request
// later and all of them sooner. A rejection (429, 503) shows the ceiling at once: the number of requests that are
// still being answered.
type limit struct {
	n     int // requests allowed now
	max   int
	fixed bool
	wait  time.Duration // how long a request may wait for its first token

	mode     limitMode
	base     int     // the last limit known to be worth its size
	best     float64 // the rate at base, 0 if not measured
	sure     int     // the highest limit that was certainly worth it
	strikes  int     // rounds without growth while ramping
	hold     int     // rounds left to hold
	patience int     // length of the next hold
	ceiling  bool    // base was found by a rejection

	idle           bool          // the next request starts a round
	since          time.Time     // the round's start
	work           int64         // the endpoint's bytes at the round's start
	done           int           // answers in the round
	skip           int           // answers to ignore first, because the limit has just fallen
	latency, queue time.Duration // sums over the round
	slowest        time.Duration // longest time to the first token in the round
	minFirst       time.Duration // shortest time to the first token ever

	cutAfter uint64 // rejections of requests up to this one belong to the last reduction
	floor    int    // below which that reduction does not go
}

// newLimit returns a limit of fixed requests, or, if fixed is 0, one that adapts up to
// max.
func newLimit(fixed, max int, wait time.Duration) *limit {
	if fixed > 0 {
		return &limit{n: fixed, fixed: true}
	}
	return &limit{n: min(startLimit, max), max: max, wait: wait, idle: true, patience: firstHold}
}

// slack records that the endpoint had free slots and no requests to fill them: the
// rate of this round says nothing about the limit.
func (l *limit) slack() { l.idle = true }

// start starts a round when a request is sent, unless there is one.
func (l *limit) start(now time.Time, work int64) {
	if l.idle {
		l.idle = false
		l.begin(now, work)
	}
}

// begin starts a round.
func (l *limit) begin(now time.Time, work int64) {
	l.since = now
	l.work = work
	l.done = 0
	l.latency = 0
	l.queue = 0
	l.slowest = 0
}

// answered records an answer; work is the endpoint's bytes so far.
func (l *limit) answered(now time.Time, work int64, first, latency time.Duration) {
	if l.fixed || l.idle {
		return
	}
	if l.skip > 0 {
		// Until the requests in flight are as few as the new limit, the rate is the old one.
		if l.skip--; l.skip == 0 {
			l.begin(now, work)
		}
		return
	}
	if l.minFirst == 0 || first < l.minFirst {
		l.minFirst = first
	}
	l.done++
	l.latency += latency
	l.slowest = max(l.slowest, first)
	// If an answer comes all at once, its first token does not show how long it waited.
	if first < latency*9/10 {
		l.queue += first - l.minFirst
	}
	if l.done < l.roundLength() {
		return
	}
	elapsed := max(now.Sub(l.since), time.Microsecond)
	rate := float64(work-l.work) / elapsed.Seconds()
	before := l.n
	l.endRound(rate, l.queue > l.latency/2 || 2*l.slowest > l.wait)
	l.skip = max(0, before-l.n)
	l.begin(now, work)
}

// roundLength returns the number of answers in a round.
func (l *limit) roundLength() int {
	if l.mode == ramping || l.mode == descending {
		return l.n
	}
	return max(2*l.n, 16)
}

// endRound moves the limit by the rate of the round that has ended. queued means that
// requests waited for the server most of their time, or so long that twice as many
// requests might time out.
func (l *limit) endRound(rate float64, queued bool) {
	switch l.mode {
	case ramping:
		grown := l.base == 0 || rate >= l.best*growthWanted
		if l.base > 0 && rate >= l.best*growthSure {
			l.sure = l.n
		}
		switch {
		case grown && queued:
			l.base, l.best = l.n, rate
			l.descend()
		case grown && l.n == l.max:
			l.settle(l.n, rate)
		case grown:
			l.base, l.best, l.strikes = l.n, rate, 0
			l.n = min(2*l.n, l.max)
		case l.strikes == 0:
			l.strikes++ // one round may be noise
		default:
			l.descend()
		}
	case descending:
		if rate < l.best/growthWanted {
			l.settle(l.base+l.base/8, l.best)
			return
		}
		l.base, l.best = l.n, max(rate, l.best)
		l.descend()
	case holding:
		l.base = l.n
		if l.best == 0 {
			l.best = rate
		}
		l.best += (rate - l.best) / 4
		if l.hold--; l.hold > 0 || l.n == l.max {
			return
		}
		l.mode = probing
		l.raise()
	case probing:
		added := float64(l.n-l.base) / float64(l.base)
		// Below a ceiling that rejections showed, it is enough that there are none.
		if l.ceiling || rate > l.best*(1+stepWorth*added) {
			l.base, l.best, l.patience = l.n, rate, firstHold
			if l.n == l.max {
				l.settle(l.n, rate)
			} else {
				l.raise()
			}
			return
		}
		l.patience = min(2*l.patience, longestHold)
		l.settle(l.base, l.best)
	}
}

// descend halves the limit, unless base is known to be necessary. Then it settles at
// an eighth above base, which hides the time between two requests.
func (l *limit) descend() {
	if l.base <= max(l.sure, 1) {
		l.settle(l.base+l.base/8, l.best)
		return
	}
	l.mode, l.n = descending, l.base/2
}

// settle holds the limit at n.
func (l *limit) settle(n int, rate float64) {
	n = min(n, l.max)
	l.mode = holding
	l.n = n
	l.base = n
	l.best = rate
	l.hold = l.patience
}

// raise raises the limit for a probe.
func (l *limit) raise() {
	step := l.n / 4
	if l.ceiling {
		step = l.n / 16
	}
	l.n = min(l.n+max(1, step), l.max)
}

// rejected records that the endpoint rejected a request while inFlight others are
// still in flight. request and latest are the numbers of the rejected request and of
// the last one sent. The limit falls to inFlight, but all rejections of one moment
// together at most halve it.
func (l *limit) rejected(now time.Time, work int64, inFlight int, request, latest uint64) {
	if l.fixed {
		return
	}
	if request > l.cutAfter {
		l.cutAfter, l.floor = latest, max(1, l.n/2)
		if l.mode == probing {
			l.patience = min(2*l.patience, longestHold)
		}
	}
	if n := max(l.floor, min(l.n, inFlight)); n < l.n || l.mode != holding {
		l.ceiling = true
		l.settle(n, 0)
	}
	l.begin(now, work)
}
