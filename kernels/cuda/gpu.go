package cuda

/*
#include <stdlib.h>
#include "shim.h"

#cgo noescape cuda_open
#cgo nocallback cuda_open
#cgo nocallback cuda_close
#cgo noescape cuda_memory
#cgo nocallback cuda_memory
#cgo noescape cuda_alloc
#cgo nocallback cuda_alloc
#cgo nocallback cuda_free
#cgo nocallback cuda_guards
#cgo nocallback cuda_belongs
#cgo noescape cuda_upload
#cgo nocallback cuda_upload
#cgo noescape cuda_download
#cgo nocallback cuda_download
#cgo nocallback cuda_read_chunk
#cgo nocallback cuda_fetch
#cgo nocallback cuda_fetched
#cgo nocallback cuda_start_download
#cgo noescape cuda_finish_download
#cgo nocallback cuda_finish_download
#cgo nocallback cuda_copy
#cgo nocallback cuda_fill
#cgo nocallback cuda_sync
#cgo nocallback cuda_tick
#cgo noescape cuda_ticked
#cgo nocallback cuda_ticked
#cgo noescape cuda_mark
#cgo nocallback cuda_mark
#cgo noescape cuda_between
#cgo nocallback cuda_between
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A GPU is an NVIDIA GPU that this process has opened.
type GPU struct {
	Properties
	handle   C.uintptr_t
	guards   bool
	reading  sync.Mutex
	failed   atomic.Pointer[error]    // the first error
	last     atomic.Pointer[Function] // the last kernel launched, for the text of errors that surface later
	early    bool                     // kernels may start early: the GPU and the driver can, and did not refuse
	captures bool                     // a graph is being captured
	ticks    atomic.Int64             // ticks queued
	ticking  sync.Mutex               // Ticks is reading; held only for a moment
}

// Open opens the GPU with a number, from 0. The numbers are nvidia-smi's, unless CUDA_DEVICE_ORDER or
// CUDA_VISIBLE_DEVICES changes them. The error says what to do.
func Open(ordinal int) (*GPU, error) { return open(libcuda.paths(0), ordinal) }

func open(paths []string, ordinal int) (*GPU, error) {
	driver, err := openDriver(paths)
	if err != nil {
		return nil, err
	}
	return use(driver, ordinal)
}

// use opens a driver's GPU.
func use(driver C.uintptr_t, ordinal int) (*GPU, error) {
	d, err := describe(driver, ordinal)
	if err != nil {
		return nil, err
	}
	if err := opened(C.cuda_open(driver, C.int(ordinal), &d), ordinal, d); err != nil {
		return nil, err
	}
	const withEarly = 12030 // the first CUDA whose graphs support programmatic dependent launch
	p := properties(d)
	return &GPU{handle: d.gpu, guards: C.cuda_guards(d.gpu) != 0, Properties: p,
		early: p.Major >= 9 && p.Driver >= withEarly}, nil
}

var errClosed = errors.New("GPU: it is closed")

// Close closes the GPU and frees all its memory and modules, which must not be used any more. Closing twice does
// nothing. After an error Close returns nil: it could only repeat that error.
func (g *GPU) Close() error {
	g.ticking.Lock() // Ticks sees from then on that it is closed
	old := g.failed.Swap(&errClosed)
	g.ticking.Unlock()
	if old == &errClosed {
		return nil
	}
	if s := C.cuda_close(g.handle); s.code != 0 && old == nil {
		return newError("close GPU", s)
	}
	return nil
}

// Err returns the first error, or nil. It does not wait.
func (g *GPU) Err() error {
	if e := g.failed.Load(); e != nil {
		return *e
	}
	return nil
}

// fail makes an error stick, and returns the first error. It formats the text only here, where something failed.
func (g *GPU) fail(s C.cuda_status, format string, args ...any) error {
	var err error = newError(fmt.Sprintf(format, args...), s)
	g.failed.CompareAndSwap(nil, &err)
	return g.Err()
}

// Free returns the available and the total memory in bytes.
func (g *GPU) Free() (available, total int, err error) {
	if err := g.Err(); err != nil {
		return 0, 0, err
	}
	var a, t C.uint64_t
	if s := C.cuda_memory(g.handle, &a, &t); s.code != 0 {
		return 0, 0, g.fail(s, "ask for the memory left")
	}
	return int(a), int(t), nil
}

// Alloc allocates GPU memory at an address that is a multiple of 256. Its contents are undefined.
func (g *GPU) Alloc(bytes int) (uintptr, error) {
	if err := g.Err(); err != nil {
		return 0, err
	}
	var p C.uint64_t
	s := C.cuda_alloc(g.handle, C.uint64_t(bytes), &p)
	if s.code == outOfMemory {
		return 0, newError(fmt.Sprintf("allocate %d bytes", bytes), s)
	}
	if s.code != 0 {
		return 0, g.fail(s, "allocate %d bytes", bytes)
	}
	return uintptr(p), nil
}

// Release frees memory from Alloc. It waits for kernels that still use it.
func (g *GPU) Release(addr uintptr) error {
	if err := g.Err(); err != nil {
		return err
	}
	if s := C.cuda_free(g.handle, C.uint64_t(addr)); s.code != 0 {
		return g.fail(s, "free memory at %#x%v", addr, g.after())
	}
	return nil
}

// Guards reports whether the GPU detects accesses to memory that belongs to nothing, as told by Belongs. The emulated
// GPU does.
func (g *GPU) Guards() bool { return g.guards }

// Belongs tells a GPU that Guards whether part of an allocation belongs to something. Initially all of it does. What
// starts to belong to something counts as unwritten.
func (g *GPU) Belongs(addr uintptr, bytes int, toSomething bool) {
	if g.Err() == nil {
		C.cuda_belongs(g.handle, C.uint64_t(addr), C.uint64_t(bytes), flag(toSomething))
	}
}

// Upload queues a copy from this process's memory. It has read all of from when it returns.
func (g *GPU) Upload(to uintptr, from []byte) error {
	if err := g.Err(); err != nil || len(from) == 0 {
		return err
	}
	if s := C.cuda_upload(g.handle, C.uint64_t(to), unsafe.Pointer(&from[0]), C.uint64_t(len(from))); s.code != 0 {
		return g.fail(s, "copy %d bytes to %#x%v", len(from), to, g.after())
	}
	return nil
}

// Download waits for all queued work and copies to this process's memory.
func (g *GPU) Download(to []byte, from uintptr) error {
	if err := g.Err(); err != nil || len(to) == 0 {
		return err
	}
	if s := C.cuda_download(g.handle, unsafe.Pointer(&to[0]), C.uint64_t(from), C.uint64_t(len(to))); s.code != 0 {
		return g.fail(s, "copy %d bytes from %#x%v", len(to), from, g.after())
	}
	return g.Err()
}

// Read waits for all queued work and calls f with the bytes from an address on, at most ReadChunk bytes at a time. A
// chunk is valid until f returns. The next chunk is on its way while f works. Read stops at f's first error. f must not
// call Read.
func (g *GPU) Read(from uintptr, bytes int, f func(chunk []byte) error) error {
	if err := g.Err(); err != nil {
		return err
	}
	g.reading.Lock()
	defer g.reading.Unlock()
	if C.cuda_read_chunk(g.handle, 0) == nil {
		return g.readUnpinned(from, bytes, f)
	}
	fetch := func(at int) error {
		if at >= bytes {
			return nil
		}
		if err := g.Err(); err != nil {
			return err
		}
		chunk, n := C.int(at/ReadChunk%C.CUDA_READ_CHUNKS), min(ReadChunk, bytes-at)
		if s := C.cuda_fetch(g.handle, chunk, C.uint64_t(from)+C.uint64_t(at), C.uint64_t(n)); s.code != 0 {
			return g.fail(s, "copy %d bytes from %#x%v", n, from+uintptr(at), g.after())
		}
		return nil
	}
	if err := fetch(0); err != nil {
		return err
	}
	for at := 0; at < bytes; at += ReadChunk {
		if err := fetch(at + ReadChunk); err != nil {
			return err
		}
		chunk := C.int(at / ReadChunk % C.CUDA_READ_CHUNKS)
		if s := C.cuda_fetched(g.handle, chunk); s.code != 0 {
			return g.fail(s, "wait for a copy from %#x%v", from+uintptr(at), g.after())
		}
		if err := f(unsafe.Slice((*byte)(C.cuda_read_chunk(g.handle, chunk)), min(ReadChunk, bytes-at))); err != nil {
			return err
		}
	}
	return g.Err()
}

// ReadChunk is the maximum number of bytes that Read passes at a time.
const ReadChunk = C.CUDA_READ_CHUNK

// readUnpinned is Read without pinned memory.
func (g *GPU) readUnpinned(from uintptr, bytes int, f func(chunk []byte) error) error {
	buffer := make([]byte, min(ReadChunk, bytes))
	for at := 0; at < bytes; at += ReadChunk {
		chunk := buffer[:min(ReadChunk, bytes-at)]
		if err := g.Download(chunk, from+uintptr(at)); err != nil {
			return err
		}
		if err := f(chunk); err != nil {
			return err
		}
	}
	return g.Err()
}

// StartDownload queues a copy of up to 64 bytes to host memory, for FinishDownload.
func (g *GPU) StartDownload(from uintptr, bytes int) {
	if g.failed.Load() != nil {
		return
	}
	if bytes > C.CUDA_DOWNLOAD_BYTES {
		panic(fmt.Sprintf("download %d bytes: must be at most %d", bytes, C.CUDA_DOWNLOAD_BYTES))
	}
	if s := C.cuda_start_download(g.handle, C.uint64_t(from), C.uint64_t(bytes)); s.code != 0 {
		g.fail(s, "download %d bytes from %#x%v", bytes, from, g.after())
	}
}

// FinishDownload waits for the last StartDownload, but not for anything queued after it, and stores the bytes in to.
func (g *GPU) FinishDownload(to []byte) error {
	if err := g.Err(); err != nil {
		return err
	}
	if s := C.cuda_finish_download(g.handle, unsafe.Pointer(&to[0]), C.uint64_t(len(to))); s.code != 0 {
		return g.fail(s, "finish the download of %d bytes%v", len(to), g.after())
	}
	return g.Err()
}

// Copy queues a copy within the GPU's memory.
func (g *GPU) Copy(to, from uintptr, bytes int) error {
	if err := g.Err(); err != nil || bytes == 0 {
		return err
	}
	if s := C.cuda_copy(g.handle, C.uint64_t(to), C.uint64_t(from), C.uint64_t(bytes)); s.code != 0 {
		return g.fail(s, "copy %d bytes from %#x to %#x%v", bytes, from, to, g.after())
	}
	return nil
}

// Fill queues setting every byte to a value.
func (g *GPU) Fill(addr uintptr, value byte, bytes int) error {
	if err := g.Err(); err != nil || bytes == 0 {
		return err
	}
	if s := C.cuda_fill(g.handle, C.uint64_t(addr), C.uint8_t(value), C.uint64_t(bytes)); s.code != 0 {
		return g.fail(s, "fill %d bytes at %#x%v", bytes, addr, g.after())
	}
	return nil
}

// Sync waits for all queued work, and returns the first error.
func (g *GPU) Sync() error {
	if err := g.Err(); err != nil {
		return err
	}
	if s := C.cuda_sync(g.handle); s.code != 0 {
		return g.fail(s, "wait%v", g.after())
	}
	return g.Err()
}

// Tick queues one more tick. It must not be called while a graph is captured.
func (g *GPU) Tick() {
	if g.captures {
		panic("GPU: a tick in a graph")
	}
	if g.failed.Load() != nil {
		return
	}
	if s := C.cuda_tick(g.handle, C.uint32_t(g.ticks.Add(1))); s.code != 0 {
		g.fail(s, "queue a tick%v", g.after())
	}
}

// Ticks returns how many ticks the GPU has executed, without waiting. Any goroutine may call it. On a system without
// pinned memory it returns how many are queued. On a closed GPU it returns 0.
func (g *GPU) Ticks() int64 {
	g.ticking.Lock()
	defer g.ticking.Unlock()
	if g.failed.Load() == &errClosed {
		return 0
	}
	var last C.uint32_t // the low bits of the last tick
	known := C.cuda_ticked(g.handle, &last) != 0
	queued := g.ticks.Load() // after it, so that it is not fewer
	if !known {
		return queued
	}
	return queued - int64(uint32(queued)-uint32(last))
}

// after names the last kernel launched, for an error: a fault surfaces in a later call than the one that caused it.
func (g *GPU) after() string {
	if f := g.last.Load(); f != nil {
		return ", at or before kernel " + f.name
	}
	return ""
}

// Time queues what f queues and returns the time that it took on the GPU, without the work queued before it.
func (g *GPU) Time(f func()) (time.Duration, error) {
	if err := g.Err(); err != nil {
		return 0, err
	}
	var from, to C.uintptr_t
	if s := C.cuda_mark(g.handle, &from); s.code != 0 {
		return 0, g.fail(s, "time%v", g.after())
	}
	f()
	if err := g.Err(); err != nil {
		return 0, err
	}
	if s := C.cuda_mark(g.handle, &to); s.code != 0 {
		return 0, g.fail(s, "time%v", g.after())
	}
	var ms C.float
	if s := C.cuda_between(g.handle, from, to, &ms); s.code != 0 {
		return 0, g.fail(s, "time%v", g.after())
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}
