package cuda

import (
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

// TestNoRanges checks for a reason if there is no NVTX, an invalid library, or no profiler.
func TestNoRanges(t *testing.T) {
	for file, want := range map[string]string{
		"/there is no libnvtx":              "not there",
		cudatest.Library(t, "libnvidia-ml"): "it has no nvtxDomainCreateA",
		cudatest.Library(t, "libnvtx"):      "no profiler listens",
	} {
		t.Setenv("RESTYLE_NVTX", file)
		if _, err := OpenRanges(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// TestRangePaths checks that CUDA 13's library comes before CUDA 12's, and each once.
func TestRangePaths(t *testing.T) {
	t.Setenv("RESTYLE_NVTX", "")
	if got := append(libnvtx.paths(0), libnvToolsExt.paths(0)...); got[0] != "libnvtx3interop.so.1" ||
		strings.Count(strings.Join(got, "\n")+"\n", "\nlibnvToolsExt.so.1\n") != 1 {
		t.Error(got)
	}
}
