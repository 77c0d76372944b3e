package hub

import (
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// badPaths are names that must not become a path on disk, on any system.
var badPaths = []string{
	"", ".", "..", "/", "/etc/passwd", "a/../b", "a/..", "../a", "a//b", "a/", "./a", "a/./b", `a\b`, `..\a`,
	`\\host\share\x`, "C:", "C:/x", "c:x", "a/D:foo", "a\x00b", "a\nb", "a\x1b[31m", "a\x7f", strings.Repeat("x", 256),
	"a/" + strings.Repeat("x", 256), strings.Repeat("abc/", 300) + "x", strings.Repeat("é", 128),
}

func TestWrongPath(t *testing.T) {
	for _, path := range append(badPaths, "\xff") {
		if wrongPath(path) == "" {
			t.Errorf("%q accepted", path)
		}
	}
	for _, path := range []string{
		"a", "a/b/c.json", ".gitattributes", "...", "a b/ü.txt", "10:30.txt", "ab:c", "1:c", "@:c", "{:c",
		"%2e%2e/x", "~/x", "-", "CON",
		strings.Repeat("x", 255),
	} {
		if why := wrongPath(path); why != "" {
			t.Errorf("%q refused: %s", path, why)
		}
	}
}

func TestParseRef(t *testing.T) {
	good := map[string]Ref{
		"owner/name":                 {Dataset, "owner/name", "main"},
		"gpt2":                       {Dataset, "gpt2", "main"},
		"owner/name@v1.0":            {Dataset, "owner/name", "v1.0"},
		"o/n@" + commit1:             {Dataset, "o/n", commit1},
		"o/n@refs/convert/parquet":   {Dataset, "o/n", "refs/convert/parquet"},
		"meta-llama/Meta-Llama-3-8B": {Dataset, "meta-llama/Meta-Llama-3-8B", "main"},
		"o/_n_._x":                   {Dataset, "o/_n_._x", "main"},
		"azAZ/09":                    {Dataset, "azAZ/09", "main"},
	}
	for s, want := range good {
		if got, err := ParseRef(Dataset, s); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", s, got, err, want)
		}
	}
	if s := good["owner/name@v1.0"].String(); s != "dataset owner/name@v1.0" {
		t.Errorf("String: %q", s)
	}
	for _, s := range []string{
		"", "/", "a/", "/a", "a/b/c", "datasets/a/b", "https://huggingface.co/a/b", "a--b", "a/b--c", "a..b", "../a", "a/..",
		".a", "a.", "-a/b", "a/b.git", "a b", "a/b?x", "a/b#x", "a/ü", "a/b%2f", "a\\b", "a`b", "a{b", "a[b", "a:b", "a/b\n",
		strings.Repeat("a", 97),
		"a/b@", "a/b@..", "a/b@../x", "a/b@/x", "a/b@x/", "a/b@x//y", "a/b@a b", "a/b@-x", "a/b@.x", "a/b@x.lock", "a/b@x/.y",
		"a/b@x:y", "a/b@a^", "a/b@a~1", "a/b@*", "a/b@x@y", "a/b@x\\y", "a/b@x\x00", "a/b@" + strings.Repeat("x", 300),
	} {
		if ref, err := ParseRef(Model, s); err == nil {
			t.Errorf("%q accepted as %v", s, ref)
		} else if !strings.Contains(err.Error(), "give") {
			t.Errorf("%q: the error does not say what to do: %v", s, err)
		}
	}
	if _, err := ParseRef("space", "a/b"); err == nil {
		t.Error("a space accepted")
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"owner/name", "a@b", "o/n@refs/pr/1", "a/../b@c", "a/b@C:/x", "a--b@x"} {
		f.Add(s)
	}
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := hostile.Parse(t, s, func(s string) (Ref, error) { return ParseRef(Model, s) })
		if err != nil {
			if len(err.Error()) > 8*len(s)+300 {
				t.Errorf("error of %d bytes for %d", len(err.Error()), len(s))
			}
			return
		}
		again, err := ParseRef(Model, ref.ID+"@"+ref.Revision)
		if err != nil || again != ref {
			t.Errorf("%q gives %v, and that gives %v, %v", s, ref, again, err)
		}
		h := Hub{Cache: "/cache"}
		r, err := h.repo(ref)
		expect.OK(t, err)
		for name, parent := range map[string]string{r.dir: "/cache", r.locks: "/cache/.locks"} {
			if filepath.Dir(name) != parent {
				t.Errorf("%q leads to %s", s, name)
			}
		}
		refFile := filepath.Join(r.dir, "refs", ref.Revision)
		if !strings.HasPrefix(refFile, r.dir+"/refs/") || !filepath.IsLocal(ref.Revision) {
			t.Errorf("%q leads to %s", s, refFile)
		}
		// Two repositories never share a directory.
		if folder := strings.TrimPrefix(filepath.Base(r.dir), "models--"); strings.ReplaceAll(folder, "--", "/") != ref.ID {
			t.Errorf("%q has the folder %s", ref.ID, folder)
		}
	})
}
