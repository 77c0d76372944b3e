package kernels

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestEarlyLaunches_WhereRefused checks that kernels are launched to start after the previous one, in a graph and
// outside of one, if the driver refuses early launches.
func TestEarlyLaunches_WhereRefused(t *testing.T) {
	runtime.LockOSThread() // binding another thread would be one more call
	defer runtime.UnlockOSThread()
	cudatest.Once(t)
	file := filepath.Join(t.TempDir(), "calls")
	run := func(fail int) (calls []string, next []int32) {
		cudatest.Set(t, fmt.Sprintf("FAIL=%d RESULT=1 CALLS=%s", fail, file))
		d, err := Open("emulated", Options{})
		if errors.Is(err, cuda.ErrNoCompiler) {
			t.Skip(err)
		}
		expect.OK(t, err)
		a, err := d.NewArena("test", 1<<14)
		expect.OK(t, err)
		to, logits, scratch := a.New("next", tensor.I32, 3), a.New("logits", tensor.F32, 3),
			a.New("scratch", tensor.I32, ChooseScratch)
		d.Zero(scratch)
		d.UploadI32(to, []int32{0, 7, 0})
		d.Upload(logits, []float32{1, 3, 2})
		d.ChooseNext(to, logits, scratch)
		for range 2 {
			graph := d.Capture(func() {
				d.ChooseNext(to, logits, scratch)
				d.ChooseNext(to, logits, scratch)
			})
			if graph == nil {
				t.Fatal(d.Err())
			}
			graph.Launch()
			expect.OK(t, graph.Close())
		}
		b := make([]byte, 12)
		expect.OK(t, errors.Join(d.DownloadBytes(b, to), a.Close(), d.Close()))
		text, err := os.ReadFile(file)
		expect.OK(t, err)
		return strings.Split(strings.TrimSpace(string(text)), "\n"), []int32{int32(b[0]), int32(b[4])}
	}
	early := func(calls []string) (n int) {
		for _, c := range calls {
			if c == "cuLaunchKernelEx" {
				n++
			}
		}
		return n
	}
	run(0) // compile, so that the next run makes the same calls
	calls, next := run(0)
	if n := early(calls); n != 5 || !slices.Equal(next, []int32{1, 12}) {
		t.Fatalf("%d early launches, token and position %v", n, next)
	}
	outside := slices.Index(calls, "cuLaunchKernelEx")
	if again, next := run(outside + 1); early(again) != 1 || !slices.Equal(next, []int32{1, 12}) {
		t.Errorf("the launch fails: %d early launches, token and position %v", early(again), next)
	}
	at := outside + 1
	for _, call := range []string{"cuLaunchKernelEx", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"} {
		k := at + slices.Index(calls[at:], call)
		again, next := run(k + 1)
		if n := early(again); n > 3 || !slices.Equal(next, []int32{1, 12}) {
			t.Errorf("%s fails: %d early launches, token and position %v", call, n, next)
		}
	}
}

// TestEarlyLaunches_WaitOutsideGraph has a kernel write the weights of a product of one row, which reads them before it
// waits for earlier kernels: outside of a graph it must not start early.
func TestEarlyLaunches_WaitOutsideGraph(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16, tensor.INT8} {
		t.Run(dtype.String(), func(t *testing.T) {
			const in, out = 64, 40
			d := Emulated(t, Options{OwnProducts: true})
			a, err := d.NewArena("test", 1<<16)
			expect.OK(t, err)
			defer a.Close()
			of := dtype
			if dtype.Quantized() {
				of = tensor.BF16
			}
			x, w, y := a.New("x", of, 1, in), a.New("w", dtype, out, in), a.New("y", of, 1, out)
			written := w
			if dtype.Quantized() {
				written = tensor.Tensor{DType: tensor.BF16, Shape: []int{w.Bytes() / 2}, Addr: w.Addr}
			}
			d.Zero(x)
			d.Zero(w)
			d.Add(written, written, written)
			d.Linear(y, x, w, tensor.Tensor{})
			got, err := d.Floats(y)
			if err != nil || slices.ContainsFunc(got, func(v float32) bool { return v != 0 }) {
				t.Errorf("0 times weights: %v, %v", got, err)
			}
		})
	}
}

// TestEarlyLaunches_EmptyBlocksWait captures attention of a token that leaves most thread blocks without keys: they
// also wait for earlier kernels, because the next kernel relies on it.
func TestEarlyLaunches_EmptyBlocksWait(t *testing.T) {
	const reach = 2000
	d := Emulated(t, Options{Fused: All()})
	a, err := d.NewArena("test", 1<<22)
	expect.OK(t, err)
	defer a.Close()
	s := AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 64}
	qkv, y := a.New("qkv", tensor.BF16, 1, s.Width()), a.New("y", tensor.BF16, 1, 128)
	k, v := a.New("k", tensor.BF16, reach, 64), a.New("v", tensor.BF16, reach, 64)
	cos, sin := a.New("cos", tensor.F32, reach, 32), a.New("sin", tensor.F32, reach, 32)
	position, counters := a.New("position", tensor.I32, 1), a.New("counters", tensor.I32, 2)
	parts := a.New("parts", tensor.F32, s.NextParts(reach)...)
	for _, x := range []tensor.Tensor{qkv, k, v, cos, sin, counters} {
		d.Zero(x)
	}
	d.UploadI32(position, []int32{3})
	run := func() { d.AttentionNext(y, qkv, k, v, position, cos, sin, parts, counters, reach, s) }
	run()
	graph := d.Capture(func() { run(); run() })
	defer graph.Close()
	graph.Launch()
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}
