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

// rowWriter writes rows in one format. finish writes the end of the file.
type rowWriter struct {
	row    func(dataset.Rewritten) error
	finish func() error
}

// rowWriters has the formats by file extension.
var rowWriters = map[string]func(io.Writer) rowWriter{
	".json":    writeJSON,
	".jsonl":   writeJSONL,
	".parquet": writeParquet,
}

// rowWriterFor returns the format for the extension of path.
func rowWriterFor(path string) (func(io.Writer) rowWriter, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if e := rowWriters[ext]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("output: %s: unknown extension %q: use .json, .jsonl or .parquet", path, ext)
}

// writeJSON writes an array with an indent of two spaces. It escapes only what JSON requires, like the files of the
// Alpaca projects.
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

// writeParquet writes row groups of 1,000 rows, so that memory does not grow, compressed with zstd. The bytes depend
// only on the rows.
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
