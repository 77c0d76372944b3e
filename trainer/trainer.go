package trainer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/dataset/training"
	"restyle/hf"
	"restyle/model"
	"restyle/optim"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// ErrStopped is what Run returns when its context ended it early: the state is in a checkpoint.
var ErrStopped = errors.New("stopped early, with a checkpoint")

// mostSkipped is how many steps in a row may be skipped before a run gives up.
const mostSkipped = 5

// A Run is one training run. All fields but those marked optional are set before Start.
type Run struct {
	Settings  Settings
	Plan      *Plan
	Model     *model.Model // with its weights, opened for Plan.MaxTokens and Train
	Optimizer *optim.AdamW
	Val       []training.Example // optional: for the validation loss
	Dir       string             // checkpoints and metrics.jsonl are in it

	// From is the model's own files, which go with its weights wherever they are saved.
	From *hf.Checkpoint
	// Identity is what a resume has to find unchanged, by name: the data, the model, the recipe.
	Identity map[string]string
	// Decisions are what bits also depend on and was chosen for this machine, by name.
	Decisions map[string]string

	// Ended, optional, says that the checkpoint that it goes on from is of a run that came to its end, which is now longer: the
	// result in Dir has its best weights. Where no others are left, Start refuses, for this run would replace them.
	Ended bool

	// Answer, optional, answers the sample questions with the model as it is and says how much tone they have. It ends early
	// with ctx's error.
	Answer func(ctx context.Context) ([]Sample, error)
	// Observe, optional, is told of everything as it happens: Step, Evaluation, Saved, Phase, Notice.
	Observe func(event any)

	validation func(context.Context) (float64, error) // the mean loss over Val, unless a test says what it is

	state   State
	metrics *report.Metrics
	saved   bool // a checkpoint has this very state
	anew    bool // metrics.jsonl was gone: until there is a checkpoint, none knows of the new one
}

// A Sample is an answer to a sample question.
type Sample struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Tone     int    `json:"tone"` // the style's score
}

// Step is what one optimiser step did.
type Step struct {
	Step     int           `json:"step"` // from 1
	Epoch    float64       `json:"epoch"`
	Loss     report.Number `json:"loss"` // mean over the trained tokens of the step, nats, before the update
	LR       float64       `json:"lr"`
	GradNorm report.Number `json:"grad_norm"` // before clipping
	Examples int           `json:"examples"`
	Tokens   int           `json:"tokens"`
	Trained  int           `json:"trained"` // tokens that the loss saw
	Skipped  bool          `json:"skipped,omitempty"`
	Seconds  float64       `json:"seconds"`
}

// Evaluation is a look at the model between two steps.
type Evaluation struct {
	Step     int           `json:"step"` // steps done
	Loss     report.Number `json:"val_loss"`
	Best     bool          `json:"best"`
	Measured bool          `json:"-"` // whether there was a validation; else Loss is NaN
	Samples  []Sample      `json:"samples,omitempty"`
	Tone     *float64      `json:"tone,omitempty"` // mean over Samples
	Seconds  float64       `json:"seconds"`
}

// Saved says that a checkpoint is on the disk.
type Saved struct {
	Step    int
	Dir     string
	Seconds float64
}

// Phase is what a run is doing from now on: "step 12", "evaluate", Saving, "done".
type Phase string

// Saving is the phase of writing a checkpoint. What is written beside it has to be on the disk by then.
const Saving Phase = "save"

// Notice is something that a person should know, though the run goes on.
type Notice string

// Result is how a run ended.
type Result struct {
	State
	Stopped string // why it ended before its last step: "" or what the patience was with
}

// CheckpointsIn is where a run keeps its checkpoints.
func CheckpointsIn(dir string) string { return filepath.Join(dir, "checkpoints") }

// bestIn is where the weights of the best evaluation are. Those that a checkpoint tells of stay as long as it does.
func bestIn(dir string, step int) string {
	return filepath.Join(CheckpointsIn(dir), fmt.Sprintf("best-%06d", step))
}

// Start begins a new run, or with a checkpoint's directory goes on from there. Close it.
func (r *Run) Start(ctx context.Context, from string) (err error) {
	if r.validation == nil {
		r.validation = r.valLoss
	}
	r.state = State{Identity: r.Identity, Decisions: r.Decisions, Pending: evaluation}
	if from != "" {
		if err := r.restore(ctx, from); err != nil {
			return err
		}
	}
	path := filepath.Join(r.Dir, "metrics.jsonl")
	if r.metrics, err = report.OpenMetrics(path, r.state.Metrics); err != nil {
		return err
	}
	if now := r.metrics.Offset(); now != r.state.Metrics {
		r.observe(Notice(fmt.Sprintf("%s is gone, with the figures of the first %d steps: a new one begins", path, r.state.Step)))
		r.state.Metrics, r.anew = now, true
	}
	if from == "" {
		return nil
	}
	return r.prune() // a run that was killed may not have come to it
}

// State is where the run is.
func (r *Run) State() State { return r.state }

// Close closes the run's files.
func (r *Run) Close() error {
	if r.metrics == nil {
		return nil
	}
	return r.metrics.Close()
}

// Run goes on until the last step. When ctx is done it finishes the step it is in, or leaves the evaluation it is in to the
// resumed run, saves, and returns ErrStopped. At the end the model has the best weights by validation loss, or the last where
// there is none.
func (r *Run) Run(ctx context.Context) (Result, error) {
	if r.anew {
		if err := r.save(); err != nil {
			return Result{}, err
		}
	}
	for {
		looked, err := r.look(ctx)
		if err != nil {
			return Result{}, err
		}
		s := r.state.Step
		over := looked && (s == r.Plan.Steps || r.exhausted())
		stop := ctx.Err() != nil && !over
		if !r.saved && (stop || over || s > 0 && r.due(r.Settings.SaveEvery)) {
			if err := r.save(); err != nil {
				return Result{}, err
			}
		}
		switch {
		case stop:
			return Result{State: r.state}, ErrStopped
		case over:
			return r.end()
		}
		if err := r.step(); err != nil {
			return Result{}, err
		}
		switch s := r.state.Step; {
		case r.due(r.Settings.EvalEvery):
			r.state.Pending = evaluation
		case r.Settings.SampleEvery > 0 && s%r.Settings.SampleEvery == 0:
			r.state.Pending = sampleAnswers
		}
	}
}

// end brings back the best weights.
func (r *Run) end() (Result, error) {
	r.phase("done")
	res := Result{State: r.state}
	if r.exhausted() && r.state.Step < r.Plan.Steps {
		res.Stopped = fmt.Sprintf("no better validation loss in %d evaluations", r.state.SinceBest)
	}
	if b := r.state.Best; b != nil && b.Step != r.state.Step {
		if err := r.loadChecked(context.Background(), bestIn(r.Dir, b.Step)); err != nil {
			return res, fmt.Errorf("the best weights: %w; a resumed run goes on without them", err)
		}
	}
	return res, r.metrics.Sync()
}

// due says whether something that is done every n steps, or with 0 at the end of each epoch, is to be done now. After the
// last step it is.
func (r *Run) due(n int) bool {
	switch done := r.state.Step; {
	case done == r.Plan.Steps:
		return true
	case n == 0:
		return r.Plan.EndsEpoch(done - 1)
	default:
		return done%n == 0
	}
}

// exhausted says whether the patience is over.
func (r *Run) exhausted() bool {
	return r.Settings.Patience > 0 && r.state.SinceBest >= r.Settings.Patience
}

func (r *Run) observe(event any) {
	if r.Observe != nil {
		r.Observe(event)
	}
}

func (r *Run) phase(format string, args ...any) { r.observe(Phase(fmt.Sprintf(format, args...))) }

// write adds a line to the metrics, and tells of the event.
func (r *Run) write(event any) error {
	if err := r.metrics.Write(event); err != nil {
		return err
	}
	r.state.Metrics, r.saved = r.metrics.Offset(), false
	r.observe(event)
	return nil
}

// prune removes the checkpoints that are too many, and the best weights of which none of the others tells.
func (r *Run) prune() error {
	if _, err := checkpoint.Keep(CheckpointsIn(r.Dir), r.Settings.Keep); err != nil {
		return err
	}
	return r.forget(r.state.Best)
}

// forget removes the best weights but those, and the ones that a checkpoint tells of.
func (r *Run) forget(but *Best) error {
	root := CheckpointsIn(r.Dir)
	steps, err := checkpoint.Steps(root)
	if err != nil {
		return err
	}
	known := []*Best{but}
	for _, step := range steps {
		s, err := readState(checkpoint.Dir(root, step))
		if of := new(fs.PathError); errors.As(err, &of) && !errors.Is(err, fs.ErrNotExist) {
			return nil // another time: this one may be whole
		}
		if err == nil { // one that is damaged is nothing to go on from
			known = append(known, s.Best)
		}
	}
	var stay []string
	for _, b := range known {
		if b != nil {
			stay = append(stay, bestIn(r.Dir, b.Step))
		}
	}
	err = checkpoint.Tidy(root)
	entries, err2 := os.ReadDir(root)
	if !errors.Is(err2, fs.ErrNotExist) {
		err = errors.Join(err, err2)
	}
	for _, e := range entries {
		best := filepath.Join(root, e.Name())
		if strings.HasPrefix(e.Name(), "best-") && !slices.Contains(stay, best) {
			err = errors.Join(err, checkpoint.Remove(best))
		}
	}
	return err
}
