package trainer

import (
	"fmt"
	"time"

	"restyle/dataset"
	"restyle/model"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// evaluate measures the validation loss and the tone of the sample answers, and keeps the weights when they are the best so
// far. It goes through the same memory as a step does, so what fits at the beginning fits later.
func (r *Run) evaluate() error {
	r.phase("evaluate")
	start := time.Now()
	e := Evaluation{Step: r.state.Step}
	if len(r.Val) > 0 {
		l, err := ValLoss(r.Model, r.Val, r.Plan.MaxTokens)
		if err != nil {
			return fmt.Errorf("validation after step %d: %w", r.state.Step, err)
		}
		e.Loss = report.Number(l.Mean())
		e.Best = r.state.Best == nil || e.Loss < r.state.Best.Loss
	}
	switch {
	case e.Best:
		r.state.Best, r.state.SinceBest = &Best{r.state.Step, e.Loss}, 0
		if err := checkpoint.Replace(bestIn(r.Dir, r.state.Step), r.saveModel); err != nil {
			return err
		}
	case len(r.Val) > 0:
		r.state.SinceBest++
	}
	if err := r.answer(&e); err != nil {
		return err
	}
	e.Seconds = time.Since(start).Seconds()
	return r.write(e)
}

// sample is an evaluation of the tone alone.
func (r *Run) sample() error {
	r.phase("evaluate")
	start := time.Now()
	e := Evaluation{Step: r.state.Step, Loss: nan}
	if err := r.answer(&e); err != nil || e.Samples == nil {
		return err
	}
	e.Seconds = time.Since(start).Seconds()
	return r.write(e)
}

func (r *Run) answer(e *Evaluation) (err error) {
	if r.Answer == nil {
		return nil
	}
	if e.Samples, err = r.Answer(); err != nil {
		return fmt.Errorf("sample answers after step %d: %w", r.state.Step, err)
	}
	sum := 0.0
	for _, s := range e.Samples {
		sum += float64(s.Tone)
	}
	if len(e.Samples) > 0 {
		mean := sum / float64(len(e.Samples))
		e.Tone = &mean
	}
	return nil
}

// ValLoss is the loss of a model over examples: the sum over all their trained tokens, and how many these are. At most limit
// tokens go through the model at once, for which it must have been opened.
func ValLoss(m *model.Llama, examples []dataset.Example, limit int) (total model.Loss, err error) {
	for _, b := range inPasses(examples, limit) {
		l, err := m.Loss(b)
		if err != nil {
			return total, err
		}
		total.Sum += l.Sum
		total.Trained += l.Trained
	}
	return total, nil
}
