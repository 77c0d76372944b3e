// Package quant quantizes the weights of linear layers to 8 and 4 bits, and dequantizes them. The storage layout is
// documented in package tensor; package kernels multiplies by quantized weights.
//
// Every step is one float32 operation, rounded once, so results are bit-identical everywhere. Each weight is divided by
// the scale as stored, so the codes follow from it.
package quant

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"restyle/tensor"
)

// A Rule determines how codes and scales follow from weights. Codes are rounded to nearest, ties to even.
type Rule string

const (
	// INT8 has a float32 scale per row, max|w| / 127, and codes from -127 to 127.
	INT8 Rule = "int8"
	// INT4Sym7 has an F16 scale per group of 128, max|w| / 7.
	INT4Sym7 Rule = "int4_sym7"
	// INT4Sym8 has an F16 scale per group, m / -8, where m is the element of largest magnitude, with its sign; if
	// several have that magnitude, it is the first. It uses all 16 codes; the scale may be negative.
	INT4Sym8 Rule = "int4_sym8"
	// INT4Asym has an F16 scale per group, (max - min) / 15, and a zero point. The range from min to max includes 0.
	INT4Asym Rule = "int4_asym"
	// NF4 has a float32 scale per block of 64, max|w|, and the code whose value times the scale is nearest; a number
	// halfway between two gets the lower code. It is bitsandbytes' (Dettmers et al. 2023), equal to the bit.
	NF4 Rule = "nf4"
	// NF4Double is NF4 with scales that are themselves quantized to 8 bits, as QLoRA does: see NestNF4. Rows have what
	// the scales became, in float32. The codes are NF4's.
	NF4Double Rule = "nf4_double"

	// q40 is ggml's rule for Q4_0. In GPTQ it is INT4Sym8's rule for groups of 32.
	q40 Rule = "q4_0"
)

// Rules lists the rules of this package, in the order in which listings have them. Each of GGUF's types has one more:
// ggml's rule without an importance matrix, named like the type.
var Rules = []Rule{INT8, INT4Sym7, INT4Sym8, INT4Asym, NF4, NF4Double}

// DType returns the type of what the rule writes, or 0 if there is no such rule.
func (r Rule) DType() tensor.DType {
	switch r {
	case INT8:
		return tensor.INT8
	case INT4Sym7, INT4Sym8:
		return tensor.INT4
	case INT4Asym:
		return tensor.INT4Z
	case NF4, NF4Double:
		return tensor.NF4
	}
	for t := range blockTypes {
		if RuleFor(t) == r {
			return t
		}
	}
	return 0
}

// Quantize quantizes a matrix with rows of in weights: a layer in one call. dst gets RowBytes(in) bytes per row of the
// rule's type. Quantize returns an error if a weight is NaN or infinite, or if a scale is too large for F16.
func (r Rule) Quantize(dst []byte, w []float32, in int) error {
	t := r.DType()
	if t == 0 {
		return fmt.Errorf("quantization rule %q: must be one of %v", r, Rules)
	}
	size := t.RowBytes(in)
	if in < 1 || len(w)%in != 0 || len(dst) != len(w)/in*size {
		return fmt.Errorf("quantization of %d weights in rows of %d into %d bytes: sizes do not agree", len(w), in, len(dst))
	}
	if of, ok := GGUF(t); ok {
		blocks := make([]byte, len(w)/in*of.RowBytes(in))
		if err := of.Quantize(blocks, w); err != nil {
			return err
		}
		return Pack(dst, blocks, t, in)
	}
	for i := range len(w) / in {
		row := Row{t, in, dst[i*size:][:size]}
		clear(row.Bytes)
		if err := row.set(r, w[i*in:][:in]); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	if r == NF4Double {
		doubleNF4(dst, in)
	}
	return nil
}

// Dequantize computes the values of quantized rows, each of in weights. Dequantize returns an error if the sizes do
// not agree.
func Dequantize(dst []float32, src []byte, t tensor.DType, in int) error {
	if !t.Quantized() || in < 1 || len(dst)%in != 0 || len(src) != len(dst)/in*t.RowBytes(in) {
		return fmt.Errorf("%d bytes of %v as %d weights in rows of %d: sizes do not agree", len(src), t, len(dst), in)
	}
	c, size := t.Coding(), t.RowBytes(in)
	for i := range len(dst) / in {
		row := Row{t, in, src[i*size:][:size]}
		out, codes := dst[i*in:][:in], row.codes()
		for g := range row.Groups() {
			lo, hi := row.Group(g)
			scale, zero := row.Scale(g), row.Zero(g)
			for j := lo; j < hi; j++ {
				out[j] = c.Value(codes.at(j), zero) * scale
			}
			for j := lo; c.Offsets && j < hi; j++ {
				out[j] += row.Offset(g)
			}
		}
	}
	return nil
}

// set quantizes one row, all bytes of which are 0 before.
func (r Row) set(rule Rule, w []float32) error {
	codes := r.codes()
	for g := range r.Groups() {
		lo, hi := r.Group(g)
		scale, zero, err := rule.Scale(w[lo:hi])
		if err != nil {
			return fmt.Errorf("elements %d to %d: %w", lo, hi-1, err)
		}
		r.SetScale(g, scale, zero)
		for i, x := range w[lo:hi] {
			codes.set(lo+i, rule.Code(x, scale, zero))
		}
	}
	return nil
}

// Scale returns the scale of a group of weights, as it is stored, and its zero point: the code of 0. INT8's groups are
// whole rows.
func (r Rule) Scale(w []float32) (scale float32, zero int, err error) {
	var lo, hi, largest float32 // of w and 0; the weight of largest magnitude
	for _, x := range w {
		if x-x != 0 {
			return 0, 0, fmt.Errorf("a weight is %v: must be finite", x)
		}
		lo, hi = min(lo, x), max(hi, x)
		if abs(x) > abs(largest) {
			largest = x
		}
	}
	switch r {
	case INT8:
		return min(abs(largest)/127, maxScale), 0, nil
	case NF4, NF4Double:
		return abs(largest), tensor.NF4.Coding().Zero, nil
	case INT4Sym7:
		scale = abs(largest) / 7
	case INT4Sym8, q40:
		scale = largest / -8
	case INT4Asym:
		scale = (hi - lo) / 15
	}
	if scale = tensor.F16ToF32(tensor.F16FromF32(scale)); scale-scale != 0 {
		return 0, 0, fmt.Errorf("weights from %v to %v: their scale is too large for F16", lo, hi)
	}
	if zero = 8; r == INT4Asym {
		if zero = 0; scale != 0 {
			zero = int(min(15, max(0, rint(-lo/scale))))
		}
	}
	return scale, zero, nil
}

// maxScale is the greatest scale of INT8: the next float32 times 127 is infinite.
var maxScale = math.Nextafter32(math.MaxFloat32/127, 0)

// Code returns the code of a weight.
func (r Rule) Code(x, scale float32, zero int) int {
	if scale == 0 {
		return zero
	}
	switch r {
	case INT8:
		return int(min(127, max(-127, rint(x/scale)))) // beyond only if the scale is subnormal
	case NF4, NF4Double:
		return nf4Code(x * (1 / scale))
	}
	return int(min(15, max(0, rint(x/scale)+float32(zero))))
}

// rint rounds to the nearest integer, ties to even.
func rint(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// A Row is a quantized row of In weights, in the layout of tensor.Coding.
type Row struct {
	DType tensor.DType
	In    int
	Bytes []byte // RowBytes(In)
}

// Groups returns the number of groups that have a scale each.
func (r Row) Groups() int { return r.DType.Groups(r.In) }

// Group returns the weights of a group: from lo to hi-1.
func (r Row) Group(g int) (lo, hi int) {
	size := r.DType.Coding().Group
	if size == 0 {
		return 0, r.In
	}
	return g * size, min(r.In, (g+1)*size)
}

// Scale returns the scale of a group.
func (r Row) Scale(g int) float32 {
	return r.number(g, 0, r.DType.UnitsAt(r.In))
}

// Offset returns the offset of a group, 0 if the type has none.
func (r Row) Offset(g int) float32 {
	if !r.DType.Coding().Offsets {
		return 0
	}
	return r.number(g, r.DType.OffsetsAt(r.In), r.DType.OffsetUnitsAt(r.In))
}

// number returns the scale or offset of a group. Scales or offsets start at byte at of the row, and their units, if
// any, at byte units.
func (r Row) number(g, at, units int) float32 {
	switch c := r.DType.Coding(); {
	case c.Unit > 0:
		unit := binary.LittleEndian.Uint16(r.Bytes[units+2*(g*c.Group/c.Unit):])
		return float32(int8(r.Bytes[at+g])) * tensor.F16ToF32(unit) // exact: 7 and 11 bits
	case c.Scale == tensor.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(r.Bytes[at+4*g:]))
	}
	return tensor.F16ToF32(binary.LittleEndian.Uint16(r.Bytes[at+2*g:]))
}

// setScale stores only a group's scale.
func (r Row) setScale(g int, scale float32) {
	if r.DType.Coding().Scale == tensor.F32 {
		binary.LittleEndian.PutUint32(r.Bytes[4*g:], math.Float32bits(scale))
		return
	}
	binary.LittleEndian.PutUint16(r.Bytes[2*g:], tensor.F16FromF32(scale))
}

// Zero returns the zero point of a group.
func (r Row) Zero(g int) int {
	if c := r.DType.Coding(); !c.Zeros {
		return c.Zero
	}
	return int(r.Bytes[r.zeros()+g])
}

// zeros returns where the zero points start.
func (r Row) zeros() int { return tensor.INT4.HeadBytes(r.In) }

// SetScale stores a group's scale and zero point, and the code of zero for the weights whose codes share bytes with
// the group's, and for padding. So the groups of a row must be set in order. It is not for types whose scales have
// units.
func (r Row) SetScale(g int, scale float32, zero int) {
	r.setScale(g, scale)
	c := r.DType.Coding()
	if c.Zeros {
		r.Bytes[r.zeros()+g] = byte(zero)
	}
	if first, _ := r.Group(g); c.Bits < 8 && first%tensor.GroupSize == 0 {
		codes, high := r.codes(), 0
		for bit := 0; bit < 8; bit += max(1, c.Bits-4) {
			high |= zero >> 4 << bit
		}
		fill(codes.low[first/2:][:tensor.GroupSize/2], byte(zero&15|zero<<4))
		fill(codes.high[first/8*(c.Bits-4):][:tensor.GroupSize/8*(c.Bits-4)], byte(high))
	}
}

func fill(to []byte, b byte) {
	for i := range to {
		to[i] = b
	}
}

// Code returns the code of a weight: a signed number if codes have 8 bits, otherwise a number from 0.
func (r Row) Code(i int) int { return r.codes().at(i) }

// SetCode stores the code of a weight. Call SetScale for its group first.
func (r Row) SetCode(i, code int) { r.codes().set(i, code) }

// rowCodes are the codes of a row; loops over weights make them once.
type rowCodes struct {
	bits      int
	low, high []byte
}

// codes returns the bytes of the codes.
func (r Row) codes() rowCodes {
	all, low := r.Bytes[r.DType.HeadBytes(r.In):], r.DType.LowBytes(r.In)
	return rowCodes{r.DType.Coding().Bits, all[:low], all[low:]}
}

func (c rowCodes) at(i int) int {
	if c.bits == 8 {
		return int(int8(c.low[i]))
	}
	at, shift := nibble(i)
	code := int(c.low[at] >> shift & 15)
	if c.bits > 4 {
		at, shift, mask := c.highBits(i)
		code |= int(c.high[at]>>shift&mask) << 4
	}
	return code
}

func (c rowCodes) set(i, code int) {
	if c.bits == 8 {
		c.low[i] = byte(code)
		return
	}
	at, shift := nibble(i)
	c.low[at] = c.low[at]&^(15<<shift) | byte(code&15)<<shift
	if c.bits > 4 {
		at, shift, mask := c.highBits(i)
		c.high[at] = c.high[at]&^(mask<<shift) | byte(code>>4)<<shift
	}
}

// nibble returns the byte that has the low four bits of a code, and the lowest of these bits in the byte.
func nibble(i int) (at, shift int) {
	const half = tensor.GroupSize / 2
	return i/tensor.GroupSize*half + i%half, i % tensor.GroupSize / half * 4
}

// highBits returns the byte that has the other bits of a code, the lowest of these bits in the byte, and their mask.
func (c rowCodes) highBits(i int) (at, shift int, mask byte) {
	bits := c.bits - 4
	size := tensor.GroupSize / 8 * bits
	return i/tensor.GroupSize*size + i%size, i % tensor.GroupSize / size * bits, 1<<bits - 1
}

// Check returns an error unless rows, each of in weights, are as Quantize writes them: scales finite, and for INT8
// neither negative nor so large that a weight is infinite, codes and zero points in range, and padding as it must be.
func Check(rows []byte, t tensor.DType, in int) error {
	if !t.Quantized() || in < 1 || len(rows)%t.RowBytes(in) != 0 {
		return fmt.Errorf("%d bytes as rows of %d weights in %v: sizes do not agree", len(rows), in, t)
	}
	for i := 0; len(rows) > 0; i++ {
		if err := (Row{t, in, rows[:t.RowBytes(in)]}).check(); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		rows = rows[t.RowBytes(in):]
	}
	return nil
}

func (r Row) check() error {
	c := r.DType.Coding()
	same := Row{r.DType, r.In, make([]byte, r.DType.HeadBytes(r.In))} // a head with these scales and zero points
	for g := range r.Groups() {
		scale, zero := r.Scale(g), r.Zero(g)
		if scale-scale != 0 || r.DType == tensor.INT8 && (scale < 0 || scale > maxScale) {
			return fmt.Errorf("scale %d is %v", g, scale)
		}
		if offset := r.Offset(g); offset-offset != 0 {
			return fmt.Errorf("offset %d is %v", g, offset)
		}
		if c.Zeros {
			if zero > 15 {
				return fmt.Errorf("zero point %d is %d: must be at most 15", g, zero)
			}
			same.Bytes[r.zeros()+g] = byte(zero)
		}
		if c.Unit == 0 {
			same.setScale(g, scale)
		}
	}
	if c.Unit > 0 || c.Offsets {
		copy(same.Bytes, r.Bytes) // Pack has made it
	}
	for i, b := range same.Bytes {
		if r.Bytes[i] != b {
			return fmt.Errorf("byte %d is %d: must be padding, %d", i, r.Bytes[i], b)
		}
	}
	codes, zero := r.codes(), r.Zero(r.Groups()-1)
	if at := bytes.IndexByte(codes.low, 0x80); r.DType == tensor.INT8 && at >= 0 {
		return fmt.Errorf("code %d is -128: must be at least -127", at)
	}
	all := len(codes.low) // elements, with padding
	if c.Bits < 8 {
		all *= 2
	}
	for i := r.In; i < all; i++ {
		if code := codes.at(i); code != zero {
			return fmt.Errorf("code %d is %d: must be padding, %d", i, code, zero)
		}
	}
	return nil
}

// RuleFor returns the default rule for a quantized type: of the rules that round each weight to nearest, the one with
// the smallest error, for NF4 QLoRA's rule, and for GGUF's types ggml's. It needs whole matrices.
func RuleFor(t tensor.DType) Rule {
	if _, ok := GGUF(t); ok {
		return Rule(strings.ToLower(t.String()))
	}
	return map[tensor.DType]Rule{tensor.INT8: INT8, tensor.INT4: INT4Sym8, tensor.INT4Z: INT4Asym,
		tensor.NF4: NF4Double}[t]
}
