package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

var (
	waiting  = regexp.MustCompile(`rows without an answer: (\d+)`)
	accepted = regexp.MustCompile(`source rows \d+, accepted (\d+)`)
)

// number returns the number that a pattern finds in a text, or -1 if there is none.
func number(pattern *regexp.Regexp, text string) int {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// TestServer_FailsForAWhile has a server fail for a while, in every way that is no refusal of the request itself. First
// it fails a few requests among many that it answers, then all of them; then it works again. No failure may cost a row:
// the source has none to spare, and the result must have the bytes of an undisturbed run. With RESTYLE_LONG it uses 320
// rows.
func TestServer_FailsForAWhile(t *testing.T) {
	t.Parallel()
	rows := 32
	if os.Getenv("RESTYLE_LONG") != "" {
		rows = 320
	}
	source := fitTasks(t, rows)
	args := func(f folder, s *server, more ...string) []string {
		return append([]string{"--source", source, "--rows", strconv.Itoa(rows), "--out", f.out, "--base-url", s.base(),
			"--model", "fake"}, more...)
	}
	well := func(t *testing.T) *server {
		s := newServer(t, nil)
		s.set(func() { s.good = true })
		return s
	}
	f := newFolder(t)
	must(t, cli.Done, args(f, well(t))...)
	f.sound(t, rows)
	want := f.result(t)
	modes := 0
	for _, fault := range faults {
		if fault.name == "400" || fault.name == "413" || fault.name == "422" {
			continue // a refusal of the request itself
		}
		modes++
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			f, s := newFolder(t), well(t)
			journal := filepath.Join(f.out+".work", "journal.log")
			spell := func(fails func(c call, n int) bool) outcome {
				var calls atomic.Int64
				s.set(func() {
					s.fault = func(c call) bool {
						if !fails(c, int(calls.Add(1))) {
							return false
						}
						fault.f(c)
						return true
					}
				})
				return invoke(t, args(f, s, append(hurry(fault.name), "--retries", "1", "--dead-timeout", "300ms")...)...)
			}
			code := fault.code
			for i, fails := range []func(c call, n int) bool{
				func(c call, n int) bool { return n > 10 && c.hash%8 == 0 || n > rows-8 }, // leaves rows for the next spell
				func(_ call, n int) bool { return n > 2 },
			} {
				o := spell(fails)
				if o.code != code {
					t.Fatalf("spell %d: want exit code %d, got %v", i, code, o)
				}
				kept := len(answers([]byte(expect.Read(t, journal))))
				// A row whose answer resembles others too much may wait for a second answer.
				if n := number(waiting, o.stderr); code == cli.Retry && (n < rows-kept || n > rows-number(accepted, o.stderr)) {
					t.Errorf("%d answers are there, %d rows wait: %v", kept, n, o)
				}
				if text := expect.Read(t, journal); strings.Contains(text, `"finish":"refused"`) {
					t.Errorf("a failure is recorded as an answer:\n%s", text)
				}
			}
			s.set(func() { s.fault = nil })
			must(t, cli.Done, args(f, s)...)
			if f.result(t) != want {
				t.Error("the result differs from that of an undisturbed run")
			}
		})
	}
	if modes < 24 {
		t.Errorf("%d ways to fail", modes)
	}
}
