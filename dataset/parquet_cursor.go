package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// cursor reads the strings of one column of one row group.
type cursor struct {
	name     string
	pages    parquet.Pages
	page     parquet.Page
	values   parquet.ValueReader
	buffer   [64]parquet.Value
	ready    []parquet.Value // in buffer, not yet returned
	meta     *format.ColumnMetaData
	rows     int64
	nulls    int64
	empty    int64 // values that were empty or null
	mayEmpty bool  // all values may be empty
	counted  bool  // the statistics have the number of nulls
}

// next returns the next value, "" for null.
func (c *cursor) next() (string, error) {
	if err := c.fill(); err != nil {
		return "", err
	}
	v := c.ready[0]
	c.ready = c.ready[1:]
	stats := &c.meta.Statistics
	if v.IsNull() {
		if c.counted && len(stats.MinValue) > 0 && stats.NullCount == 0 {
			return "", c.misread("a null, but the statistics count none")
		}
		c.nulls++
		c.empty++
		return "", nil
	}
	b := v.ByteArray()
	switch {
	case bytes.Compare(b, stats.MinValue) < 0: // the minimum, or a prefix of it
		return "", c.misread("a value below the minimum of the statistics")
	case len(b) == 0:
		c.empty++
	case len(b) > maxRecord:
		return "", fmt.Errorf("a string of %d MiB: at most %d MiB are read", len(b)>>20, maxRecord>>20)
	case !utf8.Valid(b):
		return "", errors.New("not valid UTF-8 (damaged, or not text?)")
	}
	return string(b), nil // a copy: the page's memory is reused
}

// fill makes at least one value ready, or returns io.EOF.
func (c *cursor) fill() error {
	for len(c.ready) == 0 {
		if c.page == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer[:])
		c.ready = c.buffer[:n]
		if err == io.EOF && n == 0 {
			c.release()
		} else if err != nil && err != io.EOF {
			return err
		} else if n == 0 {
			return errors.New("damaged parquet file (a page without values)")
		}
	}
	return nil
}

// finish checks the column after its last row.
func (c *cursor) finish() error {
	if err := c.fill(); err == nil {
		return errors.New("damaged parquet file (more values than rows)")
	} else if err != io.EOF {
		return noEOF(err)
	}
	if c.rows == 0 || c.empty < c.rows {
		return nil
	}
	// If the statistics agree, the values really are empty: as many nulls, and a maximum that is the empty string. Some
	// writers' statistics have neither.
	s := &c.meta.Statistics
	agree := s.NullCount == c.nulls || !c.counted
	if agree && (c.nulls == c.rows && len(s.MaxValue) == 0 || s.MaxValue != nil && len(s.MaxValue) == 0) {
		return nil
	}
	if !c.mayEmpty {
		return c.misread(fmt.Sprintf("all %d values are empty", c.rows))
	}
	// An empty string takes four bytes, less in a dictionary. A column of many more bytes held other values.
	if c.meta.TotalUncompressedSize > 16*c.rows+4096 {
		return c.misread(fmt.Sprintf("all %d values are empty, out of %d bytes", c.rows, c.meta.TotalUncompressedSize))
	}
	return nil
}

// misread returns an error for values that contradict the footer.
func (c *cursor) misread(what string) error {
	return fmt.Errorf("the column is not read correctly (%s; compression %s): write the file again with snappy or zstd",
		what, c.meta.Codec)
}

func (c *cursor) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page, c.values = nil, nil
	}
}

func (c *cursor) close() {
	c.release()
	c.pages.Close()
}

func (c *cursor) fail(err error) error { return fmt.Errorf("column %q: %w", c.name, noEOF(err)) }

// nullCounts reads from the footer which columns of which row groups have the number of their nulls. If the library
// says 0, that may be missing.
func nullCounts(r io.ReaderAt, size int64) (counted func(group, leaf int) bool, err error) {
	var tail [4]byte
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	footer := make([]byte, binary.LittleEndian.Uint32(tail[:])) // checkEnds compared it with the size of the file
	if _, err := r.ReadAt(footer, size-8-int64(len(footer))); err != nil {
		return nil, err
	}
	var meta struct {
		Groups []struct {
			Columns []struct {
				Meta struct {
					Statistics struct {
						Nulls *int64 `thrift:"3,optional"`
					} `thrift:"12,optional"`
				} `thrift:"3,optional"`
			} `thrift:"1"`
		} `thrift:"4"`
	}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer, &meta); err != nil {
		return nil, fmt.Errorf("damaged parquet file (its footer: %w)", err)
	}
	return func(group, leaf int) bool {
		return group < len(meta.Groups) && leaf < len(meta.Groups[group].Columns) &&
			meta.Groups[group].Columns[leaf].Meta.Statistics.Nulls != nil
	}, nil
}
