package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"restyle/internal/cli"
	"restyle/internal/disk"
)

// BenchmarkRow is one measurement for benchmark_log.csv. A value that is 0 or not finite was not measured, and its cell
// stays empty.
type BenchmarkRow struct {
	Time          time.Time     // the end of the measurement; written as local time, in seconds
	Mode          string        // standard, fused, torch-eager or torch-compile
	Wall          time.Duration // of the measured steps
	TotalTokens   int64         // real tokens, without padding; the rates follow from them and Wall
	TrainedTokens int64         // target tokens
	PaddedTokens  int64         // including padding
	PeakMemory    int64         // bytes
	TFLOPS        float64       // 10^12 floating-point operations per second that the model needs
	PeakShare     float64       // of the device's peak, from 0 to 1; only bench step measures that
	Joules        float64       // of the device over Wall
	Device        string        // such as "NVIDIA H200"
	DType         string        // such as "bf16"
	Model         string        // path or hub id
	Batch         int           // examples per micro-batch
	Seq           int           // maximum tokens per example
	Accumulate    int           // micro-batches per step
	Label         string        // the user's own
	Version       string        // of restyle
}

// benchmarkColumns are the columns of a new file. The first six are the original project's, in its formats.
var benchmarkColumns = []struct {
	name string
	cell func(r BenchmarkRow) string
}{
	{"Timestamp", func(r BenchmarkRow) string { return r.Time.Local().Format(time.DateTime) }},
	{"Mode", func(r BenchmarkRow) string { return r.Mode }},
	{"Wall_Time_s", func(r BenchmarkRow) string { return decimals(4, r.Wall.Seconds()) }},
	{"Total_Tokens", func(r BenchmarkRow) string { return count(r.TotalTokens) }},
	{"Tokens_Sec", func(r BenchmarkRow) string { return decimals(2, float64(r.TotalTokens)/r.Wall.Seconds()) }},
	{"Tokens_Min", func(r BenchmarkRow) string { return decimals(2, float64(r.TotalTokens)/r.Wall.Minutes()) }},
	{"Trained_Tokens", func(r BenchmarkRow) string { return count(r.TrainedTokens) }},
	{"Padded_Tokens", func(r BenchmarkRow) string { return count(r.PaddedTokens) }},
	{"Peak_Memory_MiB", func(r BenchmarkRow) string { return decimals(1, float64(r.PeakMemory)/(1<<20)) }},
	{"TFLOPS", func(r BenchmarkRow) string { return decimals(4, r.TFLOPS) }},
	{"Peak_Share", func(r BenchmarkRow) string { return decimals(4, r.PeakShare) }},
	{"Joules", func(r BenchmarkRow) string { return decimals(1, r.Joules) }},
	{"Device", func(r BenchmarkRow) string { return r.Device }},
	{"Dtype", func(r BenchmarkRow) string { return r.DType }},
	{"Model", func(r BenchmarkRow) string { return r.Model }},
	{"Batch", func(r BenchmarkRow) string { return count(int64(r.Batch)) }},
	{"Seq", func(r BenchmarkRow) string { return count(int64(r.Seq)) }},
	{"Accumulate", func(r BenchmarkRow) string { return count(int64(r.Accumulate)) }},
	{"Label", func(r BenchmarkRow) string { return r.Label }},
	{"Version", func(r BenchmarkRow) string { return r.Version }},
}

// originalColumns is the number of columns in the original project's file.
const originalColumns = 6

func decimals(n int, v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', n, 64)
}

func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// AppendBenchmark appends a row to a CSV file with one write, under a lock, so that runs that end at the same time do
// not mix their rows. A new or empty file gets the header first. A row of an existing file has the columns of its
// header, in their order, so a file of the original project, with its six columns, gets those six. If the header has
// other columns than these, or lacks one of the original six, AppendBenchmark returns an error and does not touch the
// file. A text that a spreadsheet would take for a formula gets a leading apostrophe.
func AppendBenchmark(path string, r BenchmarkRow) error {
	f, err := openBenchmark(path)
	if err != nil {
		return err
	}
	defer f.Close() // also releases the lock
	columns, size, err := benchmarkHeader(f)
	if err != nil {
		return fmt.Errorf("benchmark log %s: %w", path, err)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if size == 0 {
		header := make([]string, len(benchmarkColumns))
		for i, c := range benchmarkColumns {
			header[i] = c.name
		}
		w.Write(header) // it writes into memory and cannot fail, nor can the next ones
	} else {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return fmt.Errorf("benchmark log: %w", err)
		}
		if last[0] != '\n' { // an editor left it out, or a row is incomplete
			b.WriteByte('\n')
		}
	}
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = cli.Cell(benchmarkColumns[c].cell(r))
	}
	w.Write(row)
	w.Flush()
	if _, err = f.Seek(size, io.SeekStart); err == nil {
		_, err = f.Write(b.Bytes())
	}
	if err != nil {
		f.Truncate(size) // half a row would damage the next
		return fmt.Errorf("benchmark log: %w", err)
	}
	return nil
}

// CheckBenchmark returns an error if AppendBenchmark could not write the file or create it, so that a run fails before
// it starts and not at its end. It creates nothing.
func CheckBenchmark(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := cmp.Or(disk.TrustDir(path), unix.Access(filepath.Dir(path), unix.W_OK)); err != nil {
			return fmt.Errorf("benchmark log %s: no file can be created there: %w: choose another file", path, err)
		}
		return nil
	}
	f, err := openBenchmark(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, err := benchmarkHeader(f); err != nil {
		return fmt.Errorf("benchmark log %s: %w", path, err)
	}
	return nil
}

// lockPatience is how long AppendBenchmark waits for other processes that write the file. Each of them takes only an
// instant.
const lockPatience = 10 * time.Second

// openBenchmark opens and locks the file. On a file system without locks, a row is still one write.
func openBenchmark(path string) (*disk.File, error) {
	late := fmt.Errorf("it was locked for %v", lockPatience)
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockPatience, late)
	defer cancel()
	path, err := disk.Follow(path)
	var f *disk.File
	if err == nil {
		f, err = disk.LockWait(ctx, path)
	}
	if err != nil {
		return nil, fmt.Errorf("benchmark log: %w: choose another file", err)
	}
	return f, nil
}

// maxHeader is the maximum length of the first line of a benchmark log, in bytes.
const maxHeader = 64 << 10

// benchmarkHeader returns the columns of a file, as indices of benchmarkColumns, and its size.
func benchmarkHeader(f *disk.File) (columns []int, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	head := make([]byte, min(info.Size(), maxHeader))
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, 0, err
	}
	columns, err = parseHeader(head)
	return columns, info.Size(), err
}

// parseHeader returns the columns that the beginning of a file names, or all columns if it is empty.
func parseHeader(head []byte) (columns []int, err error) {
	names := make([]string, len(benchmarkColumns))
	for i, c := range benchmarkColumns {
		names[i] = c.name
		columns = append(columns, i)
	}
	if len(head) == 0 {
		return columns, nil
	}
	const advice = "move the file away, or choose another"
	line, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("\ufeff")), []byte("\n"))
	if n := bytes.Count(line, []byte(",")); n > 1000 {
		return nil, fmt.Errorf("its first line has %d commas, and is no header: %s", n, advice)
	}
	header, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return nil, fmt.Errorf("its first line is not a header of comma-separated columns: %s", advice)
	}
	columns = columns[:0]
	for _, name := range header {
		i := slices.Index(names, strings.TrimSpace(name))
		if i < 0 || slices.Contains(columns, i) {
			return nil, fmt.Errorf("its header has a column %.60q, which is unknown or occurs twice: %s", name, advice)
		}
		columns = append(columns, i)
	}
	for i, name := range names[:originalColumns] {
		if !slices.Contains(columns, i) {
			return nil, fmt.Errorf("its header lacks the column %s: %s", name, advice)
		}
	}
	return columns, nil
}
