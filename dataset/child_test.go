package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// If one of these environment variables is set, the test binary does something other than testing.
const (
	misbehave = "DATASET_TEST_MISBEHAVE"
	mutate    = "DATASET_TEST_MUTATE"
)

// withFooter changes a file's footer.
func withFooter(t *testing.T, file []byte, change func(*format.FileMetaData)) []byte {
	t.Helper()
	n := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	start := len(file) - 8 - n
	var meta format.FileMetaData
	expect.OK(t, thrift.Unmarshal(new(thrift.CompactProtocol), file[start:len(file)-8], &meta))
	change(&meta)
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	expect.OK(t, err)
	out := append(bytes.Clone(file[:start]), footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, "PAR1"...)
}

// badChild runs a decoder that misbehaves in the way that how names.
func badChild(how string) int {
	out := bufio.NewWriter(os.Stdout)
	header := func() {
		out.WriteByte('c')
		sendText(out, `{"columns":["a","","b"],"rows":3}`)
		out.WriteByte('r')
		for range 4 { // the columns, and what is there besides them
			sendText(out, "x")
		}
		out.Flush()
	}
	switch how {
	case "silent":
	case "crash":
		panic("boom")
	case "crash later":
		header()
		panic("boom")
	case "end early":
		header()
	case "end in a row":
		header()
		out.WriteString("r\x05ab")
	case "huge text":
		header()
		out.WriteString("r\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
	case "varint overflow":
		header()
		out.WriteString("r" + strings.Repeat("\xff", 20))
	case "nonsense":
		out.WriteString("hello\n")
	case "nonsense later":
		header()
		out.WriteString("hello\n")
	case "bad header":
		out.WriteByte('c')
		sendText(out, "{")
	case "error":
		header()
		out.WriteByte('e')
		sendText(out, "row 1: bad")
	case "stall":
		time.Sleep(time.Hour)
	case "stall later":
		header()
		time.Sleep(time.Hour)
	case "spin":
		for n := 0; ; n++ {
			runtime.KeepAlive(n)
		}
	case "memory":
		go watch(uint64(childMemory(1000)), os.Getppid())
		var keep [][]byte
		for {
			keep = append(keep, make([]byte, 64<<20))
			runtime.KeepAlive(keep)
			time.Sleep(10 * time.Millisecond) // reserved, never touched
		}
	case "environment":
		out.WriteByte('e')
		sendText(out, fmt.Sprintf("%q", os.Environ()))
	}
	out.Flush()
	return 0
}

func TestChildThatMisbehaves(t *testing.T) {
	for _, c := range []struct {
		how, words string
		rows       int // delivered before the error
	}{
		{"silent", "ended without a result", 0},
		{"crash", "boom", 0},
		{"crash later", "boom", 1},
		{"end early", "ended without a result", 1},
		{"end in a row", "ended without a result", 1},
		{"huge text", "a text of", 1},
		{"varint overflow", "overflow", 1},
		{"nonsense", "sent something wrong: no header", 0},
		{"nonsense later", "sent something wrong: message 'h'", 1},
		{"bad header", "sent something wrong", 0},
		{"error", "row 1: bad", 1},
		{"stall", "no progress for 300ms", 0},
		{"stall later", "no progress for 300ms", 1},
		{"spin", "no progress for 300ms", 0},
		{"memory", "far more memory", 0},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			const short = 300 * time.Millisecond
			cmd := exec.Command(os.Args[0])
			cmd.Env = []string{childVariable + "={}", misbehave + "=" + c.how}
			// On a busy machine it starts slowly.
			child := &child{ctx: context.Background(), cmd: cmd, stall: time.Minute, left: 1 << 30}
			if c.how == "stall" || c.how == "spin" {
				child.stall = short // nothing comes at all
			}
			table, err := child.start()
			if c.how == "stall later" {
				child.stall = short
			}
			rows := 0
			for err == nil {
				if _, err = table.next(); err == nil {
					rows++
				}
			}
			if rows != c.rows {
				t.Errorf("%d rows, want %d", rows, c.rows)
			}
			expect.Error(t, err, c.words)
			if cmd.ProcessState == nil {
				t.Error("the process was not collected")
			}
			if table != nil {
				if _, again := table.next(); again == nil || again == io.EOF {
					t.Errorf("after the error came %v", again)
				}
			}
		})
	}
}

// TestChildGetsNothing checks that the decoder of a hostile file cannot see the environment, so it cannot leak it.
func TestChildGetsNothing(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "canary-of-a-key")
	f, err := os.Open("testdata/codec_zstd.parquet")
	expect.OK(t, err)
	cmd, err := childCommand(context.Background(), f, wanted{})
	expect.OK(t, err)
	cmd.Env = append(cmd.Env, misbehave+"=environment")
	_, err = (&child{ctx: context.Background(), cmd: cmd, stall: time.Minute, left: 1 << 30}).start()
	expect.Error(t, err, childVariable)
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("the child sees %v", err)
	}
}

func TestChildDoesNotStartChildren(t *testing.T) {
	t.Setenv(childVariable, "{}")
	_, err := Open(context.Background(), "testdata/codec_zstd.parquet", Options{})
	expect.Error(t, err, "must begin with dataset.ChildMain")
}

func TestClosingEarlyEndsTheChild(t *testing.T) {
	f, err := os.Open("testdata/codec_none.parquet")
	expect.OK(t, err)
	cmd, err := childCommand(context.Background(), f, wanted{})
	expect.OK(t, err)
	table, err := (&child{ctx: context.Background(), cmd: cmd, stall: time.Minute, left: 1 << 30}).start()
	expect.OK(t, err)
	if err := table.close(); err != nil || cmd.ProcessState == nil {
		t.Errorf("%v, %v", err, cmd.ProcessState)
	}
}

// TestMemoryBombs reads files that claim far more memory than they have bytes. The parquet library by itself would
// allocate it.
func TestMemoryBombs(t *testing.T) {
	good := []byte(expect.Read(t, "testdata/codec_zstd.parquet"))
	for _, c := range []struct {
		name string
		file []byte
	}{
		{"page of 2^31-1 bytes", withPageHeader(t, good, func(h *format.PageHeader) { h.UncompressedPageSize = 1<<31 - 1 })},
		{"compressed page of 2^31-1 bytes", withPageHeader(t, good,
			func(h *format.PageHeader) { h.CompressedPageSize = 1<<31 - 1 })},
		{"dictionary of 2^31-1 values", withPageHeader(t, good, func(h *format.PageHeader) {
			if h.DictionaryPageHeader.Valid {
				h.DictionaryPageHeader.V.NumValues = 1<<31 - 1
			} else {
				h.DataPageHeader.V.NumValues = 1<<31 - 1
			}
		})},
		{"a schema of 2^31-1 columns", withFooter(t, good,
			func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = 1<<31 - 1 })},
	} {
		rows, _, err := all(expect.File(t, "x.parquet", string(c.file)), Options{})
		t.Logf("%s: %d rows, %v", c.name, len(rows), err)
		if err == nil && cmp.Diff(sampleRows(), rows) != "" {
			t.Errorf("%s: accepted", c.name)
		}
	}
}

// withPageHeader changes the first page header of the column instruction, and moves the offsets after it.
func withPageHeader(t *testing.T, file []byte, change func(*format.PageHeader)) []byte {
	t.Helper()
	var moved int64
	var out []byte
	changed := withFooter(t, file, func(m *format.FileMetaData) {
		c := &m.RowGroups[0].Columns[0].MetaData
		at := c.DataPageOffset
		if c.DictionaryPageOffset > 0 {
			at = c.DictionaryPageOffset
		}
		protocol := new(thrift.CompactProtocol)
		r := bytes.NewReader(file[at:])
		buffered := bufio.NewReader(r)
		var h format.PageHeader
		expect.OK(t, thrift.NewDecoder(protocol.NewReader(buffered)).Decode(&h))
		old := int64(len(file)) - at - int64(r.Len()) - int64(buffered.Buffered())
		change(&h)
		header, err := thrift.Marshal(protocol, &h)
		expect.OK(t, err)
		moved = int64(len(header)) - old
		out = append(append(bytes.Clone(file[:at]), header...), file[at+old:]...)
		c.TotalCompressedSize += moved
		for i := range m.RowGroups[0].Columns {
			c := &m.RowGroups[0].Columns[i].MetaData
			for _, offset := range []*int64{&c.DataPageOffset, &c.DictionaryPageOffset} {
				if *offset > at {
					*offset += moved
				}
			}
		}
	})
	footer := int(binary.LittleEndian.Uint32(changed[len(changed)-8:])) + 8
	oldFooter := int(binary.LittleEndian.Uint32(file[len(file)-8:])) + 8
	return append(out[:len(out)-oldFooter], changed[len(changed)-footer:]...)
}
