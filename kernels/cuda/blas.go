package cuda

/*
#include <stdlib.h>
#include "blas.h"
#include "shim.h"

#cgo noescape cuda_open_blas
#cgo nocallback cuda_open_blas
#cgo noescape cuda_blas_start
#cgo nocallback cuda_blas_start
#cgo nocallback cuda_blas_stop
#cgo noescape cuda_plan
#cgo nocallback cuda_plan
#cgo nocallback cuda_discard_plan
#cgo noescape cuda_algorithm
#cgo nocallback cuda_algorithm
#cgo noescape cuda_use_algorithm
#cgo nocallback cuda_use_algorithm
#cgo nocallback cuda_multiply
*/
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"

	"restyle/tensor"
)

// A BLAS is cuBLASLt, NVIDIA's library of matrix products, opened on a GPU.
type BLAS struct {
	Version int    // 130001 for 13.0.1
	Path    string // the library's file
	gpu     *GPU
	handle  C.uintptr_t
}

// OpenBLAS opens cuBLASLt on a GPU. It looks in the file that RESTYLE_CUBLASLT names, or in the directories of CUDA's
// toolkits and of pip's and conda's packages.
func OpenBLAS(g *GPU) (*BLAS, error) { return openBLAS(g, libcublasLt.paths(g.Driver)) }

func openBLAS(g *GPU, paths []string) (*BLAS, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	var l C.cuda_blas
	missing := fmt.Sprintf("cuBLASLt is missing: install it with %s, or have RESTYLE_CUBLASLT name its file",
		libcublasLt.install(g.Driver))
	err := search(missing, paths, func(path string, message *C.char, size C.int) bool {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		return C.cuda_open_blas(p, &l, message, size) != 0
	})
	if err != nil {
		return nil, err
	}
	b := &BLAS{Version: int(l.version), Path: C.GoString(&l.path[0]), gpu: g}
	if s := C.cuda_blas_start(g.handle, l.library, &b.handle); s.code != 0 {
		return nil, newError("take "+b.Path+" into use", s)
	}
	return b, nil
}

// Close closes the library. Its plans must not be used any more.
func (b *BLAS) Close() error {
	if b == nil || b.gpu.Err() != nil {
		return nil
	}
	if s := C.cuda_blas_stop(b.gpu.handle, b.handle); s.code != 0 {
		return b.gpu.fail(s, "give cuBLASLt back")
	}
	return nil
}

// A Shape has everything that a plan for a product depends on: C = Alpha·A·B, or with Bias C = Alpha·A·B + bias on
// every row, of row-major matrices C [M, N], A [M, K], or [K, M] with TransA, B [K, N], or [N, K] with TransB; or a
// batch of such products.
type Shape struct {
	M, N, K                int
	LDA, LDB, LDC          int // elements from one row to the next
	Batch                  int // number of products; 0 means one
	NextA, NextB, NextC    int // elements from one product to the next; 0 if all share A or B
	TransA, TransB, Bias   bool
	Type, Result           tensor.DType // of A, B and bias; of C: F32, BF16 or F16
	AlignA, AlignB, AlignC int          // powers of two up to 256 that divide the addresses
	Workspace              int          // bytes that Multiply will get
	Alpha                  float32      // 0 means 1
}

// A Plan is a product for which cuBLASLt has algorithms.
type Plan struct {
	Algorithms int // number of algorithms; the library ranks the best first
	gpu        *GPU
	handle     C.uintptr_t
}

// dataTypes are cuBLASLt's names for types.
var dataTypes = map[tensor.DType]C.int{tensor.F32: C.CUDA_R_32F, tensor.BF16: C.CUDA_R_16BF, tensor.F16: C.CUDA_R_16F}

// Plan looks for algorithms. It returns nil if there are none for the product. An error sticks.
func (b *BLAS) Plan(s Shape) (*Plan, error) {
	if err := b.gpu.Err(); err != nil {
		return nil, err
	}
	p := &Plan{gpu: b.gpu}
	product := C.cuda_product{
		m: C.uint64_t(s.M), n: C.uint64_t(s.N), k: C.uint64_t(s.K), lda: C.int64_t(s.LDA), ldb: C.int64_t(s.LDB),
		ldc: C.int64_t(s.LDC), batch: C.int32_t(max(1, s.Batch)), next_a: C.int64_t(s.NextA), next_b: C.int64_t(s.NextB),
		next_c: C.int64_t(s.NextC), trans_a: flag(s.TransA), trans_b: flag(s.TransB), bias: flag(s.Bias),
		_type: dataTypes[s.Type], c_type: dataTypes[s.Result],
		align_a: C.uint32_t(s.AlignA), align_b: C.uint32_t(s.AlignB), align_c: C.uint32_t(s.AlignC),
		workspace: C.uint64_t(s.Workspace), alpha: C.float(cmp.Or(s.Alpha, 1)),
	}
	var count C.int
	if r := C.cuda_plan(b.gpu.handle, b.handle, &product, &p.handle, &count); r.code != 0 {
		return nil, b.gpu.fail(r, "plan the product %+v", s)
	}
	if count == 0 {
		return nil, nil
	}
	p.Algorithms = int(count)
	return p, nil
}

// Discard frees the plan.
func (p *Plan) Discard() { C.cuda_discard_plan(p.handle) }

// Multiply queues the product with one of the plan's algorithms. If add is true, it adds to C. An error sticks.
func (p *Plan) Multiply(algorithm int, a, b, c, bias uintptr, add bool, workspace uintptr, bytes int) {
	if p.gpu.failed.Load() != nil {
		return
	}
	if s := p.multiply(algorithm, a, b, c, bias, add, workspace, bytes); s.code != 0 {
		p.gpu.fail(s, "multiply matrices%v", p.gpu.after())
	}
}

// Try is Multiply without add, with an algorithm that may turn out to be unsupported: such an error does not stick.
func (p *Plan) Try(algorithm int, a, b, c, bias uintptr, workspace uintptr, bytes int) error {
	if s := p.multiply(algorithm, a, b, c, bias, false, workspace, bytes); s.code != 0 {
		return newError(fmt.Sprintf("try algorithm %d", algorithm), s)
	}
	return nil
}

func (p *Plan) multiply(algorithm int, a, b, c, bias uintptr, add bool, workspace uintptr, bytes int) C.cuda_status {
	return C.cuda_multiply(p.gpu.handle, p.handle, C.int(algorithm), C.uint64_t(a), C.uint64_t(b), C.uint64_t(c),
		C.uint64_t(bias),
		flag(add), C.uint64_t(workspace), C.uint64_t(bytes))
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
