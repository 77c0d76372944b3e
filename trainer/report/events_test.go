package report

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
)

// records splits a TFRecord file into records and verifies every checksum.
func records(t *testing.T, data []byte) (found [][]byte) {
	t.Helper()
	for len(data) > 0 {
		if len(data) < 16 {
			t.Fatalf("%d bytes are left over", len(data))
		}
		n := binary.LittleEndian.Uint64(data)
		if n > uint64(len(data)-16) {
			t.Fatalf("a record of %d bytes where %d are left", n, len(data)-16)
		}
		if binary.LittleEndian.Uint32(data[8:]) != maskedCRC(data[:8]) ||
			binary.LittleEndian.Uint32(data[12+n:]) != maskedCRC(data[12:12+n]) {
			t.Fatal("a checksum is wrong")
		}
		found = append(found, data[12:12+n])
		data = data[16+n:]
	}
	return found
}

// field is a field of a message as encoded.
type field struct {
	number int
	value  uint64 // varint, fixed32, fixed64
	data   []byte // length-delimited
}

// fields decodes the fields of a message.
func fields(t *testing.T, m []byte) (all []field) {
	t.Helper()
	varint := func() uint64 {
		v, n := binary.Uvarint(m)
		if n <= 0 {
			t.Fatal("a varint is cut")
		}
		m = m[n:]
		return v
	}
	for len(m) > 0 {
		key := varint()
		f := field{number: int(key >> 3)}
		switch protowire.Type(key & 7) {
		case protowire.VarintType:
			f.value = varint()
		case protowire.Fixed64Type:
			f.value = binary.LittleEndian.Uint64(m)
			m = m[8:]
		case protowire.Fixed32Type:
			f.value = uint64(binary.LittleEndian.Uint32(m))
			m = m[4:]
		case protowire.BytesType:
			n := varint()
			f.data = m[:n]
			m = m[n:]
		default:
			t.Fatal("wire type", key&7)
		}
		all = append(all, f)
	}
	return all
}

func get(t *testing.T, m []byte, path ...int) field {
	t.Helper()
	var f field
	for _, number := range path {
		i := slices.IndexFunc(fields(t, m), func(f field) bool { return f.number == number })
		if i < 0 {
			return field{}
		}
		f = fields(t, m)[i]
		m = f.data
	}
	return f
}

// eventFile returns the one event file of a directory.
func eventFile(t *testing.T, dir string) []byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, eventPrefix+"*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return []byte(expect.Read(t, found[0]))
}

func TestEventsRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run")
	before := time.Now()
	e, err := Create(dir, 0)
	expect.OK(t, err)
	if got := records(t, eventFile(t, dir)); len(got) != 2 {
		t.Error("the file does not begin at once:", got)
	}
	type point struct {
		step  int
		tag   string
		value float32
		text  string
	}
	want := []point{
		{0, TagEvalLoss, 2.5, ""},
		{1, TagLoss, 2.25, ""},
		{1, TagLearningRate, 2e-5, ""},
		{2, TagGradNorm, float32(math.NaN()), ""},
		{50, TagTone, 3, ""},
		{50, TagResponse, 0, "Oh joy. " + strings.Repeat("größe\n", 30000)}, // larger than the buffer
		{1 << 40, TagSpeed, -1e30, ""},
		{3, "", 0, ""},
	}
	for _, p := range want {
		if p.text != "" {
			e.Text(p.step, p.tag, p.text)
		} else {
			e.Scalar(p.step, p.tag, float64(p.value))
		}
	}
	expect.OK(t, e.Close())
	all := records(t, eventFile(t, dir))
	if got := get(t, all[0], eventFileVersion); string(got.data) != "brain.Event:2" {
		t.Errorf("version %q", got.data)
	}
	var got []point
	last := float64(before.UnixMicro()) / 1e6
	for _, r := range all[2:] { // after the version and the start event
		at := math.Float64frombits(get(t, r, eventTime).value)
		if at < last || at > float64(time.Now().UnixMicro())/1e6 {
			t.Errorf("time %f", at)
		}
		last = at
		v := get(t, r, eventSummary, summaryValue).data
		p := point{int(get(t, r, eventStep).value), string(get(t, v, valueTag).data),
			math.Float32frombits(uint32(get(t, v, valueSimple).value)), string(get(t, v, valueTensor, tensorString).data)}
		got = append(got, p)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(point{}), cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
}

// TestEventBytes compares events byte for byte with those that TensorBoard's own classes made
// (testdata/make_events.py).
func TestEventBytes(t *testing.T) {
	dir := t.TempDir()
	e, err := Create(dir, 300)
	expect.OK(t, err)
	e.Scalar(0, TagLoss, 2.25)
	e.Scalar(1, TagLoss, math.Float64frombits(0x7ff8000000000000))
	e.Scalar(1<<40, "x", 0)
	e.Text(128, TagResponse, "Oh joy.\n\n```python\nprint('größe')\n```\n"+strings.Repeat("x", 200))
	e.Text(129, TagResponse, "")
	expect.OK(t, e.Close())
	got := records(t, eventFile(t, dir))
	want := records(t, []byte(expect.Read(t, "testdata/events.bin")))
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i, m := range got {
		binary.LittleEndian.PutUint64(m[1:], math.Float64bits(1.5)) // the time, which comes first, as in the recording
		if !bytes.Equal(m, want[i]) {
			t.Errorf("event %d:\n%q\nwant\n%q", i, m, want[i])
		}
	}
}

// TestEventNames starts runs within the same second and under a clock that was ahead, and checks that the later file
// sorts after the earlier.
func TestEventNames(t *testing.T) {
	dir := t.TempDir()
	ahead := time.Now().Unix() + 1000
	for _, name := range []string{"notes.txt", eventPrefix + "x", eventPrefix + "9223372036854775807.h.1.0",
		fmt.Sprintf("%s%d.h.1.0", eventPrefix, ahead)} {
		writeFile(t, filepath.Join(dir, name), "")
	}
	for range 3 {
		e, err := Create(dir, 0)
		expect.OK(t, err)
		e.Close()
	}
	found, err := filepath.Glob(filepath.Join(dir, eventPrefix+"1*"))
	if err != nil || len(found) != 4 {
		t.Fatal(found, err)
	}
	for i, path := range found {
		if !strings.HasPrefix(filepath.Base(path), fmt.Sprintf("%s%d.", eventPrefix, ahead+int64(i))) {
			t.Error(path)
		}
	}
}

// TestTensorBoard has the real TensorBoard read a run that was killed in the middle of a record and resumed. It needs a
// Python with TensorBoard (docs/check/read_events.py says how) in RESTYLE_TENSORBOARD.
func TestTensorBoard(t *testing.T) {
	python := os.Getenv("RESTYLE_TENSORBOARD")
	if python == "" {
		t.Skip("RESTYLE_TENSORBOARD names no Python with TensorBoard")
	}
	dir := t.TempDir()
	write := func(from, to, resume int) {
		e, err := Create(dir, resume)
		expect.OK(t, err)
		for step := from; step <= to; step++ {
			for i, tag := range []string{TagLoss, TagLearningRate, TagGradNorm, TagEvalLoss, TagSpeed, TagTone} {
				e.Scalar(step, tag, float64(step*10+i))
			}
			if step%4 == 0 {
				e.Text(step, TagResponse, fmt.Sprintf("**Oh joy**, step %d.", step))
			}
		}
		expect.OK(t, e.Close())
	}
	write(0, 0, 0) // killed before it had a checkpoint
	write(0, 7, 0)
	torn, _ := filepath.Glob(filepath.Join(dir, "*"))
	data := expect.Read(t, torn[1])
	writeFile(t, torn[1], data[:len(data)-9])
	write(4, 9, 4) // from the checkpoint of step 3

	cmd := exec.Command(python, "../../docs/check/read_events.py", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	expect.OK(t, err)
	var seen map[string]struct {
		Scalars map[string][][2]float64
		Texts   map[string][][2]any
	}
	expect.OK(t, json.Unmarshal(out, &seen))
	for _, reader := range []string{"library", "server"} {
		for i, tag := range []string{TagLoss, TagLearningRate, TagGradNorm, TagEvalLoss, TagSpeed, TagTone} {
			var want [][2]float64
			for step := range 10 {
				want = append(want, [2]float64{float64(step), float64(step*10 + i)})
			}
			if diff := cmp.Diff(want, seen[reader].Scalars[tag]); diff != "" {
				t.Error(reader, tag, diff)
			}
		}
		var steps []any
		for _, text := range seen[reader].Texts[TagResponse] {
			steps = append(steps, text[0])
			if !strings.Contains(fmt.Sprint(text[1]), "Oh joy") {
				t.Error(reader, text)
			}
		}
		want := []any{0.0, 4.0, 8.0}
		if reader == "library" {
			want = []any{0.0, 0.0, 4.0, 4.0, 8.0} // its START drops scalars, images and histograms, but not texts
		}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Error(reader, diff)
		}
	}
}
