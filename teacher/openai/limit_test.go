package openai

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

// A simServer models a server in simulated time.
type simServer struct {
	slots   int                                // requests served at once; the others queue
	reject  bool                               // reject requests that find no slot
	service func(busy int) time.Duration       // time for an answer, by the number of requests being served
	vary    float64                            // answers are shorter or longer by up to this share
	change  map[time.Duration]func(*simServer) // changes of the server, by time
}

type simRequest struct {
	number      uint64
	sent, begun time.Duration
	end         time.Duration
	bytes       int64
	rejected    bool
}

type simHeap []*simRequest

func (h simHeap) Len() int           { return len(h) }
func (h simHeap) Less(i, j int) bool { return h[i].end < h[j].end }
func (h simHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *simHeap) Push(x any)        { *h = append(*h, x.(*simRequest)) }
func (h *simHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

type simResult struct {
	elapsed    time.Duration
	rejections int
	highest    int           // limit
	slowest    time.Duration // to the first token
	final      int
	mean       float64 // limit, over the second half
}

// simulate sends n requests through a limit. It simulates streams: the first token comes a twentieth of the service
// time after the start of service.
func simulate(l *limit, s simServer, n int, seed uint64, streams bool) simResult {
	rng := rand.New(rand.NewPCG(seed, 1))
	base := time.Unix(0, 0)
	var (
		now      time.Duration
		running  simHeap
		queue    []*simRequest
		serving  int
		inFlight int
		sent     uint64
		answered int
		work     int64
		res      simResult
		sum      float64
		samples  int
	)
	begin := func(r *simRequest) {
		serving++
		r.begun = now
		factor := 1 + s.vary*(2*rng.Float64()-1)
		r.bytes = int64(1000 * factor)
		r.end = now + time.Duration(float64(s.service(serving))*factor)
		heap.Push(&running, r)
	}
	for answered < n {
		for at, do := range s.change {
			if now >= at {
				do(&s)
				delete(s.change, at)
			}
		}
		for inFlight < l.n && answered+inFlight < n {
			sent++
			inFlight++
			l.start(base.Add(now), work)
			r := &simRequest{number: sent, sent: now}
			switch {
			case serving < s.slots:
				begin(r)
			case s.reject:
				r.rejected, r.end = true, now+time.Millisecond
				heap.Push(&running, r)
			default:
				queue = append(queue, r)
			}
		}
		if inFlight < l.n {
			l.slack()
		}
		r := heap.Pop(&running).(*simRequest)
		now = r.end
		inFlight--
		if r.rejected {
			res.rejections++
			l.rejected(base.Add(now), work, inFlight, r.number, sent)
			continue
		}
		serving--
		answered++
		work += r.bytes
		first := r.end - r.sent
		if streams {
			first = r.begun - r.sent + (r.end-r.begun)/20
		}
		res.slowest = max(res.slowest, first)
		l.answered(base.Add(now), work, first, r.end-r.sent)
		res.highest = max(res.highest, l.n)
		if answered > n/2 {
			sum += float64(l.n)
			samples++
		}
		if len(queue) > 0 && serving < s.slots {
			next := queue[0]
			queue = queue[1:]
			begin(next)
		}
	}
	res.elapsed, res.final, res.mean = now, l.n, sum/float64(samples)
	return res
}

func constant(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

func batching(busy int) time.Duration {
	return time.Duration(float64(4*time.Second) * (1 + float64(busy)/64))
}

// TestLimitFindsCapacity checks that the limit finds the capacity of each kind of server and stays there, whether the
// server streams or not and whether its answers have the same length or not.
func TestLimitFindsCapacity(t *testing.T) {
	const n = 3000
	for _, test := range []struct {
		name        string
		server      simServer
		used        float64 // minimum share of the capacity, with start and end
		low, high   float64 // mean limit over the second half
		slowestLike int     // no request waits longer than it would after this many others
	}{
		{"one slot", simServer{slots: 1, service: constant(20 * time.Second)}, 0.98, 1, 1.5, 12},
		{"one slow slot", simServer{slots: 1, service: constant(50 * time.Second)}, 0.98, 1, 1.5, 7},
		{"two slots", simServer{slots: 2, service: constant(20 * time.Second)}, 0.98, 2, 12, 18},
		{"24 slots, queue", simServer{slots: 24, service: constant(50 * time.Millisecond)}, 0.95, 24, 96, 256},
		{"32 slots, queue", simServer{slots: 32, service: constant(50 * time.Millisecond)}, 0.94, 32, 128, 320},
		{"32 slots, 429", simServer{slots: 32, reject: true, service: constant(50 * time.Millisecond)}, 0.94, 31, 33, 32},
		{"batches of any size", simServer{slots: 1000, service: batching}, 0.83, 200, 256, 1000},
		{"batches of 200", simServer{slots: 200, service: batching}, 0.83, 150, 256, 600},
	} {
		for _, streams := range []bool{true, false} {
			for _, vary := range []float64{0, 0.5, 0.9} {
				for seed := range uint64(5) {
					s := test.server
					s.vary = vary
					res := simulate(newLimit(0, 256, 5*time.Minute), s, n, seed, streams)
					full := min(s.slots, 256)
					used := float64(n) / float64(full) * s.service(full).Seconds() / res.elapsed.Seconds()
					slowest := time.Duration(float64(test.slowestLike) / float64(s.slots) * (1 + vary) * float64(s.service(s.slots)))
					if used < test.used-vary/25 || res.mean < test.low || res.mean > test.high || res.slowest > slowest {
						t.Errorf("%s, streams %v, vary %v, seed %d: used %.3f, limit %.1f, highest %d, slowest %v of %v, %d rejections",
							test.name, streams, vary, seed, used, res.mean, res.highest, res.slowest, slowest, res.rejections)
					}
					if res.rejections > 100 {
						t.Errorf("%s: %d rejections", test.name, res.rejections)
					}
				}
			}
		}
	}
}

// TestLimitFollowsChange checks that the limit follows a server that loses half of its slots, and one that gets them
// back.
func TestLimitFollowsChange(t *testing.T) {
	s := simServer{slots: 32, reject: true, service: constant(50 * time.Millisecond),
		change: map[time.Duration]func(*simServer){
			20 * time.Second: func(s *simServer) { s.slots = 16 },
		}}
	l := newLimit(0, 256, time.Minute)
	res := simulate(l, s, 20000, 1, false)
	if res.final < 15 || res.final > 18 || res.rejections > 300 {
		t.Errorf("limit %d after the slots became 16, %d rejections", res.final, res.rejections)
	}
	s = simServer{slots: 8, reject: true, service: constant(50 * time.Millisecond),
		change: map[time.Duration]func(*simServer){
			10 * time.Second: func(s *simServer) { s.slots = 32 },
		}}
	res = simulate(newLimit(0, 256, time.Minute), s, 20000, 1, false)
	if res.final < 30 || res.final > 34 {
		t.Errorf("limit %d after the slots became 32", res.final)
	}
}

// TestLimitNeedsDemand checks that too few requests to fill the limit do not raise it.
func TestLimitNeedsDemand(t *testing.T) {
	l := newLimit(0, 256, time.Minute)
	now := time.Unix(0, 0)
	for i := range 1000 {
		l.start(now, int64(i))
		l.slack()
		now = now.Add(time.Second)
		l.answered(now, int64(i+1), time.Second/2, time.Second)
	}
	if l.n != startLimit {
		t.Errorf("limit %d after 1000 requests one by one", l.n)
	}
}

func TestLimitFixed(t *testing.T) {
	l := newLimit(7, 256, time.Minute)
	l.rejected(time.Unix(0, 0), 0, 0, 1, 1)
	for range 100 {
		l.answered(time.Unix(9, 0), 9, 1, 1)
	}
	if l.n != 7 {
		t.Errorf("limit %d", l.n)
	}
}

// FuzzLimit checks that the limit stays within its bounds, whatever happens.
func FuzzLimit(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 255, 128}, uint8(9))
	f.Fuzz(func(t *testing.T, steps []byte, most uint8) {
		l := newLimit(0, max(1, int(most)), time.Minute)
		now, work, sent := time.Unix(0, 0), int64(0), uint64(0)
		for _, s := range steps {
			now = now.Add(time.Duration(s) * time.Millisecond)
			switch s % 5 {
			case 0, 1:
				sent++
				l.start(now, work)
			case 2, 3:
				work += int64(s)
				l.answered(now, work, time.Duration(s), time.Duration(s)*2)
			case 4:
				l.rejected(now, work, int(s), sent-min(sent, uint64(s)), sent)
			}
			if l.n < 1 || l.n > l.max || l.base < 0 || l.base > l.max {
				t.Fatalf("limit %d, base %d of at most %d", l.n, l.base, l.max)
			}
		}
	})
}
