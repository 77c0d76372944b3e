package trainer

import (
	"fmt"
	"time"

	"restyle/model"
	"restyle/trainer/report"
)

// step takes one optimiser step: the gradient of the mean loss over all trained tokens of its examples, clipped by its
// global norm, moves the weights once. The number of trained tokens is counted before anything is computed, so it is never a
// mean of means. A gradient that is not finite moves nothing.
func (r *Run) step() error {
	start := time.Now()
	at := r.state.Step
	r.phase("step %d", at+1)
	batches, examples := r.Plan.Step(at)
	s := Step{Step: at + 1, Epoch: r.Plan.Done(at + 1), LR: r.Plan.rate(at), Examples: examples}
	for _, b := range batches {
		s.Tokens += len(b.IDs)
		s.Trained += b.Trained()
	}
	for i, b := range batches {
		l, err := r.Model.Gradient(b, float32(1/float64(s.Trained)), model.Gradients{Overwrite: i == 0})
		if err != nil {
			return fmt.Errorf("step %d: %w", at+1, err)
		}
		r.Optimizer.AddLoss(l.Each)
	}
	rec, err := r.Optimizer.Step(s.LR, r.Settings.Clip)
	if err != nil {
		return fmt.Errorf("step %d: %w", at+1, err)
	}
	s.Loss, s.GradNorm = report.Number(rec.Loss/float64(s.Trained)), report.Number(rec.Norm)
	r.state.InARow++
	if s.Skipped = !rec.Taken; s.Skipped {
		r.state.Skipped++
	} else {
		r.state.InARow = 0
		r.state.Loss = s.Loss
	}
	s.Seconds = time.Since(start).Seconds()
	r.state.Step++
	r.state.Tokens += int64(s.Tokens)
	r.state.Trained += int64(s.Trained)
	r.state.Examples += int64(examples)
	r.state.Seconds += s.Seconds
	if err := r.write(s); err != nil {
		return err
	}
	if r.state.InARow >= mostSkipped {
		return fmt.Errorf("step %d: the gradient was not finite for %d steps in a row, and none of them moved a weight: "+
			"take a smaller --lr, or --dtype fp32, or look at the data with --show-example", at+1, r.state.InARow)
	}
	return nil
}
