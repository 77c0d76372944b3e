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

// load opens the models and adds them to the server. The function that it returns closes what was opened, also after
// an error: the batches first, which end the answers in progress.
func (c *command) load(ctx context.Context, s *serve.Server) (closeAll func() error, err error) {
	var opened []func() error
	closeAll = func() (err error) {
		for i := len(opened) - 1; i >= 0; i-- {
			err = errors.Join(err, opened[i]())
		}
		return err
	}
	h := hub.FromEnv()
	h.Offline = h.Offline || c.offline
	h.Waiting = func(message string) { fmt.Fprintln(c.notes, message) }
	h.Progress = func(p hub.Progress) { c.status.DrawUntil(p.Done == p.Total, p.String()) }
	device, err := kernels.Open(c.device, kernels.Options{Threads: c.threads, Fused: kernels.All(),
		NoBF16: c.dtype == "fp32" || c.dtype == "fp16"})
	if err != nil {
		return closeAll, fmt.Errorf("--device %s: %w", c.device, err)
	}
	opened = append(opened, device.Close)
	for _, n := range device.Notes() {
		fmt.Fprintln(c.notes, n)
	}
	var turn sync.Mutex // of the models, which share the device
	for _, ref := range c.models {
		start := time.Now()
		m, engine, err := c.open(ctx, device, h, ref)
		if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
			return closeAll, cli.Usagef("--template: %w", unknown)
		}
		if err != nil {
			return closeAll, err
		}
		opened = append(opened, engine.Close)
		pool, err := c.pool(device, engine.Model)
		if err != nil {
			return closeAll, err
		}
		opened = append(opened, pool.Close)
		config := engine.Model.Config()
		b := batch.New(pool, m.Codec, config.Vocab, batch.Options{Context: min(c.context, config.Positions()),
			Queue: c.queue, Device: &turn})
		opened = append(opened, func() error { b.Close(); return nil })
		m.Context, m.Generator = b.Context(), serve.Batch(b)
		if err := s.Add(m); err != nil {
			return closeAll, err
		}
		fmt.Fprintf(c.notes, "%s: %s, %s, template %s, context %d, cache %d tokens, in %.1f s\n", m.Name, engine.Name,
			engine.Types(), m.Codec.Template.Name, m.Context, pool.Blocks()*model.PoolBlock, time.Since(start).Seconds())
		for _, n := range engine.Notes {
			fmt.Fprintf(c.notes, "%s: %s\n", m.Name, n)
		}
	}
	fmt.Fprintf(c.notes, "device %s\n", device.Name())
	return closeAll, nil
}

// open loads a model. The engine's own cache is as small as it can be: answers are in a pool.
func (c *command) open(ctx context.Context, device *kernels.Device, h *hub.Hub, ref modelRef) (m serve.Model,
	engine *infer.Engine, err error) {
	checkpoint, adapter, err := models.OpenTuned(ctx, h, ref.path, ref.base)
	if errors.Is(err, models.ErrOtherBase) {
		return m, nil, fmt.Errorf("--adapter %s=%s: it %w than %s: name its own base as the first model, or the adapter as "+
			"a model, %[1]s=%[2]s, which finds its base itself", ref.name, ref.path, models.ErrOtherBase, ref.base)
	}
	if err != nil {
		return m, nil, err
	}
	defer checkpoint.Close()
	defer adapter.Close()
	codec, err := infer.CodecOf(checkpoint, c.template)
	if err != nil {
		return m, nil, err
	}
	engine, err = infer.Load(ctx, device, checkpoint, infer.OpenOptions{DType: infer.DTypes[c.dtype], Adapter: adapter,
		Quantization: infer.Quantizations[c.quantize], Context: 1, Template: c.template,
		Progress: func(done, total int64) {
			c.status.DrawUntil(done == total, fmt.Sprintf("loading %s: %.1f of %.1f MB", ref.name, float64(done)/1e6,
				float64(total)/1e6))
		}})
	if err != nil {
		return m, nil, err
	}
	digest, err := c.digest(checkpoint, adapter)
	if err != nil {
		return m, nil, errors.Join(err, engine.Close())
	}
	return serve.Model{Name: ref.name, Codec: codec, Digest: digest}, engine, nil
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
		tokens = c.cacheTokens(o, block, free-rest)
	}
	o.Blocks = max(1, tokens/model.PoolBlock)
	pool, err := m.NewPool(o)
	if err != nil {
		return nil, fmt.Errorf("--cache %d: %w", tokens, err)
	}
	return pool, nil
}

// poolOptions are those of a pool of one block.
func (c *command) poolOptions(device *kernels.Device, config model.Config) model.PoolOptions {
	rows := stepTokens
	if !device.IsCPU() {
		rows = gpuStepTokens
	}
	return model.PoolOptions{Rows: max(rows, c.sequences), Pieces: c.sequences, Blocks: 1,
		Context: min(c.context, config.Positions())}
}

// cacheTokens returns how many tokens a pool keeps if --cache does not say: those of all --sequences, or as many as
// half of the memory that is free beside it holds, for each of the models.
func (c *command) cacheTokens(o model.PoolOptions, block, free int) int {
	tokens := min(c.sequences*o.Context, free/2/len(c.models)/block*model.PoolBlock)
	return max(tokens, o.Context) // or one answer would not fit
}
