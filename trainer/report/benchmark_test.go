package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

var benchmarkRow = BenchmarkRow{
	Time: time.Date(2026, 3, 9, 14, 5, 6, 789, time.Local), Mode: "fused", Wall: 156382 * time.Millisecond,
	TotalTokens: 294912, TrainedTokens: 100000, PaddedTokens: 300000, PeakMemory: 3 << 29, TFLOPS: 12.34567,
	PeakShare: 0.41237, Joules: 1234.56, Device: "NVIDIA H200", DType: "bf16", Model: "meta-llama/Llama-3.2-1B-Instruct",
	Batch: 1, Seq: 512, Accumulate: 4, Label: "a, \"b\"\nc", Version: "v1.0.0",
}

const (
	sixColumns = "Timestamp,Mode,Wall_Time_s,Total_Tokens,Tokens_Sec,Tokens_Min"
	allColumns = sixColumns + ",Trained_Tokens,Padded_Tokens,Peak_Memory_MiB,TFLOPS,Peak_Share,Joules,Device,Dtype,Model" +
		",Batch,Seq,Accumulate,Label,Version"
	sixCells = "2026-03-09 14:05:06,fused,156.3820,294912,1885.84,113150.62"
	allCells = sixCells + `,100000,300000,1536.0,12.3457,0.4124,1234.6,NVIDIA H200,bf16` +
		`,meta-llama/Llama-3.2-1B-Instruct,1,512,4,"a, ""b"" c",v1.0.0`
)

func TestAppendBenchmark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmark_log.csv")
	for _, c := range []struct{ name, before, after string }{
		{"none", "-", allColumns + "\n" + allCells + "\n"},
		{"empty", "", allColumns + "\n" + allCells + "\n"},
		{"ours", allColumns + "\n" + allCells + "\n", allColumns + "\n" + allCells + "\n" + allCells + "\n"},
		{"the original's", sixColumns + "\n" + sixCells + "\n", sixColumns + "\n" + sixCells + "\n" + sixCells + "\n"},
		{"no line end", sixColumns + "\n" + sixCells, sixColumns + "\n" + sixCells + "\n" + sixCells + "\n"},
		{"only a header", sixColumns, sixColumns + "\n" + sixCells + "\n"},
		{"from elsewhere", "\ufeff" + sixColumns + "\r\n", "\ufeff" + sixColumns + "\r\n" + sixCells + "\n"},
		{"another order", "Label,Mode,Timestamp,Wall_Time_s,Total_Tokens,Tokens_Min,Tokens_Sec\n",
			"Label,Mode,Timestamp,Wall_Time_s,Total_Tokens,Tokens_Min,Tokens_Sec\n\"a, \"\"b\"\" c\",fused,2026-03-09 " +
				"14:05:06,156.3820,294912,113150.62,1885.84\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.Remove(path)
			if c.before != "-" {
				writeFile(t, path, c.before)
			}
			if err := CheckBenchmark(path); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(path); c.before == "-" && err == nil {
				t.Error("the check has made a file")
			}
			expect.OK(t, AppendBenchmark(path, benchmarkRow))
			if got := expect.Read(t, path); got != c.after {
				t.Errorf("got\n%s\nwant\n%s", got, c.after)
			}
		})
	}
}

// TestBenchmarkUnmeasured checks that a row without measurements has the same number of cells, and that the
// measurements' cells are empty.
func TestBenchmarkUnmeasured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmark_log.csv")
	for _, r := range []BenchmarkRow{
		{Time: benchmarkRow.Time, Mode: "standard"},
		{Time: benchmarkRow.Time, Mode: "standard", TotalTokens: 5, TFLOPS: math.NaN(), PeakShare: math.Inf(1)},
	} {
		expect.OK(t, AppendBenchmark(path, r))
	}
	// ReadAll checks that the rows are as long as the header.
	rows, err := csv.NewReader(strings.NewReader(expect.Read(t, path))).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "Timestamp" {
		t.Fatal(rows, err)
	}
	if strings.Join(rows[1], ",") != "2026-03-09 14:05:06,standard"+strings.Repeat(",", 18) {
		t.Error(rows[1])
	}
	if strings.Join(rows[2], ",") != "2026-03-09 14:05:06,standard,,5"+strings.Repeat(",", 16) {
		t.Error(rows[2])
	}
}

// TestBenchmarkRefuses checks that files that are no benchmark log stay as they are.
func TestBenchmarkRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "benchmark_log.csv")
	for _, c := range []struct{ text, want string }{
		{"a,b\n1,2\n", `"a"`},
		{sixColumns + ",Colour\n", `"Colour"`},
		{sixColumns + ",Mode\n", `"Mode"`},
		{"Timestamp,Mode\n", "lacks the column Wall_Time_s"},
		{strings.TrimSuffix(sixColumns, ",Tokens_Min") + "\n", "lacks the column Tokens_Min"},
		{"\n\n", "not a header"},
		{"\"\n", "not a header"},
		{strings.Repeat("x", 1<<20), "which is unknown"},
		{"\x00\xff\n", "which is unknown"},
	} {
		writeFile(t, path, c.text)
		for _, err := range []error{CheckBenchmark(path), AppendBenchmark(path, benchmarkRow)} {
			expect.Error(t, err, path, c.want, "choose another")
			if err != nil && len(err.Error()) > 500 {
				t.Error("a very long error")
			}
		}
		if expect.Read(t, path) != c.text {
			t.Error("the file was changed")
		}
	}
	for _, bad := range []string{dir, filepath.Join(path, "b.csv"), filepath.Join(dir, "none", "b.csv")} {
		expect.Error(t, CheckBenchmark(bad), bad, "choose another")
		expect.Error(t, AppendBenchmark(bad, benchmarkRow), bad, "choose another")
	}
	pipe := filepath.Join(dir, "pipe")
	expect.OK(t, syscall.Mkfifo(pipe, 0o666))
	expect.Error(t, AppendBenchmark(pipe, benchmarkRow), "not a regular file", "choose another file")
}

// TestBenchmarkAtOnce has many concurrent writers of a new file and checks for one header and only complete rows.
func TestBenchmarkAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmark_log.csv")
	const writers, rows = 8, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := benchmarkRow
			for i := range rows {
				r.Label = fmt.Sprintf("%d/%d", w, i)
				if err := AppendBenchmark(path, r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := csv.NewReader(strings.NewReader(expect.Read(t, path))).ReadAll()
	if err != nil || len(all) != 1+writers*rows || all[0][18] != "Label" {
		t.Fatal(len(all), err)
	}
	seen := map[string]bool{}
	for _, row := range all[1:] {
		seen[row[18]] = true
	}
	if len(seen) != writers*rows {
		t.Errorf("%d labels, want %d", len(seen), writers*rows)
	}
}

func FuzzBenchmarkHeader(f *testing.F) {
	f.Add([]byte(sixColumns + "\n" + sixCells + "\n"))
	f.Add([]byte(allColumns))
	f.Add([]byte("\ufeffa,\"b\nc\"\n"))
	f.Add([]byte(""))
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		columns, err := hostile.Parse(t, head, parseHeader)
		if err != nil {
			if len(err.Error()) > 500 {
				t.Error("a very long error")
			}
			return
		}
		if len(columns) < originalColumns {
			t.Errorf("%q has only %d columns", head, len(columns))
		}
		line, _, _ := bytes.Cut(head, []byte("\n"))
		for _, i := range columns {
			if len(head) > 0 && !bytes.Contains(line, []byte(benchmarkColumns[i].name)) {
				t.Errorf("%q does not name %s", line, benchmarkColumns[i].name)
			}
		}
	})
}
