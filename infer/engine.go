// Package infer asks a model: an [Engine] holds a model with its tokenizer and chat template, a [Generation] is one answer
// under way, a [Sampler] chooses the tokens.
package infer

import (
	"context"
	"errors"

	"restyle/chat"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/tokenizer"
)

// OpenOptions are how a model is opened. The zero value takes all of it from the model's files.
type OpenOptions struct {
	// Hub is where models are fetched from. Default nil: hub.FromEnv.
	Hub *hub.Hub
	// DType is the type of weights and activations, BF16 or F32. Default 0: BF16 if most weights are stored in it and none in
	// F16, of which BF16 would lose digits; else F32.
	DType tensor.DType
	// Context is the most tokens of a prompt and its answer together, for which memory is taken. It is cut down to what the
	// model was made for. Default 0: 4096.
	Context int
	// Progress, when set, is told how many bytes of the weights are loaded, and of how many. See hf.Checkpoint.Load.
	Progress func(done, total int64)
	// Template names a chat template (chat.Names) to use instead of the model's own. "raw" uses none.
	Template string
	// MaxTokens is the largest number of tokens in one batch for Model.Loss and Model.Logits, for which memory is taken.
	// Default 0: none, which is enough for answers.
	MaxTokens int
}

const defaultContext = 4096

// DTypes are the types of weights and activations by the names that people give them; auto leaves it to the model's files.
var DTypes = map[string]tensor.DType{"auto": 0, "bf16": tensor.BF16, "fp32": tensor.F32}

// An Engine is a model that can be asked. It makes one answer at a time and is not safe for concurrent use.
type Engine struct {
	// Name is what the model was opened by, with the commit of a hub repository.
	Name string
	// Context is the most tokens of a prompt and its answer together.
	Context int
	// Model is the model, Tokenizer its tokenizer, nil for an engine made by New, and Template its chat template.
	Model     *model.Model
	Tokenizer *tokenizer.Tokenizer
	Template  chat.Template

	vocab  int
	ends   map[int32]bool // tokens that end an answer
	extend func(ids []int32) (logits []float32, err error)
	greedy func(ids []int32) (id int32, logits []float32, err error) // extend for the highest logit: its id, or logits; may be nil
	trim   func(n int)
	stream func() (decode func(id int32) string, flush func() string) // nil without a tokenizer
	close  func() error

	cached  []int32     // the tokens that are in the cache
	current *Generation // the one that may go on
}

// Open opens a model for asking, by a name that hf.Open knows: starter, a directory, or a hub repository. It reads the
// weights to the device, the tokenizer, the chat template and the generation config, and refuses a tokenizer that is not
// the model's.
func Open(ctx context.Context, dev *kernels.Device, name string, o OpenOptions) (e *Engine, err error) {
	c, err := hf.Open(ctx, o.Hub, name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	codec, err := CodecOf(c, o.Template) // cheap, and so before the weights are read
	if err != nil {
		return nil, err
	}
	dtype := o.DType
	if dtype == 0 {
		dtype = tensor.F32
		if n := c.DTypes(); n[tensor.BF16] > n[tensor.F32] && n[tensor.F16] == 0 {
			dtype = tensor.BF16
		}
	}
	options := model.Options{DType: dtype, MaxTokens: o.MaxTokens}
	if err := precompile(ctx, dev, c.Config, options); err != nil {
		return nil, err
	}
	m, err := model.New(dev, c.Config, options)
	if err != nil {
		return nil, err
	}
	if err := c.Load(ctx, dev, m.Params(), o.Progress); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if e, err = NewWithCodec(m, codec, o.Context); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if e.Name = name; len(c.Revision) >= 12 {
		e.Name += " (" + c.Revision[:12] + ")"
	}
	closeCache := e.close
	e.close = func() error { return errors.Join(closeCache(), m.Close()) }
	return e, nil
}

// New makes an engine of a model alone: it takes and gives token ids, and no text. context is the most tokens of a prompt
// and its answer, 0 for 4096, and cut down to the model's; ends are the tokens that end an answer. The model stays the
// caller's, to be closed after the engine.
func New(m *model.Model, context int, ends []int32) (*Engine, error) {
	if context <= 0 {
		context = defaultContext
	}
	context = min(context, m.Config().MaxPositions)
	cache, err := m.NewKVCache(context)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		Context: context, Model: m, vocab: m.Config().Vocab, ends: map[int32]bool{},
		extend: func(ids []int32) ([]float32, error) { return m.Extend(cache, ids) },
		trim:   cache.Trim,
		close:  cache.Close,
	}
	if !m.Device().IsCPU() { // from where logits take longer than one number
		e.greedy = func(ids []int32) (int32, []float32, error) { return m.Greedy(cache, ids) }
	}
	for _, id := range ends {
		e.ends[id] = true
	}
	return e, nil
}

// NewWithCodec makes an engine of a model that somebody else holds, such as one in training, and that speaks l. The model is to be
// closed after the engine.
func NewWithCodec(m *model.Model, codec Codec, context int) (*Engine, error) {
	e, err := New(m, context, codec.Ends)
	if err != nil {
		return nil, err
	}
	e.Template, e.Tokenizer = codec.Template, codec.Tokenizer
	e.stream = func() (func(int32) string, func() string) {
		s := codec.Tokenizer.Stream(true)
		return s.Add, s.Flush
	}
	return e, nil
}

// DType is the type of the model's weights and activations.
func (e *Engine) DType() tensor.DType { return e.Model.DType() }

// Close gives back what the engine holds: its cache, and a model that Open opened.
func (e *Engine) Close() error { return e.close() }

// ResetCache empties the cache. It is called when the weights of the model have changed: what the engine read before them it would
// otherwise take for read.
func (e *Engine) ResetCache() {
	e.cached = e.cached[:0]
	e.trim(0)
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
	p.Messages, p.Dropped, err = e.Template.Fit(messages, chat.Options{AddGenerationPrompt: true}, room, func(r chat.Rendered) int {
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
	raw := e.Template.Name == chat.Raw().Name
	ids := e.Tokenizer.Encode(r.Text, tokenizer.EncodeOptions{
		AddSpecial: raw, // a template writes its own
		Special:    markup,
	}).IDs
	for raw && len(ids) > 1 && e.ends[ids[len(ids)-1]] {
		ids = ids[:len(ids)-1] // some tokenizers end a text, but the answer goes on from here
	}
	return ids
}
