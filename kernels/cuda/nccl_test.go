package cuda

import (
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

// TestOpenNCCL_Refuses checks the errors of a version that is too old and of a library that is missing.
func TestOpenNCCL_Refuses(t *testing.T) {
	g, _ := openEmulated(t)
	cudatest.Set(t, "NCCL=21805")
	_, err := OpenEmulatedNCCL(g)
	if err == nil || !strings.Contains(err.Error(), "it is version 2.18, and 2.19 is needed") {
		t.Error(err)
	}
	cudatest.Set(t, "RESTYLE_NCCL=/missing.so")
	_, err = OpenNCCL(g)
	if err == nil || !strings.Contains(err.Error(), "pip install nvidia-nccl-cu13, or have RESTYLE_NCCL") {
		t.Error(err)
	}
}
