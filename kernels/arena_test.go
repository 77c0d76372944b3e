package kernels

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// answer makes the system report the given amount of memory for the length of a test.
func answer(t *testing.T, free int, whose string, resident int) {
	t.Helper()
	f, r := freeMemory, residentMemory
	t.Cleanup(func() { freeMemory, residentMemory = f, r })
	freeMemory = func() (int, string, bool) { return free, whose, whose != "" }
	residentMemory = func() int { return resident }
}

// TestArenaRefused requests more memory than there is, and more than is left of it after arenas whose memory is still
// untouched.
func TestArenaRefused(t *testing.T) {
	d, err := Open("cpu", Options{Threads: 1})
	expect.OK(t, err)
	defer d.Close()
	before := promised.bytes
	const mib = 1 << 20
	answer(t, 10*mib, "control group /a", before)
	want := func(bytes int, message string) {
		t.Helper()
		// An arena may have as much as the device says is free.
		free, whose, known := d.Free()
		if known && (whose != "control group /a" || (bytes <= free || bytes < askedAbout) != (message == "")) {
			t.Errorf("%d MiB free of %s, known %t, and %d MiB wanted for %q", free/mib, whose, known, bytes/mib, message)
		}
		a, err := d.NewArena("weights", bytes)
		if err == nil {
			a.Close()
		}
		if message == "" && err != nil || message != "" && (err == nil || !strings.Contains(err.Error(), message)) {
			t.Errorf("%d MiB: %v, want %q", bytes/mib, err, message)
		}
	}
	want(10*mib, "")
	want(10*mib+1, "memory for weights: 10.0 MiB on cpu: control group /a has only 10.0 MiB left: use a smaller model")

	a, err := d.NewArena("test", 6*mib)
	expect.OK(t, err)
	want(4*mib, "")
	want(5*mib, "memory for weights: 5.0 MiB on cpu: control group /a has only 4.0 MiB left")
	answer(t, 4*mib, "control group /a", before+6*mib) // now it is touched, and no longer free
	want(4*mib, "")
	want(5*mib, "has only 4.0 MiB left")
	answer(t, 4*mib, "control group /a", before+60*mib) // other memory is also in use
	want(4*mib, "")
	want(5*mib, "has only 4.0 MiB left")
	answer(t, 1*mib, "control group /a", before)
	want(mib, "has only 0 B left")
	want(mib-1, "") // not asked about
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	want(mib, "")

	answer(t, 0, "", 0) // unknown
	if _, _, known := d.Free(); known {
		t.Error("free memory is known if the device does not tell it")
	}
	want(mib, "")
	if promised.bytes != before {
		t.Errorf("%d bytes are promised to arenas that are closed", promised.bytes-before)
	}
}

// TestArenaBeyondTheMachine requests 64 TiB of this machine, which maps them if it promises more memory than it has.
func TestArenaBeyondTheMachine(t *testing.T) {
	d, err := Open("cpu", Options{Threads: 1})
	expect.OK(t, err)
	defer d.Close()
	if _, err := d.NewArena("weights", 64<<40); err == nil ||
		!strings.Contains(err.Error(), "memory for weights: 64.0 TiB on cpu") {
		t.Error(err)
	}
	if _, err := d.NewArena("weights", -1); err == nil || !strings.Contains(err.Error(), "-1 bytes: must be at least 0") {
		t.Error(err)
	}
}

// TestArena checks that tensors start at multiples of align, that memory is released down to a mark, and that the peak
// is right. SizeOf must give the same sizes.
func TestArena(t *testing.T) {
	d, err := Open("cpu", Options{Threads: 1})
	expect.OK(t, err)
	cut := func(a *Arena) (x, y tensor.Tensor) {
		x = a.New("x", tensor.BF16, 3, 5)
		m := a.Mark()
		a.New("for a while", tensor.U8, 2*align+1)
		a.Release(m)
		y = a.New("y", tensor.F32, 7)
		return x, y
	}
	size := SizeOf(func(a *Arena) {
		if cut(a); !a.Counting() {
			t.Error("an arena of SizeOf has memory")
		}
	})
	if size != 3*align+1 {
		t.Errorf("it needs %d bytes", size)
	}
	a, err := d.NewArena("test", size)
	expect.OK(t, err)
	x, y := cut(a)
	if x.Addr%align != 0 || y.Addr != x.Addr+align || a.Peak() != size || a.Size() != size || a.Counting() ||
		d.Allocated() != size {
		t.Errorf("%#x, %#x, %d of %d bytes, %d in all", x.Addr, y.Addr, a.Peak(), a.Size(), d.Allocated())
	}
	for i, v := range append(x.Raw(), y.Raw()...) {
		if v != 0 {
			t.Errorf("it begins with %v at %d", v, i)
		}
	}
	MustPanic(t, "too much", "arena test: z F32[1000] does not fit: 512 of 769 bytes",
		func() { a.New("z", tensor.F32, 1000) })
	MustPanic(t, "a byte too much", "arena test: z U8[258] does not fit", func() { a.New("z", tensor.U8, size-2*align+1) })
	MustPanic(t, "no shape", "arena test: invalid tensor z F32[]", func() { a.New("z", tensor.F32) })
	MustPanic(t, "less than nothing", "arena test: invalid tensor z F32[-1]", func() { a.New("z", tensor.F32, -1) })
	MustPanic(t, "no type", "arena test: ", func() { a.New("z", 0, 1) })
	MustPanic(t, "a mark ahead", "arena test: release to mark 513: only 512 bytes are used",
		func() { a.Release(a.Mark() + 1) })
	MustPanic(t, "a mark before the first", "arena test: release to mark -1: only 512 bytes are used",
		func() { a.Release(-1) })
	if err := d.Close(); err == nil || err.Error() != "arena test is still open" {
		t.Error(err)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := (*Arena)(nil).Close(); err != nil || d.Close() != nil || d.Allocated() != 0 {
		t.Errorf("%v, %d bytes are left", err, d.Allocated())
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB", 5 << 40: "5.0 TiB",
		1 << 50: "1024.0 TiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, not %q", n, got, want)
		}
	}
}

// TestEmulatedNeighbors has a kernel read and write beyond the end of a tensor, and in tensors that were released,
// allocated again or overlaid. The emulated GPU must name accesses to memory that belongs to no tensor or that nothing
// has written, and no others.
func TestEmulatedNeighbors(t *testing.T) {
	const n = 128 // of F32: a tensor ends where the next would start
	longer := func(x tensor.Tensor) tensor.Tensor { x.Shape = []int{n + 1}; return x }
	for name, c := range map[string]struct {
		add  func(d *Device, a *Arena, x, y, z tensor.Tensor)
		want string
	}{
		"right": {func(d *Device, a *Arena, x, y, z tensor.Tensor) { d.Add(y, x, y) }, ""},
		"written": {func(d *Device, a *Arena, x, y, z tensor.Tensor) { d.Add(longer(x), longer(z), longer(z)) },
			"writes 4 bytes at 0x.*, which belongs to no tensor"},
		"read": {func(d *Device, a *Arena, x, y, z tensor.Tensor) { d.Add(longer(z), longer(x), longer(z)) },
			"reads 4 bytes at 0x.*, which belongs to no tensor"},
		"released": {func(d *Device, a *Arena, x, y, z tensor.Tensor) { a.Release(8 * n); z.Shape = x.Shape; d.Add(z, x, y) },
			"writes 4 bytes at 0x.*, which belongs to no tensor"},
		"allocated again": {func(d *Device, a *Arena, x, y, z tensor.Tensor) {
			a.Release(8 * n)
			d.Add(y, x, a.New("again", tensor.F32, n))
		},
			"reads 4 bytes at 0x.*, which are uninitialized"},
		"overlaid": {func(d *Device, a *Arena, x, y, z tensor.Tensor) {
			var over tensor.Tensor
			a.Overlay(func() { over = a.New("over", tensor.F32, n) }, func() { a.New("other", tensor.F32, 1) })
			d.Add(over, x, y)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cudatest.Once(t)
			d, err := Open("emulated", Options{OwnProducts: true})
			if errors.Is(err, cuda.ErrNoCompiler) {
				t.Skip(err)
			}
			expect.OK(t, err)
			a, err := d.NewArena("test", SizeOf(func(a *Arena) { a.New("all", tensor.F32, 5*n) }))
			expect.OK(t, err)
			x, y, z := a.New("x", tensor.F32, n), a.New("y", tensor.F32, n), a.New("z", tensor.F32, 2*n)
			for _, t := range []tensor.Tensor{x, y, z} {
				d.Zero(t)
			}
			c.add(d, a, x, y, z)
			err = d.Sync()
			if c.want == "" && err != nil || c.want != "" &&
				(err == nil || !regexp.MustCompile(c.want).MatchString(err.Error())) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if free, _, known := d.Free(); a.Size() != 5*4*n || d.Allocated() != 5*4*n || known && d.Capacity()-free != 5*4*n {
				t.Errorf("%d, %d and %d bytes", a.Size(), d.Allocated(), d.Capacity()-free)
			}
			a.Close()
			d.Close()
		})
	}
}
