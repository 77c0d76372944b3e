package hub

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/expect"
)

// pythonCache writes a cache as huggingface_hub does: with trees, as since version 2, or without, as before.
//
//nolint:lll // JSON in one piece
func pythonCache(t *testing.T, s *fakeHub, trees bool) {
	t.Helper()
	repo := filepath.Join(s.cache, "datasets--owner--name")
	write := func(name, data string) {
		name = filepath.Join(repo, name)
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(data), 0o666)))
	}
	write("refs/main", commit1)
	for name, data := range s.files {
		write("blobs/"+s.etag(name), string(data))
		pointer := filepath.Join(repo, "snapshots", commit1, name)
		os.MkdirAll(filepath.Dir(pointer), 0o777)
		target, err := filepath.Rel(filepath.Dir(pointer), filepath.Join(repo, "blobs", s.etag(name)))
		expect.OK(t, err)
		expect.OK(t, os.Symlink(target, pointer))
	}
	write(".no_exist/"+commit1+"/config.json", "")
	if trees {
		write("trees/"+commit1+".json", `{"format_version": 1, "files": {
 "README.md": {"size": 10, "blob_id": "`+s.etag("README.md")+`"},
 "empty.txt": {"size": 0, "blob_id": "`+s.etag("empty.txt")+`"},
 "later.json": {"size": 5, "blob_id": "`+commit2+`"},
 "`+big+`": {"size": 135, "blob_id": "`+commit2+`", "lfs_sha256": "`+s.etag(big)+`", "lfs_size": 3145745, "xet_hash": "`+s.etag(big)+`"}}}`)
	}
}

func TestOffline(t *testing.T) {
	for _, trees := range []bool{true, false} {
		inBubble(t, func(t *testing.T, s *fakeHub) {
			h := s.open()
			h.Offline = true
			if _, err := h.Resolve(t.Context(), s.ref()); err == nil ||
				!strings.Contains(err.Error(), "offline (HF_HUB_OFFLINE) nothing is downloaded") {
				t.Errorf("empty cache: %v", err)
			}
			pythonCache(t, s, trees)
			var l Listing
			var err error
			for _, revision := range []string{"main", commit1} {
				l, err = h.Resolve(t.Context(), Ref{Dataset, "owner/name", revision})
				expect.OK(t, err)
				if want := map[bool]int{true: 4, false: 3}[trees]; l.Commit != commit1 || len(l.Files) != want {
					t.Errorf("trees %v: commit %s with %d files, want %d", trees, l.Commit, len(l.Files), want)
				}
			}
			for name, want := range s.files {
				local, err := h.Fetch(t.Context(), l, name)
				if err != nil {
					t.Error(err)
				}
				i := slices.IndexFunc(l.Files, func(f File) bool { return f.Path == name })
				if l.Files[i].Size != int64(len(want)) {
					t.Errorf("%s has %d bytes, and the listing says %d", name, len(want), l.Files[i].Size)
				}
				if got, _ := os.ReadFile(local); !bytes.Equal(got, want) {
					t.Errorf("%s differs", name)
				}
				if f, _ := l.File(name); f.etag() != s.etag(name) {
					t.Errorf("%s has the hash %q", name, f.etag())
				}
			}
			// If the cache has the hub's listing, it is known that the hub has this file. Without the listing, it is not.
			want := "offline (HF_HUB_OFFLINE)"
			if !trees {
				want = "no such file"
			}
			if _, err := h.Fetch(t.Context(), l, "later.json"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("missing file: %v", err)
			}
			for _, revision := range []string{"v2", commit2} {
				if _, err := h.Resolve(t.Context(), Ref{Dataset, "owner/name", revision}); err == nil ||
					!strings.Contains(err.Error(), "not in the cache") {
					t.Errorf("%s: %v", revision, err)
				}
			}
			os.Truncate(filepath.Join(s.cache, "datasets--owner--name/blobs", s.etag(big)), 7)
			if trees {
				if _, err := h.Fetch(t.Context(), l, big); err == nil {
					t.Error("a blob that was cut short is accepted")
				}
			}
			if s.api+s.hub+s.cdn > 0 {
				t.Error("asked the hub")
			}
		})
	}
}

// TestPythonCacheIsUsed checks that files that Python downloaded are not downloaded again online.
func TestPythonCacheIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		pythonCache(t, s, false)
		for name := range s.files {
			if _, err := s.get(t.Context(), s.open(), name); err != nil {
				t.Error(err)
			}
		}
		if s.hub+s.cdn > 0 {
			t.Errorf("%d files asked for", s.hub+s.cdn)
		}
		// A new commit with the same content needs only a new link, and the revision then refers to it.
		s.commit = commit2
		s.files["README.md"] = []byte("changed\n")
		for name := range s.files {
			if _, err := s.get(t.Context(), s.open(), name); err != nil {
				t.Error(err)
			}
		}
		if s.hub != 1 || s.sent != len("changed\n") {
			t.Errorf("%d files asked for, %d bytes sent", s.hub, s.sent)
		}
		got := layout(t, s.cache)
		if target := got["datasets--owner--name/snapshots/"+commit2+"/"+big]; target != "-> ../../../blobs/"+s.etag(big) {
			t.Errorf("new snapshot: %q", target)
		}
		if ref, _ := os.ReadFile(filepath.Join(s.cache, "datasets--owner--name/refs/main")); string(ref) != commit2 {
			t.Errorf("refs/main is %s", ref)
		}
	})
}

// TestResolveAloneMovesNothing checks that a revision keeps referring to the commit that has cached files.
func TestResolveAloneMovesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		h := s.open()
		if _, err := s.get(t.Context(), h, "README.md"); err != nil {
			t.Fatal(err)
		}
		s.commit = commit2
		if _, err := h.Resolve(t.Context(), s.ref()); err != nil {
			t.Fatal(err)
		}
		h.Offline = true
		if l, err := h.Resolve(t.Context(), s.ref()); err != nil || l.Commit != commit1 {
			t.Errorf("offline: commit %s, %v", l.Commit, err)
		}
		if _, err := h.Resolve(t.Context(), Ref{Dataset, "owner/name", commit2}); err == nil {
			t.Error("a commit of which nothing is there is found")
		}
		// If the network is gone, the error offers the cached files.
		h.Offline = false
		s.onAPI = func(w http.ResponseWriter, r *http.Request, n int) bool { panic(http.ErrAbortHandler) }
		if _, err := h.Resolve(t.Context(), s.ref()); err == nil ||
			!strings.Contains(err.Error(), "set HF_HUB_OFFLINE=1 to use the files in the cache") {
			t.Errorf("without a network: %v", err)
		}
	})
}

func TestBrokenTreesAreAskedForAgain(t *testing.T) {
	for _, bad := range []string{
		"", "{", "null", `{"format_version":2,"files":{}}`, `{"format_version":1}`, `{"format_version":1,"files":[]}`,
		`{"format_version":1,"files":{"../x":{"size":1,"blob_id":"` + commit1 + `"}}}`,
		`{"format_version":1,"files":{"x":{"size":-1,"blob_id":"` + commit1 + `"}}}`,
		`{"format_version":1,"files":{"x":{"size":1,"blob_id":"../x"}}}`,
	} {
		inBubble(t, func(t *testing.T, s *fakeHub) {
			name := filepath.Join(s.cache, "datasets--owner--name/trees", commit1+".json")
			os.MkdirAll(filepath.Dir(name), 0o777)
			os.WriteFile(name, []byte(bad), 0o666)
			if l, err := s.open().Resolve(t.Context(), s.ref()); err != nil || len(l.Files) != 3 {
				t.Errorf("%s: %d files, %v", bad, len(l.Files), err)
			}
			h := s.open()
			h.Offline = true
			os.WriteFile(name, []byte(bad), 0o666)
			os.MkdirAll(filepath.Join(s.cache, "datasets--owner--name/snapshots", commit1), 0o777)
			if l, err := h.Resolve(t.Context(), Ref{Dataset, "owner/name", commit1}); err != nil || len(l.Files) != 0 {
				t.Errorf("offline, %s: %d files, %v", bad, len(l.Files), err)
			}
		})
	}
}

func TestOfflineRefIsChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		pythonCache(t, s, true)
		h := s.open()
		h.Offline = true
		for _, bad := range []string{"", "../../..", "main", strings.Repeat("Z", 40)} {
			os.WriteFile(filepath.Join(s.cache, "datasets--owner--name/refs/main"), []byte(bad), 0o666)
			if _, err := h.Resolve(t.Context(), s.ref()); err == nil {
				t.Errorf("refs/main of %q accepted", bad)
			}
		}
	})
}

func TestDiskError(t *testing.T) {
	full := &os.PathError{Op: "write", Path: filepath.Join(t.TempDir(), "x"), Err: syscall.ENOSPC}
	err := diskError(full, 12345)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(),
		"needs 12345 more bytes, but "+filepath.Dir(full.Path)+" has ") {
		t.Errorf("%v", err)
	}
	if err := diskError(os.ErrPermission, 1); !errors.Is(err, os.ErrPermission) ||
		!strings.Contains(err.Error(), "cannot write the cache") {
		t.Errorf("%v", err)
	}
}

// TestSnapshot_LeavesOutStrangeNames checks that a snapshot without a listing leaves out a file that no listing may
// have.
func TestSnapshot_LeavesOutStrangeNames(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		pythonCache(t, s, false)
		strange := filepath.Join(s.cache, "datasets--owner--name", "snapshots", commit1, `a\b.json`)
		expect.OK(t, os.WriteFile(strange, []byte("{}"), 0o666))
		h := s.open()
		h.Offline = true
		if l, err := h.Resolve(t.Context(), s.ref()); err != nil || len(l.Files) != len(s.files) {
			t.Errorf("%v, %v", l.Files, err)
		}
	})
}
