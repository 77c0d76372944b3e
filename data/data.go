// Package data embeds what the commands use by default: a starter dataset of small Python tasks with the columns of the
// Alpaca datasets, held-out questions with programs that grade answers, and a small base model. README.md in this
// directory describes them; the program internal/makedata writes the first two.
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
	"slices"
)

// Starter is the starter dataset, a parquet file with the string columns instruction, input, output and prompt.
//
//go:embed starter.parquet
var Starter []byte

// StarterName is the name of the embedded base model, which StarterModel opens.
const StarterName = "starter"

// StarterScope is the line with which commands say what the embedded base model is, and every model that was tuned from
// it.
const StarterScope = "the embedded model: 11 million parameters; it knows the Python that beginners ask about, and " +
	"nothing else"

// DirArg returns an argument that means the directory, even if it has the name of the embedded model.
func DirArg(dir string) string {
	if dir == StarterName {
		return "./" + dir
	}
	return dir
}

//go:embed starter-llama
var starterModel embed.FS

// StarterModel returns the directory of the embedded base model in the Hugging Face layout: config.json,
// model.safetensors, tokenizer.json and other small files. Its recipe.json has training settings that suit the model.
// StarterModel returns an error if the program was built without the weights.
func StarterModel() (fs.FS, error) {
	const dir, weights = "starter-llama", "model.safetensors"
	if _, err := fs.Stat(starterModel, dir+"/"+weights); err != nil {
		return nil, fmt.Errorf("embedded model %q: not in this build, because data/%s had no %s: name the directory or the "+
			"hub id of another model", StarterName, dir, weights)
	}
	return fs.Sub(starterModel, dir)
}

// Heldout has the held-out questions as JSON lines, one Question per line.
//
//go:embed heldout.jsonl
var Heldout []byte

// A Question is a held-out task.
type Question struct {
	Instruction string `json:"instruction"` // what is asked
	Input       string `json:"input"`       // the data of the question; may be empty
	Output      string `json:"output"`      // the reference answer, Python code without a fence, or words
	Check       string `json:"check"`       // Python that fails on wrong answers; README.md gives the contract
	Kind        string `json:"kind"`        // the kind of task, such as "sum_of_list"
	Seen        bool   `json:"seen"`        // the training rows have this kind, with other words and parameters

	// Words is for answers in words, and for code that cannot run without a user or a file: nothing is run, and the
	// check finds the text of the whole answer as answer.
	Words bool `json:"words,omitempty"`
	// Group is a group of questions that is counted apart: "typed", as people type them, "outside", beyond what a model
	// was made for, "turns", which refer to the answer before, or "prose", to be answered without code.
	Group string `json:"group,omitempty"`
	// Before has the questions that are asked first, in the same conversation.
	Before []string `json:"before,omitempty"`
}

// Groups are the groups of questions that are counted apart: see [Question.Group].
var Groups = []string{"", "typed", "outside", "turns", "prose"}

// Questions returns the embedded held-out questions, starting with the kinds seen in training.
func Questions() ([]Question, error) { return ParseQuestions(bytes.NewReader(Heldout)) }

// ParseQuestions reads questions in the form of Heldout. It returns an error that names the question if a line is not a
// JSON object, or lacks instruction, output or check.
func ParseQuestions(r io.Reader) ([]Question, error) {
	var questions []Question
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" { // the byte-order mark of Windows programs
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
			return nil, fmt.Errorf("question %d: %w: write one JSON object per line, in UTF-8", n, err)
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
	case !slices.Contains(Groups, q.Group):
		return fmt.Errorf("group %q: must be typed, outside, turns or prose, or left out", q.Group)
	}
	return nil
}
