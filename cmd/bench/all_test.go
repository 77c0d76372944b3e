package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestAll_SharedFlags checks that all measurements get the flags that all of them share, and that a directory is
// required. The measurements themselves have tests of their own.
func TestAll_SharedFlags(t *testing.T) {
	before := map[string]func(){}
	var ran []string
	for _, name := range []string{"kernels", "layer", "infer", "train"} {
		old := commands[name]
		before[name] = func() { commands[name] = old }
		commands[name] = fake(func(args []string) int {
			ran = append(ran, name+" "+strings.Join(args, " "))
			if name == "infer" {
				return cli.Failed
			}
			return cli.Done
		})
	}
	defer func() {
		for _, restore := range before {
			restore()
		}
	}()
	dir := t.TempDir()
	code, stdout, stderr := bench(t, "all", "--out", dir, "--device", "cpu", "--note", "busy", "--threads", "1",
		"--layers",
		"llama-2-7b", "--seconds", "0.5", "--max-time", "2s")
	if code != cli.Failed || len(ran) != 6 || stderr != "" { // the fourth and the fifth failed, the sixth ran nevertheless
		t.Fatalf("exit %d, %s\n%s\n%q", code, stderr, stdout, ran)
	}
	if stdout != "bench kernels\nbench layer\nbench layer\nbench infer\nbench infer\nbench train\n" {
		t.Errorf("%q", stdout)
	}
	for i, want := range []string{
		"kernels --seconds 0.5",
		"layer --config llama-2-7b --tokens 512,1024,2048,4096 --seconds 0.5",
		"layer --config llama-3.2-1b --tokens 512 --ablation --passes training --seconds 0.5",
		"infer --config small,llama-3.2-1b --lengths 32,64,128,256,512,1024,2048,4096",
		"infer --config small,llama-3.2-1b --lengths 128 --quantize int8,int4 --fused all --moe=true",
		"train --modes standard,fused,torch-eager,torch-compile --rows 576",
	} {
		if want += " --device cpu --max-time 2s --out " + dir + " --threads 1 --note busy"; ran[i] != want {
			t.Errorf("%s\nwant %s", ran[i], want)
		}
	}
	// A GPT has no counterpart. auto is chosen once.
	ran = nil
	_, _, stderr = bench(t, "all", "--out", dir, "--answers", "small,../../data/scratch/gpt.json")
	if len(ran) != 6 || !strings.Contains(ran[4], "--moe=false") || !strings.Contains(ran[5], "--device cpu ") ||
		!strings.HasPrefix(stderr, "bench all: device auto: using the CPU: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%q\n%s", ran, stderr)
	}
	refuses(t, "all", cli.Usage, map[string]string{"": "name a directory",
		"--out x --layers nowhere": "--layers nowhere: ",
		"--out x --answers small,": "--answers : ",
		"--out x --threads -1":     "--threads -1", "--out x --seconds 0": "--seconds 0",
		"--out x --rows 0": "--rows 0", "--out x --modes torch": `--modes "torch"`, "--out x --tokens 5,a": "--tokens",
		"--out x --lengths 0": "--lengths", "--out all.go": "not a directory", "--out x --max-time 0s": "--max-time 0s"})
}

// TestStopped_SaysWhatIsMeasured checks what a stopped measurement says about what it has measured.
func TestStopped_SaysWhatIsMeasured(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct{ args, want string }{
		{"kernels --op topk", "bench kernels: stopped; nothing is kept without --out\n"},
		{"kernels --op topk --out " + t.TempDir(),
			"bench kernels: stopped; with the same --out it measures what is missing\n"},
		{"train --rows 2 --modes fused", "bench train: stopped; nothing is kept without --out\n"},
	} {
		var out, errs bytes.Buffer
		code := run(ctx, append(strings.Fields(c.args), "--device", "cpu"), &out, &errs)
		if code != cli.Failed || out.String() != "" || errs.String() != c.want {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, out.String(), errs.String())
		}
	}
	// If nothing is missing, it was not stopped.
	for _, args := range []string{"kernels --op topk --seconds 0.01 --iterations 1",
		"infer --config " + tinyModel(t) + " --lengths 1 --tokens 1 --fused all"} {
		all := append(strings.Fields(args), "--device", "cpu", "--out", t.TempDir())
		for _, ctx := range []context.Context{t.Context(), ctx} {
			var out, errs bytes.Buffer
			if code := run(ctx, all, &out, &errs); code != cli.Done || strings.Contains(errs.String(), "stopped") {
				t.Errorf("%s: exit %d, %s", args, code, &errs)
			}
		}
	}
}

// TestLock_RefusesSecondMeasurement checks that a measurement does not write where another one does, changes nothing
// there, and leaves no lock behind.
func TestLock_RefusesSecondMeasurement(t *testing.T) {
	dir := t.TempDir()
	unlock, err := (&pageOptions{out: dir}).lock()
	expect.OK(t, err)
	for _, args := range [][]string{{"kernels", "--op", "add"}, {"train", "--rows", "1"}} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append(args, "--device", "cpu", "--out", dir), &out, &errs)
		if code != cli.Failed || !strings.Contains(errs.String(), "another run is at work there (process ") ||
			!strings.Contains(errs.String(), "name another directory") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, %s%s", args[0], code, &out, &errs)
		}
	}
	unlock()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// calm writes the pages of a directory again as if nothing had disturbed its measurements, and returns its README.md.
func calm(t *testing.T, dir string) string {
	t.Helper()
	f, err := results.Load(dir)
	expect.OK(t, err)
	for _, table := range f.Tables {
		for _, r := range table.Rows {
			for _, name := range []string{"noise", "speedup_noise"} {
				if r[name] != nil {
					r[name] = 0.01
				}
			}
		}
	}
	b := results.Book{File: *f, Dir: dir}
	expect.OK(t, b.Save())
	if code, _, stderr := bench(t, "page", dir); code != cli.Done {
		t.Fatal(stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	expect.OK(t, err)
	return string(page)
}

func TestQuoted(t *testing.T) {
	if got := quoted([]string{"a", "b c", "it's", "", "-x=1"}); got != `a 'b c' 'it'\''s' '' -x=1` {
		t.Error(got)
	}
}

// TestCommittedPages_AreUpToDate checks that this program makes the committed pages, README.md and its pictures, from
// their results.
func TestCommittedPages_AreUpToDate(t *testing.T) {
	files, err := filepath.Glob("../../docs/bench/*/results.json")
	expect.OK(t, err)
	for _, file := range files {
		dir := filepath.Dir(file)
		again := t.TempDir()
		data, err := os.ReadFile(file)
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(filepath.Join(again, "results.json"), data, 0o644))
		if code, _, stderr := bench(t, "page", again); code != cli.Done {
			t.Fatal(stderr)
		}
		written, err := os.ReadDir(again)
		expect.OK(t, err)
		for _, f := range written {
			if filepath.Ext(f.Name()) == ".csv" {
				continue
			}
			want, err := os.ReadFile(filepath.Join(again, f.Name()))
			expect.OK(t, err)
			if got, err := os.ReadFile(filepath.Join(dir, f.Name())); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v: not what bench page writes: run it on %s", filepath.Join(dir, f.Name()), err, dir)
			}
		}
	}
}
