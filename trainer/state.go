package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"restyle/hf"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// State is a run between two steps, without its weights and the optimizer's state: state.json of a checkpoint.
type State struct {
	Format    int           `json:"format"` // of this file: formatNow
	Step      int           `json:"step"`   // steps done, skipped ones included
	Updates   int           `json:"updates"`
	Tokens    int64         `json:"tokens"`
	Padding   int64         `json:"padding,omitempty"` // what passes were filled up with, beside the tokens
	Targets   int64         `json:"trained"`           // target tokens
	Examples  int64         `json:"examples"`
	Skipped   int           `json:"skipped"`
	InARow    int           `json:"skipped_in_a_row"`
	Loss      report.Number `json:"loss"`
	Best      *Best         `json:"best,omitempty"`
	SinceBest int           `json:"evaluations_since_best"`
	Pending   string        `json:"pending,omitempty"`      // what comes before the next step: "evaluation", "sample answers" or nothing
	Metrics   int64         `json:"metrics_bytes"`          // length of metrics.jsonl
	Seconds   float64       `json:"seconds"`                // spent in steps
	Longer    int           `json:"longer_since,omitempty"` // the step after which the run was last made longer; 0: never
	Record
}

// Best is the best evaluation so far.
type Best struct {
	Step int           `json:"step"`
	Loss report.Number `json:"val_loss"`
	Tone *float64      `json:"tone,omitempty"` // of its sample answers
}

const formatNow = 1

var nan = report.Number(math.NaN())

const stateName, optimizerName = "state.json", "optimizer.safetensors"

// save writes a checkpoint of the state between two steps.
func (r *Run) save() error {
	start := time.Now()
	defer r.Model.Device().Range("checkpoint")()
	r.phase("%s", Saving)
	if err := r.metrics.Sync(); err != nil {
		return err
	}
	root := CheckpointsIn(r.Dir)
	err := checkpoint.Write(root, r.state.Step, func(dir string) error {
		if err := r.saveModel(dir); err != nil {
			return err
		}
		var tensors []hf.TensorData
		for _, t := range r.Optimizer.State() {
			tensors = append(tensors, hf.TensorData{Name: t.Name, DType: t.DType, Shape: t.Shape, Write: func(w io.Writer) error { return r.download(w, t) }})
		}
		if err := hf.WriteSafetensors(filepath.Join(dir, optimizerName), nil, tensors); err != nil {
			return err
		}
		r.state.Format, r.state.Updates = formatNow, r.Optimizer.Steps()
		data, err := json.MarshalIndent(r.state, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, stateName), append(data, '\n'), 0o666)
	})
	if err != nil {
		return err
	}
	r.saved, r.anew = true, false
	if err := r.prune(); err != nil {
		return err
	}
	if r.Hooks.Saved != nil {
		r.Hooks.Saved(Saved{r.state.Step, checkpoint.Dir(root, r.state.Step), time.Since(start).Seconds()})
	}
	return nil
}

// saveModel writes the weights as they are, in the layout that every other program reads.
func (r *Run) saveModel(dir string) error {
	return hf.Save(dir, r.Base, r.Model.Device(), r.Model.Params(), hf.SaveOptions{})
}

// download writes a tensor's bytes.
func (r *Run) download(w io.Writer, t tensor.Tensor) error {
	return r.Model.Device().Read(t, func(bytes []byte) error {
		_, err := w.Write(bytes)
		return err
	})
}

// inParts calls f with a tensor a few MB at a time: where in its bytes a part begins, and room for those of the part, which
// is used again for the next one.
func inParts(t tensor.Tensor, f func(at int64, part tensor.Tensor, bytes []byte) error) error {
	flat, size := t.View(t.Len()), t.DType.Size()
	most := (4 << 20) / size
	bytes := make([]byte, min(most, t.Len())*size)
	for lo := 0; lo < t.Len(); lo += most {
		part := flat.Slice(lo, min(lo+most, t.Len()))
		if err := f(int64(lo*size), part, bytes[:part.Bytes()]); err != nil {
			return err
		}
	}
	return nil
}

// load reads the weights of a checkpoint.
func (r *Run) load(ctx context.Context, dir string) error {
	c, err := hf.OpenModel(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Load(ctx, r.Model.Device(), r.Model.Params(), nil)
}

// loadChecked is load for a directory that nobody has looked at yet.
func (r *Run) loadChecked(ctx context.Context, dir string) error {
	if err := checkpoint.Open(dir); err != nil {
		return err
	}
	return r.load(ctx, dir)
}

// restore brings back the state that save wrote.
func (r *Run) restore(ctx context.Context, dir string) error {
	s, err := readState(dir)
	if err != nil {
		return err
	}
	if err := Same(s.Identity, r.Identity); err != nil {
		return err
	}
	if err := r.lengthen(&s); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	if name := filepath.Base(checkpoint.Dir("", s.Step)); strings.HasPrefix(filepath.Base(dir), "step-") && filepath.Base(dir) != name {
		return fmt.Errorf("checkpoint %s: its %s is that of %s: it was put together from several", dir, stateName, name)
	}
	if s.Best, err = r.restoreBest(ctx, s.Best); err != nil {
		return err
	}
	if err := r.load(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	if err := r.restoreOptimizer(filepath.Join(dir, optimizerName)); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	r.Optimizer.SetSteps(s.Updates)
	s.Decisions = r.Decisions
	r.state, r.saved = s, true
	return r.Model.Device().Sync()
}

// restoreBest sees to it that the best weights are there and whole: where they are not, those of the checkpoint of the same
// step take their place, and without one there is no best until the next evaluation.
func (r *Run) restoreBest(ctx context.Context, b *Best) (*Best, error) {
	if b == nil {
		return nil, nil
	}
	best, same := bestIn(r.Dir, b.Step), checkpoint.Dir(CheckpointsIn(r.Dir), b.Step)
	bad := checkpoint.Open(best)
	if bad == nil {
		return b, nil
	}
	if err := r.loadChecked(ctx, same); err != nil {
		if r.Ended {
			return nil, fmt.Errorf("the best weights, those after step %d, are no longer among the checkpoints (%w): they are the result "+
				"in %s, which this run would replace with others: train that one further in a directory of its own", b.Step, bad, r.Dir)
		}
		r.notice("the best weights so far, those after step %d, are lost (%v): the next evaluation starts over", b.Step, bad)
		return nil, ctx.Err()
	}
	r.notice("the best weights so far, those after step %d, are copied from %s again (%v)", b.Step, same, bad)
	return b, checkpoint.Replace(best, r.saveModel)
}

func (r *Run) restoreOptimizer(path string) error {
	f, err := hf.OpenSafetensors(path)
	if err != nil {
		return err
	}
	defer f.Close()
	state := r.Optimizer.State()
	if names := f.Names(); len(names) != len(state) {
		return fmt.Errorf("%s has %d tensors, and this optimiser's state is %d", optimizerName, len(names), len(state))
	}
	for _, t := range state {
		info, ok := f.Tensor(t.Name)
		if !ok || info.Bytes != int64(t.Bytes()) || info.DType != t.DType.String() {
			return fmt.Errorf("%s: the state of %s is missing or of another size", optimizerName, t.Name)
		}
		if err := inParts(t, func(at int64, part tensor.Tensor, bytes []byte) error {
			if err := f.ReadAt(t.Name, bytes, at); err != nil {
				return err
			}
			r.Model.Device().UploadBytes(part, bytes)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// readState reads state.json of a checkpoint.
func readState(dir string) (s State, err error) {
	data, err := os.ReadFile(filepath.Join(dir, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("checkpoint %s has no %s: it is a model, not a state of a run", dir, stateName)
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("checkpoint %s: %s: %w", dir, stateName, err)
	}
	if s.Format != formatNow {
		return s, fmt.Errorf("checkpoint %s: %s has format %d, and this program reads %d: resume it with the version that made it", dir, stateName, s.Format, formatNow)
	}
	if s.Step < 0 || s.Updates < 0 || s.Updates > s.Step || s.Metrics < 0 || !slices.Contains([]string{"", evaluation, sampleAnswers}, s.Pending) {
		return s, fmt.Errorf("checkpoint %s: %s makes no sense: step %d, %d updates, %q pending", dir, stateName, s.Step, s.Updates, s.Pending)
	}
	return s, nil
}

// lengthen has a state go on in this run, which may have more steps than the one that saved it.
func (r *Run) lengthen(s *State) error {
	was := r.Plan.Config
	for _, f := range was.Fields() {
		text, ok := s.Identity[f.Name]
		if !ok || !slices.Contains(grows, f.Name) {
			continue
		}
		if err := f.Set(text); err != nil {
			return fmt.Errorf("%s: %w", stateName, err)
		}
	}
	s.Identity = r.Identity
	if was.Epochs == r.Plan.Config.Epochs && was.MaxSteps == r.Plan.Config.MaxSteps {
		return nil
	}
	shorter, err := NewPlan(was, r.Plan.examples, nil)
	if err != nil {
		return err
	}
	if shorter.Steps < r.Plan.Steps {
		s.Longer = s.Step
		r.notice("the run is now longer: it has %d steps, and had %d; from step %d on the learning rate is that of a run "+
			"of the new length, %.3g instead of %.3g", r.Plan.Steps, shorter.Steps, s.Step, r.Plan.rate(s.Step), shorter.rate(s.Step))
	}
	return nil
}

// grows are the entries of an identity that may grow: a run can be made longer. 0 stands for no limit.
var grows = []string{"epochs", "max-steps"}

// grown says whether a limit is now another that lets a run go at least as far.
func grown(then, now string) bool {
	a, err1 := strconv.Atoi(then)
	b, err2 := strconv.Atoi(now)
	return err1 == nil && err2 == nil && a != 0 && (b == 0 || b > a)
}

// Same names every entry in which two identities differ: what a run was made of, and what it would be made of now. Epochs and
// max-steps may have grown.
func Same(then, now map[string]string) error {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if then[name] != now[name] && !(slices.Contains(grows, name) && grown(then[name], now[name])) {
			faults = append(faults, fmt.Sprintf("%s was %s and is now %s", name, inWords(then[name]), inWords(now[name])))
		}
	}
	if faults == nil {
		return nil
	}
	return fmt.Errorf("it would not be the same run: %s", strings.Join(faults, "; "))
}

// inWords is an entry of an identity for a person: of a hash, as many digits as tell it from others.
func inWords(s string) string {
	const digits = 64
	if s == "" {
		return "nothing"
	}
	if n := len(s) - digits; n >= 0 && strings.Trim(s[n:], "0123456789abcdef") == "" {
		return s[:n+12]
	}
	return s
}
