package dataset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"restyle/hf/hub"
	"restyle/internal/disk"
)

// StarterSpec is the spec of the embedded set.
const StarterSpec = "starter"

// Options are the settings of Open and OpenConversations. The zero value reads any local file.
type Options struct {
	Split   string   // of a hub dataset: "train" if empty; "folder/split" where several folders have it. Files have none.
	Columns Columns  // which columns hold a row; zero: recognise known names
	Starter []byte   // the parquet file that StarterSpec stands for
	Hub     *hub.Hub // where hub ids are fetched; nil: hub.FromEnv()
}

// Source gives the rows of a data set in order. It is not safe for use by
// several goroutines at once. Close it.
type Source struct {
	Name     string  // the file's base name, the hub id, or "starter"
	Revision string  // what pins the content: the commit on the hub, else the SHA-256 of the file in hex
	Columns  Columns // the columns that rows are read from, as given or recognised

	want  wanted
	names []string // the columns that records hold, as the files so far have them
	parts []part   // the files still to be read, in order
	cur   *table   // the file being read, nil between files
	first []string
	rows  int
	index int
	err   error
}

// part is one file of a source. Opened only when its turn comes, so that a hub
// data set of many files is downloaded as far as it is read.
type part struct {
	name string
	open func(wanted) (*table, error)
}

// table is an opened file: records of as many values as wanted.pick chose.
type table struct {
	columns []string                 // the chosen columns; may gain a name while rows are read, never lose one
	rows    int                      // -1 where only reading to the end would tell
	next    func() ([]string, error) // io.EOF after the last
	close   func() error
}

// Open opens the source that spec names:
//
//   - "starter": the embedded set, o.Starter;
//   - a path to a parquet, JSON or JSONL file. What is in the file decides, not its
//     name. JSON is an array of objects, JSONL an object a line; a key that is not
//     asked for is ignored. gen's own output is one of these;
//   - "owner/name" or "owner/name@revision": a data set on the Hugging Face hub.
//
// The first row is read at once, so a file without the columns fails here, with an
// error that lists those it has. ctx holds for the life of the source.
func Open(ctx context.Context, spec string, o Options) (*Source, error) {
	return open(ctx, spec, o, wanted{Columns: o.Columns})
}

// open opens a source of which the wanted values are read.
func open(ctx context.Context, spec string, o Options, w wanted) (*Source, error) {
	if spec == StarterSpec {
		if len(o.Starter) == 0 {
			return nil, errors.New("dataset: this program carries no starter set: name a file or a hub id")
		}
		sum := sha256.Sum256(o.Starter)
		return newSource(StarterSpec, hex.EncodeToString(sum[:]), w, []part{{StarterSpec, func(w wanted) (*table, error) {
			return openParquet(bytes.NewReader(o.Starter), int64(len(o.Starter)), w)
		}}})
	}
	if _, err := os.Stat(spec); err != nil && errors.Is(err, os.ErrNotExist) && looksLikeHubID(spec) {
		return openHub(ctx, spec, o, w)
	}
	sum, err := digest(spec)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return newSource(filepath.Base(spec), sum, w, []part{filePart(ctx, spec)})
}

// newSource makes a source of files and reads as far as its first row.
func newSource(name, revision string, w wanted, parts []part) (*Source, error) {
	s := &Source{Name: name, Revision: revision, want: w, parts: parts, rows: -1}
	if len(parts) == 1 {
		s.rows = 0 // to be filled in by the only file
	}
	first, err := s.record()
	if err != nil {
		s.Close()
		if err == io.EOF {
			err = fmt.Errorf("dataset: %s has no rows", name)
		}
		return nil, err
	}
	s.first = first
	return s, nil
}

// Rows is the number of rows where the format states it (parquet, one file), else -1.
func (s *Source) Rows() int { return s.rows }

// Next returns the next row, and io.EOF after the last. Any other error names the
// file and the row or line and is final: what follows in the file is not trusted.
func (s *Source) Next() (Row, error) {
	rec, err := s.take()
	if err != nil {
		return Row{}, err
	}
	return Row{Instruction: rec[0], Input: rec[1], Output: rec[2], Index: s.index - 1}, nil
}

// take returns the next record, the first of which was read when the source was opened.
func (s *Source) take() ([]string, error) {
	rec, err := s.first, error(nil)
	if s.first = nil; rec == nil {
		rec, err = s.record()
	}
	if err == nil {
		s.index++
	}
	return rec, err
}

// Close ends the source. Next must not be called after it.
func (s *Source) Close() error {
	s.parts, s.first = nil, nil
	if s.err == nil {
		s.err = errors.New("dataset: the source is closed")
	}
	if s.cur == nil {
		return nil
	}
	cur := s.cur
	s.cur = nil
	return cur.close()
}

// record returns the next record of the current file, or of the next one.
func (s *Source) record() ([]string, error) {
	if s.err != nil {
		return nil, s.err
	}
	rec, err := s.step()
	if err != nil {
		s.err = err
	}
	return rec, err
}

func (s *Source) step() ([]string, error) {
	for {
		if s.cur == nil {
			if len(s.parts) == 0 {
				return nil, io.EOF
			}
			cur, err := s.parts[0].open(s.want)
			if err != nil {
				return nil, fmt.Errorf("dataset: %s: %w", s.parts[0].name, err)
			}
			s.cur = cur
			if s.rows == 0 {
				s.rows = cur.rows
			}
		}
		rec, err := s.cur.next()
		name := s.parts[0].name
		if err == nil {
			if now := s.cur.columns; !sameColumns(s.names, now) {
				return nil, fmt.Errorf("dataset: %s: its columns (%s) are not those of the files before (%s): choose with --columns", name, wording(now), wording(s.names))
			} else if s.names = now; len(now) == 3 {
				s.Columns = Columns{now[0], now[1], now[2]}
			}
			return rec, nil
		}
		if err != io.EOF {
			return nil, fmt.Errorf("dataset: %s: %w", name, err)
		}
		err = s.cur.close()
		s.cur, s.parts = nil, s.parts[1:]
		if err != nil {
			return nil, fmt.Errorf("dataset: %s: %w", name, err)
		}
	}
}

// sameColumns reports whether two files have the same columns, or the first is none. The input may be in some files only.
func sameColumns(old, now []string) bool {
	if old == nil {
		return true
	}
	if len(old) != len(now) {
		return false
	}
	for i := range old {
		if i != inputAt && old[i] != now[i] {
			return false
		}
	}
	return true
}

// ReadRewritten reads a whole file that gen wrote, in any of its formats. All four
// keys must be there. Extra keys are ignored.
func ReadRewritten(ctx context.Context, path string) ([]Rewritten, error) {
	if err := regular(path); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	t, err := openFile(ctx, path, wanted{Exactly: RewrittenColumns[:]})
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", filepath.Base(path), err)
	}
	defer t.close()
	var rows []Rewritten
	for {
		rec, err := t.next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("dataset: %s: %w", filepath.Base(path), err)
		}
		rows = append(rows, Rewritten{rec[0], rec[1], rec[2], rec[3]})
	}
}

// filePart is a local file, whatever its format.
func filePart(ctx context.Context, path string) part {
	return part{filepath.Base(path), func(w wanted) (*table, error) { return openFile(ctx, path, w) }}
}

// regular refuses what is not a file with something in it.
func regular(path string) error {
	info, err := os.Stat(path) // not by opening: opening a pipe would wait for its writer
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: %w: give a file, a hub id (owner/name) or %q", path, os.ErrNotExist, StarterSpec)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it (.parquet, .json or .jsonl)", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file (%s): save it to one first", path, info.Mode().Type())
	case info.Size() == 0:
		return fmt.Errorf("%s is empty", path)
	}
	return nil
}

// digest is the SHA-256 of a regular file, in hex.
func digest(path string) (string, error) {
	if err := regular(path); err != nil {
		return "", err
	}
	f, err := disk.OpenInput(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// foreign lists the beginnings of files that people try and that are not read.
var foreign = []struct{ magic, what string }{
	{"\x1f\x8b", "a gzip file: unpack it first (gunzip)"},
	{"\x28\xb5\x2f\xfd", "a zstd file: unpack it first (zstd -d)"},
	{"BZh", "a bzip2 file: unpack it first (bunzip2)"},
	{"PK\x03\x04", "a zip archive: unpack it first"},
	{"ARROW1", "an Arrow file: convert it to parquet"},
	{"PARE", "an encrypted parquet file: decrypt it first"},
	{"version https://git-lfs", "a Git LFS pointer, not the data: fetch it with git lfs pull"},
	{"\xff\xfe", "UTF-16 text: convert it to UTF-8"},
	{"\xfe\xff", "UTF-16 text: convert it to UTF-8"},
	{"<", "a web page or XML, not data"},
}

// openFile opens a local file by what is in it.
func openFile(ctx context.Context, path string, w wanted) (*table, error) {
	f, err := disk.OpenInput(path)
	if err != nil {
		return nil, err
	}
	t, err := openByContent(ctx, f, w)
	if err != nil {
		f.Close()
	}
	return t, err
}

func openByContent(ctx context.Context, f *os.File, w wanted) (*table, error) {
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	start := string(head[:n])
	if strings.HasPrefix(start, "PAR1") {
		return openInChild(ctx, f, w)
	}
	for _, k := range foreign {
		if strings.HasPrefix(start, k.magic) {
			return nil, fmt.Errorf("this is %s", k.what)
		}
	}
	start = strings.TrimLeft(strings.TrimPrefix(start, "\ufeff"), " \t\r\n")
	switch {
	case strings.Contains(start[:min(2, len(start))], "\x00"): // the other half of the first character
		return nil, errors.New("this is UTF-16 or UTF-32 text without a byte-order mark: convert it to UTF-8")
	case strings.HasPrefix(start, "["):
		return openJSON(f, w)
	case strings.HasPrefix(start, "{"):
		return openJSONL(f, w)
	case start == "":
		return nil, errors.New("there is only white space at the start: expected parquet, a JSON array or JSON lines")
	}
	return nil, fmt.Errorf("this is neither parquet nor a JSON array nor JSON lines (it begins with %.20q)", start)
}
