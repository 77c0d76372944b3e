package kernels

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestComm_OfOne sums on a single GPU, where a sum leaves everything as it is.
func TestComm_OfOne(t *testing.T) {
	name := cmp.Or(os.Getenv("RESTYLE_TEST_DEVICE"), "emulated")
	if name == "cpu" {
		t.Skip("the CPU's ranks are no GPUs")
	}
	cudatest.Once(t)
	d, err := Open(name, Options{OwnProducts: true})
	cudatest.Opened(t, d, err)
	c, _, err := d.OpenComm(0, 1, func(id []byte) ([]byte, error) { return id, nil })
	expect.OK(t, err)
	arena, err := d.NewArena("sums", 3*align)
	expect.OK(t, err)
	defer arena.Close()
	var list []tensor.Tensor
	for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
		list = append(list, arena.New("x", dtype, 5))
		d.Upload(list[len(list)-1], []float32{1, 2, -3, 4, 0.5})
	}
	c.Sum(list...)
	c.SumTo([][]tensor.Tensor{list}, nil)
	c.Mark(1)
	c.Spread([][]tensor.Tensor{list})
	c.Exchange([][]tensor.Tensor{list}, [][]tensor.Tensor{list})
	for slot := range 3 {
		if err := c.WaitFor(slot); err != nil {
			t.Error(err)
		}
	}
	expect.OK(t, c.Wait())
	for _, x := range list {
		if got, err := d.Floats(x); err != nil || !slices.Equal(got, []float32{1, 2, -3, 4, 0.5}) {
			t.Errorf("%v: %v, %v", x, got, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestComm_EveryCallFails makes each call of NCCL fail, one per run.
func TestComm_EveryCallFails(t *testing.T) {
	cudatest.Once(t)
	once := func() (err error) {
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
		d.Zero(x)
		c, _, err := d.OpenComm(0, 1, func(id []byte) ([]byte, error) { return id, nil })
		if err != nil {
			return err
		}
		c.Sum(x)
		c.SumTo([][]tensor.Tensor{{x}}, nil)
		c.Mark(0)
		c.Spread([][]tensor.Tensor{{x}})
		return errors.Join(c.WaitFor(0), c.Wait(), c.Close())
	}
	calls, err := cudatest.Fail(t, -1, 0, once)
	expect.OK(t, err)
	failed := 0
	for k, call := range calls {
		if !strings.HasPrefix(call, "nccl") {
			continue
		}
		failed++
		calls, err := cudatest.Fail(t, k, 2, once)
		if wrong := cudatest.Wrong(calls, k, 2, err); wrong != "" {
			t.Error(wrong)
		}
	}
	if failed < 10 {
		t.Errorf("NCCL is called only %d times: %v", failed, calls)
	}
}

// TestComm_Abort ends a collective that waits forever.
func TestComm_Abort(t *testing.T) {
	c, x, calls := toAbort(t, "STUCK=2 LATE=1")
	ended := make(chan error)
	go func() {
		c.Sum(x)
		c.Sum(x)
		ended <- c.d.Sync()
	}()
	for strings.Count(calls(), "ncclGroupEnd") < 2 || !strings.HasSuffix(calls(), "cuStreamSynchronize\n") {
		time.Sleep(time.Millisecond)
	}
	c.Abort()
	c.Abort() // does nothing
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "was aborted") {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestComm_AbortWaitsForCalls aborts while another goroutine is in a call of NCCL, which uses what an abort frees.
func TestComm_AbortWaitsForCalls(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exists")
	c, x, calls := toAbort(t, "")
	cudatest.Set(t, "SLOW="+file)
	ended := make(chan bool, 2)
	go func() {
		c.Sum(x)
		ended <- true
	}()
	for !strings.Contains(calls(), "ncclGroupEnd") {
		time.Sleep(time.Millisecond)
	}
	go func() {
		c.Abort()
		ended <- true
	}()
	for c.d.Err() == nil { // which Abort sets first
		time.Sleep(time.Millisecond)
	}
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	<-ended
	<-ended
	c.Sum(x) // does nothing
	if strings.Contains(calls(), "freed") || strings.Count(calls(), "ncclGroupEnd") != 1 {
		t.Error(calls())
	}
}

// toAbort opens an emulated GPU with a tensor, and returns a function that lists the calls so far.
func toAbort(t *testing.T, situation string) (c *Comm, x tensor.Tensor, calls func() string) {
	t.Helper()
	cudatest.Once(t)
	file := filepath.Join(t.TempDir(), "calls")
	cudatest.Set(t, situation+" CALLS="+file)
	d, err := Open("emulated", Options{OwnProducts: true})
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	a, err := d.NewArena("test", 1<<10)
	expect.OK(t, err)
	t.Cleanup(func() { _, _ = a.Close(), d.Close() }) // the error of the abort
	if c, _, err = d.OpenComm(0, 1, func(id []byte) ([]byte, error) { return id, nil }); err != nil {
		t.Fatal(err)
	}
	return c, a.New("x", tensor.F32, 8), func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
}
