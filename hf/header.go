package hf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"
)

// maxHeader is the safetensors library's own limit.
const maxHeader = 100_000_000

// elementBits has the element types of safetensors files, by their names in the format.
var elementBits = map[string]int64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16,
	"I32": 32, "U32": 32, "F32": 32,
	"I64": 64, "U64": 64, "F64": 64, "C64": 64,
}

// Info describes a tensor, from the header of its file.
type Info struct {
	DType string // name in the format: F32, F16, BF16, I64, I32, U8 and others
	Shape []int  // empty for a scalar
	Bytes int64
}

// entry is a tensor and the position of its bytes in the file.
type entry struct {
	Info
	name string
	at   int64
}

// parseHeader reads the JSON header of a safetensors file with payload bytes after it, and checks that the tensors fill
// these without holes or overlaps. It returns the entries in the order of their bytes, with positions counted from the
// end of the header. It allocates nothing by the sizes that the header claims.
func parseHeader(data []byte, payload int64) (entries []entry, metadata map[string]string, err error) {
	if !utf8.Valid(data) {
		return nil, nil, errors.New("the header is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') || data[0] != '{' {
		return nil, nil, errors.New("the header is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("the header is not JSON: %w", err)
		}
		name, _ := t.(string)
		if seen[name] {
			return nil, nil, fmt.Errorf("the header names %.100q twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := dec.Decode(&metadata); err != nil {
				return nil, nil, fmt.Errorf("the header's __metadata__ is not an object of strings: %w", err)
			}
			continue
		}
		var fields struct {
			DType   string  `json:"dtype"`
			Shape   []int   `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		if err := dec.Decode(&fields); err != nil {
			return nil, nil, fmt.Errorf("the header's entry of %.100q: %w", name, err)
		}
		if len(fields.Offsets) != 2 || fields.Shape == nil {
			return nil, nil, fmt.Errorf("the header's entry of %.100q lacks its shape or its two data_offsets", name)
		}
		from, to := fields.Offsets[0], fields.Offsets[1]
		if from < 0 || to < from {
			return nil, nil, fmt.Errorf("%.100q has data_offsets [%d, %d]: must ascend from 0", name, from, to)
		}
		size, err := sizeOf(fields.DType, fields.Shape)
		if err != nil {
			return nil, nil, fmt.Errorf("%.100q: %w", name, err)
		}
		if size != to-from {
			return nil, nil, fmt.Errorf("%.100q is %s of shape %s and needs %d bytes, but has %d", name, fields.DType,
				shape(fields.Shape), size, to-from)
		}
		entries = append(entries, entry{Info{fields.DType, fields.Shape, size}, name, from})
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("the header is not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nil, errors.New("more follows the header's object")
	}
	return entries, metadata, fill(entries, payload)
}

// fill sorts the entries by position, and checks that they fill the payload.
func fill(entries []entry, payload int64) error {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.name, b.name))
	})
	var end int64
	for i, e := range entries {
		switch {
		case e.at+e.Bytes > payload:
			return fmt.Errorf("%.100q ends at byte %d of %d: the file is truncated: get it again", e.name, e.at+e.Bytes, payload)
		case e.at < end:
			return fmt.Errorf("%.100q and %.100q overlap", entries[i-1].name, e.name)
		case e.at > end:
			return fmt.Errorf("%d bytes before %.100q belong to no tensor", e.at-end, e.name)
		}
		end = e.at + e.Bytes
	}
	if end != payload {
		return fmt.Errorf("%d bytes follow the last tensor", payload-end)
	}
	return nil
}

// sizeOf returns the number of bytes of a tensor.
func sizeOf(dtype string, dims []int) (int64, error) {
	bits, ok := elementBits[dtype]
	if !ok {
		return 0, fmt.Errorf("element type %.20q: unknown", dtype)
	}
	n := bits
	for _, d := range dims {
		if d < 0 || n > 0 && int64(d) > math.MaxInt64/n {
			return 0, fmt.Errorf("shape %s: impossible", shape(dims))
		}
		n *= int64(d)
	}
	if n%8 != 0 {
		return 0, fmt.Errorf("shape %s of %s: not a whole number of bytes", shape(dims), dtype)
	}
	return n / 8, nil
}

// shape formats a tensor's shape for messages, truncated if it is long.
func shape(dims []int) string {
	if len(dims) > 8 {
		return fmt.Sprintf("%v and %d more", dims[:8], len(dims)-8)
	}
	return fmt.Sprint(dims)
}
