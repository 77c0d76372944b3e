// Package blas multiplies matrices with OpenBLAS or Intel's MKL, as a baseline for benchmarks. It opens the library at
// run time; no command imports this package.
package blas

/*
#cgo LDFLAGS: -ldl

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// The interface with integers of 32 and of 64 bits: row-major, alpha 1, beta 0.
typedef void sgemm32(int order, int trans_a, int trans_b, int32_t m, int32_t n, int32_t k, float alpha, const float *a,
	int32_t lda, const float *b, int32_t ldb, float beta, float *c, int32_t ldc);
typedef void sgemm64(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
	int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

static void multiply(void *f, int wide, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
	uintptr_t a, uintptr_t b, uintptr_t c) {
	int64_t lda = trans_a ? m : k, ldb = trans_b ? k : n;
	int ta = trans_a ? TRANSPOSED : AS_IT_IS, tb = trans_b ? TRANSPOSED : AS_IT_IS;
	const float *x = (const float *)a, *y = (const float *)b;
	if (wide) ((sgemm64 *)f)(ROW_MAJOR, ta, tb, m, n, k, 1, x, lda, y, ldb, 0, (float *)c, n);
	else ((sgemm32 *)f)(ROW_MAJOR, ta, tb, (int32_t)m, (int32_t)n, (int32_t)k, 1, x, (int32_t)lda, y, (int32_t)ldb, 0,
		(float *)c, (int32_t)n);
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"unsafe"
)

// A Library is an open library of matrix products.
type Library struct {
	sgemm unsafe.Pointer
	wide  C.int // its integers have 64 bits
}

// symbols are the names of sgemm, and whether its integers have 64 bits: as they are usually, and in the OpenBLAS that
// comes with numpy.
var symbols = []struct {
	name string
	wide C.int
}{{"cblas_sgemm", 0}, {"scipy_cblas_sgemm64_", 1}, {"scipy_cblas_sgemm", 0}, {"cblas_sgemm64_", 1}}

// Open opens the library in a file, such as libopenblas.so or libmkl_rt.so, to run on that many threads. It cannot be
// closed.
func Open(file string, threads int) (*Library, error) {
	for _, name := range []string{"MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"} {
		if err := os.Setenv(name, strconv.Itoa(threads)); err != nil {
			return nil, err
		}
	}
	path := C.CString(file)
	defer C.free(unsafe.Pointer(path))
	handle := C.dlopen(path, C.RTLD_NOW|C.RTLD_GLOBAL) // MKL's parts look for symbols in its first
	if handle == nil {
		return nil, fmt.Errorf("%s", C.GoString(C.dlerror()))
	}
	for _, s := range symbols {
		name := C.CString(s.name)
		f := C.dlsym(handle, name)
		C.free(unsafe.Pointer(name))
		if f != nil {
			return &Library{f, s.wide}, nil
		}
	}
	return nil, fmt.Errorf("%s has no cblas_sgemm", file)
}

// Multiply computes C = A·B in float32, where A is [m, k], B is [k, n] and C is [m, n], all without gaps between rows,
// at the addresses a, b and c. With transA, A is stored as [k, m], with transB B as [n, k].
func (l *Library) Multiply(m, n, k int, a uintptr, transA bool, b uintptr, transB bool, c uintptr) {
	C.multiply(l.sgemm, l.wide, flag(transA), flag(transB), C.int64_t(m), C.int64_t(n), C.int64_t(k), C.uintptr_t(a),
		C.uintptr_t(b), C.uintptr_t(c))
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
