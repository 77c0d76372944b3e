package chat

import (
	"strings"
	"time"
	"unicode"
)

// FixedDate is the date in system turns of Llama 3.1 and 3.2 unless Options give another.
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
	// transformers adds none to a rendered conversation, either. Only for Raw does the tokenizer decide.
	BOS bool

	// Markup lists the text that the template itself wrote, in order, without empty or adjacent spans. The rest are its
	// inputs: contents, roles, the date, and the thoughts that Qwen3 cuts off an answer. A tokenizer may recognise special
	// tokens only inside these spans. Otherwise it must ignore their ends, because words and line breaks cross them.
	Markup []Span

	// Targets lists what a training loss may count, in order: of each message with the role "assistant", from Options.From
	// on, the answer and the end-of-turn token, without the header before and the line break after. The span of a message
	// that is Context may be empty.
	Targets []Span

	// Thoughts is what an answer that ends the conversation begins with, after the prompt that asks for it, though the
	// template leaves it out. Some programs end the prompt with <think>, which begins thoughts, and write an answer
	// without any, as DeepSeek-R1's does. Then Thoughts are those in the message, which may be none, and the end of
	// thoughts, from the byte ThoughtsEnd on. The last of Targets then begins after Thoughts.
	Thoughts    string
	ThoughtsEnd int

	// NoTargets says why Targets are not known, and what to do about it: a program of Jinja may render a conversation so
	// that it cannot be told which part followed a prompt. It is a [*RefusedError], or nil. Only training needs Targets.
	NoTargets error

	// Read lists the keys of Message.More and the names of Options.Variables that the template asked for, sorted.
	Read []string

	// Contents has one span for each message: its content, trimmed as the template does and without thoughts, or Dropped.
	Contents []Span
}

// Render renders a conversation as the template does, byte for byte. If the template refuses it, the error is a
// [*RefusedError].
func (t Template) Render(messages []Message, o Options) (Rendered, error) {
	if t.program == nil && beyond(messages, o) {
		var err error
		if t, err = t.compiled(); err != nil {
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
	if err := t.render(&p); err != nil {
		return Rendered{}, err
	}
	p.out.Text = p.text.String()
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
	text     strings.Builder
	out      Rendered
}

// own writes text that is part of the template.
func (p *page) own(s string) {
	start := p.text.Len()
	p.text.WriteString(s)
	last := len(p.out.Markup) - 1
	switch {
	case s == "":
	case last >= 0 && p.out.Markup[last].End == start:
		p.out.Markup[last].End += len(s)
	default:
		p.out.Markup = append(p.out.Markup, Span{start, start + len(s)})
	}
}

// given writes an input of the template.
func (p *page) given(s string) { p.text.WriteString(s) }

// content writes the content of message i, in the template's spelling.
func (p *page) content(i int, s string) {
	start := p.text.Len()
	p.text.WriteString(s)
	p.out.Contents[i] = Span{start, p.text.Len()}
}

// bos writes the BOS token.
func (p *page) bos() {
	p.own(p.BOS)
	p.out.BOS = p.BOS != ""
}

// target marks the text from start to here as what an assistant has to generate.
func (p *page) target(start int) {
	p.out.Targets = append(p.out.Targets, Span{start, p.text.Len()})
}

// marks are the texts around a turn: open role head content end gap.
type marks struct{ open, head, end, gap string }

// turn writes message i as a turn of this role, with this content.
func (p *page) turn(k marks, i int, role, content string) {
	p.own(k.open)
	p.given(role)
	p.own(k.head)
	start := p.text.Len()
	p.content(i, content)
	p.own(k.end)
	if p.messages[i].Role == "assistant" {
		p.target(start)
	}
	p.own(k.gap)
}

// header writes the start of a turn that the template adds by itself.
func (p *page) header(k marks, role string) { p.own(k.open + role + k.head) }

// prompt writes the header of the answer to be generated, if Options ask for it.
func (p *page) prompt(k marks, role string) {
	if p.AddGenerationPrompt {
		p.header(k, role)
	}
}

// strip is Jinja's filter trim, that is Python's str.strip. White space is Unicode's and the four ASCII separators.
func strip(s string) string {
	return strings.TrimFunc(s, isSpace)
}

func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }
