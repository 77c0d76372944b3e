// Package many predicts on paper how fast many GPUs train one model together, data-parallel, and what each of them
// keeps. [Job.Simulate] goes through a step layer by layer, with two queues on every GPU: what it computes, and what it
// sends. It knows nothing of models: a [Job] has seconds and bytes, a [Cluster] has bandwidths and latencies.
package many

// A Sharding says of which training state each GPU keeps only its part. Each sharding includes the ones before it.
type Sharding int

const (
	// AllReduce shards nothing: each layer's gradients are summed on all GPUs during the last backward pass of a step.
	AllReduce Sharding = iota
	// ZeRO1 shards the optimizer's state: gradients are reduced to their owners during the last backward pass, and the
	// updated weights are gathered during the next forward pass.
	ZeRO1
	// ZeRO2 shards the sums of gradients: they are reduced during every backward pass, from memory for two layers.
	ZeRO2
	// ZeRO3 shards the weights: each layer's are gathered for the forward pass and again for the backward pass, into
	// memory for two layers.
	ZeRO3
)

// Shardings is the number of shardings.
const Shardings = int(ZeRO3) + 1

func (s Sharding) String() string { return []string{"all-reduce", "ZeRO-1", "ZeRO-2", "ZeRO-3"}[s] }

// A Link is how fast GPUs of a node exchange data in one kind of collective.
type Link struct {
	Latency   float64 // seconds that a collective takes at least
	Bandwidth float64 // bytes per second that each GPU sends
}

// Fit returns the link that sends small bytes at a measured rate of smallRate bytes per second, and large bytes at
// largeRate: NCCL's bus bandwidth is such a rate.
func Fit(small, smallRate, large, largeRate float64) Link {
	bandwidth := (large - small) / (large/largeRate - small/smallRate)
	return Link{small/smallRate - small/bandwidth, bandwidth}
}

// A Cluster is a number of GPUs that train together.
type Cluster struct {
	GPUs, PerNode   int
	Gather          Link    // within a node, in an all-gather or a reduce-scatter
	AllReduce       Link    // within a node, in an all-reduce
	Between         float64 // bytes per second that a node sends to others
	Hop, HopBetween float64 // seconds from one GPU of a ring to the next, in the node and to another node
}

// Collective returns the seconds that a collective of bytes takes, and the bytes that each GPU sends. It goes along
// rings, which pass each node once. An all-gather and a reduce-scatter go round once, an all-reduce goes twice:
//
//	sent    = rounds · (n-1)/n · bytes
//	seconds = latency + rounds · ((n-nodes)·hop + (nodes-1)·hopBetween) + sent / min(bandwidth, between)
func (c Cluster) Collective(l Link, rounds, bytes float64) (seconds, sent float64) {
	if c.GPUs <= 1 {
		return 0, 0
	}
	n, nodes, bandwidth := float64(c.GPUs), float64((c.GPUs+c.PerNode-1)/c.PerNode), l.Bandwidth
	if nodes > 1 {
		bandwidth = min(bandwidth, c.Between)
	}
	sent = rounds * (n - 1) / n * bytes
	return l.Latency + rounds*((n-nodes)*c.Hop+(nodes-1)*c.HopBetween) + sent/bandwidth, sent
}

// A Part is a part of a model, in bytes.
type Part struct {
	Weights, Gradients float64
}

// A Job is a GPU's share of each step.
type Job struct {
	Layers, Passes          int
	Forward, Backward, Head float64 // seconds of a layer in a pass, and of the head, forward and backward
	Update                  float64 // seconds that the optimizer takes for all parameters
	Layer                   Part    // one of the layers, which are all alike
	Outside                 Part    // embedding, last norm and head
	State, Rest             float64 // bytes of the optimizer's state, and of what is never sharded: activations, scratch
}

// Kept returns the bytes that each of n GPUs keeps.
func (j Job) Kept(s Sharding, n int) float64 {
	layers := float64(j.Layers)
	weights := layers*j.Layer.Weights + j.Outside.Weights
	gradients := layers*j.Layer.Gradients + j.Outside.Gradients
	state := j.State
	if s >= ZeRO1 {
		state /= float64(n)
	}
	if s >= ZeRO2 {
		gradients = gradients/float64(n) + 2*j.Layer.Gradients + j.Outside.Gradients
	}
	if s >= ZeRO3 {
		weights = weights/float64(n) + 2*j.Layer.Weights + j.Outside.Weights
	}
	return weights + gradients + state + j.Rest
}

// A Result is a step of each GPU.
type Result struct {
	Computing, Sending float64 // seconds of each queue's work
	Seconds            float64 // of the step
	Sent               float64 // bytes
}

// Hidden returns the share of the sending that takes place during the computing: 1 if nothing is sent.
func (r Result) Hidden() float64 {
	if r.Sending == 0 {
		return 1
	}
	return 1 - (r.Seconds-r.Computing)/r.Sending
}

// queues are the work of a GPU, in order. Both are idle after the times computed and sent.
type queues struct {
	Result
	cluster        Cluster
	computed, sent float64
}

// compute appends work that cannot begin before some times, and returns when it is done.
func (q *queues) compute(seconds float64, after ...float64) float64 {
	for _, t := range after {
		q.computed = max(q.computed, t)
	}
	q.computed += seconds
	q.Computing += seconds
	return q.computed
}

// send appends a collective that cannot begin before a time, and returns when it is done.
func (q *queues) send(l Link, rounds, bytes, after float64) float64 {
	seconds, sent := q.cluster.Collective(l, rounds, bytes)
	q.sent = max(q.sent, after) + seconds
	q.Sending += seconds
	q.Sent += sent
	return q.sent
}

// scatter appends an all-gather or a reduce-scatter.
func (q *queues) scatter(bytes, after float64) float64 {
	return q.send(q.cluster.Gather, 1, bytes, after)
}

// Simulate returns a step of each GPU. All GPUs start the update together, because the norm for clipping is the norm of
// all gradients. So the step ends when the sums of all have ended.
func (j Job) Simulate(s Sharding, c Cluster) Result {
	q := &queues{cluster: c}
	if s == AllReduce {
		q.compute(j.Update)
	} else {
		q.compute(j.Update / float64(c.GPUs))
		q.compute(0, q.scatter(j.Outside.Weights, q.computed)) // the embedding comes first
	}
	for pass := range j.Passes {
		q.pass(j, s, s == ZeRO3 || s != AllReduce && pass == 0, s >= ZeRO2 || pass == j.Passes-1)
	}
	q.Seconds = max(q.computed, q.send(c.AllReduce, 2, 0, q.computed)) // of the norm, a few bytes
	return q.Result
}

// pass appends a pass: forward through the layers, and backward. If gathers, layers wait for their weights, and if
// reduces, their gradients are summed. What ZeRO-3 gathers, and ZeRO-2 reduces, has memory for two layers: it waits
// until the layer before the last one no longer needs it.
func (q *queues) pass(j Job, s Sharding, gathers, reduces bool) {
	turns := 2 * j.Layers
	weights, done, sums := make([]float64, turns), make([]float64, turns), make([]float64, turns) // when they are there
	gather := func(turn int) {
		if !gathers || turn >= turns || s != ZeRO3 && turn >= j.Layers {
			return
		}
		free := 0.0
		if s == ZeRO3 && turn >= 2 {
			free = done[turn-2]
		}
		weights[turn] = q.scatter(j.Layer.Weights, free)
	}
	gather(0)
	for turn := range turns {
		gather(turn + 1)
		if turn < j.Layers {
			done[turn] = q.compute(j.Forward, weights[turn])
			continue
		}
		if turn == j.Layers {
			q.compute(j.Head)
		}
		free := 0.0
		if s >= ZeRO2 && turn >= j.Layers+2 {
			free = sums[turn-2]
		}
		done[turn] = q.compute(j.Backward, weights[turn], free)
		if reduces {
			sums[turn] = q.sum(s, j.Layer.Gradients)
		}
	}
	if reduces {
		q.sum(s, j.Outside.Gradients)
	}
}

// sum appends the sum of gradients that have just been computed: on all GPUs, or on those that own them.
func (q *queues) sum(s Sharding, bytes float64) float64 {
	if s == AllReduce {
		return q.send(q.cluster.AllReduce, 2, bytes, q.computed)
	}
	return q.scatter(bytes, q.computed)
}
