package tensor

// GroupSize is the number of neighbors in a row of INT4 or INT4Z that share a scale. The last group of a row may be
// shorter.
const GroupSize = 128

// wordBytes is the unit that the parts of a quantized row are padded to, with zeros, so that rows start at multiples of
// it.
const wordBytes = 16

// Quantized reports whether t is a type of quantized weights. These have no size per element: matrices consist of whole
// rows, each with its scales. A row is
//
//	INT8   the scale, float32 | the codes, int8: value = code · scale
//	INT4   the scale of each group, F16 | the codes: value = (code - 8) · scale
//	INT4Z  as INT4, and after the scales the zero point of each group, a byte: value = (code - zero) · scale
//
// Each part is padded with zeros to a multiple of 16 bytes. The 4-bit codes of a group are always 64 bytes: byte j has
// the code of element j in its low four bits, and that of element j + 64 in its high ones. Where a row has no such
// element, the code is that of zero.
func (t DType) Quantized() bool { return t == INT8 || t == INT4 || t == INT4Z }

// Groups returns the number of scales of a row of n elements of a quantized type.
func (t DType) Groups(n int) int {
	if t == INT8 {
		return 1
	}
	return (n + GroupSize - 1) / GroupSize
}

// RowBytes returns the number of bytes of a row of n elements.
func (t DType) RowBytes(n int) int {
	switch t {
	case INT8:
		return t.HeadBytes(n) + padded(n)
	case INT4, INT4Z:
		return t.HeadBytes(n) + t.Groups(n)*GroupSize/2
	}
	return n * t.Size()
}

// HeadBytes returns the number of bytes before the codes of a row of n elements of a quantized type.
func (t DType) HeadBytes(n int) int {
	switch t {
	case INT8:
		return wordBytes
	case INT4Z:
		return padded(2*t.Groups(n)) + padded(t.Groups(n))
	}
	return padded(2 * t.Groups(n))
}

func padded(bytes int) int { return (bytes + wordBytes - 1) / wordBytes * wordBytes }
