package report

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the messages of tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto,
// tensor.proto and tensor_shape.proto, as far as they are used.
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

// message is a protocol buffer being written.
type message []byte

func (m *message) integer(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) float64(field protowire.Number, v float64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), math.Float64bits(v))
}

func (m *message) float32(field protowire.Number, v float32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, field, protowire.Fixed32Type), math.Float32bits(v))
}

func (m *message) text(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

// message writes a message within this one. Its length comes first, so it is written to a buffer.
func (m *message) message(field protowire.Number, fill func(*message)) {
	var inner message
	fill(&inner)
	m.text(field, string(inner))
}
