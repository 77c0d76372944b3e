package model

import (
	"errors"

	"restyle/kernels"
	"restyle/tensor"
)

// LossByLayer computes the losses of batches, the same bits as Loss, but runs all batches through a layer before the
// first goes through the next one. So only one layer's weights are needed at a time: see Options.ReuseWeights. In
// between it keeps the residual stream of all batches, [tokens, dim].
//
// It calls step before a batch goes through a layer, and before a loss is computed with the number of layers in place
// of a layer. If step returns an error, LossByLayer returns that. It does not call OnHidden, nor compute
// Loss.Auxiliary.
func (m *Model) LossByLayer(batches []Batch, step func(layer, batch int) error) (losses []Loss, err error) {
	var kept []tensor.Tensor // the residual stream of each batch
	alloc := func(arena *kernels.Arena) {
		kept = kept[:0]
		for _, b := range batches {
			kept = append(kept, arena.New("residual stream", m.opts.DType, m.Rows(len(b.IDs)), m.cfg.Dim))
		}
	}
	arena, err := m.dev.NewArena("residual streams", kernels.SizeOf(alloc))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, arena.Close()) }()
	alloc(arena)
	m.refreshAdapters()
	for i, b := range batches {
		p, err := m.newPass(b)
		if err != nil {
			return nil, err
		}
		if s := m.embed.forward(p, kept[i]); s.branch.Ok() {
			m.dev.Add(kept[i], s.h, s.branch)
		}
	}
	for layer := range len(m.layers) + 1 {
		for i, b := range batches {
			if err := step(layer, i); err != nil {
				return nil, err
			}
			p, err := m.newPass(b)
			if err != nil {
				return nil, err
			}
			if layer < len(m.layers) {
				h := p.layers[layer].attention.h
				m.dev.Copy(h, kept[i])
				m.zeroBalance(p)
				s := m.forwardLayer(p, layer, stream{h: h})
				m.dev.Add(kept[i], s.h, s.branch)
				continue
			}
			m.dev.Copy(p.last.h, kept[i])
			m.norm.forward(m.dev, p.last, stream{h: p.last.h})
			m.headLoss(p, 0, false)
			l, err := m.Read(p.losses())
			if err != nil {
				return nil, err
			}
			losses = append(losses, l)
		}
	}
	return losses, nil
}
