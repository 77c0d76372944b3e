package parity

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"restyle/gguf"
	"restyle/hf"
)

// malformed damages files as the recorded recipes say, and compares whether they are refused, as models or, if they are
// not those of one, as files.
func (q *ggufFolder) malformed() error {
	if err := q.stored("tiny.gguf", "content."); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "restyle-parity-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "damaged.gguf")
	for i := range q.j.under("recipes.") {
		at := fmt.Sprintf("recipes.%d.", i)
		if err := q.recipe(at, path); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSuffix(at, "."), err)
		}
	}
	return nil
}

// recipe makes one damaged file and opens it.
func (q *ggufFolder) recipe(at, path string) error {
	var file, expect string
	q.j.get(at+"file", &file)
	q.j.get(at+"expect", &expect)
	data, err := q.read(file)
	if err != nil {
		return err
	}
	for i := 0; q.j.hasAny(fmt.Sprintf("%sedits.%d.", at, i)); i++ {
		edit := fmt.Sprintf("%sedits.%d.", at, i)
		var from int
		var bytes string
		q.j.get(edit+"at", &from)
		q.j.get(edit+"hex", &bytes)
		b, err := hex.DecodeString(bytes)
		if err != nil || from < 0 || from+len(b) > len(data) {
			return fmt.Errorf("%d bytes of %q at %d, %w", len(data), bytes, from, err)
		}
		copy(data[from:], b)
	}
	if q.j.has(at + "truncate") {
		var size int
		if q.j.get(at+"truncate", &size); size < 0 || size > len(data) {
			return fmt.Errorf("it truncates %d bytes to %d", len(data), size)
		}
		data = data[:size]
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = openedAs(path, filepath.Base(file) == "tiny.gguf")
	runtime.ReadMemStats(&after)
	key := q.j.key(at + "expect")
	switch expect {
	case "refuse":
		q.compare("refused files", key, differ(err != nil && strings.Contains(err.Error(), path)), exact)
		q.property("MB allocated", key, float64(after.TotalAlloc-before.TotalAlloc)/1e6, limitRefusal)
	case "accept":
		q.compare("accepted files", key, differ(err == nil), exact)
	case "either":
		q.compare("files that may be refused", key, differ(err == nil || strings.Contains(err.Error(), path)), exact)
	default:
		q.fail("unreadable", key, fmt.Sprintf("%.20q is no expectation", expect))
	}
	q.j.strikeAll(at, input)
	return nil
}

// openedAs opens a file, as a model unless it has only tensors for this purpose.
func openedAs(path string, tiny bool) error {
	if !tiny {
		ck, err := hf.OpenGGUF(path)
		if err == nil {
			err = ck.Close()
		}
		return err
	}
	f, err := gguf.Open(path)
	if err == nil {
		err = f.Close()
	}
	return err
}
