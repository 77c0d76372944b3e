package trainer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/ranks"
	"restyle/tensor"
)

// Ranks are the processes that share the steps of a run. Each computes the gradient of its part of a step's examples,
// all get the sum, and all take the same step. Rank 0 alone evaluates, saves and reports. A nil Ranks is a run of one
// process.
type Ranks struct {
	*ranks.Group
	Note string // which library sums, for the user; "" on the CPU

	comm   *kernels.Comm           // of GPUs; nil: this process's memory is summed
	losses tensor.Tensor           // the sum of a step's losses, on the device
	grads  map[int][]tensor.Tensor // the gradients of each layer, those that are adjacent as one
	order  []int                   // the layers that have any, in the order of the backward pass
	next   int                     // index of the layer that is summed next
	err    error                   // of a sum of this step

	first, all int           // the number of this rank's first pass among those of the step, and of them all
	longest    time.Duration // of the steps so far
	over       bool          // all ranks have ended their steps
}

// NewRanks prepares the sums of the gradients of a model's parameters and of an optimizer's losses over the ranks, each
// of which calls it. The caller must close it.
func NewRanks(g *ranks.Group, m *model.Model, o *optim.AdamW) (s *Ranks, err error) {
	s = &Ranks{Group: g, losses: o.Losses(), grads: map[int][]tensor.Tensor{}}
	s.list(m.Params())
	if d := m.Device(); !d.IsCPU() {
		share := func(id []byte) ([]byte, error) { return g.Share("the beginning of NCCL", id) }
		g.Watch(leastLimit) // NCCL waits for a rank that is gone, also when it ends
		if s.comm, s.Note, err = d.OpenComm(g.Rank(), g.Size(), share); err == nil {
			g.Watch(0)
		}
	}
	return s, err
}

// Close ends the sums, after the last step of all ranks.
func (s *Ranks) Close() error {
	s.Watch(leastLimit)
	err := s.comm.Close()
	if err == nil {
		s.Watch(0)
	}
	return err
}

// list lists the gradients of parameters.
func (s *Ranks) list(params []model.Param) {
	for _, p := range params {
		if !p.Trainable() {
			continue
		}
		list := s.grads[p.Layer]
		if list == nil {
			s.order = append(s.order, p.Layer)
		}
		if n := len(list) - 1; n >= 0 && list[n].DType == p.Grad.DType &&
			list[n].Addr+uintptr(list[n].Bytes()) == p.Grad.Addr {
			list[n].Shape = []int{list[n].Len() + p.Grad.Len()}
		} else {
			list = append(list, p.Grad.View(p.Grad.Len()))
		}
		s.grads[p.Layer] = list
	}
	slices.SortFunc(s.order, func(a, b int) int { return cmp.Compare(b, a) }) // Outside is the last
}

// part returns what this rank has of a step's passes, which begin with those of rank 0.
func (s *Ranks) part(byRank [][]model.Batch) []model.Batch {
	if s == nil {
		return byRank[0]
	}
	s.first, s.all = 0, 0
	for rank, passes := range byRank {
		if rank < s.Rank() {
			s.first += len(passes)
		}
		s.all += len(passes)
	}
	return byRank[s.Rank()]
}

// passes returns the number of the first of n passes, and of all passes of the step.
func (s *Ranks) passes(n int) (first, all int) {
	switch {
	case s == nil:
		return 0, n
	case s.all == 0: // nobody has said: every rank has as many
		return n * s.Rank(), n * s.Size()
	}
	return s.first, s.all
}

// idle is the pass of a rank that has no example of a step: it has no target.
func idle() []model.Batch { return []model.Batch{{IDs: []int32{0}, Labels: []int32{model.Ignore}}} }

// after is called when the gradients of a layer are final. It sums those of all layers up to it that are left, so that
// every rank sums the same layers in the same order, even one whose backward pass reaches fewer.
func (s *Ranks) after(layer int) {
	for s.next < len(s.order) && s.order[s.next] >= layer {
		at := s.order[s.next]
		s.next++
		name := fmt.Sprintf("the sum of the gradients of layer %d", at)
		if at == model.Outside {
			name = "the sum of the gradients outside the layers"
		}
		s.sum(name, s.grads[at])
	}
}

// sum sums tensors over the ranks: on GPUs, beside the backward pass.
func (s *Ranks) sum(name string, list []tensor.Tensor) {
	if s.comm != nil && s.err == nil {
		if s.err = s.Step(name); s.err == nil {
			s.comm.Sum(list...)
		}
		return
	}
	for _, x := range list {
		if s.err == nil {
			s.err = s.Sum(name, x)
		}
	}
}

// finish ends the sums of a step, with those of its losses and of a mixture's auxiliary loss.
func (s *Ranks) finish(mixture bool, auxiliary *float64) error {
	if s == nil {
		return nil
	}
	s.next = 0
	s.sum("the sum of the losses", []tensor.Tensor{s.losses})
	if s.err == nil && mixture {
		*auxiliary, s.err = s.SumFloat("the sum of the auxiliary losses", *auxiliary)
	}
	if s.err == nil && s.comm != nil {
		s.err = s.comm.Wait()
	}
	return s.err
}

// What rank 0 says before each step, and at the end.
const (
	oneMore = "a step"
	noMore  = "the end"
)

// tell tells the other ranks what comes next.
func (s *Ranks) tell(what string) error {
	if s == nil {
		return nil
	}
	_, err := s.Share("what comes next", []byte(what))
	s.over = err == nil && what == noMore
	return err
}

// follow takes the steps that rank 0 tells this rank to take.
func (r *Run) follow() (Result, error) {
	for {
		next, err := r.Ranks.Share("what comes next", nil)
		if err != nil || string(next) == noMore {
			r.Ranks.over = err == nil
			return Result{State: r.state}, err
		}
		if err := r.together(); err != nil {
			return Result{}, err
		}
	}
}

// A rank that moves no further counts as lost after leastLimit, or after four times the longest step if that is more,
// and after firstLimit in the first step, of which nothing is known yet. leastLimit is also that of connecting GPUs. It
// is long because steps differ in size.
const leastLimit, firstLimit = 10 * time.Minute, time.Hour

// together takes a step with the other ranks. After an error the limit stays: the GPU may wait for ever for a rank that
// is gone, also when it is closed.
func (r *Run) together() error {
	s := r.Ranks
	if s == nil {
		return r.step()
	}
	limit := firstLimit
	if s.longest > 0 {
		limit = max(leastLimit, 4*s.longest)
	}
	s.Watch(limit)
	start := time.Now()
	err := r.step()
	s.longest = max(s.longest, time.Since(start))
	if err == nil {
		s.Watch(0)
		return nil
	}
	select { // NCCL's error may be that a rank is lost
	case <-s.Lost():
		return s.Err()
	case <-time.After(time.Second):
		return err
	}
}

// shareState gives the other ranks the state that rank 0 has resumed: the counters, the trainable weights and the
// optimizer's state. So only rank 0 reads the checkpoint.
func (r *Run) shareState(resumed bool) error {
	s, d := r.Ranks, r.Model.Device()
	if s == nil {
		return nil
	}
	var text []byte
	var err error
	if resumed {
		r.state.Updates, r.state.Scaler = r.Optimizer.Steps(), r.Optimizer.Scaler
		if text, err = json.Marshal(r.state); err != nil { // as fill writes it
			return err
		}
	}
	text, err = s.Share("the state", text)
	if err != nil || len(text) == 0 {
		return err
	}
	if s.Rank() > 0 {
		r.state = State{Scaler: r.Optimizer.Scaler}
		if err := json.Unmarshal(text, &r.state); err != nil {
			return err
		}
		r.Optimizer.SetSteps(r.state.Updates)
	}
	list := r.Optimizer.State()
	for _, p := range r.Model.Params() {
		if p.Trainable() {
			list = append(list, p.W)
		}
	}
	for _, t := range list {
		if err := inParts(t, func(_ int64, part tensor.Tensor, bytes []byte) error {
			if s.Rank() == 0 {
				if err := d.DownloadBytes(bytes, part); err != nil {
					return err
				}
			}
			got, err := s.Share(t.Name, bytes)
			if err == nil && s.Rank() > 0 {
				d.UploadBytes(part, got)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return d.Sync()
}

// prepare compiles the kernels that rehearse launches, and chooses the algorithms of matrix products. Rank 0 is the
// first, so that the others find the kernels in the cache. All have its algorithms, and its record keeps them.
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

// Share divides the examples of each step among size ranks. It returns an error, which begins with the name of a
// setting, if they cannot be divided so.
func (p *Plan) Share(size int) error {
	switch c := p.Config; {
	case size > c.Batch*c.Accumulate:
		return fmt.Errorf("batch %d × accumulate %d: must be at least %d, one example for each rank", c.Batch, c.Accumulate,
			size)
	case c.Gradients == LayerGradients && size > 1:
		return fmt.Errorf("gradients %s: must be %s with several ranks, which sum those of a whole step", c.Gradients,
			StepGradients)
	}
	p.Ranks = size
	p.MaxTokens = p.passTokens()
	return nil
}
