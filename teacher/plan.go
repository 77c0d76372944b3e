package teacher

import (
	"context"
	"errors"
	"io"

	"restyle/dataset"
)

// A Plan says what a run would ask, as far as that is known beforehand.
type Plan struct {
	Source      int            // rows read
	Fit         int            // rows that passed the source checks
	Unfit       map[string]int // rows that did not, by check
	Prose       int            // the ones among them that have no code
	First       *Prompt        // the first prompt, nil if there is none
	PromptBytes int            // in the first attempts of all rows
}

// Plan reads as much of the source as the run would read if every row was accepted, and asks nothing.
func (r *Run) Plan(ctx context.Context) (Plan, error) {
	plan := Plan{Unfit: map[string]int{}}
	if err := varied(r.Style); err != nil {
		return plan, err
	}
	assigner := newAssigner(r.Style, r.Seed)
	for r.Rows == 0 || plan.Fit < r.Rows {
		row, err := r.Source.Next()
		if err == io.EOF {
			break
		}
		if bad, ok := errors.AsType[*dataset.BadRow](err); ok && bad.Skipped {
			plan.Source++
			plan.Unfit[UnreadableRow]++
			continue
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return plan, err
		}
		plan.Source++
		t, unfit, err := r.examine(row, assigner)
		if err != nil {
			return plan, err
		}
		if unfit != nil {
			plan.Unfit[unfit.ID]++
			if isProse(row, *unfit) {
				plan.Prose++
			}
			continue
		}
		t.prompt.Attempt, t.prompt.Seed = 1, attemptSeed(r.Seed, row.Index, 1)
		plan.PromptBytes += len(r.Teacher.Request(&t.prompt).Body)
		if plan.Fit++; plan.Fit == 1 {
			plan.First = &t.prompt
		}
	}
	return plan, nil
}

// attemptSeed returns the seed of an attempt at a row.
func attemptSeed(seed uint64, row, attempt int) uint64 {
	return mix(seed, uint64(row), uint64(attempt))
}
