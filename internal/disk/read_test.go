package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"restyle/internal/expect"
)

// TestReadInput reads regular files and other things. It must not wait for a pipe without a writer, otherwise this test
// would not end, and must not read more of a file than the limit.
func TestReadInput(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, errors.Join(os.WriteFile(at("file"), []byte("text"), 0o600), os.Symlink("file", at("link")),
		unix.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("link to a pipe")),
		os.WriteFile(at("empty"), nil, 0o600), os.Symlink("loop", at("loop")), os.Symlink("/dev/zero", at("zero")),
		os.WriteFile(at("five"), []byte("texts"), 0o600), os.WriteFile(at("sparse"), nil, 0o600),
		os.Truncate(at("sparse"), 40<<30)))
	wants := map[string]string{
		"file": "", "link": "", "empty": "", ".": "not a file but a directory", "pipe": "not a file but a named pipe",
		"link to a pipe": "not a file but a named pipe", "none": "no such file",
		"zero": "not a file but a device", "loop": "too many", "file/": "not a directory", "file/x": "not a directory",
		"five": "has 5 bytes: such a file may have at most 4", "sparse": "has 42949672960 bytes",
	}
	if socket, err := net.Listen("unix", at("socket")); err == nil { // the path may be too long
		defer socket.Close()
		wants["socket"] = "not a file but a socket"
	}
	for name, want := range wants {
		path := dir + "/" + name // Join would drop the slash
		data, err := ReadInput(path, 4)
		if want == "" && (err != nil || len(data) != 4 && name != "empty") {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadInput(at("none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestGrowingInput checks that a file that is larger than it was when it was opened is read no further than
// the limit.
func TestGrowingInput(t *testing.T) {
	f, err := os.Open(expect.File(t, "file", strings.Repeat("x", 100)))
	expect.OK(t, err)
	defer f.Close()
	if _, err := ReadAll(grown{f}, f.Name(), 7); err == nil {
		t.Error("no error")
	} else {
		expect.Error(t, err, f.Name(), "8 bytes", "at most 7")
	}
	if at, err := f.Seek(0, io.SeekCurrent); at != 8 || err != nil {
		t.Errorf("%d bytes were read: %v", at, err)
	}
}

// TestReadInput_EndsWithContext checks that reading a file ends with the context.
func TestReadInput_EndsWithContext(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	r := Until(ctx, strings.NewReader(strings.Repeat("x", 100)))
	if n, err := r.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Error(n, err)
	}
	why := errors.New("stopped")
	stop(why)
	if n, err := r.Read(make([]byte, 10)); n != 0 || err != why {
		t.Error(n, err)
	}
}

// grown is a file that was empty when its size was asked for.
type grown struct{ *os.File }

func (grown) Stat() (fs.FileInfo, error) { return os.Stat(os.DevNull) }

// TestStreamIsRefused checks that files of the kernel that look regular, and for which a read would wait, are refused.
func TestStreamIsRefused(t *testing.T) {
	const path = "/proc/self/mountinfo" // one can wait for it to change, as for /proc/kmsg
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() != 0 {
		t.Skip("this system has no such file:", err)
	}
	if _, err := OpenInput(path); err == nil || !strings.Contains(err.Error(), "not a file but a stream") {
		t.Error(err)
	}
}

// TestReadDir checks that no more entries of a directory, and of a tree, are read than allowed.
func TestReadDir(t *testing.T) {
	maxEntries = 5
	t.Cleanup(func() { maxEntries = 100_000 })
	dir := t.TempDir()
	for _, name := range []string{"d", "b", "a/x", "a/y"} {
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o777),
			os.WriteFile(filepath.Join(dir, name), nil, 0o666)))
	}
	for more, want := range []string{"a a/x a/y b d", ""} {
		if more > 0 {
			put(t, filepath.Join(dir, "a", "z"), "")
		}
		var seen []string
		err := WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if path != dir {
				seen = append(seen, strings.TrimPrefix(path, dir+"/"))
			}
			return err
		})
		if got := strings.Join(seen, " "); want != "" && (err != nil || got != want) {
			t.Errorf("%q, %v", got, err)
		} else if want == "" && (err == nil || !strings.Contains(err.Error(), "more than 5 files")) {
			t.Errorf("a tree of 6: %v", err)
		}
		if entries, err := ReadDir(dir); err != nil || len(entries) != 3 || entries[0].Name() != "a" {
			t.Errorf("%v, %v", entries, err)
		}
	}
	for i := range 2000 {
		put(t, filepath.Join(dir, fmt.Sprint(i)+strings.Repeat("x", 200)), "")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if entries, err := ReadDir(dir); err == nil {
		t.Errorf("read %v", entries)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 200<<10 {
		t.Errorf("%d bytes for 5 entries", after.TotalAlloc-before.TotalAlloc)
	}
	if _, err := ReadDir(filepath.Join(dir, "b")); err == nil {
		t.Error("a file was listed")
	}
}
