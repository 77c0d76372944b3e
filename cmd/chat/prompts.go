package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"restyle/internal/disk"
)

// openPrompts reads a file of questions; - is standard input.
func openPrompts(path string, stdin io.Reader) ([]string, error) {
	if path == "-" {
		return readPrompts(stdin, "standard input")
	}
	f, err := disk.OpenInput(path)
	if err != nil {
		return nil, fmt.Errorf("--prompts: %w", err)
	}
	defer f.Close()
	return readPrompts(f, path)
}

// readPrompts reads questions, one per line. If the first line is a JSON object, all lines must be, and "prompt" is the
// question. Empty lines are skipped.
func readPrompts(r io.Reader, name string) (prompts []string, err error) {
	lines := bufio.NewReader(r)
	isJSON := false
	for number := 1; ; number++ {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: line %d: %w", name, number, err)
		}
		end := err != nil
		if number == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("%s: line %d: not valid UTF-8: convert the file to UTF-8", name, number)
		}
		line = strings.TrimSpace(line)
		isJSON = isJSON || len(prompts) == 0 && strings.HasPrefix(line, "{")
		if line != "" && isJSON {
			var row struct{ Prompt *string }
			err := json.Unmarshal([]byte(line), &row)
			if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); err != nil && (!is || wrong.Field == "") {
				return nil, fmt.Errorf("%s: line %d is not a JSON object: %w", name, number, err)
			}
			if row.Prompt == nil || strings.TrimSpace(*row.Prompt) == "" {
				return nil, fmt.Errorf(`%s: line %d has no text as "prompt": must be like {"prompt": "How do I …?"}`, name, number)
			}
			line = *row.Prompt
		}
		if line != "" {
			prompts = append(prompts, line)
		}
		if end {
			break
		}
	}
	if len(prompts) == 0 {
		return nil, fmt.Errorf("%s has no questions: write one per line", name)
	}
	return prompts, nil
}
