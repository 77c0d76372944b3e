package disk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MaxRecord is the limit for a small file that describes something, such as run.json.
const MaxRecord = 16 << 20

// OpenInput opens a file for reading that another user may have made, such as one of a model's directory. It follows
// links. It returns an error for anything but a regular file: an ordinary open of a named pipe waits until some process
// writes to the pipe, and no signal ends the wait. The caller bounds what it keeps of the file; see [ReadInput].
func OpenInput(path string) (*os.File, error) { return openInput(paths{}, path) }

// OpenInputIn does what [OpenInput] does, for a name in root.
func OpenInputIn(root *os.Root, name string) (*os.File, error) { return openInput(root, name) }

func openInput(t tree, path string) (*os.File, error) {
	info, err := t.Stat(path) // opening some devices has effects
	if err == nil && !info.Mode().IsRegular() {
		err = notFile(path, kind(info.Mode()))
	}
	if err != nil {
		return nil, err
	}
	f, err := t.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err = f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular(): // it has changed meanwhile
		err = notFile(path, kind(info.Mode()))
	case info.Size() == 0 && f.SetReadDeadline(time.Time{}) == nil: // one can wait for it, as for the kernel's log
		err = notFile(path, "a stream")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadInput reads a whole file, which it opens with [OpenInput]. A file of more than limit bytes is an error, also if
// it grows while it is read.
func ReadInput(path string, limit int64) ([]byte, error) { return readInput(paths{}, path, limit) }

// ReadInputIn does what [ReadInput] does, for a name in root.
func ReadInputIn(root *os.Root, name string, limit int64) ([]byte, error) {
	return readInput(root, name, limit)
}

func readInput(t tree, path string, limit int64) ([]byte, error) {
	f, err := openInput(t, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, path, limit)
}

// ReadAll reads the rest of an open file, whose name path is in errors, as [ReadInput] does.
func ReadAll(f fs.File, path string, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size > limit {
		return nil, tooLarge(path, size, limit)
	}
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	n, err := data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && n > limit {
		err = tooLarge(path, n, limit)
	}
	if err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// Until returns a reader of r whose reads fail after ctx has ended, with its cause.
func Until(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

func tooLarge(path string, size, limit int64) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has %d bytes: such a file may have at most %d", size,
		limit)}
}

func notFile(path, what string) error {
	return &fs.PathError{Op: "open", Path: path, Err: errors.New("not a file but " + what)}
}

// maxEntries is the largest number of entries of a directory, and of all directories that [WalkDir] visits together.
// Tests take fewer.
var maxEntries = 100_000

// ReadDir returns the entries of a directory, sorted by name. A directory of more than 100,000 is an error.
func ReadDir(dir string) ([]fs.DirEntry, error) {
	left := maxEntries
	return readDir(paths{}, dir, &left)
}

// ReadDirIn does what [ReadDir] does, for a directory in root.
func ReadDirIn(root *os.Root, dir string) ([]fs.DirEntry, error) {
	left := maxEntries
	return readDir(root, dir, &left)
}

func readDir(t tree, dir string, left *int) ([]fs.DirEntry, error) {
	d, err := t.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(*left + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if *left -= len(entries); *left < 0 {
		return nil, &fs.PathError{Op: "read", Path: dir, Err: fmt.Errorf("more than %d files: name a directory with fewer",
			maxEntries)}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// WalkDir does what [filepath.WalkDir] does, for a directory that another user may have made: it follows a link only at
// root, and more than 100,000 entries in it and below it are an error.
func WalkDir(root string, f fs.WalkDirFunc) error {
	return fs.WalkDir(&walk{root: root, left: maxEntries}, ".", func(name string, d fs.DirEntry, err error) error {
		return f(filepath.Join(root, name), d, err)
	})
}

// Glob does what [filepath.Glob] does, but more than 100,000 entries in the directories that it reads are an error.
func Glob(pattern string) ([]string, error) {
	w := &walk{left: maxEntries}
	found, err := fs.Glob(w, pattern)
	return found, errors.Join(err, w.failed)
}

// A walk is a directory for fs.WalkDir and fs.Glob. It reads no more than left entries of it and of those below it.
type walk struct {
	root   string
	left   int
	failed error // fs.Glob ignores errors
}

func (w *walk) path(name string) string { return filepath.Join(w.root, filepath.FromSlash(name)) }

func (w *walk) Open(name string) (fs.File, error)     { return OpenInput(w.path(name)) }
func (w *walk) Stat(name string) (fs.FileInfo, error) { return os.Stat(w.path(name)) }
func (w *walk) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := readDir(paths{}, w.path(name), &w.left)
	if w.left < 0 {
		w.failed = err
	}
	return entries, err
}

// ReadLine returns the next line without its newline, the number n of bytes read, and whether the newline was there; at
// the end of the file n is 0. A line longer than limit is returned empty.
func ReadLine(r *bufio.Reader, limit int) (line []byte, n int, whole bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += len(part)
		if n <= limit {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch err {
		case nil:
			return bytes.TrimSuffix(line, []byte("\n")), n, true, nil
		case bufio.ErrBufferFull:
		case io.EOF:
			return line, n, false, nil
		default:
			return nil, n, false, err
		}
	}
}

func kind(m fs.FileMode) string {
	switch m.Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}
