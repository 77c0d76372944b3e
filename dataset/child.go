package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"
)

// A second process of the same program decodes parquet files from outside. It gets the file as its standard input and
// nothing else (no environment, so no keys). To its standard output it writes one header and then the rows:
//
//	'c' JSON of childHeader
//	'r' one value per column, and what the row has besides them, 'r' …
//	'z' at the end, or 'e' and the message of an error, or 's' and the setting and message of a SettingError
//
// A text is its length as a varint, then its bytes. If the output ends without 'z', 'e' or 's', the process died.

// childVariable holds what the child is to read, as JSON of wanted.
const childVariable = "RESTYLE_PARQUET_CHILD"

// childStall is how long the child may take to send the next row. Decoding a page takes milliseconds; only a decoder in
// an endless loop takes this long.
const childStall = 30 * time.Second

// Exit codes of the child. Its errors go through the pipe.
const (
	childDone      = 0
	childBroken    = 1
	childOutMemory = 3
)

// rowSize is about what a row takes besides its text: a page of a few bytes can be a billion empty rows.
const rowSize = 64

// childMemory returns how many bytes the child may use to decode a file of size bytes: enough for an honest large page,
// but no gigabytes for a damaged file of a few hundred bytes.
func childMemory(size int64) int64 {
	return 256<<20 + 16*min(size, 240<<20)
}

type childHeader struct {
	Columns []string `json:"columns"`
	Rows    int      `json:"rows"`
	There   []string `json:"there"`
}

// IsChild reports whether Open started this process to decode a parquet file. If so, the process must only call
// ChildMain. Every main function of a command that reads datasets checks it first, as does TestMain if its tests read
// parquet files from disk.
func IsChild() bool { return os.Getenv(childVariable) != "" }

// ChildMain decodes the parquet file on standard input for the process that started this one, and returns the exit
// code. Its output is for that process only.
func ChildMain() int {
	var w wanted
	info, err := os.Stdin.Stat()
	if err != nil || json.Unmarshal([]byte(os.Getenv(childVariable)), &w) != nil {
		return childBroken
	}
	limit := childMemory(info.Size())
	debug.SetMemoryLimit(limit * 3 / 4)
	go watch(uint64(limit), os.Getppid())
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	if err := sendRows(out, os.Stdin, info.Size(), w); err != nil {
		if setting, ok := errors.AsType[*SettingError](err); ok {
			out.WriteByte('s')
			sendText(out, setting.Name)
		} else {
			out.WriteByte('e')
		}
		sendText(out, err.Error())
	}
	if out.Flush() != nil {
		return childBroken
	}
	return childDone
}

// watch ends this process if it takes more than limit bytes of memory or its parent ends. It counts memory as soon as
// it is reserved, before it is touched.
func watch(limit uint64, parent int) {
	used := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		metrics.Read(used)
		if used[0].Value.Uint64()-used[1].Value.Uint64() > limit {
			os.Exit(childOutMemory)
		}
		if os.Getppid() != parent {
			os.Exit(childBroken)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func sendRows(out *bufio.Writer, in io.ReaderAt, size int64, w wanted) error {
	t, err := openParquet(in, size, w)
	if err != nil {
		return err
	}
	header, err := json.Marshal(childHeader{t.columns, t.rows, t.there.list})
	if err != nil {
		return err
	}
	out.WriteByte('c')
	sendText(out, string(header))
	for {
		rec, err := t.next()
		if err == io.EOF {
			return out.WriteByte('z')
		}
		if err != nil {
			return err
		}
		out.WriteByte('r')
		for _, value := range append(rec, string(t.beside)) {
			if err := sendText(out, value); err != nil {
				return err
			}
		}
	}
}

func sendText(out *bufio.Writer, s string) error {
	out.Write(binary.AppendUvarint(nil, uint64(len(s))))
	_, err := out.WriteString(s)
	return err
}

// child is the parent's side of a child process.
type child struct {
	ctx     context.Context
	cmd     *exec.Cmd
	out     *bufio.Reader
	stderr  opening
	stall   time.Duration
	stalled bool // set before the process is killed for it
	left    int64
	values  int
	ended   bool // waited for
}

// openInChild reads a parquet file in a child process. It closes f.
func openInChild(ctx context.Context, f *os.File, w wanted) (*table, error) {
	defer f.Close() // the child has its own
	if IsChild() {  // its main did not call ChildMain, and would start children forever
		return nil, errors.New("this process was started to decode a parquet file: its main must begin with " +
			"dataset.ChildMain")
	}
	cmd, err := childCommand(ctx, f, w)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	c := &child{ctx: ctx, cmd: cmd, stall: childStall, left: maxUnpacked(info.Size())}
	return c.start()
}

// childCommand returns a command that runs this program with f as its standard input.
func childCommand(ctx context.Context, f *os.File, w wanted) (*exec.Cmd, error) {
	self := "/proc/self/exe" // still this program if its file was replaced
	if runtime.GOOS != "linux" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	ask, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = []string{childVariable + "=" + string(ask)}
	cmd.Stdin = f
	return cmd, nil
}

// start starts the process and waits for its header.
func (c *child) start() (*table, error) {
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the parquet decoder: %w", err)
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	var header childHeader
	err = c.receive(func(kind byte) error {
		if kind != 'c' {
			return errors.New("no header")
		}
		text, err := c.text()
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &header)
	})
	if err != nil {
		return nil, err
	}
	c.values = len(header.Columns)
	t := &table{columns: header.Columns, rows: header.Rows, close: c.close}
	t.there.add(header.There...)
	t.next = func() (rec []string, err error) {
		if rec, err = c.next(); err == nil {
			rec, t.beside = rec[:c.values], []byte(rec[c.values])
		}
		return rec, err
	}
	return t, nil
}

func (c *child) next() (rec []string, err error) {
	end := false
	err = c.receive(func(kind byte) error {
		switch kind {
		case 'z':
			end = true
			return nil
		case 'r':
			rec = make([]string, c.values+1)
			c.left -= rowSize
			for i := range rec {
				if rec[i], err = c.text(); err != nil {
					return err
				}
				c.left -= int64(len(rec[i]))
			}
			return nil
		}
		return fmt.Errorf("message %q", kind)
	})
	if err == nil && c.left < 0 {
		err = errors.Join(fmt.Errorf("its rows are more than %d times its size, as no honest data is: if you trust it, "+
			"write it as JSON lines", maxRatio), c.close())
	}
	if err == nil && end {
		if err = c.wait(); err == nil {
			err = io.EOF
		}
	}
	return rec, err
}

// receive reads one message within the stall limit and hands it to read, unless it is an error, which receive returns.
// If no message comes, receive returns how the child ended.
func (c *child) receive(read func(kind byte) error) error {
	if c.ended {
		return errors.New("the parquet decoder has ended")
	}
	watch := time.AfterFunc(c.stall, func() { c.cmd.Process.Kill() })
	kind, err := c.out.ReadByte()
	var sent error
	switch {
	case err != nil:
	case kind == 'e' || kind == 's':
		sent, err = c.error(kind)
	default:
		err = read(kind)
	}
	c.stalled = !watch.Stop()
	if sent != nil {
		return errors.Join(sent, c.close())
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		c.close()
		return fmt.Errorf("the parquet decoder sent something wrong: %w", err)
	}
	if err := c.wait(); err != nil {
		return err
	}
	return errors.New("the parquet decoder ended without a result: does main begin with dataset.ChildMain?")
}

// error reads the error of a message 'e' or 's'.
func (c *child) error(kind byte) (sent, err error) {
	var setting, message string
	if kind == 's' {
		if setting, err = c.text(); err != nil {
			return nil, err
		}
	}
	if message, err = c.text(); err != nil {
		return nil, err
	}
	if kind == 's' {
		return &SettingError{setting, errors.New(message)}, nil
	}
	return errors.New(message), nil
}

// text reads one length and its bytes.
func (c *child) text() (string, error) {
	n, err := binary.ReadUvarint(c.out)
	if err != nil {
		return "", err
	}
	if n > maxRecord {
		return "", fmt.Errorf("a text of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.out, b); err != nil {
		return "", err
	}
	return string(b), nil
}

// wait waits for the child, which has closed its output, and returns an error if it did not end well.
func (c *child) wait() error {
	c.ended = true
	err := c.cmd.Wait()
	var exit *exec.ExitError
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case c.stalled:
		return fmt.Errorf("damaged parquet file (decoding made no progress for %v)", c.stall)
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == childOutMemory:
		return errors.New("damaged parquet file (decoding it takes far more memory than its size explains)")
	}
	first, _, _ := strings.Cut(strings.TrimSpace(c.stderr.String()), "\n")
	return fmt.Errorf("damaged parquet file (the decoder ended with %w: %.200s)", err, first)
}

// close kills the child, which may still be writing.
func (c *child) close() error {
	if c.ended {
		return nil
	}
	c.ended = true
	c.cmd.Process.Kill()
	c.cmd.Wait() // returns that it was killed
	return nil
}

// opening keeps the first 4 KiB that are written to it: a crash report starts with the reason.
type opening struct{ bytes.Buffer }

func (o *opening) Write(p []byte) (int, error) {
	o.Buffer.Write(p[:min(len(p), max(0, 4<<10-o.Len()))])
	return len(p), nil
}
