package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// encodeParquet returns the training rows as a parquet file with one zstd-compressed row group. The bytes depend only
// on the rows.
func encodeParquet(rows []Row) ([]byte, error) {
	var file bytes.Buffer
	writer := parquet.NewGenericWriter[Row](&file, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("restyle", "1",
		"0"))
	if _, err := writer.Write(rows); err != nil {
		return nil, fmt.Errorf("writing parquet: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("writing parquet: %w", err)
	}
	return file.Bytes(), nil
}

// encodeQuestions returns the held-out rows as JSON lines.
func encodeQuestions(rows []Row) ([]byte, error) {
	var file bytes.Buffer
	encoder := json.NewEncoder(&file)
	encoder.SetEscapeHTML(false)
	for _, row := range rows {
		if err := encoder.Encode(row.question()); err != nil {
			return nil, fmt.Errorf("writing questions: %w", err)
		}
	}
	return file.Bytes(), nil
}
