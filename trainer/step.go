package trainer

import (
	"fmt"
	"math"
	"slices"
	"time"

	"restyle/kernels"
	"restyle/model"
	"restyle/trainer/report"
)

// step takes one optimizer step: it computes the gradient of the mean loss over all target tokens of the step, clips it
// to its global norm and updates the weights. The target tokens are counted before anything is computed, so the loss is
// never a mean of means. If the gradient is not finite, step updates nothing, and skips these examples.
func (r *Run) step() error {
	start := time.Now()
	at := r.state.Step
	r.phase("step %d", at+1)
	byRank, examples := r.Plan.byRank(at)
	s := Step{Step: at + 1, Epoch: r.Plan.Done(at + 1), LR: r.Plan.rate(at), Examples: examples}
	for _, b := range slices.Concat(byRank...) {
		s.Tokens += len(b.IDs)
		r.state.Padding += int64(r.Model.Rows(len(b.IDs)) - len(b.IDs))
		s.Targets += b.Targets()
	}
	res, err := r.update(r.Ranks.part(byRank), &s)
	if err != nil {
		return fmt.Errorf("step %d: %w", at+1, err)
	}
	r.Ranks.stepped()
	s.Loss, s.GradNorm = report.Number(res.Loss/float64(s.Targets)), report.Number(res.Norm)
	s.Auxiliary = report.Number(res.Auxiliary)
	r.state.InARow++
	if s.Skipped = !res.Taken; s.Skipped {
		r.state.Skipped++
	} else {
		r.state.InARow = 0
		r.state.Loss = s.Loss
	}
	s.Seconds = time.Since(start).Seconds()
	r.state.Step++
	r.state.Tokens += int64(s.Tokens)
	r.state.Targets += int64(s.Targets)
	r.state.Examples += int64(examples)
	r.state.Seconds += s.Seconds
	if err := record(r, s, r.Hooks.Step); err != nil {
		return err
	}
	if r.state.InARow >= maxSkipped {
		remedy := "lower lr, set dtype to fp32, or look for damaged examples in the data"
		if r.Optimizer.Scaler != nil && r.Optimizer.LossScale() == minLossScale {
			remedy = fmt.Sprintf("with the smallest loss scale, %d, it is too large for fp16: set dtype to bf16 or fp32, or "+
				"lower lr",
				minLossScale)
		}
		return fmt.Errorf("step %d: the gradient was not finite for %d steps in a row, which updated no weight: %s", at+1,
			r.state.InARow, remedy)
	}
	return nil
}

// minLossScale is the smallest loss scale: with less, gradients would be smaller than without one.
const minLossScale = 1

// update takes the step s over passes. If its gradient overflows F16, nothing has moved, and update takes the step
// again with the smaller loss scale. A loss that is not finite does not depend on the scale.
func (r *Run) update(passes []model.Batch, s *Step) (res Updated, err error) {
	scaler := r.Optimizer.Scaler
	for {
		was := r.Optimizer.LossScale()
		res, err = r.Update(passes, float32(1/float64(s.Targets)), s.LR)
		if err != nil || scaler == nil {
			return res, err
		}
		scaler.Scale = max(scaler.Scale, minLossScale)
		s.LossScale = was
		if res.Taken || math.IsNaN(res.Loss) || math.IsInf(res.Loss, 0) || was == minLossScale {
			return res, nil
		}
		s.Overflows++
		r.state.Overflows++
		r.notice("step %d: the gradient overflows fp16 with a loss scale of %g: the step is taken again with %g", s.Step, was,
			scaler.Scale)
	}
}

// Updated is the result of an optimizer step.
type Updated struct {
	kernels.StepResult
	Auxiliary float64 // a mixture's auxiliary loss, the mean over the passes; 0 without a mixture
}

// Update takes an optimizer step over passes with learning rate lr, as each step of a run does. scale multiplies the
// sum of the losses, and so does the optimizer's loss scale. The gradient includes Config.BalanceLoss times the mean
// of the passes' auxiliary losses. Of r, Update uses only Plan.Config, Model, Optimizer and Ranks. If there are
// several ranks, passes are this rank's, all ranks take their step at the same time, and the result is the same on
// all.
func (r *Run) Update(passes []model.Batch, scale float32, lr float64) (u Updated, err error) {
	defer r.Model.Device().Range("step")()
	scale *= r.Optimizer.LossScale()
	count, all, number := r.Ranks.begin(len(passes))
	balance := float32(r.Plan.Config.BalanceLoss/float64(all)) * r.Optimizer.LossScale()
	layers := r.Plan.Config.Gradients == LayerGradients
	auxiliary := make([]float64, all)
	for i := range count {
		g := model.Gradients{Overwrite: i == 0 || r.Plan.SameBits, Balance: balance, Key: r.dropoutKey(number(i))}
		switch {
		case layers:
			g.After = r.Optimizer.AddSquares
		case r.Ranks != nil:
			g.Beside, g.After = r.Ranks.beside, r.Ranks.after
		}
		b := idle()
		if i < len(passes) {
			b = passes[i]
		}
		l, err := r.Model.Gradient(b, scale, g)
		if err != nil {
			return u, err
		}
		r.Optimizer.AddLoss(l.Each)
		if i >= len(passes) {
			continue
		}
		r.Ranks.addLoss(number(i), l.Each)
		if auxiliary[number(i)], err = r.Model.Auxiliary(l); err != nil {
			return u, err
		}
	}
	switch {
	case layers:
		u.StepResult, err = r.updateLayers(passes[0], scale, balance, lr)
	case r.Ranks != nil:
		u.StepResult, err = r.Ranks.update(lr, r.Plan.Config.Clip)
		if err == nil && r.Model.Config().Mixture != nil {
			err = r.Ranks.SumFloats("the auxiliary losses", auxiliary)
		}
	default:
		u.StepResult, err = r.Optimizer.Step(lr, r.Plan.Config.Clip)
	}
	for _, x := range auxiliary {
		u.Auxiliary += x / float64(all)
	}
	return u, err
}

// dropoutKey returns the key that decides which elements dropout drops in a pass of a step.
func (r *Run) dropoutKey(pass int) uint64 {
	return kernels.Mix64(kernels.Mix64(uint64(r.Plan.Config.Seed)+uint64(r.Optimizer.Steps())) + uint64(pass))
}

// updateLayers ends Update for LayerGradients, where a step is one pass. The first backward pass has computed the norm
// and what follows from it. The second updates each layer as soon as its gradients are final: the gradients of the
// layers below no longer need its weights.
func (r *Run) updateLayers(pass model.Batch, scale, balance float32, lr float64) (kernels.StepResult, error) {
	o := r.Optimizer
	o.Decide(r.Plan.Config.Clip)
	if _, err := r.Model.Gradient(pass, scale, model.Gradients{Overwrite: true, Balance: balance, Key: r.dropoutKey(0),
		After: func(layer int) { o.UpdateLayer(layer, lr) }}); err != nil {
		return kernels.StepResult{}, err
	}
	return o.End()
}
