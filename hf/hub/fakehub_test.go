package hub

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"restyle/internal/secret"
)

// canary is the token. It must appear in no error and no file, and reach no host but the hub.
const canary = "hf_CanaryCanaryTokenZq7x"

const (
	hubHost = "hub.localhost"
	// The CDN is a subdomain of the hub, as in reality: Go's own redirects would send it the token.
	cdnHost = "cdn.hub.localhost"
	commit1 = "1111111111111111111111111111111111111111"
	commit2 = "2222222222222222222222222222222222222222"
)

// fakeHub imitates the hub and its CDN over in-memory connections, so that tests can use a fake clock. A hook may
// answer in its place, and returns true if it did. n counts the requests of that kind from 1.
type fakeHub struct {
	t      *testing.T
	client *http.Client
	cache  string
	commit string
	kind   Kind
	files  map[string][]byte
	lfs    map[string]bool
	page   int // files per page of the listing

	busy                sync.WaitGroup
	mu                  sync.Mutex
	onAPI, onHub, onCDN func(w http.ResponseWriter, r *http.Request, n int) bool
	api, hub, cdn       int // requests
	sent                int // bytes of files sent, including those never received
}

// inBubble runs f with a fresh hub and a fake clock, and then searches everything for the token.
func inBubble(t *testing.T, f func(t *testing.T, s *fakeHub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeHub{
			t: t, cache: t.TempDir(), commit: commit1, kind: Dataset, page: 1000,
			files: map[string][]byte{
				"README.md":                         []byte("a dataset\n"),
				"data/train-00000-of-00001.parquet": blob(3<<20 + 17),
				"empty.txt":                         {},
			},
			lfs: map[string]bool{"data/train-00000-of-00001.parquet": true},
		}
		l := make(pipeListener)
		server := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
		done := make(chan struct{})
		go func() { server.Serve(l); close(done) }()
		tr := &http.Transport{DialContext: l.dial}
		s.client = &http.Client{Transport: tr}
		defer func() {
			tr.CloseIdleConnections()
			server.Close()
			<-done
			s.busy.Wait()
			s.checkCache()
		}()
		f(t, s)
	})
}

// big is the file in large-file storage.
const big = "data/train-00000-of-00001.parquet"

func blob(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (l pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l <- b:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *fakeHub) open() *Hub {
	return &Hub{Endpoint: "http://" + hubHost, Token: secret.New(canary), Cache: s.cache, Client: s.client}
}

func (s *fakeHub) ref() Ref { return Ref{s.kind, "owner/name", "main"} }

// get resolves and fetches one file, and waits until the server has finished, so that its counters can be read.
func (s *fakeHub) get(ctx context.Context, h *Hub, name string) (string, error) {
	defer synctest.Wait()
	return s.fetch(ctx, h, name)
}

func (s *fakeHub) fetch(ctx context.Context, h *Hub, name string) (string, error) {
	l, err := h.Resolve(ctx, s.ref())
	s.checkError(err)
	if err != nil {
		return "", err
	}
	local, err := h.Fetch(ctx, l, name)
	s.checkError(err)
	return local, err
}

func (s *fakeHub) checkError(err error) {
	if err != nil {
		s.t.Helper()
		s.noToken("error", err.Error())
		if len(err.Error()) > 1024 {
			s.t.Errorf("error of %d bytes: %s", len(err.Error()), err)
		}
	}
}

// noToken searches text for the token as it is, encoded, and for its beginning.
func (s *fakeHub) noToken(where, text string) {
	s.t.Helper()
	for _, form := range []string{
		canary, canary[:8], base64.StdEncoding.EncodeToString([]byte(canary)), hex.EncodeToString([]byte(canary)),
	} {
		if strings.Contains(text, form) {
			s.t.Errorf("%s holds the token as %q: %.300s", where, form, text)
		}
	}
}

func (s *fakeHub) checkCache() {
	filepath.WalkDir(s.cache, func(name string, d fs.DirEntry, err error) error {
		s.noToken("file name", name)
		if err == nil && d.Type().IsRegular() {
			data, _ := os.ReadFile(name)
			s.noToken(name, string(data))
		}
		return nil
	})
}

func gitHash(b []byte) string {
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...)))
}

func sha(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

func (s *fakeHub) etag(name string) string {
	if s.lfs[name] {
		return sha(s.files[name])
	}
	return gitHash(s.files[name])
}

// tree returns the hub's listing of the files, as entries.
func (s *fakeHub) tree() []map[string]any {
	entries := []map[string]any{{"type": "directory", "oid": commit2, "size": 0, "path": "data"}}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		data := s.files[name]
		e := map[string]any{"type": "file", "oid": gitHash(data), "size": len(data), "path": name}
		if s.lfs[name] {
			pointer := fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sha(data),
				len(data))
			e["oid"] = gitHash(pointer)
			e["lfs"] = map[string]any{"oid": sha(data), "size": len(data), "pointerSize": len(pointer)}
			e["xetHash"] = sha([]byte(name))
		}
		entries = append(entries, e)
	}
	return entries
}

func (s *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.busy.Add(1)
	defer s.busy.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	auth := r.Header.Get("Authorization")
	switch {
	case r.Host == hubHost && auth != "Bearer "+canary:
		s.t.Errorf("the hub got Authorization %q", auth)
	case r.Host != hubHost && auth != "":
		s.t.Errorf("%s got Authorization %q", r.Host, auth)
	}
	w = &counter{w, &s.sent, strings.HasPrefix(r.URL.Path, "/api/")}
	hooks := []struct {
		is   bool
		n    *int
		hook func(http.ResponseWriter, *http.Request, int) bool
		do   func(http.ResponseWriter, *http.Request)
	}{
		{r.Host != hubHost, &s.cdn, s.onCDN, s.serveCDN},
		{strings.HasPrefix(r.URL.Path, "/api/"), &s.api, s.onAPI, s.serveAPI},
		{true, &s.hub, s.onHub, s.serveHub},
	}
	for _, h := range hooks {
		if h.is {
			*h.n++
			if h.hook == nil || !h.hook(w, r, *h.n) {
				h.do(w, r)
			}
			return
		}
	}
}

// ever is more requests than any test makes.
const ever = 1 << 20

// answers returns a hook that answers the first requests with a status and with headers: names, each with its value.
func answers(first, status int, headers ...string) func(http.ResponseWriter, *http.Request, int) bool {
	return func(w http.ResponseWriter, _ *http.Request, n int) bool {
		if n > first {
			return false
		}
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		return true
	}
}

func (s *fakeHub) serveAPI(w http.ResponseWriter, r *http.Request) {
	api := "/api/" + string(s.kind) + "s/owner/name"
	switch r.URL.Path {
	case api + "/revision/main", api + "/revision/refs/convert/parquet":
		json.NewEncoder(w).Encode(map[string]any{"id": "owner/name", "sha": s.commit, "siblings": []any{}})
	case api + "/tree/" + s.commit:
		var from int
		fmt.Sscan(r.URL.Query().Get("cursor"), &from)
		all := s.tree()
		to := min(from+s.page, len(all))
		if to < len(all) {
			// The real hub's next link is absolute. This one names another host, which must get no request.
			w.Header().Set("Link", fmt.Sprintf(`<https://elsewhere.localhost%s?recursive=true&cursor=%d>; rel="next"`,
				r.URL.Path, to))
		}
		json.NewEncoder(w).Encode(all[from:to])
	default:
		w.Header().Set("X-Error-Code", "RepoNotFound")
		w.WriteHeader(404)
	}
}

func (s *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	path := "/owner/name/resolve/" + s.commit + "/"
	if s.kind == Dataset {
		path = "/datasets" + path
	}
	name, ok := strings.CutPrefix(r.URL.Path, path)
	data, found := s.files[name]
	if !ok || !found {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(404)
		return
	}
	w.Header().Set("X-Repo-Commit", s.commit)
	w.Header().Set("ETag", `"`+s.etag(name)+`"`)
	if s.lfs[name] {
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
		w.Header().Set("X-Linked-Etag", `"`+s.etag(name)+`"`)
		w.(*counter).off = true
		http.Redirect(w, r, "http://"+cdnHost+"/"+name+"?Signature=secret-signature", http.StatusFound)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (s *fakeHub) serveCDN(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"cdn-1"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.files[strings.TrimPrefix(r.URL.Path, "/")]))
}

// wait calls f, which waits for something, from a hook. It releases the lock meanwhile: a handler that waits for a
// mutex would stop the fake clock, and with it the sleep of the mutex's holder.
func (s *fakeHub) wait(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

// pause sleeps in a hook.
func (s *fakeHub) pause(d time.Duration) { s.wait(func() { time.Sleep(d) }) }

// counter counts the bytes of bodies.
type counter struct {
	http.ResponseWriter
	n   *int
	off bool // the body is not a file: do not count
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	if !c.off {
		*c.n += n
	}
	return n, err
}

// cut sends the first n bytes of a correct answer and drops the connection.
func cut(do func(http.ResponseWriter, *http.Request), w http.ResponseWriter, r *http.Request, n int) bool {
	do(&cutter{w, n}, r)
	panic("not cut")
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(*counter).ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}
