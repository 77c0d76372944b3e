package kernels

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestEveryCallFails makes each call of the driver and of cuBLASLt fail, one per run, from opening the GPU to closing
// it. The error is the call's, and no work is done after it.
func TestEveryCallFails(t *testing.T) {
	cudatest.Once(t)
	run := func(call, result int) ([]string, error) { return cudatest.Fail(t, call, result, everyCall) }
	if _, err := run(-1, 0); err != nil { // compiles the kernels
		t.Fatal(err)
	}
	all, err := run(-1, 0)
	expect.OK(t, err)
	for _, call := range []string{"cuInit", "cuMemAlloc_v2", "cuModuleLoadData", "cuLaunchKernelEx", "cuGraphLaunch",
		"cuMemcpyDtoHAsync_v2", "cuMemFree_v2",
		"nvrtcVersion", "cublasLtCreate", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul", "cublasLtDestroy"} {
		if !slices.Contains(all, call) {
			t.Errorf("%s is not called", call)
		}
	}
	// These calls come after the work is over, and so also after a failure. Other calls that come after a failure ask how
	// much memory is left if an allocation fails, and whether the GPU has failed if another library fails.
	last := []string{"cuMemFree_v2", "cuMemFreeHost", "cuEventDestroy_v2", "cuStreamDestroy_v2",
		"cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent", "cuMemGetInfo_v2",
		"cuStreamEndCapture", "cuGraphDestroy", "cublasLtDestroy", "cublasLtMatmulDescDestroy", "cublasLtMatrixLayoutDestroy",
		"cublasLtMatmulPreferenceDestroy"}
	for _, k := range cudatest.Chosen(all, 5) {
		for _, result := range cudatest.Results(all[k]) {
			calls, err := run(k, result)
			if wrong := cudatest.Wrong(calls, k, result, err); wrong != "" {
				t.Error(wrong)
			}
			for _, later := range calls[min(k+1, len(calls)):] {
				if err != nil && !slices.Contains(last, later) {
					t.Errorf("call %d, %s, answers %d, and then %s is called", k, calls[k], result, later)
				}
			}
		}
	}
}

// TestEveryCallOfTheCompilerFails makes each call of NVRTC fail, one per run, with nothing compiled before.
func TestEveryCallOfTheCompilerFails(t *testing.T) {
	cudatest.Once(t)
	compile := func() (err error) {
		d, err := Open("emulated", Options{OwnProducts: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		a, err := d.NewArena("test", 1<<10)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
		x := a.New("x", tensor.F32, 8)
		d.Add(x, x, x)
		return d.Sync()
	}
	run := func(call int) ([]string, error) {
		t.Setenv("RESTYLE_CACHE", emptyCache(t))
		return cudatest.Fail(t, call, 2, compile)
	}
	all, err := run(-1)
	expect.OK(t, err)
	if !slices.Contains(all, "nvrtcCompileProgram") || !slices.Contains(all, "nvrtcGetCUBIN") {
		t.Errorf("nothing is compiled: %v", all)
	}
	for k := range all {
		if !strings.HasPrefix(all[k], "nvrtc") {
			continue
		}
		calls, err := run(k)
		if wrong := cudatest.Wrong(calls, k, 2, err); wrong != "" {
			t.Error(wrong)
		}
		if err != nil && (slices.Contains(calls, "cuLaunchKernel") || slices.Contains(calls, "cuLaunchKernelEx")) {
			t.Errorf("%s fails, and a kernel is launched", calls[k])
		}
	}
}

// emptyCache returns a directory for compiled code that contains only the library of the emulated GPU.
func emptyCache(t *testing.T) string {
	t.Helper()
	cudatest.Set(t, "FAIL=0")
	g, _, err := cuda.OpenEmulated(cuda.DefaultCache())
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	}
	expect.OK(t, err)
	g.Close()
	dir := cudatest.Cache(t)
	files, _ := filepath.Glob(filepath.Join(cuda.DefaultCache().Dir, "emulated-*.so"))
	for _, file := range files {
		library, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), library, 0o600)
		}
		expect.OK(t, err)
	}
	return dir
}

// everyCall runs some operations on the emulated GPU, and ends at the first error as programs do.
func everyCall() (err error) {
	d, err := Open("emulated", Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	a, err := d.NewArena("test", 1<<16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	const rows, dim = 16, 64
	x, y, w := a.New("x", tensor.BF16, rows, dim), a.New("y", tensor.BF16, rows, dim), a.New("w", tensor.BF16, dim)
	matrix, dw := a.New("matrix", tensor.BF16, dim, dim), a.New("dw", tensor.F32, dim)
	rstd, gateUp := a.New("rstd", tensor.F32, rows), a.New("gateUp", tensor.BF16, rows, 2*dim)
	for _, t := range []tensor.Tensor{x, w, gateUp, matrix} {
		d.Upload(t, make([]float32, t.Len()))
	}
	d.Tick()
	d.RMSNorm(y, rstd, x, w, 1e-5)
	d.SwiGLU(x, gateUp)
	d.Linear(y, x, matrix, tensor.Tensor{})
	d.RMSNormBackward(y, dw, y, x, w, rstd)
	d.Add(y, y, x)
	if _, err := d.Floats(y); err != nil {
		return err
	}
	graph := d.Capture(func() { d.Add(y, y, x) })
	if graph == nil {
		return d.Err()
	}
	graph.Launch()
	if err := d.Read(y, func([]byte) error { return nil }); err != nil {
		return err
	}
	return errors.Join(graph.Close(), d.Err())
}
