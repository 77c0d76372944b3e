package cuda

/*
#include <stdlib.h>
#include "api.h"
#include "shim.h"

#cgo noescape cuda_open_driver
#cgo nocallback cuda_open_driver
#cgo noescape cuda_describe
#cgo nocallback cuda_describe
*/
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"unsafe"
)

// Properties describe a GPU.
type Properties struct {
	Name         string // as the driver reports it, "NVIDIA H200"; for a MIG slice it includes its size
	UUID         string // as nvidia-smi reports it, without the prefix "GPU-" or "MIG-"
	Major, Minor int    // compute capability: 9 and 0 for 9.0
	SMs          int    // streaming multiprocessors
	L2           int    // bytes of L2 cache
	Memory       int    // total bytes
	// Bandwidth is the peak memory bandwidth in bytes per second: two transfers per clock on each line. 0: the driver
	// does not report it.
	Bandwidth float64
	Driver    int // the newest CUDA that the driver supports: 13000 for 13.0
}

// HasBF16 reports whether the GPU computes in bfloat16.
func (p Properties) HasBF16() bool { return p.Major >= 8 }

// MaxShared returns the bytes of shared memory that a thread block may have. A multiprocessor has 1 KiB more, which is
// what each thread block takes in addition.
func (p Properties) MaxShared() int {
	switch {
	case p.Major < 8:
		return 64 << 10
	case p.Major == 8 && (p.Minor == 0 || p.Minor == 7):
		return 163 << 10
	case p.Major == 8 || p.Major > 11: // those without much memory bandwidth
		return 99 << 10
	}
	return 227 << 10
}

// A Candidate is a GPU that could be opened.
type Candidate struct {
	Properties
	Ordinal int // for Open
	Free    int // bytes of memory; 0 if the GPU cannot be opened
}

// Candidates lists the machine's GPUs, the one with the most free memory first, and GPUs with equal free memory in the
// order of their numbers. Without NVML, it opens each GPU for a moment to ask.
func Candidates() (list []Candidate, err error) {
	driver, err := openDriver(libcuda.paths(0))
	if err != nil {
		return nil, err
	}
	for n := 0; n == 0 || n < len(list); n++ {
		d, err := describe(driver, n)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			list = make([]Candidate, int(d.count))
		}
		list[n] = Candidate{properties(d), n, 0}
		list[n].Free = freeOf(list[n])
	}
	slices.SortStableFunc(list, func(a, b Candidate) int { return cmp.Compare(b.Free, a.Free) })
	return list, nil
}

func freeOf(c Candidate) int {
	if m, err := OpenMonitor(c.UUID); err == nil {
		if r := m.Read(); r.Free >= 0 {
			return r.Free
		}
	}
	g, err := Open(c.Ordinal)
	if err != nil {
		return 0
	}
	defer g.Close()
	free, _, _ := g.Free() // 0 after an error
	return free
}

// openDriver opens libcuda. GPUs are numbered by their place on the bus, as in nvidia-smi, and not by speed, unless the
// user has chosen another order.
func openDriver(paths []string) (driver C.uintptr_t, err error) {
	const order = "CUDA_DEVICE_ORDER"
	if _, set := os.LookupEnv(order); !set {
		if err := os.Setenv(order, "PCI_BUS_ID"); err != nil {
			return 0, err
		}
	}
	var version C.int // of a driver that lacks a function
	err = search(withoutDriver(root), paths, func(path string, message *C.char, size C.int) bool {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		driver = C.cuda_open_driver(p, &version, message, size)
		return driver != 0
	})
	if old := tooOld(int(version)); err != nil && old != nil {
		return 0, old
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoDriver, err)
	}
	return driver, nil
}

// describe returns a GPU's properties without opening it.
func describe(driver C.uintptr_t, ordinal int) (d C.cuda_device, err error) {
	s := C.cuda_describe(driver, C.int(ordinal), &d)
	if err := tooOld(int(d.driver)); err != nil {
		return d, err
	}
	return d, opened(s, ordinal, d)
}

// tooOld returns the error for a driver that supports only this version of CUDA, or nil if the version is new enough or
// unknown (0).
func tooOld(version int) error {
	if version == 0 || version/1000 >= oldestCUDA {
		return nil
	}
	return fmt.Errorf("NVIDIA's driver is too old: it knows CUDA %d.%d, and %d.0 is needed: update it to 525 or newer",
		version/1000, version%1000/10, oldestCUDA)
}

// opened returns the error for a GPU that could not be described or opened, or nil if it could.
func opened(s C.cuda_status, ordinal int, d C.cuda_device) error {
	if s.code == 0 {
		return nil
	}
	if d.count > 0 && (ordinal < 0 || ordinal >= int(d.count)) {
		return fmt.Errorf("GPU %d: this machine has %d, numbered from 0; CUDA_VISIBLE_DEVICES may choose others, and of "+
			"MIG slices a process has one", ordinal, int(d.count))
	}
	e := newError(fmt.Sprintf("open GPU %d", ordinal), s)
	e.opening = true
	switch {
	case e.Code == noDevice:
		e.Cure = withoutDevice(root, sliced())
	case e.Code == driverMismatch:
		e.Cure = mismatch(root)
	case d.mode == C.CU_COMPUTEMODE_PROHIBITED:
		e.Cure = "its compute mode is prohibited: an administrator allows computing with nvidia-smi -c DEFAULT"
	case d.mode == C.CU_COMPUTEMODE_EXCLUSIVE_PROCESS && e.Code == deviceUnavailable:
		e.Cure = cures[deviceUnavailable] + "; its compute mode is exclusive: an administrator lets several in with " +
			"nvidia-smi -c DEFAULT"
	case e.Code == outOfMemory:
		e.Cure = "other processes have its memory: wait until they end, or take another GPU; nvidia-smi lists them"
	}
	return e
}

func properties(d C.cuda_device) Properties {
	u := C.GoBytes(unsafe.Pointer(&d.uuid[0]), C.int(len(d.uuid)))
	return Properties{
		Name: C.GoString(&d.name[0]), UUID: fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]),
		Major: int(d.major), Minor: int(d.minor), SMs: int(d.multiprocessors), L2: int(d.l2), Memory: int(d.memory),
		Bandwidth: 2 * 1e3 * float64(d.memory_clock) * float64(d.bus) / 8, Driver: int(d.driver),
	}
}

// Ordinals returns the numbers of the GPUs, in ascending order.
func Ordinals() (list []int) {
	candidates, _ := Candidates() // opening one says why there is none
	for _, c := range candidates {
		list = append(list, c.Ordinal)
	}
	slices.Sort(list)
	return list
}
