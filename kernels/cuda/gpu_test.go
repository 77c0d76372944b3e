package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"restyle/kernels/cuda/cudatest"
)

func TestOpen(t *testing.T) {
	g := openStandIn(t, 1)
	want := Properties{Name: "Stand-in 1", UUID: "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01", Major: 9, Minor: 1, SMs: 132,
		L2: 1 << 20, Memory: 1 << 20, Bandwidth: 1.024e12, Driver: 13000}
	if d := cmp.Diff(want, g.Properties); d != "" {
		t.Error(d)
	}
	for _, ordinal := range []int{-1, 2} {
		if _, err := open([]string{cudatest.Library(t, "libcuda")}, ordinal); err == nil ||
			!strings.Contains(err.Error(), "this machine has 2, numbered from 0") {
			t.Errorf("GPU %d: %v", ordinal, err)
		}
	}
}

// TestNoDriver checks that the error lists every path with the reason, in one line.
func TestNoDriver(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.so")
	if err := os.WriteFile(empty, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	paths := []string{"libthere-is-none.so.1", empty}
	other := cudatest.Library(t, "libnvrtc")
	_, err := open(append(paths, other), 0)
	for _, want := range append(paths, "no NVIDIA driver", other+" (it has no cuInit",
		"libthere-is-none.so.1 (not there)") {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is not in, or it is more than a line: %v", want, err)
		}
	}
}

func TestMemory(t *testing.T) {
	g := openStandIn(t, 0)
	const n = 1000
	a, err := g.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	b, err := g.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	if available, total, err := g.Free(); err != nil || total-available != 2*n {
		t.Error(available, total, err)
	}
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(rand.IntN(256))
	}
	got := make([]byte, n)
	steps := []error{g.Upload(a, want), g.Fill(b, 0xAB, n), g.Copy(b+100, a+100, n-200), g.Download(got, b)}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	copy(want, bytes.Repeat([]byte{0xAB}, 100))
	copy(want[n-100:], bytes.Repeat([]byte{0xAB}, 100))
	if !bytes.Equal(got, want) {
		t.Error("the bytes that came back are others")
	}
	if err := errors.Join(g.Upload(a, nil), g.Download(nil, a), g.Copy(b, a, 0), g.Fill(a, 0, 0), g.Sync()); err != nil {
		t.Error("nothing to do:", err)
	}
	if err := errors.Join(g.Release(a), g.Release(b)); err != nil {
		t.Error(err)
	}
	if available, total, err := g.Free(); err != nil || total != available {
		t.Error(available, total, err)
	}
}

// TestOutOfMemory checks that the error affects only that call, so that the caller can use less memory.
func TestOutOfMemory(t *testing.T) {
	g := openStandIn(t, 0)
	_, err := g.Alloc(1 << 40)
	var e *Error
	if !errors.As(err, &e) || !e.OutOfMemory() ||
		err.Error() != "allocate 1099511627776 bytes: CUDA_ERROR_OUT_OF_MEMORY: out of memory" {
		t.Error(err)
	}
	p, err := g.Alloc(16)
	if err := errors.Join(err, g.Err(), g.Release(p), g.Sync()); err != nil {
		t.Error(err)
	}
}

// TestLaunch checks that each argument arrives with the type that the kernel declares.
func TestLaunch(t *testing.T) {
	g := openStandIn(t, 0)
	p, err := g.Alloc(16)
	if err != nil {
		t.Fatal(err)
	}
	long := int64(-1) << 40
	g.Launch(kernelOf(t, g, "put"), Dim3{X: 1}, Dim3{X: 32}, 0, uint64(p), uint64(uint32(0xFFFF_FF85)),
		uint64(math.Float32bits(1.5)), uint64(long))
	got := make([]byte, 16)
	if err := g.Download(got, p); err != nil {
		t.Fatal(err)
	}
	if i := int32(binary.LittleEndian.Uint32(got)); i != -123 {
		t.Error(i)
	}
	if f := math.Float32frombits(binary.LittleEndian.Uint32(got[4:])); f != 1.5 {
		t.Error(f)
	}
	if n := int64(binary.LittleEndian.Uint64(got[8:])); n != long {
		t.Error(n)
	}
}

// TestLaunchShape checks that each size of a launch arrives in its place, and that a kernel has as much dynamic shared
// memory as any of its launches requested: one that requests less must not reduce it for another.
func TestLaunchShape(t *testing.T) {
	g := openStandIn(t, 0)
	p, err := g.Alloc(32)
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Load([]byte("kernels\x00"))
	if err != nil {
		t.Fatal(err)
	}
	const without = 48 << 10
	for _, test := range []struct {
		grid, block     Dim3
		shared, allowed int
		want            [6]uint32
	}{
		{Dim3{X: 3}, Dim3{X: 32}, 0, without, [6]uint32{3, 1, 1, 32, 1, 1}},
		{Dim3{2, 3, 4}, Dim3{5, 6, 7}, 60 << 10, 60 << 10, [6]uint32{2, 3, 4, 5, 6, 7}},
		{Dim3{X: 2, Z: 4}, Dim3{X: 5, Y: 6}, 50 << 10, 60 << 10, [6]uint32{2, 1, 4, 5, 6, 1}},
		{Dim3{X: 1}, Dim3{X: 1}, 60<<10 + 1, 60<<10 + 1, [6]uint32{1, 1, 1, 1, 1, 1}},
		{Dim3{X: 1}, Dim3{X: 1}, 0, 60<<10 + 1, [6]uint32{1, 1, 1, 1, 1, 1}},
	} {
		shape, err := m.Function("shape")
		if err != nil {
			t.Fatal(err)
		}
		g.Launch(shape, test.grid, test.block, test.shared, uint64(p))
		got := make([]byte, 32)
		if err := g.Download(got, p); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 0, 32)
		for _, n := range append(test.want[:], uint32(test.shared), uint32(test.allowed)) {
			want = binary.LittleEndian.AppendUint32(want, n)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("grid %v, block %v, %d bytes: % x, not % x", test.grid, test.block, test.shared, got, want)
		}
	}
	g.Launch(kernelOf(t, g, "put"), Dim3{X: 1}, Dim3{X: 1}, 300<<10, uint64(p), 0, 0, 0)
	const tooMuch = "kernel put with 307200 bytes of shared memory: CUDA_ERROR_INVALID_VALUE"
	if err := g.Sync(); err == nil || !strings.HasPrefix(err.Error(), tooMuch) {
		t.Error(err)
	}
}

func TestDim3(t *testing.T) {
	for d, want := range map[Dim3]int{{X: 5}: 5, {}: 0, {5, 6, 7}: 210, {X: 5, Z: 7}: 35, {X: 5, Y: 6}: 30} {
		if n := d.Count(); n != want {
			t.Errorf("%v: %d, not %d", d, n, want)
		}
	}
}

func TestLaunchPanicsOnTooManyArguments(t *testing.T) {
	g := openStandIn(t, 0)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	g.Launch(kernelOf(t, g, "put"), Dim3{X: 1}, Dim3{X: 1}, 0, make([]uint64, 65)...)
}

// TestErrorsStick checks that every later call returns the first error, with the kernel's name.
func TestErrorsStick(t *testing.T) {
	for name, want := range map[string]string{
		"fault":  "wait, at or before kernel fault: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
		"refuse": "launch refuse, grid {3 0 0}, block {32 0 0}, shared memory 8: CUDA_ERROR_INVALID_VALUE",
	} {
		t.Run(name, func(t *testing.T) {
			g := openStandIn(t, 0)
			p, err := g.Alloc(16)
			if err != nil {
				t.Fatal(err)
			}
			put := kernelOf(t, g, "put")
			g.Launch(kernelOf(t, g, name), Dim3{X: 3}, Dim3{X: 32}, 8)
			first := g.Sync()
			if first == nil || !strings.HasPrefix(first.Error(), want) {
				t.Fatalf("%v, not %s", first, want)
			}
			g.Launch(put, Dim3{X: 1}, Dim3{X: 1}, 0, uint64(p), 0, 0, 0)
			_, alloc := g.Alloc(1)
			_, load := g.Load([]byte("kernels\x00"))
			_, _, memory := g.Free()
			_, elapsed := g.Time(func() { t.Error("timed after a fault") })
			for i, err := range []error{g.Sync(), g.Err(), alloc, load, memory, elapsed, g.Release(p), g.Copy(p, p, 1),
				g.Fill(p, 0, 1), g.Upload(p, []byte{1}), g.Download(make([]byte, 1), p)} {
				if err != first {
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
}

// TestReopen opens a GPU again whose context has the same address as before, on threads that had the old one bound.
func TestReopen(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 3 {
		g, err := open([]string{cudatest.Library(t, "libcuda")}, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := g.Alloc(16)
		if err != nil {
			t.Fatal(err)
		}
		g.Launch(kernelOf(t, g, "fault"), Dim3{X: 1}, Dim3{X: 1}, 0)
		if err := g.Sync(); err == nil {
			t.Error("no fault")
		}
		if err := errors.Join(g.Close(), g.Close()); err != nil {
			t.Error(err)
		}
		for _, err := range []error{g.Sync(), g.Release(p), g.Err()} {
			if err == nil || err.Error() != "GPU: it is closed" {
				t.Error(err)
			}
		}
	}
}

// TestGPU_FromManyGoroutines uses two GPUs from goroutines that move between threads, some of them locked to their
// threads.
func TestGPU_FromManyGoroutines(t *testing.T) {
	gpus := []*GPU{openStandIn(t, 0), openStandIn(t, 1)}
	puts := []*Function{kernelOf(t, gpus[0], "put"), kernelOf(t, gpus[1], "put")}
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			if worker%3 == 0 {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			var at [2]uintptr
			for i := range at {
				var err error
				if at[i], err = gpus[i].Alloc(16); err != nil {
					t.Error(err)
					return
				}
			}
			got := make([]byte, 16)
			for round := range 200 {
				i := (worker + round) % 2
				gpus[i].Launch(puts[i], Dim3{X: 1}, Dim3{X: 1}, 0, uint64(at[i]), uint64(round), 0, uint64(worker))
				if round%7 == 0 {
					runtime.Gosched()
				}
				if err := gpus[i].Download(got, at[i]); err != nil {
					t.Error(err)
					return
				}
				if binary.LittleEndian.Uint32(got) != uint32(round) || binary.LittleEndian.Uint64(got[8:]) != uint64(worker) {
					t.Errorf("worker %d read % x in round %d", worker, got, round)
				}
			}
			if err := errors.Join(gpus[0].Release(at[0]), gpus[1].Release(at[1])); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestModules(t *testing.T) {
	g := openStandIn(t, 0)
	if _, err := g.Load([]byte("of another GPU\x00")); err == nil ||
		!strings.HasPrefix(err.Error(), "load a module of 15 bytes: CUDA_ERROR_INVALID_IMAGE") {
		t.Error(err)
	}
	if _, err := g.Load(nil); err == nil {
		t.Error("an empty image was loaded")
	}
	m, err := g.Load([]byte("kernels\x00"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Function("none"); err == nil ||
		!strings.HasPrefix(err.Error(), "find kernel none: CUDA_ERROR_NOT_FOUND") {
		t.Error(err)
	}
	if err := g.Err(); err != nil {
		t.Error("what is not there is no fault:", err)
	}
	f, err := m.Function("put")
	if again, _ := m.Function("put"); err != nil || again != f {
		t.Errorf("%p and %p are one kernel, %v", f, again, err)
	}
}

func TestTime(t *testing.T) {
	g := openStandIn(t, 0)
	ran := false
	d, err := g.Time(func() { ran = true })
	if err != nil || !ran || d != time.Millisecond {
		t.Error(d, ran, err)
	}
	fault := kernelOf(t, g, "fault")
	if _, err := g.Time(func() { g.Launch(fault, Dim3{X: 1}, Dim3{X: 1}, 0) }); err == nil ||
		!strings.Contains(err.Error(), "at or before kernel fault") {
		t.Error(err)
	}
}

// TestLaunchAllocatesNothing checks the path that a training step takes thousands of times.
func TestLaunchAllocatesNothing(t *testing.T) {
	g := openStandIn(t, 0)
	put := kernelOf(t, g, "put")
	p, err := g.Alloc(16)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { g.Launch(put, Dim3{X: 1}, Dim3{X: 1}, 0, uint64(p), 1, 2, 3) }); n != 0 {
		t.Errorf("%v allocations a launch", n)
	}
}

func BenchmarkLaunch(b *testing.B) {
	g := openStandIn(b, 0)
	m, err := g.Load([]byte("kernels\x00"))
	if err != nil {
		b.Fatal(err)
	}
	p, err := g.Alloc(16)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		put, _ := m.Function("put")
		g.Launch(put, Dim3{X: 1}, Dim3{X: 1}, 0, uint64(p), 1, 2, 3, 4, 5, 6, 7, 8)
	}
}

// TestDeclarations compares the declarations of NVIDIA's libraries with its headers, if they are installed.
func TestDeclarations(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is missing")
	}
	var folders []string
	for _, l := range []library{libnvrtc, libcublasLt, libnvtx, libnccl} {
		for _, file := range l.paths(0) {
			folders = append(folders, "-I"+filepath.Join(filepath.Dir(file), "../include"))
		}
	}
	for file, headers := range map[string][]string{"headers.c": {"cuda.h", "nvrtc.h"}, "blas.c": {"cublasLt.h"},
		"nvml.c": {"nvml.h"}, "nccl.c": {"nccl.h", "crt/host_config.h"}, "nvtx.c": {"nvtx3/nvToolsExt.h"}} {
		t.Run(file, func(t *testing.T) {
			for _, h := range headers {
				if !slices.ContainsFunc(folders, func(folder string) bool {
					_, err := os.Stat(filepath.Join(folder[len("-I"):], h))
					return err == nil
				}) {
					t.Skip(h + " is missing")
				}
			}
			if out, err := exec.Command(gcc, append(folders, "-fsyntax-only", "-Wno-deprecated-declarations",
				"testdata/"+file)...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
