package trainer

import (
	"cmp"
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

// These are the values of State.Pending: what is due before the next step.
const (
	evaluation    = "evaluation"
	sampleAnswers = "sample answers"
)

// evaluate does what is pending after a step, and reports whether it is complete. If ctx ends it, all of it stays
// pending: the state changes only when it is complete. It uses the same memory as a step, so a run that fits at its
// start fits later.
func (r *Run) evaluate(ctx context.Context) (done bool, err error) {
	if r.state.Pending == "" {
		return true, nil
	}
	if ctx.Err() != nil {
		return false, nil
	}
	r.phase("evaluate")
	if err := r.Ranks.settle(); err != nil {
		return false, err
	}
	defer r.Model.Device().Range("evaluation")()
	start := time.Now()
	e := Evaluation{Step: r.state.Step, Loss: nan, Measured: r.state.Pending == evaluation && len(r.Plan.HeldOut) > 0}
	if e.Measured {
		var loss float64
		if loss, err = r.validation(ctx); err != nil {
			err = fmt.Errorf("validation after step %d: %w", e.Step, err)
		}
		e.Loss = report.Number(loss)
	}
	if err == nil && (r.state.Pending == sampleAnswers || r.Plan.samples(e.Step)) {
		err = r.sample(ctx, &e)
	}
	if err = cmp.Or(err, r.Ranks.settle()); err != nil {
		if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
			err = nil
		}
		return false, err
	}
	r.state.Pending, r.saved = "", false
	switch {
	case e.Measured:
		if err := r.updateBest(&e); err != nil {
			return false, err
		}
	case e.Samples == nil:
		return true, nil
	}
	e.Seconds = time.Since(start).Seconds()
	return true, record(r, e, r.Hooks.Evaluation)
}

// updateBest saves the weights if they are the best so far. Weights with a loss that is not finite never are.
func (r *Run) updateBest(e *Evaluation) error {
	loss, best := float64(e.Loss), r.state.Best
	e.Best = !math.IsNaN(loss) && !math.IsInf(loss, 0) && (best == nil || e.Loss < best.Loss)
	if !e.Best {
		r.state.SinceBest++
		return nil
	}
	r.state.Best, r.state.SinceBest = &Best{e.Step, e.Loss, e.Tone}, 0
	// Delete the weights that became the best after the last checkpoint: a resumed run finds them again.
	if err := r.removeBest(nil); err != nil {
		return err
	}
	defer r.Model.Device().Range("checkpoint")()
	return checkpoint.Replace(bestIn(r.Dir, e.Step), r.saveModel)
}

func (r *Run) sample(ctx context.Context, e *Evaluation) (err error) {
	if r.GenerateSamples == nil {
		return nil
	}
	if e.Samples, err = r.GenerateSamples(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// The run continues: the validation loss and the gradients show whether such a model is worth training further.
		r.notice("after step %d: no samples: %v", e.Step, err)
		e.Samples = nil
	}
	sum, scored := 0, 0
	for _, s := range e.Samples {
		if s.Tone != nil {
			sum, scored = sum+*s.Tone, scored+1
		}
	}
	if scored > 0 {
		mean := float64(sum) / float64(scored)
		e.Tone = &mean
	}
	return nil
}

func (r *Run) valLoss(ctx context.Context) (float64, error) {
	l, err := ValLoss(ctx, r.Model, r.Plan.HeldOut, r.Plan.MaxTokens)
	return l.Mean(), err
}

// ValLoss returns the loss of a model over examples, as a sum over their target tokens, and the number of these tokens.
// A pass has at most limit tokens, for which the model must have been opened. If ctx ends, ValLoss returns its error.
func ValLoss(
	ctx context.Context, m *model.Model, examples []training.Example, limit int,
) (total model.Loss, err error) {
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
