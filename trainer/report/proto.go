package report

import (
	"encoding/binary"
	"math"
)

// Field numbers of the messages of tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto,
// tensor.proto and tensor_shape.proto, as far as they are written.
const (
	eventTime        = 1 // double, seconds since 1970
	eventStep        = 2
	eventFileVersion = 3
	eventSummary     = 5
	eventSessionLog  = 7

	sessionStatus = 1
	sessionStart  = 1 // SessionLog.START

	summaryValue  = 1
	valueTag      = 1
	valueSimple   = 2 // float
	valueTensor   = 8
	valueMetadata = 9

	metadataPlugin = 1
	pluginName     = 1
	metadataClass  = 4
	classTensor    = 2 // DATA_CLASS_TENSOR

	tensorType   = 1
	typeString   = 7 // DT_STRING
	tensorShape  = 2
	tensorString = 8
	shapeDim     = 2
	dimSize      = 1
)

// message is a protocol buffer being written (protobuf.dev/programming-guides/encoding). A field is its number and wire
// type in one varint, then its value.
type message []byte

const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func (m *message) key(field, wire int) { *m = binary.AppendUvarint(*m, uint64(field<<3|wire)) }

func (m *message) integer(field int, v uint64) {
	m.key(field, wireVarint)
	*m = binary.AppendUvarint(*m, v)
}

func (m *message) float64(field int, v float64) {
	m.key(field, wireFixed64)
	*m = binary.LittleEndian.AppendUint64(*m, math.Float64bits(v))
}

func (m *message) float32(field int, v float32) {
	m.key(field, wireFixed32)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

func (m *message) text(field int, s string) {
	m.key(field, wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(s)))
	*m = append(*m, s...)
}

// message writes a message within this one. Its length stands before it, so it is written aside first.
func (m *message) message(field int, fill func(*message)) {
	var inner message
	fill(&inner)
	m.text(field, string(inner))
}
