package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"restyle/data"
	"restyle/dataset"
	"restyle/internal/expect"
)

const (
	slots    = 32
	slotTime = 50 * time.Millisecond
)

// BenchmarkServer measures how much of a server's capacity a whole run uses, from the first request to the last
// answer, with the ramp-up and the last stragglers, and (steady) in its middle half: 32 slots of 50 ms are 640
// answers per second. One server queues requests, the second rejects them with 429, and the third queues and gives a
// quarter of bad answers. The run is a separate process, so that its CPU time is known.
func BenchmarkServer(b *testing.B) {
	for _, name := range []string{"queues", "429", "bad answers"} {
		for _, rows := range []int{4_000, 16_000} {
			queues := name != "429"
			b.Run(fmt.Sprintf("%s/rows=%d", name, rows), func(b *testing.B) {
				source := manyTasks(b, rows+rows/4)
				for b.Loop() {
					var first, last, rejected, done, quarter, threeQuarters atomic.Int64
					free := make(chan bool, slots)
					s := newServer(b, func(c call) bool {
						first.CompareAndSwap(0, time.Now().UnixNano())
						if queues {
							free <- true
						} else {
							select {
							case free <- true:
							default:
								rejected.Add(1)
								status(429, "slow down")(c)
								return true
							}
						}
						time.Sleep(slotTime)
						<-free
						now := time.Now().UnixNano()
						last.Store(now)
						switch int(done.Add(1)) {
						case rows / 4:
							quarter.Store(now)
						case 3 * rows / 4:
							threeQuarters.Store(now)
						}
						return false
					})
					s.set(func() { s.good = name != "bad answers" })
					f := newFolder(b)
					cmd, _, stderr := process(b, "--source", source, "--rows", strconv.Itoa(rows), "--out", f.out, "--base-url",
						s.base(), "--model", "fake")
					peak, err := runWatched(cmd)
					if err != nil {
						b.Fatalf("%v\n%s", err, stderr)
					}
					calls, _ := s.counts()
					answered := float64(calls) - float64(rejected.Load())
					took := time.Duration(last.Load()-first.Load()) + slotTime
					b.ReportMetric(100*answered*slotTime.Seconds()/(slots*took.Seconds()), "%capacity")
					steady := time.Duration(threeQuarters.Load() - quarter.Load())
					b.ReportMetric(100*float64(rows/2)*slotTime.Seconds()/(slots*steady.Seconds()), "%steady")
					b.ReportMetric(float64(rejected.Load()), "rejected")
					reportUsage(b, cmd.ProcessState.SysUsage(), peak, answered)
					s.Close()
				}
			})
		}
	}
}

// runWatched runs a process and returns its peak resident memory in MiB, or 0 if the system does not report it. The
// kernel's own number for a child that has ended includes what its parent had when it forked.
func runWatched(cmd *exec.Cmd) (peak float64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return peak, err
		case <-time.After(20 * time.Millisecond):
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			if m := highWater.FindSubmatch(status); m != nil {
				kib, _ := strconv.ParseFloat(string(m[1]), 64)
				peak = max(peak, kib/1024)
			}
		}
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// reportUsage reports what a process used for n requests or rows.
func reportUsage(b *testing.B, sys any, peak, n float64) {
	usage := sys.(*syscall.Rusage)
	b.ReportMetric(float64(usage.Utime.Nano()+usage.Stime.Nano())/1000/n, "cpu-µs/each")
	b.ReportMetric(peak, "peak-MiB")
}

// BenchmarkBuiltin measures the built-in rewriter on 18,000 rows, in a separate process.
func BenchmarkBuiltin(b *testing.B) {
	const rows = 18_000
	source := manyTasks(b, rows+rows/4)
	for b.Loop() {
		f := newFolder(b)
		cmd, stdout, stderr := process(b, "--source", source, "--rows", strconv.Itoa(rows), "--out", f.out, "--teacher",
			"builtin")
		start := time.Now()
		peak, err := runWatched(cmd)
		if err != nil {
			b.Fatalf("%v\n%s", err, stderr)
		}
		took := time.Since(start)
		var sum struct{ Rows int }
		expect.OK(b, json.Unmarshal(bytes.TrimSpace(stdout.Bytes()), &sum))
		b.ReportMetric(float64(sum.Rows)/took.Seconds(), "rows/s")
		b.ReportMetric(float64(sum.Rows), "rows")
		reportUsage(b, cmd.ProcessState.SysUsage(), peak, float64(sum.Rows))
	}
}

var defined = regexp.MustCompile(`(?m)^(?:def|class) (\w+)`)

// manyTasks writes n different tasks as JSON lines: the starter dataset, and then the same dataset again with other
// names.
func manyTasks(b *testing.B, n int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "tasks.jsonl")
	file, err := os.Create(path)
	expect.OK(b, err)
	defer file.Close()
	enc := json.NewEncoder(file)
	for written, round := 0, 0; written < n; round++ {
		src, err := dataset.OpenAll(b.Context(), []string{dataset.StarterSpec}, dataset.Options{Starter: data.Starter})
		expect.OK(b, err)
		for ; written < n; written++ {
			row, err := src.Next()
			if err == io.EOF {
				break
			}
			expect.OK(b, err)
			if round > 0 {
				row.Instruction += fmt.Sprintf(" Variation %d.", round)
				for _, m := range defined.FindAllStringSubmatch(row.Output, -1) {
					row.Output = regexp.MustCompile(`\b`+m[1]+`\b`).ReplaceAllString(row.Output, fmt.Sprintf("%s_%d", m[1], round))
				}
			}
			expect.OK(b, enc.Encode(map[string]string{"instruction": row.Instruction, "input": row.Input,
				"output": row.Output}))
		}
		src.Close()
	}
	return path
}
