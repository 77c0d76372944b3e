package trainer

import "time"

// By default a run has this many validations, evenly spaced, if they are cheap, and about as many samples.
const spacedEvaluations = 10

// What cheap means: all validations together cost at most a tenth of the run. A token of a validation, which has no
// backward pass, counts as a third of a trained one. Each validation may have to keep the weights, which counts as one
// token per bytesPerToken bytes: about what a fast GPU trains while a disk writes them. Small weights count as
// nothing.
const (
	cheapShare     = 10
	forwardShare   = 3
	bytesPerToken  = 16 << 10
	smallWeights   = 64 << 20
	savingShare    = 10 // all checkpoints together take at most the run's time divided by this
	betweenSaves   = 10 * time.Minute
	assumedRate    = 1e9 // bytes per second of the first checkpoint
	assumedLatency = 50 * time.Millisecond
)

// space decides how many validations the run has in addition to those after its epochs, for a model whose weights take
// this many bytes.
func (p *Plan) space(weights int) {
	p.evenly = 0
	if len(p.HeldOut) == 0 || p.Config.Patience > 0 || len(p.ends) >= spacedEvaluations {
		return
	}
	var epoch, held int
	for _, e := range p.examples {
		epoch += len(e.IDs)
	}
	for _, e := range p.HeldOut {
		held += len(e.IDs)
	}
	tokens := epoch * p.Steps / p.ends[0]
	each := held/forwardShare + max(0, weights-smallWeights)/bytesPerToken
	n := min(spacedEvaluations, p.Steps, tokens/cheapShare/max(1, each))
	if n > len(p.ends) {
		p.evenly = n
	}
}

// evaluates reports whether a validation is due after done steps.
func (p *Plan) evaluates(done int) bool {
	switch every := p.Config.EvalEvery; {
	case done == p.Steps:
		return true
	case every > 0:
		return done%every == 0
	}
	return p.EndsEpoch(done-1) || crosses(done, p.evenly, p.Steps)
}

// samples reports whether the validation after done steps has samples. Samples take longer than a validation, so
// validations between epochs have none, and if there are many epochs, only some of the others do.
func (p *Plan) samples(done int) bool {
	if p.Config.EvalEvery > 0 || done == 0 || done == p.Steps {
		return true
	}
	epochs := len(p.ends)
	return p.EndsEpoch(done-1) && (epochs <= spacedEvaluations || crosses(p.Epoch(done-1)+1, spacedEvaluations, epochs))
}

// crosses reports whether step or epoch number done, of all, completes another of n equal parts.
func crosses(done, n, all int) bool { return done*n/all > (done-1)*n/all }

// EvaluationsLeft returns how many validations are still due after a step.
func (p *Plan) EvaluationsLeft(step int) (times int) {
	if p.Config.EvalEvery > 0 || p.evenly == 0 || step >= p.Steps {
		return p.Left(p.Config.EvalEvery, step)
	}
	times = p.evenly - step*p.evenly/p.Steps
	for _, end := range p.ends {
		if end > step && end < p.Steps && !crosses(end, p.evenly, p.Steps) {
			times++
		}
	}
	return times
}

// A saving decides by time when a checkpoint is due.
type saving struct {
	began time.Time
	last  time.Time     // when the last checkpoint was complete; before the first, began
	spent time.Duration // in checkpoints
	next  time.Duration // what another one probably takes
}

// newSaving returns the saving of a run that starts now, and whose checkpoints have this many bytes.
func newSaving(now time.Time, bytes int) *saving {
	first := time.Duration(float64(bytes) / assumedRate * float64(time.Second))
	return &saving{began: now, last: now, next: first + assumedLatency}
}

// due reports whether a checkpoint is due: after an epoch, and some time after the last one, unless checkpoints would
// take more than their share of the time.
func (s *saving) due(now time.Time, epochEnds bool) bool {
	affordable := savingShare*(s.spent+s.next) <= now.Sub(s.began)
	return affordable && (epochEnds || now.Sub(s.last) >= betweenSaves)
}

// took counts a checkpoint.
func (s *saving) took(began, ended time.Time) {
	s.next = ended.Sub(began)
	s.spent += s.next
	s.last = ended
}

// saveDue reports whether a checkpoint is due after the current step.
func (r *Run) saveDue(now time.Time) bool {
	switch every := r.Plan.Config.SaveEvery; {
	case r.state.Step == 0:
		return false
	case every > 0:
		return r.due(every)
	}
	return r.saving.due(now, r.Plan.EndsEpoch(r.state.Step-1))
}
