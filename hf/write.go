package hf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"restyle/internal/disk"
	"restyle/tensor"
)

// TensorData is a tensor to be written to a file.
type TensorData struct {
	Name  string
	DType tensor.DType
	Shape []int
	// Write writes the tensor's bytes, row-major and little-endian, as many as its type and shape need.
	Write func(io.Writer) error
}

// Floats returns the numbers of a tensor of type F32, F16 or BF16.
func (t TensorData) Floats() ([]float32, error) {
	var data bytes.Buffer
	if err := t.Write(&data); err != nil {
		return nil, err
	}
	values := make([]float32, data.Len()/t.DType.Size())
	widen(values, data.Bytes(), t.DType)
	return values, nil
}

// WriteSafetensors writes a safetensors file, one tensor after the other, so it needs only the memory of
// TensorData.Write. The file gets its name when it is complete and on disk, and replaces one of that name. The same
// tensors give the same bytes. transformers expects metadata {"format": "pt"}.
func WriteSafetensors(path string, metadata map[string]string, tensors []TensorData) error {
	f, err := disk.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := writeSafetensors(f, metadata, tensors); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return f.Commit()
}

func writeSafetensors(w io.Writer, metadata map[string]string, tensors []TensorData) error {
	// The widest elements first, so that each tensor starts at a multiple of its element's size.
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b TensorData) int { return cmp.Compare(b.DType.Size(), a.DType.Size()) })
	header, sizes, err := makeHeader(metadata, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for i, t := range tensors {
		c := counted{w: w}
		if err := t.Write(&c); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if c.n != sizes[i] {
			return fmt.Errorf("%s: %d bytes were written, but its type and shape need %d", t.Name, c.n, sizes[i])
		}
	}
	return nil
}

// makeHeader returns the length and the header, padded with spaces to a multiple of 8 bytes, and the size of each
// tensor.
func makeHeader(metadata map[string]string, tensors []TensorData) (header []byte, sizes []int64, err error) {
	buf := bytes.NewBuffer(make([]byte, 8))
	next := byte('{')
	add := func(key string, value any) {
		k, _ := json.Marshal(key) // strings and numbers cannot fail
		v, _ := json.Marshal(value)
		fmt.Fprintf(buf, "%c%s:%s", next, k, v)
		next = ','
	}
	if metadata != nil {
		add("__metadata__", metadata)
	}
	names := map[string]bool{"__metadata__": true}
	var at int64
	for _, t := range tensors {
		size, err := sizeOf(t.DType.String(), t.Shape)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		if names[t.Name] {
			return nil, nil, fmt.Errorf("two tensors have the name %q", t.Name)
		}
		names[t.Name] = true
		add(t.Name, struct {
			DType   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{t.DType.String(), append([]int{}, t.Shape...), [2]int64{at, at + size}})
		at += size
		sizes = append(sizes, size)
	}
	if next == '{' {
		buf.WriteByte('{')
	}
	buf.WriteByte('}')
	for buf.Len()%8 != 0 {
		buf.WriteByte(' ')
	}
	if n := buf.Len() - 8; n > maxHeader {
		return nil, nil, fmt.Errorf("the header has %d bytes, but at most %d are allowed", n, maxHeader)
	}
	binary.LittleEndian.PutUint64(buf.Bytes(), uint64(buf.Len()-8))
	return buf.Bytes(), sizes, nil
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
