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

// texts encodes conversations for a model.
type texts struct{ encoder training.Encoder }

func (o options) texts(c *hf.Checkpoint) (*texts, error) {
	codec, err := infer.CodecOf(c, o.template)
	if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
		return nil, cli.Usagef("--template: %w", unknown)
	}
	if err != nil {
		return nil, err
	}
	return &texts{training.Encoder{Tokenizer: codec.Tokenizer, Template: codec.Template,
		Seq: min(maxTokens, c.Config.Positions())}}, nil
}

// perplexity returns e to the mean loss of the reference answers.
func (t *texts) perplexity(ctx context.Context, m *model.Model, questions []data.Question) (float64, error) {
	sum, targets := 0.0, 0
	for _, q := range questions {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		messages := []chat.Message{{Role: "user", Content: dataset.Question(q.Instruction, q.Input)},
			{Role: "assistant", Content: q.Output}}
		x, _, err := t.encoder.Encode(dataset.Conversation{Messages: messages})
		if err != nil {
			return 0, err
		}
		if len(x.IDs) == 0 {
			continue
		}
		l, err := m.Loss(model.Batch{IDs: x.IDs, Labels: x.Labels})
		if err != nil {
			return 0, err
		}
		sum, targets = sum+l.Sum, targets+l.Targets
	}
	return math.Exp(sum / float64(targets)), nil
}

// calibrate quantizes the linear layers in after's layers by GPTQ, for the inputs that they have in before.
func (o options) calibrate(ctx context.Context, d *kernels.Device, c *hf.Checkpoint, t *texts,
	before, after *model.Model, status *cli.StatusLine) (err error) {
	hessians, arena, err := o.hessians(ctx, d, t, before, status)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close()) }()
	rule := quant.RuleFor(after.Quantization().Layers)
	originals := before.Params()
	for i, p := range after.Params() {
		h, ok := hessians(originals[i].W)
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		status.Draw(fmt.Sprintf("rounding %s", p.Name))
		w, err := d.Floats(originals[i].W)
		if err != nil {
			return err
		}
		rows := make([]byte, p.W.Bytes())
		if err := rule.GPTQ(ctx, rows, w, p.W.Dim(-1), h.F32()); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		d.UploadBytes(p.W, rows)
	}
	return d.Err()
}

// hessians runs the calibration text through a model, and returns the sum of x·xᵀ over the inputs of each matrix.
func (o options) hessians(ctx context.Context, d *kernels.Device, t *texts, m *model.Model,
	status *cli.StatusLine) (find func(w tensor.Tensor) (tensor.Tensor, bool), arena *kernels.Arena, err error) {
	source, err := dataset.OpenConversations(ctx, dataset.StarterSpec, dataset.Options{Starter: data.Starter})
	if err != nil {
		return nil, nil, err
	}
	type sum struct{ w, h tensor.Tensor }
	var sums []sum
	size := 0
	m.OnInputs = func(w, x tensor.Tensor) { size += kernels.SizeOf(func(a *kernels.Arena) { square(a, x) }) + 256 }
	defer func() { m.OnInputs = nil }()
	if _, err := m.Loss(model.Batch{IDs: []int32{0}}); err != nil {
		return nil, nil, err
	}
	if arena, err = d.NewArena("sums of inputs", size); err != nil {
		return nil, nil, err
	}
	at := 0
	m.OnInputs = func(w, x tensor.Tensor) {
		if len(sums) <= at {
			sums = append(sums, sum{w, square(arena, x)})
			d.Zero(sums[at].h)
		}
		d.LinearGradient(sums[at].h, x, x, 0, true)
		at++
	}
	for n := 0; n < o.text; n++ {
		if err := ctx.Err(); err != nil {
			return nil, nil, errors.Join(err, arena.Close())
		}
		status.Draw(fmt.Sprintf("calibrating: %d of %d conversations", n, o.text))
		conversation, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		x, _, err2 := t.encoder.Encode(conversation)
		if err := errors.Join(err, err2); err != nil {
			return nil, nil, errors.Join(err, arena.Close())
		}
		at = 0
		if len(x.IDs) > 0 {
			_, err = m.Loss(model.Batch{IDs: x.IDs, Labels: x.Labels})
		}
		if err != nil {
			return nil, nil, errors.Join(err, arena.Close())
		}
	}
	return func(w tensor.Tensor) (tensor.Tensor, bool) {
		for _, s := range sums {
			if w.Addr >= s.w.Addr && w.Addr < s.w.Addr+uintptr(s.w.Bytes()) {
				return s.h, true
			}
		}
		return tensor.Tensor{}, false
	}, arena, nil
}

// square allocates the sum of x·xᵀ over the rows x.
func square(a *kernels.Arena, x tensor.Tensor) tensor.Tensor {
	return a.New("hessian", tensor.F32, x.Dim(-1), x.Dim(-1))
}

// table prints each quantized matrix with its error, and returns the bytes of all weights, before and after.
func table(out io.Writer, d *kernels.Device, c *hf.Checkpoint, m *model.Model) (bytes [2]float64, err error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "matrix\tshape\ttype\tKiB\terror ‖Ŵ-W‖/‖W‖")
	was, is, kept := 0, 0, 0
	for _, p := range m.Params() {
		is += p.W.Bytes()
		if !p.W.DType.Quantized() {
			was += p.W.Bytes()
			kept++
			continue
		}
		was += p.W.Len() * m.DType().Size()
		original, _, err := c.ReadF32(p.Name)
		if err != nil {
			return bytes, err
		}
		var rows []byte
		if err := d.Read(p.W, func(chunk []byte) error { rows = append(rows, chunk...); return nil }); err != nil {
			return bytes, err
		}
		back := make([]float32, len(original))
		if err := quant.Dequantize(back, rows, p.W.DType, p.W.Dim(-1)); err != nil {
			return bytes, err
		}
		off, all := 0.0, 0.0
		for i, x := range original {
			j := i
			if p.Transposed { // files store the matrix as [in, out]
				j = i%p.W.Rows()*p.W.Dim(-1) + i/p.W.Rows()
			}
			off += math.Pow(float64(back[j])-float64(x), 2)
			all += float64(x) * float64(x)
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%d\t%.4f\n", p.Name, p.W.Shape, p.W.DType, p.W.Bytes()>>10, math.Sqrt(off/all))
	}
	fmt.Fprintf(w, "%d other parameters\t\t%v\t\t0\n", kept, m.DType())
	fmt.Fprintln(w)
	return [2]float64{float64(was), float64(is)}, w.Flush()
}
