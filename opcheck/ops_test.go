package opcheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// every is All, for the tests that check all cases: each remembers the results of its formula.
var every = sync.OnceValue(All)

func everyOf(op string) []*Case {
	return slices.DeleteFunc(slices.Clone(every()), func(c *Case) bool { return c.Op != op })
}

// TestOps checks the cases of every operation with every instruction set of the machine, or on the device that
// RESTYLE_TEST_DEVICE names.
func TestOps(t *testing.T) {
	for _, op := range Ops(every()) {
		t.Run(op, func(t *testing.T) {
			if name := os.Getenv("RESTYLE_TEST_DEVICE"); name != "" {
				checkOn(t, name, kernels.Options{}, everyOf(op))
				return
			}
			if os.Getenv("RESTYLE_CPU") != "" {
				t.Skip("every level is tested when RESTYLE_CPU is not set")
			}
			for _, l := range cpu.Levels() {
				t.Run(l.String(), func(t *testing.T) {
					checkOn(t, "cpu", kernels.Options{Level: l.String(), Threads: 1}, everyOf(op))
				})
			}
		})
	}
}

// TestEmulated runs the GPU kernels, in every case, on the emulated GPU; with -short in the cases of aFew.
func TestEmulated(t *testing.T) {
	o := kernels.Options{OwnProducts: true}
	list := everyFifthF16(every())
	if testing.Short() {
		list = aFew(t, o)
	} else {
		cudatest.Once(t)
	}
	for _, op := range Ops(list) {
		t.Run(op, func(t *testing.T) {
			checkOn(t, "emulated", o, slices.DeleteFunc(slices.Clone(list), func(c *Case) bool { return c.Op != op }))
		})
	}
}

// aFew returns cases that together launch kernels of every source: cases of two directions first, and small ones before
// large ones.
func aFew(t *testing.T, o kernels.Options) (few []*Case) {
	size := func(c *Case) (n int) {
		for _, p := range c.placements() {
			n += tensor.Tensor{Shape: p.Shape}.Len()
		}
		if c.Backward == nil {
			n += 1 << 30
		}
		return n
	}
	list, seen := slices.Clone(every()), map[string]bool{}
	slices.SortStableFunc(list, func(a, b *Case) int { return size(a) - size(b) })
	for _, c := range list {
		if size(c) < 100 { // of one or two threads
			continue
		}
		var b kernels.Builds
		expect.OK(t, b.Rehearse(cuda.Properties{SMs: 4, Major: 9}, o, func(d *kernels.Device) error {
			return Rehearse(d, []*Case{c})
		}))
		before := len(seen)
		for line := range strings.Lines(b.String()) {
			seen[strings.Fields(line)[0]] = true
		}
		if len(seen) > before {
			few = append(few, c)
		}
	}
	return few
}

// everyFifthF16 leaves out the other cases of F16 of an operation that do not test its limits: compiling each takes
// time, and it differs from BF16 only in what every case has, conversions and tensor cores.
func everyFifthF16(list []*Case) []*Case {
	n := map[string]int{}
	return slices.DeleteFunc(slices.Clone(list), func(c *Case) bool {
		if c.Type != tensor.F16 || c.Limits {
			return false
		}
		n[c.Op]++
		return n[c.Op]%5 != 1
	})
}

// TestEmulatedBLAS runs everything that multiplies matrices through cuBLASLt, including attention's batched products,
// in sequences of a length that cuBLASLt takes and of one that it does not.
func TestEmulatedBLAS(t *testing.T) {
	cudatest.Once(t)
	m := kernels.AttentionSpec{CuSeqlens: []int32{0, 32, 32, 80, 101}, Heads: 6, KVHeads: 2, HeadDim: 16}
	checkOn(t, "emulated", kernels.Options{}, slices.Concat(everyFifthF16(everyOf("linear")),
		everyFifthF16(everyOf("batched_product")),
		[]*Case{AttentionCase(tensor.BF16, m, 1), AttentionCase(tensor.F16, m, 1)}))
}

// TestRehearse checks that Precompile with Rehearse leaves nothing to compile for Check, on a GPU that computes
// nothing.
func TestRehearse(t *testing.T) {
	cache := cudatest.Cache(t)
	t.Setenv("RESTYLE_CACHE", cache)
	cudatest.Use(t, "libcuda", "libnvrtc")
	cudatest.Set(t, "IDLE=1 MEMORY=17179869184")
	d, err := kernels.Open("cuda", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	list, done := All(), 0
	expect.OK(t, d.Precompile(t.Context(), func(idle *kernels.Device) error { return Rehearse(idle, list) },
		func(n, of int) { done = n }))
	before, _ := filepath.Glob(filepath.Join(cache, "*"))
	for _, c := range list {
		c.formula = formula{Values{}, map[string]sample{}} // there is nothing to compare
		for _, fused := range c.Forms() {
			if _, err := c.Check(d, fused); err != nil {
				t.Fatalf("%s: %v", c.ID(), err)
			}
		}
	}
	after, _ := filepath.Glob(filepath.Join(cache, "*"))
	if len(before) < 100 || done != len(before) || len(after) != len(before) {
		t.Errorf("%d compiled ahead, %d files of them, %d after all checks", done, len(before), len(after))
	}
}

// checkOn checks cases, all of which must run, on a device.
func checkOn(t *testing.T, device string, o kernels.Options, list []*Case) {
	d, err := kernels.Open(device, o)
	cudatest.Opened(t, d, err)
	rehearsal := func(idle *kernels.Device) error { return Rehearse(idle, list) }
	expect.OK(t, d.Precompile(t.Context(), rehearsal, nil))
	for _, c := range list {
		for _, fused := range c.Forms() {
			name := c.Type.String() + " " + c.Name
			if fused {
				name += " fused"
			}
			t.Run(name, func(t *testing.T) { checkCase(t, d, c, fused) })
		}
	}
}

func checkCase(t *testing.T, d *kernels.Device, c *Case, fused bool) {
	r, err := c.Check(d, fused)
	expect.OK(t, err)
	if !r.Forward.Ran || c.Backward != nil && !r.Backward.Ran {
		t.Error("a pass did not run")
	}
	for _, p := range []Pass{r.Forward, r.Backward} {
		for _, fault := range p.Faults {
			t.Error(fault)
		}
	}
}
