package quality

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"restyle/chat"
	"restyle/data"
	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/hf/hub"
	"restyle/infer"
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
	encoder *training.Encoder
	limit   int            // maximum number of tokens of an answer
	before  []chat.Message // the last After questions, and the model's answers to them
}

// open opens a model on a device of its own, so that two models can work in parallel: a small model uses only one
// thread.
func (o *Options) open(ctx context.Context, h *hub.Hub, m Model) (*side, error) {
	d, err := kernels.Open(o.Device, kernels.Options{Threads: o.threads(), Fused: kernels.All(),
		NoBF16: o.DType == tensor.F32 || o.DType == tensor.F16})
	if err != nil {
		return nil, err
	}
	e, err := o.load(ctx, d, h, m)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s model %s: %w", m.Label, m.Name, err), d.Close())
	}
	seq := min(longestLoss, e.Model.Config().Positions())
	return &side{
		Model: m, device: d, engine: e, limit: o.MaxTokens,
		encoder: &training.Encoder{Tokenizer: e.Tokenizer, Template: e.Template, Seq: seq},
	}, nil
}

func (o *Options) load(ctx context.Context, d *kernels.Device, h *hub.Hub, m Model) (*infer.Engine, error) {
	c, adapter, err := models.OpenTuned(ctx, h, m.Name, m.On)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer adapter.Close()
	return infer.Load(ctx, d, c, infer.OpenOptions{DType: o.DType, Adapter: adapter, Template: o.Template,
		MaxTokens: longestLoss})
}

func (s *side) close() error { return errors.Join(s.engine.Close(), s.device.Close()) }

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
		if failed != nil {
			break
		}
	}
	if failed == nil {
		failed = s.loss(a, conversation[:len(conversation)-1], q.Output)
	}
	if failed != nil {
		a.Error = failed.Error()
	}
	s.before = conversation[max(len(conversation)-2*after, 0):]
	return a
}

// answer generates the model's answer by greedy decoding.
func (s *side) answer(ctx context.Context, a *Answer, conversation []chat.Message) error {
	prompt, err := s.engine.Prompt(conversation, s.limit)
	if err != nil {
		return cli.NameFlag(err)
	}
	g, err := s.engine.Start(prompt.IDs, infer.Options{MaxTokens: s.limit})
	if err != nil {
		return err
	}
	var text strings.Builder
	for g.Next(ctx) {
		text.WriteString(g.Text())
	}
	r := g.Result()
	a.Text = text.String()
	a.Reason = r.Reason
	a.Tokens = len(r.IDs)
	a.seconds = r.Total.Seconds()
	return g.Err()
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
