// Package tensor describes tensors, by a type, a shape and an address, and converts between 16-bit and 32-bit floats.
// It computes nothing and owns no memory: package kernels does both.
package tensor

import (
	"fmt"
	"unsafe"
)

// A Tensor is a contiguous row-major view of memory that something else owns, usually an arena. The zero Tensor means
// that there is no tensor: pass it for an optional operand.
type Tensor struct {
	Name  string // for errors and listings; parameters have their Hugging Face name
	DType DType
	Shape []int
	// Addr is the address of the first element: in memory outside Go's heap, or on a device. It is a number so that the
	// garbage collector never takes it for a pointer.
	Addr uintptr
}

// Ok reports whether t is a tensor: the zero Tensor is not.
func (t Tensor) Ok() bool { return t.Addr != 0 }

// Len returns the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the number of bytes.
func (t Tensor) Bytes() int {
	if t.DType.Quantized() {
		return t.Rows() * t.DType.RowBytes(t.Dim(-1))
	}
	return t.Len() * t.DType.Size()
}

// Dim returns the size of axis i; a negative i counts from the last.
func (t Tensor) Dim(i int) int {
	if i < 0 {
		i += len(t.Shape)
	}
	return t.Shape[i]
}

// Rows returns the product of all sizes but the last: the number of rows of Dim(-1) elements.
func (t Tensor) Rows() int {
	n := 1
	for _, d := range t.Shape[:len(t.Shape)-1] {
		n *= d
	}
	return n
}

// Slice returns the view of rows lo to hi of the first axis. It panics if they do not exist.
func (t Tensor) Slice(lo, hi int) Tensor {
	if lo < 0 || hi < lo || hi > t.Shape[0] {
		panic(fmt.Sprintf("tensor: rows %d to %d of %v: out of range", lo, hi, t))
	}
	row := t
	row.Shape = append([]int{1}, t.Shape[1:]...)
	t.Addr += uintptr(lo * row.Bytes())
	t.Shape = append([]int{hi - lo}, t.Shape[1:]...)
	return t
}

// View returns the same memory in another shape. It panics if the number of elements differs.
func (t Tensor) View(shape ...int) Tensor {
	v := t
	v.Shape = shape
	if v.Len() != t.Len() {
		panic(fmt.Sprintf("tensor: view of %v as %v: numbers of elements differ", t, shape))
	}
	return v
}

// Part returns a view of the elements from index at on, in the given shape.
func (t Tensor) Part(at int, shape ...int) Tensor {
	v := t
	v.Shape = shape
	if at < 0 || at+v.Len() > t.Len() {
		panic(fmt.Sprintf("tensor: %v from element %d of %v: out of range", shape, at, t))
	}
	v.Addr += uintptr(at * t.DType.Size())
	return v
}

// String returns the name, type and shape, as in "model.norm.weight F32[64]".
func (t Tensor) String() string {
	s := fmt.Sprintf("%v%v", t.DType, t.Shape)
	if t.Name != "" {
		s = t.Name + " " + s
	}
	return s
}

// Pointer returns the address as a pointer. It is valid only for memory of this process, not for a device's.
func (t Tensor) Pointer() unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&t.Addr)) // the collector does not own what it points to
}

func view[T any](t Tensor, types ...DType) []T {
	for _, d := range types {
		if t.DType == d {
			return unsafe.Slice((*T)(t.Pointer()), t.Len())
		}
	}
	panic(fmt.Sprintf("tensor: %v: must have type %v", t, types))
}

// F32 returns the elements of an F32 tensor in this process's memory. The slice is that memory, not a copy.
func (t Tensor) F32() []float32 { return view[float32](t, F32) }

// F64 returns the elements of an F64 tensor in this process's memory.
func (t Tensor) F64() []float64 { return view[float64](t, F64) }

// Half returns the bits of the elements of a BF16 or F16 tensor in this process's memory.
func (t Tensor) Half() []uint16 { return view[uint16](t, BF16, F16) }

// I32 returns the elements of an I32 tensor in this process's memory.
func (t Tensor) I32() []int32 { return view[int32](t, I32) }

// U8 returns the elements of a U8 tensor in this process's memory.
func (t Tensor) U8() []byte { return view[byte](t, U8) }

// Raw returns the bytes of a tensor of any type in this process's memory.
func (t Tensor) Raw() []byte { return unsafe.Slice((*byte)(t.Pointer()), t.Bytes()) }
