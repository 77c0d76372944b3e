package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// calibrate rounds the quantized matrices in after's layers by GPTQ, for the inputs that they have in before when it
// reads a text. It handles one layer after the other, so memory holds the weights and Hessians of only one layer.
func calibrate(ctx context.Context, before *original, after *model.Model, text []model.Batch,
	show *cli.Progress) (err error) {
	h := &hessians{d: before.Device()}
	before.OnInputs = h.add
	defer func() {
		before.OnInputs = nil
		err = errors.Join(err, h.close())
	}()
	layers, all := before.Config().Layers, tokens(text)
	draw := func(layer int, share float64, what string, i, n int) {
		show.Draw("GPTQ", fmt.Sprintf("layer %d of %d, %s %d of %d", layer+1, layers, what, i+1, n),
			(float64(layer)+share)/float64(layers))
	}
	_, err = before.LossByLayer(text, func(layer, i int) error {
		if err := errors.Join(h.err, ctx.Err()); err != nil {
			return err
		}
		if i == 0 && layer > 0 {
			to := inLayer(after, layer-1)
			reading := readingShare(to, all)
			err := h.round(ctx, inLayer(before.Model, layer-1), to, func(matrix, matrices int, share float64) {
				draw(layer-1, reading+(1-reading)*share, "matrix", matrix, matrices)
			})
			if err != nil {
				return err
			}
		}
		if layer == layers {
			return nil
		}
		reading := readingShare(inLayer(after, layer), all)
		draw(layer, reading*float64(tokens(text[:i]))/float64(all), "conversation", i, len(text))
		if i == 0 {
			return before.load(ctx, layer)
		}
		return nil
	})
	return err
}

// readingShare estimates the share of a layer's time that reading the text takes; the rest is rounding. A token takes
// one unit per weight, and rounding, which computes in float64, two per weight and input of its matrix.
func readingShare(params []model.Param, tokens int) float64 {
	reading, rounding := 0.0, 0.0
	for _, p := range params {
		if p.W.DType.Quantized() {
			reading += float64(p.W.Len()) * float64(tokens)
			rounding += 2 * roundingTime(p)
		}
	}
	return reading / (reading + rounding)
}

// roundingTime returns a number to which the time to round a matrix is proportional.
func roundingTime(p model.Param) float64 { return float64(p.W.Len()) * float64(p.W.Dim(-1)) }

// hessians are the sums of x·xᵀ over the inputs x of the linear layers in one of a model's layers.
type hessians struct {
	d   *kernels.Device
	all []hessian
	err error // of add
}

// A hessian is the Hessian of a weight, which may hold several parameters.
type hessian struct {
	weight, sum tensor.Tensor
	arena       *kernels.Arena
}

// add adds inputs x of a weight.
func (h *hessians) add(weight, x tensor.Tensor) {
	i := slices.IndexFunc(h.all, func(one hessian) bool { return one.weight.Addr == weight.Addr })
	if i < 0 {
		one := hessian{weight: weight}
		alloc := func(a *kernels.Arena) { one.sum = a.New("Hessian", tensor.F32, x.Dim(-1), x.Dim(-1)) }
		arena, err := h.d.NewArena("Hessian", kernels.SizeOf(alloc))
		if err != nil {
			h.err = err
			return
		}
		one.arena = arena
		alloc(arena)
		h.d.Zero(one.sum)
		i, h.all = len(h.all), append(h.all, one)
	}
	h.d.LinearGradient(h.all[i].sum, x, x, 0, true)
}

// round rounds the matrices that have a Hessian by GPTQ, from originals to quantized, the parameters of a layer, if
// they are quantized there, and frees the Hessians. It calls progress before each matrix, with the share of the time
// that is done.
func (h *hessians) round(ctx context.Context, originals, quantized []model.Param,
	progress func(matrix, matrices int, share float64)) error {
	var parts [][]int // of each Hessian's weight
	matrices := 0
	done := 0
	time := 0.0
	allTime := 0.0
	for _, one := range h.all {
		var part []int
		for i, p := range originals {
			within := p.W.Addr >= one.weight.Addr && p.W.Addr < one.weight.Addr+uintptr(one.weight.Bytes())
			if within && quantized[i].W.DType.Quantized() {
				part = append(part, i)
				allTime += roundingTime(p)
			}
		}
		parts, matrices = append(parts, part), matrices+len(part)
	}
	for k, one := range h.all {
		if len(parts[k]) == 0 {
			continue
		}
		progress(done, matrices, time/allTime)
		runtime.GC() // frees the last factor, which may be larger than all weights, before the next one is made
		factor, err := quant.NewFactor(ctx, one.sum.F32(), one.sum.Dim(0))
		if err != nil {
			return fmt.Errorf("%s: %w", one.weight.Name, err)
		}
		if h.all[k].arena, err = nil, one.arena.Close(); err != nil {
			return err
		}
		for _, i := range parts[k] {
			progress(done, matrices, time/allTime)
			w, err := h.d.Floats(originals[i].W)
			if err != nil {
				return err
			}
			p := quantized[i]
			rows := make([]byte, p.W.Bytes())
			if err := quant.RuleFor(p.W.DType).GPTQ(ctx, rows, w, factor); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			h.d.UploadBytes(p.W, rows)
			done, time = done+1, time+roundingTime(p)
		}
	}
	return errors.Join(h.close(), h.d.Err())
}

// close frees the Hessians.
func (h *hessians) close() (err error) {
	for _, one := range h.all {
		err = errors.Join(err, one.arena.Close())
	}
	h.all = nil
	return err
}
