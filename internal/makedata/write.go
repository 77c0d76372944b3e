package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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

// draft writes rows with questions as people type them, and the held-out questions about the topics.
func draft(seed uint64, dir string) error {
	all, err := kinds()
	if err != nil {
		return err
	}
	about, err := readTopics()
	if err != nil {
		return err
	}
	_, held, err := build(seed, all)
	if err != nil {
		return err
	}
	train, asked, err := buildTyped(seed, all, about, held)
	if err != nil {
		return err
	}
	spread(newDraw(seed, "order/typed"), train)
	var rows bytes.Buffer
	encoder := json.NewEncoder(&rows)
	encoder.SetEscapeHTML(false)
	for _, row := range train {
		columns := map[string]string{"instruction": row.Instruction, "input": row.Input, "output": row.Output}
		if err := encoder.Encode(columns); err != nil {
			return err
		}
	}
	questions, err := encodeQuestions(asked)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "typed.jsonl"), rows.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "typed_heldout.jsonl"), questions, 0o644))
}
