package cuda

import (
	"os"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// openStandIn opens a stand-in GPU, which is closed when the test ends.
func openStandIn(t testing.TB, ordinal int) *GPU {
	t.Helper()
	g, err := open([]string{cudatest.Library(t, "libcuda")}, ordinal)
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

// kernelOf returns a kernel of the stand-in's only module.
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
