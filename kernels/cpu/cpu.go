// Package cpu holds the inner loops of the operations on the CPU, in C: each compiled for several instruction sets, of which
// the best that the machine has is chosen when the program runs. Package kernels says what each computes, and checks
// operands; here nothing is checked.
//
// No result depends on the number of threads. It may depend, in its last bits, on the level.
package cpu

/*
#cgo CFLAGS: -O3 -std=gnu11 -Wall
#cgo LDFLAGS: -lm -lpthread

#include "ops.h"

#cgo noescape cpu_set_threads
#cgo nocallback cpu_set_threads
#cgo nocallback cpu_set_level
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
		at: C.uintptr_t(m.Addr), rows: C.int64_t(m.Rows), cols: C.int64_t(m.Cols), stride: C.int64_t(m.Stride), _type: C.dtype(m.DType),
	}
}

// Level is an instruction set that inner loops are written for. Each has what the ones before it have, but for NEON, which
// is arm64's.
type Level int

// The levels, lowest first.
const (
	Portable   Level = iota // what the C compiler makes of plain loops
	NEON                    // arm64
	AVX2                    // with FMA and F16C
	AVX512                  // F, BW, DQ and VL
	AVX512BF16              // with dot products of bfloat16
	AMX                     // with tiles of bfloat16
)

var names = []string{"portable", "neon", "avx2", "avx512", "avx512bf16", "amx"}

// String is the level's name, as ParseLevel takes it.
func (l Level) String() string {
	if l < 0 || int(l) >= len(names) {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return names[l]
}

// ParseLevel is the level of that name; "" and "best" are the best that this machine has. It is an error to ask for what
// the machine does not have.
func ParseLevel(name string) (Level, error) {
	if name == "" || name == "best" {
		return Best(), nil
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
	return 0, fmt.Errorf("instruction set %q: this machine has %s", name, strings.Join(list, ", "))
}

// Best is the highest level that this machine, and its operating system, let a program use.
func Best() Level { return Level(C.cpu_best()) }

// Levels are those that this machine can run, lowest first.
func Levels() []Level {
	all := []Level{Portable}
	for l := NEON; l <= Best(); l++ {
		if l != NEON || Best() == NEON {
			all = append(all, l)
		}
	}
	return all
}

// Current is the level that operations use: Best, until SetLevel was called.
func Current() Level { return Level(C.cpu_level()) }

// SetLevel has all operations use a level from now on. It panics when the machine does not have it.
func SetLevel(l Level) {
	if C.cpu_set_level(C.int(l)) == 0 {
		panic(fmt.Sprintf("cpu: this machine does not have %v", l))
	}
}

// SetThreads has operations use n threads from now on, at least one. They share one pool.
func SetThreads(n int) error {
	if errno := C.cpu_set_threads(C.int(n)); errno != 0 {
		return fmt.Errorf("start %d threads: %w", n, syscall.Errno(errno))
	}
	return nil
}

// Threads is the number of threads that operations use.
func Threads() int { return int(C.cpu_threads()) }

// MaxNormPartials is the largest number that NormPartials gives.
const MaxNormPartials = C.MAX_NORM_PARTIALS
