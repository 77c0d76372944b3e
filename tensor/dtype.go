package tensor

import "fmt"

// DType is the type of a tensor's elements. The zero value is none.
type DType uint8

// The types that weights, activations, token ids and optimiser states have.
const (
	F32  DType = iota + 1 // IEEE binary32
	F16                   // IEEE binary16; read from files, never computed in
	BF16                  // the upper half of an F32
	I64
	I32
	U8
	F64 // sums over a whole step
)

var dtypes = [...]struct {
	name string
	size int
}{F32: {"F32", 4}, F16: {"F16", 2}, BF16: {"BF16", 2}, I64: {"I64", 8}, I32: {"I32", 4}, U8: {"U8", 1}, F64: {"F64", 8}}

// Size is the number of bytes of an element, 0 for a type that is none.
func (t DType) Size() int {
	if int(t) >= len(dtypes) {
		return 0
	}
	return dtypes[t].size
}

// String is the type's name in safetensors files, such as "BF16".
func (t DType) String() string {
	if t.Size() == 0 {
		return fmt.Sprintf("DType(%d)", uint8(t))
	}
	return dtypes[t].name
}

// ParseDType is the type of that name, as safetensors files spell it.
func ParseDType(name string) (DType, error) {
	for t, d := range dtypes {
		if d.name == name && d.size > 0 {
			return DType(t), nil
		}
	}
	return 0, fmt.Errorf("element type %q is not one of F32, F16, BF16, I64, I32, U8, F64", name)
}
