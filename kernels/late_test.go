package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestGPU_WorkAtTheLastMoment has a GPU do queued work at the last permitted moment, and at once. Either way memory
// must be read back as it was written, even if it takes more pieces than there are slots, and operations must give the
// same results.
func TestGPU_WorkAtTheLastMoment(t *testing.T) {
	const rows, dim = 7, 64
	results := map[string][]byte{}
	for _, late := range []string{"0", "1"} {
		for _, own := range []bool{false, true} {
			kind := fmt.Sprint("own products ", own)
			t.Run("late "+late+" "+kind, func(t *testing.T) {
				cudatest.Set(t, "LATE="+late)
				d := Emulated(t, Options{Fused: All(), OwnProducts: own})
				a, err := d.NewArena("test", 40<<20)
				expect.OK(t, err)
				defer a.Close()
				moveBytes(t, d, a)
				x, y, w := a.New("x", tensor.F32, rows, dim), a.New("y", tensor.F32, rows, dim), a.New("w", tensor.F32, dim, dim)
				values := make([]float32, dim*dim)
				for i := range values {
					values[i] = float32(i%17) - 8
				}
				d.Upload(x, values[:rows*dim])
				d.Upload(w, values)
				values[0] = 1e6 // Upload has copied the values
				d.Linear(y, x, w, tensor.Tensor{})
				d.Add(x, x, y)
				graph := d.Capture(func() { d.Add(y, y, x) })
				defer graph.Close()
				graph.Launch()
				graph.Launch()
				d.Copy(x, y)
				d.Zero(y)
				got := readAll(t, d, x)
				if before := results[kind]; before != nil && !bytes.Equal(before, got) {
					t.Error("it computes something else than at once")
				}
				results[kind] = got
			})
		}
	}
}

// readAll returns a tensor's bytes.
func readAll(t *testing.T, d *Device, x tensor.Tensor) (all []byte) {
	t.Helper()
	if err := d.Read(x, func(piece []byte) error { all = append(all, piece...); return nil }); err != nil {
		t.Error(err)
	}
	return all
}

// moveBytes writes and reads back more than the pinned memory holds, with a last piece that is not full.
func moveBytes(t *testing.T, d *Device, a *Arena) {
	defer a.Release(a.Mark())
	x := a.New("x", tensor.U8, 10*cuda.ReadChunk+1001)
	want := make([]byte, x.Bytes())
	for i := range want {
		want[i] = byte(i>>17 ^ i) // no two pieces are alike
	}
	d.UploadBytes(x, want)
	got := readAll(t, d, x)
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes were read, not the %d that were stored", len(got), len(want))
	}
	clear(got)
	if err := d.DownloadBytes(got, x); err != nil || !bytes.Equal(got, want) {
		t.Errorf("downloaded: %v, the same %v", err, bytes.Equal(got, want))
	}
	// What is uploaded in the meantime uses other memory.
	y, at := a.New("y", tensor.U8, 8*cuda.ReadChunk), 0
	if err := d.Read(x, func(piece []byte) error {
		if at == 0 {
			d.UploadBytes(y, want[:y.Bytes()])
		}
		if !bytes.Equal(piece, want[at:][:len(piece)]) {
			t.Error("a piece has changed while it was looked at")
		}
		at += len(piece)
		return nil
	}); err != nil {
		t.Error(err)
	}
	enough, pieces := errors.New("enough"), 0
	if err := d.Read(x, func([]byte) error { pieces++; return enough }); err != enough || pieces != 1 || d.Err() != nil {
		t.Errorf("%v after %d pieces, and the device has %v", err, pieces, d.Err())
	}
}

// TestRead_SameOnEveryDevice checks that every device reads the same bytes, including a GPU without pinned memory.
func TestRead_SameOnEveryDevice(t *testing.T) {
	read := func(t *testing.T, d *Device) {
		a, err := d.NewArena("test", 40<<20)
		expect.OK(t, err)
		defer a.Close()
		moveBytes(t, d, a)
		if err := d.Read(a.New("nothing", tensor.F32, 0),
			func([]byte) error { t.Error("a piece of nothing"); return nil }); err != nil {
			t.Error(err)
		}
	}
	EachDevice(t, read)
	t.Run("nothing pinned", func(t *testing.T) {
		cudatest.Set(t, "PINS=0")
		read(t, Emulated(t, Options{}))
	})
}
