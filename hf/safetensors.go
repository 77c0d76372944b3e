package hf

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
)

// Safetensors is an open safetensors file: named tensors after a header, https://github.com/huggingface/safetensors.
// Opening it checks the whole header. Its methods are safe for concurrent use.
type Safetensors struct {
	// Metadata is the file's own; usually {"format": "pt"}.
	Metadata map[string]string

	path    string
	file    io.ReaderAt // read, not mapped: if the file is truncated later, that is an error, not a fault
	size    int64
	entries []entry
	index   map[string]int
}

// OpenSafetensors opens a file and reads its header, at most 100 MB. It is an error if the file is truncated, or if
// tensors overlap, leave holes or do not fit their shapes.
func OpenSafetensors(path string) (*Safetensors, error) {
	return openSafetensors(directory(filepath.Dir(path)), filepath.Base(path))
}

func openSafetensors(files source, name string) (*Safetensors, error) {
	f, size, err := files.open(name)
	if err != nil {
		return nil, err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		f.Close()
		return nil, fmt.Errorf("%s cannot be read in parts: it is not an io.ReaderAt", files.path(name))
	}
	s, err := readSafetensors(files.path(name), at, size)
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func readSafetensors(path string, file io.ReaderAt, size int64) (*Safetensors, error) {
	fail := func(err error) (*Safetensors, error) { return nil, fmt.Errorf("%s: %w", path, err) }
	var length [8]byte
	if size < 8 {
		return fail(fmt.Errorf("%d bytes: too few for a safetensors file: get it again", size))
	}
	if _, err := file.ReadAt(length[:], 0); err != nil {
		return fail(err)
	}
	if string(length[:]) == pointerStart[:len(length)] {
		return fail(errPointer)
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > maxHeader:
		return fail(fmt.Errorf("its header claims %d bytes, but at most %d are allowed: it is damaged, or not a "+
			"safetensors file", n, maxHeader))
	case int64(n) > size-8:
		return fail(fmt.Errorf("its header claims %d bytes, but the file has %d: it is truncated: get it again", n, size))
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(file, 8, int64(n)), header); err != nil {
		return fail(err)
	}
	entries, metadata, err := parseHeader(header, size-8-int64(n))
	if err != nil {
		return fail(err)
	}
	s := &Safetensors{metadata, path, file, size, entries, make(map[string]int, len(entries))}
	for i := range entries {
		entries[i].at += 8 + int64(n)
		s.index[entries[i].name] = i
	}
	return s, nil
}

// Close closes the file.
func (s *Safetensors) Close() error {
	if c, ok := s.file.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Names returns the names of the tensors, in the order of their bytes.
func (s *Safetensors) Names() []string {
	names := make([]string, len(s.entries))
	for i, e := range s.entries {
		names[i] = e.name
	}
	return names
}

// Tensor describes the tensor of that name.
func (s *Safetensors) Tensor(name string) (Info, bool) {
	i, ok := s.index[name]
	if !ok {
		return Info{}, false
	}
	return s.entries[i].Info, true
}

// ReadAt reads len(dst) bytes of a tensor, starting at its byte offset. Numbers are little-endian.
func (s *Safetensors) ReadAt(name string, dst []byte, offset int64) error {
	i, ok := s.index[name]
	if !ok {
		return fmt.Errorf("%s has no tensor %.100q", s.path, name)
	}
	e := s.entries[i]
	if offset < 0 || int64(len(dst)) > e.Bytes-offset {
		return fmt.Errorf("%s: %s has %d bytes, not %d from byte %d on", s.path, name, e.Bytes, len(dst), offset)
	}
	if _, err := io.ReadFull(io.NewSectionReader(s.file, e.at+offset, int64(len(dst))), dst); err != nil {
		return fmt.Errorf("cannot read %s of %s: %w", name, s.path, err)
	}
	return nil
}

// ReadF32 reads a whole tensor of type F32, F16 or BF16 as float32, without loss, and returns it with its shape.
func (s *Safetensors) ReadF32(name string) ([]float32, []int, error) { return readF32(s, name) }

// ReadInts reads a whole tensor of type I64, I32, U8 or BOOL as int64, and returns it with its shape.
func (s *Safetensors) ReadInts(name string) ([]int64, []int, error) {
	data, info, err := readTensor(s, name)
	if err != nil {
		return nil, nil, err
	}
	var size int
	var value func([]byte) int64
	switch info.DType {
	case "I64":
		size, value = 8, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
	case "I32":
		size, value = 4, func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) }
	case "U8", "BOOL":
		size, value = 1, func(b []byte) int64 { return int64(b[0]) }
	default:
		return nil, nil, fmt.Errorf("%s: %s is %s: must be I64, I32, U8 or BOOL", s.path, name, info.DType)
	}
	values := make([]int64, len(data)/size)
	for i := range values {
		values[i] = value(data[i*size:])
	}
	return values, info.Shape, nil
}

func (s *Safetensors) label() string { return s.path }

func (s *Safetensors) writeSums(w io.Writer) error {
	sum := sha256.New()
	if _, err := io.CopyN(sum, io.NewSectionReader(s.file, 0, s.size), s.size); err != nil {
		return fmt.Errorf("cannot read %s: %w", s.path, err)
	}
	_, err := fmt.Fprintf(w, "%x  %s\n", sum.Sum(nil), filepath.Base(s.path))
	return err
}
