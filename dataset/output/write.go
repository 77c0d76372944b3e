package output

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"restyle/dataset"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowWriter writes rows in one format. finish writes what the format ends with.
type rowWriter struct {
	row    func(dataset.Rewritten) error
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
	return nil, fmt.Errorf("output: %s: the extension %q is not one of .json, .jsonl and .parquet, which choose the format", path, ext)
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
		row: func(r dataset.Rewritten) error {
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
	return rowWriter{row: func(r dataset.Rewritten) error { return enc.Encode(r) }, finish: b.Flush}
}

// writeParquet writes zstd-compressed row groups of 1,000 rows, so that memory
// stays flat. The bytes depend on the rows alone.
func writeParquet(w io.Writer) rowWriter {
	pw := parquet.NewGenericWriter[dataset.Rewritten](w,
		parquet.Compression(&zstd.Codec{Concurrency: 1}),
		parquet.MaxRowsPerRowGroup(1000),
		parquet.CreatedBy("restyle", "", ""),
	)
	return rowWriter{
		row:    func(r dataset.Rewritten) error { _, err := pw.Write([]dataset.Rewritten{r}); return err },
		finish: pw.Close,
	}
}
