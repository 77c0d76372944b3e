package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"restyle/internal/disk"
)

// Metrics is metrics.jsonl: one JSON object a line, each with a single write, so that a reader beside the run sees whole
// lines. It is for one goroutine.
type Metrics struct {
	file   *disk.File
	offset int64
	err    error // the first write that failed
	line   bytes.Buffer
}

// Number is a float64 that JSON writes as null where it is not finite, for JSON has no NaN.
type Number float64

// MarshalJSON writes the number, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads a number, and null as NaN.
func (n *Number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// OpenMetrics opens the file, which is made if it is missing, for lines to be appended at offset. What is behind offset
// is cut: a run that goes on from a checkpoint writes the lines of the steps after it again, and offset is the Offset
// that was current when the checkpoint was made. An offset below 0 stands for the end of the last whole line; the rest of
// a torn one is cut. A file that is gone begins anew, whatever the offset; one that is shorter, or that has no line end at
// offset, is another file and an error.
func OpenMetrics(path string, offset int64) (*Metrics, error) {
	f, err := disk.Open(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	m := &Metrics{file: f}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		m.offset, err = lineEnd(f, size, offset)
	}
	if err == nil {
		err = f.Truncate(m.offset)
	}
	if err == nil {
		_, err = f.Seek(m.offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("metrics: %s: %w", path, err)
	}
	return m, nil
}

// newFile is what can be done about a file that is not the checkpoint's. Nothing in it decides a bit of the run.
const newFile = "it is damaged, or was changed: rename it and run the same command again, which goes on with the same bits and begins a new file"

// lineEnd is where the next line goes in a file of size bytes.
func lineEnd(f io.ReaderAt, size, offset int64) (int64, error) {
	switch {
	case size == 0 || offset == 0:
		return 0, nil
	case offset > size:
		return 0, fmt.Errorf("it has %d bytes where the checkpoint knows of %d: %s", size, offset, newFile)
	case offset > 0:
		var last [1]byte
		if _, err := f.ReadAt(last[:], offset-1); err != nil {
			return 0, err
		}
		if last[0] != '\n' {
			return 0, fmt.Errorf("byte %d, where the checkpoint's last line ends, is inside a line: %s", offset, newFile)
		}
		return offset, nil
	}
	buf := make([]byte, 64<<10)
	for size > 0 {
		n := min(size, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], size-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return size - n + int64(i) + 1, nil
		}
		size -= n
	}
	return 0, nil
}

// Write appends v as one line. A float that is not finite is an error unless its type is [Number]. After an error of the
// disk the file ends with its last whole line, and every later call returns that error.
func (m *Metrics) Write(v any) error {
	if m.err != nil {
		return m.err
	}
	m.line.Reset()
	enc := json.NewEncoder(&m.line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("metrics: %s: %w", m.file.Name(), err)
	}
	if _, err := m.file.Write(m.line.Bytes()); err != nil {
		m.err = fmt.Errorf("metrics: %w: make room and go on from the last checkpoint", err)
		m.file.Truncate(m.offset) // half a line is none
		return m.err
	}
	m.offset += int64(m.line.Len())
	return nil
}

// Offset is the length of the file in bytes: what a checkpoint keeps for OpenMetrics.
func (m *Metrics) Offset() int64 { return m.offset }

// Sync makes what was written last through a power cut. A checkpoint that keeps Offset is written after it.
func (m *Metrics) Sync() error {
	if err := m.file.Sync(); err != nil && m.err == nil {
		m.err = fmt.Errorf("metrics: %w", err)
	}
	return m.err
}

// Close syncs and closes the file.
func (m *Metrics) Close() error {
	return errors.Join(m.Sync(), m.file.Close())
}

// ReadMetrics reads every line of a metrics.jsonl, such as to draw the whole curve of a run that was resumed. A torn last
// line is left out. Any other line that is not a T is left out too: the error beside the others names the first such line and
// says how many there are.
func ReadMetrics[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer f.Close()
	var all []T
	var first error
	damaged := 0
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		switch {
		case err == io.EOF && first != nil:
			return all, fmt.Errorf("metrics: %s: %w (%d damaged of %d lines)", path, first, damaged, n-1)
		case err == io.EOF:
			return all, nil
		case err != nil:
			return all, fmt.Errorf("metrics: %s: line %d: %w", path, n, err)
		}
		var v T
		if err := json.Unmarshal(line, &v); err == nil {
			all = append(all, v)
			continue
		} else if first == nil {
			first = fmt.Errorf("line %d: %w", n, err)
		}
		damaged++
	}
}
