package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"restyle/chat"
	"restyle/infer"
	"restyle/infer/batch"
	"restyle/tokenizer"
)

// A Generator generates answers of one model, many at once: see Batch.
type Generator interface {
	// Start queues a request. The error is batch.ErrFull if too many wait, and batch.ErrClosed if no more are taken;
	// any other is the request's fault.
	Start(r batch.Request) (Answer, error)
	Stats() batch.Stats
}

// An Answer is one answer in progress: a [batch.Answer].
type Answer interface {
	Next(ctx context.Context) bool
	Token() batch.Token
	Err() error
	Result() infer.Result
	Waited() time.Duration
	Close()
}

// Batch returns a Generator of a batch.
func Batch(b *batch.Batch) Generator { return batched{b} }

type batched struct{ *batch.Batch }

func (b batched) Start(r batch.Request) (Answer, error) {
	a, err := b.Batch.Start(r)
	if err != nil {
		return nil, err // a nil *batch.Answer would be an Answer that is not nil
	}
	return a, nil
}

// A Model is what the field model of a request names.
type Model struct {
	Name    string
	Codec   infer.Codec
	Context int    // most tokens of a prompt and its answer
	Digest  string // of its weights, as /v1/models shows it; may be empty
	Parent  string // the model whose weights it shares; empty if it has its own
	Drop    func() // called when it has been removed; nil if it stays
	Generator
	created time.Time
	metrics *metrics
	forms   *forms
}

// Add adds a model, which answers from now on. The first model answers requests without the field model. A name that
// exists already is an error.
func (s *Server) Add(m Model) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if m.Name == "" {
		return errors.New("a model needs a name")
	}
	if slices.ContainsFunc(s.models, func(other *Model) bool { return other.Name == m.Name }) {
		return fmt.Errorf("two models have the name %q: give one of them another", m.Name)
	}
	m.created, m.metrics = time.Now(), newMetrics()
	var base *Model
	for _, other := range s.models {
		if other.Name == m.Parent {
			base = other
		}
	}
	m.forms = newForms(&m, base)
	s.models = append(slices.Clip(s.models), &m)
	return nil
}

// all returns the models, in the order in which they were added.
func (s *Server) all() []*Model {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.models
}

// model returns the model of a name, the first one for "".
func (s *Server) model(name string) (*Model, *Error) {
	all := s.all()
	var names []string
	for _, m := range all {
		if m.Name == name || name == "" {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, &Error{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("The model %q does not exist. There is: %q.", name, names)}
}

// describe returns a model as /v1/models lists it.
func (m *Model) describe() object {
	o := object{"id": m.Name, "object": "model", "created": m.created.Unix(), "owned_by": "restyle",
		"max_model_len": m.Context}
	if m.Digest != "" {
		o["digest"] = m.Digest
	}
	if m.Parent != "" {
		o["parent"] = m.Parent
	}
	return o
}

// prompt renders a conversation up to the start of the answer. If continued is true, the answer continues the last
// message instead.
func (m *Model) prompt(messages []chat.Message, o chat.Options, continued bool) ([]int32, *Error) {
	if !continued {
		ids, err := m.render(messages, o, true)
		if err != nil {
			return nil, err
		}
		return m.fit(ids)
	}
	r, err := m.rendered(messages, o)
	if err != nil {
		return nil, err
	}
	last := r.Contents[len(messages)-1]
	if last == chat.Dropped {
		return nil, refuse("messages", "the model's template leaves out the last message, so nothing can continue it")
	}
	return m.fit(m.encode(r.Text[:last.End], cut(r.Markup, last.End)))
}

// render returns a conversation as tokens, with or without the header of the answer.
func (m *Model) render(messages []chat.Message, o chat.Options, header bool) ([]int32, *Error) {
	o.AddGenerationPrompt = header
	r, err := m.rendered(messages, o)
	if err != nil {
		return nil, err
	}
	return m.encode(r.Text, r.Markup), nil
}

func (m *Model) rendered(messages []chat.Message, o chat.Options) (chat.Rendered, *Error) {
	for i, message := range messages {
		if err := m.Codec.Tokenizer.CheckText(message.Content); err != nil {
			return chat.Rendered{}, refuse("messages", "message %d: %v", i+1, err)
		}
	}
	r, err := m.Codec.Template.Render(messages, o)
	if err != nil {
		return r, refuse("messages", "%v", err)
	}
	if names := unread(o.Variables, r.Read); len(names) > 0 {
		return r, refuse("chat_template_kwargs", "the model's template does not read %q", names)
	}
	return r, nil
}

// cut returns the parts of spans before end.
func cut(spans []chat.Span, end int) (kept []chat.Span) {
	for _, s := range spans {
		if s.End = min(s.End, end); s.Start < s.End {
			kept = append(kept, s)
		}
	}
	return kept
}

// encode turns a rendered conversation into tokens.
func (m *Model) encode(text string, markup []chat.Span) []int32 {
	special := make([]tokenizer.Span, len(markup))
	for i, s := range markup {
		special[i] = tokenizer.Span(s)
	}
	raw := m.Codec.Template.Name == chat.Raw().Name // other templates write their own special tokens
	return m.trim(m.Codec.Tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: raw, Special: special}).IDs, raw)
}

// plain turns a text into tokens, as a base model gets it: with what the tokenizer adds to a text if special is true.
func (m *Model) plain(text string, special bool) ([]int32, *Error) {
	if err := m.Codec.Tokenizer.CheckText(text); err != nil {
		return nil, refuse("prompt", "%v", err)
	}
	return m.trim(m.Codec.Tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: special}).IDs, special), nil
}

// trim removes end tokens that some tokenizers append: the answer continues the text.
func (m *Model) trim(ids []int32, raw bool) []int32 {
	for raw && len(ids) > 1 && slices.Contains(m.Codec.Ends, ids[len(ids)-1]) {
		ids = ids[:len(ids)-1]
	}
	return ids
}

// fit refuses a prompt that leaves no room for an answer.
func (m *Model) fit(ids []int32) ([]int32, *Error) {
	switch {
	case len(ids) == 0:
		return nil, refuse("prompt", "it is empty: send at least one token")
	case len(ids) >= m.Context:
		return nil, tooLong(len(ids), m.Context)
	}
	return ids, nil
}
