package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"restyle/chat"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/sidebyside"
)

// A record logs questions and answers in two files that only grow. The JSONL file is authoritative: an event per line,
// written before its text is shown. The Markdown file next to it is for people: an entry per question, written when all
// answers are complete. If a kill prevents an entry, the next run writes it from the JSONL file.
type record struct {
	md, jsonl *disk.File
	asked     []string // the latest questions in the file when it was opened
	err       error    // the first failure; final, because it may have left part of a line
}

// event is a line of the JSONL file. Its fields depend on Event:
//
//	ask     the models start to answer a question: question, before, system, turn, models, settings
//	part    the text shown since the last part: text, by model
//	answer  one model's whole answer: model, answer
//	logged  the Markdown file has the entry
//	vote    the answer that a person preferred: vote, note
type event struct {
	Event string    `json:"event"`
	ID    string    `json:"id"` // of the question
	Time  time.Time `json:"time"`

	Question string            `json:"question,omitempty"`
	Before   []chat.Message    `json:"before,omitempty"` // messages of --prompts before the question
	System   string            `json:"system,omitempty"`
	Turn     int               `json:"turn,omitempty"` // of the conversation, from 1
	Models   map[string]string `json:"models,omitempty"`
	Settings *settings         `json:"settings,omitempty"`

	Text map[string]string `json:"text,omitempty"`

	Model  string  `json:"model,omitempty"`
	Answer *answer `json:"answer,omitempty"`

	Vote string `json:"vote,omitempty"`
	Note string `json:"note,omitempty"`
}

// answer is the answer of one model.
type answer struct {
	Text         string  `json:"text"`
	Reason       string  `json:"reason"` // stop, length, context, cancelled, error, or killed
	Error        string  `json:"error,omitempty"`
	Tokens       int     `json:"tokens"`
	PromptTokens int     `json:"prompt_tokens"`
	Reused       int     `json:"reused_tokens"`
	DroppedTurns int     `json:"dropped_turns,omitempty"`
	FirstSeconds float64 `json:"first_token_s"`
	Speed        float64 `json:"tokens_per_s"`
}

// The labels of the models.
const (
	baseLabel  = sidebyside.Base
	tunedLabel = sidebyside.Tuned
)

// jsonlPath returns the path of the JSONL file next to a Markdown file.
func jsonlPath(md string) string { return strings.TrimSuffix(md, filepath.Ext(md)) + ".jsonl" }

// openRecord opens or creates both files, writes the Markdown entries that a kill prevented, and returns their number.
func openRecord(md string) (r *record, recovered int, err error) {
	r = &record{}
	defer func() {
		if err != nil {
			r.close()
			r, err = nil, fmt.Errorf("log: %w: choose another file with --log, or none with --log \"\"", err)
		}
	}()
	jsonl, err := disk.Follow(jsonlPath(md))
	if err != nil {
		return r, 0, err
	}
	if md, err = disk.Follow(md); err != nil {
		return r, 0, err
	}
	if err := isRecord(jsonl); err != nil {
		return r, 0, err
	}
	if r.md, err = openAppend(md); err != nil {
		return r, 0, err
	}
	if r.jsonl, err = openAppend(jsonl); err != nil {
		return r, 0, err
	}
	// Another chat that is running holds the shared lock, and unfinished questions may be its own.
	alone := r.jsonl.TryLock(false) == nil
	unfinished, err := r.read()
	if err != nil {
		return r, 0, err
	}
	if alone {
		for _, e := range unfinished {
			if err := r.log(e); err != nil {
				return r, 0, err
			}
			recovered++
		}
	}
	r.jsonl.TryLock(true)
	return r, recovered, nil
}

// isRecord refuses an existing file that is not chat's: one that does not start with an event, or with part of one,
// which a kill may leave.
func isRecord(path string) error {
	f, err := disk.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	const begins = `{"event":`
	head := make([]byte, len(begins))
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	line, _, ended := bytes.Cut(head[:n], []byte("\n"))
	if !strings.HasPrefix(begins, string(line)) || ended && len(line) == 0 {
		return fmt.Errorf("%s is not a log of chat, which would append to it", path)
	}
	return nil
}

// openAppend opens a file for appending. A new one is readable only by its owner, because questions and answers are
// private. If a kill left part of a line at the end, openAppend ends that line.
func openAppend(path string) (*disk.File, error) {
	f, err := disk.Open(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	var last [1]byte
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		if _, err := f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			if _, err := f.WriteString("\n"); err != nil {
				f.Close()
				return nil, err
			}
		}
	}
	return f, nil
}

// maxEvent is the maximum length of an event in bytes. Answers are far shorter.
const maxEvent = 64 << 20

// keptQuestions is the number of earlier questions in the history.
const keptQuestions = 100

// read returns the questions in the JSONL file that have no Markdown entry, in order. It skips lines that are not
// events, such as a partial one.
func (r *record) read() (unfinished []*entry, err error) {
	size, err := r.jsonl.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	open := map[string]*entry{}
	var order []string
	lines := bufio.NewReader(io.NewSectionReader(r.jsonl, 0, size)) // not beyond: another chat may be writing
	for {
		line, n, _, err := disk.ReadLine(lines, maxEvent)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		var e event
		if json.Unmarshal(line, &e) == nil {
			switch e.Event {
			case "ask":
				open[e.ID] = &entry{id: e.ID, question: e.Question, models: e.Models, answers: map[string]*answer{}}
				order = append(order, e.ID)
				if r.asked = append(r.asked, e.Question); len(r.asked) > keptQuestions {
					r.asked = r.asked[1:]
				}
				for label := range e.Models {
					open[e.ID].answers[label] = &answer{Reason: "killed"}
				}
			case "part":
				for label, text := range e.Text {
					if a := open[e.ID].answer(label); a != nil && a.Reason == "killed" {
						a.Text += text
					}
				}
			case "answer":
				if open[e.ID].answer(e.Model) != nil && e.Answer != nil {
					open[e.ID].answers[e.Model] = e.Answer
				}
			case "logged":
				delete(open, e.ID)
			}
		}
	}
	for _, id := range order {
		if e := open[id]; e != nil {
			unfinished = append(unfinished, e)
		}
	}
	return unfinished, nil
}

// add appends an event. If it is durable, add syncs it to disk, so that it survives a loss of power.
func (r *record) add(e event, durable bool) error {
	if r == nil || r.err != nil {
		return r.failure()
	}
	e.Time = time.Now().UTC()
	err := cli.PrintJSON(r.jsonl, e)
	if err == nil && durable {
		err = r.jsonl.Sync()
	}
	r.err = err
	return r.failure()
}

// log writes the entry of a question, then the event that the entry is there.
func (r *record) log(e *entry) error {
	if r == nil || r.err != nil {
		return r.failure()
	}
	if _, r.err = r.md.WriteString(e.markdown()); r.err == nil {
		r.err = r.md.Sync()
	}
	if r.err != nil {
		return r.failure()
	}
	return r.add(event{Event: "logged", ID: e.id}, true)
}

func (r *record) failure() error {
	if r == nil || r.err == nil {
		return nil
	}
	return &logError{r.err}
}

// logError means that the log can no longer be written.
type logError struct{ error }

func (e *logError) Error() string {
	return fmt.Sprintf("the log can no longer be written: %v: free some space, or choose another file with --log", e.error)
}

func (e *logError) Unwrap() error { return e.error }

func (r *record) close() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, f := range []*disk.File{r.md, r.jsonl} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// questions returns the latest questions in the record when it was opened.
func (r *record) questions() []string {
	if r == nil {
		return nil
	}
	return r.asked
}

// newID returns an id for a question: the time, and a random part that tells it from the ids of other chats.
func newID() string {
	var b [4]byte
	rand.Read(b[:])
	return time.Now().UTC().Format("20060102T150405.000-") + hex.EncodeToString(b[:])
}

// entry is a question and its answers, by label, for the Markdown file.
type entry struct {
	id, question string
	models       map[string]string // their names
	answers      map[string]*answer
}

// answer returns the answer of a model, or nil if the question or the model is unknown, as in a file that someone
// edited.
func (e *entry) answer(label string) *answer {
	if e == nil {
		return nil
	}
	return e.answers[label]
}

// markdown formats the entry.
func (e *entry) markdown() string {
	var answers []sidebyside.Answer
	for _, label := range []string{baseLabel, tunedLabel} {
		if a := e.answers[label]; a != nil {
			answers = append(answers, sidebyside.Answer{Label: label, Model: e.models[label], Text: a.Text, Note: a.cut()})
		}
	}
	return sidebyside.Markdown(e.question, answers...)
}

// cut returns why an answer is truncated, or "" if it is whole.
func (a *answer) cut() string {
	switch a.Reason {
	case "length":
		return "cut at " + cli.Count(a.Tokens, "token")
	case "context":
		return "cut after " + cli.Count(a.Tokens, "token") + ": the context is full"
	case "cancelled":
		return "stopped by the user after " + cli.Count(a.Tokens, "token")
	case "killed":
		return "cut: the program was killed"
	case "error":
		return "cut: " + a.Error
	}
	return ""
}
