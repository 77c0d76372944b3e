package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"restyle/hf"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/infer/batch"
	"restyle/internal/cli"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/model"
	"restyle/serve"
)

// stepTokens is how many tokens a step computes at most, on a CPU and on a GPU: enough to use the device well, and few
// enough that a long prompt does not hold up the answers of others for long.
const stepTokens, gpuStepTokens = 512, 2048

// A loader loads the models of a server.
type loader struct {
	*command
	server *serve.Server
	device *kernels.Device
	hub    *hub.Hub
	turn   sync.Mutex     // of the models, which share the device
	opened []func() error // what closes what was opened
}

// load opens the models and adds them to the server. The function that it returns closes what was opened, also after
// an error: the batches first, which end the answers in progress.
func (c *command) load(ctx context.Context, s *serve.Server) (closeAll func() error, err error) {
	l := &loader{command: c, server: s, hub: hub.FromEnv()}
	closeAll = func() (err error) {
		for i := len(l.opened) - 1; i >= 0; i-- {
			err = errors.Join(err, l.opened[i]())
		}
		return err
	}
	l.hub.Offline = l.hub.Offline || c.offline
	l.hub.Waiting = func(message string) { fmt.Fprintln(c.notes, message) }
	l.hub.Progress = func(p hub.Progress) { c.status.DrawUntil(p.Done == p.Total, p.String()) }
	l.device, err = kernels.Open(c.device, kernels.Options{Threads: c.threads, Fused: kernels.All(),
		NoBF16: c.dtype == "fp32" || c.dtype == "fp16"})
	if err != nil {
		return closeAll, fmt.Errorf("--device %s: %w", c.device, err)
	}
	l.opened = append(l.opened, l.device.Close)
	for _, n := range l.device.Notes() {
		fmt.Fprintln(c.notes, n)
	}
	list := c.models
	c.engines = len(list)
	if len(c.guests) > 0 || c.dir != nil {
		alone, err := l.host(ctx, list[0])
		if err != nil {
			return closeAll, usage(err)
		}
		list = append(alone, list[1:]...)
	}
	for _, ref := range list {
		if err := l.own(ctx, ref); err != nil {
			return closeAll, usage(err)
		}
	}
	fmt.Fprintf(c.notes, "device %s\n", l.device.Name())
	return closeAll, nil
}

// usage makes an error that the command line has caused one of its usage.
func usage(err error) error {
	if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
		return cli.Usagef("--template: %w", unknown)
	}
	return err
}

// own loads a model that has its own weights.
func (l *loader) own(ctx context.Context, ref modelRef) error {
	checkpoint, adapter, err := models.OpenTuned(ctx, l.hub, ref.path, ref.base)
	if err != nil {
		return otherBase(ref, noBase(ref, err))
	}
	defer checkpoint.Close()
	defer adapter.Close()
	_, _, err = l.add(ctx, ref, checkpoint, adapter, 0)
	return err
}

// noBase says what to do about an adapter whose base is not found, which serve has no flag for.
func noBase(ref modelRef, err error) error {
	missing, is := errors.AsType[*models.NoBase](err)
	if !is {
		return err
	}
	advised := fmt.Errorf("%w: name its base as the first model, and this as --adapter %s=%s", missing.Err, ref.name,
		ref.path)
	if _, is := errors.AsType[*cli.UsageError](err); is {
		return cli.Usagef("%w", advised)
	}
	return advised
}

// otherBase says what to do about an adapter that belongs to another base.
func otherBase(ref modelRef, err error) error {
	if !errors.Is(err, models.ErrOtherBase) {
		return err
	}
	return fmt.Errorf("--adapter %s=%s: it %w than %s: name its own base as the first model, or the adapter as "+
		"a model, %[1]s=%[2]s, which finds its base itself", ref.name, ref.path, models.ErrOtherBase, ref.base)
}

// add loads a model, which answers from then on, with room for adapters that share its weights. The engine's own cache
// is as small as it can be: answers are in a pool.
func (l *loader) add(ctx context.Context, ref modelRef, checkpoint *hf.Checkpoint, adapter *hf.Adapter,
	room int) (*infer.Engine, *batch.Batch, error) {
	start := time.Now()
	codec, err := infer.CodecOf(checkpoint, l.template)
	if err != nil {
		return nil, nil, err
	}
	engine, err := infer.Load(ctx, l.device, checkpoint, infer.OpenOptions{DType: infer.DTypes[l.dtype], Adapter: adapter,
		Quantization: infer.Quantizations[l.quantize], Context: 1, Template: l.template, AdapterRoom: room,
		Progress: func(done, total int64) {
			l.status.DrawUntil(done == total, fmt.Sprintf("loading %s: %.1f of %.1f MB", ref.name, float64(done)/1e6,
				float64(total)/1e6))
		}})
	if err != nil {
		return nil, nil, err
	}
	l.opened = append(l.opened, engine.Close)
	digest, err := l.digest(checkpoint, adapter)
	if err != nil {
		return nil, nil, err
	}
	pool, err := l.pool(l.device, engine.Model)
	if err != nil {
		return nil, nil, err
	}
	l.opened = append(l.opened, pool.Close)
	config := engine.Model.Config()
	b := batch.New(pool, codec, config.Vocab, batch.Options{Context: min(l.context, config.Positions()),
		Queue: l.queue, Device: &l.turn})
	l.opened = append(l.opened, func() error { b.Close(); return nil })
	m := serve.Model{Name: ref.name, Codec: codec, Digest: digest, Context: b.Context(), Generator: serve.Batch(b)}
	if err := l.server.Add(m); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(l.notes, "%s: %s, %s, template %s, context %d, cache %d tokens, in %.1f s\n", m.Name, engine.Name,
		engine.Types(), codec.Template.Name, m.Context, pool.Blocks()*model.PoolBlock, time.Since(start).Seconds())
	if wanted := min(l.context, config.Positions()); m.Context < wanted {
		fmt.Fprintf(l.notes, "%s: warning: --cache %d holds no context of %d tokens: a prompt and its answer have %d "+
			"at most; raise --cache to %d\n", m.Name, l.cache, wanted, m.Context, wholeBlocks(wanted))
	}
	for _, n := range engine.Notes {
		fmt.Fprintf(l.notes, "%s: %s\n", m.Name, n)
	}
	return engine, b, nil
}

// digest tells the weights that answer: the same digest and seed give the same answers.
func (c *command) digest(checkpoint *hf.Checkpoint, adapter *hf.Adapter) (string, error) {
	digest, err := checkpoint.Digest()
	if err != nil {
		return "", err
	}
	digest = "sha256:" + digest
	if adapter != nil {
		of, err := adapter.Digest()
		if err != nil {
			return "", err
		}
		digest += "+" + of
	}
	if c.quantize != "" {
		digest += " " + c.quantize
	}
	return digest, nil
}

// pool makes room for the keys and values of a model's answers.
func (c *command) pool(device *kernels.Device, m *model.Model) (*model.Pool, error) {
	o := c.poolOptions(device, m.Config())
	tokens := c.cache
	if tokens == 0 {
		block, rest, err := m.PoolBytes(o)
		if err != nil {
			return nil, err
		}
		free, _, known := device.Free()
		if !known {
			free = math.MaxInt
		}
		tokens = wholeBlocks(c.cacheTokens(o, block, free-rest))
	}
	o.Blocks = max(1, tokens/model.PoolBlock)
	pool, err := m.NewPool(o)
	if err != nil {
		return nil, fmt.Errorf("--cache %d: %w", tokens, err)
	}
	return pool, nil
}

// wholeBlocks returns a number of tokens rounded up to whole blocks of a pool.
func wholeBlocks(tokens int) int {
	return (tokens + model.PoolBlock - 1) / model.PoolBlock * model.PoolBlock
}

// poolOptions returns the options of a pool of one block.
func (c *command) poolOptions(device *kernels.Device, config model.Config) model.PoolOptions {
	rows := stepTokens
	if !device.IsCPU() {
		rows = gpuStepTokens
	}
	return model.PoolOptions{Rows: max(rows, c.sequences), Pieces: c.sequences, Blocks: 1,
		Context: min(c.context, config.Positions())}
}

// cacheTokens returns how many tokens a pool keeps if --cache does not say: enough for all --sequences, or as many as
// fit in half of the memory that is otherwise free, for each of the models.
func (c *command) cacheTokens(o model.PoolOptions, block, free int) int {
	tokens := min(c.sequences*o.Context, free/2/max(len(c.models), c.engines)/block*model.PoolBlock)
	return max(tokens, o.Context) // or one answer would not fit
}
