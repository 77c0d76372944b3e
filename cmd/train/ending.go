package main

import (
	"fmt"
	"math"
	"strconv"

	"restyle/trainer"
)

// An ending is what is known of a run at its end, to tell what would have helped.
type ending struct {
	vocab       int
	steps       int     // taken in all
	epochSteps  int     // steps of an epoch
	maxSteps    int     // --max-steps, 0: no limit
	first, last float64 // loss before and after; NaN if it was not finite
	noise       float64 // how much higher last may be by chance
	bestStep    int     // after which the kept weights are; -1: the last ones, without a validation
	best        float64 // validation loss of the kept weights
	lr          float64
	usualLR     float64 // what suits the model
	epochs      int
	stopped     bool // by patience: more steps would have changed nothing
}

// Below fewSteps a run has hardly started; enoughSteps is what is proposed. Above nearChance times the loss of chance,
// a model knows hardly more than which tokens are frequent. Above pastBest times the best validation loss, the steps
// after the best one made the model worse on what it has not seen.
const (
	fewSteps, enoughSteps = 50, 100
	nearChance            = 0.9
	pastBest              = 1.1
)

// advice says what is wrong with the run and what would help; nothing if the loss fell far in enough steps.
func (o ending) advice() []string {
	chance := math.Log(float64(o.vocab))
	few := o.steps < fewSteps && !o.stopped
	var more string
	switch {
	case o.maxSteps > 0 && o.steps >= o.maxSteps:
		more = fmt.Sprintf("more --max-steps than %d", o.maxSteps)
	case !few:
		more = fmt.Sprintf("more --epochs than %d", o.epochs)
	default:
		epochs := (enoughSteps + o.epochSteps - 1) / o.epochSteps
		more = fmt.Sprintf("--epochs %d (%d steps)", epochs, epochs*o.epochSteps)
	}
	switch {
	case !(o.last <= o.first+o.noise): // NaN too
		return []string{fmt.Sprintf("the loss rose from %.2f to %.2f: the learning rate %s is probably too high: try --lr %s",
			o.first, o.last, rate(o.lr), rate(o.betterLR()))}
	case o.bestStep == 0 && o.steps > 0:
		return []string{fmt.Sprintf("no step improved the validation loss, so the weights are as before: try --lr %s "+
			"instead of %s, or %s", rate(o.betterLR()), rate(o.lr), more)}
	case o.last >= nearChance*chance:
		return []string{fmt.Sprintf("the loss is %.2f after %d steps, and guessing any of %s tokens has %.2f: the model has "+
			"hardly learned anything yet: try %s, or a higher --lr than %s", o.last, o.steps, thousands(int64(o.vocab)), chance,
			more, rate(o.lr))}
	case o.bestStep > 0 && o.bestStep <= o.steps/2 && o.last > pastBest*o.best && !o.stopped:
		return []string{fmt.Sprintf("the validation loss was lowest after step %d of %d, and rose from %.2f to %.2f: the "+
			"steps after it only learned the training rows by heart; if that is wanted, --val 0 keeps the last weights",
			o.bestStep, o.steps, o.best, o.last)}
	case few:
		return []string{fmt.Sprintf("only %s, so the model may have learned little: %s would help", count(o.steps, "step"),
			more)}
	}
	return nil
}

// betterLR returns a learning rate to try: what suits the model, unless that is near to what failed.
func (o ending) betterLR() float64 {
	if o.lr > 2*o.usualLR || o.lr < o.usualLR/2 {
		return o.usualLR
	}
	return o.lr / 3
}

// rate formats a learning rate as people write it.
func rate(v float64) string { return strconv.FormatFloat(v, 'g', 2, 64) }

// ending returns what is known of the run. The loss comes from the validations, or if there were none, from the
// steps.
func (o *outputs) ending(res trainer.Result) ending {
	bestStep, best := -1, math.NaN()
	if res.Best != nil {
		bestStep, best = res.Best.Step, float64(res.Best.Loss)
	}
	first, last, noise := math.NaN(), math.NaN(), 0.1
	if v := o.curve.Validation; len(v) > 0 && v[0].X == 0 && v[len(v)-1].X > 0 {
		first, last = v[0].Y, v[len(v)-1].Y
	} else if s := o.curve.Steps; len(s) > 0 {
		n := min(20, max(1, len(s)/10)) // a single step says little
		first, last, noise = 0, 0, 1
		for i := range n {
			first += s[i].Loss / float64(n)
			last += s[len(s)-1-i].Loss / float64(n)
		}
	}
	return ending{vocab: o.base.Config.Vocab, steps: res.Step, epochSteps: o.job.Plan.EpochSteps(),
		maxSteps: o.config.MaxSteps, first: first, last: last, noise: noise, bestStep: bestStep, best: best,
		lr: o.config.LR, usualLR: o.usualLR(), epochs: o.config.Epochs, stopped: res.Stopped != ""}
}

// usualLR returns the learning rate that suits the model.
func (t *train) usualLR() float64 {
	c, err := trainer.ConfigFor(t.base, t.fromScratch != "")
	if err != nil {
		return trainer.DefaultConfig().LR
	}
	return c.LR
}
