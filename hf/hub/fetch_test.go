package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// layout lists the cache: links with their targets, and files with their sizes.
func layout(t *testing.T, cache string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(cache, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(cache, name)
		if target, err := os.Readlink(name); err == nil {
			got[rel] = "-> " + target
			return nil
		}
		info, err := d.Info()
		got[rel] = fmt.Sprint(info.Size())
		return err
	})
	expect.OK(t, err)
	return got
}

func TestFetchWritesTheStandardLayout(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		h := s.open()
		for name, want := range s.files {
			local, err := s.get(t.Context(), h, name)
			expect.OK(t, err)
			if wantLocal := filepath.Join(s.cache, "datasets--owner--name/snapshots", commit1, name); local != wantLocal {
				t.Errorf("local path %s, want %s", local, wantLocal)
			}
			if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
			}
		}
		readme, parquet, empty := s.etag("README.md"), s.etag(big), s.etag("empty.txt")
		const repo = "datasets--owner--name/"
		got := layout(t, s.cache)
		delete(got, repo+"trees/"+commit1+".json")
		want := map[string]string{
			repo + "blobs/" + readme:                     "10",
			repo + "blobs/" + parquet:                    fmt.Sprint(len(s.files[big])),
			repo + "blobs/" + empty:                      "0",
			repo + "snapshots/" + commit1 + "/README.md": "-> ../../blobs/" + readme,
			repo + "snapshots/" + commit1 + "/empty.txt": "-> ../../blobs/" + empty,
			repo + "snapshots/" + commit1 + "/" + big:    "-> ../../../blobs/" + parquet,
			repo + "refs/main":                           "40",
			".locks/" + repo + readme + ".lock":          "0",
			".locks/" + repo + parquet + ".lock":         "0",
			".locks/" + repo + empty + ".lock":           "0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cache (-want +got):\n%s", diff)
		}
		if ref, _ := os.ReadFile(filepath.Join(s.cache, repo, "refs/main")); string(ref) != commit1 {
			t.Errorf("refs/main is %q", ref)
		}
		// Fetching everything again costs one request per file, for the commit, and no bytes of files.
		sent, api := s.sent, s.api
		for name := range s.files {
			if _, err := s.get(t.Context(), h, name); err != nil {
				t.Error(err)
			}
		}
		if s.sent != sent || s.api != api+len(s.files) {
			t.Errorf("second round: %d bytes, %d questions; want 0 and %d", s.sent-sent, s.api-api, len(s.files))
		}
	})
}

// TestFetchFaults runs every fault of a server that a client meets. If wantErr is empty, the file must be correct in
// the end; otherwise no file may be left under its name.
func TestFetchFaults(t *testing.T) {
	serve := func(name string, edit func([]byte) []byte) func(s *fakeHub, w http.ResponseWriter, r *http.Request) {
		return func(s *fakeHub, w http.ResponseWriter, r *http.Request) {
			data := edit(slices.Clone(s.files[name]))
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data)
		}
	}
	flip := serve(big, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	type test struct {
		name    string
		file    string // default big
		prepare func(s *fakeHub)
		wantErr string
		sent    int           // bytes of the file sent, -1 for any
		atLeast time.Duration // minimum time waited
		atMost  time.Duration
		retry   bool // the error is Retryable
	}
	tests := []test{
		{name: "cut four times", sent: 3<<20 + 17, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				return n < 5 && cut(s.serveCDN, w, r, 100_001)
			}
		}},
		{name: "cut for ever", wantErr: "gave up after 6 tries: the download broke off after 60 of", retry: true, sent: -1,
			prepare: func(s *fakeHub) {
				s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool { return cut(s.serveCDN, w, r, 10) }
			}},
		{name: "cut each MiB is progress", sent: -1, prepare: func(s *fakeHub) {
			s.files[big] = blob(9 << 20)
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				return n < 9 && cut(s.serveCDN, w, r, 1<<20)
			}
		}},
		{name: "small file cut", file: "README.md", sent: 10, prepare: func(s *fakeHub) {
			s.onHub = func(w http.ResponseWriter, r *http.Request, n int) bool {
				return n < 3 && cut(s.serveHub, w, r, 3)
			}
		}},
		{name: "longer by its header", wantErr: "offers 3145746 bytes, but its listing has 3145745", sent: -1,
			prepare: func(s *fakeHub) {
				s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
					serve(big, func(b []byte) []byte { return append(b, 0) })(s, w, r)
					return true
				}
			}},
		{name: "shorter by its header", wantErr: "offers 3145744 bytes, but its listing has 3145745", sent: -1,
			prepare: func(s *fakeHub) {
				s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
					serve(big, func(b []byte) []byte { return b[1:] })(s, w, r)
					return true
				}
			}},
		{name: "longer, without a length", wantErr: "sends more than the 3145745 bytes", sent: -1, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				w.(*counter).ResponseWriter.(http.Flusher).Flush()
				w.Write(append(slices.Clone(s.files[big]), 0))
				return true
			}
		}},
		{name: "without a length", sent: 3<<20 + 17, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				w.(*counter).ResponseWriter.(http.Flusher).Flush()
				w.Write(s.files[big])
				return true
			}
		}},
		{name: "corrupted", wantErr: "damaged: its hash is", sent: 3<<20 + 17, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool { flip(s, w, r); return true }
		}},
		{name: "small file corrupted", file: "README.md", wantErr: "damaged: its hash is", sent: 10,
			prepare: func(s *fakeHub) {
				s.onHub = func(w http.ResponseWriter, r *http.Request, n int) bool { w.Write([]byte("A dataset\n")); return true }
			}},
		{name: "range ignored", sent: 3<<20 + 17 + 1000, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				r.Header.Del("Range")
				return n == 1 && cut(s.serveCDN, w, r, 1000)
			}
		}},
		{name: "another range than asked for", sent: -1, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n == 2 {
					r.Header.Set("Range", "bytes=5-")
				}
				return n == 1 && cut(s.serveCDN, w, r, 1000)
			}
		}},
		{name: "416", sent: 3<<20 + 17 + 1000, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n == 2 {
					w.WriteHeader(416)
				}
				return n == 2 || n == 1 && cut(s.serveCDN, w, r, 1000)
			}
		}},
		{name: "ETag changes between", sent: 3<<20 + 17 + 1000, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n == 1 {
					w.Header().Set("ETag", `"old"`)
					cut(func(w http.ResponseWriter, r *http.Request) { w.Write(s.files[big]) }, w, r, 1000)
				}
				if r.Header.Get("If-Range") != `"old"` {
					s.t.Errorf("If-Range is %q", r.Header.Get("If-Range"))
				}
				return false
			}
		}},
		{name: "a weak ETag", sent: -1, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n > 1 && r.Header.Get("If-Range") != "" {
					s.t.Errorf("If-Range is %q", r.Header.Get("If-Range"))
				}
				if n == 1 {
					w.Header().Set("ETag", `W/"cdn"`)
					cut(func(w http.ResponseWriter, r *http.Request) { w.Write(s.files[big]) }, w, r, 1000)
				}
				return n == 1
			}
		}},
		{name: "content changes between under one ETag", sent: 2*(3<<20+17) - 0, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n == 1 {
					w.Header().Set("ETag", `"cdn-1"`)
					cut(func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, len(s.files[big]))) }, w, r, 1000)
				}
				return false
			}
		}},
		{name: "429 with seconds", sent: 3<<20 + 17, atLeast: 77 * time.Second, atMost: 79 * time.Second,
			prepare: func(s *fakeHub) { s.onHub = answers(1, 429, "Retry-After", "77") }},
		{name: "503 with a date", sent: 3<<20 + 17, atLeast: 88 * time.Second, atMost: 91 * time.Second,
			prepare: func(s *fakeHub) {
				s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
					w.Header().Set("Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
					if n == 1 {
						w.WriteHeader(503)
					}
					return n == 1
				}
			}},
		{name: "429 for an hour", wantErr: "asks to wait 1h0m0s: try again then", retry: true, atMost: time.Second,
			prepare: func(s *fakeHub) { s.onHub = answers(ever, 429, "Retry-After", "3600") }},
		{name: "500 for ever", wantErr: "gave up after 6 tries: hub.localhost answered 500", retry: true, atMost: time.Minute,
			prepare: func(s *fakeHub) { s.onHub = answers(ever, 500) }},
		{name: "500 at first", sent: 3<<20 + 17, atMost: time.Minute, prepare: func(s *fakeHub) {
			s.onHub = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n < 6 {
					w.WriteHeader(500 + n)
				}
				return n < 6
			}
		}},
		{name: "signed address run out", sent: 3<<20 + 17,
			prepare: func(s *fakeHub) { s.onCDN = answers(1, 403) }},
		{name: "redirect loop", wantErr: "redirects without end: stopped after 10 redirects", prepare: func(s *fakeHub) {
			s.onHub = answers(ever, 307, "Location", "http://"+cdnHost+"/x")
			s.onCDN = answers(ever, 307, "Location", "http://"+hubHost+"/y")
		}},
		{name: "redirect to a file", wantErr: "is not a web address",
			prepare: func(s *fakeHub) { s.onHub = answers(ever, 302, "Location", "file:///etc/passwd") }},
		{name: "redirect without a host", wantErr: "is not a web address",
			prepare: func(s *fakeHub) { s.onHub = answers(ever, 302, "Location", "http:///x") }},
		{name: "redirect to nowhere", wantErr: "redirects without end",
			prepare: func(s *fakeHub) { s.onHub = answers(ever, 302) }},
		{name: "stall once", sent: 3<<20 + 17, atLeast: 30 * time.Second, atMost: 35 * time.Second,
			prepare: func(s *fakeHub) {
				s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
					if n > 1 {
						return false
					}
					w.Header().Set("Content-Length", fmt.Sprint(len(s.files[big])))
					w.Write(s.files[big][:1000])
					w.(*counter).ResponseWriter.(http.Flusher).Flush()
					s.wait(func() { <-r.Context().Done() })
					return true
				}
			}},
		{name: "no body ever", wantErr: "nothing came for 30s", retry: true, atMost: 5 * time.Minute,
			prepare: func(s *fakeHub) {
				s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
					w.Header().Set("Content-Length", fmt.Sprint(len(s.files[big])))
					w.(*counter).ResponseWriter.(http.Flusher).Flush()
					s.wait(func() { <-r.Context().Done() })
					return true
				}
			}},
		{name: "no headers ever", wantErr: "cannot reach hub.localhost: nothing came for 30s", retry: true,
			atMost: 5 * time.Minute, prepare: func(s *fakeHub) {
				s.onHub = func(w http.ResponseWriter, r *http.Request, n int) bool {
					s.wait(func() { <-r.Context().Done() })
					return true
				}
			}},
		{name: "slow but alive", sent: 3<<20 + 17, atLeast: time.Hour, prepare: func(s *fakeHub) {
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				w.Header().Set("Content-Length", fmt.Sprint(len(s.files[big])))
				for part := range slices.Chunk(s.files[big], 16<<10) {
					w.Write(part)
					w.(*counter).ResponseWriter.(http.Flusher).Flush()
					s.pause(20 * time.Second)
				}
				return true
			}
		}},
		{name: "compressed", file: "README.md", wantErr: "compresses it (gzip)", sent: -1, prepare: func(s *fakeHub) {
			s.onHub = func(w http.ResponseWriter, r *http.Request, n int) bool {
				w.Header().Set("Content-Encoding", "gzip")
				w.Write(s.files["README.md"])
				return true
			}
		}},
		{name: "another hash announced", wantErr: "sends a file of hash",
			prepare: func(s *fakeHub) {
				s.onHub = answers(ever, 302, "X-Linked-Etag", `W/"`+strings.Repeat("0", 64)+`"`, "Location",
					"http://"+cdnHost+"/"+big)
			}},
		{name: "another commit announced", wantErr: "sends a file of commit",
			prepare: func(s *fakeHub) {
				s.onHub = answers(ever, 302, "X-Repo-Commit", commit2, "Location", "http://"+cdnHost+"/"+big)
			}},
		{name: "403", wantErr: `forbids access (403): "no"`,
			prepare: func(s *fakeHub) { s.onHub = answers(ever, 403, "X-Error-Message", "no") }},
		{name: "token echoed", wantErr: "Bearer [redact", prepare: func(s *fakeHub) {
			s.onHub = func(w http.ResponseWriter, r *http.Request, n int) bool {
				w.Header().Set("X-Error-Message", strings.Repeat("x", 180)+r.Header.Get("Authorization"))
				w.WriteHeader(400)
				return true
			}
		}},
		{name: "file gone", wantErr: "the repository has no such file",
			prepare: func(s *fakeHub) { s.onHub = answers(ever, 404, "X-Error-Code", "EntryNotFound") }},
	}
	for code := 300; code < 310; code++ {
		for _, place := range []string{"listing", "hub", "CDN"} {
			moved := test{name: fmt.Sprintf("%d by the %s", code, place), sent: 3<<20 + 17, prepare: func(s *fakeHub) {
				hook := map[string]*func(http.ResponseWriter, *http.Request, int) bool{"listing": &s.onAPI, "hub": &s.onHub,
					"CDN": &s.onCDN}[place]
				*hook = func(w http.ResponseWriter, r *http.Request, n int) bool {
					if n == 1 {
						w.Header().Set("Location", r.URL.Path+"?moved")
						w.WriteHeader(code)
					}
					return n == 1
				}
			}}
			if !slices.Contains([]int{301, 302, 303, 307, 308}, code) {
				moved.wantErr, moved.sent = fmt.Sprintf("answered %d", code), 0
			}
			tests = append(tests, moved)
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *fakeHub) {
				test.prepare(s)
				name := firstOf(test.file, big)
				start := time.Now()
				local, err := s.get(t.Context(), s.open(), name)
				waited := time.Since(start)
				if test.wantErr != "" {
					if err == nil || !strings.Contains(err.Error(), test.wantErr) {
						t.Fatalf("error %v, want one with %q", err, test.wantErr)
					}
					if Retryable(err) != test.retry {
						t.Errorf("Retryable is %v", !test.retry)
					}
					for file := range layout(t, s.cache) {
						if strings.Contains(file, "snapshots") || strings.Contains(file, "refs") ||
							strings.Contains(file, "blobs") && !strings.HasSuffix(file, ".incomplete") ||
							strings.HasSuffix(file, ".incomplete") && strings.Contains(err.Error(), "deleted") {
							t.Errorf("left behind: %s", file)
						}
					}
				} else {
					expect.OK(t, err)
					if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, s.files[name]) {
						t.Errorf("%d bytes, %v; want %d", len(got), err, len(s.files[name]))
					}
					for file := range layout(t, s.cache) {
						if strings.HasSuffix(file, ".incomplete") {
							t.Errorf("left behind: %s", file)
						}
					}
				}
				if test.sent >= 0 && s.sent != test.sent && (test.sent > 0 || test.wantErr == "") {
					t.Errorf("%d bytes sent, want %d", s.sent, test.sent)
				}
				if waited < test.atLeast || test.atMost > 0 && waited > test.atMost {
					t.Errorf("took %s, want %s to %s", waited, test.atLeast, test.atMost)
				}
			})
		})
	}
}

// TestWrongListing checks that a listing with a wrong hash is requested again after the damage was found.
func TestWrongListing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		h := s.open()
		l, err := h.Resolve(t.Context(), s.ref())
		expect.OK(t, err)
		tree := filepath.Join(s.cache, "datasets--owner--name/trees", commit1+".json")
		data, err := os.ReadFile(tree)
		expect.OK(t, err)
		os.WriteFile(tree, bytes.ReplaceAll(data, []byte(s.etag("README.md")), []byte(strings.Repeat("0", 40))), 0o666)
		if _, err := s.get(t.Context(), h, "README.md"); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Fatalf("error %v", err)
		}
		if _, err := s.get(t.Context(), h, "README.md"); err != nil {
			t.Errorf("with a fresh listing: %v", err)
		}
		if _, err := h.Fetch(t.Context(), l, "README.md"); err != nil {
			t.Errorf("from the cache: %v", err)
		}
	})
}

// TestCancelAndResume breaks a download off at several places, as a kill would, and resumes it with a new Hub. Each
// byte is sent once.
func TestCancelAndResume(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		size := len(s.files[big])
		for _, at := range []int{1, 300_000, size - 1} {
			ctx, cancel := context.WithCancel(t.Context())
			h := s.open()
			var last Progress
			h.Progress = func(p Progress) { last = p }
			s.onCDN = func(w http.ResponseWriter, r *http.Request, n int) bool {
				var from int
				fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
				if from > 0 {
					w.WriteHeader(206)
				}
				w.Write(s.files[big][from:at])
				w.(*counter).ResponseWriter.(http.Flusher).Flush()
				s.pause(time.Second)
				cancel()
				s.wait(func() { <-r.Context().Done() })
				return true
			}
			start := time.Now()
			_, err := s.get(ctx, h, big)
			if !errors.Is(err, context.Canceled) || time.Since(start) > 2*time.Second {
				t.Fatalf("after %s: %v", time.Since(start), err)
			}
			if want := (Progress{big, int64(at), int64(size)}); last != want {
				t.Errorf("progress %v, want %v", last, want)
			}
		}
		s.onCDN = nil
		h := s.open()
		var done []int64
		h.Progress = func(p Progress) { done = append(done, p.Done) }
		if _, err := s.get(t.Context(), h, big); err != nil {
			t.Fatal(err)
		}
		if s.sent != size {
			t.Errorf("%d bytes sent, want %d", s.sent, size)
		}
		if want := []int64{int64(size - 1), int64(size)}; !slices.Equal(done, want) {
			t.Errorf("progress %v, want %v", done, want)
		}
	})
}

// TestPartFile_MayHoldAnything checks that the part file may contain anything.
func TestPartFile_MayHoldAnything(t *testing.T) {
	for name, part := range map[string]func(b []byte) []byte{
		"garbage":         func(b []byte) []byte { return []byte("garbage") },
		"garbage of size": func(b []byte) []byte { return make([]byte, len(b)) },
		"longer":          func(b []byte) []byte { return make([]byte, len(b)+1) },
		"whole and right": func(b []byte) []byte { return b },
		"right so far":    func(b []byte) []byte { return b[:len(b)/2] },
		"empty":           func(b []byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *fakeHub) {
				blobs := filepath.Join(s.cache, "datasets--owner--name/blobs")
				os.MkdirAll(blobs, 0o777)
				os.WriteFile(filepath.Join(blobs, s.etag(big)+".incomplete"), part(s.files[big]), 0o666)
				local, err := s.get(t.Context(), s.open(), big)
				expect.OK(t, err)
				if got, _ := os.ReadFile(local); !bytes.Equal(got, s.files[big]) {
					t.Error("wrong content")
				}
				if name == "whole and right" && s.sent != 0 {
					t.Errorf("%d bytes sent", s.sent)
				}
			})
		})
	}
}

func TestConcurrentFetches(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		s.onCDN = func(http.ResponseWriter, *http.Request, int) bool { s.pause(3 * time.Second); return false }
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if _, err := s.fetch(t.Context(), s.open(), big); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		synctest.Wait()
		if s.cdn != 1 || s.sent != len(s.files[big]) {
			t.Errorf("%d requests, %d bytes; want 1 and %d", s.cdn, s.sent, len(s.files[big]))
		}
	})
}

// TestFetchIsSynced checks that a blob is on the disk before it gets its name, and that its name is on the disk before
// there is a link to it.
func TestFetchIsSynced(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		var events []string
		fail := ""
		defer disk.Watch(func(op string, names ...string) error {
			if op == "write" {
				return nil
			}
			event := op
			for _, name := range names {
				if name = filepath.Base(name); disk.IsPending(name) {
					name = "TEMP"
				}
				event += " " + name
			}
			events = append(events, strings.ReplaceAll(event, s.etag(big), "BLOB"))
			if events[len(events)-1] == fail {
				return syscall.EIO
			}
			return nil
		})()
		h := s.open()
		l, err := h.Resolve(t.Context(), s.ref())
		expect.OK(t, err)
		// A file whose sync failed may have lost data, and never gets its name.
		fail = "sync BLOB.incomplete"
		if _, err := h.Fetch(t.Context(), l, big); !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		blobs := filepath.Join(s.cache, "datasets--owner--name", "blobs")
		if left, err := os.ReadDir(blobs); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		fail, events = "", nil
		if _, err := h.Fetch(t.Context(), l, big); err != nil {
			t.Fatal(err)
		}
		want := []string{"create BLOB.lock", "create BLOB.incomplete", "truncate BLOB.incomplete", "sync BLOB.incomplete",
			"rename BLOB.incomplete BLOB", "syncdir blobs", "syncdir data",
			"create TEMP", "sync TEMP", "rename TEMP main", "syncdir refs"}
		if i := slices.Index(events, want[0]); i < 0 || !slices.Equal(events[i:], want) {
			t.Errorf("%q, want %q", events, want)
		}
	})
}

// TestLock_IsPythonsFilelock checks that the lock is the same as Python's filelock, and that the user's group may
// also take it.
func TestLock_IsPythonsFilelock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		name := filepath.Join(s.cache, "a/b.lock")
		r := repo{locks: filepath.Join(s.cache, "a")}
		first, err := r.lock(t.Context(), "b")
		expect.OK(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.lock(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), name) {
			t.Errorf("while held: %v", err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o664 || info.Size() != 0 {
			t.Errorf("%v, %v", info, err)
		}
		first.Close()
		second, err := r.lock(ctx, "c")
		expect.OK(t, err)
		second.Close()
		if third, err := r.lock(t.Context(), "b"); err != nil {
			t.Error(err)
		} else {
			third.Close()
		}
	})
}

// TestNothingWrongIsAccepted damages answers at random, for a client that has a correct listing: no wrong file may be
// accepted.
func TestNothingWrongIsAccepted(t *testing.T) {
	const rounds = 1000
	inBubble(t, func(t *testing.T, s *fakeHub) {
		s.files["a.txt"], s.files["b.txt"] = blob(500), blob(900)[400:]
		h := s.open()
		l, err := h.Resolve(t.Context(), s.ref())
		expect.OK(t, err)
		accepted := 0
		x := uint32(7)
		random := func(n int) int { x = x*1664525 + 1013904223; return int(x>>8) % n }
		s.onHub = func(w http.ResponseWriter, r *http.Request, n int) bool {
			data := slices.Clone(s.files["a.txt"])
			switch random(5) {
			case 0:
				data[random(len(data))] ^= 1 << random(8)
			case 1:
				data = data[:random(len(data))]
			case 2:
				data = append(data, make([]byte, 1+random(9))...)
			case 3:
				data = slices.Clone(s.files["b.txt"])
			case 4:
				i := random(len(data) - 1)
				data = slices.Concat(data[i+1:], data[:i+1])
				data[0] ^= 0x80
			}
			if random(2) == 0 {
				w.(*counter).ResponseWriter.(http.Flusher).Flush() // so that the answer has no length
			}
			w.Write(data)
			return true
		}
		for range rounds {
			_, err := h.Fetch(t.Context(), l, "a.txt")
			s.checkError(err)
			if err == nil {
				accepted++
				os.RemoveAll(filepath.Join(s.cache, "datasets--owner--name"))
			}
		}
		if accepted > 0 {
			t.Errorf("%d of %d damaged answers accepted", accepted, rounds)
		}
		s.onHub = nil
		if _, err := h.Fetch(t.Context(), l, "a.txt"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestFetchRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		h := s.open()
		git, lfs := strings.Repeat("a", 40), strings.Repeat("b", 64)
		good := Listing{Ref: s.ref(), Commit: commit1}
		for _, test := range []struct {
			name, want string
			file       File
			edit       func(*Listing)
		}{
			{"not listed", "no such file", File{Path: "other.json", BlobID: git}, nil},
			{"pickle", "never pickles or code", File{Path: "x.bin", BlobID: git}, nil},
			{"code", "never pickles or code", File{Path: "a/x.PY", BlobID: git}, nil},
			{"packed pickle", "never pickles or code", File{Path: "x.pkl.gz", BlobID: git}, nil},
			{"packed, without saying what", "never pickles or code", File{Path: "x.gz", BlobID: git}, nil},
			{"evil name", "not a file name", File{Path: "../../x.json", BlobID: git}, nil},
			{"evil hash", "sha256", File{Path: "x.json", BlobID: git, SHA256: "../../x"}, nil},
			{"evil commit", "must be 40 hex digits", File{Path: "x.json", BlobID: git}, func(l *Listing) { l.Commit = "../.." }},
			{"evil id", "not a hub repository", File{Path: "x.json", BlobID: git}, func(l *Listing) { l.Ref.ID = "../x" }},
			{"negative size", "negative", File{Path: "x.json", BlobID: git, Size: -1}, nil},
			{"too large for the disk", "needs 1152921504606846976 more bytes, but", File{Path: "x.json", BlobID: git,
				SHA256: lfs, Size: 1 << 60}, nil},
		} {
			l := good
			l.Files = []File{test.file}
			if test.edit != nil {
				test.edit(&l)
			}
			name := test.file.Path
			if test.name == "not listed" {
				name = "x.json"
			}
			_, err := h.Fetch(t.Context(), l, name)
			s.checkError(err)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.name, err, test.want)
			}
		}
		if s.api+s.hub+s.cdn > 0 {
			t.Error("asked the hub")
		}
	})
}

// TestLinksLeadNowhere checks that links in the cache do not make Fetch write outside of it.
func TestLinksLeadNowhere(t *testing.T) {
	for _, trap := range []string{"snapshots", "snapshots/" + commit1, "snapshots/" + commit1 + "/data", "part", "lock",
		"missing lock"} {
		inBubble(t, func(t *testing.T, s *fakeHub) {
			outside := t.TempDir()
			victim := filepath.Join(outside, "victim")
			os.WriteFile(victim, []byte("mine"), 0o666)
			repo := filepath.Join(s.cache, "datasets--owner--name")
			at, target := filepath.Join(repo, trap), outside
			switch trap {
			case "part":
				at, target = filepath.Join(repo, "blobs", s.etag(big)+".incomplete"), victim
			case "lock":
				at, target = filepath.Join(s.cache, ".locks", "datasets--owner--name", s.etag(big)+".lock"), victim
			case "missing lock":
				at, target = filepath.Join(s.cache, ".locks", "datasets--owner--name", s.etag(big)+".lock"),
					filepath.Join(outside, "missing")
			}
			os.MkdirAll(filepath.Dir(at), 0o777)
			expect.OK(t, os.Symlink(target, at))
			_, err := s.get(t.Context(), s.open(), big)
			if got := layout(t, outside); err == nil || len(got) != 1 || got["victim"] != "4" {
				t.Errorf("%s: error %v, outside %v", trap, err, got)
			}
		})
	}
}

func TestReadOnlyAndBrokenCaches(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		h := s.open()
		h.Cache = filepath.Join(s.cache, "file", "hub")
		os.WriteFile(filepath.Join(s.cache, "file"), nil, 0o666)
		if _, err := s.get(t.Context(), h, big); err == nil || !strings.Contains(err.Error(), "cannot write the cache") {
			t.Errorf("cache under a file: %v", err)
		}
		h.Cache = ""
		if _, err := s.get(t.Context(), h, big); err == nil || !strings.Contains(err.Error(), "set HF_HUB_CACHE") {
			t.Errorf("no cache: %v", err)
		}
		// A link to a deleted or truncated blob is repaired.
		h.Cache = s.cache
		local, err := s.get(t.Context(), h, big)
		expect.OK(t, err)
		blob, err := filepath.EvalSymlinks(local)
		expect.OK(t, err)
		for _, spoil := range []func() error{
			func() error { return os.Remove(blob) },
			func() error { return os.Truncate(blob, 5) },
			func() error { return os.Remove(local) },
			func() error { os.Remove(local); return os.WriteFile(local, []byte("x"), 0o666) },
		} {
			expect.OK(t, spoil())
			if _, err := s.get(t.Context(), h, big); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, s.files[big]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
	})
}

func TestMayFetch(t *testing.T) {
	for name, want := range map[string]bool{
		"a/train.csv": true, "train.TSV": true, "train.jsonl.gz": true, "train.csv.GZ": true, "train.jsonl.zst": true,
		"model.safetensors": true,
		"x.gz.gz":           false, "csv": false, "x.tar.gz": false, "x.csv.bin": false,
	} {
		if got := mayFetch(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
