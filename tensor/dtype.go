package tensor

import "fmt"

// DType is the type of a tensor's elements. The zero value is no type.
type DType uint8

// The types of weights, activations, token ids and optimizer state.
const (
	F32  DType = iota + 1 // IEEE binary32
	F16                   // IEEE binary16
	BF16                  // the upper half of an F32
	I64
	I32
	U8
	F64 // sums over a whole step

	INT8 // quantized weights: see Coding
	INT4
	INT4Z
	NF4
	Q4_0 // with the values of GGUF's types of these names
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q4_K
	Q5_K
	Q6_K
)

var dtypes = [...]struct {
	name string
	size int
}{F32: {"F32", 4}, F16: {"F16", 2}, BF16: {"BF16", 2}, I64: {"I64", 8}, I32: {"I32", 4}, U8: {"U8", 1}, F64: {"F64", 8},
	INT8: {"INT8", 0}, INT4: {"INT4", 0}, INT4Z: {"INT4Z", 0}, NF4: {"NF4", 0},
	Q4_0: {"Q4_0", 0}, Q4_1: {"Q4_1", 0}, Q5_0: {"Q5_0", 0}, Q5_1: {"Q5_1", 0}, Q8_0: {"Q8_0", 0}, Q4_K: {"Q4_K", 0},
	Q5_K: {"Q5_K", 0}, Q6_K: {"Q6_K", 0}}

// Size returns the size of an element in bytes, 0 for an invalid or a quantized type.
func (t DType) Size() int {
	if int(t) >= len(dtypes) {
		return 0
	}
	return dtypes[t].size
}

// Computes reports whether operations compute in the type: F32, BF16 or F16.
func (t DType) Computes() bool { return t == F32 || t.Half() }

// Half reports whether the type is a float of 16 bits: BF16 or F16.
func (t DType) Half() bool { return t == BF16 || t == F16 }

// String returns the type's name in safetensors files, such as "BF16".
func (t DType) String() string {
	if t.Size() == 0 && !t.Quantized() {
		return fmt.Sprintf("DType(%d)", uint8(t))
	}
	return dtypes[t].name
}

// ParseDType returns the type with a name, as safetensors files spell it.
func ParseDType(name string) (DType, error) {
	for t, d := range dtypes {
		if d.name == name && d.size > 0 {
			return DType(t), nil
		}
	}
	return 0, fmt.Errorf("element type %q: must be F32, F16, BF16, I64, I32, U8 or F64", name)
}
