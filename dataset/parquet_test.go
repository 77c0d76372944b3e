package dataset

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// TestParquetForms reads files from another writer, in every supported form.
func TestParquetForms(t *testing.T) {
	for _, name := range []string{
		"codec_none", "codec_snappy", "codec_gzip", "codec_brotli", "codec_zstd", "plain", "no_statistics", "no_null_count",
		"delta_byte_array", "delta_length_byte_array", "pages_v2", "row_groups", "checksums", "required", "binary",
		"large_string", "codec_lz4", "lz4_pages", "lz4_plain", "lz4_hadoop", "lz4_block", "lz4_frame",
	} {
		rows, s, err := all("testdata/"+name+".parquet", Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(sampleRows(), rows); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if s.Rows() != 40 || s.Name != name+".parquet" || len(s.Revision) != 64 ||
			s.Columns != (Columns{Instruction: "instruction", Input: "input", Output: "output"}) {
			t.Errorf("%s: %d rows, name %q, revision %q, columns %v", name, s.Rows(), s.Name, s.Revision, s.Columns)
		}
	}
}

// TestParquet_LZ4 reads text that hardly compresses, and lists.
func TestParquet_LZ4(t *testing.T) {
	said, _, err := conversations("testdata/lz4_text.parquet", Options{})
	if err != nil || len(said) != 60 {
		t.Fatalf("%d rows, %v", len(said), err)
	}
	for i, s := range said {
		if want := fmt.Sprintf("text: %x", sha512.Sum512([]byte(strconv.Itoa(i)))); s != want {
			t.Errorf("row %d is %.40q, want %.40q", i, s, want)
		}
	}
	said, _, err = conversations("testdata/lz4_messages.parquet", Options{})
	if err != nil || len(said) != 3 || said[0] != "user: Hi? | assistant: Grüße 🙂" {
		t.Errorf("%q, %v", said, err)
	}
}

// TestLZ4Pages decodes pages of each form, and damaged ones.
func TestLZ4Pages(t *testing.T) {
	text := []byte(strings.Repeat("abcabcabd", 30))
	block := make([]byte, lz4.CompressBlockBound(len(text)))
	n, err := lz4.CompressBlock(text, block, nil)
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	block = block[:n]
	sized := func(whole, packed int, block []byte) []byte {
		return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(whole)), uint32(packed)),
			block...)
	}
	one := sized(len(text), n, block)
	for _, c := range []struct {
		name  string
		codec format.CompressionCodec
		page  []byte
		size  int
		ok    bool
	}{
		{"a block", format.Lz4Raw, block, len(text), true},
		{"a block in LZ4", format.Lz4, block, len(text), true},
		{"Hadoop", format.Lz4, one, len(text), true},
		{"two of Hadoop", format.Lz4, append(bytes.Clone(one), one...), 2 * len(text), true},
		{"Hadoop in LZ4_RAW", format.Lz4Raw, one, len(text), false},
		{"nothing", format.Lz4Raw, nil, 0, true},
		{"a block of nothing", format.Lz4Raw, []byte{0}, 0, true},
		{"nothing of Hadoop", format.Lz4, nil, 0, true},
		{"a larger page", format.Lz4Raw, block, len(text) + 1, false},
		{"a smaller page", format.Lz4Raw, block, len(text) - 1, false},
		{"cut", format.Lz4Raw, block[:n-1], len(text), false},
		{"nothing where there is text", format.Lz4Raw, nil, len(text), false},
		{"text where there is nothing", format.Lz4Raw, block, 0, false},
		{"a size that lies", format.Lz4, sized(1<<31, n, block), len(text), false},
		{"a packed size that lies", format.Lz4, sized(len(text), 1<<31, block), len(text), false},
		{"half of Hadoop", format.Lz4, one, 2 * len(text), false},
	} {
		out := make([]byte, c.size)
		ok := decodeLZ4(out, c.page, c.codec)
		if ok != c.ok || ok && string(out) != strings.Repeat(string(text), c.size/len(text)) {
			t.Errorf("%s: %v", c.name, ok)
		}
	}
}

// FuzzLZ4Page decodes any bytes as pages: it must not fail.
func FuzzLZ4Page(f *testing.F) {
	f.Add([]byte("\x1fa\x01\x00\x50abcde"), uint16(24), true)
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2, 0x10, 'a'}, uint16(1), true)
	f.Add([]byte("\x04\x22\x4d\x18"), uint16(3), true)
	f.Fuzz(func(t *testing.T, page []byte, size uint16, old bool) {
		out := make([]byte, size)
		codec := format.Lz4Raw
		if old {
			codec = format.Lz4
		}
		hostile.Within(t, hostile.Linear(len(page)), func() { decodeLZ4(out, page, codec) })
	})
}

func TestParquetRefused(t *testing.T) {
	for _, c := range []struct {
		name, columns string
		words         []string
	}{
		{"codec_lzo", "", []string{"compression LZO", "zstd"}},
		{"nested", "", []string{`"output"`, "nested"}},
		{"list", "", []string{`"output"`, "nested"}},
		{"numbers", "", []string{`"output"`, "type", "INT"}},
		{"decimal", "", []string{`"output"`, "DECIMAL"}},
		{"other_columns", "", []string{"no known pair", `"title", "body", "label"`}},
		{"other_columns", "instruction=title,output=tags", []string{`no column "tags"`, `"title", "body", "label"`}},
		{"empty", "", []string{"empty.parquet has no rows"}},
		{"answers_empty", "", []string{`"output"`, "all 3 values are empty", "name other columns"}},
	} {
		columns, err := ParseColumns(c.columns)
		expect.OK(t, err)
		_, _, err = all("testdata/"+c.name+".parquet", Options{Columns: columns})
		expect.Error(t, err, append(c.words, "dataset: "+c.name+".parquet")...)
	}
	// Columns that are not requested may have any type.
	columns, _ := ParseColumns("instruction=instruction,output=input")
	rows, _, err := all("testdata/nested.parquet", Options{Columns: columns})
	if err != nil || len(rows) != 3 || rows[0].Output != "n = 0" {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestStarterIsReadInProcess(t *testing.T) {
	o := Options{Starter: []byte(expect.Read(t, "testdata/codec_zstd.parquet"))}
	rows, s, err := all(StarterSpec, o)
	if err != nil || cmp.Diff(sampleRows(), rows) != "" || s.Name != "starter" || s.Rows() != 40 {
		t.Errorf("%d rows, %v, %+v", len(rows), err, s)
	}
	_, file, err := all("testdata/codec_zstd.parquet", Options{})
	if err != nil || file.Revision != s.Revision {
		t.Errorf("revisions %v and %v, %v", file.Revision, s.Revision, err)
	}
	_, _, err = all(StarterSpec, Options{})
	expect.Error(t, err, "no starter dataset")
	_, _, err = all(StarterSpec, Options{Starter: o.Starter[:1000]})
	expect.Error(t, err, "starter", "PAR1")
}

// TestCursorDoubtsTheDecoder gives a cursor values that contradict its statistics.
func TestCursorDoubtsTheDecoder(t *testing.T) {
	text := func(s string) parquet.Value { return parquet.ByteArrayValue([]byte(s)) }
	for _, c := range []struct {
		name  string
		value parquet.Value
		least string
		nulls int64 // -1: not counted
		words string
	}{
		{"fine", text("b"), "b", 0, ""},
		{"statistics cut short", text("bcd"), "bc", 0, ""},
		{"no statistics", text(""), "", 0, ""},
		{"null without statistics", parquet.NullValue(), "", 0, ""},
		{"counted null", parquet.NullValue(), "b", 1, ""},
		{"null where nobody counts", parquet.NullValue(), "b", -1, ""},
		{"null where there is none", parquet.NullValue(), "b", 0, "null"},
		{"empty where there is none", text(""), "b", 0, "below the minimum"},
		{"less than the least", text("a"), "b", 0, "below the minimum"},
		{"bytes that are not text", text("b\xff"), "b", 0, "UTF-8"},
		{"as long as can be", text(strings.Repeat("b", maxRecord)), "b", 0, ""},
		{"too long", text(strings.Repeat("b", maxRecord+1)), "b", 0, "16 MiB"},
	} {
		meta := &format.ColumnMetaData{Statistics: format.Statistics{MinValue: []byte(c.least), NullCount: max(0, c.nulls)}}
		_, err := (&cursor{meta: meta, counted: c.nulls >= 0, ready: []parquet.Value{c.value}}).next()
		if c.words == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if c.words != "" {
			expect.Error(t, err, c.words)
		}
	}
}

type optional struct {
	Instruction *string `parquet:"instruction"`
	Input       *string `parquet:"input"`
	Output      *string `parquet:"output"`
}

func TestParquetAllNull(t *testing.T) {
	a := "a"
	for _, c := range []struct {
		row   optional
		words string
	}{{optional{&a, nil, &a}, ""}, {optional{nil, &a, &a}, `"instruction"`}, {optional{&a, &a, nil}, `"output"`}} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[optional](&b)
		w.Write([]optional{c.row, c.row})
		expect.OK(t, w.Close())
		rows, _, err := all(expect.File(t, "x.parquet", b.String()), Options{})
		if c.words != "" {
			expect.Error(t, err, c.words, "all 2 values are empty")
		} else if err != nil || len(rows) != 2 {
			t.Errorf("%v, %v", rows, err)
		}
	}
}

// TestParquetEmptyGroup reads row groups without answers before, between and after others, and null inputs.
func TestParquetEmptyGroup(t *testing.T) {
	type row struct {
		Instruction string  `parquet:"instruction"`
		Input       *string `parquet:"input,optional"`
		Output      *string `parquet:"output"`
	}
	a, none := "a", ""
	groups := [][]row{{{"q0", &a, &a}}, {{"q1", &a, nil}, {"q2", &a, nil}}, {{"q3", &a, &none}},
		{{"q4", nil, nil}, {"q5", &a, &a}}}
	for range groups {
		groups = append(groups[1:], groups[0])
		var b bytes.Buffer
		w := parquet.NewGenericWriter[row](&b)
		var want []string
		for _, group := range groups {
			if _, err := w.Write(group); err != nil {
				t.Fatal(err)
			}
			expect.OK(t, w.Flush())
			for _, r := range group {
				if r.Output == nil {
					r.Output = &none
				}
				want = append(want, r.Instruction+*r.Output)
			}
		}
		expect.OK(t, w.Close())
		rows, _, err := all(expect.File(t, "x.parquet", b.String()), Options{})
		var got []string
		for _, r := range rows {
			got = append(got, r.Instruction+r.Output)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, not %q: %v", got, want, err)
		}
	}
}

// TestParquetNullInput reads an input column without a type, which pandas writes for a column of only None.
func TestParquetNullInput(t *testing.T) {
	text := parquet.String()
	schema := parquet.NewSchema("row", parquet.Group{"instruction": text,
		"input": parquet.Optional(parquet.Leaf(parquet.NullType)), "output": text})
	var b bytes.Buffer
	w := parquet.NewWriter(&b, schema)
	for range 3 { // columns are sorted by name
		if _, err := w.WriteRows([]parquet.Row{{parquet.NullValue().Level(0, 0, 0), parquet.ValueOf("q").Level(0, 0, 1),
			parquet.ValueOf("a").Level(0, 0, 2)}}); err != nil {
			t.Fatal(err)
		}
	}
	expect.OK(t, w.Close())
	rows, _, err := all(expect.File(t, "x.parquet", b.String()), Options{})
	if err != nil || len(rows) != 3 || rows[2].Instruction != "q" || rows[2].Input != "" || rows[2].Output != "a" {
		t.Errorf("%v, %v", rows, err)
	}
}

// TestParquetTypes reads the logical types that are text, flat and in lists, and refuses others by name.
func TestParquetTypes(t *testing.T) {
	said := `[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]`
	for _, c := range []struct {
		answer      parquet.Node
		value, want string
	}{
		{parquet.String(), "a", "a"},
		{parquet.JSON(), `{"a": 1}`, `{"a": 1}`},
		{parquet.Enum(), "yes", "yes"},
		{parquet.BSON(), "x", "error: the type BSON"},
		{parquet.UUID(), "0123456789abcdef", "error: the type UUID"},
		{parquet.Decimal(2, 20, parquet.FixedLenByteArrayType(9)), "123456789", "error: the type DECIMAL(20,2)"},
	} {
		var b bytes.Buffer
		w := parquet.NewWriter(&b, parquet.NewSchema("row", parquet.Group{"answer": c.answer, "question": parquet.JSON()}))
		if _, err := w.WriteRows([]parquet.Row{{parquet.ValueOf([]byte(c.value)).Level(0, 0, 0),
			parquet.ValueOf("q").Level(0, 0, 1)}}); err != nil {
			t.Fatal(err)
		}
		expect.OK(t, w.Close())
		rows, _, err := all(expect.File(t, "x.parquet", b.String()), Options{})
		if words, refused := strings.CutPrefix(c.want, "error: "); refused {
			expect.Error(t, err, words)
		} else if err != nil || len(rows) != 1 || rows[0].Output != c.want {
			t.Errorf("%s: %v, %v", c.answer, rows, err)
		}
	}
	type turn struct {
		Role    string `parquet:"role,enum"`
		Content string `parquet:"content,json"`
	}
	type talk struct {
		Messages []turn `parquet:"messages,list"`
	}
	type text struct {
		Messages string `parquet:"messages,json"`
	}
	var lists, texts bytes.Buffer
	expect.OK(t, errors.Join(parquet.Write(&lists, []talk{{[]turn{{"user", "q"}, {"assistant", "a"}}}}),
		parquet.Write(&texts, []text{{said}})))
	for _, content := range []string{lists.String(), texts.String()} {
		talks, _, err := conversations(expect.File(t, "x.parquet", content), Options{})
		if err != nil || !slices.Equal(talks, []string{"user: q | assistant: a"}) {
			t.Errorf("%q, %v", talks, err)
		}
	}
}

// TestHostileParquet checks that each hostile file gives one clear error, in bounded time and memory.
func TestHostileParquet(t *testing.T) {
	good := expect.Read(t, "testdata/codec_zstd.parquet")
	footer := func(n uint32) string {
		b := []byte(good)
		binary.LittleEndian.PutUint32(b[len(b)-8:], n)
		return string(b)
	}
	for _, c := range []struct {
		name, content string
		words         []string
	}{
		{"only the first magic", "PAR1", []string{"too few"}},
		{"only magics", "PAR1PAR1", []string{"too few"}},
		{"magics and a length", "PAR1\x00\x00\x00\x00PAR1", []string{"EOF"}},
		{"zeros between", "PAR1" + strings.Repeat("\x00", 300) + "PAR1", nil},
		{"ends in text", good + "\n", []string{"does not end with PAR1"}},
		{"twice", good + good, nil}, // the offsets in the second copy are wrong
		{"footer length one too long", footer(uint32(len(good) - 11)), []string{"footer of"}},
		{"footer length 2^31", footer(1 << 31), []string{"footer of 2147483648 bytes"}},
		{"footer length 2^32-1", footer(1<<32 - 1), []string{"footer of 4294967295 bytes"}},
		{"footer length 0", footer(0), nil},
		{"footer length 1", footer(1), nil},
		{"encrypted footer", good[:len(good)-4] + "PARE", []string{"encrypted"}},
		{"encrypted", "PARE" + good[4:], []string{"encrypted"}},
	} {
		rows, _, err := all(expect.File(t, "x.parquet", c.content), Options{})
		if c.name == "twice" && err == nil && cmp.Diff(sampleRows(), rows) == "" {
			continue // the offsets lead into the first copy, which is the same
		}
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		expect.Error(t, err, append(c.words, "dataset: x.parquet: ")...)
	}
}

// TestRecovered_NamesTheReader turns a panic into an error, and nothing into none.
func TestRecovered_NamesTheReader(t *testing.T) {
	read := func(bad bool) (err error) {
		defer recovered(&err)
		if bad {
			panic("boom")
		}
		return nil
	}
	if err := read(false); err != nil {
		t.Error(err)
	}
	expect.Error(t, read(true), "damaged parquet file (the reader failed: boom)")
}

// TestParquetFooterLies changes single numbers in a good footer.
func TestParquetFooterLies(t *testing.T) {
	good := []byte(expect.Read(t, "testdata/codec_zstd.parquet"))
	for _, c := range []struct {
		name  string
		lie   func(*format.FileMetaData)
		words string
	}{
		{"nothing", func(*format.FileMetaData) {}, ""},
		{"negative rows", func(m *format.FileMetaData) { m.NumRows = -1 }, "rows"},
		{"more rows", func(m *format.FileMetaData) { m.NumRows = 41 }, "40 rows in its row groups, 41 in its footer"},
		{"many rows", func(m *format.FileMetaData) { m.NumRows = 1 << 62 }, "in its footer"},
		{"negative rows in the group", func(m *format.FileMetaData) { m.RowGroups[0].NumRows = -5 }, "num_rows=-5"},
		{"fewer rows everywhere", func(m *format.FileMetaData) { setRows(m, 39) }, "more values than rows"},
		{"more rows everywhere", func(m *format.FileMetaData) { setRows(m, 41) }, "ends early"},
		{"2^40 rows everywhere", func(m *format.FileMetaData) { setRows(m, 1<<40) }, "ends early"},
		{"values that are not rows", func(m *format.FileMetaData) { m.RowGroups[0].Columns[2].MetaData.NumValues = 7 },
			"7 values for 40 rows"},
		{"negative offset", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.DataPageOffset = -9 },
			"row group 0"},
		{"offset behind the end", func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[0].MetaData.DataPageOffset = 1 << 40
			m.RowGroups[0].Columns[0].MetaData.DictionaryPageOffset = 0
		}, "row group 0"},
		{"size overflow", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.TotalCompressedSize = 1<<63 - 1 },
			"row group 0"},
		{"negative size", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.TotalCompressedSize = -1 },
			"row group 0"},
		{"another file", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].FilePath = "../../etc/passwd" },
			"another file"},
		{"LZO", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.Codec = format.LZO }, "LZO is not read"},
		{"codec 99", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.Codec = 99 }, "is not read"},
		{"the wrong codec", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.Codec = format.Snappy },
			"row 0"},
		{"no codec", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.Codec = format.Uncompressed },
			"row 0"},
		{"statistics of another column", func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[0].MetaData.Statistics.MinValue = []byte("Z")
		}, "not read correctly"},
		{"a group without columns", func(m *format.FileMetaData) { m.RowGroups[0].Columns = nil }, ""},
		{"nothing but an empty group, first", func(m *format.FileMetaData) {
			m.RowGroups = append([]format.RowGroup{emptyGroup(m.RowGroups[0])}, m.RowGroups...)
		}, ""},
		{"nothing but an empty group, last", func(m *format.FileMetaData) {
			m.RowGroups = append(m.RowGroups, emptyGroup(m.RowGroups[0]))
		}, ""},
		{"an empty group, and then a lie", func(m *format.FileMetaData) {
			m.RowGroups = append([]format.RowGroup{emptyGroup(m.RowGroups[0])}, m.RowGroups...)
			m.RowGroups[1].Columns[0].FilePath = "x"
		}, "row group 1 is in another file"},
		{"a second group without a first", func(m *format.FileMetaData) {
			m.RowGroups = append(m.RowGroups, m.RowGroups[0])
		}, "row group 1 has"},
		{"a second group of another codec", func(m *format.FileMetaData) {
			more := m.RowGroups[0]
			more.Columns = slices.Clone(more.Columns)
			more.Columns[0].MetaData.Codec = format.Gzip
			m.RowGroups, m.NumRows = append(m.RowGroups, more), 2*m.NumRows
		}, "row group 1 has the compression GZIP"},
		{"a missing group", func(m *format.FileMetaData) { m.NumRows++ }, "in its row groups"},
		{"more values than rows", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.NumValues++ },
			"values for"},
		{"fewer values than rows", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.NumValues-- },
			"values for"},
		{"columns twice", func(m *format.FileMetaData) { m.Schema[2].Name = "instruction" }, `two columns "instruction"`},
		{"a damaged name", func(m *format.FileMetaData) { m.Schema[2].Name = "inqut" }, `"inqut" is called "input"`},
		{"a damaged name in the path", func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[1].MetaData.PathInSchema[0] = "inqut"
		}, `"input" is called "inqut"`},
		{"name in the path missing", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.PathInSchema = nil },
			""},
		{"many children", func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = 1 << 30 }, ""},
		{"negative children", func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = -1 }, ""},
		{"no schema", func(m *format.FileMetaData) { m.Schema = nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, _, err := all(expect.File(t, "x.parquet", string(withFooter(t, good, c.lie))), Options{})
			if err == nil && (c.words != "" || cmp.Diff(sampleRows(), rows) != "") {
				t.Errorf("accepted, with %d rows", len(rows))
			} else if err != nil && (strings.HasPrefix(c.name, "nothing") || !strings.Contains(err.Error(), c.words) ||
				strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v, want %q", err, c.words)
			}
		})
	}
}

func emptyGroup(g format.RowGroup) format.RowGroup {
	g.NumRows, g.Columns = 0, slices.Clone(g.Columns)
	for i := range g.Columns {
		g.Columns[i].MetaData.NumValues = 0
	}
	return g
}

func setRows(m *format.FileMetaData, n int64) {
	m.NumRows, m.RowGroups[0].NumRows = n, n
	for i := range m.RowGroups[0].Columns {
		m.RowGroups[0].Columns[i].MetaData.NumValues = n
	}
}

func TestRealParquet(t *testing.T) {
	for _, c := range []struct {
		name, columns string
		rows          int
		first         string
		words         string
	}{
		{"curator_camel_gt_dataset.parquet", "", 27, "", ""},
		{"curator_reasoning_dataset.parquet", "instruction=question,output=solution", 5, "", ""},
		{"ascii_creatures_train-00000-of-00001.parquet", "instruction=creature,output=ascii", 201, "", ""},
		{"ascii_creatures_train-00000-of-00001.parquet", "", 0, "", `"ascii", "creature"`},
		{"parquet-testing_datapage_v2.snappy.parquet", "instruction=a,output=e", 0, "", `column "e" is nested`},
		{"parquet-testing_datapage_v2.snappy.parquet", "instruction=a,output=b", 0, "", `column "b" has the type`},
	} {
		path := expect.Reference(t, "data", "parquet/"+c.name)
		columns, err := ParseColumns(c.columns)
		expect.OK(t, err)
		rows, _, err := all(path, Options{Columns: columns})
		if c.words != "" {
			expect.Error(t, err, c.words)
			continue
		}
		if err != nil || len(rows) != c.rows {
			t.Errorf("%s: %d rows, %v", c.name, len(rows), err)
		}
		for i, r := range rows {
			if r.Instruction == "" || r.Output == "" {
				t.Errorf("%s: row %d is %+v", c.name, i, r)
			}
		}
	}
}

func TestParquetMemoryIsFlat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	f, err := os.Create(path)
	expect.OK(t, err)
	const rows = 10_000
	w := parquet.NewGenericWriter[Rewritten](f, parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(1000))
	for i := range rows {
		row := Rewritten{Instruction: fmt.Sprint("number ", i), OutputOriginal: fmt.Sprint(i,
			strings.Repeat(" print(1)", 450))}
		if _, err := w.Write([]Rewritten{row}); err != nil {
			t.Fatal(err)
		}
	}
	expect.OK(t, w.Close())
	f.Close()
	t.Run("through the child", func(t *testing.T) {
		expect.FlatHeap(t, 4<<20, func(measure func()) { countRows(t, path, rows, measure) })
	})
	t.Run("in the child", func(t *testing.T) { // does the child's work in this process
		expect.FlatHeap(t, 8<<20, func(measure func()) {
			f, err := os.Open(path)
			expect.OK(t, err)
			defer f.Close()
			info, _ := f.Stat()
			table, err := openParquet(f, info.Size(), wanted{})
			expect.OK(t, err)
			for n := 1; err == nil; n++ {
				if _, err = table.next(); n%2_500 == 0 {
					measure()
				}
			}
			if err != io.EOF {
				t.Error(err)
			}
		})
	})
}

func TestParquetContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Open(ctx, "testdata/codec_zstd.parquet", Options{})
	expect.OK(t, err)
	defer s.Close()
	cancel()
	for err == nil {
		_, err = s.Next()
	}
	// The child may have delivered everything before it was killed.
	if err != io.EOF && err != context.Canceled && !strings.Contains(err.Error(), "context canceled") {
		t.Error(err)
	}
	_, err = Open(ctx, "testdata/codec_zstd.parquet", Options{})
	expect.Error(t, err, "context canceled")
}
