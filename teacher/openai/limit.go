package openai

import "time"

const (
	startLimit   = 4   // small enough for a server with one slot, 3 doublings from 32
	growthWanted = 1.1 // a doubling that brings less than this brought nothing
	growthSure   = 1.5 // and one that brings this was surely worth it
	stepWorth    = 0.3 // a probe must bring this share of what it adds
	firstHold    = 4   // rounds until the first probe; doubles while probes find nothing
	longestHold  = 64
)

type limitMode int

const (
	ramping    limitMode = iota // doubling while the work done per second grows
	descending                  // halving while it does not shrink
	holding                     // staying, for hold rounds
	probing                     // trying a little more than base
)

// limit decides how many requests one endpoint is given at once. It is a state
// machine without a clock: time comes in with each event.
//
// Time is cut into rounds of as many answers as the limit is high. The work of a
// round (bytes of answer received) over its length is the rate, and the limit
// looks for the smallest number of requests that reaches the highest rate. Rates
// are compared, not latencies, because a server that batches answers each request
// later and all of them sooner. A rejection (429, 503) says at once where the
// ceiling is: as many as are still being answered.
type limit struct {
	n     int // requests allowed now
	most  int
	fixed bool
	wait  time.Duration // a request that waits longer for its first token has failed

	mode     limitMode
	base     int     // the last limit known to be worth its size
	best     float64 // the rate at base, 0 if not measured
	sure     int     // the highest limit that was clearly worth reaching
	strikes  int     // rounds without growth while ramping
	hold     int     // rounds left to hold
	patience int     // length of the next hold
	ceiling  bool    // base was found by a rejection

	idle           bool // the next answer begins a round
	since          time.Time
	work           int64 // the endpoint's bytes at the start of the round
	done           int
	skip           int           // answers to let pass first: the limit has just fallen
	latency, queue time.Duration // sums over the round
	slowest        time.Duration // to the first token, of the round
	leastFirst     time.Duration // to the first token, ever

	cutAfter uint64 // rejections of requests up to this one belong to the last cut
	floor    int    // which goes no lower than this
}

func newLimit(fixed, most int, wait time.Duration) *limit {
	if fixed > 0 {
		return &limit{n: fixed, most: fixed, fixed: true}
	}
	return &limit{n: min(startLimit, most), most: most, wait: wait, idle: true, patience: firstHold}
}

// slack says that the endpoint has had free slots and nobody to fill them: the
// rate of this round says nothing about the limit.
func (l *limit) slack() { l.idle = true }

// start begins a round, if none is under way, when a request is sent.
func (l *limit) start(now time.Time, work int64) {
	if l.idle {
		l.idle = false
		l.begin(now, work)
	}
}

func (l *limit) begin(now time.Time, work int64) {
	l.since, l.work, l.done, l.latency, l.queue, l.slowest = now, work, 0, 0, 0, 0
}

// answered records an answer; work is the endpoint's bytes of answer so far.
func (l *limit) answered(now time.Time, work int64, first, latency time.Duration) {
	if l.fixed || l.idle {
		return
	}
	if l.skip > 0 {
		// Until as many are in flight as the limit says, the rate is the old one.
		if l.skip--; l.skip == 0 {
			l.begin(now, work)
		}
		return
	}
	if l.leastFirst == 0 || first < l.leastFirst {
		l.leastFirst = first
	}
	l.done++
	l.latency += latency
	l.slowest = max(l.slowest, first)
	// An answer that comes in one piece does not tell waiting from working.
	if first < latency*9/10 {
		l.queue += first - l.leastFirst
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

func (l *limit) roundLength() int {
	if l.mode == ramping || l.mode == descending {
		return l.n
	}
	return max(2*l.n, 16)
}

// endRound moves the limit by the rate of the round that has ended; queued says
// that requests spent most of their time waiting for the server to begin, or so
// long that twice as many might fail by it.
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
		case grown && l.n == l.most:
			l.settle(l.n, rate)
		case grown:
			l.base, l.best, l.strikes = l.n, rate, 0
			l.n = min(2*l.n, l.most)
		case l.strikes == 0:
			l.strikes++ // one round may be chance
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
		if l.hold--; l.hold > 0 || l.n == l.most {
			return
		}
		l.mode = probing
		l.raise()
	case probing:
		added := float64(l.n-l.base) / float64(l.base)
		// Below a ceiling found by rejections, not being rejected is enough.
		if l.ceiling || rate > l.best*(1+stepWorth*added) {
			l.base, l.best, l.patience = l.n, rate, firstHold
			if l.n == l.most {
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

// descend goes on below base, unless it is known to be needed. An eighth above
// what is needed hides the time between two requests.
func (l *limit) descend() {
	if l.base <= max(l.sure, 1) {
		l.settle(l.base+l.base/8, l.best)
		return
	}
	l.mode, l.n = descending, l.base/2
}

func (l *limit) settle(n int, rate float64) {
	n = min(n, l.most)
	l.mode, l.n, l.base, l.best, l.hold = holding, n, n, rate, l.patience
}

func (l *limit) raise() {
	step := l.n / 4
	if l.ceiling {
		step = l.n / 16
	}
	l.n = min(l.n+max(1, step), l.most)
}

// rejected records that the endpoint had no room for a request: inFlight others
// are still with it. request and latest number the rejected request and the last
// one sent. The limit falls to what is in flight, but all the rejections of one
// moment together no more than halve it.
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
