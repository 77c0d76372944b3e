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

// Metrics writes metrics.jsonl: one JSON object per line, each with a single write, so that other processes read whole
// lines. Only one goroutine may use it.
type Metrics struct {
	file   *disk.File
	offset int64
	err    error // the first write that failed
	line   bytes.Buffer
}

// Number is a float64 that is null in JSON if it is not finite, because JSON has no NaN.
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

// OpenMetrics opens the file for appending lines at offset. It creates the file if it is missing, whatever the offset
// is. It truncates the file to offset: a run that resumes from a checkpoint writes the lines of the later steps again,
// and offset is the value of Offset when the checkpoint was written. A negative offset means the end of the last
// complete line. If the file is shorter than offset, or no line ends at offset, it is another file, which is an error.
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

// newFile is the remedy for a file that does not match the checkpoint. The run does not depend on it.
const newFile = "it was damaged or changed: rename it and run the same command again, which continues with the same " +
	"bits and a new file"

// lineEnd returns where the next line starts in a file of size bytes.
func lineEnd(f io.ReaderAt, size, offset int64) (int64, error) {
	switch {
	case size == 0 || offset == 0:
		return 0, nil
	case offset > size:
		return 0, fmt.Errorf("it has %d bytes, but %d when the checkpoint was written: %s", size, offset, newFile)
	case offset > 0:
		var last [1]byte
		if _, err := f.ReadAt(last[:], offset-1); err != nil {
			return 0, err
		}
		if last[0] != '\n' {
			return 0, fmt.Errorf("byte %d, the end of the last line of the checkpoint, is inside a line: %s", offset, newFile)
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

// Write appends v as one line. A float that is not finite is an error unless its type is [Number]. After an error of
// the disk the file ends with its last complete line, and every later call returns that error.
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
		m.err = fmt.Errorf("metrics: %w: free some space and resume from the last checkpoint", err)
		m.file.Truncate(m.offset) // drop the incomplete line
		return m.err
	}
	m.offset += int64(m.line.Len())
	return nil
}

// Offset returns the length of the file in bytes, which a checkpoint keeps for OpenMetrics.
func (m *Metrics) Offset() int64 { return m.offset }

// Sync flushes the file to the disk, so that it survives a power cut. Call it before a checkpoint that keeps Offset is
// written.
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

// maxLine is the maximum length of a line in bytes; longer ones are damaged. Samples are the longest part of a line.
const maxLine = 64 << 20

// ReadMetrics reads all lines of a metrics.jsonl, for example to draw the whole curve of a resumed run. It leaves out
// an incomplete last line, and every other line that is not a T. For those it returns an error with the other lines,
// which names the first and says how many there are.
func ReadMetrics[T any](path string) ([]T, error) {
	f, err := disk.OpenInput(path)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer f.Close()
	var all []T
	var first error
	damaged := 0
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, _, whole, err := disk.ReadLine(r, maxLine)
		switch {
		case err != nil:
			return all, fmt.Errorf("metrics: %s: line %d: %w", path, n, err)
		case !whole && first != nil:
			return all, fmt.Errorf("metrics: %s: %w (%d damaged of %d lines)", path, first, damaged, n-1)
		case !whole:
			return all, nil
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
