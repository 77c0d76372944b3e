package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/kernels/cuda/cudatest"
)

func TestMain(m *testing.M) {
	if os.Getenv(rankVariable) != "" {
		main()
	}
	os.Setenv("CUDA_VISIBLE_DEVICES", "") // --device auto is the CPU in these tests, on every machine
	os.Exit(cudatest.Main(m))
}

// TestPrecompile checks that the cache has the kernels of a model for each architecture, compiled without a GPU.
func TestPrecompile(t *testing.T) {
	cudatest.Use(t, "libnvrtc")
	cache := cudatest.Cache(t)
	t.Setenv("RESTYLE_CACHE", cache)
	args := []string{"precompile", "--config", filepath.Join(tinyBase, "config.json"), "--shapes", "1x32", "--arch"}
	code, stdout, stderr := bench(t, append(args, "sm_86, sm_90")...)
	if code != cli.Done || !strings.Contains(stdout, "\n{\"command\":\"precompile\",\"builds\":{\"sm_86\":") {
		t.Fatalf("exit %d, %s\n%s", code, stderr, stdout)
	}
	for _, arch := range []string{"sm_86", "sm_90a"} {
		for _, source := range []string{"op_rmsnorm", "op_adamw", "op_attention", "op_attention_decode", "product_gemm"} {
			if files, _ := filepath.Glob(filepath.Join(cache, source+"-"+arch+"-*.cubin")); files == nil {
				t.Errorf("%s for %s is not there", source, arch)
			}
		}
	}
	for names, want := range map[string]string{"": "is empty", "90": `--arch "90"`, "sm_x": `"sm_x"`,
		"sm_90,": `"sm_90,"`, "sm_60": `"sm_60"`} {
		if code, _, stderr := bench(t, append(args, names)...); code != cli.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, %s", names, code, stderr)
		}
	}
	// The default shapes are longer than this model's positions.
	if code, _, stderr := bench(t, append(args[:3:3], "--arch", "sm_86")...); code != cli.Done {
		t.Errorf("with the default shapes: exit %d, %s", code, stderr)
	}
	if code, _, stderr := bench(t, args[:5]...); code != cli.Usage || !strings.Contains(stderr, `--arch ""`) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	cudatest.Use(t)
	if code, _, stderr := bench(t, append(args, "sm_90a")...); code != cli.Failed ||
		!strings.Contains(stderr, "install it with pip install nvidia-cuda-nvrtc,") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
