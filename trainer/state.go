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
	"restyle/internal/disk"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// State is the state of a run between two steps, without the weights and the optimizer's state. A checkpoint has it in
// state.json.
type State struct {
	Format    int           `json:"format"` // of this file: formatNow
	Step      int           `json:"step"`   // steps taken, including skipped ones
	Updates   int           `json:"updates"`
	Tokens    int64         `json:"tokens"`
	Padding   int64         `json:"padding,omitempty"` // tokens that passes were padded with
	Targets   int64         `json:"trained"`           // target tokens
	Examples  int64         `json:"examples"`
	Skipped   int           `json:"skipped"`
	InARow    int           `json:"skipped_in_a_row"`
	Scaler    *optim.Scaler `json:"loss_scaling,omitempty"` // of a run in F16
	Overflows int           `json:"overflows,omitempty"`    // gradients that overflowed with a larger loss scale
	Loss      report.Number `json:"loss"`
	Best      *Best         `json:"best,omitempty"`
	SinceBest int           `json:"evaluations_since_best"`
	// Pending is what is due before the next step: "evaluation", "sample answers" or nothing.
	Pending string  `json:"pending,omitempty"`
	Metrics int64   `json:"metrics_bytes"`          // length of metrics.jsonl
	Seconds float64 `json:"seconds"`                // spent in steps
	Longer  int     `json:"longer_since,omitempty"` // the step after which the run last became longer; 0: never
	Record
}

// Best is the evaluation with the lowest validation loss so far.
type Best struct {
	Step int           `json:"step"`
	Loss report.Number `json:"val_loss"`
	Tone *float64      `json:"tone,omitempty"` // of its samples
}

const formatNow = 1

var nan = report.Number(math.NaN())

const stateName, optimizerName = "state.json", "optimizer.safetensors"

// save writes a checkpoint of the state between two steps.
func (r *Run) save() error {
	start := time.Now()
	defer r.Model.Device().Range("checkpoint")()
	r.phase("%s", Saving)
	if err := errors.Join(r.metrics.Sync(), r.Ranks.settle()); err != nil {
		return err
	}
	root := CheckpointsIn(r.Dir)
	if err := checkpoint.Write(root, r.state.Step, r.fill); err != nil {
		return err
	}
	r.saved, r.freshMetrics = true, false
	r.saving.took(start, time.Now())
	if err := r.prune(); err != nil {
		return err
	}
	if r.Hooks.Saved != nil {
		r.Hooks.Saved(Saved{r.state.Step, checkpoint.Dir(root, r.state.Step), time.Since(start).Seconds()})
	}
	return nil
}

// checkpointBytes returns the size of a checkpoint without its small files.
func (r *Run) checkpointBytes() (bytes int) {
	bytes = weightBytes(r.Plan.Config.weights(r.Model.Params()))
	for _, k := range r.Optimizer.Kept() {
		bytes += k.Len * k.DType.Size()
	}
	return bytes
}

// fill writes the files of a checkpoint.
func (r *Run) fill(dir string) error {
	if err := r.saveModel(dir); err != nil {
		return err
	}
	var tensors []hf.TensorData
	for _, k := range r.Optimizer.Kept() {
		tensors = append(tensors, hf.TensorData{Name: k.Name, DType: k.DType, Shape: []int{k.Len},
			Write: func(w io.Writer) error { return r.writeKept(w, k) }})
	}
	if err := hf.WriteSafetensors(filepath.Join(dir, optimizerName), nil, tensors); err != nil {
		return err
	}
	r.state.Format, r.state.Updates, r.state.Scaler = formatNow, r.Optimizer.Steps(), r.Optimizer.Scaler
	data, err := json.MarshalIndent(r.state, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, stateName), append(data, '\n'), 0o666)
}

// saveModel writes the current weights in the Hugging Face layout, or the adapters' weights in PEFT's.
func (r *Run) saveModel(dir string) error { return r.saveWith(dir, nil) }

func (r *Run) saveWith(dir string, card []byte) error {
	if r.Plan.Config.Adapts() {
		return r.saveAdapter(dir, card)
	}
	return hf.Save(dir, r.Base, r.Model.Device(), r.Model.Params(), hf.SaveOptions{Card: card, Before: r.bring})
}

// writeKept writes a tensor of the optimizer's state. Other ranks give it their parts: it tells them of which tensor.
func (r *Run) writeKept(w io.Writer, k optim.Kept) error {
	if err := r.Ranks.tell(k.Name); err != nil {
		return err
	}
	for _, part := range k.Parts {
		if part.Here.Ok() {
			if err := r.Model.Device().Read(part.Here, func(bytes []byte) error {
				_, err := w.Write(bytes)
				return err
			}); err != nil {
				return err
			}
			continue
		}
		if err := inPieces(part, k.DType, func(_ int64, _ tensor.Tensor, bytes []byte) error {
			r.Ranks.Watch(firstLimit) // the other rank's GPU may hang
			if err := r.Ranks.Move(k.Name, part.Rank, 0, bytes); err != nil {
				return err
			}
			r.Ranks.Watch(0)
			_, err := w.Write(bytes)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// giveKept gives rank 0 this rank's part of a tensor of the optimizer's state.
func (r *Run) giveKept(k optim.Kept) error {
	for _, part := range k.Parts {
		if err := inPieces(part, k.DType, func(_ int64, piece tensor.Tensor, bytes []byte) error {
			if part.Here.Ok() {
				if err := r.Model.Device().DownloadBytes(bytes, piece); err != nil {
					return err
				}
			}
			return r.Ranks.Move(k.Name, part.Rank, 0, bytes)
		}); err != nil {
			return err
		}
	}
	return nil
}

// inPieces is inParts for a part that may be another rank's; the pieces then only have the same lengths.
func inPieces(part optim.KeptPart, dtype tensor.DType, f func(at int64, piece tensor.Tensor, bytes []byte) error,
) error {
	t := part.Here
	if !t.Ok() {
		t = tensor.Tensor{DType: dtype, Shape: []int{part.Len}}
	}
	return inParts(t, f)
}

// inParts calls f with parts of a tensor, a few MB each: the offset of the part in the tensor's bytes, the part, and a
// buffer of its size, which the next part reuses.
func inParts(t tensor.Tensor, f func(at int64, part tensor.Tensor, bytes []byte) error) error {
	flat, size := t.View(t.Len()), t.DType.Size()
	limit := (4 << 20) / size
	bytes := make([]byte, min(limit, t.Len())*size)
	for lo := 0; lo < t.Len(); lo += limit {
		part := flat.Slice(lo, min(lo+limit, t.Len()))
		if err := f(int64(lo*size), part, bytes[:part.Bytes()]); err != nil {
			return err
		}
	}
	return nil
}

// load reads the weights from a directory; if ranks have parts, bring reads the layers' weights later.
func (r *Run) load(ctx context.Context, dir string) error {
	if r.Plan.Config.Adapts() {
		return r.loadAdapter(ctx, dir)
	}
	params := r.Model.Params()
	if r.Weights != nil {
		r.source, r.brought, params = dir, model.Outside, inLayer(params, model.Outside)
	}
	return r.loadParams(ctx, dir, params)
}

func (r *Run) loadParams(ctx context.Context, dir string, params []model.Param) error {
	c, err := hf.OpenModel(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Load(ctx, r.Model.Device(), params, nil)
}

// bring gets the whole weights of a parameter's layer into memory on rank 0, if ranks have parts: from the directory
// that load was given, or else from all ranks.
func (r *Run) bring(p model.Param) error {
	switch {
	case r.Weights == nil || p.Layer == model.Outside:
		return nil
	case r.source == "":
		r.Ranks.gather(p.Layer)
		return r.Ranks.settle()
	case r.brought == p.Layer:
		return nil
	}
	r.brought = model.Outside // until all of the layer is here
	err := r.loadParams(context.Background(), r.source, inLayer(r.Model.Params(), p.Layer))
	if err == nil {
		r.brought = p.Layer
	}
	return err
}

func inLayer(params []model.Param, layer int) (list []model.Param) {
	for _, p := range params {
		if p.Layer == layer {
			list = append(list, p)
		}
	}
	return list
}

// loadChecked verifies a directory and reads the weights from it.
func (r *Run) loadChecked(ctx context.Context, dir string) error {
	if err := checkpoint.Open(dir); err != nil {
		return err
	}
	return r.load(ctx, dir)
}

// restore reads the state that save wrote.
func (r *Run) restore(ctx context.Context, dir string) error {
	s, err := ReadState(dir)
	if err != nil {
		return err
	}
	if err := CheckIdentity(s.Identity, r.Identity); err != nil {
		return err
	}
	if err := r.lengthen(&s); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	if name := filepath.Base(checkpoint.Dir("", s.Step)); strings.HasPrefix(filepath.Base(dir), "step-") &&
		filepath.Base(dir) != name {
		return fmt.Errorf("checkpoint %s: its %s belongs to %s: the directory mixes several checkpoints; remove it to "+
			"resume from an older one", dir, stateName, name)
	}
	if s.Best, err = r.restoreBest(ctx, s.Best); err != nil {
		return err
	}
	if err := r.load(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	if err := r.checkOptimizer(filepath.Join(dir, optimizerName)); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	if scaler := r.Optimizer.Scaler; scaler != nil {
		if s.Scaler == nil || !(s.Scaler.Scale >= minLossScale) || math.IsInf(float64(s.Scaler.Scale), 0) ||
			s.Scaler.Good < 0 {
			return fmt.Errorf("checkpoint %s: its %s has no valid loss scale: remove it to resume from an older one", dir,
				stateName)
		}
		scaler.Scale, scaler.Good = s.Scaler.Scale, s.Scaler.Good
	}
	r.Optimizer.SetSteps(s.Updates)
	s.Decisions = r.Decisions
	r.state, r.saved = s, true
	return r.Model.Device().Sync()
}

// restoreBest verifies the best weights. If they are missing or damaged, it copies the weights from the checkpoint of
// the same step. If that is also missing, there is no best until the next evaluation.
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
			return nil, fmt.Errorf("the best weights, those after step %d, are no longer among the checkpoints (%w): they are "+
				"the result in %s, which this run would replace with others: train that result further in another directory",
				b.Step, bad, r.Dir)
		}
		r.notice("the best weights so far, those after step %d, are lost (%v): the next evaluation starts over", b.Step, bad)
		return nil, ctx.Err()
	}
	r.notice("the best weights so far, those after step %d, are copied from %s again (%v)", b.Step, same, bad)
	return b, checkpoint.Replace(best, r.saveModel)
}

// checkOptimizer returns an error unless a checkpoint's file has the optimizer's state.
func (r *Run) checkOptimizer(path string) error {
	f, err := hf.OpenSafetensors(path)
	if err != nil {
		return err
	}
	defer f.Close()
	state := r.Optimizer.Kept()
	if names := f.Names(); len(names) != len(state) {
		return fmt.Errorf("%s has %d tensors, but this optimizer's state has %d", optimizerName, len(names), len(state))
	}
	for _, k := range state {
		info, ok := f.Tensor(k.Name)
		if !ok || info.Bytes != int64(k.Len*k.DType.Size()) || info.DType != k.DType.String() {
			return fmt.Errorf("%s: the state of %s is missing or has another size", optimizerName, k.Name)
		}
	}
	return nil
}

// takeOptimizer reads the optimizer's state from a checkpoint on rank 0, and gives each rank its part. On the others,
// from is "".
func (r *Run) takeOptimizer(from string) error {
	var f *hf.Safetensors
	if from != "" {
		var err error
		if f, err = hf.OpenSafetensors(filepath.Join(from, optimizerName)); err != nil {
			return err
		}
		defer f.Close()
	}
	for _, k := range r.Optimizer.Kept() {
		first := int64(0)
		for _, part := range k.Parts {
			if err := inPieces(part, k.DType, func(at int64, piece tensor.Tensor, bytes []byte) error {
				if f != nil {
					if err := f.ReadAt(k.Name, bytes, first+at); err != nil {
						return fmt.Errorf("checkpoint %s: %w", from, err)
					}
				}
				if r.Ranks != nil {
					if err := r.Ranks.Move(k.Name, 0, part.Rank, bytes); err != nil {
						return err
					}
				}
				if part.Here.Ok() {
					r.Model.Device().UploadBytes(piece, bytes)
				}
				return nil
			}); err != nil {
				return err
			}
			first += int64(part.Len * k.DType.Size())
		}
	}
	return r.Model.Device().Sync()
}

// ReadState reads the state.json of a checkpoint.
func ReadState(dir string) (s State, err error) {
	data, err := disk.ReadInput(filepath.Join(dir, stateName), disk.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("checkpoint %s has no %s: it is a model, not the state of a run", dir, stateName)
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("checkpoint %s: %s: %w", dir, stateName, err)
	}
	if s.Format != formatNow {
		return s, fmt.Errorf("checkpoint %s: %s has format %d, but this version reads %d: resume with the version that "+
			"wrote it", dir, stateName, s.Format, formatNow)
	}
	if s.Step < 0 || s.Updates < 0 || s.Updates > s.Step || s.Metrics < 0 ||
		!slices.Contains([]string{"", evaluation, sampleAnswers}, s.Pending) {
		return s, fmt.Errorf("checkpoint %s: %s is damaged: step %d, %d updates, %q pending: remove the checkpoint to "+
			"resume from an older one", dir, stateName, s.Step, s.Updates, s.Pending)
	}
	return s, nil
}

// lengthen adapts a state to this run, which may have more steps than the run that saved it.
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
			"of the new length, %.3g instead of %.3g", r.Plan.Steps, shorter.Steps, s.Step, r.Plan.rate(s.Step),
			shorter.rate(s.Step))
	}
	return nil
}

// grows are the entries of an identity that may grow, for a longer run. 0 means no limit.
var grows = []string{"epochs", "max-steps"}

// grown reports whether a limit is now higher.
func grown(then, now string) bool {
	a, err1 := strconv.Atoi(then)
	b, err2 := strconv.Atoi(now)
	return err1 == nil && err2 == nil && a != 0 && (b == 0 || b > a)
}

// CheckIdentity returns an error that names every entry in which the identity of a run, then, differs from what it
// would be now. Epochs and max-steps may have grown.
func CheckIdentity(then, now map[string]string) error {
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

// inWords returns an entry of an identity for people. It shortens a hash to enough digits to tell it from others.
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
