package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"restyle/hf"
	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/model"
	"restyle/optim"
	"restyle/ranks"
	"restyle/tensor"
)

// A Record is what a resumed run compares with the run that it continues, and what it keeps from it. Both are by name.
type Record struct {
	Identity  map[string]string `json:"identity"`  // data, model, settings that determine bits: must be the same
	Decisions map[string]string `json:"decisions"` // what was chosen for the device
}

// OpenDevice opens a device as kernels.Open does. If was is the record of a run to resume, the device uses that run's
// instruction set if this machine has it, and that run's algorithms of matrix products if it is the same device.
// differs has the reasons why the results of the run will differ in their last bits; it is empty if they will not.
func OpenDevice(name string, o kernels.Options, was Record) (d *kernels.Device, differs []string, err error) {
	o.Level = was.Decisions["cpu"]
	if _, err := cpu.ParseLevel(o.Level); err != nil {
		differs = append(differs, fmt.Sprintf("this machine lacks the run's instruction set (%v)", err))
		o.Level = ""
	}
	if d, err = kernels.Open(name, o); err != nil {
		return nil, nil, err
	}
	before, now := cmp.Or(was.Decisions["gpu"], "the CPU"), cmp.Or(d.Model(), "the CPU")
	if before == now {
		before, now = was.Decisions[products], d.Products()
	}
	switch {
	case was.Decisions == nil:
	case before == now:
		d.KeepChoices(choicesOf(was.Decisions))
	default:
		differs = append(differs, fmt.Sprintf("the run began on %s, and this is %s", before, now))
	}
	return d, differs, nil
}

// A Job is a run that is planned for a device. Everything that determines its bits and its memory is known, but nothing
// is allocated yet.
type Job struct {
	Plan     *Plan
	Device   *kernels.Device
	Base     *hf.Checkpoint    // the model to train
	Identity map[string]string // begins as Plan.Recipe; callers add what names data and model
	Memory   Memory            // what Open allocates, to the byte, and an estimate for the process

	opts     JobOptions
	widening widening // how the plan's passes were made; none if a resumed run kept its own
}

// JobOptions say how to plan a job. The zero value plans a new run that starts from the model's weights.
type JobOptions struct {
	Scratch bool // start from random weights; Base has a config and no weights
	// Adapter, if not nil, is what the adapters of Config.LoRA, which is its Spec, start as. Base is then its base,
	// with its own Config (see [hf.Adapter.Config]). Callers add its Digest to the Identity.
	Adapter   *hf.Adapter
	MaxMemory int    // plan as if a GPU had at most this many bytes; 0: all that it has
	Was       Record // of the run to resume
	// Group, if not nil, are the processes that share the run: see Plan.Share. Ranks other than 0 have no directory and
	// no checkpoint: they call OpenIn with nil and "".
	Group *ranks.Group
	// Progress, if not nil, is called while kernels are compiled, matrix products are timed and weights are read. For
	// Reading, done and of are in bytes.
	Progress func(task Task, done, of int64)
}

// A Task is work before the first step that takes some time.
type Task string

// The tasks.
const (
	Compiling Task = "compiling kernels"
	Timing    Task = "timing matrix products"
	Reading   Task = "reading the weights"
)

// NewJob fits a copy of p to a device. It decides how many tokens share a pass, how passes are padded, how many rows of
// logits are computed at once, and the type of gradients. On the CPU, p determines all of that. NewJob keeps the
// decisions of Was.
func NewJob(d *kernels.Device, base *hf.Checkpoint, p *Plan, o JobOptions) *Job {
	plan := *p
	j := &Job{Plan: &plan, Device: d, Base: base, opts: o}
	j.decide()
	plan.Stored = base.Quantization
	plan.space(weightBytes(plan.Config.weights(model.ParamsOf(base.Config, plan.ModelOptions(base.Config)))))
	j.Identity = plan.Recipe()
	j.Memory = MemoryOf(d, d.Fused(), base.Config, &plan)
	j.Memory.Parts = append(j.Memory.Parts, process(d, plan.Ranks))
	return j
}

// Formats of decisions.
const (
	passesDecision = "of up to %d tokens"
	logitsDecision = "in %d bytes"
)

// products is the name of the decision on what multiplies matrices on a GPU. ofProduct is the prefix of the products
// that do not use its first algorithm.
const products, ofProduct = "products", "product "

// decide sets what the plan leaves to the device: how many tokens share a pass, how many bytes of logits there are at a
// time, and the type of gradients.
//
// Each of these changes the order in which numbers are added up, and so the last bits of all results. A resumed run
// must therefore take the decisions of its first start, even on a GPU with more memory: they are in its record, and
// only what is missing there is decided now. For the same reason a decision may depend on the GPU's capacity and on
// the user's limit, but not on what is free: another program on the GPU must not change what is learned.
func (j *Job) decide() {
	d, p, was := j.Device, j.Plan, j.opts.Was
	capacity := d.Capacity()
	if capacity > 0 && j.opts.MaxMemory > 0 {
		capacity = min(capacity, j.opts.MaxMemory)
	}
	if n, _ := fmt.Sscanf(was.Decisions["logits"], logitsDecision, &p.HeadBytes); n != 1 && capacity > 0 {
		p.HeadBytes = model.HeadBytes(capacity)
	}
	p.PadPasses = capacity > 0
	auto := p.Config.GradDType == AutoGrad
	var passes int
	if n, _ := fmt.Sscanf(was.Decisions["passes"], passesDecision, &passes); n == 1 {
		p.Widen(passes)
	} else if capacity > 0 && !p.SameBits { // free or not: results must not depend on who else uses the GPU
		j.widening = widening{within: d.Capacity() / 10 * 9, half: auto && p.Config.DType == tensor.BF16}
		if j.opts.MaxMemory > 0 {
			j.widening.within = min(j.widening.within, j.opts.MaxMemory-d.Overhead(p.Ranks))
		}
		j.widening.apply(d, d.Fused(), j.Base.Config, p)
	}
	if auto && was.Identity != nil {
		p.GradType = 0
		if was.Identity["grad-dtype"] == tensor.BF16.String() {
			p.GradType = tensor.BF16
		}
	}
}

// Decisions returns the decisions for the device. Once a run is open, they include the algorithms of matrix products.
func (j *Job) Decisions() map[string]string {
	all := map[string]string{"cpu": j.Device.Level(), "passes": fmt.Sprintf(passesDecision, j.Plan.MaxTokens)}
	if gpu := j.Device.Model(); gpu != "" {
		all["gpu"] = gpu
	}
	if n := j.Plan.HeadBytes; n > 0 {
		all["logits"] = fmt.Sprintf(logitsDecision, n)
	}
	if j.Plan.Ranks > 1 {
		all["ranks"] = j.Plan.RanksAndShard()
	}
	if with := j.Device.Products(); with != "" {
		all[products] = with
	}
	for product, algorithm := range j.Device.Choices() {
		all[ofProduct+product] = algorithm
	}
	return all
}

// choicesOf returns the algorithms of matrix products that decisions include.
func choicesOf(decisions map[string]string) map[string]string {
	choices := map[string]string{}
	for name, algorithm := range decisions {
		if product, ok := strings.CutPrefix(name, ofProduct); ok {
			choices[product] = algorithm
		}
	}
	return choices
}

// Open opens the model and its optimizer for a run in directory dir, which it creates if it is missing. It first
// compiles the kernels of a GPU and chooses the algorithms of its matrix products. It reads the weights unless from is
// a checkpoint to resume from. The directory stays locked until the caller closes the run, after everything that uses
// its model.
//
// Without from, dir may have a finished run, which [Run.Start] renames. Open returns an error if it has an unfinished
// one, or other files.
func (j *Job) Open(ctx context.Context, dir, from string) (*Run, error) {
	d, err := Claim(dir, from != "")
	if err != nil {
		return nil, err
	}
	var r *Run
	switch {
	case from == "" && d.Was != nil && !d.Was.Finished:
		err = fmt.Errorf("there is an unfinished run in %s: resume it from one of its checkpoints, or rename it", d.Path)
	case from == "" && filepath.IsAbs(BaseName(j.Base)) && disk.Holds(d.Path, j.Base.Name):
		err = fmt.Errorf("%s contains the model to train, %s, and the run would rename it: choose another directory", d.Path,
			j.Base.Name)
	default:
		r, err = j.OpenIn(ctx, d, from)
	}
	if err != nil {
		return nil, errors.Join(err, d.Release())
	}
	r.release = d.Release
	return r, nil
}

// OpenIn is Open for a directory that the caller has claimed and releases.
func (j *Job) OpenIn(ctx context.Context, dir *Dir, from string) (_ *Run, err error) {
	d, config := j.Device, j.Base.Config
	if err := j.Plan.Config.CheckModel(config); err != nil {
		return nil, err
	}
	if err := j.Plan.Config.CheckLoRA(config, j.Plan.Stored); err != nil {
		return nil, err
	}
	rehearse := func(d *kernels.Device) error { return Rehearse(d, config, j.Plan) }
	if err := j.prepare(ctx, rehearse); err != nil {
		return nil, err
	}
	r := &Run{Plan: j.Plan, Base: j.Base, From: from, Identity: j.Identity, Decisions: j.Decisions(),
		Settings: j.Plan.Config.recorded(), place: dir}
	if dir != nil {
		r.Dir, r.Ended = dir.Path, dir.Was != nil && dir.Was.Finished && !dir.aside
	}
	if !j.opts.Scratch {
		r.BaseName = BaseName(j.Base)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.Model, err = model.New(d, config, j.Plan.ModelOptions(config)); err != nil {
		return nil, err
	}
	group := j.opts.Group
	if r.Weights, err = NewWeights(r.Model, j.Plan, group.Rank()); err != nil {
		return nil, err
	}
	adapts := j.Plan.Config.Adapts()
	if from == "" || adapts { // otherwise Start reads the weights of the checkpoint
		if err := j.firstWeights(ctx, r); err != nil {
			return nil, err
		}
	}
	switch a := j.opts.Adapter; {
	case !adapts || from != "":
	case a != nil:
		if err := a.Load(ctx, d, r.Model.Params()); err != nil {
			return nil, err
		}
	default:
		r.Model.InitAdapters(uint64(j.Plan.Config.Seed))
	}
	adamW := j.Plan.AdamW(group.Rank())
	adamW.Shard.Weights = r.Weights.Parts()
	if r.Optimizer, err = optim.New(d, r.Model.Params(), adamW); err != nil {
		return r, err
	}
	if group == nil && j.Plan.SameBits {
		group = ranks.Alone()
	}
	if group != nil {
		r.Ranks, err = NewRanks(group, r.Model, r.Weights, r.Optimizer, j.Plan)
	}
	return r, err
}

// firstWeights gives a new run's model its weights; if ranks have parts, one layer after another.
func (j *Job) firstWeights(ctx context.Context, r *Run) error {
	params, progress := baseParams(j.Base, r.Model.Params()), j.progress(Reading)
	seed, std := uint64(j.Plan.Config.Seed), 0.02
	switch {
	case r.Weights == nil && j.opts.Scratch:
		r.Model.Init(seed, std)
		return nil
	case r.Weights == nil:
		return j.Base.Load(ctx, j.Device, params, progress)
	}
	var before, total int64 // bytes
	for _, p := range params {
		info, _ := j.Base.Tensor(p.Name)
		total += info.Bytes
	}
	for layer := model.Outside; layer < j.Base.Config.Layers; layer++ {
		if j.opts.Scratch {
			r.Model.InitLayer(layer, seed, std)
		} else if err := j.Base.Load(ctx, j.Device, inLayer(params, layer), func(done, of int64) {
			if progress != nil {
				progress(before+done, total)
			}
			if done == of {
				before += of
			}
		}); err != nil {
			return err
		}
		r.Weights.Keep(layer)
	}
	return nil
}

func (j *Job) progress(task Task) func(done, of int64) {
	if j.opts.Progress == nil {
		return nil
	}
	return func(done, of int64) { j.opts.Progress(task, done, of) }
}

func (j *Job) counting(task Task) func(done, of int) {
	report := j.progress(task)
	if report == nil {
		return nil
	}
	return func(done, of int) { report(int64(done), int64(of)) }
}

// Remedies returns the changes that reduce the run to limit bytes: each single change that is enough, or if none is,
// one remedy of several changes. It returns none if all changes together are not enough.
func (j *Job) Remedies(limit int) []Remedy {
	f := fitting{d: j.Device, model: j.Base.Config, limit: limit, process: j.Memory.Parts[len(j.Memory.Parts)-1].Bytes}
	return f.remedies(variant{*j.Plan, j.Device.Fused(), j.widening})
}

// A TooLargeError reports that a run takes more memory than there is.
type TooLargeError struct {
	Reason   string // how much it takes, and how much there is
	Busy     bool   // a GPU has room for the run, but other processes use it
	Remedies []Remedy
}

// Error returns the reason and what to do.
func (e *TooLargeError) Error() string {
	var ways []string
	for _, r := range e.Remedies {
		var words []string
		for _, c := range r.Changes {
			words = append(words, strings.TrimSpace(c.Setting+" "+c.Value))
		}
		ways = append(ways, fmt.Sprintf("%s (%s)", strings.Join(words, " and "), kernels.Bytes(r.Bytes)))
	}
	if ways == nil {
		return e.Reason + ": no setting makes it fit: use a smaller model, or a larger machine"
	}
	return e.Reason + ": set " + strings.Join(ways, ", or ")
}

// CheckMemory returns a *TooLargeError if the run takes more than MaxMemory or, if that is 0, than the free memory. On
// a GPU this process already has some of what the run takes, which counts like free memory.
func (j *Job) CheckMemory() error {
	d, total := j.Device, j.Memory.Total()
	limit, whose := j.opts.MaxMemory, "max-memory"
	if limit == 0 {
		free, of, known := d.Free()
		if !known {
			return nil
		}
		limit, whose = free, "what "+of+" has free"
		if !d.IsCPU() {
			whose = "what it can have of " + of
			// The total includes the driver's context and what products have already allocated.
			limit = min(limit+d.Context()+d.Allocated(), d.Capacity())
		}
	}
	if total <= limit {
		return nil
	}
	e := &TooLargeError{Remedies: j.Remedies(limit)}
	e.Reason = fmt.Sprintf("this run takes %s, more than %s, %s", kernels.Bytes(total), whose, kernels.Bytes(limit))
	if e.Busy = j.opts.MaxMemory == 0 && total <= d.Capacity(); e.Busy {
		e.Reason = fmt.Sprintf("this run takes %s, and can have only %s of the %s of %s, as other processes use the rest "+
			"(nvidia-smi lists them): wait for them, use another GPU, or make the run smaller",
			kernels.Bytes(total), kernels.Bytes(limit), kernels.Bytes(d.Capacity()), d.Name())
	}
	return e
}
