// Package kernels holds every operation that a model is made of, forward and backward: one file each, with its formula,
// its shapes, its path on the CPU and its launch on a GPU; the CUDA source stands beside it under the same name.
//
// Operations are methods of a Device and work on tensors that lie in its arenas. What they have in common:
//
//   - Gradients of parameters accumulate (dw += …), so that a step may have several micro-batches. Gradients of
//     activations overwrite (dx = …), unless a name says Add.
//   - Activations and weights are all F32 or all BF16. Sums, norms' statistics, softmax, RoPE's angles and losses are
//     computed in float32 either way; a result is rounded once, when it is stored. Gradients of weights are F32.
//   - A wrong shape or type is a mistake of the program: the operation panics with its name and the operands.
//   - What goes wrong on a GPU sticks to the Device, and comes out of Sync, Download and Err.
//   - Where an operation joins several, its comment says which, and Options.Fused chooses whether it runs as one kernel or
//     as those, one after the other, with everything between them in memory.
//
// A Device, and what lies in its arenas, belongs to one goroutine at a time.
package kernels

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// Options are the choices that a Device is opened with. The zero value is a good one for everything but speed of training.
type Options struct {
	// Threads is how many threads operations on the CPU use. 0, the default: as many as GOMAXPROCS.
	Threads int
	// Level is the CPU's instruction set: portable, neon, avx2, avx512, avx512bf16, amx or best. Empty, the default: what the
	// environment variable RESTYLE_CPU says, or else the best that the machine has. Results differ in their last bits.
	Level string
	// Fused are the operations that run as one kernel where they have one. Default none: the baseline.
	Fused Fused
	// OwnProducts has matrix products on a GPU be restyle's own kernels, even where cuBLASLt is there. Default: cuBLASLt's.
	OwnProducts bool
	// Deterministic has ChooseProducts take cuBLASLt's first algorithm for every product, without timing any: which is the fastest may
	// turn out otherwise the next time. Either way a product has the same bits whenever the same algorithm computes it.
	Deterministic bool
	// NoBF16 says that nothing will be BF16, so that a GPU without it, which is one before Ampere, serves too.
	NoBF16 bool
	// Sync waits for every kernel, so that an error is that of the kernel it names, and times it: see Device.Profile. Slow.
	Sync bool
}

// A Device is where tensors lie and operations run: the CPU, or one GPU.
type Device struct {
	name    string
	opts    Options
	gpu     *gpu // nil on the CPU
	err     error
	counts  map[string]int
	moved   Transfers
	arenas  map[*Arena]bool
	profile map[string]*Timing // with Options.Sync
	next    work               // what the profile says of the next launch, beside the bytes of its arguments
	notes   []string

	scratchArenas []*Arena // scratch memory, see scratch.go
	scratchPeak   int
	// GuardScratch sets both: how scratch memory is cut, and what looks at it before it is released down to a mark.
	cutScratch func(a *Arena, name string, t tensor.DType, shape ...int) tensor.Tensor
	released   func(mark int)
}

// Name is the device's name, such as "cpu" or "cuda:0".
func (d *Device) Name() string { return d.name }

// IsCPU says whether tensors of this device lie in this process's memory.
func (d *Device) IsCPU() bool { return d.gpu == nil }

// SetFused changes which operations run as one kernel.
func (d *Device) SetFused(f Fused) { d.opts.Fused = f }

// Fused returns the operations that run as one kernel.
func (d *Device) Fused() Fused { return d.opts.Fused }

// fused says whether an operation runs as one kernel.
func (d *Device) fused(op string) bool { return d.opts.Fused[op] }

// ran counts one run of a kernel by its name. Tests ask afterwards what really ran.
func (d *Device) ran(kernel string) { d.counts[kernel]++ }

// Counts is how often each kernel ran since the last call: what proves that a fused one did.
func (d *Device) Counts() map[string]int {
	c := d.counts
	d.counts = map[string]int{}
	return c
}

// Transfers are how often the host gave a device something, and how often it waited for what comes back.
type Transfers struct{ Uploads, Waits int }

// Transfers counts those since the last call.
func (d *Device) Transfers() Transfers {
	t := d.moved
	d.moved = Transfers{}
	return t
}

// fail keeps the first error.
func (d *Device) fail(err error) {
	if d.err == nil && err != nil {
		d.err = err
	}
}

// Err is the first error of this device, nil when there was none. It does not wait for kernels that still run.
func (d *Device) Err() error {
	if d.gpu != nil {
		d.fail(d.gpu.Err())
	}
	return d.err
}

// Sync waits until everything that was started is done, and returns the first error of this device.
func (d *Device) Sync() error {
	d.moved.Waits++
	if d.gpu != nil {
		d.fail(d.gpu.Sync())
	}
	return d.err
}

// Close gives the device back. It is an error, and a leak, when arenas are still open: it names them.
func (d *Device) Close() error {
	d.fail(d.closeScratch())
	if d.gpu != nil {
		d.fail(d.gpu.blas.close())
		d.fail(d.gpu.room.Close())
	}
	var open []error
	for a := range d.arenas {
		open = append(open, fmt.Errorf("arena %s is still open", a.name))
	}
	if d.gpu != nil {
		d.fail(d.gpu.Close())
	}
	return errors.Join(append(open, d.err)...)
}

// Upload stores values in a tensor of type F32, BF16 or F16, rounded to its type. There must be one for each element.
func (d *Device) Upload(dst tensor.Tensor, src []float32) {
	if len(src) != dst.Len() {
		panic(fmt.Sprintf("upload: %d values for %v", len(src), dst))
	}
	if len(src) == 0 {
		return
	}
	if dst.DType == tensor.F32 {
		d.UploadBytes(dst, unsafe.Slice((*byte)(unsafe.Pointer(&src[0])), 4*len(src)))
		return
	}
	if d.gpu == nil {
		d.moved.Uploads++
		round(dst.Half(), src, dst.DType)
		return
	}
	half := make([]uint16, len(src))
	round(half, src, dst.DType)
	d.UploadBytes(dst, unsafe.Slice((*byte)(unsafe.Pointer(&half[0])), 2*len(half)))
}

func round(dst []uint16, src []float32, t tensor.DType) {
	f := tensor.BF16FromF32
	if t == tensor.F16 {
		f = tensor.F16FromF32
	}
	for i, x := range src {
		dst[i] = f(x)
	}
}

// UploadBytes stores bytes in a tensor as they are. There must be as many as it has.
func (d *Device) UploadBytes(dst tensor.Tensor, src []byte) {
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("upload: %d bytes for %v", len(src), dst))
	}
	if len(src) == 0 {
		return
	}
	d.moved.Uploads++
	if d.gpu == nil {
		copy(dst.Raw(), src)
		return
	}
	d.fail(d.gpu.Upload(dst.Addr, src))
}

// UploadI32 stores integers in an I32 tensor.
func (d *Device) UploadI32(dst tensor.Tensor, src []int32) {
	if dst.DType != tensor.I32 {
		panic(fmt.Sprintf("upload: integers for %v", dst))
	}
	if len(src) == 0 && dst.Len() == 0 {
		return
	}
	d.UploadBytes(dst, unsafe.Slice((*byte)(unsafe.Pointer(&src[0])), 4*len(src)))
}

// Download waits for what was started and reads a tensor of type F32, BF16 or F16 into dst, which has its length. It
// returns the device's first error.
func (d *Device) Download(dst []float32, src tensor.Tensor) error {
	if len(dst) != src.Len() {
		panic(fmt.Sprintf("download: %v into %d values", src, len(dst)))
	}
	if len(dst) == 0 {
		return d.Sync()
	}
	if src.DType == tensor.F32 {
		return d.DownloadBytes(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 4*len(dst)), src)
	}
	half := make([]uint16, len(dst))
	err := d.DownloadBytes(unsafe.Slice((*byte)(unsafe.Pointer(&half[0])), 2*len(half)), src)
	f := tensor.BF16ToF32
	if src.DType == tensor.F16 {
		f = tensor.F16ToF32
	}
	for i, h := range half {
		dst[i] = f(h)
	}
	return err
}

// DownloadBytes waits for what was started and reads a tensor's bytes as they are. It returns the device's first error.
func (d *Device) DownloadBytes(dst []byte, src tensor.Tensor) error {
	if len(dst) != src.Bytes() {
		panic(fmt.Sprintf("download: %v into %d bytes", src, len(dst)))
	}
	d.moved.Waits++
	if d.gpu == nil {
		copy(dst, src.Raw())
		return d.err
	}
	if d.err == nil && len(dst) > 0 {
		d.fail(d.gpu.Download(dst, src.Addr))
	}
	return d.err
}

// Read waits for what was started and calls f with a tensor's bytes as they are, a piece of whole elements at a time, each good until f
// returns. From a GPU, one piece is on its way while f works on another. f's first error ends it, and so does the device's.
func (d *Device) Read(src tensor.Tensor, f func(piece []byte) error) error {
	d.moved.Waits++
	switch {
	case d.err != nil || src.Len() == 0:
		return d.err
	case d.gpu == nil:
		for piece := range slices.Chunk(src.Raw(), cuda.ReadChunk) {
			if err := f(piece); err != nil {
				return err
			}
		}
		return nil
	}
	err := d.gpu.Read(src.Addr, src.Bytes(), f)
	d.fail(d.gpu.Err())
	return err
}

// Floats is a tensor's values, read as Download does. It is for tests and small results.
func (d *Device) Floats(src tensor.Tensor) ([]float32, error) {
	dst := make([]float32, src.Len())
	err := d.Download(dst, src)
	return dst, err
}

// Zero sets all bytes of a tensor to zero.
func (d *Device) Zero(x tensor.Tensor) {
	if d.gpu == nil {
		clear(x.Raw())
		return
	}
	d.fail(d.gpu.Fill(x.Addr, 0, x.Bytes()))
}

// Copy copies a tensor to another of the same type and length.
func (d *Device) Copy(dst, src tensor.Tensor) {
	if dst.DType != src.DType || dst.Len() != src.Len() {
		panic(fmt.Sprintf("copy: %v into %v", src, dst))
	}
	if d.gpu == nil {
		copy(dst.Raw(), src.Raw())
		return
	}
	d.fail(d.gpu.Copy(dst.Addr, src.Addr, src.Bytes()))
}

// Level is the instruction set that operations on the CPU use, as Options.Level names it, and "" on a GPU.
func (d *Device) Level() string {
	if d.gpu != nil {
		return ""
	}
	return cpu.Current().String()
}

// Model is a GPU's name as its driver gives it, such as "NVIDIA H200", and "" on the CPU.
func (d *Device) Model() string {
	if d.gpu == nil {
		return ""
	}
	return d.gpu.Properties.Name
}

// Allocated is how many bytes of memory the device's open arenas take, its scratch memory among them.
func (d *Device) Allocated() (bytes int) {
	for a := range d.arenas {
		bytes += a.size
	}
	return bytes
}
