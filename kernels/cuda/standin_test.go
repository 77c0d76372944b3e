package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// standIn compiles a stand-in for one of NVIDIA's libraries from testdata, once for all tests.
func standIn(t testing.TB, name string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("the stand-in for NVIDIA's libraries needs gcc")
	}
	builds.Lock()
	defer builds.Unlock()
	if path := builds.done[name]; path != "" {
		return path
	}
	path := filepath.Join(builds.dir, name+".so")
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", path, "testdata/"+name+".c", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	builds.done[name] = path
	return path
}

var builds struct {
	sync.Mutex
	dir  string
	done map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "restyle-cuda-test")
	if err != nil {
		panic(err)
	}
	builds.dir, builds.done = dir, map[string]string{}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// openStandIn is a stand-in GPU, closed when the test ends.
func openStandIn(t testing.TB, ordinal int) *GPU {
	t.Helper()
	g, err := open([]string{standIn(t, "libcuda")}, ordinal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// kernelOf is a kernel of the stand-in's only module.
func kernelOf(t testing.TB, g *GPU, name string) *Function {
	t.Helper()
	m, err := g.Load([]byte("kernels\x00"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
