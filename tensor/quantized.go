package tensor

// A Coding describes how a quantized type stores a row of weights: a code for each weight and, for each group of
// neighbors, the numbers that turn codes into values:
//
//	value = scale · (code - zero) + offset
//
// Types that are not quantized have the zero Coding.
//
// A row consists of these parts in order, each padded with zeros to a multiple of 16 bytes: the scales of its groups,
// their offsets, the units of the scales, the units of the offsets, the zero points, and the codes. A row lacks the
// parts that its type does not have.
//
// Codes of 8 bits are signed bytes. The low four bits of the codes of GroupSize neighbors always take 64 bytes: byte j
// has the code of element j in its low four bits, and the code of element j + 64 in its high ones. After all of these,
// codes of 5 and 6 bits have their high bits, 16 and 32 bytes for GroupSize neighbors: with m such bytes, byte j has
// the bits of the elements j, j + m, j + 2m …, the first in its lowest bits. If a row has no such element, it has the
// code of zero there.
type Coding struct {
	Bits    int          // of a code: 8, 6, 5 or 4
	Group   int          // neighbors in a row that share a scale; the last ones may be fewer. 0: the whole row
	Scale   DType        // of a scale and an offset: F32 or F16
	Unit    int          // neighbors that share a unit, an F16: scales are signed bytes times it. 0: scales have no units
	Offsets bool         // each group has an offset, stored as its scale is; with units, units of offsets
	Zero    int          // the code of zero, or
	Zeros   bool         // each group has its own: its zero point, a byte
	Table   *[16]float32 // what scales multiply, by code. Default: the code minus the code of zero
}

// GroupSize is the number of neighbors whose codes' low four bits take 64 bytes, and that share a scale in INT4 and
// INT4Z.
const GroupSize = 128

// wordBytes is the unit that the parts of a quantized row are padded to, so that rows start at multiples of it.
const wordBytes = 16

// codings has the quantized types. The types with a Q are GGUF's, with the same numbers in other places.
var codings = [...]Coding{
	INT8:  {Bits: 8, Scale: F32},
	INT4:  {Bits: 4, Group: GroupSize, Scale: F16, Zero: 8},
	INT4Z: {Bits: 4, Group: GroupSize, Scale: F16, Zeros: true},
	NF4:   {Bits: 4, Group: 64, Scale: F32, Zero: 7, Table: &nf4},
	Q4_0:  {Bits: 4, Group: 32, Scale: F16, Zero: 8},
	Q4_1:  {Bits: 4, Group: 32, Scale: F16, Offsets: true},
	Q5_0:  {Bits: 5, Group: 32, Scale: F16, Zero: 16},
	Q5_1:  {Bits: 5, Group: 32, Scale: F16, Offsets: true},
	Q8_0:  {Bits: 8, Group: 32, Scale: F16},
	Q4_K:  {Bits: 4, Group: 32, Scale: F16, Unit: 256, Offsets: true},
	Q5_K:  {Bits: 5, Group: 32, Scale: F16, Unit: 256, Offsets: true},
	Q6_K:  {Bits: 6, Group: 16, Scale: F16, Unit: 256, Zero: 32},
}

// nf4 are the quantiles of a normal distribution that Dettmers et al. (2023, QLoRA, appendix E) list.
var nf4 = [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
	-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
	0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}

// Coding returns how the type stores weights, or the zero Coding if the type is not quantized. The caller must not
// change it.
func (t DType) Coding() *Coding {
	if int(t) >= len(codings) {
		return &codings[0]
	}
	return &codings[t] // not a copy, because callers ask for each weight
}

// Value returns what the scale multiplies for a code, given the code of zero.
func (c Coding) Value(code, zero int) float32 {
	if c.Table != nil {
		return c.Table[code]
	}
	return float32(code - zero)
}

// Quantized reports whether t is a type of quantized weights. These have no size per element: matrices consist of whole
// rows, each with its scales. See Coding.
func (t DType) Quantized() bool { return t.Coding().Bits > 0 }

// Groups returns the number of scales of a row of n elements of a quantized type.
func (t DType) Groups(n int) int {
	if c := t.Coding(); c.Group > 0 {
		return (n + c.Group - 1) / c.Group
	}
	return 1
}

// RowBytes returns the number of bytes of a row of n elements.
func (t DType) RowBytes(n int) int {
	if !t.Quantized() {
		return n * t.Size()
	}
	return t.HeadBytes(n) + t.CodeBytes(n)
}

// HeadBytes returns the number of bytes before the codes of a row of n elements of a quantized type.
func (t DType) HeadBytes(n int) int {
	c, groups := t.Coding(), t.Groups(n)
	scales := padded(groups*c.scaleBytes()) + padded(c.units(n)*F16.Size())
	if c.Offsets {
		scales *= 2
	}
	if c.Zeros {
		scales += padded(groups)
	}
	return scales
}

// scaleBytes returns the size of a group's scale, and of its offset.
func (c *Coding) scaleBytes() int {
	if c.Unit > 0 {
		return 1
	}
	return c.Scale.Size()
}

// OffsetsAt returns where the offsets of a row of n elements start, for a type that has them.
func (t DType) OffsetsAt(n int) int { return padded(t.Groups(n) * t.Coding().scaleBytes()) }

// UnitsAt returns where the units of the scales of a row of n elements start, for a type that has them.
func (t DType) UnitsAt(n int) int {
	if t.Coding().Offsets {
		return 2 * t.OffsetsAt(n)
	}
	return t.OffsetsAt(n)
}

// OffsetUnitsAt returns where the units of the offsets of a row of n elements start, for a type that has them.
func (t DType) OffsetUnitsAt(n int) int {
	return t.UnitsAt(n) + padded(t.Coding().units(n)*F16.Size())
}

// units returns the number of units of the scales of a row of n elements.
func (c *Coding) units(n int) int {
	if c.Unit == 0 {
		return 0
	}
	return (n + c.Unit - 1) / c.Unit
}

// CodeBytes returns the number of bytes of the codes of a row of n elements of a quantized type.
func (t DType) CodeBytes(n int) int {
	if t.Coding().Bits == 8 {
		return padded(n)
	}
	return (n + GroupSize - 1) / GroupSize * GroupSize / 8 * t.Coding().Bits
}

// LowBytes returns how many of the bytes of a row's codes have the low four bits of codes. The others have the rest.
func (t DType) LowBytes(n int) int {
	if t.Coding().Bits == 8 {
		return t.CodeBytes(n)
	}
	return (n + GroupSize - 1) / GroupSize * GroupSize / 2
}

func padded(bytes int) int { return (bytes + wordBytes - 1) / wordBytes * wordBytes }
