package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// encodeParquet returns the training rows as a parquet file with one zstd-compressed row group. The bytes depend only
// on the rows.
func encodeParquet(rows []Row) ([]byte, error) {
	var file bytes.Buffer
	writer := parquet.NewGenericWriter[Row](&file, parquet.Compression(&zstd.Codec{Level: zstd.SpeedBestCompression}),
		parquet.PageBufferSize(64<<20), parquet.CreatedBy("restyle", "1", "0"))
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

// encodeLines returns values as JSON lines.
func encodeLines[T any](values []T) ([]byte, error) {
	var file bytes.Buffer
	encoder := json.NewEncoder(&file)
	encoder.SetEscapeHTML(false)
	for _, v := range values {
		if err := encoder.Encode(v); err != nil {
			return nil, err
		}
	}
	return file.Bytes(), nil
}

// writeRound writes the training rows of a round, and questions that refer to them, for conversations. A file without a
// name is not written.
func writeRound(seed uint64, round int, rows, questions string) error {
	s, err := makeSet(seed, round)
	if err != nil {
		return err
	}
	later, err := followUps(seed, round, s.kinds, s.topics, s.train)
	if err != nil {
		return err
	}
	return errors.Join(writeLines(rows, s.train), writeLines(questions, later))
}

// writeLines writes values as JSON lines, if the file has a name.
func writeLines[T any](name string, values []T) error {
	if name == "" {
		return nil
	}
	lines, err := encodeLines(values)
	if err != nil {
		return err
	}
	return os.WriteFile(name, lines, 0o644)
}
