package infer

import (
	"os"
	"path/filepath"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// TestPrecompile checks that an engine on a GPU compiles its kernels before it reads the weights. The driver here is a
// stand-in that launches no kernel.
func TestPrecompile(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc")
	cudatest.Set(t, "MEMORY=1073741824")
	cache := t.TempDir()
	t.Setenv("RESTYLE_CACHE", cache)
	dev, err := kernels.Open("cuda", kernels.Options{Fused: kernels.All(), OwnProducts: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	e, err := Open(t.Context(), dev, "testdata/tiny/base", OpenOptions{})
	if err == nil {
		defer e.Close()
	}
	for _, source := range []string{"rmsnorm", "attention", "attention_decode", "matvec", "swiglu"} {
		if files, _ := filepath.Glob(filepath.Join(cache, source+"-sm_90a-*.cubin")); files == nil {
			t.Errorf("%s is not compiled, %v", source, err)
		}
	}
}
