package many

import (
	"math"
	"testing"
)

// near allows for the rounding of sums in another order.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(math.Abs(a), math.Abs(b)) }

// TestCollective compares with the formula of rings, by hand.
func TestCollective(t *testing.T) {
	l := Link{Latency: 1, Bandwidth: 10}
	for _, x := range []struct {
		gpus, perNode         int
		rounds, seconds, sent float64
	}{
		{1, 8, 2, 0, 0},
		{2, 8, 1, 1 + 0.5 + 2, 20},
		{4, 8, 1, 1 + 3*0.5 + 3, 30},
		{4, 2, 2, 1 + 2*(2*0.5+2) + 12, 60}, // the network's half of the bandwidth
		{5, 2, 1, 1 + 2*0.5 + 2*2 + 6.4, 32},
	} {
		c := Cluster{GPUs: x.gpus, PerNode: x.perNode, Between: 5, Hop: 0.5, HopBetween: 2}
		if seconds, sent := c.Collective(l, x.rounds, 40); !near(seconds, x.seconds) || !near(sent, x.sent) {
			t.Errorf("%+v: %v s, %v bytes", x, seconds, sent)
		}
	}
	l = Fit(8, 4, 512, 64)
	if small, large := l.Latency+8/l.Bandwidth, l.Latency+512/l.Bandwidth; !near(small, 8/4) || !near(large, 512/64) {
		t.Errorf("Fit: %+v, %v and %v s", l, small, large)
	}
}

// TestSimulate goes through two layers by hand. A layer's gradients take 3 s in any sum and its weights 3 s, those
// outside 1 s.
func TestSimulate(t *testing.T) {
	j := Job{Layers: 2, Passes: 1, Forward: 1, Backward: 2, Head: 1, Layer: Part{6, 6}, Outside: Part{2, 2}, State: 12,
		Rest: 100}
	c := Cluster{GPUs: 2, PerNode: 2, Gather: Link{0, 1}, AllReduce: Link{0, 2}}
	for _, x := range []struct {
		sharding             Sharding
		passes               int
		seconds, sends, kept float64
	}{
		{AllReduce, 1, 12, 7, 140}, // backward ends at 5 and 7, sums at 8, 11, 12
		{AllReduce, 2, 19, 7, 140},
		{ZeRO1, 1, 18, 14, 134}, // gathered at 1, 4, 7; backward ends at 11 and 13, sums at 14, 17, 18
		{ZeRO2, 1, 18, 14, 100 + 14 + 7 + 14 + 6},
		{ZeRO2, 2, 25, 21, 141}, // the second backward ends at 18 and 20, sums at 21, 24, 25
		{ZeRO3, 1, 20, 20, 148}, // gathered at 1, 4, 7, 10, 13; backward ends at 12 and 15, sums at 16, 19, 20
	} {
		j.Passes = x.passes
		r := j.Simulate(x.sharding, c)
		if r.Seconds != x.seconds || r.Sending != x.sends || r.Computing != 7*float64(x.passes) {
			t.Errorf("%v, %d passes: %+v; want %v s", x.sharding, x.passes, r, x.seconds)
		}
		if got := j.Kept(x.sharding, 2); got != x.kept {
			t.Errorf("%v keeps %v bytes; want %v", x.sharding, got, x.kept)
		}
	}
}

// TestSimulate_StaysWithinBounds checks what holds for any model and cluster.
func TestSimulate_StaysWithinBounds(t *testing.T) {
	for _, gpus := range []int{1, 2, 7, 64} {
		for _, passes := range []int{1, 3} {
			for _, bandwidth := range []float64{0.1, 1, 10, 100, math.Inf(1)} {
				j := Job{Layers: 5, Passes: passes, Forward: 1.5, Backward: 3.5, Head: 2,
					Layer: Part{7, 9}, Outside: Part{11, 13}}
				link := Link{0.1, bandwidth}
				if math.IsInf(bandwidth, 1) {
					link.Latency = 0
				}
				c := Cluster{GPUs: gpus, PerNode: 4, Gather: link, AllReduce: link, Between: bandwidth / 2}
				faster := c
				faster.Gather.Bandwidth, faster.AllReduce.Bandwidth, faster.Between = 2*bandwidth, 2*bandwidth, bandwidth
				for i := range Shardings {
					s, least := Sharding(i), 27*float64(passes)
					r := j.Simulate(s, c)
					if !near(r.Computing, least) || r.Hidden() < -1e-9 || r.Hidden() > 1+1e-9 {
						t.Errorf("%d GPUs, %d passes, %v B/s, %v: %+v, %v hidden", gpus, passes, bandwidth, s, r, r.Hidden())
					}
					if (gpus == 1 || math.IsInf(bandwidth, 1)) && !near(r.Seconds, least) {
						t.Errorf("%d GPUs, %v bytes/s, %v: %v s; want %v", gpus, bandwidth, s, r.Seconds, least)
					}
					if gpus == 1 && r.Sent != 0 {
						t.Errorf("one GPU sends %v bytes", r.Sent)
					}
					if f := j.Simulate(s, faster); f.Seconds > r.Seconds*(1+1e-12) {
						t.Errorf("%d GPUs, %v: twice as fast takes %v s instead of %v", gpus, s, f.Seconds, r.Seconds)
					}
				}
			}
		}
	}
}
