package dataset

import (
	"errors"
	"fmt"
	"slices"

	"restyle/chat"
)

// A BadRow is the error for a row that cannot be read, although it is clear where the next one starts: a line that is
// not JSON, a value of another type, a conversation without an answer.
type BadRow struct {
	Index   int  // as of a Row
	Skipped bool // Options.SkipBad is set: the next call of Next returns the row after it
	Err     error
}

func (e *BadRow) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *BadRow) Unwrap() error { return e.Err }

// unreadable is the error of a table for a row that cannot be read, after which it can read the next.
type unreadable struct{ error }

func (e *unreadable) Unwrap() error { return e.error }

// badRow returns the error of a row that cannot be read. It is final unless bad rows are to be skipped.
func (s *Source) badRow(index int, err error) error {
	bad := &BadRow{Index: index, Skipped: s.skip, Err: err}
	if !s.skip {
		s.err = bad
	}
	return bad
}

// row returns the row made from the record that was read last.
func (s *Source) row(rec []string) (row Row, err error) {
	var messages []chat.Message
	talk := s.want.conversation(s.names)
	if !talk {
		row.Input = rec[inputAt]
		messages = []chat.Message{{Role: "user", Content: rec[instructionAt]}, {Role: "assistant", Content: rec[outputAt]}}
	} else if messages, err = s.talk(rec[0]); err != nil {
		return Row{}, err
	}
	if err := forGen(rec[len(rec)-1], messages, talk); err != nil {
		return Row{}, err
	}
	row.Index = s.index - 1
	row.Instruction, row.Output, err = firstExchange(messages)
	return row, err
}

// talk reads a conversation, and notes the keys of its messages that no row has.
func (s *Source) talk(conversation string) ([]chat.Message, error) {
	messages, err := parseMessages([]byte(conversation), &s.keys)
	if slices.ContainsFunc(messages, func(m chat.Message) bool { return m.Thoughts != "" }) {
		s.keys.add("thoughts")
	}
	return messages, err
}

// firstExchange returns the first question of a conversation and the answer to it. It leaves out what comes before,
// such as a system prompt, and all later turns: they may be about an answer in another voice.
func firstExchange(messages []chat.Message) (question, answer string, err error) {
	for i, m := range messages {
		if m.Role != "user" {
			continue
		}
		if i+1 == len(messages) {
			return "", "", errors.New("the conversation ends with its first question")
		}
		next := messages[i+1]
		if next.Role != "assistant" {
			return "", "", fmt.Errorf("a message of the role %q follows the first question, not an answer", next.Role)
		}
		switch {
		case next.Context || len(next.Asides) > 0:
			return "", "", errors.New("the answer, or a part of it, is marked as not to be learned")
		case next.Calls != "":
			return "", "", errors.New("the first answer calls a tool, which gen cannot rewrite")
		}
		return m.Content, next.Content, nil
	}
	return "", "", errors.New("the conversation has no question")
}

// Describe returns what the rows are read from, for people: the columns, as [ParseColumns] reads them, or the column of
// the conversations. They are not known before the first row that can be read.
func (s *Source) Describe() string {
	if s.names == nil {
		return "columns not known, since its first row cannot be read"
	}
	if s.want.conversation(s.names) {
		return fmt.Sprintf("chat messages (%s)", s.names[0])
	}
	return s.Columns.String()
}
