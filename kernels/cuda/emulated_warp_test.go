package cuda

import (
	"testing"

	"restyle/kernels/cuda/cudatest"
)

const warpSource = `
constexpr int LANE = 32;
extern "C" __global__ void shuffles(unsigned *to) {
	const int lane = threadIdx.x % LANE;
	unsigned *at = to;
	auto next = [&](unsigned x) { at[threadIdx.x] = x, at += 64; };
	next(__shfl_sync(~0u, lane, lane / 2));
	next(__shfl_sync(~0u, lane, 35, 8));
	next(__shfl_up_sync(~0u, lane, 3));
	next(__shfl_up_sync(~0u, lane, 3, 8));
	next(__shfl_down_sync(~0u, lane, 3));
	next(__shfl_down_sync(~0u, lane, 3, 8));
	next(__shfl_xor_sync(~0u, lane, 5));
	next((unsigned)(__shfl_xor_sync(~0u, (long long)lane << 32, 5) >> 32));
	next(__ballot_sync(~0u, lane % 3 == 0));
	next(__any_sync(~0u, lane == 7) + 2 * __any_sync(~0u, 0));
	next(__all_sync(~0u, lane != 7) + 2 * __all_sync(~0u, 1));
	next(lane < 16 ? __ballot_sync(0xFFFF, lane % 2) : __ballot_sync(0xFFFF0000, lane % 4));
	__syncwarp();
}
extern "C" __global__ void count(int *to) { to[1 + blockIdx.x * LANE + threadIdx.x] = atomicAdd(to, 2); }
`

// warp runs a kernel of warpSource with 32 threads per block and 512 bytes of dynamic shared memory, and returns n
// words.
func warp(t *testing.T, kernel string, blocks, n int) ([]uint32, error) {
	t.Helper()
	g, c := openEmulated(t)
	image, err := Cache{cudatest.Dir()}.Compile(c, Program{Name: "warp.cu", Source: warpSource}, "sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Load(image)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function(kernel)
	if err != nil {
		t.Fatal(err)
	}
	at, err := g.Alloc(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Fill(at, 0, 4*n); err != nil {
		t.Fatal(err)
	}
	g.Launch(f, Dim3{X: blocks}, Dim3{X: 32}, 512, uint64(at))
	if err := g.Sync(); err != nil {
		return nil, err
	}
	return words(t, g, at, n), nil
}

// expect fails the test if a kernel's words are not the words that it should write.
func expect(t *testing.T, got []uint32, err error, want func(i int) uint32) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != want(i) {
			t.Fatalf("word %d is %#x, want %#x", i, x, want(i))
		}
	}
}

func TestEmulatedShuffles(t *testing.T) {
	within := func(lane, from, first, last int) uint32 {
		if from < first || from > last {
			return uint32(lane)
		}
		return uint32(from)
	}
	want := []func(lane int) uint32{
		func(lane int) uint32 { return uint32(lane / 2) },
		func(lane int) uint32 { return uint32(lane/8*8 + 3) },
		func(lane int) uint32 { return within(lane, lane-3, 0, 31) },
		func(lane int) uint32 { return within(lane, lane-3, lane/8*8, 31) },
		func(lane int) uint32 { return within(lane, lane+3, 0, 31) },
		func(lane int) uint32 { return within(lane, lane+3, 0, lane/8*8+7) },
		func(lane int) uint32 { return uint32(lane ^ 5) },
		func(lane int) uint32 { return uint32(lane ^ 5) },
		func(lane int) uint32 { return 0x49249249 },
		func(lane int) uint32 { return 1 },
		func(lane int) uint32 { return 2 },
		func(lane int) uint32 { return []uint32{0xAAAA, 0xEEEE0000}[lane/16] },
	}
	got, err := warp(t, "shuffles", 1, 64*len(want))
	expect(t, got, err, func(i int) uint32 {
		if i%64 >= 32 {
			return 0
		}
		return want[i/64](i % 64)
	})
}

func TestEmulatedAtomics(t *testing.T) {
	got, err := warp(t, "count", 2, 65)
	expect(t, got, err, func(i int) uint32 { return []uint32{128, 2 * uint32(max(i, 1)-1)}[min(i, 1)] })
}
