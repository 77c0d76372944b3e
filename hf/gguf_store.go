package hf

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"restyle/gguf"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// ggufStore reads parameters from a GGUF file as restyle stores them: rows in order, and blocks as quantized rows of
// U8.
type ggufStore struct {
	file   *gguf.File
	places map[string]ggufPlace // by the parameters' names
}

// ggufWeights returns the weights of a GGUF file, and the types of the quantized ones. Tensors with names that are
// unknown have them here as well, so that a check finds them.
func ggufWeights(f *gguf.File, c model.Config) (*weights, model.Quantization, error) {
	s := &ggufStore{f, map[string]ggufPlace{}}
	w := &weights{shards: []store{s}, where: map[string]store{}}
	var q model.Quantization
	for _, t := range f.Tensors() {
		if t.Name == ropeFactors {
			continue
		}
		if !t.Type.Supported() {
			return nil, q, fmt.Errorf("%s is %v: only %v are read: take a file of another type", t.Name, t.Type, gguf.Types)
		}
		places, err := ggufPlaces(c, t)
		if err != nil {
			return nil, q, err
		}
		if places == nil {
			w.where[t.Name] = s
		}
		for name, place := range places {
			s.places[name] = place
			w.where[name] = s
			if of := quant.FromGGUF(t.Type); of != 0 {
				if q.Weights == nil {
					q.Weights = map[string]tensor.DType{}
				}
				q.Weights[name] = of
			}
		}
	}
	return w, q, nil
}

// matrix describes a parameter: its type, shape, and where its bytes start in the tensor. A vector is a matrix with
// rows of one element.
func (s *ggufStore) matrix(name string) (t gguf.Tensor, rows, in int, at int64, ok bool) {
	place, ok := s.places[name]
	if !ok {
		return t, 0, 0, 0, false
	}
	t, _ = s.file.Tensor(place.tensor)
	rows, in = t.Dims[0], 1
	if len(t.Dims) > 1 {
		rows, in = t.Dims[1], t.Dims[0]
	}
	if place.expert >= 0 {
		at = int64(place.expert) * int64(rows) * int64(t.Type.RowBytes(in))
	}
	return t, rows, in, at, true
}

// Tensor describes a parameter as it would be in a safetensors file.
func (s *ggufStore) Tensor(name string) (Info, bool) {
	t, rows, in, _, ok := s.matrix(name)
	if !ok {
		return Info{}, false
	}
	shape := slices.Clone(t.Dims)
	slices.Reverse(shape)
	if s.places[name].expert >= 0 {
		shape = shape[1:]
	}
	if of := quant.FromGGUF(t.Type); of != 0 {
		return Info{"U8", []int{rows, of.RowBytes(in)}, int64(rows) * int64(of.RowBytes(in))}, true
	}
	return Info{t.Type.String(), shape, int64(rows) * int64(t.Type.RowBytes(in))}, true
}

// ReadAt reads part of what Tensor describes.
func (s *ggufStore) ReadAt(name string, dst []byte, offset int64) error {
	t, _, in, at, ok := s.matrix(name)
	info, _ := s.Tensor(name)
	if !ok || offset < 0 || int64(len(dst)) > info.Bytes-offset {
		return fmt.Errorf("%s: %s has %d bytes, not %d from byte %d on", s.file.Name, name, info.Bytes, len(dst), offset)
	}
	of := quant.FromGGUF(t.Type)
	if of == 0 && s.places[name].heads == 0 {
		return s.file.ReadAt(t.Name, dst, at+offset)
	}
	row := int64(t.Type.RowBytes(in))
	if of != 0 {
		row = int64(of.RowBytes(in))
	}
	lo, hi := int(offset/row), int((offset+int64(len(dst))+row-1)/row)
	rows, err := s.rows(name, lo, hi)
	if err == nil && of != 0 {
		packed := make([]byte, (hi-lo)*int(row))
		err = quant.Pack(packed, rows, of, in)
		rows = packed
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.file.Name, t.Name, err)
	}
	copy(dst, rows[offset-int64(lo)*row:])
	return nil
}

// rows reads the rows lo to hi-1 of a parameter, in order, as the file has them.
func (s *ggufStore) rows(name string, lo, hi int) ([]byte, error) {
	t, all, in, at, _ := s.matrix(name)
	row := t.Type.RowBytes(in)
	d := 1 // rows that are read together
	if heads := s.places[name].heads; heads > 0 {
		d = all / heads
	}
	first := lo / d * d
	data := make([]byte, ((hi+d-1)/d*d-first)*row)
	if err := s.file.ReadAt(t.Name, data, at+int64(first)*int64(row)); err != nil || d == 1 {
		return data, err
	}
	rows := make([]byte, 0, (hi-lo)*row)
	for i := lo; i < hi; i++ {
		from := i/d*d - first + rotated(i%d, d)
		rows = append(rows, data[from*row:][:row]...)
	}
	return rows, nil
}

// Close closes the file.
func (s *ggufStore) Close() error { return s.file.Close() }

func (s *ggufStore) label() string { return s.file.Name }

// writeSums writes only the hashes, because files are often renamed.
func (s *ggufStore) writeSums(w io.Writer) error {
	var lines strings.Builder
	if err := s.file.WriteSums(&lines); err != nil {
		return err
	}
	for line := range strings.Lines(lines.String()) {
		sum, _, _ := strings.Cut(line, " ")
		if _, err := fmt.Fprintln(w, sum); err != nil {
			return err
		}
	}
	return nil
}
