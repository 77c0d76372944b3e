// Package data holds what the commands use when nothing is configured: a starter dataset of small Python tasks in the
// shape of the Alpaca sets, held-out questions with programs that decide whether an answer is right, and a small base
// model. README.md in this folder describes them; the program in make/ writes the first two.
package data

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Starter is the starter dataset, a parquet file with the string columns instruction, input, output and prompt.
//
//go:embed starter.parquet
var Starter []byte

// StarterName is what the commands call the embedded base model, and StarterModel opens.
const StarterName = "starter"

//go:embed starter-llama
var starterModel embed.FS

// StarterModel is the embedded base model's directory in the Hugging Face layout: config.json, model.safetensors,
// tokenizer.json and the small files beside them. recipe.json in it holds the settings of training that suit the model.
// It is an error in a build from a folder without the weights.
func StarterModel() (fs.FS, error) {
	const folder, weights = "starter-llama", "model.safetensors"
	if _, err := fs.Stat(starterModel, folder+"/"+weights); err != nil {
		return nil, fmt.Errorf("the embedded model %q is not in this build: data/%s had no %s; give the directory or the "+
			"hub id of another model",
			StarterName, folder, weights)
	}
	return fs.Sub(starterModel, folder)
}

// Heldout is the held-out questions as JSON lines, one Question a line.
//
//go:embed heldout.jsonl
var Heldout []byte

// RemotePy and CheckPy, in this order, are the Python program of which Judge runs two: one runs answers, the other the
// checks of their questions.
var (
	//go:embed remote.py
	RemotePy []byte
	//go:embed check.py
	CheckPy []byte
)

// A Question is a held-out task.
type Question struct {
	Instruction string `json:"instruction"` // what is asked
	Input       string `json:"input"`       // the data that it is asked about; "" where the instruction says all
	Output      string `json:"output"`      // the reference answer, Python code without a fence
	Check       string `json:"check"`       // Python that fails on wrong answers; README.md gives the contract
	Kind        string `json:"kind"`        // the kind of task, such as "sum_of_list"
	// whether the training rows have this kind, in other words and with other parameters
	Seen bool `json:"seen"`
}

// Questions returns the embedded held-out questions: those of trained kinds first.
func Questions() ([]Question, error) { return ParseQuestions(bytes.NewReader(Heldout)) }

// ParseQuestions reads questions in the form of Heldout. A line that is no JSON object, or lacks instruction, output or
// check, is an error that names the line.
func ParseQuestions(r io.Reader) ([]Question, error) {
	var questions []Question
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" { // as Windows programs begin a file
		_, _ = b.Discard(3)
	}
	decoder := json.NewDecoder(b)
	for {
		var q Question
		err := decoder.Decode(&q)
		if err == io.EOF {
			return questions, nil
		}
		n := len(questions) + 1
		if err != nil {
			return nil, fmt.Errorf("question %d: %w: give one JSON object a line, in UTF-8", n, err)
		}
		if err := q.validate(); err != nil {
			return nil, fmt.Errorf("question %d: %w", n, err)
		}
		questions = append(questions, q)
	}
}

func (q Question) validate() error {
	switch {
	case q.Instruction == "":
		return errors.New("instruction is missing or empty")
	case q.Output == "":
		return errors.New("output, the reference answer, is missing or empty")
	case q.Check == "":
		return errors.New("check, the Python that decides, is missing or empty")
	}
	return nil
}
