package kernels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"restyle/kernels/cuda"
)

// Builds are the sources, with their macros, that the kernels of a computation are compiled from, each once.
type Builds struct {
	list   []build
	seen   map[build]bool
	shapes []cuda.Shape // of the products that the library computes, each once
	blas   bool         // whether the library is there
}

// Len returns the number of builds.
func (b *Builds) Len() int { return len(b.list) }

// String lists the builds, one per line: the source and the compiler's options.
func (b *Builds) String() string {
	var s strings.Builder
	for _, one := range b.list {
		fmt.Fprintln(&s, one.source, strings.Join(one.options(), " "))
	}
	return s.String()
}

// Rehearse runs f on a GPU that has the given properties but computes nothing and has no memory: everything read from
// it is zero. It collects what f launches. No GPU, driver or compiler is needed. It returns f's error.
func (b *Builds) Rehearse(p cuda.Properties, o Options, f func(*Device) error) (err error) {
	idle, err := cuda.OpenIdle(p)
	if err != nil {
		return err
	}
	d := &Device{name: "idle", opts: o, counts: map[string]int{}, arenas: map[*Arena]bool{}, gpu: &gpu{GPU: idle}}
	d.gpu.launched = func(k kernel, g grid, _ []uint64) {
		one := build{k.source, k.macros, g.threads.Count()}
		if b.seen == nil {
			b.seen = map[build]bool{}
		}
		if !b.seen[one] {
			b.seen[one] = true
			b.list = append(b.list, one)
		}
	}
	if b.blas {
		d.gpu.blas = &blas{rehearsed: func(s cuda.Shape) {
			if !slices.Contains(b.shapes, s) {
				b.shapes = append(b.shapes, s)
			}
		}}
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return errors.Join(f(d), d.Sync())
}

// Untimed runs f. During a rehearsal, the products of f are not recorded for ChooseProducts.
func (d *Device) Untimed(f func()) {
	if d.gpu != nil && d.gpu.blas != nil && d.gpu.blas.rehearsed != nil {
		defer func(record func(cuda.Shape)) { d.gpu.blas.rehearsed = record }(d.gpu.blas.rehearsed)
		d.gpu.blas.rehearsed = func(cuda.Shape) {}
	}
	f()
}

// Precompile compiles the kernels that f launches, ahead of time and in parallel, and records the products of cuBLASLt
// for ChooseProducts. If progress is not nil, Precompile calls it with the number of builds that are done and their
// total. On the CPU it does nothing. If ctx ends early, Precompile returns ctx's error.
func (d *Device) Precompile(ctx context.Context, f func(*Device) error, progress func(done, of int)) error {
	if d.gpu == nil {
		return nil
	}
	b := Builds{blas: d.gpu.blas != nil}
	err := b.Rehearse(d.gpu.Properties, d.opts, func(idle *Device) error {
		idle.SetINT8Activations(d.int8Activations)
		return f(idle)
	})
	if err != nil {
		return err
	}
	if b.blas {
		d.gpu.blas.shapes = b.shapes
	}
	return compileAll(ctx, d.gpu.compiler, d.gpu.cache, []string{d.gpu.arch}, b.list, progress)
}

// Compile fills a cache for the architectures of several GPUs, such as "sm_90a", in parallel. If progress is not nil,
// Compile calls it, from one goroutine at a time, with the number of builds that are done and their total.
func (b *Builds) Compile(ctx context.Context, c *cuda.Compiler, cache cuda.Cache, archs []string,
	progress func(done, of int)) error {
	return compileAll(ctx, c, cache, archs, b.list, progress)
}

func compileAll(ctx context.Context, c *cuda.Compiler, cache cuda.Cache, archs []string, list []build,
	progress func(done, of int)) error {
	type job struct {
		build
		arch string
	}
	var jobs []job
	for _, arch := range archs {
		for _, b := range list {
			jobs = append(jobs, job{b, arch})
		}
	}
	var (
		lock   sync.Mutex
		next   int
		done   int
		failed error
		wait   sync.WaitGroup
	)
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wait.Go(func() {
			lock.Lock()
			defer lock.Unlock()
			for next < len(jobs) && failed == nil && ctx.Err() == nil {
				j := jobs[next]
				next++
				lock.Unlock()
				p, err := j.program()
				if err == nil {
					_, err = cache.Compile(c, p, j.arch)
				}
				lock.Lock()
				failed = errors.Join(failed, err)
				if done++; err == nil && progress != nil {
					progress(done, len(jobs))
				}
			}
		})
	}
	wait.Wait()
	return cmp.Or(failed, ctx.Err())
}
