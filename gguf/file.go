package gguf

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"restyle/internal/disk"
)

// File is an open GGUF file, or all files of a model that is split. Opening it checks the whole header. Its methods
// are safe for concurrent use.
type File struct {
	// Name is the path of the file, or of the first one if the model is split.
	Name string
	// Version is the version of the format, 2 or 3.
	Version int
	// Alignment is the alignment of the tensors' data in the first file, in bytes.
	Alignment int

	header  string
	values  []value
	index   map[string]int // of values, by key
	tensors []placed
	where   map[string]int // of tensors, by name
	parts   []*part
}

// part is one of a model's files.
type part struct {
	path string
	file io.ReaderAt // read, not mapped: if the file is cut off later, that is an error, not a fault
	size int64
}

// Open opens a regular file and reads its header, at most 100 MB. If the key split.count says that the model is split
// into several files, Open must be given the first, NAME-00001-of-0000N.gguf, and opens the others next to it. Their
// tensors follow the first file's. Open uses only their keys about splitting: the first file has the model's. It is
// an error if the file is cut off, or if tensors overlap or leave holes. Close the File after use.
func Open(path string) (*File, error) {
	f, err := openOne(path)
	if err != nil {
		return nil, err
	}
	if err := f.join(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Is reports whether a path names a regular file that starts as GGUF files do.
func Is(path string) bool {
	f, err := disk.OpenInput(path)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, len(magic))
	_, err = io.ReadFull(f, first)
	return err == nil && string(first) == magic
}

// Read is Open for a model in one file of size bytes; name is its name in messages. Close closes r if it is an
// io.Closer.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	f, err := readOne(r, size, name)
	if err != nil {
		return nil, err
	}
	_, count, err := f.split()
	if err == nil && count > 1 {
		err = fmt.Errorf("%s: it is one of %d files of a model: join them with llama-gguf-split --merge", name, count)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func openOne(path string) (*File, error) {
	r, err := disk.OpenInput(path)
	if err != nil {
		return nil, err
	}
	info, err := r.Stat()
	if err == nil {
		var f *File
		if f, err = readOne(r, info.Size(), path); err == nil {
			return f, nil
		}
	}
	r.Close()
	return nil, err
}

func readOne(r io.ReaderAt, size int64, name string) (*File, error) {
	h, err := readHeader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &File{Name: name, Version: h.version, Alignment: h.alignment, header: h.text, values: h.values, index: h.index,
		where: make(map[string]int, len(h.tensors))}
	return f, f.add(&part{name, r, size}, h.tensors)
}

// add adds a file and its tensors.
func (f *File) add(from *part, tensors []placed) error {
	f.parts = append(f.parts, from)
	for _, t := range tensors {
		if i, twice := f.where[t.Name]; twice {
			return fmt.Errorf("%s: the tensor %q is there twice, first in %s", from.path, t.Name, f.tensors[i].file.path)
		}
		t.file = from
		f.where[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
	return nil
}

// split returns the number of this file among the files of a model, and the number of files.
func (f *File) split() (number, count int, err error) {
	v := f.Values()
	number, count = v.Int("split.no", 0), v.Int("split.count", 1)
	if number < 0 || count > 1 && number >= count {
		v.fail("its key split.no is %d of split.count %d: must be less", number, count)
	}
	return number, count, v.Err
}

// join opens the other files of a model that is split.
func (f *File) join() error {
	number, count, err := f.split()
	if err != nil || count <= 1 {
		return err
	}
	name := func(i int) string { return fmt.Sprintf("-%05d-of-%05d.gguf", i+1, count) }
	prefix, ok := strings.CutSuffix(f.Name, name(number))
	switch {
	case !ok:
		return fmt.Errorf("%s: it is file %d of %d of a model: its name must end in %s", f.Name, number+1, count,
			name(number))
	case number != 0:
		return fmt.Errorf("%s: it is file %d of %d of a model: give the first, %s", f.Name, number+1, count,
			prefix+name(0))
	}
	for i := 1; i < count; i++ {
		next, err := openOne(prefix + name(i))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: it is the first of %d files of a model, but there is no %s: get that one as well",
				f.Name, count, prefix+name(i))
		}
		if err != nil {
			return err
		}
		number, of, err := next.split()
		if err == nil && (number != i || of != count) {
			err = fmt.Errorf("%s: by its keys it is file %d of %d: get it again", next.Name, number+1, of)
		}
		if err := errors.Join(err, f.add(next.parts[0], next.tensors)); err != nil {
			return err
		}
	}
	v := f.Values()
	if n := v.Int("split.tensors.count", len(f.tensors)); n != len(f.tensors) {
		v.fail("its %d files have %d tensors, but its key split.tensors.count is %d: get them again", count,
			len(f.tensors), n)
	}
	return v.Err
}

// Close closes the files.
func (f *File) Close() error {
	var errs []error
	for _, p := range f.parts {
		if c, ok := p.file.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Paths returns the paths of the files, in order.
func (f *File) Paths() []string {
	paths := make([]string, len(f.parts))
	for i, p := range f.parts {
		paths[i] = p.path
	}
	return paths
}

// WriteSums writes a line for each file, as sha256sum does: its SHA-256 and its name without directories. It reads
// the whole files.
func (f *File) WriteSums(w io.Writer) error {
	for _, p := range f.parts {
		sum := sha256.New()
		if _, err := io.CopyN(sum, io.NewSectionReader(p.file, 0, p.size), p.size); err != nil {
			return fmt.Errorf("cannot read %s: %w", p.path, err)
		}
		if _, err := fmt.Fprintf(w, "%x  %s\n", sum.Sum(nil), filepath.Base(p.path)); err != nil {
			return err
		}
	}
	return nil
}

// Keys returns the names of the keys, in the order of the file.
func (f *File) Keys() []string {
	keys := make([]string, len(f.values))
	for i, v := range f.values {
		keys[i] = v.key
	}
	return keys
}

// Value returns the value of a key, of one of the types of [KV], or nil if there is no such key. Strings need not be
// UTF-8, and share the memory of the file's header.
func (f *File) Value(key string) any {
	v, ok := f.find(key)
	if !ok {
		return nil
	}
	return v.decode(f.header)
}

func (f *File) find(key string) (value, bool) {
	i, ok := f.index[key]
	if !ok {
		return value{}, false
	}
	return f.values[i], true
}

// Tensors returns the tensors, in the order of the files' lists.
func (f *File) Tensors() []Tensor {
	tensors := make([]Tensor, len(f.tensors))
	for i, t := range f.tensors {
		tensors[i] = t.Tensor
	}
	return tensors
}

// Tensor describes the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.where[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i].Tensor, true
}

// ReadAt reads len(p) bytes of a tensor's data, from its byte off on. The tensor's type must be one of [Types].
func (f *File) ReadAt(name string, p []byte, off int64) error {
	i, ok := f.where[name]
	if !ok {
		return fmt.Errorf("%s has no tensor %.100q", f.Name, name)
	}
	t := f.tensors[i]
	switch {
	case !t.Type.Supported():
		return fmt.Errorf("%s: %s is of type %s, which cannot be read: get the model in another, such as Q4_K_M or Q8_0",
			t.file.path, name, t.Type)
	case off < 0 || int64(len(p)) > t.Bytes-off:
		return fmt.Errorf("%s: %s has %d bytes, not %d from byte %d on", t.file.path, name, t.Bytes, len(p), off)
	}
	if _, err := io.ReadFull(io.NewSectionReader(t.file.file, t.at+off, int64(len(p))), p); err != nil {
		return fmt.Errorf("cannot read %s of %s: %w", name, t.file.path, err)
	}
	return nil
}
