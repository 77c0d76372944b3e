package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"restyle/kernels"
	"restyle/optim"
	"restyle/tensor"
)

// What rank 0 says between steps, and at the end. Anything else is the name of a tensor that it wants to save, or of a
// layer whose weights it needs.
const (
	oneMore = "a step"
	noMore  = "the end"
)

// between names, for errors, what rank 0 says between steps: nothing that a user knows.
const between = ""

// tell tells the other ranks what comes next.
func (s *Ranks) tell(what string) error {
	if s == nil {
		return nil
	}
	_, err := s.Share(between, []byte(what))
	s.over = err == nil && what == noMore
	return err
}

// follow does what rank 0 tells this rank to do.
func (r *Run) follow(context.Context) (Result, error) {
	kept := map[string]optim.Kept{}
	for _, k := range r.Optimizer.Kept() {
		kept[k.Name] = k
	}
	layers := map[string]int{}
	for _, layer := range r.Ranks.order {
		layers[layerName(layer)] = layer
	}
	for {
		next, err := r.Ranks.Share(between, nil)
		if err != nil || string(next) == noMore {
			r.Ranks.over = err == nil
			return Result{State: r.state}, err
		}
		if k, ok := kept[string(next)]; ok {
			err = r.giveKept(k)
		} else if layer, ok := layers[string(next)]; ok {
			r.Ranks.gather(layer)
			err = errors.Join(r.Ranks.settle(), r.Model.Device().Sync())
		} else {
			err = r.together()
		}
		if err != nil {
			return Result{}, err
		}
	}
}

// A rank that no longer moves counts as lost after leastLimit or, if that is more, after four times the longest time
// that a rank has taken from one layer to the next. Until a step has been taken, that time is not known, and the rank
// counts as lost after firstLimit.
const leastLimit, firstLimit = time.Minute, 10 * time.Minute

// together takes a step with the other ranks. After an error its limit stays: the GPU may wait forever for a rank that
// is gone, even when it is closed.
func (r *Run) together() error {
	s := r.Ranks
	if s == nil {
		return r.step()
	}
	limit := firstLimit
	if s.known {
		limit = leastLimit
	}
	s.Watch(limit)
	return r.step()
}

// stepped ends together's limit: only rank 0 does what follows, which may take long.
func (s *Ranks) stepped() {
	if s != nil {
		s.known = true
		s.Watch(0)
	}
}

// why returns why a run ends with an error: an error of NCCL may mean that a rank is lost.
func (s *Ranks) why(err error) error {
	if s == nil || err == nil || errors.Is(err, ErrStopped) {
		return err
	}
	select {
	case <-s.Lost():
		return s.Err()
	case <-time.After(time.Second):
		return err
	}
}

// shareState gives the other ranks the state that rank 0 resumes from a checkpoint, or the state of a new run if from
// is "": the counters, the trainable weights, and to each its part of the optimizer's state. Only rank 0 reads the
// checkpoint.
func (r *Run) shareState(from string) error {
	resumed := from != ""
	if r.Ranks != nil {
		var err error
		if resumed, err = r.shareWeights(resumed); err != nil {
			return err
		}
	}
	if !resumed {
		return nil
	}
	return r.takeOptimizer(from)
}

// shareWeights is shareState without the optimizer's state. It reports whether rank 0 has resumed.
func (r *Run) shareWeights(resumed bool) (bool, error) {
	s, d := r.Ranks, r.Model.Device()
	var text []byte
	var err error
	if resumed {
		r.state.Updates, r.state.Scaler = r.Optimizer.Steps(), r.Optimizer.Scaler
		if text, err = json.Marshal(r.state); err != nil { // as fill writes it
			return false, err
		}
	}
	text, err = s.Share("the state", text)
	if err != nil || len(text) == 0 {
		return false, err
	}
	if s.Rank() > 0 {
		r.state = State{Scaler: r.Optimizer.Scaler}
		if err := json.Unmarshal(text, &r.state); err != nil {
			return false, err
		}
		r.Optimizer.SetSteps(r.state.Updates)
	}
	params := r.Optimizer.Params()
	for i, p := range params {
		if s.Rank() == 0 {
			if err := r.bring(p); err != nil {
				return false, err
			}
		}
		if err := inParts(p.W, func(_ int64, part tensor.Tensor, bytes []byte) error {
			if s.Rank() == 0 {
				if err := d.DownloadBytes(bytes, part); err != nil {
					return err
				}
			}
			got, err := s.Share(p.Name, bytes)
			if err == nil && s.Rank() > 0 {
				d.UploadBytes(part, got)
			}
			return err
		}); err != nil {
			return false, err
		}
		if i+1 == len(params) || params[i+1].Layer != p.Layer {
			r.Weights.Keep(p.Layer)
		}
	}
	r.source = ""
	return true, d.Sync()
}

// RanksAndShard returns the number of ranks and what they divide, as records have it.
func (p *Plan) RanksAndShard() string {
	text := fmt.Sprint(max(1, p.Ranks))
	if p.Config.Shard != ShardOptimizer && p.Ranks > 1 {
		text += " with --shard " + string(p.Config.Shard)
	}
	return text
}

// prepare compiles the kernels that rehearse launches, and chooses the algorithms of matrix products. Rank 0 goes
// first, so that the others find the kernels in the cache. All ranks use its algorithms, and its record keeps them.
func (j *Job) prepare(ctx context.Context, rehearse func(*kernels.Device) error) error {
	prepare := func() error {
		if err := j.Device.Precompile(ctx, rehearse, j.counting(Compiling)); err != nil {
			return err
		}
		return j.Device.ChooseProducts(ctx, j.counting(Timing))
	}
	g := j.opts.Group
	if g == nil {
		return prepare()
	}
	var text []byte
	if g.Rank() == 0 {
		if err := prepare(); err != nil {
			return err
		}
		text, _ = json.Marshal(j.Device.Choices())
	}
	text, err := g.Share("the algorithms of matrix products", text)
	if err != nil || g.Rank() == 0 {
		return err
	}
	choices := map[string]string{}
	if err := json.Unmarshal(text, &choices); err != nil {
		return err
	}
	j.Device.KeepChoices(choices)
	return prepare() // which times nothing now
}

// Share divides the examples of each step among size ranks. With sameBits, a micro-batch is always a pass, and the
// gradients of a step's passes are added up one after another, so that no bit of the result depends on size. Share
// returns an error, which begins with the name of a setting, if they cannot be divided so.
func (p *Plan) Share(size int, sameBits bool) error {
	switch c := p.Config; {
	case sameBits && size > c.Accumulate:
		return fmt.Errorf("accumulate %d: must be at least %d with same-bits, one micro-batch for each rank", c.Accumulate,
			size)
	case size > c.Batch*c.Accumulate:
		return fmt.Errorf("batch %d × accumulate %d: must be at least %d, one example for each rank", c.Batch, c.Accumulate,
			size)
	case c.Gradients == LayerGradients && (size > 1 || sameBits):
		return fmt.Errorf("gradients %s: must be %s with several ranks or same-bits, which sum those of a whole step: for "+
			"less memory, set shard to %s on several ranks", c.Gradients, StepGradients, ShardGradients)
	}
	if err := p.Config.CheckShard(size); err != nil {
		return err
	}
	p.Ranks, p.SameBits = size, sameBits
	p.MaxTokens = p.passTokens()
	return nil
}
