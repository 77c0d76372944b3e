// Package infer asks a model: an [Engine] holds a model with its tokenizer and chat template, a [Generation] is one answer
// under way, a [Sampler] chooses the tokens.
package infer

import (
	"context"
	"errors"
	"fmt"

	"restyle/chat"
	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/tokenizer"
)

// OpenOptions are how a model is opened. The zero value takes all of it from the model's files.
type OpenOptions struct {
	// Hub is where models are fetched from. Default nil: hf.FromEnv.
	Hub *hf.Hub
	// DType is the type of weights and activations, BF16 or F32. Default 0: F32 where the weights are stored in it, else BF16.
	DType tensor.DType
	// Context is the most tokens of a prompt and its answer together, for which memory is taken. It is cut down to what the
	// model was made for. Default 0: 4096.
	Context int
	// Template names a chat template (chat.Names) to use instead of the model's own. "raw" uses none.
	Template string
}

const defaultContext = 4096

// An Engine is a model that can be asked. It makes one answer at a time and is not safe for concurrent use.
type Engine struct {
	// Name is what the model was opened by, with the commit of a hub repository.
	Name string
	// Context is the most tokens of a prompt and its answer together.
	Context int
	// Model is the model, Tokenizer its tokenizer, nil for an engine made by New, and Family its chat template.
	Model     *model.Llama
	Tokenizer *tokenizer.Tokenizer
	Family    chat.Family

	vocab  int
	ends   map[int32]bool // tokens that end an answer
	extend func(ids []int32) (logits []float32, err error)
	trim   func(n int)
	stream func() (decode func(id int32) string, flush func() string) // nil without a tokenizer
	close  func() error

	held    []int32     // the tokens that are in the cache
	current *Generation // the one that may go on
}

// Open opens a model for asking: a directory, or a hub repository as owner/name or owner/name@revision. It reads the
// weights to the device, the tokenizer, the chat template and the generation config, and refuses a tokenizer that is not
// the model's.
func Open(ctx context.Context, d *kernels.Device, name string, o OpenOptions) (e *Engine, err error) {
	hub := o.Hub
	if hub == nil {
		hub = hf.FromEnv()
	}
	dir, revision, err := hub.Model(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := hf.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	// The cheap checks come before the weights are read.
	family, err := pickFamily(c, o.Template)
	if err != nil {
		return nil, err
	}
	if c.TokenizerPath == "" {
		return nil, fmt.Errorf("%s has no tokenizer.json, without which nothing can be asked: "+
			"get the file from the model's repository, or save it with transformers (AutoTokenizer.from_pretrained, save_pretrained)", dir)
	}
	tok, err := tokenizer.Load(c.TokenizerPath)
	if err != nil {
		return nil, err
	}
	if err := compare(tok, c); err != nil {
		return nil, fmt.Errorf("%s is not the tokenizer of this model: %w; take tokenizer.json and weights from the same place", c.TokenizerPath, err)
	}
	dtype := o.DType
	if dtype == 0 {
		dtype = tensor.BF16
		if c.DType == tensor.F32 {
			dtype = tensor.F32
		}
	}
	m, err := model.New(d, c.Config, model.Options{DType: dtype})
	if err != nil {
		return nil, err
	}
	if err := c.Load(ctx, d, m.Params()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if e, err = New(m, o.Context, c.Generation.EOS); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	e.Name, e.Family, e.Tokenizer = name, family, tok
	if len(revision) >= 12 {
		e.Name += " (" + revision[:12] + ")"
	}
	for _, text := range family.Stops() {
		if id, ok := tok.TokenID(text); ok {
			e.ends[id] = true
		}
	}
	e.stream = func() (func(int32) string, func() string) {
		s := tok.Stream(true)
		return s.Add, s.Flush
	}
	closeCache := e.close
	e.close = func() error { return errors.Join(closeCache(), m.Close()) }
	return e, nil
}

// New makes an engine of a model alone: it takes and gives token ids, and no text. context is the most tokens of a prompt
// and its answer, 0 for 4096, and cut down to the model's; ends are the tokens that end an answer. The model stays the
// caller's, to be closed after the engine.
func New(m *model.Llama, context int, ends []int32) (*Engine, error) {
	if context <= 0 {
		context = defaultContext
	}
	context = min(context, m.Config().MaxPositions)
	cache, err := m.NewCache(context)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		Context: context, Model: m, vocab: m.Config().Vocab, ends: map[int32]bool{},
		extend: func(ids []int32) ([]float32, error) { return m.Extend(cache, ids) },
		trim:   cache.Trim,
		close:  cache.Close,
	}
	for _, id := range ends {
		e.ends[id] = true
	}
	return e, nil
}

// DType is the type of the model's weights and activations.
func (e *Engine) DType() tensor.DType { return e.Model.DType() }

// Close gives back what the engine holds: its cache, and a model that Open opened.
func (e *Engine) Close() error { return e.close() }

// forget empties the cache.
func (e *Engine) forget() {
	e.held = e.held[:0]
	e.trim(0)
}

// pickFamily chooses the chat template.
func pickFamily(c *hf.Checkpoint, name string) (f chat.Family, err error) {
	if name != "" {
		f, err = chat.ByName(name)
	} else {
		f, err = chat.Detect(c.Tokenizer.ChatTemplate)
	}
	if err != nil {
		return f, err
	}
	if c.Tokenizer.BOS != "" {
		f.BOS = c.Tokenizer.BOS
	}
	if c.Tokenizer.EOS != "" {
		f.EOS = c.Tokenizer.EOS
	}
	return f, nil
}

// compare finds out that a tokenizer belongs to another model: it has ids that the model has no embedding for, lacks the
// tokens that end the model's answers, or is less than half as large. (Embeddings are often somewhat larger than the
// vocabulary, for the sake of round sizes.)
func compare(t *tokenizer.Tokenizer, c *hf.Checkpoint) error {
	vocab := c.Config.Vocab
	switch {
	case int(t.MaxID()) >= vocab:
		return fmt.Errorf("its ids go up to %d, and the model has embeddings for %d", t.MaxID(), vocab)
	case 2*t.VocabSize() < vocab:
		return fmt.Errorf("it has %d tokens, and the model has embeddings for %d", t.VocabSize(), vocab)
	}
	for _, id := range c.Generation.EOS {
		if t.Token(id) == "" {
			return fmt.Errorf("it has no token %d, with which the model ends an answer", id)
		}
	}
	return nil
}

// A Prompt is a conversation as the model reads it.
type Prompt struct {
	IDs      []int32
	Messages []chat.Message // what of the conversation is in it
	Dropped  int            // how many of the oldest turns did not fit
}

// Prompt renders a conversation, up to the point where the answer begins. Room is kept for an answer of so many tokens, at
// most a quarter of the context, and a quarter for 0; the oldest turns go until what is left fits beside it. Only what the
// template itself wrote can become special tokens. A conversation that the template refuses, or of which the last turn
// alone is too long, is an error.
func (e *Engine) Prompt(messages []chat.Message, answer int) (Prompt, error) {
	if e.Tokenizer == nil {
		return Prompt{}, errors.New("this engine has no tokenizer: give it token ids")
	}
	var p Prompt
	var err error
	quarter := max(e.Context/4, 1)
	if answer <= 0 {
		answer = quarter
	}
	room := e.Context - min(answer, quarter)
	p.Messages, p.Dropped, err = e.Family.Fit(messages, chat.Options{AddGenerationPrompt: true}, room, func(r chat.Rendered) int {
		p.IDs = e.encode(r)
		return len(p.IDs)
	})
	return p, err
}

func (e *Engine) encode(r chat.Rendered) []int32 {
	markup := make([]tokenizer.Span, len(r.Markup))
	for i, s := range r.Markup {
		markup[i] = tokenizer.Span(s)
	}
	return e.Tokenizer.Encode(r.Text, tokenizer.EncodeOptions{
		AddSpecial: e.Family.Name == chat.Raw().Name, // a template writes its own
		Special:    markup,
	}).IDs
}
