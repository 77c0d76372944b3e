package cuda

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

const earlySource = `
#include "common.cuh"
extern "C" __global__ void put(unsigned *to, const unsigned *from) { to[threadIdx.x] = from[threadIdx.x]; }
extern "C" __global__ void wait(unsigned *, const unsigned *) { waitForPrerequisites(); }
extern "C" __global__ void right(unsigned *to, const unsigned *from) {
	const unsigned x = from[threadIdx.x];
	launchDependents();
	waitForPrerequisites();
	to[32 + threadIdx.x] = to[threadIdx.x] + x;
}
extern "C" __global__ void last(unsigned *to, const unsigned *) { // an earlier graph wrote it
	const unsigned x = to[32 + threadIdx.x];
	waitForPrerequisites();
	if (x == 1) to[32 + threadIdx.x] = x;
}
extern "C" __global__ void read(unsigned *to, const unsigned *from) {
	const unsigned x = to[threadIdx.x];
	waitForPrerequisites();
	to[32 + threadIdx.x] = x;
}
extern "C" __global__ void overwrite(unsigned *to, const unsigned *) {
	to[threadIdx.x] = 0;
	waitForPrerequisites();
}
extern "C" __global__ void replace(unsigned *, const unsigned *from) {
	((unsigned *)from)[threadIdx.x] = 0;
	waitForPrerequisites();
}
extern "C" __global__ void never(unsigned *, const unsigned *) {}
extern "C" __global__ void some(unsigned *, const unsigned *) {
	if (threadIdx.x != 3) waitForPrerequisites();
}
extern "C" __global__ void other(unsigned *to, const unsigned *) { // it has not waited itself
	if (threadIdx.x > 0) waitForPrerequisites();
	__syncthreads();
	if (threadIdx.x > 0) return;
	to[32] = to[5];
	waitForPrerequisites();
}
`

// TestEmulatedEarly checks that the emulated GPU reports what an early kernel does before it has waited for the earlier
// kernels of its graph, and nothing else.
func TestEmulatedEarly(t *testing.T) {
	header, err := os.ReadFile("../include/common.cuh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ kernels, fault string }{
		{"put right right", ""},
		{"last right", ""},
		{"put read", "kernel read, block 0,0,0: thread 0: reads 4 bytes at TO, which an earlier kernel writes, " +
			"without waiting for it"},
		{"put wait read", "kernel read, block 0,0,0: thread 0: reads 4 bytes at TO, which an earlier kernel writes"},
		{"put right wait read", "kernel read, block 0,0,0: thread 0: reads 4 bytes at TO, which an earlier kernel writes"},
		{"last right last", "kernel last, block 0,0,0: thread 31: reads 4 bytes at TO+252, which an earlier kernel writes"},
		{"put overwrite", "kernel overwrite, block 0,0,0: thread 0: writes 4 bytes at TO, which an earlier kernel writes"},
		{"put replace", "kernel replace, block 0,0,0: thread 0: writes 4 bytes at FROM, which an earlier kernel reads, " +
			"without waiting for it"},
		{"put never", "kernel never, block 0,0,0: thread 0: ends without waiting for the earlier kernels"},
		{"put some", "kernel some, block 0,0,0: thread 3: ends without waiting"},
		{"put other", "kernel other, block 0,0,0: thread 0: reads 4 bytes at TO+20, which an earlier kernel writes"},
	} {
		t.Run(c.kernels, func(t *testing.T) {
			g, compiler := openEmulated(t)
			p := Program{Name: "early.cu", Source: earlySource, Headers: map[string]string{"common.cuh": string(header)},
				Options: []string{"-DBLOCK_DIM=32"}}
			image, err := Cache{cudatest.Dir()}.Compile(compiler, p, "sm_90a")
			if err != nil {
				t.Fatal(err)
			}
			m, err := g.Load(image)
			if err != nil {
				t.Fatal(err)
			}
			var at [2]uintptr // to, from
			for i := range at {
				if at[i], err = g.Alloc(256); err == nil {
					err = g.Upload(at[i], make([]byte, 256))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			graph, err := g.Capture(func() {
				for i, name := range strings.Fields(c.kernels) {
					f, err := m.Function(name)
					if err != nil {
						t.Fatal(err)
					}
					start := EarlyInGraph
					if i == 0 && name == "put" {
						start = AfterPrevious
					}
					g.LaunchAt(start, f, Dim3{X: 1}, Dim3{X: 32}, 0, nil, uint64(at[0]), uint64(at[1]))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				graph.Launch()
			}
			err = g.Sync()
			for i, name := range []string{"TO", "FROM"} {
				for _, offset := range []int{0, 20, 252} {
					to := name
					if offset > 0 {
						to += fmt.Sprintf("+%d", offset)
					}
					if err != nil {
						err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), fmt.Sprintf("%#x", at[i]+uintptr(offset)), to))
					}
				}
			}
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("%v, not %q", err, c.fault)
			}
		})
	}
}
