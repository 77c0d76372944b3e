package serve

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"restyle/infer"
	"restyle/infer/batch"
)

// The bounds of the buckets of histograms, the same as vLLM's: seconds to the first token, between tokens, and of
// requests.
var (
	firstBounds = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40,
		80, 160, 640, 2560}
	betweenBounds = []float64{.001, .0025, .005, .0075, .01, .015, .02, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// metrics are what has happened to the requests of one model.
type metrics struct {
	lock                  sync.Mutex
	first, between, whole histogram
	queued, read, written histogram
	ended                 map[string]int64 // answers by reason
	failed                map[int]int64    // requests by status
}

type histogram struct {
	bounds []float64
	counts []int64 // of values at most each bound, and one for all others
	sum    float64
}

func newMetrics() *metrics {
	of := func(bounds []float64) histogram { return histogram{bounds, make([]int64, len(bounds)+1), 0} }
	return &metrics{first: of(firstBounds), between: of(betweenBounds), whole: of(requestBounds),
		queued: of(requestBounds), read: of(requestBounds), written: of(requestBounds),
		ended: map[string]int64{}, failed: map[int]int64{}}
}

func (h *histogram) add(d time.Duration) {
	i, _ := slices.BinarySearch(h.bounds, d.Seconds())
	h.counts[i]++
	h.sum += d.Seconds()
}

// A watch measures one request.
type watch struct {
	*metrics
	start time.Time
	wait  time.Duration // until the first token, 0 before it
	// tokens is the number of tokens of all answers.
	tokens atomic.Int64
}

// token counts token n, from 1, of an answer, whose last one, or the request, came at a time. It returns the time of
// this one.
func (w *watch) token(n int, last time.Time) time.Time {
	now := time.Now()
	w.lock.Lock()
	defer w.lock.Unlock()
	w.tokens.Add(1)
	if n == 1 {
		w.first.add(now.Sub(last))
		if w.wait == 0 {
			w.wait = now.Sub(last)
		}
	} else {
		w.between.add(now.Sub(last))
	}
	return now
}

// ended counts an answer that is whole, and that was queued for a time.
func (w *watch) ended(r infer.Result, queued time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	reason := "length"
	if r.Reason == infer.Stopped {
		reason = "stop"
	}
	w.metrics.ended[reason]++
	w.queued.add(queued)
	w.read.add(r.First - queued)
	w.written.add(r.Total - r.First)
}

// done counts the request, after which its status is known.
func (w *watch) done(status int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if status == http.StatusOK {
		w.whole.add(time.Since(w.start))
	} else {
		w.failed[status]++
	}
}

// figure is a metric of one number for each model.
type figure struct {
	name, kind, help string
	of               func(s batch.Stats) float64
}

var figures = []figure{
	{"num_requests_running", "gauge", "Answers that are being generated.",
		func(s batch.Stats) float64 { return float64(s.Running) }},
	{"num_requests_waiting", "gauge", "Answers that wait for their first step.",
		func(s batch.Stats) float64 { return float64(s.Waiting) }},
	{"kv_cache_usage_perc", "gauge", "Part of the KV cache that is in use, from 0 to 1.",
		func(s batch.Stats) float64 { return float64(s.Used) / math.Max(float64(s.Blocks), 1) }},
	{"num_preemptions_total", "counter", "Answers that had to make room for others.",
		func(s batch.Stats) float64 { return float64(s.Preempted) }},
	{"prompt_tokens_total", "counter", "Tokens of prompts.",
		func(s batch.Stats) float64 { return float64(s.Prompt) }},
	{"prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for in the KV cache.",
		func(s batch.Stats) float64 { return float64(s.Prompt) }},
	{"prefix_cache_hits_total", "counter", "Tokens of prompts that were in the KV cache.",
		func(s batch.Stats) float64 { return float64(s.Reused) }},
	{"generation_tokens_total", "counter", "Tokens of answers.",
		func(s batch.Stats) float64 { return float64(s.Generated) }},
	{"steps_total", "counter", "Steps of the model.", func(s batch.Stats) float64 { return float64(s.Steps) }},
	{"steps_failed_total", "counter", "Steps that failed, and their requests with them.",
		func(s batch.Stats) float64 { return float64(s.Failed) }},
	{"step_tokens_total", "counter", "Tokens of all steps: per step, this is how full steps are.",
		func(s batch.Stats) float64 { return float64(s.Computed) }},
}

// metricsText returns all metrics in Prometheus's text format. What writes them to a client must not hold a lock that
// requests need: the client may not read.
func (s *Server) metricsText() []byte {
	var text bytes.Buffer
	out := exposition{&text}
	all := s.all()
	stats := make([]batch.Stats, len(all))
	for i, m := range all {
		stats[i] = m.Stats()
		m.metrics.lock.Lock()
		defer m.metrics.lock.Unlock()
	}
	for _, f := range figures {
		out.head(f.name, f.kind, f.help)
		for i, m := range all {
			if m.Parent == "" { // which counts for both
				out.line(f.name, m, "", "", f.of(stats[i]))
			}
		}
	}
	out.head("request_success_total", "counter", "Answers that are whole, by the reason why they ended.")
	for _, m := range all {
		for _, reason := range []string{"stop", "length"} {
			out.line("request_success_total", m, "finished_reason", reason, float64(m.metrics.ended[reason]))
		}
	}
	out.head("request_failure_total", "counter", "Requests that were refused or failed, by their status.")
	for _, m := range all {
		for _, status := range slices.Sorted(maps.Keys(m.metrics.failed)) {
			out.line("request_failure_total", m, "status", strconv.Itoa(status), float64(m.metrics.failed[status]))
		}
	}
	for _, h := range histograms {
		out.head(h.name, "histogram", h.help)
		for _, m := range all {
			out.histogram(h.name, m, h.of(m.metrics))
		}
	}
	return text.Bytes()
}

// An exposition is metrics as text.
type exposition struct{ io.Writer }

// head starts a metric.
func (out exposition) head(name, kind, help string) {
	fmt.Fprintf(out, "# HELP restyle_%s %s\n# TYPE restyle_%[1]s %[3]s\n", name, help, kind)
}

// line writes a number of a model, with one more label unless that is empty.
func (out exposition) line(name string, m *Model, label, value string, n float64) {
	labels := "model_name=" + strconv.Quote(m.Name)
	if label != "" {
		labels += "," + label + "=" + strconv.Quote(value)
	}
	fmt.Fprintf(out, "restyle_%s{%s} %s\n", name, labels, strconv.FormatFloat(n, 'g', -1, 64))
}

func (out exposition) histogram(name string, m *Model, h *histogram) {
	total := int64(0)
	for i, n := range h.counts {
		total += n
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		out.line(name+"_bucket", m, "le", strconv.FormatFloat(bound, 'g', -1, 64), float64(total))
	}
	out.line(name+"_sum", m, "", "", h.sum)
	out.line(name+"_count", m, "", "", float64(total))
}

// histograms are each model's histograms.
var histograms = []struct {
	name, help string
	of         func(*metrics) *histogram
}{
	{"time_to_first_token_seconds", "From a request to the first token of an answer.",
		func(m *metrics) *histogram { return &m.first }},
	{"inter_token_latency_seconds", "Between two tokens of an answer.",
		func(m *metrics) *histogram { return &m.between }},
	{"request_queue_time_seconds", "Before the first step of an answer.",
		func(m *metrics) *histogram { return &m.queued }},
	{"request_prefill_time_seconds", "From the first step of an answer to its first token.",
		func(m *metrics) *histogram { return &m.read }},
	{"request_decode_time_seconds", "From the first token of an answer to its last.",
		func(m *metrics) *histogram { return &m.written }},
	{"e2e_request_latency_seconds", "From a request to the end of all its answers.",
		func(m *metrics) *histogram { return &m.whole }},
}
