package kernels

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestEveryCallFails has each call of the driver fail, one a run, from opening the GPU to closing it: with a result that is of its call
// alone, and with two after which a GPU does nothing more. The error is that of the call, and no work is done after it.
func TestEveryCallFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls")
	run := func(fail, result int) (calls []string, err error) {
		cudatest.Set(t, fmt.Sprintf("IDLE=1 FAIL=%d RESULT=%d CALLS=%s", fail, result, file))
		err = everyCall()
		if errors.Is(err, cuda.ErrNoCompiler) {
			t.Skip(err)
		}
		text, missing := os.ReadFile(file)
		if missing != nil {
			t.Fatal(missing)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n"), err
	}
	all, err := run(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"cuInit", "cuMemAlloc_v2", "cuModuleLoadData", "cuLaunchKernel", "cuGraphLaunch", "cuMemcpyDtoHAsync_v2", "cuMemFree_v2"} {
		if !slices.Contains(all, call) {
			t.Errorf("%s is not called", call)
		}
	}
	// There is a way without these; and these are called when work is over, and so after a failure too, with what asks how much memory is
	// left where it did not suffice.
	optional := []string{"cuMemHostAlloc", "cuDeviceGetAttribute", "cuEventDestroy_v2", "cuMemFreeHost"}
	last := []string{"cuMemFree_v2", "cuMemFreeHost", "cuEventDestroy_v2", "cuStreamDestroy_v2", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent", "cuMemGetInfo_v2",
		"cuStreamEndCapture", "cuGraphDestroy"}
	for _, result := range []int{2, 700, 999} {
		for k := range all {
			calls, err := run(k+1, result)
			if k >= len(calls) { // a goroutine was on fewer threads than at first
				continue
			}
			what := fmt.Sprintf("call %d, %s, answers %d", k+1, calls[k], result)
			if err == nil && result == 2 && slices.Contains(optional, calls[k]) {
				continue
			}
			var e *cuda.Error
			if !errors.As(err, &e) || e.Code != result || !strings.Contains(err.Error(), calls[k]) {
				t.Errorf("%s: %v", what, err)
			}
			for _, later := range calls[k+1:] {
				if !slices.Contains(last, later) {
					t.Errorf("%s, and then %s is called", what, later)
				}
			}
		}
	}
}

// everyCall runs some operations on the emulated GPU, and ends at the first error as programs do.
func everyCall() (err error) {
	d, err := Open("emulated", Options{OwnProducts: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	a, err := d.NewArena("test", 1<<16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	const rows, dim = 4, 64
	x, y, w := a.New("x", tensor.BF16, rows, dim), a.New("y", tensor.BF16, rows, dim), a.New("w", tensor.BF16, dim)
	rstd, gateUp := a.New("rstd", tensor.F32, rows), a.New("gateUp", tensor.BF16, rows, 2*dim)
	for _, t := range []tensor.Tensor{x, w, gateUp} {
		d.Upload(t, make([]float32, t.Len()))
	}
	d.RMSNorm(y, rstd, x, w, 1e-5)
	d.SwiGLU(x, gateUp)
	d.Add(y, y, x)
	if _, err := d.Floats(y); err != nil {
		return err
	}
	graph := d.Capture(func() { d.Add(y, y, x) })
	if graph == nil {
		return d.Err()
	}
	graph.Launch()
	if _, err := d.Floats(y); err != nil {
		return err
	}
	return errors.Join(graph.Close(), d.Err())
}
