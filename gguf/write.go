package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"slices"
	"unicode/utf8"

	"restyle/internal/disk"
)

// Source is a tensor to be written to a file.
type Source struct {
	Name string
	// Type is one of Types.
	Type Type
	// Dims has 1 to 4 sizes, the length of a row first, the opposite of PyTorch's order.
	Dims []int
	// Write writes the tensor's bytes, as many as its type and dimensions need.
	Write func(io.Writer) error
}

// Write writes a file of version 3, one tensor after the other, so it needs only the memory of the header and of
// Source.Write. The file gets its name when it is complete and on disk, and replaces one of that name. The same keys
// and tensors give the same bytes. Tensors are aligned to 32 bytes, or to the uint32 of the key general.alignment.
func Write(path string, keys []KV, tensors []Source) error {
	f, err := disk.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := Encode(f, keys, tensors); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return f.Commit()
}

// Encode writes to w what Write writes to a file.
func Encode(w io.Writer, keys []KV, tensors []Source) error {
	header, to, err := makeHeader(keys, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	zeros := make([]byte, to)
	for _, t := range tensors {
		size, _ := bytesOf(t.Type, t.Dims) // which makeHeader has checked
		c := counted{w: w}
		if err := t.Write(&c); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if c.n != size {
			return fmt.Errorf("%s: %d bytes were written, but its type and dimensions need %d", t.Name, c.n, size)
		}
		if _, err := w.Write(zeros[:align(size, to)-size]); err != nil {
			return err
		}
	}
	return nil
}

// makeHeader returns all bytes before the tensors' data, and the alignment.
func makeHeader(keys []KV, tensors []Source) (header []byte, to int64, err error) {
	b := append([]byte(magic), 3, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(keys)))
	to = defaultAlignment
	seen := map[string]bool{}
	for _, kv := range keys {
		if kv.Key == "" || len(kv.Key) > maxKey || !utf8.ValidString(kv.Key) || seen[kv.Key] {
			return nil, 0, fmt.Errorf("the key %.100q is empty, too long, not UTF-8, or there twice", kv.Key)
		}
		seen[kv.Key] = true
		if b, err = appendValue(appendString(b, kv.Key), kv.Value); err != nil {
			return nil, 0, fmt.Errorf("the key %.100q: %w", kv.Key, err)
		}
		if n, ok := kv.Value.(uint32); kv.Key == alignmentKey {
			if !ok || bits.OnesCount32(n) != 1 || n > maxAlignment {
				return nil, 0, fmt.Errorf("%s is %v: must be a uint32, a power of two up to %d", alignmentKey, kv.Value,
					maxAlignment)
			}
			to = int64(n)
		}
	}
	var at int64
	clear(seen)
	for _, t := range tensors {
		if len(t.Name) > maxName || !utf8.ValidString(t.Name) || seen[t.Name] {
			return nil, 0, fmt.Errorf("the tensor %.100q: its name has more than %d bytes, is not UTF-8, or there twice",
				t.Name, maxName)
		}
		seen[t.Name] = true
		if !t.Type.Supported() || len(t.Dims) < 1 || len(t.Dims) > maxDims {
			return nil, 0, fmt.Errorf("%s: %d dimensions of %v cannot be written", t.Name, len(t.Dims), t.Type)
		}
		size, err := bytesOf(t.Type, t.Dims)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", t.Name, err)
		}
		b = binary.LittleEndian.AppendUint32(appendString(b, t.Name), uint32(len(t.Dims)))
		for _, d := range t.Dims {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
		b = binary.LittleEndian.AppendUint64(b, uint64(at))
		at = align(at+size, to)
	}
	if len(b) > maxHeader {
		return nil, 0, fmt.Errorf("keys and list of tensors have %d bytes, but at most %d are allowed", len(b), maxHeader)
	}
	return append(b, make([]byte, align(int64(len(b)), to)-int64(len(b)))...), to, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue appends the type of a value and the value.
func appendValue(b []byte, v any) ([]byte, error) {
	values := reflect.ValueOf(v)
	element := reflect.TypeOf(v)
	list := element != nil && element.Kind() == reflect.Slice
	if list {
		element = element.Elem()
	}
	kind := slices.Index(kinds[:], element)
	if element == nil || kind < 0 {
		return nil, fmt.Errorf("a value of type %T cannot be written", v)
	}
	if list {
		b = binary.LittleEndian.AppendUint32(b, kindArray)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(kind))
	if list {
		b = binary.LittleEndian.AppendUint64(b, uint64(values.Len()))
	}
	var texts []string
	switch v := v.(type) {
	case string:
		texts = []string{v}
	case []string:
		texts = v
	default:
		return binary.Append(b, binary.LittleEndian, v)
	}
	for i, s := range texts {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("string %d is %.100q: must be UTF-8", i, s)
		}
		b = appendString(b, s)
	}
	return b, nil
}

// counted counts the bytes written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
