package kernels

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
)

// TestRange checks that ranges nest and end, and that the goroutine meanwhile keeps its thread to itself.
func TestRange(t *testing.T) {
	// With one processor, another goroutine runs on this thread unless it is locked.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ranges := cudatest.UseRanges(t)
	listening, err := cuda.OpenRanges()
	expect.OK(t, err)
	d := &Device{gpu: &gpu{ranges: listening}}
	other := func() int {
		id := make(chan int)
		go func() { id <- unix.Gettid() }()
		return <-id
	}
	outer := d.Range("outer")
	thread := unix.Gettid()
	d.Range("first")()
	if other() == thread {
		t.Error("another goroutine is on the thread of an open range")
	}
	d.Range("second")()
	outer()
	d.Range("after")()
	if got, want := ranges(), []string{"outer", "outer/first", "outer/second", "after"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestNoRange checks that ranges do nothing on a device without a profiler.
func TestNoRange(t *testing.T) {
	for _, d := range []*Device{{}, {gpu: new(gpu)}} {
		if n := testing.AllocsPerRun(10, func() { d.Range("nothing")() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
