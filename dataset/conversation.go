package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"restyle/chat"
)

// A Conversation is one row to train on: messages with the roles of package chat, or a document of plain text.
type Conversation struct {
	Messages []chat.Message
	Prompt   int    // the first Prompt messages are only the prompt: the answers among them are not to be learned
	Text     string // the document, if Conversations.Text
	// Tools and Variables are for the chat template, as in chat.Options.
	Tools, Variables string
	Row              int // index in the source, from 0, counted over all its files
}

// Conversations reads the conversations of a dataset in order. It is not safe for concurrent use. The caller must close
// it.
type Conversations struct {
	Name     string // the file's base name, the hub id, or "starter"
	Revision string // identifies the content: the commit on the hub, or the SHA-256 of the file in hex
	Format   string // what was recognized, for people: "Alpaca columns instruction, input, output"
	Text     bool   // the rows are documents of plain text

	spec   string
	source *Source
	whole  bool // records are conversations as JSON
	err    error
	used   names // columns besides the ones in Format
	seen   names // keys of messages, and variables, that are only for the template
}

// Files returns the files of a dataset that is not one file of its own name.
func (c *Conversations) Files() []string { return c.source.files }

// Used returns the columns that were used besides those in Format, in the rows so far.
func (c *Conversations) Used() []string { return c.used.list }

// Unused returns the columns that were not used, in the rows so far.
func (c *Conversations) Unused() []string {
	return slices.DeleteFunc(c.source.Unused(), func(column string) bool {
		return slices.Contains(c.used.list, column) || slices.Contains(c.seen.list, strings.ToLower(column))
	})
}

// Keys returns the keys of messages and the variables that are only for the template, in the rows so far. Whether they
// are used depends on the template.
func (c *Conversations) Keys() []string { return c.seen.list }

// Asked returns the number of messages in the rows so far that are not answers but say that they are to be learned.
func (c *Conversations) Asked() int { return c.seen.asked }

// OpenConversations opens the dataset that spec names, as [Open] does, and recognizes what its rows hold:
//
//   - a row of gen's output. The answer is the rewritten one, or the original one if the columns are
//     "output=output_original";
//   - a question and an answer, in the columns of Alpaca (instruction, input, output) or others in use, or in the
//     columns that o.Columns names. [Question] joins instruction and input. A column system or system_prompt is the
//     system prompt. If question and answer are lists of messages (TRL's prompt and completion), only the answers of
//     the second are to be learned;
//   - a whole conversation in the column messages, a list of {"role": …, "content": …}, or in the column conversations,
//     a list of {"from": …, "value": …} (ShareGPT). The list may also be JSON in a string. A column system or
//     system_prompt is the system prompt here as well, and must not contradict a first message that is one;
//   - plain text in the column text, each row a document, if there is no column that usually holds a question.
//
// A message may say that it is not to be learned (train, loss, weight, loss_mask, …: 0 or false), and may have thoughts
// (reasoning_content, reasoning, thinking) and tool_calls or a function_call. Its other keys are for the template. The
// columns tools, functions, documents, chat_template_kwargs, history, loss_mask and thoughts are used; what marks bad
// answers (label, rejected) or holds pictures is an error. [Conversations.Unused] returns all other columns.
//
// The columns messages and conversations take precedence over all others. OpenConversations reads the first row.
func OpenConversations(ctx context.Context, spec string, o Options) (*Conversations, error) {
	s, err := open(ctx, spec, o, wanted{Columns: o.Columns, Training: true})
	if err != nil {
		return nil, err
	}
	return &Conversations{
		Name: s.Name, Revision: s.Revision, Format: formatOf(s),
		Text: s.want.document(s.names), spec: spec, source: s, whole: s.want.conversation(s.names),
	}, nil
}

// FormatRewritten is in the format of answers that gen rewrote in a style.
const FormatRewritten = "gen's rewritten answers"

// formatOf describes the recognized format for people.
func formatOf(s *Source) string {
	c := s.Columns
	switch {
	case s.want.document(s.names):
		return fmt.Sprintf("plain text, each row a document (%s)", s.names[0])
	case s.want.conversation(s.names):
		return fmt.Sprintf("chat messages (%s)", strings.Join(named(s.names), ", "))
	case c.Output == rewrittenOutput:
		return fmt.Sprintf("%s (%s)", FormatRewritten, c.Output)
	case c.Output == originalOutput:
		return fmt.Sprintf("gen's original answers (%s)", c.Output)
	}
	text := "columns " + strings.Join(named([]string{c.System, c.Instruction, c.Input, c.Output}), ", ")
	if c.Instruction == "instruction" && c.Output == "output" {
		text = "Alpaca " + text
	}
	return text
}

// Next returns the next conversation, or io.EOF after the last. Any other error names the file and the row or line and
// is final: the rest of the file is not trusted. A row without a question is such an error; an answer may be empty.
func (c *Conversations) Next() (Conversation, error) {
	if c.err != nil {
		return Conversation{}, c.err
	}
	row := c.source.index
	rec, err := c.source.take()
	if err != nil {
		c.err = err
		return Conversation{}, err
	}
	next := Conversation{Row: row}
	if err := c.read(rec, &next); err != nil {
		c.err = fmt.Errorf("dataset: %s: row %d: %w", c.Name, row, err)
		return Conversation{}, c.err
	}
	return next, nil
}

// read reads a record into next.
func (c *Conversations) read(rec []string, next *Conversation) error {
	last := len(rec) - 1
	if c.Text {
		next.Text = rec[0]
		return nil
	}
	row := &reading{Conversation: next, seen: &c.seen, kto: c.prompts(), whole: c.whole,
		halves: len(c.source.names) == outputAt+1}
	if c.whole {
		if err := row.talk(rec[:last]); err != nil {
			return err
		}
	} else if err := row.pair(rec); err != nil {
		return err
	}
	used, err := row.use(rec[last])
	c.used.add(used...)
	return err
}

// prompts reports whether rows are a prompt and its completion.
func (c *Conversations) prompts() bool {
	return len(c.source.names) > outputAt && strings.EqualFold(c.source.names[instructionAt], "prompt") &&
		strings.EqualFold(c.source.names[outputAt], "completion")
}

// pair reads a record that is a question and its answer.
func (c *reading) pair(rec []string) error {
	question := Question(rec[instructionAt], rec[inputAt])
	if question == "" {
		return errors.New("the question is empty: fill it in or remove the row")
	}
	if strings.TrimSpace(rec[systemAt]) != "" {
		c.Messages = append(c.Messages, chat.Message{Role: "system", Content: rec[systemAt]})
	}
	c.Messages = append(c.Messages, chat.Message{Role: "user", Content: question},
		chat.Message{Role: "assistant", Content: rec[outputAt]})
	return nil
}

// talk reads a record that is a conversation.
func (c *reading) talk(rec []string) error {
	messages, err := c.half(rec[0], "user")
	if err != nil {
		return err
	}
	switch system := rec[talkSystemAt]; {
	case strings.TrimSpace(system) == "" || messages[0].Role == "system" && messages[0].Content == system:
	case messages[0].Role == "system":
		return errors.New("the system prompt of its own column is not that of its first message: remove one of them")
	default:
		messages = append([]chat.Message{{Role: "system", Content: system}}, messages...)
	}
	c.Messages = messages
	if len(rec) > outputAt {
		answers, err := c.half(rec[outputAt], "assistant")
		if err != nil {
			return err
		}
		if n := repeats(answers, messages); n > 0 {
			messages, answers = answers[:n], answers[n:]
		} else if role := answers[0].Role; messages[len(messages)-1].Role == "user" && (role == "user" || role == "system") {
			return fmt.Errorf("the answer begins with a message of the role %q, and not with the question, which has a column "+
				"of its own: remove one of them", role)
		}
		c.Messages, c.Prompt = slices.Concat(messages, answers), len(messages)
	}
	return nil
}

// repeats returns how many messages of an answer repeat the question before it, perhaps with a system prompt: in data
// for preference training, the good answer is often the whole conversation.
func repeats(answer, question []chat.Message) int {
	same := func(a, b chat.Message) bool {
		return a.Role == b.Role && strings.TrimSpace(a.Content) == strings.TrimSpace(b.Content)
	}
	first := 0
	if answer[0].Role == "system" && question[0].Role != "system" {
		first = 1
	}
	end := first + len(question)
	if end < len(answer) && slices.EqualFunc(answer[first:end], question, same) {
		return end
	}
	return 0
}

// half reads a list of messages. If question and answer have columns of their own, one of them may be text.
func (c *reading) half(raw, role string) ([]chat.Message, error) {
	if kind([]byte(raw)) != "a string" || !c.halves {
		return parseMessages([]byte(raw), c.seen)
	}
	content, err := text([]byte(raw))
	return []chat.Message{{Role: role, Content: content}}, err
}

// Close closes the dataset. Next must not be called after it.
func (c *Conversations) Close() error { return c.source.Close() }

// Uncertified is a row of gen's output that no certificate vouches for.
type Uncertified struct {
	Row int
	Why string // as [Certification.Why] says it
}

// Uncertified returns the rows of gen's output that the certificates next to it do not vouch for. It returns none if
// there are no certificates, or if the dataset is not gen's output.
func (c *Conversations) Uncertified(ctx context.Context) ([]Uncertified, error) {
	if out := c.source.Columns.Output; out != rewrittenOutput && out != originalOutput {
		return nil, nil
	}
	certificates, err := ReadCertificates(CertificatePath(c.spec))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rows, err := ReadRewritten(ctx, c.spec)
	if err != nil {
		return nil, fmt.Errorf("%w: the certificates next to it (%s) are of other rows: move them away", err,
			CertificatePath(c.spec))
	}
	found := Certify(rows, certificates)
	var result []Uncertified
	for row, valid := range found.Valid {
		if !valid {
			result = append(result, Uncertified{row, found.Why(row)})
		}
	}
	return result, nil
}
