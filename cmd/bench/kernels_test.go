package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels/cuda"
)

// TestKernels checks the rows of a few operations, the pages made of them, and that a second run keeps what the first
// one measured.
func TestKernels(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	args := []string{"kernels", "--op", "topk,rmsnorm", "--iterations", "3", "--seconds", "0.001", "--out", dir, "--note",
		"other programs ran", "--device", "cpu"}
	code, stdout, stderr := bench(t, args...)
	if code != cli.Done || stderr != "" || !strings.Contains(stdout, "2048x2048 and add\n  standard ") {
		t.Fatalf("exit %d, %s\n%s", code, stderr, stdout)
	}
	f, err := results.Load(dir)
	expect.OK(t, err)
	table := f.Table("kernels")
	fused := 0
	for _, r := range table.Rows {
		names := []string{"time", "noise", "rate", "of_ceiling", "memory", "bytes"}
		if r["op"] == "rmsnorm" {
			names = append(names, "tflops", "max_error", "mean_error")
		}
		if r["form"] == "fused" {
			names, fused = append(names, "speedup", "speedup_noise", "saved"), fused+1
		}
		for _, name := range names {
			if !(r.Number(name) >= 0) && name != "saved" || r.Number(name) != r.Number(name) {
				t.Errorf("%s: %s %v", table.ID(r), name, r[name])
			}
		}
		ms := r.Number("time")
		if !near(r.Number("rate")*ms*1e6, r.Number("bytes")) || !near(r.Number("tflops")*ms*1e9, r.Number("flops")) ||
			!(r.Number("low") <= ms && ms <= r.Number("high")) || r["timings"] != 3.0 {
			t.Errorf("%v", r)
		}
		if e := r.Number("max_error"); e > 0.05 { // a few roundings to BF16, of elements a few times the root mean square
			t.Errorf("%s: off by %v", table.ID(r), e)
		}
	}
	if len(table.Rows) != 2+2+4+3*2 || fused != 2 || f.Machine.Note != "other programs ran" || f.Machine.CPU == "" {
		t.Errorf("%d rows, %d fused, %+v", len(table.Rows), fused, f.Machine)
	}
	cores := cli.Count(runtime.NumCPU(), "core")
	text, _ := os.ReadFile("/proc/cpuinfo") // not of every system
	if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); m != nil {
		cores = strings.TrimSpace(string(m[1])) + ", " + cores
	}
	if f.Machine.CPU != cores {
		t.Errorf("%q, want %q", f.Machine.CPU, cores)
	}
	calm(t, dir)
	for _, name := range []string{"README.md", "kernels.csv", "kernels-speedup.svg", "kernels-roofline-f32.svg",
		"kernels-roofline-bf16.svg"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(string(data), "NaN") || strings.Contains(string(data), "%!") {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
		if strings.HasSuffix(name, ".svg") {
			for d := xml.NewDecoder(bytes.NewReader(data)); err != io.EOF; {
				if _, err = d.Token(); err != nil && err != io.EOF {
					t.Fatal(name, err)
				}
			}
		}
	}
	// A row is lost, as if the run had been interrupted, and another is marked.
	lost := table.ID(table.Rows[3])
	table.Rows = slices.Delete(table.Rows, 3, 4)
	table.Rows[0]["time"] = 12345.0
	b := results.Book{File: *f, Dir: dir}
	expect.OK(t, b.Save())
	code, stdout, stderr = bench(t, args...)
	if code != cli.Done || strings.Count(stdout, " ms ±")+strings.Count(stdout, "  too noisy, ±") != 2 {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
	if f, err = results.Load(dir); err != nil || f.Table("kernels").Rows[0]["time"] != 12345.0 ||
		!slices.ContainsFunc(f.Table("kernels").Rows, func(r results.Row) bool { return table.ID(r) == lost }) {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestRelate checks that all rows of a type have the best of their ceilings.
func TestRelate(t *testing.T) {
	row := func(typ string, copied, product, ms float64) results.Row {
		return results.Row{"type": typ, "copy": copied, "product": product, "time": ms, "bytes": 2e9, "flops": 1e12}
	}
	table := &results.Table{Rows: []results.Row{row("F32", 10, 4, 1000), row("F32", 20, 2, 1000), row("BF16", 1, 8, 4000),
		{"type": "F32", "why": "none"}}}
	relate(table)
	for i, want := range []float64{0.25, 0.25, 0.5} {
		if got := table.Rows[i].Number("of_ceiling"); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("row %d: %v, want %v", i, got, want)
		}
	}
	if r := table.Rows[3]; len(r) != 2 || table.Rows[0]["copy"] != 20.0 || table.Rows[1]["product"] != 4.0 {
		t.Errorf("%v", table.Rows)
	}
}

// TestKernelsOnGPU times an operation on the emulated GPU.
func TestKernelsOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("a few seconds on the emulated GPU")
	}
	code, stdout, stderr := bench(t, "kernels", "--op", "topk", "--iterations", "1", "--seconds", "0.001", "--device",
		"emulated")
	if strings.Contains(stderr, cuda.ErrNoCompiler.Error()) {
		t.Skip(stderr)
	}
	if code != cli.Done || !strings.Contains(stdout, "  only ") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
}

func TestKernelsUsage(t *testing.T) {
	refuses(t, "kernels", cli.Usage, map[string]string{
		"--op warp": `--op "warp": must be parts of embedding, add,`, "--op topk,": `--op "": must be parts of`,
		"--iterations 0": "--iterations 0",
		"--seconds 0":    "--seconds 0", "add": "unexpected argument",
	})
}

// near reports whether two numbers that are computed in different ways are the same.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// TestLines compares what is printed and said about rows.
func TestLines(t *testing.T) {
	whole := results.Row{"sizes": "S", "op": "mul", "pass": "forward", "type": "F32", "shape": "2x3", "form": "fused",
		"model": "m", "tokens": 16.0, "fused": "all", "time": 1.5, "noise": 0.02, "rate": 30.0, "tflops": 4.0,
		"of_ceiling": 0.5, "speedup": 2.0, "speedup_noise": 0.03, "saved": 0.25}
	for _, c := range []struct {
		change               results.Row // nil removes
		kernel, layer, words string
	}{
		{nil, "  fused             1.5 ms ± 2%       30 GB/s        4 TFLOP/s   50% of the ceiling, 2 times as fast, ±3%\n",
			"      1.5 ms ±2%        4 TFLOP/s, 2 times as fast, ±3%\n",
			"fused is 2 times as fast, ±3%, with 25% less memory (1.5 ms, 4 TFLOP/s, 50% of the ceiling)."},
		{results.Row{"speedup": nil, "speedup_noise": 0.4},
			"  fused             1.5 ms ± 2%       30 GB/s        4 TFLOP/s   50% of the ceiling\n",
			"      1.5 ms ±2%        4 TFLOP/s\n", "fused is too noisy to compare, ±40%."},
		{results.Row{"noise": 0.4, "speedup": 1.02, "saved": -0.1}, "  fused       too noisy, ±40%\n", "too noisy, ±40%\n",
			"fused is as fast as the other form within ±3%, with 10% more memory (1.5 ms, 4 TFLOP/s, 50% of the ceiling)."},
		{results.Row{"speedup": 1.0, "speedup_noise": nil, "saved": -0.001},
			"  fused             1.5 ms ± 2%       30 GB/s        4 TFLOP/s   50% of the ceiling, 1 times as fast, " +
				"noise unknown\n",
			"      1.5 ms ±2%        4 TFLOP/s, 1 times as fast, noise unknown\n",
			"fused is 1 times as fast, noise unknown, with 0% less memory (1.5 ms, 4 TFLOP/s, 50% of the ceiling)."},
		{results.Row{"why": "no room"}, "  fused       no room\n", "no room\n", "no room."},
	} {
		r := maps.Clone(whole)
		for name, v := range c.change {
			if r[name] = v; v == nil {
				delete(r, name)
			}
		}
		var first, second, layer strings.Builder
		if err := errors.Join(printKernel(&first, r, 0), printKernel(&second, r, 1), printLayer(&layer, r)); err != nil {
			t.Error(err)
		}
		if first.String() != "S, mul forward F32, 2x3\n"+c.kernel || second.String() != c.kernel {
			t.Errorf("%v: %q, %q, want %q", c.change, &first, &second, c.kernel)
		}
		if got := layer.String(); !strings.HasPrefix(got, "m, F32, 16 tokens, forward, all") ||
			!strings.HasSuffix(got, c.layer) {
			t.Errorf("%v: %q, want %q", c.change, got, c.layer)
		}
		if got := inWords(r); got != "mul forward, F32, 2x3: "+c.words {
			t.Errorf("%v: %q, want %q", c.change, got, c.words)
		}
	}
}
