package chat

import (
	"strings"
	"time"

	"restyle/chat/jinja"
)

// FixedDate is the date in system turns of Llama 3.1 and 3.2 unless Options has another.
const FixedDate = "26 Jul 2024"

// Options are the inputs of a template other than the messages.
type Options struct {
	// AddGenerationPrompt appends the header of the answer to be generated.
	AddGenerationPrompt bool

	// DateString is the date in the system turn of Llama 3.1 and 3.2; any text will do. If it is empty, Llama 3.2 uses Now
	// if that is not zero. Otherwise the date is FixedDate.
	DateString string
	Now        time.Time

	// Tools is a JSON list of the tools that the conversation may call, and Variables a JSON object of other variables of
	// the template, such as documents or enable_thinking. They reach the template as they are.
	Tools     string
	Variables string

	// From is the index of the first message whose answer Rendered.Targets has: 0 for all answers.
	From int
}

// A Span is the bytes [Start, End) of a text.
type Span struct{ Start, End int }

// Dropped is the Span of a content that the template left out.
var Dropped = Span{-1, -1}

// Rendered is a conversation as text, with the origin of its bytes.
type Rendered struct {
	Text string

	// BOS reports whether Text starts with the BOS token, so a tokenizer must not prepend another. If it is false,
	// transformers does not add one to a rendered conversation either. Only for Raw does the tokenizer decide.
	BOS bool

	// Markup lists the text that the template itself wrote, in order, without empty or adjacent spans. The rest are
	// its inputs: contents, roles, the date, and the thoughts that Qwen3 cuts off an answer. A tokenizer may
	// recognize special tokens only inside these spans. Otherwise it must ignore their ends, because words and line
	// breaks cross them.
	Markup []Span

	// Targets lists what a training loss may count, in order: for each message with the role "assistant", from
	// Options.From on, the answer and the end-of-turn token, without the header before and the line break after. The
	// span of a message that is Context may be empty.
	Targets []Span

	// Thoughts is what an answer that ends the conversation starts with, after the prompt that asks for it, though
	// the template leaves it out. Some programs, such as DeepSeek-R1's, end the prompt with <think>, which starts
	// thoughts, and write an answer without any. Then Thoughts are the message's thoughts, which may be empty, and
	// the end of thoughts, from the byte ThoughtsEnd on. The last of Targets then starts after Thoughts.
	Thoughts    string
	ThoughtsEnd int

	// NoTargets says why Targets are not known, and what to do about it: a Jinja program may render a conversation so
	// that it cannot be told which part followed a prompt. It is a [*RefusedError], or nil. Only training needs
	// Targets.
	NoTargets error

	// Read lists the keys of Message.More and the names of Options.Variables that the template asked for, sorted.
	Read []string

	// Contents has one span for each message: its content, trimmed as the template does and without thoughts. It is
	// Dropped if none of that is in the text.
	Contents []Span
}

// Render renders a conversation as the template does, byte for byte. If the template refuses it, the error is a
// [*RefusedError].
func (t Template) Render(messages []Message, o Options) (Rendered, error) {
	if t.program == nil {
		var err error
		if t, err = t.compiled(beyond(messages, o)); err != nil {
			return Rendered{}, err
		}
	}
	p := page{Template: t, Options: o, messages: messages}
	if err := p.refused(); err != nil {
		return Rendered{}, err
	}
	p.out.Contents = make([]Span, len(messages))
	for i := range messages {
		p.out.Contents[i] = Dropped
	}
	if err := p.run(); err != nil {
		return Rendered{}, err
	}
	if p.out.NoTargets == nil {
		p.out.Targets = p.out.Targets[len(answers(messages[:min(o.From, len(messages))])):]
	}
	return p.out, nil
}

// answers returns the indices of the answers.
func answers(messages []Message) (at []int) {
	for i, m := range messages {
		if m.Role == "assistant" {
			at = append(at, i)
		}
	}
	return at
}

// page is a rendering in progress.
type page struct {
	Template
	Options
	messages []Message
	out      Rendered
}

// Strip does what Jinja's filter trim does, that is, Python's str.strip. White space is Unicode's and the four ASCII
// separators.
func Strip(s string) string {
	return strings.TrimFunc(s, jinja.IsSpace)
}
