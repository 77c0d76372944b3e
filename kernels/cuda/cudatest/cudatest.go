// Package cudatest builds stand-ins for NVIDIA's libraries, for tests on machines without a GPU. They follow the
// libraries' rules. Environment variables set the situation: each source in testdata lists its variables at the top.
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

// Main runs the tests of a package that uses stand-ins, and returns the exit code. Call it from TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "restyle-cuda-test")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	builds.dir, builds.done = dir, map[string]string{}
	return m.Run()
}

// Cache returns a new directory for compiled programs, in which only this user can write, whatever the umask.
func Cache(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Opened passes a device, such as the emulated GPU, to a test, and closes it when the test ends. err is the error of
// opening it; without the emulated GPU's compiler the test is skipped.
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

// Once skips a test of kernels for GPUs if another run of it is enough: they do not depend on the CPU's instruction
// set.
func Once(t testing.TB) {
	t.Helper()
	if os.Getenv("RESTYLE_CPU") != "" || testing.Short() {
		t.Skip("kernels for GPUs are tested when neither RESTYLE_CPU nor -short is set")
	}
}

// Dir returns a directory that exists until all tests have ended.
func Dir() string { return builds.dir }

// Library returns the file of a stand-in: libcuda, libcuda-old, libnvrtc, libnvidia-ml or libnvtx. It is compiled once
// for all tests of a package. Without gcc the test is skipped.
func Library(t testing.TB, name string) string {
	t.Helper()
	// the compiler that Go builds with, which may be a cross compiler
	gcc, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "gcc"))
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
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", path, source,
		"-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	builds.done[name] = path
	return path
}

// variables maps each library to the variable that names its file.
var variables = map[string]string{"libcuda": "RESTYLE_CUDA", "libnvrtc": "RESTYLE_NVRTC",
	"libnvidia-ml": "RESTYLE_NVML", "libcublasLt": "RESTYLE_CUBLASLT", "libnvtx": "RESTYLE_NVTX"}

// Use lets this machine find the named stand-ins, and no other library of NVIDIA's.
func Use(t testing.TB, names ...string) {
	t.Helper()
	for name, variable := range variables {
		file := "/there is no " + name
		if slices.Contains(names, name) {
			file = Library(t, cmp.Or(map[string]string{"libcublasLt": "libcuda"}[name], name)) // in the same file
		}
		t.Setenv(variable, file)
	}
}

// Set sets a stand-in's variables, as in "GPUS=1 INIT=100", without their prefix STANDIN_. Variables with a _ in their
// name are set as they are.
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

// moduleRoot returns the directory of go.mod.
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
