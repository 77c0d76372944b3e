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

	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestEarlyRefused checks that Capture makes a graph without early launches if the driver refuses them.
func TestEarlyRefused(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
		a, err := d.NewArena("test", 1<<14)
		if err != nil {
			t.Fatal(err)
		}
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
			if err := graph.Close(); err != nil {
				t.Fatal(err)
			}
		}
		b := make([]byte, 12)
		if err := errors.Join(d.DownloadBytes(b, to), a.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
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
	if n := early(calls); n != 4 || !slices.Equal(next, []int32{1, 12}) {
		t.Fatalf("%d early launches, token and position %v", n, next)
	}
	at := slices.Index(calls, "cuLaunchKernelEx")
	for _, call := range []string{"cuLaunchKernelEx", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"} {
		k := at + slices.Index(calls[at:], call)
		again, next := run(k + 1)
		if n := early(again); n > 2 || !slices.Equal(next, []int32{1, 12}) {
			t.Errorf("%s fails: %d early launches, token and position %v", call, n, next)
		}
	}
}
