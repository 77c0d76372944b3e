package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestFailuresInARow plays scripts of responses, one request after the other: f is a failure, g an answer, r a
// refusal, t a request to slow down. Every count of failures in a row starts again after anything that shows a
// working endpoint: the circuit, its waits between probes, and the retries of a request.
func TestFailuresInARow(t *testing.T) {
	for _, c := range []struct {
		script  string
		retries int
		state   string // at its end
		probes  string // the waits before each probe, in seconds, rounded up to a power of two
		answers int
	}{
		{"ff", -1, "alive", "", 0},
		{"fff", -1, "down", "", 0},
		{"ffgff", -1, "alive", "", 1},
		{"ffrff", -1, "alive", "", 0},
		{"fftff", -1, "paused", "", 0},
		{"ffgffgffgfff", -1, "down", "", 3},
		{"fffg", -1, "alive", "1", 1},
		{"ffffff", -1, "down", "124", 0},
		{"fffffffffff", -1, "down", "1248@@@@", 0}, // @ is 16 or 30: never longer
		{"ffffgfff", -1, "down", "12", 1},
		{"ffffgffffg", -1, "alive", "1212", 2},
		{"ffffrffff", -1, "down", "121", 0},
		{"ffgffgffg", 2, "alive", "", 3},  // a request has all its retries again
		{"ffgffgffff", 2, "down", "1", 2}, // and not more
		{"tttgtttg", -1, "alive", "", 2},
	} {
		bubble(t, func(t *testing.T, n *network) {
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var p *Pool
			at, probes := 0, ""
			last := time.Now()
			n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
				waited := time.Since(last)
				last = time.Now()
				if at == len(c.script) {
					stop()
					<-r.Context().Done()
					return
				}
				if at++; p.Stats().Endpoints[0].State == "down" {
					for n, mark := range []string{"1", "2", "4", "8", "@", "@"} {
						if waited <= time.Second<<n || n == 5 {
							probes += mark
							break
						}
					}
				}
				switch c.script[at-1] {
				case 'f':
					status(500, "")(w, r)
				case 'g':
					stream(goodStream)(w, r)
				case 'r':
					status(400, "")(w, r)
				case 't':
					status(429, "")(w, r)
				}
			}))
			p = testPool(t, n, func(o *Options) { o.Retries, o.Backoff = c.retries, time.Millisecond })
			defer p.Close()
			answers := 0
			for at < len(c.script) {
				if _, err := p.Complete(ctx, testBody(t)); err == nil {
					answers++
				}
			}
			if state := p.Stats().Endpoints[0].State; state != c.state || probes != c.probes || answers != c.answers {
				t.Errorf("%s: %s, probes after %q, %d answers; want %s, %q, %d", c.script, state, probes, answers, c.state,
					c.probes, c.answers)
			}
		})
	}
}

// TestDeadInARow keeps the only endpoint down for a while, twice, with an answer in between or without one: only the
// time since the last answer counts.
func TestDeadInARow(t *testing.T) {
	const patience = 10 * time.Minute
	for _, failure := range []http.HandlerFunc{status(503, ""), status(429, "")} {
		for _, answers := range []bool{true, false} {
			bubble(t, func(t *testing.T, n *network) {
				start, answered := time.Now(), 0
				n.serve(host, reading(func(w http.ResponseWriter, r *http.Request) {
					switch since := time.Since(start); {
					case since > 2*patience*3/4, answers && answered == 0 && since > patience*3/4:
						answered++
						stream(goodStream)(w, r)
					default:
						failure(w, r)
					}
				}))
				p := testPool(t, n, func(o *Options) { o.Retries, o.DeadTimeout = 1000, patience })
				defer p.Close()
				var failed error
				for range 2 {
					if _, err := p.Complete(context.Background(), testBody(t)); err != nil {
						failed = err
						break
					}
				}
				var u *Unavailable
				if answers != (failed == nil) || !answers && (!errors.As(failed, &u) || !u.AllDead ||
					time.Since(start) > patience*5/4) {
					t.Errorf("after %v, with %d answers: %v", time.Since(start), answered, failed)
				}
			})
		}
	}
}

// TestLimitsInARow drives a limit round by round through rates that grow (+), stay (=) or fall (-): what it counts in
// a row, the rounds without growth and the holds, starts again after growth.
func TestLimitsInARow(t *testing.T) {
	for script, want := range map[string]string{
		"+=":    "4 8 8, 4",   // one round without growth may be noise
		"+==":   "4 8 8 2, 4", // two end the ramp
		"+=+=+": "4 8 8 16 16 32, 4",
		"+=+==": "4 8 8 16 16 4, 4",
		// It settles, and a probe that finds nothing doubles the next hold. After a probe that finds something, the
		// hold has the first length again.
		"+==-":                "4 8 8 2 4, 4",
		"+==-=====":           "4 8 8 2 4 4 4 4 5 4, 8",
		"+==-=============":   "4 8 8 2 4 4 4 4 5 4 4 4 4 4 4 4 4 5, 8",
		"+==-==============":  "4 8 8 2 4 4 4 4 5 4 4 4 4 4 4 4 4 5 4, 16",
		"+==-=============+=": "4 8 8 2 4 4 4 4 5 4 4 4 4 4 4 4 4 5 6 5, 8",
	} {
		l, got := newLimit(0, 256, time.Minute), "4"
		rate := 100.0
		for _, round := range script {
			switch round {
			case '+':
				rate *= 1.3
			case '-':
				rate /= 1.3
			}
			l.endRound(rate, false)
			got += " " + fmt.Sprint(l.n)
		}
		if got += fmt.Sprint(", ", l.patience); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}
