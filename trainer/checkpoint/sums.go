package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"restyle/internal/disk"
)

const (
	sumsName = "SHA256SUMS"
	maxSums  = 1 << 20 // bytes of SHA256SUMS; a checkpoint has a handful of files
)

// An entry is a line of SHA256SUMS.
type entry struct {
	name string // relative to the checkpoint, with slashes
	sum  [sha256.Size]byte
}

// Open verifies a directory that Write or Replace wrote: its files are those that SHA256SUMS lists, no more and no
// fewer, and each has its checksum. It reads every byte. The error names the file that is damaged, missing or not
// listed.
func Open(dir string) error {
	want, err := readSums(dir)
	if err != nil {
		return err
	}
	names := make([]string, len(want))
	for i, e := range want {
		names[i] = e.name
	}
	got, err := digest(dir, names, false)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	for i, e := range want {
		if got[i] != e {
			return fmt.Errorf("checkpoint %s: %s does not have the checksum in %s: it was damaged or changed after it was "+
				"written",
				dir, e.name, sumsName)
		}
	}
	return nil
}

// readSums reads SHA256SUMS and compares its names with the files that exist.
func readSums(dir string) ([]entry, error) {
	fail := func(format string, args ...any) ([]entry, error) {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, fmt.Errorf(format, args...))
	}
	there, _, err := files(dir)
	if err != nil {
		return fail("%w", err)
	}
	i, ok := slices.BinarySearch(there, sumsName)
	if !ok {
		return fail("missing %s: not a complete checkpoint", sumsName)
	}
	there = slices.Delete(there, i, i+1)
	data, err := disk.ReadInput(filepath.Join(dir, sumsName), maxSums)
	if err != nil {
		return fail("%w", err)
	}
	entries, err := parseSums(data)
	if err != nil {
		return fail("%s: %w", sumsName, err)
	}
	for _, e := range entries {
		if _, ok := slices.BinarySearch(there, e.name); !ok {
			return fail("%s is missing", e.name)
		}
	}
	for _, name := range there {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.name == name }) {
			return fail("unexpected file %s (not in %s): move it elsewhere", name, sumsName)
		}
	}
	return entries, nil
}

// files returns the sorted relative names of all files below dir, and all directories, the outermost first. Anything
// else, such as a link, whose target could change, is an error.
func files(dir string) (names, dirs []string, err error) {
	if info, err := os.Lstat(dir); err != nil {
		return nil, nil, err
	} else if !info.IsDir() {
		return nil, nil, errors.New("it is not a directory")
	}
	err = disk.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			dirs = append(dirs, path)
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if !d.Type().IsRegular() {
			return fmt.Errorf("%q is not a regular file (%s)", name, d.Type())
		}
		if err := checkName(name); err != nil {
			return err
		}
		names = append(names, name)
		return nil
	})
	slices.Sort(names)
	return names, dirs, err
}

// checkName returns an error for names that lead out of the directory, and for those that sha256sum would escape.
func checkName(name string) error {
	escaped := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	if !fs.ValidPath(name) || name == "." || strings.ContainsFunc(name, escaped) {
		return fmt.Errorf("%q cannot be the name of a file in a checkpoint", name)
	}
	return nil
}

// formatSums formats entries, which are sorted by name, as sha256sum does.
func formatSums(entries []entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%x  %s\n", e.sum, e.name)
	}
	return b.Bytes()
}

// parseSums parses exactly what formatSums returns, so that no damage goes unnoticed. (sha256sum itself also accepts
// capital digits, another order, and a name twice.)
func parseSums(data []byte) ([]entry, error) {
	if len(data) == 0 {
		return nil, errors.New("it is empty")
	}
	if data[len(data)-1] != '\n' {
		return nil, errors.New("its last line is incomplete")
	}
	const digits = 2 * sha256.Size
	var entries []entry
	for i, line := range strings.Split(string(data[:len(data)-1]), "\n") {
		var e entry
		if len(line) <= digits+2 || line[digits:digits+2] != "  " {
			return nil, fmt.Errorf("line %d is not a checksum, two spaces and a name", i+1)
		}
		if _, err := hex.Decode(e.sum[:], []byte(line[:digits])); err != nil || strings.ContainsAny(line[:digits], "ABCDEF") {
			return nil, fmt.Errorf("line %d: %q is not a checksum of %d lower-case hexadecimal digits", i+1, line[:digits],
				digits)
		}
		e.name = line[digits+2:]
		if err := checkName(e.name); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if e.name == sumsName {
			return nil, fmt.Errorf("line %d: it lists itself", i+1)
		}
		if n := len(entries); n > 0 && entries[n-1].name >= e.name {
			return nil, fmt.Errorf("line %d: %q is out of order after %q", i+1, e.name, entries[n-1].name)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// digest hashes files of a directory, several at a time, and if durable syncs each to the disk.
func digest(dir string, names []string, durable bool) ([]entry, error) {
	entries, errs := make([]entry, len(names)), make([]error, len(names))
	one := func(i int, buf []byte) error {
		f, err := disk.Open(filepath.Join(dir, filepath.FromSlash(names[i])), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, buf); err != nil {
			return err
		}
		entries[i].name = names[i]
		h.Sum(entries[i].sum[:0])
		if durable {
			return f.Sync()
		}
		return nil
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(names), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			buf := make([]byte, 256<<10)
			for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
				errs[i] = one(i, buf)
			}
		})
	}
	workers.Wait()
	return entries, errors.Join(errs...)
}
