package dataset

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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
	counted, err := nullCounts(r, size)
	if err != nil {
		return nil, err
	}
	p := &parquetRows{counted: counted}
	t = &table{rows: int(f.NumRows()), close: func() error { p.closeGroup(); return nil }}
	if t.columns, err = p.choose(f, w, t); err != nil {
		return nil, err
	}
	var leaves []int
	for _, leaf := range p.leaves {
		leaves = append(leaves, leaf.Index())
	}
	if err := checkSizes(f, p.leaves); err != nil {
		return nil, err
	}
	if p.file, err = unpackLZ4(f, r, leaves); err != nil {
		return nil, err
	}
	p.filled = make([]bool, len(leaves))
	t.next = func() ([]string, error) { return p.next(t) }
	return t, nil
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

// A field is where a value of a record is: in a column of text, in the tree of a nested column, or nowhere, if it is
// always empty.
type field struct {
	column  *parquet.Column // nil: nowhere
	tree    *tree           // nil: text
	first   int             // of the leaves
	mayMiss bool            // all values may be empty
}

// choose finds the wanted columns, and the ones to read besides them. Only conversations, whole ones or a prompt and
// its completion, and these other columns may be lists.
func (p *parquetRows) choose(f *parquet.File, w wanted, t *table) (names []string, err error) {
	byName := map[string]*parquet.Column{}
	var there []string
	for _, c := range f.Root().Columns() {
		if byName[c.Name()] != nil {
			return nil, fmt.Errorf("there are two columns %q", c.Name())
		}
		byName[c.Name()] = c
		there = append(there, c.Name())
	}
	t.there.add(there...)
	if names, err = w.pick(there); err != nil {
		return nil, err
	}
	nested := func(at int) bool {
		c := byName[names[at]]
		return !c.Leaf() && (at == instructionAt || checkTalk(c) == nil)
	}
	if w.Training && len(names) == rowWidth && (nested(instructionAt) || nested(outputAt)) {
		if names, err = halves(names); err != nil {
			return nil, err
		}
	}
	talk := w.conversation(names)
	if talk && !isString(byName[names[talkSystemAt]]) {
		names[talkSystemAt] = "" // it holds something else
	}
	lists := talk && slices.ContainsFunc(names, func(n string) bool { return n != "" && !byName[n].Leaf() })
	for i, name := range names {
		c := byName[name]
		if name != "" && isOptional(i) && c.Leaf() && isNull(c.Type()) {
			c = nil
		}
		quoted := false
		switch {
		case name == "" || c == nil:
			p.fields = append(p.fields, field{})
		case lists && i != talkSystemAt && !c.Leaf():
			if err := checkTalk(c); err != nil {
				return nil, err
			}
			if err := p.add(&p.fields, c, true); err != nil {
				return nil, err
			}
		default:
			if err := checkText(c); err != nil {
				return nil, err
			}
			if err := p.add(&p.fields, c, isOptional(i) || lists); err != nil {
				return nil, err
			}
			quoted = lists && i != talkSystemAt // next to a list, text is also JSON
		}
		p.quoted = append(p.quoted, quoted)
	}
	for _, name := range w.beside(there, names) {
		if err := p.add(&p.beside, byName[name], true); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// add adds a field.
func (p *parquetRows) add(to *[]field, c *parquet.Column, mayMiss bool) error {
	f := field{column: c, first: len(p.leaves), mayMiss: mayMiss}
	if isString(c) {
		p.leaves = append(p.leaves, c)
	} else {
		var err error
		if f.tree, err = newTree(c, &p.leaves, pictures(c.Name())); err != nil {
			return err
		}
	}
	*to = append(*to, f)
	return nil
}

// checkText returns an error unless a column is a flat string.
func checkText(c *parquet.Column) error {
	switch {
	case !c.Leaf():
		return columnsErrorf("column %q is nested, not a plain string: name other columns", c.Name())
	case c.Repeated():
		return columnsErrorf("column %q is a list, not a plain string: name other columns", c.Name())
	case !isText(c.Type()):
		return columnsErrorf("column %q has the type %s, not string: name other columns", c.Name(), c.Type())
	}
	return nil
}

func isText(t parquet.Type) bool {
	if t.Kind() != parquet.ByteArray {
		return false
	}
	l := t.LogicalType()
	if l == nil || l.Value == nil {
		return true
	}
	switch l.Value.(type) {
	case *format.StringType, *format.JsonType, *format.EnumType: // all three are UTF-8 by the format
		return true
	}
	return false
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
func checkSizes(f *parquet.File, leaves []*parquet.Column) error {
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
		for _, column := range leaves {
			leaf, nested := column.Index(), column.MaxRepetitionLevel() > 0
			if leaf >= len(group.Columns) || len(column.Path()) > 1 && !slices.Equal(group.Columns[leaf].MetaData.PathInSchema,
				column.Path()) {
				return fmt.Errorf("damaged parquet file (row group %d lacks the column %s)", g, strings.Join(column.Path(), "."))
			}
			m := group.Columns[leaf].MetaData
			start := firstPage(&m)
			if codecs[leaf] == nil {
				codecs[leaf] = &m.Codec
			}
			switch {
			case !readable[m.Codec]:
				return fmt.Errorf("the compression %s is not read: write the file again with snappy or zstd", m.Codec)
			case m.Codec != *codecs[leaf]: // the library takes the first one's for all
				return fmt.Errorf("row group %d has the compression %s, and one before it %s: write the file again with one", g,
					m.Codec, *codecs[leaf])
			case group.Columns[leaf].FilePath != "":
				return fmt.Errorf("row group %d is in another file (%.60q)", g, group.Columns[leaf].FilePath)
			case m.NumValues < group.NumRows || m.NumValues > group.NumRows && !nested:
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

// parquetRows reads the row groups with one cursor per leaf.
type parquetRows struct {
	file    *parquet.File
	fields  []field
	beside  []field
	quoted  []bool // by field: its text becomes JSON
	leaves  []*parquet.Column
	group   int   // the next group
	left    int64 // rows of the group
	cursors []*cursor
	filled  []bool // by leaf: a value was not empty
	counted func(group, leaf int) bool
	row     int64
}

func (p *parquetRows) next(t *table) (rec []string, err error) {
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
		for _, f := range slices.Concat(p.fields, p.beside) {
			p.open(groups[p.group], f)
		}
		p.group++
	}
	rec, err = p.record(t)
	if err != nil {
		return nil, fmt.Errorf("row %d, %w", p.row, err)
	}
	p.left--
	p.row++
	return rec, nil
}

// open makes the cursors of a field.
func (p *parquetRows) open(group parquet.RowGroup, f field) {
	n := 0
	if f.column != nil {
		n = 1
	}
	if f.tree != nil {
		n = f.tree.end - f.tree.first
	}
	for _, leaf := range p.leaves[f.first : f.first+n] {
		meta := &p.file.Metadata().RowGroups[p.group].Columns[leaf.Index()].MetaData
		c := &cursor{
			name:     strings.Join(meta.PathInSchema, "."),
			pages:    group.ColumnChunks()[leaf.Index()].Pages(),
			meta:     meta,
			rows:     p.left,
			mayEmpty: f.mayMiss,
			counted:  p.counted(p.group, leaf.Index()),
		}
		if f.tree != nil {
			c.rows = meta.NumValues
		}
		p.cursors = append(p.cursors, c)
	}
}

// record reads the next value of each field.
func (p *parquetRows) record(t *table) (rec []string, err error) {
	rec = make([]string, len(p.fields))
	for i, f := range p.fields {
		if f.column == nil {
			continue
		}
		if rec[i], err = p.value(f, p.quoted[i]); err != nil {
			return nil, err
		}
	}
	t.beside = nil
	for _, f := range p.beside {
		value, err := p.value(f, true)
		if err != nil {
			return nil, err
		}
		if value != "false" || !pictures(f.column.Name()) {
			t.besideAdd(f.column.Name(), []byte(value))
		}
	}
	return rec, nil
}

// value reads the next value of a field: a text, or JSON.
func (p *parquetRows) value(f field, quoted bool) (string, error) {
	if f.tree != nil {
		return f.tree.next(p.cursors)
	}
	c := p.cursors[f.first]
	s, err := c.next()
	if err != nil {
		return "", c.fail(err)
	}
	if quoted {
		b, err := json.Marshal(s)
		return string(b), err
	}
	return s, nil
}

// finishGroup checks that each column held what the footer says.
func (p *parquetRows) finishGroup() error {
	defer p.closeGroup()
	for i, c := range p.cursors {
		if err := c.finish(); err != nil {
			return fmt.Errorf("row group %d, %w", p.group-1, c.fail(err))
		}
		p.filled[i] = p.filled[i] || c.empty < c.rows
	}
	return nil
}

// end returns io.EOF, or what is wrong with the file as a whole.
func (p *parquetRows) end() error {
	for _, f := range p.fields {
		if f.column != nil && !f.mayMiss && p.row > 0 && !p.filled[f.first] {
			return columnsErrorf("column %q: all %d values are empty: name other columns",
				strings.Join(f.column.Path(), "."), p.row)
		}
	}
	return io.EOF
}

func (p *parquetRows) closeGroup() {
	for _, c := range p.cursors {
		c.close()
	}
	p.cursors = nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("damaged parquet file (the column ends early)")
	}
	return err
}
