// Package cpu holds the inner loops of the operations on the CPU, in C. Each is compiled for several instruction sets;
// the program chooses the fastest that the machine has when it runs. Package kernels says what each operation computes,
// and checks its operands; package cpu checks nothing.
//
// No result depends on the number of threads. It may depend, in its last bits, on the level.
//
// The C code is compiled with line numbers for profilers and backtraces (-g1). Full debugging information (-g) would
// take two thirds longer to compile.
package cpu

/*
#cgo CFLAGS: -O3 -std=gnu11 -Wall -g1
#cgo LDFLAGS: -lm -lpthread

#include "ops.h"

#cgo noescape cpu_set_threads
#cgo nocallback cpu_set_threads
#cgo nocallback cpu_set_level
#cgo nocallback cpu_use_byte_dots
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"restyle/tensor"
)

//go:generate go run restyle/internal/bindings

func c(m tensor.Matrix) C.matrix {
	return C.matrix{
		at: C.uintptr_t(m.Addr), rows: C.int64_t(m.Rows), cols: C.int64_t(m.Cols), stride: C.int64_t(m.Stride),
		_type: C.dtype(m.DType),
	}
}

// Level is an instruction set for which the inner loops are compiled. Each includes the ones before it, except NEON,
// which is arm64's.
type Level int

// The levels, in ascending order.
const (
	Portable   Level = iota // what the C compiler makes of plain loops
	NEON                    // arm64
	AVX2                    // with FMA and F16C
	AVX512                  // F, BW, DQ and VL; VNNI if the machine has it
	AVX512BF16              // with dot products of bfloat16 and of bytes
	AMX                     // with tiles of bfloat16 and of bytes
)

var names = []string{"portable", "neon", "avx2", "avx512", "avx512bf16", "amx"}

// String returns the level's name, as ParseLevel takes it.
func (l Level) String() string {
	if l < 0 || int(l) >= len(names) {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return names[l]
}

// ParseLevel returns the level with a name; "" and "best" are the fastest level of this machine. It is an error if the
// machine does not have the level.
func ParseLevel(name string) (Level, error) {
	if name == "" || name == "best" {
		return Fastest(), nil
	}
	have := Levels()
	l := Level(slices.Index(names, name))
	if slices.Contains(have, l) {
		return l, nil
	}
	var list []string
	for _, h := range have {
		list = append(list, h.String())
	}
	return 0, fmt.Errorf("instruction set %q: use one that this machine has: %s", name, strings.Join(list, ", "))
}

// Best returns the highest level that this machine and its operating system support.
func Best() Level { return Level(C.cpu_best()) }

// Fastest returns the level that is the fastest on this machine: Best, or AVX512 if Best is AVX512BF16 with dot
// products that are slower than multiply-adds, which the first call times. Intel's processors that have AMX, whether or
// not this program can see it, compute dot products of bfloat16 at half the rate of float32, AMD's processors at twice
// the rate.
func Fastest() Level { return Level(C.cpu_fastest()) }

// Levels returns the levels that this machine supports, in ascending order.
func Levels() []Level {
	all := []Level{Portable}
	for l := NEON; l <= Best(); l++ {
		if l != NEON || Best() == NEON {
			all = append(all, l)
		}
	}
	return all
}

// Current returns the level that operations use: Fastest, until SetLevel is called.
func Current() Level { return Level(C.cpu_level()) }

// SetLevel sets the level of all operations. It panics if the machine does not support it.
func SetLevel(l Level) {
	if C.cpu_set_level(C.int(l)) == 0 {
		panic(fmt.Sprintf("cpu: this machine does not have %v", l))
	}
}

// UseByteDots sets whether products of INT8 use dot products of bytes (VNNI) at the level AVX512, on machines that have
// them. By default they do. Results are the same either way.
func UseByteDots(use bool) {
	n := C.int(0)
	if use {
		n = 1
	}
	C.cpu_use_byte_dots(n)
}

// SetThreads sets the number of threads that operations use, at least one. All operations share one pool.
func SetThreads(n int) error {
	if errno := C.cpu_set_threads(C.int(n)); errno != 0 {
		return fmt.Errorf("start %d threads: %w", n, syscall.Errno(errno))
	}
	return nil
}

// Threads returns the number of threads that operations use.
func Threads() int { return int(C.cpu_threads()) }

// MaxNormPartials is the maximum of NormPartials.
const MaxNormPartials = C.MAX_NORM_PARTIALS
