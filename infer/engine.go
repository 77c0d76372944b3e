// Package infer generates text with a model: an [Engine] holds the model with its tokenizer and chat template, a
// [Generation] is one answer in progress, a [Sampler] chooses its tokens.
package infer

import (
	"context"
	"errors"
	"fmt"

	"restyle/chat"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/tokenizer"
)

// OpenOptions configure Open and Load. The zero value takes everything from the model's files.
type OpenOptions struct {
	// Hub downloads the models of Open. Default nil: hub.FromEnv.
	Hub *hub.Hub
	// DType is the type of weights and activations, BF16, F16 or F32. Default 0: BF16 if more weights are stored in BF16
	// than in F32 and none in F16, which would lose digits in BF16; otherwise F32.
	DType tensor.DType
	// Quantization is the type of the weights to quantize while they are loaded. Default: those that are stored so, or
	// that were so when Adapter was trained.
	Quantization model.Quantization
	// Context is the maximum number of tokens of a prompt and its answer together. It sets the size of the KV cache, and
	// is limited to the model's positions. Default 0: 4096.
	Context int
	// Progress, if not nil, is called with the number of bytes of the weights loaded, and of all. See hf.Checkpoint.Load.
	Progress func(done, total int64)
	// Template is the name of a chat template (chat.Names, or one of the model's own) to use instead of its default one;
	// "raw" uses none.
	Template string
	// Adapter changes the model that Load gets, which is then the Adapter's base: see [hf.Adapter.On]. It is merged into
	// the weights while these are loaded; if they are quantized, it runs next to them. Nil: none.
	Adapter *hf.Adapter
	// MaxTokens is the maximum number of tokens of a batch for Model.Loss and Model.Logits; it sets the size of
	// activations. Default 0: these cannot be called, which is enough for answers.
	MaxTokens int
	// AdapterRoom is the room for adapters that share the model's weights: see model.Options.AdapterRoom. Default 0: none.
	AdapterRoom int
}

const defaultContext = 4096

// DTypes maps the names of dtypes in settings to types of weights and activations. auto leaves the choice to the
// model's files.
var DTypes = map[string]tensor.DType{"auto": 0, "bf16": tensor.BF16, "fp16": tensor.F16, "fp32": tensor.F32}

// Quantizations maps the names of quantizations in settings to the types of weights. All keep the head in 8 bits, and
// with it a tied embedding. INT8x8 means activations in 8 bits as well: see kernels.Device.SetINT8Activations.
var Quantizations = map[string]model.Quantization{
	"":     {},
	"int8": {Layers: tensor.INT8, Head: tensor.INT8},
	INT8x8: {Layers: tensor.INT8, Head: tensor.INT8},
	"int4": {Layers: tensor.INT4Z, Head: tensor.INT8},
	"nf4":  {Layers: tensor.NF4, Head: tensor.INT8},
}

// INT8x8 is the name of a quantization in Quantizations.
const INT8x8 = "int8x8"

// An Engine generates answers of a model, one at a time. It is not safe for concurrent use.
type Engine struct {
	// Name is the name that the model was opened by, with the commit if it is from the hub; with an adapter, "adapter on
	// base".
	Name string
	// Context is the maximum number of tokens of a prompt and its answer together.
	Context int
	// Tokenizer, Template and Suggested are nil and zero in an engine made by New.
	Model     *model.Model
	Tokenizer *tokenizer.Tokenizer
	Template  chat.Template
	Suggested *Sampling // see Codec.Suggested
	Notes     []string  // lines for people: what of the model's files is not used, and why; see hf.Checkpoint

	vocabulary
	chunk  int // number of tokens of a prompt that the model reads between two checks of the caller's context
	extend func(ids []int32) (logits []float32, err error)
	greedy func(ids []int32) (id int32, logits []float32, err error) // see model.Model.Greedy; may be nil
	trim   func(n int)
	slides bool // see Generation.slide
	close  func() error

	cached  []int32     // tokens in the KV cache
	current *Generation // the latest one; any earlier one fails
}

// Open opens a model by a name that hf.Open accepts, a directory or a hub repository, and loads it. See Load.
func Open(ctx context.Context, dev *kernels.Device, name string, o OpenOptions) (*Engine, error) {
	c, err := hf.Open(ctx, o.Hub, name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return Load(ctx, dev, c, o)
}

// Load loads the weights of a model onto the device, and reads its tokenizer, chat template and generation config. A
// tokenizer that belongs to another model is an error. The caller may close the checkpoint afterwards.
func Load(ctx context.Context, dev *kernels.Device, c *hf.Checkpoint, o OpenOptions) (e *Engine, err error) {
	codec, err := CodecOf(c, o.Template) // cheap, so before the weights
	if err != nil {
		return nil, err
	}
	dtype := o.DType
	if dtype == 0 {
		dtype = c.DType()
	}
	options := model.Options{DType: dtype, MaxTokens: o.MaxTokens, Quantization: o.Quantization,
		AdapterRoom: o.AdapterRoom}
	if options.Quantization.None() {
		options.Quantization = c.Quantization
	}
	config := c.Config
	if o.Adapter != nil {
		config = o.Adapter.Config(config)
		if options, err = withAdapter(options, c, o.Adapter); err != nil {
			return nil, err
		}
	}
	if err := precompile(ctx, dev, config, options); err != nil {
		return nil, err
	}
	m, err := model.New(dev, config, options)
	if err != nil {
		return nil, err
	}
	if o.Adapter != nil {
		err = o.Adapter.LoadOn(ctx, c, m, o.Progress)
	} else {
		err = c.Load(ctx, dev, m.Params(), o.Progress)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if e, err = NewWithCodec(m, codec, o.Context); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	e.Notes = c.Notes
	if e.Name = c.Name; len(c.Revision) >= 12 {
		e.Name += " (" + c.Revision[:12] + ")"
	}
	if o.Adapter != nil {
		e.Name = o.Adapter.Name + " on " + e.Name
	}
	closeCache := e.close
	e.close = func() error { return errors.Join(closeCache(), m.Close()) }
	return e, nil
}

// New returns an engine that takes and returns only token ids, no text. context is the maximum number of tokens of a
// prompt and its answer, 0 for 4096, limited to the model's positions. ends are the tokens that end an answer. The
// caller keeps the model, and closes it after the engine.
func New(m *model.Model, context int, ends []int32) (*Engine, error) {
	if context <= 0 {
		context = defaultContext
	}
	context = min(context, m.Config().Positions())
	cache, err := m.NewKVCache(context)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		Context: context, Model: m, vocabulary: Codec{Ends: ends}.vocabulary(m.Config().Vocab),
		chunk:  m.PrefillChunk(),
		extend: func(ids []int32) ([]float32, error) { return m.Extend(cache, ids) },
		trim:   cache.Trim,
		slides: m.Config().LearnedPositions,
		close:  cache.Close,
	}
	if !m.Device().IsCPU() { // downloading all logits takes longer than downloading one id
		e.greedy = func(ids []int32) (int32, []float32, error) { return m.Greedy(cache, ids) }
	}
	return e, nil
}

// NewWithCodec returns an engine for a model that the caller keeps, such as one in training, with a tokenizer and a
// chat template. The caller closes the model after the engine.
func NewWithCodec(m *model.Model, codec Codec, context int) (*Engine, error) {
	e, err := New(m, context, codec.Ends)
	if err != nil {
		return nil, err
	}
	e.Template = codec.Template
	e.Tokenizer = codec.Tokenizer
	e.Suggested = codec.Suggested
	e.vocabulary = codec.vocabulary(e.size)
	return e, nil
}

// DType returns the type of the model's weights and activations.
func (e *Engine) DType() tensor.DType { return e.Model.DType() }

// Types names the type of the model's weights and activations, and the types of its quantized weights.
func (e *Engine) Types() string {
	q := e.Model.Quantization()
	switch {
	case q.Weights != nil && !q.None():
		return fmt.Sprintf("%v with weights in %v", e.DType(), q)
	case q.Layers != 0:
		return e.DType().String() + " with " + q.Layers.String() + " weights"
	}
	return e.DType().String()
}

// Close frees the engine's KV cache, and the model if Open opened it.
func (e *Engine) Close() error { return e.close() }

// ResetCache empties the KV cache. Call it after the model's weights have changed: the cache holds keys and values of
// the old weights.
func (e *Engine) ResetCache() {
	e.cached = e.cached[:0]
	e.trim(0)
}

// A Prompt is a conversation as tokens.
type Prompt struct {
	IDs      []int32
	Messages []chat.Message // those that the prompt contains
	Dropped  int            // number of oldest turns that did not fit
}

// Prompt renders a conversation up to the start of the answer. It keeps room for an answer of answer tokens, at most a
// quarter of the context; 0 means a quarter. It drops the oldest turns until the rest fits. Only text that the template
// itself wrote can become special tokens. It is an error if the template refuses the conversation, if the vocabulary
// lacks a character, or if the last turn alone is too long.
func (e *Engine) Prompt(messages []chat.Message, answer int) (Prompt, error) {
	if e.Tokenizer == nil {
		return Prompt{}, errors.New("this engine has no tokenizer: give it token ids")
	}
	for _, m := range messages {
		if err := e.Tokenizer.CheckText(m.Content); err != nil {
			return Prompt{}, fmt.Errorf("the prompt: %w", err)
		}
	}
	var p Prompt
	var err error
	quarter := max(e.Context/4, 1)
	if answer <= 0 {
		answer = quarter
	}
	room := e.Context - min(answer, quarter)
	p.Messages, p.Dropped, err = e.Template.Fit(messages, chat.Options{AddGenerationPrompt: true}, room,
		func(r chat.Rendered) int {
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
		ids = ids[:len(ids)-1] // some tokenizers append an end token, but the answer continues the text
	}
	return ids
}
