package kernels

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// Options configure a Device. The zero value is a good choice for everything but training speed.
type Options struct {
	// Threads is the number of threads for operations on the CPU. 0, the default: GOMAXPROCS.
	Threads int
	// Level is the CPU's instruction set: portable, neon, avx2, avx512, avx512bf16, amx or best, the fastest that the
	// machine has. Empty, the default: the value of the environment variable RESTYLE_CPU, or else best. Results differ
	// in their last bits.
	Level string
	// Fused is the set of operations that run as one kernel. Default: none, the baseline.
	Fused Fused
	// OwnProducts makes restyle's own kernels multiply matrices on a GPU, even if cuBLASLt is installed. Default:
	// cuBLASLt.
	OwnProducts bool
	// Deterministic makes ChooseProducts take cuBLASLt's first algorithm for every product without timing any, because
	// another algorithm may be the fastest next time. Either way, the same algorithm gives a product the same bits every
	// time.
	Deterministic bool
	// NoBF16 promises that nothing will be BF16, so that a GPU older than Ampere, which has no BF16, can be used.
	NoBF16 bool
	// Sync times every kernel: see Device.Profile. On a GPU it waits for each kernel, so an error belongs to the kernel
	// that it names, and everything is slower.
	Sync bool
}

// A Device is where tensors are stored and operations run: the CPU, or one GPU.
type Device struct {
	name            string
	opts            Options
	gpu             *gpu // nil on the CPU
	err             error
	counts          map[string]int
	moved           Transfers
	arenas          map[*Arena]bool
	profile         map[string]*Timing // with Options.Sync
	running         *Timing            // the operation that the CPU computes, with Options.Sync
	began           time.Time          // when it started
	next            work               // what the profile records for the next launch, apart from its arguments' bytes
	notes           []string
	int8Activations bool          // see SetINT8Activations
	rowsAlone       bool          // see SetRowsAlone
	prefetch        tensor.Tensor // what the next matvec prefetches
	downloaded      [64]byte      // on the CPU, see StartDownload
	ticks           atomic.Int64  // on the CPU

	scratchArenas []*Arena // scratch memory, see scratch.go
	scratchPeak   int
	scratchMoves  int
	// GuardScratch sets both: how scratch memory is allocated, and what checks it before it is released down to a mark.
	cutScratch func(a *Arena, name string, t tensor.DType, shape ...int) tensor.Tensor
	released   func(mark int)
}

// Name returns the device's name, such as "cpu" or "cuda:0".
func (d *Device) Name() string { return d.name }

// IsCPU reports whether this device's tensors are in this process's memory.
func (d *Device) IsCPU() bool { return d.gpu == nil }

// SetFused sets the operations that run as one kernel.
func (d *Device) SetFused(f Fused) { d.opts.Fused = f }

// Fused returns the operations that run as one kernel.
func (d *Device) Fused() Fused { return d.opts.Fused }

// fused reports whether an operation runs as one kernel.
func (d *Device) fused(op string) bool { return d.opts.Fused[op] }

// ran counts a run of a kernel under its name, so that tests can check what really ran.
func (d *Device) ran(kernel string) {
	d.counts[kernel]++
	if d.opts.Sync && d.gpu == nil {
		d.stopTiming()
		d.running, d.began = d.counted(kernel, work{}), time.Now()
	}
}

// Counts returns how often each kernel has run since the last call. It proves that a fused kernel did run.
func (d *Device) Counts() map[string]int {
	c := d.counts
	d.counts = map[string]int{}
	return c
}

// Transfers counts how often the host sent data to a device, and how often it waited for data to come back.
type Transfers struct{ Uploads, Waits int }

// Transfers returns the transfers since the last call.
func (d *Device) Transfers() Transfers {
	t := d.moved
	d.moved = Transfers{}
	return t
}

// fail records the first error.
func (d *Device) fail(err error) {
	if d.err == nil && err != nil {
		d.err = err
	}
}

// Err returns the device's first error, or nil. It does not wait for kernels that are still running.
func (d *Device) Err() error {
	if d.gpu != nil {
		d.fail(d.gpu.Err())
	}
	return d.err
}

// Sync waits until all queued work is done, and returns the device's first error.
func (d *Device) Sync() error {
	d.moved.Waits++
	d.stopTiming()
	if d.gpu != nil {
		d.fail(d.gpu.Sync())
	}
	return d.err
}

// Tick queues one more tick. A GPU that hangs executes none, although the host may have queued work for a long time:
// Ticks shows this. Graphs have no ticks.
func (d *Device) Tick() {
	if d.gpu != nil {
		d.gpu.Tick()
		return
	}
	d.ticks.Add(1)
}

// Ticks returns how many ticks have been executed, without waiting. Unlike other methods, any goroutine may call it at
// any time. On a closed GPU it returns 0.
func (d *Device) Ticks() int64 {
	if d.gpu != nil {
		return d.gpu.Ticks()
	}
	return d.ticks.Load()
}

// Close closes the device. It is an error, and a leak, if arenas are still open; the error names them.
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

// Upload stores values in an F32, BF16 or F16 tensor, rounded to its type. There must be one per element.
func (d *Device) Upload(dst tensor.Tensor, src []float32) {
	if len(src) != dst.Len() {
		panic(fmt.Sprintf("upload: %d values for %v: must be one per element", len(src), dst))
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

// UploadBytes stores bytes in a tensor as they are. There must be as many as the tensor has.
func (d *Device) UploadBytes(dst tensor.Tensor, src []byte) {
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("upload: %d bytes for %v: must be as many as the tensor has", len(src), dst))
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

// UploadI32 stores integers in an I32 tensor, one per element.
func (d *Device) UploadI32(dst tensor.Tensor, src []int32) {
	if dst.DType != tensor.I32 {
		panic(fmt.Sprintf("upload: integers for %v: must be I32", dst))
	}
	if len(src) == 0 && dst.Len() == 0 {
		return
	}
	d.UploadBytes(dst, unsafe.Slice((*byte)(unsafe.Pointer(&src[0])), 4*len(src)))
}

// Download waits for all queued work and reads an F32, BF16 or F16 tensor into dst, which must have its length. It
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

// DownloadBytes waits for all queued work and reads a tensor's bytes as they are. It returns the device's first error.
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

// Read waits for all queued work and calls f with a tensor's bytes, one chunk of whole elements at a time. A chunk is
// valid until f returns. From a GPU, the next chunk is on its way while f works. Read stops at f's first error or the
// device's, and returns it.
func (d *Device) Read(src tensor.Tensor, f func(chunk []byte) error) error {
	d.moved.Waits++
	switch {
	case d.err != nil || src.Len() == 0:
		return d.err
	case d.gpu == nil:
		for chunk := range slices.Chunk(src.Raw(), cuda.ReadChunk) {
			if err := f(chunk); err != nil {
				return err
			}
		}
		return nil
	}
	err := d.gpu.Read(src.Addr, src.Bytes(), f)
	d.fail(d.gpu.Err())
	return err
}

// Floats returns a tensor's values, read as Download does. It is for tests and small results.
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

// Copy copies src to dst, a tensor of the same type and length.
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

// Level returns the instruction set of operations on the CPU, as Options.Level names it, and "" on a GPU.
func (d *Device) Level() string {
	if d.gpu != nil {
		return ""
	}
	return cpu.Current().String()
}

// Model returns a GPU's name as its driver gives it, such as "NVIDIA H200", and "" on the CPU.
func (d *Device) Model() string {
	if d.gpu == nil {
		return ""
	}
	return d.gpu.Properties.Name
}

// Allocated returns the bytes of memory in the device's open arenas, including its scratch memory.
func (d *Device) Allocated() (bytes int) {
	for a := range d.arenas {
		bytes += a.size
	}
	return bytes
}
