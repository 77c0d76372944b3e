package hub

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/internal/secret"
)

func TestResolve(t *testing.T) {
	for _, page := range []int{1000, 1, 3} {
		inBubble(t, func(t *testing.T, s *fakeHub) {
			s.page = page
			h := s.open()
			for _, revision := range []string{"main", commit1, "refs/convert/parquet"} {
				got, err := h.Resolve(t.Context(), Ref{Dataset, "owner/name", revision})
				expect.OK(t, err)
				want := Listing{Ref{Dataset, "owner/name", revision}, commit1, []File{
					{"README.md", 10, gitHash(s.files["README.md"]), ""},
					{big, int64(len(s.files[big])), got.Files[1].BlobID, sha(s.files[big])},
					{"empty.txt", 0, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", ""},
				}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("page of %d, %s (-want +got):\n%s", page, revision, diff)
				}
			}
			// Three revisions need one listing: two requests for a commit, and one for each page of the listing.
			if want := 2 + (4+page-1)/page; s.api != want {
				t.Errorf("page of %d: %d questions, want %d", page, s.api, want)
			}
		})
	}
}

func TestResolveFaults(t *testing.T) {
	answer := func(status int, body string, header ...string) func(*fakeHub, http.ResponseWriter, *http.Request,
		int) bool {
		return func(s *fakeHub, w http.ResponseWriter, r *http.Request, n int) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	tree := func(body string, header ...string) func(*fakeHub, http.ResponseWriter, *http.Request, int) bool {
		return func(s *fakeHub, w http.ResponseWriter, r *http.Request, n int) bool {
			return strings.Contains(r.URL.Path, "/tree/") && answer(200, body, header...)(s, w, r, n)
		}
	}
	type hook = func(*fakeHub, http.ResponseWriter, *http.Request, int) bool
	tests := []struct {
		name, want string
		hook       hook
	}{
		{"web page", "a web page instead of JSON", answer(200, "\n<!DOCTYPE html><html>log in</html>")},
		{"nothing", "is not the expected JSON", answer(200, "")},
		{"cut JSON", "is not the expected JSON", answer(200, `{"sha":"111`)},
		{"sha of another type", "is not the expected JSON", answer(200, `{"sha":5}`)},
		{"no sha", "must be 40 hex digits", answer(200, `{"id":"owner/name"}`)},
		{"evil sha", "must be 40 hex digits", answer(200, `{"sha":"../../../../../../../../../../etc/passwd"}`)},
		{"token as sha", "[redacted]", answer(200, `{"sha":"0123456789012345678901234567890123`+canary+`"}`)},
		{"token as sha, escaped", "[redacted]", answer(200, `{"sha":"\u0068`+canary[1:]+`"}`)},
		{"private or absent", "does not exist, or the token has no access", answer(404, "", "X-Error-Code", "RepoNotFound")},
		{"no such revision", `has no revision "main"`, answer(404, "", "X-Error-Code", "RevisionNotFound")},
		{"bad token", "does not accept the token (401)", answer(401, "", "X-Error-Message", "Invalid credentials")},
		{"gated", "is gated: ask for access", answer(403, "", "X-Error-Code", "GatedRepo")},
		{"gated without a login", "is gated: ask for access", answer(401, "", "X-Error-Code", "GatedRepo")},
		{"forbidden", "forbids access (403)", answer(403, "")},
		{"teapot", `answered 418 I'm a teapot: "short and stout"`, answer(418, "", "X-Error-Message", "short and stout")},
		{"busy", "gave up after 6 tries: hub.localhost answered 503", answer(503, "")},
		{"tree is an object", "is not the expected JSON", tree(`{}`)},
		{"tree is cut", "is not the expected JSON", tree(`[{"type":"file","oid":"` + commit1 + `","size":1,"path":"a"}`)},
		{"evil name", `"../../.bashrc": a part of it is empty, "." or ".."`, tree(`[{"type":"file","oid":"` + commit1 +
			`","size":1,"path":"../../.bashrc"}]`)},
		{"twice", `names "a" twice`, tree(`[{"type":"file","oid":"` + commit1 +
			`","size":1,"path":"a"},{"type":"file","oid":"` + commit2 + `","size":1,"path":"a"}]`)},
		{"same page for ever", "does not end: stopped after 2 pages",
			tree(`[]`, "Link", `<http://x/y?recursive=true&cursor=a>; rel="next"`)},
		{"next page without a query", "is not a URL with a query", tree(`[]`, "Link", `<http://x/y>; rel="next"`)},
		{"pages for ever", "does not end: stopped after 1000 pages", func(s *fakeHub, w http.ResponseWriter, r *http.Request,
			n int) bool {
			return tree(`[]`, "Link", fmt.Sprintf(`<?cursor=%d>; rel="next"`, n))(s, w, r, n)
		}},
		{"bomb", "longer than 64 MiB", func(s *fakeHub, w http.ResponseWriter, r *http.Request, n int) bool {
			w.Header().Set("Content-Encoding", "gzip")
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			spaces := []byte(strings.Repeat(" ", 1<<20))
			for range 80 {
				z.Write(spaces)
			}
			z.Close()
			return true
		}},
		{"cut for ever", "broke off after 5 bytes", func(s *fakeHub, w http.ResponseWriter, r *http.Request, n int) bool {
			return cut(s.serveAPI, w, r, 5)
		}},
		{"endless drip", "deadline exceeded", func(s *fakeHub, w http.ResponseWriter, r *http.Request, n int) bool {
			for r.Context().Err() == nil {
				w.Write([]byte(" "))
				w.(*counter).ResponseWriter.(http.Flusher).Flush()
				s.pause(time.Second)
			}
			return true
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *fakeHub) {
				s.onAPI = func(w http.ResponseWriter, r *http.Request, n int) bool { return test.hook(s, w, r, n) }
				_, err := s.open().Resolve(t.Context(), s.ref())
				s.checkError(err)
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "owner/name") {
					t.Errorf("error %v, want one with %q", err, test.want)
				}
			})
		})
	}
}

func TestResolveWithoutToken(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		h := s.open()
		h.Endpoint = "http://" + cdnHost // on this host the fake hub accepts no token
		h.Token = secret.Secret{}
		const private = "does not exist or is private"
		for status, want := range map[int]string{401: private, 404: private, 403: "the hub forbids access (403)"} {
			s.onCDN = answers(ever, status, "X-Error-Code", "RepoNotFound")
			_, err := h.Resolve(t.Context(), s.ref())
			if err == nil || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "set HF_TOKEN") != (want == private) {
				t.Errorf("%d: %v", status, err)
			}
		}
	})
}

func TestMatch(t *testing.T) {
	l := Listing{Files: []File{{Path: "README.md"}, {Path: "a/train-0.parquet"}, {Path: "a/x.json"},
		{Path: "test.parquet"}}}
	for _, test := range []struct {
		patterns, want []string
	}{
		{[]string{"*.parquet"}, []string{"a/train-0.parquet", "test.parquet"}},
		{[]string{"a/*"}, []string{"a/train-0.parquet", "a/x.json"}},
		{[]string{"x.json", "*.md", "*"}, []string{"README.md", "a/train-0.parquet", "a/x.json", "test.parquet"}},
		{[]string{"train-*"}, []string{"a/train-0.parquet"}},
		{[]string{"b/*"}, nil},
		{nil, nil},
	} {
		files, err := l.Match(test.patterns...)
		var got []string
		for _, f := range files {
			got = append(got, f.Path)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, %v; want %q", test.patterns, got, err, test.want)
		}
	}
	if _, err := l.Match("*.json", "["); err == nil {
		t.Error("no error for a bad pattern")
	}
	if f, ok := l.File("a/x.json"); !ok || f.Path != "a/x.json" {
		t.Errorf("File: %v, %v", f, ok)
	}
	if _, ok := l.File("x.json"); ok {
		t.Error("File finds what is not there")
	}
}

// badEntries are entries that parseTree must refuse, with part of its error.
var badEntries = map[string]string{
	`{"type":"file","oid":"@","size":-1,"path":"a"}`:                  "or a negative one",
	`{"type":"file","oid":"@","path":"a"}`:                            "or a negative one",
	`{"type":"file","oid":"@","size":null,"path":"a"}`:                "or a negative one",
	`{"type":"file","oid":"@","size":9223372036854775808,"path":"a"}`: "is not the expected JSON",
	`{"type":"file","oid":"@","size":1e3,"path":"a"}`:                 "is not the expected JSON",
	`{"type":"file","oid":"@","size":1.5,"path":"a"}`:                 "is not the expected JSON",
	`{"type":"file","oid":"@","size":"1","path":"a"}`:                 "is not the expected JSON",
	`{"type":"file","oid":7,"size":1,"path":"a"}`:                     "is not the expected JSON",
	`{"type":"file","oid":"","size":1,"path":"a"}`:                    "must be 40 hex digits",
	`{"type":"file","oid":"../../x","size":1,"path":"a"}`:             "must be 40 hex digits",
	`{"type":"link","oid":"@","size":1,"path":"a"}`:                   "must be file or directory",
	`{}`: "must be file or directory",
	`5`:  "is not the expected JSON",
	`[]`: "is not the expected JSON",
	`{"type":"file","oid":"@","size":1,"path":"a","lfs":{}}`:                   "no size",
	`{"type":"file","oid":"@","size":1,"path":"a","lfs":{"size":1}}`:           "must be 64 hex digits",
	`{"type":"file","oid":"@","size":1,"path":"a","lfs":{"oid":"","size":1}}`:  "must be 64 hex digits",
	`{"type":"file","oid":"@","size":1,"path":"a","lfs":{"oid":"@","size":1}}`: "must be 64 hex digits",
	`{"type":"file","oid":"@","size":1,"path":"a","lfs":7}`:                    "is not the expected JSON",
}

func TestParseTreeRefuses(t *testing.T) {
	for entry, want := range badEntries {
		entry = strings.ReplaceAll(entry, "@", commit1)
		if _, err := parseTree([]byte("[" + entry + "]")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
	}
	for _, name := range badPaths {
		quoted, _ := json.Marshal(name)
		entry := fmt.Sprintf(`[{"type":"file","oid":"%s","size":1,"path":%s}]`, commit1, quoted)
		if _, err := parseTree([]byte(entry)); err == nil {
			t.Errorf("path %q accepted", name)
		}
	}
	for _, bad := range []string{"", "null", "[", "[]]", "[] []", `[{"type":"directory"},]`, "\xff"} {
		if _, err := parseTree([]byte(bad)); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func TestNextPage(t *testing.T) {
	for link, want := range map[string]string{
		"": "",
		`<https://huggingface.co/api/x?cursor=a%3D&limit=5>; rel="next"`: "cursor=a%3D&limit=5",
		`<https://h/a?b=1>; rel="prev", <https://h/a?b=2>; rel="next"`:   "b=2",
		`<https://h/a?b=1,2>;rel=next`:                                   "b=1,2",
		`<https://h/a?b=1>; rel="prev"`:                                  "",
		`nonsense; rel="next"`:                                           "",
		`<unclosed; rel="next"`:                                          "",
	} {
		got, err := nextPage(http.Header{"Link": {link}})
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", link, got, err, want)
		}
	}
}

func FuzzListing(f *testing.F) {
	f.Add([]byte(`[{"type":"directory","oid":"` + commit1 + `","size":0,"path":"data"},{"type":"file","oid":"` + commit1 +
		`","size":12,"path":"data/a.parquet","lfs":{"oid":"` + commit1 + commit1[:24] + `","size":12,"pointerSize":3}}]`))
	for entry := range badEntries {
		f.Add([]byte("[" + strings.ReplaceAll(entry, "@", commit1) + "]"))
	}
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := hostile.Parse(t, data, parseTree)
		if err != nil {
			if len(err.Error()) > 2048 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, file := range files {
			if err := file.check(); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzNextPage(f *testing.F) {
	f.Add(`<https://huggingface.co/api/x?cursor=a%3D&limit=5>; rel="next"`)
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, link string) {
		query, err := hostile.Parse(t, link, func(s string) (string, error) { return nextPage(http.Header{"Link": {s}}) })
		if err == nil && query != "" && !strings.Contains(link, query) {
			t.Errorf("%q out of %q", query, link)
		}
	})
}
