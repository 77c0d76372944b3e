package cuda

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

// TestEmulatedFaults checks that the emulated GPU names whatever would fail on a GPU, with the kernel, its thread
// block, its thread and what it did, and nothing else.
func TestEmulatedFaults(t *testing.T) {
	source, err := os.ReadFile("testdata/faults.cu")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^// (.*)\nextern "C" __global__ void (\w+)`).FindAllSubmatch(source, -1)
	if n := bytes.Count(source, []byte("__global__")); n != len(all) {
		t.Errorf("%d of %d kernels say what is wrong with them", len(all), n)
	}
	for _, m := range all {
		t.Run(string(m[2]), func(t *testing.T) {
			g, f, from, to := planted(t, string(source), string(m[2]))
			for range 2 { // both orders
				g.Launch(f, Dim3{X: 2}, Dim3{X: 64}, 512, uint64(to), uint64(from))
			}
			err := g.Sync()
			if file, _ := cxx(); string(m[2]) == "odd_struct" && strings.Contains(versionOf(file), "clang") {
				t.Skip("Clang does not look at the addresses of structs")
			}
			if string(m[1]) == "right" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := regexp.QuoteMeta(fmt.Sprintf("kernel %s, %s", m[2], m[1]))
			want = regexp.MustCompile(`(TO|FROM)\\\+(-?\d+)`).ReplaceAllStringFunc(want, func(s string) string {
				name, offset, _ := strings.Cut(s, `\+`)
				n, _ := strconv.Atoi(offset)
				return fmt.Sprintf("%#x", map[string]uintptr{"TO": to, "FROM": from}[name]+uintptr(n))
			})
			if err == nil || !regexp.MustCompile(strings.ReplaceAll(want, "…", ".*")+"(:|$)").MatchString(err.Error()) {
				t.Errorf("%v\nis not\n%s", err, want)
			}
			if err := g.Download(make([]byte, 4), to); err == nil {
				t.Error("the fault does not stick")
			}
		})
	}
}

// planted returns a kernel of the faults on a new GPU, with its operands.
func planted(t *testing.T, source, kernel string) (g *GPU, f *Function, from, to uintptr) {
	t.Helper()
	headers := map[string]string{}
	for _, name := range []string{"mma.cuh", "common.cuh"} {
		text, err := os.ReadFile("../include/" + name)
		if err != nil {
			t.Fatal(err)
		}
		headers[name] = string(text)
	}
	g, c := openEmulated(t)
	p := Program{Name: "faults.cu", Source: source, Headers: headers, Options: []string{"-DBLOCK_DIM=64"}}
	image, err := Cache{cudatest.Dir()}.Compile(c, p, "sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Load(image)
	if err == nil {
		f, err = m.Function(kernel)
	}
	if err == nil {
		from, err = g.Alloc(256)
	}
	if err == nil {
		to, err = g.Alloc(256)
	}
	if err == nil {
		err = g.Upload(from, make([]byte, 256))
	}
	if err != nil {
		t.Fatal(err)
	}
	return g, f, from, to
}

// TestEmulatedLimits checks that launches that no GPU can run are refused by name.
func TestEmulatedLimits(t *testing.T) {
	for want, launch := range map[string]struct{ grid, block, shared int }{
		"launch place, grid {1 0 0}, block {1025 0 0}, shared memory 0: CUDA_ERROR_INVALID_VALUE": {1, 1025, 0},
		"launch place, grid {0 0 0}, block {1 0 0}, shared memory 0: CUDA_ERROR_INVALID_VALUE":    {0, 1, 0},
		"kernel place with 232449 bytes of shared memory: CUDA_ERROR_INVALID_VALUE":               {1, 1, 227<<10 + 1},
	} {
		g, f, _, to := emulated(t, "place", 64)
		g.Launch(f, Dim3{X: launch.grid}, Dim3{X: launch.block}, launch.shared, uint64(to))
		if err := g.Sync(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}
