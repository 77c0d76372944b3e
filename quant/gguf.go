package quant

import (
	"encoding/binary"
	"fmt"

	"restyle/gguf"
	"restyle/tensor"
)

// blockTypes maps quantized types to the GGUF block types that have the same values.
var blockTypes = map[tensor.DType]gguf.Type{tensor.Q4_0: gguf.Q4_0, tensor.Q4_1: gguf.Q4_1, tensor.Q5_0: gguf.Q5_0,
	tensor.Q5_1: gguf.Q5_1, tensor.Q8_0: gguf.Q8_0, tensor.Q4_K: gguf.Q4_K, tensor.Q5_K: gguf.Q5_K,
	tensor.Q6_K: gguf.Q6_K}

// GGUF returns the GGUF block type with the values of a quantized type; ok is false if there is none.
func GGUF(t tensor.DType) (of gguf.Type, ok bool) {
	of, ok = blockTypes[t]
	return of, ok
}

// FromGGUF returns the quantized type with the values of a GGUF block type, or 0 if the type has no blocks.
func FromGGUF(t gguf.Type) tensor.DType {
	for to, of := range blockTypes {
		if of == t {
			return to
		}
	}
	return 0
}

// Pack makes rows of in weights from GGUF's blocks, with the same values to the bit. dst gets RowBytes(in) bytes per
// row. Pack returns an error if a scale or an offset is NaN or infinite, or if the sizes do not agree.
func Pack(dst, src []byte, t tensor.DType, in int) error {
	of, ok := GGUF(t)
	if !ok {
		return fmt.Errorf("rows of %v from blocks: GGUF has no such type", t)
	}
	elements, bytes := of.Block()
	from, to := of.RowBytes(in), t.RowBytes(in)
	if in < 1 || in%elements != 0 || len(src)%from != 0 || len(dst) != len(src)/from*to {
		return fmt.Errorf("%d bytes of %v as rows of %d weights in %d bytes: sizes do not agree", len(src), of, in, len(dst))
	}
	for i := range len(src) / from {
		row := Row{t, in, dst[i*to:][:to]}
		clear(row.Bytes)
		p := packer{row: row, codes: row.codes(), offsets: t.OffsetsAt(in)}
		if t.Coding().Unit > 0 {
			p.units, p.offsetUnits = t.UnitsAt(in), t.OffsetUnitsAt(in)
		}
		for b := range in / elements {
			p.pack(b, src[i*from+b*bytes:][:bytes])
		}
		if p.wrong != nil {
			return fmt.Errorf("row %d: %w", i, p.wrong)
		}
		row.pad()
	}
	return nil
}

// Unpack makes GGUF's blocks from rows of in weights: the inverse of Pack. It accepts only Q4_0, the only type whose
// rows this package also makes from something other than blocks. It returns an error if the sizes do not agree.
func Unpack(dst, src []byte, t tensor.DType, in int) error {
	if t != tensor.Q4_0 {
		return fmt.Errorf("blocks from rows of %v: must be %v", t, tensor.Q4_0)
	}
	elements, bytes := gguf.Q4_0.Block()
	from, to := t.RowBytes(in), gguf.Q4_0.RowBytes(in)
	if in < 1 || in%elements != 0 || len(src)%from != 0 || len(dst) != len(src)/from*to {
		return fmt.Errorf("%d bytes of rows of %d weights as %d bytes of %v: sizes do not agree", len(src), in, len(dst), t)
	}
	for i := range len(src) / from {
		row := Row{t, in, src[i*from:][:from]}
		codes := row.codes()
		for b := range in / elements {
			block := dst[i*to+b*bytes:][:bytes]
			copy(block, row.Bytes[2*b:][:2])
			for j := range 16 {
				first := b*elements + j
				block[2+j] = byte(codes.at(first) | codes.at(first+16)<<4)
			}
		}
	}
	return nil
}

// pad sets the codes after the last element of the row, up to a multiple of GroupSize elements, to the code of zero.
func (r Row) pad() {
	codes, c := r.codes(), r.DType.Coding()
	for i := r.In; c.Bits < 8 && i%tensor.GroupSize != 0; i++ {
		codes.set(i, c.Zero)
	}
}

// A packer fills a row from its blocks.
type packer struct {
	row                         Row
	codes                       rowCodes
	offsets, units, offsetUnits int // where these parts start
	wrong                       error
}

// pack adds block number b. ggml-common.h has the layouts of blocks.
func (p *packer) pack(b int, block []byte) {
	var codes [256]byte
	switch p.row.DType {
	case tensor.Q4_0:
		p.half(2*b, block)
		nibbles(codes[:32], block[2:], 16)
	case tensor.Q4_1:
		p.half(2*b, block)
		p.half(p.offsets+2*b, block[2:])
		nibbles(codes[:32], block[4:], 16)
	case tensor.Q5_0:
		p.half(2*b, block)
		nibbles(codes[:32], block[6:], 16)
		fifthBits(codes[:32], block[2:])
	case tensor.Q5_1:
		p.half(2*b, block)
		p.half(p.offsets+2*b, block[2:])
		nibbles(codes[:32], block[8:], 16)
		fifthBits(codes[:32], block[4:])
	case tensor.Q8_0:
		p.half(2*b, block)
		copy(p.codes.low[32*b:], block[2:])
		return
	case tensor.Q4_K:
		p.scales(b, block)
		for i := range 4 {
			nibbles(codes[64*i:][:64], block[16+32*i:], 32)
		}
	case tensor.Q5_K:
		p.scales(b, block)
		for i := range 4 {
			nibbles(codes[64*i:][:64], block[48+32*i:], 32)
		}
		for i := range codes {
			codes[i] |= block[16+i%32] >> (i / 32) & 1 << 4
		}
	case tensor.Q6_K:
		copy(p.row.Bytes[16*b:], block[192:208])
		p.half(p.units+2*b, block[208:])
		for i := range codes { // two halves of 128 weights, of four quarters of 32
			half, quarter, at := i/128, i%128/32, i%32
			low := block[64*half+quarter%2*32+at] >> (quarter / 2 * 4) & 15
			codes[i] = low | block[128+32*half+at]>>(2*quarter)&3<<4
		}
	}
	elements, _ := blockTypes[p.row.DType].Block()
	p.store(b*elements, codes[:elements])
}

// half copies an F16 to a byte of the row.
func (p *packer) half(at int, from []byte) {
	bits := binary.LittleEndian.Uint16(from)
	if bits&0x7C00 == 0x7C00 {
		p.wrong = fmt.Errorf("a scale is %v", tensor.F16ToF32(bits))
	}
	binary.LittleEndian.PutUint16(p.row.Bytes[at:], bits)
}

// scales unpacks the scales of Q4_K and Q5_K and the amounts that are subtracted, both of six bits. The sign of their
// unit makes these amounts offsets.
func (p *packer) scales(b int, block []byte) {
	p.half(p.units+2*b, block)
	p.half(p.offsetUnits+2*b, block[2:])
	p.row.Bytes[p.offsetUnits+2*b+1] ^= 0x80
	q := block[4:16]
	for j := range 8 {
		scale, least := q[j%4]&63, q[j%4+4]&63
		if j >= 4 {
			scale, least = q[j+4]&15|q[j-4]>>6<<4, q[j+4]>>4|q[j]>>6<<4
		}
		p.row.Bytes[8*b+j] = scale
		p.row.Bytes[p.offsets+8*b+j] = least
	}
}

const everyByte = 0x0101010101010101

// nibbles unpacks n bytes, a multiple of 8: their low four bits come first, and the high ones n elements later.
func nibbles(to, from []byte, n int) {
	for i := 0; i < n; i += 8 {
		x := binary.LittleEndian.Uint64(from[i:])
		binary.LittleEndian.PutUint64(to[i:], x&(15*everyByte))
		binary.LittleEndian.PutUint64(to[n+i:], x>>4&(15*everyByte))
	}
}

// fifthBits adds bit i of from to the code of element i.
func fifthBits(to, from []byte) {
	bits := binary.LittleEndian.Uint32(from)
	for i := range to {
		to[i] |= byte(bits>>i&1) << 4
	}
}

// store stores codes, eight at a time, starting at a multiple of 32.
func (p *packer) store(first int, codes []byte) {
	high := uint64(p.codes.bits - 4)
	for i := 0; i < len(codes); i += 8 {
		x := binary.LittleEndian.Uint64(codes[i:])
		at, shift := nibble(first + i)
		or(p.codes.low[at:], x&(15*everyByte)<<shift)
		if high > 0 {
			at, shift, _ := p.codes.highBits(first + i)
			or(p.codes.high[at:], x>>4&(15*everyByte)<<shift)
		}
	}
}

func or(to []byte, x uint64) {
	binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(to)|x)
}
