package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// maxField is the longest field that is written, in bytes: four of them make less
// than maxRecord even where every byte is escaped as \u00XX.
const maxField = 512 << 10

// rowWriter writes rows in one format. finish writes what the format ends with.
type rowWriter struct {
	row    func(Rewritten) error
	finish func() error
}

// rowWriters by the extension of the output file.
var rowWriters = map[string]func(io.Writer) rowWriter{
	".json":    writeJSON,
	".jsonl":   writeJSONL,
	".parquet": writeParquet,
}

// rowWriterFor chooses the format by the file's extension.
func rowWriterFor(path string) (func(io.Writer) rowWriter, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if e := rowWriters[ext]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("dataset: %s: the extension %q is not one of .json, .jsonl and .parquet, which choose the format", path, ext)
}

// writeJSON writes an array, two spaces an indent, nothing escaped that JSON lets
// stand, in the style of the files that the original projects commit.
func writeJSON(w io.Writer) rowWriter {
	b := bufio.NewWriter(w)
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	before := "[\n  "
	return rowWriter{
		row: func(r Rewritten) error {
			one.Reset()
			if err := enc.Encode(r); err != nil {
				return err
			}
			b.WriteString(before)
			before = ",\n  "
			_, err := b.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n")))
			return err
		},
		finish: func() error {
			if before == "[\n  " {
				b.WriteString("[]\n")
			} else {
				b.WriteString("\n]\n")
			}
			return b.Flush()
		},
	}
}

func writeJSONL(w io.Writer) rowWriter {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return rowWriter{row: func(r Rewritten) error { return enc.Encode(r) }, finish: b.Flush}
}

// writeParquet writes zstd-compressed row groups of 1,000 rows, so that memory
// stays flat. The bytes depend on the rows alone.
func writeParquet(w io.Writer) rowWriter {
	pw := parquet.NewGenericWriter[Rewritten](w,
		parquet.Compression(&zstd.Codec{Concurrency: 1}),
		parquet.MaxRowsPerRowGroup(1000),
		parquet.CreatedBy("restyle", "", ""),
	)
	return rowWriter{
		row:    func(r Rewritten) error { _, err := pw.Write([]Rewritten{r}); return err },
		finish: pw.Close,
	}
}

// check refuses a row that could not be read back as it is.
func (r Rewritten) check() error {
	for i, f := range r.fields() {
		if !utf8.ValidString(f) {
			return fmt.Errorf("%s is not valid UTF-8", rewrittenColumns[i])
		}
		if len(f) > maxField {
			return fmt.Errorf("%s has %d bytes, more than the %d that are sure to be read back", rewrittenColumns[i], len(f), maxField)
		}
	}
	return nil
}
