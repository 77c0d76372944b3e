package quality

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"restyle/chat"
	"restyle/data"
	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/infer/batch"
	"restyle/internal/cli"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// longestLoss is the maximum number of tokens of a question and its reference answer. The loss ignores any tokens
// beyond it.
const longestLoss = 2048

// A side is one of the models.
type side struct {
	Model
	device  *kernels.Device
	engine  *infer.Engine
	codec   infer.Codec
	encoder *training.Encoder
	limit   int // maximum number of tokens of an answer

	pool    *model.Pool
	answers *batch.Batch // nil: the engine answers, one question after the other
	turn    sync.Mutex   // of the device: a step of the answers, or a loss

	before []chat.Message // the last After questions, and the model's answers to them
}

// open opens a model on a device of its own, so that two models can work in parallel: a small model uses only one
// thread.
func (o *Options) open(ctx context.Context, h *hub.Hub, m Model) (*side, error) {
	d, err := kernels.Open(o.Device, kernels.Options{Threads: o.threads(), Fused: kernels.All(),
		NoBF16: o.DType == tensor.F32 || o.DType == tensor.F16})
	if err != nil {
		return nil, err
	}
	s := &side{Model: m, device: d, limit: o.MaxTokens}
	if err := s.load(ctx, o, h); err != nil {
		return nil, errors.Join(fmt.Errorf("%s model %s: %w", m.Label, m.Name, err), s.close())
	}
	return s, nil
}

// load loads the model's weights.
func (s *side) load(ctx context.Context, o *Options, h *hub.Hub) error {
	c, adapter, err := models.OpenTuned(ctx, h, s.Name, s.On)
	if err != nil {
		return err
	}
	defer c.Close()
	defer adapter.Close()
	if s.codec, err = infer.CodecOf(c, o.Template); err != nil {
		return err
	}
	s.engine, err = infer.Load(ctx, s.device, c, infer.OpenOptions{DType: o.DType, Adapter: adapter,
		Template: o.Template, MaxTokens: longestLoss})
	if err != nil {
		return err
	}
	s.encoder = &training.Encoder{Tokenizer: s.codec.Tokenizer, Template: s.codec.Template,
		Seq: min(longestLoss, s.engine.Model.Config().Positions())}
	return nil
}

// makeRoom makes room for the keys and values of some answers at once: usualTokens each, and half of the free memory at
// most, but enough for one of any length. Answers that need more wait for each other. All models must be loaded, whose
// weights come first. A model that cannot answer many questions at once keeps to its engine's cache: one whose RoPE
// depends on the length of a sequence, and one with learned positions, whose window slides when the context is full.
func (s *side) makeRoom(sequences int) error {
	const stepTokens, usualTokens = 512, 1024
	m, length := s.engine.Model, s.engine.Context
	po := model.PoolOptions{Blocks: 1, Rows: max(stepTokens, sequences), Pieces: sequences, Context: length}
	block, rest, err := m.PoolBytes(po)
	if err != nil || m.Config().LearnedPositions {
		return nil
	}
	po.Blocks = sequences * usualTokens / model.PoolBlock
	if free, _, known := s.device.Free(); known {
		po.Blocks = min(po.Blocks, (free-rest)/2/block)
	}
	po.Blocks = max(po.Blocks, (length+model.PoolBlock-1)/model.PoolBlock)
	if s.pool, err = m.NewPool(po); err != nil {
		return fmt.Errorf("%s model %s: room for %s at once: %w", s.Label, s.Name, cli.Count(sequences, "answer"), err)
	}
	s.answers = batch.New(s.pool, s.codec, m.Config().Vocab, batch.Options{Context: length, Device: &s.turn,
		Queue: sequences})
	return nil
}

func (s *side) close() (err error) {
	if s.answers != nil {
		s.answers.Close()
	}
	if s.pool != nil {
		err = s.pool.Close()
	}
	if s.engine != nil {
		err = errors.Join(err, s.engine.Close())
	}
	return errors.Join(err, s.device.Close())
}

// ask asks the model a question, after up to that many others and those that the question itself has before it, and
// computes its loss on the reference answer. If ctx ends, ask returns the answer so far.
func (s *side) ask(ctx context.Context, q data.Question, after int) *Answer {
	a := &Answer{}
	conversation := s.before
	var failed error
	for _, text := range append(slices.Clone(q.Before), asked(q)) {
		*a = Answer{}
		conversation = append(conversation, chat.Message{Role: "user", Content: text})
		failed = s.answer(ctx, a, conversation)
		conversation = append(conversation, chat.Message{Role: "assistant", Content: a.Text})
		if failed != nil || ctx.Err() != nil {
			break
		}
	}
	if failed == nil && ctx.Err() == nil {
		failed = s.loss(a, conversation[:len(conversation)-1], q.Output)
	}
	if failed != nil {
		a.Error = failed.Error()
	}
	if after > 0 { // only then one question is asked after the other
		s.before = conversation[max(len(conversation)-2*after, 0):]
	}
	return a
}

// answer generates the model's answer by greedy decoding.
func (s *side) answer(ctx context.Context, a *Answer, conversation []chat.Message) error {
	prompt, err := s.engine.Prompt(conversation, s.limit)
	if err != nil {
		return cli.NameFlag(err)
	}
	options := infer.Options{MaxTokens: s.limit}
	var text strings.Builder
	if s.answers == nil {
		s.turn.Lock()
		defer s.turn.Unlock()
		g, err := s.engine.Start(prompt.IDs, options)
		if err != nil {
			return err
		}
		for g.Next(ctx) {
			text.WriteString(g.Text())
		}
		a.set(text.String(), g.Result())
		return g.Err()
	}
	g, err := s.answers.Start(batch.Request{Prompt: prompt.IDs, Options: options})
	if err != nil {
		return err
	}
	defer g.Close()
	for g.Next(ctx) {
		text.WriteString(g.Token().Text)
	}
	a.set(text.String(), g.Result())
	return g.Err()
}

// set sets what the model has said.
func (a *Answer) set(text string, r infer.Result) {
	a.Text, a.Reason, a.Tokens = text, r.Reason, len(r.IDs)
}

// loss computes the model's loss on the reference answer to a question, including the token that ends it.
func (s *side) loss(a *Answer, conversation []chat.Message, reference string) error {
	messages := append(slices.Clone(conversation), chat.Message{Role: "assistant", Content: reference})
	x, _, err := s.encoder.Encode(dataset.Conversation{Messages: messages, Prompt: len(conversation)})
	if err != nil {
		return err
	}
	if len(x.IDs) == 0 { // the question itself is already too long
		return nil
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	l, err := s.engine.Model.Loss(model.Batch{IDs: x.IDs, Labels: x.Labels})
	if err != nil {
		return err
	}
	if math.IsNaN(l.Sum) || math.IsInf(l.Sum, 0) {
		return fmt.Errorf("the loss of the reference answer is %v: the weights are broken, or too large for the type", l.Sum)
	}
	a.Loss, a.LossTokens = l.Sum, l.Targets
	return nil
}
