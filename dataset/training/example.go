package training

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"restyle/chat"
	"restyle/dataset"
	"restyle/tokenizer"
)

// Ignore is the label of a token that does not count in the loss.
const Ignore = -100

// An Example is a conversation, its part up to one answer, or a chunk of text, as tokens to train on.
type Example struct {
	IDs []int32
	// Labels has the length of IDs and is not shifted: Labels[t] is IDs[t] if the model learns to predict that token from
	// the ones before it, otherwise Ignore. Labels[0] is always Ignore.
	Labels []int32
	// Row is the row of the conversation or document in its source, or the index of a chunk of a text file.
	Row int

	question uint64 // equal for rows that ask the same question; 0 if there is no question
}

// Targets returns the number of target tokens: those whose label is not Ignore.
func (ex Example) Targets() int {
	n := 0
	for _, l := range ex.Labels {
		if l != Ignore {
			n++
		}
	}
	return n
}

// Encoder turns conversations into examples. It is safe for concurrent use.
type Encoder struct {
	Tokenizer *tokenizer.Tokenizer
	Template  chat.Template // with the BOS and EOS of the model's tokenizer_config.json
	Chat      chat.Options  // as chat asks the model; AddGenerationPrompt is ignored
	Seq       int           // the maximum tokens of an example, at least 2
	All       bool          // questions and template are targets too, not only the answers
	Enough    int           // Load stops after about this many examples; 0: it reads all
}

// Encode renders a conversation with the chat template, and encodes and labels its tokens.
//
// The tokens before an answer are the tokens of the prompt that chat gives the model, even if the tokenizer would join
// the end of the question and the start of the answer into one token: Encode splits the text there. So the model learns
// an answer from the prompt that it will follow. Some templates render the last prompt differently once it is answered
// (Mistral v0.3 drops the system prompt); Encode renders it as chat does. If the prompt starts thoughts that the
// template leaves out of an answer, as DeepSeek-R1's does, the answer is a target with its thoughts, or with the end of
// none.
//
// The targets are each answer after c.Prompt and the token that ends it. An answer that says nothing is no target, nor
// is its end. With All, every token but the first is a target. What is Context is no target, not even with All, nor is
// a token that is part of an aside. Encode drops the tokens after the last target, since the loss ignores them.
//
// A document has no template: it is its text, after the token that starts a sequence if the tokenizer has one, and
// before Template.EOS if it is a token. No special tokens are recognized in it. All its tokens but the first are
// targets.
//
// Encode truncates an example of more than Seq tokens at the end and returns the number of tokens that it dropped. The
// rest of a truncated answer stays a target, without a token that ends it, so that the model does not learn to stop
// there. If the prompt by itself takes Seq tokens, there are no targets. An example without targets has no IDs.
//
// Encode returns an error that names the row if the template rejects the conversation, and an error if no model could
// learn to end an answer with these settings. For a template that writes earlier answers in another way once there are
// later messages, the error is a [*chat.RefusedError] that says so. [Load] makes several examples of such a
// conversation, and of a document that is too long.
func (e *Encoder) Encode(c dataset.Conversation) (ex Example, truncated int, err error) {
	if err := e.check(c.Text != ""); err != nil {
		return Example{}, 0, fmt.Errorf("training: %w", err)
	}
	if c.Text != "" {
		chunks := e.document(c)
		for _, more := range chunks[min(1, len(chunks)):] {
			truncated += more.Targets()
		}
		return append(chunks, Example{Row: c.Row})[0], truncated, nil
	}
	ex, truncated, _, err = e.encode(c)
	if err != nil {
		return Example{}, 0, fmt.Errorf("training: row %d: %w", c.Row, err)
	}
	return ex, truncated, nil
}

// check returns an error for settings with which no conversation, or no plain text, can be encoded.
func (e *Encoder) check(text bool) error {
	if err := e.checkSeq(); err != nil || text {
		return err
	}
	end := e.Template.EndOfTurn()
	if end == "" {
		return fmt.Errorf("template %s: no token ends an answer, so the model would learn never to stop: "+
			"name the model's eos_token in its tokenizer_config.json", e.Template.Name)
	}
	if ids := e.Tokenizer.Encode(end, tokenizer.EncodeOptions{Special: tokenizer.Everywhere}).IDs; len(ids) != 1 {
		return fmt.Errorf("template %s: the tokenizer has no token %q, which ends an answer: "+
			"choose a template that fits the model", e.Template.Name, end)
	}
	return nil
}

func (e *Encoder) checkSeq() error {
	if e.Seq < 2 {
		return seqErrorf("seq %d: must be at least 2, one token and the token that it predicts", e.Seq)
	}
	return nil
}

// seqErrorf returns an error that another Seq would avoid.
func seqErrorf(format string, args ...any) error {
	return &dataset.SettingError{Name: "seq", Err: fmt.Errorf(format, args...)}
}

// A row is what one row of a dataset becomes.
type row struct {
	examples  []Example // those with targets
	truncated []int     // tokens that each lost
	apart     bool      // each answer is an example of its own
	tooLong   bool      // there are no targets, because the prompt by itself takes Seq tokens
	masked    int       // answers that are Context
	asides    int       // asides of other answers
	seen
}

// seen is what a template made of a conversation.
type seen struct {
	read    []string // keys of messages and variables that it asked for
	leftOut string   // the role of a message that it left out, or ""
	quoted  bool     // it wrote arguments of a call, which were a text, in quotes
}

// seenIn returns what a template made of messages.
func seenIn(r chat.Rendered, messages []chat.Message) (s seen) {
	s.read = r.Read
	for i, span := range r.Contents {
		if span == chat.Dropped && chat.Strip(messages[i].Content) != "" {
			s.leftOut = cmp.Or(s.leftOut, messages[i].Role)
		}
	}
	for _, m := range messages {
		s.quoted = s.quoted || quotes(r.Text, m.Calls)
	}
	return s
}

// quotes reports whether a text has the arguments of calls only in quotes: they are JSON in a string, as servers give
// them, and some templates expect an object.
func quotes(text, calls string) bool {
	var list []struct{ Function struct{ Arguments any } }
	if calls == "" || json.Unmarshal([]byte(calls), &list) != nil {
		return false
	}
	for _, call := range list {
		if said, is := call.Function.Arguments.(string); is && strings.Contains(said, `"`) && !strings.Contains(text, said) {
			return true
		}
	}
	return false
}

// row encodes a row. If the template writes earlier answers in another way once there are later messages, it makes one
// example for each answer, of the conversation up to there: what the model is asked when it has to give that answer.
func (e *Encoder) row(c dataset.Conversation) (r row, err error) {
	add := func(ex Example, truncated int) {
		if len(ex.IDs) > 0 {
			r.examples, r.truncated = append(r.examples, ex), append(r.truncated, truncated)
		} else if truncated > 0 {
			r.tooLong = true
		}
	}
	if c.Text != "" {
		for _, chunk := range e.document(c) {
			add(chunk, 0)
		}
		return r, nil
	}
	for _, m := range c.Messages {
		switch {
		case m.Role != "assistant":
		case m.Context:
			r.masked++
		default:
			r.asides += len(m.Asides)
		}
	}
	ex, truncated, saw, err := e.encode(c)
	r.seen = saw
	if refused, is := errors.AsType[*chat.RefusedError](err); !is || !refused.Rewritten {
		add(ex, truncated)
		return r, err
	}
	r.apart = true
	for i, m := range c.Messages {
		if i < c.Prompt || !learned(m) {
			continue
		}
		up := c
		up.Messages, up.Prompt = c.Messages[:i+1], i
		ex, truncated, more, err := e.encode(up)
		if err != nil {
			return row{}, err
		}
		r.seen = seen{append(r.read, more.read...), cmp.Or(r.leftOut, more.leftOut), r.quoted || more.quoted}
		ex.question = asked(c.Messages) // validation must not have half of a conversation
		add(ex, truncated)
	}
	return r, nil
}

// document encodes a row of plain text in chunks of Seq tokens.
func (e *Encoder) document(c dataset.Conversation) []Example {
	ids := e.plain(c.Text)
	end := e.Tokenizer.Encode(e.Template.EOS, tokenizer.EncodeOptions{Special: tokenizer.Everywhere}).IDs
	if len(end) == 1 {
		ids = append(ids, end...)
	}
	return e.chunks(ids, func(int) int { return c.Row })
}

// learned reports whether a message is an answer that a model can learn.
func learned(m chat.Message) bool { return m.Role == "assistant" && !m.Context && m.Says() }

func isContext(m chat.Message) bool { return m.Role == "assistant" && m.Context }

func (e *Encoder) encode(c dataset.Conversation) (ex Example, truncated int, s seen, err error) {
	none := Example{Row: c.Row}
	messages := c.Messages
	if len(messages) == 0 {
		return none, 0, s, nil
	}
	if !e.All {
		last := len(messages)
		for last > 0 && (messages[last-1].Role != "assistant" || messages[last-1].Context) {
			last--
		}
		if messages = messages[:last]; last <= c.Prompt {
			return none, 0, s, nil
		}
	}
	asks := messages
	if e.All { // where Context is has to be known
		asks = slices.Clone(messages)
		for i := range asks {
			asks[i].Context = false
		}
	}
	r, err := e.render(asks, c)
	if err == nil && (!e.All || slices.ContainsFunc(messages, isContext)) {
		err = r.NoTargets
	}
	if err != nil {
		return none, 0, s, err
	}
	tokens := e.tokens(r)
	// One allocation holds both, since they have the same lifetime.
	n := len(tokens.IDs)
	both := make([]int32, 2*n)
	ids, labels := both[:n:n], both[n:]
	copy(ids, tokens.IDs)
	if e.All {
		copy(labels, ids)
	} else {
		e.label(labels, tokens, r, messages[c.Prompt:])
	}
	if err := unlabel(labels, tokens, r, messages, c.Prompt); err != nil {
		return none, 0, s, err
	}
	if n > 0 {
		labels[0] = Ignore
	}
	whole := lastTarget(labels)
	kept := lastTarget(labels[:min(whole, e.Seq)])
	if kept == 0 {
		return none, max(0, whole-e.Seq), seenIn(r, asks), nil
	}
	ex = Example{IDs: ids[:kept], Labels: labels[:kept], Row: c.Row, question: asked(messages)}
	return ex, max(0, whole-e.Seq), seenIn(r, asks), nil
}

// lastTarget returns the index after the last target, or 0 if there is none.
func lastTarget(labels []int32) int {
	n := len(labels)
	for n > 0 && labels[n-1] == Ignore {
		n--
	}
	return n
}

// label marks the answers that have text as targets. messages are those from the first that may be one.
func (e *Encoder) label(labels []int32, tokens tokenizer.Encoding, r chat.Rendered, messages []chat.Message) {
	for i := range labels {
		labels[i] = Ignore
	}
	answer := 0 // Targets has a span for each message of an assistant
	for _, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		if learned(m) {
			first, end := tokens.Tokens(tokenizer.Span(r.Targets[answer]))
			copy(labels[first:end], tokens.IDs[first:end])
		}
		answer++
	}
}

// unlabel removes from the targets what is not to be learned: the content of messages that are Context, which for
// answers after the prompt includes the end, and the asides of other messages.
func unlabel(labels []int32, tokens tokenizer.Encoding, r chat.Rendered, messages []chat.Message, prompt int) error {
	answer := 0
	for i, m := range messages {
		isAnswer := m.Role == "assistant" && i >= prompt
		if isAnswer {
			answer++
		}
		var parts []chat.Span
		switch {
		case !m.Context && len(m.Asides) > 0:
			if parts = asides(r.Text, r.Contents[i], m); parts == nil {
				return fmt.Errorf("message %d: the template changes the content, so that parts of it cannot be left out of "+
					"the loss: mark the whole message, or choose another template", i)
			}
		case !m.Context:
		case isAnswer:
			parts = r.Targets[answer-1 : answer]
		case r.Contents[i] != chat.Dropped:
			parts = r.Contents[i : i+1]
		}
		for _, s := range parts {
			first, end := tokens.Tokens(tokenizer.Span(s))
			for i := first; i < end; i++ {
				labels[i] = Ignore
			}
		}
	}
	return nil
}

// asides returns where the asides of a message are in the text, in which span is the content. It returns nil if the
// content is not as it was, except for space around it, which templates trim.
func asides(text string, span chat.Span, m chat.Message) (parts []chat.Span) {
	content := chat.Strip(m.Content)
	if span == chat.Dropped || chat.Strip(text[span.Start:span.End]) != content {
		return nil
	}
	begin := span.Start + strings.Index(text[span.Start:span.End], content) - strings.Index(m.Content, content)
	for _, s := range m.Asides {
		parts = append(parts, chat.Span{Start: max(span.Start, begin+s.Start), End: min(span.End, begin+s.End)})
	}
	return parts
}

// render renders messages of a conversation, whose targets are the answers after its prompt. The text before the last
// answer is exactly the prompt that chat gives.
func (e *Encoder) render(messages []chat.Message, c dataset.Conversation) (chat.Rendered, error) {
	o, prompt := e.Chat, c.Prompt
	o.AddGenerationPrompt = false
	o.From = prompt
	o.Tools = c.Tools
	o.Variables = c.Variables
	r, err := e.Template.Render(messages, o)
	last := len(messages) - 1
	if err != nil || last < 1 || messages[last].Role != "assistant" || r.NoTargets != nil || last < prompt {
		return r, err
	}
	o.AddGenerationPrompt = true
	p, err := e.Template.Render(messages[:last], o)
	if err != nil { // the answer cannot have followed a prompt
		return r, nil
	}
	answer := r.Targets[len(r.Targets)-1]
	if p.Text == r.Text[:answer.Start] || p.NoTargets != nil {
		return r, nil
	}
	p.Read = append(p.Read, r.Read...)
	begin := len(p.Text)
	p.Markup = shifted(p.Markup, begin, chat.Span{Start: r.ThoughtsEnd, End: len(r.Thoughts)})
	p.Text += r.Thoughts
	p.Markup = shifted(p.Markup, len(p.Text), within(r.Markup, answer.Start, len(r.Text))...)
	p.Targets = append(p.Targets, chat.Span{Start: begin, End: len(p.Text) + answer.End - answer.Start})
	content := r.Contents[last]
	if content != chat.Dropped {
		content.Start += len(p.Text) - answer.Start
		content.End += len(p.Text) - answer.Start
	}
	p.Contents = append(p.Contents, content)
	p.Text += r.Text[answer.Start:]
	return p, nil
}

// shifted appends others to spans, moved by some bytes. It joins spans that touch, and leaves out empty ones.
func shifted(spans []chat.Span, by int, others ...chat.Span) []chat.Span {
	for _, s := range others {
		s.Start, s.End = s.Start+by, s.End+by
		if last := len(spans) - 1; last >= 0 && spans[last].End == s.Start {
			spans[last].End = s.End
		} else if s.Start < s.End {
			spans = append(spans, s)
		}
	}
	return spans
}

// within returns the parts of spans in [from, to), with offsets from from.
func within(spans []chat.Span, from, to int) []chat.Span {
	var parts []chat.Span
	for _, s := range spans {
		if s.Start, s.End = max(s.Start, from)-from, min(s.End, to)-from; s.Start < s.End {
			parts = append(parts, s)
		}
	}
	return parts
}

// tokens encodes a rendering. It encodes it in parts if the tokens before an answer would otherwise not be the
// prompt's.
func (e *Encoder) tokens(r chat.Rendered) tokenizer.Encoding {
	whole := e.part(r, 0, len(r.Text))
	from := 0
	var all tokenizer.Encoding
	for _, s := range r.Targets {
		same, n := e.promptIn(whole, r, s.Start)
		if n >= e.Seq {
			break // the answer will be truncated
		}
		if !same {
			all = join(all, e.part(r, from, s.Start))
			from = s.Start
		}
	}
	if from == 0 {
		return whole
	}
	return join(all, e.part(r, from, len(r.Text)))
}

func join(a, b tokenizer.Encoding) tokenizer.Encoding {
	return tokenizer.Encoding{IDs: append(a.IDs, b.IDs...), Ends: append(a.Ends, b.Ends...)}
}

// promptIn reports whether the encoded text starts with the tokens of its first at bytes encoded separately, and how
// many tokens end within those bytes. The tokenizer encodes the text between two special tokens independently of the
// rest, so promptIn encodes only from the last special token on.
func (e *Encoder) promptIn(whole tokenizer.Encoding, r chat.Rendered, at int) (same bool, n int) {
	n, _ = slices.BinarySearch(whole.Ends, int32(at)+1)
	if at == 0 {
		return true, n
	}
	first, from := n, 0
	for first > 0 {
		if first--; e.Tokenizer.IsSpecial(whole.IDs[first]) {
			break
		}
	}
	if first > 0 {
		from = int(whole.Ends[first-1])
	}
	if from == 0 {
		first = 0
	}
	return slices.Equal(e.part(r, from, at).IDs, whole.IDs[first:n]), n
}

// part encodes r.Text[from:to]. Its Ends are offsets in r.Text. Only text that the template itself wrote can become
// special tokens.
func (e *Encoder) part(r chat.Rendered, from, to int) tokenizer.Encoding {
	var o tokenizer.EncodeOptions
	for _, s := range within(r.Markup, from, to) {
		o.Special = append(o.Special, tokenizer.Span(s))
	}
	p := e.Tokenizer.Encode(r.Text[from:to], o)
	for i := range p.Ends {
		p.Ends[i] += int32(from)
	}
	if from == 0 && e.Template.Name == chat.Raw().Name { // a template writes its own BOS
		p = join(beginning(e.Tokenizer), p)
	}
	return p
}

// beginning returns the tokens that a tokenizer puts before a text.
func beginning(t *tokenizer.Tokenizer) tokenizer.Encoding {
	p := t.Encode("a", tokenizer.EncodeOptions{AddSpecial: true})
	n, _ := slices.BinarySearch(p.Ends, 1)
	return tokenizer.Encoding{IDs: p.IDs[:n:n], Ends: p.Ends[:n:n]}
}

// asked returns a hash of all messages of a conversation but its answers. It is 0 if there is no question, only answers
// and perhaps a system prompt.
func asked(messages []chat.Message) uint64 {
	h, asks := sha256.New(), false
	for _, m := range messages {
		if m.Role == "assistant" {
			continue
		}
		asks = asks || m.Role != "system"
		for _, s := range []string{m.Role, m.Content} {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
			h.Write([]byte(s))
		}
	}
	if !asks {
		return 0
	}
	return binary.BigEndian.Uint64(h.Sum(nil)) | 1
}
