package parity

import (
	"fmt"
	"math"

	"restyle/model"
)

// rows reads right-padded rows, [..., T] each of input_ids, attention_mask and labels, as sequences without the
// padding.
func (t *tensors) rows(prefix string) []model.Batch {
	ids, shape := t.ints(prefix + "input_ids")
	mask, _ := t.ints(prefix + "attention_mask")
	labels, _ := t.ints(prefix + "labels")
	for _, name := range []string{"input_ids", "attention_mask", "labels"} {
		if t.has(prefix + name) {
			t.f.strike(t.key(prefix+name), input)
		}
	}
	wrong := func(why string) []model.Batch {
		if t.err == nil {
			t.err = fmt.Errorf("%s: %s", t.key(prefix+"input_ids"), why)
		}
		return nil
	}
	if len(ids) == 0 || len(shape) == 0 || len(mask) != len(ids) || len(labels) != len(ids) {
		return wrong("input_ids, attention_mask and labels are not of one size")
	}
	width := shape[len(shape)-1]
	var list []model.Batch
	for at := 0; at < len(ids); at += width {
		n := 0
		for n < width && mask[at+n] == 1 {
			n++
		}
		for _, on := range mask[at+n : at+width] {
			if on != 0 {
				return wrong("the attention mask is not of rows padded on the right")
			}
		}
		b := model.Batch{}
		for i := at; i < at+n; i++ {
			if ids[i] != int64(int32(ids[i])) || labels[i] != int64(int32(labels[i])) {
				return wrong(fmt.Sprintf("id %d or label %d is no token", ids[i], labels[i]))
			}
			b.IDs = append(b.IDs, int32(ids[i]))
			b.Labels = append(b.Labels, int32(labels[i]))
		}
		list = append(list, b)
	}
	return list
}

// trained returns the number of target tokens in all batches.
func trained(batches []model.Batch) (n int) {
	for _, b := range batches {
		n += b.Targets()
	}
	return n
}

func tokens(batches []model.Batch) (n int) {
	for _, b := range batches {
		n += len(b.IDs)
	}
	return n
}

// gradient computes the gradients of several batches as one step, scaled by one over the number of target tokens in all
// of them. It returns the loss of each batch.
func (f *folder) gradient(l *model.Model, batches []model.Batch) ([]model.Loss, error) {
	scale := 1 / float32(max(1, trained(batches)))
	var losses []model.Loss
	for i, b := range batches {
		b, s := f.batch(b), scale
		if f.o.mistake.scale != nil {
			s = f.o.mistake.scale(b, scale)
		}
		there, err := l.Gradient(b, s, model.Gradients{Overwrite: i == 0})
		if err != nil {
			return nil, err
		}
		loss, err := l.Read(there)
		if err != nil {
			return nil, err
		}
		losses = append(losses, loss)
	}
	return losses, nil
}

// batch returns a batch, with the mistake that a test makes on purpose.
func (f *folder) batch(b model.Batch) model.Batch {
	if f.o.mistake.batch != nil {
		return f.o.mistake.batch(b)
	}
	return b
}

// mean returns the loss of a step: the sum of all losses divided by their number.
func mean(losses []model.Loss) float64 {
	sum, n := 0.0, 0
	for _, l := range losses {
		sum += l.Sum
		n += l.Targets
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}
