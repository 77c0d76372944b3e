package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// readable lists the compressions that the library decodes correctly, and LZ4, which unpackLZ4 decodes.
var readable = map[format.CompressionCodec]bool{
	format.Uncompressed: true, format.Snappy: true, format.Gzip: true, format.Brotli: true, format.Zstd: true,
	format.Lz4: true, format.Lz4Raw: true,
}

// openParquet reads the wanted columns of a parquet file in this process. On some damaged files the library panics or
// allocates without limit. openParquet turns panics into errors; only a child process (child.go) contains the rest.
func openParquet(r io.ReaderAt, size int64, w wanted) (t *table, err error) {
	defer recovered(&err)
	if err := checkEnds(r, size); err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	leaves, names, talks, err := stringColumns(f, w)
	if err != nil {
		return nil, err
	}
	if err := checkSizes(f, leaves, talks); err != nil {
		return nil, err
	}
	if f, err = unpackLZ4(f, r, leaves); err != nil {
		return nil, err
	}
	p := &parquetRows{file: f, leaves: leaves, talks: talks, filled: make([]bool, len(leaves))}
	return &table{
		columns: names,
		rows:    int(f.NumRows()),
		next:    p.next,
		close:   func() error { p.closeGroup(); return nil },
	}, nil
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged parquet file (the reader failed: %.200s)", fmt.Sprint(p))
	}
}

// checkEnds checks the frame of the file: "PAR1", …, footer, footer length, "PAR1".
func checkEnds(r io.ReaderAt, size int64) error {
	if size < 12 {
		return fmt.Errorf("%d bytes are too few for a parquet file", size)
	}
	var head, tail [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return err
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	if string(head[:4]) != "PAR1" {
		return errors.New("not a parquet file (it does not start with PAR1)")
	}
	if end := string(tail[4:]); end == "PARE" {
		return errors.New("the parquet file's footer is encrypted: decrypt the file first")
	} else if end != "PAR1" {
		return errors.New("the parquet file does not end with PAR1 (truncated?): fetch it again")
	}
	if n := int64(binary.LittleEndian.Uint32(tail[:4])); n > size-12 {
		return fmt.Errorf("damaged parquet file (a footer of %d bytes in a file of %d)", n, size)
	}
	return nil
}

// stringColumns returns the leaf indices and names of the wanted columns, with leaf -1 for a value that is always
// empty. All must be flat and of type string. Only conversations may be lists, one or a prompt and its completion;
// their parts are then the leaves, before that of a system prompt.
func stringColumns(f *parquet.File, w wanted) (leaves []int, names []string, talks []*turns, err error) {
	byName := map[string]*parquet.Column{}
	var there []string
	for _, c := range f.Root().Columns() {
		if byName[c.Name()] != nil {
			return nil, nil, nil, fmt.Errorf("there are two columns %q", c.Name())
		}
		byName[c.Name()] = c
		there = append(there, c.Name())
	}
	if names, err = w.pick(there); err != nil {
		return nil, nil, nil, err
	}
	if w.Training && !byName[names[0]].Leaf() && len(names) == rowWidth {
		if names, err = halves(names); err != nil {
			return nil, nil, nil, err
		}
	}
	if w.conversation(names) && !isString(byName[names[talkSystemAt]]) {
		names[talkSystemAt] = "" // it holds something else
	}
	if w.conversation(names) && !byName[names[0]].Leaf() {
		for i, name := range names {
			if i == talkSystemAt {
				continue
			}
			turns, err := listColumn(byName[name])
			if err != nil {
				return nil, nil, nil, err
			}
			talks = append(talks, turns)
			for _, leaf := range turns.leaves {
				leaves = append(leaves, leaf.Index())
			}
		}
		if name := names[talkSystemAt]; name != "" {
			leaves = append(leaves, byName[name].Index())
		}
		return leaves, names, talks, nil
	}
	for i, name := range names {
		if name == "" || isOptional(i) && byName[name].Leaf() && isNull(byName[name].Type()) {
			leaves = append(leaves, -1)
			continue
		}
		c := byName[name]
		switch {
		case !c.Leaf():
			return nil, nil, nil, columnsErrorf("column %q is nested, not a plain string: name other columns", name)
		case c.Repeated():
			return nil, nil, nil, columnsErrorf("column %q is a list, not a plain string: name other columns", name)
		case !isText(c.Type()):
			return nil, nil, nil, columnsErrorf("column %q has the type %s, not string: name other columns", name, c.Type())
		}
		leaves = append(leaves, c.Index())
	}
	return leaves, names, nil, nil
}

func isText(t parquet.Type) bool {
	if t.Kind() != parquet.ByteArray {
		return false
	}
	l := t.LogicalType()
	if l == nil || l.Value == nil {
		return true
	}
	_, ok := l.Value.(*format.StringType)
	return ok
}

// isNull reports whether a column has the type null, because it has no values: pandas writes a column of None this way.
func isNull(t parquet.Type) bool {
	l := t.LogicalType()
	if l == nil {
		return false
	}
	_, ok := l.Value.(*format.NullType)
	return ok
}

// checkSizes compares the numbers of the footer with each other and with the size of the file.
func checkSizes(f *parquet.File, leaves []int, talks []*turns) error {
	for _, turns := range talks {
		if err := turns.check(f); err != nil {
			return err
		}
	}
	meta := f.Metadata()
	codecs := map[int]*format.CompressionCodec{} // by leaf
	var sum int64
	for g, group := range meta.RowGroups {
		if group.NumRows < 0 || group.NumRows > meta.NumRows-sum {
			return fmt.Errorf("damaged parquet file (row group %d has %d rows, the file %d)", g, group.NumRows, meta.NumRows)
		}
		sum += group.NumRows
		if group.NumRows == 0 {
			continue // nothing to read
		}
		for _, c := range f.Root().Columns() {
			if !c.Leaf() {
				continue
			}
			if c.Index() >= len(group.Columns) {
				return fmt.Errorf("damaged parquet file (row group %d has %d columns)", g, len(group.Columns))
			}
			// The footer has each name twice. With a damaged name the column would seem absent, and the input would be lost.
			if p := group.Columns[c.Index()].MetaData.PathInSchema; len(p) > 0 && p[0] != c.Name() {
				return fmt.Errorf("damaged parquet file (the column %.60q is called %.60q in row group %d)", c.Name(), p[0], g)
			}
		}
		for _, leaf := range leaves {
			if leaf < 0 {
				continue
			}
			m := group.Columns[leaf].MetaData
			start := firstPage(&m)
			if codecs[leaf] == nil {
				codecs[leaf] = &m.Codec
			}
			switch {
			case !readable[m.Codec]:
				return fmt.Errorf("the compression %s is not read: write the file again with snappy or zstd", m.Codec)
			case m.Codec != *codecs[leaf]: // the library takes that of the first for all
				return fmt.Errorf("row group %d has the compression %s, and one before it %s: write the file again with one", g,
					m.Codec, *codecs[leaf])
			case group.Columns[leaf].FilePath != "":
				return fmt.Errorf("row group %d is in another file (%.60q)", g, group.Columns[leaf].FilePath)
			case m.NumValues < group.NumRows || m.NumValues > group.NumRows && talks == nil:
				return fmt.Errorf("damaged parquet file (row group %d: %d values for %d rows)", g, m.NumValues, group.NumRows)
			case start < 4 || m.TotalCompressedSize < 0 || m.TotalUncompressedSize < 0 || start > f.Size()-m.TotalCompressedSize:
				return fmt.Errorf("damaged parquet file (row group %d: %d bytes at %d in a file of %d)",
					g, m.TotalCompressedSize, start, f.Size())
			}
		}
	}
	if sum != meta.NumRows {
		return fmt.Errorf("damaged parquet file (%d rows in its row groups, %d in its footer)", sum, meta.NumRows)
	}
	return nil
}

// parquetRows reads the row groups with one cursor per column.
type parquetRows struct {
	file    *parquet.File
	leaves  []int
	talks   []*turns  // nil if rows are flat
	group   int       // the next group
	left    int64     // rows of the group
	cursors []*cursor // nil for a value that is always empty
	filled  []bool    // by column: a value was not empty
	row     int64
}

func (p *parquetRows) next() (rec []string, err error) {
	defer recovered(&err)
	for p.left == 0 {
		if err := p.finishGroup(); err != nil {
			return nil, err
		}
		groups := p.file.RowGroups()
		if p.group == len(groups) {
			return nil, p.end()
		}
		if p.left = groups[p.group].NumRows(); p.left == 0 {
			p.group++
			continue
		}
		for i, leaf := range p.leaves {
			var c *cursor
			if leaf >= 0 {
				meta := &p.file.Metadata().RowGroups[p.group].Columns[leaf].MetaData
				c = &cursor{
					name:     strings.Join(meta.PathInSchema, "."),
					pages:    groups[p.group].ColumnChunks()[leaf].Pages(),
					meta:     meta,
					rows:     p.left,
					mayEmpty: isOptional(i) || p.talks != nil,
				}
			}
			p.cursors = append(p.cursors, c)
		}
		p.group++
	}
	rec, err = p.record()
	if err != nil {
		return nil, fmt.Errorf("row %d, %w", p.row, err)
	}
	p.left--
	p.row++
	return rec, nil
}

// record reads the next conversation, or else the next value of each column.
func (p *parquetRows) record() (rec []string, err error) {
	if p.talks != nil {
		cursors := p.cursors
		for _, turns := range p.talks {
			text, err := turns.record(cursors[:len(turns.leaves)])
			if err != nil {
				return nil, err
			}
			rec, cursors = append(rec, text, ""), cursors[len(turns.leaves):]
		}
		if len(p.talks) > 1 { // nothing follows the completion
			return rec[:outputAt+1], nil
		}
		for _, c := range cursors {
			if rec[talkSystemAt], err = c.next(); err != nil {
				return nil, c.fail(err)
			}
		}
		return rec, nil
	}
	rec = make([]string, len(p.cursors))
	for i, c := range p.cursors {
		if c == nil {
			continue
		}
		if rec[i], err = c.next(); err != nil {
			return nil, c.fail(err)
		}
	}
	return rec, nil
}

// finishGroup checks that each column held what the footer says.
func (p *parquetRows) finishGroup() error {
	defer p.closeGroup()
	for i, c := range p.cursors {
		if c == nil {
			continue
		}
		if err := c.finish(); err != nil {
			return fmt.Errorf("row group %d, %w", p.group-1, c.fail(err))
		}
		p.filled[i] = p.filled[i] || c.empty < c.rows
	}
	return nil
}

// end returns io.EOF, or what is wrong with the file as a whole.
func (p *parquetRows) end() error {
	if p.talks == nil && p.row > 0 {
		for i, leaf := range p.leaves {
			if !isOptional(i) && leaf >= 0 && !p.filled[i] {
				name := strings.Join(p.file.Metadata().RowGroups[0].Columns[leaf].MetaData.PathInSchema, ".")
				return columnsErrorf("column %q: all %d values are empty: name other columns", name, p.row)
			}
		}
	}
	return io.EOF
}

func (p *parquetRows) closeGroup() {
	for _, c := range p.cursors {
		if c != nil {
			c.close()
		}
	}
	p.cursors = nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("damaged parquet file (the column ends early)")
	}
	return err
}
