package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

const (
	magic            = "GGUF"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
	maxKey           = 1<<16 - 1 // the format's limit
	maxName          = 63        // llama.cpp's limit for names of tensors, less the zero byte
	maxDims          = 4
	maxAlignment     = 1 << 20 // of what is written
	// maxHeader limits keys and list of tensors, as in safetensors files. A vocabulary of 262,144 tokens with merges
	// needs 20 MB.
	maxHeader = 100_000_000
)

// Tensor describes a tensor, from the header of its file.
type Tensor struct {
	Name string
	Type Type
	// Dims has 1 to 4 sizes as files have them, the length of a row first, the opposite of PyTorch's order.
	Dims []int
	// Bytes is the size of the tensor's data.
	Bytes int64
}

// header is what a file has before its tensors' data.
type header struct {
	version   int
	alignment int
	text      string // the bytes of the file, for values
	values    []value
	index     map[string]int // of values, by key
	tensors   []placed
}

// placed is a tensor and the position of its bytes, counted at first from the start of all data, later from the start
// of the file.
type placed struct {
	Tensor
	at   int64
	file *part
}

// parser reads a header from its start to its end. Nothing is allocated by a count or a length before as many bytes
// are there. It keeps the first error; what is read after it is zero.
type parser struct {
	file io.ReaderAt
	size int64
	buf  []byte // the file's first bytes
	at   int    // how many of them are parsed
	err  error
}

func readHeader(file io.ReaderAt, size int64) (*header, error) {
	p := &parser{file: file, size: size}
	h := &header{version: p.start(), alignment: defaultAlignment, index: map[string]int{}}
	// With names of no and one character, one dimension, and a value of one byte.
	tensors, values := p.count("tensors", 8+4+8+4+8), p.count("keys", 8+1+4+1)
	for i := 0; i < values && p.err == nil; i++ {
		p.value(h)
	}
	if i, ok := h.index[alignmentKey]; ok && p.err == nil {
		p.alignment(h, h.values[i])
	}
	for i := 0; i < tensors && p.err == nil; i++ {
		h.tensors = append(h.tensors, p.tensor())
	}
	if p.err != nil {
		return nil, p.err
	}
	h.text = string(p.buf[:p.at])
	return h, h.place(size)
}

func (p *parser) fail(format string, a ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, a...)
	}
}

// left returns the number of bytes that are not parsed yet and may be of the header.
func (p *parser) left() uint64 { return uint64(min(p.size, maxHeader) - int64(p.at)) }

// short returns why there are no more bytes.
func (p *parser) short() string {
	if p.size > maxHeader {
		return fmt.Sprintf("a header may have at most %d: it is damaged, or not a model", maxHeader)
	}
	return fmt.Sprintf("the file has %d: it is cut off: get it again", p.size)
}

// take returns the next n bytes, until the next call, or nil after an error.
func (p *parser) take(n uint64) []byte {
	if n > p.left() {
		p.fail("its header needs %d bytes from byte %d on, but %s", n, p.at, p.short())
	}
	if p.err != nil {
		return nil
	}
	end := p.at + int(n)
	if have := len(p.buf); end > have {
		// Twice as many bytes each time, so that the copies together are no larger than the header.
		want := max(end, min(int(min(p.size, maxHeader)), max(2*have, 64<<10)))
		p.buf = slices.Grow(p.buf, want-have)[:want]
		if _, err := io.ReadFull(io.NewSectionReader(p.file, int64(have), int64(want-have)), p.buf[have:]); err != nil {
			p.fail("its header cannot be read: %w", err)
			return nil
		}
	}
	taken := p.buf[p.at:end]
	p.at = end
	return taken
}

func (p *parser) uint32() uint32 {
	if b := p.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *parser) uint64() uint64 {
	if b := p.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// start reads magic and version.
func (p *parser) start() (version int) {
	switch first := p.take(4); {
	case string(first) == "vers": // as in hf
		p.fail("it is a Git LFS pointer, not the file itself: get the file with git lfs pull")
	case string(first) != magic:
		p.fail("it does not begin with %s: it is not a GGUF file", magic)
	}
	switch version := p.uint32(); {
	case p.err != nil || version == 2 || version == 3:
		return int(version)
	case version&0xffff == 0 && version != 0:
		p.fail("its numbers are big-endian (version %d): convert it to little-endian", bits.ReverseBytes32(version))
	default:
		p.fail("it is GGUF of version %d: must be 2 or 3: convert the model again with the current llama.cpp", version)
	}
	return 0
}

// count reads a number of things of at least size bytes each, and checks that the file may have that many.
func (p *parser) count(what string, size int) int {
	n := p.uint64()
	if n > p.left()/uint64(size) {
		p.fail("its header claims %d %s from byte %d on, but %s", n, what, p.at, p.short())
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}

// string reads a string of at most limit bytes.
func (p *parser) string(what string, limit uint64) string {
	n := p.uint64()
	if n > limit {
		p.fail("%s has %d bytes: must be at most %d", what, n, limit)
	}
	s := string(p.take(n))
	if !utf8.ValidString(s) {
		p.fail("%s is %.100q: must be UTF-8", what, s)
	}
	return s
}

// value reads a key and finds the end of its value.
func (p *parser) value(h *header) {
	v := value{key: p.string("the name of a key", maxKey), kind: p.uint32(), n: 1}
	if v.kind == kindArray {
		v.kind, v.list = p.uint32(), true
	}
	switch _, twice := h.index[v.key]; {
	case v.key == "":
		p.fail("a key has no name")
	case twice:
		p.fail("two keys have the name %.100q", v.key)
	case v.kind == kindArray:
		p.fail("its key %.100q has a list of lists, which cannot be read", v.key)
	case v.kind >= uint32(len(kinds)):
		p.fail("its key %.100q has a value of type %d, which does not exist", v.key, v.kind)
	}
	if p.err != nil {
		return
	}
	if v.list {
		v.n = p.count(fmt.Sprintf("values of the key %.100q", v.key), leastBytes(v.kind))
	}
	v.at = p.at
	if v.kind == kindString {
		for i := 0; i < v.n && p.err == nil; i++ {
			p.take(p.uint64())
		}
	} else {
		p.take(uint64(v.n * leastBytes(v.kind)))
	}
	h.index[v.key] = len(h.values)
	h.values = append(h.values, v)
}

// alignment reads the value of general.alignment.
func (p *parser) alignment(h *header, v value) {
	if v.kind != kindUint32 || v.list {
		p.fail("%s is of another type than uint32", alignmentKey)
		return
	}
	n := binary.LittleEndian.Uint32(p.buf[v.at:])
	if bits.OnesCount32(n) != 1 {
		p.fail("%s is %d: must be a power of two", alignmentKey, n)
	}
	h.alignment = int(n)
}

// tensor reads an entry of the list of tensors.
func (p *parser) tensor() (t placed) {
	t.Name = p.string("the name of a tensor", maxName)
	n := p.uint32()
	if n < 1 || n > maxDims {
		p.fail("%q has %d dimensions: must have 1 to %d", t.Name, n, maxDims)
	}
	for i := uint32(0); i < n && p.err == nil; i++ {
		t.Dims = append(t.Dims, int(p.uint64())) // a negative one is refused by bytesOf
	}
	t.Type = Type(p.uint32())
	offset := p.uint64()
	if p.err != nil {
		return t
	}
	var err error
	if t.Bytes, err = bytesOf(t.Type, t.Dims); err != nil {
		p.fail("%q: %w", t.Name, err)
	}
	if offset > math.MaxInt64 {
		p.fail("%q begins at byte %d, beyond every file", t.Name, offset)
	}
	t.at = int64(offset)
	return t
}

// bytesOf returns the number of bytes of a tensor.
func bytesOf(t Type, dims []int) (int64, error) {
	known, ok := types[t]
	if !ok {
		return 0, fmt.Errorf("its %v does not exist, or is newer than this program", t)
	}
	n := int64(1)
	for _, d := range dims {
		// No type has more than 8 bytes for an element.
		if d < 1 || int64(d) > math.MaxInt64/8/n {
			return 0, fmt.Errorf("its dimensions are %v: impossible", dims)
		}
		n *= int64(d)
	}
	if dims[0]%known.elements != 0 {
		return 0, fmt.Errorf("its rows have %d elements: must be a multiple of %d for %v", dims[0], known.elements, t)
	}
	return n / int64(known.elements) * int64(known.bytes), nil
}

// align returns the next multiple of a power of two.
func align(n, to int64) int64 { return (n + to - 1) &^ (to - 1) }

// place counts the tensors' positions from the start of the file of that size, and checks that their data follow each
// other, in whatever order, with no more than the alignment between them. Bytes after the last one belong to nothing.
func (h *header) place(size int64) error {
	order := make([]*placed, len(h.tensors))
	for i := range h.tensors {
		order[i] = &h.tensors[i]
	}
	slices.SortStableFunc(order, func(a, b *placed) int { return cmp.Compare(a.at, b.at) })
	to := int64(h.alignment)
	start, end := align(int64(len(h.text)), to), int64(0)
	for i, t := range order {
		switch {
		case t.at%to != 0:
			return fmt.Errorf("%q begins at byte %d of the data: must be a multiple of the alignment, %d", t.Name, t.at, to)
		case t.at < end:
			return fmt.Errorf("%q and %q overlap", order[i-1].Name, t.Name)
		case t.at > end:
			return fmt.Errorf("%d bytes before %q belong to no tensor", t.at-end, t.Name)
		case t.Bytes > size-start-t.at:
			return fmt.Errorf("%q ends at byte %d of %d: the file is cut off: get it again", t.Name,
				start+t.at+t.Bytes, size)
		}
		end = align(t.at+t.Bytes, to)
		t.at += start
	}
	return nil
}
