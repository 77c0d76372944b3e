package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWaiting_NamesHubOnce checks that a hub that does not answer, or cannot be reached, is named after two seconds,
// once.
func TestWaiting_NamesHubOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(s *fakeHub, h *Hub)
		want    string // "" for nothing
	}{
		{"answers", func(*fakeHub, *Hub) {}, ""},
		{"answers after a second", func(s *fakeHub, _ *Hub) {
			s.onHub = func(http.ResponseWriter, *http.Request, int) bool { s.pause(time.Second); return false }
		}, ""},
		{"a long download", func(s *fakeHub, _ *Hub) {
			s.onCDN = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
				w.Header().Set("Content-Length", "3145745")
				w.(*counter).ResponseWriter.(http.Flusher).Flush()
				s.pause(20 * time.Second)
				w.Write(s.files["data/train-00000-of-00001.parquet"])
				return true
			}
		}, ""},
		{"silent", func(s *fakeHub, _ *Hub) {
			s.onHub = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
				s.wait(func() { <-r.Context().Done() })
				return true
			}
		}, "2s: the hub has not answered for 2s, and may take 30s: trying up to 6 times, with waits of half a minute in " +
			"all; HF_HUB_OFFLINE=1 uses only"},
		{"no network", func(_ *fakeHub, h *Hub) {
			h.Client = &http.Client{Transport: transportFunc(func(*http.Request) (*http.Response, error) {
				return nil, errors.New("no such host")
			})}
		}, "2s: cannot reach hub.localhost: no such host: trying up to 6 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *fakeHub) {
				h := s.open()
				c.prepare(s, h)
				var said []string
				began := time.Now()
				h.Waiting = func(message string) { said = append(said, fmt.Sprintf("%s: %s", time.Since(began), message)) }
				_, err := s.get(t.Context(), h, "data/train-00000-of-00001.parquet")
				if (err != nil) != (c.want != "") {
					t.Error(err)
				}
				if c.want == "" && len(said) > 0 || c.want != "" && (len(said) != 1 || !strings.HasPrefix(said[0], c.want)) {
					t.Errorf("it said %q, want %q", said, c.want)
				}
			})
		})
	}
}
