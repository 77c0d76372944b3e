package training

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"restyle/chat"
	"restyle/dataset"
	"restyle/tokenizer"
)

// Ignore is the label of a token that is not trained.
const Ignore = -100

// An Example is a conversation as a model is trained on it.
type Example struct {
	IDs []int32
	// Labels are as many as IDs and not shifted: Labels[t] is IDs[t] where that token is to be predicted from those before
	// it, else Ignore. Labels[0] is always Ignore, since nothing is before it.
	Labels []int32
	// Row is the conversation's row in its source, or the place of a chunk of text.
	Row int

	question uint64 // the same for rows that ask the same; 0 for what asks nothing
}

// Targets is the number of tokens that are learned.
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
	Chat      chat.Options  // as the model will be asked; AddGenerationPrompt is ignored
	Seq       int           // the most tokens of an example, at least 2
	All       bool          // learn the questions and the template too, not only the answers
}

// Encode writes a conversation in the family's template and says which tokens are learned.
//
// The tokens up to an answer are those that chat asks the model with, even where the tokenizer would join the end of the
// question and the beginning of the answer into one token: the text is cut there. So the answer is learned from
// the prompt that it will follow. Where a template writes the last prompt otherwise once it is answered (Mistral v0.3 drops
// the system prompt), the prompt is written as it is asked.
//
// Learned is each answer with the token that ends it; an answer without text is not learned, nor is its end. With
// All it is everything but the first token. What follows the last learned token is left out, since no loss sees it.
//
// An example of more than Seq tokens is cut at the end, by cut tokens. The answer that is cut through is learned as far as
// it goes and gets no token that ends it, so the model does not learn to stop there. Where the prompt alone takes
// Seq tokens, nothing is learned. An example without anything to learn has no IDs.
//
// A conversation that the template refuses is an error that names the row, as are settings with which no model learns to end
// an answer.
func (e *Encoder) Encode(c dataset.Conversation) (ex Example, cut int, err error) {
	if err := e.check(); err != nil {
		return Example{}, 0, fmt.Errorf("training: %w", err)
	}
	ex, cut, err = e.encode(c)
	if err != nil {
		return Example{}, 0, fmt.Errorf("training: row %d: %w", c.Row, err)
	}
	return ex, cut, nil
}

// check finds settings that no conversation could be encoded with.
func (e *Encoder) check() error {
	if e.Seq < 2 {
		return fmt.Errorf("examples of %d tokens (--seq): the shortest from which anything is learned has 2", e.Seq)
	}
	end := e.Template.EndOfTurn()
	if end == "" {
		return fmt.Errorf("no token ends an answer in the template %s, and the model would learn never to stop: "+
			"name the model's eos_token in its tokenizer_config.json", e.Template.Name)
	}
	if ids := e.Tokenizer.Encode(end, tokenizer.EncodeOptions{Special: tokenizer.Everywhere}).IDs; len(ids) != 1 {
		return fmt.Errorf("the tokenizer has no token %q, with which the template %s ends an answer: "+
			"choose a template that fits the model", end, e.Template.Name)
	}
	return nil
}

func (e *Encoder) encode(c dataset.Conversation) (Example, int, error) {
	none := Example{Row: c.Row}
	messages := c.Messages
	if !e.All {
		last := len(messages)
		for last > 0 && messages[last-1].Role != "assistant" {
			last--
		}
		if messages = messages[:last]; last == 0 {
			return none, 0, nil
		}
	}
	r, err := e.render(messages)
	if err != nil {
		return none, 0, err
	}
	tokens := e.tokens(r)
	// One allocation holds both, since they live and die together.
	n := len(tokens.IDs)
	both := make([]int32, 2*n)
	ids, labels := both[:n:n], both[n:]
	copy(ids, tokens.IDs)
	if e.All {
		copy(labels, ids)
	} else {
		e.label(labels, tokens, r, messages)
	}
	if n > 0 {
		labels[0] = Ignore
	}
	learned := learnedTo(labels)
	kept := learnedTo(labels[:min(learned, e.Seq)])
	if kept == 0 {
		return none, max(0, learned-e.Seq), nil
	}
	return Example{IDs: ids[:kept], Labels: labels[:kept], Row: c.Row, question: asked(messages)}, max(0, learned-e.Seq), nil
}

// learnedTo is where the last token that is learned ends.
func learnedTo(labels []int32) int {
	n := len(labels)
	for n > 0 && labels[n-1] == Ignore {
		n--
	}
	return n
}

// label marks the answers that have a text.
func (e *Encoder) label(labels []int32, tokens tokenizer.Encoding, r chat.Rendered, messages []chat.Message) {
	for i := range labels {
		labels[i] = Ignore
	}
	answer := 0 // Learn has a span for each message of an assistant
	for _, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		if strings.TrimSpace(m.Content) != "" {
			first, end := tokens.Tokens(tokenizer.Span(r.Targets[answer]))
			copy(labels[first:end], tokens.IDs[first:end])
		}
		answer++
	}
}

// render writes a conversation so that its last answer follows the very text that asks for it.
func (e *Encoder) render(messages []chat.Message) (chat.Rendered, error) {
	o := e.Chat
	o.AddGenerationPrompt = false
	r, err := e.Template.Render(messages, o)
	last := len(messages) - 1
	if err != nil || last < 1 || messages[last].Role != "assistant" {
		return r, err
	}
	o.AddGenerationPrompt = true
	prompt, err := e.Template.Render(messages[:last], o)
	if err != nil { // an answer that nobody can have asked for
		return r, nil
	}
	answer := r.Targets[len(r.Targets)-1]
	if prompt.Text == r.Text[:answer.Start] {
		return r, nil
	}
	shift := len(prompt.Text) - answer.Start
	for _, s := range within(r.Markup, answer.Start, len(r.Text)) {
		prompt.Markup = append(prompt.Markup, chat.Span{Start: s.Start + len(prompt.Text), End: s.End + len(prompt.Text)})
	}
	prompt.Targets = append(prompt.Targets, chat.Span{Start: answer.Start + shift, End: answer.End + shift})
	prompt.Text += r.Text[answer.Start:]
	return prompt, nil
}

// within are the parts of spans in [from, to), counted from there.
func within(spans []chat.Span, from, to int) []chat.Span {
	var parts []chat.Span
	for _, s := range spans {
		if s.Start, s.End = max(s.Start, from)-from, min(s.End, to)-from; s.Start < s.End {
			parts = append(parts, s)
		}
	}
	return parts
}

// tokens encodes a rendering, in parts where the tokens up to an answer would not be those of its prompt.
func (e *Encoder) tokens(r chat.Rendered) tokenizer.Encoding {
	whole := e.part(r, 0, len(r.Text))
	from := 0
	var all tokenizer.Encoding
	for _, s := range r.Targets {
		same, n := e.promptIn(whole, r, s.Start)
		if n >= e.Seq {
			break // the answer will be cut off
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

// promptIn reports whether the encoded text begins with the tokens of its first bytes encoded alone, and how many tokens
// end in those bytes. Special tokens divide a text into stretches that are encoded each by itself, so that it is
// enough to encode from the last one on.
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

// part encodes r.Text[from:to]; its Ends count from the beginning of r.Text. Only what the template itself wrote can become
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

// beginning are the tokens that a tokenizer puts in front of a text.
func beginning(t *tokenizer.Tokenizer) tokenizer.Encoding {
	p := t.Encode("a", tokenizer.EncodeOptions{AddSpecial: true})
	n, _ := slices.BinarySearch(p.Ends, 1)
	return tokenizer.Encoding{IDs: p.IDs[:n:n], Ends: p.Ends[:n:n]}
}

// asked is a number for all that is said in a conversation but its answers. It is 0 for one that asks nothing: that has answers and
// perhaps a system prompt, and nothing else.
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
