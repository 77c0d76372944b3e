package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"restyle/chat"
	"restyle/data"
	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// maxTokens is the maximum number of tokens of a conversation; longer ones are truncated.
const maxTokens = 1024

// texts are conversations as tokens of a model.
type texts struct {
	calibration []model.Batch // for GPTQ
	answers     []model.Batch // questions with their reference answers, which are the targets
	unmeasured  error         // why there are no answers; nil if there are
}

// texts encodes what the flags need. The error names the flag to change if the model cannot read that.
func (o options) texts(ctx context.Context, c *hf.Checkpoint, questions []data.Question) (t *texts, err error) {
	codec, err := infer.CodecOf(c, o.template)
	if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
		return nil, cli.Usagef("--template: %w", unknown)
	}
	if err != nil && !o.calibrates() && !o.quality {
		return &texts{unmeasured: err}, nil // weights can be rounded without a tokenizer
	}
	if err != nil {
		return nil, err
	}
	e := &encoder{training.Encoder{Tokenizer: codec.Tokenizer, Template: codec.Template,
		Seq: min(maxTokens, c.Config.Positions())}, c.Config.Vocab}
	t = &texts{}
	if o.calibrates() {
		if t.calibration, err = e.calibration(ctx, o.text); err != nil {
			return nil, err
		}
	}
	t.answers, t.unmeasured = e.answers(questions)
	if o.quality && t.unmeasured != nil {
		return nil, cli.Usagef("--quality: the model cannot be asked the held-out questions: %w: leave it out", t.unmeasured)
	}
	return t, nil
}

// encoder encodes conversations for a model.
type encoder struct {
	training.Encoder
	rows int // of embeddings
}

// encode returns a conversation as tokens. It is an error if the vocabulary lacks one of its characters, as may happen
// with a model trained with --vocab chars.
func (e *encoder) encode(c dataset.Conversation) (training.Example, error) {
	for _, m := range c.Messages {
		if r, missing := e.Tokenizer.Missing(m.Content); missing {
			return training.Example{}, fmt.Errorf("the model's vocabulary lacks the character %q (%U)", r, r)
		}
	}
	x, _, err := e.Encode(c)
	if err == nil {
		err = e.Tokenizer.CheckRows(x.IDs, e.rows)
	}
	return x, err
}

// calibration returns the first n conversations of the starter dataset, without the empty ones.
func (e *encoder) calibration(ctx context.Context, n int) (text []model.Batch, err error) {
	source, err := dataset.OpenConversations(ctx, dataset.StarterSpec, dataset.Options{Starter: data.Starter})
	if err != nil {
		return nil, err
	}
	unfit := func(why error) error {
		return cli.Usagef("--rounding gptq cannot be calibrated with the starter dataset: %w: use --rounding nearest", why)
	}
	for range n {
		conversation, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		x, err := e.encode(conversation)
		if err != nil {
			return nil, unfit(err)
		}
		if len(x.IDs) > 0 {
			text = append(text, model.Batch{IDs: x.IDs})
		}
	}
	if len(text) == 0 {
		return nil, unfit(fmt.Errorf("no conversation fits the model's %d positions", e.Seq))
	}
	return text, nil
}

// answers returns questions with their reference answers.
func (e *encoder) answers(questions []data.Question) (list []model.Batch, err error) {
	for _, q := range questions {
		messages := []chat.Message{{Role: "user", Content: dataset.Question(q.Instruction, q.Input)},
			{Role: "assistant", Content: q.Output}}
		x, err := e.encode(dataset.Conversation{Messages: messages})
		if err != nil {
			return nil, err
		}
		if len(x.IDs) > 0 {
			list = append(list, model.Batch{IDs: x.IDs, Labels: x.Labels})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no reference answer fits the model's %d positions", e.Seq)
	}
	return list, nil
}

// tokens returns the number of tokens of batches.
func tokens(batches []model.Batch) (n int) {
	for _, b := range batches {
		n += len(b.IDs)
	}
	return n
}

// perplexity returns e to the power of the mean loss of answers. If load is not nil, perplexity calls it before it
// uses a layer.
func perplexity(ctx context.Context, m *model.Model, load func(ctx context.Context, layer int) error,
	answers []model.Batch, progress func(what string, share float64)) (float64, error) {
	layers, all := m.Config().Layers, tokens(answers)
	losses, err := m.LossByLayer(answers, func(layer, i int) error {
		where := "head"
		if layer < layers {
			where = fmt.Sprintf("layer %d of %d", layer+1, layers)
		}
		progress(fmt.Sprintf("%s, question %d of %d", where, i+1, len(answers)),
			float64(layer*all+tokens(answers[:i]))/float64((layers+1)*all))
		if load != nil && i == 0 { // the head has no layer, and loads nothing
			return load(ctx, layer)
		}
		return ctx.Err()
	})
	sum, targets := 0.0, 0
	for _, l := range losses {
		sum, targets = sum+l.Sum, targets+l.Targets
	}
	return math.Exp(sum / float64(targets)), err
}

// weightBytes returns the bytes of all weights, before and after they are quantized.
func weightBytes(m *model.Model) (of [2]float64) {
	for _, p := range m.Params() {
		was := p.W.Bytes()
		if p.W.DType.Quantized() {
			was = p.W.Len() * m.DType().Size()
		}
		of[0], of[1] = of[0]+float64(was), of[1]+float64(p.W.Bytes())
	}
	return of
}

// table prints each quantized matrix with its error.
func table(ctx context.Context, out io.Writer, before *original, after *model.Model, show *cli.Progress) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "matrix\tshape\ttype\tKiB\terror ‖Ŵ-W‖/‖W‖")
	kept, layer := 0, model.Outside
	originals := before.Params()
	for i, p := range after.Params() {
		if !p.W.DType.Quantized() {
			kept++
			continue
		}
		show.Draw("comparing matrices", "", float64(i)/float64(len(originals)))
		if p.Layer != model.Outside && p.Layer != layer {
			layer = p.Layer
			if err := before.load(ctx, layer); err != nil {
				return err
			}
		}
		e, err := distance(ctx, after.Device(), p.W, originals[i].W)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%d\t%.4f\n", p.Name, p.W.Shape, p.W.DType, p.W.Bytes()>>10, e)
	}
	fmt.Fprintf(w, "%d other parameters\t\t%v\t\t0\n", kept, after.DType())
	fmt.Fprintln(w)
	show.Line.Clear()
	return w.Flush()
}

// distance returns ‖Ŵ-W‖/‖W‖ of a quantized matrix Ŵ. It takes a few rows at a time.
func distance(ctx context.Context, d *kernels.Device, quantized, original tensor.Tensor) (float64, error) {
	in := original.Dim(-1)
	off, all := 0.0, 0.0
	rows := max(1, 1<<20/in)
	for lo := 0; lo < original.Rows(); lo += rows {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		hi := min(lo+rows, original.Rows())
		w, err := d.Floats(original.Slice(lo, hi))
		if err != nil {
			return 0, err
		}
		part := quantized.Slice(lo, hi)
		codes, back := make([]byte, part.Bytes()), make([]float32, len(w))
		if err := d.DownloadBytes(codes, part); err != nil {
			return 0, err
		}
		if err := quant.Dequantize(back, codes, part.DType, in); err != nil {
			return 0, err
		}
		for i, x := range w {
			e := float64(back[i]) - float64(x)
			off, all = off+e*e, all+float64(x)*float64(x)
		}
	}
	return math.Sqrt(off / all), nil
}
