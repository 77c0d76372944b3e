package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"restyle/dataset/training"
	"restyle/model"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// What is still to be done after a step before the next one: State.Pending.
const (
	evaluation    = "evaluation"
	sampleAnswers = "sample answers"
)

// look does what is pending after a step, and says whether nothing is any more: where ctx ends it, all of it is left for the
// next time. Nothing changes before it is complete. It goes through the same memory as a step does, so what fits at the beginning
// fits later.
func (r *Run) look(ctx context.Context) (done bool, err error) {
	if r.state.Pending == "" {
		return true, nil
	}
	if ctx.Err() != nil {
		return false, nil
	}
	r.phase("evaluate")
	defer r.Model.Device().Range("evaluation")()
	start := time.Now()
	e := Evaluation{Step: r.state.Step, Loss: nan, Measured: r.state.Pending == evaluation && len(r.Val) > 0}
	if e.Measured {
		var loss float64
		if loss, err = r.validation(ctx); err != nil {
			err = fmt.Errorf("validation after step %d: %w", e.Step, err)
		}
		e.Loss = report.Number(loss)
	}
	if err == nil {
		err = r.answer(ctx, &e)
	}
	if err != nil {
		if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
			err = nil
		}
		return false, err
	}
	r.state.Pending, r.saved = "", false
	switch {
	case e.Measured:
		if err := r.judge(&e); err != nil {
			return false, err
		}
	case e.Samples == nil:
		return true, nil
	}
	e.Seconds = time.Since(start).Seconds()
	return true, r.write(e)
}

// judge keeps the weights when they are the best so far. A loss that is not finite never is.
func (r *Run) judge(e *Evaluation) error {
	loss, best := float64(e.Loss), r.state.Best
	e.Best = !math.IsNaN(loss) && !math.IsInf(loss, 0) && (best == nil || e.Loss < best.Loss)
	if !e.Best {
		r.state.SinceBest++
		return nil
	}
	r.state.Best, r.state.SinceBest = &Best{e.Step, e.Loss, e.Tone}, 0
	if err := r.forget(nil); err != nil { // those that were the best since the last checkpoint: a resumed run finds them again
		return err
	}
	defer r.Model.Device().Range("checkpoint")()
	return checkpoint.Replace(bestIn(r.Dir, e.Step), r.saveModel)
}

func (r *Run) answer(ctx context.Context, e *Evaluation) (err error) {
	if r.Answer == nil {
		return nil
	}
	if e.Samples, err = r.Answer(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// Whether a model that cannot answer is worth going on with is for the validation and the gradients to say.
		r.observe(Notice(fmt.Sprintf("after step %d: no sample answers: %v", e.Step, err)))
		e.Samples = nil
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

func (r *Run) valLoss(ctx context.Context) (float64, error) {
	l, err := ValLoss(ctx, r.Model, r.Val, r.Plan.MaxTokens)
	return l.Mean(), err
}

// ValLoss is the loss of a model over examples: the sum over all their trained tokens, and how many these are. At most limit
// tokens go through the model at once, for which it must have been opened. It ends early when ctx does, with its error.
func ValLoss(ctx context.Context, m *model.Model, examples []training.Example, limit int) (total model.Loss, err error) {
	batches := make([]model.Batch, len(examples))
	for i, e := range examples {
		batches[i] = batch(e)
	}
	for _, b := range inPasses(batches, limit) {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		l, err := m.Loss(b)
		if err != nil {
			return total, err
		}
		total.Sum += l.Sum
		total.Targets += l.Targets
	}
	return total, nil
}
