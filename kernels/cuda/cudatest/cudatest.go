// Package cudatest makes stand-ins for NVIDIA's libraries, for tests on machines without a GPU. They keep the libraries' rules,
// and environment variables set the situation: testdata has them, each with a list at its beginning.
package cudatest

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var builds struct {
	sync.Mutex
	dir  string
	done map[string]string
}

// Main runs the tests of a package that uses stand-ins, and returns the exit code: for a TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "restyle-cuda-test")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	builds.dir, builds.done = dir, map[string]string{}
	return m.Run()
}

// Opened has a device serve a test, and closes it when that ends: a GPU that the CPU plays, say, without whose compiler the test is
// skipped. err is what opening it gave.
func Opened(t testing.TB, device io.Closer, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Dir is a folder that lasts as long as the tests.
func Dir() string { return builds.dir }

// Library is the file of a stand-in: libcuda, libcuda-old, libnvrtc, libnvidia-ml or libnvtx. It is compiled once for all tests of a
// package. Without gcc the test is skipped.
func Library(t testing.TB, name string) string {
	t.Helper()
	gcc, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "gcc")) // what Go builds with, which may be for another machine
	if err != nil {
		t.Skip("the stand-in for NVIDIA's libraries needs gcc")
	}
	builds.Lock()
	defer builds.Unlock()
	if builds.done == nil {
		t.Fatal("the package's TestMain does not call cudatest.Main")
	}
	if path := builds.done[name]; path != "" {
		return path
	}
	path := filepath.Join(builds.dir, name+".so")
	source := filepath.Join(moduleRoot(t), "kernels/cuda/cudatest/testdata", name+".c")
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", path, source, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	builds.done[name] = path
	return path
}

// variables name the file of each library.
var variables = map[string]string{"libcuda": "RESTYLE_CUDA", "libnvrtc": "RESTYLE_NVRTC", "libnvidia-ml": "RESTYLE_NVML", "libcublasLt": "RESTYLE_CUBLASLT", "libnvtx": "RESTYLE_NVTX"}

// Use has this machine have the stand-ins of those names, and no other library of NVIDIA's.
func Use(t testing.TB, names ...string) {
	t.Helper()
	for name, variable := range variables {
		file := "/there is no " + name
		if slices.Contains(names, name) {
			file = Library(t, cmp.Or(map[string]string{"libcublasLt": "libcuda"}[name], name)) // which is in the same file
		}
		t.Setenv(variable, file)
	}
}

// Set gives a stand-in settings, as "GPUS=1 INIT=100", each named without its STANDIN_. Other variables have their whole name, which has a _.
func Set(t testing.TB, settings string) {
	t.Helper()
	for setting := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(setting, "=")
		if !strings.Contains(name, "_") {
			name = "STANDIN_" + name
		}
		t.Setenv(name, value)
	}
}

// moduleRoot is the folder of go.mod, around the one that a test runs in.
func moduleRoot(t testing.TB) string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("the module's folder was not found", err)
	return ""
}
