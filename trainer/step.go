package trainer

import (
	"fmt"
	"time"

	"restyle/kernels"
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
		r.state.Padding += int64(r.Model.Rows(len(b.IDs)) - len(b.IDs))
		s.Trained += b.Targets()
	}
	rec, err := r.Move(batches, float32(1/float64(s.Trained)), s.LR)
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

// Move takes a step over batches, with a learning rate: what each step of a run is. scale is that of the sum of their losses. Of r
// it needs Settings, Model and Optimizer.
func (r *Run) Move(batches []model.Batch, scale float32, lr float64) (kernels.Record, error) {
	defer r.Model.Device().Range("step")()
	if r.Settings.BlockGradients {
		return r.moveBlocks(batches, scale, lr)
	}
	for i, b := range batches {
		l, err := r.Model.Gradient(b, scale, model.Gradients{Overwrite: i == 0})
		if err != nil {
			return kernels.Record{}, err
		}
		r.Optimizer.AddLoss(l.Each)
	}
	return r.Optimizer.Step(lr, r.Settings.Clip)
}

// moveBlocks is Move with one block's gradients at a time, for a step of one batch: once through for their norm and what follows
// from it, and once to move each block as soon as its gradients are there. No block that is still to come sees one that has moved.
func (r *Run) moveBlocks(batches []model.Batch, scale float32, lr float64) (kernels.Record, error) {
	o := r.Optimizer
	l, err := r.Model.Gradient(batches[0], scale, model.Gradients{Overwrite: true, After: o.AddSquares})
	if err != nil {
		return kernels.Record{}, err
	}
	o.AddLoss(l.Each)
	o.Decide(r.Settings.Clip)
	if _, err := r.Model.Gradient(batches[0], scale, model.Gradients{Overwrite: true, After: func(block int) { o.MoveLayer(block, lr) }}); err != nil {
		return kernels.Record{}, err
	}
	return o.End()
}
