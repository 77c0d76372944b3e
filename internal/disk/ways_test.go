package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"restyle/internal/expect"
)

// TestReadLine compares every limit with a simple cut of the text, through a buffer that is shorter than the lines.
func TestReadLine(t *testing.T) {
	texts := []string{"", "\n", "a", "a\n", "ab\n\ncd", strings.Repeat("x", 40) + "\nb", "a\n" + strings.Repeat("y", 33)}
	for _, text := range texts {
		for limit := range 45 {
			r := bufio.NewReaderSize(strings.NewReader(text), 16)
			for rest := text; ; {
				want, after, whole := strings.Cut(rest, "\n")
				size := len(rest) - len(after)
				line, n, ended, err := ReadLine(r, limit)
				if size > limit {
					want = ""
				}
				if string(line) != want || n != size || ended != whole || err != nil {
					t.Fatalf("%q, limit %d: %q of %d, %v, %v", rest, limit, line, n, ended, err)
				}
				if rest = after; !whole {
					break
				}
			}
		}
	}
	if _, _, _, err := ReadLine(bufio.NewReader(iotest.ErrReader(io.ErrClosedPipe)), 9); err != io.ErrClosedPipe {
		t.Errorf("the error of the file is %v", err)
	}
}

// TestCommitBackup writes a file for the first time, with the same bytes, and with others.
func TestCommitBackup(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, c := range []struct{ text, want, kept string }{
		{"a", "written", ""}, {"a", "unchanged", ""}, {"b", "replaced, the old file is kept as " + path + ".bak", "a"},
		{"b", "unchanged", ""}, {"a", "replaced, the old file is kept as " + path + ".bak.2", "b"},
		{"b", "replaced, the old file is kept as " + path + ".bak", "a"},
	} {
		p, err := Create(filepath.Join(dir, "other"), 0o666)
		expect.OK(t, err)
		if _, err := p.WriteString(c.text); err != nil {
			t.Fatal(err)
		}
		list := calls(t, nil)
		got, err := p.CommitBackup(path)
		if err != nil || got.String() != c.want || expect.Read(t, path) != c.text ||
			c.kept != "" && expect.Read(t, got.Kept) != c.kept {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
		if synced := strings.Index(fmt.Sprint(*list), "sync "); c.kept != "" && synced < 0 ||
			synced > strings.Index(fmt.Sprint(*list), "link ") && c.kept != "" && strings.Contains(fmt.Sprint(*list), "link ") {
			t.Errorf("%+v: the old file is touched before the new one lasts: %q", c, *list)
		}
		if err := p.Discard(); err != nil || p.Commit() != fs.ErrClosed {
			t.Errorf("%+v: it is not closed: %v", c, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".restyle-*")); len(left) > 0 {
			t.Errorf("%+v: it leaves %q", c, left)
		}
	}
	for _, op := range []string{"sync", "rename"} {
		p, err := Create(path, 0o666)
		expect.OK(t, err)
		fmt.Fprint(p, "new")
		stop := Watch(func(what string, names ...string) error {
			if what == op {
				return io.ErrClosedPipe
			}
			return nil
		})
		got, err := p.CommitBackup(path)
		stop()
		if !errors.Is(err, io.ErrClosedPipe) || expect.Read(t, path) != "b" {
			t.Errorf("%s fails: %v, %v", op, got, err)
		}
	}
	if got := (Outcome{}).String(); got != "not written" {
		t.Error(got)
	}
}

// TestOpenOwn trusts only directories and files that nobody else can change.
func TestOpenOwn(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // by root: below its own directories
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"own", "open", "open/in", "sticky", "group"} {
		expect.OK(t, os.Mkdir(path(name), 0o755))
	}
	put(t, path("own/file"), "text")
	put(t, path("own/wide"), "text")
	put(t, path("own/team"), "text")
	for _, err := range []error{os.Chmod(path("open"), 0o777), os.Chmod(path("sticky"), 0o777|fs.ModeSticky),
		os.Chmod(path("group"), 0o775), os.Chmod(path("own/wide"), 0o646), os.Chmod(path("own/team"), 0o664),
		os.Symlink("own", path("link"))} {
		expect.OK(t, err)
	}
	for name, says := range map[string]string{"own": "", "link": "", "open": "others can write in",
		"open/in": "others can write", "sticky": "users other than its owner can write", "group": "(mode 0775)",
		"none": "no such file", "own/file": "not a directory"} {
		root, err := OpenOwn(path(name))
		if err == nil {
			root.Close()
		}
		if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	root, err := OpenOwn(path("own"))
	expect.OK(t, err)
	defer root.Close()
	for name, says := range map[string]string{"file": "", "wide": "(mode 0646)", "team": "(mode 0664)",
		"none": "no such file"} {
		got, err := ReadOwn(root, name, 4)
		if (says == "") != (err == nil && string(got) == "text") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, says)
		}
	}
	if _, err := ReadOwn(root, "file", 3); err == nil {
		t.Error("a file above the limit is read")
	}
	if os.Geteuid() == 0 && os.Chown(path("own/file"), neighbour, -1) == nil {
		_, err := ReadOwn(root, "file", 4)
		expect.Error(t, err, "file belongs to user 65534")
		expect.OK(t, os.Chown(path("own"), neighbour, -1))
		_, err = OpenOwn(path("own"))
		expect.Error(t, err, "own belongs to user 65534")
	}
}

// TestOpenDevice opens a pipe that somebody reads, and refuses one that nobody reads and what a neighbor has placed.
func TestOpenDevice(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	expect.OK(t, syscall.Mkfifo(pipe, 0o600))
	_, err := OpenDevice(pipe)
	expect.Error(t, err, "open "+pipe+": nobody reads this named pipe")
	r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	expect.OK(t, err)
	defer r.Close()
	w, err := OpenDevice(pipe)
	expect.OK(t, err)
	w.Close()
	_, err = OpenDevice(filepath.Join(dir, "none"))
	expect.Error(t, err, "none", "no such file")
	if os.Geteuid() == 0 && errors.Join(os.Chmod(dir, 0o777), os.Lchown(pipe, neighbour, -1)) == nil {
		_, err := OpenDevice(pipe)
		expect.Error(t, err, "open "+pipe+": ", "user 65534")
	}
}

// TestWhatIsNoFile names what is in place of a file.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	expect.OK(t, syscall.Mkfifo(pipe, 0o600))
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	for path, what := range map[string]string{dir: "a directory", pipe: "a named pipe", socket: "a socket",
		os.DevNull: "a device"} {
		_, err := ReadInput(path, 9)
		expect.Error(t, err, path, "not a file but "+what)
	}
}

// TestInRoot does in an opened directory what the others do by path, and there only.
func TestInRoot(t *testing.T) {
	dir := t.TempDir()
	root, err := OpenRoot(dir)
	expect.OK(t, err)
	defer root.Close()
	put(t, filepath.Join(dir, "b"), "text")
	expect.OK(t, errors.Join(MakeDirIn(root, "x/y", 0o777), WriteIn(root, "x/a", []byte("new"), 0o666),
		os.Symlink("/", filepath.Join(dir, "out"))))
	p, err := CreateIn(root, "x/c", 0o666)
	if err == nil {
		_, err = p.WriteString("c")
	}
	expect.OK(t, errors.Join(err, p.Commit()))
	entries, err := ReadDirIn(root, "x")
	if err != nil || fmt.Sprint(entries) != "[- a - c d y/]" {
		t.Errorf("%v, %v", entries, err)
	}
	if got, err := ReadInputIn(root, "b", 4); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ReadInputIn(root, "b", 3); err == nil {
		t.Error("it is larger than the limit")
	}
	for what, err := range map[string]error{"write": WriteIn(root, "out/tmp/x", nil, 0o666),
		"make": MakeDirIn(root, "out/x", 0o777)} {
		if err == nil {
			t.Errorf("%s: it leads out of the directory", what)
		}
	}
	for path, want := range map[string]bool{"": true, "b": true, "none/x": true, "..": false, "../x": false, "out": false,
		"out/x": false, "x/../b": true, "x/../../b": false} {
		real, err := RealPath(dir)
		if got := Holds(real, filepath.Join(dir, path)); err != nil || got != want {
			t.Errorf("%q: %v, %v", path, got, err)
		}
	}
	expect.OK(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	_, err = RealPath(filepath.Join(dir, "dangling"))
	expect.Error(t, err, "dangling is a link to a path that does not exist")
	if Holds(dir, filepath.Join(dir, "dangling")) {
		t.Error("a link to nowhere is held")
	}
}

// TestGlob finds files below its directory, and says when there are too many of them.
func TestGlob(t *testing.T) {
	defer func(n int) { maxEntries = n }(maxEntries)
	dir := t.TempDir()
	for _, name := range []string{"b", "a", "c"} {
		put(t, filepath.Join(dir, name), "")
	}
	maxEntries = 3
	found, err := Glob(filepath.Join(dir, "[ab]"))
	if err != nil || fmt.Sprint(found) != fmt.Sprintf("[%s/a %[1]s/b]", dir) {
		t.Errorf("%q, %v", found, err)
	}
	entries, err := ReadDir(dir)
	if err != nil || len(entries) != 3 || entries[0].Name() != "a" || entries[2].Name() != "c" {
		t.Errorf("%v, %v", entries, err)
	}
	if entries, err := ReadDir(t.TempDir()); err != nil || len(entries) != 0 {
		t.Errorf("an empty directory: %v, %v", entries, err)
	}
	maxEntries = 2
	_, err = Glob(filepath.Join(dir, "*"))
	expect.Error(t, err, "more than 2 files")
	_, err = ReadDir(dir)
	expect.Error(t, err, dir, "more than 2 files")
	if _, err := Glob("["); err == nil {
		t.Error("a pattern without an end")
	}
}
