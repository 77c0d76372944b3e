package report

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"restyle/internal/disk"
)

// Tags of a run's values in TensorBoard. The first three are the original project's.
const (
	TagLoss         = "Train/Loss"
	TagRudeness     = "Metrics/Rudeness_Score"
	TagResponse     = "Samples/Response"   // text
	TagTone         = "Metrics/Tone_Score" // instead of TagRudeness, for styles other than the default
	TagLearningRate = "Train/Learning_Rate"
	TagGradNorm     = "Train/Grad_Norm"
	TagEvalLoss     = "Eval/Loss"
	TagAuxiliary    = "Train/Auxiliary_Loss" // of a mixture of experts
	TagSpeed        = "Perf/Tokens_Sec"
)

// Events writes a TensorBoard event file: records of the TFRecord format, each an Event of
// tensorflow/core/util/event.proto. It writes the few fields that it uses one by one (proto.go), because Go packages
// with TensorBoard's own messages include all of TensorFlow's. Only one goroutine may use it. Flush and Close return
// the first error of all calls.
type Events struct {
	file *disk.File
	w    *bufio.Writer
	buf  message
	err  error
}

// eventPrefix is the prefix by which TensorBoard recognizes its files.
const eventPrefix = "events.out.tfevents."

// Create creates an event file in a directory, which it creates if it is missing. first is the first step to come, 0
// for a new run: the file begins with a mark (SessionLog START) that makes TensorBoard drop this step and later ones
// from the earlier files of a run that was killed.
func Create(dir string, first int) (*Events, error) {
	if err := disk.MakeDir(dir, 0o777); err != nil {
		return nil, fmt.Errorf("event file: %w", err)
	}
	stamp, err := nextStamp(dir)
	if err != nil {
		return nil, fmt.Errorf("event file: %w", err)
	}
	host, err := os.Hostname()
	if err != nil || strings.ContainsRune(host, '/') {
		host = "localhost"
	}
	name := fmt.Sprintf("%s%010d.%s.%d.0", eventPrefix, stamp, host, os.Getpid())
	f, err := disk.Open(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("event file: %w", err)
	}
	e := &Events{file: f, w: bufio.NewWriterSize(f, 64<<10)}
	e.event(0, func(m *message) { m.text(eventFileVersion, "brain.Event:2") })
	e.event(first, func(m *message) {
		m.message(eventSessionLog, func(m *message) { m.integer(sessionStatus, sessionStart) })
	})
	return e, e.Flush()
}

// nextStamp returns the time in seconds for a file's name, higher than that of every existing file: TensorBoard reads
// files in the order of their names, and the previous run may have started in the same second, or with a clock that
// was ahead.
func nextStamp(dir string) (int64, error) {
	stamp := time.Now().Unix()
	entries, err := disk.ReadDir(dir)
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), eventPrefix)
		digits, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.ParseInt(digits, 10, 64); ours && err == nil && n >= stamp && n < math.MaxInt64 {
			stamp = n + 1
		}
	}
	return stamp, err
}

// Scalar adds one point of a curve. TensorBoard keeps values in 32 bits.
func (e *Events) Scalar(step int, tag string, value float64) {
	e.summary(step, tag, func(m *message) { m.float32(valueSimple, float32(value)) })
}

// Text adds a text. TensorBoard shows it as Markdown.
func (e *Events) Text(step int, tag, text string) {
	e.summary(step, tag, func(m *message) {
		m.message(valueTensor, func(m *message) {
			m.integer(tensorType, typeString)
			m.message(tensorShape, func(m *message) {
				m.message(shapeDim, func(m *message) { m.integer(dimSize, 1) })
			})
			m.text(tensorString, text)
		})
		m.message(valueMetadata, func(m *message) {
			m.message(metadataPlugin, func(m *message) { m.text(pluginName, "text") })
			m.integer(metadataClass, classTensor)
		})
	})
}

// summary writes an event with one value.
func (e *Events) summary(step int, tag string, value func(*message)) {
	e.event(step, func(m *message) {
		m.message(eventSummary, func(m *message) {
			m.message(summaryValue, func(m *message) {
				m.text(valueTag, tag)
				value(m)
			})
		})
	})
}

// event writes one record: the length, its checksum, the message, its checksum.
func (e *Events) event(step int, what func(*message)) {
	if e.err != nil {
		return
	}
	e.buf = e.buf[:0]
	e.buf.float64(eventTime, float64(time.Now().UnixMicro())/1e6)
	if step != 0 {
		e.buf.integer(eventStep, uint64(step))
	}
	what(&e.buf)
	var head [12]byte
	binary.LittleEndian.PutUint64(head[:], uint64(len(e.buf)))
	binary.LittleEndian.PutUint32(head[8:], maskedCRC(head[:8]))
	e.w.Write(head[:])
	e.w.Write(e.buf)
	var tail [4]byte
	binary.LittleEndian.PutUint32(tail[:], maskedCRC(e.buf))
	if _, err := e.w.Write(tail[:]); err != nil { // a bufio.Writer repeats its first error
		e.err = fmt.Errorf("event file: %w", err)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC returns TFRecord's checksum: CRC-32C, rotated and offset, because the CRC of data that contains CRCs is
// weak.
func maskedCRC(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// Flush writes everything added so far to the file, so that TensorBoard sees it, and returns the first error.
func (e *Events) Flush() error {
	if e.err == nil {
		if err := e.w.Flush(); err != nil {
			e.err = fmt.Errorf("event file: %w", err)
		}
	}
	return e.err
}

// Sync flushes the file to the disk, so that it survives a power cut. Call it before a checkpoint of these steps is
// written.
func (e *Events) Sync() error {
	if err := e.Flush(); err != nil {
		return err
	}
	if err := e.file.Sync(); err != nil {
		e.err = fmt.Errorf("event file: %w", err)
	}
	return e.err
}

// Close flushes and closes the file.
func (e *Events) Close() error {
	err := e.Flush()
	if e := e.file.Close(); err == nil && e != nil {
		err = fmt.Errorf("event file: %w", e)
	}
	return err
}
