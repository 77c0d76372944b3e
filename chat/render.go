package chat

import (
	"strings"
	"time"
	"unicode"
)

// FixedDate is the date that Llama 3.1 and 3.2 are told unless Options give another.
const FixedDate = "26 Jul 2024"

// Options are what a template is given beside the messages.
type Options struct {
	// AddGenerationPrompt ends the text with the header of an answer that is to be written.
	AddGenerationPrompt bool

	// DateString is the date in the system turn of Llama 3.1 and 3.2, any text. If it is empty, Llama 3.2 writes the
	// day of Now, and where that is zero, too, or the family is Llama 3.1, it is FixedDate.
	DateString string
	Now        time.Time
}

// Span is the bytes from Start up to but not including End.
type Span struct{ Start, End int }

// Dropped is the Span of a content that the template left out.
var Dropped = Span{-1, -1}

// Rendered is a conversation as a model reads it.
type Rendered struct {
	Text string

	// BOS says that Text begins with the token that begins a sequence. A tokenizer must not put another in front. Where
	// it is false transformers adds none to a rendered conversation either; only with Raw it is for the tokenizer to say.
	BOS bool

	// Markup is the text that the template itself wrote: in order, not empty, and no two touch. What lies between was
	// given to it: contents, roles, the date, and the thoughts that Qwen3 cuts off the front of an answer. A tokenizer may recognise special tokens inside of these spans and
	// nowhere else; apart from that it must not cut the text at their ends, since words and line breaks go across.
	Markup []Span

	// Targets is what the loss of a training may see, in order: for each message of the role "assistant" the answer and
	// the token that ends it, without the header in front and the line break behind.
	Targets []Span

	// Contents has one span for each message: where its content stands, trimmed as the template does it and without
	// thoughts, or Dropped.
	Contents []Span
}

// Render writes a conversation as the family's template does, byte for byte. If the template does not take it, the
// error is a [*RefusedError].
func (f Template) Render(messages []Message, o Options) (Rendered, error) {
	p := page{Template: f, Options: o, messages: messages}
	p.out.Contents = make([]Span, len(messages))
	for i := range messages {
		p.out.Contents[i] = Dropped
	}
	if err := f.render(&p); err != nil {
		return Rendered{}, err
	}
	p.out.Text = p.text.String()
	return p.out, nil
}

// page is a rendering while it is written.
type page struct {
	Template
	Options
	messages []Message
	text     strings.Builder
	out      Rendered
}

// own writes text of the template itself.
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

// given writes text that the template was given.
func (p *page) given(s string) { p.text.WriteString(s) }

// content writes the content of message i, as the template spells it.
func (p *page) content(i int, s string) {
	start := p.text.Len()
	p.text.WriteString(s)
	p.out.Contents[i] = Span{start, p.text.Len()}
}

// bos writes the token that begins a sequence.
func (p *page) bos() {
	p.own(p.BOS)
	p.out.BOS = p.BOS != ""
}

// learn says that an assistant has to write what stands from start to here.
func (p *page) learn(start int) {
	p.out.Targets = append(p.out.Targets, Span{start, p.text.Len()})
}

// marks are what stands around a turn: open role head content end gap.
type marks struct{ open, head, end, gap string }

// turn writes message i under a role, with that content.
func (p *page) turn(k marks, i int, role, content string) {
	p.own(k.open)
	p.given(role)
	p.own(k.head)
	start := p.text.Len()
	p.content(i, content)
	p.own(k.end)
	if p.messages[i].Role == "assistant" {
		p.learn(start)
	}
	p.own(k.gap)
}

// header writes what stands in front of a turn that the template adds by itself.
func (p *page) header(k marks, role string) { p.own(k.open + role + k.head) }

// prompt writes the header of the answer to come, if it is asked for.
func (p *page) prompt(k marks, role string) {
	if p.AddGenerationPrompt {
		p.header(k, role)
	}
}

// strip is Jinja's filter trim, that is Python's str.strip. Its white space is Unicode's and the four ASCII separators.
func strip(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
}
