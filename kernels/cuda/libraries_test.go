package cuda

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestLibraries_Paths checks every path of a library, in order, and that no CUDA newer than the driver's is used.
func TestLibraries_Paths(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{"CUDA_HOME": dir + "/home", "CUDA_PATH": dir + "/path",
		"CONDA_PREFIX": dir + "/conda",
		"VIRTUAL_ENV":  dir + "/venv", "HOME": dir + "/user", "PATH": dir + "/bin", "RESTYLE_NVRTC": "",
		"RESTYLE_CUBLASLT": ""} {
		t.Setenv(name, value)
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "sbsa"}[runtime.GOARCH]
	folders := []string{
		"home/lib64", "home/targets/" + machine + "-linux/lib", "path/lib64", "conda/lib", "bin/../lib",
		"venv/lib/python3.12/site-packages/nvidia/cu13/lib", "venv/lib/python3.12/site-packages/nvidia/LIBRARY/lib",
		"lib64/python3.11/site-packages/nvidia/cu13/lib",
		"user/.local/lib/python3.13/site-packages/nvidia/cu13/lib",
		"user/.local/lib/python3.13/site-packages/nvidia/LIBRARY/lib",
	}
	write := func(file string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "bin/python3"))
	for _, test := range []struct {
		library      library
		file, folder string
	}{{libnvrtc, "libnvrtc.so.", "cuda_nvrtc"}, {libcublasLt, "libcublasLt.so.", "cublas"}} {
		for driver, majors := range map[int][]string{0: {"13", "12"}, 13000: {"13", "12"}, 14020: {"13", "12"}, 12080: {"12"},
			11080: nil} {
			var want []string
			for _, major := range majors {
				want = append(want, test.file+major)
			}
			for _, folder := range folders {
				folder = filepath.Join(dir, strings.Replace(folder, "LIBRARY", test.folder, 1))
				for _, major := range []string{"12", "13", "14"} {
					write(filepath.Join(folder, test.file+major))
				}
				for _, major := range majors {
					want = append(want, filepath.Join(folder, test.file+major))
				}
			}
			got := slices.DeleteFunc(test.library.paths(driver), func(p string) bool {
				return strings.Contains(p, "/") &&
					!strings.HasPrefix(p, dir)
			})
			if !slices.Equal(got, want) {
				t.Errorf("%s for a driver of CUDA %d:\n%s\nnot\n%s", test.file, driver, strings.Join(got, "\n"),
					strings.Join(want, "\n"))
			}
		}
	}
}

// TestNamedLibraries checks that a file that a variable names is the only path, and that the loader comes first for
// libraries that come with the driver.
func TestNamedLibraries(t *testing.T) {
	for variable, l := range map[string]library{"RESTYLE_CUDA": libcuda, "RESTYLE_NVML": libnvml,
		"RESTYLE_NVRTC": libnvrtc, "RESTYLE_CUBLASLT": libcublasLt} {
		t.Setenv(variable, "")
		if paths := l.paths(13000); !strings.Contains(paths[0], ".so.1") || strings.Contains(paths[0], "/") {
			t.Errorf("%s: %v", variable, paths)
		}
		t.Setenv(variable, "/a/file")
		if paths := l.paths(13000); len(paths) != 1 || paths[0] != "/a/file" {
			t.Errorf("%s: %v", variable, paths)
		}
	}
	t.Setenv("RESTYLE_CUDA", "")
	if !slices.Contains(libcuda.paths(0), "/usr/lib/wsl/lib/libcuda.so.1") {
		t.Error("Windows' driver is not looked for")
	}
}

// TestNoCompiler checks that the error names the package that fits the driver: for a driver of CUDA 12, CUDA 13's is
// skipped.
func TestNoCompiler(t *testing.T) {
	t.Setenv("RESTYLE_NVRTC", "/a/file")
	for driver, command := range map[int]string{0: "pip install nvidia-cuda-nvrtc,",
		13020: "pip install nvidia-cuda-nvrtc,",
		12040: "pip install nvidia-cuda-nvrtc-cu12,", 14000: "pip install nvidia-cuda-nvrtc,"} {
		_, err := OpenCompiler(Properties{Driver: driver})
		if err == nil || !strings.HasSuffix(err.Error(), ": tried /a/file (not there)") ||
			!strings.Contains(err.Error(), command) {
			t.Errorf("CUDA %d: %v", driver, err)
		}
	}
	if got := libcublasLt.install(12080); got != "pip install nvidia-cublas-cu12" {
		t.Error(got)
	}
}
