package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/expect"
)

func TestBackup(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	put(t, path+".bak", "somebody else's")
	for _, c := range []struct{ text, want string }{{"one", ".bak.2"}, {"one", ".bak.2"}, {"two", ".bak.3"},
		{"one", ".bak.2"}} {
		expect.OK(t, Write(path, []byte(c.text), 0o666))
		list := calls(t, nil)
		bak, err := Backup(path)
		if err != nil || bak != path+c.want || expect.Read(t, bak) != c.text || expect.Read(t, path) != c.text {
			t.Errorf("%s: %s, %v", c.text, bak, err)
		}
		if n := len(*list); c.text == "two" && ((*list)[n-2] != "link x x.bak.3" ||
			(*list)[n-1] != "syncdir "+filepath.Base(dir)) {
			t.Errorf("%s: the name does not last: %q", c.text, *list)
		}
	}
	list := calls(t, nil)
	if bak, err := MoveToBackup(path); err != nil || bak != path+".bak.4" || expect.Read(t, bak) != "one" {
		t.Error(bak, err)
	}
	if want := []string{"rename x x.bak.4", "syncdir " + filepath.Base(dir)}; !slices.Equal(*list, want) {
		t.Errorf("%q, want %q", *list, want)
	}
	if got := expect.Read(t, path+".bak"); got != "somebody else's" {
		t.Errorf("the first .bak has %q", got)
	}
	if _, err := Backup(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// Without hard links.
	put(t, path, "three")
	calls(t, map[string]error{"link x x.bak": syscall.EPERM})
	if bak, err := Backup(path); err != nil || bak != path+".bak.5" || expect.Read(t, bak) != "three" {
		t.Error(bak, err)
	}
	calls(t, nil)
	// Another user's links at the backup's name are not followed, whatever they lead to.
	dir = t.TempDir()
	path = filepath.Join(dir, "x")
	put(t, path, "four")
	for i, target := range []string{"x", "missing"} {
		expect.OK(t, os.Symlink(target, bakName(path, i+1)))
	}
	if bak, err := Backup(path); err != nil || bak != path+".bak.3" {
		t.Error(bak, err)
	}
	if bak, err := MoveToBackup(path); err != nil || bak != path+".bak.4" {
		t.Error(bak, err)
	}
}

func TestSame(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	long := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		a, b string
		want bool
	}{{"", "", true}, {"x", "x", true}, {"x", "y", false}, {"x", "", false}, {long, long, true},
		{long + "a", long + "b", false},
		{long + long, long + long, true}, {"a" + long, "b" + long, false}} {
		put(t, a, c.a)
		put(t, b, c.b)
		if got := sameFiles(a, b); got != c.want {
			t.Errorf("%.10q… of %d bytes and %.10q… of %d: %v", c.a, len(c.a), c.b, len(c.b), got)
		}
	}
}
