package trainer

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// TestOpenRefuses checks that a pattern that matches nothing is an error before anything is allocated. Otherwise the
// run would train all parameters.
func TestOpenRefuses(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	base, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	if err != nil {
		t.Fatal(err)
	}
	s := tinySettings()
	s.Freeze = []string{"layer.0"}
	plan, err := NewPlan(s, learnable(4, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewJob(d, base, plan, JobOptions{Scratch: true}).Open(t.Context(), t.TempDir(), "")
	if err == nil || !strings.HasPrefix(err.Error(), `freeze "layer.0": matches no parameter`) || d.Allocated() > 0 {
		t.Errorf("%v, with %d bytes allocated", err, d.Allocated())
	}
}

// TestContextCountsOnce checks that the memory of the driver's context, which a GPU no longer has free once it is open,
// counts once: a run that fits to the byte is accepted, and one byte more is too large. Nor may a run take more than
// the whole GPU.
func TestContextCountsOnce(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc", "libcublasLt")
	cudatest.Set(t, "IDLE=1 MEMORY=8589934592")
	d, err := kernels.Open("cuda", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	base, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(tinySettings(), learnable(4, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	j := NewJob(d, base, plan, JobOptions{Scratch: true})
	const capacity = 8 << 30
	total, context := j.Memory.Total(), d.Context()
	if context < 100<<20 || total < context || total > capacity || d.Allocated() == 0 {
		t.Fatalf("the context takes %d bytes of %d, and products have %d", context, total, d.Allocated())
	}
	cudatest.Set(t, fmt.Sprintf("USED=%d", capacity-(total-context)))
	if err := j.CheckMemory(); err != nil {
		t.Error(err)
	}
	cudatest.Set(t, fmt.Sprintf("USED=%d", capacity-(total-context)+1))
	if e := new(TooLargeError); !errors.As(j.CheckMemory(), &e) || !e.Busy {
		t.Errorf("with a byte less: %v", e)
	}
	cudatest.Set(t, "USED=0")
	j.Memory.Parts = append(j.Memory.Parts, Part{"more", capacity - total + 1})
	if err := j.CheckMemory(); err == nil {
		t.Errorf("%d bytes are accepted on a GPU of %d", j.Memory.Total(), capacity)
	}
}
