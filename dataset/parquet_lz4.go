package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// The library returns zero bytes for pages of LZ4_RAW that compress badly, and does not know LZ4, its older form, at
// all. So it gets another file to read, in which these columns are not compressed: the bytes of the file, then a place
// for each column of each row group, which is filled when it is read, and a footer of its own.

// unpacked is that file.
type unpacked struct {
	file   io.ReaderAt
	chunks []*lz4Chunk
	footer []byte // with its length and the magic
	at     int64  // of the footer
}

// lz4Chunk is a column of a row group. It takes room bytes at at, and is one of size bytes at from in the file.
type lz4Chunk struct {
	leaf       int
	codec      format.CompressionCodec
	from, size int64
	at, room   int64
	data       []byte // with the headers of pages; nil until it is read
}

// isLZ4 reports whether a codec is one of the two.
func isLZ4(c format.CompressionCodec) bool { return c == format.Lz4 || c == format.Lz4Raw }

// unpackLZ4 returns f without LZ4 in the columns of leaves, whose sizes are checked. It returns f if there is none.
func unpackLZ4(f *parquet.File, r io.ReaderAt, leaves []int) (*parquet.File, error) {
	u := &unpacked{file: r, at: f.Size()}
	meta := f.Metadata()
	for g := range meta.RowGroups {
		if meta.RowGroups[g].NumRows == 0 {
			continue
		}
		for _, leaf := range leaves {
			if !isLZ4(meta.RowGroups[g].Columns[leaf].MetaData.Codec) {
				continue
			}
			m := &meta.RowGroups[g].Columns[leaf].MetaData
			c := &lz4Chunk{leaf: leaf, codec: m.Codec, from: firstPage(m), size: m.TotalCompressedSize, at: u.at}
			if m.TotalUncompressedSize/256 > m.TotalCompressedSize { // LZ4 does not compress better
				return nil, fmt.Errorf("damaged parquet file (row group %d: %d bytes from %d)", g, m.TotalUncompressedSize,
					m.TotalCompressedSize)
			}
			// Both sizes have the headers of pages, of more than ten bytes each, and a size in a header may take four more.
			c.room = m.TotalUncompressedSize + m.TotalCompressedSize
			m.Codec = format.Uncompressed
			m.DictionaryPageOffset = 0
			m.DataPageOffset = c.at
			m.TotalCompressedSize = c.room
			u.chunks = append(u.chunks, c)
			u.at += c.room
		}
	}
	if u.chunks == nil {
		return f, nil
	}
	var err error
	if u.footer, err = thrift.Marshal(new(thrift.CompactProtocol), *meta); err != nil {
		return nil, err
	}
	u.footer = binary.LittleEndian.AppendUint32(u.footer, uint32(len(u.footer)))
	u.footer = append(u.footer, "PAR1"...)
	return parquet.OpenFile(u, u.at+int64(len(u.footer)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

// firstPage returns the offset of the first page of a column of a row group.
func firstPage(m *format.ColumnMetaData) int64 {
	if m.DictionaryPageOffset > 0 {
		return min(m.DataPageOffset, m.DictionaryPageOffset)
	}
	return m.DataPageOffset
}

// ReadAt reads from the file, from a column or from the footer: nothing reads across their borders. A column ends
// before its room does.
func (u *unpacked) ReadAt(p []byte, at int64) (int, error) {
	if at >= u.at {
		return bytes.NewReader(u.footer).ReadAt(p, at-u.at)
	}
	for _, c := range u.chunks {
		if at < c.at || at >= c.at+c.room {
			continue
		}
		if c.data == nil {
			if err := u.unpack(c); err != nil {
				return 0, err
			}
		}
		return bytes.NewReader(c.data).ReadAt(p, at-c.at)
	}
	return u.file.ReadAt(p, at)
}

// unpack fills a column. The same column of earlier row groups is no longer read.
func (u *unpacked) unpack(c *lz4Chunk) error {
	for _, other := range u.chunks {
		if other.leaf == c.leaf {
			other.data = nil
		}
	}
	packed := make([]byte, c.size)
	if _, err := u.file.ReadAt(packed, c.from); err != nil {
		return noEOF(err)
	}
	data := []byte{}
	for len(packed) > 0 {
		protocol := new(thrift.CompactProtocol)
		in := protocol.NewReaderFromBytes(packed)
		var h format.PageHeader
		if err := thrift.NewDecoder(in).Decode(&h); err != nil {
			return fmt.Errorf("damaged parquet file (the header of a page: %.200v)", err)
		}
		packed = packed[in.BytesRead():]
		size := int64(h.CompressedPageSize)
		if size < 0 || size > int64(len(packed)) || int64(h.UncompressedPageSize) > c.room-int64(len(data)) {
			return fmt.Errorf("damaged parquet file (a page of %d bytes, %d uncompressed)", size, h.UncompressedPageSize)
		}
		body, err := unpackPage(&h, packed[:size], c.codec)
		if err != nil {
			return err
		}
		packed = packed[size:]
		h.CRC, h.CompressedPageSize = 0, h.UncompressedPageSize
		header, err := thrift.Marshal(protocol, h)
		if err != nil {
			return err
		}
		data = append(append(data, header...), body...)
	}
	if int64(len(data)) > c.room {
		return errors.New("damaged parquet file (a column is larger than its size)")
	}
	c.data = data
	return nil
}

// unpackPage returns the uncompressed bytes of a page.
func unpackPage(h *format.PageHeader, page []byte, codec format.CompressionCodec) ([]byte, error) {
	if h.CRC != 0 && crc32.ChecksumIEEE(page) != uint32(h.CRC) {
		return nil, errors.New("damaged parquet file (the checksum of a page)")
	}
	levels := 0 // at the start of a page of the second version, and never compressed
	if v2 := h.DataPageHeaderV2; v2.Valid {
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return page, nil
		}
		def, rep := int64(v2.V.DefinitionLevelsByteLength), int64(v2.V.RepetitionLevelsByteLength)
		if def < 0 || rep < 0 || def+rep > int64(min(len(page), int(h.UncompressedPageSize))) {
			return nil, errors.New("damaged parquet file (the levels of a page)")
		}
		levels = int(def + rep)
	}
	if h.UncompressedPageSize < 0 {
		return nil, fmt.Errorf("damaged parquet file (a page of %d bytes)", h.UncompressedPageSize)
	}
	out := make([]byte, h.UncompressedPageSize)
	copy(out, page[:levels])
	if !decodeLZ4(out[levels:], page[levels:], codec) {
		return nil, fmt.Errorf("damaged parquet file (a page in %s)", codec)
	}
	return out, nil
}

// decodeLZ4 decodes a page that has exactly the size of out. LZ4_RAW is one block. LZ4 is what Hadoop writes: blocks,
// each after its two sizes; but some programs wrote one block or one frame under that name.
func decodeLZ4(out, page []byte, codec format.CompressionCodec) bool {
	if codec == format.Lz4 {
		if hadoop(out, page) {
			return true
		}
		frame := lz4.NewReader(bytes.NewReader(page))
		if n, err := io.ReadFull(frame, out); err == nil && n == len(out) {
			return true
		}
	}
	if len(out) == 0 {
		return len(page) <= 1 // nothing, or a block of nothing
	}
	n, err := lz4.UncompressBlock(page, out)
	return err == nil && n == len(out)
}

// hadoop decodes blocks, each after its uncompressed and compressed size, in 32 bits, the most significant byte first.
func hadoop(out, page []byte) bool {
	for len(page) >= 8 {
		whole, packed := binary.BigEndian.Uint32(page), binary.BigEndian.Uint32(page[4:])
		page = page[8:]
		if uint64(packed) > uint64(len(page)) || uint64(whole) > uint64(len(out)) {
			return false
		}
		if n, err := lz4.UncompressBlock(page[:packed], out[:whole]); err != nil || n != int(whole) {
			return false
		}
		out, page = out[whole:], page[packed:]
	}
	return len(page) == 0 && len(out) == 0
}
