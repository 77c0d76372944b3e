package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"restyle/internal/measure"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// ceilingAge is how long a measured ceiling is used. Clocks change, and other programs come and go.
const ceilingAge = 30 * time.Second

// ceilings holds the ceilings that this process has measured, by device and type: bench all runs one measurement after
// the other.
var ceilings = map[string]struct {
	measure.Ceiling
	at time.Time
}{}

// ceilingOf returns the device's ceiling for a type: the best of what is measured now and what was measured before.
func ceilingOf(d *kernels.Device, t tensor.DType) (c measure.Ceiling, err error) {
	key := fmt.Sprint(d.Name(), d.Products(), d.Level(), cpu.Threads(), t)
	last := ceilings[key]
	if time.Since(last.at) < ceilingAge {
		return last.Ceiling, nil
	}
	moved, err := d.CopyRate()
	if err != nil {
		return c, err
	}
	product, err := productRate(d, t)
	if err != nil {
		return c, err
	}
	last.Bytes, last.FLOPs, last.at = max(last.Bytes, moved), max(last.FLOPs, product), time.Now()
	ceilings[key] = last
	return last.Ceiling, nil
}

// settling is how long a GPU's clocks take to settle at what the power limit allows.
var settling = 2 * time.Second

// productRate returns the floating-point operations per second that a device sustains in a product of two square
// matrices of type t. It uses the same product as training, so its rate is the ceiling for a step. The values are
// random, because a GPU draws more power with them than with zeros.
func productRate(d *kernels.Device, t tensor.DType) (rate float64, err error) {
	side, lasting := 8192, settling
	switch {
	case d.IsCPU():
		side, lasting = 1024, 200*time.Millisecond
	case d.Name() == "emulated":
		side, lasting = 64, 0
	}
	var y, x, w tensor.Tensor
	cut := func(a *kernels.Arena) {
		y, x, w = a.New("y", t, side, side), a.New("x", t, side, side), a.New("w", t, side, side)
	}
	a, err := d.NewArena("the timed product", kernels.SizeOf(cut))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	cut(a)
	values := normalValues(1)
	fill(d, x, values)
	fill(d, w, values)
	const batch = 8
	for start := time.Now(); ; {
		began := time.Now()
		for range batch {
			d.Linear(y, x, w, tensor.Tensor{})
		}
		if err := d.Sync(); err != nil {
			return 0, err
		}
		n := float64(side)
		last := batch * 2 * n * n * n / time.Since(began).Seconds()
		if d.IsCPU() { // other programs disturb it, and its clocks need not settle
			last = max(last, rate)
		}
		rate = last
		if time.Since(start) >= lasting {
			return rate, nil
		}
	}
}

// normalValues returns a million normally distributed values with the given standard deviation. They are the same each
// time.
func normalValues(deviation float64) []float32 {
	r := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, 1<<20)
	for i := range values {
		values[i] = float32(deviation * r.NormFloat64())
	}
	return values
}

// fill repeats values throughout a tensor. That is fast, and the times do not depend on the particular values.
func fill(d *kernels.Device, x tensor.Tensor, values []float32) {
	x = x.View(x.Len())
	have := min(x.Len(), len(values))
	d.Upload(x.Slice(0, have), values[:have])
	for ; have < x.Len(); have *= 2 {
		n := min(have, x.Len()-have)
		d.Copy(x.Slice(have, have+n), x.Slice(0, n))
	}
}
