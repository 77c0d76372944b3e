package trainer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"restyle/hf"
	"restyle/internal/disk"
	"restyle/model"
	"restyle/optim"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// ErrStopped is the error that Run returns if its context ended it early. The state is in a checkpoint.
var ErrStopped = errors.New("stopped early, with a checkpoint")

// maxSkipped is the number of steps in a row without an update after which a run gives up.
const maxSkipped = 5

// A Run is one training run with its model open. [Job.Open] makes it.
type Run struct {
	Plan      *Plan
	Model     *model.Model // opened with Plan.ModelOptions
	Optimizer *optim.AdamW
	Base      *hf.Checkpoint // its small files are saved with the weights
	Dir       string         // has the checkpoints, metrics.jsonl and run.json
	From      string         // directory of the checkpoint that Start resumes from; "": a new run

	// Identity and Decisions are written to every checkpoint, see Record.
	Identity  map[string]string
	Decisions map[string]string

	// BaseName, Settings and Version are written to run.json. Open sets the first two to the name of Base and to the
	// fields of the plan's Config.
	BaseName string
	Settings map[string]string
	Version  string // of the program

	// Ended means that the run of From was finished and is now longer: the result in Dir has its best weights. If no
	// others are left, Start returns an error, because this run would replace them.
	Ended bool

	// GenerateSamples, if not nil, answers the sample questions with the current model and scores the tone of the answers.
	// If ctx ends it, it returns ctx's error.
	GenerateSamples func(ctx context.Context) ([]Sample, error)
	Hooks           Hooks

	Ranks   *Ranks   // the processes that share the run's steps; nil: only this one
	Weights *Weights // this rank's parts, if the ranks divide the weights

	validation func(context.Context) (float64, error) // the mean loss over Plan.HeldOut; tests replace it

	place   *Dir         // Dir, locked; nil if the caller makes the Run itself
	release func() error // of place, if Open claimed it
	stopped bool         // Run returned before the run ended

	state        State
	metrics      *report.Metrics
	saved        bool // a checkpoint has this state
	saving       *saving
	source       string // the directory whose weights bring reads; "": the run's own weights
	brought      int    // the layer that bring has read from there
	freshMetrics bool   // metrics.jsonl was missing: no checkpoint refers to the new one yet
}

// Hooks are called during a run, in the goroutine of Run. Each is optional.
type Hooks struct {
	Step       func(Step)
	Evaluation func(Evaluation)
	Saved      func(Saved)
	Phase      func(Phase)
	Notice     func(string) // something that the user should know, although the run continues
}

// A Sample is the model's answer to a sample question.
type Sample struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Tone     *int   `json:"tone,omitempty"` // the style's score; nil if the answer was not scored
}

// Step is the result of one optimizer step.
type Step struct {
	Step     int           `json:"step"` // from 1
	Epoch    float64       `json:"epoch"`
	Loss     report.Number `json:"loss"` // mean over the target tokens of the step, in nats, before the update
	LR       float64       `json:"lr"`
	GradNorm report.Number `json:"grad_norm"` // before clipping
	Examples int           `json:"examples"`
	Tokens   int           `json:"tokens"`
	Targets  int           `json:"trained"` // target tokens
	Skipped  bool          `json:"skipped,omitempty"`
	// In F16: the factor of the loss, and how often the gradient overflowed with a larger one, which moved nothing.
	LossScale float32 `json:"loss_scale,omitempty"`
	Overflows int     `json:"overflows,omitempty"`
	// Auxiliary is a mixture's auxiliary loss, without its factor: the mean over the passes of the step.
	Auxiliary report.Number `json:"auxiliary_loss,omitempty"`
	Seconds   float64       `json:"seconds"`
}

// Evaluation is the result of an evaluation between two steps: the validation loss and the samples.
type Evaluation struct {
	Step     int           `json:"step"` // steps done
	Loss     report.Number `json:"val_loss"`
	Best     bool          `json:"best"`
	Measured bool          `json:"-"` // whether there was a validation; if not, Loss is NaN
	Samples  []Sample      `json:"samples,omitempty"`
	Tone     *float64      `json:"tone,omitempty"` // mean over Samples
	Seconds  float64       `json:"seconds"`
}

// Saved describes a checkpoint that was written to the disk.
type Saved struct {
	Step    int
	Dir     string
	Seconds float64
}

// Phase is what a run does next: "step 12", "evaluate", Saving or "done".
type Phase string

// Saving is the phase of writing a checkpoint. Before it, everything else about the earlier steps must be on the disk.
const Saving Phase = "save"

// Result is the state in which a run ended.
type Result struct {
	State
	Stopped string // why the run ended before its last step; "" if it did not
}

// CheckpointsIn returns the directory of a run's checkpoints.
func CheckpointsIn(dir string) string { return filepath.Join(dir, "checkpoints") }

// bestIn returns the directory of the best weights after an evaluation. They stay as long as a checkpoint refers to
// them.
func bestIn(dir string, step int) string {
	return filepath.Join(CheckpointsIn(dir), fmt.Sprintf("best-%06d", step))
}

// Start starts a new run, or resumes the run of From. A new run renames a previous one in its directory to .bak, or
// .bak.2 and so on, and says so in Hooks.Notice.
func (r *Run) Start(ctx context.Context) (err error) {
	if r.validation == nil {
		r.validation = r.valLoss
	}
	r.state = State{Record: Record{r.Identity, r.Decisions}, Pending: evaluation}
	if r.Ranks != nil && r.Ranks.Rank() > 0 {
		return r.shareState("")
	}
	if r.From != "" {
		if err := r.restore(ctx, r.From); err != nil {
			return err
		}
	}
	if r.place != nil {
		if err := r.place.begin(r.file(), r.notice); err != nil {
			return err
		}
	}
	path := filepath.Join(r.Dir, "metrics.jsonl")
	if r.metrics, err = report.OpenMetrics(path, r.state.Metrics); err != nil {
		return err
	}
	if now := r.metrics.Offset(); now != r.state.Metrics {
		r.notice("%s is missing: the metrics up to step %d are lost, and a new file begins", path, r.state.Step)
		r.state.Metrics, r.freshMetrics = now, true
	}
	if err := r.shareState(r.From); err != nil || r.From == "" {
		return err
	}
	return r.prune() // a run that was killed may not have done it
}

// State returns the state between two steps.
func (r *Run) State() State { return r.state }

// Save writes the model with its current weights to the run's directory, in the Hugging Face layout, or the adapter in
// PEFT's, and says in run.json that the run is finished, unless Run was stopped. card is the README.md, and may be nil.
func (r *Run) Save(card []byte) error {
	if err := r.SaveModel(card); err != nil {
		return err
	}
	return r.Finish(nil)
}

// SaveModel is the first half of Save: it writes the model.
func (r *Run) SaveModel(card []byte) error {
	return r.saveWith(r.Dir, card)
}

// Finish is the second half of Save: it completes run.json, with a result in JSON, which may be nil.
func (r *Run) Finish(result []byte) error {
	if r.place == nil {
		return nil
	}
	f := r.file()
	f.Finished, f.Result = !r.stopped, result
	return r.place.write(f)
}

// file returns what run.json has while the run is going on.
func (r *Run) file() RunFile {
	return RunFile{Version: r.Version, Base: r.BaseName, Settings: r.Settings, Record: Record{r.Identity, r.Decisions}}
}

// Close closes the run's files, its optimizer and its model, and unlocks its directory.
func (r *Run) Close() (err error) {
	if r.metrics != nil {
		err = r.metrics.Close()
	}
	switch {
	case r.Ranks == nil:
	case r.Ranks.over:
		err = errors.Join(err, r.Ranks.Close())
	default: // NCCL may wait for a rank that is gone
		err = errors.Join(err, r.Ranks.arena.Close())
	}
	if r.Optimizer != nil {
		err = errors.Join(err, r.Optimizer.Close())
	}
	err = errors.Join(err, r.Weights.Close())
	if r.Model != nil {
		err = errors.Join(err, r.Model.Close())
	}
	if r.release != nil {
		err = errors.Join(err, r.release())
	}
	return err
}

// Run takes all remaining steps. If ctx is done, Run finishes the current step, or leaves the current evaluation to the
// resumed run, saves, and returns ErrStopped. At the end the model has the best weights by validation loss, or the last
// ones if there was no validation. Ranks other than 0 do what rank 0 does, and end with its run, whatever ctx is.
func (r *Run) Run(ctx context.Context) (Result, error) {
	run := r.lead
	if r.Ranks != nil && r.Ranks.Rank() > 0 {
		run = r.follow
	}
	result, err := run(ctx)
	return result, r.Ranks.why(err)
}

func (r *Run) lead(ctx context.Context) (Result, error) {
	r.saving = newSaving(time.Now(), r.checkpointBytes())
	if r.freshMetrics {
		if err := r.save(); err != nil {
			return Result{}, err
		}
	}
	r.stopped = true
	for {
		evaluated, err := r.evaluate(ctx)
		if err != nil {
			return Result{}, err
		}
		s := r.state.Step
		over := evaluated && (s == r.Plan.Steps || r.exhausted())
		stop := ctx.Err() != nil && !over
		if !r.saved && (stop || over || r.saveDue(time.Now())) {
			if err := r.save(); err != nil {
				return Result{}, err
			}
		}
		next := oneMore
		if stop || over {
			next = noMore
		}
		if err := r.Ranks.tell(next); err != nil {
			return Result{}, err
		}
		switch {
		case stop:
			return Result{State: r.state}, ErrStopped
		case over:
			return r.end()
		}
		if err := r.together(); err != nil {
			return Result{}, err
		}
		switch s := r.state.Step; {
		case r.Plan.evaluates(s):
			r.state.Pending = evaluation
		case r.Plan.Config.SampleEvery > 0 && s%r.Plan.Config.SampleEvery == 0:
			r.state.Pending = sampleAnswers
		}
	}
}

// end loads the best weights.
func (r *Run) end() (Result, error) {
	r.stopped = false
	if err := r.Ranks.settle(); err != nil {
		return Result{}, err
	}
	r.phase("done")
	res := Result{State: r.state}
	if r.exhausted() && r.state.Step < r.Plan.Steps {
		res.Stopped = fmt.Sprintf("no better validation loss within a patience of %d", r.Plan.Config.Patience)
	}
	if b := r.state.Best; b != nil && b.Step != r.state.Step {
		if err := r.loadChecked(context.Background(), bestIn(r.Dir, b.Step)); err != nil {
			return res, fmt.Errorf("the best weights: %w; a resumed run continues without them", err)
		}
	} else if r.Weights != nil { // the other ranks have ended
		if err := r.load(context.Background(), checkpoint.Dir(CheckpointsIn(r.Dir), r.state.Step)); err != nil {
			return res, err
		}
	}
	return res, r.metrics.Sync()
}

// due reports whether something is due now: every n steps, or after each epoch if n is 0, and always after the last
// step.
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

// exhausted reports whether the patience has run out.
func (r *Run) exhausted() bool {
	return r.Plan.Config.Patience > 0 && r.state.SinceBest >= r.Plan.Config.Patience
}

func (r *Run) phase(format string, args ...any) {
	if r.Hooks.Phase != nil {
		r.Hooks.Phase(Phase(fmt.Sprintf(format, args...)))
	}
}

func (r *Run) notice(format string, args ...any) {
	if r.Hooks.Notice != nil {
		r.Hooks.Notice(fmt.Sprintf(format, args...))
	}
}

// record writes a line of metrics and calls the hook for it. Ranks other than 0 have none.
func record[T any](r *Run, event T, hook func(T)) error {
	if r.metrics == nil {
		return nil
	}
	if err := r.metrics.Write(event); err != nil {
		return err
	}
	r.state.Metrics, r.saved = r.metrics.Offset(), false
	if hook != nil {
		hook(event)
	}
	return nil
}

// prune deletes the checkpoints beyond Keep, and the best weights that no remaining checkpoint refers to.
func (r *Run) prune() error {
	if _, err := checkpoint.Keep(CheckpointsIn(r.Dir), r.Plan.Config.Keep); err != nil {
		return err
	}
	return r.removeBest(r.state.Best)
}

// removeBest deletes all best-NNNNNN directories except but's, if but is not nil, and the ones that a remaining
// checkpoint refers to.
func (r *Run) removeBest(but *Best) error {
	root := CheckpointsIn(r.Dir)
	steps, err := checkpoint.Steps(root)
	if err != nil {
		return err
	}
	known := []*Best{but}
	for _, step := range steps {
		s, err := ReadState(checkpoint.Dir(root, step))
		if of := new(fs.PathError); errors.As(err, &of) && !errors.Is(err, fs.ErrNotExist) {
			return nil // try again later: this one may be intact
		}
		if err == nil { // no run can continue from a damaged one
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
	entries, err2 := disk.ReadDir(root)
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
