package dataset

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/hf/hub"
	"restyle/internal/disk"

	"github.com/klauspost/compress/zstd"
)

// StarterSpec is the spec of the embedded dataset.
const StarterSpec = "starter"

// Options are the settings of Open and OpenConversations. The zero value reads any local file.
type Options struct {
	// Split is the split of a dataset on the hub or in a directory: "train" if empty, "directory/split" if several
	// directories have the split, or the path or pattern of its files. Other files have no splits.
	Split   string
	Columns Columns  // the columns that hold a row; zero: recognize known names
	Starter []byte   // the parquet file that StarterSpec names
	Hub     *hub.Hub // fetches hub ids; nil: hub.FromEnv()

	// Apart lists files that the caller reads or writes otherwise. A directory whose split would have one is an error.
	Apart []string

	// SkipBad makes Next continue after a row that it cannot read, for which it returns a [BadRow].
	SkipBad bool
}

// Source reads the rows of a dataset in order. It is not safe for concurrent use. The caller must close it.
type Source struct {
	Name     string  // the file's or directory's base name, the hub id, each perhaps with ":config", or "starter"
	Revision string  // identifies the content: the commit on the hub, or the SHA-256 of the file in hex
	Columns  Columns // the columns of the rows, as given or recognized

	want  wanted
	names []string // the columns of the records, as found in the files so far
	parts []part   // the files still to be read, in order
	cur   *table   // the file being read, nil between files
	skip  bool     // bad rows
	first []string // the first record, until it is returned
	bad   error    // or why it cannot be read
	rows  int
	index int
	there names // the columns of the rows so far
	noted int   // of the columns of the current file
	keys  names // of messages, which rows do not have
	files []string
	err   error
}

// part is one file of a source. It is opened only when the reader reaches it, so that reading the start of a hub
// dataset downloads only its first files.
type part struct {
	name string
	open func(wanted) (*table, error)
}

// table is an open file of records, each with one value per column that wanted.pick chose.
type table struct {
	columns []string                 // the chosen columns; reading rows may add a name, but never removes one
	rows    int                      // -1 if the format does not tell
	next    func() ([]string, error) // io.EOF after the last
	close   func() error

	there  names  // all columns, as far as they are known
	beside []byte // of the record that next returned last: what wanted.beside chose, as a JSON object, or nothing
}

// Open opens the source that spec names:
//
//   - "starter": the embedded dataset, o.Starter;
//   - a path to a parquet, JSON or JSONL file. Its content decides, not its name. JSON is an array of objects, JSONL
//     one object per line; [Source.Unused] returns the keys that are not used. gen writes all three. A file named .csv
//     or .tsv has values separated by commas or tabs, and columns named in its first line. All but parquet may be
//     packed with gzip, zstd or bzip2;
//   - "owner/name" or "owner/name@revision": a dataset on the Hugging Face hub. A dataset of several configs has the
//     name of one after it, as in "owner/name:config". In "owner/name:config/split", the split takes precedence over
//     o.Split;
//   - a directory, which is read like a dataset on the hub, also as "directory:config".
//
// A source without known columns for a question and an answer may have whole conversations in the column messages or
// conversations, as [OpenConversations] reads them. A row is then the first question and the answer to it.
//
// Open reads the first row, so that a file without the columns is an error here, which lists the columns that it has.
// ctx must stay valid while the source is in use.
func Open(ctx context.Context, spec string, o Options) (*Source, error) {
	return open(ctx, spec, o, wanted{Columns: o.Columns})
}

// open opens a source for the wanted values.
func open(ctx context.Context, spec string, o Options, w wanted) (*Source, error) {
	if spec == StarterSpec {
		if len(o.Starter) == 0 {
			return nil, errors.New("dataset: this program has no starter dataset: name a file or a hub id")
		}
		sum := sha256.Sum256(o.Starter)
		return newSource(StarterSpec, hex.EncodeToString(sum[:]), o, w, []part{{StarterSpec, func(w wanted) (*table, error) {
			return openParquet(bytes.NewReader(o.Starter), int64(len(o.Starter)), w)
		}}})
	}
	path, config, isDir := local(spec)
	if isDir {
		return openDirectory(ctx, path, config, o, w)
	}
	if bare, config := cutConfig(spec); path == "" && looksLikeHubID(bare) {
		return openHub(ctx, bare, config, o, w)
	}
	sum, err := digest(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return newSource(filepath.Base(spec), sum, o, w, []part{filePart(ctx, spec)})
}

// newSource makes a source of files and reads its first row.
func newSource(name, revision string, o Options, w wanted, parts []part) (*Source, error) {
	s := &Source{Name: name, Revision: revision, want: w, parts: parts, rows: -1, skip: o.SkipBad}
	if len(parts) == 1 {
		s.rows = 0 // step sets it when it opens the file
	}
	for _, p := range parts {
		if p.name != name {
			s.files = append(s.files, p.name)
		}
	}
	first, err := s.record()
	if bad, ok := errors.AsType[*BadRow](err); ok && bad.Skipped {
		s.bad, err = bad, nil
	}
	if err != nil {
		s.Close()
		if err == io.EOF {
			err = fmt.Errorf("dataset: %s has no rows", name)
		}
		return nil, err
	}
	s.first = first
	if !w.Training && w.conversation(s.names) && first != nil {
		s.talk(first[0]) // for the keys that are not used; Next returns an error
	}
	return s, nil
}

// Rows returns the number of rows if the format states it (one parquet file), otherwise -1.
func (s *Source) Rows() int { return s.rows }

// Next returns the next row, or io.EOF after the last. Any other error names the file and the row or line and is final:
// the rest of the file is not trusted. Next continues only after a [BadRow] that is Skipped.
func (s *Source) Next() (Row, error) {
	rec, err := s.take()
	if err != nil {
		return Row{}, err
	}
	row, err := s.row(rec)
	if err != nil {
		at := s.index - 1
		return Row{}, s.badRow(at, fmt.Errorf("dataset: %s: row %d: %w", s.Name, at, err))
	}
	return row, nil
}

// take returns the next record. newSource has read the first one already.
func (s *Source) take() ([]string, error) {
	rec, err := s.first, s.bad
	if s.first, s.bad = nil, nil; rec == nil && err == nil {
		rec, err = s.record()
	}
	if bad, ok := errors.AsType[*BadRow](err); err == nil || ok && bad.Skipped {
		s.index++
	}
	return rec, err
}

// Close closes the source. Next must not be called after it.
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

// Unused returns the columns of the rows so far that are not used. If rows are made of conversations, it also returns
// the keys of messages that are not.
func (s *Source) Unused() []string {
	unused := slices.DeleteFunc(slices.Clone(s.there.list), func(column string) bool {
		return slices.Contains(s.names, column) || !s.want.Training && s.want.beside([]string{column}, s.names) != nil
	})
	return append(unused, s.keys.list...)
}

// record returns the next record of the current file, or of the next one, with what it has besides its columns after
// them.
func (s *Source) record() ([]string, error) {
	if s.err != nil {
		return nil, s.err
	}
	rec, err := s.step()
	if _, ok := errors.AsType[*unreadable](err); ok {
		return nil, s.badRow(s.index, err)
	}
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
			s.cur, s.noted = cur, 0
			if s.rows == 0 {
				s.rows = cur.rows
			}
		}
		rec, err := s.cur.next()
		name := s.parts[0].name
		if err == nil {
			if now := s.cur.columns; !sameColumns(s.names, now) {
				return nil, columnsErrorf("dataset: %s: its columns (%s) are not those of the files before (%s): name the columns",
					name, describe(now), describe(s.names))
			} else if s.names = now; len(now) == rowWidth {
				s.Columns = columnsOf(now)
			}
			s.there.add(s.cur.there.list[s.noted:]...)
			s.noted = len(s.cur.there.list)
			return append(rec, string(s.cur.beside)), nil
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

// sameColumns reports whether now has the same columns as old, or old is nil. Only optional ones may be missing from
// some files.
func sameColumns(old, now []string) bool {
	if old == nil {
		return true
	}
	if len(old) != len(now) {
		return false
	}
	for i := range old {
		if !isOptional(i) && old[i] != now[i] {
			return false
		}
	}
	return true
}

// ReadRewritten reads a whole file that gen wrote, in any of its formats. Every row must have all four keys. Other keys
// are ignored.
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

// filePart returns the part that is a local file of any format.
func filePart(ctx context.Context, path string) part {
	return part{filepath.Base(path), func(w wanted) (*table, error) { return openFile(ctx, path, w) }}
}

// regular returns an error unless path is a regular file that is not empty.
func regular(path string) error {
	info, err := os.Stat(path) // opening a pipe would wait for its writer
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: %w: name a file, a hub id (owner/name) or %q", path, os.ErrNotExist, StarterSpec)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it (%s)", path,
			strings.Join(extensions, ", "))
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file (%s): save it to one first", path, info.Mode().Type())
	case info.Size() == 0:
		return fmt.Errorf("%s is empty", path)
	}
	return nil
}

// digest returns the SHA-256 of a regular file, in hex. A large one takes a while, which ctx ends.
func digest(ctx context.Context, path string) (string, error) {
	if err := regular(path); err != nil {
		return "", err
	}
	f, err := disk.OpenInput(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, disk.Until(ctx, f)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// foreign lists the first bytes of other formats that people try.
var foreign = []struct{ magic, what string }{
	{"\xfd7zXZ", "an xz file: unpack it first (xz -d)"},
	{"PK\x03\x04", "a zip archive: unpack it first"},
	{"ARROW1", "an Arrow file: convert it to parquet"},
	{"PARE", "an encrypted parquet file: decrypt it first"},
	{"version https://git-lfs", "a Git LFS pointer, not the data: fetch the data with git lfs pull"},
	{"\xff\xfe\x00\x00", "UTF-32 text: convert it to UTF-8"},
	{"\xff\xfe", "UTF-16 text: convert it to UTF-8"},
	{"\xfe\xff", "UTF-16 text: convert it to UTF-8"},
	{"<", "a web page or XML, not data"},
}

// openFile opens a local file. Its content decides the format.
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
	at := slices.IndexFunc(packings, func(p packing) bool { return strings.HasPrefix(start, p.magic) })
	if at < 0 {
		return openText(f, start, f.Name(), w)
	}
	p := packings[at]
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r, err := p.unpack(f, info.Size())
	if err != nil {
		return nil, p.damaged(err)
	}
	in := bufio.NewReaderSize(&packedReader{r, p, maxUnpacked(info.Size())}, len(head))
	first, err := in.Peek(len(head))
	if err != nil && err != io.EOF {
		return nil, err
	}
	if strings.HasPrefix(string(first), "PAR1") {
		return nil, fmt.Errorf("this is a parquet file in a %s file: unpack it first", p.name)
	}
	return openText(struct {
		io.Reader
		io.Closer
	}{in, f}, string(first), f.Name(), w)
}

// A packing is how files are packed.
type packing struct {
	magic, name, ext string
	unpack           func(r io.Reader, size int64) (io.Reader, error) // size is the packed file's
}

var packings = []packing{
	{"\x1f\x8b", "gzip", ".gz", func(r io.Reader, _ int64) (io.Reader, error) { return gzip.NewReader(r) }},
	{"\x28\xb5\x2f\xfd", "zstd", ".zst", func(r io.Reader, size int64) (io.Reader, error) {
		// The decoder may take a window of the size that the file names, however short the rest is. zstd's own limits are 8
		// MiB for what every decoder must read, and 128 MiB.
		window := min(8<<20+64*uint64(size), 128<<20)
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	}},
	{"BZh", "bzip2", ".bz2", func(r io.Reader, _ int64) (io.Reader, error) { return bzip2.NewReader(r), nil }},
}

// maxUnpacked returns how many bytes a packed file of size bytes may unpack to. Text packs to a third or a tenth; rows
// that repeat a prompt pack to a fiftieth. A file made for it packs to a thousandth or, with zstd and bzip2, to
// nothing.
func maxUnpacked(size int64) int64 { return 16<<20 + min(size, 1<<50)*maxRatio }

const maxRatio = 100

// unpackedName returns a file's name without the extension of a packing.
func unpackedName(name string) string {
	for _, p := range packings {
		if n := len(name) - len(p.ext); n > 0 && strings.EqualFold(name[n:], p.ext) {
			return name[:n]
		}
	}
	return name
}

// packedReader is a reader whose errors say that the file is damaged, or that it unpacks to more than left bytes.
type packedReader struct {
	io.Reader
	packing packing
	left    int64
}

func (u *packedReader) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	u.left -= int64(n) + rowSize*int64(bytes.Count(p[:n], []byte("\n"))) // each line may be a row
	if u.left < 0 {
		return 0, fmt.Errorf("it unpacks to more than %d times its size, as no honest data does: if you trust it, unpack it "+
			"first (%s -d)", maxRatio, u.packing.name)
	}
	if err != nil && err != io.EOF {
		err = u.packing.damaged(err)
	}
	return n, err
}

// damaged returns the error of a file that cannot be unpacked.
func (p packing) damaged(err error) error {
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return errors.New("its window is far larger than the file: unpack it first (zstd -d --long=31)")
	}
	// Not %w: whoever reads JSON would take an unexpected end of the file for the end of the JSON in it.
	return fmt.Errorf("%s cannot unpack it: %v: the file is damaged or cut short: get it again", p.name, err)
}

// openText opens what is not parquet. start is the first 512 bytes.
func openText(f io.ReadCloser, start, name string, w wanted) (*table, error) {
	for _, k := range foreign {
		if strings.HasPrefix(start, k.magic) {
			return nil, fmt.Errorf("this is %s", k.what)
		}
	}
	start = strings.TrimLeft(strings.TrimPrefix(start, "\ufeff"), " \t\r\n")
	separator := separatorOf(name)
	switch {
	case strings.Contains(start[:min(2, len(start))], "\x00"): // the other half of the first character
		return nil, errors.New("this is UTF-16 or UTF-32 text without a byte-order mark: convert it to UTF-8")
	case separator != 0:
		return openCSV(f, separator, w)
	case strings.HasPrefix(start, "["):
		return openJSON(f, w)
	case strings.HasPrefix(start, "{"):
		return openJSONL(f, w)
	case start == "":
		return nil, errors.New("the file starts with nothing but white space: must be parquet, a JSON array or JSON lines")
	}
	err := fmt.Errorf("this is neither parquet nor a JSON array nor JSON lines (it starts with %.20q); "+
		"a file of values separated by commas must be named .csv", start)
	if w.Training {
		return nil, &SettingError{"text", fmt.Errorf("%w, and plain text be given as a text", err)}
	}
	return nil, err
}
