package kernels

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// two adds in place and computes the norm of rows, which are two builds.
func two(d *Device) error {
	a, err := d.NewArena("operands", 1<<16)
	if err != nil {
		return err
	}
	x, w, rstd := a.New("x", tensor.F32, 4, 64), a.New("w", tensor.F32, 64), a.New("rstd", tensor.F32, 4)
	d.Zero(x)
	for range 3 {
		d.Add(x, x, x)
		d.RMSNorm(x, rstd, x, w, 1e-5)
	}
	return errors.Join(d.Sync(), a.Close())
}

// TestPrecompile checks that each build is compiled once, before anything is launched, and that progress is reported.
func TestPrecompile(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc")
	cache := cudatest.Cache(t)
	t.Setenv("RESTYLE_CACHE", cache)
	d, err := Open("cuda", Options{OwnProducts: true})
	expect.OK(t, err)
	defer d.Close()
	var told []int
	progress := func(done, of int) { told = append(told, done, of) }
	expect.OK(t, d.Precompile(t.Context(), two, progress))
	if len(told) != 4 || told[0] != 1 || told[1] != 2 || told[2] != 2 || told[3] != 2 {
		t.Errorf("progress %v", told)
	}
	files, _ := filepath.Glob(filepath.Join(cache, "*-sm_90a-*"))
	if len(files) != 2 {
		t.Errorf("%v", files)
	}
	if len(d.gpu.modules) != 0 || len(d.arenas) != 0 || d.Err() != nil {
		t.Errorf("the device was used: %v, %v, %v", d.gpu.modules, d.arenas, d.Err())
	}
	// Later launches find what was compiled: the stand-in numbers what it compiles.
	before, err := os.ReadFile(files[0])
	expect.OK(t, err)
	if err := d.Precompile(t.Context(), two, nil); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(files[0]); err != nil || string(after) != string(before) {
		t.Errorf("compiled again, or %v", err)
	}
	for name, f := range map[string]func(*Device) error{
		"rehearsal": func(*Device) error { return errors.New("rehearsal") },
		"source": func(d *Device) error {
			d.gpu.launched(kernel{"source.cu", "f", macros{}}, line(1, 32), nil)
			return nil
		},
	} {
		if err := d.Precompile(t.Context(), f, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Precompile(stopped, two, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c, err := Open("cpu", Options{})
	expect.OK(t, err)
	defer c.Close()
	if err := c.Precompile(t.Context(), func(*Device) error { t.Error("rehearsed on the CPU"); return nil },
		nil); err != nil {
		t.Error(err)
	}
}

// TestRehearse_FindsEachBuild checks that a rehearsal finds each build that is launched with the GPU's properties,
// once.
func TestRehearse_FindsEachBuild(t *testing.T) {
	var b Builds
	for range 2 {
		expect.OK(t, b.Rehearse(cuda.Properties{Major: 9, SMs: 132}, Options{}, two))
	}
	if b.Len() != 2 || b.String() != "op_add.cu -DBLOCK_DIM=256 -DF32=1 -DWIDTH=4\n"+b.String()[strings.Index(b.String(),
		"op_rmsnorm.cu"):] {
		t.Errorf("%s", b.String())
	}
}

// TestPrecompileINT8 checks that a rehearsal quantizes activations if the device does.
func TestPrecompileINT8(t *testing.T) {
	d := idle(cuda.Properties{Major: 9, SMs: 132})
	for _, on := range []bool{false, true} {
		d.SetINT8Activations(on)
		stop := errors.New("rehearsed")
		if err := d.Precompile(t.Context(), func(d *Device) error {
			if d.int8Activations != on {
				t.Errorf("set to %t, and rehearsed with %t", on, d.int8Activations)
			}
			return stop
		}, nil); !errors.Is(err, stop) {
			t.Error(err)
		}
	}
}

// TestUntimed checks that products of Untimed are not recorded, and that products before and after it are.
func TestUntimed(t *testing.T) {
	b := Builds{blas: true}
	expect.OK(t, b.Rehearse(cuda.Properties{Major: 9, SMs: 132}, Options{}, func(d *Device) error {
		product := func(n int) {
			x := func(rows, cols int) tensor.Tensor {
				return tensor.Tensor{Addr: align, DType: tensor.BF16, Shape: []int{rows, cols}}
			}
			d.Linear(x(n, 32), x(n, 64), x(32, 64), tensor.Tensor{})
		}
		product(100)
		d.Untimed(func() { product(200) })
		product(300)
		return nil
	}))
	if len(b.shapes) != 2 || b.shapes[0].M != 100 || b.shapes[1].M != 300 {
		t.Errorf("%v", b.shapes)
	}
}
