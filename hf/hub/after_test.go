package hub

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"restyle/internal/expect"
)

// TestTriesInARow plays scripts of failed tries of one file: f fails, p after a worthwhile number of bytes, q after one
// byte less. Then the file is sent. Only tries in a row without progress count, and each file has all of them.
func TestTriesInARow(t *testing.T) {
	for script, wantTries := range map[string]int{ // 0: it arrives
		"fffff": 0, "ffffff": 6, "fffffpffff": 0, "fffffpfffff": 11, "ffffqf": 6, "ppp": 0, "fffffpffffpffff": 0,
	} {
		inBubble(t, func(t *testing.T, s *fakeHub) {
			s.files[big] = blob(5 << 20)
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n > len(script) {
					return false
				}
				return cut(s.serveCDN, w, r, map[byte]int{'f': 10, 'p': worthwhile, 'q': worthwhile - 1}[script[n-1]])
			}
			_, err := s.get(t.Context(), s.open(), big)
			if (err == nil) != (wantTries == 0) || err != nil && (s.cdn != wantTries ||
				!strings.Contains(err.Error(), "gave up after 6 tries")) {
				t.Errorf("%s: after %d tries: %v", script, s.cdn, err)
			}
		})
	}
}

// TestFileAfterFailure checks that a file that cannot be fetched, for each reason, spoils neither the next file of the
// same listing nor its own next try.
func TestFileAfterFailure(t *testing.T) {
	status := func(code int) func(*fakeHub, http.ResponseWriter, *http.Request) {
		return func(_ *fakeHub, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	sends := func(edit func([]byte) []byte) func(*fakeHub, http.ResponseWriter, *http.Request) {
		return func(s *fakeHub, w http.ResponseWriter, _ *http.Request) { w.Write(edit(bytes.Clone(s.files[big]))) }
	}
	for name, fail := range map[string]func(*fakeHub, http.ResponseWriter, *http.Request){
		"not there": status(404), "not allowed": status(403), "broken": status(500), "slow down": status(429),
		"damaged": sends(func(b []byte) []byte { b[9] ^= 1; return b }),
		"shorter": sends(func(b []byte) []byte { return b[:len(b)-9] }),
		"longer":  sends(func(b []byte) []byte { return append(b, 9) }),
		"cut":     func(s *fakeHub, w http.ResponseWriter, r *http.Request) { cut(s.serveCDN, w, r, 1000) },
		"silent":  func(s *fakeHub, _ http.ResponseWriter, r *http.Request) { s.wait(func() { <-r.Context().Done() }) },
		"stopped": func(s *fakeHub, _ http.ResponseWriter, r *http.Request) { s.wait(func() { <-r.Context().Done() }) },
	} {
		inBubble(t, func(t *testing.T, s *fakeHub) {
			h := s.open()
			l, err := h.Resolve(t.Context(), s.ref())
			expect.OK(t, err)
			fetch := func(ctx context.Context, file string) error {
				local, err := h.Fetch(ctx, l, file)
				if err != nil {
					return err
				}
				if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, s.files[file]) {
					t.Errorf("%s: %s has %d bytes, want %d; %v", name, file, len(got), len(s.files[file]), err)
				}
				return nil
			}
			var works atomic.Bool // the server's goroutines outlive their answers
			s.onCDN = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if works.Load() {
					return false
				}
				fail(s, w, r)
				return true
			}
			ctx, stop := t.Context(), context.CancelFunc(func() {})
			if name == "stopped" {
				ctx, stop = context.WithTimeout(ctx, time.Second)
			}
			if err := fetch(ctx, big); err == nil {
				t.Errorf("%s: fetched", name)
			}
			stop()
			for _, file := range []string{"README.md", "empty.txt"} {
				if err := fetch(t.Context(), file); err != nil {
					t.Errorf("%s: and then %v", name, err)
				}
			}
			works.Store(true)
			if err := fetch(t.Context(), big); err != nil {
				t.Errorf("%s: the next try: %v", name, err)
			}
		})
	}
}
