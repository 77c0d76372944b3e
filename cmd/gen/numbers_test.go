package main

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/internal/cli/clitest"
)

// TestNumberFlags_AtZero checks every flag that takes a number at 0, and what it refuses. Effects are counted where
// they arrive: in requests, rows and files.
func TestNumberFlags_AtZero(t *testing.T) {
	source := tasks(t, 60)
	// make makes rows with a server, and returns its result.
	make := func(t *testing.T, s *server, flags ...string) (string, outcome) {
		f := newFolder(t)
		o := must(t, cli.Done, append([]string{"--source", source, "--rows", "12", "--out", f.out, "--base-url", s.base(),
			"--model", "fake"}, flags...)...)
		return f.result(t), o
	}
	// same checks that 0 is what a run without the flag does, and that another value is not.
	same := func(name, other string) func(*testing.T) {
		return func(t *testing.T) {
			without, _ := make(t, newServer(t, nil))
			with, _ := make(t, newServer(t, nil), "--"+name, "0")
			changed, _ := make(t, newServer(t, nil), "--"+name, other)
			if with != without || changed == without {
				t.Errorf("--%s 0 changes the result: %v; %s does: %v", name, with != without, other, changed != without)
			}
		}
	}
	// costs checks that a price of 0 leaves the cost to the other price, and that none is shown if both are 0.
	costs := func(name, tokens, other string) func(*testing.T) {
		return func(t *testing.T) {
			_, o := make(t, newServer(t, nil), name, "0", other, "1000000")
			last := lastLine(t, o)
			if last["cost_usd"] != last[tokens] {
				t.Error(last)
			}
			if _, o := make(t, newServer(t, nil), name, "0"); lastLine(t, o)["cost_usd"] != nil {
				t.Error(o)
			}
		}
	}
	clitest.Numbers(t, defaults().flags(io.Discard, io.Discard), map[string]clitest.Number{
		"rows": {Zero: func(t *testing.T) { // all that pass the checks, with either teacher
			for _, teacher := range []string{"--teacher builtin", "--model fake --base-url " + newServer(t, nil).base()} {
				f := newFolder(t)
				o := must(t, cli.Done, append(strings.Fields(teacher), "--source", source, "--rows", "0", "--out", f.out)...)
				sum := lastLine(t, o)
				if sum["source_rows"] != 60.0 || sum["rows"].(float64) < 40 || !strings.Contains(o.stderr, "rows        all,") {
					t.Error(sum)
				}
			}
		}},
		"sample": {Zero: same("sample", "20")},
		"temperature": {Zero: func(t *testing.T) {
			for flags, want := range map[string]string{"": `"temperature":0.8}`, "--temperature=0": `"temperature":0}`} {
				s := newServer(t, func(c call) bool {
					if !strings.HasSuffix(string(c.body), want) {
						t.Errorf("%q: a request is %s", flags, c.body)
					}
					return false
				})
				make(t, s, strings.Fields(flags)...)
			}
		}},
		"max-tokens": {},
		"concurrency": {Zero: func(t *testing.T) {
			for n, several := range map[string]bool{"1": false, "0": true} {
				var asked atomic.Int32
				third, arrived := context.WithTimeout(t.Context(), time.Minute)
				s := newServer(t, func(call) bool {
					nth := asked.Add(1)
					if nth == 3 {
						arrived()
					}
					if several && nth > 1 { // gen asks once alone; then an answer waits for the next request, on any machine
						<-third.Done()
					}
					return false
				})
				s.set(func() { s.latency = func(uint64) time.Duration { return 20 * time.Millisecond } })
				if make(t, s, "--concurrency", n); s.most > 1 != several {
					t.Errorf("--concurrency %s: %d requests at once", n, s.most)
				}
			}
		}},
		"connect-timeout": {}, "first-token-timeout": {}, "stall-timeout": {}, "total-timeout": {}, "dead-timeout": {},
		"retries": {Zero: func(t *testing.T) {
			for n, want := range map[string]int{"0": 1, "1": 2} {
				var s *server
				s = newServer(t, func(c call) bool {
					status := 500
					if calls, _ := s.counts(); calls > want {
						status = 401 // so that one request too many is the last
					}
					refuse(c.w, c.r, status, "broken")
					return true
				})
				f := newFolder(t)
				invoke(t, "--source", source, "--out", f.out, "--base-url", s.base(), "--model", "fake", "--retries", n)
				if calls, _ := s.counts(); calls != want {
					t.Errorf("--retries %s: %d requests, want %d", n, calls, want)
				}
			}
		}},
		"seed": {Negative: true, Zero: same("seed", "1")},
		"min-tone": {Zero: func(t *testing.T) {
			judged := 0
			s := newServer(t, func(c call) bool {
				if judging(c) {
					judged++
					c.stream(`{"tone": 1, "professional": true, "technically_wrong": []}`, "stop")
				}
				return judging(c)
			})
			_, o := make(t, s, "--judge", "fake", "--min-tone", "0", "--concurrency", "1")
			if judged != 12 {
				t.Errorf("the judge was asked %d times: %v", judged, o)
			}
		}},
		"preview": {Zero: func(t *testing.T) {
			if result, _ := make(t, newServer(t, nil), "--preview", "0"); result == "" {
				t.Error("no result is written")
			}
		}},
		"price-in":  {Zero: costs("--price-in", "completion_tokens", "--price-out")},
		"price-out": {Zero: costs("--price-out", "prompt_tokens", "--price-in")},
	}, func(args ...string) (int, string) {
		f := newFolder(t)
		o := invoke(t, append([]string{"--source", source, "--out", f.out, "--judge", "m", "--judge-url",
			"http://127.0.0.1:1/v1"}, args...)...)
		if len(f.files(t)) > 0 {
			t.Errorf("%q left %q", args, f.files(t))
		}
		return o.code, o.stderr
	})
}
