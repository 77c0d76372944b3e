package cuda

import (
	"fmt"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

const secondUUID = "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01" // of the stand-in's second GPU

func TestMonitor(t *testing.T) {
	cudatest.Use(t, "libnvidia-ml")
	t.Setenv("STANDIN_USED", "0,1000")
	m, err := OpenMonitor(secondUUID)
	if err != nil {
		t.Fatal(err)
	}
	first := m.Read()
	want := Meters{Energy: first.Energy, Power: 300251, Clock: 1980, MemoryClock: 3201, Temperature: 41,
		Free: 1<<20 - 1000, Used: 1000}
	if first != want || first.Energy <= 0 {
		t.Errorf("%+v, not %+v", first, want)
	}
	if next := m.Read(); next.Energy != first.Energy+500 {
		t.Errorf("%d millijoules after %d", next.Energy, first.Energy)
	}
	t.Setenv("STANDIN_HELD", "4")
	if held := m.Read().Held; held != 4 {
		t.Error(held)
	}
}

// TestMonitor_MIGSlice checks for the memory of a MIG slice, which has its own kind of name, and for -1 for what a
// slice does not report.
func TestMonitor_MIGSlice(t *testing.T) {
	cudatest.Use(t, "libnvidia-ml")
	t.Setenv("STANDIN_SLICED", "1")
	t.Setenv("STANDIN_HELD", "4")
	m, err := OpenMonitor(secondUUID)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Read(), (Meters{-1, -1, -1, -1, -1, 0, 1 << 20, 0}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if n := sliced(); n != 2 {
		t.Errorf("%d GPUs are sliced", n)
	}
}

func TestNoMonitor(t *testing.T) {
	cudatest.Use(t)
	if _, err := OpenMonitor(secondUUID); err == nil ||
		err.Error() != "no NVML: tried /there is no libnvidia-ml (not there)" {
		t.Error(err)
	}
	if n := sliced(); n != 0 {
		t.Error(n)
	}
	cudatest.Use(t, "libnvidia-ml")
	if _, err := OpenMonitor("of another GPU"); err == nil ||
		!strings.Contains(err.Error(), "NVML: GPU-of another GPU: Not Found") {
		t.Error(err)
	}
	t.Setenv("STANDIN_NVML", "18")
	if _, err := OpenMonitor(secondUUID); err == nil ||
		!strings.HasSuffix(err.Error(), "(Driver/library version mismatch)") {
		t.Error(err)
	}
}

func TestHeld(t *testing.T) {
	for bits, want := range map[Held]string{
		0: "", 1: "", 2: "", 4: "power", 0x80: "power", 0x20: "heat", 0x40: "heat", 0x48: "heat", 0x24: "power and heat",
		8: "the hardware", 0x88: "power",
	} {
		if got := fmt.Sprint(bits); got != want {
			t.Errorf("%#x: %q, not %q", uint64(bits), got, want)
		}
	}
}
